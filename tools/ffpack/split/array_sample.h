/* Makes the values of samples that are arrays of numbers other than u8: crops first, then converts
 * to native u16 or f32. Thread rule: a scratch belongs to one thread. */
#ifndef FF_FFPACK_ARRAY_SAMPLE_H
#define FF_FFPACK_ARRAY_SAMPLE_H

#include "tools/ffpack/split/sample.h"

/* Zero-initialised. */
typedef struct ff_array_scratch {
    unsigned char *cropped;
    void *values;
} ff_array_scratch;

/* Makes a sample from an item's bytes: *values = u16 or f32 (plan->values), in the layout of the
 * source, valid until the scratch's next use. */
FF_MUST_USE ff_status ff_array_sample_make(const ff_sample_plan *plan, const unsigned char *bytes,
                                           ff_array_scratch *scratch, const void **values,
                                           ff_error *error);
void ff_array_scratch_free(ff_array_scratch *scratch);

#endif
