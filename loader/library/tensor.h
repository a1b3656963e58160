/* DLPack's descriptions of this project's tensors. Private to loader/library/. */
#ifndef FF_LOADER_LIBRARY_TENSOR_H
#define FF_LOADER_LIBRARY_TENSOR_H

#include "format/base/status.h"
#include "format/disk/dtype.h"

#include <ffload/ffload.h>

enum { FF_LIBRARY_TENSOR_RANK_MOST = 4 };

/* Stays in place: the tensor points into it. */
typedef struct ff_library_tensor {
    DLTensor dl;
    int64_t shape[FF_LIBRARY_TENSOR_RANK_MOST], strides[FF_LIBRARY_TENSOR_RANK_MOST];
} ff_library_tensor;

/* `data` [shape[0]] .. [shape[rank - 1]] of dtype, one after another, in host memory. */
void ff_library_tensor_init(ff_library_tensor *tensor, void *data, ff_dtype dtype,
                            const int64_t *shape, int rank);

/* [rows, channels, height, width], with the strides of a layout. */
void ff_library_tensor_init_images(ff_library_tensor *tensor, void *data, ff_dtype dtype,
                                   ff_layout layout, const int64_t shape[4]);

/* A copy of `from`'s description with an owner: its deleter calls release(owner), by any thread. On
 * failure the caller keeps the owner. */
FF_MUST_USE ff_status ff_library_tensor_export(DLManagedTensorVersioned **out,
                                               const ff_library_tensor *from, uint64_t flags,
                                               void (*release)(void *owner), void *owner,
                                               ff_error *error);

#endif
