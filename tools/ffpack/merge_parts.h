/* The parts of a merge: those given, or OUT.part-I-of-N beside OUT; waited for, read and checked.
 * Private to merge.c. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_MERGE_PARTS_H
#define FF_FFPACK_MERGE_PARTS_H

#include "tools/ffpack/merge.h"

/* A split's folder of one PART. */
typedef struct ff_piece {
    ff_part part;
    const char *root; /* the PART */
    char *folder;
    char *split;         /* its name */
    ff_buffer text;      /* its metadata's */
    uint32_t first, end; /* its shards */
    uint64_t left_out;   /* items of its shards that were skipped */
} ff_piece;

/* A PART that is given or, by the numbers of others, must exist. */
typedef struct ff_wanted {
    char *path;
    bool whole;
    const char *why; /* it is not whole */
} ff_wanted;

/* Zero-initialised except for the options. */
typedef struct ff_merge_parts {
    const ff_merge_options *options;
    ff_wanted *wanted;
    size_t wanted_count;
    uint32_t of;     /* N of OUT.part-I-of-N; 0 = given, or none was found yet */
    ff_piece *piece; /* of all PARTs; sorted by split, then by first shard */
    size_t count, capacity;
} ff_merge_parts;

/* Finds and reads the parts: `given`, or where there is none those beside OUT. Waits for them as
 * the options say. FF_USAGE where one is of another set, where shards are in no part or in two;
 * FF_BAD_DATA where one is broken; FF_FAILED where packing one failed or the time is over. */
FF_MUST_USE ff_status ff_merge_parts_take(ff_merge_parts *parts, const char *const *given,
                                          size_t given_count, ff_error *error);
/* After the last piece of the split whose pieces begin at `begin`. */
size_t ff_merge_parts_split_end(const ff_merge_parts *parts, size_t begin);
void ff_merge_parts_free(ff_merge_parts *parts);

#endif
