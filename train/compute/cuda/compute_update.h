/* The update on the device; compute.h documents the entries. */
#ifndef FF_TRAIN_CUDA_COMPUTE_UPDATE_H
#define FF_TRAIN_CUDA_COMPUTE_UPDATE_H

#include "train/compute/cuda/compute.h"

ff_status ff_cuda_update_create(ff_compute *compute, const ff_update_spec *spec,
                                ff_prepared_update **update, ff_error *error);
void ff_cuda_update_destroy(ff_compute *compute, ff_prepared_update *update);
void ff_cuda_update_enqueue(ff_compute *compute, ff_prepared_update *update, ff_outcome *ring,
                            uint32_t ring_size);

void ff_cuda_update_sum(ff_compute *compute, const ff_gradient_sum *sum);
void ff_cuda_update_count(ff_compute *compute, ff_prepared_update *update, bool first,
                          ff_outcome *ring, uint32_t ring_size);
void ff_cuda_update_join(ff_compute *compute, ff_prepared_update *update, const ff_outcome *ranks,
                         int count, ff_outcome *ring, uint32_t ring_size);

/* Filter banks under Muon. One kernel begins, and one ends, the update of all of them. Between the
 * two, banks of one shape are a batch: a chain of small kernels and products that does not fill a
 * GPU. So every batch has a branch: a stream with its own workspace (more than
 * FF_CUDA_MUON_BRANCHES batches share the branches). `segments`: Muon's, in the order of the spec;
 * `groups`: all; `tables`: for the rates and the control. *banks = NULL if the spec has no such
 * banks. */
enum { FF_CUDA_MUON_BRANCHES = 8 };
typedef struct ff_cuda_muon_banks ff_cuda_muon_banks;
ff_status ff_cuda_muon_create(ff_cuda_muon_banks **banks, ff_cuda_compute *compute,
                              const ff_update_spec *spec, const ff_cuda_segment *segments,
                              const ff_cuda_group *groups, const ff_cuda_update *tables,
                              ff_error *error);
void ff_cuda_muon_destroy(ff_compute *compute, ff_cuda_muon_banks *banks); /* NULL is accepted */
/* Enqueues the banks' updates in their branches, after earlier work and before later work of the
 * compute's stream. */
void ff_cuda_muon_enqueue(ff_cuda_compute *compute, const ff_cuda_muon_banks *banks);

#endif
