/* Test-time views of images, and the weighted sum of their logits. */
#ifndef FF_TRAIN_CUDA_KERNELS_VIEWS_H
#define FF_TRAIN_CUDA_KERNELS_VIEWS_H

#include "train/compute/cuda/kernels/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y: ff_image_view in train/compute/arguments.h. Images: NHWC, any number of channels, fewer than
 * 2^31 words in all, of the widest of 2 to 16 bytes that divides a pixel. Reads and writes one
 * array. */
int ff_cuda_view(const ff_cuda_queue *queue, const ff_image_view *view, const void *x, void *y);
/* to = (first ? 0 : to) + weight * x; to: [count] f32, x: [count] of dtype. */
int ff_cuda_weigh(const ff_cuda_queue *queue, ff_dtype dtype, size_t count, float weight,
                  bool first, const void *x, float *to);

#ifdef __cplusplus
}
#endif
#endif
