/* Depthwise 3x3 convolutions over blocked activations, also with the norm and ReLU6 before them
 * (ff_fold): a plane of the input (a block of channels of one sample) makes one plane of the
 * output.
 *
 * With a norm the tensor between the two is never written. Forward, the norm's second pass reads x
 * and writes the convolution's y. Backward, the first pass computes the filter's gradient and the
 * norm's sums from x and dy, the second pass computes the gradient that reaches the norm again from
 * dy instead of reading it, and writes the norm's dx. In f32 the results have the bits of the norm
 * and the convolution apart: the same operations in the same order. In bf16 what would be between
 * them is not rounded. */
#include "train/compute/cpu/fused_depthwise.h"

#include "format/disk/dtype.h"
#include "train/compute/cpu/fused_norm.h"
#include "train/compute/cpu/gelu.h"
#include "train/compute/cpu/narrow.h"
#include "train/compute/vector.h"

#include <omp.h>
#include <string.h>

/* Arguments of the kernels for one plane; see fused_depthwise_kernels.inc. */
typedef struct plane_arguments {
    int height, width, outputs_high, outputs_wide, stride;
    const void *x, *dy;
    void *to;                                         /* y or dx */
    const float *filter, *bias;                       /* [3][3][lanes], [lanes] */
    const float *scale, *shift, *mean, *slope, *base; /* of a folded norm; NULL = none */
    float *ring;                                      /* [4][ring_row][lanes] */
    int ring_row;
    double *dw, *sum, *products; /* [3][3][lanes], [lanes], [lanes] */
} plane_arguments;

#define KERNELS "train/compute/cpu/fused_depthwise_kernels.inc"
#include "train/compute/cpu/kernel_variants.inc"

typedef void (*kernel)(const plane_arguments *arguments);
typedef struct kernels {
    kernel forward, data, weights, sums_and_weights, norm;
} kernels;

#define KERNELS_OF(ending)                                                                         \
    { forward_##ending, data_##ending, weights_##ending, sums_and_weights_##ending, norm_##ending }
static const kernels table[] = FF_KERNEL_TABLE(KERNELS_OF);

bool ff_fused_depthwise_fits(const ff_conv_shape *s) {
    return ff_conv_is_depthwise(s) && s->input.block == s->output.block &&
           (s->input.block == 8 || s->input.block == 16);
}

/* ---- weights: [block][3][3][lane], oneDNN's Goihw16g ---- */

size_t ff_fused_depthwise_weights(const ff_conv_shape *s) {
    return 9 * (size_t)ff_tensor_padded_channels(&s->input);
}

static size_t held_at(const ff_conv_shape *s, int c, int tap) {
    const int block = s->input.block;
    return ((size_t)(c / block) * 9 + tap) * block + c % block;
}

void ff_fused_depthwise_import(const ff_conv_shape *s, const float *oihw, float *held) {
    memset(held, 0, ff_fused_depthwise_weights(s) * sizeof *held);
    for (int i = 0; i < 9 * s->input.c; i++) held[held_at(s, i / 9, i % 9)] = oihw[i];
}

void ff_fused_depthwise_export(const ff_conv_shape *s, const float *held, float *oihw) {
    for (int i = 0; i < 9 * s->input.c; i++) oihw[i] = held[held_at(s, i / 9, i % 9)];
}

/* ---- one call ---- */

/* What all planes of a call share. */
typedef struct call {
    ff_compute *compute;
    const ff_conv_shape *shape;
    const char *x, *dy;
    char *to;
    bool forward;
    const ff_norm *norm; /* folded, or NULL */
    ff_norm_work work;   /* of the norm */
    float *filter, *bias, *rings;
    double *dw; /* [threads][blocks][3][3][lanes] */
} call;

static int ring_row(const ff_conv_shape *s) {
    return s->input.w + 2; /* at least as wide as the output */
}

static size_t ring_floats(const ff_conv_shape *s) {
    return 4 * (size_t)ring_row(s) * s->input.block;
}

size_t ff_fused_depthwise_scratch(const ff_compute *compute, const ff_conv_shape *s) {
    const size_t channels = (size_t)ff_tensor_padded_channels(&s->input);
    const size_t thread = 9 * channels * sizeof(double) + ring_floats(s) * sizeof(float);
    return (ff_fused_norm_scratch(compute, &s->input) + 10 * channels) * sizeof(float) +
           (size_t)compute->threads * thread;
}

static call call_of(ff_compute *compute, const ff_conv_shape *s, const ff_norm *norm, const void *w,
                    const void *bias, float *scratch) {
    const size_t channels = (size_t)ff_tensor_padded_channels(&s->input);
    call c = {.compute = compute, .shape = s, .norm = norm};
    c.work = ff_norm_work_of(compute, channels, scratch);
    scratch += ff_fused_norm_scratch(compute, &s->input);
    // cppcheck-suppress invalidPointerCast ; scratch is memory for either, 64-byte aligned
    c.dw = (double *)scratch;
    scratch += 2 * 9 * channels * (size_t)compute->threads;
    c.filter = scratch;
    c.bias = c.filter + 9 * channels;
    c.rings = c.bias + channels;
    if (w) ff_convert(c.filter, FF_F32, w, compute->dtype, 9 * channels);
    memset(c.bias, 0, channels * sizeof *c.bias);
    if (bias) ff_convert(c.bias, FF_F32, bias, compute->dtype, channels);
    if (norm) ff_norm_set_scale(norm, &c.work);
    return c;
}

static plane_arguments at_plane(const call *c, int thread, size_t plane) {
    const ff_conv_shape *s = c->shape;
    const size_t blocks = (size_t)ff_tensor_blocks(&s->input), block = (size_t)s->input.block;
    const size_t channels = blocks * block, first = plane % blocks * block;
    const size_t vector = block * c->compute->element_bytes;
    const size_t input = plane * (size_t)(s->input.h * s->input.w) * vector;
    const size_t output = plane * (size_t)(s->output.h * s->output.w) * vector;
    double *sums = c->work.sums + 2 * channels * (size_t)thread;
    return (plane_arguments){
        .height = s->input.h,
        .width = s->input.w,
        .outputs_high = s->output.h,
        .outputs_wide = s->output.w,
        .stride = s->stride,
        .x = c->x ? c->x + input : NULL,
        .dy = c->dy ? c->dy + output : NULL,
        .to = c->to ? c->to + (c->forward ? output : input) : NULL,
        .filter = c->filter + 9 * first,
        .bias = c->bias + first,
        .scale = c->norm ? c->work.scale + first : NULL,
        .shift = c->work.shift + first,
        .mean = c->norm ? c->norm->mean + first : NULL,
        .slope = c->work.slope + first,
        .base = c->work.base + first,
        .ring = c->rings + ring_floats(s) * (size_t)thread,
        .ring_row = ring_row(s),
        .dw = c->dw + 9 * (channels * (size_t)thread + first),
        .sum = sums + first,
        .products = sums + channels + first,
    };
}

/* Each thread its own planes, in the shares of the norms; `back`: from the last, which the pass
 * before has left in the cache. */
static void each_plane(const call *c, kernel run, bool back) {
    const size_t channels = (size_t)ff_tensor_padded_channels(&c->shape->input);
    const size_t planes = (size_t)ff_tensor_blocks(&c->shape->input) * c->shape->input.n;
#pragma omp parallel num_threads(c->compute->threads)
    {
        const int thread = omp_get_thread_num();
        size_t from, to;
        ff_share(planes, c->compute->threads, thread, &from, &to);
        if (!back) memset(c->work.sums + 2 * channels * thread, 0, 2 * channels * sizeof(double));
        if (!back) memset(c->dw + 9 * channels * thread, 0, 9 * channels * sizeof(double));
        memset(c->rings + ring_floats(c->shape) * thread, 0, ring_floats(c->shape) * sizeof(float));
        for (size_t i = from; i < to; i++) {
            const plane_arguments arguments = at_plane(c, thread, back ? to - 1 - (i - from) : i);
            run(&arguments);
        }
    }
}

/* The filter's gradient from the threads' sums, added in order. */
static void write_weights(const call *c, void *dw) {
    const size_t count = ff_fused_depthwise_weights(c->shape);
    float *sums = c->filter; /* not read any more */
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (int t = 0; t < c->compute->threads; t++) sum += c->dw[count * (size_t)t + i];
        sums[i] = (float)sum;
    }
    ff_convert(dw, c->compute->dtype, sums, FF_F32, count);
}

static const kernels *kernels_of(const call *c) {
    return &table[ff_kernel_row(c->compute->dtype, c->shape->input.block)];
}

void ff_fused_depthwise_forward(ff_compute *compute, const ff_conv_shape *s, const ff_norm *norm,
                                const void *x, const void *w, const void *bias, void *y,
                                void *scratch) {
    call c = call_of(compute, s, norm, w, bias, scratch);
    c.x = x, c.to = y, c.forward = true;
    each_plane(&c, kernels_of(&c)->forward, false);
}

void ff_fused_depthwise_backward_data(ff_compute *compute, const ff_conv_shape *s, const void *dy,
                                      const void *w, void *dx, void *scratch) {
    call c = call_of(compute, s, NULL, w, NULL, scratch);
    c.dy = dy, c.to = dx;
    each_plane(&c, kernels_of(&c)->data, false);
}

void ff_fused_depthwise_backward_weights(ff_compute *compute, const ff_conv_shape *s, const void *x,
                                         const void *dy, void *dw, void *scratch) {
    call c = call_of(compute, s, NULL, NULL, NULL, scratch);
    c.x = x, c.dy = dy;
    each_plane(&c, kernels_of(&c)->weights, false);
    write_weights(&c, dw);
}

void ff_fused_depthwise_fold_backward(ff_compute *compute, const ff_conv_shape *s,
                                      const ff_fold *fold, const void *w, const void *dy, void *dx,
                                      void *dw, void *scratch) {
    const ff_norm_backward norm = {
        .forward = fold->norm, .dgamma = fold->dgamma, .dbeta = fold->dbeta};
    call c = call_of(compute, s, &fold->norm, w, NULL, scratch);
    c.x = fold->norm.x, c.dy = dy, c.to = dx;
    each_plane(&c, kernels_of(&c)->sums_and_weights, false);
    ff_norm_finish_backward(compute, &norm, &c.work);
    each_plane(&c, kernels_of(&c)->norm, true);
    write_weights(&c, dw);
}
