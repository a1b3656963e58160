/* The passes with AVX-512: pixels are selected from registers by permutations rather than gathered
 * from memory. */
#include "loader/augment/resample_fixed.h"
#include "loader/augment/resample_rows.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <string.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))
#define INLINE AVX512 static inline __attribute__((always_inline))
/* What selects and multiplies bytes. */
#define VBMI        __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")))
#define INLINE_VBMI VBMI static inline __attribute__((always_inline))

AVX512 static void read_f16(float *to, const uint16_t *from, size_t count) {
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(from + i))));
    __mmask16 rest = (__mmask16)((1u << (count - i)) - 1);
    _mm512_mask_storeu_ps(to + i, rest, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(rest, from + i)));
}

static void read_row(float *to, const void *from, ff_dtype dtype, size_t count) {
    if (dtype == FF_F16)
        read_f16(to, from, count);
    else
        ff_resample_rows.read(to, from, dtype, count);
}

AVX512 static void write_f16(uint16_t *to, const float *from, size_t count) {
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        _mm256_storeu_si256((void *)(to + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    __mmask16 rest = (__mmask16)((1u << (count - i)) - 1);
    _mm256_mask_storeu_epi16(
        to + i, rest,
        _mm512_cvtps_ph(_mm512_maskz_loadu_ps(rest, from + i), _MM_FROUND_TO_NEAREST_INT));
}

static void write_row(void *to, ff_dtype dtype, const float *from, size_t count) {
    if (dtype == FF_F16)
        write_f16(to, from, count);
    else
        ff_resample_rows.write(to, dtype, from, count);
}

/* 16 pixels of the `registers` x 16 that begin at `in`. */
INLINE __m512 pick(int registers, const float *in, const __m512 v[4], __m512i index) {
    if (registers == 0) return _mm512_i32gather_ps(index, in, 4);
    if (registers == 1) return _mm512_permutexvar_ps(index, v[0]);
    __m512 low = _mm512_permutex2var_ps(v[0], index, v[1]);
    if (registers == 2) return low;
    __m512 high = _mm512_permutex2var_ps(v[2], index, v[3]);
    return _mm512_mask_mov_ps(low, _mm512_cmpge_epi32_mask(index, _mm512_set1_epi32(32)), high);
}

/* One block of one plane. registers 0: at any distance. */
INLINE void one_block(int registers, const ff_resample_block *block, const float *in, float *out) {
    __m512 v[4] = {0};
    for (int i = 0; i < registers; i++) v[i] = _mm512_loadu_ps(in + 16 * i);
    __m512 sum = _mm512_mul_ps(_mm512_load_ps(block->weight),
                               pick(registers, in, v, _mm512_load_si512(block->index)));
    for (uint32_t k = 1; k < block->taps; k++) {
        __m512i index = _mm512_load_si512(block->index + k * 16);
        sum = _mm512_add_ps(sum, _mm512_mul_ps(_mm512_load_ps(block->weight + k * 16),
                                               pick(registers, in, v, index)));
    }
    _mm512_store_ps(out, sum);
}

AVX512 static void across(const ff_resample_block *block, uint32_t blocks, const float *from,
                          size_t from_stride, uint32_t planes, float *to, size_t to_stride) {
    for (uint32_t b = 0; b < blocks; b++, block++, to += 16) {
        for (uint32_t plane = 0; plane < planes; plane++) {
            const float *in = from + plane * from_stride + block->base;
            float *out = to + plane * to_stride;
            if (block->span <= 16)
                one_block(1, block, in, out);
            else if (block->span <= 32)
                one_block(2, block, in, out);
            else if (block->span <= 64)
                one_block(4, block, in, out);
            else
                one_block(0, block, in, out);
        }
    }
}

/* One block of all planes, of bytes that are within 64. After an output's own taps it may read any
 * of them, with weight 0. */
INLINE_VBMI void near_block_u8(uint32_t taps, const ff_resample_block *block, const uint8_t *in,
                               size_t in_stride, uint32_t planes, float *out, size_t out_stride) {
    const __mmask64 lowest = 0x1111111111111111u;
    const __m512i first = _mm512_load_si512(block->index);
    for (; planes; planes--, in += in_stride, out += out_stride) {
        const __m512i v = _mm512_loadu_si512(in);
        __m512i index = first;
        __m512 sum = _mm512_setzero_ps();
        for (uint32_t k = 0; k < taps; k++) {
            const __m512 pixel =
                _mm512_cvtepi32_ps(_mm512_maskz_permutexvar_epi8(lowest, index, v));
            const __m512 product = _mm512_mul_ps(_mm512_load_ps(block->weight + k * 16), pixel);
            sum = k ? _mm512_add_ps(sum, product) : product;
            index = _mm512_add_epi32(index, _mm512_set1_epi32(1));
        }
        _mm512_store_ps(out, sum);
    }
}

/* The same of bytes at any distance. */
INLINE_VBMI void far_block_u8(const ff_resample_block *block, const uint8_t *in, size_t in_stride,
                              uint32_t planes, float *out, size_t out_stride) {
    for (; planes; planes--, in += in_stride, out += out_stride) {
        __m512 sum = _mm512_setzero_ps();
        for (uint32_t k = 0; k < block->taps; k++) {
            const __m512i at = _mm512_load_si512(block->index + k * 16);
            const __m512i four = _mm512_i32gather_epi32(at, in, 1);
            const __m512 pixel = _mm512_cvtepi32_ps(_mm512_and_si512(four, _mm512_set1_epi32(255)));
            const __m512 product = _mm512_mul_ps(_mm512_load_ps(block->weight + k * 16), pixel);
            sum = k ? _mm512_add_ps(sum, product) : product;
        }
        _mm512_store_ps(out, sum);
    }
}

VBMI static void across_u8(const ff_resample_block *block, uint32_t blocks, const uint8_t *from,
                           size_t from_stride, uint32_t planes, float *to, size_t to_stride) {
    for (uint32_t b = 0; b < blocks; b++, block++, to += 16) {
        const uint8_t *in = from + block->base;
        if (block->span > 64)
            far_block_u8(block, in, from_stride, planes, to, to_stride);
        else if (block->taps == 2)
            near_block_u8(2, block, in, from_stride, planes, to, to_stride);
        else if (block->taps == 3)
            near_block_u8(3, block, in, from_stride, planes, to, to_stride);
        else
            near_block_u8(block->taps, block, in, from_stride, planes, to, to_stride);
    }
}

INLINE void down_taps(uint32_t taps, float *to, const float *const *row, size_t at,
                      const float *weight, size_t count, const float *scale, bool streams) {
    __m512 w[4];
    for (uint32_t k = 0; k < taps && k < 4; k++) w[k] = _mm512_set1_ps(weight[k]);
    for (size_t i = 0; i < count; i += 16) {
        __m512 sum = _mm512_mul_ps(w[0], _mm512_load_ps(row[0] + at + i));
        for (uint32_t k = 1; k < taps; k++)
            sum = _mm512_add_ps(sum, _mm512_mul_ps(k < 4 ? w[k] : _mm512_set1_ps(weight[k]),
                                                   _mm512_load_ps(row[k] + at + i)));
        if (scale)
            sum = _mm512_add_ps(_mm512_mul_ps(sum, _mm512_set1_ps(scale[0])),
                                _mm512_set1_ps(scale[1]));
        if (count - i >= 16 && streams)
            _mm512_stream_ps(to + i, sum);
        else if (count - i >= 16)
            _mm512_storeu_ps(to + i, sum);
        else
            _mm512_mask_storeu_ps(to + i, (__mmask16)((1u << (count - i)) - 1), sum);
    }
}

AVX512 static void down(float *to, const float *const *row, size_t at, const float *weight,
                        uint32_t taps, size_t count, const float *scale, bool streams) {
    const bool aligned = streams && ((uintptr_t)to & 63) == 0;
    if (taps == 1)
        down_taps(1, to, row, at, weight, count, scale, aligned);
    else if (taps == 2)
        down_taps(2, to, row, at, weight, count, scale, aligned);
    else if (taps == 3)
        down_taps(3, to, row, at, weight, count, scale, aligned);
    else
        down_taps(taps, to, row, at, weight, count, scale, aligned);
}

/* The lanes of three registers of interleaved pixels: of the first two planes (16 and above: the
 * second), then of those and the third plane (16 and above). */
static const int32_t first_two[3][16] = {
    {0, 16, 0, 1, 17, 1, 2, 18, 2, 3, 19, 3, 4, 20, 4, 5},
    {21, 5, 6, 22, 6, 7, 23, 7, 8, 24, 8, 9, 25, 9, 10, 26},
    {10, 11, 27, 11, 12, 28, 12, 13, 29, 13, 14, 30, 14, 15, 31, 15},
};
static const int32_t with_third[3][16] = {
    {0, 1, 16, 3, 4, 17, 6, 7, 18, 9, 10, 19, 12, 13, 20, 15},
    {0, 21, 2, 3, 22, 5, 6, 23, 8, 9, 24, 11, 12, 25, 14, 15},
    {26, 1, 2, 27, 4, 5, 28, 7, 8, 29, 10, 11, 30, 13, 14, 31},
};

/* Stores 48 values or fewer. */
INLINE void store_pixels(float *to, const __m512 v[3], size_t count) {
    for (size_t i = 0; i < 3; i++) {
        const size_t here = count > 16 * i ? count - 16 * i : 0;
        _mm512_mask_storeu_ps(to + 16 * i,
                              here < 16 ? (__mmask16)((1u << here) - 1) : (__mmask16)0xffff, v[i]);
    }
}

AVX512 static void join(float *to, const float *from, size_t stride, size_t pixels, bool streams) {
    const bool aligned = streams && ((uintptr_t)to & 63) == 0;
    for (size_t x = 0; x < pixels; x += 16, to += 48) {
        const __m512 a = _mm512_load_ps(from + x), b = _mm512_load_ps(from + stride + x);
        const __m512 c = _mm512_load_ps(from + 2 * stride + x);
        __m512 v[3];
        for (int i = 0; i < 3; i++) {
            v[i] = _mm512_permutex2var_ps(a, _mm512_loadu_si512(first_two[i]), b);
            v[i] = _mm512_permutex2var_ps(v[i], _mm512_loadu_si512(with_third[i]), c);
        }
        if (!aligned || pixels - x < 16)
            store_pixels(to, v, 3 * (pixels - x));
        else
            for (int i = 0; i < 3; i++) _mm512_stream_ps(to + 16 * i, v[i]);
    }
}

/* ---- u8 in fixed point ---------------------------------------------------------------------- */

/* One block of all planes, of bytes that are within 64. */
INLINE_VBMI void block_bytes(uint32_t pairs, const ff_resample_byte_block *block,
                             uint32_t precision, const uint8_t *in, size_t in_stride,
                             uint32_t planes, uint8_t *out, size_t out_stride) {
    const __m512i half = _mm512_set1_epi32(1 << (precision - 1));
    const __m128i shift = _mm_cvtsi32_si128((int32_t)precision);
    const __mmask64 even = 0x5555555555555555u;
    __m512i first = _mm512_loadu_si512(block->index);
    first = _mm512_or_si512(first, _mm512_slli_epi32(first, 16));
    first = _mm512_add_epi32(first, _mm512_set1_epi32(0x10000));
    for (; planes; planes--, in += in_stride, out += out_stride) {
        const __m512i v = _mm512_loadu_si512(in);
        __m512i sum = half, index = first;
        for (uint32_t k = 0; k < pairs; k++) {
            sum = _mm512_dpwssd_epi32(sum, _mm512_maskz_permutexvar_epi8(even, index, v),
                                      _mm512_load_si512(block->weight + 32 * k));
            index = _mm512_add_epi32(index, _mm512_set1_epi32(0x20002));
        }
        _mm_storeu_si128((void *)out, _mm512_cvtusepi32_epi8(_mm512_srl_epi32(sum, shift)));
    }
}

VBMI static void across_bytes(const ff_resample_byte_block *block, uint32_t blocks,
                              uint32_t precision, const uint8_t *from, size_t from_stride,
                              uint32_t planes, uint8_t *to, size_t to_stride) {
    for (uint32_t b = 0; b < blocks; b++, block++, to += 16) {
        const uint8_t *in = from + block->base;
        if (block->span > 64)
            ff_resample_rows.across_bytes(block, 1, precision, from, from_stride, planes, to,
                                          to_stride);
        else if (block->pairs == 1)
            block_bytes(1, block, precision, in, from_stride, planes, to, to_stride);
        else if (block->pairs == 2)
            block_bytes(2, block, precision, in, from_stride, planes, to, to_stride);
        else
            block_bytes(block->pairs, block, precision, in, from_stride, planes, to, to_stride);
    }
}

/* Stores 64 outputs, or `count` of them. */
INLINE_VBMI void store_bytes(uint8_t *to, __m512i v, size_t count) {
    _mm512_mask_storeu_epi8(to, count < 64 ? (1ull << count) - 1 : ~0ull, v);
}

/* Words between two others, as ff_resample_blend has them. */
INLINE_VBMI __m512i between(__m512i a, __m512i b, __m512i share) {
    return _mm512_add_epi16(a, _mm512_mulhrs_epi16(_mm512_sub_epi16(b, a), share));
}

/* Each output lies between two rows. share: 2 w of the second. */
INLINE_VBMI void blend_rows(uint8_t *to, const uint8_t *first, const uint8_t *second, int32_t share,
                            size_t count) {
    const __m512i w = _mm512_set1_epi16((int16_t)share), zero = _mm512_setzero_si512();
    for (size_t x = 0; x < count; x += 64) {
        const __m512i a = _mm512_load_si512(first + x), b = _mm512_load_si512(second + x);
        const __m512i low =
            between(_mm512_unpacklo_epi8(a, zero), _mm512_unpacklo_epi8(b, zero), w);
        const __m512i high =
            between(_mm512_unpackhi_epi8(a, zero), _mm512_unpackhi_epi8(b, zero), w);
        store_bytes(to + x, _mm512_packus_epi16(low, high), count - x);
    }
}

INLINE_VBMI void down_pairs(uint32_t pairs, uint8_t *to, const uint8_t *const *row, size_t at,
                            const int16_t *weight, uint32_t precision, size_t count) {
    const __m512i half = _mm512_set1_epi32(1 << (precision - 1)), zero = _mm512_setzero_si512();
    const __m128i shift = _mm_cvtsi32_si128((int32_t)precision);
    for (size_t x = 0; x < count; x += 64) {
        __m512i s0 = half, s1 = half, s2 = half, s3 = half;
        for (uint32_t k = 0; k < pairs; k++) {
            int32_t both;
            memcpy(&both, weight + 2 * k, sizeof both);
            const __m512i w = _mm512_set1_epi32(both);
            const __m512i a = _mm512_load_si512(row[2 * k] + at + x);
            const __m512i b = _mm512_load_si512(row[2 * k + 1] + at + x);
            const __m512i low = _mm512_unpacklo_epi8(a, b), high = _mm512_unpackhi_epi8(a, b);
            s0 = _mm512_dpwssd_epi32(s0, _mm512_unpacklo_epi8(low, zero), w);
            s1 = _mm512_dpwssd_epi32(s1, _mm512_unpackhi_epi8(low, zero), w);
            s2 = _mm512_dpwssd_epi32(s2, _mm512_unpacklo_epi8(high, zero), w);
            s3 = _mm512_dpwssd_epi32(s3, _mm512_unpackhi_epi8(high, zero), w);
        }
        const __m512i first =
            _mm512_packs_epi32(_mm512_srl_epi32(s0, shift), _mm512_srl_epi32(s1, shift));
        const __m512i second =
            _mm512_packs_epi32(_mm512_srl_epi32(s2, shift), _mm512_srl_epi32(s3, shift));
        store_bytes(to + x, _mm512_packus_epi16(first, second), count - x);
    }
}

VBMI static void down_bytes(uint8_t *to, const uint8_t *const *row, size_t at,
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

const ff_resample_kernels *ff_resample_avx512(void) {
    static const ff_resample_kernels older = {.name = "avx512 without VBMI",
                                              .by_fours = true, /* AVX2's across_bytes */
                                              .read = read_row,
                                              .write = write_row,
                                              .across = across,
                                              .down = down,
                                              .join = join};
    static const ff_resample_kernels all = {.name = "avx512",
                                            .read = read_row,
                                            .write = write_row,
                                            .across = across,
                                            .across_u8 = across_u8,
                                            .down = down,
                                            .join = join,
                                            .across_bytes = across_bytes,
                                            .down_bytes = down_bytes};
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512vl"))
        return NULL;
    return __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni") ? &all
                                                                                        : &older;
}

#else
const ff_resample_kernels *ff_resample_avx512(void) {
    return NULL;
}
#endif
