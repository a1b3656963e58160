/* The evaluation that follows an epoch of a run, and whether it is the best so far. Private to
 * train/run. Thread rule: the run's thread. */
#ifndef FF_TRAIN_EPOCH_EVALUATION_H
#define FF_TRAIN_EPOCH_EVALUATION_H

#include "train/run/run.h"

/* Whether the epoch, counted from 1, is followed by an evaluation. */
bool ff_evaluates_after(const ff_trainer *trainer, uint32_t epoch);

/* Evaluates the parameters and, if there is one, their average; fills the line's results and the
 * state's totals. *best: no earlier evaluation was as good, by best_by. FF_INTERRUPTED names the
 * signal in the error. Collective over the job's ranks. */
FF_MUST_USE ff_status ff_evaluate_epoch(ff_trainer *trainer, ff_run_state *state,
                                        ff_best_by best_by, ff_report *report, ff_epoch *line,
                                        bool *best, ff_error *error);

#endif
