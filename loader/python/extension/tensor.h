/* The memory of a Tensor, shared by tensor.c and dlpack.c. Private to loader/python/extension/. */
#ifndef FF_LOADER_PYTHON_TENSOR_H
#define FF_LOADER_PYTHON_TENSOR_H

#include "loader/python/extension/extension.h"

#include <stdatomic.h>

/* Shared by a Tensor and all tensors exported from it. The last of them ends it, in any thread,
 * with or without Python's lock. */
typedef struct ff_python_shared {
    atomic_size_t users;
    DLManagedTensorVersioned *managed;
    ffload_batch *batch; /* on a GPU; `managed` keeps it */
    uintptr_t stream;    /* in which it is made */
} ff_python_shared;

void ff_python_shared_release(ff_python_shared *own);

/* The library's tensor of a Tensor, valid as long as the Tensor. */
ff_python_shared *ff_python_shared_of(PyObject *tensor);

/* Bytes from the first element to the last: the library's tensors are dense, whatever the order of
 * their axes, so this is the whole tensor. */
uint64_t ff_python_span_bytes(const DLTensor *dl);

/* Tensor.__dlpack__: a method with keywords. */
PyObject *ff_python_dlpack(PyObject *self, PyObject *args, PyObject *words);

#endif
