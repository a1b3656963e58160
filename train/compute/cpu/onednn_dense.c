#include "train/compute/cpu/onednn_dense.h"

#ifdef FF_HAVE_DNNL

#include "format/base/memory.h"
#include "train/compute/cpu/onednn_product.h"
#include "train/compute/vector.h"

#include <omp.h>
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
    conv->dense = true;
    conv->base.shape = *shape;
    const layout l = layout_of(&conv->base);
    conv->base.weight_count =
        (size_t)l.in_blocks * l.out_blocks * shape->kernel * shape->kernel * l.lanes * l.lanes;
    /* T, or its gradient, which is f32; and the bias of each column */
    conv->base.scratch_bytes = (l.rows * l.columns + l.columns) * sizeof(float);
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

/* The rows (q, i) of T for one input block, all columns. */
FF_VECTOR_CLONES
static void build_rows(const ff_conv_shape *s, const layout *l, const char *w, int in_block,
                       char *t) {
    const int lanes = l->lanes, taps = s->kernel * s->kernel;
    const size_t vector = (size_t)lanes * l->bytes;
    for (int q = 0; q < l->in_pixels; q++)
        for (int out_block = 0; out_block < l->out_blocks; out_block++) {
            const size_t number = (size_t)out_block * l->in_blocks + in_block;
            const char *tile = w + number * taps * lanes * vector;
            for (int p = 0; p < l->out_pixels; p++) {
                const int tap = l->taps[p * l->in_pixels + q];
                const size_t column = ((size_t)out_block * l->out_pixels + p) * lanes;
                for (int i = 0; i < lanes; i++) {
                    size_t row = ((size_t)in_block * l->in_pixels + q) * lanes + i;
                    char *to = t + (row * l->columns + column) * l->bytes;
                    if (tap < 0)
                        memset(to, 0, vector);
                    else
                        memcpy(to, tile + ((size_t)tap * lanes + i) * vector, vector);
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
                    memcpy(to, from, (size_t)lanes * sizeof *to);
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

dnnl_status_t ff_dense_forward(const ff_conv *conv, const void *x, const void *w, const void *bias,
                               void *y, float *t) {
    ff_onednn *self = ((const ff_onednn_conv *)conv)->self;
    const layout l = layout_of(conv);
    const ff_product product = {.m = (dnnl_dim_t)l.batch,
                                .n = (dnnl_dim_t)l.columns,
                                .k = (dnnl_dim_t)l.rows,
                                .scale = 1,
                                .biased = bias != NULL};
    float *biases = t + l.rows * l.columns;
    build(&conv->shape, &l, self->base.threads, w, t);
    for (size_t c = 0; bias && c < l.columns; c++) {
        const size_t block = c / ((size_t)l.out_pixels * l.lanes);
        biases[c] = (float)ff_element(bias, self->base.dtype, block * l.lanes + c % l.lanes);
    }
    return ff_product_run(self, &product, x, t, biases, y);
}

dnnl_status_t ff_dense_backward_data(const ff_conv *conv, const void *dy, const void *w, void *dx,
                                     float *t) {
    ff_onednn *self = ((const ff_onednn_conv *)conv)->self;
    const layout l = layout_of(conv);
    const ff_product product = {.m = (dnnl_dim_t)l.batch,
                                .n = (dnnl_dim_t)l.rows,
                                .k = (dnnl_dim_t)l.columns,
                                .scale = 1,
                                .b_turned = true};
    build(&conv->shape, &l, self->base.threads, w, t);
    return ff_product_run(self, &product, dy, t, NULL, dx);
}

dnnl_status_t ff_dense_backward_weights(const ff_conv *conv, const void *x, const void *dy,
                                        void *dw, float *dbias, float *t) {
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
    for (int c = 0; dbias && c < l.out_blocks * l.lanes; c++) {
        const size_t first = (size_t)(c / l.lanes) * l.out_pixels * l.lanes + c % l.lanes;
        double sum = 0;
        for (size_t n = 0; n < l.batch; n++)
            for (int p = 0; p < l.out_pixels; p++)
                sum += ff_element(dy, dtype, n * l.columns + first + (size_t)p * l.lanes);
        dbias[c] = (float)sum;
    }
    return status;
}

#endif
