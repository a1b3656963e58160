/* Paths, of any length. Thread rule: pure. */
#ifndef FF_BASE_PATH_H
#define FF_BASE_PATH_H

#include "format/base/memory.h"

/* "directory/name", allocated. */
FF_MUST_USE ff_status ff_path_join(char **path, const char *directory, const char *name,
                                   ff_error *error);

/* The folder of the running program, allocated; links are followed. */
FF_MUST_USE ff_status ff_path_of_program(char **folder, ff_error *error);

/* The folder of the program or of the shared library that this code is linked into. */
FF_MUST_USE ff_status ff_path_of_code(char **folder, ff_error *error);

/* Where a module of the programs is, allocated: in `folder` (NULL = the program's), its ../lib or
 * its parent. FF_FAILED where it is in none. */
FF_MUST_USE ff_status ff_path_of_module(char **path, const char *folder, const char *file,
                                        ff_error *error);

/* Bytes of a path without trailing '/'s: the root keeps its own. */
size_t ff_path_length(const char *path);

/* The part of a path after its last '/' (trailing ones ignored where it has others). */
const char *ff_path_base(const char *path);

/* The last folder on the way to `folder` that exists, allocated: itself, a parent, or ".". */
FF_MUST_USE ff_status ff_path_existing(char **existing, const char *folder, ff_error *error);

/* *within = whether the folder `inner`, which may not be there yet, is `outer` or would lie in it;
 * links are followed. False where `outer` is not there. */
FF_MUST_USE ff_status ff_path_lies_in(bool *within, const char *inner, const char *outer,
                                      ff_error *error);

/* The extension of a path's base name, with its dot (".png"); "" for a name without a dot. */
const char *ff_path_ending(const char *path);

/* Whether the formatted path exists; links are followed. errno is set as by access(2). */
bool ff_path_exists(const char *format, ...) FF_PRINTF(1, 2);

/* Whether `name` ends with `suffix`; the part before goes to `stem` (`size` bytes, with the final
 * zero). False also where it does not fit. */
bool ff_path_stem(char *stem, size_t size, const char *name, const char *suffix);

#endif
