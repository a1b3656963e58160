/* Convolutions and linear layers in bf16, against sums in double of the same bf16 factors, each
 * rounded once. */
#include "tests/unit/conv_case.h"

#include "train/compute/cpu/winograd.h"

static int open_table(void **state) {
    const ff_compute_options options = {.threads = 2, .precision = FF_PRECISION_BF16};
    ff_compute *compute = NULL;
    if (ff_compute_allows(NULL, FF_PRECISION_BF16, NULL) == FF_OK)
        assert_ok(ff_compute_open(&compute, NULL, &options, error));
    *state = compute;
    return 0;
}
static int close_table(void **state) {
    ff_compute *compute = *state;
    ff_compute_close(&compute);
    return 0;
}

/* Values that bf16 has. */
static float *random_bf16(const ff_compute *compute, dice *d, size_t count) {
    float *values = random_floats(d, count);
    round_all(compute, values, count);
    return values;
}

/* The rounding of sums in f32, relative to the root mean square: added one by one, and Winograd's
 * (test_train_winograd.c). */
static const double ADDED = 4e-6, WINOGRAD = 3e-5;

/* Half a unit in the last place of bf16 (`wide`: none), and the rounding of the sums. */
static void assert_sums(const char *what, const double *right, const float *got, size_t count,
                        bool wide, double rounding) {
    double squares = 0;
    for (size_t i = 0; i < count; i++) squares += right[i] * right[i];
    const double sums = rounding * (sqrt(squares / (double)count) + 1e-6);
    for (size_t i = 0; i < count; i++) {
        const double apart = fabs(right[i] - (double)got[i]);
        if (!(apart <= (wide ? 0 : fabs(right[i]) / 256) + sums))
            fail_msg("%s[%zu of %zu]: %.9g, not %.9g", what, i, count, (double)got[i], right[i]);
    }
}

static void assert_rounded(const char *what, const double *right, const float *got, size_t count,
                           bool wide) {
    assert_sums(what, right, got, count, wide, ADDED);
}

static double *doubles(size_t count) {
    double *memory = calloc(count, sizeof *memory);
    assert_non_null(memory);
    return memory;
}

/* ---- convolutions ---- */

typedef struct conv_sums {
    double *y, *dx, *dw, *db;
} conv_sums;

static conv_sums sum_conv(const conv_case *k, const ff_conv_shape *s, const float *x,
                          const float *w, const float *bias, const float *dy) {
    const int inputs = k->c / k->groups, outputs = k->o / k->groups, taps = k->kernel * k->kernel;
    const int p = s->output.h, q = s->output.w;
    conv_sums sums = {doubles(logical_count(&s->output)), doubles(logical_count(&s->input)),
                      doubles((size_t)k->o * inputs * taps), doubles((size_t)k->o)};
    for (size_t y = 0; y < logical_count(&s->output); y++) {
        const int n = (int)(y / ((size_t)k->o * p * q)), o = (int)(y / ((size_t)p * q)) % k->o;
        const int row = (int)(y / q) % p, column = (int)(y % q);
        sums.y[y] = k->bias ? (double)bias[o] : 0;
        sums.db[o] += (double)dy[y];
        for (int i = 0; i < inputs * taps; i++) {
            const int h = row * k->stride - k->pad + i % taps / k->kernel;
            const int v = column * k->stride - k->pad + i % k->kernel;
            const int c = o / outputs * inputs + i / taps;
            if (h < 0 || h >= k->h || v < 0 || v >= k->w) continue;
            const size_t from = (((size_t)n * k->c + c) * k->h + h) * k->w + v;
            const size_t weight = (size_t)o * inputs * taps + i;
            sums.y[y] += (double)x[from] * (double)w[weight];
            sums.dx[from] += (double)dy[y] * (double)w[weight];
            sums.dw[weight] += (double)dy[y] * (double)x[from];
        }
    }
    return sums;
}

/* The store's copy of the weights: held, of the compute's dtype, with padding of zeros. */
static void *hold(ff_compute *compute, const ff_conv *conv, const float *w, size_t count) {
    float *held = floats(conv->weight_count), *back = floats(count);
    compute->ops->conv_import(conv, w, held);
    compute->ops->conv_export(conv, held, back);
    assert_memory_equal(back, w, count * sizeof *w);
    void *working = put(compute, compute->dtype, held, conv->weight_count);
    free(held);
    free(back);
    return working;
}

static void check_weights(ff_compute *compute, const ff_conv *conv, void *dw, const double *right,
                          size_t count, double rounding) {
    float *held = take_floats(compute, compute->dtype, dw, conv->weight_count);
    float *got = floats(count), *again = floats(conv->weight_count);
    compute->ops->conv_export(conv, held, got);
    assert_sums("dw", right, got, count, false, rounding);
    compute->ops->conv_import(conv, got, again); /* padding stays zero */
    assert_memory_equal(again, held, conv->weight_count * sizeof *held);
    free(held);
    free(got);
    free(again);
}

/* By the flags of Linux, not by what the table asks. */
static bool has_amx(void) {
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    FILE *file = fopen("/proc/cpuinfo", "r");
    assert_non_null(file);
    while (!found && getline(&line, &room, file) >= 0) found = strstr(line, " amx_bf16") != NULL;
    free(line);
    fclose(file);
    return found;
}

/* Whether the table computes a convolution by winograd.h: AMX is faster. */
static bool is_winograd(ff_compute *compute, const ff_conv_shape *s) {
    return !has_amx() && ff_winograd_fits(compute, s);
}

static void check_conv(ff_compute *compute, dice *d, const conv_case *k) {
    const ff_compute_ops *ops = compute->ops;
    const ff_conv_shape s = conv_case_shape(compute, k);
    const size_t xs = logical_count(&s.input), ys = logical_count(&s.output);
    const size_t weights = (size_t)k->o * (k->c / k->groups) * k->kernel * k->kernel;
    const size_t channels = (size_t)ff_tensor_padded_channels(&s.output);
    float *x = random_bf16(compute, d, xs), *w = random_bf16(compute, d, weights);
    float *dy = random_bf16(compute, d, ys), *bias = random_bf16(compute, d, channels);
    for (size_t o = (size_t)k->o; o < channels; o++) bias[o] = 0;
    const conv_sums right = sum_conv(k, &s, x, w, bias, dy);
    const double rounding = is_winograd(compute, &s) ? WINOGRAD : ADDED;
    ff_conv *conv;
    assert_ok(ops->conv_create(compute, &s, NULL, &conv, error));
    void *held = hold(compute, conv, w, weights), *bias_copy;
    void *scratch = room(compute, FF_F32, conv->scratch_bytes / sizeof(float) + 16);
    bias_copy = put(compute, compute->dtype, bias, channels);
    void *x_laid = put_tensor(compute, &s.input, x), *dy_laid = put_tensor(compute, &s.output, dy);
    void *y = room(compute, compute->dtype, ff_tensor_count(&s.output));
    void *dx = room(compute, compute->dtype, ff_tensor_count(&s.input));
    void *dw = room(compute, compute->dtype, conv->weight_count);
    float *db = room(compute, FF_F32, channels), *got;
    ops->conv_forward(compute, conv, x_laid, held, k->bias ? bias_copy : NULL, y, scratch);
    ops->conv_backward_weights(compute, conv, x_laid, dy_laid, k->frozen ? NULL : dw,
                               k->bias ? db : NULL, scratch);
    if (!k->images) ops->conv_backward_data(compute, conv, dy_laid, held, dx, scratch);
    assert_ok(ff_compute_check(compute, error));
    got = take_tensor(compute, &s.output, y);
    assert_sums("y", right.y, got, ys, false, rounding);
    free(got);
    if (!k->images) {
        got = take_tensor(compute, &s.input, dx);
        assert_sums("dx", right.dx, got, xs, false, rounding);
        free(got);
    } else
        ff_compute_release(compute, dx);
    if (!k->frozen)
        check_weights(compute, conv, dw, right.dw, weights, rounding);
    else
        ff_compute_release(compute, dw);
    got = take_floats(compute, FF_F32, db, channels);
    if (k->bias) assert_rounded("dbias", right.db, got, (size_t)k->o, true);
    ops->conv_destroy(compute, conv);
    void *memories[] = {held, scratch, bias_copy, x_laid, dy_laid};
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++)
        ff_compute_release(compute, memories[i]);
    void *arrays[] = {x, w, dy, bias, got, right.y, right.dx, right.dw, right.db};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
}

static void conv_is_rounded_once(void **state) {
    dice d = {.seed = 31};
    if (!*state) skip();
    for (int i = 0; i < 60; i++) {
        const conv_case k = draw_conv_case(&d);
        check_conv(*state, &d, &k);
    }
    /* the nets' shapes: stems, whitening, few pixels, groups of one channel and of several */
    static const conv_case nets[] = {
        {2, 3, 32, 32, 24, 2, 1, 0, true, true, true, 1},
        {2, 64, 14, 14, 64, 3, 1, 1, false, false, false, 1},
        {2, 128, 12, 14, 128, 3, 1, 1, true, false, false, 1},
        {2, 3, 32, 32, 64, 7, 2, 3, false, true, false, 1},
        {2, 3, 32, 32, 64, 3, 1, 1, false, true, false, 1},
        {3, 1, 28, 28, 32, 3, 1, 1, true, true, false, 1},
        {2, 64, 1, 1, 64, 3, 1, 1, false, false, false, 1},
        {2, 64, 2, 2, 128, 3, 2, 1, false, false, false, 1},
        {3, 64, 2, 2, 64, 3, 1, 1, true, false, false, 1},
        {2, 64, 14, 14, 64, 3, 1, 1, false, false, false, 64},
        {2, 64, 14, 14, 64, 3, 2, 1, true, false, false, 64},
        {2, 24, 9, 7, 24, 3, 1, 1, false, false, false, 24},
        {2, 64, 8, 8, 128, 3, 1, 1, false, false, false, 4},
        {2, 10, 8, 8, 20, 3, 1, 1, false, false, false, 2},
        /* rows shorter than a stride */
        {2, 32, 20, 1, 16, 3, 2, 1, false, false, false, 1},
        {2, 17, 6, 2, 16, 4, 3, 1, true, true, false, 1},
    };
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) check_conv(*state, &d, &nets[i]);
}

static void winograd_is_chosen_without_amx(void **state) {
    ff_compute *compute = *state;
    if (!compute) skip();
    static const conv_case cases[] = {
        {64, 128, 32, 32, 128, 3, 1, 1, false, false, false, 1},
        {64, 128, 32, 32, 128, 3, 2, 1, false, false, false, 1},
        {64, 16, 32, 32, 16, 3, 1, 1, false, false, false, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ff_conv_shape shape = conv_case_shape(compute, &cases[i]);
        ff_conv *conv;
        assert_ok(compute->ops->conv_create(compute, &shape, NULL, &conv, error));
        assert_int_equal(conv->scratch_bytes ==
                             ff_winograd_scratch(compute, &shape) * sizeof(float),
                         i == 0 && !has_amx());
        compute->ops->conv_destroy(compute, conv);
    }
}

/* ---- linear layers ---- */

static void check_linear(ff_compute *compute, dice *d, const ff_linear *linear, bool biased) {
    const ff_compute_ops *ops = compute->ops;
    const size_t inputs = ff_tensor_sample(&linear->input), n = (size_t)linear->input.n;
    const size_t outputs = (size_t)linear->outputs;
    const ff_dtype wide = linear->logits ? FF_F32 : compute->dtype;
    float *x = random_bf16(compute, d, n * inputs), *w = random_bf16(compute, d, outputs * inputs);
    float *dy = random_bf16(compute, d, n * outputs), *bias = random_floats(d, outputs);
    double *right[] = {doubles(n * outputs), doubles(n * inputs), doubles(outputs * inputs),
                       doubles(outputs)};
    const double scale = (double)linear->scale;
    for (size_t e = 0; e < n * outputs; e++) {
        const size_t row = e / outputs * inputs, o = e % outputs;
        for (size_t k = 0; k < inputs; k++) {
            right[0][e] += scale * (double)x[row + k] * (double)w[o * inputs + k];
            right[1][row + k] += scale * (double)dy[e] * (double)w[o * inputs + k];
            right[2][o * inputs + k] += scale * (double)dy[e] * (double)x[row + k];
        }
        right[0][e] += biased ? (double)bias[o] : 0;
        right[3][o] += (double)dy[e];
    }
    void *given[] = {put(compute, compute->dtype, x, n * inputs),
                     put(compute, compute->dtype, w, outputs * inputs),
                     put(compute, compute->dtype, dy, n * outputs),
                     put(compute, FF_F32, bias, outputs)};
    void *y = room(compute, wide, n * outputs), *dx = room(compute, compute->dtype, n * inputs);
    void *dw = room(compute, compute->dtype, outputs * inputs);
    float *db = room(compute, FF_F32, outputs), *got;
    ops->linear_forward(compute, linear, given[0], given[1], biased ? given[3] : NULL, y);
    ops->linear_backward(compute, linear, given[0], given[1], given[2], dx, dw, db, NULL);
    assert_ok(ff_compute_check(compute, error));
    assert_rounded("y", right[0], got = take_floats(compute, wide, y, n * outputs), n * outputs,
                   linear->logits);
    free(got);
    assert_rounded("dx", right[1], got = take_floats(compute, compute->dtype, dx, n * inputs),
                   n * inputs, false);
    free(got);
    assert_rounded("dw", right[2], got = take_floats(compute, compute->dtype, dw, outputs * inputs),
                   outputs * inputs, false);
    free(got);
    assert_rounded("dbias", right[3], got = take_floats(compute, FF_F32, db, outputs), outputs,
                   true);
    free(got);
    for (int i = 0; i < 4; i++) ff_compute_release(compute, given[i]), free(right[i]);
    float *arrays[] = {x, w, dy, bias};
    for (int i = 0; i < 4; i++) free(arrays[i]);
}

static void linear_is_rounded_once(void **state) {
    dice d = {.seed = 32};
    if (!*state) skip();
    for (int i = 0; i < 40; i++) {
        const ff_linear linear = {
            {between(&d, 1, 9), between(&d, 1, 40), between(&d, 1, 4), between(&d, 1, 4), 1},
            between(&d, 1, 30),
            roll(&d, 2) ? 1.0f : 0.375f,
            roll(&d, 2)};
        check_linear(*state, &d, &linear, roll(&d, 3));
    }
    const ff_linear large = {{33, 512, 2, 2, 16}, 100, 1, false};
    check_linear(*state, &d, &large, true);
}

/* ---- what is refused ---- */

static void other_precisions_are_refused(void **state) {
    (void)state;
    assert_fails(ff_compute_allows(NULL, FF_PRECISION_F16, error), FF_USAGE,
                 "the CPU computes in f32 and bf16, not in f16");
    assert_fails(ff_compute_allows("reference", FF_PRECISION_TF32, error), FF_USAGE, "not in tf32");
    assert_fails(ff_compute_allows("other", FF_PRECISION_F32, error), FF_USAGE, "it has: ");
    assert_ok(ff_compute_allows("reference", FF_PRECISION_BF16, error));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_is_rounded_once),
        cmocka_unit_test(winograd_is_chosen_without_amx),
        cmocka_unit_test(linear_is_rounded_once),
        cmocka_unit_test(other_precisions_are_refused),
    };
    return cmocka_run_group_tests(tests, open_table, close_table);
}
