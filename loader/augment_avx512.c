/* The AVX-512 version: a row of 32 16-bit or 16 32-bit pixels is one masked load, one permutation
 * that moves or mirrors it, one blend with the padding and one store. Masked lanes are not read, so
 * a load may begin before a row or end behind it. Three planes become interleaved pixels by two
 * permutations a vector. Samples with reflected padding, very wide outputs, other channel counts
 * and rarer types are left to the rows version. */
#include "loader/augment_host.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx2,f16c,avx512f,avx512bw,avx512vl")))
#define INLINE static inline __attribute__((always_inline)) AVX512

#define CHUNKS_LIMIT 64

/* A vector of output columns: where to load from, and which lanes of the load and of the output
 * hold pixels, which of the output exist. */
typedef struct chunk {
    ptrdiff_t offset; /* of lane 0 from the row's pixel 0 */
    uint32_t load, inside, store;
} chunk;

/* Bits [begin, end), both clamped to [0, lanes]. */
static uint32_t range_mask(int64_t begin, int64_t end, int lanes) {
    if (begin < 0) begin = 0;
    if (end > lanes) end = lanes;
    if (begin >= end) return 0;
    return (uint32_t)((UINT64_C(1) << end) - (UINT64_C(1) << begin));
}

static uint32_t plan_chunks(chunk *chunks, const ff_augment_host *host,
                            const ff_augment_params *params, uint32_t width, int lanes) {
    ff_augment_span span = ff_augment_columns(host, params, width);
    bool flip = params->flags & FF_AUGMENT_FLIP;
    int64_t out = host->out_width;
    uint32_t count = 0;
    for (int64_t first = 0; first < out; first += lanes, count++) {
        int64_t begin = (int64_t)span.begin - first, end = (int64_t)span.end - first;
        if (end > lanes) end = lanes;
        if (begin < 0) begin = 0;
        chunk *at = &chunks[count];
        at->store = range_mask(0, out - first, lanes);
        at->inside = range_mask(begin, end, lanes);
        at->load = flip ? range_mask(lanes - end, lanes - begin, lanes) : at->inside;
        if (begin >= end) at->load = 0;
        at->offset =
            (ptrdiff_t)(flip ? params->x + out - 1 - first - (lanes - 1) : params->x + first);
    }
    return count;
}

/* The address may lie outside of the source; only lanes inside of it are read. */
static inline const void *element_at(const void *row, ptrdiff_t offset, size_t bytes) {
    return (const void *)((uintptr_t)row + (uintptr_t)offset * bytes);
}

/* Lane order of a load: as it is, or mirrored. */
INLINE __m512i order_16(bool flip) {
    static const uint16_t up[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
    __m512i order = _mm512_loadu_si512(up);
    return flip ? _mm512_sub_epi16(_mm512_set1_epi16(31), order) : order;
}
INLINE __m512i order_32(bool flip) {
    __m512i order = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return flip ? _mm512_sub_epi32(_mm512_set1_epi32(15), order) : order;
}

/* A chunk of 16-bit elements in the output's order, padding filled in. */
INLINE __m512i load_move_16(const void *row, const chunk *at, __m512i order, __m512i black) {
    __m512i v = _mm512_maskz_loadu_epi16(at->load, element_at(row, at->offset, 2));
    return _mm512_mask_permutexvar_epi16(black, at->inside, order, v);
}
INLINE __m512i load_move_32(const void *row, const chunk *at, __m512i order, __m512i black) {
    __m512i v = _mm512_maskz_loadu_epi32((__mmask16)at->load, element_at(row, at->offset, 4));
    return _mm512_mask_permutexvar_epi32(black, (__mmask16)at->inside, order, v);
}
INLINE __m512i load_f16_f32(const void *row, const chunk *at, __m512i order, __m512i black) {
    __m256i h = _mm256_maskz_loadu_epi16((__mmask16)at->load, element_at(row, at->offset, 2));
    __m512i v = _mm512_castps_si512(_mm512_cvtph_ps(h));
    return _mm512_mask_permutexvar_epi32(black, (__mmask16)at->inside, order, v);
}
INLINE __m512i load_bf16_f32(const void *row, const chunk *at, __m512i order, __m512i black) {
    __m256i h = _mm256_maskz_loadu_epi16((__mmask16)at->load, element_at(row, at->offset, 2));
    __m512i v = _mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16);
    return _mm512_mask_permutexvar_epi32(black, (__mmask16)at->inside, order, v);
}

/* Planes to planes (or one channel). `from_bytes`, `to_bytes`: of an element; `lanes` a vector. */
#define DEFINE_PLANES(name, load, bits, lanes, from_bytes, to_bytes)                               \
    AVX512 static void name(const ff_augment_host *host, const ff_augment_params *params,          \
                            const void *source, uint32_t height, uint32_t width, void *out) {      \
        chunk chunks[CHUNKS_LIMIT];                                                                \
        uint32_t count = plan_chunks(chunks, host, params, width, lanes);                          \
        __m512i order = order_##bits(params->flags & FF_AUGMENT_FLIP);                             \
        uint8_t *to = out;                                                                         \
        for (uint32_t channel = 0; channel < host->channels; channel++) {                          \
            const uint8_t *plane =                                                                 \
                (const uint8_t *)source + (size_t)channel * height * width * from_bytes;           \
            __m512i black = _mm512_set1_epi##bits((int##bits##_t)host->black[channel]);            \
            for (uint32_t y = 0; y < host->out_height; y++) {                                      \
                int32_t at = params->y + (int32_t)y;                                               \
                bool inside = at >= 0 && at < (int32_t)height;                                     \
                const uint8_t *row = plane + (inside ? (size_t)at * width * from_bytes : 0);       \
                for (uint32_t i = 0; i < count; i++) {                                             \
                    __m512i v = inside ? load(row, &chunks[i], order, black) : black;              \
                    _mm512_mask_storeu_epi##bits(to + (size_t)i * 64, chunks[i].store, v);         \
                }                                                                                  \
                to += (size_t)host->out_width * to_bytes;                                          \
            }                                                                                      \
        }                                                                                          \
        ff_augment_cut(host, params, out);                                                         \
    }

/* Three planes to interleaved pixels: output vector k of a chunk takes its lanes of channels 0 and
 * 1 by one permutation of both, and those of channel 2 by another. */
static const uint32_t interleave_32_ab[3][16] = {
    {0, 16, 0, 1, 17, 0, 2, 18, 0, 3, 19, 0, 4, 20, 0, 5},
    {21, 0, 6, 22, 0, 7, 23, 0, 8, 24, 0, 9, 25, 0, 10, 26},
    {0, 11, 27, 0, 12, 28, 0, 13, 29, 0, 14, 30, 0, 15, 31, 0}};
static const uint32_t interleave_32_c[3][16] = {
    {0, 0, 0, 0, 0, 1, 0, 0, 2, 0, 0, 3, 0, 0, 4, 0},
    {0, 5, 0, 0, 6, 0, 0, 7, 0, 0, 8, 0, 0, 9, 0, 0},
    {10, 0, 0, 11, 0, 0, 12, 0, 0, 13, 0, 0, 14, 0, 0, 15}};
static const uint32_t interleave_32_mask[3] = {0x4924u, 0x2492u, 0x9249u};
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

#define DEFINE_INTERLEAVE(name, load, bits, lanes, from_bytes, to_bytes)                           \
    AVX512 static void name(const ff_augment_host *host, const ff_augment_params *params,          \
                            const void *source, uint32_t height, uint32_t width, void *out) {      \
        chunk chunks[CHUNKS_LIMIT];                                                                \
        uint32_t count = plan_chunks(chunks, host, params, width, lanes);                          \
        __m512i order = order_##bits(params->flags & FF_AUGMENT_FLIP);                             \
        __m512i black[3], ab[3], c[3];                                                             \
        for (int k = 0; k < 3; k++) {                                                              \
            black[k] = _mm512_set1_epi##bits((int##bits##_t)host->black[k]);                       \
            ab[k] = _mm512_loadu_si512(interleave_##bits##_ab[k]);                                 \
            c[k] = _mm512_loadu_si512(interleave_##bits##_c[k]);                                   \
        }                                                                                          \
        size_t plane = (size_t)height * width * from_bytes;                                        \
        uint8_t *to_row = out;                                                                     \
        for (uint32_t y = 0; y < host->out_height; y++) {                                          \
            int32_t at = params->y + (int32_t)y;                                                   \
            bool inside = at >= 0 && at < (int32_t)height;                                         \
            const uint8_t *row =                                                                   \
                (const uint8_t *)source + (inside ? (size_t)at * width * from_bytes : 0);          \
            for (uint32_t i = 0; i < count; i++) {                                                 \
                __m512i v[3];                                                                      \
                for (int k = 0; k < 3; k++)                                                        \
                    v[k] = inside ? load(row + (size_t)k * plane, &chunks[i], order, black[k])     \
                                  : black[k];                                                      \
                uint8_t *to = to_row + (size_t)i * 3 * 64;                                         \
                int64_t left = ((int64_t)host->out_width - (int64_t)i * lanes) * 3;                \
                for (int k = 0; k < 3; k++) {                                                      \
                    __m512i w = _mm512_permutex2var_epi##bits(v[0], ab[k], v[1]);                  \
                    w = _mm512_mask_permutexvar_epi##bits(                                         \
                        w, (__mmask##lanes)interleave_##bits##_mask[k], c[k], v[2]);               \
                    if (left >= 3 * lanes)                                                         \
                        _mm512_storeu_si512(to + k * 64, w);                                       \
                    else                                                                           \
                        _mm512_mask_storeu_epi##bits(                                              \
                            to + k * 64, (__mmask##lanes)range_mask(0, left - k * lanes, lanes),   \
                            w);                                                                    \
                }                                                                                  \
            }                                                                                      \
            to_row += (size_t)host->out_width * 3 * to_bytes;                                      \
        }                                                                                          \
        ff_augment_cut(host, params, out);                                                         \
    }

DEFINE_PLANES(planes_move_16, load_move_16, 16, 32, 2, 2)
DEFINE_PLANES(planes_move_32, load_move_32, 32, 16, 4, 4)
DEFINE_PLANES(planes_f16_f32, load_f16_f32, 32, 16, 2, 4)
DEFINE_PLANES(planes_bf16_f32, load_bf16_f32, 32, 16, 2, 4)
DEFINE_INTERLEAVE(interleave_move_16, load_move_16, 16, 32, 2, 2)
DEFINE_INTERLEAVE(interleave_move_32, load_move_32, 32, 16, 4, 4)
DEFINE_INTERLEAVE(interleave_f16_f32, load_f16_f32, 32, 16, 2, 4)
DEFINE_INTERLEAVE(interleave_bf16_f32, load_bf16_f32, 32, 16, 2, 4)

ff_augment_apply ff_augment_avx512(const ff_augment_host *host) {
    if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl") ||
        !__builtin_cpu_supports("avx512f"))
        return NULL;
    uint32_t lanes = host->to_bytes == 2 ? 32 : 16;
    bool one = host->channels == 1;
    bool planes = one || (host->from_layout == FF_CHW && host->to_layout == FF_CHW);
    bool interleave =
        host->channels == 3 && host->from_layout == FF_CHW && host->to_layout == FF_HWC;
    if (host->pad_mode != FF_PAD_BLACK || host->out_width > CHUNKS_LIMIT * lanes ||
        !(planes || interleave))
        return NULL;
    if (host->from == host->to && host->to_bytes == 2)
        return planes ? planes_move_16 : interleave_move_16;
    if (host->from == host->to && host->to_bytes == 4)
        return planes ? planes_move_32 : interleave_move_32;
    if (host->from == FF_F16 && host->to == FF_F32)
        return planes ? planes_f16_f32 : interleave_f16_f32;
    if (host->from == FF_BF16 && host->to == FF_F32)
        return planes ? planes_bf16_f32 : interleave_bf16_f32;
    return NULL;
}

#else
ff_augment_apply ff_augment_avx512(const ff_augment_host *host) {
    (void)host;
    return NULL;
}
#endif
