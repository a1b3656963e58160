/* Depthwise convolution on the device, its three passes, against plain loops in double. */
#include "tests/cuda/unit/kernel_helpers.h"

typedef struct net {
    ff_cuda_queue queue;
    ff_cuda_depthwise conv;
    array *x, *dy, *weights;
} net;

static net make(dice *d) {
    const int multiprocessors = between(d, 1, 3), samples = between(d, 1, 4);
    const int h = between(d, 1, 12), w = between(d, 1, 12);
    const int channels = 8 * between(d, 1, roll(d, 6) ? 6 : 40), stride = between(d, 1, 2);
    const int out_h = (h - 1) / stride + 1, out_w = (w - 1) / stride + 1;
    const ff_dtype dtype = any_float(d);
    net n = {.queue = queue_with(multiprocessors, dtype),
             .conv = {.input = {samples, channels, h, w, channels},
                      .output = {samples, channels, out_h, out_w, channels},
                      .stride = stride}};
    n.x = filled(d, dtype, ff_cuda_rows(&n.conv.input), channels, channels - 2, 0, 1);
    n.dy = filled(d, dtype, ff_cuda_rows(&n.conv.output), channels, channels - 2, 0, 1);
    n.weights = filled(d, dtype, 9, channels, channels - 2, 0, 1);
    return n;
}

static void each_product(const net *n, void (*body)(void *context, size_t x, size_t y, size_t w),
                         void *context) {
    const ff_cuda_depthwise *conv = &n->conv;
    const ff_tensor *in = &conv->input, *out = &conv->output;
    const size_t channels = (size_t)in->c;
    for (int s = 0; s < in->n; s++)
        for (int p = 0; p < out->h; p++)
            for (int q = 0; q < out->w; q++)
                for (int tap = 0; tap < 9; tap++) {
                    int h = p * conv->stride + tap / 3 - 1, w = q * conv->stride + tap % 3 - 1;
                    if (h < 0 || h >= in->h || w < 0 || w >= in->w) continue;
                    size_t from = ((size_t)s * in->h + h) * in->w + w;
                    size_t to = ((size_t)s * out->h + p) * out->w + q;
                    for (size_t c = 0; c < channels; c++)
                        body(context, from * channels + c, to * channels + c,
                             (size_t)tap * channels + c);
                }
}

typedef struct sums {
    const net *n;
    double *y, *dx, *dw, *dw_size;
} sums;

static void add_product(void *context, size_t x, size_t y, size_t w) {
    const sums *s = context;
    s->y[y] += at(s->n->x, x) * at(s->n->weights, w);
    s->dx[x] += at(s->n->dy, y) * at(s->n->weights, w);
    s->dw[w] += at(s->n->dy, y) * at(s->n->x, x);
    s->dw_size[w] += fabs(at(s->n->dy, y) * at(s->n->x, x));
}

static void test_passes(void **state) {
    (void)state;
    dice d = {51, 0};
    for (int trial = 0; trial < trials(40); trial++) {
        const net n = make(&d);
        const ff_dtype dtype = n.queue.dtype;
        array *y = poisoned(dtype, n.dy->count), *dx = poisoned(dtype, n.x->count);
        array *dw = poisoned(FF_F32, n.weights->count);
        array *scratch = bytes(9 * ff_cuda_scratch(n.queue.multiprocessors, n.conv.input.c));
        assert_launched(ff_cuda_depthwise_forward(&n.queue, &n.conv, n.x->device, n.weights->device,
                                                  y->device));
        assert_launched(ff_cuda_depthwise_backward_data(&n.queue, &n.conv, n.dy->device,
                                                        n.weights->device, dx->device));
        assert_launched(ff_cuda_depthwise_backward_weights(
            &n.queue, &n.conv, n.x->device, n.dy->device, dw->device, scratch->device));
        fetch(y);
        fetch(dx);
        fetch(dw);
        fetch(scratch);
        sums s = {&n, calloc(y->count, 8), calloc(dx->count, 8), calloc(dw->count, 8),
                  calloc(dw->count, 8)};
        each_product(&n, add_product, &s);
        for (size_t i = 0; i < y->count; i++) assert_near(y, i, s.y[i], 1e-5);
        for (size_t i = 0; i < dx->count; i++) assert_near(dx, i, s.dx[i], 1e-5);
        for (size_t i = 0; i < dw->count; i++) assert_near(dw, i, s.dw[i], 1e-6 * s.dw_size[i]);
        free(s.y);
        free(s.dx);
        free(s.dw);
        free(s.dw_size);
        drop_arrays();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_passes)};
    return cmocka_run_group_tests(tests, bench_open, bench_close);
}
