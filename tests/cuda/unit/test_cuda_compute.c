/* Every entry of the CUDA compute table (simulated kernels, plain library, asynchronous streams; or
 * a GPU's kernels, cuDNN and cuBLAS) against the plain loops, on random odd shapes, in every
 * precision. Inputs are rounded to the precision first, outputs are filled with values that no
 * result has. */
#include "tests/cuda/unit/cuda_helpers.h"
#include "tests/unit/norm_ranks_case.h"

typedef struct tables {
    machine m;
    ff_compute *right;
    ff_compute *cuda[FF_PRECISION_COUNT];
} tables;

static int open_tables(void **state) {
    static tables all;
    const ff_compute_options options = {.threads = 2};
    open_machine(&all.m, plain_library, 0, 9);
    assert_ok(ff_compute_open(&all.right, "reference", &options, error));
    for (int p = 0; p < FF_PRECISION_COUNT; p++) all.cuda[p] = open_cuda(&all.m, (ff_precision)p);
    *state = &all;
    return 0;
}
static int close_tables(void **state) {
    tables *all = *state;
    ff_compute_close(&all->right);
    for (int p = 0; p < FF_PRECISION_COUNT; p++) ff_compute_close(&all->cuda[p]);
    close_machine(&all->m);
    return 0;
}

/* The relative error of one rounding to the activations' dtype: half a unit of its last place.
 * Results are compared against their root mean square, and the largest of a few hundred values is
 * some 4 times that, so a bound is `roundings` times 4 of these; sums of f32 add 1e-5. */
static double bound(const ff_compute *compute, double roundings) {
    const double unit = compute->dtype == FF_F16    ? 0x1p-11
                        : compute->dtype == FF_BF16 ? 0x1p-8
                                                    : 0x1p-24;
    return 1e-5 + 8 * roundings * unit;
}

/* The additional tolerance for a GPU's convolutions and matrix products: cuDNN and cuBLAS sum in
 * another order, and tf32 cuts the factors to 10 bits. As library_agree.c allows for a value, and
 * the largest is 4 times the root mean square. */
static double of_products(const ff_compute *compute) {
    if (!ON_CARD) return 0;
    return 4 * (compute->precision == FF_PRECISION_TF32 ? 4e-3 : 2e-5);
}

static float *rounded(const ff_compute *compute, dice *d, size_t count) {
    float *values = random_floats(d, count);
    round_all(compute, values, count);
    return values;
}

static float *padded(const float *values, size_t count, size_t padded_count) {
    float *all = floats(padded_count);
    memcpy(all, values, count * sizeof *all);
    return all;
}

/* Compares and frees what was found. */
static void judge_within(const char *what, const ff_compute *compute, const float *right,
                         float *found, size_t count, double most) {
    const double apart = difference(right, found, count);
    if (!(apart <= most))
        print_message("%s, %s: %g apart, %g allowed\n", what, ff_precision_name(compute->precision),
                      apart, most);
    assert_true(apart <= most);
    free(found);
}
static void judge(const char *what, const ff_compute *compute, const float *right, float *found,
                  size_t count, double roundings) {
    judge_within(what, compute, right, found, count, bound(compute, roundings));
}
static void judge_products(const char *what, const ff_compute *compute, const float *right,
                           float *found, size_t count, double roundings) {
    judge_within(what, compute, right, found, count,
                 bound(compute, roundings) + of_products(compute));
}

/* ---- convolution ---- */

/* Of one group; or, where `grouped`, of any number of single channels or of several eights. */
static void one_conv(const tables *all, ff_compute *compute, dice *d, bool grouped) {
    static const int kernels[] = {1, 2, 3, 5, 3, 3};
    const int kernel = kernels[roll(d, grouped ? 6 : 4)];
    const int pad = grouped ? kernel / 2 : (int)roll(d, (uint32_t)kernel / 2 + 1);
    const int stride = between(d, 1, 2);
    const bool bias = roll(d, 2), first = roll(d, 4) == 0, frozen = bias && roll(d, 4) == 0;
    ff_tensor x = {between(d, 1, 3), between(d, 1, 19), between(d, 5, 9), between(d, 5, 9), 1};
    ff_tensor y = {x.n, between(d, 1, 19), (x.h + 2 * pad - kernel) / stride + 1,
                   (x.w + 2 * pad - kernel) / stride + 1, 1};
    int groups = 1;
    if (grouped && roll(d, 3)) groups = y.c = x.c;
    if (grouped && groups == 1) groups = between(d, 2, 4), x.c = 8 * groups, y.c = 16 * groups;
    ff_conv_shape shape = {x,
                           y,
                           kernel,
                           stride,
                           .pad = pad,
                           .groups = groups,
                           .bias = bias,
                           .training = true,
                           .input_gradient = !first,
                           .frozen = frozen,
                           .statistics = !bias};
    const size_t weights = (size_t)(x.c / groups) * y.c * kernel * kernel, outputs = (size_t)y.c;
    float *xs = rounded(compute, d, logical_count(&x)), *ws = rounded(compute, d, weights);
    float *dys = rounded(compute, d, logical_count(&y)), *biases = rounded(compute, d, outputs);
    float *right_y = floats(logical_count(&y)), *right_dx = floats(logical_count(&x));
    float *right_dw = floats(weights), *right_db = floats(outputs);
    ff_conv *conv;
    const ff_compute_ops *ops = all->right->ops;
    assert_ok(ops->conv_create(all->right, &shape, NULL, &conv, error));
    ops->conv_forward(all->right, conv, xs, ws, bias ? biases : NULL, right_y, NULL);
    ops->conv_backward_data(all->right, conv, dys, ws, right_dx, NULL);
    shape.frozen = false;
    ops->conv_backward_weights(all->right, conv, xs, dys, right_dw, right_db, NULL);
    shape.frozen = frozen;
    ops->conv_destroy(all->right, conv);

    ops = compute->ops;
    shape.input.block = ops->channel_block(compute, x.c);
    shape.output.block = ops->channel_block(compute, y.c);
    assert_ok(ops->conv_create(compute, &shape, NULL, &conv, error));
    const size_t wide = (size_t)ff_tensor_padded_channels(&shape.output);
    float *held = floats(conv->weight_count), *wide_bias = padded(biases, outputs, wide);
    ops->conv_import(conv, ws, held);
    void *scratch = room(compute, FF_F32, conv->scratch_bytes / 4 + 1);
    void *at_x = put_tensor(compute, &shape.input, xs),
         *at_dy = put_tensor(compute, &shape.output, dys);
    void *at_w = put(compute, compute->dtype, held, conv->weight_count);
    void *at_bias = put(compute, compute->dtype, wide_bias, wide);
    void *at_y = room(compute, compute->dtype, ff_tensor_count(&shape.output));
    void *at_dx = room(compute, compute->dtype, ff_tensor_count(&shape.input));
    void *at_dw = room(compute, compute->dtype, conv->weight_count);
    void *at_db = room(compute, FF_F32, wide), *at_sums = room(compute, FF_F32, 2 * wide);
    if (conv->statistics)
        ops->conv_forward_fused(compute, conv, at_x, NULL, at_w, at_y, at_sums, scratch);
    else
        ops->conv_forward(compute, conv, at_x, at_w, bias ? at_bias : NULL, at_y, scratch);
    ops->conv_backward_weights(compute, conv, at_x, at_dy, frozen ? NULL : at_dw,
                               bias ? at_db : NULL, scratch);
    if (!first) ops->conv_backward_data(compute, conv, at_dy, at_w, at_dx, scratch);
    judge_products("convolution", compute, right_y, take_tensor(compute, &shape.output, at_y),
                   logical_count(&y), 1);
    if (first)
        ff_compute_release(compute, at_dx);
    else
        judge_products("its input's gradient", compute, right_dx,
                       take_tensor(compute, &shape.input, at_dx), logical_count(&x), 1);
    float *found = take_floats(compute, compute->dtype, at_dw, conv->weight_count);
    float *dw = floats(weights);
    ops->conv_export(conv, found, dw);
    if (!frozen) judge_products("its weights' gradient", compute, right_dw, dw, weights, 1);
    if (frozen) free(dw);
    free(found);
    found = take_floats(compute, FF_F32, at_db, wide);
    if (bias) judge("its bias' gradient", all->right, right_db, found, outputs, 1);
    if (!bias) free(found);
    float *sums = take_floats(compute, FF_F32, at_sums, 2 * wide), *right_sums = floats(2 * wide);
    for (size_t i = 0; i < logical_count(&y); i++) {
        const size_t c = i / ((size_t)y.h * y.w) % outputs;
        right_sums[c] += right_y[i];
        right_sums[wide + c] += right_y[i] * right_y[i];
    }
    /* the sums may be of the values as rounded or before */
    if (conv->statistics) judge_products("its sums", compute, right_sums, sums, 2 * wide, 2);
    if (!conv->statistics) free(sums);
    ops->conv_destroy(compute, conv);
    void *memory[] = {scratch, at_x, at_dy, at_w, at_bias};
    for (size_t i = 0; i < 5; i++) ff_compute_release(compute, memory[i]);
    float *arrays[] = {xs,       ws,       dys,  biases,    right_y,   right_dx,
                       right_dw, right_db, held, wide_bias, right_sums};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
}

static void convolutions_agree(void **state) {
    tables *all = *state;
    dice d = {.seed = 41};
    for (int i = 0; i < 40; i++) one_conv(all, all->cuda[i % FF_PRECISION_COUNT], &d, false);
    for (int i = 0; i < 40; i++) one_conv(all, all->cuda[i % FF_PRECISION_COUNT], &d, true);
}

/* Groups of several channels have no padding. */
static void uneven_groups_are_refused(void **state) {
    tables *all = *state;
    ff_compute *compute = all->cuda[FF_PRECISION_F32];
    const ff_tensor t = {1, 12, 5, 5, 16};
    const ff_conv_shape shape = {
        .input = t, .output = t, .kernel = 3, .stride = 1, .pad = 1, .groups = 3};
    ff_error failure = {0};
    ff_conv *conv;
    assert_int_equal(compute->ops->conv_create(compute, &shape, NULL, &conv, &failure), FF_USAGE);
    assert_non_null(strstr(failure.message, "3 groups of 12 to 12 channels"));
    assert_null(conv);
}

/* ---- batch norm ---- */

static void one_norm(const tables *all, ff_compute *compute, dice *d) {
    const bool add = roll(d, 2), second = roll(d, 2), held = roll(d, 3) == 0;
    const ff_activation activation = add ? (ff_activation)roll(d, 2) : (ff_activation)roll(d, 4);
    ff_tensor t = {between(d, 1, 4), between(d, 1, 21), between(d, 2, 6), between(d, 1, 6), 1};
    const size_t count = logical_count(&t), channels = (size_t)t.c;
    float *x = rounded(compute, d, count), *residual = rounded(compute, d, count);
    float *dy = rounded(compute, d, count), *dy2 = rounded(compute, d, count);
    float *gamma = random_floats(d, channels), *beta = random_floats(d, channels);
    float *running_mean = random_floats(d, channels), *running_var = random_floats(d, channels);
    for (size_t c = 0; c < channels; c++) running_var[c] = fabsf(running_var[c]) + 0.1f;
    float *out[2][7]; /* evaluated, trained, dx, dresidual; running mean and variance, gammas */
    for (int k = 0; k < 2; k++) {
        ff_compute *on = k ? compute : all->right;
        const ff_compute_ops *ops = on->ops;
        t.block = k ? ops->channel_block(on, t.c) : 1;
        const size_t wide = (size_t)ff_tensor_padded_channels(&t);
        float *per[] = {padded(gamma, channels, wide), padded(beta, channels, wide),
                        padded(running_mean, channels, wide), padded(running_var, channels, wide)};
        void *at[4], *y = room(on, on->dtype, ff_tensor_count(&t));
        for (int i = 0; i < 4; i++) at[i] = put(on, FF_F32, per[i], wide);
        void *mean = room(on, FF_F32, wide), *inv_std = room(on, FF_F32, wide);
        void *dgamma = room(on, FF_F32, wide), *dbeta = room(on, FF_F32, wide);
        void *at_x = put_tensor(on, &t, x), *at_dy = put_tensor(on, &t, dy);
        void *at_dy2 = put_tensor(on, &t, dy2), *at_residual = put_tensor(on, &t, residual);
        void *dx = room(on, on->dtype, ff_tensor_count(&t));
        void *dresidual = room(on, on->dtype, ff_tensor_count(&t));
        float *scratch = room(on, FF_F32, ops->norm_scratch(on, &t) + 1);
        ff_norm norm = {.shape = t,
                        .activation = activation,
                        .momentum = 0.1f,
                        .epsilon = 1e-5f,
                        .held = held,
                        .gamma = at[0],
                        .beta = at[1],
                        .running_mean = at[2],
                        .running_var = at[3],
                        .mean = mean,
                        .inv_std = inv_std,
                        .x = at_x,
                        .residual = add ? at_residual : NULL,
                        .y = y};
        ops->norm_evaluate(on, &norm, scratch);
        out[k][0] = take_tensor(on, &t, y);
        norm.y = room(on, on->dtype, ff_tensor_count(&t));
        ops->norm_train(on, &norm, scratch);
        const ff_norm_backward backward = {.forward = norm,
                                           .dy = at_dy,
                                           .dy2 = second ? at_dy2 : NULL,
                                           .dx = dx,
                                           .dresidual = add ? dresidual : NULL,
                                           .dgamma = dgamma,
                                           .dbeta = dbeta};
        ops->norm_backward(on, &backward, scratch);
        out[k][1] = take_tensor(on, &t, norm.y);
        out[k][2] = take_tensor(on, &t, dx);
        out[k][3] = add ? take_tensor(on, &t, dresidual) : floats(count);
        if (!add) ff_compute_release(on, dresidual);
        out[k][4] = take_floats(on, FF_F32, at[2], wide);
        out[k][5] = take_floats(on, FF_F32, at[3], wide);
        float *a = take_floats(on, FF_F32, dgamma, wide), *b = take_floats(on, FF_F32, dbeta, wide);
        for (size_t c = 0; c < channels; c++) a[c] += 3 * b[c];
        out[k][6] = a;
        free(b);
        void *memory[] = {at[0], at[1], mean, inv_std, at_x, at_dy, at_dy2, at_residual, scratch};
        for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
            ff_compute_release(on, memory[i]);
        for (int i = 0; i < 4; i++) free(per[i]);
    }
    judge("norm, evaluated", compute, out[0][0], out[1][0], count, 1);
    judge("norm", compute, out[0][1], out[1][1], count, 1);
    /* a sum with a residual near 0 may round to either side of ReLU's edge */
    judge("its input's gradient", compute, out[0][2], out[1][2], count, 4);
    judge("its residual's gradient", compute, out[0][3], out[1][3], count, 4);
    judge("its running mean", all->right, out[0][4], out[1][4], channels, 1);
    judge("its running variance", all->right, out[0][5], out[1][5], channels, 1);
    judge("gradients of scale and shift", compute, out[0][6], out[1][6], channels, 2);
    for (int i = 0; i < 7; i++) free(out[0][i]);
    float *arrays[] = {x, residual, dy, dy2, gamma, beta, running_mean, running_var};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
}

static void norms_agree(void **state) {
    tables *all = *state;
    dice d = {.seed = 42};
    for (int i = 0; i < 40; i++) one_norm(all, all->cuda[i % FF_PRECISION_COUNT], &d);
}

static void norms_of_ranks_are_those_of_the_whole(void **state) {
    const tables *all = *state;
    dice d = {.seed = 44};
    for (int i = 0; i < 40; i++) {
        ff_compute *compute = all->cuda[i % FF_PRECISION_COUNT];
        norm_ranks_case(all->right, compute, &d, bound(compute, 1), 4e-6);
    }
}

/* ---- pooling ---- */

static void one_pool(const tables *all, ff_compute *compute, dice *d) {
    ff_pool pool = {.max = roll(d, 2), .stride = between(d, 1, 3)};
    pool.kernel_h = pool.kernel_w = between(d, 1, 3);
    if (!pool.max && roll(d, 2)) pool.kernel_w = between(d, 1, 4);
    const int least = pool.kernel_h < pool.kernel_w ? pool.kernel_h : pool.kernel_w;
    pool.pad = (int)roll(d, (uint32_t)least / 2 + 1);
    pool.input =
        (ff_tensor){between(d, 1, 3), between(d, 1, 19), between(d, 4, 9), between(d, 4, 9), 1};
    pool.output = pool.input;
    pool.output.h = (pool.input.h + 2 * pool.pad - pool.kernel_h) / pool.stride + 1;
    pool.output.w = (pool.input.w + 2 * pool.pad - pool.kernel_w) / pool.stride + 1;
    const size_t xs = logical_count(&pool.input), ys = logical_count(&pool.output);
    float *x = random_floats(d, xs), *dy = rounded(compute, d, ys), *y[2], *dx[2];
    /* equal values, so that the first largest must win in both */
    for (size_t i = 0; i < xs; i++) x[i] = roundf(x[i] * 2);
    for (int k = 0; k < 2; k++) {
        ff_compute *on = k ? compute : all->right;
        pool.input.block = pool.output.block = k ? on->ops->channel_block(on, pool.input.c) : 1;
        void *at_x = put_tensor(on, &pool.input, x), *at_dy = put_tensor(on, &pool.output, dy);
        void *at_y = room(on, on->dtype, ff_tensor_count(&pool.output));
        void *at_dx = room(on, on->dtype, ff_tensor_count(&pool.input));
        uint8_t *index = room(on, FF_U8, ff_tensor_count(&pool.output));
        on->ops->pool_forward(on, &pool, at_x, at_y, pool.max ? index : NULL);
        on->ops->pool_backward(on, &pool, at_dy, pool.max ? index : NULL, at_dx);
        y[k] = take_tensor(on, &pool.output, at_y);
        dx[k] = take_tensor(on, &pool.input, at_dx);
        ff_compute_release(on, at_x);
        ff_compute_release(on, at_dy);
        ff_compute_release(on, index);
    }
    judge("pool", compute, y[0], y[1], ys, pool.max ? 0 : 1);
    judge("its gradient", compute, dx[0], dx[1], xs, 1);
    free(y[0]);
    free(dx[0]);
    free(x);
    free(dy);
}

static void pools_agree(void **state) {
    tables *all = *state;
    dice d = {.seed = 43};
    for (int i = 0; i < 40; i++) one_pool(all, all->cuda[i % FF_PRECISION_COUNT], &d);
}

/* ---- linear ---- */

static void one_linear(const tables *all, ff_compute *compute, dice *d) {
    const bool logits = roll(d, 2), bias = roll(d, 2);
    ff_tensor t = {between(d, 1, 7), between(d, 1, 21), between(d, 1, 3), between(d, 1, 3), 1};
    ff_tensor rows = {t.n, between(d, 1, 21), 1, 1, 1};
    const size_t inputs = logical_count(&t) / (size_t)t.n, outputs = (size_t)rows.c;
    float *x = rounded(compute, d, logical_count(&t)), *w = rounded(compute, d, inputs * outputs);
    float *biases = random_floats(d, outputs), *dy = rounded(compute, d, logical_count(&rows));
    float *out[2][4]; /* y, dx, dw in torch's order, dbias */
    for (int k = 0; k < 2; k++) {
        ff_compute *on = k ? compute : all->right;
        const ff_compute_ops *ops = on->ops;
        t.block = k ? ops->channel_block(on, t.c) : 1;
        rows.block = k ? ops->row_block(on, rows.c) : 1;
        const int wide = ff_tensor_padded_channels(&rows);
        const size_t sample = ff_tensor_sample(&t), held = sample * (size_t)wide;
        const ff_linear linear = {t, wide, 0.5f, logits};
        /* a row of weights has a sample's layout */
        ff_tensor filters = t;
        filters.n = rows.c;
        float *laid = lay_out(&filters, w), *all_rows = padded(laid, sample * outputs, held);
        float *wide_bias = padded(biases, outputs, (size_t)wide);
        const ff_dtype y_dtype = logits ? FF_F32 : on->dtype;
        void *at_x = put_tensor(on, &t, x), *at_w = put(on, on->dtype, all_rows, held);
        void *at_bias = put(on, FF_F32, wide_bias, (size_t)wide);
        void *at_dy = put_tensor(on, &rows, dy);
        void *at_y = room(on, y_dtype, ff_tensor_count(&rows));
        void *at_dx = room(on, on->dtype, ff_tensor_count(&t)), *at_dw = room(on, on->dtype, held);
        void *at_db = room(on, FF_F32, (size_t)wide);
        const size_t bytes = ops->linear_scratch ? ops->linear_scratch(on, &linear) : 0;
        void *scratch = room(on, FF_U8, bytes + 1);
        ops->linear_forward(on, &linear, at_x, at_w, bias ? at_bias : NULL, at_y);
        ops->linear_backward(on, &linear, at_x, at_w, at_dy, at_dx, at_dw, bias ? at_db : NULL,
                             scratch);
        float *y = take_floats(on, y_dtype, at_y, ff_tensor_count(&rows));
        out[k][0] = flatten(&rows, y);
        out[k][1] = take_tensor(on, &t, at_dx);
        float *dw = take_floats(on, on->dtype, at_dw, held);
        for (size_t i = sample * outputs; i < held; i++) assert_true(dw[i] == 0);
        out[k][2] = flatten(&filters, dw);
        out[k][3] = take_floats(on, FF_F32, at_db, (size_t)wide);
        void *memory[] = {at_x, at_w, at_bias, at_dy, scratch};
        for (size_t i = 0; i < 5; i++) ff_compute_release(on, memory[i]);
        float *arrays[] = {laid, all_rows, wide_bias, y, dw};
        for (size_t i = 0; i < 5; i++) free(arrays[i]);
    }
    judge_within("linear", compute, out[0][0], out[1][0], logical_count(&rows),
                 bound(logits ? all->right : compute, 1) + of_products(compute));
    judge_products("its input's gradient", compute, out[0][1], out[1][1], logical_count(&t), 1);
    judge_products("its weights' gradient", compute, out[0][2], out[1][2], inputs * outputs, 1);
    if (bias) judge("its bias' gradient", all->right, out[0][3], out[1][3], outputs, 1);
    if (!bias) free(out[1][3]);
    for (int i = 0; i < 4; i++) free(out[0][i]);
    float *arrays[] = {x, w, biases, dy};
    for (size_t i = 0; i < 4; i++) free(arrays[i]);
}

static void linears_agree(void **state) {
    tables *all = *state;
    dice d = {.seed = 44};
    for (int i = 0; i < 40; i++) one_linear(all, all->cuda[i % FF_PRECISION_COUNT], &d);
}

/* ---- the others ---- */

static void elementwise_agrees(void **state) {
    tables *all = *state;
    dice d = {.seed = 45};
    for (int i = 0; i < 16; i++) {
        ff_compute *compute = all->cuda[i % FF_PRECISION_COUNT];
        const size_t count = (size_t)between(&d, 1, 3000);
        float *a = rounded(compute, &d, count), *b = rounded(compute, &d, count), *out[2][5];
        const ff_activation clamp = i % 8 < 4 ? FF_ACTIVATION_RELU : FF_ACTIVATION_RELU6;
        for (size_t e = 0; e < count; e++) a[e] *= 4;
        for (int k = 0; k < 2; k++) {
            ff_compute *on = k ? compute : all->right;
            const ff_compute_ops *ops = on->ops;
            void *at_a = put(on, on->dtype, a, count), *at_b = put(on, on->dtype, b, count);
            void *to[5];
            for (int j = 0; j < 5; j++) to[j] = room(on, on->dtype, count);
            ops->activation_forward(on, clamp, count, at_a, to[0]);
            ops->activation_backward(on, clamp, count, to[0], at_b, to[1]);
            ops->activation_forward(on, FF_ACTIVATION_GELU, count, at_a, to[2]);
            ops->activation_backward(on, FF_ACTIVATION_GELU, count, at_a, at_b, to[3]);
            ops->add(on, count, at_a, at_b, to[4]);
            for (int j = 0; j < 5; j++) out[k][j] = take_floats(on, on->dtype, to[j], count);
            ff_compute_release(on, at_a);
            ff_compute_release(on, at_b);
        }
        for (int j = 0; j < 5; j++) {
            judge("an elementwise pass", compute, out[0][j], out[1][j], count, j < 2 ? 0 : 1);
            free(out[0][j]);
        }
        free(a);
        free(b);
    }
}

/* The same elements are dropped as on the host. */
static void dropout_agrees(void **state) {
    tables *all = *state;
    dice d = {.seed = 46};
    for (int p = 0; p < FF_PRECISION_COUNT; p++) {
        ff_compute *compute = all->cuda[p];
        ff_dropout dropout = {.shape = {3, 21, 5, 7, 1}, .probability = 0.3, .seed = 5, .layer = 2};
        const size_t count = logical_count(&dropout.shape);
        const uint64_t step = 77;
        float *x = rounded(compute, &d, count), *y[2];
        for (int k = 0; k < 2; k++) {
            ff_compute *on = k ? compute : all->right;
            uint64_t *at_step;
            dropout.shape.block = k ? on->ops->channel_block(on, 21) : 1;
            assert_ok(ff_compute_allocate(on, &at_step, sizeof step, "a test", error));
            ff_compute_write(on, at_step, &step, sizeof step);
            dropout.step = at_step;
            void *at_x = put_tensor(on, &dropout.shape, x);
            on->ops->dropout(on, &dropout, at_x, at_x);
            y[k] = take_tensor(on, &dropout.shape, at_x);
            ff_compute_release(on, at_step);
        }
        for (size_t i = 0; i < count; i++) assert_true((y[0][i] == 0) == (y[1][i] == 0));
        judge("dropout", compute, y[0], y[1], count, 1);
        free(y[0]);
        free(x);
    }
}

/* Sum, counts and gradient, with mixed and ignored labels, and a scale. */
static void losses_agree(void **state) {
    tables *all = *state;
    dice d = {.seed = 47};
    for (int i = 0; i < 24; i++) {
        ff_compute *compute = all->cuda[i % FF_PRECISION_COUNT];
        const int n = between(&d, 1, 9), classes = between(&d, 2, 13);
        ff_tensor t = {n, classes, 1, 1, 1};
        float *logits = random_floats(&d, logical_count(&t)), *gradient[2];
        float weights[9], mix[9];
        int32_t labels[9];
        for (int k = 0; k < n; k++) {
            labels[k] = (int32_t)between(&d, -1, classes - 1);
            weights[k] = roll(&d, 4) != 0;
            mix[k] = roll(&d, 2) ? 1 : 0.25f;
        }
        if (n % 2) mix[n - 1] = 1;
        const bool mixed = roll(&d, 2);
        const ff_control control = {.step = 5, .loss_scale = 8};
        ff_outcome found[2];
        for (int k = 0; k < 2; k++) {
            ff_compute *on = k ? compute : all->right;
            t.block = k ? on->ops->row_block(on, classes) : 1;
            const int stride = ff_tensor_padded_channels(&t);
            float *laid = lay_out(&t, logits);
            void *at_logits = put(on, FF_F32, laid, ff_tensor_count(&t)), *at_labels, *at_control;
            void *at_weights = put(on, FF_F32, weights, (size_t)n),
                 *at_mix = put(on, FF_F32, mix, (size_t)n);
            assert_ok(ff_compute_allocate(on, &at_labels, sizeof labels, "a test", error));
            ff_compute_write(on, at_labels, labels, sizeof labels);
            assert_ok(ff_compute_allocate(on, &at_control, sizeof control, "a test", error));
            ff_compute_write(on, at_control, &control, sizeof control);
            ff_outcome *ring = room(on, FF_U8, 3 * sizeof *ring);
            void *at_gradient = room(on, on->dtype, ff_tensor_count(&t));
            const ff_loss loss = {.n = n,
                                  .classes = classes,
                                  .smoothing = 0.1,
                                  .stride = stride,
                                  .logits = at_logits,
                                  .labels = at_labels,
                                  .label_dtype = FF_I32,
                                  .weights = at_weights,
                                  .mix = mixed ? at_mix : NULL,
                                  .gradient = at_gradient,
                                  .scratch = room(on, FF_U8, on->ops->loss_scratch(on, n, stride)),
                                  .ring = ring,
                                  .ring_size = 3,
                                  .control = at_control};
            on->ops->loss(on, &loss);
            ff_compute_read(on, &found[k], ring + 2, sizeof found[k]);
            gradient[k] = take_tensor(on, &t, at_gradient);
            void *memory[] = {at_logits,  at_labels, at_weights,  at_mix,
                              at_control, ring,      loss.scratch};
            for (size_t m = 0; m < sizeof memory / sizeof *memory; m++)
                ff_compute_release(on, memory[m]);
            free(laid);
        }
        assert_int_equal(found[0].count, found[1].count);
        assert_int_equal(found[0].correct, found[1].correct);
        assert_int_equal(found[1].step, 5);
        assert_int_equal(found[1].bad_sample, -1);
        assert_true(fabs(found[0].loss_sum - found[1].loss_sum) < 1e-5 * (1 + found[0].loss_sum));
        /* tables of f32 take the scale as 1 where they are the CPU's */
        for (size_t e = 0; e < logical_count(&t); e++) gradient[0][e] *= 8;
        judge("the loss' gradient", compute, gradient[0], gradient[1], logical_count(&t), 1);
        free(gradient[0]);
        free(logits);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_agree), cmocka_unit_test(uneven_groups_are_refused),
        cmocka_unit_test(norms_agree),
        cmocka_unit_test(norms_of_ranks_are_those_of_the_whole),        cmocka_unit_test(pools_agree),
        cmocka_unit_test(linears_agree),      cmocka_unit_test(elementwise_agrees),
        cmocka_unit_test(dropout_agrees),     cmocka_unit_test(losses_agree),
    };
    return cmocka_run_group_tests(tests, open_tables, close_tables);
}
