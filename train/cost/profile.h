/* Measures how long each row of a step's costs (cost.h) takes on the device: a whole step, captured
 * with a timed event before each of its parts, is launched several times. */
#ifndef FF_TRAIN_PROFILE_H
#define FF_TRAIN_PROFILE_H

#include "train/cost/cost.h"
#include "train/step/feed.h"
#include "train/step/update.h"

typedef struct ff_profile_options {
    /* Makes the batches; NULL = `batch` is in device memory. The feed must have one batch left per
     * launch, and two to warm up. */
    ff_feed *feed;
    ff_batch batch;
    ff_update_options update; /* rates of 0: values do not change */
    int launches;             /* at least 1; this number with events, and again without */
} ff_profile_options;

typedef struct ff_profile {
    uint64_t *row_ns; /* [costs->row_count]: the median over the launches */
    /* The median over the launches without events. The sum of the rows minus this is the time of
     * the events. */
    uint64_t step_ns;
} ff_profile;

/* `costs` are those of `plan`, with rows of BATCH exactly if there is a feed. Runs 2 * launches + 2
 * steps of the model: parameters and state change accordingly; the control is restored. FF_FAILED
 * if the enqueued work differs from the counted work; the device's errors. On failure there is
 * nothing to free. Thread rule: the model's thread; no other work of the model is running. */
FF_MUST_USE ff_status ff_profile_step(ff_profile *profile, ff_plan *plan, const ff_costs *costs,
                                      const ff_profile_options *options, ff_error *error);
void ff_profile_free(ff_profile *profile);

#endif
