/* Statistics: one pass over a split's samples into exact histograms, side by side. */
#ifndef FF_FFPACK_MEASURE_H
#define FF_FFPACK_MEASURE_H

#include "tools/ffpack/sample.h"

/* Of u8 and u16 values only. mean and std: [plan->channels] f32. With `skip`, items that cannot be
 * read are left out, as they are when packing. Prints progress unless `quiet`; ends with
 * FF_INTERRUPTED on a signal. */
FF_MUST_USE ff_status ff_measure(const ff_sample_plan *plan, const ff_source_split *split, int jobs,
                                 bool skip, bool quiet, float *mean, float *std, ff_error *error);

#endif
