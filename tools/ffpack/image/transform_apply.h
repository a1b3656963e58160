/* Shared by transform.c (building), transform_apply.c (the hot loops) and transform_avx512.c
 * (faster ones). For these only, and for tests. */
#ifndef FF_FFPACK_TRANSFORM_APPLY_H
#define FF_FFPACK_TRANSFORM_APPLY_H

#include "tools/ffpack/image/transform.h"

/* Faster versions of the hot loops for a kind of CPU; NULL if there is none. They process a first
 * part of the `count` values and return its length; the caller processes the rest. Nothing beyond
 * the last value is read. */
typedef struct ff_transform_fast {
    /* out[i] = table[in[i * step]], step 1 or 3. */
    size_t (*run_16)(const uint16_t *table, const uint8_t *in, size_t step, size_t count,
                     uint16_t *out);
    /* out[i] = in[i * 3]. */
    size_t (*third_bytes)(const uint8_t *in, size_t count, uint8_t *out);
} ff_transform_fast;

ff_transform_fast ff_transform_avx512(void);

struct ff_transform {
    ff_value_source source;
    uint32_t channels;
    ff_dtype dtype;
    ff_layout layout;
    double low, high;
    float *mean, *std; /* [channels], or both NULL */
    /* [channels, 256] the dtype's bits of every value of every channel; one table for u8 sources
     * packed as floats, otherwise none. */
    uint16_t *table16;
    uint32_t *table32;
    bool always_finite; /* every value that an output can hold is: tables, integers */
    ff_transform_fast fast;
};

/* Normalize: two float32 operations, which the build must not fuse (-ffp-contract=off). */
static inline float ff_transform_normalize(float value, float mean, float std) {
    float centered = value - mean;
    return centered / std;
}

#endif
