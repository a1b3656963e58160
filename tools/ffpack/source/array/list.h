/* Lists images and labels that are arrays, whatever kind of file they lie in.
 *
 * Images: N x H x W, or 4 dimensions with the channels last or second: last where the last is at
 * most 4 and the second is not, second where it is the other way round, else as --array-layout
 * says. Labels: none; integers or truth values [N] or [N, 1]: a class (-1 = unlabeled); integers or
 * truth values [N, K]: multi-hot where all are 0 or 1, else a vector of i64; floats [N] or [N, K]:
 * soft where there are several, none below 0, and all rows sum to 1 (within 0.001), else a vector
 * of f32. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_SOURCE_ARRAY_LIST_H
#define FF_FFPACK_SOURCE_ARRAY_LIST_H

#include "tools/ffpack/source/array/array.h"

/* One split. Owned strings. */
typedef struct ff_array_set {
    char split[32];                  /* "" where the source has one split only */
    char *key;                       /* items are called "KEY:NUMBER" */
    char *images_path, *labels_path; /* as messages call them */
    ff_array images, labels;
    bool labeled;
} ff_array_set;

/* Adds the label field, the splits in the order of the sets, their items, and source->raw. */
FF_MUST_USE ff_status ff_array_list(ff_source *source, ff_array_set *set, size_t count,
                                    ff_error *error);
/* Frees its strings and zeroes it. */
void ff_array_set_free(ff_array_set *set);

#endif
