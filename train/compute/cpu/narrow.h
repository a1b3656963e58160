/* Vectors of 16-bit elements to the upper halves of 32 bits, and back: the plain form, which GCC 12
 * turns into several instructions, and the forms of two instruction sets. Sums of a product that
 * are rounded once, which -ffp-contract=off leaves to intrinsics. The macros are for functions of
 * that instruction set. */
#ifndef FF_TRAIN_CPU_NARROW_H
#define FF_TRAIN_CPU_NARROW_H

#include "train/compute/vector.h"

/* p: the elements; h and w: vectors of 16 and of 32 bits. */
#define FF_WIDEN(p, h, w)     (__builtin_convertvector(*(const h *)(p), w) << 16)
#define FF_NARROW(p, bits, h) (*(h *)(p) = __builtin_convertvector((bits) >> 16, h))
#if FF_HAS_TARGETS
#include <immintrin.h>
#define FF_WIDEN_16(p) ((ff_w16)_mm512_slli_epi32(_mm512_cvtepu16_epi32(*(const __m256i *)(p)), 16))
#define FF_NARROW_16(p, bits)                                                                      \
    (*(__m256i *)(p) = _mm512_cvtepi32_epi16(_mm512_srli_epi32((__m512i)(bits), 16)))
#define FF_WIDEN_8(p)        ((ff_w8)_mm256_slli_epi32(_mm256_cvtepu16_epi32(*(const __m128i *)(p)), 16))
#define FF_NARROW_8(p, bits) (*(__m128i *)(p) = ff_upper_halves_8((__m256i)(bits)))
#define FF_FMA_16(a, b, c)   ((ff_v16)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define FF_FMA_8(a, b, c)    ((ff_v8)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
FF_AVX2 FF_INLINE __m128i ff_upper_halves_8(__m256i bits) {
    const __m256i halves = _mm256_srli_epi32(bits, 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
}
#endif

#endif
