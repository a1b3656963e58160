/* In place of the compiler's header: AVX-512 in plain C, so that any processor runs the kernels
 * that use it. SIMDe (https://github.com/simd-everywhere/simde) has most of the functions; those
 * that SIMDe 0.7.4 lacks are here, by Intel's Intrinsics Guide. Thread rule: pure. */
#ifndef FF_TESTS_AVX512_H
#define FF_TESTS_AVX512_H

#define SIMDE_ENABLE_NATIVE_ALIASES
#define SIMDE_NO_NATIVE
#include <math.h>
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>
#include <string.h>

typedef uint16_t __mmask16;
typedef uint32_t __mmask32;
typedef uint64_t __mmask64;

/* Loads and stores of the elements whose bit is set. */
#define MASKED_LOAD(name, vector, element, mask)                                                   \
    static inline vector name(mask wanted, const void *from) {                                     \
        element each[sizeof(vector) / sizeof(element)] = {0};                                      \
        vector all;                                                                                \
        for (size_t i = 0; i < sizeof each / sizeof *each; i++)                                    \
            if (wanted >> i & 1) memcpy(each + i, (const element *)from + i, sizeof *each);        \
        memcpy(&all, each, sizeof all);                                                            \
        return all;                                                                                \
    }
#define MASKED_STORE(name, vector, element, mask)                                                  \
    static inline void name(void *to, mask wanted, vector all) {                                   \
        element each[sizeof(vector) / sizeof(element)];                                            \
        memcpy(each, &all, sizeof each);                                                           \
        for (size_t i = 0; i < sizeof each / sizeof *each; i++)                                    \
            if (wanted >> i & 1) memcpy((element *)to + i, each + i, sizeof *each);                \
    }
MASKED_LOAD(_mm256_maskz_loadu_epi8, __m256i, uint8_t, __mmask32)
MASKED_LOAD(_mm256_maskz_loadu_epi16, __m256i, uint16_t, __mmask16)
MASKED_LOAD(_mm512_maskz_loadu_epi8, __m512i, uint8_t, __mmask64)
MASKED_LOAD(_mm512_maskz_loadu_epi16, __m512i, uint16_t, __mmask32)
MASKED_LOAD(_mm512_maskz_loadu_epi32, __m512i, uint32_t, __mmask16)
MASKED_LOAD(_mm512_maskz_loadu_ps, __m512, float, __mmask16)
MASKED_STORE(_mm_mask_storeu_epi8, __m128i, uint8_t, __mmask16)
MASKED_STORE(_mm256_mask_storeu_epi8, __m256i, uint8_t, __mmask32)
MASKED_STORE(_mm256_mask_storeu_epi16, __m256i, uint16_t, __mmask16)
MASKED_STORE(_mm512_mask_storeu_epi8, __m512i, uint8_t, __mmask64)
MASKED_STORE(_mm512_mask_storeu_epi16, __m512i, uint16_t, __mmask32)
MASKED_STORE(_mm512_mask_storeu_epi32, __m512i, uint32_t, __mmask16)
MASKED_STORE(_mm512_mask_storeu_ps, __m512, float, __mmask16)

/* Past the caches: an address that is not aligned raises a signal on a processor. */
#define STREAM(name, vector)                                                                       \
    static inline void name(void *to, vector all) {                                                \
        if ((uintptr_t)to % sizeof all) __builtin_trap();                                          \
        memcpy(to, &all, sizeof all);                                                              \
    }
STREAM(_mm512_stream_ps, __m512)
STREAM(_mm512_stream_si512, __m512i)

/* Sixteen or 32 elements, each by an expression of `v`. */
#define CONVERT(name, from_vector, from, to_vector, to, expression)                                \
    static inline to_vector name(from_vector all) {                                                \
        from each[sizeof(from_vector) / sizeof(from)];                                             \
        to made[sizeof each / sizeof *each];                                                       \
        to_vector result;                                                                          \
        _Static_assert(sizeof result == sizeof made, "a conversion keeps the number of elements"); \
        memcpy(each, &all, sizeof each);                                                           \
        for (size_t i = 0; i < sizeof each / sizeof *each; i++) {                                  \
            const from v = each[i];                                                                \
            made[i] = (to)(expression);                                                            \
        }                                                                                          \
        memcpy(&result, made, sizeof result);                                                      \
        return result;                                                                             \
    }
CONVERT(_mm512_cvtepi32_ps, __m512i, int32_t, __m512, float, v)
CONVERT(_mm512_cvtepi32_epi8, __m512i, uint32_t, __m128i, uint8_t, v)
CONVERT(_mm512_cvtusepi32_epi8, __m512i, uint32_t, __m128i, uint8_t, v < 255 ? v : 255)
CONVERT(_mm512_cvtepu8_epi16, __m256i, uint8_t, __m512i, uint16_t, v)
CONVERT(_mm512_cvtepu16_epi32, __m256i, uint16_t, __m512i, uint32_t, v)
CONVERT(_mm512_cvtph_ps, __m256i, _Float16, __m512, float, v)
CONVERT(nearest_cvtps_ph, __m512, float, __m256i, _Float16, v)
CONVERT(upward_cvtepu32_ps, __m512i, uint32_t, __m512, float,
        (float)v < (double)v ? nextafterf((float)v, INFINITY) : (float)v)
/* The kernels round the first to nearest even and the second upwards. */
#define _mm512_cvtps_ph(all, rounding)          nearest_cvtps_ph(all)
#define _mm512_cvt_roundepu32_ps(all, rounding) upward_cvtepu32_ps(all)

/* Rounded once, which SIMDe's is not. */
static inline __m512 fused_fmadd_ps(__m512 a, __m512 b, __m512 c) {
    float x[16], y[16], z[16];
    memcpy(x, &a, sizeof x), memcpy(y, &b, sizeof y), memcpy(z, &c, sizeof z);
    for (int i = 0; i < 16; i++) z[i] = fmaf(x[i], y[i], z[i]);
    memcpy(&c, z, sizeof z);
    return c;
}
#undef _mm512_fmadd_ps
#define _mm512_fmadd_ps(a, b, c) fused_fmadd_ps(a, b, c)

/* Elements at byte offsets index * scale. */
static inline __m512i _mm512_i32gather_epi32(__m512i index, const void *from, int scale) {
    int32_t at[16], each[16];
    __m512i all;
    memcpy(at, &index, sizeof at);
    for (int i = 0; i < 16; i++)
        memcpy(each + i, (const char *)from + (ptrdiff_t)at[i] * scale, sizeof *each);
    memcpy(&all, each, sizeof all);
    return all;
}
#define _mm512_i32gather_ps(index, from, scale)                                                    \
    _mm512_castsi512_ps(_mm512_i32gather_epi32(index, from, scale))

static inline __m512i _mm512_srai_epi32(__m512i all, unsigned bits) {
    int32_t each[16];
    memcpy(each, &all, sizeof each);
    for (int i = 0; i < 16; i++) each[i] >>= bits < 31 ? bits : 31;
    memcpy(&all, each, sizeof all);
    return all;
}

#endif
