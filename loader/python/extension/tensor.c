/* ffload.Tensor: library memory that other libraries use without a copy, by DLPack, or by NumPy's
 * and CuPy's array interfaces. */
#include "loader/python/extension/tensor.h"

#include <stdlib.h>
#include <string.h>

typedef struct tensor {
    PyObject_HEAD ff_python_shared *shared;
} tensor;

static PyTypeObject *tensor_type;

void ff_python_shared_release(ff_python_shared *own) {
    if (atomic_fetch_sub(&own->users, 1) != 1) return;
    if (own->managed->deleter) own->managed->deleter(own->managed);
    free(own);
}

PyObject *ff_python_tensor(DLManagedTensorVersioned *managed) {
    tensor *self = PyObject_New(tensor, tensor_type);
    ff_python_shared *own = malloc(sizeof *own);
    if (self) self->shared = own;
    if (self && own) {
        atomic_init(&own->users, 1);
        own->managed = managed;
        own->batch = NULL;
        own->stream = 0;
        return (PyObject *)self;
    }
    free(own);
    if (self) {
        self->shared = NULL;
        Py_DECREF(self);
        PyErr_NoMemory();
    }
    managed->deleter(managed);
    return NULL;
}

PyObject *ff_python_tensor_on(DLManagedTensorVersioned *managed, ffload_batch *batch,
                              uintptr_t stream) {
    PyObject *self = ff_python_tensor(managed);
    if (self) {
        ff_python_shared_of(self)->batch = batch;
        ff_python_shared_of(self)->stream = stream;
    }
    return self;
}

ff_python_shared *ff_python_shared_of(PyObject *self) {
    return ((tensor *)self)->shared;
}

static void tensor_dealloc(PyObject *self) {
    ff_python_shared *own = ff_python_shared_of(self);
    if (own) ff_python_shared_release(own);
    ff_python_free(self);
}

static const DLTensor *dl_of(PyObject *self) {
    return &ff_python_shared_of(self)->managed->dl_tensor;
}

static bool is_read_only(PyObject *self) {
    return ff_python_shared_of(self)->managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
}

static uint64_t element_bytes(const DLTensor *dl) {
    return dl->dtype.bits / 8;
}

uint64_t ff_python_span_bytes(const DLTensor *dl) {
    uint64_t last = 0;
    for (int i = 0; i < dl->ndim; i++) {
        if (dl->shape[i] == 0) return 0;
        last += (uint64_t)(dl->shape[i] - 1) * (uint64_t)dl->strides[i];
    }
    return (last + 1) * element_bytes(dl);
}

/* ---- attributes ----------------------------------------------------------------------------- */

static PyObject *numbers(const int64_t *value, int count, int64_t unit) {
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; i++) {
        PyObject *number = PyLong_FromLongLong(value[i] * unit);
        if (!number || PyTuple_SetItem(tuple, i, number)) {
            Py_DECREF(tuple);
            return NULL;
        }
    }
    return tuple;
}

static PyObject *tensor_dlpack_device(PyObject *self, PyObject *none) {
    (void)none;
    const DLDevice device = dl_of(self)->device;
    return Py_BuildValue("(ii)", (int)device.device_type, (int)device.device_id);
}

static PyObject *tensor_shape(PyObject *self, void *none) {
    (void)none;
    return numbers(dl_of(self)->shape, dl_of(self)->ndim, 1);
}

static PyObject *tensor_strides(PyObject *self, void *none) {
    (void)none;
    return numbers(dl_of(self)->strides, dl_of(self)->ndim, 1);
}

static PyObject *tensor_dtype(PyObject *self, void *none) {
    static const char letter[] = {[kDLInt] = 'i', [kDLUInt] = 'u', [kDLFloat] = 'f'};
    (void)none;
    const DLDataType type = dl_of(self)->dtype;
    if (type.code == kDLBfloat) return PyUnicode_FromString("bf16");
    return PyUnicode_FromFormat("%c%d", letter[type.code], (int)type.bits);
}

static PyObject *tensor_device(PyObject *self, void *none) {
    (void)none;
    const DLDevice device = dl_of(self)->device;
    if (device.device_type == kDLCUDA) return PyUnicode_FromFormat("cuda:%d", device.device_id);
    return PyUnicode_FromString("cpu");
}

static PyObject *tensor_nbytes(PyObject *self, void *none) {
    (void)none;
    return PyLong_FromUnsignedLongLong(ff_python_span_bytes(dl_of(self)));
}

static PyObject *tensor_read_only(PyObject *self, void *none) {
    (void)none;
    return PyBool_FromLong(is_read_only(self));
}

/* ---- array interfaces ----------------------------------------------------------------------- */

/* bf16, which NumPy does not have, as its bits. */
static PyObject *type_text(DLDataType type) {
    static const char letter[] = {
        [kDLInt] = 'i', [kDLUInt] = 'u', [kDLFloat] = 'f', [kDLBfloat] = 'u'};
    return PyUnicode_FromFormat("%c%c%d", type.bits == 8 ? '|' : '<', letter[type.code],
                                type.bits / 8);
}

static PyObject *interface_of(PyObject *self, DLDeviceType device, const char *name) {
    const DLTensor *dl = dl_of(self);
    if (dl->device.device_type != device) {
        PyErr_Format(PyExc_AttributeError, "the tensor is on another device: it has no %s", name);
        return NULL;
    }
    return Py_BuildValue("{s:N,s:N,s:N,s:(NO),s:i}", "shape", numbers(dl->shape, dl->ndim, 1),
                         "typestr", type_text(dl->dtype), "strides",
                         numbers(dl->strides, dl->ndim, (int64_t)element_bytes(dl)), "data",
                         PyLong_FromVoidPtr((uint8_t *)dl->data + dl->byte_offset),
                         is_read_only(self) ? Py_True : Py_False, "version", 3);
}

static PyObject *tensor_array_interface(PyObject *self, void *none) {
    (void)none;
    return interface_of(self, kDLCPU, "__array_interface__");
}

static PyObject *tensor_cuda_array_interface(PyObject *self, void *none) {
    (void)none;
    PyObject *found = interface_of(self, kDLCUDA, "__cuda_array_interface__");
    PyObject *stream = found ? PyLong_FromVoidPtr((void *)ff_python_shared_of(self)->stream) : NULL;
    if (stream && PyDict_SetItemString(found, "stream", stream) == 0) {
        Py_DECREF(stream);
        return found;
    }
    Py_XDECREF(stream);
    Py_XDECREF(found);
    return NULL;
}

/* ---- methods -------------------------------------------------------------------------------- */

/* Copies an axis of the elements, in row-major order, to `to`; returns its end. */
static uint8_t *pack(const DLTensor *dl, int axis, const uint8_t *from, uint8_t *to) {
    const size_t bytes = (size_t)element_bytes(dl);
    if (axis == dl->ndim) {
        memcpy(to, from, bytes);
        return to + bytes;
    }
    for (int64_t i = 0; i < dl->shape[axis]; i++)
        to = pack(dl, axis + 1, from + (size_t)(i * dl->strides[axis]) * bytes, to);
    return to;
}

static PyObject *tensor_tobytes(PyObject *self, PyObject *none) {
    (void)none;
    const DLTensor *dl = dl_of(self);
    if (dl->device.device_type != kDLCPU)
        return ff_python_usage("the tensor is not in the memory of the host");
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)ff_python_span_bytes(dl));
    if (bytes)
        pack(dl, 0, (const uint8_t *)dl->data + dl->byte_offset,
             (uint8_t *)PyBytes_AsString(bytes));
    return bytes;
}

static PyObject *tensor_repr(PyObject *self) {
    PyObject *shape = tensor_shape(self, NULL), *dtype = tensor_dtype(self, NULL),
             *device = tensor_device(self, NULL), *text = NULL;
    if (shape && dtype && device)
        text = PyUnicode_FromFormat("ffload.Tensor(shape=%R, dtype=%U, device=%U)", shape, dtype,
                                    device);
    Py_XDECREF(shape);
    Py_XDECREF(dtype);
    Py_XDECREF(device);
    return text;
}

static Py_ssize_t tensor_length(PyObject *self) {
    const DLTensor *dl = dl_of(self);
    if (dl->ndim > 0) return (Py_ssize_t)dl->shape[0];
    PyErr_SetString(PyExc_TypeError, "a tensor without axes has no length");
    return -1;
}

/* Only the library makes tensors. */
static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *words) {
    (void)type, (void)args, (void)words;
    PyErr_SetString(PyExc_TypeError, "only datasets and loaders make tensors");
    return NULL;
}

int ff_python_add_tensor(PyObject *module) {
    static PyMethodDef methods[] = {
        {"__dlpack__", (PyCFunction)(void (*)(void))ff_python_dlpack, METH_VARARGS | METH_KEYWORDS,
         "A DLPack capsule: versioned where max_version allows it."},
        {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, "(device type, device id)."},
        {"tobytes", tensor_tobytes, METH_NOARGS, "The values in row-major order, as bytes."},
        {0}};
    static PyGetSetDef attributes[] = {
        {"shape", tensor_shape, NULL, "Elements of each axis.", NULL},
        {"strides", tensor_strides, NULL, "Elements from one to the next along each axis.", NULL},
        {"dtype", tensor_dtype, NULL, "u8, u16, i32, i64, f16, bf16 or f32.", NULL},
        {"device", tensor_device, NULL, "cpu, or cuda:N.", NULL},
        {"nbytes", tensor_nbytes, NULL, "Bytes of all elements.", NULL},
        {"read_only", tensor_read_only, NULL, "Whether it must not be written to.", NULL},
        {"__array_interface__", tensor_array_interface, NULL, "NumPy's.", NULL},
        {"__cuda_array_interface__", tensor_cuda_array_interface, NULL, "CuPy's, Numba's.", NULL},
        {0}};
    static PyType_Slot slots[] = {
        {Py_tp_doc, "Memory that array libraries use without a copy: numpy.asarray(t), "
                    "torch.from_dlpack(t), jax.dlpack.from_dlpack(t), cupy.from_dlpack(t)."},
        {Py_tp_new, tensor_new},
        {Py_tp_dealloc, tensor_dealloc},
        {Py_tp_repr, tensor_repr},
        {Py_tp_methods, methods},
        {Py_tp_getset, attributes},
        {Py_sq_length, tensor_length},
        {0, NULL}};
    static PyType_Spec spec = {.name = "ffload.Tensor",
                               .basicsize = sizeof(tensor),
                               .flags = Py_TPFLAGS_DEFAULT,
                               .slots = slots};
    tensor_type = ff_python_add_type(module, "Tensor", &spec);
    return tensor_type ? 0 : -1;
}
