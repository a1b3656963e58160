/* The time of a step, measured before a run is made: for choices that depend on speed. */
#ifndef FF_TRAIN_STEP_TIME_H
#define FF_TRAIN_STEP_TIME_H

#include "train/trainer/trainer.h"

/* Takes some steps of one micro-batch of `batch` samples, as if this rank were alone on its device;
 * the ranks of a job begin at the same time. The net begins with the weights of --weights, which
 * may decide its stem; a run that resumes has random weights, and the stem of its recipe. What the
 * model learns is dropped. *ns: the median of a step; *samples: its samples, fewer than `batch` if
 * the set is smaller. Every rank calls it. */
FF_MUST_USE ff_status ff_step_time(const ff_trainer_options *options, int64_t batch, double *ns,
                                   int64_t *samples, ff_error *error);

#endif
