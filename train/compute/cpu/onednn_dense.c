#include "train/compute/cpu/onednn_dense.h"

#ifdef FF_HAVE_DNNL

#include "format/base/memory.h"
#include "train/compute/cpu/onednn_product.h"
#include "train/compute/vector.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* The most pixel pairs (input pixels times output pixels) and elements of T for which this pays
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
    size_t rows, columns, batch, bytes; /* bytes: of a lane of all weights, activations and T */
    int16_t taps[MOST_PAIRS]; /* of output pixel p and input pixel q at p * in_pixels + q */
} layout;

/* The tap (row * kernel + column) between output pixel p and input pixel q; -1 = no tap. */
static int tap_between(const ff_conv_shape *s, int p, int q) {
    int r = q / s->input.w - p / s->output.w * s->stride + s->pad;
    int c = q % s->input.w - p % s->output.w * s->stride + s->pad;
    return r < 0 || c < 0 || r >= s->kernel || c >= s->kernel ? -1 : r * s->kernel + c;
}

static layout layout_of(const ff_conv *conv) {
    const ff_conv_shape *s = &conv->shape;
    layout l = {
        .lanes = s->input.block,
        .in_pixels = s->input.h * s->input.w,
        .out_pixels = s->output.h * s->output.w,
        .in_blocks = ff_tensor_blocks(&s->input),
        .out_blocks = ff_tensor_blocks(&s->output),
        .rows = ff_tensor_sample(&s->input),
        .columns = ff_tensor_sample(&s->output),
        .batch = (size_t)s->input.n,
        .bytes = ((const ff_onednn_conv *)conv)->self->base.element_bytes,
    };
    for (int p = 0; p < l.out_pixels; p++)
        for (int q = 0; q < l.in_pixels; q++)
            l.taps[p * l.in_pixels + q] = (int16_t)tap_between(s, p, q);
    return l;
}

ff_status ff_dense_create(ff_onednn *self, const ff_conv_shape *shape, ff_conv **out,
                          ff_error *error) {
    ff_onednn_conv *conv;
    *out = NULL;
    FF_TRY(ff_alloc(&conv, 1, sizeof *conv, "a convolution", error));
    conv->self = self;
    conv->way = &ff_dense_way;
    conv->base.shape = *shape;
    const layout l = layout_of(&conv->base);
    conv->base.weight_count =
        (size_t)l.in_blocks * l.out_blocks * shape->kernel * shape->kernel * l.lanes * l.lanes;
    /* T, or its gradient, which is f32; and the bias of each column */
    conv->base.scratch_bytes = (l.rows * l.columns + l.columns) * sizeof(float);
    if (shape->input_gradient) conv->base.kept_bytes = l.rows * l.columns * l.bytes;
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

/* A block's lanes have 32 or 64 bytes: 32 at a time, the compiler makes vectors instead of a call.
 */
static inline void copy_vector(size_t bytes, const void *from, void *to) {
    for (size_t at = 0; at < bytes; at += 32) memcpy((char *)to + at, (const char *)from + at, 32);
}
static inline void zero_vector(size_t bytes, void *to) {
    for (size_t at = 0; at < bytes; at += 32) memset((char *)to + at, 0, 32);
}

/* The rows (q, i) of T for one input block, all columns. */
FF_VECTOR_CLONES
static void build_rows(const ff_conv_shape *s, const layout *l, const char *w, int in_block,
                       char *t) {
    const int lanes = l->lanes, taps = s->kernel * s->kernel;
    const size_t vector = (size_t)lanes * l->bytes, tile = (size_t)taps * lanes * vector;
    char *to = t + (size_t)in_block * l->in_pixels * lanes * l->columns * l->bytes;
    for (int q = 0; q < l->in_pixels; q++) {
        for (int i = 0; i < lanes; i++)
            for (int out_block = 0; out_block < l->out_blocks; out_block++) {
                const char *from = w + ((size_t)out_block * l->in_blocks + in_block) * tile;
                for (int p = 0; p < l->out_pixels; p++, to += vector) {
                    const int tap = l->taps[p * l->in_pixels + q];
                    if (tap < 0)
                        zero_vector(vector, to);
                    else
                        copy_vector(vector, from + ((size_t)tap * lanes + i) * vector, to);
                }
            }
    }
}

static void build(const ff_conv_shape *s, const layout *l, int threads, const void *w, void *t) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int in_block = 0; in_block < l->in_blocks; in_block++) build_rows(s, l, w, in_block, t);
}

/* Adds T's gradient over the pairs of pixels that share a tap. Returns whether there are any. */
FF_VECTOR_CLONES
static bool collect_tap(const layout *l, const float *dt, int in_block, int out_block, int tap,
                        float *sums) {
    const int lanes = l->lanes;
    bool begun = false;
    for (int p = 0; p < l->out_pixels; p++)
        for (int q = 0; q < l->in_pixels; q++) {
            if (l->taps[p * l->in_pixels + q] != tap) continue;
            const size_t column = ((size_t)out_block * l->out_pixels + p) * lanes;
            for (int i = 0; i < lanes; i++) {
                size_t row = ((size_t)in_block * l->in_pixels + q) * lanes + i;
                const float *from = dt + row * l->columns + column;
                float *to = sums + i * lanes;
                if (begun)
                    for (int o = 0; o < lanes; o++) to[o] += from[o];
                else
                    copy_vector((size_t)lanes * sizeof *to, from, to);
            }
            begun = true;
        }
    return begun;
}

/* The gradient of the weights of one tile. */
static void collect_tile(const ff_conv_shape *s, const layout *l, ff_dtype dtype, const float *dt,
                         int tile, char *dw) {
    const int taps = s->kernel * s->kernel;
    const size_t count = (size_t)l->lanes * l->lanes;
    float sums[16 * 16];
    for (int tap = 0; tap < taps; tap++) {
        char *to = dw + ((size_t)tile * taps + tap) * count * l->bytes;
        if (collect_tap(l, dt, tile % l->in_blocks, tile / l->in_blocks, tap, sums))
            ff_convert(to, dtype, sums, FF_F32, count);
        else if (!s->gradient_zeroed)
            memset(to, 0, count * l->bytes);
    }
}

static dnnl_status_t forward(ff_conv *conv, const void *x, const void *w, const void *bias, void *y,
                             void *scratch) {
    ff_onednn *self = ((const ff_onednn_conv *)conv)->self;
    const layout l = layout_of(conv);
    const ff_product product = {.m = (dnnl_dim_t)l.batch,
                                .n = (dnnl_dim_t)l.columns,
                                .k = (dnnl_dim_t)l.rows,
                                .scale = 1,
                                .biased = bias != NULL};
    float *biases = (float *)scratch + l.rows * l.columns;
    void *t = conv->kept ? conv->kept : scratch;
    build(&conv->shape, &l, self->base.threads, w, t);
    for (size_t c = 0; bias && c < l.columns; c++) {
        const size_t block = c / ((size_t)l.out_pixels * l.lanes);
        biases[c] = (float)ff_element(bias, self->base.dtype, block * l.lanes + c % l.lanes);
    }
    return ff_product_run(self, &product, x, t, biases, y);
}

static dnnl_status_t backward_data(ff_conv *conv, const void *dy, const void *w, void *dx,
                                   void *scratch) {
    ff_onednn *self = ((const ff_onednn_conv *)conv)->self;
    const layout l = layout_of(conv);
    const ff_product product = {.m = (dnnl_dim_t)l.batch,
                                .n = (dnnl_dim_t)l.rows,
                                .k = (dnnl_dim_t)l.columns,
                                .scale = 1,
                                .b_turned = true};
    const void *t = conv->kept ? conv->kept : scratch;
    if (!conv->kept) build(&conv->shape, &l, self->base.threads, w, scratch);
    return ff_product_run(self, &product, dy, t, NULL, dx);
}

/* The sum over samples and pixels. */
void ff_dense_sum_pixels(const ff_compute *compute, const ff_tensor *t, const void *dy,
                         float *dbias) {
    const size_t block = (size_t)t->block, plane = (size_t)t->h * t->w * block;
    const size_t bytes = compute->element_bytes;
    const int blocks = ff_tensor_blocks(t);
#pragma omp parallel for num_threads(compute->threads) schedule(static)
    for (int b = 0; b < blocks; b++) {
        double sums[16] = {0};
        float some[1024];
        for (int n = 0; n < t->n; n++) {
            const char *from = (const char *)dy + ((size_t)n * blocks + b) * plane * bytes;
            for (size_t at = 0, count; at < plane; at += count) {
                count = plane - at < 1024 ? plane - at : 1024; /* a multiple of the block */
                ff_convert(some, FF_F32, from + at * bytes, compute->dtype, count);
                for (size_t k = 0; k < count; k++) sums[k % block] += (double)some[k];
            }
        }
        for (size_t c = 0; c < block; c++) dbias[(size_t)b * block + c] = (float)sums[c];
    }
}

static dnnl_status_t backward_weights(ff_conv *conv, const void *x, const void *dy, void *dw,
                                      float *dbias, void *t) {
    ff_onednn *self = ((const ff_onednn_conv *)conv)->self;
    const layout l = layout_of(conv);
    const ff_dtype dtype = self->base.dtype;
    const ff_product product = {.m = (dnnl_dim_t)l.rows,
                                .n = (dnnl_dim_t)l.columns,
                                .k = (dnnl_dim_t)l.batch,
                                .scale = 1,
                                .a_turned = true,
                                .wide = true};
    const dnnl_status_t status = ff_product_run(self, &product, x, dy, NULL, t);
    const int tiles = l.in_blocks * l.out_blocks;
#pragma omp parallel for num_threads(self->base.threads) schedule(static)
    for (int tile = 0; tile < tiles; tile++) collect_tile(&conv->shape, &l, dtype, t, tile, dw);
    if (dbias) ff_dense_sum_pixels(&self->base, &conv->shape.output, dy, dbias);
    return status;
}

static void destroy(ff_conv *conv) {
    free(conv);
}

const ff_onednn_way ff_dense_way = {
    .destroy = destroy,
    .import = ff_dense_import,
    .export = ff_dense_export,
    .forward = forward,
    .backward_data = backward_data,
    .backward_weights = backward_weights,
};

#endif
