/* Where the mean and std of a packing run come from. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_STATISTICS_H
#define FF_FFPACK_STATISTICS_H

#include "tools/ffpack/run.h"

/* Fills the report's origin and pass, and the run's mean and std: what the settings say, or 0 and
 * 1, which stand in until they are computed; none where nothing is to be normalized. */
FF_MUST_USE ff_status ff_statistics_plan(ff_run *run, ff_error *error);

/* Computes them by a pass over the split that counts, which is kept in the folder `partial`.
 * `metadata`: the split's metadata with what stands in. */
FF_MUST_USE ff_status ff_statistics_measure(ff_run *run, const char *partial,
                                            const ff_metadata *metadata, ff_error *error);

/* Computes them by packing the split that counts into `packing->directory`: its shards stay
 * pending. Where an interrupted run had them already, they are taken from its first shard. */
FF_MUST_USE ff_status ff_statistics_pack(ff_run *run, ff_pack_split *packing, ff_error *error);

#endif
