#include "train/update.h"

#include "format/base/memory.h"
#include "train/groups.h"

#include <stdlib.h>

struct ff_update {
    ff_store *store;
    ff_prepared_update *prepared;
    float weight; /* as in ff_gradient_sum */
};

/* A span of the store's blocks, for the compute table. */
static ff_update_segment segment_of(const ff_store *store, const ff_span *span) {
    const int states = ff_optimizer_at(span->rule)->states;
    const bool weights = span->offset < store->weight_count;
    const int layer = store->graph->parameters[span->parameter].layer;
    ff_update_segment segment = {
        .group = span->group,
        .rule = span->rule,
        .count = span->count,
        .gradient = ff_store_gradient(store, span->parameter),
        .gradient_dtype = weights ? store->compute->dtype : FF_F32,
        .sums = store->sums ? store->sums + span->offset : NULL,
        .values = store->values + span->offset,
        .adapts = weights,
        .average = store->average ? store->average + span->offset : NULL,
        .working = store->working == store->values
                       ? NULL
                       : (void *)ff_store_working(store, span->parameter),
        .conv = span->rule == FF_RULE_MUON ? store->convs[layer] : NULL,
    };
    for (int i = 0; i < states; i++) segment.state[i] = store->state[i] + span->offset;
    return segment;
}

/* If the store has no groups, all parameters are in one, of SGD. */
static ff_status prepare(ff_update *update, const ff_update_options *options, ff_error *error) {
    ff_store *store = update->store;
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
        .groups = options->groups,
        .group_count = options->group_count,
        .rates = options->rates,
        .rate_steps = options->rate_steps,
        .clip_norm = options->clip_norm,
        .ema_decay = options->ema_decay,
        .buffers = store->buffers,
        .average_buffers = store->average_buffers,
        .buffer_count = store->buffer_count,
        .total = store->total,
        .part_samples = options->part_samples,
        .first_sample = options->first_sample,
        .summed = options->summed,
        .control = store->control,
    };
    status = store->compute->ops->update_create(store->compute, &spec, &update->prepared, error);
done:
    free(segments);
    ff_groups_destroy(&own);
    return status;
}

ff_status ff_update_create(ff_update **out, ff_store *store, const ff_update_options *options,
                           ff_error *error) {
    ff_update *update;
    *out = NULL;
    FF_TRY(ff_alloc(&update, 1, sizeof *update, "an update", error));
    update->store = store;
    update->weight = options->summed ? 1 : (float)options->divisor;
    const ff_status status = prepare(update, options, error);
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
    free(update);
    *pointer = NULL;
}

void ff_update_enqueue(ff_update *update, ff_outcome *ring, uint32_t ring_size) {
    ff_compute *compute = update->store->compute;
    ff_compute_enter(compute);
    compute->ops->update_run(compute, update->prepared, ring, ring_size);
}

void ff_update_sum(ff_update *update, bool first, const ff_bucket *bucket, ff_outcome *ring,
                   uint32_t ring_size) {
    const ff_store *store = update->store;
    ff_compute *compute = store->compute;
    const size_t channels = bucket->channels - store->weight_count;
    ff_gradient_sum sum = {
        .count = bucket->weights_end - bucket->weights,
        .gradient = store->gradients + bucket->weights * compute->element_bytes,
        .dtype = compute->dtype,
        .sums = store->sums + bucket->weights,
        .first = first,
        .weight = update->weight,
        .ring = ring,
        .ring_size = ring_size,
        .control = store->control,
    };
    ff_compute_enter(compute);
    if (sum.count) compute->ops->sum_gradients(compute, &sum);
    sum.count = bucket->channels_end - bucket->channels;
    sum.gradient =
        store->gradients + store->weight_count * compute->element_bytes + channels * sizeof(float);
    sum.dtype = FF_F32;
    sum.sums = store->sums + bucket->channels;
    if (sum.count) compute->ops->sum_gradients(compute, &sum);
}

void ff_update_count(ff_update *update, bool first, ff_outcome *ring, uint32_t ring_size) {
    ff_compute *compute = update->store->compute;
    ff_compute_enter(compute);
    compute->ops->outcome_add(compute, update->prepared, first, ring, ring_size);
}

void ff_update_add(ff_update *update, bool first, ff_outcome *ring, uint32_t ring_size) {
    const ff_store *store = update->store;
    const ff_bucket all = {0, store->weight_count, store->weight_count, store->trained_count, 0};
    ff_update_sum(update, first, &all, ring, ring_size);
    ff_update_count(update, first, ring, ring_size);
}

void ff_update_join(ff_update *update, const ff_outcome *ranks, int count, ff_outcome *ring,
                    uint32_t ring_size) {
    ff_compute *compute = update->store->compute;
    ff_compute_enter(compute);
    compute->ops->outcome_join(compute, update->prepared, ranks, count, ring, ring_size);
}
