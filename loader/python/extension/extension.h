/* Room loader/python, floor 11: the Python package ffload.
 *
 * ffload/ is the package that users import: datasets, loaders, packing, arrays. extension/ is its
 * module in C, written against libffload's public header alone: an object for a dataset, a loader
 * and a tensor, which goes to NumPy, PyTorch and JAX through DLPack. examples/ are scripts that
 * tests run.
 *
 * May include loader/python.
 *
 * ffload._ffload: libffload for Python, through Python's stable ABI as of 3.9. Private to
 * loader/python/extension/; users see the package ffload, which builds on it.
 *
 * Thread rule. Python's lock (the GIL) is held wherever Python's objects are used, and released
 * wherever the library works or waits, so another thread may close an object that a call is using:
 * the object counts the calls in progress, and the last call to end closes it
 * (ff_python_handle). */
#ifndef FF_LOADER_PYTHON_EXTENSION_H
#define FF_LOADER_PYTHON_EXTENSION_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include <ffload/ffload.h>
#include <stdbool.h>

/* ---- errors (module.c) ---------------------------------------------------------------------- */

/* Raises the exception of the error's status with its sentence; for an interrupted call the
 * signal's exception is already set. Returns NULL. */
PyObject *ff_python_raise(const ffload_error *error);

/* Raises ffload.UsageError. Returns NULL. */
PyObject *ff_python_usage(const char *sentence);

/* Asks Python whether a signal came, with or without Python's lock: 1 if one of Python's handlers
 * raised an exception, which is then set. An ffload_check; `context` is not used. */
int ff_python_check(void *context);

/* ---- handles (module.c) --------------------------------------------------------------------- */

/* A library object that one thread may close while others use it. */
typedef struct ff_python_handle {
    void *object; /* NULL: closed */
    Py_ssize_t calls;
    bool closing;
    void (*end)(void *object); /* without Python's lock */
} ff_python_handle;

/* The beginning of Python objects with a handle. */
typedef struct ff_python_owner {
    PyObject_HEAD ff_python_handle handle;
} ff_python_owner;

/* A new object of such a type, which takes over `object`; NULL with an exception, and `object` is
 * ended. */
PyObject *ff_python_own(PyTypeObject *type, void *object, void (*end)(void *object));
/* Py_tp_dealloc of such a type. */
void ff_python_disown(PyObject *self);

/* The library's object, until leave; NULL with ffload.UsageError, "the NAME is closed". */
void *ff_python_enter(PyObject *self, const char *name);
void ff_python_leave(PyObject *self);
/* ff_python_raise for a loader's call that waited: UsageError if close() ended the wait. */
PyObject *ff_python_raise_of(PyObject *self, const ffload_error *error);
/* Ends the library's object, at once or when the last call leaves. Returns None. */
PyObject *ff_python_close(PyObject *self);

/* ---- types ---------------------------------------------------------------------------------- */

/* A new ffload.Tensor, which takes over `managed`; NULL with an exception, and `managed` is
 * ended. */
PyObject *ff_python_tensor(DLManagedTensorVersioned *managed);

/* The same for a batch on a GPU, made in `stream`; other streams that its consumers name also use
 * it (ffload_batch_use_on). `managed` keeps the batch. */
PyObject *ff_python_tensor_on(DLManagedTensorVersioned *managed, ffload_batch *batch,
                              uintptr_t stream);

/* Whether the object is a Dataset; false with an exception. */
bool ff_python_is_dataset(PyObject *object);

/* Adds a type to the module. -1 with an exception. */
int ff_python_add_tensor(PyObject *module);
int ff_python_add_dataset(PyObject *module);
int ff_python_add_loader(PyObject *module);

/* A type from its spec, added under `name`; NULL with an exception. */
PyTypeObject *ff_python_add_type(PyObject *module, const char *name, PyType_Spec *spec);

/* Frees an object of such a type. */
void ff_python_free(PyObject *self);

/* The library's options from a dict of texts; NULL with an exception. */
ffload_options *ff_python_options(PyObject *dict);

#endif
