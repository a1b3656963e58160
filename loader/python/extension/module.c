#include "loader/python/extension/extension.h"

#include <string.h>

/* ---- errors --------------------------------------------------------------------------------- */

static PyObject *error_type, *usage_type, *bad_data_type;

static PyObject *type_of(int status) {
    switch (status) {
    case FFLOAD_USAGE: return usage_type;
    case FFLOAD_BAD_DATA: return bad_data_type;
    case FFLOAD_IO: return PyExc_OSError;
    case FFLOAD_NO_MEMORY: return PyExc_MemoryError;
    default: return error_type;
    }
}

/* The end of the path with which a message begins. A path may contain ": ", so this looks for the
 * words that follow a path. NULL: there is no ": ". */
static const char *end_of_path(const char *message) {
    static const char *const words[] = {": cannot ", ": offset ", ": no such folder"};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *found = strstr(message, words[i]);
        if (found && (!first || found < first)) first = found;
    }
    return first ? first : strstr(message, ": ");
}

/* OSError(errno, reason, path), which is a FileNotFoundError, a PermissionError, ... by its errno.
 * The message is the path, ": " and the reason. */
static void raise_system(const ffload_error *error, const char *colon) {
    PyObject *words = PyUnicode_DecodeFSDefault(colon + 2), *exception = NULL;
    PyObject *path = PyUnicode_DecodeFSDefaultAndSize(error->message, colon - error->message);
    if (path && words)
        exception = PyObject_CallFunction(PyExc_OSError, "iOO", error->system_errno, words, path);
    if (exception) PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_XDECREF(exception);
    Py_XDECREF(words);
    Py_XDECREF(path);
}

PyObject *ff_python_raise(const ffload_error *error) {
    const char *colon = end_of_path(error->message);
    if (error->status == FFLOAD_INTERRUPTED && PyErr_Occurred()) return NULL;
    if (error->status == FFLOAD_IO && error->system_errno && colon) {
        raise_system(error, colon);
        return NULL;
    }
    PyObject *sentence = PyUnicode_DecodeFSDefault(error->message);
    if (sentence) PyErr_SetObject(type_of(error->status), sentence);
    Py_XDECREF(sentence);
    return NULL;
}

PyObject *ff_python_usage(const char *sentence) {
    PyErr_SetString(usage_type, sentence);
    return NULL;
}

int ff_python_check(void *context) {
    (void)context;
    const PyGILState_STATE state = PyGILState_Ensure();
    const int signal = PyErr_CheckSignals();
    PyGILState_Release(state);
    return signal != 0;
}

/* ---- handles -------------------------------------------------------------------------------- */

static ff_python_handle *handle_of(PyObject *self) {
    return &((ff_python_owner *)self)->handle;
}

void *ff_python_enter(PyObject *self, const char *name) {
    ff_python_handle *handle = handle_of(self);
    if (!handle->object || handle->closing) {
        PyErr_Format(usage_type, "the %s is closed", name);
        return NULL;
    }
    handle->calls++;
    return handle->object;
}

static void end(ff_python_handle *handle) {
    void *object = handle->object;
    handle->object = NULL;
    if (!object) return;
    PyThreadState *thread = PyEval_SaveThread();
    handle->end(object);
    PyEval_RestoreThread(thread);
}

void ff_python_leave(PyObject *self) {
    ff_python_handle *handle = handle_of(self);
    if (--handle->calls == 0 && handle->closing) end(handle);
}

PyObject *ff_python_close(PyObject *self) {
    ff_python_handle *handle = handle_of(self);
    handle->closing = true;
    if (handle->calls == 0) end(handle);
    Py_RETURN_NONE;
}

PyObject *ff_python_raise_of(PyObject *self, const ffload_error *error) {
    if (error->status == FFLOAD_INTERRUPTED && handle_of(self)->closing && !PyErr_Occurred())
        return ff_python_usage("the loader was closed while a batch was awaited");
    return ff_python_raise(error);
}

PyObject *ff_python_own(PyTypeObject *type, void *object, void (*end_object)(void *object)) {
    PyObject *self = ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self)
        *handle_of(self) = (ff_python_handle){.object = object, .end = end_object};
    else
        end_object(object);
    return self;
}

void ff_python_disown(PyObject *self) {
    ff_python_handle *handle = handle_of(self);
    if (handle->object) end(handle);
    ff_python_free(self);
}

/* ---- types ---------------------------------------------------------------------------------- */

PyTypeObject *ff_python_add_type(PyObject *module, const char *name, PyType_Spec *spec) {
    PyObject *type = PyType_FromSpec(spec);
    if (!type) return NULL;
    Py_INCREF(type);
    if (PyModule_AddObject(module, name, type) == 0) return (PyTypeObject *)type;
    Py_DECREF(type);
    Py_DECREF(type);
    return NULL;
}

void ff_python_free(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* ---- options -------------------------------------------------------------------------------- */

static int set_option(ffload_options *options, PyObject *name, PyObject *value) {
    ffload_error error;
    PyObject *name_bytes = PyUnicode_AsUTF8String(name), *value_bytes = NULL;
    bool good = name_bytes && (value_bytes = PyUnicode_AsUTF8String(value));
    if (good && ffload_options_set(options, PyBytes_AsString(name_bytes),
                                   PyBytes_AsString(value_bytes), &error)) {
        ff_python_raise(&error);
        good = false;
    }
    Py_XDECREF(name_bytes);
    Py_XDECREF(value_bytes);
    return good ? 0 : -1;
}

ffload_options *ff_python_options(PyObject *dict) {
    ffload_options *options;
    ffload_error error;
    PyObject *name, *value;
    Py_ssize_t at = 0;
    if (ffload_options_create(&options, &error) ||
        ffload_options_set_check(options, ff_python_check, NULL, &error)) {
        ffload_options_destroy(&options);
        ff_python_raise(&error);
        return NULL;
    }
    while (PyDict_Next(dict, &at, &name, &value))
        if (set_option(options, name, value)) {
            ffload_options_destroy(&options);
            return NULL;
        }
    return options;
}

/* ---- the module ----------------------------------------------------------------------------- */

/* The exceptions are the package's (errors.py). */
static int take_errors(void) {
    PyObject *errors = PyImport_ImportModule("ffload.errors");
    if (!errors) return -1;
    error_type = PyObject_GetAttrString(errors, "Error");
    usage_type = PyObject_GetAttrString(errors, "UsageError");
    bad_data_type = PyObject_GetAttrString(errors, "BadData");
    Py_DECREF(errors);
    return error_type && usage_type && bad_data_type ? 0 : -1;
}

/* Types and exceptions belong to the process, and only the main interpreter checks for signals. */
static int check_interpreter(void) {
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0) return 0;
    PyErr_SetString(
        PyExc_ImportError,
        "ffload works only in a process's main interpreter, and this is a sub-interpreter; use "
        "it from the main interpreter, or in a separate process (with mod_wsgi: "
        "WSGIApplicationGroup %{GLOBAL})");
    return -1;
}

static int fill_module(PyObject *module) {
    if (check_interpreter() || take_errors() ||
        PyModule_AddStringConstant(module, "version", ffload_version()) ||
        ff_python_add_tensor(module) || ff_python_add_dataset(module))
        return -1;
    return ff_python_add_loader(module);
}

PyMODINIT_FUNC PyInit__ffload(void);

/* In two phases: sub-interpreters would share a one-phase module without calling its exec
 * function. */
PyMODINIT_FUNC PyInit__ffload(void) {
    static PyModuleDef_Slot slots[] = {{Py_mod_exec, NULL}, {0, NULL}};
    static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "ffload._ffload",
                                            .m_doc = "libffload, as the package ffload uses it",
                                            .m_slots = slots};
    slots[0].value = (void *)(uintptr_t)fill_module;
    return PyModuleDef_Init(&definition);
}
