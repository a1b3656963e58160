/* The device table of a simulated GPU, over the streams and memory of the host
 * (loader/device/host.h): streams that wait a random time before some of their work, and recordings
 * by CUDA's rules, which refuse what CUDA refuses. So ThreadSanitizer and the tests check the order
 * of copies, kernels and events without a GPU. Ownership, errors and thread rule:
 * loader/device/device.h. */
#ifndef FF_CUDASIM_DEVICE_H
#define FF_CUDASIM_DEVICE_H

#include "loader/device/host.h"

/* In threads: a delay of up to `delay_ns` before one piece of work in four, drawn from `seed`. In
 * the caller: the work of a launch runs in the order of the capture. */
FF_MUST_USE ff_status ff_device_sim_create(ff_device **device, ff_host_streams streams,
                                           uint64_t delay_ns, uint64_t seed, ff_error *error);

/* Enqueues work in a stream (from native_stream): function(context) runs in the stream, in order,
 * or is recorded if the stream is in a capture. release(context) is called after the run or, if the
 * work was recorded, when the recording is destroyed; NULL = nothing to release. Returns 0, or 2
 * (cudaErrorMemoryAllocation) if out of memory; then the caller keeps `context`. */
int ff_device_sim_enqueue(void *stream, void (*function)(void *context), void *context,
                          void (*release)(void *context));

/* The number of kernels, copies and fills in the stream's capture so far. */
int ff_device_sim_nodes(const ff_stream *stream);

#endif
