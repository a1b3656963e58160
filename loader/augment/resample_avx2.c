/* The passes with AVX2 and F16C: pixels are selected from registers by permutations, and gathered
 * from memory only where they are far apart, as gathers are slow. */
#include "loader/augment/resample_fixed.h"
#include "loader/augment/resample_rows.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <string.h>

#define AVX2   __attribute__((target("avx2,f16c")))
#define INLINE AVX2 static inline __attribute__((always_inline))

AVX2 static void read_row(float *to, const void *from, ff_dtype dtype, size_t count) {
    size_t i = 0;
    if (dtype == FF_F16)
        for (; i + 8 <= count; i += 8) {
            __m128i half = _mm_loadu_si128((const void *)((const uint16_t *)from + i));
            _mm256_storeu_ps(to + i, _mm256_cvtph_ps(half));
        }
    const char *rest = (const char *)from + i * ff_dtype_bytes(dtype);
    ff_resample_rows.read(to + i, rest, dtype, count - i);
}

AVX2 static void write_row(void *to, ff_dtype dtype, const float *from, size_t count) {
    size_t i = 0;
    if (dtype == FF_F16)
        for (; i + 8 <= count; i += 8) {
            __m256 v = _mm256_loadu_ps(from + i);
            _mm_storeu_si128((void *)((uint16_t *)to + i),
                             _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
        }
    ff_resample_rows.write((char *)to + i * ff_dtype_bytes(dtype), dtype, from + i, count - i);
}

/* 8 pixels of the `registers` x 8 that begin at `in`: permutations use the low three bits of an
 * index; the next two select the register as sign bits. */
INLINE __m256 pick(int registers, const float *in, const __m256 v[4], __m256i index) {
    if (registers == 0) return _mm256_i32gather_ps(in, index, 4);
    __m256 low = _mm256_permutevar8x32_ps(v[0], index);
    if (registers == 1) return low;
    __m256 bit_3 = _mm256_castsi256_ps(_mm256_slli_epi32(index, 28));
    low = _mm256_blendv_ps(low, _mm256_permutevar8x32_ps(v[1], index), bit_3);
    if (registers == 2) return low;
    __m256 high = _mm256_blendv_ps(_mm256_permutevar8x32_ps(v[2], index),
                                   _mm256_permutevar8x32_ps(v[3], index), bit_3);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(index, 27)));
}

/* Half a block of one plane, whose pixels begin at `in` + offset. registers 0: at any distance. */
INLINE void half_block(int registers, uint32_t taps, const float *weight, const int32_t *index,
                       int32_t offset, const float *in, float *out) {
    __m256 v[4] = {0}, sum = _mm256_setzero_ps();
    in += offset;
    for (int i = 0; i < registers; i++) v[i] = _mm256_loadu_ps(in + 8 * i);
    for (uint32_t k = 0; k < taps; k++, weight += 16, index += 16) {
        __m256i at =
            _mm256_sub_epi32(_mm256_load_si256((const void *)index), _mm256_set1_epi32(offset));
        __m256 product = _mm256_mul_ps(_mm256_load_ps(weight), pick(registers, in, v, at));
        sum = k ? _mm256_add_ps(sum, product) : product;
    }
    _mm256_store_ps(out, sum);
}

AVX2 static void across(const ff_resample_block *block, uint32_t blocks, const float *from,
                        size_t from_stride, uint32_t planes, float *to, size_t to_stride) {
    for (uint32_t b = 0; b < blocks; b++, block++, to += 16) {
        for (uint32_t half = 0; half < 16; half += 8) {
            const float *weight = block->weight + half;
            const int32_t *index = block->index + half;
            const int32_t *last = index + (block->taps - 1) * 16;
            /* Pixel indexes increase or decrease from lane to lane. */
            int32_t offset = index[0] < index[7] ? index[0] : index[7];
            int32_t span = (last[0] > last[7] ? last[0] : last[7]) - offset + 1;
            for (uint32_t plane = 0; plane < planes; plane++) {
                const float *in = from + plane * from_stride + block->base;
                float *out = to + plane * to_stride + half;
                if (span <= 8)
                    half_block(1, block->taps, weight, index, offset, in, out);
                else if (span <= 16)
                    half_block(2, block->taps, weight, index, offset, in, out);
                else if (span <= 32)
                    half_block(4, block->taps, weight, index, offset, in, out);
                else
                    half_block(0, block->taps, weight, index, offset, in, out);
            }
        }
    }
}

/* 16 bytes from each address, of which each serves four outputs. same: the addresses are. */
INLINE __m256i load_halves(bool same, const uint8_t *low, const uint8_t *high) {
    if (same) return _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)low));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)low)),
                                   _mm_loadu_si128((const void *)high), 1);
}

/* One block of all planes, by fours. After an output's own taps it reads what follows them, with
 * weight 0. */
INLINE void near_block_u8(uint32_t taps, bool same, const ff_resample_block *block,
                          const uint8_t *in, size_t in_stride, uint32_t planes, float *out,
                          size_t out_stride) {
    const __m256i lowest = _mm256_set1_epi32((int32_t)0x80808000);
    const uint32_t *offset = block->fours.offset, *at = block->fours.place;
    const __m256i place[2] = {_mm256_or_si256(_mm256_loadu_si256((const void *)at), lowest),
                              _mm256_or_si256(_mm256_loadu_si256((const void *)(at + 8)), lowest)};
    for (; planes; planes--, in += in_stride, out += out_stride)
        for (int h = 0; h < 2; h++) {
            const uint8_t *low = in + offset[2 * h], *high = in + offset[2 * h + 1];
            const float *weight = block->weight + 8 * h;
            __m256 sum = _mm256_setzero_ps();
            for (uint32_t k = 0; k < taps; k++, low++, high++, weight += 16) {
                const __m256 pixel =
                    _mm256_cvtepi32_ps(_mm256_shuffle_epi8(load_halves(same, low, high), place[h]));
                const __m256 product = _mm256_mul_ps(_mm256_load_ps(weight), pixel);
                sum = k ? _mm256_add_ps(sum, product) : product;
            }
            _mm256_store_ps(out + 8 * h, sum);
        }
}

/* The same of bytes at any distance. */
INLINE void far_block_u8(const ff_resample_block *block, const uint8_t *in, size_t in_stride,
                         uint32_t planes, float *out, size_t out_stride) {
    for (; planes; planes--, in += in_stride, out += out_stride)
        for (uint32_t half = 0; half < 16; half += 8) {
            __m256 sum = _mm256_setzero_ps();
            for (uint32_t at = half, k = 0; k < block->taps; k++, at += 16) {
                const __m256i index = _mm256_load_si256((const void *)(block->index + at));
                const __m256i four = _mm256_i32gather_epi32((const void *)in, index, 1);
                const __m256 pixel =
                    _mm256_cvtepi32_ps(_mm256_and_si256(four, _mm256_set1_epi32(255)));
                const __m256 product = _mm256_mul_ps(_mm256_load_ps(block->weight + at), pixel);
                sum = k ? _mm256_add_ps(sum, product) : product;
            }
            _mm256_store_ps(out + half, sum);
        }
}

AVX2 static void across_u8(const ff_resample_block *block, uint32_t blocks, const uint8_t *from,
                           size_t from_stride, uint32_t planes, float *to, size_t to_stride) {
    for (uint32_t b = 0; b < blocks; b++, block++, to += 16) {
        const uint8_t *in = from + block->base;
        if (!block->fours.near)
            far_block_u8(block, in, from_stride, planes, to, to_stride);
        else if (block->taps == 2 && block->fours.pairs)
            near_block_u8(2, true, block, in, from_stride, planes, to, to_stride);
        else if (block->taps == 3 && block->fours.pairs)
            near_block_u8(3, true, block, in, from_stride, planes, to, to_stride);
        else if (block->taps == 4 && block->fours.pairs)
            near_block_u8(4, true, block, in, from_stride, planes, to, to_stride);
        else
            near_block_u8(block->taps, false, block, in, from_stride, planes, to, to_stride);
    }
}

/* The weights of an output row, of which the first four are in registers, and its rows from `at`.
 */
typedef struct down_row {
    __m256 w[4], multiply, add;
    const float *in[4];
    const float *const *row, *weight;
    size_t at;
} down_row;

/* Eight outputs from `i` on. */
INLINE __m256 add_rows(const down_row *d, uint32_t taps, bool scales, size_t i) {
    __m256 sum = _mm256_mul_ps(d->w[0], _mm256_load_ps(d->in[0] + i));
    for (uint32_t k = 1; k < taps && k < 4; k++)
        sum = _mm256_add_ps(sum, _mm256_mul_ps(d->w[k], _mm256_load_ps(d->in[k] + i)));
    for (uint32_t k = 4; k < taps; k++)
        sum = _mm256_add_ps(sum, _mm256_mul_ps(_mm256_set1_ps(d->weight[k]),
                                               _mm256_load_ps(d->row[k] + d->at + i)));
    return scales ? _mm256_add_ps(_mm256_mul_ps(sum, d->multiply), d->add) : sum;
}

INLINE void down_taps(uint32_t taps, float *to, const float *const *row, size_t at,
                      const float *weight, size_t count, const float *scale, bool streams) {
    down_row d = {.row = row, .weight = weight, .at = at};
    d.multiply = _mm256_set1_ps(scale ? scale[0] : 1), d.add = _mm256_set1_ps(scale ? scale[1] : 0);
    for (uint32_t k = 0; k < taps && k < 4; k++)
        d.w[k] = _mm256_set1_ps(weight[k]), d.in[k] = row[k] + at;
    size_t i = 0;
    if (streams)
        for (; i + 8 <= count; i += 8) _mm256_stream_ps(to + i, add_rows(&d, taps, scale, i));
    else
        for (; i + 8 <= count; i += 8) _mm256_storeu_ps(to + i, add_rows(&d, taps, scale, i));
    if (i == count) return;
    float some[8];
    _mm256_storeu_ps(some, add_rows(&d, taps, scale, i));
    memcpy(to + i, some, (count - i) * sizeof *some);
}

AVX2 static void down(float *to, const float *const *row, size_t at, const float *weight,
                      uint32_t taps, size_t count, const float *scale, bool streams) {
    const bool aligned = streams && ((uintptr_t)to & 31) == 0;
    if (taps == 1)
        down_taps(1, to, row, at, weight, count, scale, aligned);
    else if (taps == 2)
        down_taps(2, to, row, at, weight, count, scale, aligned);
    else if (taps == 3)
        down_taps(3, to, row, at, weight, count, scale, aligned);
    else
        down_taps(taps, to, row, at, weight, count, scale, aligned);
}

/* ---- u8 in fixed point ---------------------------------------------------------------------- */

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
AVX2 static void across_bytes(const ff_resample_byte_block *block, uint32_t blocks,
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

AVX2 static void down_bytes(uint8_t *to, const uint8_t *const *row, size_t at,
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

const ff_resample_kernels *ff_resample_avx2(void) {
    static const ff_resample_kernels kernels = {.name = "avx2",
                                                .by_fours = true,
                                                .read = read_row,
                                                .write = write_row,
                                                .across = across,
                                                .across_u8 = across_u8,
                                                .down = down,
                                                .across_bytes = across_bytes,
                                                .down_bytes = down_bytes};
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") ? &kernels : NULL;
}

#else
const ff_resample_kernels *ff_resample_avx2(void) {
    return NULL;
}
#endif
