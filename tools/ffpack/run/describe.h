/* The metadata of a split, from the source and the settings. */
#ifndef FF_FFPACK_DESCRIBE_H
#define FF_FFPACK_DESCRIBE_H

#include "tools/ffpack/image/transform.h"
#include "tools/ffpack/split/sample.h"

/* The transform of every sample: `mean` and `std` are [plan->channels], or both NULL. */
ff_transform_spec ff_describe_transform(const ff_settings *settings, const ff_sample_plan *plan,
                                        const float *mean, const float *std);

/* Fills and plans the metadata of `split`. mean and std as above. `origin` describes where they
 * come from. With --compress on floats the filter is the transform's table. */
FF_MUST_USE ff_status ff_describe_split(ff_metadata *metadata, const ff_settings *settings,
                                        const ff_sample_plan *plan, const ff_source_split *split,
                                        const float *mean, const float *std, const char *origin,
                                        ff_error *error);

/* Sets filter and table: the 256 values of every channel that the transform makes of u8 values. */
FF_MUST_USE ff_status ff_describe_table(ff_metadata *metadata, const ff_transform_spec *spec,
                                        ff_error *error);

#endif
