/* The places of a leaf's pages in a parquet file. Thread rule: pure. */
#ifndef FF_FFPACK_PARQUET_CHUNKS_H
#define FF_FFPACK_PARQUET_CHUNKS_H

#include "tools/ffpack/source/parquet/reader.h"

/* The pages of a group of rows, in the file from `dictionary` on. */
typedef struct ff_parquet_chunk {
    int64_t codec, values, bytes, data, dictionary;
} ff_parquet_chunk;

/* *chunk [count], allocated: those of the groups that have rows. Each lies in the file, and
 * together they have parquet->rows values. FF_BAD_DATA; *chunk may be allocated then, too. */
FF_MUST_USE ff_status ff_parquet_chunks_read(const ff_parquet *parquet, const ff_parquet_leaf *leaf,
                                             ff_parquet_chunk **chunk, size_t *count,
                                             ff_error *error);

#endif
