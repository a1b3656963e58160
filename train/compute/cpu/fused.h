/* Kernels over blocked activations (blocks of 8 or 16 channels), as entries of the oneDNN table.
 * Other blocks use the plain loops. Formulas: compute.h. */
#ifndef FF_TRAIN_CPU_FUSED_H
#define FF_TRAIN_CPU_FUSED_H

#include "train/compute/compute.h"
#include "train/compute/vector.h"

/* A table of kernels: a row for each variant of kernel_variants.inc, `of` its suffix. The row of
 * activations of `dtype` in blocks of `block` channels; -1 = there are no kernels for the block. */
#if FF_HAS_TARGETS
#define FF_KERNEL_ROWS(of, dtype)                                                                  \
    of(8_baseline_##dtype), of(8_fast_##dtype), of(16_baseline_##dtype), of(16_fast_##dtype)
#else
#define FF_KERNEL_ROWS(of, dtype)                                                                  \
    of(8_baseline_##dtype), of(8_baseline_##dtype), of(16_baseline_##dtype), of(16_baseline_##dtype)
#endif
#define FF_KERNEL_TABLE(of)                                                                        \
    { FF_KERNEL_ROWS(of, f32), FF_KERNEL_ROWS(of, bf16) }
static inline int ff_kernel_row(ff_dtype dtype, int block) {
    if (block != 8 && block != 16) return -1;
    return (dtype == FF_BF16 ? 4 : 0) + (block == 16 ? 2 : 0) + ff_has_vectors(block);
}

/* norm_train without y if norm->y is NULL. */
size_t ff_fused_norm_scratch(const ff_compute *compute, const ff_tensor *shape);
void ff_fused_norm_train(ff_compute *compute, const ff_norm *norm, float *scratch);
/* Writes mean and inv_std, of the running statistics in evaluation; not the fold's scale and shift.
 */
void ff_fused_fold_norm(ff_compute *compute, const ff_fold *fold, bool training, float *scratch);
void ff_fused_norm_evaluate(ff_compute *compute, const ff_norm *norm, float *scratch);
void ff_fused_norm_backward(ff_compute *compute, const ff_norm_backward *norm, float *scratch);
void ff_fused_pool_forward(ff_compute *compute, const ff_pool *pool, const void *x, void *y,
                           uint8_t *index);
void ff_fused_pool_backward(ff_compute *compute, const ff_pool *pool, const void *dy,
                            const uint8_t *index, void *dx);
void ff_fused_activation_forward(ff_compute *compute, ff_activation activation, size_t count,
                                 const void *x, void *y);
void ff_fused_activation_backward(ff_compute *compute, ff_activation activation, size_t count,
                                  const void *seen, const void *dy, void *dx);
void ff_fused_add(ff_compute *compute, size_t count, const void *a, const void *b, void *to);

/* Elements of bf16: y = activation(x + more), or, backward, y = more * the activation's derivative
 * at x. The kernels of a norm with scale 1 and shift -0, which change no value. */
void ff_fused_narrow(ff_activation activation, bool backward, size_t count, const uint16_t *x,
                     const uint16_t *more, uint16_t *y);

#endif
