/* Counts what a listing leaves out of a source, by kind with an example of each, for the summary.
 * Memory: at most FF_LEFT_OUT_LIMIT kinds. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_SOURCE_LEFT_OUT_H
#define FF_FFPACK_SOURCE_LEFT_OUT_H

#include "format/base/memory.h"

#define FF_LEFT_OUT_LIMIT 64

typedef struct ff_left_out_kind {
    char *one, *many; /* "file in .txt", "files in .txt"; owned, as the example */
    char *example;    /* the first one's name, control characters as ? */
    uint64_t count;
} ff_left_out_kind;

typedef struct ff_left_out {
    ff_left_out_kind *kind; /* [count] in the order of appearance */
    size_t count, capacity;
} ff_left_out; /* zero-initialised {0} */

/* Counts one of the kind "ONE DETAIL", "MANY DETAIL"; `detail` may be "". Kinds beyond the limit
 * count as "other file". */
FF_MUST_USE ff_status ff_left_out_add(ff_left_out *left, const char *one, const char *many,
                                      const char *detail, const void *name, size_t name_bytes,
                                      ff_error *error);
/* Counts a file, by its ending: "file in .txt". */
FF_MUST_USE ff_status ff_left_out_file(ff_left_out *left, const char *path, ff_error *error);
/* "12 files in .txt (a/notes.txt, ...)", allocated. */
FF_MUST_USE ff_status ff_left_out_text(const ff_left_out_kind *kind, char **text, ff_error *error);
void ff_left_out_free(ff_left_out *left);

#endif
