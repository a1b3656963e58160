/* Mean and std of a set whose parts counted while they packed (split/part_sums.h). Sums are exact,
 * so mean and std are those of one run. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_MERGE_SUMS_H
#define FF_FFPACK_MERGE_SUMS_H

#include "tools/ffpack/parts/merge_parts.h"

/* Completes the shards of all pieces, and puts the real metadata in place of the stand-ins in
 * piece->text. Does nothing if the parts have no sums. Completed shards stay as they are, so
 * this can be repeated. FF_BAD_DATA if sums are missing or broken, or if Normalize would divide by
 * 0. */
FF_MUST_USE ff_status ff_merge_sums(ff_merge_parts *parts, ff_error *error);

#endif
