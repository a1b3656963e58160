/* Depthwise 3 x 3 convolution on NHWC, pad 1, stride 1 or 2: channel c of y is channel c of x
 * convolved with its own filter. x: conv->input, y: conv->output, out = (in - 1) / stride + 1;
 * weights: [3][3][channels] of the same dtype. */
#ifndef FF_TRAIN_CUDA_KERNELS_DEPTHWISE_H
#define FF_TRAIN_CUDA_KERNELS_DEPTHWISE_H

#include "train/compute/cuda/kernels/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ff_cuda_depthwise {
    ff_tensor input, output; /* same n, c, block */
    int stride;
} ff_cuda_depthwise;

int ff_cuda_depthwise_forward(const ff_cuda_queue *queue, const ff_cuda_depthwise *conv,
                              const void *x, const void *weights, void *y);
int ff_cuda_depthwise_backward_data(const ff_cuda_queue *queue, const ff_cuda_depthwise *conv,
                                    const void *dy, const void *weights, void *dx);
/* dweights: [3][3][channels] f32. scratch: nine times ff_cuda_scratch bytes. */
int ff_cuda_depthwise_backward_weights(const ff_cuda_queue *queue, const ff_cuda_depthwise *conv,
                                       const void *x, const void *dy, float *dweights,
                                       void *scratch);

#ifdef __cplusplus
}
#endif
#endif
