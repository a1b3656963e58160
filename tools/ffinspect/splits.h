/* Finds the splits of ffinspect's path, and explains where there are none. */
#ifndef FF_FFINSPECT_SPLITS_H
#define FF_FFINSPECT_SPLITS_H

#include "format/set.h"

/* As ff_set_find, in the order of ranks. FF_IO where `path` is missing or cannot be read,
 * FF_BAD_DATA where it is not a packed set. The caller frees the set, after a failure too. */
FF_MUST_USE ff_status ff_inspect_find_splits(ff_set *set, const char *path, ff_error *error);

/* FF_USAGE naming the splits where there are several: `option` needs one. */
FF_MUST_USE ff_status ff_inspect_one_split(const ff_set *set, const char *path, const char *option,
                                           ff_error *error);

#endif
