/* Tensors for other libraries, by DLPack's Python specification
 * (dmlc.github.io/dlpack/latest/python_spec.html). */
#include "loader/python/extension/tensor.h"

#include <stdlib.h>
#include <string.h>

/* ---- copies --------------------------------------------------------------------------------- */

static void end_copy(DLManagedTensorVersioned *managed) {
    free(managed);
}

/* One block: the struct, shape, strides, and the values, 64 B aligned. */
static DLManagedTensorVersioned *copy_of(const DLTensor *dl) {
    const size_t numbers = (size_t)dl->ndim * sizeof *dl->shape;
    const size_t head = (sizeof(DLManagedTensorVersioned) + 2 * numbers + 63) / 64 * 64;
    const size_t bytes = (size_t)ff_python_span_bytes(dl);
    uint8_t *block = aligned_alloc(64, head + (bytes + 63) / 64 * 64);
    if (!block) return NULL;
    DLManagedTensorVersioned *copy = (DLManagedTensorVersioned *)(void *)block;
    int64_t *shape = (int64_t *)(void *)(block + sizeof *copy);
    memcpy(shape, dl->shape, numbers);
    memcpy(shape + dl->ndim, dl->strides, numbers);
    memcpy(block + head, (const uint8_t *)dl->data + dl->byte_offset, bytes);
    *copy = (DLManagedTensorVersioned){
        .version = {.major = DLPACK_MAJOR_VERSION, .minor = DLPACK_MINOR_VERSION},
        .deleter = end_copy,
        .flags = DLPACK_FLAG_BITMASK_IS_COPIED,
        .dl_tensor = *dl};
    copy->dl_tensor.shape = shape;
    copy->dl_tensor.strides = shape + dl->ndim;
    copy->dl_tensor.data = block + head;
    copy->dl_tensor.byte_offset = 0;
    return copy;
}

/* ---- DLPack --------------------------------------------------------------------------------- */

typedef struct given {
    DLManagedTensorVersioned managed; /* first: its consumer's pointer */
    ff_python_shared *shared;
} given;

typedef struct given_old {
    DLManagedTensor managed;
    ff_python_shared *shared;
} given_old;

static void end_given(DLManagedTensorVersioned *managed) {
    ff_python_shared_release(((given *)(void *)managed)->shared);
    free(managed);
}

static void end_given_old(DLManagedTensor *managed) {
    ff_python_shared_release(((given_old *)(void *)managed)->shared);
    free(managed);
}

/* A capsule that nobody consumed still has its first name. */
static void end_capsule(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
        end_given(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    if (PyCapsule_IsValid(capsule, "dltensor"))
        end_given_old(PyCapsule_GetPointer(capsule, "dltensor"));
}

static PyObject *versioned(ff_python_shared *own) {
    given *out = malloc(sizeof *out);
    if (!out) return PyErr_NoMemory();
    *out = (given){.managed = *own->managed, .shared = own};
    out->managed.manager_ctx = NULL;
    out->managed.deleter = end_given;
    atomic_fetch_add(&own->users, 1);
    PyObject *capsule = PyCapsule_New(out, "dltensor_versioned", end_capsule);
    if (!capsule) end_given(&out->managed);
    return capsule;
}

static PyObject *unversioned(ff_python_shared *own) {
    given_old *out = malloc(sizeof *out);
    if (!out) return PyErr_NoMemory();
    *out = (given_old){.managed = {.dl_tensor = own->managed->dl_tensor, .deleter = end_given_old},
                       .shared = own};
    atomic_fetch_add(&own->users, 1);
    PyObject *capsule = PyCapsule_New(out, "dltensor", end_capsule);
    if (!capsule) end_given_old(&out->managed);
    return capsule;
}

/* 1 if max_version, a pair or None, allows version 1; -1 with an exception. */
static int wants_version(PyObject *max_version) {
    int major, minor;
    if (!max_version || max_version == Py_None) return 0;
    if (!PyArg_ParseTuple(max_version, "ii", &major, &minor)) return -1;
    return major >= 1;
}

/* 1 if dl_device, a pair or None, is this tensor's; -1 with an exception. */
static int is_there(const DLTensor *dl, PyObject *dl_device) {
    int type, id;
    if (!dl_device || dl_device == Py_None) return 1;
    if (!PyArg_ParseTuple(dl_device, "ii", &type, &id)) return -1;
    if (type == (int)dl->device.device_type && id == dl->device.device_id) return 1;
    PyErr_SetString(PyExc_BufferError, "the tensor is on another device, and is not copied to one");
    return -1;
}

/* Lets work in a consumer's stream use the tensor: a number as in DLPack: None is CUDA's legacy
 * default stream, whose handle is 1; -1 asks for no order. -1 with an exception. */
static int use_on(const ff_python_shared *own, PyObject *stream) {
    ffload_error error;
    long long number = 1;
    if (stream && stream != Py_None) number = PyLong_AsLongLong(stream);
    if (PyErr_Occurred()) return -1;
    if (!own->batch || number == -1) return 0;
    if (!ffload_batch_use_on(own->batch, (void *)(uintptr_t)number, &error)) return 0;
    ff_python_raise(&error);
    return -1;
}

static PyObject *copied_capsule(PyObject *self, bool version) {
    if (ff_python_shared_of(self)->managed->dl_tensor.device.device_type != kDLCPU) {
        PyErr_SetString(PyExc_BufferError, "only tensors in the memory of the host are copied");
        return NULL;
    }
    DLManagedTensorVersioned *copy = copy_of(&ff_python_shared_of(self)->managed->dl_tensor);
    if (!copy) return PyErr_NoMemory();
    PyObject *copied = ff_python_tensor(copy);
    if (!copied) return NULL;
    ff_python_shared *own = ff_python_shared_of(copied);
    PyObject *capsule = version ? versioned(own) : unversioned(own);
    Py_DECREF(copied);
    return capsule;
}

PyObject *ff_python_dlpack(PyObject *self, PyObject *args, PyObject *words) {
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = NULL, *max_version = NULL, *dl_device = NULL, *copy = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, words, "|$OOOO:__dlpack__", names, &stream, &max_version,
                                     &dl_device, &copy))
        return NULL;
    const int version = wants_version(max_version);
    if (version < 0 || is_there(&ff_python_shared_of(self)->managed->dl_tensor, dl_device) < 0)
        return NULL;
    if (use_on(ff_python_shared_of(self), stream) < 0) return NULL;
    if (copy && copy != Py_None && PyObject_IsTrue(copy)) return copied_capsule(self, version);
    if (version) return versioned(ff_python_shared_of(self));
    if (ff_python_shared_of(self)->managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) {
        PyErr_SetString(
            PyExc_BufferError,
            "the memory is read-only, and this consumer's version of DLPack cannot express "
            "that; take a copy (Dataset[i]), or NumPy's view (numpy.asarray)");
        return NULL;
    }
    return unversioned(ff_python_shared_of(self));
}
