/* Pooling and activations over blocked activations. Formulas: compute.h. */
#include "train/compute/cpu/cpu.h"
#include "train/compute/cpu/fused.h"
#include "train/compute/cpu/gelu.h"
#include "train/compute/vector.h"

#include <omp.h>
#include <string.h>

#define KERNELS "train/compute/cpu/fused_pool_kernels.inc"
#include "train/compute/cpu/kernel_variants.inc"

typedef struct kernels {
    void (*max)(const ff_pool *pool, const float *x, float *y, uint8_t *index);
    void (*average)(const ff_pool *pool, const float *x, float *y);
    void (*spread)(const ff_pool *pool, const float *dy, const uint8_t *index, float *dx);
    void (*spread_2x2)(const ff_pool *pool, const float *dy, const uint8_t *index, float *dx);
} kernels;

#define KERNELS_OF(ending)                                                                         \
    { max_##ending, average_##ending, spread_##ending, spread_2x2_##ending }
static const kernels baseline_8 = KERNELS_OF(8_baseline), baseline_16 = KERNELS_OF(16_baseline);
#if FF_HAS_TARGETS
static const kernels fast_8 = KERNELS_OF(8_fast), fast_16 = KERNELS_OF(16_fast);
#endif

/* NULL if there are no kernels for the block, or if windows are adaptive. */
static const kernels *kernels_for(const ff_pool *pool) {
    const ff_tensor *t = &pool->input;
    if ((t->block != 8 && t->block != 16) || pool->adaptive) return NULL;
#if FF_HAS_TARGETS
    if (ff_has_vectors(t->block)) return t->block == 16 ? &fast_16 : &fast_8;
#endif
    return t->block == 16 ? &baseline_16 : &baseline_8;
}

void ff_fused_pool_forward(ff_compute *compute, const ff_pool *pool, const void *x_memory,
                           void *y_memory, uint8_t *index) {
    const float *x = x_memory;
    float *y = y_memory;
    const kernels *k = kernels_for(pool);
    if (!k) {
        ff_reference_ops_f32.pool_forward(compute, pool, x, y, index);
        return;
    }
    const size_t planes = (size_t)pool->input.n * ff_tensor_blocks(&pool->input);
    const size_t x_plane = (size_t)pool->input.h * pool->input.w * pool->input.block;
    const size_t y_plane = (size_t)pool->output.h * pool->output.w * pool->output.block;
#pragma omp parallel for num_threads(compute->threads) schedule(static)
    for (size_t plane = 0; plane < planes; plane++) {
        if (pool->max)
            k->max(pool, x + plane * x_plane, y + plane * y_plane,
                   index ? index + plane * y_plane : NULL);
        else
            k->average(pool, x + plane * x_plane, y + plane * y_plane);
    }
}

void ff_fused_pool_backward(ff_compute *compute, const ff_pool *pool, const void *dy_memory,
                            const uint8_t *index, void *dx_memory) {
    const float *dy = dy_memory;
    float *dx = dx_memory;
    const kernels *k = kernels_for(pool);
    if (!k) {
        ff_reference_ops_f32.pool_backward(compute, pool, dy, index, dx);
        return;
    }
    const size_t planes = (size_t)pool->input.n * ff_tensor_blocks(&pool->input);
    const size_t x_plane = (size_t)pool->input.h * pool->input.w * pool->input.block;
    const size_t y_plane = (size_t)pool->output.h * pool->output.w * pool->output.block;
    const bool halves = pool->max && pool->kernel_h == 2 && pool->kernel_w == 2 &&
                        pool->stride == 2 && pool->pad == 0;
#pragma omp parallel for num_threads(compute->threads) schedule(static)
    for (size_t plane = 0; plane < planes; plane++) {
        const uint8_t *place = index ? index + plane * y_plane : NULL;
        if (halves) {
            k->spread_2x2(pool, dy + plane * y_plane, place, dx + plane * x_plane);
            continue;
        }
        memset(dx + plane * x_plane, 0, x_plane * sizeof *dx);
        k->spread(pool, dy + plane * y_plane, place, dx + plane * x_plane);
    }
}

/* ---- elementwise ---- */

/* Floats that a thread processes at a time. */
enum { SPAN = 4096 };

FF_VECTOR_CLONES
static void relu_span(size_t count, const float *x, float *y) {
    for (size_t i = 0; i < count; i++) y[i] = x[i] < 0 ? 0 : x[i];
}

FF_VECTOR_CLONES
static void relu_back_span(size_t count, const float *y, const float *dy, float *dx) {
    for (size_t i = 0; i < count; i++) dx[i] = y[i] > 0 ? dy[i] : 0;
}

FF_VECTOR_CLONES
static void relu6_span(size_t count, const float *x, float *y) {
    for (size_t i = 0; i < count; i++) y[i] = x[i] < 0 ? 0 : x[i] > 6 ? 6 : x[i];
}

FF_VECTOR_CLONES
static void relu6_back_span(size_t count, const float *y, const float *dy, float *dx) {
    for (size_t i = 0; i < count; i++) dx[i] = y[i] > 0 && y[i] < 6 ? dy[i] : 0;
}

FF_VECTOR_CLONES
static void gelu_span(size_t count, const float *x, float *y) {
    for (size_t i = 0; i < count; i++) y[i] = ff_gelu(x[i]);
}

FF_VECTOR_CLONES
static void gelu_back_span(size_t count, const float *x, const float *dy, float *dx) {
    for (size_t i = 0; i < count; i++) dx[i] = dy[i] * ff_gelu_slope(x[i]);
}

static const struct {
    void (*forward)(size_t count, const float *x, float *y);
    void (*backward)(size_t count, const float *seen, const float *dy, float *dx);
} activations[] = {
    [FF_ACTIVATION_RELU] = {relu_span, relu_back_span},
    [FF_ACTIVATION_RELU6] = {relu6_span, relu6_back_span},
    [FF_ACTIVATION_GELU] = {gelu_span, gelu_back_span},
};

void ff_fused_activation_forward(ff_compute *compute, ff_activation activation, size_t count,
                                 const void *x_memory, void *y_memory) {
    const float *x = x_memory;
    float *y = y_memory;
#pragma omp parallel for num_threads(compute->threads) schedule(static)
    for (size_t at = 0; at < count; at += SPAN)
        activations[activation].forward(count - at < SPAN ? count - at : SPAN, x + at, y + at);
}

void ff_fused_activation_backward(ff_compute *compute, ff_activation activation, size_t count,
                                  const void *seen_memory, const void *dy_memory, void *dx_memory) {
    const float *seen = seen_memory, *dy = dy_memory;
    float *dx = dx_memory;
#pragma omp parallel for num_threads(compute->threads) schedule(static)
    for (size_t at = 0; at < count; at += SPAN)
        activations[activation].backward(count - at < SPAN ? count - at : SPAN, seen + at, dy + at,
                                         dx + at);
}
