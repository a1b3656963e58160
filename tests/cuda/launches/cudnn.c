/* The functions of cuDNN that train/compute/cuda/cudnn calls. What needs a handle is replaced: a
 * handle's attribute becomes the description of the GPU, and the execution of a plan is checked and
 * computed by loops. The rest is the real library's. */
#include "loader/cuda/libraries.h"
#include "tests/cuda/launches/graph.h"
#include "tests/cuda/launches/launches.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256 }; /* of workspaces, by the library table */

struct cudnnContext {
    ff_launches_user user;
};

static struct {
    size_t (*version)(void);
    const char *(*error_string)(cudnnStatus_t);
    void (*last_error)(char *, size_t);
    cudnnStatus_t (*create)(cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t *);
    cudnnStatus_t (*destroy)(cudnnBackendDescriptor_t);
    cudnnStatus_t (*finalize)(cudnnBackendDescriptor_t);
    cudnnStatus_t (*set)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                         cudnnBackendAttributeType_t, int64_t, const void *);
    cudnnStatus_t (*get)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                         cudnnBackendAttributeType_t, int64_t, int64_t *, void *);
    const char *json;
    cudnnBackendDescriptor_t gpu; /* described by json */
} real;

static ff_status find(void *library, const char *name, void *function, ff_error *error) {
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found ? FF_OK : ff_fail(error, FF_FAILED, "cuDNN has no %s", name);
}

ff_status ff_launches_open(const char *json, ff_error *error) {
    ff_buffer notes = {0};
    ff_status status = ff_cuda_libraries_open("build", FF_CUDA_VERSION, &notes, error);
    ff_buffer_free(&notes);
    FF_TRY(status);
    void *library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL); /* it is open already */
    if (!library) return ff_fail(error, FF_FAILED, "cuDNN does not open: %s", dlerror());
    FF_TRY(find(library, "cudnnGetVersion", &real.version, error));
    FF_TRY(find(library, "cudnnGetErrorString", &real.error_string, error));
    FF_TRY(find(library, "cudnnGetLastErrorString", &real.last_error, error));
    FF_TRY(find(library, "cudnnBackendCreateDescriptor", &real.create, error));
    FF_TRY(find(library, "cudnnBackendDestroyDescriptor", &real.destroy, error));
    FF_TRY(find(library, "cudnnBackendFinalize", &real.finalize, error));
    FF_TRY(find(library, "cudnnBackendSetAttribute", &real.set, error));
    FF_TRY(find(library, "cudnnBackendGetAttribute", &real.get, error));
    real.json = json;
    if (real.create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &real.gpu) ||
        real.set(real.gpu, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                 (int64_t)strlen(json), json) ||
        real.finalize(real.gpu))
        return ff_fail(error, FF_FAILED, "cuDNN refuses the description of the GPU");
    return FF_OK;
}

size_t cudnnGetVersion(void) {
    return real.version();
}
const char *cudnnGetErrorString(cudnnStatus_t status) {
    return real.error_string(status);
}
void cudnnGetLastErrorString(char *message, size_t size) {
    real.last_error(message, size);
}
cudaError_t cudaDriverGetVersion(int *version) {
    *version = FF_CUDA_VERSION;
    return cudaSuccess;
}
const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaSuccess ? "no error" : "an error";
}

/* ---- handles ---- */

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    *handle = calloc(1, sizeof **handle);
    if (!*handle) return CUDNN_STATUS_ALLOC_FAILED;
    (*handle)->user = ff_launches_user_here();
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    handle->user.stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- descriptors ---- */

/* What was set in a plan, or in a pack of a run's pointers. */
typedef struct noted {
    struct noted *next;
    cudnnBackendDescriptor_t descriptor;
    cudnnHandle_t handle;  /* a plan's */
    ff_graph_shape *graph; /* read from the plan's text at its first execution */
    int64_t ids[FF_GRAPH_TENSORS], id_count, pointer_count;
    void *pointers[FF_GRAPH_TENSORS], *workspace;
} noted;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static noted *all;

static noted *find_noted(cudnnBackendDescriptor_t descriptor) {
    pthread_mutex_lock(&mutex);
    noted *one = all;
    while (one && one->descriptor != descriptor) one = one->next;
    pthread_mutex_unlock(&mutex);
    return one;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *descriptor) {
    const cudnnStatus_t status = real.create(type, descriptor);
    if (status != CUDNN_STATUS_SUCCESS || (type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
                                           type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR))
        return status;
    noted *one = calloc(1, sizeof *one);
    if (!one) abort();
    one->descriptor = *descriptor;
    pthread_mutex_lock(&mutex);
    one->next = all;
    all = one;
    pthread_mutex_unlock(&mutex);
    return status;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
    noted *found = NULL;
    pthread_mutex_lock(&mutex);
    for (noted **link = &all; *link && !found; link = found ? link : &(*link)->next) {
        if ((*link)->descriptor != descriptor) continue;
        found = *link;
        *link = found->next;
    }
    pthread_mutex_unlock(&mutex);
    if (found) free(found->graph);
    free(found);
    return real.destroy(descriptor);
}

static void note(noted *one, cudnnBackendAttributeName_t name, int64_t count, const void *values) {
    const size_t most = count < FF_GRAPH_TENSORS ? (size_t)count : FF_GRAPH_TENSORS;
    switch (name) {
    case CUDNN_ATTR_EXECUTION_PLAN_HANDLE: memcpy(&one->handle, values, sizeof one->handle); break;
    case CUDNN_ATTR_VARIANT_PACK_WORKSPACE:
        memcpy(&one->workspace, values, sizeof one->workspace);
        break;
    case CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS:
        memcpy(one->ids, values, most * sizeof *one->ids);
        one->id_count = count;
        break;
    case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS:
        memcpy(one->pointers, values, most * sizeof *one->pointers);
        one->pointer_count = count;
        break;
    default: break;
    }
}

/* The device's description in place of a handle. Heuristics take the description next to the graph;
 * without it they would ask CUDA for the current device. */
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values) {
    noted *one = find_noted(descriptor);
    if (one) note(one, name, count, values);
    if (name == CUDNN_ATTR_DEVICEPROP_HANDLE)
        return real.set(descriptor, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                        (int64_t)strlen(real.json), real.json);
    if (name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE)
        return real.set(descriptor, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &real.gpu);
    if (name == CUDNN_ATTR_OPERATIONGRAPH_HANDLE) return CUDNN_STATUS_SUCCESS; /* needs none */
    if (name == CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)
        (void)real.set(descriptor, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                       1, &real.gpu);
    return real.set(descriptor, name, type, count, values);
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room,
                                       int64_t *count, void *values) {
    return real.get(descriptor, name, type, room, count, values);
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
    return real.finalize(descriptor);
}

/* ---- execution ---- */

static ff_graph_shape *read_graph(cudnnBackendDescriptor_t plan) {
    int64_t length = 0;
    if (real.get(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0, &length,
                 NULL))
        return NULL;
    char *text = calloc((size_t)length + 1, 1);
    ff_graph_shape *graph = NULL;
    if (text && !real.get(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                          length, &length, text))
        graph = ff_graph_read(text);
    free(text);
    return graph;
}

/* Finds the place of each tensor that is not virtual, and checks it. */
static void place_tensors(ff_graph_shape *graph, const noted *pack, const void *stream) {
    int64_t needed = 0;
    for (int i = 0; i < graph->tensor_count; i++) {
        ff_graph_tensor *t = &graph->tensors[i];
        if (t->is_virtual) continue;
        needed++;
        for (int64_t k = 0; k < pack->id_count && k < FF_GRAPH_TENSORS; k++)
            if (pack->ids[k] == t->id) t->at = pack->pointers[k];
        ff_launches_memory(stream, "a tensor", t->at, ff_graph_bytes(t), (uint64_t)t->alignment);
    }
    if (needed != pack->id_count || needed != pack->pointer_count)
        ff_launches_break("a pack has %lld pointers, and the graph %lld tensors in memory",
                          (long long)pack->pointer_count, (long long)needed);
}

/* No tensor and no workspace overlaps a tensor that is written. */
static void check_overlaps(const ff_graph_shape *graph, const char *workspace, uint64_t bytes) {
    for (int i = 0; i < graph->tensor_count; i++) {
        const ff_graph_tensor *t = &graph->tensors[i];
        const char *at = t->at, *end = at + ff_graph_bytes(t);
        if (t->is_virtual) continue;
        if (bytes && workspace < end && at < workspace + bytes)
            ff_launches_break("a tensor overlaps the workspace");
        for (int k = 0; k < graph->tensor_count && t->written; k++) {
            const ff_graph_tensor *o = &graph->tensors[k];
            if (k == i || o->is_virtual) continue;
            if ((const char *)o->at < end && at < (const char *)o->at + ff_graph_bytes(o))
                ff_launches_break("a tensor overlaps one that is written");
        }
    }
}

static void nothing(void *context) {
    (void)context;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
    noted *p = find_noted(plan), *v = find_noted(pack);
    int64_t count, bytes = 0;
    if (!p || !v ||
        real.get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                 &bytes))
        return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    const bool loaded = p->graph;
    if (!loaded) p->graph = read_graph(plan);
    ff_graph_shape *graph = malloc(sizeof *graph);
    if (!p->graph || !graph) return CUDNN_STATUS_NOT_SUPPORTED;
    *graph = *p->graph;
    if (p->handle != handle)
        ff_launches_break("a plan is executed with another handle than its own");
    place_tensors(graph, v, handle->user.stream);
    if (bytes)
        ff_launches_memory(handle->user.stream, "a workspace", v->workspace, (uint64_t)bytes,
                           ALIGNMENT);
    check_overlaps(graph, v->workspace, (uint64_t)bytes);
    __atomic_fetch_add(&ff_launched.convolutions, 1, __ATOMIC_RELAXED);
    void (*const run)(void *) = ff_launched.skips     ? nothing
                                : ff_launched.records ? ff_graph_clear
                                                      : ff_graph_compute;
    return ff_launches_enqueue(&handle->user, "a convolution", loaded, run, graph)
               ? CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER
               : CUDNN_STATUS_SUCCESS;
}
