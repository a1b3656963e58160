/* The passes with AVX2 and F16C: pixels are selected from registers by permutations, and gathered
 * from memory only where they are far apart, as gathers are slow. */
#include "loader/augment/resample_rows.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

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

AVX2 static void down(float *to, const float *const *row, const float *weight, uint32_t taps,
                      size_t count) {
    for (size_t at = 0; at < count; at += 8) {
        __m256 sum = _mm256_mul_ps(_mm256_set1_ps(weight[0]), _mm256_load_ps(row[0] + at));
        for (uint32_t k = 1; k < taps; k++)
            sum = _mm256_add_ps(
                sum, _mm256_mul_ps(_mm256_set1_ps(weight[k]), _mm256_load_ps(row[k] + at)));
        _mm256_store_ps(to + at, sum);
    }
}

const ff_resample_kernels *ff_resample_avx2(void) {
    static const ff_resample_kernels kernels = {
        .name = "avx2", .read = read_row, .write = write_row, .across = across, .down = down};
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") ? &kernels : NULL;
}

#else
const ff_resample_kernels *ff_resample_avx2(void) {
    return NULL;
}
#endif
