/* Files that are written once, in order, and committed atomically: everything that the format
 * writes goes through here. `NAME.tmp` is written, synced, renamed to NAME, and its folder synced.
 * After a failed write or fsync the file can only be discarded: an fsync is never tried again.
 * Thread rule: a file belongs to one thread at a time. */
#ifndef FF_FORMAT_FILE_H
#define FF_FORMAT_FILE_H

#include "format/base/memory.h"

#include <stdio.h>

typedef struct ff_file ff_file;

/* Creates DIRECTORY/NAME.tmp (an old one is replaced). */
FF_MUST_USE ff_status ff_file_create(ff_file **file, const char *directory, const char *name,
                                     ff_error *error);
/* Appends. Small writes are gathered; large ones go straight through. */
FF_MUST_USE ff_status ff_file_write(ff_file *file, const void *bytes, size_t length,
                                    ff_error *error);
/* Appends zeros up to a multiple of `alignment`. */
FF_MUST_USE ff_status ff_file_pad(ff_file *file, uint64_t alignment, ff_error *error);
/* Appends `length` bytes that ff_file_rewrite is to fill; zero until then. */
FF_MUST_USE ff_status ff_file_skip(ff_file *file, uint64_t length, ff_error *error);
/* Reads bytes that were appended or rewritten before. */
FF_MUST_USE ff_status ff_file_read_back(ff_file *file, uint64_t offset, void *bytes, size_t length,
                                        ff_error *error);
/* Appends `length` bytes of another file, from its first on, without taking them through memory
 * where the system can. */
FF_MUST_USE ff_status ff_file_copy(ff_file *file, int from, const char *path, uint64_t length,
                                   ff_error *error);
/* Bytes appended so far. */
uint64_t ff_file_offset(const ff_file *file);
/* Overwrites bytes that were appended before. */
FF_MUST_USE ff_status ff_file_rewrite(ff_file *file, uint64_t offset, const void *bytes,
                                      size_t length, ff_error *error);
/* fsync, rename, fsync of the folder; frees on success and on failure (then the .tmp is removed).
 */
FF_MUST_USE ff_status ff_file_commit(ff_file **file, ff_error *error);
/* fsync only: NAME.tmp stays under this name, for whoever finishes it. Frees as above. */
FF_MUST_USE ff_status ff_file_keep(ff_file **file, ff_error *error);
/* Removes the .tmp and frees. NULL is accepted. */
void ff_file_discard(ff_file **file);

/* fsync of a folder: what makes a rename in it last. */
FF_MUST_USE ff_status ff_sync_directory(const char *path, ff_error *error);

/* Reads exactly `length` bytes at `offset`; FF_BAD_DATA where the file ends before. */
FF_MUST_USE ff_status ff_read_exactly(int descriptor, const char *path, uint64_t offset,
                                      void *bytes, size_t length, ff_error *error);

#endif
