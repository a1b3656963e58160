#include "train/report/events/step_points.h"

#include <math.h>

enum { AN_EPOCH = 50, APART = 10 };

static uint64_t chosen(uint64_t batches) {
    const uint64_t every = (batches + AN_EPOCH - 1) / AN_EPOCH;
    return every > APART ? every : APART;
}

void ff_step_points_begin(ff_step_points *points, int64_t every, uint64_t batches) {
    *points = (ff_step_points){.every = every < 0 ? chosen(batches) : (uint64_t)every,
                               .batches = batches};
}

void ff_step_points_begin_epoch(ff_step_points *points, ff_step_clock now) {
    *points = (ff_step_points){.every = points->every, .batches = points->batches, .arrival = now};
}

/* A measured wait may be shorter than the wait that the host had counted until then. */
void ff_step_points_arrive(ff_step_points *points, uint32_t count, ff_step_clock now) {
    const ff_step_clock last = points->arrival;
    points->step.elapsed = fmax(now.elapsed - last.elapsed, 0) / count;
    points->step.waited = fmax(now.waited - last.waited, 0) / count;
    points->arrival = now;
}

/* Makes the point of the steps since the last point, and begins the next. */
static void take(ff_step_points *points, uint64_t steps, ff_step_point *point) {
    const double ns = fmax(points->since.elapsed, 1);
    *point =
        (ff_step_point){.steps = steps,
                        .loss = points->count > 0 ? points->loss_sum / (double)points->count : NAN,
                        .samples_per_second = (double)points->samples * 1e9 / ns,
                        .data_wait_percent = fmin(100 * points->since.waited / ns, 100)};
    points->since = (ff_step_clock){0};
    points->samples = 0;
    points->loss_sum = 0;
    points->count = 0;
}

bool ff_step_points_add(ff_step_points *points, const ff_outcome *outcome, uint64_t samples,
                        ff_step_point *point) {
    const uint64_t within = outcome->step % points->batches + 1;
    points->since.elapsed += points->step.elapsed;
    points->since.waited += points->step.waited;
    points->samples += samples;
    points->loss_sum += ff_outcome_loss(outcome);
    points->count += outcome->count;
    if (!points->every || within % points->every != 0 || within == points->batches) return false;
    take(points, outcome->step + 1, point);
    return true;
}

bool ff_step_points_rest(ff_step_points *points, uint64_t steps, ff_step_point *point) {
    if (!points->every || !points->samples) return false;
    take(points, steps, point);
    return true;
}
