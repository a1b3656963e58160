/* The first steps on a GPU take seconds: kernels and libraries are loaded, memory is mapped, graphs
 * are captured. A run does this before its clock starts, as benchmarks do (K. Jordan's airbench
 * trains once before it is timed). */
#ifndef FF_TRAIN_WARM_UP_H
#define FF_TRAIN_WARM_UP_H

#include "train/trainer/trainer.h"

/* Runs two steps with each training plan (with graphs: one called, one captured) and one batch of
 * evaluation, on the run's first batches. Then restores parameters, optimizer state, running
 * statistics, control and batches: the run's results have the same bits. Call before the first
 * step; needs as much host memory as the parameters. The errors of steps and batches. Does nothing
 * on the CPU. */
FF_MUST_USE ff_status ff_warm_up(ff_trainer *trainer, ff_error *error);

#endif
