/* Writes files atomically: under a temporary name, then renamed. Everything that the programs write
 * goes through here.
 *
 * After a failed write or fsync the file can only be discarded: an fsync is never tried again.
 * Thread rule: an ff_file belongs to one thread at a time. */
#ifndef FF_BASE_FILE_H
#define FF_BASE_FILE_H

#include "format/base/memory.h"

#define FF_TMP_SUFFIX ".tmp"

typedef struct ff_file ff_file;

/* Creates DIRECTORY/NAME.tmp (replacing an old one); the commit syncs it and renames it to NAME.
 * For the files of a dataset. */
FF_MUST_USE ff_status ff_file_create(ff_file **file, const char *directory, const char *name,
                                     ff_error *error);
/* Opens a replacement of the file `path`; several processes may replace it at the same time. It is
 * not synced: for files that can be made again. A path that exists and is not a regular file (a
 * pipe, /dev/null) is written to directly; "-" is standard output. */
FF_MUST_USE ff_status ff_file_replace(ff_file **file, const char *path, ff_error *error);
/* Whether ff_file_rewrite may be used. */
bool ff_file_seekable(const ff_file *file);

/* Appends. Small writes are buffered; large ones are written directly. */
FF_MUST_USE ff_status ff_file_write(ff_file *file, const void *bytes, size_t length,
                                    ff_error *error);
/* Appends zeros up to a multiple of `alignment`. */
FF_MUST_USE ff_status ff_file_pad(ff_file *file, uint64_t alignment, ff_error *error);
/* Appends `length` zero bytes, for ff_file_rewrite to fill. */
FF_MUST_USE ff_status ff_file_skip(ff_file *file, uint64_t length, ff_error *error);
/* Reads bytes that were appended or rewritten before. */
FF_MUST_USE ff_status ff_file_read_back(ff_file *file, uint64_t offset, void *bytes, size_t length,
                                        ff_error *error);
/* Appends the first `length` bytes of another file, with copy_file_range where the system can. */
FF_MUST_USE ff_status ff_file_copy(ff_file *file, int from, const char *path, uint64_t length,
                                   ff_error *error);
/* Bytes appended so far. */
uint64_t ff_file_offset(const ff_file *file);
/* Writes at any offset, also past the end; appending continues where it was. */
FF_MUST_USE ff_status ff_file_rewrite(ff_file *file, uint64_t offset, const void *bytes,
                                      size_t length, ff_error *error);
/* Whether NAME exists already with the same bytes. */
FF_MUST_USE ff_status ff_file_is_there(ff_file *file, bool *there, ff_error *error);
/* fsync, rename, fsync of the folder; for a replacement only the rename. Frees the file in any
 * case; a failure removes the temporary file. */
FF_MUST_USE ff_status ff_file_commit(ff_file **file, ff_error *error);
/* fsync only: NAME.tmp keeps this name, to be finished later. Frees as above. */
FF_MUST_USE ff_status ff_file_keep(ff_file **file, ff_error *error);
/* Removes the temporary file and frees. NULL is accepted. */
void ff_file_discard(ff_file **file);

/* Commits DIRECTORY/NAME with these bytes. */
FF_MUST_USE ff_status ff_file_save(const char *directory, const char *name,
                                   const ff_buffer *content, ff_error *error);

/* Takes the lock of the open folder `path`: the kernel's, which ends with the process and leaves no
 * file. FF_USAGE where another process holds it. *unlocked: the file system has no locks (Lustre
 * without -o flock), so that nothing keeps a second writer out. */
FF_MUST_USE ff_status ff_lock_folder(int folder, const char *path, bool *unlocked, ff_error *error);

/* Makes a folder, and those above it; one that exists is FF_OK. */
FF_MUST_USE ff_status ff_make_folders(const char *folder, ff_error *error);

/* fsync of a folder: makes a rename in it durable. */
FF_MUST_USE ff_status ff_sync_directory(const char *path, ff_error *error);

/* Writes all of `size` bytes at `offset` of an open file; `path` is for the error message. */
FF_MUST_USE ff_status ff_write_at(int fd, const char *path, const void *from, size_t size,
                                  uint64_t offset, ff_error *error);

/* Temporary space: *fd = an empty, unnamed file in `directory`, freed when closed, however the
 * process ends. The caller closes it (format/base/read.h). */
FF_MUST_USE ff_status ff_open_temporary(const char *directory, int *fd, ff_error *error);
FF_MUST_USE ff_status ff_write_temporary(int fd, const char *directory, const void *from,
                                         size_t size, uint64_t offset, ff_error *error);

#endif
