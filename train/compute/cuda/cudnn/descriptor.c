#include "train/compute/cuda/cudnn/descriptor.h"

#include "format/base/memory.h"
#include "loader/cuda/advice.h"

#include <cudnn.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *advice(cudnnStatus_t status) {
    switch (status) {
    case CUDNN_STATUS_NOT_INITIALIZED: return FF_CUDA_ADVICE_START;
    case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED: return FF_CUDA_ADVICE_MEMORY;
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED: return FF_CUDA_ADVICE_HOST_MEMORY;
    case CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH: return FF_CUDA_ADVICE_ARCHITECTURE;
    case CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER: return FF_CUDA_ADVICE_DRIVER;
    case CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART:
    case CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE:
    case CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED:
    case CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH: return FF_CUDA_ADVICE_VERSIONS;
    case CUDNN_STATUS_EXECUTION_FAILED:
    case CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER:
    case CUDNN_STATUS_EXECUTION_FAILED_CUBLAS:
    case CUDNN_STATUS_EXECUTION_FAILED_CUDART: return FF_CUDA_ADVICE_GONE;
    default: return "";
    }
}

ff_status ff_cudnn_fail(ff_error *error, const char *call, int status) {
    char told[512] = "";
    cudnnGetLastErrorString(told, sizeof told);
    for (char *c = told; *c; c++)
        if (*c == '\n' || *c == '\r') *c = ' ';
    return ff_fail(error, FF_FAILED, "%s: %s%s%s%s", call,
                   cudnnGetErrorString((cudnnStatus_t)status), told[0] ? ": " : "", told,
                   advice((cudnnStatus_t)status));
}

static bool failed(const ff_cudnn_builder *builder) {
    return builder->failure.status != FF_OK;
}

ff_cudnn_descriptor ff_cudnn_make(ff_cudnn_builder *builder, int type) {
    if (failed(builder)) return NULL;
    if (ff_reserve(&builder->held, &builder->capacity, builder->count + 1, sizeof *builder->held,
                   "cuDNN descriptors", &builder->failure) != FF_OK)
        return NULL;
    cudnnBackendDescriptor_t made = NULL;
    cudnnStatus_t status = cudnnBackendCreateDescriptor((cudnnBackendDescriptorType_t)type, &made);
    if (status != CUDNN_STATUS_SUCCESS) {
        (void)ff_cudnn_fail(&builder->failure, "cudnnBackendCreateDescriptor", status);
        return NULL;
    }
    builder->held[builder->count++] = made;
    return made;
}

void ff_cudnn_set(ff_cudnn_builder *builder, ff_cudnn_descriptor descriptor, int attribute,
                  int type, int64_t count, const void *values) {
    if (failed(builder)) return;
    cudnnStatus_t status =
        cudnnBackendSetAttribute(descriptor, (cudnnBackendAttributeName_t)attribute,
                                 (cudnnBackendAttributeType_t)type, count, values);
    if (status == CUDNN_STATUS_SUCCESS) return;
    char call[64];
    snprintf(call, sizeof call, "cudnnBackendSetAttribute(%d)", attribute);
    (void)ff_cudnn_fail(&builder->failure, call, status);
}

void ff_cudnn_set_descriptor(ff_cudnn_builder *builder, ff_cudnn_descriptor descriptor,
                             int attribute, ff_cudnn_descriptor value) {
    ff_cudnn_set(builder, descriptor, attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

void ff_cudnn_set_int64(ff_cudnn_builder *builder, ff_cudnn_descriptor descriptor, int attribute,
                        int64_t value) {
    ff_cudnn_set(builder, descriptor, attribute, CUDNN_TYPE_INT64, 1, &value);
}

void ff_cudnn_finish(ff_cudnn_builder *builder, ff_cudnn_descriptor descriptor, const char *what) {
    if (failed(builder)) return;
    cudnnStatus_t status = cudnnBackendFinalize(descriptor);
    if (status == CUDNN_STATUS_SUCCESS) return;
    char call[128];
    snprintf(call, sizeof call, "cudnnBackendFinalize of %s", what);
    (void)ff_cudnn_fail(&builder->failure, call, status);
}

ff_status ff_cudnn_result(const ff_cudnn_builder *builder, ff_error *error) {
    if (failed(builder) && error) *error = builder->failure;
    return builder->failure.status;
}

void ff_cudnn_release(ff_cudnn_builder *builder) {
    while (builder->count) cudnnBackendDestroyDescriptor(builder->held[--builder->count]);
    free(builder->held);
    *builder = (ff_cudnn_builder){0};
}
