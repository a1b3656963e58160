#include "format/base/path.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ff_status ff_path_join(char **path, const char *directory, const char *name, ff_error *error) {
    size_t length = strlen(directory);
    bool slash = length && directory[length - 1] == '/';
    return ff_format(path, error, "%s%s%s", directory, slash ? "" : "/", name);
}

static ff_status folder_of(char **folder, const char *file, ff_error *error) {
    *folder = realpath(file, NULL);
    char *slash = *folder ? strrchr(*folder, '/') : NULL;
    if (!slash) return ff_fail(error, FF_FAILED, "%s does not name this program's folder", file);
    slash[slash == *folder] = 0; /* keep the '/' of the root */
    return FF_OK;
}

ff_status ff_path_of_program(char **folder, ff_error *error) {
    return folder_of(folder, "/proc/self/exe", error);
}

ff_status ff_path_of_code(char **folder, ff_error *error) {
    Dl_info found;
    const struct link_map *map = NULL;
    const bool named = dladdr1((void *)(uintptr_t)ff_path_of_code, &found, (void **)(uintptr_t)&map,
                               RTLD_DL_LINKMAP) &&
                       map && *map->l_name; /* the program itself has an empty name */
    return named ? folder_of(folder, map->l_name, error) : ff_path_of_program(folder, error);
}

ff_status ff_path_of_module(char **path, const char *folder, const char *file, ff_error *error) {
    static const char *const below[] = {"", "../lib/", "../"};
    char *own = NULL;
    *path = NULL;
    if (!folder) FF_TRY(ff_path_of_program(&own, error));
    if (!folder) folder = own;
    ff_status status = FF_OK;
    for (int i = 0; i < 3; i++) {
        FF_TRY_DONE(ff_format(path, error, "%s/%s%s", folder, below[i], file));
        if (access(*path, R_OK) == 0) goto done;
        free(*path);
        *path = NULL;
    }
    status = ff_fail(error, FF_FAILED,
                     "the module %s is neither in %s nor in its ../lib or ..; copy it from where "
                     "this was built or installed, or use make install or make bundle",
                     file, folder);
done:
    free(own);
    return status;
}

size_t ff_path_length(const char *path) {
    const char *scheme = strstr(path, "://");
    const size_t least = scheme ? (size_t)(scheme - path) + 3 : 1;
    size_t length = strlen(path);
    while (length > least && path[length - 1] == '/') length--;
    return length;
}

const char *ff_path_base(const char *path) {
    const char *base = path;
    for (const char *at = path; *at; at++)
        if (*at == '/' && at[1] && at[1] != '/') base = at + 1;
    return base;
}

ff_status ff_path_existing(char **existing, const char *folder, ff_error *error) {
    FF_TRY(ff_copy_bytes(existing, folder, ff_path_length(folder), error));
    char *path = *existing;
    while (*path && !ff_path_exists("%s", path)) {
        path[ff_path_base(path) - path] = 0;
        path[ff_path_length(path)] = 0;
    }
    if (*path) return FF_OK;
    free(path);
    return ff_copy_string(existing, ".", error);
}

ff_status ff_path_lies_in(bool *within, const char *inner, const char *outer, ff_error *error) {
    char *existing;
    FF_TRY(ff_path_existing(&existing, inner, error));
    char *inside = realpath(existing, NULL), *around = realpath(outer, NULL);
    free(existing);
    size_t length = around ? strlen(around) : 0;
    while (length && around[length - 1] == '/') length--; /* the root */
    *within = inside && around && !strncmp(inside, around, length) &&
              (!inside[length] || inside[length] == '/');
    free(inside);
    free(around);
    return FF_OK;
}

const char *ff_path_ending(const char *path) {
    const char *base = ff_path_base(path), *dot = strrchr(base, '.');
    return dot && dot > base ? dot : "";
}

bool ff_path_exists(const char *format, ...) {
    char path[PATH_MAX]; /* the kernel accepts no longer path */
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(path, sizeof path, format, arguments);
    va_end(arguments);
    if (length < (int)sizeof path) return access(path, F_OK) == 0;
    errno = ENAMETOOLONG;
    return false;
}

bool ff_path_stem(char *stem, size_t size, const char *name, const char *suffix) {
    size_t length = strlen(name), end = strlen(suffix);
    if (length <= end || length - end >= size || strcmp(name + length - end, suffix)) return false;
    memcpy(stem, name, length - end);
    stem[length - end] = 0;
    return true;
}
