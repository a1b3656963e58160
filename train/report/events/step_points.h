/* Points within an epoch: averages over the steps since the last point, for the log and the event
 * files. A point does not delay a step: it is made from outcomes that have arrived on the host. A
 * device's outcomes arrive many at once; each of their steps then has an equal share of the time
 * since the previous arrival. Thread rule: one thread at a time. */
#ifndef FF_TRAIN_STEP_POINTS_H
#define FF_TRAIN_STEP_POINTS_H

#include "train/compute/control.h"

#include <stdbool.h>

enum { FF_STEP_POINTS_CHOSEN = -1 }; /* for `every`: 50 points an epoch, at least 10 steps apart */

/* Time of an epoch's training, in nanoseconds. */
typedef struct ff_step_clock {
    double elapsed, waited; /* waited: for data */
} ff_step_clock;

/* Read-only for users. */
typedef struct ff_step_points {
    uint64_t every;        /* steps; 0 = no points */
    uint64_t batches;      /* per epoch */
    ff_step_clock arrival; /* the last arrival */
    ff_step_clock step;    /* the share of each step in the last arrival */
    /* Sums since the last point. */
    ff_step_clock since;
    uint64_t samples;
    double loss_sum;
    int64_t count;
} ff_step_points;

typedef struct ff_step_point {
    uint64_t steps; /* of the run */
    double loss;    /* mean since the last point; NaN if no sample has a label */
    double samples_per_second, data_wait_percent;
} ff_step_point;

/* every: steps between points, FF_STEP_POINTS_CHOSEN, or 0. */
void ff_step_points_begin(ff_step_points *points, int64_t every, uint64_t batches);
/* Call before the first step of an epoch, or before the first one after a checkpoint within it. */
void ff_step_points_begin_epoch(ff_step_points *points, ff_step_clock now);
/* Call when `count` outcomes have arrived, before ff_step_points_add takes each of them. */
void ff_step_points_arrive(ff_step_points *points, uint32_t count, ff_step_clock now);
/* samples: of the outcome's step. Returns true and *point if a point is due: at the same steps of
 * each epoch, except its last step. */
bool ff_step_points_add(ff_step_points *points, const ff_outcome *outcome, uint64_t samples,
                        ff_step_point *point);
/* Call after an epoch; `steps`: of the run. Returns the point of the remaining steps; false if
 * there are no such steps. */
bool ff_step_points_rest(ff_step_points *points, uint64_t steps, ff_step_point *point);

#endif
