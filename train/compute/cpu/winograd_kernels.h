/* The loops of Winograd's convolutions (onednn_winograd.h), of one thread: transforms of tiles and
 * of filters, in blocks of 8 channels, and products of matrices, all in f32. With AVX2; for other
 * processors they compile, but are slow. */
#ifndef FF_TRAIN_CPU_WINOGRAD_KERNELS_H
#define FF_TRAIN_CPU_WINOGRAD_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

enum {
    FF_WINOGRAD_LANES = 8,   /* channels of a block */
    FF_WINOGRAD_TILE = 4,    /* rows and columns of a tile's outputs */
    FF_WINOGRAD_POINTS = 36, /* values of a transformed tile or filter */
    FF_WINOGRAD_PANEL = 16,  /* columns of a product that are computed at once */
};

/* A matrix for each point. Its columns are channels, cut into panels of `width`; a panel holds its
 * rows one after the other. `width` divides `columns`. */
typedef struct ff_winograd_matrices {
    float *at; /* 64-byte aligned */
    size_t rows, columns, width;
} ff_winograd_matrices;

/* The floats from a point's matrix to the next one's. Matrices that are 4 KiB or a multiple of it
 * apart would have their lines at the same places of the L1 cache. */
static inline size_t ff_winograd_step(const ff_winograd_matrices *m) {
    return m->rows * m->columns + FF_WINOGRAD_PANEL;
}

static inline size_t ff_winograd_floats(const ff_winograd_matrices *m) {
    return FF_WINOGRAD_POINTS * ff_winograd_step(m);
}

static inline float *ff_winograd_at(const ff_winograd_matrices *m, size_t point, size_t row,
                                    size_t column) {
    const size_t panel = column / m->width, lane = column % m->width;
    return m->at + point * ff_winograd_step(m) + (panel * m->rows + row) * m->width + lane;
}

/* Images [n][blocks][high][wide][8]; their tiles are numbered as [n][tiles_high][tiles_wide]. */
typedef struct ff_winograd_images {
    size_t blocks, high, wide, tiles_high, tiles_wide;
} ff_winograd_images;

/* Tiles [first, first + count) to the rows from `row` on: B' x B of the 6x6 pixels around an
 * output's tile, and A dy A' of a tile. The matrices' columns are the channels of the blocks from
 * `block` on. */
void ff_winograd_read_inputs(const ff_winograd_images *images, size_t block, const float *x,
                             size_t first, size_t count, const ff_winograd_matrices *to,
                             size_t row);
void ff_winograd_read_gradients(const ff_winograd_images *images, size_t block, const float *dy,
                                size_t first, size_t count, const ff_winograd_matrices *to,
                                size_t row);
/* The way back, from the rows 0 on: y = A' m A + bias; bias: of all channels, NULL = 0. */
void ff_winograd_write_tiles(const ff_winograd_images *images, size_t block,
                             const ff_winograd_matrices *from, size_t first, size_t count,
                             const float *bias, float *y);

/* The filters of a pair of blocks, [3][3][8 in][8 out]: G w G' to the rows `row` + in and the
 * columns `column` + out; turned by half a turn, to the rows `row` + out and the columns `column` +
 * in; and G' m G back. */
void ff_winograd_read_filters(const float *w, const ff_winograd_matrices *to, size_t row,
                              size_t column);
void ff_winograd_read_turned(const float *w, const ff_winograd_matrices *to, size_t row,
                             size_t column);
void ff_winograd_write_filters(const ff_winograd_matrices *from, size_t row, size_t column,
                               float *dw);

/* c[rows][16] = a b, added to c if `add`. a: element (r, k) at a[r * a_row + k * a_depth]; b:
 * [depth][16]. An element is a sum in the order of k. */
void ff_winograd_multiply(size_t rows, size_t depth, const float *a, size_t a_row, size_t a_depth,
                          const float *b, float *c, bool add);

#endif
