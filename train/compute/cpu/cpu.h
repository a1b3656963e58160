/* Room train/compute/cpu, floor 11: the compute table on the CPU.
 *
 * cpu.c lists the tables of this build and opens one by name. reference.c has plain loops, which
 * are the reference of every other table and kernel. onednn.c takes convolutions and products from
 * oneDNN (2.x or 3.x: onednn_version.h; onednn_conv.c chooses how each convolution is computed) and
 * the rest from kernels over blocked activations: fused_norm.c, fused_pool.c, fused_depthwise.c,
 * gelu.h. update.c applies an optimizer to a span of parameters.
 *
 * Loops over activations are in .inc files, which element_variants.inc includes once for each dtype
 * of activations: f32 and bf16. Every element is computed in f32 and rounded once. Gradients of
 * several terms (dy + dy2) and GELU's are rounded before a norm sums them, as they are stored.
 * kernel_variants.inc also includes kernels once for each block and instruction set.
 *
 * May include format, loader/device, loader/sequence, train/compute.
 *
 * This header declares the implementations of the compute table on the CPU, and the kernels they
 * share. */
#ifndef FF_TRAIN_CPU_H
#define FF_TRAIN_CPU_H

#include "train/compute/compute.h"

/* Plain loops, in double for long sums: slow, and the reference of every test. Any block. One table
 * for each dtype of activations; every element is computed in f32 and rounded once. */
extern const ff_compute_ops ff_reference_ops_f32, ff_reference_ops_bf16;
static inline const ff_compute_ops *ff_reference_ops_of(ff_dtype dtype) {
    return dtype == FF_BF16 ? &ff_reference_ops_bf16 : &ff_reference_ops_f32;
}

/* oneDNN convolutions in blocked layouts, and the fused kernels of fused_*.c around them; the rest
 * are the plain loops. Only `name`, `allows` and `open` are set here; the opened compute has the
 * whole table. Defined only with FF_HAVE_DNNL. */
extern const ff_compute_ops ff_onednn_ops;

/* Refuses precisions that no CPU table has: ff_compute_ops.allows of the plain loops. */
FF_MUST_USE ff_status ff_cpu_allows(ff_precision precision, ff_error *error);

/* ff_compute_begin for a table on the CPU: refuses devices with separate memory. */
FF_MUST_USE ff_status ff_cpu_begin(ff_compute *compute, const ff_compute_ops *ops,
                                   const ff_compute_options *options, ff_error *error);

/* The update entries; each table passes its own matrix product for Muon. */
FF_MUST_USE ff_status ff_cpu_update_create(ff_compute *compute, const ff_update_spec *spec,
                                           ff_matrix_product product, ff_prepared_update **update,
                                           ff_error *error);
void ff_cpu_update_destroy(ff_compute *compute, ff_prepared_update *update);
void ff_cpu_sum_gradients(ff_compute *compute, const ff_gradient_sum *sum);
void ff_cpu_outcome_add(ff_compute *compute, ff_prepared_update *update, bool first,
                        ff_outcome *ring, uint32_t ring_size);
void ff_cpu_outcome_join(ff_compute *compute, ff_prepared_update *update, const ff_outcome *ranks,
                         int count, ff_outcome *ring, uint32_t ring_size);
void ff_cpu_update_run(ff_compute *compute, ff_prepared_update *update, ff_outcome *ring,
                       uint32_t ring_size);

/* A batch norm's forward pass. ff_norm_take takes a channel's statistics over this rank's batch,
 * and sends them if there are norm->ranks; ff_norm_join then joins the statistics of all ranks. */
void ff_norm_take(const ff_norm *norm, int c, ff_norm_moments own);
void ff_norm_join(ff_compute *compute, const ff_norm *norm);

/* One value: an activation, and its gradient, g times the derivative. `seen`: x or y for ReLU and
 * ReLU6, x for GELU. */
float ff_reference_activate(ff_activation activation, float z);
float ff_reference_activate_backward(ff_activation activation, float seen, float g);

#endif
