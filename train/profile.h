/* How long each row of a step's costs (cost.h) takes on the device: a whole step, recorded with a
 * timed event before each of its parts, launched some times. */
#ifndef FF_TRAIN_PROFILE_H
#define FF_TRAIN_PROFILE_H

#include "train/cost.h"
#include "train/feed.h"
#include "train/update.h"

typedef struct ff_profile_options {
    /* Makes the batches; NULL = `batch` lies in the device's memory. One batch each launch and two
     * to warm up, so it has that many left. */
    ff_feed *feed;
    ff_batch batch;
    ff_update_options update; /* rates of 0: nothing is learned */
    int launches;             /* at least 1, of the step with events, and as many without */
} ff_profile_options;

typedef struct ff_profile {
    uint64_t *row_ns; /* [costs->row_count]: the median of the launches */
    /* The median of launches without events between the parts: what lies between this and the sum
     * of the rows is the events' own time. */
    uint64_t step_ns;
} ff_profile;

/* `costs` are those of `plan`, with a batch exactly where there is a feed.
 * Makes 2 * launches + 2 steps of the model: parameters and state are those of as many steps;
 * the control is as before. FF_FAILED where what the device was given is not what was counted; the
 * device's errors. On failure there is nothing to free. Thread rule: the model's thread; nothing
 * else of the model is under way. */
FF_MUST_USE ff_status ff_profile_step(ff_profile *profile, ff_plan *plan, const ff_costs *costs,
                                      const ff_profile_options *options, ff_error *error);
void ff_profile_free(ff_profile *profile);

#endif
