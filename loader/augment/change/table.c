#include "loader/augment/change/table.h"

#include "format/base/compiler.h"

#include <string.h>

/* Eight values are stored together: a value alone waits for the one before, which may be its place.
 */
void ff_change_look_up_plain(uint8_t *to, const uint8_t *from, size_t count,
                             const uint8_t table[256]) {
    uint8_t some[8];
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        for (int k = 0; k < 8; k++) some[k] = table[from[i + (size_t)k]];
        memcpy(to + i, some, 8);
    }
    for (; i < count; i++) to[i] = table[from[i]];
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define VBMI __attribute__((target("avx512f,avx512bw,avx512vbmi")))

/* The table lies in four registers: one permutation looks 64 values up in two of them, another in
 * the other two, and a value's highest bit chooses. */
VBMI static void look_up_vbmi(uint8_t *to, const uint8_t *from, size_t count,
                              const uint8_t table[256]) {
    const __m512i a = _mm512_loadu_si512(table), b = _mm512_loadu_si512(table + 64);
    const __m512i c = _mm512_loadu_si512(table + 128), d = _mm512_loadu_si512(table + 192);
    for (size_t i = 0; i + 64 <= count; i += 64) {
        const __m512i v = _mm512_loadu_si512(from + i);
        const __m512i low = _mm512_permutex2var_epi8(a, v, b);
        const __m512i high = _mm512_permutex2var_epi8(c, v, d);
        _mm512_storeu_si512(to + i, _mm512_mask_blend_epi8(_mm512_movepi8_mask(v), low, high));
    }
    ff_change_look_up_plain(to + count / 64 * 64, from + count / 64 * 64, count % 64, table);
}

#define AVX2   __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline)) AVX2

/* The entries of values 0 to 127 of a half of the table, by signed values: 0 for negative ones.
 *
 * A shuffle looks up a value's low four bits, or gives 0 if it is negative. After `k` subtractions
 * of 16 that holds for values below 16 k, so step k adds what differs from the step before. */
INLINE __m256i look_up_half(__m256i v, const __m256i step[8]) {
    __m256i found = _mm256_shuffle_epi8(step[0], v);
    for (int k = 1; k < 8; k++) {
        v = _mm256_subs_epi8(v, _mm256_set1_epi8(16));
        found = _mm256_xor_si256(found, _mm256_shuffle_epi8(step[k], v));
    }
    return found;
}

AVX2 static void look_up_avx2(uint8_t *to, const uint8_t *from, size_t count,
                              const uint8_t table[256]) {
    const size_t whole = count / 32 * 32;
    __m256i step[16];
    for (int k = 0; k < 16; k++) {
        const __m128i *own = (const __m128i *)(const void *)(table + 16 * k);
        const __m128i before = k % 8 ? _mm_loadu_si128(own - 1) : _mm_setzero_si128();
        step[k] = _mm256_broadcastsi128_si256(_mm_xor_si128(_mm_loadu_si128(own), before));
    }
    for (size_t i = 0; i < whole; i += 32) {
        const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(from + i));
        const __m256i high = _mm256_xor_si256(v, _mm256_set1_epi8((char)128));
        _mm256_storeu_si256((__m256i *)(void *)(to + i),
                            _mm256_xor_si256(look_up_half(v, step), look_up_half(high, step + 8)));
    }
    ff_change_look_up_plain(to + whole, from + whole, count - whole, table);
}

void ff_change_look_up(uint8_t *to, const uint8_t *from, size_t count, const uint8_t table[256]) {
    if (__builtin_cpu_supports("avx512vbmi"))
        look_up_vbmi(to, from, count, table);
    else if (__builtin_cpu_supports("avx2"))
        look_up_avx2(to, from, count, table);
    else
        ff_change_look_up_plain(to, from, count, table);
}

#else
void ff_change_look_up(uint8_t *to, const uint8_t *from, size_t count, const uint8_t table[256]) {
    ff_change_look_up_plain(to, from, count, table);
}
#endif

/* Four counters for each value: neighbouring pixels are often equal, and an addition waits for the
 * one before to the same counter. */
void ff_change_count(const uint8_t *plane, size_t pixels, uint32_t count[256]) {
    uint32_t some[4][256] = {{0}};
    size_t i = 0;
    for (; i + 4 <= pixels; i += 4)
        for (int k = 0; k < 4; k++) some[k][plane[i + (size_t)k]]++;
    for (; i < pixels; i++) some[0][plane[i]]++;
    for (int v = 0; v < 256; v++) count[v] = some[0][v] + some[1][v] + some[2][v] + some[3][v];
}

FF_FMA_CLONES void ff_change_extremes(const uint8_t *plane, size_t pixels, uint8_t *low,
                                      uint8_t *high) {
    uint8_t least = 255, most = 0;
    for (size_t i = 0; i < pixels; i++) {
        least = plane[i] < least ? plane[i] : least;
        most = plane[i] > most ? plane[i] : most;
    }
    *low = least, *high = most;
}
