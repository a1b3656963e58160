/* `ffpack repair`: a set's index made again from its shards, or what is lost of it. */
#ifndef FF_FFPACK_REPAIR_H
#define FF_FFPACK_REPAIR_H

#include "tools/ffpack/report.h"

typedef struct ff_repair_options {
    int jobs;
    ff_notices notices; /* of a split: what is lost, what was done */
} ff_repair_options;

/* Checks every byte of the shards of DIR, a split's folder or a folder of such. Where they are
 * whole, each index that is not the one that follows from them is replaced, and .tmp files are
 * removed. Where something is lost, each shard and sample is told, nothing is changed in that
 * split, and FF_BAD_DATA returned. Shards of a generation that was never committed count for
 * nothing: where the index does not tell, the newest generation counts whose shards are all there.
 */
FF_MUST_USE ff_status ff_repair_run(const char *path, const ff_repair_options *options,
                                    ff_error *error);

#endif
