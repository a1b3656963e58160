#include "loader/resample_rows.h"

#include "format/base/compiler.h"

/* ---- weights -------------------------------------------------------------------------------- */

/* All in the types that ATen's templates come to for float tensors: the bits are the same. */
static float support_of(float scale) {
    return scale >= 1.0f ? scale : 1.0f;
}

uint32_t ff_resample_taps(uint32_t in, uint32_t out) {
    /* Twice the support, and what rounding may add at both ends. */
    uint64_t most = 2 * (uint64_t)support_of((float)in / (float)out) + 4;
    return most < in ? (uint32_t)most : in;
}

uint32_t ff_resample_weights(uint32_t in, uint32_t out, uint32_t at, float *weight,
                             uint32_t *first) {
    const float scale = (float)in / (float)out, support = support_of(scale);
    const float shrink = scale >= 1.0f ? (float)(1.0 / (double)scale) : 1.0f;
    const float center = (float)((double)scale * (at + 0.5));
    int64_t begin = (int64_t)((double)(center - support) + 0.5);
    int64_t end = (int64_t)((double)(center + support) + 0.5);
    /* Axes so long that f32 cannot tell their pixels apart still stay inside. */
    if (begin > (int64_t)in - 1) begin = (int64_t)in - 1;
    if (begin < 0) begin = 0;
    if (end > in) end = in;
    if (end <= begin) end = begin + 1;
    uint32_t count = (uint32_t)(end - begin), most = ff_resample_taps(in, out);
    if (count > most) count = most;
    float sum = 0;
    for (uint32_t k = 0; k < count; k++) {
        float away = (float)(((double)((float)(begin + k) - center) + 0.5) * (double)shrink);
        if (away < 0) away = -away;
        weight[k] = away < 1.0f ? (float)(1.0 - (double)away) : 0.0f;
        sum += weight[k];
    }
    while (count > 1 && weight[count - 1] == 0.0f) count--;
    if (sum != 0)
        for (uint32_t k = 0; k < count; k++) weight[k] /= sum;
    else
        weight[0] = 1, count = 1;
    *first = (uint32_t)begin;
    return count;
}

/* ---- kernels -------------------------------------------------------------------------------- */

#define DEFINE_READ(name, type, value)                                                             \
    FF_CLONES static void name(float *restrict to, const type *restrict from, size_t count) {      \
        for (size_t i = 0; i < count; i++) to[i] = value(from[i]);                                 \
    }
#define NUMBER(v) ((float)(v))
DEFINE_READ(read_u8, uint8_t, NUMBER)
DEFINE_READ(read_u16, uint16_t, NUMBER)
DEFINE_READ(read_bf16, uint16_t, ff_f32_from_bf16)

static void read_row(float *to, const void *from, ff_dtype dtype, size_t count) {
    switch (dtype) {
    case FF_U8: read_u8(to, from, count); break;
    case FF_U16: read_u16(to, from, count); break;
    case FF_BF16: read_bf16(to, from, count); break;
    default: ff_convert(to, FF_F32, from, dtype, count);
    }
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
