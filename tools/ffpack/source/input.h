/* A file read as a stream of bytes, decompressed if its content is gzip or zstd. Thread rule: one
 * thread at a time. */
#ifndef FF_FFPACK_INPUT_H
#define FF_FFPACK_INPUT_H

#include "format/base/memory.h"

#define FF_INPUT_RATIO      UINT64_C(400)
#define FF_INPUT_FREE_BYTES (UINT64_C(1) << 30)

typedef struct ff_input ff_input;

/* Opens a regular file; only gzip is decompressed. */
FF_MUST_USE ff_status ff_input_open(ff_input **input, const char *path, ff_error *error);
/* The same, and zstd is decompressed too. */
FF_MUST_USE ff_status ff_input_open_zstd(ff_input **input, const char *path, ff_error *error);
/* Whether the file is decompressed. */
bool ff_input_is_packed(const ff_input *input);

/* Reads up to `size` bytes; *got is less only at the end. FF_BAD_DATA naming path and place if the
 * compressed bytes are broken, truncated, or followed by something else, or are a compression bomb:
 * more than FF_INPUT_RATIO unpacked bytes for each packed one, after the first
 * FF_INPUT_FREE_BYTES. */
FF_MUST_USE ff_status ff_input_read(ff_input *input, void *to, size_t size, size_t *got,
                                    ff_error *error);

/* Reads exactly `size` bytes. FF_BAD_DATA naming path, place and `what` ("the header of record 3")
 * if the file ends before. */
FF_MUST_USE ff_status ff_input_exactly(ff_input *input, void *to, size_t size, const char *what,
                                       ff_error *error);
/* The offset of the next byte, in the unpacked bytes. */
uint64_t ff_input_at(const ff_input *input);
/* Skips to an offset that is not below ff_input_at; what a file that is not packed has between is
 * not read. FF_BAD_DATA as ff_input_exactly. */
FF_MUST_USE ff_status ff_input_skip_to(ff_input *input, uint64_t offset, const char *what,
                                       ff_error *error);

/* *fd = the regular file `path` or, if it is gzip, its content unpacked into temporary space in the
 * folder `temporary`; *bytes = its size, *unpacked (may be NULL) = whether it was unpacked. The
 * caller closes *fd. */
FF_MUST_USE ff_status ff_input_unpack(const char *path, const char *temporary, int *fd,
                                      uint64_t *bytes, bool *unpacked, ff_error *error);

void ff_input_close(ff_input **input);

#endif
