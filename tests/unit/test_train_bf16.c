/* The plain loops in bf16 against the plain loops in f32, on inputs that bf16 holds: every element
 * is the one of f32, rounded once to nearest even. */
#include "tests/unit/train_nets.h"

#include "train/compute/cpu/cpu.h"
#include "train/compute/optimizers/optimizers.h"

/* The same entry in both dtypes. */
enum { WIDE, NARROW, BOTH };

static int open_both(void **state) {
    static ff_compute *both[BOTH];
    for (int k = 0; k < BOTH; k++) {
        const ff_compute_options options = {
            .threads = 2, .precision = k == NARROW ? FF_PRECISION_BF16 : FF_PRECISION_F32};
        assert_ok(ff_compute_open(&both[k], "reference", &options, error));
    }
    assert_int_equal(both[NARROW]->dtype, FF_BF16);
    *state = both;
    return 0;
}
static int close_both(void **state) {
    ff_compute **both = *state;
    for (int k = 0; k < BOTH; k++) ff_compute_close(&both[k]);
    return 0;
}

/* Random values that bf16 holds. */
static float *draws(ff_compute **both, dice *d, size_t count) {
    float *values = random_floats(d, count);
    round_all(both[NARROW], values, count);
    return values;
}

/* Both results of an entry, which are released. */
static void expect(ff_compute **both, ff_dtype narrow, void *const memory[BOTH], size_t count) {
    float *wide = take_floats(both[WIDE], FF_F32, memory[WIDE], count);
    float *got = take_floats(both[NARROW], narrow, memory[NARROW], count);
    if (narrow == FF_BF16) round_all(both[NARROW], wide, count);
    assert_memory_equal(got, wide, count * sizeof *got);
    free(wide);
    free(got);
}

static void put_both(ff_compute **both, const float *values, size_t count, void *memory[BOTH]) {
    for (int k = 0; k < BOTH; k++) memory[k] = put(both[k], both[k]->dtype, values, count);
}
static void room_both(ff_compute **both, size_t count, void *memory[BOTH]) {
    for (int k = 0; k < BOTH; k++) memory[k] = room(both[k], both[k]->dtype, count);
}
static void release_both(ff_compute **both, void *memory[BOTH]) {
    for (int k = 0; k < BOTH; k++) ff_compute_release(both[k], memory[k]);
}

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

/* ---- the update ---- */

/* Values of weights whose gradients are bf16, and of norms, whose gradients are f32; averages; and
 * for Muon a bank of filters. */
static void update_on(ff_compute *compute, ff_rule rule, const float *start, const float *gradient,
                      float *result, uint16_t *working) {
    enum { W = 12 * 8 * 9 * 6, N = 40, ALL = W + N };
    const ff_conv_shape shape = {
        .input = {1, 72, 6, 6, 1}, .output = {1, 72, 6, 6, 1}, .kernel = 1, .groups = 1};
    ff_conv *conv;
    assert_int_equal(72 * 72, W);
    assert_ok(compute->ops->conv_create(compute, &shape, NULL, &conv, error));
    const bool narrow = compute->dtype == FF_BF16;
    void *of_weights = put(compute, compute->dtype, gradient, W);
    void *of_norms = put(compute, FF_F32, gradient + W, N);
    float *states = floats(2 * ALL), *average = result + ALL;
    memcpy(result, start, ALL * sizeof *start);
    memcpy(average, start, ALL * sizeof *start);
    ff_hyper hyper = ff_optimizer_at(rule)->defaults;
    hyper.learning_rate = 0.1;
    double rates[] = {0.1, 0.05};
    ff_control control = {.loss_scale = 1};
    ff_update_segment parts[2] = {
        {.rule = rule,
         .count = W,
         .gradient = of_weights,
         .gradient_dtype = compute->dtype,
         .values = result,
         .state = {states, states + ALL},
         .adapts = true,
         .average = average,
         .working = narrow ? working : NULL,
         .conv = rule == FF_RULE_MUON ? conv : NULL},
        {.rule = rule == FF_RULE_MUON ? FF_RULE_SGD : rule,
         .count = N,
         .gradient = of_norms,
         .gradient_dtype = FF_F32,
         .values = result + W,
         .state = {states + W, states + ALL + W},
         .average = average + W,
         .working = narrow ? working + W : NULL},
    };
    const ff_update_spec spec = {.segments = parts,
                                 .segment_count = 2,
                                 .how = {.groups = &hyper,
                                         .group_count = 1,
                                         .rates = rates,
                                         .rate_steps = 2,
                                         .clip_norm = 3,
                                         .ema_decay = 0.5},
                                 .control = &control};
    ff_prepared_update *update;
    ff_outcome outcome;
    assert_ok(compute->ops->update_create(compute, &spec, &update, error));
    for (int step = 0; step < 3; step++) {
        compute->ops->update_run(compute, update, &outcome, 1);
        if (!narrow) continue; /* gradients that are 4 times larger, with that loss scale */
        for (int i = 0; i < W; i++) ((uint16_t *)of_weights)[i] = ff_bf16_from_f32(gradient[i] * 4);
        for (int i = 0; i < N; i++) ((float *)of_norms)[i] = gradient[W + i] * 4;
        control.loss_scale = 4;
    }
    assert_int_equal(control.updates, 3);
    /* an infinite gradient skips the update */
    float *kept = floats(ALL);
    memcpy(kept, result, ALL * sizeof *kept);
    if (narrow)
        ((uint16_t *)of_weights)[W - 1] = 0x7f80;
    else
        ((float *)of_weights)[W - 1] = INFINITY;
    compute->ops->update_run(compute, update, &outcome, 1);
    assert_int_equal(control.updates, 3);
    assert_memory_equal(result, kept, ALL * sizeof *kept);
    compute->ops->update_destroy(compute, update);
    compute->ops->conv_destroy(compute, conv);
    ff_compute_release(compute, of_weights);
    ff_compute_release(compute, of_norms);
    free(states);
    free(kept);
}

/* The f32 masters are those of the same gradients in f32, but for the order of sums of norms; the
 * working copies are the masters, rounded. */
static void updates_are_of_the_gradients(void **state) {
    enum { ALL = 72 * 72 + 40 };
    ff_compute **both = *state;
    dice d = {.seed = 57};
    float *start = random_floats(&d, ALL), *gradient = draws(both, &d, ALL);
    float *result[BOTH] = {floats(2 * ALL), floats(2 * ALL)};
    uint16_t *working = (uint16_t *)floats(ALL);
    for (int rule = 0; rule < FF_RULE_COUNT; rule++) {
        for (int k = 0; k < BOTH; k++)
            update_on(both[k], (ff_rule)rule, start, gradient, result[k], working);
        assert_close(result[WIDE], result[NARROW], 2 * ALL, 1e-6);
        for (size_t i = 0; i < ALL; i++)
            assert_int_equal(working[i], ff_bf16_from_f32(result[NARROW][i]));
    }
    free(start);
    free(gradient);
    for (int k = 0; k < BOTH; k++) free(result[k]);
    free(working);
}

static void sums_of_gradients_are_f32(void **state) {
    enum { COUNT = 16 * 331 };
    ff_compute **both = *state;
    dice d = {.seed = 58};
    float *gradient = draws(both, &d, COUNT), *sums[BOTH] = {floats(COUNT), floats(COUNT)};
    const ff_outcome outcome = {.weight = 3};
    const ff_control control = {0};
    for (int k = 0; k < BOTH; k++) {
        void *memory = put(both[k], both[k]->dtype, gradient, COUNT);
        ff_gradient_sum sum = {.count = COUNT,
                               .gradient = memory,
                               .dtype = both[k]->dtype,
                               .sums = sums[k],
                               .first = true,
                               .weight = 0.3f,
                               .ring = &outcome,
                               .ring_size = 1,
                               .control = &control};
        both[k]->ops->sum_gradients(both[k], &sum);
        sum.first = false;
        sum.weight = 0;
        both[k]->ops->sum_gradients(both[k], &sum);
        ff_compute_release(both[k], memory);
    }
    assert_memory_equal(sums[WIDE], sums[NARROW], COUNT * sizeof(float));
    for (size_t i = 0; i < COUNT; i++)
        assert_float_equal(sums[NARROW][i], 3.3 * (double)gradient[i], 1e-5);
    free(gradient);
    for (int k = 0; k < BOTH; k++) free(sums[k]);
}

/* ---- whole nets ---- */

/* Each value is rounded by up to 2^-9 of it, some hundred times on the way through a net. In nets
 * with ReLU that sometimes changes the side of one of a few hundred elements, which changes a
 * gradient by up to some ten percent. */
static void nets_agree(void **state) {
    (void)state;
    for (int c = 0; c < CASES; c++) {
        const ff_compute_options options = {.threads = 2, .precision = FF_PRECISION_BF16};
        const net_case *k = &cases[c];
        net nets[BOTH];
        samples s;
        double losses[BOTH][2];
        const bool smooth = k->build == build_frozen || k->build == build_grouped;
        const double tolerance = smooth ? 0.03 : 0.3;
        ff_compute *narrow;
        draw(&s, k);
        assert_ok(ff_compute_open(&narrow, "reference", &options, error));
        open_net(&nets[WIDE], k->build, k->channels, k->height, k->width, k->batch, "reference", 2);
        open_net_on(&nets[NARROW], k->build, k->channels, k->height, k->width, k->batch, narrow);
        const size_t count = (size_t)k->batch * k->channels * k->height * k->width;
        void *images = put(narrow, FF_BF16, s.images, count);
        for (int n = 0; n < BOTH; n++) {
            ff_batch batch = s.batch;
            if (n == NARROW) batch.images = images;
            for (int training = 0; training < 2; training++)
                losses[n][training] = run_plan(nets[n].plan, &batch, training).loss_sum / k->batch;
        }
        for (int i = 0; i < 2; i++) assert_float_equal(losses[WIDE][i], losses[NARROW][i], 5e-2);
        for (int p = 0; p < nets[WIDE].graph->parameter_count; p++) {
            const ff_graph_parameter *parameter = &nets[WIDE].graph->parameters[p];
            if (!parameter->trained) continue;
            float *a = exported(&nets[WIDE], p, FF_PART_GRADIENT);
            float *b = exported(&nets[NARROW], p, FF_PART_GRADIENT);
            size_t elements = 1;
            for (int r = 0; r < parameter->rank; r++) elements *= (size_t)parameter->shape[r];
            double squares = 0, off = 0;
            for (size_t e = 0; e < elements; e++) {
                squares += (double)a[e] * (double)a[e];
                off += ((double)a[e] - (double)b[e]) * ((double)a[e] - (double)b[e]);
            }
            const double apart = sqrt(off / ((double)elements * 1e-6 + squares));
            if (!(apart < tolerance))
                print_message("%s: %s: %g\n", k->name, parameter->name, apart);
            assert_true(apart < tolerance);
            free(a);
            free(b);
        }
        ff_compute_release(narrow, images);
        free(s.images);
        for (int n = 0; n < BOTH; n++) close_net(&nets[n]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_is_rounded),           cmocka_unit_test(linear_is_rounded),
        cmocka_unit_test(norm_is_rounded),           cmocka_unit_test(pool_is_rounded),
        cmocka_unit_test(elements_are_rounded),      cmocka_unit_test(rounding_is_torchs),
        cmocka_unit_test(loss_is_rounded),           cmocka_unit_test(updates_are_of_the_gradients),
        cmocka_unit_test(sums_of_gradients_are_f32), cmocka_unit_test(nets_agree),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
