/* Writes files atomically: under a temporary name, then renamed. The programs write every file
 * through these functions.
 *
 * After a failed write or fsync the file can only be discarded: an fsync is never retried. Thread
 * rule: one thread at a time uses an ff_file. */
#ifndef FF_BASE_FILE_H
#define FF_BASE_FILE_H

#include "format/base/memory.h"

#define FF_TMP_SUFFIX ".tmp"

typedef struct ff_file ff_file;

/* Creates DIRECTORY/NAME.tmp (replacing an old one); the commit syncs it and renames it to NAME.
 * For the files of a dataset. */
FF_MUST_USE ff_status ff_file_create(ff_file **file, const char *directory, const char *name,
                                     ff_error *error);
/* Opens a replacement of the file `path`; several processes may replace that file at the same time.
 * The replacement is not synced: use it for files that can be made again. If the path exists and is
 * not a regular file (a pipe, /dev/null), it is written to directly; "-" is standard output. */
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
/* Appends the first `length` bytes of another file, with copy_file_range if the system supports
 * it. */
FF_MUST_USE ff_status ff_file_copy(ff_file *file, int from, const char *path, uint64_t length,
                                   ff_error *error);
/* Bytes appended so far. */
uint64_t ff_file_offset(const ff_file *file);
/* Writes at any offset, also past the end; appending continues at ff_file_offset. */
FF_MUST_USE ff_status ff_file_rewrite(ff_file *file, uint64_t offset, const void *bytes,
                                      size_t length, ff_error *error);
/* *there = whether NAME already exists with the same bytes. */
FF_MUST_USE ff_status ff_file_is_there(ff_file *file, bool *there, ff_error *error);
/* Syncs the file, renames it and syncs the folder; a replacement is only renamed. Frees the file in
 * any case; a failure removes the temporary file. */
FF_MUST_USE ff_status ff_file_commit(ff_file **file, ff_error *error);
/* Syncs the file under its name NAME.tmp, to be finished later. Frees the file in any case; a
 * failure removes the temporary file. */
FF_MUST_USE ff_status ff_file_keep(ff_file **file, ff_error *error);
/* Removes the temporary file and frees `file`. NULL is accepted. */
void ff_file_discard(ff_file **file);

/* Commits DIRECTORY/NAME with these bytes. */
FF_MUST_USE ff_status ff_file_save(const char *directory, const char *name,
                                   const ff_buffer *content, ff_error *error);

/* Opens /dev/null at those of the descriptors 0, 1 and 2 that are closed: a file that got one of
 * these numbers would receive what the program prints. Reading and writing these still fails. A
 * main calls this before it opens a file. */
void ff_hold_standard_files(void);

/* Locks the open folder `path`. The lock is the kernel's: it ends with the process and leaves no
 * file. FF_USAGE if another process holds it. *unlocked: the file system has no locks (Lustre
 * without -o flock), so a second writer is not prevented. */
FF_MUST_USE ff_status ff_lock_folder(int folder, const char *path, bool *unlocked, ff_error *error);

/* Makes a folder and its parents; an existing folder is FF_OK. */
FF_MUST_USE ff_status ff_make_folders(const char *folder, ff_error *error);

/* Syncs a folder, which makes a rename in it durable. */
FF_MUST_USE ff_status ff_sync_directory(const char *path, ff_error *error);

/* Writes all of `size` bytes at `offset` of an open file; `path` is for the error message. */
FF_MUST_USE ff_status ff_write_at(int fd, const char *path, const void *from, size_t size,
                                  uint64_t offset, ff_error *error);

/* Temporary space: *fd = an empty file without a name in `directory`. Its space is freed when it is
 * closed, however the process ends. The caller closes it (format/base/read.h). */
FF_MUST_USE ff_status ff_open_temporary(const char *directory, int *fd, ff_error *error);
FF_MUST_USE ff_status ff_write_temporary(int fd, const char *directory, const void *from,
                                         size_t size, uint64_t offset, ff_error *error);

#endif
