/* Writing files, so that each is there whole or not at all: it is written under a temporary name
 * and renamed. Everything that the programs write goes through here.
 *
 * After a failed write or fsync the file can only be discarded: an fsync is never tried again.
 * Thread rule: an ff_file belongs to one thread at a time. */
#ifndef FF_BASE_FILE_H
#define FF_BASE_FILE_H

#include "format/base/memory.h"

#define FF_TMP_SUFFIX ".tmp"

typedef struct ff_file ff_file;

/* Creates DIRECTORY/NAME.tmp (an old one is replaced), of which a commit makes NAME for good: what
 * the format writes. */
FF_MUST_USE ff_status ff_file_create(ff_file **file, const char *directory, const char *name,
                                     ff_error *error);
/* Opens what takes the place of the file `path`, whoever else does the same now: what a user asks
 * for, and what can be made again. It is not synced. What is there and is no plain file (a pipe,
 * /dev/null) is written to directly, and "-" means standard output. */
FF_MUST_USE ff_status ff_file_replace(ff_file **file, const char *path, ff_error *error);
/* Whether ff_file_rewrite may be used. */
bool ff_file_seekable(const ff_file *file);

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
/* Writes at an offset, also after what was appended, which goes on where it was. */
FF_MUST_USE ff_status ff_file_rewrite(ff_file *file, uint64_t offset, const void *bytes,
                                      size_t length, ff_error *error);
/* Whether NAME is there already, with the very bytes that were written. */
FF_MUST_USE ff_status ff_file_is_there(ff_file *file, bool *there, ff_error *error);
/* fsync, rename, fsync of the folder; of a replacement the rename alone. Frees on success and on
 * failure (then the temporary file is removed). */
FF_MUST_USE ff_status ff_file_commit(ff_file **file, ff_error *error);
/* fsync only: NAME.tmp stays under this name, for whoever finishes it. Frees as above. */
FF_MUST_USE ff_status ff_file_keep(ff_file **file, ff_error *error);
/* Removes the temporary file and frees. NULL is accepted. */
void ff_file_discard(ff_file **file);

/* Commits DIRECTORY/NAME with these bytes. */
FF_MUST_USE ff_status ff_file_save(const char *directory, const char *name,
                                   const ff_buffer *content, ff_error *error);

/* fsync of a folder: what makes a rename in it last. */
FF_MUST_USE ff_status ff_sync_directory(const char *path, ff_error *error);

/* Writes all of `size` bytes at `offset` of an open file; `path` is for the sentence. */
FF_MUST_USE ff_status ff_write_at(int fd, const char *path, const void *from, size_t size,
                                  uint64_t offset, ff_error *error);

/* Temporary space: *fd = an empty file without a name in `directory`, gone when closed, however the
 * process ends. The caller closes it (format/base/read.h). */
FF_MUST_USE ff_status ff_open_temporary(const char *directory, int *fd, ff_error *error);
FF_MUST_USE ff_status ff_write_temporary(int fd, const char *directory, const void *from,
                                         size_t size, uint64_t offset, ff_error *error);

#endif
