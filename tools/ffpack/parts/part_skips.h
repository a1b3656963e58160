/* What --on-error skip may leave out of a set that is packed in parts: each part records its
 * --max-skip, and the source's items of each class, in PART.skipped.json next to it; a merge adds
 * the records up. The file exists only if the part left something out. Thread rule: one thread at a
 * time. */
#ifndef FF_FFPACK_PART_SKIPS_H
#define FF_FFPACK_PART_SKIPS_H

#include "format/base/json.h"
#include "tools/ffpack/parts/merge_parts.h"
#include "tools/ffpack/run/run.h"

/* Writes the file of a part that is packed, before the part is committed; removes one of an earlier
 * packing. */
FF_MUST_USE ff_status ff_part_skips_write(const ff_run *run, ff_error *error);

/* Removes the file, which is elsewhere now. */
void ff_part_skips_forget(const ff_run *run);

/* The limit of what a merge may leave out of a split. */
typedef struct ff_part_skips {
    ff_max_skip max;
    json_t *file;    /* a part's; NULL: nothing was left out, or the limit is unknown */
    json_t *classes; /* the split's in it: ff_emptied_count */
} ff_part_skips;

/* Reads the records of a split's `count` pieces: FF_BAD_DATA if they left out too much, FF_USAGE if
 * their --max-skip differ. *skips must be zeroed, and released in any case. */
FF_MUST_USE ff_status ff_part_skips_check(ff_part_skips *skips, const ff_piece *piece, size_t count,
                                          const ff_merge_options *options, ff_error *error);
/* Checks the whole split in `folder`: FF_BAD_DATA if a class has lost all of its items; a notice
 * instead with --max-skip. */
FF_MUST_USE ff_status ff_part_skips_check_classes(const ff_part_skips *skips, const char *folder,
                                                  const ff_notices *notices, ff_error *error);
void ff_part_skips_release(ff_part_skips *skips);

#endif
