/* The job of the kernels for samples that are resampled, jittered or mixed on the device, and what
 * it needs in device memory; else loader/batch_jobs.h's. Private to loader/. */
#ifndef FF_LOADER_BATCH_WIDE_H
#define FF_LOADER_BATCH_WIDE_H

#include "loader/cuda/kernels.h"
#include "loader/device/device.h"
#include "loader/plan.h"

typedef struct ff_batch_wide {
    ff_device *device;
    void *values, *constants; /* device: room for rows of f32; black | multiply | ... | table */
    ff_cuda_wide job;
} ff_batch_wide;

/* Whether the plan's samples need it, and what of the device's memory that takes. */
bool ff_batch_wide_needed(const ff_loader_plan *plan);
uint64_t ff_batch_wide_bytes(const ff_loader_plan *plan);

/* For the samples and buffers of `move`. On failure still to be destroyed. */
FF_MUST_USE ff_status ff_batch_wide_create(ff_batch_wide *wide, const ff_loader_plan *plan,
                                           ff_device *device, const ff_cuda_move *move,
                                           ff_error *error);
/* A zeroed one is accepted. */
void ff_batch_wide_destroy(ff_batch_wide *wide);

/* Copies `bytes` from pinned memory to the device, at once. */
FF_MUST_USE ff_status ff_batch_upload(ff_device *device, void *to, const void *pinned,
                                      uint64_t bytes, ff_error *error);

#endif
