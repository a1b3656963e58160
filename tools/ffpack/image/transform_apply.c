#include "tools/ffpack/image/transform_apply.h"

#include "format/base/compiler.h"

#include <assert.h>
#include <string.h>

/* One function per type of element: table lookups of `count` pixels with `channels` channels.
 * Planar to planar is one run per channel; the other three go pixel by pixel, with three channels
 * as the usual case unrolled: to planes four pixels at a time, because one store of four elements
 * takes as long as a store of one. */
#define DEFINE_LOOKUP(type)                                                                        \
    FF_CLONES static void run_##type(const type *restrict table, const uint8_t *restrict in,       \
                                     size_t count, type *restrict out) {                           \
        for (size_t i = 0; i < count; i++) out[i] = table[in[i]];                                  \
    }                                                                                              \
    static void strided_##type(const type *restrict table, const uint8_t *restrict in,             \
                               size_t in_step, type *restrict out, size_t out_step,                \
                               size_t count) {                                                     \
        for (size_t i = 0; i < count; i++) out[i * out_step] = table[in[i * in_step]];             \
    }                                                                                              \
    static void pixels_3_##type(const type *restrict table, const uint8_t *restrict in,            \
                                size_t count, type *restrict out) {                                \
        for (size_t i = 0; i < 3 * count; i += 3)                                                  \
            for (size_t c = 0; c < 3; c++) out[i + c] = table[c * 256 + in[i + c]];                \
    }                                                                                              \
    static void planes_3_##type(const type *restrict table, const uint8_t *restrict in,            \
                                size_t count, type *restrict out) {                                \
        size_t done = 0;                                                                           \
        for (; done + 4 <= count; done += 4, in += 12)                                             \
            for (size_t c = 0; c < 3; c++) {                                                       \
                const type *of = table + c * 256;                                                  \
                const type four[] = {of[in[c]], of[in[c + 3]], of[in[c + 6]], of[in[c + 9]]};      \
                memcpy(out + c * count + done, four, sizeof four);                                 \
            }                                                                                      \
        for (size_t c = 0; c < 3; c++)                                                             \
            strided_##type(table + c * 256, in + c, 3, out + c * count + done, 1, count - done);   \
    }                                                                                              \
    static void lookup_##type(const ff_transform *transform, const type *table, const uint8_t *in, \
                              ff_layout from, size_t count, type *out) {                           \
        size_t channels = transform->channels;                                                     \
        bool planar_out = transform->layout == FF_CHW;                                             \
        if (channels == 3 && from == FF_HWC) {                                                     \
            (planar_out ? planes_3_##type : pixels_3_##type)(table, in, count, out);               \
            return;                                                                                \
        }                                                                                          \
        size_t in_step = from == FF_CHW ? 1 : channels, in_plane = from == FF_CHW ? count : 1;     \
        size_t out_step = planar_out ? 1 : channels, out_plane = planar_out ? count : 1;           \
        for (size_t c = 0; c < channels; c++) {                                                    \
            if (in_step == 1 && out_step == 1)                                                     \
                run_##type(table + c * 256, in + c * in_plane, count, out + c * out_plane);        \
            else                                                                                   \
                strided_##type(table + c * 256, in + c * in_plane, in_step, out + c * out_plane,   \
                               out_step, count);                                                   \
        }                                                                                          \
    }
DEFINE_LOOKUP(uint16_t)
DEFINE_LOOKUP(uint32_t)

/* Copies values unchanged from one layout to the other. */
#define DEFINE_COPY(name, type)                                                                    \
    static void name(const ff_transform *transform, const type *in, ff_layout from, size_t count,  \
                     type *out) {                                                                  \
        size_t channels = transform->channels;                                                     \
        if (from == transform->layout || channels == 1) {                                          \
            memcpy(out, in, count *channels * sizeof(type));                                       \
        } else if (from == FF_HWC) {                                                               \
            for (size_t c = 0; c < channels; c++)                                                  \
                for (size_t i = 0; i < count; i++) out[c * count + i] = in[i * channels + c];      \
        } else {                                                                                   \
            for (size_t c = 0; c < channels; c++)                                                  \
                for (size_t i = 0; i < count; i++) out[i * channels + c] = in[c * count + i];      \
        }                                                                                          \
    }
DEFINE_COPY(copy_u8, uint8_t)
DEFINE_COPY(copy_u16, uint16_t)

/* To planes, by the fast lookup; the plain one does the rest of each plane. */
static void lookup_fast(const ff_transform *transform, const uint8_t *in, ff_layout from,
                        size_t count, uint16_t *out) {
    size_t channels = transform->channels;
    size_t step = from == FF_CHW ? 1 : channels, plane = from == FF_CHW ? count : 1;
    for (size_t c = 0; c < channels; c++, in += plane, out += count) {
        const uint16_t *table = transform->table16 + c * 256;
        size_t done = transform->fast.run_16(table, in, step, count, out);
        strided_uint16_t(table, in + done * step, step, out + done, 1, count - done);
    }
}

/* Copies u8 of three channels to planes. */
FF_CLONES static void split_plain(const uint8_t *restrict in, size_t count, uint8_t *restrict out) {
    for (size_t i = 0; i < count; i++) {
        out[i] = in[3 * i];
        out[count + i] = in[3 * i + 1];
        out[2 * count + i] = in[3 * i + 2];
    }
}

static void split(const ff_transform *transform, const uint8_t *in, size_t count, uint8_t *out) {
    if (!transform->fast.third_bytes) {
        split_plain(in, count, out);
        return;
    }
    for (size_t c = 0; c < 3; c++, in++, out += count)
        for (size_t i = transform->fast.third_bytes(in, count, out); i < count; i++)
            out[i] = in[3 * i];
}

static void apply(const ff_transform *transform, const uint8_t *in, ff_layout from, size_t count,
                  void *output) {
    assert(transform->source == FF_VALUES_U8);
    bool three = from == FF_CHW || transform->channels == 1 || transform->channels == 3;
    bool planes = transform->layout == FF_CHW || transform->channels == 1;
    if (transform->table16 && transform->fast.run_16 && three && planes)
        lookup_fast(transform, in, from, count, output);
    else if (transform->table16)
        lookup_uint16_t(transform, transform->table16, in, from, count, output);
    else if (transform->table32)
        lookup_uint32_t(transform, transform->table32, in, from, count, output);
    else if (from == FF_HWC && planes && transform->channels == 3)
        split(transform, in, count, output);
    else
        copy_u8(transform, in, from, count, output);
}

void ff_transform_interleaved(const ff_transform *transform, const uint8_t *pixels, uint32_t width,
                              uint32_t height, void *output) {
    apply(transform, pixels, FF_HWC, (size_t)width * height, output);
}

void ff_transform_planar(const ff_transform *transform, const uint8_t *planes, uint32_t width,
                         uint32_t height, void *output) {
    apply(transform, planes, FF_CHW, (size_t)width * height, output);
}

/* Element `at` of an array of the dtype = element `from` of `values`. */
static void put(void *output, ff_dtype dtype, size_t at, const void *values, size_t from) {
    if (dtype == FF_F32)
        ((float *)output)[at] = ((const float *)values)[from];
    else
        ((uint16_t *)output)[at] = ((const uint16_t *)values)[from];
}

/* The source of the values: one of the two. */
typedef struct wide_values {
    const float *floats;
    const uint16_t *words;
} wide_values;

/* `part` values of `in` from `start` on, `step` apart, as f32. */
static void gather(const ff_transform *transform, const wide_values *in, size_t start, size_t step,
                   size_t part, float *to) {
    if (in->floats) {
        for (size_t i = 0; i < part; i++) to[i] = in->floats[start + i * step];
        return;
    }
    double low = transform->low, width = transform->high - low;
    for (size_t i = 0; i < part; i++)
        to[i] = (float)(((double)in->words[start + i * step] - low) / width);
}

static void apply_wide(const ff_transform *transform, const wide_values *in, ff_layout from,
                       size_t count, void *output) {
    enum { BLOCK = 1024 };
    float normalized[BLOCK], rounded[BLOCK]; /* rounded: room for the widest dtype */
    size_t channels = transform->channels;
    size_t in_step = from == FF_CHW ? 1 : channels, in_plane = from == FF_CHW ? count : 1;
    bool planar_out = transform->layout == FF_CHW;
    size_t out_step = planar_out ? 1 : channels, out_plane = planar_out ? count : 1;
    for (size_t c = 0; c < channels; c++) {
        for (size_t start = 0; start < count; start += BLOCK) {
            size_t part = count - start < BLOCK ? count - start : BLOCK;
            gather(transform, in, c * in_plane + start * in_step, in_step, part, normalized);
            if (transform->mean)
                for (size_t i = 0; i < part; i++)
                    normalized[i] = ff_transform_normalize(normalized[i], transform->mean[c],
                                                           transform->std[c]);
            ff_convert(rounded, transform->dtype, normalized, FF_F32, part);
            for (size_t i = 0; i < part; i++)
                put(output, transform->dtype, c * out_plane + (start + i) * out_step, rounded, i);
        }
    }
}

void ff_transform_floats(const ff_transform *transform, const float *values, ff_layout from,
                         uint32_t width, uint32_t height, void *output) {
    assert(transform->source == FF_VALUES_FLOAT);
    apply_wide(transform, &(wide_values){.floats = values}, from, (size_t)width * height, output);
}

void ff_transform_words(const ff_transform *transform, const uint16_t *values, ff_layout from,
                        uint32_t width, uint32_t height, void *output) {
    assert(transform->source == FF_VALUES_U16);
    size_t count = (size_t)width * height;
    if (transform->dtype == FF_U16)
        copy_u16(transform, values, from, count, output);
    else
        apply_wide(transform, &(wide_values){.words = values}, from, count, output);
}

bool ff_transform_not_finite(const ff_transform *transform, uint32_t width, uint32_t height,
                             const void *output) {
    size_t count = (size_t)transform->channels * height * width;
    return !transform->always_finite && !ff_all_finite(output, transform->dtype, count);
}
