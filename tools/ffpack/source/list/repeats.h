/* Images that a list names on more than one line. Two lines with different labels are refused; the
 * same labels are counted for the summary, as are images in two splits. Memory: as a sorter
 * (sorter.h). Thread rule: one thread at a time. */
#ifndef FF_FFPACK_LIST_REPEATS_H
#define FF_FFPACK_LIST_REPEATS_H

#include "tools/ffpack/source/sorter.h"

typedef struct ff_list_repeats ff_list_repeats;

/* `directory` holds the temporary space. */
FF_MUST_USE ff_status ff_list_repeats_create(ff_list_repeats **repeats, const char *directory,
                                             ff_error *error);
/* Adds a line of the split with this number. */
FF_MUST_USE ff_status ff_list_repeats_add(ff_list_repeats *repeats, const char *path, uint64_t line,
                                          size_t split, const void *labels, size_t label_bytes,
                                          ff_error *error);
/* After all lines, once: FF_BAD_DATA naming two lines that differ. *said = a note for the summary,
 * or NULL; allocated. */
FF_MUST_USE ff_status ff_list_repeats_check(ff_list_repeats *repeats, char **said, ff_error *error);
void ff_list_repeats_destroy(ff_list_repeats **repeats);

#endif
