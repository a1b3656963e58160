/* `ffpack merge`: the parts of a set (--part I/N) become the set that one run would have packed. */
#ifndef FF_FFPACK_MERGE_H
#define FF_FFPACK_MERGE_H

#include "tools/ffpack/pack.h"

typedef struct ff_merge_options {
    const char *output;
    bool force;
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
    char *skipped_path;      /* NULL where nothing was left out */
} ff_merge_report;

/* The parts may come in any order; every shard must be in one of them. Shards are hard-linked, or
 * copied where the file system cannot; their samples are not read. After a failure OUT is
 * unchanged. `report` is zero-initialised; the caller frees it also after a failure. */
FF_MUST_USE ff_status ff_merge_run(const ff_merge_options *options, const char *const *part,
                                   size_t part_count, ff_merge_report *report, ff_error *error);
void ff_merge_report_free(ff_merge_report *report);

#endif
