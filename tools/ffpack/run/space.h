/* Estimates the disk space of a run, and compares it with the free space before any work. Thread
 * rule: pure. */
#ifndef FF_FFPACK_SPACE_H
#define FF_FFPACK_SPACE_H

#include "tools/ffpack/settings/settings.h"
#include "tools/ffpack/split/report.h"

/* Fills the split's report with upper bounds of what packing it would produce: samples of different
 * sizes as large as allowed, nothing saved by zstd, nothing left out. `key_bytes`: all its keys'.
 */
void ff_space_estimate(ff_report_split *report, uint64_t key_bytes, const ff_part *part);

/* Adds up the report's splits, minus `there` bytes already written by an interrupted run, and
 * compares with the free space of the folder `place`. If there is too little: FF_IO if the size is
 * known; a notice if the size is an upper bound (zstd, or different sizes) and `options` is not
 * NULL. */
FF_MUST_USE ff_status ff_space_check(ff_report *report, const char *place, uint64_t there,
                                     const ff_notices *options, ff_error *error);

#endif
