/* What a run will take on the disk, told and compared with what is free before any work.
 * Thread rule: pure. */
#ifndef FF_FFPACK_SPACE_H
#define FF_FFPACK_SPACE_H

#include "tools/ffpack/pack.h"
#include "tools/ffpack/source/listing.h"

/* Fills the split's report with what packing it would give, at most: samples as large as they can
 * be, where their sizes differ; nothing saved by zstd; nothing left out. */
void ff_space_estimate(ff_report_split *report, const ff_listing *listing, const ff_part *part);

/* Adds up the report's splits, less `there` bytes that an interrupted run has written, and asks
 * what is free in the folder `place`. FF_IO where that is too little and the size is known; where
 * it is a bound (zstd, or sizes that differ) and `options` is not NULL, a notice. */
FF_MUST_USE ff_status ff_space_check(ff_report *report, const char *place, uint64_t there,
                                     const ff_notices *options, ff_error *error);

#endif
