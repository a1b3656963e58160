/* What transform.c (building) and transform_apply.c (the hot loops) share. For these two only. */
#ifndef FF_FFPACK_TRANSFORM_APPLY_H
#define FF_FFPACK_TRANSFORM_APPLY_H

#include "tools/ffpack/image/transform.h"

struct ff_transform {
    ff_value_source source;
    uint32_t channels;
    ff_dtype dtype;
    ff_layout layout;
    double low, high;
    float *mean, *std; /* [channels], or both NULL */
    /* [channels, 256] the dtype's bits of every value of every channel; one of them for u8 sources
     * packed as floats, none otherwise. */
    uint16_t *table16;
    uint32_t *table32;
};

/* Normalize: two float32 operations, which the build must not fuse (-ffp-contract=off). */
static inline float ff_transform_normalize(float value, float mean, float std) {
    float centered = value - mean;
    return centered / std;
}

#endif
