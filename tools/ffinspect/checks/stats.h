/* Room tools/ffinspect/checks, floor 10: what is computed over all samples.
 *
 * stats.c computes statistics, bench.c times reading; first_failure.c keeps the first failure of
 * several threads.
 *
 * May include format, loader/sequence.
 *
 * Statistics of the stored values, channel by channel, over all samples of a split. */
#ifndef FF_FFINSPECT_STATS_H
#define FF_FFINSPECT_STATS_H

#include "format/reader/reader.h"

/* NaN and infinities are counted and left out of all other statistics. */
typedef struct ff_channel_stats {
    uint64_t count; /* finite values */
    uint64_t nan_count, infinity_count;
    double mean;
    double squares;          /* sum of squared differences from the mean */
    double minimum, maximum; /* NaN if count is 0 */
} ff_channel_stats;

/* Population standard deviation, as Normalize uses it; NaN if count is 0. */
double ff_inspect_std(const ff_channel_stats *stats);

/* Adds `other` to `stats`. T. Chan, G. Golub, R. LeVeque, "Updating Formulae and a Pairwise
 * Algorithm for Computing Sample Variances", 1979. */
void ff_inspect_merge_stats(ff_channel_stats *stats, const ff_channel_stats *other);

/* Adds `count` values (in double arithmetic, two passes). */
void ff_inspect_add_stats(ff_channel_stats *stats, const float *value, size_t count);

/* `*stats` = [channels], freed by the caller. Every sample is verified against its checksum first,
 * by the dataset's policy. Uses `jobs` threads; the result does not depend on their number. */
FF_MUST_USE ff_status ff_inspect_stats(ff_channel_stats **stats, ff_dataset *dataset, int jobs,
                                       ff_error *error);

#endif
