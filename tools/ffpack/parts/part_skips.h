/* What --on-error skip may leave out of a set that is packed in parts: each part says what its
 * --max-skip was, and what the source has of each class, in PART.skipped.json beside it; a merge
 * adds up. The file exists only where the part left something out. Thread rule: one thread at a
 * time. */
#ifndef FF_FFPACK_PART_SKIPS_H
#define FF_FFPACK_PART_SKIPS_H

#include "format/base/json.h"
#include "tools/ffpack/parts/merge_parts.h"
#include "tools/ffpack/run/run.h"

/* Writes the file of a part that is packed, before the part is committed; removes one of an earlier
 * packing. */
FF_MUST_USE ff_status ff_part_skips_write(const ff_run *run, ff_error *error);

/* What a merge may leave out of a split. */
typedef struct ff_part_skips {
    ff_max_skip max;
    json_t *file;    /* of a part; NULL: nothing was left out, or it is not known what may be */
    json_t *classes; /* of the split in it: ff_emptied_count */
} ff_part_skips;

/* Of a split with `count` pieces: FF_BAD_DATA where they left out too much, FF_USAGE where they had
 * different --max-skip. *skips must be zeroed, and released in any case. */
FF_MUST_USE ff_status ff_part_skips_check(ff_part_skips *skips, const ff_piece *piece, size_t count,
                                          const ff_merge_options *options, ff_error *error);
/* Of the split that is whole in `folder`: FF_BAD_DATA where a class has lost all of its items; a
 * notice where --max-skip was given. */
FF_MUST_USE ff_status ff_part_skips_check_classes(const ff_part_skips *skips, const char *folder,
                                                  const ff_notices *notices, ff_error *error);
void ff_part_skips_release(ff_part_skips *skips);

#endif
