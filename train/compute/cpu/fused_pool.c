/* Pooling over blocked activations, and elementwise entries. Formulas: compute.h. */
#include "train/compute/cpu/cpu.h"
#include "train/compute/cpu/fused.h"
#include "train/compute/cpu/gelu.h"
#include "train/compute/cpu/narrow.h"
#include "train/compute/vector.h"

#include <omp.h>
#include <string.h>

#define KERNELS "train/compute/cpu/fused_pool_kernels.inc"
#include "train/compute/cpu/kernel_variants.inc"

typedef struct kernels {
    void (*max)(const ff_pool *pool, const void *x, void *y, uint8_t *index);
    void (*average)(const ff_pool *pool, const void *x, void *y);
    void (*spread)(const ff_pool *pool, const void *dy, const uint8_t *index, void *dx);
    void (*spread_2x2)(const ff_pool *pool, const void *dy, const uint8_t *index, void *dx);
} kernels;

#define KERNELS_OF(ending)                                                                         \
    { max_##ending, average_##ending, spread_##ending, spread_2x2_##ending }
static const kernels table[] = FF_KERNEL_TABLE(KERNELS_OF);

/* NULL if there are no kernels for the block, or if windows are adaptive. */
static const kernels *kernels_for(const ff_compute *compute, const ff_pool *pool) {
    const int row = ff_kernel_row(compute->dtype, pool->input.block);
    return row < 0 || pool->adaptive ? NULL : &table[row];
}

/* The elements of one image in a block of channels. */
static size_t plane_of(const ff_tensor *t) {
    return (size_t)t->h * t->w * t->block;
}

void ff_fused_pool_forward(ff_compute *compute, const ff_pool *pool, const void *x, void *y,
                           uint8_t *index) {
    const kernels *k = kernels_for(compute, pool);
    if (!k) {
        ff_reference_ops_of(compute->dtype)->pool_forward(compute, pool, x, y, index);
        return;
    }
    const size_t planes = (size_t)pool->input.n * ff_tensor_blocks(&pool->input);
    const size_t x_plane = plane_of(&pool->input), y_plane = plane_of(&pool->output);
    const size_t element = compute->element_bytes;
#pragma omp parallel for num_threads(compute->threads) schedule(static)
    for (size_t plane = 0; plane < planes; plane++) {
        const char *from = (const char *)x + plane * x_plane * element;
        char *to = (char *)y + plane * y_plane * element;
        if (pool->max)
            k->max(pool, from, to, index ? index + plane * y_plane : NULL);
        else
            k->average(pool, from, to);
    }
}

void ff_fused_pool_backward(ff_compute *compute, const ff_pool *pool, const void *dy,
                            const uint8_t *index, void *dx) {
    const kernels *k = kernels_for(compute, pool);
    if (!k) {
        ff_reference_ops_of(compute->dtype)->pool_backward(compute, pool, dy, index, dx);
        return;
    }
    const size_t planes = (size_t)pool->input.n * ff_tensor_blocks(&pool->input);
    const size_t x_plane = plane_of(&pool->input), y_plane = plane_of(&pool->output);
    const size_t element = compute->element_bytes;
    const bool halves = pool->max && pool->kernel_h == 2 && pool->kernel_w == 2 &&
                        pool->stride == 2 && pool->pad == 0;
    void (*const spread)(const ff_pool *, const void *, const uint8_t *, void *) =
        halves ? k->spread_2x2 : k->spread;
#pragma omp parallel for num_threads(compute->threads) schedule(static)
    for (size_t plane = 0; plane < planes; plane++)
        spread(pool, (const char *)dy + plane * y_plane * element,
               index ? index + plane * y_plane : NULL, (char *)dx + plane * x_plane * element);
}

/* ---- elementwise ---- */

/* Elements that a thread processes at a time. */
enum { SPAN = 4096 };

FF_VECTOR_CLONES
static void relu(size_t count, const float *x, float *y) {
    for (size_t i = 0; i < count; i++) y[i] = x[i] < 0 ? 0 : x[i];
}

FF_VECTOR_CLONES
static void relu_back(size_t count, const float *y, const float *dy, float *dx) {
    for (size_t i = 0; i < count; i++) dx[i] = y[i] > 0 ? dy[i] : 0;
}

FF_VECTOR_CLONES
static void relu6(size_t count, const float *x, float *y) {
    for (size_t i = 0; i < count; i++) y[i] = x[i] < 0 ? 0 : x[i] > 6 ? 6 : x[i];
}

FF_VECTOR_CLONES
static void relu6_back(size_t count, const float *y, const float *dy, float *dx) {
    for (size_t i = 0; i < count; i++) dx[i] = y[i] > 0 && y[i] < 6 ? dy[i] : 0;
}

FF_VECTOR_CLONES
static void gelu(size_t count, const float *x, float *y) {
    for (size_t i = 0; i < count; i++) y[i] = ff_gelu(x[i]);
}

FF_VECTOR_CLONES
static void gelu_back(size_t count, const float *x, const float *dy, float *dx) {
    for (size_t i = 0; i < count; i++) dx[i] = dy[i] * ff_gelu_slope(x[i]);
}

/* The activations of f32; the norm's kernels have those of bf16. */
static const struct {
    void (*forward)(size_t count, const float *x, float *y);
    void (*backward)(size_t count, const float *seen, const float *dy, float *dx);
} activations[] = {
    [FF_ACTIVATION_RELU] = {relu, relu_back},
    [FF_ACTIVATION_RELU6] = {relu6, relu6_back},
    [FF_ACTIVATION_GELU] = {gelu, gelu_back},
};

void ff_fused_activation_forward(ff_compute *compute, ff_activation activation, size_t count,
                                 const void *x, void *y) {
    const bool narrow = compute->dtype == FF_BF16;
#pragma omp parallel for num_threads(compute->threads) schedule(static)
    for (size_t at = 0; at < count; at += SPAN) {
        const size_t some = count - at < SPAN ? count - at : SPAN;
        if (narrow)
            ff_fused_narrow(activation, false, some, (const uint16_t *)x + at, NULL,
                            (uint16_t *)y + at);
        else
            activations[activation].forward(some, (const float *)x + at, (float *)y + at);
    }
}

void ff_fused_activation_backward(ff_compute *compute, ff_activation activation, size_t count,
                                  const void *seen, const void *dy, void *dx) {
    const bool narrow = compute->dtype == FF_BF16;
#pragma omp parallel for num_threads(compute->threads) schedule(static)
    for (size_t at = 0; at < count; at += SPAN) {
        const size_t some = count - at < SPAN ? count - at : SPAN;
        if (narrow)
            ff_fused_narrow(activation, true, some, (const uint16_t *)seen + at,
                            (const uint16_t *)dy + at, (uint16_t *)dx + at);
        else
            activations[activation].backward(some, (const float *)seen + at, (const float *)dy + at,
                                             (float *)dx + at);
    }
}

void ff_fused_add(ff_compute *compute, size_t count, const void *a, const void *b, void *to) {
    if (compute->dtype == FF_F32) {
        ff_reference_ops_f32.add(compute, count, a, b, to);
        return;
    }
#pragma omp parallel for num_threads(compute->threads) schedule(static)
    for (size_t at = 0; at < count; at += SPAN)
        ff_fused_narrow(FF_ACTIVATION_NONE, false, count - at < SPAN ? count - at : SPAN,
                        (const uint16_t *)a + at, (const uint16_t *)b + at, (uint16_t *)to + at);
}
