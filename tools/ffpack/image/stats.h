/* Mean and standard deviation of the channels of u8 or u16 images, from exact integer sums of the
 * values and of their squares, so that the result is the same for any number of threads, any order
 * and any grouping: each worker fills its own sums, which are merged.
 *
 * For u16 values high - low replaces 255, and low is subtracted from the mean. mean = (sum v) /
 * (255 N), std = sqrt(N sum v^2 - (sum v)^2) / (255 N): of ToTensor's values, over all N pixels
 * (the population's, no Bessel correction), exact in 128-bit integers, divided and rooted in
 * double, rounded once to float32.
 *
 * Thread rule: an ff_stats belongs to one thread at a time. */
#ifndef FF_FFPACK_STATS_H
#define FF_FFPACK_STATS_H

#include "format/base/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ff_stats ff_stats;

/* Empty sums. On failure *stats = NULL. */
FF_MUST_USE ff_status ff_stats_create(ff_stats **stats, uint32_t channels, ff_error *error);
/* NULL and *stats = NULL are accepted; *stats becomes NULL. */
void ff_stats_destroy(ff_stats **stats);

/* Adds the values of one image: pixels [pixel_count, channels], or planes [channels,
 * pixel_count]. */
void ff_stats_add_interleaved(ff_stats *stats, const uint8_t *pixels, size_t pixel_count);
void ff_stats_add_planar(ff_stats *stats, const uint8_t *planes, size_t pixel_count);
/* The same for u16 values. */
void ff_stats_add_u16(ff_stats *stats, const uint16_t *values, bool planar, size_t pixel_count);

/* Adds the sums of `other` (same number of channels), which is unchanged. */
void ff_stats_merge(ff_stats *stats, const ff_stats *other);

/* Empties it. */
void ff_stats_reset(ff_stats *stats);

/* Encodes the sums, replacing the content of `bytes`; and decodes them: false if the number of
 * channels differs. */
FF_MUST_USE ff_status ff_stats_encode(const ff_stats *stats, ff_buffer *bytes, ff_error *error);
FF_MUST_USE bool ff_stats_decode(ff_stats *stats, const void *bytes, size_t length);

/* Writes mean[channels] and std[channels]. FF_BAD_DATA if nothing was counted, or a channel has the
 * same value everywhere (Normalize would divide by 0). */
FF_MUST_USE ff_status ff_stats_finish(const ff_stats *stats, float *mean, float *std,
                                      ff_error *error);
/* The same for values scaled from low..high to 0..1. */
FF_MUST_USE ff_status ff_stats_finish_range(const ff_stats *stats, double low, double high,
                                            float *mean, float *std, ff_error *error);

#endif
