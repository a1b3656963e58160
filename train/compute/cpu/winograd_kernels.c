#include "train/compute/cpu/winograd_kernels.h"

#include "train/compute/cpu/narrow.h"
#include "train/compute/vector.h"

typedef ff_v8 V;

enum {
    LANES = FF_WINOGRAD_LANES,
    TILE = FF_WINOGRAD_TILE,
    PANEL = FF_WINOGRAD_PANEL,
    SQUARE = TILE + 2, /* rows and columns of a transformed tile */
    ROWS = 6,          /* of a product that are computed at once: 12 vectors of sums */
};

/* a * b + c */
#if FF_HAS_TARGETS
#define FMA(a, b, c) FF_FMA_8(a, b, c)
#else
#define FF_AVX2
#define FMA(a, b, c) ((a) * (b) + (c))
#endif
#define ALL(x)       ((V){x, x, x, x, x, x, x, x})
#define SUM(a, x, c) FMA(a, ALL(x), c)

/* ---- transforms of a line ---- */

/* The points of the interpolation: 0, a, -a, b, -b and infinity. With these, which oneDNN takes,
 * results are more exact than with 1 and 2: powers up to the third grow less. */
#define A  (5.0f / 8)
#define B  (3.0f / 2)
#define A2 (A * A)
#define B2 (B * B)
#define NA (1 / (2 * A2 * (A2 - B2))) /* of a filter's values at a and b */
#define NB (1 / (2 * B2 * (B2 - A2)))

/* Reads from[0], from[step], ...; writes to[0], to[to_step], ...: steps in vectors. */
typedef void (*line)(const V *from, ptrdiff_t step, V *to, ptrdiff_t to_step);

/* Values at p and -p, of their even and odd parts: even + p odd, even - p odd. */
FF_AVX2 FF_INLINE void pair(const V *even, const V *odd, const float p, V *plus, V *minus) {
    *plus = SUM(*odd, p, *even);
    *minus = SUM(*odd, -p, *even);
}

/* B', 6 to 6: the polynomials that are 0 at all points but one, of degree 4; the last of 5. */
FF_AVX2 FF_INLINE void of_input(const V *from, ptrdiff_t step, V *to, ptrdiff_t to_step) {
    const V d0 = from[0], d1 = from[step], d2 = from[2 * step], d3 = from[3 * step],
            d4 = from[4 * step], d5 = from[5 * step];
    to[0] = SUM(d0, A2 * B2, SUM(d2, -(A2 + B2), d4));
    const V even = SUM(d2, -B2, d4), odd = SUM(d1, -B2, d3);
    const V even2 = SUM(d2, -A2, d4), odd2 = SUM(d1, -A2, d3);
    pair(&even, &odd, A, to + to_step, to + 2 * to_step);
    pair(&even2, &odd2, B, to + 3 * to_step, to + 4 * to_step);
    to[5 * to_step] = SUM(d1, A2 * B2, SUM(d3, -(A2 + B2), d5));
}

/* A', 6 to 4. */
FF_AVX2 FF_INLINE void to_output(const V *from, ptrdiff_t step, V *to, ptrdiff_t to_step) {
    const V even = from[step] + from[2 * step], odd = from[step] - from[2 * step];
    const V even2 = from[3 * step] + from[4 * step], odd2 = from[3 * step] - from[4 * step];
    to[0] = from[0] + even + even2;
    to[to_step] = SUM(odd, A, odd2 * ALL(B));
    to[2 * to_step] = SUM(even, A2, even2 * ALL(B2));
    to[3 * to_step] = SUM(odd, A2 * A, SUM(odd2, B2 * B, from[5 * step]));
}

/* A, 4 to 6: the polynomial y at the points. */
FF_AVX2 FF_INLINE void of_gradient(const V *from, ptrdiff_t step, V *to, ptrdiff_t to_step) {
    const V y0 = from[0], y1 = from[step], y2 = from[2 * step], y3 = from[3 * step];
    to[0] = y0;
    const V even = SUM(y2, A2, y0), odd = SUM(y3, A2, y1);
    const V even2 = SUM(y2, B2, y0), odd2 = SUM(y3, B2, y1);
    pair(&even, &odd, A, to + to_step, to + 2 * to_step);
    pair(&even2, &odd2, B, to + 3 * to_step, to + 4 * to_step);
    to[5 * to_step] = y3;
}

/* G, 3 to 6: the polynomial g at the points, divided by what B' multiplies by. */
FF_AVX2 FF_INLINE void of_filter(const V *from, ptrdiff_t step, V *to, ptrdiff_t to_step) {
    const V g0 = from[0], g1 = from[step], g2 = from[2 * step];
    to[0] = g0 * ALL(1 / (A2 * B2));
    const V even = SUM(g2, NA * A2, g0 * ALL(NA)), even2 = SUM(g2, NB * B2, g0 * ALL(NB));
    pair(&even, &g1, NA * A, to + to_step, to + 2 * to_step);
    pair(&even2, &g1, NB * B, to + 3 * to_step, to + 4 * to_step);
    to[5 * to_step] = g2;
}

/* G', 6 to 3. */
FF_AVX2 FF_INLINE void to_filter(const V *from, ptrdiff_t step, V *to, ptrdiff_t to_step) {
    const V even = from[step] + from[2 * step], odd = from[step] - from[2 * step];
    const V even2 = from[3 * step] + from[4 * step], odd2 = from[3 * step] - from[4 * step];
    to[0] = SUM(from[0], 1 / (A2 * B2), SUM(even, NA, even2 * ALL(NB)));
    to[to_step] = SUM(odd, NA * A, odd2 * ALL(NB * B));
    to[2 * to_step] = SUM(even, NA * A2, SUM(even2, NB * B2, from[5 * step]));
}

/* Columns, then rows: `in` x `in` vectors, at from[row * from_row + column * from_column], to `out`
 * x `out`. */
FF_AVX2 FF_INLINE void transform(line one, const int in, const int out, const V *from,
                                 ptrdiff_t from_row, ptrdiff_t from_column, V *to, ptrdiff_t to_row,
                                 ptrdiff_t to_column) {
    V half[FF_WINOGRAD_POINTS];
#pragma GCC unroll 6
    for (int c = 0; c < in; c++) one(from + c * from_column, from_row, half + c, in);
#pragma GCC unroll 6
    for (int r = 0; r < out; r++) one(half + r * in, 1, to + r * to_row, to_column);
}

/* ---- tiles ---- */

/* The square of a tile, `side` pixels high and wide: the rows and columns of it that are in the
 * image, and the first of these pixels, in block 0. */
typedef struct window {
    size_t pixel;
    int top, left, bottom, right;
    bool whole;
} window;

/* `before`: the rows and columns of the square before the tile's first. */
static window window_of(const ff_winograd_images *s, size_t tile, int side, int before) {
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

FF_AVX2 FF_INLINE void read_tiles(line one, const int side, const int before,
                                  const ff_winograd_images *s, size_t block, const float *x,
                                  size_t first, size_t count, const ff_winograd_matrices *to,
                                  size_t row) {
    const ptrdiff_t step = (ptrdiff_t)(ff_winograd_step(to) / LANES), wide = (ptrdiff_t)s->wide;
    for (size_t t = 0; t < count; t++) {
        const window w = window_of(s, first + t, side, before);
        for (size_t b = 0; b < to->columns / LANES; b++) {
            const V *from = (const V *)x + w.pixel + (block + b) * s->high * s->wide;
            V *at = (V *)ff_winograd_at(to, 0, row + t, b * LANES);
            if (w.whole) {
                transform(one, side, SQUARE, from, wide, 1, at, SQUARE * step, step);
                continue;
            }
            V inside[SQUARE * SQUARE] = {{0}};
            for (int r = w.top; r < w.bottom; r++)
                for (int c = w.left; c < w.right; c++)
                    inside[r * side + c] = from[(r - w.top) * wide + c - w.left];
            transform(one, side, SQUARE, inside, side, 1, at, SQUARE * step, step);
        }
    }
}

FF_AVX2 void ff_winograd_read_inputs(const ff_winograd_images *images, size_t block, const float *x,
                                     size_t first, size_t count, const ff_winograd_matrices *to,
                                     size_t row) {
    read_tiles(of_input, SQUARE, 1, images, block, x, first, count, to, row);
}

FF_AVX2 void ff_winograd_read_gradients(const ff_winograd_images *images, size_t block,
                                        const float *dy, size_t first, size_t count,
                                        const ff_winograd_matrices *to, size_t row) {
    read_tiles(of_gradient, TILE, 0, images, block, dy, first, count, to, row);
}

FF_AVX2 void ff_winograd_write_tiles(const ff_winograd_images *s, size_t block,
                                     const ff_winograd_matrices *from, size_t first, size_t count,
                                     const float *bias, float *y) {
    const ptrdiff_t step = (ptrdiff_t)(ff_winograd_step(from) / LANES), wide = (ptrdiff_t)s->wide;
    for (size_t t = 0; t < count; t++) {
        const window w = window_of(s, first + t, TILE, 0);
        for (size_t b = 0; b < from->columns / LANES; b++) {
            const V *at = (const V *)ff_winograd_at(from, 0, t, b * LANES);
            const V more = bias ? ((const V *)bias)[block + b] : ALL(0.0f);
            V tile[TILE * TILE], *to = (V *)y + w.pixel + (block + b) * s->high * s->wide;
            transform(to_output, SQUARE, TILE, at, SQUARE * step, step, tile, TILE, 1);
            for (int r = 0; r < w.bottom; r++)
                for (int c = 0; c < w.right; c++) to[r * wide + c] = tile[r * TILE + c] + more;
        }
    }
}

/* ---- filters ---- */

FF_AVX2 void ff_winograd_read_filters(const float *w, const ff_winograd_matrices *to, size_t row,
                                      size_t column) {
    const ptrdiff_t step = (ptrdiff_t)(ff_winograd_step(to) / LANES);
    for (size_t i = 0; i < LANES; i++)
        transform(of_filter, 3, SQUARE, (const V *)w + i, 3 * LANES, LANES,
                  (V *)ff_winograd_at(to, 0, row + i, column), SQUARE * step, step);
}

FF_AVX2 void ff_winograd_read_turned(const float *w, const ff_winograd_matrices *to, size_t row,
                                     size_t column) {
    float turned[9 * LANES * LANES] __attribute__((aligned(sizeof(V))));
    for (int tap = 0; tap < 9; tap++)
        for (int i = 0; i < LANES; i++)
            for (int o = 0; o < LANES; o++)
                turned[((8 - tap) * LANES + o) * LANES + i] = w[(tap * LANES + i) * LANES + o];
    ff_winograd_read_filters(turned, to, row, column);
}

FF_AVX2 void ff_winograd_write_filters(const ff_winograd_matrices *from, size_t row, size_t column,
                                       float *dw) {
    const ptrdiff_t step = (ptrdiff_t)(ff_winograd_step(from) / LANES);
    for (size_t i = 0; i < LANES; i++)
        transform(to_filter, SQUARE, 3, (const V *)ff_winograd_at(from, 0, row + i, column),
                  SQUARE * step, step, (V *)dw + i, 3 * LANES, LANES);
}

/* ---- products ---- */

FF_AVX2 FF_INLINE void multiply_rows(const int rows, size_t depth, const float *a, size_t a_row,
                                     size_t a_depth, const float *b, float *c, bool add) {
    V sums[ROWS][2];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) sums[r][0] = sums[r][1] = ALL(0.0f);
    for (size_t k = 0; k < depth; k++, a += a_depth, b += PANEL) {
        __builtin_prefetch(b + depth * PANEL); /* the next panel's, which follows */
        const V b0 = *(const V *)b, b1 = *(const V *)(b + LANES);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            const V factor = ALL(a[(size_t)r * a_row]);
            sums[r][0] = FMA(factor, b0, sums[r][0]);
            sums[r][1] = FMA(factor, b1, sums[r][1]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        V *to = (V *)(c + r * PANEL);
        if (add) sums[r][0] += to[0], sums[r][1] += to[1];
        to[0] = sums[r][0];
        to[1] = sums[r][1];
    }
}

/* Rows in shares that are as equal as possible: few rows at once are slow. */
FF_AVX2 void ff_winograd_multiply(size_t rows, size_t depth, const float *a, size_t a_row,
                                  size_t a_depth, const float *b, float *c, bool add) {
    const int shares = (int)((rows + ROWS - 1) / ROWS);
    for (int i = 0; i < shares; i++) {
        size_t from, to;
        ff_share(rows, shares, i, &from, &to);
        const float *first = a + from * a_row;
        float *sums = c + from * PANEL;
        switch (to - from) {
        case 1: multiply_rows(1, depth, first, a_row, a_depth, b, sums, add); break;
        case 2: multiply_rows(2, depth, first, a_row, a_depth, b, sums, add); break;
        case 3: multiply_rows(3, depth, first, a_row, a_depth, b, sums, add); break;
        case 4: multiply_rows(4, depth, first, a_row, a_depth, b, sums, add); break;
        case 5: multiply_rows(5, depth, first, a_row, a_depth, b, sums, add); break;
        default: multiply_rows(6, depth, first, a_row, a_depth, b, sums, add);
        }
    }
}
