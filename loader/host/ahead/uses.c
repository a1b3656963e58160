#include "loader/host/ahead/uses.h"

#include "format/storage/cache.h"
#include "loader/host/rows.h"

#include <stdlib.h>

ff_status ff_uses_number(uint32_t **first, ff_dataset *dataset, ff_error *error) {
    const uint32_t shards = ff_dataset_shard_count(dataset);
    uint64_t pieces = 0;
    FF_TRY(ff_alloc(first, (uint64_t)shards + 1, sizeof **first, "an order", error));
    for (uint32_t i = 0; i < shards; i++) {
        ff_shard_info shard;
        FF_TRY(ff_dataset_shard(dataset, i, &shard, error));
        pieces += (shard.file_bytes + FF_PIECE_BYTES - 1) / FF_PIECE_BYTES;
        if (pieces > UINT32_MAX)
            return ff_fail(error, FF_USAGE, "%s: has more than 4 PiB", ff_dataset_path(dataset));
        (*first)[i + 1] = (uint32_t)pieces;
    }
    return FF_OK;
}

/* The rows of a global batch that the ranks of this machine have: those of its part in order
 * node-block; in other orders all, since ranks that share a cache have rows in all blocks; and in a
 * plan (ff_loader_options.remote) those of the share. */
static void find_rows(const ff_loader_settings *settings, uint64_t *begin, uint64_t *end) {
    const ff_sequence *sequence = &settings->sequence;
    const ff_order_spec *order = &settings->order;
    const uint64_t first = sequence->share_begin;
    const uint64_t last = first + (uint64_t)sequence->rows * sequence->cuts;
    const bool whole = sequence->first_position % sequence->batch == 0;
    *begin = 0;
    *end = sequence->batch;
    if (whole && settings->given.remote) *begin = first, *end = last;
    if (!whole || order->kind != FF_ORDER_NODE_BLOCK || order->batch != sequence->batch) return;
    const uint64_t machine = ff_order_machine(order, first);
    if (last > ff_order_cut(order, machine + 1)) return;
    *begin = ff_order_cut(order, machine);
    *end = ff_order_cut(order, machine + 1);
}

bool ff_uses_groups(const ff_loader_settings *settings) {
    return ff_order_has_blocks(settings->order.kind) && settings->ahead.bytes &&
           !settings->ahead.blocks;
}

ff_status ff_uses_walk(const ff_loader_settings *settings, const uint32_t *first, uint32_t epoch,
                       bool by_group, ff_uses_take *take, void *context, ff_error *error) {
    uint64_t *seen = NULL; /* by piece: 1 + the group that has used the piece */
    if (by_group)
        FF_TRY(ff_alloc(&seen, first[ff_dataset_shard_count(settings->dataset)], sizeof *seen,
                        "an order", error));
    const ff_sequence *sequence = &settings->sequence;
    const uint64_t batches = (sequence->epoch_batches + sequence->cuts - 1) / sequence->cuts;
    ff_rows rows = {.settings = settings};
    ff_sequence_batch batch = {.epoch = epoch};
    uint64_t begin, end;
    find_rows(settings, &begin, &end);
    ff_rows_begin(&rows, &batch);
    for (uint64_t b = 0; b < batches; b++)
        for (uint64_t row = begin; row < end; row++) {
            ff_extent extent;
            batch.position = b * sequence->batch + row;
            if (batch.position >= sequence->count) break;
            /* The cache asks while it removes: nothing may be fetched here. */
            if (ff_dataset_extent_guess(settings->dataset, ff_rows_sample(&rows, &batch, 0),
                                        &extent, NULL) != FF_OK)
                continue;
            const uint64_t group = by_group ? ff_order_group(&rows.order, batch.position) : 0;
            const uint32_t own = first[extent.shard];
            const uint64_t last = (extent.offset + extent.bytes - 1) / FF_PIECE_BYTES;
            for (uint64_t p = extent.offset / FF_PIECE_BYTES; p <= last; p++) {
                if (seen && seen[own + p] == group + 1) continue;
                if (seen) seen[own + p] = group + 1;
                take(context, own + (uint32_t)p, (uint32_t)batch.position);
            }
        }
    free(seen);
    return FF_OK;
}
