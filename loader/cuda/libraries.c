#include "loader/cuda/libraries.h"

#include "format/base/path.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef FF_CUDA_FOLDERS
#define FF_CUDA_FOLDERS ""
#endif

#define WHEELS "lib/python3*/{site,dist}-packages/nvidia/{*,}/lib"

/* Where to look: patterns of folders for glob(), or "" for the dynamic linker's own search. */
typedef struct places {
    char **patterns;
    size_t count, capacity;
} places;

static void places_free(places *where) {
    for (size_t i = 0; i < where->count; i++) free(where->patterns[i]);
    free(where->patterns);
}

/* Escapes a folder's name as a pattern for glob() that matches only that name. */
static ff_status add_escaped(ff_buffer *text, const char *folder, size_t length, ff_error *error) {
    for (size_t i = 0; i < length; i++) {
        if (strchr("*?[]{},\\~", folder[i])) FF_TRY(ff_buffer_add(text, "\\", 1, error));
        FF_TRY(ff_buffer_add(text, folder + i, 1, error));
    }
    return FF_OK;
}

/* Adds `folder` literally, then "/" and the pattern `below` if there is one. */
static ff_status places_add(places *where, const char *folder, size_t length, const char *below,
                            ff_error *error) {
    ff_buffer text = {0};
    ff_status status;
    FF_TRY_DONE(add_escaped(&text, folder, length, error));
    FF_TRY_DONE(ff_buffer_printf(&text, error, "%s%s", *below ? "/" : "", below));
    FF_TRY_DONE(ff_reserve(&where->patterns, &where->capacity, where->count + 1,
                           sizeof *where->patterns, "places of libraries", error));
    where->patterns[where->count++] = text.bytes;
    return FF_OK;
done:
    ff_buffer_free(&text);
    return status;
}

static ff_status places_add_text(places *where, const char *folder, const char *below,
                                 ff_error *error) {
    return folder && *folder ? places_add(where, folder, strlen(folder), below, error) : FF_OK;
}

/* Every folder of a list separated by `separator`. */
static ff_status places_add_list(places *where, const char *list, char separator, const char *below,
                                 ff_error *error) {
    while (list && *list) {
        size_t length = strcspn(list, (char[]){separator, 0});
        if (length > 0) FF_TRY(places_add(where, list, length, below, error));
        list += length + (list[length] != 0);
    }
    return FF_OK;
}

/* A Python's wheels are next to it: bin/python3 and lib/python3.11/site-packages/nvidia. */
static ff_status places_add_pythons(places *where, ff_error *error) {
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t length = strcspn(path, ":");
        char *python;
        FF_TRY(ff_format(&python, error, "%.*s/python3", (int)length, path));
        const bool runs = length > 0 && access(python, X_OK) == 0;
        free(python);
        if (runs) FF_TRY(places_add(where, path, length, "../" WHEELS, error));
        path += length + (path[length] != 0);
    }
    return FF_OK;
}

static ff_status places_find(places *where, const char *program, ff_error *error) {
    FF_TRY(places_add_list(where, getenv("FFPACK_CUDA_PATH"), ':', "", error));
    FF_TRY(places_add_text(where, program, "", error));
    FF_TRY(places_add_text(where, program, "../lib", error));
    FF_TRY(places_add_text(where, program, "../../nvidia/{*,}/lib", error));
    FF_TRY(places_add(where, "", 0, "", error));
    FF_TRY(places_add_text(where, "/usr/local", "cuda*/{lib64,lib}", error));
    FF_TRY(places_add_text(where, getenv("VIRTUAL_ENV"), WHEELS, error));
    FF_TRY(places_add_text(where, getenv("CONDA_PREFIX"), WHEELS, error));
    FF_TRY(places_add_pythons(where, error));
    FF_TRY(places_add_text(where, "/usr/local", WHEELS, error));
    FF_TRY(places_add_text(where, getenv("HOME"), ".local/" WHEELS, error));
    return places_add_list(where, FF_CUDA_FOLDERS, ' ', "", error);
}

/* "a, b, the system's libraries" for an error message. */
static void places_print(const places *where, char *text, size_t size) {
    size_t length = 0;
    *text = 0;
    for (size_t i = 0; i < where->count && length < size; i++) {
        const char *pattern = *where->patterns[i] ? where->patterns[i] : "the system's libraries";
        length += (size_t)snprintf(text + length, size - length, "%s%s", i ? ", " : "", pattern);
    }
}

/* Opens the first match in one place; `why`, if empty, gets the reason why one did not open. */
static void *open_in(const char *place, const char *file, char *why, size_t size) {
    if (!*place) return dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    char *pattern;
    glob_t found;
    void *handle = NULL;
    if (ff_format(&pattern, NULL, "%s/%s", place, file) != FF_OK) return NULL;
    const bool any = glob(pattern, GLOB_BRACE, NULL, &found) == 0;
    free(pattern);
    if (!any) return NULL;
    for (size_t i = 0; i < found.gl_pathc && !handle; i++) {
        handle = dlopen(found.gl_pathv[i], RTLD_LAZY | RTLD_LOCAL);
        if (!handle && !*why) snprintf(why, size, "%s", dlerror());
    }
    globfree(&found);
    return handle;
}

/* Starts at *place, where the previous library was found, and updates it: libraries from one place
 * fit together. */
static void *open_one(const places *where, size_t *place, const char *file, char *why,
                      size_t size) {
    *why = 0;
    void *handle = open_in(where->patterns[*place], file, why, size);
    for (size_t i = 0; i < where->count && !handle; i++) {
        handle = open_in(where->patterns[i], file, why, size);
        if (handle) *place = i;
    }
    return handle;
}

/* The path from which a library was opened. */
static const char *path_of(void *handle) {
    struct link_map *map;
    return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
}

/* Unlike the others, cuDNN's file has the same name for every CUDA and every version 9. */
static ff_status check_cudnn(void *handle, int cuda, ff_error *error) {
    size_t (*runtime)(void), (*version)(void);
    *(void **)&runtime = dlsym(handle, "cudnnGetCudartVersion");
    *(void **)&version = dlsym(handle, "cudnnGetVersion");
    const size_t of = runtime ? runtime() / 1000 : (size_t)cuda / 1000;
    const size_t found = version ? version() : FF_CUDNN_LEAST;
    if (of != (size_t)cuda / 1000)
        return ff_fail(error, FF_FAILED,
                       "%s is cuDNN for CUDA %zu, and this build is of CUDA %d: install that "
                       "cuDNN, or name its folder in FFPACK_CUDA_PATH",
                       path_of(handle), of, cuda / 1000);
    if (found < FF_CUDNN_LEAST)
        return ff_fail(error, FF_FAILED,
                       "%s is cuDNN %zu.%zu.%zu, and %d.%d or newer is needed: install "
                       "cudnn9-cuda-%d, or the wheel nvidia-cudnn-cu%d, of such a version, or name "
                       "its folder in FFPACK_CUDA_PATH",
                       path_of(handle), found / 10000, found / 100 % 100, found % 100,
                       FF_CUDNN_LEAST / 10000, FF_CUDNN_LEAST / 100 % 100, cuda / 1000,
                       cuda / 1000);
    return FF_OK;
}

/* Opens all in `folder` and returns the count; `why` gets the reason if one did not open. */
static int open_builtins_in(const char *folder, size_t length, char *why, size_t size) {
    ff_buffer pattern = {0};
    glob_t found;
    int opened = 0;
    if (add_escaped(&pattern, folder, length, NULL) == FF_OK &&
        ff_buffer_printf(&pattern, NULL, "/libnvrtc-builtins.so.*") == FF_OK &&
        glob(pattern.bytes, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            if (dlopen(found.gl_pathv[i], RTLD_LAZY | RTLD_LOCAL))
                opened++;
            else
                snprintf(why, size, "%s", dlerror());
        }
        globfree(&found);
    }
    ff_buffer_free(&pattern);
    return opened;
}

/* NVRTC opens its builtins by a name without a folder (libnvrtc-builtins.so.13.0), which the
 * dynamic linker does not find if only NVRTC's full path is known. NVRTC uses builtins that are
 * already open: they are next to NVRTC, or next to the target of its link. */
static ff_status open_builtins(void *nvrtc, ff_buffer *notes, ff_error *error) {
    const char *path = path_of(nvrtc);
    char *target = realpath(path, NULL), why[512] = "", name[64] = "libnvrtc-builtins.so";
    const char *const beside[] = {path, target};
    int opened = 0, major = 0, minor = 0;
    int (*version)(int *, int *);
    for (int i = 0; i < 2 && !opened; i++) {
        const char *slash = beside[i] ? strrchr(beside[i], '/') : NULL;
        if (slash)
            opened = open_builtins_in(beside[i], (size_t)(slash - beside[i]), why, sizeof why);
    }
    free(target);
    *(void **)&version = dlsym(nvrtc, "nvrtcVersion");
    if (!opened && version && version(&major, &minor) == 0) {
        snprintf(name, sizeof name, "libnvrtc-builtins.so.%d.%d", major, minor);
        opened = dlopen(name, RTLD_LAZY | RTLD_LOCAL) != NULL;
        if (!opened && !*why) snprintf(why, sizeof why, "%s", dlerror());
    }
    if (opened) return FF_OK;
    return ff_buffer_printf(notes, error,
                            "%s has no %s next to it, so cuDNN cannot compile engines%s%s\n", path,
                            name, *why ? ": " : "", why);
}

/* Opens a library as open_one does; the error names the places searched, or why it did not open.
 * install: what has the library. */
static ff_status open_named(void **handle, const places *where, size_t *place, const char *name,
                            const char *file, const char *install, ff_error *error) {
    char why[512], searched[1536];
    *handle = open_one(where, place, file, why, sizeof why);
    if (*handle) return FF_OK;
    if (*why)
        return ff_fail(error, FF_FAILED, "%s cannot be opened: %s; install %s again", name, why,
                       install);
    places_print(where, searched, sizeof searched);
    return ff_fail(error, FF_FAILED,
                   "%s (%s) was not found; install %s, or name its folder in FFPACK_CUDA_PATH "
                   "(searched: %s)",
                   name, file, install, searched);
}

/* A row's library. A file of the other CUDA, as PyTorch's wheels may have, is named. */
static ff_status open_row(void **handle, const places *where, size_t *place, const char *name,
                          const char *file, const char *other, const char *wheel, int major,
                          ff_error *error) {
    char install[256], why[512];
    size_t there = *place;
    void *found;
    snprintf(install, sizeof install, "%s%d or the wheel %s",
             strcmp(name, "cuDNN") == 0 ? "cudnn9-cuda-" : "cuda-toolkit-", major, wheel);
    const ff_status status = open_named(handle, where, place, name, file, install, error);
    if (status == FF_OK || strcmp(file, other) == 0) return status;
    found = open_one(where, &there, other, why, sizeof why);
    if (!found) return status;
    return ff_fail_within(error, status,
                          "%s is of another CUDA than this build, which is of CUDA %d",
                          path_of(found), major);
}

ff_status ff_cuda_libraries_open(const char *program, int cuda, ff_buffer *notes, ff_error *error) {
    static const struct {
        const char *name, *file[2], *wheel[2]; /* of CUDA 12, 13 */
    } rows[] = {
#define ROW(name, file12, wheel12, file13, wheel13) {name, {file12, file13}, {wheel12, wheel13}},
        FF_CUDA_LIBRARIES(ROW)
#undef ROW
    };
    const int new = cuda >= 13000;
    places where = {0};
    size_t place = 0;
    void *handle;
    ff_status status = places_find(&where, program, error);
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == FF_OK; i++) {
        const char *name = rows[i].name;
        status = open_row(&handle, &where, &place, name, rows[i].file[new], rows[i].file[!new],
                          rows[i].wheel[new], cuda / 1000, error);
        if (status == FF_OK && strcmp(name, "cuDNN") == 0)
            status = check_cudnn(handle, cuda, error);
        if (status == FF_OK && strcmp(name, "NVRTC") == 0)
            status = open_builtins(handle, notes, error);
    }
    places_free(&where);
    return status;
}

ff_status ff_cuda_library_open(void **handle, const char *name, const char *file,
                               const char *install, ff_error *error) {
    places where = {0};
    size_t place = 0;
    char *program = NULL;
    ff_status status;
    *handle = NULL;
    FF_TRY_DONE(ff_path_of_program(&program, error));
    FF_TRY_DONE(places_find(&where, program, error));
    FF_TRY_DONE(open_named(handle, &where, &place, name, file, install, error));
done:
    places_free(&where);
    free(program);
    return status;
}
