#include "train/compute/cpu/winograd_kernels.h"

#include "train/compute/cpu/narrow.h"
#include "train/compute/vector.h"

#include <string.h>

#if FF_HAS_TARGETS || defined(__aarch64__)

/* x86's loops are those of its instruction sets; arm64's are the baseline, whose vectors (NEON) the
 * compiler makes: their products and sums are rounded once here, as x86's are. */
#if FF_HAS_TARGETS
#define FAST_ALONE
#define KERNELS_OF(block, dtype) KERNELS_OF_(block##_fast_##dtype)
#elif defined(__clang__)
#pragma STDC FP_CONTRACT ON
#else
#pragma GCC optimize("fp-contract=fast")
#endif
#ifndef KERNELS_OF
#define KERNELS_OF(block, dtype) KERNELS_OF_(block##_baseline_##dtype)
#endif

enum {
    TILE = FF_WINOGRAD_TILE,
    SQUARE = TILE + 2, /* rows and columns of a transformed tile */
};

/* The points of the interpolation: 0, a, -a, b, -b and infinity. With these, which oneDNN takes,
 * results are more exact than with 1 and 2: powers up to the third grow less. */
#define A  (5.0f / 8)
#define B  (3.0f / 2)
#define A2 (A * A)
#define B2 (B * B)
#define NA (1 / (2 * A2 * (A2 - B2))) /* of a filter's values at a and b */
#define NB (1 / (2 * B2 * (B2 - A2)))

/* The square of a tile, `side` pixels high and wide: the rows and columns of it that are in the
 * image, and the first of these pixels, in block 0. */
typedef struct window {
    size_t pixel;
    int top, left, bottom, right;
    bool whole;
} window;

/* `before`: the rows and columns of the square before the tile's first. */
FF_INLINE window window_of(const ff_winograd_images *s, size_t tile, int side, int before) {
    const int column = (int)(tile % s->tiles_wide) * TILE - before;
    const int row = (int)(tile / s->tiles_wide % s->tiles_high) * TILE - before;
    const size_t n = tile / (s->tiles_wide * s->tiles_high);
    const int high = (int)s->high - row, wide = (int)s->wide - column;
    window w = {
        .top = row < 0 ? -row : 0,
        .left = column < 0 ? -column : 0,
        .bottom = high < side ? high : side,
        .right = wide < side ? wide : side,
    };
    w.pixel =
        (n * s->blocks * s->high + (size_t)(row + w.top)) * s->wide + (size_t)(column + w.left);
    w.whole = w.bottom - w.top == side && w.right - w.left == side;
    return w;
}

#define KERNELS "train/compute/cpu/winograd_kernels.inc"
#include "train/compute/cpu/kernel_variants.inc"

#define KERNELS_OF_(ending)                                                                        \
    {                                                                                              \
        read_inputs_##ending, read_gradients_##ending, write_tiles_##ending,                       \
            read_filters_##ending, read_turned_##ending, write_filters_##ending, multiply_##ending \
    }

const ff_winograd_kernels *ff_winograd_kernels_of(ff_dtype dtype, int block) {
    static const ff_winograd_kernels of_8[] = {KERNELS_OF(8, f32), KERNELS_OF(8, bf16)};
    static const ff_winograd_kernels of_16[] = {KERNELS_OF(16, f32), KERNELS_OF(16, bf16)};
    if (block != 8 && block != 16) return NULL;
    if (FF_HAS_TARGETS && !ff_has_vectors(block)) return NULL;
    return (block == 8 ? of_8 : of_16) + (dtype == FF_BF16);
}

#else

const ff_winograd_kernels *ff_winograd_kernels_of(ff_dtype dtype, int block) {
    (void)dtype, (void)block;
    return NULL;
}

#endif
