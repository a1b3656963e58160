/* The weights of one axis of an antialiased resampling (source and formulas:
 * loader/augment/resample.h), one source for host (C11) and CUDA C. All types are as in ATen's
 * templates for float tensors: the bits are the same. Thread rule: pure. */
#ifndef FF_LOADER_AUGMENT_RESAMPLE_WEIGHTS_H
#define FF_LOADER_AUGMENT_RESAMPLE_WEIGHTS_H

#include "loader/sequence/philox.h"

/* An axis of `in` input pixels. */
typedef struct ff_resample_axis {
    uint32_t in, most; /* most: the most inputs that an output reads */
    float scale, support, shrink;
} ff_resample_axis;

/* What one output reads: inputs [first, first + count), each weighted by raw weight / sum. */
typedef struct ff_resample_window {
    uint32_t first, count;
    float center, sum; /* sum 0: one input, whose weight is 1 */
} ff_resample_window;

FF_HD ff_resample_axis ff_resample_axis_of(uint32_t in, uint32_t out) {
    ff_resample_axis axis;
    axis.in = in;
    axis.scale = (float)in / (float)out;
    axis.support = axis.scale >= 1.0f ? axis.scale : 1.0f;
    axis.shrink = axis.scale >= 1.0f ? (float)(1.0 / (double)axis.scale) : 1.0f;
    /* Twice the support, plus what rounding may add at both ends. */
    uint64_t most = 2 * (uint64_t)axis.support + 4;
    axis.most = most < in ? (uint32_t)most : in;
    return axis;
}

/* The raw weight of the window's input number k. */
FF_HD float ff_resample_raw(const ff_resample_axis *axis, const ff_resample_window *window,
                            uint32_t k) {
    float away = (float)(((double)((float)((int64_t)window->first + k) - window->center) + 0.5) *
                         (double)axis->shrink);
    if (away < 0) away = -away;
    return away < 1.0f ? (float)(1.0 - (double)away) : 0.0f;
}

/* The inputs of output `at`, all within the axis, including inputs of weight 0 at the end; without
 * the sum. */
FF_HD ff_resample_window ff_resample_reach(const ff_resample_axis *axis, uint32_t at) {
    ff_resample_window window;
    window.center = (float)((double)axis->scale * (at + 0.5));
    window.sum = 0;
    int64_t begin = (int64_t)((double)(window.center - axis->support) + 0.5);
    int64_t end = (int64_t)((double)(window.center + axis->support) + 0.5);
    /* Stay inside even on axes so long that f32 cannot distinguish their pixels. */
    if (begin > (int64_t)axis->in - 1) begin = (int64_t)axis->in - 1;
    if (begin < 0) begin = 0;
    if (end > axis->in) end = axis->in;
    if (end <= begin) end = begin + 1;
    window.first = (uint32_t)begin;
    window.count = (uint32_t)(end - begin);
    if (window.count > axis->most) window.count = axis->most;
    return window;
}

/* The most inputs that an output of `in` -> `out` pixels reads. */
FF_HD uint32_t ff_resample_taps(uint32_t in, uint32_t out) {
    return ff_resample_axis_of(in, out).most;
}

/* What output `at` of the axis reads, and its weights in weight[0] to weight[count - 1]; `weight`
 * has space for axis->most. No later output begins earlier. */
FF_HD ff_resample_window ff_resample_weigh(const ff_resample_axis *axis, uint32_t at,
                                           float *weight) {
    ff_resample_window window = ff_resample_reach(axis, at);
    for (uint32_t k = 0; k < window.count; k++) {
        weight[k] = ff_resample_raw(axis, &window, k);
        window.sum += weight[k];
    }
    while (window.count > 1 && weight[window.count - 1] == 0.0f) window.count--;
    if (window.sum != 0)
        for (uint32_t k = 0; k < window.count; k++) weight[k] /= window.sum;
    else
        weight[0] = 1, window.count = 1;
    return window;
}

/* The same without storing weights: the window, and one weight at a time. */
FF_HD ff_resample_window ff_resample_measure(const ff_resample_axis *axis, uint32_t at) {
    ff_resample_window window = ff_resample_reach(axis, at);
    for (uint32_t k = 0; k < window.count; k++) window.sum += ff_resample_raw(axis, &window, k);
    while (window.count > 1 && ff_resample_raw(axis, &window, window.count - 1) == 0.0f)
        window.count--;
    if (window.sum == 0) window.count = 1;
    return window;
}
FF_HD float ff_resample_weight(const ff_resample_axis *axis, const ff_resample_window *window,
                               uint32_t k) {
    return window->sum != 0 ? ff_resample_raw(axis, window, k) / window->sum : 1.0f;
}

#endif
