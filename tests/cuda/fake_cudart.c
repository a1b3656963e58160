#include "tests/cuda/fake_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fake_cudart fake;

#define PASS(code)                                                                                 \
    do {                                                                                           \
        cudaError_t pass_code = (code);                                                            \
        if (pass_code != cudaSuccess) return pass_code;                                            \
    } while (0)
#define CALL(name)          PASS(fake_call(name, true))
#define CALL_ANYWHERE(name) PASS(fake_call(name, false))
#define CHECK(name, of, at) PASS(fake_check(name, of, at))

cudaError_t cudaGetLastError(void) {
    cudaError_t code = (cudaError_t)fake.last_error;
    fake.last_error = cudaSuccess;
    return code;
}
const char *cudaGetErrorName(cudaError_t error) {
    return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorOfTheFake";
}
const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorMemoryAllocation ? "out of memory" : "as it was told";
}

/* ---- devices ---- */

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 3;
    CALL_ANYWHERE("cudaGetDeviceCount");
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    CALL_ANYWHERE("cudaSetDevice");
    fake.current = device;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
    CALL_ANYWHERE("cudaGetDevice");
    *device = fake.current;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int device) {
    (void)device;
    *value = which == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device) {
    CALL_ANYWHERE("cudaGetDeviceProperties");
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "fake %d", device);
    out->major = 9;
    out->multiProcessorCount = 132;
    out->totalGlobalMem = (size_t)1 << 37;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *bus, int length, int device) {
    CALL_ANYWHERE("cudaDeviceGetPCIBusId");
    snprintf(bus, (size_t)length, "0000:%02x:00.0", device);
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) {
    CALL_ANYWHERE("cudaDriverGetVersion");
    *version = 13010;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
    CALL_ANYWHERE("cudaRuntimeGetVersion");
    *version = 13000;
    return cudaSuccess;
}

/* ---- memory ---- */

cudaError_t cudaMemGetInfo(size_t *unused, size_t *total) {
    CALL("cudaMemGetInfo");
    *unused = 1000;
    *total = 5000;
    return cudaSuccess;
}
cudaError_t cudaMalloc(void **memory, size_t bytes) {
    *memory = (void *)8; /* must not be used if the call fails */
    CALL("cudaMalloc");
    PASS(fake_check_safe());
    if (bytes > 5000) return fake_refuse(cudaErrorMemoryAllocation);
    *memory = fake_hold(DEVICE_MEMORY, bytes);
    return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    CALL_ANYWHERE("cudaThreadExchangeStreamCaptureMode");
    const int before = fake.mode;
    fake.mode = (int)*mode;
    *mode = (enum cudaStreamCaptureMode)before;
    return cudaSuccess;
}
static cudaError_t release_memory(const char *name, sort of, void *memory) {
    const thing *one = memory ? fake_find(of, memory) : NULL;
    PASS(fake_check_safe());
    if (!memory) return cudaSuccess;
    if (!one) return fake_misuse(name, "memory that is not, or no longer, allocated");
    if (fake_in_use(memory, one->bytes, NULL))
        return fake_misuse(name, "memory that enqueued work uses");
    fake_drop(memory);
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory) {
    CALL("cudaFree");
    return release_memory("cudaFree", DEVICE_MEMORY, memory);
}
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags) {
    *memory = (void *)8;
    CALL("cudaHostAlloc");
    PASS(fake_check_safe());
    if (flags != cudaHostAllocPortable) return fake_refuse(cudaErrorInvalidValue);
    *memory = fake_hold(PINNED, bytes);
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void *memory) {
    CALL("cudaFreeHost");
    return release_memory("cudaFreeHost", PINNED, memory);
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    CALL("cudaStreamCreateWithFlags");
    if (flags != cudaStreamNonBlocking) return fake_refuse(cudaErrorInvalidValue);
    *stream = fake_hold(STREAM, sizeof **stream);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    CALL("cudaStreamDestroy");
    CHECK("cudaStreamDestroy", STREAM, stream);
    if (stream->capture) return fake_misuse("cudaStreamDestroy", "a stream in a capture");
    fake_drain(stream);
    fake_drop(stream);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    CALL("cudaStreamSynchronize");
    CHECK("cudaStreamSynchronize", STREAM, stream);
    if (stream->capture) return fake_lose_capture(cudaErrorStreamCaptureUnsupported);
    PASS(fake_check_safe());
    fake_drain(stream);
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    CALL("cudaStreamWaitEvent");
    CHECK("cudaStreamWaitEvent", STREAM, stream);
    CHECK("cudaStreamWaitEvent", EVENT, event);
    if (flags) return fake_refuse(cudaErrorInvalidValue);
    /* A stream may wait for a record in its own capture, or outside of one for one outside. */
    if (event->capture != stream->capture)
        return fake_lose_capture(event->capture ? cudaErrorCapturedEvent
                                                : cudaErrorStreamCaptureIsolation);
    return stream->capture ? cudaSuccess
                           : fake_enqueue(stream, (work){.kind = WAIT, .event = event});
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
    CALL("cudaStreamIsCapturing");
    CHECK("cudaStreamIsCapturing", STREAM, stream);
    *status = stream->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    CALL("cudaEventCreateWithFlags");
    *event = fake_hold(EVENT, sizeof **event);
    (*event)->flags = flags;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    CALL("cudaEventDestroy");
    CHECK("cudaEventDestroy", EVENT, event);
    if (fake_find(STREAM, event->stream)) fake_drain(event->stream);
    fake_drop(event);
    return cudaSuccess;
}
static cudaError_t record(const char *name, cudaEvent_t event, cudaStream_t stream, bool external) {
    CHECK(name, EVENT, event);
    CHECK(name, STREAM, stream);
    /* CUDA programming guide, "Stream and Event Behavior". */
    if (fake_find(EVENT, event)->device != fake_find(STREAM, stream)->device)
        return fake_misuse(name, "an event and a stream of two devices");
    event->capture = external ? NULL : stream->capture;
    if (event->capture) return cudaSuccess;
    event->stream = stream->capture ? NULL : stream;
    return fake_enqueue(stream, (work){.kind = RECORD, .event = event});
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    CALL("cudaEventRecord");
    return record("cudaEventRecord", event, stream, false);
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
    CALL("cudaEventRecordWithFlags");
    CHECK("cudaEventRecordWithFlags", STREAM, stream);
    /* "This flag is invalid outside of stream capture." */
    if ((flags == cudaEventRecordExternal) != (stream->capture != NULL))
        return fake_lose_capture(cudaErrorIllegalState);
    return record("cudaEventRecordWithFlags", event, stream, stream->capture != NULL);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    CALL("cudaEventSynchronize");
    CHECK("cudaEventSynchronize", EVENT, event);
    if (event->capture) return fake_lose_capture(cudaErrorCapturedEvent);
    PASS(fake_check_safe());
    if (fake_find(STREAM, event->stream)) fake_drain(event->stream);
    return cudaSuccess;
}
static bool is_pending(cudaEvent_t event) {
    const queue *in = fake_find(STREAM, event->stream) ? &event->stream->work : NULL;
    for (int i = 0; in && i < in->count; i++)
        if (in->list[i].kind == RECORD && in->list[i].event == event) return true;
    return false;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    CALL("cudaEventQuery");
    CHECK("cudaEventQuery", EVENT, event);
    if (event->capture) return fake_lose_capture(cudaErrorCapturedEvent);
    PASS(fake_check_safe());
    return is_pending(event) ? fake_refuse(cudaErrorNotReady) : cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    CALL("cudaEventElapsedTime");
    CHECK("cudaEventElapsedTime", EVENT, from);
    CHECK("cudaEventElapsedTime", EVENT, to);
    if (((from->flags | to->flags) & cudaEventDisableTiming) || !from->records || !to->records)
        return fake_refuse(cudaErrorInvalidResourceHandle);
    if (is_pending(from) || is_pending(to)) return fake_refuse(cudaErrorNotReady);
    *ms = 1.5f;
    return cudaSuccess;
}

/* ---- work ---- */

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    CALL("cudaMemcpyAsync");
    CHECK("cudaMemcpyAsync", STREAM, stream);
    PASS(fake_check_range("cudaMemcpyAsync", to, bytes));
    PASS(fake_check_range("cudaMemcpyAsync", from, bytes));
    if (kind != cudaMemcpyDefault) return fake_refuse(cudaErrorInvalidValue);
    return fake_enqueue(stream, (work){.kind = COPY, .to = to, .from = from, .bytes = bytes});
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    CALL("cudaMemsetAsync");
    CHECK("cudaMemsetAsync", STREAM, stream);
    PASS(fake_check_range("cudaMemsetAsync", to, bytes));
    return fake_enqueue(stream, (work){.kind = FILL, .to = to, .value = value, .bytes = bytes});
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *context) {
    CALL("cudaLaunchHostFunc");
    CHECK("cudaLaunchHostFunc", STREAM, stream);
    return fake_enqueue(stream, (work){.kind = CALL, .function = function, .context = context});
}

/* ---- graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    CALL("cudaStreamBeginCapture");
    CHECK("cudaStreamBeginCapture", STREAM, stream);
    if (mode != cudaStreamCaptureModeThreadLocal || stream->capture)
        return fake_refuse(cudaErrorIllegalState);
    stream->capture = fake_hold(GRAPH, sizeof *stream->capture);
    fake.captures++;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    *graph = NULL;
    cudaError_t code = fake_call("cudaStreamEndCapture", true);
    if (!fake_find(STREAM, stream) || !stream->capture)
        return fake_misuse("cudaStreamEndCapture", "a stream that is in no capture");
    if (code == cudaSuccess && fake.capture_lost)
        code = fake_refuse(cudaErrorStreamCaptureInvalidated);
    for (const thing *one = fake_things; one; one = one->next)
        if (one->sort == EVENT && ((cudaEvent_t)one->at)->capture == stream->capture)
            ((cudaEvent_t)one->at)->capture = NULL;
    fake.captures--;
    if (code != cudaSuccess) /* an invalidated capture has also ended */
        fake_drop(stream->capture);
    else
        *graph = stream->capture;
    stream->capture = NULL;
    return code;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph,
                                 unsigned long long flags) {
    *made = NULL;
    CALL("cudaGraphInstantiate");
    CHECK("cudaGraphInstantiate", GRAPH, graph);
    if (flags) return fake_refuse(cudaErrorInvalidValue);
    *made = fake_hold(EXEC, sizeof **made);
    (*made)->work = graph->work;
    return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t made, cudaStream_t stream) {
    CALL("cudaGraphUpload");
    CHECK("cudaGraphUpload", EXEC, made);
    CHECK("cudaGraphUpload", STREAM, stream);
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    CALL("cudaGraphDestroy");
    CHECK("cudaGraphDestroy", GRAPH, graph);
    fake_drop(graph);
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t made, cudaStream_t stream) {
    CALL("cudaGraphLaunch");
    CHECK("cudaGraphLaunch", EXEC, made);
    CHECK("cudaGraphLaunch", STREAM, stream);
    return fake_enqueue(stream, (work){.kind = LAUNCH, .graph = made});
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t made) {
    CALL("cudaGraphExecDestroy");
    CHECK("cudaGraphExecDestroy", EXEC, made);
    if (fake_in_use(NULL, 0, made))
        return fake_misuse("cudaGraphExecDestroy", "a graph that is launched");
    fake_drop(made);
    return cudaSuccess;
}
