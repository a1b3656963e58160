/* Elementwise passes: each reads or writes every array once. count: any number of elements, in
 * 16-byte vectors with a tail. */
#ifndef FF_TRAIN_CUDA_KERNELS_POINTWISE_H
#define FF_TRAIN_CUDA_KERNELS_POINTWISE_H

#include "train/compute/cuda/kernels/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y = act(x); y may be x. ReLU passes NaN. */
int ff_cuda_activation_forward(const ff_cuda_queue *queue, ff_activation activation, ff_dtype dtype,
                               size_t count, const void *x, void *y);
/* dx = dy * act'(from): from = x for GELU, x or y for ReLU and ReLU6. dx may be dy or from. */
int ff_cuda_activation_backward(const ff_cuda_queue *queue, ff_activation activation,
                                ff_dtype dtype, size_t count, const void *from, const void *dy,
                                void *dx);

/* to = a + b; to may be a or b. */
int ff_cuda_add(const ff_cuda_queue *queue, ff_dtype dtype, size_t count, const void *a,
                const void *b, void *to);
/* to = scale * from, between f32, f16 and bf16, rounded to nearest even; to may be from if the
 * sizes agree. */
int ff_cuda_cast(const ff_cuda_queue *queue, size_t count, float scale, const void *from,
                 ff_dtype from_dtype, void *to, ff_dtype to_dtype);

/* y = x + bias, bias: [channels] f32; y may be x. */
int ff_cuda_bias(const ff_cuda_queue *queue, const ff_tensor *shape, const void *x,
                 const float *bias, void *y);
/* dbias: [channels] f32 = sums of dy over the rows. */
int ff_cuda_bias_gradient(const ff_cuda_queue *queue, const ff_tensor *shape, const void *dy,
                          float *dbias, void *scratch);
/* ff_cuda_activation_backward and, of its rounded dx, ff_cuda_bias_gradient in one pass. dx NULL:
 * dx is not written. */
int ff_cuda_activation_bias_gradient(const ff_cuda_queue *queue, ff_activation activation,
                                     const ff_tensor *shape, const void *from, const void *dy,
                                     void *dx, float *dbias, void *scratch);

/* Rule: ff_dropout in train/compute/arguments.h: the same masks as on the host. y may be x; the
 * backward pass is the same function applied to the gradient. */
int ff_cuda_dropout(const ff_cuda_queue *queue, const ff_dropout *dropout, const void *x, void *y);

#ifdef __cplusplus
}
#endif
#endif
