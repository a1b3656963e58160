/* Gaussian blur of u8 images: the weights and the sums, one source for host (C11) and CUDA C.
 *
 * Source: gaussian_blur_image of torchvision 0.29's transforms/v2/functional/_misc.py on u8
 * tensors, with the same value in every pixel as torch computes on a CPU with AVX2: the weights of
 * one direction are softmax(-(x / sigma)^2) at `size` places x, all operations in f32 in the order
 * of torch's vectors of 8; a pixel is the sum over rows and columns of (weight of the row * weight
 * of the column) * value, one fused multiply-add after the other, rounded to the nearest integer,
 * halves to even. Values outside are reflected without the edge. Thread rule: everything here is
 * pure. */
#ifndef FF_LOADER_AUGMENT_CHANGE_BLUR_H
#define FF_LOADER_AUGMENT_CHANGE_BLUR_H

#include "loader/augment/change/change.h"

#define FF_BLUR_MOST 63 /* the largest size of a kernel */

/* e^x for -104 <= x <= 0: N. Shibata and F. Petrogalli's Sleef_expf_u10 (SLEEF 3.6, Boost
 * license's formulas and constants), which torch's vectors call; 0 below. */
FF_HD float ff_blur_exp(float x) {
    const float whole = ff_change_round(x * 1.442695040888963407f);
    float s = fmaf(whole, -0.693145751953125f, x), u = 0.000198527617612853646278381f;
    s = fmaf(whole, -1.428606765330187045e-06f, s);
    u = fmaf(u, s, 0.00139304355252534151077271f);
    u = fmaf(u, s, 0.00833336077630519866943359f);
    u = fmaf(u, s, 0.0416664853692054748535156f);
    u = fmaf(u, s, 0.166666671633720397949219f);
    u = fmaf(u, s, 0.5f);
    u = 1.0f + fmaf(s * s, u, s);
    return x < -104.0f ? 0.0f : ldexpf(u, (int)whole);
}

/* torch.linspace(-limit, limit, size): whole pairs of vectors of 8 count from their first place. */
FF_HD float ff_blur_place(uint32_t at, uint32_t size) {
    const float limit = (float)((size - 1) / (2.0 * 1.4142135623730951));
    const float step = (limit + limit) / (float)(size - 1);
    const uint32_t lane = at < size / 16 * 16 ? at % 8 : 0, first = at - lane;
    const float begin = first < size / 2 ? fmaf(step, (float)first, -limit)
                                         : fmaf(-step, (float)(size - 1 - first), limit);
    return begin + (float)lane * step;
}

/* The weights of one direction; size: odd, at most FF_BLUR_MOST. */
FF_HD void ff_blur_kernel(float *kernel, uint32_t size, float sigma) {
    float part[8], most = -INFINITY;
    for (uint32_t i = 0; i < size; i++) {
        const float place = size > 1 ? ff_blur_place(i, size) / sigma : 0.0f;
        kernel[i] = -(place * place);
        most = kernel[i] > most ? kernel[i] : most;
    }
    for (uint32_t i = 0; i < size; i++) kernel[i] = ff_blur_exp(kernel[i] - most);
    for (uint32_t i = 0; i < 8; i++) part[i] = i < size ? kernel[i] : 0.0f;
    for (uint32_t i = 8; i < size; i++) part[i % 8] += kernel[i];
    float sum = part[0];
    if (size < 8)
        for (uint32_t i = 1; i < size; i++) sum += part[i];
    else
        sum = ((part[0] + part[4]) + (part[2] + part[6])) +
              ((part[1] + part[5]) + (part[3] + part[7]));
    sum = 1.0f / sum;
    for (uint32_t i = 0; i < size; i++) kernel[i] *= sum;
}

/* The row or column `at` of `side`, outside of which it lies by less than `side`. */
FF_HD uint32_t ff_blur_reflect(int32_t at, uint32_t side) {
    const int32_t last = (int32_t)side - 1;
    at = at < 0 ? -at : at;
    return (uint32_t)(at > last ? 2 * last - at : at);
}

#ifndef __CUDACC__
/* Blurs a plane of height x width, both more than size / 2, into `to`. */
void ff_blur_plane(const ff_change *change, const uint8_t *plane, uint8_t *to, uint32_t height,
                   uint32_t width);
#endif

#endif
