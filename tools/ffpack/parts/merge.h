/* Room tools/ffpack/parts, floor 16: sets that several machines pack in parts.
 *
 * part_counts.c and part_skips.c keep what a merge needs to know of each part; merge.c and
 * merge_parts.c make one set of the parts, merge_sums.c its mean and standard deviation.
 *
 * May include format, tools/ffpack/image, tools/ffpack/run, tools/ffpack/settings,
 * tools/ffpack/source, tools/ffpack/split.
 *
 * `ffpack merge`: the parts of a set (--part I/N) become the set that one run would have packed. */
#ifndef FF_FFPACK_MERGE_H
#define FF_FFPACK_MERGE_H

#include "format/reader/history.h"
#include "tools/ffpack/settings/settings.h"
#include "tools/ffpack/split/report.h"

/* Values of wait_seconds below 0. */
enum { FF_MERGE_NO_WAIT = -2, FF_MERGE_NO_LIMIT = -1 };

typedef struct ff_merge_options {
    const char *output;
    bool force;
    const char *max_skip; /* N|P%; NULL = what the parts were packed with */
    int64_t wait_seconds; /* for parts that are not whole yet, then FF_FAILED naming them */
    ff_history_command history;
    ff_notices notices;
} ff_merge_options;

typedef struct ff_merge_split {
    char *name;
    ff_writer_result result;
} ff_merge_split;

typedef struct ff_merge_report {
    size_t split_count;
    ff_merge_split *split;
    uint64_t linked, copied; /* shards */
    char *skipped_path;      /* NULL if nothing was left out */
} ff_merge_report;

/* `part`: part_count folders, or 0 for OUT.part-I-of-N next to OUT. The parts may come in any
 * order; every shard must be in one of them. Shards are hard-linked, or copied if the file system
 * has no hard links; their samples are not read. After a failure OUT is unchanged. `report` is
 * zero-initialised; the caller frees it also after a failure. */
FF_MUST_USE ff_status ff_merge_run(const ff_merge_options *options, const char *const *part,
                                   size_t part_count, ff_merge_report *report, ff_error *error);
void ff_merge_report_free(ff_merge_report *report);

#endif
