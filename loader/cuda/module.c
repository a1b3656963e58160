#include "loader/cuda/module.h"

#include "format/base/memory.h"
#include "format/base/path.h"
#include "loader/cuda/driver.h"
#include "loader/cuda/libraries.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#ifndef FF_CUDA_VERSION
#define FF_CUDA_VERSION 0
#endif

struct ff_cuda_module {
    const ff_cuda_table *table;
    ff_buffer notes; /* lines */
};

static ff_status open_module(const ff_cuda_table **table, const char *path, int cuda,
                             ff_error *error) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return ff_fail(error, FF_FAILED, "the CUDA module does not open: %s", dlerror());
    ff_cuda_export *get;
    *(void **)&get = dlsym(handle, FF_CUDA_EXPORT);
    const ff_cuda_table *found = get ? get() : NULL;
    if (!found)
        return ff_fail(error, FF_FAILED, "%s is not the CUDA module: it has no %s", path,
                       FF_CUDA_EXPORT);
    if (found->build != FF_HEADERS || found->cuda != cuda)
        return ff_fail(error, FF_FAILED,
                       "%s is of another build: found headers %u with CUDA %d, wanted headers %u "
                       "with CUDA %d; run make, which builds program and module",
                       path, found->build, found->cuda, FF_HEADERS, cuda);
    *table = found;
    return FF_OK;
}

ff_status ff_cuda_module_open_as(ff_cuda_module **out, const char *folder, int cuda, int ordinal,
                                 ff_error *error) {
    const ff_cuda_table *table = NULL;
    char *own = NULL, *path = NULL;
    ff_buffer notes = {0};
    ff_status status = FF_OK;
    *out = NULL;
    if (cuda == 0)
        return ff_fail(
            error, FF_FAILED,
            "this program was built without CUDA: make found no complete toolkit, and prints what is missing");
    if (!folder) FF_TRY(ff_path_of_code(&own, error));
    if (!folder) folder = own;
    FF_TRY_DONE(ff_path_of_module(&path, folder, "libff_cuda.so", error));
    if (ordinal != FF_CUDA_NO_DEVICE) FF_TRY_DONE(ff_cuda_driver_check(cuda, ordinal, error));
    FF_TRY_DONE(ff_cuda_libraries_open(folder, cuda, &notes, error));
    FF_TRY_DONE(open_module(&table, path, cuda, error));
    FF_TRY_DONE(ff_alloc(out, 1, sizeof **out, "the CUDA module", error));
    (*out)->table = table;
    (*out)->notes = notes;
    notes = (ff_buffer){0};
done:
    ff_buffer_free(&notes);
    free(path);
    free(own);
    return status;
}

ff_status ff_cuda_module_open(ff_cuda_module **module, int ordinal, ff_error *error) {
    return ff_cuda_module_open_as(module, NULL, FF_CUDA_VERSION, ordinal, error);
}

void ff_cuda_module_close(ff_cuda_module **module) {
    if (*module) ff_buffer_free(&(*module)->notes);
    free(*module);
    *module = NULL;
}

const ff_cuda_table *ff_cuda_module_table(const ff_cuda_module *module) {
    return module->table;
}

const char *ff_cuda_module_notes(const ff_cuda_module *module) {
    return module->notes.length ? module->notes.bytes : "";
}
