/* The loops of Winograd's convolutions (winograd.h), of one thread: transforms of tiles and of
 * filters, and products of matrices. Images, filters and biases are f32 or bf16, everything else is
 * f32. */
#ifndef FF_TRAIN_CPU_WINOGRAD_KERNELS_H
#define FF_TRAIN_CPU_WINOGRAD_KERNELS_H

#include "format/disk/dtype.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    FF_WINOGRAD_TILE = 4,    /* rows and columns of a tile's outputs */
    FF_WINOGRAD_POINTS = 36, /* values of a transformed tile or filter */
};

/* Columns of a product that are computed at once. */
#define FF_WINOGRAD_PANEL(lanes) (2 * (lanes))

/* A matrix for each point. Its columns are channels, cut into panels of `width`; a panel holds its
 * rows one after the other. `width` divides `columns`. */
typedef struct ff_winograd_matrices {
    float *at; /* 64-byte aligned */
    size_t rows, columns, width;
} ff_winograd_matrices;

/* The floats from a point's matrix to the next one's. Matrices that are 4 KiB or a multiple of it
 * apart would have their lines at the same places of the L1 cache. */
static inline size_t ff_winograd_step(const ff_winograd_matrices *m) {
    const size_t line = 64 / sizeof *m->at;
    return m->rows * m->columns + line;
}

static inline size_t ff_winograd_floats(const ff_winograd_matrices *m) {
    return FF_WINOGRAD_POINTS * ff_winograd_step(m);
}

static inline float *ff_winograd_at(const ff_winograd_matrices *m, size_t point, size_t row,
                                    size_t column) {
    const size_t panel = column / m->width, lane = column % m->width;
    return m->at + point * ff_winograd_step(m) + (panel * m->rows + row) * m->width + lane;
}

/* Images [n][blocks][high][wide][lanes]; their tiles are numbered as [n][tiles_high][tiles_wide].
 */
typedef struct ff_winograd_images {
    size_t blocks, high, wide, tiles_high, tiles_wide;
} ff_winograd_images;

/* The loops for blocks of 8 channels (AVX2, NEON) or of 16 (AVX-512): `lanes`. */
typedef struct ff_winograd_kernels {
    /* Tiles [first, first + count) to the rows from `row` on: B' x B of the 6x6 pixels around an
     * output's tile, and A dy A' of a tile. The matrices' columns are the channels of the blocks
     * from `block` on. */
    void (*read_inputs)(const ff_winograd_images *images, size_t block, const void *x, size_t first,
                        size_t count, const ff_winograd_matrices *to, size_t row);
    void (*read_gradients)(const ff_winograd_images *images, size_t block, const void *dy,
                           size_t first, size_t count, const ff_winograd_matrices *to, size_t row);
    /* The way back, from the rows 0 on: y = A' m A + bias; bias: of all channels, NULL = 0. */
    void (*write_tiles)(const ff_winograd_images *images, size_t block,
                        const ff_winograd_matrices *from, size_t first, size_t count,
                        const void *bias, void *y);

    /* The filters of a pair of blocks, [3][3][lanes in][lanes out]: G w G' to the rows `row` + in
     * and the columns `column` + out; turned by half a turn, to the rows `row` + out and the
     * columns `column` + in; and G' m G back. */
    void (*read_filters)(const void *w, const ff_winograd_matrices *to, size_t row, size_t column);
    void (*read_turned)(const void *w, const ff_winograd_matrices *to, size_t row, size_t column);
    void (*write_filters)(const ff_winograd_matrices *from, size_t row, size_t column, void *dw);

    /* c[rows][panel] = a b, added to c if `add`; a panel is FF_WINOGRAD_PANEL(lanes) columns. a:
     * element (r, k) at a[r * a_row + k * a_depth]; b: [depth][panel]. An element is a sum in the
     * order of k. */
    void (*multiply)(size_t rows, size_t depth, const float *a, size_t a_row, size_t a_depth,
                     const float *b, float *c, bool add);
} ff_winograd_kernels;

/* NULL if this processor has no fast loops for the block. */
const ff_winograd_kernels *ff_winograd_kernels_of(ff_dtype dtype, int block);

#endif
