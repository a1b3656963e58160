/* _ffload.Loader: batches. The package's Loader wraps them in Python's conventions. */
#include "loader/python/extension/extension.h"

#include <string.h>

/* The most tensors of a batch: a set has at most 64 label fields, with two tensors each, and a
 * sample at most 64 views. */
enum { NAMES_MOST = 224 };

typedef struct loader {
    ff_python_owner owner;
    ffload_batch_info info; /* the last returned batch's */
} loader;

static PyTypeObject *loader_type;

static void end_loader(void *object) {
    ffload_loader *own = object;
    ffload_loader_destroy(&own);
}

/* indices: bytes of int64, weights: bytes of float64; or None. */
static int set_arrays(ffload_options *options, PyObject *indices, PyObject *weights,
                      ffload_error *error) {
    int status = 0;
    if (PyBytes_Check(indices)) {
        const void *numbers = PyBytes_AsString(indices);
        status = ffload_options_set_indices(options, numbers,
                                            (size_t)PyBytes_Size(indices) / sizeof(int64_t), error);
    }
    if (!status && PyBytes_Check(weights)) {
        const void *numbers = PyBytes_AsString(weights);
        status = ffload_options_set_weights(options, numbers,
                                            (size_t)PyBytes_Size(weights) / sizeof(double), error);
    }
    return status;
}

/* The options from a dict of texts, and from arrays. */
static ffload_options *options_of(PyObject *dict, PyObject *indices, PyObject *weights) {
    ffload_options *options = ff_python_options(dict);
    ffload_error error;
    if (options && set_arrays(options, indices, weights, &error)) {
        ffload_options_destroy(&options);
        ff_python_raise(&error);
    }
    return options;
}

/* Loader(dataset, options, indices, weights): a _ffload.Dataset, a dict of texts, numbers of
 * samples, and their weights. */
static PyObject *loader_new(PyTypeObject *type, PyObject *args, PyObject *words) {
    static char *names[] = {"dataset", "options", "indices", "weights", NULL};
    PyObject *dataset, *dict, *indices = Py_None, *weights = Py_None;
    ffload_loader *own;
    ffload_error error;
    if (!PyArg_ParseTupleAndKeywords(args, words, "OO!|OO:Loader", names, &dataset, &PyDict_Type,
                                     &dict, &indices, &weights))
        return NULL;
    ffload_options *options =
        ff_python_is_dataset(dataset) ? options_of(dict, indices, weights) : NULL;
    ffload_dataset *set = options ? ff_python_enter(dataset, "dataset") : NULL;
    int status;
    PyObject *self = NULL;
    if (!set) goto done;
    Py_BEGIN_ALLOW_THREADS;
    status = ffload_loader_create(&own, set, options, &error);
    Py_END_ALLOW_THREADS;
    ff_python_leave(dataset);
    if (status) {
        ff_python_raise(&error);
        goto done;
    }
    self = ff_python_own(type, own, end_loader);
done:
    ffload_options_destroy(&options);
    return self;
}

static ffload_loader *enter(PyObject *self) {
    return ff_python_enter(self, "loader");
}

/* ---- batches -------------------------------------------------------------------------------- */

/* The texts of a tuple of bytes; their number, or -1 with an exception. */
static Py_ssize_t texts_of(PyObject *tuple, const char *text[NAMES_MOST]) {
    const Py_ssize_t count = PyTuple_Size(tuple);
    if (count > NAMES_MOST) {
        ff_python_usage("a batch has fewer tensors");
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        text[i] = PyBytes_AsString(PyTuple_GetItem(tuple, i));
        if (!text[i]) return -1;
    }
    return count;
}

/* stream: the stream of a batch on a GPU. */
static PyObject *tensors_of(ffload_batch *batch, const char *const *name, Py_ssize_t count,
                            uintptr_t stream) {
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; tuple && i < count; i++) {
        DLManagedTensorVersioned *managed;
        ffload_error error;
        PyObject *tensor = ffload_batch_export(batch, name[i], &managed, &error)
                               ? ff_python_raise(&error)
                           : stream ? ff_python_tensor_on(managed, batch, stream)
                                    : ff_python_tensor(managed);
        if (!tensor || PyTuple_SetItem(tuple, i, tensor)) {
            Py_DECREF(tuple);
            tuple = NULL;
        }
    }
    return tuple;
}

/* next(names, stream=0): a Tensor for each name (bytes); None after the very last batch. On a GPU
 * the batch is made in that stream. */
static PyObject *loader_next(PyObject *self, PyObject *args) {
    const char *name[NAMES_MOST];
    PyObject *names;
    ffload_batch *batch;
    ffload_error error;
    unsigned long long number = 0;
    if (!PyArg_ParseTuple(args, "O!|K:next", &PyTuple_Type, &names, &number)) return NULL;
    const uintptr_t stream = (uintptr_t)number;
    const Py_ssize_t count = texts_of(names, name);
    ffload_loader *own = count < 0 ? NULL : enter(self);
    if (!own) return NULL;
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = stream ? ffload_loader_next_on(own, (void *)stream, &batch, &error)
                    : ffload_loader_next(own, &batch, &error);
    Py_END_ALLOW_THREADS;
    ff_python_leave(self);
    if (status) return ff_python_raise_of(self, &error);
    if (!batch) Py_RETURN_NONE;
    ((loader *)self)->info = *ffload_batch_info_of(batch);
    PyObject *tensors = tensors_of(batch, name, count, stream);
    ffload_batch_release(&batch);
    return tensors;
}

/* ---- batches on a GPU ----------------------------------------------------------------------- */

/* Memory that a tensor of a batch is written to. */
typedef struct place {
    int64_t shape[4], strides[4];
    DLTensor dl;
} place;

typedef struct places {
    Py_ssize_t count;
    const char *name[NAMES_MOST];
    const DLTensor *dl[NAMES_MOST];
    place place[NAMES_MOST];
} places;

static bool read_numbers(PyObject *tuple, int64_t *number, int *count) {
    *count = (int)PyTuple_Size(tuple);
    if (*count > 4) return ff_python_usage("a tensor of a batch has at most 4 axes");
    for (int i = 0; i < *count; i++) number[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    return !PyErr_Occurred();
}

/* (name, address, ordinal, code, bits, shape, strides): code and bits of a DLDataType. */
static bool read_place(PyObject *tuple, const char **name, place *to) {
    PyObject *shape, *strides;
    unsigned long long address;
    int code, bits, ordinal, rank = 0;
    if (!PyTuple_Check(tuple)) return ff_python_usage("a place is a tuple");
    if (!PyArg_ParseTuple(tuple, "yKiiiO!O!", name, &address, &ordinal, &code, &bits, &PyTuple_Type,
                          &shape, &PyTuple_Type, &strides) ||
        !read_numbers(strides, to->strides, &rank) || !read_numbers(shape, to->shape, &rank))
        return false;
    to->dl = (DLTensor){.data = (void *)(uintptr_t)address,
                        .device = {.device_type = kDLCUDA, .device_id = ordinal},
                        .ndim = rank,
                        .dtype = {.code = (uint8_t)code, .bits = (uint8_t)bits, .lanes = 1},
                        .shape = to->shape,
                        .strides = to->strides};
    return true;
}

/* The arguments (places, stream). */
static bool read_places(PyObject *args, places *to, void **stream) {
    PyObject *tuple;
    unsigned long long address;
    if (!PyArg_ParseTuple(args, "O!K", &PyTuple_Type, &tuple, &address)) return false;
    *stream = (void *)(uintptr_t)address;
    to->count = PyTuple_Size(tuple);
    if (to->count > NAMES_MOST) return ff_python_usage("a batch has fewer tensors");
    for (Py_ssize_t i = 0; i < to->count; i++) {
        if (!read_place(PyTuple_GetItem(tuple, i), &to->name[i], &to->place[i])) return false;
        to->dl[i] = &to->place[i].dl;
    }
    return true;
}

static PyObject *whether(PyObject *self, const ffload_batch_info *info) {
    if (info) ((loader *)self)->info = *info;
    return PyBool_FromLong(info != NULL);
}

/* enqueue_into(places, stream): True, or False after the last batch of all. */
static PyObject *loader_enqueue_into(PyObject *self, PyObject *args) {
    places to;
    void *stream;
    const ffload_batch_info *info;
    ffload_error error;
    ffload_loader *own = read_places(args, &to, &stream) ? enter(self) : NULL;
    if (!own) return NULL;
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status =
        ffload_loader_enqueue_into(own, to.name, to.dl, (size_t)to.count, stream, &info, &error);
    Py_END_ALLOW_THREADS;
    PyObject *good = status ? ff_python_raise(&error) : whether(self, info);
    ff_python_leave(self);
    return good;
}

/* begin(stream): True, or False after the last batch of all. */
static PyObject *loader_begin(PyObject *self, PyObject *address) {
    const ffload_batch_info *info;
    ffload_error error;
    void *stream = PyLong_AsVoidPtr(address);
    ffload_loader *own = PyErr_Occurred() ? NULL : enter(self);
    if (!own) return NULL;
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = ffload_loader_begin(own, stream, &info, &error);
    Py_END_ALLOW_THREADS;
    PyObject *good = status ? ff_python_raise(&error) : whether(self, info);
    ff_python_leave(self);
    return good;
}

static PyObject *nothing_or(int status, const ffload_error *error) {
    if (status) return ff_python_raise(error);
    Py_RETURN_NONE;
}

static PyObject *loader_write(PyObject *self, PyObject *args) {
    places to;
    void *stream;
    ffload_error error;
    ffload_loader *own = read_places(args, &to, &stream) ? enter(self) : NULL;
    if (!own) return NULL;
    const int status = ffload_loader_write(own, to.name, to.dl, (size_t)to.count, stream, &error);
    ff_python_leave(self);
    return nothing_or(status, &error);
}

static PyObject *loader_end(PyObject *self, PyObject *address) {
    ffload_error error;
    void *stream = PyLong_AsVoidPtr(address);
    ffload_loader *own = PyErr_Occurred() ? NULL : enter(self);
    if (!own) return NULL;
    const int status = ffload_loader_end(own, stream, &error);
    ff_python_leave(self);
    return nothing_or(status, &error);
}

/* ---- position ------------------------------------------------------------------------------- */

static PyObject *loader_seek(PyObject *self, PyObject *args) {
    unsigned int epoch;
    unsigned long long position;
    ffload_error error;
    if (!PyArg_ParseTuple(args, "IK:seek", &epoch, &position)) return NULL;
    ffload_loader *own = enter(self);
    if (!own) return NULL;
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = ffload_loader_seek(own, epoch, position, &error);
    Py_END_ALLOW_THREADS;
    ff_python_leave(self);
    return nothing_or(status, &error);
}

typedef int write_text(ffload_loader *own, const char **json, ffload_error *error);

static PyObject *text_by(PyObject *self, write_text *write) {
    const char *json;
    ffload_error error;
    ffload_loader *own = enter(self);
    if (!own) return NULL;
    PyObject *text =
        write(own, &json, &error) ? ff_python_raise(&error) : PyUnicode_FromString(json);
    ff_python_leave(self);
    return text;
}

static PyObject *loader_state(PyObject *self, PyObject *none) {
    (void)none;
    return text_by(self, ffload_loader_state);
}

static PyObject *loader_describe(PyObject *self, PyObject *none) {
    (void)none;
    return text_by(self, ffload_loader_describe);
}

static PyObject *loader_restore(PyObject *self, PyObject *args) {
    const char *json;
    ffload_error error;
    if (!PyArg_ParseTuple(args, "s:restore", &json)) return NULL;
    ffload_loader *own = enter(self);
    if (!own) return NULL;
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = ffload_loader_restore(own, json, &error);
    Py_END_ALLOW_THREADS;
    ff_python_leave(self);
    return nothing_or(status, &error);
}

/* (wait_ns, fill_ns, samples, batches, blocks) */
static PyObject *loader_stats(PyObject *self, PyObject *none) {
    ffload_stats stats;
    ffload_error error;
    (void)none;
    ffload_loader *own = enter(self);
    if (!own) return NULL;
    const int status = ffload_loader_stats(own, &stats, &error);
    ff_python_leave(self);
    if (status) return ff_python_raise(&error);
    return Py_BuildValue("(KKKKK)", (unsigned long long)stats.wait_ns,
                         (unsigned long long)stats.fill_ns, (unsigned long long)stats.samples,
                         (unsigned long long)stats.batches, (unsigned long long)stats.blocks);
}

static PyObject *loader_close(PyObject *self, PyObject *none) {
    const ff_python_handle *handle = &((loader *)self)->owner.handle;
    (void)none;
    /* Ends the wait of another thread. */
    if (handle->object && handle->calls) ffload_loader_interrupt(handle->object);
    return ff_python_close(self);
}

static Py_ssize_t loader_length(PyObject *self) {
    ffload_loader *own = enter(self);
    if (!own) return -1;
    const uint64_t length = ffload_loader_length(own);
    ff_python_leave(self);
    return (Py_ssize_t)length;
}

static PyObject *loader_last(PyObject *self, void *none) {
    (void)none;
    return PyBool_FromLong(((loader *)self)->info.last != 0);
}

/* (epoch, index, position, count, rows, global_count, last) */
static PyObject *loader_info(PyObject *self, void *none) {
    (void)none;
    const ffload_batch_info *info = &((loader *)self)->info;
    return Py_BuildValue("(IKKIIKO)", info->epoch, (unsigned long long)info->index,
                         (unsigned long long)info->position, info->count, info->rows,
                         (unsigned long long)info->global_count, info->last ? Py_True : Py_False);
}

int ff_python_add_loader(PyObject *module) {
    static PyMethodDef methods[] = {
        {"next", loader_next, METH_VARARGS,
         "(names, stream=0): Tensors of the next batch, or None."},
        {"enqueue_into", loader_enqueue_into, METH_VARARGS,
         "(places, stream): writes the next batch; whether there was one."},
        {"begin", loader_begin, METH_O, "(stream): begins the next batch; whether there is one."},
        {"write", loader_write, METH_VARARGS, "(places, stream): writes the batch that was begun."},
        {"end", loader_end, METH_O, "(stream): ends it."},
        {"seek", loader_seek, METH_VARARGS, "(epoch, position)"},
        {"state", loader_state, METH_NOARGS, "Its position, as JSON."},
        {"restore", loader_restore, METH_VARARGS, "(json): continues there."},
        {"describe", loader_describe, METH_NOARGS, "Its description, as JSON."},
        {"stats", loader_stats, METH_NOARGS, "(wait_ns, fill_ns, samples, batches, blocks)"},
        {"close", loader_close, METH_NOARGS, "Ends it once no call is in it."},
        {0}};
    static PyGetSetDef attributes[] = {
        {"last", loader_last, NULL, "Whether the batch was the last one of its epoch.", NULL},
        {"info", loader_info, NULL,
         "(epoch, index, position, count, rows, global_count, last) of the last batch.", NULL},
        {0}};
    static PyType_Slot slots[] = {{Py_tp_doc, "Batches of a dataset."},
                                  {Py_tp_new, loader_new},
                                  {Py_tp_dealloc, ff_python_disown},
                                  {Py_tp_methods, methods},
                                  {Py_tp_getset, attributes},
                                  {Py_sq_length, loader_length},
                                  {0, NULL}};
    static PyType_Spec spec = {.name = "ffload._ffload.Loader",
                               .basicsize = sizeof(loader),
                               .flags = Py_TPFLAGS_DEFAULT,
                               .slots = slots};
    loader_type = ff_python_add_type(module, "Loader", &spec);
    return loader_type ? 0 : -1;
}
