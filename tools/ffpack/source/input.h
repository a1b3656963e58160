/* A file read as a stream of bytes, decompressed if its content is gzip. Thread rule: one thread at
 * a time. */
#ifndef FF_FFPACK_INPUT_H
#define FF_FFPACK_INPUT_H

#include "format/base/memory.h"

#define FF_INPUT_RATIO      UINT64_C(400)
#define FF_INPUT_FREE_BYTES (UINT64_C(1) << 30)

typedef struct ff_input ff_input;

/* Opens a regular file. */
FF_MUST_USE ff_status ff_input_open(ff_input **input, const char *path, ff_error *error);

/* Reads up to `size` bytes; *got is less only at the end. FF_BAD_DATA naming path and place if the
 * compressed bytes are broken, truncated, or followed by something else, or are a compression bomb:
 * more than FF_INPUT_RATIO unpacked bytes for each packed one, after the first
 * FF_INPUT_FREE_BYTES. */
FF_MUST_USE ff_status ff_input_read(ff_input *input, void *to, size_t size, size_t *got,
                                    ff_error *error);

/* *fd = the regular file `path` or, if it is gzip, its content unpacked into temporary space in the
 * folder `temporary`; *bytes = its size, *unpacked (may be NULL) = whether it was unpacked. The
 * caller closes *fd. */
FF_MUST_USE ff_status ff_input_unpack(const char *path, const char *temporary, int *fd,
                                      uint64_t *bytes, bool *unpacked, ff_error *error);

void ff_input_close(ff_input **input);

#endif
