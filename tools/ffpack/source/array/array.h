/* Arrays of N samples in a part of a source, from NPY, NPZ, IDX and pickles.
 *
 * Thread rule: one thread at a time. */
#ifndef FF_FFPACK_SOURCE_ARRAY_H
#define FF_FFPACK_SOURCE_ARRAY_H

#include "tools/ffpack/source/source.h"

enum { FF_ARRAY_DIMENSIONS = 8 };

/* Its elements are contiguous from `offset` of part `part`: the last index runs fastest, or the
 * first one if `fortran`. */
typedef struct ff_array {
    ff_element_type element;
    bool big_endian, fortran;
    unsigned dimensions;
    uint64_t size[FF_ARRAY_DIMENSIONS];
    uint32_t part;
    uint64_t offset;
} ff_array;

/* The bytes of its elements; false if they exceed 2^60. */
bool ff_array_bytes(const ff_array *array, uint64_t *bytes);
/* The same of one sample: all indices but the first. Only after ff_array_bytes was true. */
uint64_t ff_array_sample_bytes(const ff_array *array);

/* "60000 x 28 x 28 u8", for messages. Returns `text`. */
const char *ff_array_shape(const ff_array *array, char *text, size_t size);

/* If `fortran`: rewrites it to temporary space, last index fastest, as a part of the source named
 * `path`. Else does nothing. */
FF_MUST_USE ff_status ff_array_straighten(ff_array *array, ff_source *source, const char *path,
                                          ff_error *error);

/* Its samples read one after another. Zero-initialised except for the first three; not fortran. */
typedef struct ff_array_rows {
    const ff_source *source;
    const ff_array *array;
    const char *path; /* for messages */
    unsigned char *window;
    uint64_t first, count; /* what is in the window */
} ff_array_rows;
/* *row = the bytes of sample `index` < size[0], valid until the next call. */
FF_MUST_USE ff_status ff_array_row(ff_array_rows *rows, uint64_t index, const unsigned char **row,
                                   ff_error *error);
void ff_array_rows_free(ff_array_rows *rows);

#endif
