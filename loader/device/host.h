/* The device table on the host: ordinary memory, in huge pages as far as the kernel has them,
 * without recordings and kernels. */
#ifndef FF_LOADER_DEVICE_HOST_H
#define FF_LOADER_DEVICE_HOST_H

#include "loader/device/device.h"

typedef enum ff_host_streams {
    /* Work runs in the caller, at the call, without overhead. */
    FF_HOST_STREAMS_CALLER,
    /* Each stream is a thread with a queue; device memory counts as separate. */
    FF_HOST_STREAMS_THREADS,
} ff_host_streams;

FF_MUST_USE ff_status ff_device_host_create(ff_device **device, ff_host_streams streams,
                                            ff_error *error);

#endif
