/* Streams, events, and the work that is enqueued in streams. */
#include "tests/cuda/strict/state.h"

#include "tests/cuda/sim/cudasim.h"
#include "tests/cuda/sim/device.h"
#include "tests/cuda/strict/limits.h"

#include <stdlib.h>

/* ---- streams ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    CALL("cudaStreamCreateWithFlags");
    if (flags != cudaStreamNonBlocking)
        return refuse(this_call.name, cudaErrorInvalidValue,
                      "an own stream waits for the legacy one");
    *stream = hold(STREAM, sizeof **stream);
    (*stream)->device = current_device;
    (*stream)->lane = take_lane();
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    CALL("cudaStreamDestroy");
    if (!check_handle(this_call.name, STREAM, stream)) return cudaErrorInvalidResourceHandle;
    if (stream->capture)
        return refuse(this_call.name, cudaErrorIllegalState, "the stream is in a capture");
    give_lane(stream->lane);
    free(stream->tips.list);
    drop(stream);
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
    CALL("cudaStreamIsCapturing");
    if (!check_handle(this_call.name, STREAM, stream)) return cudaErrorInvalidResourceHandle;
    *status = stream->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

static cudaError_t lose(const char *name, cudaStream_t stream, cudaError_t code, const char *what) {
    if (stream->capture) stream->capture->lost = true;
    return refuse(name, code, what);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    CALL("cudaStreamWaitEvent");
    (void)flags;
    if (!check_handle(this_call.name, STREAM, stream) ||
        !check_handle(this_call.name, EVENT, event))
        return cudaErrorInvalidResourceHandle;
    if (event->inner)
        return lose(this_call.name, stream, cudaErrorCapturedEvent,
                    "the event was last recorded in a capture");
    if (stream->capture && stream->capture != event->capture)
        return lose(this_call.name, stream, cudaErrorStreamCaptureIsolation,
                    "a stream in a capture waits for an event outside of it");
    if (event->capture) {
        if (!stream->capture) tips_set(&stream->tips, NULL);
        stream->capture = event->capture;
        tips_add(&stream->tips, &event->tips);
    } else {
        join(&stream->when, &event->when);
    }
    return cudaSuccess;
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    CALL("cudaEventCreateWithFlags");
    *event = hold(EVENT, sizeof **event);
    (*event)->flags = flags;
    (*event)->device = current_device;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    CALL("cudaEventDestroy");
    if (!check_handle(this_call.name, EVENT, event)) return cudaErrorInvalidResourceHandle;
    free(event->tips.list);
    drop(event);
    return cudaSuccess;
}

static cudaError_t record(const char *name, cudaEvent_t event, cudaStream_t stream, bool external) {
    if (!check_handle(name, EVENT, event) || !check_handle(name, STREAM, stream))
        return cudaErrorInvalidResourceHandle;
    if (event->device != stream->device)
        return refuse(name, cudaErrorInvalidResourceHandle, "event and stream are of two devices");
    event->inner = false;
    event->capture = external ? NULL : stream->capture;
    if (!event->capture) return enqueue(stream, (work){.kind = RECORD, .event = event});
    tips_set(&event->tips, &stream->tips);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    CALL("cudaEventRecord");
    return record(this_call.name, event, stream, false);
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
    CALL("cudaEventRecordWithFlags");
    if (!check_handle(this_call.name, STREAM, stream)) return cudaErrorInvalidResourceHandle;
    if ((flags == cudaEventRecordExternal) != (stream->capture != NULL))
        return lose(this_call.name, stream, cudaErrorIllegalState,
                    "the external flag is for captures alone");
    return record(this_call.name, event, stream, stream->capture != NULL);
}

static void leave_stream(void *handle, void *context) {
    const cudaStream_t stream = handle;
    if (stream->capture == context) stream->capture = NULL;
}
static void leave_event(void *handle, void *context) {
    const cudaEvent_t event = handle;
    if (event->capture != context) return;
    event->capture = NULL;
    event->inner = true;
}
void leave_capture(capture *of) {
    each(STREAM, leave_stream, of);
    each(EVENT, leave_event, of);
}

/* ---- work ---- */

/* Two GPUs may have no access to each other's memory: CUDA then copies through the host. */
static bool reaches(const char *name, cudaStream_t stream, size_t offset) {
    const int device = device_of_range(offset);
    const bool own = device == PINNED || device == stream->device;
    if (!own)
        (void)lose(name, stream, cudaErrorInvalidValue,
                   "the memory is another device's than the stream");
    return own;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    CALL("cudaMemcpyAsync");
    if (!check_handle(this_call.name, STREAM, stream)) return cudaErrorInvalidResourceHandle;
    if (kind != cudaMemcpyDefault)
        return refuse(this_call.name, cudaErrorInvalidValue, "a fixed direction");
    const size_t at = find_range(this_call.name, to, bytes),
                 source = find_range(this_call.name, from, bytes);
    if (at == SIZE_MAX || source == SIZE_MAX || !reaches(this_call.name, stream, at) ||
        !reaches(this_call.name, stream, source))
        return cudaErrorInvalidValue;
    return enqueue(stream, (work){.kind = COPY,
                                  .to = at,
                                  .from = source,
                                  .bytes = bytes,
                                  .where = find_place(this_call.name, NULL)});
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    CALL("cudaMemsetAsync");
    if (!check_handle(this_call.name, STREAM, stream)) return cudaErrorInvalidResourceHandle;
    const size_t at = find_range(this_call.name, to, bytes);
    if (at == SIZE_MAX || !reaches(this_call.name, stream, at)) return cudaErrorInvalidValue;
    return enqueue(stream, (work){.kind = FILL,
                                  .to = at,
                                  .value = value,
                                  .bytes = bytes,
                                  .where = find_place(this_call.name, NULL)});
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *context) {
    CALL("cudaLaunchHostFunc");
    if (!check_handle(this_call.name, STREAM, stream)) return cudaErrorInvalidResourceHandle;
    return enqueue(stream, (work){.kind = FUNCTION,
                                  .function = function,
                                  .context = context,
                                  .where = find_place(this_call.name, NULL)});
}

/* what, code: for the sentence of a failure. */
static int launch(const char *what, const void *code, work piece, void *to) {
    CALL(what);
    const cudaStream_t stream = to;
    if (!check_handle(what, STREAM, stream)) return cudaErrorInvalidResourceHandle;
    if (stream->device != current_device)
        return (int)lose(what, stream, cudaErrorInvalidResourceHandle,
                         "another device is current than the stream's");
    piece.kind = KERNEL;
    piece.where = find_place(what, code);
    return (int)enqueue(stream, piece);
}

static int launch_kernel(void *stream, void (*function)(void *), void *context,
                         void (*release)(void *)) {
    const work piece = {.function = function, .context = context, .release = release};
    const ff_cudasim_launch one = ff_cudasim_launch_of(context);
    lock_all();
    const char *why = strict_refusal_of_all(&one);
    if (why) (void)refuse("a kernel's launch", cudaErrorInvalidConfiguration, why);
    unlock_all();
    if (!why) return launch("a kernel", one.kernel, piece, stream);
    release(context);
    return cudaErrorInvalidConfiguration;
}

/* In place of the simulated device's: what the plain library enqueues. */
int ff_device_sim_enqueue(void *stream, void (*function)(void *), void *context,
                          void (*release)(void *)) {
    const work piece = {.function = function, .context = context, .release = release};
    return launch("a library's kernel", (const void *)function, piece, stream);
}

__attribute__((visibility("default"))) int strict_exchange_device(int device);
int strict_exchange_device(int device) {
    const int before = current_device;
    if (device >= 0) current_device = device;
    return before;
}

/* The same for NCCL's stand-in, which calls it so: a collective waits for those of other ranks. */
__attribute__((visibility("default"))) int strict_enqueue_collective(void *, void (*)(void *),
                                                                     void *, void (*)(void *));
int strict_enqueue_collective(void *stream, void (*function)(void *), void *context,
                              void (*release)(void *)) {
    const work piece = {
        .function = function, .context = context, .release = release, .waits = true};
    return launch("a collective", (const void *)function, piece, stream);
}

__attribute__((constructor)) static void prepare(void) {
    ff_cudasim_enqueue = launch_kernel;
}
