#include "train/report/events/step_points.h"

#include <math.h>

enum { AN_EPOCH = 50, APART = 10 };

static uint64_t chosen(uint64_t batches) {
    const uint64_t every = (batches + AN_EPOCH - 1) / AN_EPOCH;
    return every > APART ? every : APART;
}

void ff_step_points_begin(ff_step_points *points, int64_t every, uint64_t batches,
                          uint64_t first_step) {
    *points = (ff_step_points){.every = every < 0 ? chosen(batches) : (uint64_t)every,
                               .batches = batches,
                               .mid_epoch = first_step % batches != 0};
}

/* The point of the steps since the last one. */
static bool take(ff_step_points *points, ff_step_point *point) {
    const ff_step_sums *last = &points->last, *now = &points->now;
    if (now->steps == last->steps) return false;
    const double ns = (double)(now->elapsed_ns - last->elapsed_ns);
    const int64_t count = now->count - last->count;
    *point =
        (ff_step_point){.steps = now->steps,
                        .loss = count > 0 ? (now->loss_sum - last->loss_sum) / (double)count : NAN,
                        .samples_per_second = (double)(now->samples - last->samples) * 1e9 / ns,
                        .data_wait_percent = 100 * (double)(now->wait_ns - last->wait_ns) / ns};
    points->last = *now;
    return true;
}

bool ff_step_points_add(ff_step_points *points, uint64_t steps, const ff_epoch_sums *sums,
                        uint64_t wait_ns, uint64_t elapsed_ns, ff_step_point *point) {
    const ff_step_sums now = {steps,      sums->samples,  wait_ns,
                              elapsed_ns, sums->loss_sum, sums->count};
    const bool first = sums->samples <= points->seen_samples || !points->seen_samples;
    /* In the middle of an epoch the sums have the steps before the checkpoint, too. */
    const bool resumed = !points->seen_samples && points->mid_epoch;
    const uint64_t within = (steps - 1) % points->batches + 1;
    points->seen_samples = sums->samples;
    if (first) points->last = resumed ? now : (ff_step_sums){.steps = steps - 1};
    points->now = now;
    if (!points->every || within % points->every != 0 || within == points->batches) return false;
    return take(points, point);
}

bool ff_step_points_rest(ff_step_points *points, uint64_t steps, ff_step_point *point) {
    const bool taken = points->every && points->now.steps == steps && take(points, point);
    points->last = points->now;
    return taken;
}
