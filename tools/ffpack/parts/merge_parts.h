/* The parts of a merge: the named ones, or OUT.part-I-of-N next to OUT; waited for, read and
 * checked. Private to merge.c. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_MERGE_PARTS_H
#define FF_FFPACK_MERGE_PARTS_H

#include "tools/ffpack/parts/merge.h"

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

/* A PART that is named or, by the numbers of others, must exist. */
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
    uint32_t of;     /* N of OUT.part-I-of-N; 0 = named parts, or none found yet */
    ff_piece *piece; /* all PARTs'; sorted by split, then by first shard */
    size_t count, capacity;
} ff_merge_parts;

/* Finds and reads the parts: `given` or, if it is empty, the parts next to OUT. Waits for them as
 * the options demand. FF_USAGE if a part belongs to another set, or shards are in no part or in
 * two; FF_BAD_DATA if a part is broken; FF_FAILED if packing a part failed or the time is over. */
FF_MUST_USE ff_status ff_merge_parts_take(ff_merge_parts *parts, const char *const *given,
                                          size_t given_count, ff_error *error);
/* After the last piece of the split whose pieces begin at `begin`. */
size_t ff_merge_parts_split_end(const ff_merge_parts *parts, size_t begin);
void ff_merge_parts_free(ff_merge_parts *parts);

#endif
