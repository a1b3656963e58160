/* Batch norm on the device against plain loops in double: statistics, the elementwise pass,
 * backward; every dtype and activation, odd shapes, values far from zero. */
#include "tests/cuda/unit/kernel_helpers.h"

/* z computed as by the kernels and the host, so that a mask never depends on rounding. */
static float affine(double x, float scale, float shift) {
    return (float)x * scale + shift;
}
static double normal(double z) {
    return 0.5 * (1 + erf(z * 0.70710678118654752));
}
static double activate(ff_activation activation, double z) {
    if (activation == FF_ACTIVATION_RELU) return z < 0 ? 0 : z;
    if (activation == FF_ACTIVATION_RELU6) return fmin(fmax(z, 0), 6);
    return activation == FF_ACTIVATION_GELU ? z * normal(z) : z;
}
static double slope(ff_activation activation, double z) {
    if (activation == FF_ACTIVATION_RELU) return z > 0;
    if (activation == FF_ACTIVATION_RELU6) return z > 0 && z < 6;
    if (activation != FF_ACTIVATION_GELU) return 1;
    return normal(z) + z * exp(-z * z / 2) * 0.39894228040143268;
}
/* The short GELU's error on top of f32's, times what it multiplies. */
static double activation_error(ff_activation activation, double of) {
    return (activation == FF_ACTIVATION_GELU ? 1e-6 : 2e-7) * (1 + fabs(of));
}

typedef struct net {
    ff_cuda_queue queue;
    ff_norm norm;
    size_t rows;
    int channels, true_channels;
    array *x, *residual, *y, *mask, *gamma, *beta, *mean, *inv_std, *running_mean, *running_var,
        *scratch;
} net;

/* A norm of random shape; `offset`: how far its values are from zero. */
static net make(dice *d, double offset) {
    const int multiprocessors = between(d, 1, 3);
    const bool wide = !roll(d, 5);
    const int padded = 8 * between(d, wide ? 30 : 1, wide ? 70 : 12);
    const int true_channels = padded - between(d, 0, 7);
    const size_t rows = (size_t)between(d, 1, roll(d, 4) ? 600 : 4);
    const ff_dtype dtype = any_float(d);
    net n = {.queue = queue_with(multiprocessors, dtype), .rows = rows, .channels = padded};
    n.true_channels = true_channels;
    n.norm = (ff_norm){.shape = {(int)rows, true_channels, 1, 1, padded},
                       .activation = (ff_activation)roll(d, 4),
                       .momentum = 0.4f,
                       .epsilon = roll(d, 2) ? 1e-5f : 1e-12f};
    n.x = filled(d, n.queue.dtype, rows, padded, n.true_channels, offset, 1.5);
    if (n.norm.activation <= FF_ACTIVATION_RELU && roll(d, 2))
        n.residual = filled(d, n.queue.dtype, rows, padded, n.true_channels, 0, 1);
    n.y = poisoned(n.queue.dtype, rows * padded);
    if (roll(d, 2)) n.mask = bytes(ff_cuda_norm_mask(dtype, &n.norm.shape));
    if (roll(d, 3)) n.gamma = filled(d, FF_F32, 1, padded, n.true_channels, 1, 0.5);
    /* ReLU6: on both sides of 6 */
    const double far = n.norm.activation == FF_ACTIVATION_RELU6 ? 6 : 0.5;
    n.beta = filled(d, FF_F32, 1, padded, n.true_channels, 0, far);
    n.mean = poisoned(FF_F32, padded);
    n.inv_std = poisoned(FF_F32, padded);
    n.running_mean = filled(d, FF_F32, 1, padded, n.true_channels, 0, 1);
    n.running_var = filled(d, FF_F32, 1, padded, n.true_channels, 2, 0.1);
    n.scratch = bytes(ff_cuda_scratch(n.queue.multiprocessors, padded));
    n.norm.gamma = n.gamma ? n.gamma->device : NULL;
    n.norm.beta = n.beta->device;
    n.norm.mean = n.mean->device;
    n.norm.inv_std = n.inv_std->device;
    n.norm.running_mean = n.running_mean->device;
    n.norm.running_var = n.running_var->device;
    n.norm.x = n.x->device;
    n.norm.residual = n.residual ? n.residual->device : NULL;
    n.norm.y = n.y->device;
    n.norm.mask = n.mask ? n.mask->device : NULL;
    return n;
}

static void check_statistics(const net *n, const array *old_mean, const array *old_var,
                             double relative) {
    const size_t rows = n->rows;
    const int channels = n->channels;
    fetch(n->mean);
    fetch(n->inv_std);
    fetch(n->running_mean);
    fetch(n->running_var);
    for (int c = 0; c < channels; c++) {
        double sum = 0, squares = 0;
        for (size_t r = 0; r < rows; r++) sum += at(n->x, r * channels + c);
        const double mean = sum / (double)rows;
        for (size_t r = 0; r < rows; r++) {
            double apart = at(n->x, r * channels + c) - mean;
            squares += apart * apart;
        }
        const double variance = squares / (double)rows;
        const double unbiased = rows > 1 ? squares / (double)(rows - 1) : variance;
        const double inv_std = 1 / sqrt(variance + (double)n->norm.epsilon);
        assert_near(n->mean, c, mean, relative * (fabs(mean) + sqrt(variance)));
        /* In a column of one value the deviations are only rounding. Means of parts of a column are
         * f32, so their differences are known to 2^-24 |mean|. */
        const double parts = 6e-8 * fabs(mean) / sqrt(variance);
        if (rows > 1 && variance > 0)
            assert_near(n->inv_std, c, inv_std, (5 * relative + parts) * inv_std);
        if (variance == 0) assert_near(n->inv_std, c, inv_std, 1e-6 * inv_std);
        assert_near(n->running_mean, c, 0.6 * at(old_mean, c) + 0.4 * mean,
                    relative * (1 + fabs(mean)));
        assert_near(n->running_var, c, 0.6 * at(old_var, c) + 0.4 * unbiased,
                    5 * relative * (1 + unbiased));
    }
}

static void test_statistics(void **state) {
    (void)state;
    dice d = {1, 0};
    for (int trial = 0; trial < trials(40); trial++) {
        /* far from zero: in 16 bits the deviations are coarse, but exact data */
        net n = make(&d, trial % 3 ? 0 : 900);
        array *old_mean = copied(n.running_mean), *old_var = copied(n.running_var);
        assert_launched(ff_cuda_norm_statistics(&n.queue, &n.norm, n.scratch->device));
        check_statistics(&n, old_mean, old_var, 2e-6);
        /* again: the same bits */
        array *mean = copied(n.mean), *inv_std = copied(n.inv_std);
        assert_launched(ff_cuda_norm_statistics(&n.queue, &n.norm, n.scratch->device));
        fetch(n.mean);
        fetch(n.inv_std);
        fetch(n.scratch);
        assert_same(n.mean, mean);
        assert_same(n.inv_std, inv_std);
        drop_arrays();
    }
}

/* A NaN stays in its channel; a constant channel has deviation 0. */
static void test_statistics_special(void **state) {
    (void)state;
    dice d = {2, 0};
    net n = make(&d, 0);
    const int channels = n.channels;
    for (size_t r = 0; r < n.rows; r++) put(n.x, r * channels + 1, 3.5);
    put(n.x, (n.rows / 2) * channels, NAN);
    send(n.x);
    assert_launched(ff_cuda_norm_statistics(&n.queue, &n.norm, n.scratch->device));
    fetch(n.mean);
    fetch(n.inv_std);
    assert_true(isnan(at(n.mean, 0)) && isnan(at(n.inv_std, 0)));
    assert_true(at(n.mean, 1) == 3.5);
    assert_near(n.inv_std, 1, 1 / sqrt((double)n.norm.epsilon),
                1 / sqrt((double)n.norm.epsilon) * 1e-6);
    for (int c = 2; c < channels; c++) assert_false(isnan(at(n.mean, c)));
    drop_arrays();
}

static void test_finish_from_sums(void **state) {
    (void)state;
    dice d = {3, 0};
    for (int trial = 0; trial < trials(10); trial++) {
        net n = make(&d, 0.5);
        const int channels = n.channels;
        array *old_mean = copied(n.running_mean), *old_var = copied(n.running_var);
        array *sums = poisoned(FF_F32, 2 * channels);
        for (int c = 0; c < channels; c++) {
            double s = 0, q = 0;
            for (size_t r = 0; r < n.rows; r++) {
                double x = at(n.x, r * channels + c);
                s += x;
                q += x * x;
            }
            put(sums, c, s);
            put(sums, channels + c, q);
        }
        send(sums);
        n.norm.sums = sums->device;
        if (n.rows < 8) continue; /* rounded sums mean nothing for so few values */
        assert_launched(ff_cuda_norm_finish(&n.queue, &n.norm));
        check_statistics(&n, old_mean, old_var, 1e-5);
        drop_arrays();
    }
    drop_arrays();
}

/* Rounded sums may give a constant channel far from zero a negative variance: 0. */
static void test_finish_from_rounded_sums(void **state) {
    (void)state;
    dice d = {6, 0};
    for (int trial = 0; trial < trials(4); trial++) {
        net n = make(&d, 0);
        const int channels = n.channels;
        const double rows = (double)n.rows, value = 4096;
        array *sums = poisoned(FF_F32, 2 * channels);
        array *old_var = copied(n.running_var);
        for (int c = 0; c < channels; c++) {
            put(sums, c, rows * value);
            put(sums, channels + c, (double)nextafterf((float)(rows * value * value), 0));
        }
        send(sums);
        n.norm.sums = sums->device;
        assert_launched(ff_cuda_norm_finish(&n.queue, &n.norm));
        fetch(n.inv_std);
        fetch(n.running_var);
        for (int c = 0; c < channels; c++) {
            const double most = 1 / sqrt((double)n.norm.epsilon);
            assert_near(n.inv_std, c, most, most * 1e-6);
            assert_near(n.running_var, c, 0.6 * at(old_var, c), 1e-6);
        }
        drop_arrays();
    }
}

/* scale and shift of channel c, as every pass rounds them. */
static void affine_of(const net *n, bool training, int c, float *scale, float *shift) {
    float mean = (float)at(training ? n->mean : n->running_mean, c);
    float inv_std = training ? (float)at(n->inv_std, c)
                             : 1.0f / sqrtf((float)at(n->running_var, c) + n->norm.epsilon);
    *scale = n->gamma ? (float)at(n->gamma, c) * inv_std : inv_std;
    *shift = (float)at(n->beta, c) - mean * *scale;
}

static void check_apply(const net *n, const array *x, bool training) {
    const int channels = n->channels, lanes = n->queue.dtype == FF_F32 ? 4 : 8;
    const bool relu = n->norm.activation == FF_ACTIVATION_RELU;
    fetch(n->y);
    if (n->mask) fetch(n->mask);
    for (int c = 0; c < channels; c++) {
        float scale, shift;
        affine_of(n, training, c, &scale, &shift);
        for (size_t r = 0; r < n->rows; r++) {
            const size_t i = r * channels + c;
            double z = (double)affine(at(x, i), scale, shift);
            if (n->residual) z += at(n->residual, i);
            assert_near(n->y, i, activate(n->norm.activation, z),
                        activation_error(n->norm.activation, z));
            if (c >= n->true_channels) assert_true(at(n->y, i) == 0);
            if (!n->mask || !relu || (z != 0 && fabs(z) < 1e-6)) continue;
            const uint8_t bits = ((uint8_t *)n->mask->host)[i / (size_t)lanes];
            assert_int_equal(bits >> i % (size_t)lanes & 1, z > 0);
        }
    }
}

static void test_apply(void **state) {
    (void)state;
    dice d = {4, 0};
    for (int trial = 0; trial < trials(40); trial++) {
        net n = make(&d, 0.5);
        assert_launched(ff_cuda_norm_statistics(&n.queue, &n.norm, n.scratch->device));
        fetch(n.mean);
        fetch(n.inv_std);
        fetch(n.running_mean);
        fetch(n.running_var);
        assert_launched(ff_cuda_norm_apply(&n.queue, &n.norm, true));
        check_apply(&n, n.x, true);
        array *x = copied(n.x); /* in place, by the running statistics */
        n.y = n.x;
        n.norm.y = n.x->device;
        assert_launched(ff_cuda_norm_apply(&n.queue, &n.norm, false));
        check_apply(&n, x, false);
        drop_arrays();
    }
}

/* A residual with a norm of its own: the same bits as when that norm wrote it first. */
static void test_apply_of_norms(void **state) {
    (void)state;
    dice d = {9, 0};
    for (int trial = 0; trial < trials(20); trial++) {
        net n = make(&d, 0.5);
        const size_t count = n.rows * (size_t)n.channels;
        const ff_dtype dtype = n.queue.dtype;
        array *x = filled(&d, dtype, n.rows, n.channels, n.true_channels, 0, 1);
        array *of = filled(&d, FF_F32, 4, n.channels, n.true_channels, 1, 0.3);
        array *written = poisoned(dtype, count), *y = poisoned(dtype, count);
        float *values = of->device;
        const ff_norm other = {.shape = n.norm.shape,
                               .gamma = trial % 3 ? values : NULL,
                               .beta = values + n.channels,
                               .mean = values + 2 * (size_t)n.channels,
                               .inv_std = values + 3 * (size_t)n.channels,
                               .x = x->device,
                               .y = written->device};
        if (n.norm.activation > FF_ACTIVATION_RELU) n.norm.activation = FF_ACTIVATION_RELU;
        assert_launched(ff_cuda_norm_statistics(&n.queue, &n.norm, n.scratch->device));
        assert_launched(ff_cuda_norm_apply(&n.queue, &other, true));
        n.norm.residual = written->device;
        assert_launched(ff_cuda_norm_apply(&n.queue, &n.norm, true));
        array *mask = n.mask ? bytes(n.mask->count) : NULL;
        n.norm.residual = x->device, n.norm.residual_norm = &other, n.norm.y = y->device;
        n.norm.mask = mask ? mask->device : NULL;
        assert_launched(ff_cuda_norm_apply(&n.queue, &n.norm, true));
        fetch(y);
        fetch(n.y);
        assert_same(y, n.y);
        if (mask) fetch(mask);
        if (mask) fetch(n.mask);
        if (mask) assert_same(mask, n.mask);
        n.norm.residual = NULL;
        assert_int_equal(ff_cuda_norm_apply(&n.queue, &n.norm, true), FF_CUDA_INVALID_VALUE);
        drop_arrays();
    }
}

static void test_scale_shift(void **state) {
    (void)state;
    dice d = {5, 0};
    for (int trial = 0; trial < trials(10); trial++) {
        net n = make(&d, 0.5);
        assert_launched(ff_cuda_norm_statistics(&n.queue, &n.norm, n.scratch->device));
        fetch(n.mean);
        fetch(n.inv_std);
        fetch(n.running_mean);
        fetch(n.running_var);
        array *scale = poisoned(n.queue.dtype, n.channels);
        array *shift = poisoned(n.queue.dtype, n.channels);
        const bool training = trial % 2;
        assert_launched(
            ff_cuda_norm_scale_shift(&n.queue, &n.norm, training, scale->device, shift->device));
        fetch(scale);
        fetch(shift);
        for (int c = 0; c < n.channels; c++) {
            float a, b;
            affine_of(&n, training, c, &a, &b);
            if (n.queue.dtype == FF_F16 && !(fabsf(a) < 65504 && fabsf(b) < 65504)) continue;
            assert_near(scale, c, (double)a, 0);
            assert_near(shift, c, (double)b, 0);
        }
        drop_arrays();
    }
}

static void test_backward(void **state) {
    (void)state;
    dice d = {6, 0};
    for (int trial = 0; trial < trials(60); trial++) {
        net n = make(&d, 0.5);
        const size_t rows = n.rows;
        const int channels = n.channels;
        const ff_dtype dtype = n.queue.dtype;
        assert_launched(ff_cuda_norm_statistics(&n.queue, &n.norm, n.scratch->device));
        assert_launched(ff_cuda_norm_apply(&n.queue, &n.norm, true));
        fetch(n.mean);
        fetch(n.inv_std);
        fetch(n.y);
        if (n.mask && n.norm.activation == FF_ACTIVATION_RELU) n.norm.y = NULL; /* it is not read */
        array *dy = filled(&d, dtype, rows, channels, n.true_channels, 0.1, 1);
        array *dy2 = roll(&d, 2) ? filled(&d, dtype, rows, channels, n.true_channels, 0, 1) : NULL;
        array *dx = poisoned(dtype, rows * channels);
        array *dresidual = roll(&d, 2) ? poisoned(dtype, rows * channels) : NULL;
        array *dgamma = roll(&d, 4) ? poisoned(FF_F32, channels) : NULL;
        array *dbeta = roll(&d, 4) ? poisoned(FF_F32, channels) : NULL;
        array *old_dy = copied(dy);
        if (dresidual && roll(&d, 2)) dresidual = dy; /* in place */
        if (!dresidual && roll(&d, 2)) dx = dy;
        const ff_norm_backward backward = {.forward = n.norm,
                                           .dy = dy->device,
                                           .dy2 = dy2 ? dy2->device : NULL,
                                           .dx = dx->device,
                                           .dresidual = dresidual ? dresidual->device : NULL,
                                           .dgamma = dgamma ? dgamma->device : NULL,
                                           .dbeta = dbeta ? dbeta->device : NULL};
        assert_launched(ff_cuda_norm_backward_run(&n.queue, &backward, n.scratch->device, false));
        fetch(dx);
        fetch(n.scratch);
        if (dresidual) fetch(dresidual);
        if (dgamma) fetch(dgamma);
        if (dbeta) fetch(dbeta);
        double *g = calloc(rows, sizeof *g);
        for (int c = 0; c < channels; c++) {
            float scale, shift;
            affine_of(&n, true, c, &scale, &shift);
            const double mean = at(n.mean, c), inv_std = at(n.inv_std, c), m = (double)rows;
            double sum = 0, products = 0, size = 0, product_size = 0;
            double most = 0; /* relative to the slope's factor: a small slope may be inexact */
            for (size_t r = 0; r < rows; r++) {
                const size_t i = r * channels + c;
                double z = n.residual ? at(n.y, i) : (double)affine(at(n.x, i), scale, shift);
                if (n.residual && n.mask) /* y may have been rounded to zero */
                    z = (double)(affine(at(n.x, i), scale, shift) + (float)at(n.residual, i));
                double whole = at(old_dy, i) + (dy2 ? at(dy2, i) : 0);
                g[r] = whole * slope(n.norm.activation, z);
                most = fmax(most, fabs(whole));
                if (dresidual) {
                    assert_near(dresidual, i, g[r], 2 * activation_error(n.norm.activation, whole));
                    g[r] = at(dresidual, i); /* from here on rounded */
                }
                sum += g[r];
                size += fabs(g[r]);
                products += g[r] * (at(n.x, i) - mean) * inv_std;
                product_size += fabs(g[r] * (at(n.x, i) - mean) * inv_std);
            }
            if (n.norm.activation == FF_ACTIVATION_GELU) {
                size += most * m;
                product_size += most * m;
            }
            if (dbeta) assert_near(dbeta, c, sum, 2e-6 * size);
            if (dgamma) assert_near(dgamma, c, products, 4e-6 * product_size);
            for (size_t r = 0; r < rows; r++) {
                const size_t i = r * channels + c;
                const double deviation = (at(n.x, i) - mean) * inv_std;
                const double want = (double)scale * (g[r] - sum / m - deviation * products / m);
                const double far = (1 + fabs(mean * inv_std) + fabs(deviation)) *
                                   (fabs(g[r]) + size / m + product_size / m);
                assert_near(dx, i, want, 4e-6 * fabs((double)scale) * far);
                if (c >= n.true_channels) assert_true(at(dx, i) == 0);
            }
        }
        free(g);
        drop_arrays();
    }
}

static void test_backward_apply(void **state) {
    (void)state;
    dice d = {7, 0};
    for (int trial = 0; trial < trials(10); trial++) {
        const int channels = 8 * between(&d, 1, 40);
        const size_t rows = (size_t)between(&d, 1, 300);
        const ff_dtype dtype = any_float(&d);
        const ff_cuda_queue queue = queue_with(2, dtype);
        const ff_tensor shape = rows_of(rows, channels);
        array *g = filled(&d, dtype, rows, channels, channels, 0, 1);
        array *x = filled(&d, dtype, rows, channels, channels, 0, 1);
        array *factors = filled(&d, FF_F32, 3, channels, channels, 0, 1);
        array *dx = poisoned(dtype, rows * channels);
        assert_launched(ff_cuda_norm_backward_apply(&queue, &shape, g->device, x->device,
                                                    factors->device, dx->device));
        fetch(dx);
        for (size_t i = 0; i < rows * channels; i++) {
            const size_t c = i % (size_t)channels;
            assert_near(dx, i,
                        at(factors, c) * at(g, i) + at(factors, channels + c) * at(x, i) +
                            at(factors, 2 * channels + c),
                        5e-6);
        }
        drop_arrays();
    }
}

static void test_refusals(void **state) {
    (void)state;
    dice d = {8, 0};
    net n = make(&d, 0);
    ff_norm norm = n.norm;
    norm.shape.c = norm.shape.block = 12;
    assert_int_equal(ff_cuda_norm_apply(&n.queue, &norm, true), FF_CUDA_INVALID_VALUE);
    norm = n.norm;
    norm.shape.n = 0;
    assert_int_equal(ff_cuda_norm_statistics(&n.queue, &norm, n.scratch->device),
                     FF_CUDA_INVALID_VALUE);
    ff_cuda_queue queue = n.queue;
    queue.dtype = FF_I32;
    assert_int_equal(ff_cuda_norm_apply(&queue, &n.norm, true), FF_CUDA_INVALID_VALUE);
    norm = n.norm;
    norm.residual = n.x->device;
    for (int a = FF_ACTIVATION_RELU6; a <= FF_ACTIVATION_GELU; a++) {
        norm.activation = (ff_activation)a;
        const ff_norm_backward backward = {.forward = norm};
        assert_int_equal(ff_cuda_norm_apply(&n.queue, &norm, true), FF_CUDA_INVALID_VALUE);
        assert_int_equal(ff_cuda_norm_backward_run(&n.queue, &backward, n.scratch->device, false),
                         FF_CUDA_INVALID_VALUE);
    }
    drop_arrays();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_statistics_special),
        cmocka_unit_test(test_finish_from_sums),
        cmocka_unit_test(test_finish_from_rounded_sums),
        cmocka_unit_test(test_apply),
        cmocka_unit_test(test_apply_of_norms),
        cmocka_unit_test(test_scale_shift),
        cmocka_unit_test(test_backward),
        cmocka_unit_test(test_backward_apply),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, bench_open, bench_close);
}
