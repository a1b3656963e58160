/* --bench: the rate of reading samples from the mapped shards into a batch's memory, compared with
 * a plain memcpy of the same bytes in the same run. */
#ifndef FF_FFINSPECT_BENCH_H
#define FF_FFINSPECT_BENCH_H

#include "format/reader/reader.h"

/* Samples per second, of all threads together. */
typedef struct ff_bench_row {
    bool random; /* otherwise in storage order */
    int threads;
    double first_rate;     /* the first pass after opening: every sample is verified */
    uint64_t first_passes; /* number of first passes averaged: several for a small set */
    double rate;           /* passes after it */
    double copy_rate; /* plain memcpy of the same tensors in the same order, from where they lie in
                         memory (mapped, or decompressed beforehand) */
} ff_bench_row;

typedef struct ff_bench {
    uint64_t samples; /* samples read: all, or the first ones by number, about 1 GiB */
    uint64_t bytes;   /* of these samples' tensors */
    ff_bench_row row[4];
    size_t row_count;
} ff_bench;

/* Measures sequential and random order, with one thread and with `jobs`. Each figure takes about
 * 0.4 s, or one pass if that is longer; the first pass 0.1 s. The time to start threads is not
 * counted. */
FF_MUST_USE ff_status ff_inspect_bench(ff_bench *bench, const char *path, int jobs, uint64_t seed,
                                       ff_error *error);

void ff_inspect_print_bench(const char *name, const ff_bench *bench);

#endif
