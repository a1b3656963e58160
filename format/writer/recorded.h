/* Reads from a set's metadata the options with which ffpack packed it, so that more can be packed
 * in the same way. Options of later appends, mean and std are not included. Compare the metadata of
 * two sets to find the differences that no option records. */
#ifndef FF_FORMAT_RECORDED_H
#define FF_FORMAT_RECORDED_H

#include "format/disk/metadata.h"

/* Owned strings, each "--name=value" or "--name". Zero-initialised. */
typedef struct ff_recorded {
    char **option;
    size_t count, capacity;
} ff_recorded;

FF_MUST_USE ff_status ff_recorded_options(ff_recorded *recorded, const ff_metadata *metadata,
                                          ff_error *error);
/* Adds one option, "--name=value" or "--name". */
FF_MUST_USE ff_status ff_recorded_add(ff_recorded *recorded, const char *option, ff_error *error);
/* "12" or "13": the version of Pillow whose values a set of image files or of resized samples has.
 * A set that does not record the version has the values of Pillow 12. NULL if no value depends on
 * the version. */
const char *ff_recorded_pillow(const ff_metadata *metadata);
/* The rule by which the set's items were divided into splits (ffpack --split), as recorded; NULL if
 * no rule is recorded. */
const char *ff_recorded_split(const ff_metadata *metadata);
void ff_recorded_free(ff_recorded *recorded);

#endif
