/* Calls of devices and memory, and what begins every call. */
#include "tests/cuda/strict/state.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CARDS = 2, CARDS_MOST = 4, MULTIPROCESSORS = 4, FIRST_BUS = 0x3b, DRIVER = 13010 };

typedef struct thing {
    struct thing *next;
    sort sort;
    void *at;
} thing;

_Thread_local const actor *running;
_Thread_local int current_device;
_Thread_local int own_captures;
_Thread_local enum cudaStreamCaptureMode own_mode;
int global_captures;
strict_counts counts;
static _Thread_local cudaError_t last_error;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static thing *things;

void lock_all(void) {
    pthread_mutex_lock(&lock);
}
void unlock_all(void) {
    pthread_mutex_unlock(&lock);
}

strict_counts strict_counted(void) {
    lock_all();
    const strict_counts found = counts;
    unlock_all();
    return found;
}

static void print_counts(void) {
    const strict_counts c = counts;
    size_t held = memory_held();
    for (const thing *one = things; one; one = one->next) held++;
    fprintf(stderr,
            "strict: kernels %llu graphs %llu nodes %llu copies %llu bytes %llu functions %llu "
            "waits %llu allocations %llu calls %llu held %zu\n",
            (unsigned long long)c.kernels, (unsigned long long)c.graphs,
            (unsigned long long)c.nodes, (unsigned long long)c.copies, (unsigned long long)c.bytes,
            (unsigned long long)c.functions, (unsigned long long)c.waits,
            (unsigned long long)c.allocations, (unsigned long long)c.calls, held);
}

/* The count at which the variable says that something fails; 0: never. */
static uint64_t number_of(const char *name) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

static uint64_t no_memory_at, gone_at;

__attribute__((constructor)) static void prepare(void) {
    if (getenv("FF_STRICT_COUNTS")) atexit(print_counts);
    const char *rank = getenv("FFTRAIN_RANK"), *wanted = getenv("FF_STRICT_RANK");
    if (wanted && (!rank || strcmp(rank, wanted) != 0)) return;
    no_memory_at = number_of("FF_STRICT_NO_MEMORY");
    gone_at = number_of("FF_STRICT_GONE");
}

/* ---- every call ---- */

call begin_call(const char *name) {
    if (running)
        fail(running->where, NULL, NULL, "%s in a host function, which must not call CUDA", name);
    lock_all();
    const bool gone = ++counts.calls >= gone_at && gone_at;
    if (gone) last_error = cudaErrorUnknown;
    if (gone) memset(&host_instant, 0xff, sizeof host_instant); /* nothing runs any more */
    return (call){name, gone};
}

void end_call(const call *of) {
    (void)of;
    unlock_all();
}

/* What the real runtime refuses, too. The code that ships never lets it. */
cudaError_t refuse(const char *name, cudaError_t code, const char *what) {
    fail(find_place(name, NULL), NULL, NULL, "%s is refused: %s", name, what);
    return last_error = code;
}

cudaError_t cudaGetLastError(void) {
    const cudaError_t code = last_error;
    last_error = cudaSuccess;
    return code;
}
const char *cudaGetErrorName(cudaError_t error) {
    return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
           : error == cudaErrorUnknown        ? "cudaErrorUnknown"
                                              : "cudaErrorOfTheStandIn";
}
const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorMemoryAllocation ? "out of memory"
           : error == cudaErrorUnknown        ? "unknown error"
                                              : "refused";
}

void *hold(sort of, size_t bytes) {
    thing *one = malloc(sizeof *one);
    void *at = calloc(1, bytes);
    if (!one || !at) abort();
    *one = (thing){things, of, at};
    things = one;
    return at;
}

void drop(const void *handle) {
    thing **at = &things;
    while ((*at)->at != handle) at = &(*at)->next;
    thing *one = *at;
    *at = one->next;
    free(one->at);
    free(one);
}

void each(sort of, void (*function)(void *, void *), void *context) {
    for (const thing *one = things; one; one = one->next)
        if (one->sort == of) function(one->at, context);
}

bool check_handle(const char *name, sort of, const void *handle) {
    const thing *one = things;
    while (one && (one->sort != of || one->at != handle)) one = one->next;
    if (!one)
        (void)refuse(name, cudaErrorInvalidResourceHandle,
                     "the handle is not, or no longer, there");
    return one != NULL;
}

/* ---- devices ---- */

int device_count(void) {
    const char *cards = getenv("FF_SIM_CARDS"), *list = getenv("CUDA_VISIBLE_DEVICES");
    int count = cards ? atoi(cards) : CARDS, seen = list && *list;
    for (const char *at = list; at && *at; at++) seen += *at == ',';
    if (list && seen < count) count = seen;
    return count < CARDS_MOST ? count : CARDS_MOST;
}

cudaError_t cudaGetDeviceCount(int *count) {
    CALL("cudaGetDeviceCount");
    *count = device_count();
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    CALL("cudaSetDevice");
    if (device < 0 || device >= device_count())
        return refuse(this_call.name, cudaErrorInvalidDevice, "there is no such device");
    current_device = device;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
    CALL("cudaGetDevice");
    *device = current_device;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int device) {
    (void)device;
    *value = which == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device) {
    size_t unused;
    *out = (struct cudaDeviceProp){.major = 9, .multiProcessorCount = MULTIPROCESSORS};
    snprintf(out->name, sizeof out->name, "simulated GPU");
    memory_info(device, &unused, &out->totalGlobalMem);
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *bus, int length, int device) {
    snprintf(bus, (size_t)length, "0000:%x:00.0", FIRST_BUS + device);
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) {
    *version = DRIVER;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* ---- memory ---- */

/* Whether a call that allocates, frees, waits or queries is allowed while captures are under way.
 */
static bool is_safe(const char *name) {
    const bool own = own_captures && own_mode != cudaStreamCaptureModeRelaxed;
    const bool other = global_captures && own_mode == cudaStreamCaptureModeGlobal;
    if (own || other)
        (void)refuse(name, cudaErrorStreamCaptureUnsupported,
                     "a capture is under way, and is lost");
    return !own && !other;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    CALL("cudaThreadExchangeStreamCaptureMode");
    const enum cudaStreamCaptureMode before = own_mode;
    own_mode = *mode;
    *mode = before;
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *unused, size_t *total) {
    CALL("cudaMemGetInfo");
    memory_info(current_device, unused, total);
    return cudaSuccess;
}

static cudaError_t allocate(const char *name, int device, void **memory, size_t bytes) {
    *memory = (void *)8; /* must not be used if the call fails */
    if (!is_safe(name)) return cudaErrorStreamCaptureUnsupported;
    static uint64_t asked; /* under the lock */
    const bool fails = ++asked == no_memory_at;
    void *found = fails ? NULL : take_memory(device, bytes, find_place(name, NULL));
    if (!found) return last_error = cudaErrorMemoryAllocation;
    *memory = found;
    return cudaSuccess;
}
cudaError_t cudaMalloc(void **memory, size_t bytes) {
    CALL("cudaMalloc");
    return allocate(this_call.name, current_device, memory, bytes);
}
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags) {
    CALL("cudaHostAlloc");
    (void)flags;
    return allocate(this_call.name, PINNED, memory, bytes);
}

static cudaError_t release(const char *name, int device, void *memory) {
    if (!is_safe(name)) return cudaErrorStreamCaptureUnsupported;
    if (memory) give_memory(name, device, memory);
    return cudaSuccess;
}
cudaError_t cudaFree(void *memory) {
    CALL("cudaFree");
    return release(this_call.name, current_device, memory);
}
cudaError_t cudaFreeHost(void *memory) {
    CALL("cudaFreeHost");
    return release(this_call.name, PINNED, memory);
}

/* ---- waits of the host ---- */

static void wait_until(const instant *when) {
    counts.waits += !is_before(when, &host_instant);
    join(&host_instant, when);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    CALL("cudaStreamSynchronize");
    if (!check_handle(this_call.name, STREAM, stream)) return cudaErrorInvalidResourceHandle;
    if (stream->capture)
        return refuse(this_call.name, cudaErrorStreamCaptureUnsupported,
                      "the stream is in a capture");
    if (!is_safe(this_call.name)) return cudaErrorStreamCaptureUnsupported;
    wait_until(&stream->when);
    return cudaSuccess;
}

static bool is_outside(const char *name, cudaEvent_t event) {
    if (!check_handle(name, EVENT, event)) return false;
    const bool inside = event->capture || event->inner;
    if (inside)
        (void)refuse(name, cudaErrorCapturedEvent, "the event was last recorded in a capture");
    return !inside && is_safe(name);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    CALL("cudaEventSynchronize");
    if (!is_outside(this_call.name, event)) return cudaErrorInvalidResourceHandle;
    wait_until(&event->when);
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    static uint32_t random = 2463534242u;
    CALL("cudaEventQuery");
    if (!is_outside(this_call.name, event)) return cudaErrorInvalidResourceHandle;
    if (is_before(&event->when, &host_instant)) return cudaSuccess;
    random ^= random << 13, random ^= random >> 17, random ^= random << 5;
    if (random & 1) return last_error = cudaErrorNotReady;
    join(&host_instant, &event->when);
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    CALL("cudaEventElapsedTime");
    if (!is_outside(this_call.name, from) || !is_outside(this_call.name, to))
        return cudaErrorInvalidResourceHandle;
    if (((from->flags | to->flags) & cudaEventDisableTiming) || !from->recorded || !to->recorded)
        return last_error = cudaErrorInvalidResourceHandle;
    if (!is_before(&from->when, &host_instant) || !is_before(&to->when, &host_instant))
        return last_error = cudaErrorNotReady;
    *ms = (float)((double)(int64_t)(to->ns - from->ns) * 1e-6);
    return cudaSuccess;
}
