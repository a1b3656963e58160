#include "train/update.h"

#include "format/base/memory.h"
#include "loader/device/absent.h"
#include "train/groups.h"

#include <stdlib.h>
#include <string.h>

struct ff_update {
    ff_store *store;
    ff_update_options options;    /* groups and rates are copies */
    ff_sgd *steps;                /* [group_count]: of one step, on the host */
    ff_prepared_update *prepared; /* NULL: the host does it step by step */
};

/* A span of the store's blocks, as the table is told of it. */
static ff_update_segment segment_of(const ff_store *store, const ff_span *span) {
    const bool weights = span->offset < store->weight_count;
    const int layer = store->graph->parameters[span->parameter].layer;
    return (ff_update_segment){
        .group = span->group,
        .rule = span->rule,
        .count = span->count,
        .gradient = ff_store_gradient(store, span->parameter),
        .gradient_dtype = weights ? store->compute->dtype : FF_F32,
        .values = store->values + span->offset,
        .momentum = store->momentum + span->offset,
        .working = store->working == store->values
                       ? NULL
                       : (void *)ff_store_working(store, span->parameter),
        .conv = span->rule == FF_RULE_MUON ? store->convs[layer] : NULL,
    };
}

/* Groups that are not the store's own: all parameters in one, of SGD. */
static ff_status prepare(ff_update *update, ff_error *error) {
    ff_store *store = update->store;
    const ff_compute_ops *ops = store->compute->ops;
    const ff_group all = {.names = "*", .rule = FF_RULE_SGD};
    const ff_groups *groups = store->groups;
    ff_groups own = {0};
    ff_update_segment *segments = NULL;
    ff_status status = FF_OK;
    if (!groups || !groups->count) {
        FF_TRY(ff_groups_create(&own, store, &all, 1, error));
        groups = &own;
    }
    FF_TRY_DONE(
        ff_alloc(&segments, (uint64_t)groups->span_count, sizeof *segments, "an update", error));
    for (int i = 0; i < groups->span_count; i++) segments[i] = segment_of(store, &groups->spans[i]);
    const ff_update_spec spec = {
        .segments = segments,
        .segment_count = groups->span_count,
        .groups = update->options.groups,
        .group_count = update->options.group_count,
        .rates = update->options.rates,
        .rate_steps = update->options.rate_steps,
        .control = store->control,
    };
    status = ops->update_create(store->compute, &spec, &update->prepared, error);
done:
    free(segments);
    ff_groups_destroy(&own);
    return status;
}

static ff_status copy(ff_update *update, const ff_update_options *options, ff_error *error) {
    const uint64_t groups = (uint64_t)options->group_count, rates = groups * options->rate_steps;
    ff_sgd *own_groups;
    double *own_rates;
    FF_TRY(ff_alloc(&own_groups, groups, sizeof *own_groups, "an update", error));
    update->options.groups = own_groups;
    memcpy(own_groups, options->groups, groups * sizeof *own_groups);
    FF_TRY(ff_alloc(&own_rates, rates, sizeof *own_rates, "learning rates", error));
    update->options.rates = own_rates;
    if (!ff_device_is_absent(update->store->compute->device))
        memcpy(own_rates, options->rates, rates * sizeof *own_rates);
    return ff_alloc(&update->steps, groups, sizeof *update->steps, "an update", error);
}

ff_status ff_update_create(ff_update **out, ff_store *store, const ff_update_options *options,
                           ff_error *error) {
    ff_update *update;
    *out = NULL;
    FF_TRY(ff_alloc(&update, 1, sizeof *update, "an update", error));
    update->store = store;
    update->options = *options;
    update->options.groups = NULL;
    update->options.rates = NULL;
    ff_status status = copy(update, options, error);
    if (status == FF_OK && store->compute->ops->update_create) status = prepare(update, error);
    if (status == FF_OK)
        *out = update;
    else
        ff_update_destroy(&update);
    return status;
}

void ff_update_destroy(ff_update **pointer) {
    ff_update *update = *pointer;
    if (!update) return;
    ff_compute *compute = update->store->compute;
    if (update->prepared) compute->ops->update_destroy(compute, update->prepared);
    free((void *)update->options.groups);
    free((void *)update->options.rates);
    free(update->steps);
    free(update);
    *pointer = NULL;
}

/* On a device whose memory is the host's, which has done all that was given to it. */
static void run_here(ff_update *update, ff_outcome *ring, uint32_t ring_size) {
    const ff_update_options *options = &update->options;
    ff_control *control = update->store->control;
    const uint64_t last = options->rate_steps - 1;
    const uint64_t at = control->step < last ? control->step : last;
    for (int g = 0; g < options->group_count; g++) {
        update->steps[g] = options->groups[g];
        update->steps[g].learning_rate = options->rates[(uint64_t)g * options->rate_steps + at];
    }
    ff_store_update(update->store, update->steps);
    ff_outcome *outcome = &ring[control->step % ring_size];
    outcome->step = control->step;
    outcome->loss_scale = control->loss_scale;
    outcome->learning_rate = (float)update->steps[0].learning_rate;
    control->step++;
    control->updates++;
}

void ff_update_enqueue(ff_update *update, ff_outcome *ring, uint32_t ring_size) {
    ff_compute *compute = update->store->compute;
    ff_compute_enter(compute);
    if (update->prepared)
        compute->ops->update_run(compute, update->prepared, ring, ring_size);
    else
        run_here(update, ring, ring_size);
}
