/* The summary of a split as text, and the text of --stats. */
#ifndef FF_FFINSPECT_SUMMARY_H
#define FF_FFINSPECT_SUMMARY_H

#include "tools/ffinspect/checks/stats.h"

/* A sentence that states whether Normalize is applied to the stored values. */
const char *ff_inspect_values_sentence(const ff_metadata *metadata);

/* Prints the summary of a split. `name` is its title; `classes_limit` 0 = list all classes. */
FF_MUST_USE ff_status ff_inspect_print_summary(ff_dataset *dataset, const char *name,
                                               uint64_t classes_limit, ff_error *error);

void ff_inspect_print_stats(const ff_dataset *dataset, const char *name,
                            const ff_channel_stats *stats);

#endif
