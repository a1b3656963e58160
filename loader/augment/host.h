/* Applies augmentation parameters that only move pixels, on the host (resampling:
 * loader/augment/resample.h): from the stored sample into the batch, with conversion to the batch's
 * dtype and layout, in one pass.
 *
 * The plain version, one pixel at a time, is the reference; faster versions for the CPU and the
 * types override it and produce the same bits. Values:
 *   float -> float   as stored, exact or rounded to nearest even (a signalling NaN, which no
 *                    conversion makes, may become quiet)
 *   u8 -> float      through a table of channels x 256: ((v / 255) - mean) / std, each operation in
 *                    f32 (torchvision's ToTensor and Normalize), then rounded; without statistics
 *                    v / 255
 *   u16 -> float     x = (v - LO) / (HI - LO) in double, rounded to f32, by the recorded "to_tensor
 *                    range=LO,HI" (without one: the plain value); then (x - mean) / std as for u8
 *   u8, u16 -> same  as stored; u8 may be resampled
 *   padding          black: the value of x = 0 in the dataset's dtype
 *   cutout           0
 * Thread rule: an ff_augment_host is read-only after creation; apply may run in any number of
 * threads. */
#ifndef FF_LOADER_AUGMENT_HOST_H
#define FF_LOADER_AUGMENT_HOST_H

#include "format/disk/metadata.h"
#include "loader/augment/augment.h"

#include <math.h>

typedef struct ff_augment_host ff_augment_host;

/* source: [C,H,W] or [H,W,C] of the dataset's dtype, height x width; out: [C,out_height,out_width]
 * or [out_height,out_width,C] of `to`, at least element-aligned. Reads nothing but the source, so
 * it may run under ff_guard_run. */
typedef void (*ff_augment_apply)(const ff_augment_host *host, const ff_augment_params *params,
                                 const void *source, uint32_t height, uint32_t width, void *out);

/* How raw u16 values of a channel become floats. */
typedef struct ff_augment_words {
    double low, width;
    float mean, std;
} ff_augment_words;

static inline float ff_augment_word(const ff_augment_words *words, uint16_t value) {
    float x = (float)(((double)value - words->low) / words->width);
    x = x - words->mean;
    return x / words->std;
}

/* 1 / divisor as the sum of two floats. */
typedef struct ff_augment_inverse {
    float high, low;
} ff_augment_inverse;

static inline ff_augment_inverse ff_augment_inverse_of(float divisor) {
    const float high = 1 / divisor;
    return (ff_augment_inverse){high, fmaf(-divisor, high, 1) / divisor};
}

/* value / divisor by two operations (Brisebarre, Muller, Raina, "Accelerating Correctly Rounded
 * Floating-Point Division When the Divisor Is Known in Advance", IEEE Transactions on Computers
 * 53(8), 2004): vectors do the same at a fraction of a division's time. */
static inline float ff_augment_divided(float value, ff_augment_inverse inverse) {
    return fmaf(value, inverse.high, value * inverse.low);
}

/* How u8 values of a channel become floats without a table: ((value / 255) - mean) / std, of which
 * the quotient and the mean are times 2^32, and 1 / std is times 2^-32, all exactly. */
typedef struct ff_augment_scale {
    float mean;
    ff_augment_inverse std;
} ff_augment_scale;

/* 1 / 255 times 2^32. */
static inline ff_augment_inverse ff_augment_range_inverse(void) {
    const ff_augment_inverse one = ff_augment_inverse_of(255);
    return (ff_augment_inverse){one.high * 0x1p32f, one.low * 0x1p32f};
}

/* Not correctly rounded for all divisors: the table decides whether it is used. */
static inline float ff_augment_scaled(const ff_augment_scale *scale, uint8_t value) {
    return ff_augment_divided(ff_augment_divided(value, ff_augment_range_inverse()) - scale->mean,
                              scale->std);
}

struct ff_augment_host {
    ff_augment_apply apply; /* the fastest version for this CPU */
    const char *name;       /* of it: "rows", "avx2", "shuffles", "avx512", "vbmi" */

    ff_dtype from, to;
    ff_layout from_layout, to_layout;
    uint32_t channels, out_height, out_width;
    size_t from_bytes, to_bytes; /* of an element */
    ff_pad_mode pad_mode;

    /* [channels] padding elements of `to`, each in the low bytes of its word. */
    uint32_t *black;
    /* u8 to float: [channels][256] elements of `to`; else NULL. */
    void *table;
    /* u8 to float: [channels], if all entries of the table have ff_augment_scaled's bits; else
     * NULL.
     */
    ff_augment_scale *scale;
    /* u16 to float: [channels]; else NULL. */
    ff_augment_words *words;
    bool scaled; /* `words` change the values */
    /* To u8, resampled: the value in f32, rounded, from which values of u8 are changed; else as
     * batches have it (loader/augment/resample.h). */
    bool rounds;
    /* The output is larger than the caches: its rows pass them by, where that is faster. */
    bool streams;
};

/* Prepares `apply` for samples of `metadata`. FF_USAGE where its dtype cannot be converted to `to`,
 * or where values stay as stored and a cutout, or of u16 resampling, is asked for. Released with
 * ff_augment_host_free. */
FF_MUST_USE ff_status ff_augment_host_init(ff_augment_host *host, const ff_metadata *metadata,
                                           const ff_augment_spec *spec, ff_dtype to,
                                           ff_layout to_layout, uint32_t out_height,
                                           uint32_t out_width, ff_error *error);
void ff_augment_host_free(ff_augment_host *host);

/* The raw values that become 0 and 1 before mean and std: of u8 0 and 255, of u16 as recorded. */
void ff_augment_range(const ff_metadata *metadata, double *low, double *high);

/* The versions, for tests. ff_augment_rows is portable C; the others are NULL where CPU, build or
 * types do not support them. */
void ff_augment_plain(const ff_augment_host *host, const ff_augment_params *params,
                      const void *source, uint32_t height, uint32_t width, void *out);
void ff_augment_rows(const ff_augment_host *host, const ff_augment_params *params,
                     const void *source, uint32_t height, uint32_t width, void *out);
ff_augment_apply ff_augment_avx2(const ff_augment_host *host);
ff_augment_apply ff_augment_shuffles_avx2(const ff_augment_host *host);
ff_augment_apply ff_augment_avx512(const ff_augment_host *host);
ff_augment_apply ff_augment_bytes_avx512(const ff_augment_host *host);

/* Whether this CPU has AVX-512: the shuffles with AVX2 were not measured beside its versions. */
bool ff_augment_wide(void);

/* Zeroes the cutout of an output, if any; shared by the fast versions. */
void ff_augment_cut(const ff_augment_host *host, const ff_augment_params *params, void *out);

/* Prefetches what comes 1 KiB after a row, which may be outside the sample; shared by the AVX2
 * versions and the resamplers. Of photographs that are not in the caches, few rows are on their way
 * at once without it: a processor does not look further than some hundred instructions, and its own
 * prefetches end with the page. Short rows are of samples that the loader has prefetched. */
static inline void ff_augment_ask(const uint8_t *row, size_t bytes) {
    for (size_t at = 0; bytes >= 128 && at < bytes; at += 64)
        __builtin_prefetch((const void *)((uintptr_t)row + 1024 + at));
}

/* The columns (or rows) [begin, end) of the output whose source is inside `width` (`height`).
 * `source` is the source of `begin`; the next ones follow it upwards, or downwards where columns
 * are flipped. Without such a column begin = end = the output's size. */
typedef struct ff_augment_span {
    uint32_t begin, end;
    uint32_t source;
} ff_augment_span;
ff_augment_span ff_augment_columns(const ff_augment_host *host, const ff_augment_params *params,
                                   uint32_t width);
ff_augment_span ff_augment_lines(const ff_augment_host *host, const ff_augment_params *params,
                                 uint32_t height);

#endif
