/* The sums of a set whose parts count while they pack (--dtype u8 and u16, whose bytes do not
 * depend on mean and std): each part keeps its own in sums.ffp of each split, and a merge adds them
 * up (parts/merge_sums.h). Thread rule: one thread at a time. */
#ifndef FF_FFPACK_PART_SUMS_H
#define FF_FFPACK_PART_SUMS_H

#include "tools/ffpack/image/stats.h"
#include "tools/ffpack/split/sample.h"

/* Commits sums.ffp of a split in `folder`. metadata: the stand-in; sums: of the part's samples;
 * NULL = of a split that is not counted. */
FF_MUST_USE ff_status ff_part_sums_write(const ff_sample_plan *plan, const ff_stats *sums,
                                         const ff_metadata *metadata, const char *folder,
                                         ff_error *error);

#endif
