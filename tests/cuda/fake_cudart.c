#include "tests/cuda/fake_cudart.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fake_cudart fake;

typedef struct work {
    enum { COPY, FILL, CALL, RECORD } kind;
    void *to;
    const void *from;
    int value;
    size_t bytes;
    cudaHostFn_t function;
    void *context;
    cudaEvent_t event;
} work;

struct CUgraph_st {
    work list[64];
    int count;
};
struct CUgraphExec_st {
    struct CUgraph_st graph;
};
struct CUstream_st {
    struct CUgraph_st *capture;
};
struct CUevent_st {
    unsigned flags;
    int records;
};

static cudaError_t call(const char *name, bool of_device) {
    fake.calls++;
    if (of_device && fake.current != fake.device) fake.strays++;
    if (fake.calls != fake.fail_at) return cudaSuccess;
    snprintf(fake.failed, sizeof fake.failed, "%s", name);
    return (cudaError_t)(fake.last_error = fake.fail_with);
}
#define CALL(name)                                                                                 \
    do {                                                                                           \
        cudaError_t call_code = call(name, true);                                                  \
        if (call_code != cudaSuccess) return call_code;                                            \
    } while (0)
#define CALL_ANYWHERE(name)                                                                        \
    do {                                                                                           \
        cudaError_t call_code = call(name, false);                                                 \
        if (call_code != cudaSuccess) return call_code;                                            \
    } while (0)

static cudaError_t refuse(cudaError_t code) {
    return (cudaError_t)(fake.last_error = (int)code);
}

static void run(const work *piece) {
    switch (piece->kind) {
    case COPY: memcpy(piece->to, piece->from, piece->bytes); break;
    case FILL: memset(piece->to, piece->value, piece->bytes); break;
    case CALL: piece->function(piece->context); break;
    case RECORD: piece->event->records++; break;
    }
}
static cudaError_t give(cudaStream_t stream, work piece) {
    if (stream->capture)
        stream->capture->list[stream->capture->count++] = piece;
    else
        run(&piece);
    return cudaSuccess;
}

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
/* What "potentially unsafe" calls come to while this thread captures, or another one in the global
 * mode. A refused call loses this thread's captures. */
static bool is_refused(void) {
    const bool own = fake.captures && fake.mode != cudaStreamCaptureModeRelaxed;
    fake.capture_lost |= own;
    return own || (fake.global_capture && fake.mode == cudaStreamCaptureModeGlobal);
}
static void *hold(size_t bytes) {
    fake.held++;
    return aligned_alloc(256, (bytes + 255) / 256 * 256);
}
static void release(void *memory) {
    fake.held -= memory != NULL;
    free(memory);
}
cudaError_t cudaMalloc(void **memory, size_t bytes) {
    *memory = (void *)8; /* must not be used if the call fails */
    CALL("cudaMalloc");
    if (is_refused()) return refuse(cudaErrorStreamCaptureUnsupported);
    if (bytes > 5000) return refuse(cudaErrorMemoryAllocation);
    *memory = hold(bytes);
    return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    CALL_ANYWHERE("cudaThreadExchangeStreamCaptureMode");
    const int before = fake.mode;
    fake.mode = (int)*mode;
    *mode = (enum cudaStreamCaptureMode)before;
    return cudaSuccess;
}
cudaError_t cudaFree(void *memory) {
    CALL("cudaFree");
    if (is_refused()) return refuse(cudaErrorStreamCaptureUnsupported);
    release(memory);
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags) {
    *memory = (void *)8;
    CALL("cudaHostAlloc");
    if (is_refused()) return refuse(cudaErrorStreamCaptureUnsupported);
    if (flags != cudaHostAllocPortable) return refuse(cudaErrorInvalidValue);
    *memory = hold(bytes);
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void *memory) {
    CALL("cudaFreeHost");
    if (is_refused()) return refuse(cudaErrorStreamCaptureUnsupported);
    release(memory);
    return cudaSuccess;
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    CALL("cudaStreamCreateWithFlags");
    if (flags != cudaStreamNonBlocking) return refuse(cudaErrorInvalidValue);
    *stream = memset(hold(sizeof **stream), 0, sizeof **stream);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    CALL("cudaStreamDestroy");
    release(stream);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    CALL("cudaStreamSynchronize");
    return stream->capture || is_refused() ? refuse(cudaErrorStreamCaptureUnsupported)
                                           : cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    CALL("cudaStreamWaitEvent");
    (void)stream, (void)event;
    return flags ? refuse(cudaErrorInvalidValue) : cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
    CALL("cudaStreamIsCapturing");
    *status = stream->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    CALL("cudaEventCreateWithFlags");
    *event = memset(hold(sizeof **event), 0, sizeof **event);
    (*event)->flags = flags;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    CALL("cudaEventDestroy");
    release(event);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    CALL("cudaEventRecord");
    if (!stream->capture) event->records++;
    return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
    CALL("cudaEventRecordWithFlags");
    /* "This flag is invalid outside of stream capture." */
    if ((flags == cudaEventRecordExternal) != (stream->capture != NULL)) {
        fake.capture_lost = true;
        return refuse(cudaErrorIllegalState);
    }
    return give(stream, (work){.kind = RECORD, .event = event});
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    CALL("cudaEventSynchronize");
    (void)event;
    return is_refused() ? refuse(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    CALL("cudaEventQuery");
    if (is_refused()) return refuse(cudaErrorStreamCaptureUnsupported);
    return event->records ? cudaSuccess : refuse(cudaErrorNotReady);
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    CALL("cudaEventElapsedTime");
    if ((from->flags | to->flags) & cudaEventDisableTiming)
        return refuse(cudaErrorInvalidResourceHandle);
    *ms = 1.5f;
    return cudaSuccess;
}

/* ---- work ---- */

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    CALL("cudaMemcpyAsync");
    if (kind != cudaMemcpyDefault) return refuse(cudaErrorInvalidValue);
    return give(stream, (work){.kind = COPY, .to = to, .from = from, .bytes = bytes});
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    CALL("cudaMemsetAsync");
    return give(stream, (work){.kind = FILL, .to = to, .value = value, .bytes = bytes});
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *context) {
    CALL("cudaLaunchHostFunc");
    return give(stream, (work){.kind = CALL, .function = function, .context = context});
}

/* ---- graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    CALL("cudaStreamBeginCapture");
    if (mode != cudaStreamCaptureModeThreadLocal || stream->capture)
        return refuse(cudaErrorIllegalState);
    stream->capture = memset(hold(sizeof *stream->capture), 0, sizeof *stream->capture);
    fake.captures++;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    *graph = NULL;
    cudaError_t code = call("cudaStreamEndCapture", true);
    fake.captures--;
    if (code != cudaSuccess) /* an invalidated capture has also ended */
        release(stream->capture);
    else
        *graph = stream->capture;
    stream->capture = NULL;
    return code;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph,
                                 unsigned long long flags) {
    *made = NULL;
    CALL("cudaGraphInstantiate");
    if (flags) return refuse(cudaErrorInvalidValue);
    *made = hold(sizeof **made);
    (*made)->graph = *graph;
    return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t made, cudaStream_t stream) {
    CALL("cudaGraphUpload");
    (void)made, (void)stream;
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    CALL("cudaGraphDestroy");
    release(graph);
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t made, cudaStream_t stream) {
    CALL("cudaGraphLaunch");
    (void)stream;
    for (int i = 0; i < made->graph.count; i++) run(&made->graph.list[i]);
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t made) {
    CALL("cudaGraphExecDestroy");
    release(made);
    return cudaSuccess;
}
