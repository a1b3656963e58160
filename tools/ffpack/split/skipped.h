/* The list of items that --on-error skip left out: OUT.skipped.tsv next to OUT. A line of titles,
 * then a line per item: split, storage position, item number, name (as messages name the item) and
 * reason, separated by tabs; name and reason as ff_tsv_cell writes them. The file exists only if
 * items were left out. It grows as they are found, so a continued run has the earlier ones too.
 *
 * Earlier versions wrote no titles, and in the last two cells everything outside 0x21..0x7e (except
 * spaces in the reason) as %XX. Such a list is read, and written as it is now. Thread rule: one
 * thread at a time. */
#ifndef FF_FFPACK_SKIPPED_H
#define FF_FFPACK_SKIPPED_H

#include "format/base/memory.h"

typedef struct ff_skipped ff_skipped;

/* The list's path for OUT, allocated. */
FF_MUST_USE ff_status ff_skipped_name(char **path, const char *output, ff_error *error);

/* `output` is OUT. Removes a list that an earlier packing left, unless this run continues it. */
FF_MUST_USE ff_status ff_skipped_open(ff_skipped **skipped, const char *output, bool continues,
                                      ff_error *error);

/* Removes the lines of `split` from storage position `position` on: packing continues there and
 * will list them again. *kept counts the split's lines from `first` on that stay. */
FF_MUST_USE ff_status ff_skipped_rewind(ff_skipped *skipped, const char *split, uint64_t first,
                                        uint64_t position, uint64_t *kept, ff_error *error);

FF_MUST_USE ff_status ff_skipped_add(ff_skipped *skipped, const char *split, uint64_t position,
                                     uint64_t item, const char *name, const char *reason,
                                     ff_error *error);

/* Appends the lines of `split` in the list at `path`; *lines counts them. A missing list is
 * empty. */
FF_MUST_USE ff_status ff_skipped_take(ff_skipped *skipped, const char *path, const char *split,
                                      uint64_t *lines, ff_error *error);

const char *ff_skipped_path(const ff_skipped *skipped);
void ff_skipped_close(ff_skipped **skipped);

#endif
