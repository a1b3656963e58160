/* The elementwise kernels against plain loops: counts with and without a tail, in place and not;
 * bias and its gradient; dropout's masks against the host's; casts; views. */
#include "tests/cuda/unit/kernel_helpers.h"

static double normal(double z) {
    return 0.5 * (1 + erf(z * 0.70710678118654752));
}

static size_t any_count(dice *d) {
    return roll(d, 4) ? (size_t)between(d, 1, 3000) : (size_t)between(d, 4000, 12000);
}

static void test_activations(void **state) {
    (void)state;
    dice d = {21, 0};
    for (int trial = 0; trial < trials(40); trial++) {
        const size_t count = any_count(&d);
        const ff_dtype dtype = any_float(&d);
        const ff_activation activation = (ff_activation)roll(&d, 4);
        const double far = activation == FF_ACTIVATION_RELU6 ? 6 : 2;
        const ff_cuda_queue queue = queue_of(2);
        array *x = filled(&d, dtype, count, 1, 1, 0, far),
              *dy = filled(&d, dtype, count, 1, 1, 0, 1);
        if (roll(&d, 2)) put(x, 0, NAN);
        send(x);
        array *y = poisoned(dtype, count), *dx = poisoned(dtype, count), *old = copied(dy);
        if (roll(&d, 2)) dx = dy;
        assert_launched(
            ff_cuda_activation_forward(&queue, activation, dtype, count, x->device, y->device));
        fetch(y);
        array *from = ff_activation_sees_output(activation) && roll(&d, 2) ? y : x;
        assert_launched(ff_cuda_activation_backward(&queue, activation, dtype, count, from->device,
                                                    dy->device, dx->device));
        fetch(dx);
        for (size_t i = 0; i < count; i++) {
            double z = at(x, i), forward = z, slope = 1;
            if (activation == FF_ACTIVATION_RELU) {
                forward = z < 0 ? 0 : z;
                slope = z > 0;
            }
            if (activation == FF_ACTIVATION_RELU6) {
                forward = z < 0 ? 0 : z > 6 ? 6 : z;
                slope = z > 0 && z < 6;
            }
            if (activation == FF_ACTIVATION_GELU) {
                forward = z * normal(z);
                slope = normal(z) + z * exp(-z * z / 2) * 0.39894228040143268;
            }
            assert_near(y, i, forward, activation == FF_ACTIVATION_GELU ? 1e-6 * (1 + fabs(z)) : 0);
            assert_near(dx, i, at(old, i) * slope,
                        activation == FF_ACTIVATION_GELU ? 2e-6 * (1 + fabs(z)) * fabs(at(old, i))
                                                         : 0);
        }
        drop_arrays();
    }
}

/* In one pass the same bits as in two. */
static void test_activations_with_bias(void **state) {
    (void)state;
    dice d = {29, 0};
    for (int trial = 0; trial < trials(40); trial++) {
        const int channels = 8 * between(&d, 1, roll(&d, 4) ? 8 : 40);
        const size_t rows = (size_t)between(&d, 1, roll(&d, 3) ? 900 : 5);
        const size_t count = rows * (size_t)channels;
        const ff_dtype dtype = any_float(&d);
        const ff_cuda_queue queue = queue_with(between(&d, 1, 3), dtype);
        const ff_tensor shape = rows_of(rows, channels);
        const ff_activation activation = (ff_activation)between(&d, 1, 3);
        array *z = filled(&d, dtype, rows, channels, channels, 1, 2);
        array *dy = filled(&d, dtype, rows, channels, channels, 0, 1),
              *alone = poisoned(dtype, count);
        array *scratch = bytes(ff_cuda_scratch(queue.multiprocessors, channels));
        array *want = poisoned(FF_F32, channels), *found = poisoned(FF_F32, channels);
        array *dx = roll(&d, 2) ? dy : roll(&d, 2) ? poisoned(dtype, count) : NULL;
        assert_launched(ff_cuda_activation_backward(&queue, activation, dtype, count, z->device,
                                                    dy->device, alone->device));
        assert_launched(
            ff_cuda_bias_gradient(&queue, &shape, alone->device, want->device, scratch->device));
        assert_launched(ff_cuda_activation_bias_gradient(&queue, activation, &shape, z->device,
                                                         dy->device, dx ? dx->device : NULL,
                                                         found->device, scratch->device));
        fetch(want);
        fetch(found);
        fetch(alone);
        fetch(scratch);
        assert_same(found, want);
        if (dx) fetch(dx);
        if (dx) assert_same(dx, alone);
        drop_arrays();
    }
}

static void test_sums(void **state) {
    (void)state;
    dice d = {22, 0};
    for (int trial = 0; trial < trials(30); trial++) {
        const size_t count = any_count(&d);
        const ff_dtype dtype = any_float(&d);
        const ff_cuda_queue queue = queue_of(2);
        array *a = filled(&d, dtype, count, 1, 1, 0, 1), *b = filled(&d, dtype, count, 1, 1, 0, 1);
        array *to = poisoned(dtype, count);
        assert_launched(ff_cuda_add(&queue, dtype, count, a->device, b->device, to->device));
        fetch(to);
        for (size_t i = 0; i < count; i++) assert_near(to, i, at(a, i) + at(b, i), 1e-7);
        assert_launched(ff_cuda_add(&queue, dtype, count, a->device, b->device, b->device));
        fetch(b);
        assert_same(b, to);
        drop_arrays();
    }
}

static void test_casts(void **state) {
    (void)state;
    dice d = {23, 0};
    for (int trial = 0; trial < trials(36); trial++) {
        const size_t count = any_count(&d);
        const ff_dtype from = (ff_dtype[]){FF_F32, FF_F16, FF_BF16}[trial % 3];
        const ff_dtype to = (ff_dtype[]){FF_F32, FF_F16, FF_BF16}[trial / 3 % 3];
        const ff_cuda_queue queue = queue_of(2);
        array *x = filled(&d, from, count, 1, 1, 0, 100), *y = poisoned(to, count);
        const float scale = (float[]){1, 0.125f, 3, 1}[trial % 4];
        assert_launched(ff_cuda_cast(&queue, count, scale, x->device, from, y->device, to));
        fetch(y);
        array *want = poisoned(to, count);
        for (size_t i = 0; i < count; i++) put(want, i, scale * (float)at(x, i));
        assert_same(y, want);
        drop_arrays();
    }
}

static void test_bias(void **state) {
    (void)state;
    dice d = {24, 0};
    for (int trial = 0; trial < trials(40); trial++) {
        const int padded = 8 * between(&d, 1, roll(&d, 5) ? 12 : 70), channels = padded - 3;
        const size_t rows = (size_t)between(&d, 1, 500);
        const ff_dtype dtype = any_float(&d);
        const ff_cuda_queue queue = queue_with(between(&d, 1, 3), dtype);
        const ff_tensor shape = rows_of(rows, padded);
        array *x = filled(&d, dtype, rows, padded, channels, 0, 1);
        array *bias = filled(&d, FF_F32, 1, padded, channels, 0, 1);
        array *y = poisoned(dtype, rows * padded), *dbias = poisoned(FF_F32, padded);
        array *scratch = bytes(ff_cuda_scratch(queue.multiprocessors, padded));
        assert_launched(ff_cuda_bias(&queue, &shape, x->device, bias->device, y->device));
        assert_launched(
            ff_cuda_bias_gradient(&queue, &shape, x->device, dbias->device, scratch->device));
        fetch(y);
        fetch(dbias);
        fetch(scratch);
        for (int c = 0; c < padded; c++) {
            double sum = 0, size = 0;
            for (size_t r = 0; r < rows; r++) {
                const double value = at(x, r * padded + c);
                sum += value;
                size += fabs(value);
                assert_near(y, r * padded + c, value + at(bias, c), 2e-7);
            }
            assert_near(dbias, c, sum, 1e-6 * size);
        }
        array *again = copied(dbias);
        assert_launched(
            ff_cuda_bias_gradient(&queue, &shape, x->device, dbias->device, scratch->device));
        fetch(dbias);
        assert_same(dbias, again);
        drop_arrays();
    }
}

static void test_dropout(void **state) {
    (void)state;
    dice d = {25, 0};
    for (int trial = 0; trial < trials(30); trial++) {
        const int c = between(&d, 1, 70), padded = (c + 7) / 8 * 8;
        const bool flat = roll(&d, 2) != 0; /* after a linear layer */
        const int h = flat ? 1 : between(&d, 1, 7), w = flat ? 1 : between(&d, 1, 7);
        const int n = between(&d, 1, 5);
        const uint64_t before = (uint64_t)roll(&d, 3), rows = before + (uint64_t)n + roll(&d, 2);
        const ff_dtype dtype = any_float(&d);
        const ff_cuda_queue queue = queue_with(1, dtype);
        array *part = poisoned(FF_I32, 1);
        *(uint32_t *)part->host = (uint32_t)roll(&d, 3);
        send(part);
        array *step = poisoned(FF_I64, 1);
        *(uint64_t *)step->host = (1ull << 32) + roll(&d, 1000);
        send(step);
        array *x = filled(&d, dtype, (size_t)n * h * w, padded, c, 0, 1);
        array *y = poisoned(dtype, x->count);
        const ff_dropout dropout = {.shape = {n, c, h, w, padded},
                                    .probability = 0.3,
                                    .seed = 77,
                                    .layer = 5,
                                    .step = step->device,
                                    .part = part->device,
                                    .rows = rows,
                                    .first_row = before};
        assert_launched(ff_cuda_dropout(&queue, &dropout, x->device, y->device));
        fetch(y);
        for (size_t i = 0; i < y->count; i++) {
            const int channel = (int)(i % (size_t)padded);
            const size_t pixel = i / (size_t)padded % (size_t)(h * w),
                         sample = i / (size_t)padded / (size_t)(h * w);
            if (channel >= c) {
                assert_true(at(y, i) == 0);
                continue;
            }
            const uint64_t row = *(uint32_t *)part->host * rows + before + sample;
            const uint64_t e = (row * c + channel) * (size_t)(h * w) + pixel;
            const ff_random r = ff_philox_draw(77, FF_DOMAIN_DROPOUT,
                                               (uint32_t) * (uint64_t *)step->host, e / 4, 5);
            const bool keep = ff_random_unit(r.word[e % 4]) >= 0.3f;
            assert_near(y, i, keep ? at(x, i) * (double)(float)(1 / 0.7) : 0, 0);
        }
        drop_arrays();
    }
}

static int reflected(int at, int size) {
    if (at < 0) return -at;
    return at >= size ? 2 * (size - 1) - at : at;
}

static void test_views(void **state) {
    (void)state;
    dice d = {26, 0};
    for (int trial = 0; trial < trials(40); trial++) {
        const int n = between(&d, 1, 4), h = between(&d, 2, 9), w = between(&d, 2, 9);
        const int channels = between(&d, 1, 20);
        const ff_dtype dtype = any_float(&d);
        const ff_image_view v = {.shape = {n, channels, h, w, channels},
                                 .mirror = roll(&d, 2) != 0,
                                 .down = between(&d, 1 - h, h - 1),
                                 .right = between(&d, 1 - w, w - 1)};
        const ff_cuda_queue queue = queue_with(1, dtype);
        const size_t count = ff_tensor_count(&v.shape);
        array *x = filled(&d, dtype, count, 1, 1, 0, 1), *y = poisoned(dtype, count);
        assert_launched(ff_cuda_view(&queue, &v, x->device, y->device));
        fetch(y);
        size_t i = 0;
        for (int sample = 0; sample < n; sample++)
            for (int row = 0; row < h; row++)
                for (int column = 0; column < w; column++)
                    for (int c = 0; c < channels; c++, i++) {
                        int from = v.mirror ? w - 1 - column : column;
                        size_t pixel = ((size_t)sample * h + reflected(row + v.down, h)) * w +
                                       reflected(from + v.right, w);
                        assert_near(y, i, at(x, pixel * channels + c), 0);
                    }
        drop_arrays();
    }
}

static void test_weigh(void **state) {
    (void)state;
    dice d = {27, 0};
    const ff_cuda_queue queue = queue_of(1);
    for (int trial = 0; trial < trials(6); trial++) {
        const size_t count = any_count(&d);
        const ff_dtype dtype = any_float(&d);
        array *a = filled(&d, dtype, count, 1, 1, 0, 1), *b = filled(&d, dtype, count, 1, 1, 0, 1);
        array *to = poisoned(FF_F32, count);
        assert_launched(ff_cuda_weigh(&queue, dtype, count, 0.5f, true, a->device, to->device));
        assert_launched(ff_cuda_weigh(&queue, dtype, count, 0.25f, false, b->device, to->device));
        fetch(to);
        for (size_t i = 0; i < count; i++)
            assert_near(to, i, 0.5 * at(a, i) + 0.25 * at(b, i), 1e-6);
        drop_arrays();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activations), cmocka_unit_test(test_activations_with_bias),
        cmocka_unit_test(test_sums),        cmocka_unit_test(test_casts),
        cmocka_unit_test(test_bias),        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_views),       cmocka_unit_test(test_weigh),
    };
    return cmocka_run_group_tests(tests, bench_open, bench_close);
}
