/* The kernels' job for samples that are resampled, jittered, changed or mixed on the device, and
 * the job's device memory. For all other samples see loader/gpu/batch_jobs.h. Private to loader/.
 */
#ifndef FF_LOADER_BATCH_AUGMENT_H
#define FF_LOADER_BATCH_AUGMENT_H

#include "loader/cuda/kernels.h"
#include "loader/device/device.h"
#include "loader/host/settings.h"

typedef struct ff_batch_augment {
    ff_device *device;
    void *constants; /* device: black | multiply | ... | table */
    ff_cuda_augment job;
} ff_batch_augment;

/* Whether samples with these settings need the job; and the device memory that it takes: its own,
 * and scratch rows of f32 and images of u8, which belong to the caller. */
bool ff_batch_augment_needed(const ff_loader_settings *settings);
uint64_t ff_batch_augment_bytes(const ff_loader_settings *settings);
uint64_t ff_batch_values_bytes(const ff_loader_settings *settings);

/* Creates the job for a view of the samples and the buffers of `move`. It must be destroyed also
 * after a failure. */
FF_MUST_USE ff_status ff_batch_augment_create(ff_batch_augment *augment,
                                              const ff_loader_settings *settings, uint32_t view,
                                              ff_device *device, const ff_cuda_move *move,
                                              void *values, ff_error *error);
/* A zeroed job is accepted. */
void ff_batch_augment_destroy(ff_batch_augment *augment);

/* Copies `bytes` from pinned memory to the device and waits. */
FF_MUST_USE ff_status ff_batch_upload(ff_device *device, void *to, const void *pinned,
                                      uint64_t bytes, ff_error *error);

#endif
