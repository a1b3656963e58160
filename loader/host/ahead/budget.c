#include "loader/host/ahead/budget.h"

#include "loader/host/ahead/stage.h"

#define MIB (UINT64_C(1) << 20)

/* In random order every row is a request: 1,024 requests are planned or at the disk. */
enum { RANDOM_ROWS = 64 };
#define SEQUENTIAL_BYTES (4 * MIB)
#define FRAME_BYTES      (256u << 10) /* about, for small samples in compressed shards */

/* About how many bytes of the arena a row takes: `together` if its neighbours are read with it,
 * else `alone`, with its whole frame. */
static void row_bytes(const ff_loader_settings *settings, uint64_t *together, uint64_t *alone) {
    const ff_metadata *metadata = settings->metadata;
    const uint64_t stored = settings->shard_bytes / settings->stored + 1;
    *together = stored;
    *alone = stored + 2 * FF_READ_BLOCK;
    if (metadata->compression != FF_COMPRESSION_ZSTD) return;
    const uint64_t slot = ff_metadata_slot_bytes(metadata, metadata->height, metadata->width);
    const uint64_t frame = slot < FRAME_BYTES ? FRAME_BYTES : slot;
    *together += slot;
    *alone += (uint64_t)((double)frame / (double)slot * (double)stored) + frame;
}

/* The most bytes that a sample of a block takes: blocks begin and end inside disk blocks, shards
 * and frames. */
static uint64_t block_row_bytes(const ff_loader_settings *settings, uint64_t block) {
    const ff_metadata *metadata = settings->metadata;
    uint64_t together, alone;
    row_bytes(settings, &together, &alone);
    if (metadata->compression == FF_COMPRESSION_ZSTD && block % metadata->items_per_block)
        together += together * metadata->items_per_block / block;
    return together + together / 32 + 3 * FF_READ_BLOCK / block + 1;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t group_samples(const ff_loader_settings *settings) {
    return least(settings->order.group * settings->order.block, settings->count);
}

/* The most rows of this share in a group, which begins and ends inside batches. */
static uint64_t group_rows(const ff_loader_settings *settings) {
    const ff_sequence *sequence = &settings->sequence;
    return (group_samples(settings) / sequence->batch + 2) * sequence->rows * sequence->cuts;
}

uint64_t ff_ahead_group_samples(const ff_loader_settings *settings, uint64_t block,
                                uint64_t given) {
    const uint64_t each = 2 * block_row_bytes(settings, block) + sizeof(ff_extent);
    return given < each ? 1 : given / each;
}

ff_ahead_budget ff_ahead_budget_of(const ff_loader_settings *settings, uint64_t given) {
    const ff_metadata *metadata = settings->metadata;
    const ff_order_spec *order = &settings->order;
    ff_ahead_budget budget = {0};
    if (!settings->direct || !settings->threads || !settings->rows) return budget;
    /* Room for two stages of one row each. */
    const uint64_t slot = ff_metadata_slot_bytes(metadata, metadata->height, metadata->width);
    const uint64_t floor = 4 * (slot + 4 * FF_READ_BLOCK);
    if (given < floor) given = floor;
    uint64_t together, alone;
    row_bytes(settings, &together, &alone);
    uint64_t rows, bytes; /* wanted */
    if (ff_order_has_blocks(order->kind)) {
        /* A share has rows in every block, and reads most bytes between its rows too. */
        together = block_row_bytes(settings, order->block);
        rows = group_rows(settings);
        bytes = 2 * ff_align_u64(group_samples(settings) * together, FF_READ_BLOCK);
    } else if (order->kind == FF_ORDER_RANDOM) {
        rows = RANDOM_ROWS;
        bytes = FF_ENGINE_QUEUE * rows * alone;
    } else {
        rows = SEQUENTIAL_BYTES / together + 1;
        bytes = FF_ENGINE_QUEUE * (rows * together + MIB);
    }
    const uint64_t stage_rows = ff_order_has_blocks(order->kind) ? group_samples(settings) : rows;
    budget.plan_bytes =
        least(stage_rows, given / (2 * together + sizeof(ff_extent))) * sizeof(ff_extent);
    budget.bytes =
        least(bytes, given - budget.plan_bytes) / (2 * FF_READ_BLOCK) * (2 * FF_READ_BLOCK);
    budget.rows = least(rows, budget.bytes / 2 / together + 1);
    if (!ff_order_has_blocks(order->kind)) return budget;
    if (budget.bytes == bytes) {
        budget.rows = rows;
    } else {
        const uint64_t all = (settings->count - 1) / order->block + 1;
        budget.blocks =
            (uint64_t)((double)least(order->group, all) * (double)budget.bytes / (double)bytes) + 1;
    }
    return budget;
}
