/* The sums that a part keeps whose set counts while it is packed (--dtype u8 and u16, whose bytes
 * do not depend on mean and std): sums.ffp of each split (FORMAT.md, "Parts"), which a merge adds
 * up (parts/merge_sums.h). Thread rule: one thread at a time. */
#ifndef FF_FFPACK_PART_SUMS_H
#define FF_FFPACK_PART_SUMS_H

#include "tools/ffpack/split/sample.h"

/* Commits sums.ffp of a split in `folder`. metadata: the stand-in; sums: of the part's samples;
 * NULL = of a split that is not counted. */
FF_MUST_USE ff_status ff_part_sums_write(const ff_sample_plan *plan, const ff_stats *sums,
                                         const ff_metadata *metadata, const char *folder,
                                         ff_error *error);

#endif
