/* The passes with AVX2 and F16C: pixels are selected from registers by permutations, and gathered
 * from memory only where they are far apart, as gathers are slow. */
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

INLINE void down_taps(uint32_t taps, float *to, const float *const *row, size_t at,
                      const float *weight, size_t count, const float *scale, bool streams) {
    __m256 w[4];
    for (uint32_t k = 0; k < taps && k < 4; k++) w[k] = _mm256_set1_ps(weight[k]);
    for (size_t i = 0; i < count; i += 8) {
        __m256 sum = _mm256_mul_ps(w[0], _mm256_load_ps(row[0] + at + i));
        for (uint32_t k = 1; k < taps; k++)
            sum = _mm256_add_ps(sum, _mm256_mul_ps(k < 4 ? w[k] : _mm256_set1_ps(weight[k]),
                                                   _mm256_load_ps(row[k] + at + i)));
        if (scale)
            sum = _mm256_add_ps(_mm256_mul_ps(sum, _mm256_set1_ps(scale[0])),
                                _mm256_set1_ps(scale[1]));
        if (count - i >= 8 && streams) {
            _mm256_stream_ps(to + i, sum);
        } else if (count - i >= 8) {
            _mm256_storeu_ps(to + i, sum);
        } else {
            float some[8];
            _mm256_storeu_ps(some, sum);
            memcpy(to + i, some, (count - i) * sizeof *some);
        }
    }
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

/* Four outputs in each half of a register, from 16 bytes. */
INLINE __m128i four_indexes(const uint32_t *index, uint32_t offset) {
    const __m128i at =
        _mm_sub_epi32(_mm_loadu_si128((const void *)index), _mm_set1_epi32((int32_t)offset));
    const __m128i pair = _mm_or_si128(at, _mm_slli_epi32(at, 16));
    return _mm_add_epi32(pair, _mm_set1_epi32((int32_t)0x80018000));
}

INLINE __m256i eight_sums(const uint8_t *low, const uint8_t *high, const int16_t *weight,
                          uint32_t pairs, __m256i index, __m256i sum) {
    for (uint32_t k = 0; k < pairs; k++, low += 2, high += 2, weight += 2 * FF_RESAMPLE_LANES) {
        const __m256i in =
            _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)low)),
                                    _mm_loadu_si128((const void *)high), 1);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(in, index),
                                                      _mm256_load_si256((const void *)weight)));
    }
    return sum;
}

/* Whether the outputs of each group of four begin within 15 bytes, so that a pair's 16 bytes hold
 * them. */
static bool within_groups(const uint32_t *index, uint32_t *offset) {
    bool fits = true;
    for (int g = 0; g < 4; g++) {
        const uint32_t a = index[4 * g], b = index[4 * g + 3];
        offset[g] = a < b ? a : b;
        fits &= (a < b ? b : a) - offset[g] < 15;
    }
    return fits;
}

AVX2 static void across_bytes(const ff_resample_byte_block *block, uint32_t blocks,
                              uint32_t precision, const uint8_t *from, size_t from_stride,
                              uint32_t planes, uint8_t *to, size_t to_stride) {
    const __m256i half = _mm256_set1_epi32(1 << (precision - 1));
    const __m128i shift = _mm_cvtsi32_si128((int32_t)precision);
    for (uint32_t b = 0; b < blocks; b++, block++, to += 16) {
        uint32_t offset[4];
        if (!within_groups(block->index, offset)) {
            ff_resample_rows.across_bytes(block, 1, precision, from, from_stride, planes, to,
                                          to_stride);
            continue;
        }
        __m256i index[2];
        for (int h = 0; h < 2; h++)
            index[h] = _mm256_inserti128_si256(
                _mm256_castsi128_si256(four_indexes(block->index + 8 * h, offset[2 * h])),
                four_indexes(block->index + 8 * h + 4, offset[2 * h + 1]), 1);
        for (uint32_t plane = 0; plane < planes; plane++) {
            const uint8_t *in = from + plane * from_stride + block->base;
            __m256i sum[2];
            for (int h = 0; h < 2; h++)
                sum[h] = _mm256_sra_epi32(eight_sums(in + offset[2 * h], in + offset[2 * h + 1],
                                                     block->weight + 16 * h, block->pairs, index[h],
                                                     half),
                                          shift);
            const __m256i words =
                _mm256_permute4x64_epi64(_mm256_packs_epi32(sum[0], sum[1]), 0xd8);
            _mm_storeu_si128((void *)(to + plane * to_stride),
                             _mm_packus_epi16(_mm256_castsi256_si128(words),
                                              _mm256_extracti128_si256(words, 1)));
        }
    }
}

AVX2 static void down_bytes(uint8_t *to, const uint8_t *const *row, const int16_t *weight,
                            uint32_t pairs, uint32_t precision, size_t count) {
    const __m256i half = _mm256_set1_epi32(1 << (precision - 1)), zero = _mm256_setzero_si256();
    const __m128i shift = _mm_cvtsi32_si128((int32_t)precision);
    for (size_t at = 0; at < count; at += 32) {
        __m256i s0 = half, s1 = half, s2 = half, s3 = half;
        for (uint32_t k = 0; k < pairs; k++) {
            int32_t both;
            memcpy(&both, weight + 2 * k, sizeof both);
            const __m256i w = _mm256_set1_epi32(both);
            const __m256i a = _mm256_load_si256((const void *)(row[2 * k] + at));
            const __m256i b = _mm256_load_si256((const void *)(row[2 * k + 1] + at));
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
        _mm256_store_si256((void *)(to + at), _mm256_packus_epi16(first, second));
    }
}

const ff_resample_kernels *ff_resample_avx2(void) {
    static const ff_resample_kernels kernels = {.name = "avx2",
                                                .read = read_row,
                                                .write = write_row,
                                                .across = across,
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
