/* The plain loops in bf16 against the plain loops in f32, on inputs that bf16 holds: every element
 * is the one of f32, rounded once to nearest even. */
#include "tests/unit/bf16_case.h"

#include "train/compute/cpu/cpu.h"

/* ---- convolution and linear layers ---- */

static void conv_is_rounded(void **state) {
    ff_compute **both = *state;
    dice d = {.seed = 51};
    for (int i = 0; i < 30; i++) {
        ff_conv_shape s = {.input = {between(&d, 1, 3), 4, between(&d, 3, 9), between(&d, 3, 9), 1},
                           .kernel = 1 + 2 * (int)roll(&d, 2),
                           .stride = between(&d, 1, 2),
                           .groups = roll(&d, 2) ? 1 : 2,
                           .bias = roll(&d, 2),
                           .input_gradient = true,
                           .training = true};
        s.pad = s.kernel / 2;
        s.output = (ff_tensor){s.input.n, 6, (s.input.h - 1) / s.stride + 1,
                               (s.input.w - 1) / s.stride + 1, 1};
        const size_t xs = ff_tensor_count(&s.input), ys = ff_tensor_count(&s.output);
        const size_t ws = (size_t)(6 * 4 / s.groups * s.kernel * s.kernel);
        float *values[] = {draws(both, &d, xs), draws(both, &d, ws), draws(both, &d, 6),
                           draws(both, &d, ys)};
        void *x[BOTH], *w[BOTH], *bias[BOTH], *dy[BOTH], *y[BOTH], *dx[BOTH], *dw[BOTH], *db[BOTH];
        put_both(both, values[0], xs, x);
        put_both(both, values[1], ws, w);
        put_both(both, values[2], 6, bias);
        put_both(both, values[3], ys, dy);
        room_both(both, ys, y);
        room_both(both, xs, dx);
        room_both(both, ws, dw);
        for (int k = 0; k < BOTH; k++) {
            const ff_compute_ops *ops = both[k]->ops;
            ff_conv *conv;
            db[k] = room(both[k], FF_F32, 6);
            assert_ok(ops->conv_create(both[k], &s, NULL, &conv, error));
            assert_int_equal(conv->weight_count, ws);
            ops->conv_forward(both[k], conv, x[k], w[k], s.bias ? bias[k] : NULL, y[k], NULL);
            ops->conv_backward_data(both[k], conv, dy[k], w[k], dx[k], NULL);
            ops->conv_backward_weights(both[k], conv, x[k], dy[k], dw[k], db[k], NULL);
            ops->conv_destroy(both[k], conv);
        }
        expect(both, FF_BF16, y, ys);
        expect(both, FF_BF16, dx, xs);
        expect(both, FF_BF16, dw, ws);
        expect(both, FF_F32, db, 6);
        release_both(both, x);
        release_both(both, w);
        release_both(both, bias);
        release_both(both, dy);
        for (int k = 0; k < 4; k++) free(values[k]);
    }
}

/* Logits stay f32; a linear layer's bias and its gradient, too. */
static void linear_is_rounded(void **state) {
    ff_compute **both = *state;
    dice d = {.seed = 52};
    for (int i = 0; i < 20; i++) {
        const ff_linear linear = {{between(&d, 1, 6), between(&d, 1, 30), 2, 1, 1},
                                  between(&d, 1, 12),
                                  roll(&d, 2) ? 1.0f : 0.375f,
                                  i % 2};
        const size_t inputs = ff_tensor_sample(&linear.input), n = (size_t)linear.input.n;
        const size_t outputs = (size_t)linear.outputs;
        float *values[] = {draws(both, &d, n * inputs), draws(both, &d, outputs * inputs),
                           draws(both, &d, n * outputs), random_floats(&d, outputs)};
        void *x[BOTH], *w[BOTH], *dy[BOTH], *y[BOTH], *dx[BOTH], *dw[BOTH], *db[BOTH];
        put_both(both, values[0], n * inputs, x);
        put_both(both, values[1], outputs * inputs, w);
        put_both(both, values[2], n * outputs, dy);
        room_both(both, n * inputs, dx);
        room_both(both, outputs * inputs, dw);
        for (int k = 0; k < BOTH; k++) {
            const ff_compute_ops *ops = both[k]->ops;
            y[k] = room(both[k], linear.logits ? FF_F32 : both[k]->dtype, n * outputs);
            db[k] = room(both[k], FF_F32, outputs);
            ops->linear_forward(both[k], &linear, x[k], w[k], values[3], y[k]);
            ops->linear_backward(both[k], &linear, x[k], w[k], dy[k], dx[k], dw[k], db[k], NULL);
        }
        expect(both, linear.logits ? FF_F32 : FF_BF16, y, n * outputs);
        expect(both, FF_BF16, dx, n * inputs);
        expect(both, FF_BF16, dw, outputs * inputs);
        expect(both, FF_F32, db, outputs);
        release_both(both, x);
        release_both(both, w);
        release_both(both, dy);
        for (int k = 0; k < 4; k++) free(values[k]);
    }
}

/* ---- batch norm ---- */

/* What the backward pass reads of a sum or of GELU is rounded first: the oracle gets it as dy. */
static void gradient_of_sum(ff_compute **both, const ff_norm *norm, const float *x,
                            const float *dy2, float *dy) {
    const size_t pixels = (size_t)norm->shape.h * norm->shape.w;
    for (size_t i = 0; i < logical_count(&norm->shape); i++) {
        const size_t c = i / pixels % (size_t)norm->shape.c;
        const float scale = norm->gamma[c] * norm->inv_std[c];
        const float z = x[i] * scale + (norm->beta[c] - norm->mean[c] * scale);
        if (dy2) dy[i] += dy2[i];
        if (norm->activation == FF_ACTIVATION_GELU)
            dy[i] = ff_reference_activate_backward(FF_ACTIVATION_GELU, z, dy[i]);
    }
    round_all(both[NARROW], dy, logical_count(&norm->shape));
}

static void compare_norm(ff_compute **both, dice *d) {
    const ff_activation activation = (ff_activation)roll(d, 4);
    const bool add = activation <= FF_ACTIVATION_RELU && roll(d, 2), second = roll(d, 2);
    const ff_tensor shape = {between(d, 2, 5), between(d, 1, 20), between(d, 1, 7), 3, 1};
    const size_t count = ff_tensor_count(&shape), channels = (size_t)shape.c;
    float *x = draws(both, d, count), *residual = draws(both, d, count);
    float *dy = draws(both, d, count), *dy2 = draws(both, d, count);
    float *gamma = random_floats(d, channels), *beta = random_floats(d, channels);
    float *statistics[BOTH]; /* mean, inv_std, running mean and variance, dgamma, dbeta */
    void *xs[BOTH], *residuals[BOTH], *dys[BOTH], *dy2s[BOTH], *ys[2][BOTH], *dxs[BOTH];
    void *dresiduals[BOTH];
    const bool held = roll(d, 3) == 0;
    put_both(both, x, count, xs);
    put_both(both, residual, count, residuals);
    put_both(both, dy, count, dys);
    put_both(both, dy2, count, dy2s);
    room_both(both, count, ys[0]);
    room_both(both, count, ys[1]);
    room_both(both, count, dxs);
    room_both(both, count, dresiduals);
    for (int k = 0; k < BOTH; k++) {
        const ff_compute_ops *ops = both[k]->ops;
        float *s = statistics[k] = floats(6 * channels);
        for (size_t c = 0; c < channels; c++) s[3 * channels + c] = 0.5f + fabsf(beta[c]);
        ff_norm norm = {.shape = shape,
                        .activation = activation,
                        .momentum = 0.1f,
                        .epsilon = 1e-5f,
                        .held = held,
                        .gamma = gamma,
                        .beta = beta,
                        .mean = s,
                        .inv_std = s + channels,
                        .running_mean = s + 2 * channels,
                        .running_var = s + 3 * channels,
                        .x = xs[k],
                        .residual = add ? residuals[k] : NULL,
                        .y = ys[0][k]};
        ops->norm_evaluate(both[k], &norm, NULL);
        norm.y = ys[1][k];
        ops->norm_train(both[k], &norm, NULL);
        ff_norm_backward backward = {.forward = norm,
                                     .dy = dys[k],
                                     .dy2 = second ? dy2s[k] : NULL,
                                     .dx = dxs[k],
                                     .dresidual = add ? dresiduals[k] : NULL,
                                     .dgamma = s + 4 * channels,
                                     .dbeta = s + 5 * channels};
        if (k == WIDE && (second || activation == FF_ACTIVATION_GELU)) {
            gradient_of_sum(both, &norm, x, second ? dy2 : NULL, dy);
            memcpy(dys[k], dy, count * sizeof *dy);
            backward.dy2 = NULL;
            if (activation == FF_ACTIVATION_GELU) backward.forward.activation = FF_ACTIVATION_NONE;
        }
        ops->norm_backward(both[k], &backward, NULL);
    }
    assert_memory_equal(statistics[WIDE], statistics[NARROW], 6 * channels * sizeof(float));
    for (int i = 0; i < 2; i++) expect(both, FF_BF16, ys[i], count);
    expect(both, FF_BF16, dxs, count);
    if (add)
        expect(both, FF_BF16, dresiduals, count);
    else
        release_both(both, dresiduals);
    release_both(both, xs);
    release_both(both, residuals);
    release_both(both, dys);
    release_both(both, dy2s);
    float *all[] = {x, residual, dy, dy2, gamma, beta, statistics[WIDE], statistics[NARROW]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static void norm_is_rounded(void **state) {
    dice d = {.seed = 53};
    for (int i = 0; i < 60; i++) compare_norm(*state, &d);
}

/* ---- pooling, elementwise entries, loss ---- */

static void pool_is_rounded(void **state) {
    ff_compute **both = *state;
    dice d = {.seed = 54};
    for (int i = 0; i < 60; i++) {
        ff_pool pool = {.max = i % 2, .kernel_h = 3, .kernel_w = 2, .stride = 1, .pad = 1};
        pool.adaptive = i % 4 == 0;
        pool.input = (ff_tensor){2, 3, between(&d, 3, 9), between(&d, 60, 70), 1};
        pool.output = pool.input;
        pool.output.h = pool.adaptive ? between(&d, 1, 12) : pool.input.h;
        pool.output.w = pool.adaptive ? between(&d, 1, 12) : pool.input.w + 1;
        const size_t xs = ff_tensor_count(&pool.input), ys = ff_tensor_count(&pool.output);
        float *values = draws(both, &d, xs), *gradients = draws(both, &d, ys);
        uint8_t *index[BOTH] = {calloc(ys, 1), calloc(ys, 1)};
        void *x[BOTH], *dy[BOTH], *y[BOTH], *dx[BOTH];
        put_both(both, values, xs, x);
        put_both(both, gradients, ys, dy);
        room_both(both, ys, y);
        room_both(both, xs, dx);
        for (int k = 0; k < BOTH; k++) {
            both[k]->ops->pool_forward(both[k], &pool, x[k], y[k], index[k]);
            both[k]->ops->pool_backward(both[k], &pool, dy[k], index[k], dx[k]);
        }
        assert_memory_equal(index[WIDE], index[NARROW], ys);
        expect(both, FF_BF16, y, ys);
        expect(both, FF_BF16, dx, xs);
        release_both(both, x);
        release_both(both, dy);
        for (int k = 0; k < BOTH; k++) free(index[k]);
        free(values);
        free(gradients);
    }
}

static void elements_are_rounded(void **state) {
    ff_compute **both = *state;
    const ff_tensor shape = {2, 5, 7, 9, 1};
    const size_t count = ff_tensor_count(&shape);
    const uint64_t step = 3;
    const ff_dropout dropout = {.shape = shape, .probability = 0.3, .seed = 5, .step = &step};
    const ff_image_view view = {shape, 2, -3, true};
    dice d = {.seed = 55};
    float *a = draws(both, &d, count), *b = draws(both, &d, count);
    for (size_t i = 0; i < count; i++) a[i] *= 4; /* on both sides of 6 */
    for (int entry = 0; entry < 3 + 2 * 3; entry++) {
        const ff_activation activation = (ff_activation)(1 + (entry - 3) / 2);
        void *x[BOTH], *y[BOTH], *to[BOTH];
        put_both(both, a, count, x);
        put_both(both, b, count, y);
        room_both(both, count, to);
        for (int k = 0; k < BOTH; k++) {
            const ff_compute_ops *ops = both[k]->ops;
            if (entry == 0) ops->add(both[k], count, x[k], y[k], to[k]);
            if (entry == 1) ops->dropout(both[k], &dropout, x[k], to[k]);
            if (entry == 2) ops->view(both[k], &view, x[k], to[k]);
            if (entry > 2 && entry % 2)
                ops->activation_forward(both[k], activation, count, x[k], to[k]);
            if (entry > 2 && entry % 2 == 0)
                ops->activation_backward(both[k], activation, count, x[k], y[k], to[k]);
        }
        expect(both, FF_BF16, to, count);
        release_both(both, x);
        release_both(both, y);
    }
    free(a);
    free(b);
}

/* torch 1.13 in bf16: (1 + 2^-8) and (1 + 3 * 2^-8) are halfway and go to the even neighbour; NaN
 * stays NaN, the largest values of f32 become infinity. */
static void rounding_is_torchs(void **state) {
    ff_compute **both = *state;
    const float from[] = {1.00390625f, 1.01171875f, -1.00390625f, 1.0039064f, NAN, 3.4e38f, 1e-40f};
    const uint16_t known[] = {0x3f80, 0x3f82, 0xbf80, 0x3f81, 0x7fc0, 0x7f80, 0x0001};
    uint16_t to[7];
    both[NARROW]->ops->cast(both[NARROW], 7, 1, from, FF_F32, to, FF_BF16);
    assert_memory_equal(to, known, sizeof known);
}

/* torch 1.13 on the CPU, of bf16: gelu and its gradient for dy = 1.0078125, relu6, avg_pool2d(3, 1,
 * 1) and adaptive_avg_pool2d((3, 2)) of 4 x 4, batch_norm with weight 1.5, bias 0.25, running
 * statistics (0.3, 0.7), evaluating and training. */
static void elements_are_torchs(void **state) {
    enum { ALL = 16 };
    ff_compute *compute = ((ff_compute **)*state)[NARROW];
    static const uint16_t x[ALL] = {0xc040, 0xbf81, 0xbf00, 0xbd80, 0x0000, 0x3eab, 0x3f40, 0x3fc0,
                                    0x4081, 0x40d0, 0xc010, 0x3c24, 0x3dcd, 0x4001, 0xbf33, 0x3f80};
    static const uint16_t known[][ALL] = {
        {0xbb85, 0xbe22, 0xbe1e, 0xbcf3, 0x0000, 0x3e58, 0x3f14, 0x3fb3, 0x4081, 0x40d0, 0xbce1,
         0x3ba5, 0x3d5d, 0x3ffc, 0xbe2d, 0x3f57},
        {0xbc45, 0xbdb0, 0x3e09, 0x3ee8, 0x3f01, 0x3f43, 0x3f81, 0x3f91, 0x3f81, 0x3f81, 0xbd74,
         0x3f03, 0x3f16, 0x3f8c, 0x3cc4, 0x3f8c},
        {0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x3eab, 0x3f40, 0x3fc0, 0x4081, 0x40c0, 0x0000,
         0x3c24, 0x3dcd, 0x4001, 0x0000, 0x3f80},
        {0xbed1, 0xbec3, 0x3de7, 0x3e40, 0x3f43, 0x3f0a, 0x3f16, 0xbd7b, 0x3fb9, 0x3f99, 0x3f82,
         0x3d0d, 0x3fb4, 0x3f8a, 0x3f3b, 0xbe5d},
        {0xbf6b, 0x3ed8, 0x402e, 0x3b24, 0x404a, 0xbef8},
        {0xc0b5, 0xc006, 0xbf98, 0xbecd, 0xbe93, 0x3e9f, 0x3f87, 0x401a, 0x40de, 0x4136, 0xc08a,
         0xbe8a, 0xbdde, 0x4055, 0xbfc5, 0x3fc1},
        {0xc00b, 0xbf4f, 0xbeed, 0xbe28, 0xbdf9, 0x3dd9, 0x3ec7, 0x3f67, 0x4028, 0x408a, 0xbfd4,
         0xbdeb, 0xbd5a, 0x3fa0, 0xbf19, 0x3f0f},
    };
    const ff_tensor t = {1, 1, 4, 4, 1};
    const ff_pool average = {t, t, 3, 3, 1, 1, false, false};
    const ff_pool adaptive = {.input = t, .output = {1, 1, 3, 2, 1}, .adaptive = true};
    uint16_t y[7][ALL] = {{0}}, dy[ALL];
    float gamma = 1.5f, beta = 0.25f, running[2] = {0.3f, 0.7f}, own[2];
    ff_norm norm = {.shape = t,
                    .momentum = 0.1f,
                    .epsilon = 1e-5f,
                    .gamma = &gamma,
                    .beta = &beta,
                    .running_mean = &running[0],
                    .running_var = &running[1],
                    .mean = &own[0],
                    .inv_std = &own[1],
                    .x = x,
                    .y = y[5]};
    for (int i = 0; i < ALL; i++) dy[i] = 0x3f81;
    compute->ops->activation_forward(compute, FF_ACTIVATION_GELU, ALL, x, y[0]);
    compute->ops->activation_backward(compute, FF_ACTIVATION_GELU, ALL, x, dy, y[1]);
    compute->ops->activation_forward(compute, FF_ACTIVATION_RELU6, ALL, x, y[2]);
    compute->ops->pool_forward(compute, &average, x, y[3], NULL);
    compute->ops->pool_forward(compute, &adaptive, x, y[4], NULL);
    compute->ops->norm_evaluate(compute, &norm, NULL);
    norm.y = y[6];
    compute->ops->norm_train(compute, &norm, NULL);
    assert_memory_equal(y, known, sizeof known);
}

/* The gradient is rounded and carries the loss scale, which f32 leaves out. */
static void loss_is_rounded(void **state) {
    ff_compute **both = *state;
    dice d = {.seed = 56};
    for (int kind = FF_LOSS_CROSS_ENTROPY; kind <= FF_LOSS_BCE_SUM; kind++) {
        enum { N = 7, C = 9, ALL = N * C };
        float *logits = random_floats(&d, ALL);
        const int32_t labels[N] = {0, 8, -1, 3, 4, 5, 6};
        ff_control control = {.loss_scale = 4};
        ff_outcome outcome[BOTH];
        void *gradient[BOTH];
        room_both(both, ALL, gradient);
        for (int k = 0; k < BOTH; k++) {
            double scratch[N];
            const ff_loss loss = {.n = N,
                                  .classes = C,
                                  .form = {(ff_loss_kind)kind, -1},
                                  .smoothing = 0.1,
                                  .stride = C,
                                  .logits = logits,
                                  .labels = labels,
                                  .label_dtype = FF_I32,
                                  .gradient = gradient[k],
                                  .scratch = scratch,
                                  .ring = &outcome[k],
                                  .ring_size = 1,
                                  .control = &control};
            both[k]->ops->loss(both[k], &loss);
        }
        assert_memory_equal(&outcome[WIDE], &outcome[NARROW], sizeof *outcome);
        for (int i = 0; i < ALL; i++) ((float *)gradient[WIDE])[i] *= 4;
        expect(both, FF_BF16, gradient, ALL);
        free(logits);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_is_rounded),      cmocka_unit_test(linear_is_rounded),
        cmocka_unit_test(norm_is_rounded),      cmocka_unit_test(pool_is_rounded),
        cmocka_unit_test(elements_are_rounded), cmocka_unit_test(rounding_is_torchs),
        cmocka_unit_test(elements_are_torchs),  cmocka_unit_test(loss_is_rounded),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
