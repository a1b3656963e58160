#include "loader/augment/resample_rows.h"

#include "format/base/compiler.h"
#include "loader/augment/resample_fixed.h"

#include <string.h>

enum { LANES = FF_RESAMPLE_LANES };

uint32_t ff_resample_weights(uint32_t in, uint32_t out, uint32_t at, float *weight,
                             uint32_t *first) {
    const ff_resample_axis axis = ff_resample_axis_of(in, out);
    const ff_resample_window window = ff_resample_weigh(&axis, at, weight);
    *first = window.first;
    return window.count;
}

/* The raw weights, and the windows and sums, as ff_resample_reach and ff_resample_raw have them. */
FF_CLONES static uint32_t raw_lanes(const ff_resample_axis *axis, const uint32_t *lane,
                                    float *restrict weight, uint32_t *first, uint32_t *taps,
                                    float *sum) {
    float center[LANES];
    int32_t begin[LANES], count[LANES], most = 1;
    const int32_t in = (int32_t)axis->in, limit = (int32_t)axis->most;
    const double shrink = (double)axis->shrink;
    for (int i = 0; i < LANES; i++) {
        center[i] = (float)((double)axis->scale * (lane[i] + 0.5));
        int32_t from = (int32_t)((double)(center[i] - axis->support) + 0.5);
        int32_t end = (int32_t)((double)(center[i] + axis->support) + 0.5);
        from = from > in - 1 ? in - 1 : from;
        begin[i] = from < 0 ? 0 : from;
        end = end > in ? in : end;
        count[i] = end <= begin[i] ? 1 : end - begin[i];
        count[i] = count[i] > limit ? limit : count[i];
        sum[i] = 0;
    }
    for (int i = 0; i < LANES; i++) most = count[i] > most ? count[i] : most;
    for (int32_t k = 0; k < most; k++, weight += LANES)
        for (int i = 0; i < LANES; i++) {
            const float at = (float)(begin[i] + k) - center[i];
            const float away = (float)(((double)at + 0.5) * shrink);
            const float raw = (float)(1.0 - (double)(away < 0 ? -away : away));
            weight[i] = raw > 0 && k < count[i] ? raw : 0;
            sum[i] += weight[i];
        }
    for (int i = 0; i < LANES; i++) first[i] = (uint32_t)begin[i], taps[i] = (uint32_t)count[i];
    return (uint32_t)most;
}

FF_CLONES static void divide_lanes(float *restrict weight, const float *sum, uint32_t taps) {
    for (uint32_t k = 0; k < taps; k++, weight += LANES)
        for (int i = 0; i < LANES; i++) weight[i] /= sum[i];
}

uint32_t ff_resample_weigh_lanes(const ff_resample_axis *axis, const uint32_t *lane, float *weight,
                                 uint32_t *first, uint32_t *taps) {
    float sum[LANES];
    uint32_t most = 0;
    const uint32_t all = raw_lanes(axis, lane, weight, first, taps, sum);
    for (uint32_t i = 0; i < LANES; i++) {
        while (taps[i] > 1 && weight[(taps[i] - 1) * LANES + i] == 0.0f) taps[i]--;
        if (sum[i] == 0.0f) sum[i] = weight[i] = 1, taps[i] = 1;
        most = taps[i] > most ? taps[i] : most;
    }
    divide_lanes(weight, sum, most < all ? most : all);
    return most;
}

/* ---- kernels -------------------------------------------------------------------------------- */

static void read_row(float *to, const void *from, ff_dtype dtype, size_t count) {
    ff_convert(to, FF_F32, from, dtype, count);
}

static void write_row(void *to, ff_dtype dtype, const float *from, size_t count) {
    ff_convert(to, dtype, from, FF_F32, count);
}

FF_CLONES static void across(const ff_resample_block *block, uint32_t blocks, const float *from,
                             size_t from_stride, uint32_t planes, float *to, size_t to_stride) {
    for (uint32_t b = 0; b < blocks; b++, block++, to += LANES) {
        for (uint32_t plane = 0; plane < planes; plane++) {
            const float *restrict in = from + plane * from_stride + block->base;
            const float *restrict weight = block->weight;
            const int32_t *restrict index = block->index;
            float sum[LANES];
            for (int i = 0; i < LANES; i++) sum[i] = weight[i] * in[index[i]];
            for (uint32_t k = 1; k < block->taps; k++) {
                weight += LANES, index += LANES;
                for (int i = 0; i < LANES; i++) sum[i] += weight[i] * in[index[i]];
            }
            float *restrict out = to + plane * to_stride;
            for (int i = 0; i < LANES; i++) out[i] = sum[i];
        }
    }
}

FF_CLONES static void down(float *to, const float *const *row, size_t at, const float *weight,
                           uint32_t taps, size_t count, const float *scale, bool streams) {
    (void)streams;
    for (size_t i = 0; i < count; i += LANES) {
        const size_t here = count - i < LANES ? count - i : LANES;
        float sum[LANES];
        for (size_t l = 0; l < LANES; l++) sum[l] = weight[0] * row[0][at + i + l];
        for (uint32_t k = 1; k < taps; k++) {
            const float *restrict in = row[k] + at + i;
            for (size_t l = 0; l < LANES; l++) sum[l] += weight[k] * in[l];
        }
        if (scale)
            for (size_t l = 0; l < LANES; l++) sum[l] = sum[l] * scale[0] + scale[1];
        memcpy(to + i, sum, here * sizeof *sum);
    }
}

/* A loop over a constant number of channels vectorizes. */
FF_CLONES static void join(float *restrict to, const float *restrict from, size_t stride,
                           size_t pixels, bool streams) {
    (void)streams;
    for (size_t x = 0; x < pixels; x++) {
        to[3 * x] = from[x];
        to[3 * x + 1] = from[stride + x];
        to[3 * x + 2] = from[2 * stride + x];
    }
}

/* ---- u8 in fixed point ---------------------------------------------------------------------- */

FF_FMA_CLONES static void across_bytes(const ff_resample_byte_block *block, uint32_t blocks,
                                       uint32_t precision, const uint8_t *from, size_t from_stride,
                                       uint32_t planes, uint8_t *to, size_t to_stride) {
    for (uint32_t b = 0; b < blocks; b++, block++, to += LANES) {
        for (uint32_t plane = 0; plane < planes; plane++) {
            const uint8_t *restrict in = from + plane * from_stride + block->base;
            const int16_t *restrict weight = block->weight;
            int32_t sum[LANES] = {0};
            for (uint32_t k = 0; k < block->pairs; k++, in += 2, weight += 2 * LANES)
                for (int i = 0; i < LANES; i++)
                    sum[i] += weight[2 * i] * in[block->index[i]] +
                              weight[2 * i + 1] * in[block->index[i] + 1];
            uint8_t *restrict out = to + plane * to_stride;
            for (int i = 0; i < LANES; i++) out[i] = ff_fixed_value(sum[i], precision);
        }
    }
}

FF_FMA_CLONES static void down_bytes(uint8_t *to, const uint8_t *const *row, size_t at,
                                     const int16_t *weight, uint32_t pairs, uint32_t precision,
                                     size_t count) {
    for (size_t x = 0; x < count; x += LANES) {
        const size_t here = count - x < LANES ? count - x : LANES;
        int32_t sum[LANES] = {0};
        uint8_t value[LANES];
        for (uint32_t k = 0; k < 2 * pairs; k++) {
            const uint8_t *restrict in = row[k] + at + x;
            for (int i = 0; i < LANES; i++) sum[i] += weight[k] * in[i];
        }
        for (int i = 0; i < LANES; i++) value[i] = ff_fixed_value(sum[i], precision);
        memcpy(to + x, value, here);
    }
}

const ff_resample_kernels ff_resample_rows = {.name = "rows",
                                              .read = read_row,
                                              .write = write_row,
                                              .across = across,
                                              .down = down,
                                              .join = join,
                                              .across_bytes = across_bytes,
                                              .down_bytes = down_bytes};
