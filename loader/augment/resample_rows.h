/* The passes of a resampling, a row at a time, for loader/augment/resample.c: an axis' weights, and
 * the kernels. The portable kernels are loops that compilers vectorize; faster ones for the CPU
 * override them. All produce the same bits. Thread rule: pure. */
#ifndef FF_LOADER_AUGMENT_RESAMPLE_ROWS_H
#define FF_LOADER_AUGMENT_RESAMPLE_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "format/dtype.h"
#include "loader/augment/resample_weights.h"

/* The weights of output `at` < out of an axis of `in` pixels: returns how many inputs it reads,
 * from 1 to ff_resample_taps, and *first, the first one. All are within the axis, and no later
 * output begins earlier. */
uint32_t ff_resample_weights(uint32_t in, uint32_t out, uint32_t at, float *weight,
                             uint32_t *first);

/* Outputs are computed this many at a time; rows between the passes are padded to it. */
#define FF_RESAMPLE_LANES 16u
/* How far after the last pixel of a row a kernel may load, without using it. */
#define FF_RESAMPLE_BEYOND 64u

/* FF_RESAMPLE_LANES neighbouring outputs of a row. */
typedef struct ff_resample_block {
    uint32_t base; /* first input that they read */
    uint32_t span; /* inputs from there to after the last one they read */
    uint32_t taps; /* the most inputs of one output */
    /* [taps][lanes]: weights, and indexes of inputs from base on. After an output's own taps the
     * weights are 0 and its last input is repeated. */
    float *weight;
    int32_t *index;
} ff_resample_block;

typedef struct ff_resample_kernels {
    const char *name; /* "rows", "avx2", "avx512" */
    /* to = count elements of `from`, as f32. */
    void (*read)(float *to, const void *from, ff_dtype dtype, size_t count);
    /* to = count elements of `dtype`, rounded to nearest even. */
    void (*write)(void *to, ff_dtype dtype, const float *from, size_t count);
    /* The horizontal pass of `planes` rows, from_stride apart, into rows of `blocks` x lanes,
     * to_stride apart. */
    void (*across)(const ff_resample_block *block, uint32_t blocks, const float *from,
                   size_t from_stride, uint32_t planes, float *to, size_t to_stride);
    /* The vertical pass: to[i] = sum of weight[k] * row[k][i], k < taps; count is a multiple of
     * lanes. */
    void (*down)(float *to, const float *const *row, const float *weight, uint32_t taps,
                 size_t count);
} ff_resample_kernels;

extern const ff_resample_kernels ff_resample_rows;
/* NULL where CPU or build do not support them. */
const ff_resample_kernels *ff_resample_avx2(void);
const ff_resample_kernels *ff_resample_avx512(void);

#endif
