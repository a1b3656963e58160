/* _ffload.Dataset: a packed split. The package's Dataset wraps it in Python's conventions. */
#include "loader/python/extension/extension.h"

static PyTypeObject *dataset_type;

static void end_dataset(void *object) {
    ffload_dataset *set = object;
    ffload_dataset_close(&set);
}

enum { SETS_MOST = 64 };

/* The paths in a tuple, as bytes in `path`, whose references are the caller's; their number, or -1
 * with an exception. */
static Py_ssize_t paths_of(PyObject *tuple, PyObject *path[SETS_MOST]) {
    const Py_ssize_t count = PyTuple_Size(tuple);
    if (count > SETS_MOST) {
        ff_python_usage("more than 64 sets");
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (!PyUnicode_FSConverter(PyTuple_GetItem(tuple, i), &path[i])) return -1;
    return count;
}

/* Dataset(paths, options): a tuple of paths as os.fsencode takes them, and a dict of texts. */
static PyObject *dataset_new(PyTypeObject *type, PyObject *args, PyObject *words) {
    static char *names[] = {"paths", "options", NULL};
    PyObject *tuple, *path[SETS_MOST] = {NULL}, *dict;
    const char *text[SETS_MOST];
    ffload_dataset *set;
    ffload_error error;
    if (!PyArg_ParseTupleAndKeywords(args, words, "O!O!:Dataset", names, &PyTuple_Type, &tuple,
                                     &PyDict_Type, &dict))
        return NULL;
    ffload_options *options = ff_python_options(dict);
    PyObject *self = NULL;
    const Py_ssize_t count = options ? paths_of(tuple, path) : -1;
    if (count < 0) goto done;
    for (Py_ssize_t i = 0; i < count; i++) text[i] = PyBytes_AsString(path[i]);
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = ffload_dataset_open_several(&set, text, (size_t)count, options, &error);
    Py_END_ALLOW_THREADS;
    if (status) {
        ff_python_raise(&error);
        goto done;
    }
    self = ff_python_own(type, set, end_dataset);
done:
    ffload_options_destroy(&options);
    for (int i = 0; i < SETS_MOST; i++) Py_XDECREF(path[i]);
    return self;
}

bool ff_python_is_dataset(PyObject *object) {
    if (PyObject_TypeCheck(object, dataset_type)) return true;
    PyErr_SetString(PyExc_TypeError, "this is not a dataset");
    return false;
}

static ffload_dataset *enter(PyObject *self) {
    return ff_python_enter(self, "dataset");
}

/* The same, for sample number *i. */
static ffload_dataset *enter_at(PyObject *self, PyObject *number, uint64_t *i) {
    *i = PyLong_AsUnsignedLongLong(number);
    return PyErr_Occurred() ? NULL : enter(self);
}

/* ---- samples -------------------------------------------------------------------------------- */

typedef int read_sample(ffload_dataset *set, uint64_t number, DLManagedTensorVersioned **tensor,
                        ffload_error *error);

static PyObject *read_by(PyObject *self, PyObject *number, read_sample *read) {
    DLManagedTensorVersioned *managed;
    ffload_error error;
    uint64_t i;
    ffload_dataset *set = enter_at(self, number, &i);
    if (!set) return NULL;
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = read(set, i, &managed, &error);
    Py_END_ALLOW_THREADS;
    ff_python_leave(self);
    return status ? ff_python_raise(&error) : ff_python_tensor(managed);
}

static PyObject *dataset_sample(PyObject *self, PyObject *number) {
    return read_by(self, number, ffload_dataset_sample);
}

static PyObject *dataset_view(PyObject *self, PyObject *number) {
    return read_by(self, number, ffload_dataset_view);
}

/* The number of a class field, else a tensor. */
static PyObject *label_value(DLManagedTensorVersioned *managed) {
    const DLTensor *dl = &managed->dl_tensor;
    const void *at = (const uint8_t *)dl->data + dl->byte_offset;
    if (dl->ndim > 0 || dl->dtype.code != kDLInt) return ff_python_tensor(managed);
    const int64_t value = dl->dtype.bits == 64 ? *(const int64_t *)at : *(const int32_t *)at;
    managed->deleter(managed);
    return PyLong_FromLongLong(value);
}

static PyObject *dataset_label(PyObject *self, PyObject *args) {
    DLManagedTensorVersioned *managed;
    unsigned long long i;
    const char *field;
    ffload_error error;
    if (!PyArg_ParseTuple(args, "Ky:label", &i, &field)) return NULL;
    ffload_dataset *set = enter(self);
    if (!set) return NULL;
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = ffload_dataset_label(set, i, field, &managed, &error);
    Py_END_ALLOW_THREADS;
    ff_python_leave(self);
    return status ? ff_python_raise(&error) : label_value(managed);
}

static PyObject *dataset_labels(PyObject *self, PyObject *args) {
    DLManagedTensorVersioned *managed;
    unsigned long long first, count;
    const char *field;
    ffload_error error;
    if (!PyArg_ParseTuple(args, "KKy:labels", &first, &count, &field)) return NULL;
    ffload_dataset *set = enter(self);
    if (!set) return NULL;
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = ffload_dataset_labels(set, first, count, field, &managed, &error);
    Py_END_ALLOW_THREADS;
    ff_python_leave(self);
    return status ? ff_python_raise(&error) : ff_python_tensor(managed);
}

static PyObject *dataset_key(PyObject *self, PyObject *number) {
    char key[FFLOAD_KEY_MOST];
    size_t bytes;
    ffload_error error;
    uint64_t i;
    ffload_dataset *set = enter_at(self, number, &i);
    if (!set) return NULL;
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = ffload_dataset_key(set, i, key, &bytes, &error);
    Py_END_ALLOW_THREADS;
    ff_python_leave(self);
    return status ? ff_python_raise(&error) : PyBytes_FromStringAndSize(key, (Py_ssize_t)bytes);
}

/* ---- the set -------------------------------------------------------------------------------- */

static PyObject *dataset_describe(PyObject *self, PyObject *none) {
    const char *json;
    ffload_error error;
    (void)none;
    ffload_dataset *set = enter(self);
    if (!set) return NULL;
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = ffload_dataset_describe(set, &json, &error);
    Py_END_ALLOW_THREADS;
    PyObject *text = status ? ff_python_raise(&error) : PyUnicode_FromString(json);
    ff_python_leave(self);
    return text;
}

/* Python's callable of a verification; false after it raised or returned a true value. */
static int report(void *callable, const char *problem, uint64_t done, uint64_t total) {
    const PyGILState_STATE state = PyGILState_Ensure();
    PyObject *sentence = problem ? PyUnicode_DecodeFSDefault(problem) : Py_None, *ends = NULL;
    if (problem ? sentence != NULL : (Py_INCREF(sentence), true))
        ends = PyObject_CallFunction(callable, "NKK", sentence, (unsigned long long)done,
                                     (unsigned long long)total);
    if (!ends) PyErr_WriteUnraisable(callable);
    const bool stop = !ends || PyObject_IsTrue(ends) != 0;
    Py_XDECREF(ends);
    PyGILState_Release(state);
    return stop;
}

/* verify(threads, progress): any thread calls progress(problem or None, done, total); a true result
 * ends the check. */
static PyObject *dataset_verify(PyObject *self, PyObject *args) {
    int threads;
    PyObject *progress;
    ffload_error error;
    if (!PyArg_ParseTuple(args, "iO:verify", &threads, &progress)) return NULL;
    ffload_dataset *set = enter(self);
    if (!set) return NULL;
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = ffload_dataset_verify(set, threads, report, progress, &error);
    Py_END_ALLOW_THREADS;
    ff_python_leave(self);
    if (status) return ff_python_raise(&error);
    Py_RETURN_NONE;
}

static PyObject *dataset_close(PyObject *self, PyObject *none) {
    (void)none;
    return ff_python_close(self);
}

static Py_ssize_t dataset_length(PyObject *self) {
    ffload_dataset *set = enter(self);
    if (!set) return -1;
    const uint64_t count = ffload_dataset_count(set);
    ff_python_leave(self);
    return (Py_ssize_t)count;
}

int ff_python_add_dataset(PyObject *module) {
    static PyMethodDef methods[] = {
        {"sample", dataset_sample, METH_O, "A checked copy of sample number i."},
        {"view", dataset_view, METH_O, "Sample number i in place, read-only."},
        {"label", dataset_label, METH_VARARGS, "(i, field): an int, or a Tensor."},
        {"labels", dataset_labels, METH_VARARGS,
         "(first, count, field): a Tensor of the labels of `count` samples."},
        {"key", dataset_key, METH_O, "The key of sample number i, as bytes."},
        {"describe", dataset_describe, METH_NOARGS, "What the set is, as JSON."},
        {"verify", dataset_verify, METH_VARARGS, "(threads, progress): checks every byte."},
        {"close", dataset_close, METH_NOARGS, "Closes it once no call is in it."},
        {0}};
    static PyType_Slot slots[] = {{Py_tp_doc, "A packed split."},    {Py_tp_new, dataset_new},
                                  {Py_tp_dealloc, ff_python_disown}, {Py_tp_methods, methods},
                                  {Py_sq_length, dataset_length},    {0, NULL}};
    static PyType_Spec spec = {.name = "ffload._ffload.Dataset",
                               .basicsize = sizeof(ff_python_owner),
                               .flags = Py_TPFLAGS_DEFAULT,
                               .slots = slots};
    dataset_type = ff_python_add_type(module, "Dataset", &spec);
    return dataset_type ? 0 : -1;
}
