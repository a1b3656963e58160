/* A file read as a stream of bytes, undone from gzip where its content is gzip.
 * Thread rule: one thread at a time. */
#ifndef FF_FFPACK_INPUT_H
#define FF_FFPACK_INPUT_H

#include "format/base/memory.h"

typedef struct ff_input ff_input;

/* Opens a regular file. */
FF_MUST_USE ff_status ff_input_open(ff_input **input, const char *path, ff_error *error);

/* Reads up to `size` bytes; *got is less only at the end. FF_BAD_DATA naming path and place where
 * the compressed bytes are broken, cut off, or followed by something else. */
FF_MUST_USE ff_status ff_input_read(ff_input *input, void *to, size_t size, size_t *got,
                                    ff_error *error);

/* Whether the file is compressed, so that its size says nothing. */
bool ff_input_compressed(const ff_input *input);

void ff_input_close(ff_input **input);

#endif
