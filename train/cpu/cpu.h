/* The implementations of the compute table on the CPU, and the kernels they share. */
#ifndef FF_TRAIN_CPU_H
#define FF_TRAIN_CPU_H

#include "train/compute.h"

/* Plain loops, in double where sums are long: slow, and the truth of every test. Any block. */
extern const ff_compute_ops ff_reference_ops;

/* oneDNN convolutions in blocked layouts, and the fused kernels of fused_*.c around them. Exists
 * where FF_HAVE_DNNL is defined. */
extern const ff_compute_ops ff_onednn_ops;

/* ff_compute_begin of a table on the CPU: refuses what is not f32, and devices whose memory or
 * streams are not the caller's. */
FF_MUST_USE ff_status ff_cpu_begin(ff_compute *compute, const ff_compute_ops *ops,
                                   const ff_compute_options *options, ff_error *error);

/* The update entries, but for the matrix product of Muon, which each table brings. */
FF_MUST_USE ff_status ff_cpu_update_create(ff_compute *compute, const ff_update_spec *spec,
                                           ff_matrix_product product, ff_prepared_update **update,
                                           ff_error *error);
void ff_cpu_update_destroy(ff_compute *compute, ff_prepared_update *update);
void ff_cpu_update_run(ff_compute *compute, ff_prepared_update *update, ff_outcome *ring,
                       uint32_t ring_size);

/* The plain loops one by one: fast tables take them for shapes that they have no kernel for. */
void ff_reference_norm_train(ff_compute *compute, const ff_norm *norm, float *scratch);
void ff_reference_norm_evaluate(ff_compute *compute, const ff_norm *norm, float *scratch);
void ff_reference_norm_backward(ff_compute *compute, const ff_norm_backward *norm, float *scratch);
void ff_reference_pool_forward(ff_compute *compute, const ff_pool *pool, const void *x, void *y,
                               uint8_t *index);
void ff_reference_pool_backward(ff_compute *compute, const ff_pool *pool, const void *dy,
                                const uint8_t *index, void *dx);
void ff_reference_linear_forward(ff_compute *compute, const ff_linear *linear, const void *x,
                                 const void *w, const float *bias, void *y);
void ff_reference_linear_backward(ff_compute *compute, const ff_linear *linear, const void *x,
                                  const void *w, const void *dy, void *dx, void *dw, float *dbias,
                                  void *scratch);
void ff_reference_activation_forward(ff_compute *compute, ff_activation activation, size_t count,
                                     const void *x, void *y);
void ff_reference_activation_backward(ff_compute *compute, ff_activation activation, size_t count,
                                      const void *seen, const void *dy, void *dx);
void ff_reference_add(ff_compute *compute, size_t count, const void *a, const void *b, void *to);
void ff_reference_dropout(ff_compute *compute, const ff_dropout *dropout, const void *x, void *y);
size_t ff_reference_loss_scratch(const ff_compute *compute, int n, int stride);
void ff_reference_loss(ff_compute *compute, const ff_loss *loss);
void ff_reference_view(ff_compute *compute, const ff_image_view *view, const void *x, void *y);
void ff_reference_weigh(ff_compute *compute, size_t count, float weight, bool first, const float *x,
                        float *to);

/* One value: an activation, and a gradient g of it times its slope. ReLU's is found from x or y. */
float ff_reference_activate(ff_activation activation, float z);
float ff_reference_activate_backward(ff_activation activation, float seen, float g);

#endif
