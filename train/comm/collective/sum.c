#include "train/comm/collective/sum.h"

#include "format/base/compiler.h"

#include <string.h>

enum {
    SOME = 512,
    ROWS = 8,         /* a tree over 64 ranks has at most 7 unfinished sums */
    SLICE_BYTES = 64, /* slices begin at multiples: for vectors, and ranks share no cache line */
};

FF_CLONES static void add_two(float *restrict to, const float *restrict a, const float *restrict b,
                              size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = a[i] + b[i];
}

FF_CLONES static void add_to(float *restrict to, const float *restrict b, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] += b[i];
}

/* Like a binary counter: after part p, one pair of sums is joined for each zero at the end of p +
 * 1. */
static void sum_some(float (*rows)[SOME], const void *const *parts, size_t offset, int count,
                     ff_dtype dtype, size_t n) {
    int top = 0;
    for (int p = 0; p < count; p++) {
        ff_convert(rows[top++], FF_F32, (const char *)parts[p] + offset, dtype, n);
        for (int next = p + 1; next % 2 == 0; next /= 2, top--)
            add_to(rows[top - 2], rows[top - 1], n);
    }
    for (; top > 1; top--) add_to(rows[top - 2], rows[top - 1], n);
}

void ff_comm_sum(void *to, const void *const *parts, int count, ff_dtype dtype, size_t n) {
    if (count == 2 && dtype == FF_F32) {
        if (to == parts[0])
            add_to(to, parts[1], n);
        else if (to == parts[1])
            add_to(to, parts[0], n);
        else
            add_two(to, parts[0], parts[1], n);
        return;
    }
    float rows[ROWS][SOME];
    const size_t element = ff_dtype_bytes(dtype);
    for (size_t at = 0; at < n; at += SOME) {
        size_t some = n - at < SOME ? n - at : SOME;
        sum_some(rows, parts, at * element, count, dtype, some);
        ff_convert((char *)to + at * element, dtype, rows[0], FF_F32, some);
    }
}

size_t ff_comm_slice(size_t bytes, int r, int size) {
    if (r == size) return bytes;
    return (size_t)((unsigned __int128)(bytes / SLICE_BYTES) * (unsigned)r / (unsigned)size) *
           SLICE_BYTES;
}
