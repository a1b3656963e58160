#include "loader/cuda/device_cuda.h"

#include "format/base/memory.h"
#include "loader/cuda/advice.h"
#include "loader/cuda/architectures.h"

#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cudaStream_t stream_of(ff_stream *stream) {
    return (cudaStream_t)stream;
}
static cudaEvent_t event_of(ff_event *event) {
    return (cudaEvent_t)event;
}

static const char *cuda_error_advice(int code) {
    switch ((cudaError_t)code) {
    case cudaErrorMemoryAllocation: return FF_CUDA_ADVICE_MEMORY;
    case cudaErrorInsufficientDriver: return FF_CUDA_ADVICE_DRIVER;
    case cudaErrorDevicesUnavailable: return FF_CUDA_ADVICE_TAKEN;
    case cudaErrorNoKernelImageForDevice: return FF_CUDA_ADVICE_ARCHITECTURE;
    case cudaErrorECCUncorrectable: return FF_CUDA_ADVICE_DAMAGED;
    case cudaErrorLaunchFailure:
    case cudaErrorUnknown: return FF_CUDA_ADVICE_GONE;
    default: return "";
    }
}

/* Clears CUDA's last error, which a launcher would otherwise return: it is reported here. */
static ff_status fail(int ordinal, const char *call, cudaError_t code, ff_error *error) {
    (void)cudaGetLastError();
    return ff_fail(error, code == cudaErrorMemoryAllocation ? FF_NO_MEMORY : FF_FAILED,
                   "cuda:%d: %s failed: %s (%s)%s", ordinal, call, cudaGetErrorString(code),
                   cudaGetErrorName(code), cuda_error_advice((int)code));
}

/* Evaluates a CUDA call; if the call fails, the enclosing function returns the error. */
#define CUDA_TRY(ordinal, function, ...)                                                           \
    do {                                                                                           \
        cudaError_t cuda_try_code = function(__VA_ARGS__);                                         \
        if (cuda_try_code != cudaSuccess) return fail(ordinal, #function, cuda_try_code, error);   \
    } while (0)
#define CUDA_TRY_ON(device, function, ...)                                                         \
    do {                                                                                           \
        CUDA_TRY((device)->ordinal, cudaSetDevice, (device)->ordinal);                             \
        CUDA_TRY((device)->ordinal, function, __VA_ARGS__);                                        \
    } while (0)

/* For calls that release: a failure cannot be reported to anybody. */
static void ignore(cudaError_t code) {
    if (code != cudaSuccess) (void)cudaGetLastError();
}

static void cuda_destroy(ff_device *device) {
    free(device); /* the context stays: others of this process may use the device */
}

static const char *cuda_error_name(int code) {
    return cudaGetErrorName((cudaError_t)code);
}

static ff_status cuda_memory(ff_device *device, uint64_t *free_bytes, uint64_t *total_bytes,
                             ff_error *error) {
    size_t unused, total;
    CUDA_TRY_ON(device, cudaMemGetInfo, &unused, &total);
    *free_bytes = unused;
    *total_bytes = total;
    return FF_OK;
}

/* CUDA refuses potentially unsafe calls (those that allocate, free, wait or query) in a thread that
 * captures: pool.c allocates a batch for a stream that a consumer captures. It refuses them in all
 * threads while one captures in global mode, as other programs do. A refused call invalidates the
 * capture. CUDA allows them in relaxed mode: from this call until the call with the returned mode
 * ("CUDA Runtime API", cudaThreadExchangeStreamCaptureMode). */
static enum cudaStreamCaptureMode stand_apart(enum cudaStreamCaptureMode mode) {
    ignore(cudaThreadExchangeStreamCaptureMode(&mode));
    return mode;
}

static ff_status cuda_allocate(ff_device *device, void **memory, uint64_t bytes, const char *what,
                               ff_error *error) {
    *memory = NULL;
    CUDA_TRY(device->ordinal, cudaSetDevice, device->ordinal);
    const enum cudaStreamCaptureMode before = stand_apart(cudaStreamCaptureModeRelaxed);
    const cudaError_t code = cudaMalloc(memory, bytes ? bytes : 1);
    (void)stand_apart(before);
    if (code == cudaSuccess) return FF_OK;
    *memory = NULL;
    uint64_t unused = 0, total = 0;
    ff_status status = fail(device->ordinal, "cudaMalloc", code, error);
    if (code != cudaErrorMemoryAllocation || cuda_memory(device, &unused, &total, NULL) != FF_OK)
        return ff_fail_within(error, status, "%" PRIu64 " bytes for %s", bytes, what);
    return ff_fail(error, FF_NO_MEMORY,
                   "cuda:%d: %s needs %" PRIu64 " bytes of device memory; %" PRIu64 " of %" PRIu64
                   " are free%s",
                   device->ordinal, what, bytes, unused, total,
                   cuda_error_advice(cudaErrorMemoryAllocation));
}

static void cuda_release(ff_device *device, void *memory) {
    if (!memory) return;
    ignore(cudaSetDevice(device->ordinal));
    const enum cudaStreamCaptureMode before = stand_apart(cudaStreamCaptureModeRelaxed);
    ignore(cudaFree(memory));
    (void)stand_apart(before);
}

static ff_status cuda_allocate_pinned(ff_device *device, void **memory, uint64_t bytes,
                                      const char *what, ff_error *error) {
    *memory = NULL;
    CUDA_TRY(device->ordinal, cudaSetDevice, device->ordinal);
    /* Portable: pinned for every device of the process, so that replicas may share it. */
    const enum cudaStreamCaptureMode before = stand_apart(cudaStreamCaptureModeRelaxed);
    const cudaError_t code = cudaHostAlloc(memory, bytes ? bytes : 1, cudaHostAllocPortable);
    (void)stand_apart(before);
    if (code == cudaSuccess) return FF_OK;
    *memory = NULL;
    ff_status status = fail(device->ordinal, "cudaHostAlloc", code, error);
    if (code != cudaErrorMemoryAllocation)
        return ff_fail_within(error, status, "%" PRIu64 " bytes of pinned memory for %s", bytes,
                              what);
    return ff_fail(error, FF_NO_MEMORY,
                   "cuda:%d: %s needs %" PRIu64 " bytes of pinned memory, which is the host's; "
                   "free some of it, raise the container's limit, or use smaller batches",
                   device->ordinal, what, bytes);
}

static void cuda_release_pinned(ff_device *device, void *memory) {
    if (!memory) return;
    ignore(cudaSetDevice(device->ordinal));
    const enum cudaStreamCaptureMode before = stand_apart(cudaStreamCaptureModeRelaxed);
    ignore(cudaFreeHost(memory));
    (void)stand_apart(before);
}

static ff_status cuda_stream_create(ff_device *device, ff_stream **stream, ff_error *error) {
    cudaStream_t made;
    *stream = NULL;
    CUDA_TRY_ON(device, cudaStreamCreateWithFlags, &made, cudaStreamNonBlocking);
    *stream = (ff_stream *)made;
    return FF_OK;
}

static void cuda_stream_destroy(ff_device *device, ff_stream *stream) {
    if (!stream) return;
    ignore(cudaSetDevice(device->ordinal));
    const enum cudaStreamCaptureMode before = stand_apart(cudaStreamCaptureModeRelaxed);
    ignore(cudaStreamSynchronize(stream_of(stream)));
    ignore(cudaStreamDestroy(stream_of(stream)));
    (void)stand_apart(before);
}

static ff_status cuda_stream_synchronize(ff_device *device, ff_stream *stream, ff_error *error) {
    CUDA_TRY(device->ordinal, cudaSetDevice, device->ordinal);
    const enum cudaStreamCaptureMode before = stand_apart(cudaStreamCaptureModeRelaxed);
    const cudaError_t code = cudaStreamSynchronize(stream_of(stream));
    (void)stand_apart(before);
    return code == cudaSuccess ? FF_OK
                               : fail(device->ordinal, "cudaStreamSynchronize", code, error);
}

static void *cuda_native_stream(ff_device *device, ff_stream *stream) {
    (void)device;
    return stream;
}

static ff_status cuda_make_current(ff_device *device, ff_error *error) {
    CUDA_TRY(device->ordinal, cudaSetDevice, device->ordinal);
    return FF_OK;
}

static int cuda_current(ff_device *device) {
    int ordinal = -1; /* unknown */
    (void)device;
    ignore(cudaGetDevice(&ordinal));
    return ordinal;
}

/* Since CUDA 12 cudaSetDevice also creates the device's context, if the device has none. */
static void cuda_restore(ff_device *device, int ordinal) {
    if (ordinal >= 0 && ordinal != cuda_current(device)) ignore(cudaSetDevice(ordinal));
}

static ff_status cuda_event_create(ff_device *device, ff_event **event, bool timed,
                                   ff_error *error) {
    cudaEvent_t made;
    unsigned flags = cudaEventBlockingSync | (timed ? 0 : cudaEventDisableTiming);
    *event = NULL;
    CUDA_TRY_ON(device, cudaEventCreateWithFlags, &made, flags);
    *event = (ff_event *)made;
    return FF_OK;
}

static void cuda_event_destroy(ff_device *device, ff_event *event) {
    if (!event) return;
    ignore(cudaSetDevice(device->ordinal));
    ignore(cudaEventDestroy(event_of(event)));
}

static ff_status cuda_event_record(ff_device *device, ff_event *event, ff_stream *stream,
                                   ff_error *error) {
    CUDA_TRY_ON(device, cudaEventRecord, event_of(event), stream_of(stream));
    return FF_OK;
}

static ff_status cuda_event_record_external(ff_device *device, ff_event *event, ff_stream *stream,
                                            ff_error *error) {
    enum cudaStreamCaptureStatus capture;
    CUDA_TRY_ON(device, cudaStreamIsCapturing, stream_of(stream), &capture);
    /* CUDA refuses the external flag outside a capture, where every record is external. */
    unsigned flags =
        capture == cudaStreamCaptureStatusNone ? cudaEventRecordDefault : cudaEventRecordExternal;
    CUDA_TRY(device->ordinal, cudaEventRecordWithFlags, event_of(event), stream_of(stream), flags);
    return FF_OK;
}

static ff_status cuda_event_synchronize(ff_device *device, ff_event *event, ff_error *error) {
    CUDA_TRY(device->ordinal, cudaSetDevice, device->ordinal);
    const enum cudaStreamCaptureMode before = stand_apart(cudaStreamCaptureModeRelaxed);
    const cudaError_t code = cudaEventSynchronize(event_of(event));
    (void)stand_apart(before);
    return code == cudaSuccess ? FF_OK : fail(device->ordinal, "cudaEventSynchronize", code, error);
}

static bool cuda_event_done(ff_device *device, ff_event *event) {
    cudaError_t code = cudaSetDevice(device->ordinal);
    const enum cudaStreamCaptureMode before = stand_apart(cudaStreamCaptureModeRelaxed);
    if (code == cudaSuccess) code = cudaEventQuery(event_of(event));
    if (code != cudaSuccess) (void)cudaGetLastError();
    (void)stand_apart(before);
    /* After a failure there is nothing to wait for; the next call reports it. */
    return code != cudaErrorNotReady;
}

static ff_status cuda_stream_wait(ff_device *device, ff_stream *stream, ff_event *event,
                                  ff_error *error) {
    CUDA_TRY_ON(device, cudaStreamWaitEvent, stream_of(stream), event_of(event), 0);
    return FF_OK;
}

static ff_status cuda_copy(ff_device *device, ff_stream *stream, void *to, const void *from,
                           uint64_t bytes, ff_error *error) {
    CUDA_TRY_ON(device, cudaMemcpyAsync, to, from, bytes, cudaMemcpyDefault, stream_of(stream));
    return FF_OK;
}

static ff_status cuda_fill(ff_device *device, ff_stream *stream, void *to, uint8_t value,
                           uint64_t bytes, ff_error *error) {
    CUDA_TRY_ON(device, cudaMemsetAsync, to, value, bytes, stream_of(stream));
    return FF_OK;
}

static ff_status cuda_call(ff_device *device, ff_stream *stream, void (*function)(void *),
                           void *context, ff_error *error) {
    CUDA_TRY_ON(device, cudaLaunchHostFunc, stream_of(stream), function, context);
    return FF_OK;
}

static ff_status cuda_elapsed(ff_device *device, ff_event *from, ff_event *to, uint64_t *ns,
                              ff_error *error) {
    float milliseconds = 0;
    CUDA_TRY_ON(device, cudaEventElapsedTime, &milliseconds, event_of(from), event_of(to));
    *ns = milliseconds > 0 ? (uint64_t)((double)milliseconds * 1e6 + 0.5) : 0;
    return FF_OK;
}

static ff_status cuda_capture_begin(ff_device *device, ff_stream *stream, ff_error *error) {
    CUDA_TRY_ON(device, cudaStreamBeginCapture, stream_of(stream),
                cudaStreamCaptureModeThreadLocal);
    return FF_OK;
}

static ff_status cuda_capture_end(ff_device *device, ff_stream *stream, ff_recording **recording,
                                  ff_error *error) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t made = NULL;
    *recording = NULL;
    const char *call = "cudaSetDevice";
    cudaError_t code = cudaSetDevice(device->ordinal);
    /* End the capture in any case, or the stream would stay unusable. */
    cudaError_t ended = cudaStreamEndCapture(stream_of(stream), &graph);
    if (code == cudaSuccess && ended != cudaSuccess) {
        call = "cudaStreamEndCapture";
        code = ended;
    }
    if (code == cudaSuccess) {
        call = "cudaGraphInstantiate";
        code = cudaGraphInstantiate(&made, graph, 0);
    }
    if (code == cudaSuccess) { /* so that the first launch is not slower than the others */
        call = "cudaGraphUpload";
        code = cudaGraphUpload(made, stream_of(stream));
    }
    if (graph) ignore(cudaGraphDestroy(graph));
    if (code != cudaSuccess) {
        if (made) ignore(cudaGraphExecDestroy(made));
        return fail(device->ordinal, call, code, error);
    }
    *recording = (ff_recording *)made;
    return FF_OK;
}

static bool cuda_capturing(ff_device *device, ff_stream *stream) {
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    cudaError_t code = cudaSetDevice(device->ordinal);
    if (code == cudaSuccess) code = cudaStreamIsCapturing(stream_of(stream), &capture);
    if (code != cudaSuccess) (void)cudaGetLastError();
    /* The legacy stream waits for streams of which one is in a capture. After any other failure,
     * for example for a stream that was destroyed, the next call reports it. */
    if (code == cudaErrorStreamCaptureImplicit) return true;
    return code == cudaSuccess && capture != cudaStreamCaptureStatusNone;
}

static ff_status cuda_recording_launch(ff_device *device, ff_recording *recording,
                                       ff_stream *stream, ff_error *error) {
    CUDA_TRY_ON(device, cudaGraphLaunch, (cudaGraphExec_t)recording, stream_of(stream));
    return FF_OK;
}

static void cuda_recording_destroy(ff_device *device, ff_recording *recording) {
    if (!recording) return;
    ignore(cudaSetDevice(device->ordinal));
    ignore(cudaGraphExecDestroy((cudaGraphExec_t)recording));
}

static const ff_device_table cuda_table = {
    .name = "cuda",
    .destroy = cuda_destroy,
    .error_name = cuda_error_name,
    .error_advice = cuda_error_advice,
    .memory = cuda_memory,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .allocate_pinned = cuda_allocate_pinned,
    .release_pinned = cuda_release_pinned,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .stream_synchronize = cuda_stream_synchronize,
    .native_stream = cuda_native_stream,
    .make_current = cuda_make_current,
    .current = cuda_current,
    .restore = cuda_restore,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .event_record_external = cuda_event_record_external,
    .event_synchronize = cuda_event_synchronize,
    .event_done = cuda_event_done,
    .stream_wait = cuda_stream_wait,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .call = cuda_call,
    .elapsed = cuda_elapsed,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .capturing = cuda_capturing,
    .recording_launch = cuda_recording_launch,
    .recording_destroy = cuda_recording_destroy,
};

ff_status ff_device_cuda_count(int *count, ff_error *error) {
    *count = 0;
    cudaError_t code = cudaGetDeviceCount(count);
    if (code == cudaSuccess || code == cudaErrorNoDevice) {
        if (code != cudaSuccess) (void)cudaGetLastError();
        return FF_OK;
    }
    (void)cudaGetLastError();
    return ff_fail(error, FF_FAILED, "cudaGetDeviceCount failed: %s (%s)%s",
                   cudaGetErrorString(code), cudaGetErrorName(code), cuda_error_advice((int)code));
}

static int attribute(int ordinal, enum cudaDeviceAttr which) {
    int value = 0;
    if (cudaDeviceGetAttribute(&value, which, ordinal) != cudaSuccess) (void)cudaGetLastError();
    return value;
}

ff_status ff_device_cuda_properties(int ordinal, ff_cuda_properties *out, ff_error *error) {
    struct cudaDeviceProp device;
    *out = (ff_cuda_properties){0};
    CUDA_TRY(ordinal, cudaGetDeviceProperties, &device, ordinal);
    snprintf(out->name, sizeof out->name, "%s", device.name);
    out->major = device.major;
    out->minor = device.minor;
    out->multiprocessors = device.multiProcessorCount;
    out->memory_bytes = device.totalGlobalMem;
    out->memory_bus_bits = device.memoryBusWidth;
    out->memory_clock_khz = attribute(ordinal, cudaDevAttrMemoryClockRate);
    out->clock_khz = attribute(ordinal, cudaDevAttrClockRate);
    CUDA_TRY(ordinal, cudaRuntimeGetVersion, &out->runtime);
    CUDA_TRY(ordinal, cudaDriverGetVersion, &out->driver);
    CUDA_TRY(ordinal, cudaDeviceGetPCIBusId, out->bus, (int)sizeof out->bus, ordinal);
    return FF_OK;
}

static ff_status open_device(int ordinal, ff_error *error) {
    CUDA_TRY(ordinal, cudaSetDevice, ordinal); /* creates the device's context */
    const enum cudaStreamCaptureMode before = stand_apart(cudaStreamCaptureModeRelaxed);
    const cudaError_t code = cudaFree(NULL); /* fails if the device cannot be used */
    (void)stand_apart(before);
    return code == cudaSuccess ? FF_OK : fail(ordinal, "cudaFree", code, error);
}

ff_status ff_device_cuda_create(ff_device **out, int ordinal, ff_error *error) {
    *out = NULL;
    int count;
    FF_TRY(ff_device_cuda_count(&count, error));
    if (ordinal < 0 || ordinal >= count)
        return ff_fail(error, FF_USAGE, "cuda:%d: there %s %d CUDA device%s, counted from 0",
                       ordinal, count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
    int major = attribute(ordinal, cudaDevAttrComputeCapabilityMajor);
    int minor = attribute(ordinal, cudaDevAttrComputeCapabilityMinor);
    if (!ff_cuda_architecture_runs(FF_CUDA_BUILT, major, minor))
        return ff_fail(error, FF_FAILED,
                       "cuda:%d is of sm_%d%d, for which libff_cuda.so has no code: it was built "
                       "for %s (make CUDA_ARCHS=%d%d builds it for this one)",
                       ordinal, major, minor, FF_CUDA_BUILT, major, minor);
    const int before = cuda_current(NULL);
    ff_status status = open_device(ordinal, error);
    cuda_restore(NULL, before);
    FF_TRY(status);
    ff_device *device;
    FF_TRY(ff_alloc(&device, 1, sizeof *device, "a device", error));
    device->table = &cuda_table;
    device->ordinal = ordinal;
    *out = device;
    return FF_OK;
}
