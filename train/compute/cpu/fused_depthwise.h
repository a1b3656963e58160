/* Depthwise 3x3 convolutions with a border of 1 over activations in blocks of 8 or 16 channels, as
 * passes of the oneDNN table; also with a batch norm and ReLU6 folded into them (ff_fold). In f32
 * the folded passes have the bits of the norm's and the convolution's own passes; in bf16 what
 * would be written between the two is not rounded.
 *
 * scratch: ff_fused_depthwise_scratch bytes, 64-byte aligned. Weights are held as
 * [block][3][3][lane]. Formulas: compute.h. Thread rule: as the table's entries. */
#ifndef FF_TRAIN_CPU_FUSED_DEPTHWISE_H
#define FF_TRAIN_CPU_FUSED_DEPTHWISE_H

#include "train/compute/compute.h"

/* Whether these loops compute the convolution; independent of its size and batch. */
bool ff_fused_depthwise_fits(const ff_conv_shape *shape);
size_t ff_fused_depthwise_scratch(const ff_compute *compute, const ff_conv_shape *shape);

/* The number of held weights; from and to torch's order, f32. */
size_t ff_fused_depthwise_weights(const ff_conv_shape *shape);
void ff_fused_depthwise_import(const ff_conv_shape *shape, const float *oihw, float *held);
void ff_fused_depthwise_export(const ff_conv_shape *shape, const float *held, float *oihw);

/* norm: folded, with mean and inv_std; x is then its input. NULL = none. bias may be NULL. */
void ff_fused_depthwise_forward(ff_compute *compute, const ff_conv_shape *shape,
                                const ff_norm *norm, const void *x, const void *w, const void *bias,
                                void *y, void *scratch);
void ff_fused_depthwise_backward_data(ff_compute *compute, const ff_conv_shape *shape,
                                      const void *dy, const void *w, void *dx, void *scratch);
void ff_fused_depthwise_backward_weights(ff_compute *compute, const ff_conv_shape *shape,
                                         const void *x, const void *dy, void *dw, void *scratch);
/* dx: the gradient of the norm's input. */
void ff_fused_depthwise_fold_backward(ff_compute *compute, const ff_conv_shape *shape,
                                      const ff_fold *fold, const void *w, const void *dy, void *dx,
                                      void *dw, void *scratch);

#endif
