/* The origin of a packing run's mean and std. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_STATISTICS_H
#define FF_FFPACK_STATISTICS_H

#include "tools/ffpack/run/run.h"

/* Fills the report's origin and pass, and the run's mean and std: from the settings, or 0 and 1 as
 * stand-ins until they are computed; NULL without normalization. */
FF_MUST_USE ff_status ff_statistics_plan(ff_run *run, ff_error *error);

/* Computes them by a pass over the split, whose progress is saved in the folder `partial`, or which
 * the parts of a set share (part_counts.h).
 * `metadata`: the split's, with the stand-ins. */
FF_MUST_USE ff_status ff_statistics_measure(ff_run *run, const char *partial,
                                            const ff_metadata *metadata, ff_error *error);

/* Computes them by packing the split into `packing->directory`; its shards stay pending. If an
 * interrupted run has already computed them, they are taken from its first shard. */
FF_MUST_USE ff_status ff_statistics_pack(ff_run *run, ff_pack_split *packing, ff_error *error);

/* Packs a split of a part into `packing->directory`. Its shards stay pending, and the part keeps
 * its own sums: mean and std are known when the parts are merged. */
FF_MUST_USE ff_status ff_statistics_pack_part(ff_run *run, ff_pack_split *packing, ff_error *error);

#endif
