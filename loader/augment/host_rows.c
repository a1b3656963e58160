/* The portable fast version: whole rows at a time, in loops that compilers vectorize. */
#include "format/base/compiler.h"
#include "loader/augment/host.h"

#include <string.h>

/* f16 -> f32 without a branch: shift the magnitude into place and scale by a power of two, which
 * also normalizes subnormals exactly; infinities and NaNs get the full exponent. */
static inline float f32_from_f16(uint16_t bits) {
    uint32_t magnitude = (uint32_t)(bits & 0x7fffu) << 13;
    float scaled = ff_bits_float(magnitude) * 0x1p112f;
    uint32_t result = ff_float_bits(scaled);
    uint32_t special = 0x7f800000u | magnitude;
    result = magnitude >= 0x0f800000u ? special : result;
    return ff_bits_float(result | (uint32_t)(bits & 0x8000u) << 16);
}

/* Three loops: forwards and backwards over adjacent elements (these vectorize), and any step. */
#define DEFINE_SEGMENT(name, from_type, to_type, convert)                                          \
    FF_CLONES static void name(void *to_base, ptrdiff_t to_step, const void *from_base,            \
                               ptrdiff_t from_step, size_t n, const void *table_base) {            \
        to_type *restrict to = to_base;                                                            \
        const from_type *restrict from = from_base;                                                \
        const to_type *restrict table = table_base;                                                \
        (void)table;                                                                               \
        if (to_step == 1 && from_step == 1)                                                        \
            for (size_t i = 0; i < n; i++) to[i] = convert(from[i]);                               \
        else if (to_step == 1 && from_step == -1)                                                  \
            for (size_t i = 0; i < n; i++) to[i] = convert(from[-(ptrdiff_t)i]);                   \
        else                                                                                       \
            for (size_t i = 0; i < n; i++)                                                         \
                to[(ptrdiff_t)i * to_step] = convert(from[(ptrdiff_t)i * from_step]);              \
    }

#define KEEP(value)        (value)
#define LOOK_UP(value)     table[value]
#define VALUE(value)       ff_augment_word(table_base, value)
#define VALUE_F16(value)   ff_f16_from_f32(VALUE(value))
#define VALUE_BF16(value)  ff_bf16_from_f32(VALUE(value))
#define F16_TO_BF16(value) ff_bf16_from_f32(f32_from_f16(value))
#define BF16_TO_F16(value) ff_f16_from_f32(ff_f32_from_bf16(value))
DEFINE_SEGMENT(move_16, uint16_t, uint16_t, KEEP)
DEFINE_SEGMENT(move_32, uint32_t, uint32_t, KEEP)
DEFINE_SEGMENT(table_16, uint8_t, uint16_t, LOOK_UP)
DEFINE_SEGMENT(table_32, uint8_t, uint32_t, LOOK_UP)
DEFINE_SEGMENT(f16_to_f32, uint16_t, float, f32_from_f16)
DEFINE_SEGMENT(bf16_to_f32, uint16_t, float, ff_f32_from_bf16)
DEFINE_SEGMENT(u16_to_f32, uint16_t, float, VALUE)
DEFINE_SEGMENT(u16_to_f16, uint16_t, uint16_t, VALUE_F16)
DEFINE_SEGMENT(u16_to_bf16, uint16_t, uint16_t, VALUE_BF16)
DEFINE_SEGMENT(f32_to_f16, float, uint16_t, ff_f16_from_f32)
DEFINE_SEGMENT(f32_to_bf16, float, uint16_t, ff_bf16_from_f32)
DEFINE_SEGMENT(f16_to_bf16, uint16_t, uint16_t, F16_TO_BF16)
DEFINE_SEGMENT(bf16_to_f16, uint16_t, uint16_t, BF16_TO_F16)

/* Compilers do not vectorize bytes backwards: eight at a time are reversed, in the order in which
 * they are stored, which processors prefetch. */
static void move_8(void *to_base, ptrdiff_t to_step, const void *from_base, ptrdiff_t from_step,
                   size_t n, const void *table) {
    uint8_t *to = to_base;
    const uint8_t *from = from_base;
    (void)table;
    if (to_step == 1 && from_step == 1) {
        memcpy(to, from, n);
        return;
    }
    for (; to_step == 1 && from_step == -1 && n >= 8; n -= 8) {
        uint64_t eight;
        memcpy(&eight, from - (n - 1), sizeof eight);
        eight = __builtin_bswap64(eight);
        memcpy(to + n - 8, &eight, sizeof eight);
    }
    for (size_t i = 0; i < n; i++) to[(ptrdiff_t)i * to_step] = from[(ptrdiff_t)i * from_step];
}

typedef void (*segment)(void *, ptrdiff_t, const void *, ptrdiff_t, size_t, const void *);

static segment find_segment(const ff_augment_host *host) {
    if (host->table) return host->to_bytes == 4 ? table_32 : table_16;
    if (host->from == host->to)
        return host->to_bytes == 4 ? move_32 : host->to_bytes == 2 ? move_16 : move_8;
    static const segment by_type[FF_F32 + 1][FF_F32 + 1] = {
        [FF_U16] = {[FF_F16] = u16_to_f16, [FF_BF16] = u16_to_bf16, [FF_F32] = u16_to_f32},
        [FF_F16] = {[FF_BF16] = f16_to_bf16, [FF_F32] = f16_to_f32},
        [FF_BF16] = {[FF_F16] = bf16_to_f16, [FF_F32] = bf16_to_f32},
        [FF_F32] = {[FF_F16] = f32_to_f16, [FF_BF16] = f32_to_bf16},
    };
    return by_type[host->from][host->to];
}

static void fill_black(void *to, ptrdiff_t step, size_t bytes, uint32_t black, size_t n) {
    if (bytes == 4)
        for (size_t i = 0; i < n; i++) ((uint32_t *)to)[(ptrdiff_t)i * step] = black;
    else if (bytes == 2)
        for (size_t i = 0; i < n; i++) ((uint16_t *)to)[(ptrdiff_t)i * step] = (uint16_t)black;
    else
        for (size_t i = 0; i < n; i++) ((uint8_t *)to)[(ptrdiff_t)i * step] = (uint8_t)black;
}

/* A row's parameters besides its pointers. */
typedef struct row_job {
    const ff_augment_host *host;
    segment convert;
    ff_augment_span span;
    ptrdiff_t from_step, to_step; /* elements between pixels */
    bool flip;
    bool pixels; /* channel 0 stands for all: whole pixels are converted, by the same function */
    int32_t x;
    uint32_t width;
} row_job;

/* One channel of one row, from the source row `from` (its pixel 0) to the output row `to`. */
static void row(const row_job *job, uint32_t channel, const uint8_t *from, uint8_t *to) {
    const ff_augment_host *host = job->host;
    ff_augment_span span = job->span;
    ptrdiff_t from_bytes = job->from_step * (ptrdiff_t)host->from_bytes;
    ptrdiff_t to_bytes = job->to_step * (ptrdiff_t)host->to_bytes;
    const void *table = host->table
                            ? (const uint8_t *)host->table + (size_t)channel * 256 * host->to_bytes
                        : host->words ? (const void *)&host->words[channel]
                                      : NULL;
    if (span.end > span.begin && job->pixels && channel == 0)
        job->convert(to + span.begin * to_bytes, 1, from + span.source * from_bytes, 1,
                     (size_t)(span.end - span.begin) * host->channels, table);
    if (span.end > span.begin && !job->pixels)
        job->convert(to + span.begin * to_bytes, job->to_step, from + span.source * from_bytes,
                     job->flip ? -job->from_step : job->from_step, span.end - span.begin, table);
    if (host->pad_mode == FF_PAD_BLACK) {
        fill_black(to, job->to_step, host->to_bytes, host->black[channel], span.begin);
        fill_black(to + span.end * to_bytes, job->to_step, host->to_bytes, host->black[channel],
                   host->out_width - span.end);
        return;
    }
    for (uint32_t column = 0; column < host->out_width; column++) {
        if (column == span.begin) column = span.end;
        if (column >= host->out_width) break;
        uint32_t across = job->flip ? host->out_width - 1 - column : column;
        int32_t x = ff_augment_reflect(job->x + (int32_t)across, (int32_t)job->width);
        job->convert(to + column * to_bytes, job->to_step, from + x * from_bytes, job->from_step, 1,
                     table);
    }
}

void ff_augment_rows(const ff_augment_host *host, const ff_augment_params *params,
                     const void *source, uint32_t height, uint32_t width, void *out) {
    bool from_planar = host->from_layout == FF_CHW, to_planar = host->to_layout == FF_CHW;
    const bool flip = params->flags & FF_AUGMENT_FLIP;
    uint32_t channels = host->channels;
    row_job job = {
        .host = host,
        .convert = find_segment(host),
        .span = ff_augment_columns(host, params, width),
        .from_step = from_planar ? 1 : (ptrdiff_t)channels,
        .to_step = to_planar ? 1 : (ptrdiff_t)channels,
        .flip = flip,
        .pixels = !from_planar && !to_planar && !flip && !host->table && !host->words,
        .x = params->x,
        .width = width,
    };
    for (uint32_t channel = 0; channel < channels; channel++) {
        const uint8_t *from =
            (const uint8_t *)source +
            (from_planar ? (size_t)channel * height * width : channel) * host->from_bytes;
        uint8_t *to = (uint8_t *)out +
                      (to_planar ? (size_t)channel * host->out_height * host->out_width : channel) *
                          host->to_bytes;
        size_t from_row = (size_t)width * (size_t)job.from_step * host->from_bytes;
        size_t to_row = (size_t)host->out_width * (size_t)job.to_step * host->to_bytes;
        for (uint32_t y = 0; y < host->out_height; y++, to += to_row) {
            int32_t at = params->y + (int32_t)ff_augment_line(params, y, host->out_height);
            if (host->pad_mode == FF_PAD_REFLECT) at = ff_augment_reflect(at, (int32_t)height);
            if (at >= 0 && at < (int32_t)height)
                row(&job, channel, from + (size_t)at * from_row, to);
            else
                fill_black(to, job.to_step, host->to_bytes, host->black[channel], host->out_width);
        }
    }
    ff_augment_cut(host, params, out);
}
