/* Points within an epoch: what the steps since the last point were like, for the log and the event
 * files. A point costs the step nothing: it takes the outcomes that have arrived on the host.
 * Thread rule: one thread at a time. */
#ifndef FF_TRAIN_STEP_POINTS_H
#define FF_TRAIN_STEP_POINTS_H

#include "train/checkpoint/state.h"

enum { FF_STEP_POINTS_CHOSEN = -1 }; /* for `every`: 50 points an epoch, 10 steps apart at least */

/* Sums of an epoch after a step. */
typedef struct ff_step_sums {
    uint64_t steps; /* of the run */
    uint64_t samples, wait_ns, elapsed_ns;
    double loss_sum;
    int64_t count;
} ff_step_sums;

/* Read-only for its users. */
typedef struct ff_step_points {
    uint64_t every;    /* steps; 0 = no points */
    uint64_t batches;  /* of an epoch */
    bool mid_epoch;    /* the run goes on from the middle of an epoch */
    ff_step_sums last; /* where the last point was */
    ff_step_sums now;  /* after the last step */
    uint64_t seen_samples;
} ff_step_points;

typedef struct ff_step_point {
    uint64_t steps; /* of the run */
    double loss;    /* mean since the last point; NaN where no outcome has arrived since */
    double samples_per_second, data_wait_percent;
} ff_step_point;

/* every: steps between points, FF_STEP_POINTS_CHOSEN, or 0; first_step: the steps done before. */
void ff_step_points_begin(ff_step_points *points, int64_t every, uint64_t batches,
                          uint64_t first_step);
/* After every step, what report.h gives ff_report_step. True, with *point, where a point is due: at
 * the same steps of each epoch, but for its last step. */
bool ff_step_points_add(ff_step_points *points, uint64_t steps, const ff_epoch_sums *sums,
                        uint64_t wait_ns, uint64_t elapsed_ns, ff_step_point *point);
/* After an epoch of as many steps of the run: the point of the steps that are left; false: none. */
bool ff_step_points_rest(ff_step_points *points, uint64_t steps, ff_step_point *point);

#endif
