/* Batch norm in plain loops, sums in double. Formulas: compute.h. */
#include "train/compute/cpu/cpu.h"
#include "train/compute/cpu/reference.h"

#include <math.h>

/* The offset in floats of pixel k of channel c, counted over all samples in the order n, h, w. */
static size_t place(const ff_tensor *t, int c, size_t k) {
    size_t pixels = (size_t)t->h * t->w;
    size_t plane = k / pixels * ff_tensor_blocks(t) + c / t->block;
    return (plane * pixels + k % pixels) * t->block + c % t->block;
}

static size_t values_a_channel(const ff_tensor *t) {
    return (size_t)t->n * t->h * t->w;
}

/* The two roundings here are the same in every pass and table, so that a ReLU's mask can be
 * computed again from x. */
static void scale_shift(const ff_norm *norm, int c, float mean, float inv_std, float *scale,
                        float *shift) {
    *scale = norm->gamma[c] * inv_std;
    *shift = norm->beta[c] - mean * *scale;
}

static void finish(const ff_norm *norm, int c, ff_norm_moments of) {
    const double variance = of.squares / of.m, keep = 1.0 - (double)norm->momentum;
    const double take = (double)norm->momentum, unbiased = of.squares / (of.m > 1 ? of.m - 1 : 1);
    norm->mean[c] = (float)of.mean;
    norm->inv_std[c] = (float)(1.0 / sqrt(variance + (double)norm->epsilon));
    norm->running_mean[c] = (float)(keep * (double)norm->running_mean[c] + take * of.mean);
    norm->running_var[c] = (float)(keep * (double)norm->running_var[c] + take * unbiased);
}

void ff_norm_take(const ff_norm *norm, int c, ff_norm_moments own) {
    if (norm->ranks.count)
        ff_norm_tell(norm, c, own.mean, own.squares);
    else
        finish(norm, c, own);
}

void ff_norm_join(ff_compute *compute, const ff_norm *norm) {
    ff_compute_gather(compute, norm);
    for (int c = 0; c < ff_tensor_padded_channels(&norm->shape); c++)
        finish(norm, c, ff_norm_join_moments(norm, c));
}

/* A channel of a backward pass. */
typedef struct backward_channel {
    const ff_norm_backward *norm;
    int c;
    float scale, shift;
} backward_channel;

static backward_channel channel_of(const ff_norm_backward *norm, int c) {
    backward_channel channel = {.norm = norm, .c = c};
    const ff_norm *forward = &norm->forward;
    scale_shift(forward, c, forward->mean[c], forward->inv_std[c], &channel.scale, &channel.shift);
    return channel;
}

#define LOOPS "train/compute/cpu/reference_norm_loops.inc"
#include "train/compute/cpu/element_variants.inc"
