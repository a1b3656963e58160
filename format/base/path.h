/* Paths, of any length. Thread rule: pure. */
#ifndef FF_BASE_PATH_H
#define FF_BASE_PATH_H

#include "format/base/memory.h"

/* "directory/name", allocated. */
FF_MUST_USE ff_status ff_path_join(char **path, const char *directory, const char *name,
                                   ff_error *error);

/* The folder of the running program, allocated; symlinks are followed. */
FF_MUST_USE ff_status ff_path_of_program(char **folder, ff_error *error);

/* The folder of the program or of the shared library that this code is linked into. */
FF_MUST_USE ff_status ff_path_of_code(char **folder, ff_error *error);

/* The path of a module of the programs, allocated: in `folder` (NULL = the program's), its ../lib
 * or its parent. FF_FAILED if the module is in none of them. */
FF_MUST_USE ff_status ff_path_of_module(char **path, const char *folder, const char *file,
                                        ff_error *error);

/* Length of a path or URL without trailing '/'s; the root keeps its '/', "s3://" both. */
size_t ff_path_length(const char *path);

/* The part of a path after its last '/'; trailing '/'s are ignored unless the path has no
 * others. */
const char *ff_path_base(const char *path);

/* The deepest existing folder on the way to `folder`, allocated: `folder` itself, a parent, or
 * ".". */
FF_MUST_USE ff_status ff_path_existing(char **existing, const char *folder, ff_error *error);

/* *within = whether the folder `inner`, which may not exist yet, is `outer` or lies in it; symlinks
 * are followed. False if `outer` does not exist. */
FF_MUST_USE ff_status ff_path_lies_in(bool *within, const char *inner, const char *outer,
                                      ff_error *error);

/* The extension of a path's base name, with its dot (".png"); "" for a name without a dot. */
const char *ff_path_ending(const char *path);

/* Whether the formatted path exists; links are followed. errno is set as by access(2). */
bool ff_path_exists(const char *format, ...) FF_PRINTF(1, 2);

/* Whether `name` ends with `suffix`; `stem` (`size` bytes, including the final zero) receives the
 * part before. False also if that part does not fit. */
bool ff_path_stem(char *stem, size_t size, const char *name, const char *suffix);

#endif
