/* The passes with AVX-512: pixels are selected from registers by permutations rather than gathered
 * from memory. */
#include "loader/augment/resample_rows.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))
#define INLINE AVX512 static inline __attribute__((always_inline))

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

AVX512 static void down(float *to, const float *const *row, const float *weight, uint32_t taps,
                        size_t count) {
    for (size_t at = 0; at < count; at += 16) {
        __m512 sum = _mm512_mul_ps(_mm512_set1_ps(weight[0]), _mm512_load_ps(row[0] + at));
        for (uint32_t k = 1; k < taps; k++)
            sum = _mm512_add_ps(
                sum, _mm512_mul_ps(_mm512_set1_ps(weight[k]), _mm512_load_ps(row[k] + at)));
        _mm512_store_ps(to + at, sum);
    }
}

const ff_resample_kernels *ff_resample_avx512(void) {
    static const ff_resample_kernels kernels = {
        .name = "avx512", .read = read_row, .write = write_row, .across = across, .down = down};
    bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl");
    return has ? &kernels : NULL;
}

#else
const ff_resample_kernels *ff_resample_avx512(void) {
    return NULL;
}
#endif
