/* The passes of a resampling, a row at a time, for loader/augment/resample.c: an axis' weights, and
 * the kernels. The portable kernels are loops that compilers vectorize; faster ones for the CPU
 * override them. All produce the same bits. Thread rule: pure. */
#ifndef FF_LOADER_AUGMENT_RESAMPLE_ROWS_H
#define FF_LOADER_AUGMENT_RESAMPLE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/disk/dtype.h"
#include "loader/augment/resample_weights.h"

/* The weights of output `at` < out of an axis of `in` pixels: returns how many inputs it reads,
 * from 1 to ff_resample_taps, and *first, the first one. All are within the axis, and no later
 * output begins earlier. */
uint32_t ff_resample_weights(uint32_t in, uint32_t out, uint32_t at, float *weight,
                             uint32_t *first);

/* Outputs are computed this many at a time; rows between the passes are padded to it. */
#define FF_RESAMPLE_LANES 16u
/* The same for LANES outputs of one axis, which are lane[0] to lane[LANES - 1]: returns the most
 * inputs of one. weight: [axis->most][lanes], of which the returned number are set; those after an
 * output's own are 0. */
uint32_t ff_resample_weigh_lanes(const ff_resample_axis *axis, const uint32_t *lane, float *weight,
                                 uint32_t *first, uint32_t *taps);

/* How far after the last pixel of a row a kernel may load, without using it. */
#define FF_RESAMPLE_BEYOND 64u
/* Rows of down_bytes are padded to a multiple of it. */
#define FF_RESAMPLE_BYTES 64u

/* How kernels that shuffle 16 bytes find the first inputs of FF_RESAMPLE_LANES outputs: output i
 * begins at base + offset[i / 4] + place[i]. */
typedef struct ff_resample_fours {
    bool near;  /* all places are below 15: a shuffle reaches the next input, too */
    bool pairs; /* and two fours each have the same offset */
    uint32_t offset[FF_RESAMPLE_LANES / 4];
    uint32_t place[FF_RESAMPLE_LANES];
} ff_resample_fours;

/* index: from base, rising or falling. */
static inline ff_resample_fours ff_resample_fours_of(const uint32_t index[FF_RESAMPLE_LANES]) {
    ff_resample_fours fours = {.near = true, .pairs = true};
    for (uint32_t i = 0; i < FF_RESAMPLE_LANES; i += 8) {
        const uint32_t *at = index + i;
        const uint32_t span = at[0] < at[7] ? at[7] - at[0] : at[0] - at[7];
        fours.pairs &= span < 15;
    }
    const uint32_t together = fours.pairs ? 8 : 4;
    for (uint32_t i = 0; i < FF_RESAMPLE_LANES; i++) {
        const uint32_t first = index[i / together * together];
        const uint32_t last = index[i / together * together + together - 1];
        const uint32_t offset = first < last ? first : last;
        fours.offset[i / 4] = offset;
        fours.place[i] = index[i] - offset;
        fours.near &= fours.place[i] < 15;
    }
    return fours;
}

/* FF_RESAMPLE_LANES neighbouring outputs of a row. */
typedef struct ff_resample_block {
    uint32_t base; /* first input that they read */
    uint32_t span; /* inputs from there to after the last one they read */
    uint32_t taps; /* the most inputs of one output */
    /* [taps][lanes]: weights, and indexes of inputs from base on. After an output's own taps the
     * weights are 0 and its last input is repeated. */
    float *weight;
    int32_t *index;
    ff_resample_fours fours; /* if the kernels read by fours */
} ff_resample_block;

/* Outputs of two inputs a and b whose weights, in fixed point, make up 2^14: with w that of b,
 * (a (2^14 - w) + b w + 2^13) >> 14 = a + ((b - a) 2 w + 2^14 >> 15), which one instruction for
 * words of 16 bits computes from b - a and 2 w. An output whose w is 2^14 has b in place of a. */
typedef struct ff_resample_blend {
    bool whole; /* all outputs of the block are such */
    /* The shuffles that make words of a and b, of 16 bytes from the offset of the outputs' eight.
     */
    uint8_t a[2 * FF_RESAMPLE_LANES], b[2 * FF_RESAMPLE_LANES];
    int16_t share[FF_RESAMPLE_LANES]; /* 2 w */
} ff_resample_blend;

/* The same in fixed point (loader/augment/resample_fixed.h). Output i reads the inputs
 * base + index[i] + 2 k and the next one, k < pairs. */
typedef struct ff_resample_byte_block {
    uint32_t base, span, pairs;
    uint32_t index[FF_RESAMPLE_LANES];
    int16_t *weight;         /* [pairs][lanes][2] */
    ff_resample_fours fours; /* if the kernels read by fours */
    ff_resample_blend blend; /* the same */
} ff_resample_byte_block;

/* A table without some entries: those of slower kernels stay, except across_u8. */
typedef struct ff_resample_kernels {
    const char *name; /* "rows", "avx2", "avx512" */
    bool by_fours;    /* the kernels of u8 read the blocks' fours */
    /* to = count elements of `from`, as f32. */
    void (*read)(float *to, const void *from, ff_dtype dtype, size_t count);
    /* to = count elements of `dtype`, rounded to nearest even. */
    void (*write)(void *to, ff_dtype dtype, const float *from, size_t count);
    /* The horizontal pass of `planes` rows, from_stride apart, into rows of `blocks` x lanes,
     * to_stride apart. */
    void (*across)(const ff_resample_block *block, uint32_t blocks, const float *from,
                   size_t from_stride, uint32_t planes, float *to, size_t to_stride);
    /* The same from u8; NULL: they are read first. */
    void (*across_u8)(const ff_resample_block *block, uint32_t blocks, const uint8_t *from,
                      size_t from_stride, uint32_t planes, float *to, size_t to_stride);
    /* The vertical pass: to[i] = sum of weight[k] * row[k][at + i], k < taps, and with `scale` that
     * * scale[0] + scale[1]. The rows are at multiples of lanes, and padded to them. streams: `to`
     * may pass the caches by, until a fence. */
    void (*down)(float *to, const float *const *row, size_t at, const float *weight, uint32_t taps,
                 size_t count, const float *scale, bool streams);
    /* Three planes, `stride` apart, interleaved into `to`. streams: as for `down`. */
    void (*join)(float *to, const float *from, size_t stride, size_t pixels, bool streams);
    /* The passes in fixed point. Weights of down_bytes: [pairs][2], of rows [pairs][2], which it
     * reads from `at` on, a multiple of FF_RESAMPLE_BYTES. */
    void (*across_bytes)(const ff_resample_byte_block *block, uint32_t blocks, uint32_t precision,
                         const uint8_t *from, size_t from_stride, uint32_t planes, uint8_t *to,
                         size_t to_stride);
    void (*down_bytes)(uint8_t *to, const uint8_t *const *row, size_t at, const int16_t *weight,
                       uint32_t pairs, uint32_t precision, size_t count);
} ff_resample_kernels;

extern const ff_resample_kernels ff_resample_rows;
/* NULL where CPU or build do not support them. */
const ff_resample_kernels *ff_resample_avx2(void);
const ff_resample_kernels *ff_resample_avx512(void);

#endif
