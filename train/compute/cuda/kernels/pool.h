/* Pooling on NHWC. Windows, padding, NaN and equal values: ff_pool in train/compute/arguments.h. */
#ifndef FF_TRAIN_CUDA_KERNELS_POOL_H
#define FF_TRAIN_CUDA_KERNELS_POOL_H

#include "train/compute/cuda/kernels/norm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x: pool->input, y: pool->output. Max pools: kernel_h * kernel_w <= 256. A global average pool is
 * kernel = (h, w), stride 1, pad 0. Along an axis, input + output size + pad, or for an adaptive
 * pool their product, is below 2^31.
 *
 * index: [n][out_h][out_w][channels] u8, row * kernel_w + column of the largest value within its
 * window; NULL = not written; max only. Reads x once if windows do not overlap (else from the
 * caches), writes y and index. */
int ff_cuda_pool_forward(const ff_cuda_queue *queue, const ff_pool *pool, const void *x, void *y,
                         uint8_t *index);

/* The same, and writes the batch statistics of the rounded y to norm's mean, inv_std and running
 * statistics; the other fields of norm, such as x, are ignored. Saves the norm one read of y. */
int ff_cuda_pool_statistics(const ff_cuda_queue *queue, const ff_pool *pool, const void *x, void *y,
                            uint8_t *index, const ff_norm *norm, void *scratch);

/* Each element of dx sums over the windows that contain it and is written once. Reads dy and index,
 * writes dx. */
int ff_cuda_pool_backward(const ff_cuda_queue *queue, const ff_pool *pool, const void *dy,
                          const uint8_t *index, void *dx);

#ifdef __cplusplus
}
#endif
#endif
