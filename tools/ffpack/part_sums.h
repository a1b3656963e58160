/* The sums of a set whose parts count while they pack (--dtype u8 and u16, whose bytes do not
 * depend on mean and std): each part keeps its own in sums.ffp of each split, and a merge adds them
 * up, computes mean and std, and completes the parts' pending shards. Sums are exact, so that mean
 * and std are those of one run. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_PART_SUMS_H
#define FF_FFPACK_PART_SUMS_H

#include "tools/ffpack/image/stats.h"
#include "tools/ffpack/merge_parts.h"
#include "tools/ffpack/sample.h"

/* Commits sums.ffp of a split in `folder`. metadata: the stand-in; sums: of the part's samples;
 * NULL = of a split that is not counted. */
FF_MUST_USE ff_status ff_part_sums_write(const ff_sample_plan *plan, const ff_stats *sums,
                                         const ff_metadata *metadata, const char *folder,
                                         ff_error *error);

/* Completes the shards of all pieces, and puts the real metadata in place of the stand-ins in
 * piece->text. Does nothing where the parts have no sums. Completed shards stay as they are, so
 * this can be repeated. FF_BAD_DATA where sums are missing or broken, or where Normalize would
 * divide by 0. */
FF_MUST_USE ff_status ff_part_sums_complete(ff_merge_parts *parts, ff_error *error);

#endif
