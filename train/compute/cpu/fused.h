/* Kernels over blocked activations (blocks of 8 or 16 channels), as entries of the oneDNN table.
 * Other blocks use the plain loops. Formulas: compute.h. */
#ifndef FF_TRAIN_CPU_FUSED_H
#define FF_TRAIN_CPU_FUSED_H

#include "train/compute/compute.h"

size_t ff_fused_norm_scratch(const ff_compute *compute, const ff_tensor *shape);
void ff_fused_norm_train(ff_compute *compute, const ff_norm *norm, float *scratch);
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
/* The gradient of the input of a convolution with a group for each channel; w is held as
 * [block][kernel][kernel][lane] (Goihw16g). */
bool ff_fused_depthwise_fits(const ff_conv_shape *shape);
void ff_fused_depthwise_backward_data(ff_compute *compute, const ff_conv_shape *shape,
                                      const float *dy, const float *w, float *dx);

#endif
