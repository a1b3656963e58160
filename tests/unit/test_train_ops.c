/* Every entry of every compute table against the plain loops, on random odd shapes. */
#include "tests/unit/conv_case.h"
#include "tests/unit/norm_ranks_case.h"

#include "train/compute/optimizers/optimizers.h"

typedef struct tables {
    ff_compute *right, *fast;
} tables;

static int open_tables(void **state) {
    static tables both;
    const ff_compute_options options = {.threads = 2};
    assert_ok(ff_compute_open(&both.right, "reference", &options, error));
    assert_ok(ff_compute_open(&both.fast, NULL, &options, error));
    *state = &both;
    return 0;
}
static int close_tables(void **state) {
    tables *both = *state;
    ff_compute_close(&both->right);
    ff_compute_close(&both->fast);
    return 0;
}

/* ---- convolution ---- */

/* Sums of products in double, each rounded to f32 once. */
static conv_results plain_conv(const conv_case *k, const float *x, const float *w,
                               const float *bias, const float *dy) {
    const int p = (k->h + 2 * k->pad - k->kernel) / k->stride + 1, taps = k->kernel * k->kernel;
    const int q = (k->w + 2 * k->pad - k->kernel) / k->stride + 1;
    const int inputs = k->c / k->groups, outputs = k->o / k->groups;
    const size_t sizes[] = {(size_t)k->n * k->o * p * q, (size_t)k->n * k->c * k->h * k->w,
                            (size_t)k->o * inputs * taps, (size_t)k->o};
    double *sums[4];
    float *rounded[4];
    for (int i = 0; i < 4; i++) sums[i] = calloc(sizes[i], sizeof(double));
    for (size_t y = 0; y < sizes[0]; y++) {
        const int n = (int)(y / ((size_t)k->o * p * q)), o = (int)(y / ((size_t)p * q)) % k->o;
        const int row = (int)(y / q) % p, column = (int)(y % q);
        if (k->bias) sums[0][y] += (double)bias[o];
        if (k->bias) sums[3][o] += (double)dy[y];
        for (int i = 0; i < inputs * taps; i++) {
            const int h = row * k->stride - k->pad + i % taps / k->kernel;
            const int v = column * k->stride - k->pad + i % k->kernel;
            const int c = o / outputs * inputs + i / taps;
            if (h < 0 || h >= k->h || v < 0 || v >= k->w) continue;
            const size_t from = (((size_t)n * k->c + c) * k->h + h) * k->w + v;
            const size_t weight = (size_t)o * inputs * taps + i;
            sums[0][y] += (double)x[from] * (double)w[weight];
            if (!k->images) sums[1][from] += (double)dy[y] * (double)w[weight];
            if (!k->frozen) sums[2][weight] += (double)dy[y] * (double)x[from];
        }
    }
    for (int i = 0; i < 4; i++) {
        rounded[i] = floats(sizes[i]);
        for (size_t e = 0; e < sizes[i]; e++) rounded[i][e] = (float)sums[i][e];
        free(sums[i]);
    }
    return (conv_results){rounded[0], rounded[1], rounded[2], rounded[3]};
}

static void compare_conv(const tables *both, dice *d, const conv_case *k) {
    const int p = (k->h + 2 * k->pad - k->kernel) / k->stride + 1;
    const int q = (k->w + 2 * k->pad - k->kernel) / k->stride + 1;
    const size_t xs = (size_t)k->n * k->c * k->h * k->w, ys = (size_t)k->n * k->o * p * q;
    const size_t ws = (size_t)k->o * (k->c / k->groups) * k->kernel * k->kernel;
    float *x = random_floats(d, xs), *w = random_floats(d, ws), *dy = random_floats(d, ys);
    float *bias = random_floats(d, (size_t)k->o);
    conv_results right = run_conv(both->right, k, x, w, bias, dy);
    conv_results fast = run_conv(both->fast, k, x, w, bias, dy);
    if (k->groups > 1) {
        conv_results plain = plain_conv(k, x, w, bias, dy);
        assert_close(plain.y, right.y, ys, 1e-6);
        assert_close(plain.dx, right.dx, xs, 1e-6);
        assert_close(plain.dw, right.dw, ws, 1e-6);
        assert_close(plain.db, right.db, (size_t)k->o, 1e-6);
        free_results(&plain);
    }
    /* Winograd's transforms are less accurate than direct sums by a digit. */
    const double tolerance = 1e-4;
    assert_close(right.y, fast.y, ys, tolerance);
    assert_close(right.dx, fast.dx, xs, tolerance);
    assert_close(right.dw, fast.dw, ws, tolerance);
    assert_close(right.db, fast.db, (size_t)k->o, tolerance);
    free_results(&right);
    free_results(&fast);
    free(x);
    free(w);
    free(dy);
    free(bias);
}

static void conv_matches(void **state) {
    dice d = {.seed = 11};
    for (int i = 0; i < 60; i++) {
        const conv_case k = draw_conv_case(&d);
        compare_conv(*state, &d, &k);
    }
    /* the shapes that Winograd takes, and the nets' stems; a whitening convolution */
    const conv_case nets[] = {
        {2, 3, 32, 32, 24, 2, 1, 0, true, true, true, 1},
        {2, 64, 14, 14, 64, 3, 1, 1, false, false, false, 1},
        {3, 64, 7, 9, 80, 3, 1, 1, true, false, false, 1},
        {3, 96, 4, 4, 64, 3, 1, 1, false, false, false, 1},
        {2, 3, 32, 32, 64, 7, 2, 3, false, true, false, 1},
        {2, 3, 32, 32, 64, 3, 1, 1, false, true, false, 1},
        {3, 1, 28, 28, 32, 3, 1, 1, false, true, false, 1},
        {2, 64, 1, 1, 64, 3, 1, 1, false, false, false, 1},
        {2, 64, 2, 2, 128, 3, 2, 1, false, false, false, 1},
        {2, 64, 1, 4, 64, 3, 1, 1, false, false, false, 1},
        {2, 64, 4, 1, 64, 3, 1, 1, false, false, false, 1},
        {3, 32, 8, 9, 40, 3, 1, 1, false, false, false, 1},
        /* outputs of few pixels */
        {5, 64, 4, 4, 128, 3, 1, 0, true, false, false, 1},
        {3, 40, 4, 3, 24, 3, 2, 1, true, false, false, 1},
        {2, 17, 5, 8, 72, 5, 1, 0, false, false, false, 1},
    };
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) compare_conv(*state, &d, &nets[i]);
}

/* Groups of one channel and of several, channels that fill no block, and one group. */
static void groups_match(void **state) {
    static const int kernels[] = {1, 3, 5};
    dice d = {.seed = 15};
    for (int i = 0; i < 60; i++) {
        conv_case k = {
            .n = between(&d, 1, 4),
            .kernel = kernels[i % 3],
            .stride = between(&d, 1, 2),
            .bias = roll(&d, 2),
            .images = roll(&d, 4) == 0,
            .frozen = roll(&d, 6) == 0,
            .groups = i % 2 ? between(&d, 1, 40) : between(&d, 1, 5),
        };
        const bool single = i % 2 && roll(&d, 3);
        k.c = k.groups * (single ? 1 : between(&d, 1, 9));
        k.o = k.groups * (single ? 1 : between(&d, 1, 9));
        k.pad = (int)roll(&d, (uint32_t)k.kernel / 2 + 1);
        k.h = between(&d, k.kernel, 13);
        k.w = between(&d, k.kernel, 13);
        compare_conv(*state, &d, &k);
    }
    /* whole blocks */
    const conv_case nets[] = {
        {2, 64, 14, 14, 64, 3, 1, 1, false, false, false, 64},
        {2, 64, 14, 14, 64, 3, 2, 1, true, false, false, 64},
        {2, 96, 7, 9, 96, 5, 2, 2, false, false, false, 96},
        {2, 64, 8, 8, 128, 3, 1, 1, false, false, false, 4},
        {2, 32, 8, 8, 32, 1, 1, 0, false, false, false, 2},
    };
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) compare_conv(*state, &d, &nets[i]);
}

/* ---- batch norm ---- */

/* All arrays of one batch norm in one table's layout. */
typedef struct norm_arrays {
    float *x, *residual, *y, *dy, *dy2, *dx, *dresidual;
    float *gamma, *beta, *mean, *inv_std, *running_mean, *running_var, *dgamma, *dbeta;
} norm_arrays;

static float *channels_of(const ff_tensor *t, const float *values) {
    float *padded = floats((size_t)ff_tensor_padded_channels(t));
    memcpy(padded, values, (size_t)t->c * sizeof *values);
    return padded;
}

static void free_arrays(norm_arrays *a) {
    float *all[] = {
        a->x,      a->residual, a->y,        a->dy,      a->dy2,          a->dx,
        a->gamma,  a->beta,     a->mean,     a->inv_std, a->running_mean, a->running_var,
        a->dgamma, a->dbeta,    a->dresidual};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static void compare_norm(const tables *both, dice *d, int block) {
    const ff_activation activation = (ff_activation)roll(d, 4);
    const bool add = activation <= FF_ACTIVATION_RELU && roll(d, 2), second = roll(d, 2);
    const bool in_place = roll(d, 2), frozen = roll(d, 4) == 0, held = roll(d, 3) == 0;
    ff_tensor shape = {between(d, 1, 6), between(d, 1, 40), between(d, 1, 9), between(d, 1, 9), 1};
    if (shape.n * shape.h * shape.w == 1) shape.w = 2;
    const size_t count = logical_count(&shape), channels = (size_t)shape.c;
    float *x = random_floats(d, count), *residual = random_floats(d, count);
    float *dy = random_floats(d, count), *dy2 = random_floats(d, count);
    float *gamma = random_floats(d, channels), *beta = random_floats(d, channels);
    float *running_var = random_floats(d, channels);
    for (size_t c = 0; c < channels; c++) running_var[c] = fabsf(running_var[c]) + 0.1f;
    if (activation == FF_ACTIVATION_RELU6) /* on both sides of 6 */
        for (size_t c = 0; c < channels; c++) beta[c] *= 5;
    /* a mean far from zero, where a naive variance fails */
    for (size_t i = 0; i < count; i++) x[i] = x[i] * 0.5f + 20;
    norm_arrays arrays[2];
    float *outputs[2][3];
    for (int k = 0; k < 2; k++) {
        ff_compute *compute = k ? both->fast : both->right;
        norm_arrays *a = &arrays[k];
        ff_tensor t = shape;
        t.block = k ? block : 1;
        *a = (norm_arrays){
            .x = lay_out(&t, x),
            .residual = lay_out(&t, residual),
            .dy = lay_out(&t, dy),
            .dy2 = lay_out(&t, dy2),
            .y = floats(ff_tensor_count(&t)),
            .dx = floats(ff_tensor_count(&t)),
            .dresidual = floats(ff_tensor_count(&t)),
            .gamma = channels_of(&t, gamma),
            .beta = channels_of(&t, beta),
            .mean = channels_of(&t, beta),
            .inv_std = channels_of(&t, beta),
            .running_mean = channels_of(&t, beta),
            .running_var = channels_of(&t, running_var),
            .dgamma = channels_of(&t, beta),
            .dbeta = channels_of(&t, beta),
        };
        float *scratch = floats(compute->ops->norm_scratch(compute, &t));
        ff_norm norm = {
            .shape = t,
            .activation = activation,
            .momentum = 0.1f,
            .epsilon = 1e-5f,
            .held = held,
            .gamma = a->gamma,
            .beta = a->beta,
            .running_mean = a->running_mean,
            .running_var = a->running_var,
            .mean = a->mean,
            .inv_std = a->inv_std,
            .x = a->x,
            .residual = add ? a->residual : NULL,
            .y = a->y,
        };
        compute->ops->norm_evaluate(compute, &norm, scratch);
        outputs[k][0] = flatten(&t, a->y);
        compute->ops->norm_train(compute, &norm, scratch);
        outputs[k][1] = flatten(&t, a->y);
        ff_norm_backward backward = {
            .forward = norm,
            .dy = a->dy,
            .dy2 = second ? a->dy2 : NULL,
            .dx = in_place && !add ? a->dy : a->dx,
            .dresidual = add ? (in_place ? a->dy : a->dresidual) : NULL,
            .dgamma = frozen ? NULL : a->dgamma,
            .dbeta = a->dbeta,
        };
        compute->ops->norm_backward(compute, &backward, scratch);
        outputs[k][2] = flatten(&t, backward.dx);
        if (add) {
            float *masked = flatten(&t, backward.dresidual);
            for (size_t i = 0; i < count; i++) outputs[k][2][i] += masked[i] * 3;
            free(masked);
        }
        free(scratch);
    }
    const double tolerance = 3e-4; /* x is 40 deviations from zero */
    for (int i = 0; i < 3; i++) assert_close(outputs[0][i], outputs[1][i], count, tolerance);
    assert_close(arrays[0].mean, arrays[1].mean, channels, 1e-6);
    assert_close(arrays[0].inv_std, arrays[1].inv_std, channels, 1e-4);
    assert_close(arrays[0].running_mean, arrays[1].running_mean, channels, 1e-6);
    assert_close(arrays[0].running_var, arrays[1].running_var, channels, 1e-5);
    assert_close(arrays[0].dgamma, arrays[1].dgamma, channels, tolerance);
    assert_close(arrays[0].dbeta, arrays[1].dbeta, channels, tolerance);
    for (int k = 0; k < 2; k++) {
        free_arrays(&arrays[k]);
        for (int i = 0; i < 3; i++) free(outputs[k][i]);
    }
    free(x);
    free(residual);
    free(dy);
    free(dy2);
    free(gamma);
    free(beta);
    free(running_var);
}

static void norm_matches(void **state) {
    static const int blocks[] = {1, 8, 16};
    dice d = {.seed = 12};
    for (int i = 0; i < 120; i++) compare_norm(*state, &d, blocks[i % 3]);
}

static void norm_of_ranks_is_that_of_the_whole(void **state) {
    const tables *both = *state;
    dice d = {.seed = 13};
    for (int i = 0; i < 80; i++)
        norm_ranks_case(both->right, i % 2 ? both->fast : both->right, &d, 2e-5, 1e-6);
}

/* Known values: x = 1 2 3 4, mean 2.5, biased variance 1.25, unbiased 5/3. */
static void norm_known_values(void **state) {
    tables *both = *state;
    for (int k = 0; k < 2; k++) {
        ff_compute *compute = k ? both->fast : both->right;
        const ff_tensor t = {2, 1, 1, 2, k ? 16 : 1};
        const float values[] = {1, 2, 3, 4};
        float *x = lay_out(&t, values), *y = floats(ff_tensor_count(&t)), one[16] = {1};
        float zero[16] = {0}, mean[16], inv_std[16], running_mean[16] = {0}, running_var[16] = {1};
        float *scratch = floats(compute->ops->norm_scratch(compute, &t));
        const ff_norm norm = {.shape = t,
                              .momentum = 0.1f,
                              .epsilon = 1e-5f,
                              .gamma = one,
                              .beta = zero,
                              .running_mean = running_mean,
                              .running_var = running_var,
                              .mean = mean,
                              .inv_std = inv_std,
                              .x = x,
                              .y = y};
        compute->ops->norm_train(compute, &norm, scratch);
        assert_float_equal(mean[0], 2.5f, 1e-6);
        assert_float_equal(inv_std[0], 1 / sqrt(1.25 + 1e-5), 1e-6);
        assert_float_equal(running_mean[0], 0.25f, 1e-6);
        assert_float_equal(running_var[0], 0.9 + 0.1 * 5 / 3, 1e-6);
        assert_float_equal(y[ff_tensor_at(&t, 1, 0, 0, 1)], 1.5 / sqrt(1.25 + 1e-5), 1e-6);
        free(x);
        free(y);
        free(scratch);
    }
}

/* ---- pooling ---- */

static void compare_pool(const tables *both, dice *d, int block) {
    ff_pool pool = {.max = roll(d, 2), .stride = between(d, 1, 3)};
    pool.kernel_h = pool.kernel_w = between(d, 1, 3);
    if (!pool.max && roll(d, 2)) pool.kernel_w = between(d, 1, 5);
    int least = pool.kernel_h < pool.kernel_w ? pool.kernel_h : pool.kernel_w;
    pool.pad = (int)roll(d, (uint32_t)least / 2 + 1);
    if (roll(d, 3) == 0) pool = (ff_pool){.max = true, .kernel_h = 2, .kernel_w = 2, .stride = 2};
    pool.input =
        (ff_tensor){between(d, 1, 4), between(d, 1, 35), between(d, 5, 12), between(d, 5, 12), 1};
    pool.output = pool.input;
    pool.output.h = (pool.input.h + 2 * pool.pad - pool.kernel_h) / pool.stride + 1;
    pool.output.w = (pool.input.w + 2 * pool.pad - pool.kernel_w) / pool.stride + 1;
    if (!pool.max && roll(d, 2)) {
        pool = (ff_pool){.input = pool.input, .output = pool.output, .adaptive = true};
        pool.output.h = between(d, 1, 14);
        pool.output.w = between(d, 1, 14);
    }
    float *x = random_floats(d, logical_count(&pool.input));
    float *dy = random_floats(d, logical_count(&pool.output));
    /* equal values, so that the first largest must win in both */
    for (size_t i = 0; i < logical_count(&pool.input); i++) x[i] = roundf(x[i] * 2);
    float *y[2], *dx[2];
    for (int k = 0; k < 2; k++) {
        ff_compute *compute = k ? both->fast : both->right;
        pool.input.block = pool.output.block = k ? block : 1;
        float *laid_x = lay_out(&pool.input, x), *laid_dy = lay_out(&pool.output, dy);
        float *laid_y = floats(ff_tensor_count(&pool.output));
        float *laid_dx = random_floats(d, ff_tensor_count(&pool.input));
        uint8_t *index = (uint8_t *)floats(ff_tensor_count(&pool.output));
        compute->ops->pool_forward(compute, &pool, laid_x, laid_y, NULL);
        compute->ops->pool_forward(compute, &pool, laid_x, laid_y, pool.max ? index : NULL);
        compute->ops->pool_backward(compute, &pool, laid_dy, pool.max ? index : NULL, laid_dx);
        y[k] = flatten(&pool.output, laid_y);
        dx[k] = flatten(&pool.input, laid_dx);
        free(laid_x);
        free(laid_dy);
        free(laid_y);
        free(laid_dx);
        free(index);
    }
    assert_close(y[0], y[1], logical_count(&pool.output), 1e-5);
    assert_close(dx[0], dx[1], logical_count(&pool.input), 1e-5);
    for (int k = 0; k < 2; k++) {
        free(y[k]);
        free(dx[k]);
    }
    free(x);
    free(dy);
}

/* torch 1.13's AdaptiveAvgPool2d((2, 3)) of 0 to 14 and of 1 and 2, and its gradient for 1 to 6,
 * times 36. */
static void adaptive_pool_known_values(void **state) {
    tables *both = *state;
    static const float known[6] = {3, 4.5f, 6, 8, 9.5f, 11}, few[6] = {1, 1.5f, 2, 1, 1.5f, 2};
    static const float slopes[15] = {9, 21, 12, 39, 27, 45, 87, 42, 123, 81, 36, 66, 30, 84, 54};
    for (int k = 0; k < 2; k++) {
        ff_compute *compute = k ? both->fast : both->right;
        float x[16], dx[16], y[16], dy[16] = {1, 2, 3, 4, 5, 6};
        ff_pool pool = {.input = {1, 1, 3, 5, 1}, .output = {1, 1, 2, 3, 1}, .adaptive = true};
        for (int i = 0; i < 15; i++) x[i] = (float)i;
        compute->ops->pool_forward(compute, &pool, x, y, NULL);
        compute->ops->pool_backward(compute, &pool, dy, NULL, dx);
        assert_close(known, y, 6, 1e-6);
        for (int i = 0; i < 15; i++) dx[i] *= 36;
        assert_close(slopes, dx, 15, 1e-6);
        pool.input.h = 1, pool.input.w = 2;
        compute->ops->pool_forward(compute, &pool, x + 1, y, NULL);
        assert_close(few, y, 6, 1e-6);
    }
}

static void pool_matches(void **state) {
    static const int blocks[] = {1, 8, 16};
    dice d = {.seed = 13};
    for (int i = 0; i < 120; i++) compare_pool(*state, &d, blocks[i % 3]);
}

/* ---- the others ---- */

static void linear_matches(void **state) {
    tables *both = *state;
    dice d = {.seed = 14};
    for (int i = 0; i < 20; i++) {
        const ff_linear linear = {
            {between(&d, 1, 9), between(&d, 1, 40), between(&d, 1, 4), between(&d, 1, 4), 1},
            between(&d, 1, 30),
            roll(&d, 2) ? 1.0f : 0.375f,
            false};
        const bool biased = roll(&d, 3);
        const size_t inputs = ff_tensor_sample(&linear.input), n = (size_t)linear.input.n;
        const size_t outputs = (size_t)linear.outputs;
        float *x = random_floats(&d, n * inputs), *w = random_floats(&d, outputs * inputs);
        float *bias = random_floats(&d, outputs), *dy = random_floats(&d, n * outputs);
        float *y[2], *dx[2], *dw[2], *db[2];
        for (int k = 0; k < 2; k++) {
            ff_compute *compute = k ? both->fast : both->right;
            y[k] = floats(n * outputs);
            dx[k] = floats(n * inputs);
            dw[k] = floats(outputs * inputs);
            db[k] = floats(outputs);
            compute->ops->linear_forward(compute, &linear, x, w, biased ? bias : NULL, y[k]);
            compute->ops->linear_backward(compute, &linear, x, w, dy, NULL, dw[k], db[k], NULL);
            compute->ops->linear_backward(compute, &linear, x, w, dy, dx[k], NULL, NULL, NULL);
            compute->ops->linear_backward(compute, &linear, x, w, dy, dx[k], dw[k], db[k], NULL);
        }
        for (size_t e = 0; e < n * outputs; e++) { /* the formula, at every element */
            double sum = 0;
            for (size_t at = 0; at < inputs; at++)
                sum += (double)x[e / outputs * inputs + at] * (double)w[e % outputs * inputs + at];
            sum = sum * (double)linear.scale + (biased ? (double)bias[e % outputs] : 0);
            assert_true(fabs(sum - (double)y[0][e]) < 1e-5 * (1 + fabs(sum)));
        }
        assert_close(y[0], y[1], n * outputs, 1e-5);
        assert_close(dx[0], dx[1], n * inputs, 1e-5);
        assert_close(dw[0], dw[1], outputs * inputs, 1e-5);
        assert_close(db[0], db[1], outputs, 1e-5);
        for (int k = 0; k < 2; k++) {
            free(y[k]);
            free(dx[k]);
            free(dw[k]);
            free(db[k]);
        }
        free(x);
        free(w);
        free(bias);
        free(dy);
    }
}

static void elementwise_matches(void **state) {
    tables *both = *state;
    dice d = {.seed = 15};
    for (int i = 0; i < 20; i++) {
        const size_t count = (size_t)between(&d, 1, 9000);
        float *a = random_floats(&d, count), *b = random_floats(&d, count);
        float *to[2][3];
        const ff_activation clamp = i % 2 ? FF_ACTIVATION_RELU : FF_ACTIVATION_RELU6;
        for (size_t e = 0; e < count; e++) a[e] *= 5;
        for (int k = 0; k < 2; k++) {
            ff_compute *compute = k ? both->fast : both->right;
            for (int j = 0; j < 3; j++) to[k][j] = floats(count);
            compute->ops->activation_forward(compute, clamp, count, a, to[k][0]);
            compute->ops->activation_backward(compute, clamp, count, to[k][0], b, to[k][1]);
            compute->ops->add(compute, count, a, b, to[k][2]);
        }
        for (int j = 0; j < 3; j++) assert_memory_equal(to[0][j], to[1][j], count * sizeof(float));
        for (int k = 0; k < 2; k++) {
            ff_compute *compute = k ? both->fast : both->right;
            compute->ops->activation_forward(compute, FF_ACTIVATION_GELU, count, a, to[k][0]);
            compute->ops->activation_backward(compute, FF_ACTIVATION_GELU, count, a, b, to[k][1]);
        }
        assert_close(to[0][0], to[1][0], count, 1e-6);
        assert_close(to[0][1], to[1][1], count, 1e-6);
        for (int k = 0; k < 2; k++)
            for (int j = 0; j < 3; j++) free(to[k][j]);
        free(a);
        free(b);
    }
}

/* Known values of GELU, its slope by differences, and its ends: 0 and z. */
static void gelu_known_values(void **state) {
    tables *both = *state;
    for (int k = 0; k < 2; k++) {
        ff_compute *compute = k ? both->fast : both->right;
        float x[16] = {-60, -5, -1, -0.5f, 0, 0.5f, 1, 5, 60}, y[16], one[16], slope[16];
        const double known[] = {0,          -1.43325786e-06, -0.15865525, -0.15426877, 0,
                                0.34573123, 0.84134475,      4.99999857,  60};
        for (int i = 0; i < 16; i++) one[i] = 1;
        compute->ops->activation_forward(compute, FF_ACTIVATION_GELU, 9, x, y);
        compute->ops->activation_backward(compute, FF_ACTIVATION_GELU, 9, x, one, slope);
        for (int i = 0; i < 9; i++) {
            assert_true(fabs((double)y[i] - known[i]) < 1e-6 * (1 + fabs(known[i])));
            float beside[16] = {x[i] - 1e-2f, x[i] + 1e-2f}, apart[16];
            compute->ops->activation_forward(compute, FF_ACTIVATION_GELU, 2, beside, apart);
            double difference =
                ((double)apart[1] - (double)apart[0]) / ((double)beside[1] - (double)beside[0]);
            assert_true(fabs(difference - (double)slope[i]) < 1e-3);
        }
    }
}

/* torch 1.13's hardtanh(x, 0, 6) and its gradient, from its input and from its output. */
static void relu6_known_values(void **state) {
    tables *both = *state;
    const float x[16] = {-INFINITY, -1, 0, 1e-30f, 3, 5.999f, 6, 6.001f, INFINITY},
                one[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    const float known[16] = {0, 0, 0, 1e-30f, 3, 5.999f, 6, 6, 6};
    const float slopes[16] = {0, 0, 0, 1, 1, 1};
    for (int k = 0; k < 2; k++) {
        ff_compute *compute = k ? both->fast : both->right;
        float y[16] = {0}, slope[16] = {0};
        compute->ops->activation_forward(compute, FF_ACTIVATION_RELU6, 9, x, y);
        assert_memory_equal(y, known, sizeof y);
        compute->ops->activation_backward(compute, FF_ACTIVATION_RELU6, 9, x, one, slope);
        assert_memory_equal(slope, slopes, sizeof slope);
        compute->ops->activation_backward(compute, FF_ACTIVATION_RELU6, 9, y, one, slope);
        assert_memory_equal(slope, slopes, sizeof slope);
    }
}

/* The same elements are dropped in every layout, the kept share is right, and steps differ. */
static void dropout_matches(void **state) {
    tables *both = *state;
    dice d = {.seed = 16};
    uint64_t step;
    ff_dropout dropout = {.shape = {3, 21, 5, 7, 1}, .probability = 0.3, .seed = 5, .step = &step};
    const size_t count = logical_count(&dropout.shape);
    float *x = random_floats(&d, count), *y[3];
    for (int k = 0; k < 3; k++) {
        ff_compute *compute = k ? both->fast : both->right;
        dropout.shape.block = k == 1 ? 16 : 1;
        step = k == 2 ? 10 : 9;
        float *laid = lay_out(&dropout.shape, x);
        compute->ops->dropout(compute, &dropout, laid, laid);
        y[k] = flatten(&dropout.shape, laid);
        free(laid);
    }
    assert_memory_equal(y[0], y[1], count * sizeof *x);
    assert_memory_not_equal(y[0], y[2], count * sizeof *x);
    /* Row 2 of a micro-batch of 3 is that of a rank with 2 rows before its own, also of the second
     * micro-batch. */
    for (uint32_t part = 0; part < 2; part++) {
        const uint32_t place = part;
        const size_t sample = count / 3;
        float whole[21 * 5 * 7 * 3], own[21 * 5 * 7];
        ff_dropout all = dropout;
        step = 9, all.part = &place, all.shape.block = 1;
        both->right->ops->dropout(both->right, &all, x, whole);
        all.rows = 3, all.first_row = 2, all.shape.n = 1;
        both->right->ops->dropout(both->right, &all, x + 2 * sample, own);
        assert_memory_equal(own, whole + 2 * sample, sizeof own);
    }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        kept += y[0][i] != 0;
        if (y[0][i] != 0) assert_float_equal(y[0][i], x[i] / 0.7, 1e-5);
    }
    assert_true(fabs((double)kept / (double)count - 0.7) < 0.03);
    for (int k = 0; k < 3; k++) free(y[k]);
    free(x);
}

/* Binary cross entropy of the logits of `classes` targets. */
static double plain_binary(const float *logits, const float *class_weights, int classes,
                           const double *targets, const ff_loss_form *form) {
    double loss = 0;
    for (int c = 0; c < classes; c++) {
        const double p = 1 / (1 + exp(-(double)logits[c]));
        double target = targets[c];
        if (form->threshold >= 0) target = target > form->threshold ? 1 : 0;
        loss -= (double)class_weights[c] * (target * log(p) + (1 - target) * log(1 - p));
    }
    return form->kind == FF_LOSS_BCE ? loss / classes : loss;
}

/* For a target that is `label` by `share` and `other` by the rest. */
static double plain_loss(const float *logits, const float *class_weights, int classes, int label,
                         int other, double share, double smoothing, const ff_loss_form *form) {
    double targets[12];
    double sum = 0, loss = 0;
    for (int c = 0; c < classes; c++) sum += exp((double)logits[c]);
    for (int c = 0; c < classes; c++) {
        double target = (c == label ? share : 0) + (c == other ? 1 - share : 0);
        target = (1 - smoothing) * target + smoothing / classes;
        loss += (double)class_weights[c] * target * (log(sum) - (double)logits[c]);
        targets[c] = target;
    }
    if (form->kind != FF_LOSS_CROSS_ENTROPY)
        return plain_binary(logits, class_weights, classes, targets, form);
    return loss;
}

/* torch 1.13: cross_entropy(logits, soft targets, label_smoothing=0.1, reduction="none"), and the
 * gradient of their mean. */
static void loss_of_mixed_labels_is_torchs(void **state) {
    tables *both = *state;
    const float logits[] = {0.5f, -1.25f, 2.0f,  0.0f, 3.0f,  0.75f, -0.5f,  1.5f,
                            1.0f, 0.25f,  -2.0f, 0.5f, -1.0f, 2.5f,  0.125f, 1.0f};
    const int32_t labels[] = {2, 0, 3, 3};
    const float mix[] = {0.75f, 0.75f, 0.3f, 1.0f};
    const double sample[] = {0.840748613, 1.275298061, 1.311754080, 1.831766309};
    const float wanted[] = {-0.02257661f, 0.00068764f, 0.00392421f,  0.01796476f,
                            0.00899579f,  0.01314301f, -0.05694381f, 0.03480501f,
                            0.11119344f,  0.04922635f, -0.00040284f, -0.16001695f,
                            -0.00064270f, 0.17943833f, 0.01102170f,  -0.18981733f};
    for (int i = 0; i < 2; i++) {
        ff_compute *compute = i ? both->fast : both->right;
        float gradient[16];
        double room[4];
        ff_outcome result;
        ff_loss loss = {.n = 4,
                        .classes = 4,
                        .smoothing = 0.1,
                        .logits = logits,
                        .labels = labels,
                        .label_dtype = FF_I32,
                        .mix = mix,
                        .gradient = gradient,
                        .stride = 4,
                        .scratch = room,
                        .ring = &result,
                        .ring_size = 1};
        compute->ops->loss(compute, &loss);
        assert_int_equal(result.count, 4);
        assert_int_equal(result.correct, 2); /* samples 0 and 1 */
        for (int k = 0; k < 4; k++) assert_true(fabs(room[k] - sample[k]) < 1e-6);
        for (int k = 0; k < 16; k++) assert_true(fabsf(gradient[k] - wanted[k]) < 1e-7f);
    }
}

/* torch 1.13: binary_cross_entropy_with_logits(logits, soft targets, weight=(1, 2, 0.5, 1)) with
 * timm's smoothing by 0.1, its gradient, and the samples' sums with a threshold of 0.3. */
static void binary_loss_is_torchs(void **state) {
    tables *both = *state;
    const float logits[] = {0.5f, -1.25f, 2.0f,  0.0f, 3.0f,  0.75f, -0.5f,  1.5f,
                            1.0f, 0.25f,  -2.0f, 0.5f, -1.0f, 2.5f,  0.125f, 1.0f};
    const int32_t labels[] = {2, 0, 3, 3};
    const float mix[] = {0.75f, 0.75f, 0.3f, 1.0f}, class_weights[] = {1, 2, 0.5f, 1};
    const double sample[] = {0.618011583, 1.287070283, 0.881920379, 1.534134965};
    const double cut[] = {2.234546333, 4.260781134, 3.502681517, 6.163102361};
    const float wanted[] = {0.02327871f, 0.02471252f, 0.00564991f, 0.02968750f,
                            0.01578588f, 0.08177234f, 0.00398565f, 0.04953590f,
                            0.04412866f, 0.06714706f, 0.00294384f, -0.01890879f,
                            0.01524634f, 0.11239273f, 0.01581904f, -0.01212134f};
    for (int i = 0; i < 4; i++) {
        ff_compute *compute = i % 2 ? both->fast : both->right;
        float gradient[16];
        double room[4];
        ff_outcome result;
        ff_loss loss = {.n = 4,
                        .classes = 4,
                        .form = {i < 2 ? FF_LOSS_BCE : FF_LOSS_BCE_SUM, i < 2 ? -1 : 0.3},
                        .smoothing = 0.1,
                        .logits = logits,
                        .labels = labels,
                        .label_dtype = FF_I32,
                        .mix = mix,
                        .class_weights = class_weights,
                        .gradient = gradient,
                        .stride = 4,
                        .scratch = room,
                        .ring = &result,
                        .ring_size = 1};
        compute->ops->loss(compute, &loss);
        assert_int_equal(result.count, 4);
        assert_int_equal(result.correct, 2); /* samples 0 and 1 */
        assert_true(result.weight == 4);
        for (int k = 0; k < 4; k++) assert_true(fabs(room[k] - (i < 2 ? sample : cut)[k]) < 1e-6);
        for (int k = 0; k < 16 && i < 2; k++) assert_true(fabsf(gradient[k] - wanted[k]) < 1e-7f);
    }
}

/* The first of the largest. */
static int32_t largest(const float *row, int count) {
    int32_t best = 0;
    for (int32_t c = 1; c < count; c++)
        if (row[c] > row[best]) best = c;
    return best;
}

/* Against its definition; ignored labels, weights, mixed labels, bad labels, i32 and i64. */
static void loss_is_right(void **state) {
    tables *both = *state;
    dice d = {.seed = 17};
    for (int i = 0; i < 120; i++) {
        ff_compute *compute = i % 2 ? both->fast : both->right;
        const int n = between(&d, 1, 20), classes = between(&d, 1, 12);
        const ff_loss_form form = {(ff_loss_kind)(i / 40), roll(&d, 2) ? -1 : 0.2 * roll(&d, 4)};
        const double smoothing = roll(&d, 2) ? 0.2 : 0;
        const bool mixed = roll(&d, 2);
        const bool weighted = roll(&d, 2);
        const double divisor = (double)roll(&d, 3) * (1 + i % 2);
        float class_weights[12];
        for (int c = 0; c < 12; c++) class_weights[c] = weighted ? 0.5f + (float)roll(&d, 5) : 1;
        float *logits = random_floats(&d, (size_t)n * classes);
        if (i % 4 > 1) /* equal ones: the first is taken */
            for (int e = 0; e < n * classes; e++) logits[e] = roundf(logits[e]);
        float *weights = floats((size_t)n), *gradient = floats((size_t)n * classes);
        double room[20], loss_sum = 0;
        int64_t labels[20];
        int32_t narrow[20], other[20];
        float mix[20];
        bool counts[20];
        int count = 0, correct = 0;
        double weight = 0;
        for (int k = 0; k < n; k++) {
            narrow[k] = (int32_t)between(&d, -1, classes - 1);
            if (roll(&d, 3) == 0) narrow[k] = largest(logits + k * classes, classes);
            labels[k] = narrow[k];
            weights[k] = (float)roll(&d, 2);
            mix[k] = mixed && (k ^ 1) < n && roll(&d, 4) ? (float)roll(&d, 5) / 4 : 1;
        }
        for (int k = 0; k < n; k++) {
            const float *row = logits + k * classes;
            other[k] = mix[k] < 1 ? narrow[k ^ 1] : narrow[k];
            counts[k] = narrow[k] >= 0 && other[k] >= 0 && weights[k] != 0;
            if (!counts[k]) continue;
            loss_sum += plain_loss(row, class_weights, classes, narrow[k], other[k], (double)mix[k],
                                   smoothing, &form);
            weight += mixed || form.kind ? 1 : (double)class_weights[narrow[k]];
            correct += largest(row, classes) == (mix[k] >= 0.5f ? narrow[k] : other[k]);
            count++;
        }
        ff_outcome result;
        ff_loss loss = {.n = n,
                        .classes = classes,
                        .form = form,
                        .smoothing = smoothing,
                        .divisor = divisor,
                        .logits = logits,
                        .labels = i % 3 ? (void *)labels : (void *)narrow,
                        .label_dtype = i % 3 ? FF_I64 : FF_I32,
                        .weights = weights,
                        .mix = mixed ? mix : NULL,
                        .class_weights = weighted ? class_weights : NULL,
                        .gradient = gradient,
                        .stride = classes,
                        .scratch = room,
                        .ring = &result,
                        .ring_size = 1};
        compute->ops->loss(compute, &loss);
        assert_int_equal(result.bad_sample, -1);
        assert_int_equal(result.count, count);
        assert_int_equal(result.correct, correct);
        assert_true(fabs(result.weight - weight) < 1e-9);
        assert_true(fabs(result.loss_sum - loss_sum) < 1e-5 * (1 + loss_sum));
        for (int e = 0; count && e < n * classes; e++) {
            /* central differences of the mean loss */
            const int k = e / classes;
            float kept = logits[e];
            double apart = 0;
            for (int side = -1; side <= 1 && counts[k]; side += 2) {
                logits[e] = kept + (float)side * 1e-2f;
                apart += side * plain_loss(logits + k * classes, class_weights, classes, narrow[k],
                                           other[k], (double)mix[k], smoothing, &form);
            }
            logits[e] = kept;
            assert_true(
                fabs(apart / 2e-2 / (divisor > 0 ? divisor : weight) - (double)gradient[e]) < 4e-4);
        }
        labels[n - 1] = classes;
        loss.labels = labels;
        loss.label_dtype = FF_I64;
        compute->ops->loss(compute, &loss);
        assert_int_equal(result.bad_sample, n - 1);
        free(logits);
        free(weights);
        free(gradient);
    }
}

/* By hand: rows and columns beyond the edge mirror those inside, without repeating the edge. */
static void views_are_torchs(void **state) {
    tables *both = *state;
    static const struct {
        int down, right;
        bool mirror;
        float seen[9];
    } known[] = {
        {0, 0, true, {3, 2, 1, 6, 5, 4, 9, 8, 7}},  {-1, -1, false, {5, 4, 5, 2, 1, 2, 5, 4, 5}},
        {1, 1, false, {5, 6, 5, 8, 9, 8, 5, 6, 5}}, {1, 1, true, {5, 6, 5, 8, 9, 8, 5, 6, 5}},
        {0, -1, true, {2, 1, 2, 5, 4, 5, 8, 7, 8}}, {0, 1, true, {2, 3, 2, 5, 6, 5, 8, 9, 8}},
        {2, 0, false, {7, 8, 9, 4, 5, 6, 1, 2, 3}},
    };
    for (int k = 0; k < 2; k++)
        for (size_t v = 0; v < sizeof known / sizeof *known; v++) {
            ff_compute *compute = k ? both->fast : both->right;
            const ff_image_view view = {
                {2, 3, 3, 3, k ? 4 : 1}, known[v].down, known[v].right, known[v].mirror};
            float images[2 * 3 * 9];
            for (int i = 0; i < 54; i++) images[i] = (float)(i / 9 * 10 + i % 9 + 1);
            float *x = lay_out(&view.shape, images), *y = floats(ff_tensor_count(&view.shape));
            compute->ops->view(compute, &view, x, y);
            float *seen = flatten(&view.shape, y);
            for (int i = 0; i < 54; i++)
                assert_true(seen[i] == (float)(i / 9 * 10) + known[v].seen[i % 9]);
            free(x);
            free(y);
            free(seen);
        }
}

/* NaN must pass through, so that the trainer sees it in the loss. */
static void nan_passes(void **state) {
    tables *both = *state;
    for (int k = 0; k < 2; k++) {
        ff_compute *compute = k ? both->fast : both->right;
        float *x = floats(64), *y = floats(64);
        x[5] = NAN;
        for (int a = FF_ACTIVATION_RELU; a <= FF_ACTIVATION_GELU; a++) {
            compute->ops->activation_forward(compute, (ff_activation)a, 64, x, y);
            assert_true(isnan(y[5]));
        }
        const ff_tensor t = {1, 16, 2, 2, k ? 16 : 1}, half = {1, 16, 1, 1, k ? 16 : 1};
        const ff_pool pool = {t, half, 2, 2, 2, 0, true, false};
        for (int place = 0; place < 4; place++) {
            memset(x, 0, 64 * sizeof *x);
            x[ff_tensor_at(&t, 0, 3, place / 2, place % 2)] = NAN;
            compute->ops->pool_forward(compute, &pool, x, y, NULL);
            assert_true(isnan(y[3]));
        }
        free(x);
        free(y);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_matches),
        cmocka_unit_test(groups_match),
        cmocka_unit_test(norm_matches),
        cmocka_unit_test(norm_of_ranks_is_that_of_the_whole),
        cmocka_unit_test(norm_known_values),
        cmocka_unit_test(pool_matches),
        cmocka_unit_test(linear_matches),
        cmocka_unit_test(elementwise_matches),
        cmocka_unit_test(dropout_matches),
        cmocka_unit_test(loss_is_right),
        cmocka_unit_test(loss_of_mixed_labels_is_torchs),
        cmocka_unit_test(binary_loss_is_torchs),
        cmocka_unit_test(nan_passes),
        cmocka_unit_test(gelu_known_values),
        cmocka_unit_test(adaptive_pool_known_values),
        cmocka_unit_test(relu6_known_values),
        cmocka_unit_test(views_are_torchs),
    };
    return cmocka_run_group_tests(tests, open_tables, close_tables);
}
