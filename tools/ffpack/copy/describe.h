/* The metadata of a copy. */
#ifndef FF_FFPACK_COPY_DESCRIBE_H
#define FF_FFPACK_COPY_DESCRIBE_H

#include "tools/ffpack/copy/split.h"

/* *copy = the metadata of a packed split, for `items` samples of one generation, without provenance
 * about the set's items. */
FF_MUST_USE ff_status ff_copy_describe(ff_metadata *copy, const ff_dataset *dataset, uint64_t items,
                                       ff_error *error);

/* Plans the metadata for another dtype, and creates the transform of the samples, u8 values, into
 * it: the values are the same as if the source had been packed with this dtype. FF_USAGE if that is
 * impossible: the set `path` holds no u8 values, or its values do not come from ffpack's transforms
 * of u8 images. */
FF_MUST_USE ff_status ff_copy_convert(ff_metadata *copy, ff_dtype dtype, const char *path,
                                      ff_transform **transform, ff_error *error);

/* Records the copy's origin and what was copied: a run that would continue a different copy is
 * refused. Called after everything else. */
FF_MUST_USE ff_status ff_copy_record(const ff_copy_split *job, ff_error *error);

#endif
