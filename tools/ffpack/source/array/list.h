/* Lists images and labels that are arrays, from any kind of file.
 *
 * Images: N x H x W, or 4 dimensions with the channels last or second: last if only the last is at
 * most 4, second if only the second is, else by --array-layout. Labels: none; integers or booleans
 * [N] or [N, 1]: a class (-1 = unlabeled); integers or booleans [N, K]: multi-hot if all are 0 or
 * 1, else a vector of i64; floats [N] or [N, K]: soft if K > 1, none is below 0 and all rows sum to
 * 1 (within 0.001), else multi-hot if all are 0 or 1, else a vector of f32. --label-kind overrides
 * this. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_SOURCE_ARRAY_LIST_H
#define FF_FFPACK_SOURCE_ARRAY_LIST_H

#include "tools/ffpack/source/array/array.h"

/* One split. Owned strings. */
typedef struct ff_array_set {
    char split[32];                  /* "" if the source has only one split */
    char *key;                       /* items have the names "KEY:NUMBER" */
    char *images_path, *labels_path; /* for messages */
    ff_array images, labels;
    bool labeled;
} ff_array_set;

/* Adds the label field, the splits in the order of the sets, their items, and source->raw. */
FF_MUST_USE ff_status ff_array_list(ff_source *source, ff_array_set *set, size_t count,
                                    ff_error *error);
/* Frees its strings and zeroes it. */
void ff_array_set_free(ff_array_set *set);

#endif
