#include "train/compute/cpu/onednn_dense.h"

#ifdef FF_HAVE_DNNL

#include "format/base/memory.h"
#include "train/compute/vector.h"

#include <omp.h>
#include <string.h>

/* The most pixel pairs (input pixels times output pixels) and floats of T for which this pays
 * off. */
enum { MOST_PAIRS = 16, MOST_VALUES = 4 << 20 };

bool ff_dense_fits(const ff_onednn *self, const ff_conv_shape *s) {
    if (s->input.block != self->block || s->output.block != self->block) return false;
    ff_tensor from = s->input, to = s->output;
    from.n = to.n = 1;
    return s->groups == 1 && s->kernel > 1 && s->kernel <= 16 && from.h * from.w <= MOST_PAIRS &&
           from.h * from.w * to.h * to.w <= MOST_PAIRS &&
           ff_tensor_count(&from) <= MOST_VALUES / ff_tensor_count(&to);
}

/* Sizes for all loops: lanes, pixels and blocks of input and output, rows and columns of T. */
typedef struct layout {
    int lanes, in_pixels, out_pixels, in_blocks, out_blocks;
    size_t rows, columns, batch;
} layout;

static layout layout_of(const ff_conv_shape *s) {
    return (layout){
        .lanes = s->input.block,
        .in_pixels = s->input.h * s->input.w,
        .out_pixels = s->output.h * s->output.w,
        .in_blocks = ff_tensor_blocks(&s->input),
        .out_blocks = ff_tensor_blocks(&s->output),
        .rows = ff_tensor_sample(&s->input),
        .columns = ff_tensor_sample(&s->output),
        .batch = (size_t)s->input.n,
    };
}

/* The tap (row * kernel + column) between output pixel p and input pixel q; -1 = no tap. */
static int tap_between(const ff_conv_shape *s, int p, int q) {
    int r = q / s->input.w - p / s->output.w * s->stride + s->pad;
    int c = q % s->input.w - p % s->output.w * s->stride + s->pad;
    return r < 0 || c < 0 || r >= s->kernel || c >= s->kernel ? -1 : r * s->kernel + c;
}

ff_status ff_dense_create(ff_onednn *self, const ff_conv_shape *shape, ff_conv **out,
                          ff_error *error) {
    ff_onednn_conv *conv;
    const layout l = layout_of(shape);
    *out = NULL;
    FF_TRY(ff_alloc(&conv, 1, sizeof *conv, "a convolution", error));
    conv->self = self;
    conv->dense = true;
    conv->base.shape = *shape;
    conv->base.weight_count =
        (size_t)l.in_blocks * l.out_blocks * shape->kernel * shape->kernel * l.lanes * l.lanes;
    conv->base.scratch_bytes = l.rows * l.columns * sizeof(float);
    *out = &conv->base;
    return FF_OK;
}

/* The index of w[o][i][tap] in the held order. */
static size_t held_at(const ff_conv_shape *s, int o, int i, int tap) {
    const int lanes = s->input.block, taps = s->kernel * s->kernel;
    size_t tile = (size_t)(o / lanes) * ff_tensor_blocks(&s->input) + i / lanes;
    return ((tile * taps + tap) * lanes + i % lanes) * lanes + o % lanes;
}

void ff_dense_import(const ff_conv *conv, const float *oihw, float *held) {
    const ff_conv_shape *s = &conv->shape;
    memset(held, 0, conv->weight_count * sizeof *held);
    for (int o = 0; o < s->output.c; o++)
        for (int i = 0; i < s->input.c; i++)
            for (int tap = 0; tap < s->kernel * s->kernel; tap++)
                held[held_at(s, o, i, tap)] = *oihw++;
}

void ff_dense_export(const ff_conv *conv, const float *held, float *oihw) {
    const ff_conv_shape *s = &conv->shape;
    for (int o = 0; o < s->output.c; o++)
        for (int i = 0; i < s->input.c; i++)
            for (int tap = 0; tap < s->kernel * s->kernel; tap++)
                *oihw++ = held[held_at(s, o, i, tap)];
}

/* Blocks have 8 or 16 lanes: 8 at a time, the compiler makes vectors instead of a call. */
static inline void copy_lanes(int lanes, const float *from, float *to) {
    for (int at = 0; at < lanes; at += 8) memcpy(to + at, from + at, 8 * sizeof *to);
}
static inline void zero_lanes(int lanes, float *to) {
    for (int at = 0; at < lanes; at += 8) memset(to + at, 0, 8 * sizeof *to);
}

/* The rows (q, i) of T for one input block, all columns. */
FF_VECTOR_CLONES
static void build_rows(const ff_conv_shape *s, const layout *l, const float *w, int in_block,
                       float *t) {
    const int lanes = l->lanes, taps = s->kernel * s->kernel;
    const size_t tile = (size_t)taps * lanes * lanes;
    float *to = t + (size_t)in_block * l->in_pixels * lanes * l->columns;
    for (int q = 0; q < l->in_pixels; q++) {
        int tap[MOST_PAIRS];
        for (int p = 0; p < l->out_pixels; p++) tap[p] = tap_between(s, p, q);
        for (int i = 0; i < lanes; i++)
            for (int out_block = 0; out_block < l->out_blocks; out_block++) {
                const float *from = w + ((size_t)out_block * l->in_blocks + in_block) * tile;
                for (int p = 0; p < l->out_pixels; p++, to += lanes)
                    if (tap[p] < 0)
                        zero_lanes(lanes, to);
                    else
                        copy_lanes(lanes, from + ((size_t)tap[p] * lanes + i) * lanes, to);
            }
    }
}

static void build(const ff_conv_shape *s, const layout *l, int threads, const float *w, float *t) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int in_block = 0; in_block < l->in_blocks; in_block++) build_rows(s, l, w, in_block, t);
}

/* The gradient of the weights of one tile: the sum of T's gradient over the pairs of pixels that
 * share a tap. */
FF_VECTOR_CLONES
static void collect_tile(const ff_conv_shape *s, const layout *l, const float *dt, int in_block,
                         int out_block, float *dw) {
    const int lanes = l->lanes, taps = s->kernel * s->kernel;
    float *tile =
        dw + ((size_t)out_block * l->in_blocks + in_block) * ((size_t)taps * lanes * lanes);
    bool begun[256] = {false};
    for (int p = 0; p < l->out_pixels; p++)
        for (int q = 0; q < l->in_pixels; q++) {
            const int tap = tap_between(s, p, q);
            if (tap < 0) continue;
            const size_t column = ((size_t)out_block * l->out_pixels + p) * lanes;
            for (int i = 0; i < lanes; i++) {
                size_t row = ((size_t)in_block * l->in_pixels + q) * lanes + i;
                const float *from = dt + row * l->columns + column;
                float *to = tile + ((size_t)tap * lanes + i) * lanes;
                if (begun[tap])
                    for (int o = 0; o < lanes; o++) to[o] += from[o];
                else
                    copy_lanes(lanes, from, to);
            }
            begun[tap] = true;
        }
    if (s->gradient_zeroed) return;
    for (int tap = 0; tap < taps; tap++)
        if (!begun[tap])
            memset(tile + (size_t)tap * lanes * lanes, 0, (size_t)lanes * lanes * sizeof *tile);
}

static int threads_of(const ff_conv *conv) {
    return ((const ff_onednn_conv *)conv)->self->base.threads;
}

dnnl_status_t ff_dense_forward(const ff_conv *conv, const float *x, const float *w,
                               const float *bias, float *y, float *t) {
    const ff_conv_shape *s = &conv->shape;
    const layout l = layout_of(s);
    build(s, &l, threads_of(conv), w, t);
    if (bias)
        for (size_t n = 0; n < l.batch; n++)
            for (size_t c = 0; c < l.columns; c++) {
                size_t block = c / ((size_t)l.out_pixels * l.lanes);
                y[n * l.columns + c] = bias[block * l.lanes + c % l.lanes];
            }
    return dnnl_sgemm('N', 'N', (dnnl_dim_t)l.batch, (dnnl_dim_t)l.columns, (dnnl_dim_t)l.rows, 1,
                      x, (dnnl_dim_t)l.rows, t, (dnnl_dim_t)l.columns, bias ? 1 : 0, y,
                      (dnnl_dim_t)l.columns);
}

dnnl_status_t ff_dense_backward_data(const ff_conv *conv, const float *dy, const float *w,
                                     float *dx, float *t) {
    const ff_conv_shape *s = &conv->shape;
    const layout l = layout_of(s);
    build(s, &l, threads_of(conv), w, t);
    return dnnl_sgemm('N', 'T', (dnnl_dim_t)l.batch, (dnnl_dim_t)l.rows, (dnnl_dim_t)l.columns, 1,
                      dy, (dnnl_dim_t)l.columns, t, (dnnl_dim_t)l.columns, 0, dx,
                      (dnnl_dim_t)l.rows);
}

void ff_dense_sum_pixels(int threads, const ff_tensor *t, const float *dy, float *dbias) {
    const size_t pixels = (size_t)t->h * t->w, block = (size_t)t->block;
    const size_t plane = pixels * block;
    const int blocks = ff_tensor_blocks(t);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int b = 0; b < blocks; b++) {
        double sums[16] = {0};
        for (int n = 0; n < t->n; n++) {
            const float *from = dy + ((size_t)n * blocks + b) * plane;
            for (size_t k = 0; k < pixels; k++)
                for (size_t c = 0; c < block; c++) sums[c] += (double)from[k * block + c];
        }
        for (size_t c = 0; c < block; c++) dbias[(size_t)b * block + c] = (float)sums[c];
    }
}

dnnl_status_t ff_dense_backward_weights(const ff_conv *conv, const float *x, const float *dy,
                                        float *dw, float *dbias, float *t) {
    const ff_conv_shape *s = &conv->shape;
    const layout l = layout_of(s);
    dnnl_status_t status =
        dnnl_sgemm('T', 'N', (dnnl_dim_t)l.rows, (dnnl_dim_t)l.columns, (dnnl_dim_t)l.batch, 1, x,
                   (dnnl_dim_t)l.rows, dy, (dnnl_dim_t)l.columns, 0, t, (dnnl_dim_t)l.columns);
    const int tiles = l.in_blocks * l.out_blocks;
#pragma omp parallel for num_threads(threads_of(conv)) schedule(static)
    for (int tile = 0; tile < tiles; tile++)
        collect_tile(s, &l, t, tile % l.in_blocks, tile / l.in_blocks, dw);
    if (dbias) ff_dense_sum_pixels(threads_of(conv), &s->output, dy, dbias);
    return status;
}

#endif
