/* Pooling on the device against plain loops: windows that overlap or leave gaps, padding, NaN,
 * equal values; with statistics; backward by gathering; global and adaptive pools. */
#include "tests/cuda/unit/kernel_helpers.h"

static ff_pool any_sliding(dice *d) {
    ff_pool p = {.max = roll(d, 3) != 0};
    const int n = between(d, 1, 4), h = between(d, 1, 13), w = between(d, 1, 13);
    const int channels = 8 * between(d, 1, roll(d, 6) ? 6 : 40);
    switch (roll(d, 4)) {
    case 0: p.kernel_h = p.kernel_w = p.stride = 2; break;
    case 1:
        p.kernel_h = p.kernel_w = 3;
        p.stride = 2;
        p.pad = 1;
        break;
    case 2: /* global */
        p.kernel_h = h;
        p.kernel_w = w;
        p.stride = 1;
        break;
    default:
        p.kernel_h = between(d, 1, 4);
        p.kernel_w = between(d, 1, 4);
        p.stride = between(d, 1, 4);
        p.pad = between(d, 0, (p.kernel_h < p.kernel_w ? p.kernel_h : p.kernel_w) / 2);
    }
    if (h + 2 * p.pad < p.kernel_h || w + 2 * p.pad < p.kernel_w) return any_sliding(d);
    p.input = (ff_tensor){n, channels, h, w, channels};
    p.output = (ff_tensor){n, channels, (h + 2 * p.pad - p.kernel_h) / p.stride + 1,
                           (w + 2 * p.pad - p.kernel_w) / p.stride + 1, channels};
    return p;
}

static ff_pool any_pool(dice *d) {
    ff_pool p = any_sliding(d);
    if (roll(d, 5)) return p;
    p = (ff_pool){.input = p.input, .output = p.input, .adaptive = true};
    p.output.h = between(d, 1, 13);
    p.output.w = between(d, 1, 13);
    return p;
}

static size_t in_at(const ff_pool *p, int n, int h, int w, int c) {
    return ff_tensor_at(&p->input, n, c, h, w);
}
static size_t out_at(const ff_pool *p, int n, int y, int x, int c) {
    return ff_tensor_at(&p->output, n, c, y, x);
}
static size_t in_count(const ff_pool *p) {
    return ff_tensor_count(&p->input);
}
static size_t out_count(const ff_pool *p) {
    return ff_tensor_count(&p->output);
}

/* Whether window (y, q) has place (h, w); and how many it has, with the padding. */
static bool holds(const ff_pool *p, int y, int q, int h, int w) {
    const int top = y * p->stride - p->pad, left = q * p->stride - p->pad;
    const double down = (double)p->input.h / p->output.h, right = (double)p->input.w / p->output.w;
    if (!p->adaptive)
        return h >= top && h < top + p->kernel_h && w >= left && w < left + p->kernel_w;
    return h >= floor(y * down + 1e-9) && h < ceil((y + 1) * down - 1e-9) &&
           w >= floor(q * right + 1e-9) && w < ceil((q + 1) * right - 1e-9);
}
static int places(const ff_pool *p, int y, int q) {
    int count = 0;
    for (int h = 0; h < p->input.h; h++)
        for (int w = 0; w < p->input.w; w++) count += holds(p, y, q, h, w);
    return p->adaptive ? count : p->kernel_h * p->kernel_w;
}

/* The place of the largest of a window, its value, and the sum; -1: a window of padding alone. */
static int window(const ff_pool *p, const array *x, int n, int y, int q, int c, double *best,
                  double *sum) {
    int place = -1;
    *sum = 0;
    *best = -INFINITY;
    for (int h = 0; h < p->input.h; h++)
        for (int w = 0; w < p->input.w; w++) {
            if (!holds(p, y, q, h, w)) continue;
            double value = at(x, in_at(p, n, h, w, c));
            *sum += value;
            if (place < 0 || value > *best || isnan(value)) {
                *best = value;
                place = (h - y * p->stride + p->pad) * p->kernel_w + w - q * p->stride + p->pad;
            }
        }
    return place;
}

static void check_forward(const ff_pool *p, const array *x, const array *y, const array *index) {
    for (int n = 0; n < p->input.n; n++)
        for (int i = 0; i < p->output.h; i++)
            for (int j = 0; j < p->output.w; j++)
                for (int c = 0; c < p->input.c; c++) {
                    double best, sum;
                    int place = window(p, x, n, i, j, c, &best, &sum);
                    size_t to = out_at(p, n, i, j, c);
                    if (p->max)
                        assert_near(y, to, best, 0);
                    else
                        assert_near(y, to, sum / places(p, i, j), 4e-6);
                    if (index && p->max && place >= 0)
                        assert_int_equal(((uint8_t *)index->host)[to], place);
                }
}

/* Coarse values, so that equal ones are common; now and then a NaN. */
static array *coarse(dice *d, const ff_pool *p, ff_dtype dtype) {
    array *x = poisoned(dtype, in_count(p));
    const bool nan = !roll(d, 4);
    for (size_t i = 0; i < x->count; i++)
        put(x, i, nan && !roll(d, 40) ? NAN : (double)between(d, -3, 3) / 2);
    send(x);
    return x;
}

static void test_forward(void **state) {
    (void)state;
    dice d = {11, 0};
    for (int trial = 0; trial < trials(60); trial++) {
        const ff_pool p = any_pool(&d);
        const ff_dtype dtype = any_float(&d);
        const ff_cuda_queue queue = queue_with(between(&d, 1, 3), dtype);
        array *x = coarse(&d, &p, dtype), *y = poisoned(dtype, out_count(&p));
        array *index = p.max && roll(&d, 2) ? bytes(out_count(&p)) : NULL;
        assert_launched(
            ff_cuda_pool_forward(&queue, &p, x->device, y->device, index ? index->device : NULL));
        fetch(y);
        if (index) fetch(index);
        check_forward(&p, x, y, index);
        drop_arrays();
    }
}

static void test_statistics(void **state) {
    (void)state;
    dice d = {12, 0};
    for (int trial = 0; trial < trials(40); trial++) {
        const ff_pool p = any_pool(&d);
        const ff_dtype dtype = any_float(&d);
        const ff_cuda_queue queue = queue_with(between(&d, 1, 3), dtype);
        const int channels = p.input.c;
        const size_t rows = out_count(&p) / (size_t)channels;
        array *x = filled(&d, dtype, in_count(&p) / (size_t)channels, channels, channels, 2, 1);
        array *y = poisoned(dtype, out_count(&p)), *index = bytes(out_count(&p));
        array *mean = poisoned(FF_F32, channels), *inv_std = poisoned(FF_F32, channels);
        array *scratch = bytes(ff_cuda_scratch(queue.multiprocessors, channels));
        const ff_norm norm = {
            .shape = p.output, .epsilon = 1e-5f, .mean = mean->device, .inv_std = inv_std->device};
        assert_launched(ff_cuda_pool_statistics(&queue, &p, x->device, y->device, index->device,
                                                &norm, scratch->device));
        fetch(y);
        fetch(mean);
        fetch(inv_std);
        fetch(scratch);
        check_forward(&p, x, y, NULL);
        for (int c = 0; c < channels; c++) {
            double sum = 0, squares = 0;
            for (size_t r = 0; r < rows; r++) sum += at(y, r * channels + c);
            for (size_t r = 0; r < rows; r++)
                squares += pow(at(y, r * channels + c) - sum / (double)rows, 2);
            assert_near(mean, c, sum / (double)rows, 1e-5);
            double want = 1 / sqrt(squares / (double)rows + 1e-5);
            assert_near(inv_std, c, want, 2e-5 * want);
        }
        drop_arrays();
    }
}

static void test_backward(void **state) {
    (void)state;
    dice d = {13, 0};
    for (int trial = 0; trial < trials(60); trial++) {
        const ff_pool p = any_pool(&d);
        const ff_dtype dtype = any_float(&d);
        const ff_cuda_queue queue = queue_with(between(&d, 1, 3), dtype);
        array *dy = poisoned(dtype, out_count(&p)), *index = bytes(out_count(&p));
        array *dx = poisoned(dtype, in_count(&p));
        double *want = calloc(in_count(&p), sizeof *want);
        for (int n = 0; n < p.input.n; n++)
            for (int i = 0; i < p.output.h; i++)
                for (int j = 0; j < p.output.w; j++)
                    for (int c = 0; c < p.input.c; c++) {
                        const size_t from = out_at(&p, n, i, j, c);
                        put(dy, from, gauss(&d));
                        int chosen = -1, seen = 0; /* a place at random within the image */
                        for (int k = 0; k < p.input.h * p.input.w; k++) {
                            const int h = k / p.input.w, w = k % p.input.w;
                            if (!holds(&p, i, j, h, w)) continue;
                            if (!roll(&d, (uint32_t)++seen)) chosen = k;
                            if (!p.max)
                                want[in_at(&p, n, h, w, c)] += at(dy, from) / places(&p, i, j);
                        }
                        const int h = chosen / p.input.w, w = chosen % p.input.w;
                        ((uint8_t *)index->host)[from] =
                            (uint8_t)((h - i * p.stride + p.pad) * p.kernel_w + w - j * p.stride +
                                      p.pad);
                        if (p.max && chosen >= 0) want[in_at(&p, n, h, w, c)] += at(dy, from);
                    }
        send(dy);
        send(index);
        assert_launched(ff_cuda_pool_backward(&queue, &p, dy->device, p.max ? index->device : NULL,
                                              dx->device));
        fetch(dx);
        for (size_t i = 0; i < dx->count; i++) assert_near(dx, i, want[i], 4e-6);
        free(want);
        drop_arrays();
    }
}

/* The gradient of a norm of any activation, passed on through the pool before it: the same bits as
 * the norm's own gradient, put where the index says. */
static void test_backward_of_norm(void **state) {
    (void)state;
    dice d = {15, 0};
    for (int trial = 0; trial < trials(40); trial++) {
        const int side = between(&d, 1, 4), channels = 8 * between(&d, 1, roll(&d, 6) ? 6 : 40);
        const int h = between(&d, 1, 5), w = between(&d, 1, 5), n = between(&d, 1, 4);
        ff_pool p = {.kernel_h = side, .kernel_w = side, .stride = side, .max = true};
        p.output = (ff_tensor){n, channels, h, w, channels};
        p.input = (ff_tensor){n, channels, h * side + (int)roll(&d, (uint32_t)side),
                              w * side + (int)roll(&d, (uint32_t)side), channels};
        const ff_dtype dtype = any_float(&d);
        const ff_cuda_queue queue = queue_with(between(&d, 1, 3), dtype);
        const size_t rows = out_count(&p) / (size_t)channels;
        array *x = filled(&d, dtype, rows, channels, channels, 0, 1);
        array *dy = filled(&d, dtype, rows, channels, channels, 0, 1), *index = bytes(x->count);
        array *dy2 = roll(&d, 2) ? filled(&d, dtype, rows, channels, channels, 0, 1) : NULL;
        array *of = filled(&d, FF_F32, 4, channels, channels, 1, 0.2);
        array *scratch = bytes(ff_cuda_scratch(queue.multiprocessors, channels));
        array *alone = poisoned(dtype, x->count), *dx = poisoned(dtype, in_count(&p));
        float *values = of->device;
        for (size_t i = 0; i < x->count; i++)
            ((uint8_t *)index->host)[i] = (uint8_t)roll(&d, (uint32_t)(side * side));
        send(index);
        ff_norm_backward norm = {.forward = {.shape = p.output,
                                             .activation = (ff_activation)roll(&d, 4),
                                             .gamma = values,
                                             .beta = values + channels,
                                             .mean = values + 2 * channels,
                                             .inv_std = values + 3 * channels,
                                             .x = x->device},
                                 .dy = dy->device,
                                 .dy2 = dy2 ? dy2->device : NULL,
                                 .dx = alone->device};
        assert_launched(ff_cuda_norm_backward_run(&queue, &norm, scratch->device, false));
        norm.pool = &p, norm.index = index->device, norm.dx = dx->device;
        assert_launched(ff_cuda_norm_backward_run(&queue, &norm, scratch->device, false));
        fetch(alone);
        fetch(dx);
        fetch(scratch);
        for (size_t i = 0; i < dx->count; i++) {
            const int c = (int)(i % (size_t)channels), pixel = (int)(i / (size_t)channels);
            const int right = pixel % p.input.w, down = pixel / p.input.w % p.input.h;
            const int y = down / side, q = right / side, place = down % side * side + right % side;
            double want = 0;
            if (y < h && q < w) {
                const size_t from = out_at(&p, pixel / p.input.w / p.input.h, y, q, c);
                if (((uint8_t *)index->host)[from] == place) want = at(alone, from);
            }
            assert_true(at(dx, i) == want && !signbit(at(dx, i)) == !(want < 0));
        }
        drop_arrays();
    }
}

static void test_refusals(void **state) {
    (void)state;
    dice d = {14, 0};
    const ff_cuda_queue queue = queue_of(1);
    ff_pool p = any_sliding(&d);
    p.stride = 0;
    assert_int_equal(ff_cuda_pool_forward(&queue, &p, NULL, NULL, NULL), FF_CUDA_INVALID_VALUE);
    p = any_pool(&d);
    p.input.c = p.input.block = 4;
    assert_int_equal(ff_cuda_pool_backward(&queue, &p, NULL, NULL, NULL), FF_CUDA_INVALID_VALUE);
    p = any_sliding(&d);
    p.max = true;
    p.kernel_h = p.kernel_w = 17; /* an index would not fit in a byte */
    assert_int_equal(ff_cuda_pool_forward(&queue, &p, NULL, NULL, NULL), FF_CUDA_INVALID_VALUE);
    /* a norm's gradient through windows that overlap, or in place */
    const ff_tensor shape = {1, 8, 2, 2, 8}, wide = {1, 8, 5, 5, 8}, even = {1, 8, 4, 4, 8};
    p = (ff_pool){.input = wide, .output = shape, .kernel_h = 3, .kernel_w = 3, .stride = 2};
    p.max = true;
    array *x = poisoned(FF_F32, 32), *dx = poisoned(FF_F32, 200);
    ff_norm_backward norm = {
        .forward = {.shape = shape}, .dy = x->device, .dx = dx->device, .pool = &p};
    assert_int_equal(ff_cuda_norm_backward_run(&queue, &norm, NULL, false), FF_CUDA_INVALID_VALUE);
    p = (ff_pool){.input = even, .output = shape, .kernel_h = 2, .kernel_w = 2, .stride = 2};
    p.max = true;
    norm.dx = x->device;
    assert_int_equal(ff_cuda_norm_backward_run(&queue, &norm, NULL, false), FF_CUDA_INVALID_VALUE);
    drop_arrays();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward),  cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_backward), cmocka_unit_test(test_backward_of_norm),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, bench_open, bench_close);
}
