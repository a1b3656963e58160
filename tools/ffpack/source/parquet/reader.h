/* Parquet files (github.com/apache/parquet-format), as far as sets of images use them: columns that
 * do not repeat, of whole numbers or bytes, in pages of version 1 and 2, plain or by a dictionary,
 * plain or compressed (codec.h). Debian 12 has no library for parquet, so this is a reader of our
 * own.
 *
 * A file ends with its footer, the footer's size and "PAR1". The footer has the schema, a tree
 * whose leaves are the columns, and for each group of rows the place of each column's pages. A page
 * is a header (thrift.h), and, compressed together in version 1: how much of the path to the leaf
 * is there for each row (the definition levels), and the values of the rows for which all is.
 *
 * Memory: the footer, a dictionary and a page, packed and unpacked. Thread rule: one thread at a
 * time. */
#ifndef FF_FFPACK_PARQUET_READER_H
#define FF_FFPACK_PARQUET_READER_H

#include "tools/ffpack/source/parquet/thrift.h"

#include "format/base/memory.h"
#include "tools/ffpack/source/parquet/thrift.h"

#define FF_PARQUET_LEAVES_LIMIT 4096u
#define FF_PARQUET_DEPTH_LIMIT  16u

/* The types of leaves that are read, as numbered in parquet.thrift. */
typedef enum ff_parquet_type {
    FF_PARQUET_INT32 = 1,
    FF_PARQUET_INT64 = 2,
    FF_PARQUET_BYTES = 6,
} ff_parquet_type;

typedef struct ff_parquet_leaf {
    char *path; /* "image.bytes"; owned */
    int64_t type;
    bool text, repeats;  /* bytes that are UTF-8; there may be several for a row */
    unsigned definition; /* the definition level of a value that is there */
} ff_parquet_leaf;

typedef struct ff_parquet {
    char *path;
    int fd;
    uint64_t bytes, rows;
    ff_buffer footer;
    ff_parquet_leaf *leaf; /* [leaf_count] */
    size_t leaf_count;
} ff_parquet; /* zero-initialised {0} */

/* Whether a file begins like one. */
bool ff_parquet_looks_like(const unsigned char *head, size_t head_bytes);
/* FF_BAD_DATA naming the path if the file or its footer is broken. To be closed also then. */
FF_MUST_USE ff_status ff_parquet_open(ff_parquet *parquet, const char *path, ff_error *error);
/* The value of a key of the footer; .bytes NULL if there is none. */
ff_thrift_text ff_parquet_metadata(const ff_parquet *parquet, const char *key);
void ff_parquet_close(ff_parquet *parquet);

/* The values of a leaf, row after row. */
typedef struct ff_parquet_values ff_parquet_values;
typedef struct ff_parquet_value {
    bool null;
    int64_t number;             /* of FF_PARQUET_INT32 and INT64 */
    const unsigned char *bytes; /* of FF_PARQUET_BYTES; valid until the next call */
    uint64_t length;
} ff_parquet_value;

/* `parquet` must outlive *values. FF_BAD_DATA for a leaf of another type, or that repeats. */
FF_MUST_USE ff_status ff_parquet_values_open(ff_parquet_values **values, ff_parquet *parquet,
                                             size_t leaf, ff_error *error);
/* FF_BAD_DATA naming path, column and row if a page is broken; after the last row, too. */
FF_MUST_USE ff_status ff_parquet_values_next(ff_parquet_values *values, ff_parquet_value *value,
                                             ff_error *error);
void ff_parquet_values_close(ff_parquet_values **values);

/* A leaf of a file, by its path: rows from front to back. */
typedef struct ff_parquet_column ff_parquet_column;
FF_MUST_USE ff_status ff_parquet_column_open(ff_parquet_column **column, const char *path,
                                             const char *leaf, ff_error *error);
/* The value of a row that is not before the last one; valid until the next call. */
FF_MUST_USE ff_status ff_parquet_column_row(ff_parquet_column *column, uint64_t row,
                                            ff_parquet_value *value, ff_error *error);
void ff_parquet_column_close(ff_parquet_column **column);

#endif
