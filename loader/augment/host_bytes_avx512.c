/* The AVX-512 version for samples of u8, on processors with VBMI: planes to planes (or one
 * channel), and three channels from and to planes and pixels; to f32, f16 and u8, with black
 * padding.
 *
 * Lanes of a load outside the source's row are masked off: they are not read, so a load may begin
 * before a row or end after it, and they are 0, as black is. One permutation of bytes then puts an
 * output vector's elements in order, mirrored or not, and repeats each one four times for
 * ff_scale_lanes. */
#include "loader/augment/host_avx512.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define VBMI   __attribute__((target("avx2,f16c,avx512f,avx512bw,avx512vl,avx512vbmi")))
#define INLINE static inline __attribute__((always_inline)) VBMI

/* Columns of a piece, of which all but a row's last one are whole. */
enum { COLUMNS = 32, PIECES_LIMIT = 64 };

typedef enum how { MOVE_8, U8_F16, U8_F32 } how;

INLINE int64_t to_bytes_of(how h) {
    return h == U8_F32 ? 4 : h == U8_F16 ? 2 : 1;
}

/* ---- pieces --------------------------------------------------------------------------------- */

/* How a piece is loaded: 32 bytes of each plane by `second`; 96 bytes of pixels by both. */
typedef struct piece {
    ptrdiff_t offset; /* of the load's first byte from the row's pixel 0; may be negative */
    __mmask64 first;
    __mmask32 second;
} piece;

/* How a row is loaded and stored: `whole` pieces, and one of `rest` columns if that is not 0. */
typedef struct row_plan {
    int64_t whole, rest;
    piece piece[PIECES_LIMIT];
} row_plan;

/* one: rows of 32 columns, which is known when this is compiled. */
INLINE void plan_row(row_plan *plan, bool one, bool from_planes, const ff_augment_host *host,
                     const ff_augment_params *params, uint32_t width) {
    const ff_augment_span span = ff_augment_columns(host, params, width);
    const int64_t out_width = one ? COLUMNS : host->out_width;
    plan->whole = out_width / COLUMNS, plan->rest = out_width % COLUMNS;
    for (int64_t i = 0; i * COLUMNS < out_width; i++) {
        int64_t begin = (int64_t)span.begin - i * COLUMNS, end = (int64_t)span.end - i * COLUMNS;
        if (begin < 0) begin = 0;
        if (end > COLUMNS) end = COLUMNS;
        if (begin > end) begin = end = 0;
        int64_t at = params->x + i * COLUMNS;
        if (params->flags & FF_AUGMENT_FLIP) {
            const int64_t kept = begin;
            at = params->x + out_width - (i + 1) * COLUMNS;
            begin = COLUMNS - end, end = COLUMNS - kept;
        }
        piece *own = &plan->piece[i];
        own->offset = from_planes ? at : 3 * at;
        own->first = from_planes ? 0 : ff_lanes(3 * begin, 3 * end, 64);
        own->second = (__mmask32)(from_planes ? ff_lanes(begin, end, 32)
                                              : ff_lanes(3 * begin - 64, 3 * end - 64, 32));
    }
}

/* The address may be outside the source. */
static inline const uint8_t *byte_at(const void *row, ptrdiff_t offset) {
    return (const uint8_t *)((uintptr_t)row + (uintptr_t)offset);
}

INLINE __m512i load_plane(const piece *at, const uint8_t *row) {
    return _mm512_castsi256_si512(_mm256_maskz_loadu_epi8(at->second, byte_at(row, at->offset)));
}

/* Planes R and G in the first vector, B in the second; or the first 64 and the last 32 bytes. */
INLINE void load_pixels(bool from_planes, const piece *at, const uint8_t *row, size_t plane,
                        __m512i v[2]) {
    if (from_planes) {
        const __m512i green = load_plane(at, row + plane);
        v[0] = _mm512_inserti64x4(load_plane(at, row), _mm512_castsi512_si256(green), 1);
        v[1] = load_plane(at, row + 2 * plane);
    } else {
        v[0] = _mm512_maskz_loadu_epi8(at->first, byte_at(row, at->offset));
        v[1] = load_plane(at, row + 64);
    }
}

/* ---- permutations --------------------------------------------------------------------------- */

/* first, first + 1, ... */
INLINE __m512i count_from(int first) {
    const __m512i up = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_add_epi32(_mm512_set1_epi32(first), up);
}

/* Where the 16 elements of a piece's output from `first` on are in its load. Elements of planes are
 * 32 of each channel. */
INLINE __m512i places(bool from_planes, bool to_planes, bool flip, int first) {
    const __m512i e = count_from(first), three = _mm512_set1_epi32(3);
    __m512i pixel, channel;
    if (to_planes) {
        channel = _mm512_srli_epi32(e, 5);
        pixel = _mm512_and_epi32(e, _mm512_set1_epi32(31));
    } else { /* e / 3 for e < 96 */
        pixel = _mm512_srli_epi32(_mm512_mullo_epi32(e, _mm512_set1_epi32(171)), 9);
        channel = _mm512_sub_epi32(e, _mm512_mullo_epi32(pixel, three));
    }
    if (flip) pixel = _mm512_sub_epi32(_mm512_set1_epi32(31), pixel);
    if (from_planes) return _mm512_add_epi32(_mm512_slli_epi32(channel, 5), pixel);
    return _mm512_add_epi32(_mm512_mullo_epi32(pixel, three), channel);
}

/* The permutations that make 32 elements of the output from `first` on: of floats 16 each, every
 * byte four times. */
INLINE void order_elements(how h, bool from_planes, bool to_planes, bool flip, int first,
                           __m512i order[2]) {
    const __m512i low = places(from_planes, to_planes, flip, first);
    const __m512i high = places(from_planes, to_planes, flip, first + 16);
    order[0] = order[1] = _mm512_castsi256_si512(
        _mm256_set_m128i(_mm512_cvtepi32_epi8(high), _mm512_cvtepi32_epi8(low)));
    if (h == MOVE_8) return;
    order[0] = ff_four_times(low);
    order[1] = ff_four_times(high);
}

/* ---- stores --------------------------------------------------------------------------------- */

/* 32 elements, or `left`. one, two: the bytes of the halves, each four times; of u8 in `one`. */
INLINE void store(how h, uint8_t *to, __m512i one, __m512i two, int64_t left,
                  const ff_scales *first, const ff_scales *second, bool streams) {
    if (h != MOVE_8)
        ff_store_floats(h == U8_F16, to, ff_scale_lanes(one, first), ff_scale_lanes(two, second),
                        left, streams);
    else if (left >= 32)
        _mm256_storeu_si256((__m256i *)(void *)to, _mm512_castsi512_si256(one));
    else if (left > 0)
        _mm256_mask_storeu_epi8(to, (__mmask32)ff_lanes(0, left, 32), _mm512_castsi512_si256(one));
}

/* Where the lines of an output of `row` bytes a line are stored: from the first one on, `step`
 * bytes apart, or upside down. */
typedef struct lines {
    int64_t begin, step;
} lines;

static inline lines lines_of(const ff_augment_host *host, const ff_augment_params *params,
                             int64_t row) {
    if (!(params->flags & FF_AUGMENT_VFLIP)) return (lines){0, row};
    return (lines){(host->out_height - 1) * row, -row};
}

/* ---- planes to planes ----------------------------------------------------------------------- */

INLINE void planes(how h, bool one, bool streams, const ff_augment_host *host,
                   const ff_augment_params *params, const uint8_t *source, uint32_t height,
                   uint32_t width, uint8_t *out) {
    const ff_augment_span rows = ff_augment_lines(host, params, height);
    const int64_t bytes = COLUMNS * to_bytes_of(h);
    row_plan plan;
    __m512i order[2];
    plan_row(&plan, one, true, host, params, width);
    order_elements(h, true, true, params->flags & FF_AUGMENT_FLIP, 0, order);
    const int64_t whole = one ? 1 : plan.whole, rest = one ? 0 : plan.rest;
    const int64_t out_row = (whole * COLUMNS + rest) * to_bytes_of(h);
    const lines down = lines_of(host, params, out_row);
    const uint8_t *plane = source + (size_t)rows.source * width;
    for (uint32_t c = 0; c < host->channels; c++, plane += (size_t)height * width) {
        ff_scales s = {0};
        if (h != MOVE_8) s = ff_scales_of(&host->scale[c]);
        const uint8_t *row = plane;
        uint8_t *to = out + down.begin;
        for (uint32_t y = 0; y < host->out_height; y++, to += down.step) {
            const bool inside = y >= rows.begin && y < rows.end;
            for (int64_t i = 0; i < whole + (rest != 0); i++) {
                __m512i v = _mm512_setzero_si512();
                if (inside) v = load_plane(&plan.piece[i], row);
                const __m512i low = _mm512_permutexvar_epi8(order[0], v);
                const __m512i high = _mm512_permutexvar_epi8(order[1], v);
                const int64_t left = i < whole ? COLUMNS : rest;
                store(h, to + i * bytes, low, high, left, &s, &s, streams);
            }
            if (inside) row += width;
        }
        out += out_row * host->out_height;
    }
}

/* ---- three channels, from or to pixels ------------------------------------------------------ */

/* A piece of the output: three times 32 elements, `third` bytes apart, of which `left` are stored;
 * of planes of each. */
INLINE void store_pixels(how h, bool to_planes, uint8_t *to, int64_t third, const __m512i v[2],
                         const __m512i order[3][2], int64_t left, const ff_scales s[3],
                         bool streams) {
    for (int m = 0; m < 3; m++) {
        /* In pixels, 16 elements number k begin with channel k % 3. */
        const int first = to_planes ? m : 2 * m % 3, second = to_planes ? m : (2 * m + 1) % 3;
        store(h, to + m * third, _mm512_permutex2var_epi8(v[0], order[m][0], v[1]),
              _mm512_permutex2var_epi8(v[0], order[m][1], v[1]),
              to_planes ? left : left - m * COLUMNS, &s[first], &s[second], streams);
    }
}

INLINE void pixels(how h, bool one, bool streams, bool from_planes, bool to_planes,
                   const ff_augment_host *host, const ff_augment_params *params,
                   const uint8_t *source, uint32_t height, uint32_t width, uint8_t *out) {
    const ff_augment_span rows = ff_augment_lines(host, params, height);
    const int64_t each = to_planes ? 1 : 3, bytes = COLUMNS * to_bytes_of(h) * each;
    const size_t plane = (size_t)height * width, row_bytes = (size_t)width * (from_planes ? 1 : 3);
    row_plan plan;
    __m512i order[3][2];
    ff_scales s[3];
    plan_row(&plan, one, from_planes, host, params, width);
    for (int m = 0; m < 3; m++) {
        order_elements(h, from_planes, to_planes, params->flags & FF_AUGMENT_FLIP, 32 * m,
                       order[m]);
        if (h != MOVE_8)
            s[m] =
                to_planes ? ff_scales_of(&host->scale[m]) : ff_scales_of_pixels(host, (uint32_t)m);
    }
    const int64_t whole = one ? 1 : plan.whole, rest = one ? 0 : plan.rest;
    const int64_t out_row = (whole * COLUMNS + rest) * to_bytes_of(h) * each;
    const int64_t third = to_planes ? out_row * host->out_height : COLUMNS * to_bytes_of(h);
    const lines down = lines_of(host, params, out_row);
    const uint8_t *row = source + rows.source * row_bytes;
    out += down.begin;
    for (uint32_t y = 0; y < host->out_height; y++, out += down.step) {
        const bool inside = y >= rows.begin && y < rows.end;
        for (int64_t i = 0; i < whole + (rest != 0); i++) {
            __m512i v[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
            if (inside) load_pixels(from_planes, &plan.piece[i], row, plane, v);
            store_pixels(h, to_planes, out + i * bytes, third, v, order,
                         (i < whole ? COLUMNS : rest) * each, s, streams);
        }
        if (inside) row += row_bytes;
    }
}

/* ---- the versions --------------------------------------------------------------------------- */

/* Whether stores pass the caches by: all of them must be aligned. */
INLINE bool streams_to(how h, bool to_planes, const ff_augment_host *host, const uint8_t *out) {
    const size_t row = host->out_width * (size_t)to_bytes_of(h) * (to_planes ? 1 : 3);
    return h != MOVE_8 && ff_lanes_stream(host, out, row);
}

#define DEFINE(name, h, to_planes, body, ...)                                                      \
    VBMI static void name(const ff_augment_host *host, const ff_augment_params *params,            \
                          const void *source, uint32_t height, uint32_t width, void *out) {        \
        const bool streams = streams_to(h, to_planes, host, out);                                  \
        if (streams)                                                                               \
            body(h, false, true, __VA_ARGS__ host, params, source, height, width, out);            \
        else if (host->out_width == COLUMNS)                                                       \
            body(h, true, false, __VA_ARGS__ host, params, source, height, width, out);            \
        else                                                                                       \
            body(h, false, false, __VA_ARGS__ host, params, source, height, width, out);           \
        if (streams) _mm_sfence();                                                                 \
        if (params->cut_height) ff_augment_cut(host, params, out);                                 \
    }
#define COMMA ,
#define DEFINE_ALL(suffix, h)                                                                      \
    DEFINE(planes_##suffix, h, true, planes, )                                                     \
    DEFINE(interleave_##suffix, h, false, pixels, true COMMA false COMMA)                          \
    DEFINE(separate_##suffix, h, true, pixels, false COMMA true COMMA)                             \
    DEFINE(pixels_##suffix, h, false, pixels, false COMMA false COMMA)
DEFINE_ALL(u8, MOVE_8)
DEFINE_ALL(f16, U8_F16)
DEFINE_ALL(f32, U8_F32)

ff_augment_apply ff_augment_bytes_avx512(const ff_augment_host *host) {
    static const ff_augment_apply by_layout[3][2][2] = {
        /* [to u8, f16, f32][from HWC][to HWC] */
        {{planes_u8, interleave_u8}, {separate_u8, pixels_u8}},
        {{planes_f16, interleave_f16}, {separate_f16, pixels_f16}},
        {{planes_f32, interleave_f32}, {separate_f32, pixels_f32}}};
    if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl") ||
        !__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vbmi"))
        return NULL;
    const bool one = host->channels == 1;
    const bool from_pixels = !one && host->from_layout == FF_HWC;
    const bool to_pixels = !one && host->to_layout == FF_HWC;
    if (host->from != FF_U8 || host->pad_mode != FF_PAD_BLACK ||
        host->out_width > PIECES_LIMIT * COLUMNS ||
        ((from_pixels || to_pixels) && host->channels != 3))
        return NULL;
    if (host->to == FF_U8) return by_layout[0][from_pixels][to_pixels];
    if (!host->scale || host->to == FF_BF16) return NULL;
    return by_layout[host->to == FF_F32 ? 2 : 1][from_pixels][to_pixels];
}

#else
ff_augment_apply ff_augment_bytes_avx512(const ff_augment_host *host) {
    (void)host;
    return NULL;
}
#endif
