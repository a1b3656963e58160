/* The two passes of a resize, one table per kind of CPU; the plain one runs on all. All produce the
 * same bits. For files of this folder, and for tests.
 *
 * Sums are exact modulo 2^32 in any order, so the fast ones split a weight into small signed
 * digits (of 8 or of 12 bits), sum the products of each digit by the instructions that multiply
 * and add small integers, and put the digits' sums together at the end. */
#ifndef FF_FFPACK_RESIZE_PASSES_H
#define FF_FFPACK_RESIZE_PASSES_H

#include "tools/ffpack/image/resize.h"

#define FF_RESIZE_POINT_BITS 22 /* Resample.c: PRECISION_BITS = 32 - 8 - 2 */
#define FF_RESIZE_HALF       (UINT32_C(1) << (FF_RESIZE_POINT_BITS - 1))

typedef struct ff_resize_passes {
    const char *name;

    /* Whether this CPU can run it. NULL: every CPU can. */
    bool (*runs)(void);

    /* Fills axis->table (except `channels`, which the caller sets) for the horizontal pass; `fits`
     * = whether `horizontal` may be called. FF_NO_MEMORY is the only failure. NULL: nothing to
     * prepare. */
    ff_status (*prepare)(ff_resize_axis *axis, uint32_t channels, ff_error *error);

    /* [rows, axis input, channels] -> [rows, axis count, channels]. Rows of the input begin
     * `input_stride` values apart; the output has no padding. Nothing beyond a row's last value is
     * read or written. */
    void (*horizontal)(const ff_resize_axis *axis, uint32_t channels, const uint8_t *input,
                       size_t input_stride, size_t rows, uint8_t *output);

    /* Row r of `input` is the axis's input position first_row + r; the first row_values values of
     * each row are read: -> [axis count, row_values], rows `output_stride` values apart. */
    void (*vertical)(const ff_resize_axis *axis, const uint8_t *input, size_t input_stride,
                     uint32_t first_row, size_t row_values, uint8_t *output, size_t output_stride);
} ff_resize_passes;

extern const ff_resize_passes ff_resize_plain, ff_resize_avx2, ff_resize_avx512;

/* Fastest first; the last is the plain one, then NULL. */
extern const ff_resize_passes *const ff_resize_all[];

/* The first that this CPU can run. */
const ff_resize_passes *ff_resize_best(void);

/* ff_resize by these passes. */
FF_MUST_USE ff_status ff_resize_by(const ff_resize_passes *passes, const ff_image *input,
                                   uint32_t width, uint32_t height, ff_interpolation interpolation,
                                   ff_pass_order order, const ff_region *window,
                                   ff_resize_scratch *scratch, ff_image *output, ff_error *error);

/* Allocates `steps` elements of `bytes` each in axis->table, zeroed, aligned to 64 bytes. */
FF_MUST_USE ff_status ff_resize_table_reserve(ff_resize_axis *axis, uint32_t steps, size_t bytes,
                                              ff_error *error);

#endif
