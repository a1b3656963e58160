#include "train/step/update.h"

#include "format/base/memory.h"
#include "train/net/groups.h"

#include <assert.h>
#include <stdlib.h>

struct ff_update {
    ff_store *store;
    ff_prepared_update *prepared;
    ff_update_options how; /* without its arrays */
    float weight;          /* as in ff_gradient_sum */
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
        .how = *options,
        .buffers = store->buffers,
        .average_buffers = store->average_buffers,
        .buffer_count = store->buffer_count,
        .total = store->total,
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
    update->how = *options;
    update->how.groups = NULL;
    update->how.rates = NULL;
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

/* ---- the tree ---- */

/* Like a binary counter: a part of an even number begins a sum at the next free level, the part
 * after it is added to this sum, and sums of the same number of parts are joined. */
static int level_of(const ff_update *update, int number) {
    return update->how.tree ? __builtin_popcount((unsigned)number & ~1u) : 0;
}
static bool begins(const ff_update *update, int number) {
    return update->how.tree ? number % 2 == 0 : number == 0;
}
/* How many sums are joined with the one below after a part; all of them after the last one. */
static int joins_after(const ff_update *update, ff_batch_part part) {
    if (!update->how.tree || part.last) return level_of(update, part.number);
    return part.number % 2 ? __builtin_ctz((unsigned)part.number + 1) - 1 : 0;
}

/* Adds a part's values, weighted as in ff_gradient_sum, to the sums [at, + sum.count). */
static void add_values(ff_update *update, ff_batch_part part, ff_gradient_sum sum, size_t at) {
    const ff_store *store = update->store;
    ff_compute *compute = store->compute;
    int level = level_of(update, part.number), joins = joins_after(update, part);
    if (!sum.count) return;
    sum.first = begins(update, part.number);
    sum.control = store->control;
    sum.sums = store->sums + (size_t)level * store->sum_count + at;
    if (sum.gradient == sum.sums) {
        assert(sum.first && sum.weight == 1); /* the sum over its samples, of one micro-batch */
        return;
    }
    compute->ops->sum_gradients(compute, &sum);
    for (; joins > 0; joins--, level--) {
        float *below = store->sums + (size_t)(level - 1) * store->sum_count + at;
        const ff_gradient_sum join = {.count = sum.count,
                                      .gradient = below + store->sum_count,
                                      .dtype = FF_F32,
                                      .sums = below,
                                      .weight = 1};
        compute->ops->sum_gradients(compute, &join);
    }
}

/* On the CPU, where enqueued work is done at once. */
static void count_in_tree(ff_update *update, ff_batch_part part, ff_outcome *entry) {
    const ff_store *store = update->store;
    ff_outcome *total = &store->total[level_of(update, part.number)];
    ff_outcome_add(total, entry, begins(update, part.number), store->control->part++,
                   update->how.part_samples, update->how.first_sample);
    for (int joins = joins_after(update, part); joins > 0; joins--, total--)
        ff_outcome_sum(total - 1, total);
    if (part.last) *entry = *store->total;
}

/* Adds what the part has changed in the running statistics. */
static void add_statistics(ff_update *update, ff_batch_part part, ff_outcome *ring,
                           uint32_t ring_size) {
    const ff_store *store = update->store;
    ff_compute *compute = store->compute;
    const ff_gradient_sum sum = {.count = store->buffer_count,
                                 .gradient = store->buffers,
                                 .dtype = FF_F32,
                                 .weight = 1,
                                 .ring = ring,
                                 .ring_size = ring_size};
    compute->ops->weigh(compute, sum.count, -1, false, store->held, store->buffers);
    add_values(update, part, sum, store->trained_count);
}

void ff_update_begin(ff_update *update, int number) {
    const ff_store *store = update->store;
    const uint64_t bytes = store->buffer_count * sizeof(float);
    if (!update->how.tree || !bytes) return;
    ff_compute_enter(store->compute);
    if (number == 0)
        ff_compute_copy(store->compute, store->held, store->buffers, bytes);
    else
        ff_compute_copy(store->compute, store->buffers, store->held, bytes);
}

static void end_statistics(ff_update *update) {
    const ff_store *store = update->store;
    ff_compute *compute = store->compute;
    if (!store->buffer_count) return;
    ff_compute_copy(compute, store->buffers, store->held, store->buffer_count * sizeof(float));
    compute->ops->weigh(compute, store->buffer_count, 1 / (float)store->total->parts, false,
                        store->sums + store->trained_count, store->buffers);
}

/* ---- a step ---- */

void ff_update_enqueue(ff_update *update, ff_outcome *ring, uint32_t ring_size) {
    ff_compute *compute = update->store->compute;
    ff_compute_enter(compute);
    if (update->how.tree) end_statistics(update);
    compute->ops->update_run(compute, update->prepared, ring, ring_size);
}

void ff_update_sum(ff_update *update, ff_batch_part part, const ff_bucket *bucket, ff_outcome *ring,
                   uint32_t ring_size) {
    const ff_store *store = update->store;
    ff_compute *compute = store->compute;
    const size_t channels = bucket->channels - store->weight_count;
    ff_gradient_sum sum = {
        .count = bucket->weights_end - bucket->weights,
        .gradient = store->gradients + bucket->weights * compute->element_bytes,
        .dtype = compute->dtype,
        .weight = update->weight,
        .ring = ring,
        .ring_size = ring_size,
    };
    ff_compute_enter(compute);
    add_values(update, part, sum, bucket->weights);
    sum.count = bucket->channels_end - bucket->channels;
    sum.gradient =
        store->gradients + store->weight_count * compute->element_bytes + channels * sizeof(float);
    sum.dtype = FF_F32;
    add_values(update, part, sum, bucket->channels);
}

void ff_update_count(ff_update *update, ff_batch_part part, ff_outcome *ring, uint32_t ring_size) {
    const ff_store *store = update->store;
    ff_compute *compute = store->compute;
    ff_compute_enter(compute);
    if (update->how.tree) {
        add_statistics(update, part, ring, ring_size);
        count_in_tree(update, part, &ring[store->control->step % ring_size]);
    } else {
        compute->ops->outcome_add(compute, update->prepared, part.number == 0, ring, ring_size);
    }
}

void ff_update_add(ff_update *update, ff_batch_part part, ff_outcome *ring, uint32_t ring_size) {
    const ff_store *store = update->store;
    const ff_bucket all = {0, store->weight_count, store->weight_count, store->trained_count, 0};
    ff_update_sum(update, part, &all, ring, ring_size);
    ff_update_count(update, part, ring, ring_size);
}

void ff_update_combine(ff_update *update, const ff_outcome *ranks, int count, ff_outcome *ring,
                       uint32_t ring_size) {
    ff_compute *compute = update->store->compute;
    ff_compute_enter(compute);
    compute->ops->outcome_join(compute, update->prepared, ranks, count, ring, ring_size);
}
