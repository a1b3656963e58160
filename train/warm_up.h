/* What a GPU does for the first time takes seconds: kernels and libraries are loaded, memory gets
 * its pages, steps are recorded. A run does it before its clock starts, as benchmarks do
 * (K. Jordan's airbench trains once before it is timed). */
#ifndef FF_TRAIN_WARM_UP_H
#define FF_TRAIN_WARM_UP_H

#include "train/trainer.h"

/* Two steps with each training plan (one called, one recorded, where steps are) and one batch of
 * the evaluation, on the run's first batches. Then parameters, the optimizer's state, running
 * statistics, control and batches are as they were: the run's results are the same bits. Before the
 * first step; needs the parameters' size of the host's memory. The errors of steps and batches.
 * Nothing is done on the CPU, which has nothing to load. */
FF_MUST_USE ff_status ff_warm_up(ff_trainer *trainer, ff_error *error);

#endif
