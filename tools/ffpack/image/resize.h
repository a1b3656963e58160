/* Pillow's resampling, bit for bit (libImaging/Resample.c, ImagingResample of 8-bit images).
 *
 * Per axis, in double: scale = in / out; stretch = max(scale, 1); support = S * stretch (S = 1
 * bilinear, 2 bicubic). For output i: center = (i + 0.5) * scale; the inputs are
 * first = max(0, (int)(center - support + 0.5)) up to min(in, (int)(center + support + 0.5)); the
 * weight of input x is f((x - center + 0.5) * (1 / stretch)), divided by their sequential sum; then
 * fixed point with 22 bits, rounded half away from zero. A pixel is
 * clip8((2^21 + sum of weight * value) >> 22), with an int32 sum, rounded to u8 between the passes;
 * an axis that keeps its length is copied. ff_pass_order decides which pass is first.
 *
 * Only a window of the output is computed: since no output pixel depends on another, the bits are
 * the same as when resizing everything and cropping then.
 *
 * Thread rule: an ff_resize_scratch belongs to one thread at a time. */
#ifndef FF_FFPACK_RESIZE_H
#define FF_FFPACK_RESIZE_H

#include "tools/ffpack/image/image.h"

#include <stdbool.h>

typedef enum ff_interpolation { FF_BILINEAR, FF_BICUBIC, FF_INTERPOLATION_COUNT } ff_interpolation;

/* "bilinear" "bicubic". */
const char *ff_interpolation_name(ff_interpolation interpolation);

/* Which of two passes is first; the other pass reads its rounded values. Resample.c of Pillow 13.0,
 * ImagingResampleInner: "If height is being scaled down more than twice the amount the width is,
 * run the vertical pass first", for h x w to height x width where h > height and
 * h - height > 2 (w - width). In Pillow 12.3 and older the horizontal pass is always first. */
typedef enum ff_pass_order { FF_CHEAPER_FIRST, FF_HORIZONTAL_FIRST } ff_pass_order;

/* A fast horizontal pass' table for an axis and a number of channels. */
typedef struct ff_resize_table {
    uint8_t *memory; /* owned */
    size_t capacity;
    void *step; /* [steps] in memory, aligned to 64 bytes */
    uint32_t steps;
    uint32_t channels; /* what it was made for; 0 = nothing yet */
    bool fits;         /* else the plain pass is used for this axis */
} ff_resize_table;

/* The weights of one axis, for outputs first_output .. first_output + count - 1. Output o reads
 * `taps[o]` inputs from `first[o]` on, with weight[o * stride + k], k < taps[o]; weights beyond
 * taps[o] are zero. */
typedef struct ff_resize_axis {
    uint32_t *first; /* [count] input position; owned */
    uint32_t *taps;  /* [count] owned */
    int32_t *weight; /* [count, stride] fixed point, 22 bits after the point; owned */
    uint32_t count, stride;
    size_t first_capacity, taps_capacity, weight_capacity; /* elements */
    uint32_t input, output, first_output; /* what it was computed for; input 0 = nothing yet */
    ff_interpolation interpolation;
    ff_resize_table table;
} ff_resize_axis;

/* Reused memory: the weights (kept while sizes stay the same) and the image between the passes.
 * Zero-initialised `{0}`; released with ff_resize_scratch_free. */
typedef struct ff_resize_scratch {
    ff_resize_axis horizontal, vertical;
    ff_image between; /* the first pass's result */
} ff_resize_scratch;

/* Fills `axis` for `input` -> `output` pixels, restricted to outputs first_output ..
 * first_output + count - 1. 1 <= input, output <= FF_RESIZE_LIMIT. FF_NO_MEMORY is the only
 * failure. */
#define FF_RESIZE_LIMIT (UINT32_C(1) << 30)
FF_MUST_USE ff_status ff_resize_axis_plan(ff_resize_axis *axis, uint32_t input, uint32_t output,
                                          uint32_t first_output, uint32_t count,
                                          ff_interpolation interpolation, ff_error *error);
void ff_resize_axis_free(ff_resize_axis *axis);

/* The part of an image of input_width x input_height that ff_resize reads for a window of it
 * resized to width x height. Plans the axes, so that ff_resize need not. FF_NO_MEMORY is the only
 * failure. */
FF_MUST_USE ff_status ff_resize_reads(uint32_t input_width, uint32_t input_height, uint32_t width,
                                      uint32_t height, ff_interpolation interpolation,
                                      const ff_region *window, ff_resize_scratch *scratch,
                                      ff_region *reads, ff_error *error);

/* output = the window of `input` resized to width x height. `output` is another image than input
 * and scratch's. Any number of channels. FF_NO_MEMORY is the only failure. */
FF_MUST_USE ff_status ff_resize(const ff_image *input, uint32_t width, uint32_t height,
                                ff_interpolation interpolation, ff_pass_order order,
                                const ff_region *window, ff_resize_scratch *scratch,
                                ff_image *output, ff_error *error);

/* NULL is accepted. */
void ff_resize_scratch_free(ff_resize_scratch *scratch);

#endif
