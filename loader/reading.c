#include "loader/reading.h"

#include "format/base/say.h"

#include <inttypes.h>
#include <stdio.h>

/* Of the memory for files, a loader reads ahead into one part of so many. */
enum { AHEAD_PART = 4 };

ff_status ff_reading_measure(ff_loader_settings *settings, const ff_loader_options *options,
                             ff_error *error) {
    FF_TRY(ff_host_memory_for_files("", options->memory_bytes, &settings->memory, error));
    for (uint32_t i = 0; i < ff_dataset_shard_count(settings->dataset); i++) {
        ff_shard_info shard;
        FF_TRY(ff_dataset_shard(settings->dataset, i, &shard, error));
        settings->shard_bytes += shard.file_bytes;
    }
    if (settings->shard_bytes > settings->memory.bytes)
        settings->beyond_memory_bytes = settings->shard_bytes;
    return FF_OK;
}

/* The bytes into which this rank may read ahead. */
static uint64_t ahead_bytes(const ff_loader_settings *settings, const ff_loader_options *options) {
    const uint32_t ranks = options->memory_ranks ? options->memory_ranks : 1;
    return settings->memory.bytes / ranks / AHEAD_PART;
}

/* A group is mixed while the next one is read, so it has half of the bytes. */
void ff_reading_choose_blocks(ff_loader_settings *settings, const ff_loader_options *options) {
    const ff_metadata *metadata = settings->metadata;
    const uint64_t sample = ff_metadata_slot_bytes(metadata, metadata->height, metadata->width);
    const uint64_t bytes =
        settings->beyond_memory_bytes ? ahead_bytes(settings, options) / 2 : UINT64_MAX;
    ff_order_spec *order = &settings->order;
    if (order->block == 0) order->block = ff_order_default_block(sample);
    if (order->group == 0) order->group = ff_order_default_group(order->block * sample, bytes);
}

/* Sets larger than what memory can keep of them are read in one request a sample: each fault of a
 * mapping would read the device's whole read-ahead, and its pages are gone before they are used.
 * Sequential order uses all of them, and stays mapped. */
void ff_reading_choose_access(ff_loader_settings *settings, const ff_loader_options *options) {
    const bool beyond = settings->beyond_memory_bytes != 0;
    settings->direct =
        options->access == FF_ACCESS_READ || (options->access == FF_ACCESS_AUTO && beyond &&
                                              settings->order.kind != FF_ORDER_SEQUENTIAL);
}

ff_loader_reading ff_loader_say_reading(const ff_loader_info *info) {
    ff_loader_reading said;
    const char *way = info->direct ? "read directly" : "mapped";
    if (info->memory.bytes == UINT64_MAX)
        snprintf(said.text, sizeof said.text, "%s: the set has %s, and no limit of memory is known",
                 way, ff_say_bytes(info->shard_bytes).text);
    else
        snprintf(said.text, sizeof said.text, "%s: the set has %s, memory for files is %s, %s", way,
                 ff_say_bytes(info->shard_bytes).text, ff_say_bytes(info->memory.bytes).text,
                 info->memory.limit);
    return said;
}
