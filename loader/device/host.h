/* The device table on the host. */
#ifndef FF_LOADER_DEVICE_HOST_H
#define FF_LOADER_DEVICE_HOST_H

#include "loader/device/device.h"

typedef enum ff_host_streams {
    /* Work runs in the caller, at the call: nothing to wait for, nothing to pay. */
    FF_HOST_STREAMS_CALLER,
    /* Each stream is a thread with a queue, and waits a random time before some of its work; device
     * memory counts as separate. Behaves as a GPU does, so that ThreadSanitizer and the tests can
     * prove the order of copies and events without one. */
    FF_HOST_STREAMS_THREADS,
} ff_host_streams;

/* `delay_ns` and `seed`, with threads: up to that long before one piece of work in four. */
FF_MUST_USE ff_status ff_device_host_create(ff_device **device, ff_host_streams streams,
                                            uint64_t delay_ns, uint64_t seed, ff_error *error);

/* Gives work to a host stream (what native_stream tells): function(context) runs in it, in order,
 * or is recorded where the stream is in a capture. This is where the simulator sends kernel
 * launches. release(context) follows the run, or, where it was recorded, the end of the recording;
 * release NULL = nothing to do. 0, or 2 (cudaErrorMemoryAllocation) where there was no memory for
 * it; then nothing was taken. */
int ff_device_host_enqueue(void *stream, void (*function)(void *context), void *context,
                           void (*release)(void *context));

#endif
