/* Small numbers in a page of parquet, levels and indices of a dictionary ("RLE / bit-packing
 * hybrid", Encodings.md): runs, each of one value, or of groups of eight values of `width` bits.
 * Thread rule: pure. */
#ifndef FF_FFPACK_PARQUET_RUNS_H
#define FF_FFPACK_PARQUET_RUNS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ff_parquet_runs {
    const unsigned char *at, *end;
    unsigned width; /* bits of a value, at most 32 */
    uint64_t left;  /* values of this run */
    bool packed;    /* they are bit-packed; else all are `value` */
    uint32_t value;
    uint64_t bit; /* the next value's, from `values` */
    const unsigned char *values;
} ff_parquet_runs; /* at, end and width set; the rest zero */

/* False after the last one, or if they are broken. */
bool ff_parquet_runs_next(ff_parquet_runs *runs, uint32_t *value);

#endif
