#include "loader/host/reading.h"

#include "format/cli/say.h"
#include "format/storage/cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A loader reads ahead into this part of the memory for files: half of it. */
enum { AHEAD_PART = 2 };
/* In block order a whole group is in memory; for other orders more than this is of no use. */
#define AHEAD_MOST (UINT64_C(128) << 20)
/* What a loader's threads read in addition to the set: their program. */
#define OTHER_BYTES (UINT64_C(16) << 20)

/* The files that a loader would map in addition to those already mapped. */
typedef struct files {
    uint64_t bytes, count;
} files;

/* Compressed sets are always mapped, others if the options ask for it. */
static ff_status check_maps(ff_loader_settings *settings, const ff_loader_options *options,
                            const files *wanted, ff_error *error) {
    const ff_host_maps left = ff_host_maps_left("");
    const char *path = ff_dataset_path(settings->dataset);
    const bool maps = options->access == FF_ACCESS_MAPPED ||
                      settings->metadata->compression != FF_COMPRESSION_NONE;
    settings->unmappable = wanted->bytes > left.bytes || wanted->count > left.mappings;
    if (!settings->unmappable || !maps) return FF_OK;
    if (wanted->count > left.mappings)
        return ff_fail(error, FF_NO_MEMORY,
                       "%s: %" PRIu64 " shards are to be mapped, and the process may map %" PRIu64
                       " more (vm.max_map_count); pack it with a larger --shard-size, or without "
                       "--compress, so that it is read directly",
                       path, wanted->count, left.mappings);
    return ff_fail(error, FF_NO_MEMORY,
                   "%s: its shards are to be mapped, which takes %s of address space, and %s is "
                   "left (ulimit -v); a set without --compress is read directly",
                   path, ff_say_bytes(wanted->bytes).text, ff_say_bytes(left.bytes).text);
}

static uint32_t memory_ranks(const ff_loader_options *options) {
    return options->memory_ranks ? options->memory_ranks : 1;
}

/* Reads how much memory there is now; the loaders of this machine will still allocate `reserved`
 * bytes. */
static ff_status look(ff_loader_settings *settings, uint64_t reserved, ff_error *error) {
    FF_TRY(ff_host_memory_for_files("", settings->given.memory_bytes, reserved, &settings->memory,
                                    error));
    settings->beyond_memory_bytes =
        settings->shard_bytes > settings->memory.bytes ? settings->shard_bytes : 0;
    return FF_OK;
}

ff_status ff_reading_measure(ff_loader_settings *settings, const ff_loader_options *options,
                             ff_error *error) {
    files wanted = {0};
    for (uint32_t i = 0; i < ff_dataset_shard_count(settings->dataset); i++) {
        ff_shard_info shard;
        FF_TRY(ff_dataset_shard(settings->dataset, i, &shard, error));
        settings->shard_bytes += shard.file_bytes;
        wanted.bytes += shard.mapped ? 0 : shard.file_bytes;
        wanted.count += !shard.mapped;
    }
    const uint64_t slots = settings->slots * (settings->slot_bytes + settings->kept_bytes);
    FF_TRY(look(settings, slots * memory_ranks(options), error));
    return check_maps(settings, options, &wanted, error);
}

uint64_t ff_reading_ahead_bytes(const ff_loader_settings *settings,
                                const ff_loader_options *options) {
    const uint64_t part = settings->memory.bytes / memory_ranks(options) / AHEAD_PART;
    if (options->ahead_bytes) return options->ahead_bytes;
    return ff_order_has_blocks(settings->order.kind) || part < AHEAD_MOST ? part : AHEAD_MOST;
}

/* Blocks of a compressed set are whole frames, so that each frame is needed by one block. */
static uint64_t whole_frames(const ff_metadata *metadata, uint64_t block) {
    const uint64_t frame = metadata->items_per_block;
    if (metadata->compression != FF_COMPRESSION_ZSTD) return block;
    return block < frame ? frame : block - block % frame;
}

/* Smaller blocks cause more bytes around their samples to be read. */
static void fit_memory(ff_loader_settings *settings, uint64_t sample, uint64_t given) {
    ff_order_spec *order = &settings->order;
    for (int i = 0; i < 2; i++) {
        uint64_t group;
        ff_order_fit(sample, ff_ahead_group_samples(settings, order->block, given), &order->block,
                     &group);
        order->block = whole_frames(settings->metadata, order->block);
    }
}

/* A block begins and ends within pieces of the cache, which are fetched whole: with a cache of a
 * quarter of a set, blocks of two pieces fetch 0.77 of the set in an epoch, blocks of one piece
 * 1.01, larger ones 0.75. One piece if memory cannot mix two well. */
static void fit_pieces(ff_loader_settings *settings, uint64_t given) {
    const double sample = (double)settings->shard_bytes / (double)settings->stored;
    ff_order_spec *order = &settings->order;
    for (uint64_t pieces = 2; pieces; pieces--) {
        const double samples = (double)(pieces * FF_PIECE_BYTES) / sample;
        order->block = whole_frames(settings->metadata, samples < 1 ? 1 : (uint64_t)samples);
        const uint64_t all = (settings->count - 1) / order->block + 1;
        const uint64_t fit = ff_ahead_group_samples(settings, order->block, given) / order->block;
        if (fit >= FF_ORDER_GROUP_MIXED || fit >= all) return;
    }
}

/* A group is mixed while the next one is read, so two of a set that memory cannot keep have to fit.
 */
void ff_reading_choose_blocks(ff_loader_settings *settings, const ff_loader_options *options) {
    const ff_metadata *metadata = settings->metadata;
    const uint64_t sample = ff_metadata_slot_bytes(metadata, metadata->height, metadata->width);
    const uint64_t given = ff_reading_ahead_bytes(settings, options);
    const bool fits = !settings->beyond_memory_bytes;
    const bool remote = options->remote || ff_dataset_is_remote(settings->dataset);
    ff_order_spec *order = &settings->order;
    const bool both = !order->block && !order->group;
    if (!order->block && remote) fit_pieces(settings, given);
    if (!order->block) order->block = whole_frames(metadata, ff_order_default_block(sample));
    if (both && !fits && !remote) fit_memory(settings, sample, given);
    if (order->group) return;
    const uint64_t samples =
        fits ? UINT64_MAX : ff_ahead_group_samples(settings, order->block, given);
    order->group = ff_order_default_group(order->block, samples);
}

/* The bytes of the pieces that the order mixes, each of which has several samples; 0: few, or
 * memory has what it mixes; UINT64_MAX: all. */
static uint64_t mixed_bytes(const ff_loader_settings *settings) {
    const ff_order_spec *order = &settings->order;
    const uint64_t sample = settings->shard_bytes / settings->stored;
    if (!settings->direct || 2 * sample > FF_PIECE_BYTES) return 0;
    if (settings->sampling.kind != FF_SAMPLING_ORDER || order->kind == FF_ORDER_RANDOM)
        return UINT64_MAX;
    if (!ff_order_has_blocks(order->kind) || (settings->ahead.bytes && !settings->ahead.blocks))
        return 0;
    const uint64_t block = (order->block * sample / FF_PIECE_BYTES + 2) * FF_PIECE_BYTES;
    return order->group < UINT64_MAX / block ? order->group * block : UINT64_MAX;
}

void ff_reading_look_at_cache(const ff_loader_settings *settings, ff_loader_info *info) {
    const char *place;
    uint64_t limit, all, there;
    const uint64_t mixed = mixed_bytes(settings);
    if (!ff_dataset_cache(settings->dataset, &place, &limit, &all, &there) || limit >= mixed ||
        limit >= all)
        return;
    info->cache_bytes = limit;
    info->cache_wanted = mixed < all ? mixed : all;
}

/* In sequential order all bytes that a fault reads are used, so without threads to read ahead the
 * set stays mapped. */
static bool may_choose(const ff_loader_settings *settings) {
    return settings->given.access == FF_ACCESS_AUTO &&
           (settings->threads || settings->order.kind != FF_ORDER_SEQUENTIAL);
}

/* Sets larger than their part of the memory are read: each fault of a mapping would read the
 * device's whole read-ahead, and its pages are gone before they are used. */
static bool must_read(const ff_loader_settings *settings) {
    return settings->given.access == FF_ACCESS_READ || settings->unmappable ||
           (settings->beyond_memory_bytes && may_choose(settings));
}

void ff_reading_choose_access(ff_loader_settings *settings) {
    settings->direct = must_read(settings) || !ff_dataset_is_here(settings->dataset);
}

bool ff_reading_may_map(const ff_loader_settings *settings) {
    return settings->direct && !must_read(settings) && ff_dataset_is_remote(settings->dataset) &&
           ff_dataset_is_here(settings->dataset);
}

bool ff_reading_is_evicted(ff_reading_watch *watch, const ff_loader_settings *settings,
                           uint64_t rows, uint64_t read) {
    if (settings->direct || !may_choose(settings)) return false;
    const uint64_t others = OTHER_BYTES + ff_dataset_index_bytes(settings->dataset);
    watch->read += read;
    watch->used +=
        (uint64_t)((double)rows * (double)settings->shard_bytes / (double)settings->stored);
    const uint64_t once = watch->used / 4 * 5 + others;
    if (watch->read > once + 2 * settings->shard_bytes) return true;
    if (watch->used < settings->shard_bytes) return false;
    const bool again = watch->read > once, evicted = again && watch->again;
    if (!evicted) *watch = (ff_reading_watch){.again = again};
    return evicted;
}

static void set_direct(ff_loader_settings *settings, bool direct) {
    settings->direct = direct;
    settings->ahead =
        ff_ahead_budget_of(settings, ff_reading_ahead_bytes(settings, &settings->given));
    for (size_t i = 0; i < settings->later_count; i++) settings->later[i].direct = direct;
}

void ff_reading_turn(ff_loader_settings *settings, const ff_reading_watch *evicted) {
    /* `evicted` has decided, whatever memory is found now: memory that other files take counts as
     * free. */
    (void)!look(settings, 0, NULL);
    settings->read_again = evicted ? (double)evicted->read / (double)(evicted->used + 1) : 0;
    set_direct(settings, !settings->direct);
}

void ff_reading_turn_back(ff_loader_settings *settings) {
    settings->read_again = 0;
    set_direct(settings, !settings->direct);
}

ff_loader_reading ff_loader_say_cache(const ff_loader_info *info) {
    ff_loader_reading said = {.text = ""};
    if (info->cache_wanted)
        snprintf(
            said.text, sizeof said.text,
            "the cache of %s is smaller than the %s that the order mixes, and a sample that it "
            "lacks fetches a piece of 1 MiB: a cache of %" PRIu64 "M has them",
            ff_say_bytes(info->cache_bytes).text, ff_say_bytes(info->cache_wanted).text,
            (info->cache_wanted >> 20) + 1);
    return said;
}

ff_loader_reading ff_loader_say_reading(const ff_loader_info *info) {
    ff_loader_reading said;
    char way[96];
    snprintf(way, sizeof way, info->direct ? "read directly" : "mapped");
    if (info->read_again > 0)
        snprintf(way, sizeof way,
                 "read directly since its mapping read %.3g bytes for each one used",
                 info->read_again);
    if (info->unmappable && !info->beyond_memory_bytes)
        snprintf(said.text, sizeof said.text,
                 "%s: the set has %s in more shards than the process may map (vm.max_map_count)",
                 way, ff_say_bytes(info->shard_bytes).text);
    else if (info->memory.bytes == UINT64_MAX)
        snprintf(said.text, sizeof said.text, "%s: the set has %s, and no limit of memory is known",
                 way, ff_say_bytes(info->shard_bytes).text);
    else
        snprintf(said.text, sizeof said.text, "%s: the set has %s, memory for files is %s, %s", way,
                 ff_say_bytes(info->shard_bytes).text, ff_say_bytes(info->memory.bytes).text,
                 info->memory.limit);
    const size_t used = strlen(said.text);
    if (info->ahead_blocks)
        snprintf(said.text + used, sizeof said.text - used,
                 "; from a group's blocks %" PRIu64 " fit into the %s for reading ahead, so blocks "
                 "are read in parts: smaller groups or blocks are read whole",
                 info->ahead_blocks, ff_say_bytes(info->ahead_bytes).text);
    return said;
}
