#include "tools/ffpack/image/stats.h"

#include "format/base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* Neighbouring pixels are often equal; counting them in turn in LANES histograms keeps one
 * increment from waiting for the store of the last. */
enum { LANES = 4 };

struct ff_stats {
    uint32_t channels;
    uint32_t lanes, values; /* LANES and 256, or 1 and 65,536 */
    uint64_t *count;        /* [channels, lanes, values] */
};

static ff_status create(ff_stats **stats, uint32_t channels, uint32_t lanes, uint32_t values,
                        ff_error *error) {
    *stats = NULL;
    ff_stats *created;
    FF_TRY(ff_alloc(&created, 1, sizeof *created, "statistics", error));
    created->channels = channels;
    created->lanes = lanes;
    created->values = values;
    ff_status status = ff_alloc(&created->count, (uint64_t)channels * lanes * values,
                                sizeof *created->count, "histograms", error);
    if (status != FF_OK) {
        free(created);
        return status;
    }
    *stats = created;
    return FF_OK;
}

ff_status ff_stats_create(ff_stats **stats, uint32_t channels, ff_error *error) {
    return create(stats, channels, LANES, 256, error);
}

ff_status ff_stats_create_u16(ff_stats **stats, uint32_t channels, ff_error *error) {
    return create(stats, channels, 1, 65536, error);
}

void ff_stats_destroy(ff_stats **stats) {
    if (!stats || !*stats) return;
    free((*stats)->count);
    free(*stats);
    *stats = NULL;
}

static void add(uint64_t *count, const uint8_t *values, size_t step, size_t pixel_count) {
    size_t i = 0;
    for (; i + LANES <= pixel_count; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++) count[lane * 256 + values[(i + lane) * step]]++;
    for (; i < pixel_count; i++) count[values[i * step]]++;
}

void ff_stats_add_interleaved(ff_stats *stats, const uint8_t *pixels, size_t pixel_count) {
    for (uint32_t c = 0; c < stats->channels; c++)
        add(stats->count + (size_t)c * LANES * 256, pixels + c, stats->channels, pixel_count);
}

void ff_stats_add_planar(ff_stats *stats, const uint8_t *planes, size_t pixel_count) {
    for (uint32_t c = 0; c < stats->channels; c++)
        add(stats->count + (size_t)c * LANES * 256, planes + c * pixel_count, 1, pixel_count);
}

void ff_stats_add_u16(ff_stats *stats, const uint16_t *values, bool planar, size_t pixel_count) {
    size_t step = planar ? 1 : stats->channels, plane = planar ? pixel_count : 1;
    for (uint32_t c = 0; c < stats->channels; c++) {
        uint64_t *count = stats->count + (size_t)c * stats->values;
        for (size_t i = 0; i < pixel_count; i++) count[values[c * plane + i * step]]++;
    }
}

void ff_stats_merge(ff_stats *stats, const ff_stats *other) {
    assert(stats->channels == other->channels && stats->values == other->values);
    for (size_t i = 0; i < (size_t)stats->channels * stats->lanes * stats->values; i++)
        stats->count[i] += other->count[i];
}

uint64_t ff_stats_count(const ff_stats *stats, uint32_t channel, uint32_t value) {
    uint64_t total = 0;
    for (size_t lane = 0; lane < stats->lanes; lane++)
        total += stats->count[((size_t)channel * stats->lanes + lane) * stats->values + value];
    return total;
}

uint64_t ff_stats_pixels(const ff_stats *stats) {
    uint64_t total = 0;
    for (uint32_t v = 0; v < stats->values; v++) total += ff_stats_count(stats, 0, v);
    return total;
}

ff_status ff_stats_finish_range(const ff_stats *stats, double low, double high, float *mean,
                                float *std, ff_error *error) {
    uint64_t pixels = ff_stats_pixels(stats);
    if (pixels == 0) return ff_fail(error, FF_BAD_DATA, "no pixel to compute mean and std from");
    for (uint32_t c = 0; c < stats->channels; c++) {
        /* Exact: with u8 values and below 2^56 pixels, or u16 values and below 2^48, the sums are
         * below 2^80 and N * squares below 2^128; no disk holds more. */
        unsigned __int128 sum = 0, squares = 0;
        for (uint32_t v = 0; v < stats->values; v++) {
            uint64_t count = ff_stats_count(stats, c, v);
            sum += (unsigned __int128)count * v;
            squares += (unsigned __int128)count * ((uint64_t)v * v);
        }
        unsigned __int128 spread = squares * pixels - sum * sum; /* N^2 times the variance */
        if (spread == 0)
            return ff_fail(error, FF_BAD_DATA,
                           "channel %u has the value %u in every pixel, so its std is 0 and "
                           "Normalize cannot divide by it; give --mean and --std",
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
