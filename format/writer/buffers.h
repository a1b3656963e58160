/* Small pieces of files in few large reads and writes, for the index: rows of a shard's section,
 * pieces of the index as it was written, and pieces written at any offset. Thread rule: one thread
 * at a time uses one of them. */
#ifndef FF_FORMAT_BUFFERS_H
#define FF_FORMAT_BUFFERS_H

#include "format/base/file.h"
#include "format/disk/shard.h"

enum { FF_BUFFERS_BYTES = 1 << 16 };

/* Zero-initialised, except for the first two. `bytes_each` is at most FF_BUFFERS_BYTES. */
typedef struct ff_shard_rows {
    const ff_shard *shard; /* its section has a row a sample */
    int section;
    size_t bytes_each;
    uint64_t first, count; /* rows in `bytes` */
    uint8_t bytes[FF_BUFFERS_BYTES];
} ff_shard_rows;

/* Begins to read the rows of `section` of another shard. */
void ff_shard_rows_begin(ff_shard_rows *rows, const ff_shard *shard, int section,
                         size_t bytes_each);
/* The row of a slot, valid until the next call. */
FF_MUST_USE ff_status ff_shard_rows_get(ff_shard_rows *rows, uint64_t slot, const uint8_t **row,
                                        ff_error *error);

/* Writes at any offset of a file, adjacent pieces at once. Zero-initialised except for `file`. */
typedef struct ff_scatter {
    ff_file *file;
    uint64_t offset; /* of the first buffered byte */
    size_t used;
    uint8_t bytes[FF_BUFFERS_BYTES];
} ff_scatter;

FF_MUST_USE ff_status ff_scatter_put(ff_scatter *scatter, uint64_t offset, const void *bytes,
                                     size_t length, ff_error *error);
FF_MUST_USE ff_status ff_scatter_flush(ff_scatter *scatter, ff_error *error);

/* Reads a file that is being written; adjacent pieces cost one read. Zero-initialised except for
 * `file`. */
typedef struct ff_window {
    ff_file *file;
    uint64_t offset, length;
    uint8_t bytes[FF_BUFFERS_BYTES];
} ff_window;

/* *at: valid until the next call. */
FF_MUST_USE ff_status ff_window_get(ff_window *window, uint64_t offset, size_t length,
                                    const uint8_t **at, ff_error *error);

#endif
