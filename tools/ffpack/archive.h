/* Tar archives, plain or compressed (gzip, bzip2, xz, zstd), read from front to back through
 * libarchive, in memory: no member's name is ever written to disk.
 * Thread rule: one thread at a time. */
#ifndef FF_FFPACK_ARCHIVE_H
#define FF_FFPACK_ARCHIVE_H

#include "format/base/memory.h"

typedef struct ff_archive ff_archive;

/* FF_BAD_DATA where `path` is no such archive, and ff_fail_within-able sentences from libarchive
 * for anything broken later. */
FF_MUST_USE ff_status ff_archive_open(ff_archive **archive, const char *path, ff_error *error);

/* The next regular file: *name (valid until the next call) and *bytes; *name = NULL at the end. */
FF_MUST_USE ff_status ff_archive_next(ff_archive *archive, const char **name, uint64_t *bytes,
                                      ff_error *error);

/* Up to `size` bytes of the current member; *got is less only at its end. */
FF_MUST_USE ff_status ff_archive_read(ff_archive *archive, void *to, size_t size, size_t *got,
                                      ff_error *error);

void ff_archive_close(ff_archive **archive);

#endif
