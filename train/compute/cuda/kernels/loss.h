/* Softmax cross-entropy or binary cross entropy with its gradient, and a step's outcome, on the
 * device. */
#ifndef FF_TRAIN_CUDA_KERNELS_LOSS_H
#define FF_TRAIN_CUDA_KERNELS_LOSS_H

#include "train/compute/cuda/kernels/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of ff_loss.scratch for `n` samples. */
size_t ff_cuda_loss_scratch(int n);
/* ff_loss in train/compute/arguments.h, mixed labels included; the stride is a multiple of 8, the
 * gradient of the queue's dtype. A sample that does not count has loss 0 and gradient 0, and so has
 * a sample whose label, or partner's label, is bad: the rest of the batch stays valid, and the
 * outcome names the first bad sample. Sums in double, in the order of the samples. Reads logits,
 * writes gradient. */
int ff_cuda_loss(const ff_cuda_queue *queue, const ff_loss *loss);

#ifdef __cplusplus
}
#endif
#endif
