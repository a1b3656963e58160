/* --npy: samples as stored, in the order of their numbers, as NumPy arrays (NEP 1, format 1.0):
 * [n,C,H,W] or [n,H,W,C] of u1, u2, f2, f4; bf16 as u2. Samples of different sizes become one array
 * each, in a folder. Each label field becomes an array next to the samples: [n] for classes, else
 * [n,width]. */
#ifndef FF_FFINSPECT_NPY_H
#define FF_FFINSPECT_NPY_H

#include "format/reader/reader.h"

/* Appends the header of an array. */
FF_MUST_USE ff_status ff_inspect_npy_header(ff_buffer *header, ff_dtype dtype,
                                            const uint64_t *shape, size_t axes, ff_error *error);

/* Writes samples [begin, end) to the file `path`. Samples of different sizes are written to the
 * files 0.npy, 1.npy ... (with the number of digits of the last number) of a new folder `path`.
 * Labels are written to STEM_FIELD.npy, where STEM is `path` without .npy; without a folder only if
 * `path` ends in .npy. Each file, and the folder, is written atomically, the samples last. "-" is
 * standard output. `*sentence` describes what was written; freed by the caller. FF_USAGE if a
 * folder is needed and `path` exists or is "-". */
FF_MUST_USE ff_status ff_inspect_write_npy(ff_dataset *dataset, const char *path, uint64_t begin,
                                           uint64_t end, char **sentence, ff_error *error);

#endif
