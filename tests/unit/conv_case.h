/* A convolution of a test: drawn, and as a table of the CPU plans it. */
#ifndef FF_TESTS_CONV_CASE_H
#define FF_TESTS_CONV_CASE_H

#include "tests/unit/train_helpers.h"

typedef struct conv_case {
    int n, c, h, w, o, kernel, stride, pad;
    bool bias, images, frozen;
    int groups;
} conv_case;

/* One group; channels that fill blocks and that do not, outputs of at least one pixel. */
static inline conv_case draw_conv_case(dice *d) {
    static const int channels[] = {1, 2, 3, 4, 5, 16, 17, 24, 32, 40, 64, 72};
    static const int kernels[] = {1, 2, 3, 3, 5, 7};
    conv_case k = {
        .n = between(d, 1, 5),
        .c = channels[roll(d, 12)],
        .o = channels[roll(d, 12)],
        .kernel = kernels[roll(d, 6)],
        .stride = between(d, 1, 2),
        .bias = roll(d, 2),
        .images = roll(d, 3) == 0,
        .frozen = roll(d, 4) == 0,
        .groups = 1,
    };
    k.pad = (int)roll(d, (uint32_t)k.kernel / 2 + 1);
    k.h = between(d, k.kernel - 2 * k.pad > 1 ? k.kernel - 2 * k.pad : 1, 15);
    k.w = between(d, k.kernel - 2 * k.pad > 1 ? k.kernel - 2 * k.pad : 1, 15);
    return k;
}

static inline ff_conv_shape conv_case_shape(const ff_compute *compute, const conv_case *k) {
    const ff_compute_ops *ops = compute->ops;
    return (ff_conv_shape){
        .input = {k->n, k->c, k->h, k->w,
                  k->images ? ops->input_block(compute, k->c) : ops->channel_block(compute, k->c)},
        .output = {k->n, k->o, (k->h + 2 * k->pad - k->kernel) / k->stride + 1,
                   (k->w + 2 * k->pad - k->kernel) / k->stride + 1,
                   ops->channel_block(compute, k->o)},
        .kernel = k->kernel,
        .stride = k->stride,
        .pad = k->pad,
        .groups = k->groups,
        .bias = k->bias,
        .input_gradient = !k->images,
        .training = true,
        .frozen = k->frozen,
    };
}

#endif
