#include "loader/host/past_caches.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

enum { LINE = 64 };

/* to: at a cache line. Copies whole lines. */
__attribute__((target("avx2"))) static void copy_lines(uint8_t *to, const uint8_t *from,
                                                       size_t lines) {
    for (; lines; lines--, to += LINE, from += LINE) {
        const __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)from);
        const __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(from + 32));
        _mm256_stream_si256((__m256i *)(void *)to, low);
        _mm256_stream_si256((__m256i *)(void *)(to + 32), high);
    }
    _mm_sfence();
}

void ff_copy_past_caches(void *to, const void *from, size_t bytes) {
    const size_t head = -(uintptr_t)to % LINE;
    if (!__builtin_cpu_supports("avx2") || bytes < head) {
        memcpy(to, from, bytes);
        return;
    }
    const size_t lines = (bytes - head) / LINE, end = head + lines * LINE;
    memcpy(to, from, head);
    copy_lines((uint8_t *)to + head, (const uint8_t *)from + head, lines);
    memcpy((uint8_t *)to + end, (const uint8_t *)from + end, bytes - end);
}

#else
void ff_copy_past_caches(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
}
#endif
