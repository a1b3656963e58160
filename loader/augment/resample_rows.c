#include "loader/augment/resample_rows.h"

#include "format/base/compiler.h"

uint32_t ff_resample_weights(uint32_t in, uint32_t out, uint32_t at, float *weight,
                             uint32_t *first) {
    const ff_resample_axis axis = ff_resample_axis_of(in, out);
    const ff_resample_window window = ff_resample_weigh(&axis, at, weight);
    *first = window.first;
    return window.count;
}

/* ---- kernels -------------------------------------------------------------------------------- */

static void read_row(float *to, const void *from, ff_dtype dtype, size_t count) {
    ff_convert(to, FF_F32, from, dtype, count);
}

static void write_row(void *to, ff_dtype dtype, const float *from, size_t count) {
    ff_convert(to, dtype, from, FF_F32, count);
}

enum { LANES = FF_RESAMPLE_LANES };

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

FF_CLONES static void down(float *to, const float *const *row, const float *weight, uint32_t taps,
                           size_t count) {
    for (size_t at = 0; at < count; at += LANES) {
        float sum[LANES];
        for (int i = 0; i < LANES; i++) sum[i] = weight[0] * row[0][at + (size_t)i];
        for (uint32_t k = 1; k < taps; k++) {
            const float *restrict in = row[k] + at;
            for (int i = 0; i < LANES; i++) sum[i] += weight[k] * in[i];
        }
        for (int i = 0; i < LANES; i++) to[at + (size_t)i] = sum[i];
    }
}

const ff_resample_kernels ff_resample_rows = {
    .name = "rows", .read = read_row, .write = write_row, .across = across, .down = down};
