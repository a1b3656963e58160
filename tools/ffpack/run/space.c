#include "tools/ffpack/run/space.h"

#include "format/base/path.h"
#include "format/cli/say.h"
#include "format/disk/generation.h"
#include "format/disk/layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

/* Shards and index (FORMAT.md). The metadata text is small, except in sets with many classes, and
 * is covered by rounding every file up to a page. */
static uint64_t bytes_of(const ff_metadata *metadata, uint64_t samples, uint64_t shards,
                         uint64_t key_bytes, bool index) {
    uint64_t slot = ff_metadata_slot_bytes(metadata, metadata->height, metadata->width);
    uint64_t row = FF_ENTRY_BYTES + ff_metadata_label_row_bytes(metadata);
    uint64_t payload = samples * slot, frames = 0;
    if (metadata->compression == FF_COMPRESSION_ZSTD) {
        /* Incompressible data costs zstd 3 bytes per 128 KiB, and a header. */
        uint64_t count = samples / metadata->items_per_block + shards;
        frames = payload / 4096 + count * (FF_FRAME_BYTES + FF_SEEK_ROW_BYTES + 32);
    }
    uint64_t rows = samples * row + key_bytes;
    uint64_t all = payload + frames + rows + shards * (FF_HEADER_BYTES + 4096);
    return index ? all + rows + shards * FF_SHARD_ROW_BYTES + FF_HEADER_BYTES + 4096 : all;
}

void ff_space_estimate(ff_report_split *report, uint64_t key_bytes, const ff_part *part) {
    const ff_metadata *metadata = &report->metadata;
    uint32_t first = ff_metadata_first_shard(metadata), end = ff_metadata_shard_count(metadata);
    uint64_t items = metadata->items - ff_metadata_first_item(metadata), all = items;
    uint32_t shards = end - first;
    if (part && part->count) {
        ff_part_range(part, shards, &first, &end);
        shards = end - first;
        uint64_t begin = first * metadata->items_per_shard, stop = end * metadata->items_per_shard;
        items = shards ? (stop < all ? stop : all) - begin : 0;
    }
    report->items = items;
    report->result.sample_count = items;
    report->result.shard_count = shards;
    /* A part's keys: its share of all keys. */
    double share = all ? (double)items / (double)all : 0;
    report->result.file_bytes = bytes_of(
        metadata, items, shards, (uint64_t)(share * (double)key_bytes), !(part && part->count));
}

ff_status ff_space_check(ff_report *report, const char *place, uint64_t there,
                         const ff_notices *options, ff_error *error) {
    struct statvfs found;
    char *disk;
    uint64_t needed = 0;
    bool bound = false;
    for (size_t i = 0; i < report->split_count; i++) {
        const ff_metadata *metadata = &report->split[i].metadata;
        needed += report->split[i].result.file_bytes;
        bound |= metadata->compression != FF_COMPRESSION_NONE || metadata->variable_size;
    }
    report->needed_bytes = needed > there ? needed - there : 0;
    /* If the free space is unknown, packing continues: writing fails if there is too little. */
    FF_TRY(ff_path_existing(&disk, place, error));
    const bool known = statvfs(disk, &found) == 0;
    free(disk);
    if (!known) return FF_OK;
    report->free_known = true;
    report->free_bytes = (uint64_t)found.f_bavail * found.f_frsize;
    if (!options || report->needed_bytes <= report->free_bytes) return FF_OK;
    if (!bound)
        return ff_fail(error, FF_IO, "%s: needs %s, and its disk has %s free", report->output,
                       ff_say_bytes(report->needed_bytes).text,
                       ff_say_bytes(report->free_bytes).text);
    ff_notice(options, "%s may not fit: it needs at most %s (as if %s), and its disk has %s free",
              report->output, ff_say_bytes(report->needed_bytes).text,
              report->split[0].metadata.variable_size ? "every sample were as large as allowed"
                                                      : "zstd saved nothing",
              ff_say_bytes(report->free_bytes).text);
    return FF_OK;
}
