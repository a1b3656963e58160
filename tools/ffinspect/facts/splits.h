/* Finds the splits of ffinspect's path; if there are none, explains why. */
#ifndef FF_FFINSPECT_SPLITS_H
#define FF_FFINSPECT_SPLITS_H

#include "format/disk/set.h"

/* Like ff_set_find, sorted by rank. FF_IO if `path` is missing or cannot be read, FF_BAD_DATA if it
 * is not a packed set. The caller frees the set, after a failure too. */
FF_MUST_USE ff_status ff_inspect_find_splits(ff_set *set, const char *path, ff_error *error);

/* FF_USAGE if there are several splits: `option` needs one. The error lists the splits. */
FF_MUST_USE ff_status ff_inspect_one_split(const ff_set *set, const char *path, const char *option,
                                           ff_error *error);

#endif
