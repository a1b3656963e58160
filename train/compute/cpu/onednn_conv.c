/* Convolutions of the oneDNN table: which way computes each.
 *
 * Activations stay in the library's blocked layout between layers. Weights are held in the order of
 * the forward pass, which the gradient of the weights and Winograd share. If a pass needs another
 * order (the direct backward pass of the data), each call reorders the weights into scratch.
 *
 * Images of up to 4 pixels: one matrix product (onednn_dense.c). 3x3 over each channel alone: own
 * loops (fused_depthwise.c), also with the norm and ReLU6 before it. 3x3 of stride 1, where a
 * direct convolution is slower: Winograd (winograd.c). Else the library's primitives
 * (onednn_primitive.c).
 *
 * In bf16 images, activations, weights and the gradients of all of them are bf16, with sums in f32;
 * the gradient of the bias is f32. */
#include "train/compute/cpu/onednn.h"

#ifdef FF_HAVE_DNNL

#include "format/base/memory.h"
#include "train/compute/cpu/fused_depthwise.h"
#include "train/compute/cpu/onednn_dense.h"
#include "train/compute/cpu/onednn_primitive.h"
#include "train/compute/cpu/winograd.h"

#include <omp.h>
#include <stdlib.h>

/* ---- depthwise ---- */

static ff_compute *compute_of(const ff_conv *conv) {
    return &((const ff_onednn_conv *)conv)->self->base;
}

static void depthwise_import(const ff_conv *conv, const float *oihw, float *held) {
    ff_fused_depthwise_import(&conv->shape, oihw, held);
}

static void depthwise_export(const ff_conv *conv, const float *held, float *oihw) {
    ff_fused_depthwise_export(&conv->shape, held, oihw);
}

static dnnl_status_t depthwise_forward(ff_conv *conv, const void *x, const void *w,
                                       const void *bias, void *y, void *scratch) {
    ff_fused_depthwise_forward(compute_of(conv), &conv->shape, NULL, x, w, bias, y, scratch);
    return dnnl_success;
}

static dnnl_status_t depthwise_backward_data(ff_conv *conv, const void *dy, const void *w, void *dx,
                                             void *scratch) {
    ff_fused_depthwise_backward_data(compute_of(conv), &conv->shape, dy, w, dx, scratch);
    return dnnl_success;
}

static dnnl_status_t depthwise_backward_weights(ff_conv *conv, const void *x, const void *dy,
                                                void *dw, float *dbias, void *scratch) {
    if (dbias) ff_dense_sum_pixels(compute_of(conv), &conv->shape.output, dy, dbias);
    ff_fused_depthwise_backward_weights(compute_of(conv), &conv->shape, x, dy, dw, scratch);
    return dnnl_success;
}

static void own_destroy(ff_conv *conv) {
    free(conv);
}

static ff_status depthwise_create(ff_onednn *self, const ff_conv_shape *shape, ff_conv **out,
                                  ff_error *error) {
    static const ff_onednn_way way = {
        .destroy = own_destroy,
        .import = depthwise_import,
        .export = depthwise_export,
        .forward = depthwise_forward,
        .backward_data = depthwise_backward_data,
        .backward_weights = depthwise_backward_weights,
    };
    ff_onednn_conv *conv;
    FF_TRY(ff_alloc(&conv, 1, sizeof *conv, "a convolution", error));
    *conv = (ff_onednn_conv){.self = self, .way = &way};
    conv->base = (ff_conv){.shape = *shape,
                           .weight_count = ff_fused_depthwise_weights(shape),
                           .scratch_bytes = ff_fused_depthwise_scratch(&self->base, shape),
                           .folded = shape->fold,
                           .depthwise = true};
    *out = &conv->base;
    return FF_OK;
}

/* ---- Winograd ---- */

static dnnl_status_t winograd_forward(ff_conv *conv, const void *x, const void *w, const void *bias,
                                      void *y, void *scratch) {
    ff_winograd_forward(compute_of(conv), &conv->shape, x, w, bias, y, scratch);
    return dnnl_success;
}

static dnnl_status_t winograd_backward_data(ff_conv *conv, const void *dy, const void *w, void *dx,
                                            void *scratch) {
    ff_winograd_backward_data(compute_of(conv), &conv->shape, dy, w, dx, scratch);
    return dnnl_success;
}

static dnnl_status_t winograd_backward_weights(ff_conv *conv, const void *x, const void *dy,
                                               void *dw, float *dbias, void *scratch) {
    if (dbias) ff_dense_sum_pixels(compute_of(conv), &conv->shape.output, dy, dbias);
    ff_winograd_backward_weights(compute_of(conv), &conv->shape, x, dy, dw, scratch);
    return dnnl_success;
}

static ff_status winograd_create(ff_onednn *self, const ff_conv_shape *shape, ff_conv **out,
                                 ff_error *error) {
    static const ff_onednn_way way = {
        .destroy = own_destroy,
        .import = ff_dense_import,
        .export = ff_dense_export,
        .forward = winograd_forward,
        .backward_data = winograd_backward_data,
        .backward_weights = winograd_backward_weights,
    };
    const size_t inputs = (size_t)ff_tensor_padded_channels(&shape->input);
    const size_t outputs = (size_t)ff_tensor_padded_channels(&shape->output);
    ff_onednn_conv *conv;
    FF_TRY(ff_alloc(&conv, 1, sizeof *conv, "a convolution", error));
    *conv = (ff_onednn_conv){.self = self, .way = &way};
    conv->base =
        (ff_conv){.shape = *shape,
                  .weight_count = 9 * inputs * outputs,
                  .scratch_bytes = ff_winograd_scratch(&self->base, shape) * sizeof(float)};
    *out = &conv->base;
    return FF_OK;
}

/* ---- entries ---- */

ff_status ff_onednn_conv_failed(ff_error *error, const ff_conv_shape *s, dnnl_status_t status,
                                const char *what) {
    return ff_fail(error, status == dnnl_out_of_memory ? FF_NO_MEMORY : FF_FAILED,
                   "oneDNN cannot %s a convolution %dx%d of stride %d, %d to %d channels, on "
                   "%d x %dx%d (status %d)",
                   what, s->kernel, s->kernel, s->stride, s->input.c, s->output.c, s->input.n,
                   s->input.h, s->input.w, (int)status);
}

ff_status ff_onednn_conv_create(ff_compute *compute, const ff_conv_shape *shape,
                                const ff_conv *sibling, ff_conv **out, ff_error *error) {
    ff_onednn *self = (ff_onednn *)compute;
    /* The library's primitives may hold a sibling's weights in another order. */
    const bool own = !sibling || ((const ff_onednn_conv *)sibling)->way != &ff_primitive_way;
    *out = NULL;
    if (ff_fused_depthwise_fits(shape)) return depthwise_create(self, shape, out, error);
    if (own && ff_dense_fits(self, shape)) return ff_dense_create(self, shape, out, error);
    if (own && self->winograd && ff_winograd_fits(compute, shape))
        return winograd_create(self, shape, out, error);
    return ff_primitive_create(self, shape, sibling, out, error);
}

static const ff_onednn_way *way_of(const ff_conv *conv) {
    return ((const ff_onednn_conv *)conv)->way;
}

void ff_onednn_conv_destroy(ff_compute *compute, ff_conv *conv) {
    (void)compute;
    if (conv) way_of(conv)->destroy(conv);
}

void ff_onednn_conv_import(const ff_conv *conv, const float *oihw, float *held) {
    way_of(conv)->import(conv, oihw, held);
}

void ff_onednn_conv_export(const ff_conv *conv, const float *held, float *oihw) {
    way_of(conv)->export(conv, held, oihw);
}

static void finish(ff_compute *compute, const ff_conv *conv, dnnl_status_t status) {
    if (status != dnnl_success)
        ff_onednn_conv_failed(ff_compute_error(compute), &conv->shape, status, "run");
}

void ff_onednn_conv_forward(ff_compute *compute, ff_conv *conv, const void *x, const void *w,
                            const void *bias, void *y, void *scratch) {
    omp_set_num_threads(compute->threads);
    finish(compute, conv, way_of(conv)->forward(conv, x, w, bias, y, scratch));
}

void ff_onednn_conv_backward_data(ff_compute *compute, ff_conv *conv, const void *dy, const void *w,
                                  void *dx, void *scratch) {
    omp_set_num_threads(compute->threads);
    finish(compute, conv, way_of(conv)->backward_data(conv, dy, w, dx, scratch));
}

void ff_onednn_conv_backward_weights(ff_compute *compute, ff_conv *conv, const void *x,
                                     const void *dy, void *dw, float *dbias, void *scratch) {
    if (dbias && !dw) ff_dense_sum_pixels(compute, &conv->shape.output, dy, dbias);
    if (!dw) return;
    omp_set_num_threads(compute->threads);
    finish(compute, conv, way_of(conv)->backward_weights(conv, x, dy, dw, dbias, scratch));
}

void ff_onednn_conv_forward_fused(ff_compute *compute, ff_conv *conv, const void *x,
                                  const ff_fold *fold, const void *w, void *y, float *sums,
                                  void *scratch) {
    (void)x, (void)sums;
    ff_fused_depthwise_forward(compute, &conv->shape, &fold->norm, fold->norm.x, w, NULL, y,
                               scratch);
}

void ff_onednn_conv_fold_backward(ff_compute *compute, ff_conv *conv, const ff_fold *fold,
                                  const void *w, const void *dy, void *g, void *dw, void *scratch) {
    ff_fused_depthwise_fold_backward(compute, &conv->shape, fold, w, dy, g, dw, scratch);
}

#endif
