/* The AVX-512 version, for planes of u8, 16-bit or 32-bit elements and padding with black.
 *
 * A vector of output columns is one load, one permutation that shifts or mirrors it and keeps the
 * padding in the other lanes, and one store. Where source and output rows are exactly one vector
 * (32 pixels of 16 bits), whole aligned rows are loaded, so that no cache line is read twice; else
 * loads begin where the crop does, with lanes outside the row masked off. Masked lanes are not
 * read, so a load may begin before a row or end after it. Three planes become interleaved pixels by
 * two permutations per vector; u8 are widened to 16 bits at once, and become f32 or f16 last, as
 * f16 and bf16 become f32. The rest (reflected padding, very wide outputs, other channel counts,
 * rarer types) is left to the rows version. */
#include "loader/augment/host_avx512.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define INLINE FF_AVX512_INLINE

#define CHUNKS_LIMIT 64

/* ---- vectors of output columns -------------------------------------------------------------- */

typedef struct chunk {
    ptrdiff_t offset; /* the load's lane 0 relative to the row's pixel 0; may be negative */
    uint32_t load;    /* lanes of the load that hold pixels */
    uint32_t inside;  /* lanes of the output that show pixels */
} chunk;

/* How to read the rows of one sample. */
typedef struct row_plan {
    __m512i order; /* which lane of the load each lane of the output shows */
    uint32_t count;
    chunk chunk[CHUNKS_LIMIT];
} row_plan;

INLINE __m512i rising(int lanes) {
    static const uint16_t up[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
    if (lanes == 32) return _mm512_loadu_si512(up);
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

/* Chunks of `lanes` columns, loaded from their first (or, mirrored, last) pixel. */
INLINE void plan_chunks(row_plan *plan, const ff_augment_host *host,
                        const ff_augment_params *params, uint32_t width, int lanes) {
    ff_augment_span span = ff_augment_columns(host, params, width);
    bool flip = params->flags & FF_AUGMENT_FLIP;
    int64_t out = host->out_width;
    __m512i up = rising(lanes);
    plan->order = up;
    if (flip && lanes == 32) plan->order = _mm512_sub_epi16(_mm512_set1_epi16(31), up);
    if (flip && lanes == 16) plan->order = _mm512_sub_epi32(_mm512_set1_epi32(15), up);
    plan->count = 0;
    for (int64_t first = 0; first < out; first += lanes) {
        int64_t begin = (int64_t)span.begin - first, end = (int64_t)span.end - first;
        if (end > lanes) end = lanes;
        if (begin < 0) begin = 0;
        chunk *at = &plan->chunk[plan->count++];
        at->inside = (uint32_t)ff_lanes(begin, end, lanes);
        at->load = at->inside;
        if (flip && begin < end) at->load = (uint32_t)ff_lanes(lanes - end, lanes - begin, lanes);
        at->offset = (ptrdiff_t)(flip ? params->x + out - first - lanes : params->x + first);
    }
}

/* Rows of 32 16-bit pixels, in and out: column c shows pixel x + c, or x + 31 - c mirrored. The
 * permutation uses the low 5 bits only; lanes where that matters show padding. */
INLINE void plan_whole(row_plan *plan, const ff_augment_host *host,
                       const ff_augment_params *params) {
    ff_augment_span span = ff_augment_columns(host, params, 32);
    __m512i up = rising(32);
    if (params->flags & FF_AUGMENT_FLIP) up = _mm512_sub_epi16(_mm512_set1_epi16(31), up);
    plan->order = _mm512_add_epi16(up, _mm512_set1_epi16((int16_t)params->x));
    plan->count = 1;
    plan->chunk[0] = (chunk){0, UINT32_MAX, (uint32_t)ff_lanes(span.begin, span.end, 32)};
}

/* The address may be outside the source; only lanes inside it are read. */
INLINE const void *element_at(const void *row, ptrdiff_t offset, size_t bytes) {
    return (const void *)((uintptr_t)row + (uintptr_t)offset * bytes);
}

/* 32 pixels of u8, as 16 bits. */
INLINE __m512i load_8(const row_plan *plan, uint32_t i, const void *row, __m512i black) {
    const chunk *at = &plan->chunk[i];
    const void *from = element_at(row, at->offset, 1);
    const __m256i v =
        at->load == UINT32_MAX ? _mm256_loadu_si256(from) : _mm256_maskz_loadu_epi8(at->load, from);
    return _mm512_mask_permutexvar_epi16(black, at->inside, plan->order, _mm512_cvtepu8_epi16(v));
}

INLINE __m512i load_16(const row_plan *plan, uint32_t i, const void *row, __m512i black) {
    const chunk *at = &plan->chunk[i];
    const void *from = element_at(row, at->offset, 2);
    __m512i v = at->load == UINT32_MAX ? _mm512_loadu_si512(from)
                                       : _mm512_maskz_loadu_epi16(at->load, from);
    return _mm512_mask_permutexvar_epi16(black, at->inside, plan->order, v);
}

INLINE __m512i load_32(const row_plan *plan, uint32_t i, const void *row, __m512i black) {
    const chunk *at = &plan->chunk[i];
    const void *from = element_at(row, at->offset, 4);
    __m512i v = at->load == UINT16_MAX ? _mm512_loadu_si512(from)
                                       : _mm512_maskz_loadu_epi32((__mmask16)at->load, from);
    return _mm512_mask_permutexvar_epi32(black, (__mmask16)at->inside, plan->order, v);
}

/* ---- storing -------------------------------------------------------------------------------- */

typedef enum how { MOVE_16, MOVE_32, F16_F32, BF16_F32, U8_F32, U8_F16 } how;

INLINE size_t from_bytes_of(how h) {
    return h == MOVE_32 ? 4 : h == U8_F32 || h == U8_F16 ? 1 : 2;
}

INLINE size_t to_bytes_of(how h) {
    return h == MOVE_16 || h == U8_F16 ? 2 : 4;
}

INLINE __m512i load(how h, const row_plan *plan, uint32_t i, const void *row, __m512i black) {
    if (from_bytes_of(h) == 1) return load_8(plan, i, row, black);
    return h == MOVE_32 ? load_32(plan, i, row, black) : load_16(plan, i, row, black);
}

/* Sixteen u8 in 16 bits each, as floats. */
INLINE __m512 normalize(__m256i v, const ff_scales *s) {
    return ff_scale_lanes(ff_four_times(_mm512_cvtepu16_epi32(v)), s);
}

/* Stores a vector of source elements, converted, `left` of them at most. first, second: of u8, for
 * the lower and the upper half. */
INLINE void store(how h, uint8_t *to, __m512i v, int64_t left, const ff_scales *first,
                  const ff_scales *second, bool streams) {
    if (h == MOVE_32) {
        ff_store_32(to, v, left, streams);
    } else if (h == MOVE_16) {
        ff_store_16(to, v, left, streams);
    } else if (from_bytes_of(h) == 1) {
        ff_store_floats(h == U8_F16, to, normalize(_mm512_castsi512_si256(v), first),
                        normalize(_mm512_extracti64x4_epi64(v, 1), second), left, streams);
    } else {
        __m256i low = _mm512_castsi512_si256(v), high = _mm512_extracti64x4_epi64(v, 1);
        if (h == F16_F32) {
            ff_store_32(to, _mm512_castps_si512(_mm512_cvtph_ps(low)), left, streams);
            ff_store_32(to + 64, _mm512_castps_si512(_mm512_cvtph_ps(high)), left - 16, streams);
        } else {
            ff_store_32(to, _mm512_slli_epi32(_mm512_cvtepu16_epi32(low), 16), left, streams);
            ff_store_32(to + 64, _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16), left - 16,
                        streams);
        }
    }
}

/* Padding in the source's type: the output's was converted from it, so this is exact. */
INLINE __m512i black_of(how h, const ff_augment_host *host, uint32_t channel) {
    uint32_t black = host->black[channel];
    if (from_bytes_of(h) == 1) return _mm512_setzero_si512();
    if (h == MOVE_32) return _mm512_set1_epi32((int32_t)black);
    if (h == F16_F32) black = ff_f16_from_f32(ff_bits_float(black));
    if (h == BF16_F32) black >>= 16;
    return _mm512_set1_epi16((int16_t)black);
}

/* ---- planes to planes (or one channel) ------------------------------------------------------ */

INLINE uint8_t *black_rows(how h, bool whole, uint8_t *out, uint32_t rows, uint32_t out_width,
                           __m512i black, const ff_scales *s, bool streams) {
    const int64_t lanes = h == MOVE_32 ? 16 : 32, to_bytes = (int64_t)to_bytes_of(h);
    int64_t elements = (int64_t)rows * (whole ? 32 : out_width);
    for (int64_t i = 0; i < elements; i += lanes)
        store(h, out + i * to_bytes, black, whole ? lanes : elements - i, s, s, streams);
    return out + elements * to_bytes;
}

INLINE void planes(how h, bool whole, const ff_augment_host *host, const ff_augment_params *params,
                   const void *source, uint32_t height, uint32_t width, uint8_t *out) {
    const int lanes = h == MOVE_32 ? 16 : 32;
    const size_t from_bytes = from_bytes_of(h), to_bytes = to_bytes_of(h);
    row_plan plan;
    if (whole)
        plan_whole(&plan, host, params);
    else
        plan_chunks(&plan, host, params, width, lanes);
    const ff_augment_span rows = ff_augment_lines(host, params, height);
    const uint32_t channels = host->channels, below = host->out_height - rows.end;
    const uint32_t out_width = whole ? 32 : host->out_width, count = whole ? 1 : plan.count;
    const size_t row_bytes = (whole ? 32 : (size_t)width) * from_bytes;
    const uint8_t *plane = (const uint8_t *)source + rows.source * row_bytes;
    const bool streams = ff_lanes_stream(host, out, (size_t)out_width * to_bytes);
    for (uint32_t channel = 0; channel < channels; channel++, plane += height * row_bytes) {
        const __m512i black = black_of(h, host, channel);
        ff_scales s = {0};
        if (from_bytes == 1) s = ff_scales_of(&host->scale[channel]);
        out = black_rows(h, whole, out, rows.begin, out_width, black, &s, streams);
        const uint8_t *row = plane;
        for (uint32_t y = rows.begin; y < rows.end; y++, row += row_bytes) {
            for (uint32_t i = 0; i < count; i++)
                store(h, out + i * (size_t)lanes * to_bytes, load(h, &plan, i, row, black),
                      whole ? lanes : (int64_t)out_width - (int64_t)i * lanes, &s, &s, streams);
            out += out_width * to_bytes;
        }
        out = black_rows(h, whole, out, below, out_width, black, &s, streams);
    }
}

/* ---- three planes to interleaved pixels ----------------------------------------------------- */

/* Output vector k of a chunk takes its lanes of channels 0 and 1 by one permutation of both, and
 * the lanes of channel 2 by another. */
static const uint16_t interleave_16_ab[3][32] = {
    {0,  32, 0, 1,  33, 0, 2,  34, 0, 3,  35, 0, 4,  36, 0,  5,
     37, 0,  6, 38, 0,  7, 39, 0,  8, 40, 0,  9, 41, 0,  10, 42},
    {0,  11, 43, 0,  12, 44, 0,  13, 45, 0,  14, 46, 0,  15, 47, 0,
     16, 48, 0,  17, 49, 0,  18, 50, 0,  19, 51, 0,  20, 52, 0,  21},
    {53, 0,  22, 54, 0,  23, 55, 0,  24, 56, 0,  25, 57, 0,  26, 58,
     0,  27, 59, 0,  28, 60, 0,  29, 61, 0,  30, 62, 0,  31, 63, 0}};
static const uint16_t interleave_16_c[3][32] = {
    {0, 0, 0, 0, 0, 1, 0, 0, 2, 0, 0, 3, 0, 0, 4, 0,
     0, 5, 0, 0, 6, 0, 0, 7, 0, 0, 8, 0, 0, 9, 0, 0},
    {10, 0, 0,  11, 0, 0,  12, 0, 0,  13, 0, 0,  14, 0, 0,  15,
     0,  0, 16, 0,  0, 17, 0,  0, 18, 0,  0, 19, 0,  0, 20, 0},
    {0,  21, 0, 0,  22, 0, 0,  23, 0, 0,  24, 0, 0,  25, 0, 0,
     26, 0,  0, 27, 0,  0, 28, 0,  0, 29, 0,  0, 30, 0,  0, 31}};
static const uint32_t interleave_16_mask[3] = {0x24924924u, 0x49249249u, 0x92492492u};
static const uint32_t interleave_32_ab[3][16] = {
    {0, 16, 0, 1, 17, 0, 2, 18, 0, 3, 19, 0, 4, 20, 0, 5},
    {21, 0, 6, 22, 0, 7, 23, 0, 8, 24, 0, 9, 25, 0, 10, 26},
    {0, 11, 27, 0, 12, 28, 0, 13, 29, 0, 14, 30, 0, 15, 31, 0}};
static const uint32_t interleave_32_c[3][16] = {
    {0, 0, 0, 0, 0, 1, 0, 0, 2, 0, 0, 3, 0, 0, 4, 0},
    {0, 5, 0, 0, 6, 0, 0, 7, 0, 0, 8, 0, 0, 9, 0, 0},
    {10, 0, 0, 11, 0, 0, 12, 0, 0, 13, 0, 0, 14, 0, 0, 15}};
static const uint32_t interleave_32_mask[3] = {0x4924u, 0x2492u, 0x9249u};

/* One chunk of three rows, as pixels. */
INLINE void store_pixels(how h, uint8_t *to, const __m512i v[3], const __m512i ab[3],
                         const __m512i c[3], const ff_scales s[3], int64_t left, bool streams) {
    const int lanes = h == MOVE_32 ? 16 : 32;
    const size_t to_bytes = to_bytes_of(h);
    for (int k = 0; k < 3; k++, to += (size_t)lanes * to_bytes, left -= lanes) {
        __m512i w;
        if (h == MOVE_32) {
            w = _mm512_permutex2var_epi32(v[0], ab[k], v[1]);
            w = _mm512_mask_permutexvar_epi32(w, (__mmask16)interleave_32_mask[k], c[k], v[2]);
        } else {
            w = _mm512_permutex2var_epi16(v[0], ab[k], v[1]);
            w = _mm512_mask_permutexvar_epi16(w, interleave_16_mask[k], c[k], v[2]);
        }
        /* Lane 0 of half `i` of vector k shows channel (32 k + 16 i) % 3. */
        store(h, to, w, left, &s[2 * k % 3], &s[(2 * k + 1) % 3], streams);
    }
}

INLINE void interleave(how h, bool whole, const ff_augment_host *host,
                       const ff_augment_params *params, const void *source, uint32_t height,
                       uint32_t width, uint8_t *out) {
    const int lanes = h == MOVE_32 ? 16 : 32;
    const size_t from_bytes = from_bytes_of(h), to_bytes = to_bytes_of(h);
    row_plan plan;
    if (whole)
        plan_whole(&plan, host, params);
    else
        plan_chunks(&plan, host, params, width, lanes);
    const ff_augment_span rows = ff_augment_lines(host, params, height);
    const uint32_t out_height = host->out_height;
    const uint32_t out_width = whole ? 32 : host->out_width, count = whole ? 1 : plan.count;
    const size_t row_bytes = (whole ? 32 : (size_t)width) * from_bytes;
    const size_t plane_bytes = height * row_bytes;
    const uint8_t *row = (const uint8_t *)source + rows.source * row_bytes;
    const bool streams = ff_lanes_stream(host, out, (size_t)out_width * 3 * to_bytes);
    __m512i black[3], ab[3], c[3];
    ff_scales s[3];
    for (uint32_t k = 0; k < 3; k++) {
        if (from_bytes == 1) s[k] = ff_scales_of_pixels(host, k);
        black[k] = black_of(h, host, k);
        ab[k] = _mm512_loadu_si512(h == MOVE_32 ? (const void *)interleave_32_ab[k]
                                                : (const void *)interleave_16_ab[k]);
        c[k] = _mm512_loadu_si512(h == MOVE_32 ? (const void *)interleave_32_c[k]
                                               : (const void *)interleave_16_c[k]);
    }
    for (uint32_t y = 0; y < out_height; y++, out += (size_t)out_width * 3 * to_bytes) {
        bool inside = y >= rows.begin && y < rows.end;
        for (uint32_t i = 0; i < count; i++) {
            __m512i v[3] = {black[0], black[1], black[2]};
            for (uint32_t k = 0; k < 3 && inside; k++)
                v[k] = load(h, &plan, i, row + k * plane_bytes, black[k]);
            store_pixels(h, out + i * (size_t)lanes * 3 * to_bytes, v, ab, c, s,
                         whole ? 96 : ((int64_t)out_width - (int64_t)i * lanes) * 3, streams);
        }
        if (inside) row += row_bytes;
    }
}

/* ---- the versions --------------------------------------------------------------------------- */

#define DEFINE(name, body, h)                                                                      \
    FF_AVX512 static void name(const ff_augment_host *host, const ff_augment_params *params,       \
                               const void *source, uint32_t height, uint32_t width, void *out) {   \
        if (params->flags & FF_AUGMENT_VFLIP) {                                                    \
            ff_augment_rows(host, params, source, height, width, out);                             \
            return;                                                                                \
        }                                                                                          \
        if ((h) != MOVE_32 && width == 32 && host->out_width == 32)                                \
            body(h, true, host, params, source, height, width, out);                               \
        else                                                                                       \
            body(h, false, host, params, source, height, width, out);                              \
        if (host->streams) _mm_sfence();                                                           \
        if (params->cut_height) ff_augment_cut(host, params, out);                                 \
    }
DEFINE(planes_move_16, planes, MOVE_16)
DEFINE(planes_move_32, planes, MOVE_32)
DEFINE(planes_f16_f32, planes, F16_F32)
DEFINE(planes_bf16_f32, planes, BF16_F32)
DEFINE(planes_u8_f32, planes, U8_F32)
DEFINE(planes_u8_f16, planes, U8_F16)
DEFINE(interleave_u8_f32, interleave, U8_F32)
DEFINE(interleave_u8_f16, interleave, U8_F16)
DEFINE(interleave_move_16, interleave, MOVE_16)
DEFINE(interleave_move_32, interleave, MOVE_32)
DEFINE(interleave_f16_f32, interleave, F16_F32)
DEFINE(interleave_bf16_f32, interleave, BF16_F32)

bool ff_augment_wide(void) {
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512f");
}

ff_augment_apply ff_augment_avx512(const ff_augment_host *host) {
    if (!ff_augment_wide()) return NULL;
    uint32_t lanes = host->from_bytes == 4 ? 16 : 32;
    bool one = host->channels == 1;
    bool to_planes = one || (host->from_layout == FF_CHW && host->to_layout == FF_CHW);
    bool to_pixels =
        host->channels == 3 && host->from_layout == FF_CHW && host->to_layout == FF_HWC;
    if (host->pad_mode != FF_PAD_BLACK || host->out_width > CHUNKS_LIMIT * lanes ||
        !(to_planes || to_pixels))
        return NULL;
    if (host->from == host->to && host->to_bytes == 2)
        return to_planes ? planes_move_16 : interleave_move_16;
    if (host->from == host->to && host->to_bytes == 4)
        return to_planes ? planes_move_32 : interleave_move_32;
    if (host->from == FF_F16 && host->to == FF_F32)
        return to_planes ? planes_f16_f32 : interleave_f16_f32;
    if (host->from == FF_BF16 && host->to == FF_F32)
        return to_planes ? planes_bf16_f32 : interleave_bf16_f32;
    if (host->scale && host->to == FF_F32) return to_planes ? planes_u8_f32 : interleave_u8_f32;
    if (host->scale && host->to == FF_F16) return to_planes ? planes_u8_f16 : interleave_u8_f16;
    return NULL;
}

#else
bool ff_augment_wide(void) {
    return false;
}

ff_augment_apply ff_augment_avx512(const ff_augment_host *host) {
    (void)host;
    return NULL;
}
#endif
