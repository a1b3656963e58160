/* The implementations of the compute table on the CPU, and the kernels they share. */
#ifndef FF_TRAIN_CPU_H
#define FF_TRAIN_CPU_H

#include "train/compute.h"

/* Plain loops, in double where sums are long: slow, and the truth of every test. Any block. */
extern const ff_compute_ops ff_reference_ops;

/* oneDNN convolutions in blocked layouts, and the fused kernels of fused_*.c around them. Exists
 * where FF_HAVE_DNNL is defined. */
extern const ff_compute_ops ff_onednn_ops;

/* The plain loops one by one: fast tables take them for shapes that they have no kernel for. */
void ff_reference_norm_train(ff_compute *compute, const ff_norm *norm, float *scratch);
void ff_reference_norm_evaluate(ff_compute *compute, const ff_norm *norm, float *scratch);
void ff_reference_norm_backward(ff_compute *compute, const ff_norm_backward *norm, float *scratch);
void ff_reference_pool_forward(ff_compute *compute, const ff_pool *pool, const float *x, float *y,
                               uint8_t *index);
void ff_reference_pool_backward(ff_compute *compute, const ff_pool *pool, const float *dy,
                                const uint8_t *index, float *dx);
void ff_reference_linear_forward(ff_compute *compute, const ff_linear *linear, const float *x,
                                 const float *w, const float *bias, float *y);
void ff_reference_linear_backward(ff_compute *compute, const ff_linear *linear, const float *x,
                                  const float *w, const float *dy, float *dx, float *dw,
                                  float *dbias);
void ff_reference_relu_forward(ff_compute *compute, size_t count, const float *x, float *y);
void ff_reference_relu_backward(ff_compute *compute, size_t count, const float *y, const float *dy,
                                float *dx);
void ff_reference_gelu_forward(ff_compute *compute, size_t count, const float *x, float *y);
void ff_reference_gelu_backward(ff_compute *compute, size_t count, const float *x, const float *dy,
                                float *dx);
void ff_reference_add(ff_compute *compute, size_t count, const float *a, const float *b, float *to);
void ff_reference_dropout(ff_compute *compute, const ff_dropout *dropout, const float *x, float *y);
void ff_reference_loss(ff_compute *compute, const ff_loss *loss, ff_loss_result *result);
void ff_reference_sgd(ff_compute *compute, const ff_sgd *sgd, size_t count, float *value,
                      float *momentum, const float *gradient);

/* GELU and its slope: ff_activation. */
double ff_reference_gelu(double z);
double ff_reference_gelu_slope(double z);

#endif
