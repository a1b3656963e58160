/* The device table on the host. */
#ifndef FF_LOADER_DEVICE_HOST_H
#define FF_LOADER_DEVICE_HOST_H

#include "loader/device/device.h"

typedef enum ff_host_streams {
    /* Work runs in the caller, at the call, without overhead. */
    FF_HOST_STREAMS_CALLER,
    /* Each stream is a thread with a queue, and waits a random time before some of its work; device
     * memory counts as separate. Behaves like a GPU, so that ThreadSanitizer and the tests can
     * check the order of copies and events without one. */
    FF_HOST_STREAMS_THREADS,
} ff_host_streams;

/* `delay_ns` and `seed`, with threads: a delay of up to delay_ns before one work item in four. */
FF_MUST_USE ff_status ff_device_host_create(ff_device **device, ff_host_streams streams,
                                            uint64_t delay_ns, uint64_t seed, ff_error *error);

/* Enqueues work in a host stream (from native_stream): function(context) runs in the stream, in
 * order, or is recorded if the stream is in a capture. The simulator launches kernels through this
 * function. release(context) is called after the run or, if the work was recorded, when the
 * recording is destroyed; NULL = nothing to release. Returns 0, or 2 (cudaErrorMemoryAllocation) if
 * out of memory; then the caller keeps `context`. */
int ff_device_host_enqueue(void *stream, void (*function)(void *context), void *context,
                           void (*release)(void *context));

#endif
