/* What host_shuffles_avx2.c loads and stores: pieces of 16 bytes of a plane, which may be
 * converted. Private to it. Thread rule: pure. */
#ifndef FF_LOADER_AUGMENT_HOST_SHUFFLES_H
#define FF_LOADER_AUGMENT_HOST_SHUFFLES_H

#include "loader/augment/host.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define FF_AVX2        __attribute__((target("avx2,f16c,fma")))
#define FF_AVX2_INLINE static inline __attribute__((always_inline)) FF_AVX2

enum { FF_PIECE_BYTES = 16, FF_PIECE_THREE = 3 * FF_PIECE_BYTES, FF_PIECES_LIMIT = 128 };

typedef enum ff_piece_how {
    FF_PIECE_MOVE_8,
    FF_PIECE_U8_F16,
    FF_PIECE_U8_F32,
    FF_PIECE_MOVE_16,
    FF_PIECE_F16_F32,
    FF_PIECE_BF16_F32
} ff_piece_how;

FF_AVX2_INLINE uint32_t ff_piece_from_bytes(ff_piece_how h) {
    return h <= FF_PIECE_U8_F32 ? 1 : 2;
}

FF_AVX2_INLINE uint32_t ff_piece_to_bytes(ff_piece_how h) {
    return h == FF_PIECE_MOVE_8 ? 1 : h == FF_PIECE_U8_F16 || h == FF_PIECE_MOVE_16 ? 2 : 4;
}

/* The columns of a piece. */
FF_AVX2_INLINE uint32_t ff_piece_columns(ff_piece_how h) {
    return FF_PIECE_BYTES / ff_piece_from_bytes(h);
}

/* ---- pieces --------------------------------------------------------------------------------- */

typedef struct ff_piece {
    ptrdiff_t offset; /* bytes from a row's pixel 0 to the first load; may be negative */
    uint32_t column;  /* of the output; the last piece overlaps the one before */
    uint8_t inside[FF_PIECE_THREE]; /* bytes of the loads that show pixels: 255, else 0 */
} ff_piece;

/* 255 for the bytes `first` to first + 15 that are in [begin, end), else 0. */
FF_AVX2_INLINE __m128i ff_piece_between(int first, int begin, int end) {
    const __m128i up = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m128i at = _mm_add_epi8(up, _mm_set1_epi8((char)first));
    return _mm_and_si128(_mm_cmpgt_epi8(at, _mm_set1_epi8((char)(begin - 1))),
                         _mm_cmpgt_epi8(_mm_set1_epi8((char)end), at));
}

/* A row's pieces, and the bytes from its pixel 0 on which their first loads begin. */
typedef struct ff_pieces {
    uint32_t count;
    ptrdiff_t low, high;
    ff_piece piece[FF_PIECES_LIMIT];
} ff_pieces;

/* `planes`: loads are of one plane each, or of one channel. */
FF_AVX2_INLINE void ff_pieces_plan(ff_pieces *plan, ff_piece_how h, bool planes,
                                   const ff_augment_host *host, const ff_augment_params *params,
                                   uint32_t width) {
    const ff_augment_span span = ff_augment_columns(host, params, width);
    const bool flip = params->flags & FF_AUGMENT_FLIP;
    const int64_t out = host->out_width, columns = ff_piece_columns(h);
    const int bytes = (int)ff_piece_from_bytes(h) * (planes ? 1 : 3);
    plan->count = 0;
    plan->low = PTRDIFF_MAX, plan->high = PTRDIFF_MIN;
    for (int64_t first = 0; first < out; first += columns) {
        ff_piece *own = &plan->piece[plan->count++];
        if (first + columns > out) first = out - columns;
        int64_t begin = (int64_t)span.begin - first, end = (int64_t)span.end - first;
        begin = begin < 0 ? 0 : begin < columns ? begin : columns;
        end = end < begin ? begin : end < columns ? end : columns;
        if (flip) {
            const int64_t kept = begin;
            begin = columns - end, end = columns - kept;
        }
        own->column = (uint32_t)first;
        own->offset = bytes * (flip ? params->x + out - first - columns : params->x + first);
        if (own->offset < plan->low) plan->low = own->offset;
        if (own->offset > plan->high) plan->high = own->offset;
        for (int k = 0; k < 3; k++)
            _mm_storeu_si128((__m128i *)(void *)(own->inside + k * FF_PIECE_BYTES),
                             ff_piece_between(planes ? 0 : k * FF_PIECE_BYTES, (int)begin * bytes,
                                              (int)end * bytes));
    }
}

/* A sample, and where its loads begin. */
typedef struct ff_piece_source {
    const uint8_t *bytes;
    ptrdiff_t count;
} ff_piece_source;

/* The bytes from `at` on that are inside the sample; others become 0. */
__attribute__((noinline, unused)) static void
ff_piece_copy(uint8_t to[FF_PIECE_BYTES], const ff_piece_source *s, ptrdiff_t at) {
    const ptrdiff_t begin = at > 0 ? at : 0;
    const ptrdiff_t end = at + FF_PIECE_BYTES < s->count ? at + FF_PIECE_BYTES : s->count;
    memset(to, 0, FF_PIECE_BYTES);
    if (begin < end) memcpy(to + (begin - at), s->bytes + begin, (size_t)(end - begin));
}

/* Whether no load of a row that begins at `row` leaves the sample. last: where its last load
 * begins, from the first. */
FF_AVX2_INLINE bool ff_pieces_free(const ff_piece_source *s, const ff_pieces *plan, ptrdiff_t row,
                                   ptrdiff_t last) {
    return row + plan->low >= 0 && row + plan->high + last + FF_PIECE_BYTES <= s->count;
}

/* 16 bytes from `at` on, with padding: `black` where `inside` is 0. Black u8 are 0. free: the load
 * cannot leave the sample. */
FF_AVX2_INLINE __m128i ff_piece_load(ff_piece_how h, bool free, const ff_piece_source *s,
                                     ptrdiff_t at, const uint8_t *inside, __m128i black) {
    const __m128i shown = _mm_loadu_si128((const __m128i *)(const void *)inside);
    uint8_t copy[FF_PIECE_BYTES];
    if (!free) ff_piece_copy(copy, s, at);
    const uint8_t *from = free ? s->bytes + at : copy;
    const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)from);
    return ff_piece_from_bytes(h) == 1 ? _mm_and_si128(v, shown) : _mm_blendv_epi8(black, v, shown);
}

/* ---- u8 as floats --------------------------------------------------------------------------- */

/* ff_augment_scale by lane, times 2^24 in place of 2^32. */
typedef struct ff_eight_scales {
    __m256 mean, high, low; /* 1 / std = high + low */
} ff_eight_scales;

/* The lanes' channels: `first`, first + step, ..., modulo 3 if step is not 0. */
FF_AVX2_INLINE ff_eight_scales ff_eight_scales_of(const ff_augment_host *host, uint32_t first,
                                                  uint32_t step) {
    float mean[8], high[8], low[8];
    for (uint32_t lane = 0; lane < 8; lane++) {
        const ff_augment_scale *own = &host->scale[step ? (first + lane * step) % 3 : first];
        mean[lane] = own->mean * 0x1p-8f;
        high[lane] = own->std.high * 0x1p8f, low[lane] = own->std.low * 0x1p8f;
    }
    return (ff_eight_scales){_mm256_loadu_ps(mean), _mm256_loadu_ps(high), _mm256_loadu_ps(low)};
}

/* Which of 16 bytes the eight lanes from `first` on hold, three times each. */
FF_AVX2_INLINE __m256i ff_piece_spread(int first, bool flip) {
    const __m256i lanes = _mm256_setr_epi32(0x80000000, 0x80010101, 0x80020202, 0x80030303,
                                            0x80040404, 0x80050505, 0x80060606, 0x80070707);
    const __m256i order = _mm256_add_epi8(lanes, _mm256_set1_epi32(first * 0x010101));
    return flip ? _mm256_xor_si256(order, _mm256_set1_epi32(0x0f0f0f)) : order;
}

/* Eight u8, three times each in the low bytes of a lane, as ff_augment_scaled.
 *
 * v * 0x010101 are the first three digits of 2^24 v / 255 to the base 256, which are all v: as an
 * integer 2^24 v / 255 * (1 - 2^-24). One operation multiplies it by 1 + 2^-24 and rounds it. */
FF_AVX2_INLINE __m256 ff_eight_normalized(__m256i three, const ff_eight_scales *s) {
    const __m256 digits = _mm256_cvtepi32_ps(three);
    const __m256 q = _mm256_fmadd_ps(digits, _mm256_set1_ps(0x1p-24f), digits);
    const __m256 x = _mm256_sub_ps(q, s->mean);
    return _mm256_fmadd_ps(x, s->high, _mm256_mul_ps(x, s->low));
}

/* ---- stores --------------------------------------------------------------------------------- */

FF_AVX2_INLINE void ff_put_16(uint8_t *to, __m128i v, bool streams) {
    if (streams)
        _mm_stream_si128((__m128i *)(void *)to, v);
    else
        _mm_storeu_si128((__m128i *)(void *)to, v);
}

FF_AVX2_INLINE void ff_put_floats(bool half, uint8_t *to, __m256 v, bool streams) {
    if (half)
        ff_put_16(to, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), streams);
    else if (streams)
        _mm256_stream_ps((float *)(void *)to, v);
    else
        _mm256_storeu_ps((float *)(void *)to, v);
}

/* 16 u8 in each half of `both`, as floats. */
FF_AVX2_INLINE void ff_piece_store_floats(ff_piece_how h, uint8_t *to, __m256i both,
                                          const __m256i order[2], const ff_eight_scales *first,
                                          const ff_eight_scales *second, bool streams) {
    ff_put_floats(h == FF_PIECE_U8_F16, to,
                  ff_eight_normalized(_mm256_shuffle_epi8(both, order[0]), first), streams);
    ff_put_floats(h == FF_PIECE_U8_F16, to + 8 * ff_piece_to_bytes(h),
                  ff_eight_normalized(_mm256_shuffle_epi8(both, order[1]), second), streams);
}

/* The elements of 16 bytes, in order. s: of u8, for each half. */
FF_AVX2_INLINE void ff_piece_store(ff_piece_how h, uint8_t *to, __m128i v, const __m256i order[2],
                                   const ff_eight_scales *first, const ff_eight_scales *second,
                                   bool streams) {
    if (h == FF_PIECE_MOVE_8 || h == FF_PIECE_MOVE_16)
        ff_put_16(to, v, streams);
    else if (h == FF_PIECE_F16_F32)
        ff_put_floats(false, to, _mm256_cvtph_ps(v), streams);
    else if (h == FF_PIECE_BF16_F32)
        ff_put_floats(false, to,
                      _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16)),
                      streams);
    else
        ff_piece_store_floats(h, to, _mm256_broadcastsi128_si256(v), order, first, second, streams);
}

#endif
#endif
