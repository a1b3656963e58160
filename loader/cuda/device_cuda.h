/* The device table on CUDA: part of the module and reached through its table (table.h).
 *
 * ff_stream, ff_event and ff_recording are CUDA's own cudaStream_t, cudaEvent_t and
 * cudaGraphExec_t. Streams do not synchronize with the default stream; waiting for an event blocks
 * without spinning. Each entry except `restore` makes the device the calling thread's current one,
 * so that no other device gets a context, and does not restore the previous one; creating a device
 * restores it. Errors name the device, the call and CUDA's error string; a failed call clears
 * CUDA's last error. */
#ifndef FF_LOADER_CUDA_DEVICE_CUDA_H
#define FF_LOADER_CUDA_DEVICE_CUDA_H

#include "loader/cuda/table.h"

/* The entries of ff_cuda_table. A device whose architecture the module was not built for is
 * refused. */
FF_MUST_USE ff_status ff_device_cuda_count(int *count, ff_error *error);
FF_MUST_USE ff_status ff_device_cuda_properties(int ordinal, ff_cuda_properties *properties,
                                                ff_error *error);
FF_MUST_USE ff_status ff_device_cuda_create(ff_device **device, int ordinal, ff_error *error);

#endif
