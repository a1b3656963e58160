/* The weights of one axis of an antialiased resampling of u8 to u8, in fixed point, one source for
 * host (C11) and CUDA C.
 *
 * Source: ATen's _compute_indices_int16_weights_aa (torch 2.15, native/cpu/UpSampleKernel.cpp),
 * which torchvision 0.29's v2 calls for u8 tensors. Windows and weights are those of
 * loader/augment/resample.h, in f64. A weight w becomes the integer floor(w 2^precision + 0.5),
 * with the largest precision <= 22 at which the axis' largest weight stays below 2^15; one axis
 * after the other, rows first, a value is
 *   (sum of weight * u8 + 2^(precision - 1)) >> precision, at most 255,
 * and u8 between the axes. Thread rule: pure. */
#ifndef FF_LOADER_AUGMENT_RESAMPLE_FIXED_H
#define FF_LOADER_AUGMENT_RESAMPLE_FIXED_H

#include "loader/sequence/philox.h"

/* An axis of `in` input pixels. */
typedef struct ff_fixed_axis {
    uint32_t in, out, most; /* most: the most inputs that an output reads */
    double scale, support, shrink;
} ff_fixed_axis;

/* What one output reads: inputs [first, first + count), each weighted by raw weight / sum. */
typedef struct ff_fixed_window {
    uint32_t first, count;
    double center, sum;
} ff_fixed_window;

FF_HD ff_fixed_axis ff_fixed_axis_of(uint32_t in, uint32_t out) {
    ff_fixed_axis axis;
    axis.in = in;
    axis.out = out;
    axis.scale = (double)in / out;
    axis.support = axis.scale >= 1 ? axis.scale : 1;
    axis.shrink = axis.scale >= 1 ? 1 / axis.scale : 1;
    /* Twice the support, plus what rounding may add at both ends. */
    const uint64_t most = 2 * (uint64_t)axis.support + 3;
    axis.most = most < in ? (uint32_t)most : in;
    return axis;
}

/* The raw weight of input `at` for an output with this center. */
FF_HD double ff_fixed_raw(const ff_fixed_axis *axis, double center, uint32_t at) {
    double away = ((double)at - center + 0.5) * axis->shrink;
    away = away < 0 ? -away : away;
    return away < 1 ? 1 - away : 0;
}

/* The window of output `at`, within the axis. No later output begins earlier. */
FF_HD ff_fixed_window ff_fixed_window_of(const ff_fixed_axis *axis, uint32_t at) {
    ff_fixed_window window;
    window.center = axis->scale * (at + 0.5);
    int64_t begin = (int64_t)(window.center - axis->support + 0.5);
    int64_t end = (int64_t)(window.center + axis->support + 0.5);
    if (begin < 0) begin = 0;
    if (end > axis->in) end = axis->in;
    window.first = (uint32_t)begin;
    window.count = (uint32_t)(end - begin);
    window.sum = 0;
    for (uint32_t k = 0; k < window.count; k++)
        window.sum += ff_fixed_raw(axis, window.center, window.first + k);
    return window;
}

/* Weight k of a window, between 0 and 1. */
FF_HD double ff_fixed_share(const ff_fixed_axis *axis, const ff_fixed_window *window, uint32_t k) {
    return ff_fixed_raw(axis, window->center, window->first + k) / window->sum;
}

/* The largest weight of an output. */
FF_HD double ff_fixed_largest(const ff_fixed_axis *axis, uint32_t at) {
    const ff_fixed_window window = ff_fixed_window_of(axis, at);
    double largest = 0;
    for (uint32_t k = 0; k < window.count; k++) {
        const double share = ff_fixed_share(axis, &window, k);
        largest = share > largest ? share : largest;
    }
    return largest;
}

/* The precision of an axis whose largest weight this is. An axis that is not reduced has a weight
 * of 1: its first output has one input, or all outputs have. */
FF_HD uint32_t ff_fixed_precision(double largest) {
    uint32_t precision = 0;
    while (precision < 22 && (int32_t)(0.5 + largest * (1 << (precision + 1))) < 1 << 15)
        precision++;
    return precision;
}

/* A weight of 1 on an axis whose largest weight it is. */
#define FF_FIXED_WHOLE (1 << 14)

FF_HD int32_t ff_fixed_weight(double share, uint32_t precision) {
    return (int32_t)(0.5 + share * (1 << precision));
}

/* The value of a sum of products. */
FF_HD uint8_t ff_fixed_value(int32_t sum, uint32_t precision) {
    const int32_t value = (sum + (1 << (precision - 1))) >> precision;
    return (uint8_t)(value < 255 ? value : 255);
}

#endif
