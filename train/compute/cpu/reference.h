/* Entries of the reference table in separate files; compute.h documents them. */
#ifndef FF_TRAIN_CPU_REFERENCE_H
#define FF_TRAIN_CPU_REFERENCE_H

#include "train/compute/compute.h"

ff_status ff_reference_conv_create(ff_compute *compute, const ff_conv_shape *shape,
                                   const ff_conv *sibling, ff_conv **conv, ff_error *error);
void ff_reference_conv_destroy(ff_compute *compute, ff_conv *conv);
void ff_reference_conv_import(const ff_conv *conv, const float *oihw, float *held);
void ff_reference_conv_export(const ff_conv *conv, const float *held, float *oihw);
void ff_reference_conv_forward(ff_compute *compute, ff_conv *conv, const void *x, const void *w,
                               const void *bias, void *y, void *scratch);
void ff_reference_conv_backward_data(ff_compute *compute, ff_conv *conv, const void *dy,
                                     const void *w, void *dx, void *scratch);
void ff_reference_conv_backward_weights(ff_compute *compute, ff_conv *conv, const void *x,
                                        const void *dy, void *dw, float *dbias, void *scratch);
void ff_reference_norm_train(ff_compute *compute, const ff_norm *norm, float *scratch);
void ff_reference_norm_evaluate(ff_compute *compute, const ff_norm *norm, float *scratch);
void ff_reference_norm_backward(ff_compute *compute, const ff_norm_backward *norm, float *scratch);
size_t ff_reference_loss_scratch(const ff_compute *compute, int n, int stride);
void ff_reference_loss(ff_compute *compute, const ff_loss *loss);

#endif
