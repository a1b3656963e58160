/* gpu-check: a CUDA device's properties and measured costs, the figures that all else is compared
 * with. Prints a line of JSON for each as it comes.
 *
 * This one file is the whole program, and needs nothing but a CUDA toolkit:
 *     nvcc -O3 -std=c++17 -arch=sm_90 gpu_check.cu -o gpu-check -ldl    (CUDA 12 or newer; your sm)
 *     ./gpu-check [--device N] [--seconds N] [--seed N] [--cudnn libcudnn.so.9] [GROUP...]
 * Groups, each a process of its own that is ended after --seconds (60): device, cudnn (the
 * properties as cuDNN's own JSON: save that line's "json" as a file for planning without the GPU),
 * copies, memory, launches, graphs. Exit code: 0 success, 1 a group failed, 77 no device.
 *
 * Data is random, never zeros, and buffers larger than the caches rotate; times are medians. Bytes
 * of copies on the device count as read and written. */
#include <cuda_runtime.h>

#if __has_include(<cudnn.h>)
#include <cudnn.h>
#endif
#include <dlfcn.h>
#include <glob.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NO_DEVICE = 77 };

typedef struct options {
    int device, seconds;
    unsigned long long seed;
    const char *cudnn;
} options;

/* Ends the group's process; the parent reports it. */
#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t check_code = (call);                                                           \
        if (check_code != cudaSuccess) {                                                           \
            printf("{\"error\": \"%s: %s\"}\n", #call, cudaGetErrorString(check_code));            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* ---- time ---- */

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

enum { ROUNDS = 15 };

/* The median of microseconds, by the device's clock, of work(context, round) in the stream. */
typedef void work_function(void *context, int round, cudaStream_t stream);
static double device_us(work_function *work, void *context, cudaStream_t stream) {
    cudaEvent_t begin, end;
    double times[ROUNDS];
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    for (int round = -3; round < ROUNDS; round++) {
        float ms = 0;
        CHECK(cudaEventRecord(begin, stream));
        work(context, round + 3, stream);
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        if (round >= 0) times[round] = (double)ms * 1e3;
    }
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    return median(times, ROUNDS);
}

/* ---- random bytes ---- */

__device__ static uint32_t mix(uint64_t x) { /* splitmix64's finalizer */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)(x >> 32);
}
__global__ static void randomize(uint32_t *words, size_t count, uint64_t seed) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < count; i += (size_t)gridDim.x * blockDim.x) words[i] = mix(seed + i);
}
static void *random_device(size_t bytes, uint64_t seed) {
    void *memory;
    CHECK(cudaMalloc(&memory, bytes));
    randomize<<<1024, 256>>>((uint32_t *)memory, bytes / 4, seed);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    return memory;
}

/* ---- device ---- */

static int attribute(cudaDeviceAttr which, int device) {
    int value = -1;
    return cudaDeviceGetAttribute(&value, which, device) == cudaSuccess ? value : -1;
}

static void group_device(const options *o) {
    cudaDeviceProp p;
    int runtime = 0, driver = 0;
    size_t unused = 0, total = 0;
    char bus[32];
    CHECK(cudaGetDeviceProperties(&p, o->device));
    CHECK(cudaRuntimeGetVersion(&runtime));
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaDeviceGetPCIBusId(bus, (int)sizeof bus, o->device));
    CHECK(cudaMemGetInfo(&unused, &total));
    printf("{\"device\": %d, \"name\": \"%s\", \"bus\": \"%s\", \"sm\": %d, "
           "\"multiprocessors\": %d, \"memory_bytes\": %zu, \"free_bytes\": %zu, "
           "\"l2_bytes\": %d, \"persisting_l2_bytes\": %d, \"shared_per_block_bytes\": %zu, "
           "\"shared_per_multiprocessor_bytes\": %zu, \"registers_per_multiprocessor\": %d, "
           "\"threads_per_multiprocessor\": %d, \"memory_bus_bits\": %d, \"memory_clock_khz\": %d, "
           "\"clock_khz\": %d, \"copy_engines\": %d, \"ecc\": %d, \"runtime\": %d, "
           "\"driver\": %d}\n",
           o->device, p.name, bus, p.major * 10 + p.minor, p.multiProcessorCount, p.totalGlobalMem,
           unused, p.l2CacheSize, p.persistingL2CacheMaxSize, p.sharedMemPerBlockOptin,
           p.sharedMemPerMultiprocessor, p.regsPerMultiprocessor, p.maxThreadsPerMultiProcessor,
           p.memoryBusWidth, attribute(cudaDevAttrMemoryClockRate, o->device),
           attribute(cudaDevAttrClockRate, o->device), p.asyncEngineCount, p.ECCEnabled, runtime,
           driver);
}

/* Opens cuDNN: the file named, or by name, or a toolkit's, or of the wheels of a python3 in
 * PATH. */
static void *open_cudnn(const char *file) {
    void *library = dlopen(file ? file : "libcudnn.so.9", RTLD_NOW | RTLD_GLOBAL);
    const char *path = getenv("PATH");
    char pattern[4096] = "/usr/local/cuda*/lib*/libcudnn.so.9";
    while (!library && !file) {
        glob_t found;
        if (glob(pattern, 0, NULL, &found) == 0) {
            for (size_t i = 0; i < found.gl_pathc && !library; i++)
                library = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_GLOBAL);
            globfree(&found);
        }
        if (!path || !*path) break;
        size_t length = strcspn(path, ":");
        snprintf(pattern, sizeof pattern,
                 "%.*s/../lib/python3*/*-packages/nvidia/cudnn/lib/libcudnn.so.9", (int)length,
                 path);
        path += length + (path[length] != 0);
    }
    return library;
}

/* cuDNN's description of the device. Its C interface is opened by name; the numbers are those of
 * cudnn_graph.h (9.8 and newer). */
static void group_cudnn(const options *o) {
    enum {
        DESCRIPTOR_DEVICEPROP = 38,
        DEVICE_ID = 2700,
        JSON = 2702,
        TYPE_CHAR = 24,
        TYPE_INT32 = 23
    };
#ifdef CUDNN_MAJOR
    static_assert(DESCRIPTOR_DEVICEPROP == CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "cudnn_graph.h");
    static_assert(DEVICE_ID == CUDNN_ATTR_DEVICEPROP_DEVICE_ID, "cudnn_graph.h");
    static_assert(JSON == CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, "cudnn_graph.h");
    static_assert(TYPE_INT32 == CUDNN_TYPE_INT32 && TYPE_CHAR == CUDNN_TYPE_CHAR, "cudnn_graph.h");
#endif
    void *library = open_cudnn(o->cudnn);
    if (!library) {
        printf("{\"skipped\": \"no cuDNN 9 was found; --cudnn FILE names one\"}\n");
        return;
    }
    size_t (*version)(void);
    int (*create)(int, void **), (*finalize)(void *);
    int (*set)(void *, int, int, int64_t, const void *);
    int (*get)(void *, int, int, int64_t, int64_t *, void *);
    *(void **)&version = dlsym(library, "cudnnGetVersion");
    *(void **)&create = dlsym(library, "cudnnBackendCreateDescriptor");
    *(void **)&finalize = dlsym(library, "cudnnBackendFinalize");
    *(void **)&set = dlsym(library, "cudnnBackendSetAttribute");
    *(void **)&get = dlsym(library, "cudnnBackendGetAttribute");
    void *properties = NULL;
    int32_t device = o->device;
    int64_t size = 0;
    int code = version && create && finalize && set && get ? 0 : -1;
    if (!code) code = create(DESCRIPTOR_DEVICEPROP, &properties);
    if (!code) code = set(properties, DEVICE_ID, TYPE_INT32, 1, &device);
    if (!code) code = finalize(properties);
    if (!code) code = get(properties, JSON, TYPE_CHAR, 0, &size, NULL);
    char *json = (char *)calloc((size_t)size + 1, 1);
    if (!code && json) code = get(properties, JSON, TYPE_CHAR, size, &size, json);
    if (code || !json) {
        printf("{\"error\": \"cuDNN does not describe the device: status %d\"}\n", code);
        exit(1);
    }
    printf("{\"cudnn\": %zu, \"json\": %s}\n", version(), json);
}

/* ---- copies between host and device ---- */

typedef struct copying {
    char *to[4];
    const char *from[4];
    size_t bytes;
    cudaMemcpyKind kind;
} copying;

static void copy_work(void *context, int round, cudaStream_t stream) {
    const copying *c = (const copying *)context;
    CHECK(cudaMemcpyAsync(c->to[round % 4], c->from[round % 4], c->bytes, c->kind, stream));
}

static void group_copies(const options *o) {
    const size_t most = (size_t)256 << 20;
    char *pinned, *pageable = (char *)malloc(4 * most), *device;
    cudaStream_t stream, other;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaHostAlloc((void **)&pinned, 4 * most, cudaHostAllocDefault));
    device = (char *)random_device(4 * most, o->seed);
    CHECK(cudaMemcpy(pinned, device, 4 * most, cudaMemcpyDeviceToHost));
    if (!pageable) exit(1);
    memcpy(pageable, pinned, 4 * most);
    for (int way = 0; way < 4; way++) {
        bool up = way % 2 == 0, is_pinned = way < 2;
        char *host = is_pinned ? pinned : pageable;
        for (size_t bytes = (size_t)64 << 10; bytes <= most; bytes *= 16) {
            copying c = {{0}, {0}, bytes, up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost};
            for (int i = 0; i < 4; i++) {
                c.to[i] = (up ? device : host) + (size_t)i * most;
                c.from[i] = (up ? host : device) + (size_t)i * most;
            }
            double us = device_us(copy_work, &c, stream);
            printf("{\"copy\": \"%s\", \"memory\": \"%s\", \"bytes\": %zu, \"us\": %.2f, "
                   "\"gb_per_s\": %.2f}\n",
                   up ? "host to device" : "device to host", is_pinned ? "pinned" : "pageable",
                   bytes, us, (double)bytes / us * 1e-3);
        }
    }
    /* Both ways at once, by the host's clock. */
    double times[ROUNDS];
    for (int round = -2; round < ROUNDS; round++) {
        double began = now_us();
        CHECK(cudaMemcpyAsync(device, pinned, most, cudaMemcpyHostToDevice, stream));
        CHECK(cudaMemcpyAsync(pinned + 2 * most, device + 2 * most, most, cudaMemcpyDeviceToHost,
                              other));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaStreamSynchronize(other));
        if (round >= 0) times[round] = now_us() - began;
    }
    double us = median(times, ROUNDS);
    printf("{\"copy\": \"both ways at once\", \"memory\": \"pinned\", \"bytes\": %zu, "
           "\"us\": %.2f, \"gb_per_s_each\": %.2f}\n",
           most, us, (double)most / us * 1e-3);
}

/* ---- device memory ---- */

__global__ static void read_all(const uint4 *from, size_t count, uint32_t *sink) {
    uint32_t seen = 0;
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < count; i += (size_t)gridDim.x * blockDim.x) {
        uint4 v = from[i];
        seen ^= v.x ^ v.y ^ v.z ^ v.w;
    }
    if (seen == 0x12345678u) *sink = seen; /* rarely true, but the loads must happen */
}
__global__ static void copy_all(uint4 *to, const uint4 *from, size_t count) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < count; i += (size_t)gridDim.x * blockDim.x) to[i] = from[i];
}
/* One block per row: rows of row16 16-byte words, taken in random order. */
__global__ static void gather(uint4 *to, const uint4 *from, int row16, size_t rows, uint64_t seed) {
    __shared__ size_t source;
    if (threadIdx.x == 0) source = mix(seed + blockIdx.x) % rows * (size_t)row16;
    __syncthreads();
    for (int i = threadIdx.x; i < row16; i += blockDim.x)
        to[(size_t)blockIdx.x * row16 + i] = from[source + i];
}

typedef struct memory_case {
    char *memory; /* two halves */
    size_t half;
    int blocks, row_bytes, rows;
    uint64_t seed;
    enum { MEMCPY, COPY, READ, FILL, GATHER } what;
} memory_case;

static void memory_work(void *context, int round, cudaStream_t stream) {
    const memory_case *c = (const memory_case *)context;
    char *a = c->memory + (round % 2) * c->half, *b = c->memory + ((round + 1) % 2) * c->half;
    size_t words = c->half / 16;
    switch (c->what) {
    case memory_case::MEMCPY:
        CHECK(cudaMemcpyAsync(a, b, c->half, cudaMemcpyDeviceToDevice, stream));
        break;
    case memory_case::COPY:
        copy_all<<<c->blocks, 512, 0, stream>>>((uint4 *)a, (const uint4 *)b, words);
        break;
    case memory_case::READ:
        read_all<<<c->blocks, 512, 0, stream>>>((const uint4 *)b, words, (uint32_t *)a);
        break;
    case memory_case::FILL: CHECK(cudaMemsetAsync(a, 0x5a, c->half, stream)); break;
    case memory_case::GATHER:
        gather<<<c->rows, 128, 0, stream>>>((uint4 *)a, (const uint4 *)b, c->row_bytes / 16,
                                            c->half / (size_t)c->row_bytes,
                                            c->seed + (uint64_t)round * 1000003u);
        break;
    }
    CHECK(cudaGetLastError());
}

static void group_memory(const options *o) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    size_t unused, total;
    CHECK(cudaMemGetInfo(&unused, &total));
    memory_case c = {NULL, (size_t)2 << 30, 0, 0, 0, o->seed, memory_case::MEMCPY};
    while (c.half * 2 > unused / 2) c.half /= 2;
    c.memory = (char *)random_device(2 * c.half, o->seed);
    c.blocks = attribute(cudaDevAttrMultiProcessorCount, o->device) * 8;
    static const char *const names[] = {"cudaMemcpy", "kernel copy", "kernel read", "cudaMemset"};
    for (int what = 0; what < 4; what++) {
        c.what = (decltype(c.what))what;
        double us = device_us(memory_work, &c, stream);
        double bytes = (double)c.half * (what < 2 ? 2 : 1);
        printf("{\"memory\": \"%s\", \"bytes_moved\": %.0f, \"us\": %.2f, \"gb_per_s\": %.1f}\n",
               names[what], bytes, us, bytes / us * 1e-3);
        fflush(stdout);
    }
    c.what = memory_case::GATHER;
    static const int row_bytes[] = {3072, 6144, 12288}, rows[] = {512, 2000, 131072};
    for (int r = 0; r < 3; r++) {
        for (int n = 0; n < 3; n++) {
            c.row_bytes = row_bytes[r];
            c.rows = rows[n];
            if ((size_t)c.rows * (size_t)c.row_bytes > c.half) continue;
            double us = device_us(memory_work, &c, stream);
            double bytes = 2.0 * c.rows * c.row_bytes;
            printf("{\"memory\": \"gather of random rows\", \"row_bytes\": %d, \"rows\": %d, "
                   "\"out_of_bytes\": %zu, \"us\": %.2f, \"gb_per_s\": %.1f}\n",
                   c.row_bytes, c.rows, c.half, us, bytes / us * 1e-3);
        }
    }
}

/* ---- launches and graphs ---- */

__global__ static void nothing(void) {
}
__global__ static void few(float *x) {
    x[threadIdx.x] = x[threadIdx.x] * 1.0001f + 1e-6f;
}

static void launches_work(void *context, int round, cudaStream_t stream) {
    (void)round;
    for (int i = 0; i < 1000; i++) few<<<1, 128, 0, stream>>>((float *)context);
    CHECK(cudaGetLastError());
}

static void group_launches(const options *o) {
    cudaStream_t stream;
    cudaEvent_t event;
    double times[ROUNDS], waits[ROUNDS];
    float *x = (float *)random_device(4096, o->seed);
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (int round = -2; round < ROUNDS; round++) {
        double began = now_us();
        for (int i = 0; i < 500; i++) few<<<1, 128, 0, stream>>>(x);
        double gave = now_us() - began;
        CHECK(cudaStreamSynchronize(stream));
        if (round >= 0) times[round] = gave / 500;
    }
    printf("{\"launch\": \"host cost of one\", \"us\": %.3f}\n", median(times, ROUNDS));
    printf("{\"launch\": \"device time of one in a row of 1000\", \"us\": %.3f}\n",
           device_us(launches_work, x, stream) / 1000);
    for (int round = -2; round < ROUNDS; round++) {
        double began = now_us();
        nothing<<<1, 32, 0, stream>>>();
        CHECK(cudaStreamSynchronize(stream));
        if (round >= 0) times[round] = now_us() - began;
    }
    printf("{\"launch\": \"launch and wait\", \"us\": %.3f}\n", median(times, ROUNDS));
    for (int round = -2; round < ROUNDS; round++) {
        double began = now_us();
        for (int i = 0; i < 500; i++) CHECK(cudaEventRecord(event, stream));
        double recorded = now_us();
        for (int i = 0; i < 500; i++) CHECK(cudaStreamWaitEvent(stream, event, 0));
        double waited = now_us();
        CHECK(cudaStreamSynchronize(stream));
        if (round < 0) continue;
        times[round] = (recorded - began) / 500;
        waits[round] = (waited - recorded) / 500;
    }
    printf("{\"launch\": \"host cost of an event's record\", \"us\": %.3f}\n",
           median(times, ROUNDS));
    printf("{\"launch\": \"host cost of a stream's wait\", \"us\": %.3f}\n", median(waits, ROUNDS));
}

static void graph_work(void *context, int round, cudaStream_t stream) {
    (void)round;
    CHECK(cudaGraphLaunch((cudaGraphExec_t)context, stream));
}

static void group_graphs(const options *o) {
    cudaStream_t stream;
    float *x = (float *)random_device(4096, o->seed);
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int nodes = 1; nodes <= 1000; nodes *= 10) {
        cudaGraph_t graph;
        cudaGraphExec_t made;
        double times[ROUNDS];
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        for (int i = 0; i < nodes; i++) few<<<1, 128, 0, stream>>>(x);
        CHECK(cudaStreamEndCapture(stream, &graph));
        double began = now_us();
        CHECK(cudaGraphInstantiate(&made, graph, 0));
        double instantiated = now_us() - began;
        CHECK(cudaGraphUpload(made, stream));
        CHECK(cudaStreamSynchronize(stream));
        double device = device_us(graph_work, made, stream);
        for (int round = -2; round < ROUNDS; round++) {
            double start = now_us();
            CHECK(cudaGraphLaunch(made, stream));
            double gave = now_us() - start;
            CHECK(cudaStreamSynchronize(stream));
            if (round >= 0) times[round] = gave;
        }
        printf("{\"graph\": \"a row of kernels\", \"nodes\": %d, \"instantiate_us\": %.1f, "
               "\"launch_us\": %.3f, \"device_us\": %.2f, \"device_us_per_node\": %.3f}\n",
               nodes, instantiated, median(times, ROUNDS), device, device / nodes);
        fflush(stdout);
        CHECK(cudaGraphExecDestroy(made));
        CHECK(cudaGraphDestroy(graph));
    }
}

/* ---- groups ---- */

static const struct {
    const char *name;
    void (*run)(const options *o);
} groups[] = {
    {"device", group_device}, {"cudnn", group_cudnn},       {"copies", group_copies},
    {"memory", group_memory}, {"launches", group_launches}, {"graphs", group_graphs},
};
enum { GROUPS = sizeof groups / sizeof *groups };

/* In a child: 0, 1 or NO_DEVICE. */
static int run_group(int index, const options *o) {
    int count = 0;
    cudaError_t code = cudaGetDeviceCount(&count);
    if (code != cudaSuccess || o->device >= count) {
        printf("{\"skipped\": \"no CUDA device %d: %s\"}\n", o->device,
               code == cudaSuccess ? "there are fewer" : cudaGetErrorString(code));
        return NO_DEVICE;
    }
    CHECK(cudaSetDevice(o->device));
    groups[index].run(o);
    CHECK(cudaDeviceSynchronize());
    return 0;
}

/* Runs a group in its own process, so that one that fails or hangs does not affect the others. */
static int supervise(int index, const options *o) {
    double began = now_us();
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
        setvbuf(stdout, NULL, _IOLBF, 0);
        int code = run_group(index, o);
        fflush(stdout);
        _exit(code);
    }
    int state = 0;
    const char *result = "ok";
    while (waitpid(child, &state, WNOHANG) == 0) {
        struct timespec pause = {0, 5000000};
        nanosleep(&pause, NULL);
        if (now_us() - began < o->seconds * 1e6) continue;
        kill(child, SIGKILL);
        result = "ran too long";
    }
    int code = WIFEXITED(state) ? WEXITSTATUS(state) : 1;
    if (code == NO_DEVICE)
        result = "skipped";
    else if (code != 0 && strcmp(result, "ok") == 0)
        result = WIFSIGNALED(state) ? "killed by a signal" : "failed";
    printf("{\"group\": \"%s\", \"result\": \"%s\", \"seed\": %llu, \"seconds\": %.2f}\n",
           groups[index].name, result, o->seed, (now_us() - began) * 1e-6);
    return code;
}

static int usage(void) {
    fprintf(stderr, "usage: gpu-check [--device N] [--seconds N] [--seed N] [--cudnn FILE] "
                    "[device|cudnn|copies|memory|launches|graphs]...\n");
    return 2;
}

int main(int count, char **arguments) {
    options o = {0, 60, (unsigned long long)time(NULL), NULL};
    bool asked[GROUPS] = {false}, any = false;
    for (int i = 1; i < count; i++) {
        const char *word = arguments[i], *value = i + 1 < count ? arguments[i + 1] : NULL;
        int group = 0;
        while (group < GROUPS && strcmp(word, groups[group].name) != 0) group++;
        if (group < GROUPS) {
            asked[group] = any = true;
            continue;
        }
        if (!value) return usage();
        if (strcmp(word, "--device") == 0)
            o.device = atoi(value);
        else if (strcmp(word, "--seconds") == 0)
            o.seconds = atoi(value);
        else if (strcmp(word, "--seed") == 0)
            o.seed = strtoull(value, NULL, 10);
        else if (strcmp(word, "--cudnn") == 0)
            o.cudnn = value;
        else
            return usage();
        i++;
    }
    int worst = 0;
    for (int i = 0; i < GROUPS && worst != NO_DEVICE; i++) {
        if (any && !asked[i]) continue;
        int code = supervise(i, &o);
        if (code != 0) worst = code == NO_DEVICE ? NO_DEVICE : 1;
    }
    return worst;
}
