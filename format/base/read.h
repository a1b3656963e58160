/* Reads regular files: exact ranges. Thread rule: any number of threads may read one descriptor. */
#ifndef FF_BASE_READ_H
#define FF_BASE_READ_H

#include "format/base/memory.h"

/* Opens a regular file for reading; *bytes (may be NULL) = its size. Folders, devices and pipes are
 * refused (FF_BAD_DATA), so that nothing blocks on them. The caller closes *fd. */
FF_MUST_USE ff_status ff_open_file(const char *path, int *fd, uint64_t *bytes, ff_error *error);

/* Closes *fd unless it is negative, and sets it to -1. */
void ff_close_file(int *fd);

/* How many descriptors a part of the program may have open: a share (1 / part) of those that the
 * process may have (RLIMIT_NOFILE), from `least` to `most`. */
uint32_t ff_descriptor_share(uint32_t part, uint32_t least, uint32_t most);

/* Reads exactly `size` bytes at `offset`. FF_BAD_DATA if the file ends before. `path` is for error
 * messages, here and below. */
FF_MUST_USE ff_status ff_read_at(int fd, const char *path, void *to, size_t size, uint64_t offset,
                                 ff_error *error);

/* Reads at least `size` and at most `limit` bytes; *got = the number read. */
FF_MUST_USE ff_status ff_read_some(int fd, const char *path, void *to, size_t size, size_t limit,
                                   uint64_t offset, size_t *got, ff_error *error);

/* Gathers `count` pieces of `size` bytes into `to`: piece i is at `offset + stride * i`. For small
 * pieces of large files. `offset + stride * count` must not exceed the file's size. FF_IO if the
 * file shrinks meanwhile. */
FF_MUST_USE ff_status ff_read_pieces(int fd, const char *path, void *to, size_t size,
                                     uint64_t offset, uint64_t stride, uint64_t count,
                                     ff_error *error);

/* Reads a whole file into the empty buffer `all`, with a zero byte after it. FF_BAD_DATA if the
 * file has more than `limit` bytes. */
FF_MUST_USE ff_status ff_read_whole(ff_buffer *all, const char *path, uint64_t limit,
                                    ff_error *error);

#endif
