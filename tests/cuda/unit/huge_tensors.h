/* Tensors of more than 2^32 elements (huge.h), and what the tests of training kernels ask of their
 * elements. */
#ifndef FF_TESTS_HUGE_TENSORS_H
#define FF_TESTS_HUGE_TENSORS_H

#include "tests/cuda/unit/huge.h"
#include "train/compute/cuda/kernels/kernels.h"

#define assert_launched(call) assert_int_equal((call), FF_CUDA_OK)

/* More than 2^32 elements; rows just below 2^31; more channels than a block covers. */
static const ff_tensor wide = {6143, 64, 112, 112, 64};
static const ff_tensor tall = {10017, 8, 463, 463, 8};
static const ff_tensor flat __attribute__((unused)) = {600001, 8192, 1, 1, 8192};

static const ff_dtype dtypes[] = {FF_F16, FF_F32, FF_BF16};
/* The first one is the short part's. */
static inline int dtype_first(void) {
    return huge_short() ? 0 : 1;
}
static inline int dtype_end(void) {
    return huge_long() ? 3 : 1;
}

/* Many multiprocessors: blocks of few rows. */
static int multiprocessors = 1 << 16;
static inline ff_cuda_queue queue_of(ff_dtype dtype) {
    return (ff_cuda_queue){huge_stream, multiprocessors, dtype};
}

/* [8192] of one value. */
static inline float *channels_of(float value) {
    float *made = huge_zeros(8192 * sizeof *made);
    for (int c = 0; c < 8192; c++) made[c] = value;
    return made;
}

/* ---- values ---- */

static inline int array(int k, uint64_t i) {
    return huges.arrays[k].value(i, huges.arrays[k].salt);
}
static inline int first(uint64_t i) {
    return array(0, i);
}
static inline int second(uint64_t i) {
    return array(1, i);
}
static inline int sum(uint64_t i) {
    return array(0, i) + array(1, i);
}
/* The place of element i of an NHWC tensor. */
typedef struct place {
    int64_t n, h, w, c;
} place;
static inline place place_of(const ff_tensor *t, uint64_t i) {
    const int64_t c = ff_tensor_padded_channels(t), row = (int64_t)i / c;
    return (place){row / t->w / t->h, row / t->w % t->h, row % t->w, (int64_t)i % c};
}
/* -1: outside. */
static inline int64_t element(const ff_tensor *t, place p) {
    if (p.h < 0 || p.h >= t->h || p.w < 0 || p.w >= t->w) return -1;
    return ((p.n * t->h + p.h) * t->w + p.w) * ff_tensor_padded_channels(t) + p.c;
}

/* ---- sums over rows ---- */

/* How the blocks of a sum share the rows: a part has `down` rows, and those parts * down further.
 */
typedef struct sharing {
    uint64_t rows, slices, down, parts;
} sharing;
static inline sharing sharing_of(const ff_tensor *t, ff_dtype dtype, int blocks) {
    const uint64_t vectors = (uint64_t)t->c * ff_dtype_bytes(dtype) / 16;
    sharing by = {.rows = ff_cuda_rows(t), .slices = (vectors + 31) / 32};
    by.down = 256 / ((vectors + by.slices - 1) / by.slices);
    by.parts = (uint64_t)blocks * (uint64_t)multiprocessors / by.slices;
    if (by.parts > (by.rows + by.down - 1) / by.down) by.parts = (by.rows + by.down - 1) / by.down;
    return by;
}

/* The blocks of the first launch of a call. */
static inline unsigned choose_first(const char *file, const char *kernel, const unsigned grid[3],
                                    uint64_t *blocks) {
    uint64_t chosen[FF_CUDASIM_CHOSEN];
    const unsigned count = huges.chosen_count;
    memcpy(chosen, huges.chosen, sizeof chosen);
    const unsigned taken = huge_choose(file, kernel, grid, blocks);
    if (count) {
        memcpy(huges.chosen, chosen, sizeof chosen);
        huges.chosen_count = count;
    }
    return taken;
}
#define LAUNCH_AND_KEEP(call)                                                                      \
    do {                                                                                           \
        huges.chosen_count = 0;                                                                    \
        ff_cudasim_choose = choose_first;                                                          \
        assert_launched(call);                                                                     \
        ff_cudasim_choose = huge_choose;                                                           \
    } while (0)

#endif
