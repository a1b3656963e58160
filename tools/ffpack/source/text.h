/* Files as ffpack reads them: regular files only, exact ranges, temporary space without a name.
 * Thread rule: everything here may be called by any number of threads. */
#ifndef FF_FFPACK_DISK_H
#define FF_FFPACK_DISK_H

#include "format/base/memory.h"

/* Opens a regular file for reading; *bytes (may be NULL) = its size. Directories, devices and pipes
 * are refused (FF_BAD_DATA), so that nothing blocks on them. The caller closes *fd. */
FF_MUST_USE ff_status ff_disk_open(const char *path, int *fd, uint64_t *bytes, ff_error *error);

/* Reads exactly `size` bytes at `offset`. FF_BAD_DATA where the file ends before. */
FF_MUST_USE ff_status ff_disk_read_at(int fd, const char *path, void *to, size_t size,
                                      uint64_t offset, ff_error *error);

/* Reads `count` pieces of `size` bytes, the first at `offset`, each other one `stride` bytes behind
 * the one before, one behind the other to `to`: for small pieces of large files. `offset + stride *
 * count` does not exceed the file's size. FF_IO where the file shrinks meanwhile. */
FF_MUST_USE ff_status ff_disk_gather(int fd, const char *path, void *to, size_t size,
                                     uint64_t offset, uint64_t stride, uint64_t count,
                                     ff_error *error);

/* Reads at least `size` and up to `limit` bytes; *got says how many. */
FF_MUST_USE ff_status ff_disk_read_some(int fd, const char *path, void *to, size_t size,
                                        size_t limit, uint64_t offset, size_t *got,
                                        ff_error *error);

/* Writes all of `size` bytes at `offset` of temporary space in `directory`. */
FF_MUST_USE ff_status ff_disk_write_at(int fd, const char *directory, const void *from, size_t size,
                                       uint64_t offset, ff_error *error);

/* *fd = an empty file without a name in `directory`: it is gone when closed, however the process
 * ends. The caller closes it. */
FF_MUST_USE ff_status ff_disk_temporary(const char *directory, int *fd, ff_error *error);

/* Closes *fd where it is not negative, and makes it -1. */
void ff_disk_close(int *fd);

/* Reads a text file of at most 64 MiB whole. *text is allocated, ends with a zero byte, and holds
 * no other one (FF_BAD_DATA). */
FF_MUST_USE ff_status ff_disk_text(const char *path, char **text, ff_error *error);

/* The next line of a text, cut out in place: without its end ("\n" or "\r\n"); NULL after the last.
 * *cursor starts as the text. */
char *ff_text_line(char **cursor);

/* "directory/name", allocated. */
FF_MUST_USE ff_status ff_path_join(char **path, const char *directory, const char *name,
                                   ff_error *error);

/* The part of a path behind its last '/' (trailing ones ignored where it has others). */
const char *ff_path_base(const char *path);

#endif
