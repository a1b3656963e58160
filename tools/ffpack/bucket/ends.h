/* The ends of a shard in a bucket: its header, and what follows its samples. Private to
 * tools/ffpack/bucket. */
#ifndef FF_FFPACK_ENDS_H
#define FF_FFPACK_ENDS_H

#include "format/storage/storage.h"

/* Makes DIRECTORY/shard-NUMBER.ffs of the object's size, with a hole for the samples. FF_BAD_DATA
 * if the object does not end as a shard does. */
FF_MUST_USE ff_status ff_ends_fetch(ff_storage *storage, const char *name, const ff_object *object,
                                    const char *directory, uint32_t number, ff_error *error);

#endif
