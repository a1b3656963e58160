/* The implementations of the compute table on the CPU, and the kernels they share. */
#ifndef FF_TRAIN_CPU_H
#define FF_TRAIN_CPU_H

#include "train/compute.h"

/* Plain loops, in double where sums are long: slow, and the truth of every test. Any block. */
extern const ff_compute_ops ff_reference_ops;

/* oneDNN convolutions in blocked layouts, and the fused kernels of fused_*.c around them; all else
 * is the plain loops'. Only its name and `open` are here: what it opens has its table. Exists where
 * FF_HAVE_DNNL is defined. */
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

/* One value: an activation, and a gradient g of it times its slope. ReLU's is found from x or y. */
float ff_reference_activate(ff_activation activation, float z);
float ff_reference_activate_backward(ff_activation activation, float seen, float g);

#endif
