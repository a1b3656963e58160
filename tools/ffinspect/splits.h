/* Which split folders a path means: itself, where it holds an index (or shards without one), else
 * its sub-folders that do. */
#ifndef FF_FFINSPECT_SPLITS_H
#define FF_FFINSPECT_SPLITS_H

#include "format/base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct ff_split_folder {
    char *path;
    char *name; /* of the sub-folder; "" where the path itself is the split */
} ff_split_folder;

typedef struct ff_split_list {
    size_t count;
    size_t capacity;
    ff_split_folder *split; /* train, val, valid, test, then the others by name */
} ff_split_list;

/* FF_IO where `path` is missing or cannot be read, FF_BAD_DATA where it is no packed set. The
 * caller frees the list, after a failure too. */
FF_MUST_USE ff_status ff_inspect_find_splits(ff_split_list *list, const char *path,
                                             ff_error *error);
void ff_inspect_free_splits(ff_split_list *list);

/* FF_USAGE where there are several: `option` needs one, and the sentence names them. */
FF_MUST_USE ff_status ff_inspect_one_split(const ff_split_list *list, const char *path,
                                           const char *option, ff_error *error);

#endif
