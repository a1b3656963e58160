#include "train/compute/cpu/onednn_patches.h"

#ifdef FF_HAVE_DNNL

#include "train/compute/vector.h"

#include <omp.h>
#include <string.h>

/* The most pixels of an output for which this was measured to pay off. */
enum { MOST_PIXELS = 4 };

bool ff_patches_fit(const ff_onednn *self, const ff_conv_shape *s) {
    return s->input.block == self->block && s->output.block == self->block && s->groups == 1 &&
           s->kernel > 1 && s->output.h * s->output.w <= MOST_PIXELS;
}

/* The product's sizes: P is [depth][rows], dy as a matrix [depth][columns], dw [rows][columns]. */
typedef struct product {
    size_t rows, columns, depth;
} product;

static product product_of(const ff_conv_shape *s) {
    return (product){
        .rows = (size_t)ff_tensor_padded_channels(&s->input) * s->kernel * s->kernel,
        .columns = (size_t)ff_tensor_padded_channels(&s->output),
        .depth = (size_t)s->input.n * s->output.h * s->output.w,
    };
}

size_t ff_patches_scratch_bytes(const ff_conv_shape *s) {
    const product m = product_of(s);
    return (m.depth * (m.rows + m.columns) + m.rows * m.columns) * sizeof(float);
}

/* The rows of P and of dy's matrix for sample n. */
FF_VECTOR_CLONES
static void lay_sample(const ff_conv_shape *s, int n, const float *x, const float *dy, float *p,
                       float *d) {
    const int lanes = s->input.block, height = s->input.h, width = s->input.w;
    const int in_blocks = ff_tensor_blocks(&s->input), out_blocks = ff_tensor_blocks(&s->output);
    const int pixels = s->output.h * s->output.w;
    x += (size_t)n * in_blocks * height * width * lanes;
    dy += (size_t)n * out_blocks * pixels * lanes;
    p += (size_t)n * pixels * in_blocks * s->kernel * s->kernel * lanes;
    d += (size_t)n * pixels * out_blocks * lanes;
    for (int pixel = 0; pixel < pixels; pixel++) {
        const int top = pixel / s->output.w * s->stride - s->pad;
        const int left = pixel % s->output.w * s->stride - s->pad;
        for (int b = 0; b < in_blocks; b++)
            for (int tap = 0; tap < s->kernel * s->kernel; tap++, p += lanes) {
                const int h = top + tap / s->kernel, w = left + tap % s->kernel;
                const bool inside = h >= 0 && h < height && w >= 0 && w < width;
                const float *from = x + (((size_t)b * height + h) * width + w) * lanes;
                for (int c = 0; c < lanes; c++) p[c] = inside ? from[c] : 0;
            }
        for (int b = 0; b < out_blocks; b++, d += lanes)
            for (int c = 0; c < lanes; c++) d[c] = dy[((size_t)b * pixels + pixel) * lanes + c];
    }
}

dnnl_status_t ff_patches_backward_weights(const ff_conv *conv, const float *x, const float *dy,
                                          float *dw, float *scratch) {
    const ff_conv_shape *s = &conv->shape;
    const int threads = ((const ff_onednn_conv *)conv)->self->base.threads;
    const product m = product_of(s);
    float *p = scratch, *d = p + m.depth * m.rows, *sums = d + m.depth * m.columns;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int n = 0; n < s->input.n; n++) lay_sample(s, n, x, dy, p, d);
    const dnnl_dim_t rows = (dnnl_dim_t)m.rows, columns = (dnnl_dim_t)m.columns;
    const dnnl_status_t status = dnnl_sgemm('T', 'N', rows, columns, (dnnl_dim_t)m.depth, 1, p,
                                            rows, d, columns, 0, sums, columns);
    const size_t lanes = (size_t)s->output.block, blocks = m.columns / lanes;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t block = 0; block < blocks; block++)
        for (size_t row = 0; row < m.rows; row++)
            memcpy(dw + (block * m.rows + row) * lanes, sums + row * m.columns + block * lanes,
                   lanes * sizeof *dw);
    return status;
}

#endif
