/* Room tools/ffpack/repair, floor 16: sets whose index is damaged.
 *
 * repair.c decides what can be had back; repair_split.c rebuilds the index of a split from its
 * shards.
 *
 * May include format, tools/ffpack/source, tools/ffpack/split.
 *
 * `ffpack repair`: rebuilds a set's index from its shards, or reports what is lost. */
#ifndef FF_FFPACK_REPAIR_H
#define FF_FFPACK_REPAIR_H

#include "format/reader/history.h"
#include "tools/ffpack/split/report.h"

typedef struct ff_repair_options {
    int jobs;
    ff_history_command history;
    ff_notices notices; /* what is lost, what was done */
} ff_repair_options;

/* Checks every byte of the shards of DIR, a split's folder or a folder of splits. If they are
 * whole, an index that differs from the index built from them is replaced, and .tmp files are
 * removed. If something is lost, each lost shard and sample is reported, the split is not changed,
 * and FF_BAD_DATA is returned. Shards of a generation that was never committed are ignored: without
 * an index, the newest generation whose shards all exist is taken. */
FF_MUST_USE ff_status ff_repair_run(const char *path, const ff_repair_options *options,
                                    ff_error *error);

#endif
