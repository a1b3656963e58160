/* The passes with AVX2 and F16C: pixels are selected from registers by permutations, and gathered
 * from memory only where they are far apart, as gathers are slow. */
#include "loader/augment/resample_avx2.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <string.h>

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

/* Three vectors of 8 values, one of each plane, interleaved. Of each plane one permutation puts the
 * values where the three outputs have them: each output has others of its places. */
INLINE void join_8(__m256 out[3], const float *from, size_t stride) {
    const __m256i first = _mm256_setr_epi32(0, 3, 6, 1, 4, 7, 2, 5);
    const __m256i second = _mm256_setr_epi32(5, 0, 3, 6, 1, 4, 7, 2);
    const __m256i third = _mm256_setr_epi32(2, 5, 0, 3, 6, 1, 4, 7);
    const __m256 a = _mm256_permutevar8x32_ps(_mm256_load_ps(from), first);
    const __m256 b = _mm256_permutevar8x32_ps(_mm256_load_ps(from + stride), second);
    const __m256 c = _mm256_permutevar8x32_ps(_mm256_load_ps(from + 2 * stride), third);
    out[0] = _mm256_blend_ps(_mm256_blend_ps(a, b, 0x92), c, 0x24);
    out[1] = _mm256_blend_ps(_mm256_blend_ps(a, b, 0x24), c, 0x49);
    out[2] = _mm256_blend_ps(_mm256_blend_ps(a, b, 0x49), c, 0x92);
}

AVX2 static void join(float *to, const float *from, size_t stride, size_t pixels, bool streams) {
    const bool aligned = streams && ((uintptr_t)to & 31) == 0;
    __m256 v[3];
    size_t x = 0;
    for (; x + 8 <= pixels; x += 8, to += 24) {
        join_8(v, from + x, stride);
        for (int i = 0; i < 3; i++)
            if (aligned)
                _mm256_stream_ps(to + 8 * i, v[i]);
            else
                _mm256_storeu_ps(to + 8 * i, v[i]);
    }
    if (x == pixels) return;
    join_8(v, from + x, stride);
    memcpy(to, v, 3 * (pixels - x) * sizeof *to);
}

const ff_resample_kernels *ff_resample_avx2(void) {
    static const ff_resample_kernels kernels = {.name = "avx2",
                                                .by_fours = true,
                                                .read = read_row,
                                                .write = write_row,
                                                .across = across,
                                                .across_u8 = across_u8,
                                                .down = down,
                                                .join = join,
                                                .across_bytes = ff_resample_across_avx2,
                                                .down_bytes = ff_resample_down_avx2};
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") ? &kernels : NULL;
}

#else
const ff_resample_kernels *ff_resample_avx2(void) {
    return NULL;
}
#endif
