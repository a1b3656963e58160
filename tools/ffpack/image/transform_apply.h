/* What transform.c (building), transform_apply.c (the hot loops) and transform_avx512.c (the same,
 * faster) share. For these only, and for tests. */
#ifndef FF_FFPACK_TRANSFORM_APPLY_H
#define FF_FFPACK_TRANSFORM_APPLY_H

#include "tools/ffpack/image/transform.h"

/* out[i] = table[in[i * step]] for i from 0 on, step 1 or 3: fast ones do as many of the `count` as
 * they can, and return how many they did. Nothing beyond the last value is read. */
typedef size_t (*ff_transform_run_16)(const uint16_t *table, const uint8_t *in, size_t step,
                                      size_t count, uint16_t *out);

/* NULL where this CPU cannot. */
ff_transform_run_16 ff_transform_avx512(void);

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
    ff_transform_run_16 run_16; /* NULL: the plain loops */
};

/* Normalize: two float32 operations, which the build must not fuse (-ffp-contract=off). */
static inline float ff_transform_normalize(float value, float mean, float std) {
    float centered = value - mean;
    return centered / std;
}

#endif
