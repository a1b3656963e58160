/* The functions of cuDNN that train/compute/cuda/cudnn calls. What needs a handle is replaced: a
 * handle's attribute becomes the description of the GPU, and a plan is not executed but checked and
 * computed by loops. The rest is the real library's, recorded. */
#include "loader/cuda/libraries.h"
#include "tests/cuda/launches/launches.h"
#include "tests/cuda/launches/records.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
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
    void *library = status == FF_OK ? dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL) : NULL;
    if (status != FF_OK || !library) return status != FF_OK ? status : FF_FAILED;
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

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *descriptor) {
    const cudnnStatus_t status = real.create(type, descriptor);
    if (status == CUDNN_STATUS_SUCCESS) ff_record_add(*descriptor, type);
    return status;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
    ff_record_remove(descriptor);
    return real.destroy(descriptor);
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values) {
    ff_record *record = ff_record_find(descriptor);
    if (record) ff_record_set(record, name, type, count, values);
    if (type != CUDNN_TYPE_HANDLE) return real.set(descriptor, name, type, count, values);
    if (name == CUDNN_ATTR_DEVICEPROP_HANDLE)
        return real.set(descriptor, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                        (int64_t)strlen(real.json), real.json);
    if (name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE)
        return real.set(descriptor, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &real.gpu);
    return CUDNN_STATUS_SUCCESS; /* a graph's: it needs none */
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room,
                                       int64_t *count, void *values) {
    const cudnnStatus_t status = real.get(descriptor, name, type, room, count, values);
    const ff_record *from = ff_record_find(descriptor);
    if (status != CUDNN_STATUS_SUCCESS || name != CUDNN_ATTR_ENGINEHEUR_RESULTS) return status;
    for (int64_t i = 0; i < *count && i < room; i++) {
        ff_record *config = ff_record_find(((cudnnBackendDescriptor_t *)values)[i]);
        if (config) config->graph = from->graph;
    }
    return status;
}

/* A plan outlives its graph's descriptors. */
static void keep_graph(ff_record *plan) {
    const ff_record *config =
        ff_record_read_descriptor(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    if (!config || !config->graph) return; /* read as text: of an unknown graph */
    plan->graph = malloc(sizeof *plan->graph);
    if (!plan->graph) abort();
    *plan->graph = *config->graph;
    plan->owns_graph = true;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
    ff_record *record = ff_record_find(descriptor);
    if (record->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
        const ff_record *graph =
            ff_record_read_descriptor(record, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
        record->graph = graph->graph;
        if (ff_record_get(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE))
            real.set(descriptor, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                     &real.gpu);
    }
    const cudnnStatus_t status = real.finalize(descriptor);
    record->finished = status == CUDNN_STATUS_SUCCESS;
    if (record->finished && record->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
        record->graph = ff_record_shape(record);
        record->owns_graph = true;
    }
    if (record->finished && record->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        keep_graph(record);
    return status;
}

/* ---- execution ---- */

/* Finds the place of each tensor that is not virtual, and checks it. */
static void place_tensors(ff_graph_shape *graph, const ff_record *pack, const void *stream) {
    const ff_record_value *ids = ff_record_get(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const ff_record_value *pointers = ff_record_get(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    int64_t needed = 0;
    for (int i = 0; i < graph->tensor_count; i++) {
        ff_graph_tensor *t = &graph->tensors[i];
        needed += !t->is_virtual;
        for (int64_t k = 0; k < ids->count && !t->is_virtual; k++)
            if (((const int64_t *)(const void *)ids->data)[k] == t->id)
                memcpy(&t->at, pointers->data + (size_t)k * sizeof t->at, sizeof t->at);
        if (!t->is_virtual)
            ff_launches_memory(stream, "a tensor", t->at, ff_graph_bytes(t),
                               (uint64_t)t->alignment);
    }
    if (needed != ids->count || needed != pointers->count)
        ff_launches_break("a pack has %lld pointers, and the graph %lld tensors in memory",
                          (long long)ids->count, (long long)needed);
}

/* No tensor and no workspace overlaps one that is written. */
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
    ff_record *p = ff_record_find(plan), *v = ff_record_find(pack);
    cudnnHandle_t planned = NULL;
    int64_t count, bytes = 0;
    char *workspace = NULL;
    if (!p || !v || !p->finished || !v->finished) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    if (!p->graph) return CUDNN_STATUS_NOT_SUPPORTED;
    ff_record_read(p, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, &planned, sizeof planned);
    if (planned != handle) ff_launches_break("a plan is executed with another handle than its own");
    ff_graph_shape *graph = malloc(sizeof *graph);
    if (!graph) return CUDNN_STATUS_ALLOC_FAILED;
    *graph = *p->graph;
    place_tensors(graph, v, handle->user.stream);
    real.get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes);
    ff_record_read(v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &workspace, sizeof workspace);
    if (bytes)
        ff_launches_memory(handle->user.stream, "a workspace", workspace, (uint64_t)bytes,
                           ALIGNMENT);
    check_overlaps(graph, workspace, (uint64_t)bytes);
    const bool loaded = p->executed;
    p->executed = true;
    __atomic_fetch_add(&ff_launched.convolutions, 1, __ATOMIC_RELAXED);
    return ff_launches_enqueue(&handle->user, "a convolution", loaded,
                               ff_launched.records ? nothing : ff_graph_compute, graph)
               ? CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER
               : CUDNN_STATUS_SUCCESS;
}
