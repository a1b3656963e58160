/* Classes that lost all of their items to --on-error skip. */
#ifndef FF_FFPACK_EMPTIED_H
#define FF_FFPACK_EMPTIED_H

#include "format/base/json.h"
#include "tools/ffpack/source/source.h"

/* The items of a listed split that each class of each field has: for each field [[class, items],
 * ...] in the order of the classes, [] for fields of other kinds. The caller releases *counts in
 * any case. */
FF_MUST_USE ff_status ff_emptied_count(json_t **counts, const ff_source_split *split,
                                       const ff_metadata *metadata, ff_error *error);
/* Compares them with the packed split in `folder`: FF_BAD_DATA naming the first class of which
 * nothing is left. */
FF_MUST_USE ff_status ff_emptied_check(const json_t *counts, const char *folder, ff_error *error);

#endif
