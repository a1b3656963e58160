/* A training run: epochs of steps, with evaluations and reports. */
#ifndef FF_TRAIN_RUN_H
#define FF_TRAIN_RUN_H

#include "train/report.h"
#include "train/trainer.h"

/* Trains to the end of the run; the trainer cannot be used afterwards. Reports every epoch, and the
 * end, also of a run that fails. FF_FAILED where the loss is NaN or infinite (naming step, epoch
 * and learning rate), FF_INTERRUPTED after a signal, at the end of a step, with the results so far;
 * the loader's errors. */
FF_MUST_USE ff_status ff_run(ff_trainer *trainer, ff_report *report, ff_error *error);

/* Samples per second of steps alone, all on one batch, for about budget_ns, after one uncounted
 * step. The learning rate is 0, so values do not change. Consumes a batch. */
FF_MUST_USE ff_status ff_run_compute_rate(ff_trainer *trainer, uint64_t budget_ns, double *rate,
                                          ff_error *error);

#endif
