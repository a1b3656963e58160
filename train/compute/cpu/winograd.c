#include "train/compute/cpu/winograd.h"

#include "train/compute/cpu/winograd_kernels.h"
#include "train/compute/vector.h"

#include <omp.h>

enum {
    TILE = FF_WINOGRAD_TILE,
    POINTS = FF_WINOGRAD_POINTS,
    /* What transforms cost on a Zen 3 (AVX2, L2 512 KiB, L3 32 MiB), in products in f32 that are
     * made in the same time: of a channel of a tile, of a filter. Fitted to the measured rates of
     * 30 shapes, 16 to 512 channels, 16 to 65536 pixels. */
    CHANNEL_COST = 1000,
    FILTER_COST = 1300,
    IMAGES = 16, /* for which it has to take less time */
    /* Tiles that are transformed, multiplied and transformed back at once, by a thread and by all
     * threads. Half and twice as many take the same time there. */
    FORWARD_TILES = 48,
    GRADIENT_TILES = 96,
    /* Pairs of channels whose transformed filters, of 9 MiB, stay in the L3. */
    MOST_PAIRS = 1 << 16,
};

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* a / b, rounded up. */
static size_t quotient(size_t a, size_t b) {
    return (a + b - 1) / b;
}

static ff_winograd_images images_of(const ff_tensor *t) {
    return (ff_winograd_images){
        .blocks = (size_t)ff_tensor_blocks(t),
        .high = (size_t)t->h,
        .wide = (size_t)t->w,
        .tiles_high = quotient((size_t)t->h, TILE),
        .tiles_wide = quotient((size_t)t->w, TILE),
    };
}

static size_t tiles_of(const ff_tensor *t) {
    const ff_winograd_images images = images_of(t);
    return (size_t)t->n * images.tiles_high * images.tiles_wide;
}

static size_t channels_of(const ff_tensor *t) {
    return (size_t)ff_tensor_padded_channels(t);
}

/* Products of a direct convolution in the time of a product in f32. AMD's avx512_bf16 makes two, by
 * the rates of its instructions. On an Intel Xeon (model 207) without its AMX, oneDNN's direct
 * convolutions in bf16 reached 82 GFLOP/s a core, products in f32 133. */
static size_t direct_products(ff_dtype dtype) {
#if FF_HAS_TARGETS
    if (dtype == FF_BF16 && __builtin_cpu_is("amd")) return 2;
#endif
    (void)dtype;
    return 1;
}

/* Whether it takes less time than a direct convolution, by their products and transforms. For the
 * same number of images always: a sample has the same outputs in every batch. */
static bool pays_off(const ff_compute *compute, const ff_conv_shape *s) {
    const size_t in = channels_of(&s->input), out = channels_of(&s->output), pairs = in * out;
    const size_t pixels = IMAGES * (size_t)s->output.h * (size_t)s->output.w;
    const size_t tile = POINTS * pairs + CHANNEL_COST * (in + out);
    ff_tensor images = s->output;
    images.n = IMAGES;
    const size_t all = tiles_of(&images) * tile + FILTER_COST * pairs;
    return direct_products(compute->dtype) * all < 9 * pixels * pairs;
}

bool ff_winograd_fits(const ff_compute *compute, const ff_conv_shape *s) {
    const int block = s->input.block;
    if (!ff_winograd_kernels_of(compute->dtype, block) || s->output.block != block) return false;
    const size_t panel = FF_WINOGRAD_PANEL((size_t)block);
    return channels_of(&s->input) % panel == 0 && channels_of(&s->output) % panel == 0 &&
           s->kernel == 3 && s->stride == 1 && s->pad == 1 && s->groups == 1 &&
           pays_off(compute, s);
}

/* What all loops of a pass have in common. */
typedef struct loops {
    const ff_winograd_kernels *run;
    size_t lanes, panel;
    size_t filter; /* bytes of the weights of a pair of blocks */
} loops;

static loops loops_of(const ff_compute *compute, const ff_tensor *t) {
    const size_t lanes = (size_t)t->block;
    return (loops){
        .run = ff_winograd_kernels_of(compute->dtype, t->block),
        .lanes = lanes,
        .panel = FF_WINOGRAD_PANEL(lanes),
        .filter = 9 * lanes * lanes * compute->element_bytes,
    };
}

/* ---- y of x, or dx of dy ---- */

/* The work of a pass: the filters of `group` outputs at once, then chunks of tiles, each in the
 * matrices of the thread that computes it. */
typedef struct convolution {
    loops loops;
    ff_winograd_images from, to;
    size_t in, out, group, tiles, chunks;
    ff_winograd_matrices filters, inputs, outputs; /* of the first group and thread */
} convolution;

/* How many columns of filters are transformed at once, if the filters have `rows` rows. */
static size_t group_of(size_t rows, size_t columns, size_t panel) {
    const size_t group = MOST_PAIRS / rows / panel * panel;
    return least(group ? group : panel, columns);
}

static convolution convolution_of(const ff_compute *compute, const ff_tensor *input,
                                  const ff_tensor *output, float *scratch) {
    const loops all = loops_of(compute, input);
    const size_t in = channels_of(input), out = channels_of(output);
    const size_t group = group_of(in, out, all.panel), tiles = tiles_of(output);
    const size_t each = (size_t)compute->threads;
    /* every thread gets the same number of chunks, if there are enough tiles */
    const size_t chunks = least(quotient(quotient(tiles, FORWARD_TILES), each) * each, tiles);
    const size_t chunk = quotient(tiles, chunks);
    convolution c = {
        .loops = all,
        .from = images_of(input),
        .to = images_of(output),
        .in = in,
        .out = out,
        .group = group,
        .tiles = tiles,
        .chunks = chunks,
        .filters = {scratch, in, group, all.panel},
        .inputs = {NULL, chunk, in, in},
        .outputs = {NULL, chunk, group, all.panel},
    };
    if (scratch) c.inputs.at = scratch + ff_winograd_floats(&c.filters);
    return c;
}

static size_t convolution_floats(const convolution *c, int threads) {
    const size_t own = ff_winograd_floats(&c->inputs) + ff_winograd_floats(&c->outputs);
    return ff_winograd_floats(&c->filters) + (size_t)threads * own;
}

/* Filter `pair` of the group of outputs [first, ...). */
static void read_filter(const convolution *c, size_t first, size_t pair, bool turned,
                        const char *w) {
    const loops *l = &c->loops;
    const size_t in = pair % c->from.blocks, column = pair / c->from.blocks;
    const size_t out = first / l->lanes + column;
    if (turned)
        l->run->read_turned(w + (in * c->to.blocks + out) * l->filter, &c->filters, in * l->lanes,
                            column * l->lanes);
    else
        l->run->read_filters(w + (out * c->from.blocks + in) * l->filter, &c->filters,
                             in * l->lanes, column * l->lanes);
}

static void run_chunk(const convolution *c, size_t first, size_t index, const void *x,
                      const void *bias, void *y) {
    const loops *l = &c->loops;
    size_t tile, end;
    ff_share(c->tiles, (int)c->chunks, (int)index, &tile, &end);
    const size_t rows = end - tile;
    l->run->read_inputs(&c->from, 0, x, tile, rows, &c->inputs, 0);
    for (size_t p = 0; p < POINTS; p++)
        for (size_t column = 0; column < c->outputs.columns; column += l->panel)
            l->run->multiply(rows, c->in, ff_winograd_at(&c->inputs, p, 0, 0), c->in, 1,
                             ff_winograd_at(&c->filters, p, 0, column),
                             ff_winograd_at(&c->outputs, p, 0, column), false);
    l->run->write_tiles(&c->to, first / l->lanes, &c->outputs, tile, rows, bias, y);
}

/* y of x or, turned, dx of dy. */
static void convolve(const ff_compute *compute, const ff_tensor *in, const ff_tensor *out,
                     bool turned, const void *x, const void *w, const void *bias, void *y,
                     float *scratch) {
#pragma omp parallel num_threads(compute->threads)
    {
        convolution c = convolution_of(compute, in, out, scratch);
        const size_t own = ff_winograd_floats(&c.inputs) + ff_winograd_floats(&c.outputs);
        c.inputs.at += own * (size_t)omp_get_thread_num();
        c.outputs.at = c.inputs.at + ff_winograd_floats(&c.inputs);
        for (size_t first = 0; first < c.out; first += c.group) {
            c.filters.columns = c.outputs.columns = least(c.group, c.out - first);
#pragma omp for schedule(static)
            for (size_t pair = 0; pair < c.filters.columns / c.loops.lanes * c.from.blocks; pair++)
                read_filter(&c, first, pair, turned, w);
#pragma omp for schedule(static)
            for (size_t i = 0; i < c.chunks; i++) run_chunk(&c, first, i, x, bias, y);
        }
    }
}

void ff_winograd_forward(const ff_compute *compute, const ff_conv_shape *s, const void *x,
                         const void *w, const void *bias, void *y, float *scratch) {
    convolve(compute, &s->input, &s->output, false, x, w, bias, y, scratch);
}

void ff_winograd_backward_data(const ff_compute *compute, const ff_conv_shape *s, const void *dy,
                               const void *w, void *dx, float *scratch) {
    convolve(compute, &s->output, &s->input, true, dy, w, NULL, dx, scratch);
}

/* ---- dw of x and dy ---- */

/* All threads transform a chunk of tiles, then each adds some of the products. The chunks are the
 * same for any number of threads. */
typedef struct gradient {
    loops loops;
    ff_winograd_images from, to;
    size_t in, out, group, tiles, chunk;
    ff_winograd_matrices filters, inputs, outputs; /* of the first group */
} gradient;

static gradient gradient_of(const ff_compute *compute, const ff_conv_shape *s, float *scratch) {
    const loops all = loops_of(compute, &s->input);
    const size_t in = channels_of(&s->input), out = channels_of(&s->output);
    const size_t tiles = tiles_of(&s->output), chunk = least(tiles, GRADIENT_TILES);
    const size_t group = group_of(in, out, all.panel);
    gradient g = {
        .loops = all,
        .from = images_of(&s->input),
        .to = images_of(&s->output),
        .in = in,
        .out = out,
        .group = group,
        .tiles = tiles,
        .chunk = chunk,
        .filters = {scratch, in, group, all.panel},
        .inputs = {NULL, chunk, in, all.panel},
        .outputs = {NULL, chunk, group, all.panel},
    };
    if (scratch) g.inputs.at = scratch + ff_winograd_floats(&g.filters);
    if (scratch) g.outputs.at = g.inputs.at + ff_winograd_floats(&g.inputs);
    return g;
}

static size_t gradient_floats(const gradient *g) {
    return ff_winograd_floats(&g->filters) + ff_winograd_floats(&g->inputs) +
           ff_winograd_floats(&g->outputs);
}

/* This thread's share of a chunk's tiles, for the group of outputs [first, ...). */
static void transform_chunk(const gradient *g, size_t first, size_t start, size_t rows, int threads,
                            const void *x, const void *dy) {
    const loops *l = &g->loops;
    size_t row, end;
    ff_share(rows, threads, omp_get_thread_num(), &row, &end);
    const bool kept = first > 0 && g->chunk == g->tiles; /* from the group before */
    if (!kept) l->run->read_inputs(&g->from, 0, x, start + row, end - row, &g->inputs, row);
    l->run->read_gradients(&g->to, first / l->lanes, dy, start + row, end - row, &g->outputs, row);
}

/* This thread's share of the products, added to those of the chunks before. */
static void multiply_chunk(const gradient *g, size_t rows, int threads, bool add) {
    const size_t panel = g->loops.panel, panels = g->filters.columns / panel;
    size_t item, end;
    ff_share(POINTS * panels, threads, omp_get_thread_num(), &item, &end);
    for (; item < end; item++)
        for (size_t in = 0; in < g->in; in += panel) {
            const size_t point = item / panels, out = item % panels * panel;
            g->loops.run->multiply(panel, rows, ff_winograd_at(&g->inputs, point, 0, in), 1, panel,
                                   ff_winograd_at(&g->outputs, point, 0, out),
                                   ff_winograd_at(&g->filters, point, in, out), add);
        }
}

void ff_winograd_backward_weights(const ff_compute *compute, const ff_conv_shape *s, const void *x,
                                  const void *dy, void *dw, float *scratch) {
    const int threads = compute->threads;
#pragma omp parallel num_threads(threads)
    {
        gradient g = gradient_of(compute, s, scratch);
        const loops *l = &g.loops;
        for (size_t first = 0; first < g.out; first += g.group) {
            g.filters.columns = g.outputs.columns = least(g.group, g.out - first);
            for (size_t start = 0; start < g.tiles; start += g.chunk) {
                const size_t rows = least(g.chunk, g.tiles - start);
                transform_chunk(&g, first, start, rows, threads, x, dy);
#pragma omp barrier
                multiply_chunk(&g, rows, threads, start > 0);
#pragma omp barrier
            }
            const size_t pairs = g.filters.columns / l->lanes * g.from.blocks;
#pragma omp for schedule(static)
            for (size_t pair = 0; pair < pairs; pair++)
                l->run->write_filters(
                    &g.filters, pair % g.from.blocks * l->lanes, pair / g.from.blocks * l->lanes,
                    (char *)dw + (first / l->lanes * g.from.blocks + pair) * l->filter);
        }
    }
}

size_t ff_winograd_scratch(const ff_compute *compute, const ff_conv_shape *s) {
    const int threads = compute->threads;
    const convolution ahead = convolution_of(compute, &s->input, &s->output, NULL);
    const convolution back = convolution_of(compute, &s->output, &s->input, NULL);
    const gradient weights = gradient_of(compute, s, NULL);
    size_t most = convolution_floats(&ahead, threads);
    if (s->input_gradient) most = larger(most, convolution_floats(&back, threads));
    if (s->training && !s->frozen) most = larger(most, gradient_floats(&weights));
    return most;
}
