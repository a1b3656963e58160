/* --npy: the samples as stored, in the order of their numbers, as one NumPy array (NEP 1, format
 * 1.0): (n, C, H, W) or (n, H, W, C) of u1, u2, f2, f4; bf16 as u2. */
#ifndef FF_FFINSPECT_NPY_H
#define FF_FFINSPECT_NPY_H

#include "format/reader.h"

/* Appends the header of an array of `count` samples of the dataset's shape. */
FF_MUST_USE ff_status ff_inspect_npy_header(ff_buffer *header, const ff_metadata *metadata,
                                            uint64_t count, ff_error *error);

/* Writes samples [begin, end) to the file `path`, whole or not at all; "-" = standard output.
 * FF_USAGE where the samples have different sizes. */
FF_MUST_USE ff_status ff_inspect_write_npy(ff_dataset *dataset, const char *path, uint64_t begin,
                                           uint64_t end, ff_error *error);

#endif
