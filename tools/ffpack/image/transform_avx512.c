/* Every third byte, as it is, and table lookups to 16-bit elements on AVX-512 (VBMI: Ice Lake, Zen
 * 4 and later). The low and the high bytes of a table are four registers each, which two
 * permutations and a blend look up for 64 values at once. Values are reordered first so that
 * interleaving both halves within lanes of 128 bits puts elements into their order. */
#include "tools/ffpack/image/transform_apply.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi")))
#define INLINE static inline __attribute__((always_inline)) AVX512

enum { BLOCK = 64 };

/* The bytes of the table: of values 0..63, 64..127, 128..191 and 192..255. */
typedef struct half_table {
    __m512i part[4];
} half_table;

INLINE __m512i look_up(const half_table *table, __m512i values) {
    __m512i low = _mm512_permutex2var_epi8(table->part[0], values, table->part[1]);
    __m512i high = _mm512_permutex2var_epi8(table->part[2], values, table->part[3]);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(values), low, high);
}

INLINE void split(const uint16_t *table, half_table *low, half_table *high) {
    for (int i = 0; i < 4; i++) {
        const uint16_t *from = table + i * BLOCK;
        __m512i front = _mm512_loadu_si512(from), back = _mm512_loadu_si512(from + 32);
        low->part[i] = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(front)),
                                          _mm512_cvtepi16_epi8(back), 1);
        front = _mm512_srli_epi16(front, 8);
        back = _mm512_srli_epi16(back, 8);
        high->part[i] = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(front)),
                                           _mm512_cvtepi16_epi8(back), 1);
    }
}

/* Which of the 64 values stands where: in the low half of a lane of 16 bytes the first 32, in the
 * high half the others. */
static void find_order(size_t step, uint8_t position[BLOCK]) {
    for (size_t i = 0; i < BLOCK; i++) {
        size_t lane = i / 16, at = i % 16;
        position[i] = (uint8_t)((at < 8 ? lane * 8 + at : 32 + lane * 8 + at - 8) * step);
    }
}

/* Three registers: the first two are looked up with 7 bits, the third, for the values beyond them,
 * with 6. */
static uint64_t find_third(const uint8_t position[BLOCK]) {
    uint64_t third = 0;
    for (size_t i = 0; i < BLOCK; i++) third |= (uint64_t)(position[i] >= 128) << i;
    return third;
}

INLINE __m512i take(const uint8_t *from, __m512i order, uint64_t third) {
    __m512i values =
        _mm512_permutex2var_epi8(_mm512_loadu_si512(from), order, _mm512_loadu_si512(from + 64));
    return _mm512_mask_permutexvar_epi8(values, third, order, _mm512_loadu_si512(from + 128));
}

INLINE void put(const half_table *low, const half_table *high, __m512i values, uint16_t *out) {
    __m512i bytes = look_up(low, values), upper = look_up(high, values);
    _mm512_storeu_si512(out, _mm512_unpacklo_epi8(bytes, upper));
    _mm512_storeu_si512(out + 32, _mm512_unpackhi_epi8(bytes, upper));
}

AVX512 static size_t run_16(const uint16_t *table, const uint8_t *in, size_t step, size_t count,
                            uint16_t *out) {
    half_table low, high;
    uint8_t position[BLOCK];
    split(table, &low, &high);
    find_order(step, position);
    const uint64_t third = find_third(position);
    const __m512i order = _mm512_loadu_si512(position);
    size_t done = 0;
    if (step == 1) {
        for (; done + BLOCK <= count; done += BLOCK)
            put(&low, &high, _mm512_permutexvar_epi8(order, _mm512_loadu_si512(in + done)),
                out + done);
        return done;
    }
    /* The last block would read the two bytes after its last value. */
    for (; done + BLOCK < count; done += BLOCK)
        put(&low, &high, take(in + 3 * done, order, third), out + done);
    return done;
}

AVX512 static size_t third_bytes(const uint8_t *in, size_t count, uint8_t *out) {
    uint8_t position[BLOCK];
    for (size_t i = 0; i < BLOCK; i++) position[i] = (uint8_t)(3 * i);
    const uint64_t third = find_third(position);
    const __m512i order = _mm512_loadu_si512(position);
    size_t done = 0;
    for (; done + BLOCK < count; done += BLOCK)
        _mm512_storeu_si512(out + done, take(in + 3 * done, order, third));
    return done;
}

ff_transform_fast ff_transform_avx512(void) {
    bool runs = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi");
    return runs ? (ff_transform_fast){run_16, third_bytes} : (ff_transform_fast){NULL, NULL};
}

#else
ff_transform_fast ff_transform_avx512(void) {
    return (ff_transform_fast){NULL, NULL};
}
#endif
