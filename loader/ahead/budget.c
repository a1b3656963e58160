#include "loader/ahead/budget.h"

#include "loader/ahead/stage.h"

#define MIB (UINT64_C(1) << 20)

/* With random order every row is a request: 1,024 of them are planned or at the disk. */
enum { RANDOM_ROWS = 64 };
#define SEQUENTIAL_BYTES (4 * MIB)
#define FRAME_BYTES      (256u << 10) /* of compressed shards, about, where samples are small */

/* What a row takes of the arena, about, if its neighbours are read with it; its frame's if not. */
static void row_bytes(const ff_loader_settings *settings, uint64_t *together, uint64_t *alone) {
    const ff_metadata *metadata = settings->metadata;
    const uint64_t stored = settings->shard_bytes / settings->count + 1;
    *together = stored;
    *alone = stored + 2 * FF_READ_BLOCK;
    if (metadata->compression != FF_COMPRESSION_ZSTD) return;
    const uint64_t slot = ff_metadata_slot_bytes(metadata, metadata->height, metadata->width);
    const uint64_t frame = slot < FRAME_BYTES ? FRAME_BYTES : slot;
    *together += slot;
    *alone += (uint64_t)((double)frame / (double)slot * (double)stored) + frame;
}

/* The rows of this share in a group of blocks, at most. */
static uint64_t group_rows(const ff_loader_settings *settings) {
    const ff_sequence *sequence = &settings->sequence;
    const ff_order_spec *order = &settings->order;
    uint64_t samples = order->group * order->block;
    if (samples > settings->count) samples = settings->count;
    return (samples / sequence->batch + 2) * sequence->rows * sequence->cuts;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

ff_ahead_budget ff_ahead_budget_of(const ff_loader_settings *settings, uint64_t given) {
    const ff_metadata *metadata = settings->metadata;
    const bool blocks = settings->order.kind == FF_ORDER_BLOCK;
    ff_ahead_budget budget = {0};
    if (!settings->direct || !settings->threads || !settings->rows) return budget;
    /* Room for two stages of one row each. */
    const uint64_t slot = ff_metadata_slot_bytes(metadata, metadata->height, metadata->width);
    const uint64_t floor = 4 * (slot + 4 * FF_READ_BLOCK);
    if (given < floor) given = floor;
    uint64_t together, alone;
    row_bytes(settings, &together, &alone);
    uint64_t rows, bytes; /* that are wanted */
    if (blocks) {
        rows = group_rows(settings);
        /* Blocks begin and end inside of the disk's, and inside of frames; and what is planned is
         * an estimate. */
        const uint64_t block = settings->order.block;
        if (metadata->compression == FF_COMPRESSION_ZSTD && block % metadata->items_per_block)
            together += together * metadata->items_per_block / block;
        together += together / 32 + 2 * FF_READ_BLOCK / block + 1;
        bytes = 2 * (rows * together + MIB);
    } else if (settings->order.kind == FF_ORDER_RANDOM) {
        rows = RANDOM_ROWS;
        bytes = FF_ENGINE_QUEUE * rows * alone;
    } else {
        rows = SEQUENTIAL_BYTES / together + 1;
        bytes = FF_ENGINE_QUEUE * (rows * together + MIB);
    }
    budget.plan_bytes = least(rows, given / (2 * together + sizeof(ff_extent))) * sizeof(ff_extent);
    budget.bytes =
        least(bytes, given - budget.plan_bytes) / (2 * FF_READ_BLOCK) * (2 * FF_READ_BLOCK);
    budget.rows = rows;
    if (rows > budget.bytes / 2 / together + 1) budget.rows = budget.bytes / 2 / together + 1;
    if (blocks && budget.rows < rows) {
        const uint64_t all = (settings->count - 1) / settings->order.block + 1;
        budget.blocks = least(settings->order.group, all) * budget.rows / rows + 1;
    }
    return budget;
}
