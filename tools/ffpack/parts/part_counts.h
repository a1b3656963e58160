/* The statistics pass of a set that is packed in parts: the parts called OUT.part-I-of-N share it.
 *
 * It is cut into N ranges. Each part counts its own range, then ranges that no part counts yet, and
 * waits for the others. So parts that run at the same time read one range each, and if parts run
 * one after another, the first part reads all ranges. A range's sums are in
 * OUT.part-counts/I-of-N.ffp, also while it is counted; the counting part holds a lock, byte I of
 * OUT.part-counts/lock, which ends with the process. A killed part's range is continued by another
 * part. Sums are exact: without locks, ranges may be counted twice, with the same sums.
 *
 * Thread rule: one thread at a time. */
#ifndef FF_FFPACK_PART_COUNTS_H
#define FF_FFPACK_PART_COUNTS_H

#include "tools/ffpack/split/measure.h"

/* Fills the empty sums of all items, of the part settings->output. *fresh grows by the items that
 * this run read itself. Returns FF_INTERRUPTED on a signal. */
FF_MUST_USE ff_status ff_part_counts_take(const ff_measure_job *job, const ff_settings *settings,
                                          ff_stats *total, uint64_t *fresh, ff_error *error);

/* The folder of a part's counts, allocated. */
FF_MUST_USE ff_status ff_part_counts_path(char **path, const char *part, const ff_part *number,
                                          ff_error *error);

/* Removes the folder of the set OUT, which no part needs any more. Failures are ignored. */
void ff_part_counts_remove(const char *output);

#endif
