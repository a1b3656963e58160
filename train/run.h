/* A training run: epochs of steps, an evaluation after each, and what becomes of it. */
#ifndef FF_TRAIN_RUN_H
#define FF_TRAIN_RUN_H

#include "train/report.h"
#include "train/trainer.h"

/* Trains to the end of the run; the trainer is used up by it. Reports every epoch, and the end also
 * where it is not reached. FF_FAILED where the loss is no number (step, epoch and learning rate are
 * named), FF_INTERRUPTED after a signal, at the next step's boundary, with what was reached; the
 * loader's errors. */
FF_MUST_USE ff_status ff_run(ff_trainer *trainer, ff_report *report, ff_error *error);

/* Samples a second of steps alone, on one batch again and again, for about budget_ns, after one
 * that is not counted. Nothing is learned: the learning rate is 0. Uses up a batch. */
FF_MUST_USE ff_status ff_run_compute_rate(ff_trainer *trainer, uint64_t budget_ns, double *rate,
                                          ff_error *error);

#endif
