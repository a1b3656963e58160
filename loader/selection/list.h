/* Lists of samples in text files. Private to loader/selection/. Thread rule: pure. */
#ifndef FF_LOADER_SELECTION_LIST_H
#define FF_LOADER_SELECTION_LIST_H

#include "format/reader/reader.h"

/* The samples that a file names, as in ff_selection_rule.list; the caller frees *index. FF_USAGE
 * where a line is no number or key of the set, or both; FF_IO, FF_BAD_DATA. */
FF_MUST_USE ff_status ff_list_read(int64_t **index, size_t *count, ff_dataset *dataset,
                                   const char *list, ff_error *error);

/* The name of the split that has sample `number`; sets that are opened as one may be different
 * splits. */
const char *ff_list_split(const ff_dataset *dataset, uint64_t number);

#endif
