#include "tools/ffpack/image/stats.h"

#include "format/base/bytes.h"
#include "format/base/compiler.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A row has at most LANES values. Sums of ROWS rows fit in 16 bits; every instruction set has lanes
 * of 16 bits. */
enum { LANES = 48, ROWS = UINT16_MAX / UINT8_MAX };

typedef unsigned __int128 u128;

struct ff_stats {
    uint32_t channels;
    uint64_t pixels;
    struct ff_stats_sums {
        u128 values, squares;
    } * sum; /* [channels] */
};

ff_status ff_stats_create(ff_stats **stats, uint32_t channels, ff_error *error) {
    *stats = NULL;
    ff_stats *created;
    FF_TRY(ff_alloc(&created, 1, sizeof *created, "statistics", error));
    created->channels = channels;
    ff_status status = ff_alloc(&created->sum, channels, sizeof *created->sum, "statistics", error);
    if (status != FF_OK) {
        free(created);
        return status;
    }
    *stats = created;
    return FF_OK;
}

void ff_stats_destroy(ff_stats **stats) {
    if (!stats || !*stats) return;
    free((*stats)->sum);
    free(*stats);
    *stats = NULL;
}

/* ---- sums ---------------------------------------------------------------------------------- */

/* Values of `channels` channels in turn. A row of `lanes` values is a whole number of pixels, so
 * each lane always has the same channel. Squares are added as their low and high bytes. */
static inline __attribute__((always_inline)) void sum_rows(struct ff_stats_sums *sum,
                                                           size_t channels, size_t lanes,
                                                           const uint8_t *values, size_t count) {
    while (count >= lanes) {
        const size_t left = count / lanes, rows = left < ROWS ? left : ROWS;
        uint16_t total[LANES] = {0}, low[LANES] = {0}, high[LANES] = {0};
        for (size_t row = 0; row < rows; row++, values += lanes)
            for (size_t i = 0; i < lanes; i++) {
                const uint16_t square = (uint16_t)(values[i] * values[i]);
                total[i] += values[i];
                low[i] += square & 255;
                high[i] += square >> 8;
            }
        for (size_t c = 0; c < channels; c++) {
            uint32_t totals = 0, squares = 0;
            for (size_t i = c; i < lanes; i += channels) {
                totals += total[i];
                squares += low[i] + ((uint32_t)high[i] << 8);
            }
            sum[c].values += totals;
            sum[c].squares += squares;
        }
        count -= rows * lanes;
    }
    for (size_t i = 0; i < count; i++) {
        sum[i % channels].values += values[i];
        sum[i % channels].squares += (uint32_t)values[i] * values[i];
    }
}

FF_CLONES static void sum_run(struct ff_stats_sums *sum, const uint8_t *values, size_t count) {
    sum_rows(sum, 1, 32, values, count); /* fewer to add up: a plane may be short */
}

FF_CLONES static void sum_three(struct ff_stats_sums *sum, const uint8_t *pixels, size_t count) {
    sum_rows(sum, 3, LANES, pixels, count * 3);
}

void ff_stats_add_interleaved(ff_stats *stats, const uint8_t *pixels, size_t pixel_count) {
    uint32_t channels = stats->channels;
    stats->pixels += pixel_count;
    if (channels == 1) {
        sum_run(stats->sum, pixels, pixel_count);
    } else if (channels == 3) {
        sum_three(stats->sum, pixels, pixel_count);
    } else {
        for (uint32_t c = 0; c < channels; c++)
            for (size_t i = 0; i < pixel_count; i++) {
                uint32_t value = pixels[i * channels + c];
                stats->sum[c].values += value;
                stats->sum[c].squares += value * value;
            }
    }
}

void ff_stats_add_planar(ff_stats *stats, const uint8_t *planes, size_t pixel_count) {
    stats->pixels += pixel_count;
    for (uint32_t c = 0; c < stats->channels; c++)
        sum_run(&stats->sum[c], planes + c * pixel_count, pixel_count);
}

void ff_stats_add_u16(ff_stats *stats, const uint16_t *values, bool planar, size_t pixel_count) {
    size_t step = planar ? 1 : stats->channels, plane = planar ? pixel_count : 1;
    stats->pixels += pixel_count;
    for (uint32_t c = 0; c < stats->channels; c++)
        for (size_t i = 0; i < pixel_count; i++) {
            uint64_t value = values[c * plane + i * step];
            stats->sum[c].values += value;
            stats->sum[c].squares += value * value;
        }
}

void ff_stats_merge(ff_stats *stats, const ff_stats *other) {
    assert(stats->channels == other->channels);
    stats->pixels += other->pixels;
    for (uint32_t c = 0; c < stats->channels; c++) {
        stats->sum[c].values += other->sum[c].values;
        stats->sum[c].squares += other->sum[c].squares;
    }
}

void ff_stats_reset(ff_stats *stats) {
    stats->pixels = 0;
    memset(stats->sum, 0, stats->channels * sizeof *stats->sum);
}

/* The number of pixels, and for each channel the sums of values and squares, in 64 and 128 bits,
 * little-endian. */
enum { PIXELS_BYTES = 8, SUMS_BYTES = 32 };

ff_status ff_stats_encode(const ff_stats *stats, ff_buffer *bytes, ff_error *error) {
    uint8_t one[SUMS_BYTES];
    bytes->length = 0;
    ff_store_u64(one, stats->pixels);
    FF_TRY(ff_buffer_add(bytes, one, PIXELS_BYTES, error));
    for (uint32_t c = 0; c < stats->channels; c++) {
        ff_store_u64(one, (uint64_t)stats->sum[c].values);
        ff_store_u64(one + 8, (uint64_t)(stats->sum[c].values >> 64));
        ff_store_u64(one + 16, (uint64_t)stats->sum[c].squares);
        ff_store_u64(one + 24, (uint64_t)(stats->sum[c].squares >> 64));
        FF_TRY(ff_buffer_add(bytes, one, sizeof one, error));
    }
    return FF_OK;
}

bool ff_stats_decode(ff_stats *stats, const void *bytes, size_t length) {
    const uint8_t *at = bytes;
    if (length != PIXELS_BYTES + (size_t)stats->channels * SUMS_BYTES) return false;
    stats->pixels = ff_load_u64(at);
    at += PIXELS_BYTES;
    for (uint32_t c = 0; c < stats->channels; c++, at += SUMS_BYTES) {
        stats->sum[c].values = (u128)ff_load_u64(at + 8) << 64 | ff_load_u64(at);
        stats->sum[c].squares = (u128)ff_load_u64(at + 24) << 64 | ff_load_u64(at + 16);
    }
    return true;
}

/* ---- mean and std -------------------------------------------------------------------------- */

ff_status ff_stats_finish_range(const ff_stats *stats, double low, double high, float *mean,
                                float *std, ff_error *error) {
    uint64_t pixels = stats->pixels;
    if (pixels == 0) return ff_fail(error, FF_BAD_DATA, "no pixel to compute mean and std from");
    for (uint32_t c = 0; c < stats->channels; c++) {
        /* Exact: with u8 values and below 2^56 pixels, or u16 values and below 2^48, the sums are
         * below 2^80 and N * squares below 2^128; no disk holds more. */
        u128 sum = stats->sum[c].values;
        u128 spread = stats->sum[c].squares * pixels - sum * sum; /* N^2 times the variance */
        if (spread == 0)
            return ff_fail(error, FF_BAD_DATA,
                           "channel %u has the value %u in every pixel, so its std is 0 and "
                           "Normalize cannot divide by it; set --mean and --std",
                           c, (unsigned)(sum / pixels));
        double scale = (high - low) * (double)pixels;
        mean[c] = (float)(((double)sum - low * (double)pixels) / scale);
        std[c] = (float)(sqrt((double)spread) / scale);
    }
    return FF_OK;
}

ff_status ff_stats_finish(const ff_stats *stats, float *mean, float *std, ff_error *error) {
    return ff_stats_finish_range(stats, 0, 255, mean, std, error);
}
