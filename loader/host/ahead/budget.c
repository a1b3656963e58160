#include "loader/host/ahead/budget.h"

#include "format/storage/cache.h"
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
    const uint64_t each = 2 * block_row_bytes(settings, block) + sizeof(ff_ahead_need);
    const uint64_t ends = 2 * FF_READ_BLOCK; /* two groups end within disk blocks */
    return given < each + ends ? 1 : (given - ends) / each;
}

static uint64_t all_blocks(const ff_loader_settings *settings) {
    return (settings->count - 1) / settings->order.block + 1;
}

/* Whether the cache of a set behind a URL keeps two groups in addition to as much of what was used.
 * Compressed frames need the arena for their slots. */
static bool fits_cache(const ff_loader_settings *settings, uint64_t groups_bytes) {
    const ff_dataset *dataset = settings->dataset;
    const char *place;
    uint64_t limit, all, there;
    if (settings->metadata->compression != FF_COMPRESSION_NONE) return false;
    for (size_t i = 0; i < ff_dataset_set_count(dataset); i++)
        if (!ff_dataset_is_remote(ff_dataset_set(dataset, i))) return false;
    if (!ff_dataset_cache(dataset, &place, &limit, &all, &there)) return false;
    /* A block begins and ends within pieces: one more than its bytes fill. */
    const uint64_t blocks = 2 * least(settings->order.group, all_blocks(settings));
    return all <= limit || groups_bytes + blocks * FF_PIECE_BYTES <= limit / 2;
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
        budget.in_cache = fits_cache(settings, bytes);
    } else if (order->kind == FF_ORDER_RANDOM) {
        rows = RANDOM_ROWS;
        bytes = FF_ENGINE_QUEUE * rows * alone;
    } else {
        rows = SEQUENTIAL_BYTES / together + 1;
        bytes = FF_ENGINE_QUEUE * (rows * together + MIB);
    }
    const uint64_t stage_rows = ff_order_has_blocks(order->kind) ? group_samples(settings) : rows;
    budget.plan_bytes =
        least(stage_rows, given / (2 * together + sizeof(ff_ahead_need))) * sizeof(ff_ahead_need);
    const uint64_t room = budget.in_cache ? bytes : least(bytes, given - budget.plan_bytes);
    budget.bytes = room / (2 * FF_READ_BLOCK) * (2 * FF_READ_BLOCK);
    budget.rows = least(rows, budget.bytes / 2 / together + 1);
    if (!ff_order_has_blocks(order->kind)) return budget;
    if (budget.bytes == bytes) {
        budget.rows = rows;
    } else {
        const double whole = (double)least(order->group, all_blocks(settings));
        budget.blocks = (uint64_t)(whole * (double)budget.bytes / (double)bytes) + 1;
    }
    return budget;
}
