/* What the passes with AVX2 share: of floats (resample_avx2.c) and of u8 in fixed point
 * (resample_bytes_avx2.c). Private to them. Thread rule: pure. */
#ifndef FF_LOADER_AUGMENT_RESAMPLE_AVX2_H
#define FF_LOADER_AUGMENT_RESAMPLE_AVX2_H

#include "loader/augment/resample_rows.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define AVX2   __attribute__((target("avx2,f16c")))
#define INLINE AVX2 static inline __attribute__((always_inline))

/* 16 bytes from each address, of which each serves four outputs. same: the addresses are. */
INLINE __m256i load_halves(bool same, const uint8_t *low, const uint8_t *high) {
    if (same) return _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)low));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)low)),
                                   _mm_loadu_si128((const void *)high), 1);
}

/* across_bytes and down_bytes of ff_resample_kernels. */
void ff_resample_across_avx2(const ff_resample_byte_block *block, uint32_t blocks,
                             uint32_t precision, const uint8_t *from, size_t from_stride,
                             uint32_t planes, uint8_t *to, size_t to_stride);
void ff_resample_down_avx2(uint8_t *to, const uint8_t *const *row, size_t at, const int16_t *weight,
                           uint32_t pairs, uint32_t precision, size_t count);

#endif
#endif
