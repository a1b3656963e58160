/* A source that may lie elsewhere: an object behind a URL (format/storage/storage.h), the objects
 * of a bucket below a prefix, and the standard input, "-".
 *
 * One object, and the input, is copied into temporary space when it is first opened, and is then
 * read there like any other, as often and in any order as listing and packing need. So what is
 * packed equals what is packed from a file, each byte is fetched once, and memory stays bounded.
 * The temporary space has the size of all copies until the source is closed.
 *
 * An object arrives in ranges over several connections. A body that is cut short continues where it
 * ended, and an object that is replaced meanwhile is an error, as storage.h describes. Of the
 * standard input nobody knows the size: what ends too early is found when the archive is read.
 *
 * Objects below a prefix are a folder. They are listed, and each is fetched when it is read.
 *
 * Thread rule: a process reads one source at a time, between ff_elsewhere_begin and
 * ff_elsewhere_end; meanwhile any thread may open files. */
#ifndef FF_FFPACK_SOURCE_ELSEWHERE_H
#define FF_FFPACK_SOURCE_ELSEWHERE_H

#include "format/storage/storage.h"
#include "tools/ffpack/source/names.h"

/* Whether `source` is a URL or "-". */
bool ff_is_elsewhere(const char *source);
/* *name (allocated) = what any source is called in messages and summaries: without a URL's query,
 * or "standard input". */
FF_MUST_USE ff_status ff_source_shown(char **name, const char *source, ff_error *error);

/* A bucket's URL is a folder if it ends with a slash or names no object. *name (allocated) = what
 * `source` is called in messages and in the functions below: without a URL's query, which is sent
 * with each request, or "standard input". `temporary`: the folder for the copies. */
FF_MUST_USE ff_status ff_elsewhere_begin(char **name, const char *source, const char *temporary,
                                         ff_error *error);
void ff_elsewhere_end(void);
/* The storage of the objects, if the source is a folder of objects; else NULL. */
ff_storage *ff_elsewhere_folder(void);

/* As ff_open_file (format/base/read.h); the descriptors of a copy share their position, so they are
 * read at offsets. FF_USAGE if the standard input is a terminal. */
FF_MUST_USE ff_status ff_source_open_file(const char *path, int *fd, uint64_t *bytes,
                                          ff_error *error);
/* *folder = whether `path` is a folder; FF_IO if there is nothing. Of a bucket's folders only those
 * are known that ff_source_read_folder has found. */
FF_MUST_USE ff_status ff_source_is_folder(const char *path, bool *folder, ff_error *error);
/* All names in a folder except . and .., sorted. */
FF_MUST_USE ff_status ff_source_read_folder(ff_names *names, const char *path, ff_error *error);

#endif
