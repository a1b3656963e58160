/* Shared by the AVX-512 versions of loader/augment/host.h: masks, stores, and how u8 become floats.
 * Private to loader/augment. Thread rule: pure. */
#ifndef FF_LOADER_AUGMENT_HOST_AVX512_H
#define FF_LOADER_AUGMENT_HOST_AVX512_H

#include "loader/augment/host.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define FF_AVX512        __attribute__((target("avx2,f16c,avx512f,avx512bw,avx512vl")))
#define FF_AVX512_INLINE static inline __attribute__((always_inline)) FF_AVX512

/* Bits [begin, end), both clamped to [0, lanes]; lanes <= 64. */
static inline uint64_t ff_lanes(int64_t begin, int64_t end, int lanes) {
    if (begin < 0) begin = 0;
    if (end > lanes) end = lanes;
    if (begin >= end) return 0;
    return UINT64_MAX >> (64 - (end - begin)) << begin;
}

/* Whether stores pass the caches by: all rows of the output must be aligned. */
FF_AVX512_INLINE bool ff_lanes_stream(const ff_augment_host *host, const uint8_t *out,
                                      size_t row_bytes) {
    return host->streams && ((uintptr_t)out & 63) == 0 && row_bytes % 64 == 0;
}

/* Stores up to `left` elements of 32 or 16 bits; masked stores are slow, so they are used only
 * where needed. */
FF_AVX512_INLINE void ff_store_32(uint8_t *to, __m512i v, int64_t left, bool streams) {
    if (left >= 16 && streams)
        _mm512_stream_si512((void *)to, v);
    else if (left >= 16)
        _mm512_storeu_si512(to, v);
    else if (left > 0)
        _mm512_mask_storeu_epi32(to, (__mmask16)ff_lanes(0, left, 16), v);
}

FF_AVX512_INLINE void ff_store_16(uint8_t *to, __m512i v, int64_t left, bool streams) {
    if (left >= 32 && streams)
        _mm512_stream_si512((void *)to, v);
    else if (left >= 32)
        _mm512_storeu_si512(to, v);
    else if (left > 0)
        _mm512_mask_storeu_epi16(to, (__mmask32)ff_lanes(0, left, 32), v);
}

/* Stores up to `left` of 32 floats as f32 or f16. */
FF_AVX512_INLINE void ff_store_floats(bool half, uint8_t *to, __m512 low, __m512 high, int64_t left,
                                      bool streams) {
    if (!half) {
        ff_store_32(to, _mm512_castps_si512(low), left, streams);
        ff_store_32(to + 64, _mm512_castps_si512(high), left - 16, streams);
        return;
    }
    const __m256i below = _mm512_cvtps_ph(low, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256i above = _mm512_cvtps_ph(high, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    ff_store_16(to, _mm512_inserti64x4(_mm512_castsi256_si512(below), above, 1), left, streams);
}

/* ff_augment_scale by lane. */
typedef struct ff_scales {
    __m512 mean, high, low; /* 1 / std = high + low */
} ff_scales;

/* All lanes of one channel. */
FF_AVX512_INLINE ff_scales ff_scales_of(const ff_augment_scale *own) {
    return (ff_scales){_mm512_set1_ps(own->mean), _mm512_set1_ps(own->std.high),
                       _mm512_set1_ps(own->std.low)};
}

/* The lanes' channels: `first`, first + 1, ..., modulo 3. */
FF_AVX512_INLINE ff_scales ff_scales_of_pixels(const ff_augment_host *host, uint32_t first) {
    static const __mmask16 every_third[3] = {0x9249, 0x2492, 0x4924}; /* lane % 3 = 0, 1, 2 */
    ff_scales s = ff_scales_of(&host->scale[first]);
    for (uint32_t k = 1; k < 3; k++) {
        const ff_scales own = ff_scales_of(&host->scale[(first + k) % 3]);
        s.mean = _mm512_mask_mov_ps(s.mean, every_third[k], own.mean);
        s.high = _mm512_mask_mov_ps(s.high, every_third[k], own.high);
        s.low = _mm512_mask_mov_ps(s.low, every_third[k], own.low);
    }
    return s;
}

/* The low byte of each lane, four times. */
FF_AVX512_INLINE __m512i ff_four_times(__m512i lanes) {
    return _mm512_shuffle_epi8(lanes, _mm512_broadcast_i32x4(_mm_setr_epi8(
                                          0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12)));
}

/* Sixteen u8, each of which fills the four bytes of a lane, as ff_augment_scaled.
 *
 * v * 0x01010101 are the first four digits of 2^32 v / 255 to the base 256, which are all v.
 * Rounding to f32 cuts off the last digit's bits up to its highest one, and so more than half of
 * the last place that stays: rounded up it is 2^32 (v / 255) rounded to the nearest. */
FF_AVX512_INLINE __m512 ff_scale_lanes(__m512i four, const ff_scales *s) {
    const __m512 q = _mm512_cvt_roundepu32_ps(four, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
    const __m512 x = _mm512_sub_ps(q, s->mean);
    return _mm512_fmadd_ps(x, s->high, _mm512_mul_ps(x, s->low));
}

#endif
#endif
