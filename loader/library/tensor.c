#include "loader/library/tensor.h"

#include "format/base/memory.h"
#include "loader/library/status.h"

#include <stdlib.h>
#include <string.h>

static DLDataType type_of(ff_dtype dtype) {
    static const uint8_t code[FF_DTYPE_COUNT] = {
        [FF_U8] = kDLUInt,   [FF_U16] = kDLUInt,    [FF_I32] = kDLInt,  [FF_I64] = kDLInt,
        [FF_F16] = kDLFloat, [FF_BF16] = kDLBfloat, [FF_F32] = kDLFloat};
    return (DLDataType){
        .code = code[dtype], .bits = (uint8_t)(8 * ff_dtype_bytes(dtype)), .lanes = 1};
}

static void describe(ff_library_tensor *tensor, void *data, ff_dtype dtype, const int64_t *shape,
                     int rank) {
    memcpy(tensor->shape, shape, (size_t)rank * sizeof *shape);
    tensor->dl = (DLTensor){.data = data,
                            .device = {.device_type = kDLCPU},
                            .ndim = rank,
                            .dtype = type_of(dtype),
                            .shape = tensor->shape,
                            .strides = tensor->strides};
}

void ff_library_tensor_init(ff_library_tensor *tensor, void *data, ff_dtype dtype,
                            const int64_t *shape, int rank) {
    int64_t stride = 1;
    describe(tensor, data, dtype, shape, rank);
    for (int i = rank; i-- > 0; stride *= shape[i]) tensor->strides[i] = stride;
}

void ff_library_tensor_init_images(ff_library_tensor *tensor, void *data, ff_dtype dtype,
                                   ff_layout layout, const int64_t shape[4]) {
    ff_library_tensor_init(tensor, data, dtype, shape, 4);
    if (layout == FF_CHW) return;
    tensor->strides[1] = 1;
    tensor->strides[3] = shape[1];
    tensor->strides[2] = shape[1] * shape[3];
}

/* ---- with an owner -------------------------------------------------------------------------- */

typedef struct exported {
    DLManagedTensorVersioned managed; /* first: its consumer's pointer */
    ff_library_tensor tensor;
    void (*release)(void *owner);
    void *owner;
} exported;

static void end_export(DLManagedTensorVersioned *managed) {
    exported *own = (exported *)(void *)managed;
    own->release(own->owner);
    free(own);
}

ff_status ff_library_tensor_export(DLManagedTensorVersioned **out, const ff_library_tensor *from,
                                   uint64_t flags, void (*release)(void *owner), void *owner,
                                   ff_error *error) {
    exported *own;
    *out = NULL;
    FF_TRY(ff_alloc(&own, 1, sizeof *own, "a tensor", error));
    own->tensor = *from;
    own->tensor.dl.shape = own->tensor.shape;
    own->tensor.dl.strides = own->tensor.strides;
    own->release = release;
    own->owner = owner;
    own->managed = (DLManagedTensorVersioned){
        .version = {.major = DLPACK_MAJOR_VERSION, .minor = DLPACK_MINOR_VERSION},
        .deleter = end_export,
        .flags = flags,
        .dl_tensor = own->tensor.dl,
    };
    *out = &own->managed;
    return FF_OK;
}

static void end_unversioned(DLManagedTensor *old) {
    DLManagedTensorVersioned *from = old->manager_ctx;
    if (from->deleter) from->deleter(from);
    free(old);
}

int ffload_unversioned(DLManagedTensorVersioned **tensor, DLManagedTensor **old,
                       ffload_error *error) {
    ff_error inner;
    if (old) *old = NULL;
    ff_status status = FF_LIBRARY_GIVEN(&inner, tensor, old);
    if (status == FF_OK && !*tensor) status = ff_fail(&inner, FF_USAGE, "*tensor is NULL");
    if (status == FF_OK && (status = ff_alloc(old, 1, sizeof **old, "a tensor", &inner)) == FF_OK) {
        **old = (DLManagedTensor){
            .dl_tensor = (*tensor)->dl_tensor, .manager_ctx = *tensor, .deleter = end_unversioned};
        *tensor = NULL;
    }
    return ff_library_end(status, &inner, error);
}
