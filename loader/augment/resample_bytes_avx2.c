/* The passes of u8 in fixed point with AVX2. */
#include "loader/augment/resample_avx2.h"
#include "loader/augment/resample_fixed.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <string.h>

INLINE __m256i eight_sums(bool same, const uint8_t *low, const uint8_t *high, const int16_t *weight,
                          uint32_t pairs, __m256i place, __m256i sum) {
    for (uint32_t k = 0; k < pairs; k++, low += 2, high += 2, weight += 2 * FF_RESAMPLE_LANES)
        sum = _mm256_add_epi32(
            sum, _mm256_madd_epi16(_mm256_shuffle_epi8(load_halves(same, low, high), place),
                                   _mm256_load_si256((const void *)weight)));
    return sum;
}

INLINE void block_bytes(uint32_t pairs, bool same, const ff_resample_byte_block *block,
                        uint32_t precision, const uint8_t *in, size_t in_stride, uint32_t planes,
                        uint8_t *out, size_t out_stride) {
    const __m256i half = _mm256_set1_epi32(1 << (precision - 1));
    const __m128i shift = _mm_cvtsi32_si128((int32_t)precision);
    const uint32_t *offset = block->fours.offset;
    __m256i place[2];
    for (int h = 0; h < 2; h++) {
        const __m256i at = _mm256_loadu_si256((const void *)(block->fours.place + 8 * h));
        place[h] = _mm256_add_epi32(_mm256_or_si256(at, _mm256_slli_epi32(at, 16)),
                                    _mm256_set1_epi32((int32_t)0x80018000));
    }
    for (; planes; planes--, in += in_stride, out += out_stride) {
        __m256i sum[2];
        for (int h = 0; h < 2; h++)
            sum[h] = _mm256_sra_epi32(eight_sums(same, in + offset[2 * h], in + offset[2 * h + 1],
                                                 block->weight + 16 * h, pairs, place[h], half),
                                      shift);
        const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(sum[0], sum[1]), 0xd8);
        _mm_storeu_si128((void *)out, _mm_packus_epi16(_mm256_castsi256_si128(words),
                                                       _mm256_extracti128_si256(words, 1)));
    }
}

/* Words between two others, as ff_resample_blend has them. */
INLINE __m256i between(__m256i a, __m256i b, __m256i share) {
    return _mm256_add_epi16(a, _mm256_mulhrs_epi16(_mm256_sub_epi16(b, a), share));
}

INLINE void blend_block(const ff_resample_byte_block *block, const uint8_t *in, size_t in_stride,
                        uint32_t planes, uint8_t *out, size_t out_stride) {
    const __m256i a = _mm256_loadu_si256((const void *)block->blend.a);
    const __m256i b = _mm256_loadu_si256((const void *)block->blend.b);
    const __m256i share = _mm256_loadu_si256((const void *)block->blend.share);
    const uint8_t *high = in + block->fours.offset[2];
    in += block->fours.offset[0];
    for (; planes; planes--, in += in_stride, high += in_stride, out += out_stride) {
        const __m256i v = load_halves(false, in, high);
        const __m256i words = between(_mm256_shuffle_epi8(v, a), _mm256_shuffle_epi8(v, b), share);
        _mm_storeu_si128((void *)out, _mm_packus_epi16(_mm256_castsi256_si128(words),
                                                       _mm256_extracti128_si256(words, 1)));
    }
}

INLINE void across_planes(const ff_resample_byte_block *block, uint32_t blocks, uint32_t precision,
                          const uint8_t *from, size_t from_stride, uint32_t planes, uint8_t *to,
                          size_t to_stride) {
    for (uint32_t b = 0; b < blocks; b++, block++, to += 16) {
        const uint8_t *in = from + block->base;
        if (block->blend.whole)
            blend_block(block, in, from_stride, planes, to, to_stride);
        else if (!block->fours.near)
            ff_resample_rows.across_bytes(block, 1, precision, from, from_stride, planes, to,
                                          to_stride);
        else if (block->pairs == 1 && block->fours.pairs)
            block_bytes(1, true, block, precision, in, from_stride, planes, to, to_stride);
        else if (block->pairs == 2 && block->fours.pairs)
            block_bytes(2, true, block, precision, in, from_stride, planes, to, to_stride);
        else
            block_bytes(block->pairs, false, block, precision, in, from_stride, planes, to,
                        to_stride);
    }
}

/* A constant number of planes: loops without counters. */
AVX2 void ff_resample_across_avx2(const ff_resample_byte_block *block, uint32_t blocks,
                                  uint32_t precision, const uint8_t *from, size_t from_stride,
                                  uint32_t planes, uint8_t *to, size_t to_stride) {
    if (planes == 3)
        across_planes(block, blocks, precision, from, from_stride, 3, to, to_stride);
    else
        across_planes(block, blocks, precision, from, from_stride, planes, to, to_stride);
}

/* 32 outputs, or `count` of them. */
INLINE void store_bytes(uint8_t *to, __m256i v, size_t count) {
    uint8_t some[32];
    if (count >= sizeof some) {
        _mm256_storeu_si256((void *)to, v);
        return;
    }
    _mm256_storeu_si256((void *)some, v);
    memcpy(to, some, count);
}

/* Each output lies between two rows. share: 2 w of the second. */
INLINE void blend_rows(uint8_t *to, const uint8_t *first, const uint8_t *second, int32_t share,
                       size_t count) {
    const __m256i w = _mm256_set1_epi16((int16_t)share), zero = _mm256_setzero_si256();
    for (size_t x = 0; x < count; x += 32) {
        const __m256i a = _mm256_load_si256((const void *)(first + x));
        const __m256i b = _mm256_load_si256((const void *)(second + x));
        const __m256i low =
            between(_mm256_unpacklo_epi8(a, zero), _mm256_unpacklo_epi8(b, zero), w);
        const __m256i high =
            between(_mm256_unpackhi_epi8(a, zero), _mm256_unpackhi_epi8(b, zero), w);
        store_bytes(to + x, _mm256_packus_epi16(low, high), count - x);
    }
}

INLINE void down_pairs(uint32_t pairs, uint8_t *to, const uint8_t *const *row, size_t at,
                       const int16_t *weight, uint32_t precision, size_t count) {
    const __m256i half = _mm256_set1_epi32(1 << (precision - 1)), zero = _mm256_setzero_si256();
    const __m128i shift = _mm_cvtsi32_si128((int32_t)precision);
    for (size_t x = 0; x < count; x += 32) {
        __m256i s0 = half, s1 = half, s2 = half, s3 = half;
        for (uint32_t k = 0; k < pairs; k++) {
            int32_t both;
            memcpy(&both, weight + 2 * k, sizeof both);
            const __m256i w = _mm256_set1_epi32(both);
            const __m256i a = _mm256_load_si256((const void *)(row[2 * k] + at + x));
            const __m256i b = _mm256_load_si256((const void *)(row[2 * k + 1] + at + x));
            const __m256i low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b);
            s0 = _mm256_add_epi32(s0, _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), w));
            s1 = _mm256_add_epi32(s1, _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), w));
            s2 = _mm256_add_epi32(s2, _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), w));
            s3 = _mm256_add_epi32(s3, _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), w));
        }
        const __m256i first =
            _mm256_packs_epi32(_mm256_sra_epi32(s0, shift), _mm256_sra_epi32(s1, shift));
        const __m256i second =
            _mm256_packs_epi32(_mm256_sra_epi32(s2, shift), _mm256_sra_epi32(s3, shift));
        store_bytes(to + x, _mm256_packus_epi16(first, second), count - x);
    }
}

AVX2 void ff_resample_down_avx2(uint8_t *to, const uint8_t *const *row, size_t at,
                                const int16_t *weight, uint32_t pairs, uint32_t precision,
                                size_t count) {
    if (pairs == 1 && weight[0] + weight[1] == FF_FIXED_WHOLE)
        blend_rows(to, row[weight[1] == FF_FIXED_WHOLE] + at, row[1] + at, 2 * weight[1], count);
    else if (pairs == 1)
        down_pairs(1, to, row, at, weight, precision, count);
    else if (pairs == 2)
        down_pairs(2, to, row, at, weight, precision, count);
    else
        down_pairs(pairs, to, row, at, weight, precision, count);
}
#endif
