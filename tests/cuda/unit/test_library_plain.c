/* The plain library, which stands for cuDNN and cuBLAS in the tests, against the reference
 * compute table and against sums written out here, on random odd shapes. */
#include "tests/unit/train_helpers.h"

#include "tests/cuda/sim/library_plain.h"

enum { GUARD = 16 };

/* Rounds to the storage type and back. */
static float stored(float value, ff_dtype dtype) {
    uint32_t bits;
    ff_convert(&bits, dtype, &value, FF_F32, 1);
    ff_convert(&value, FF_F32, &bits, dtype, 1);
    return value;
}

/* `count` random elements in the storage type; *values gets them as f32. */
static void *random_stored(dice *d, ff_dtype dtype, size_t count, float **values) {
    *values = random_floats(d, count);
    void *bits = floats(count);
    ff_convert(bits, dtype, *values, FF_F32, count);
    ff_convert(*values, FF_F32, bits, dtype, count);
    return bits;
}

/* NHWC or KRSC (rows of c) to NCHW or KCRS, and back. */
static float *planes(const float *from, int n, int pixels, int c) {
    float *to = floats((size_t)n * pixels * c);
    for (int i = 0; i < n; i++)
        for (int p = 0; p < pixels; p++)
            for (int k = 0; k < c; k++)
                to[((size_t)i * c + k) * pixels + p] = from[((size_t)i * pixels + p) * c + k];
    return to;
}
static float *interleaved(const float *from, int n, int pixels, int c) {
    return planes(from, n, c, pixels);
}

static ff_library_conv_spec random_spec(dice *d) {
    ff_library_conv_spec s = {
        .precision = (ff_precision)roll(d, FF_PRECISION_COUNT),
        .n = between(d, 1, 4),
        .c = between(d, 1, 19),
        .k = between(d, 1, 19),
        .groups = 1,
        .kernel = between(d, 1, 4),
        .stride = between(d, 1, 2),
    };
    s.pad = (int)roll(d, (uint32_t)s.kernel);
    s.h = between(d, s.kernel, 9);
    s.w = between(d, s.kernel, 9);
    return s;
}

/* Runs one convolution in a poisoned workspace and checks its guard. */
static void run(ff_library *library, const ff_library_conv_spec *spec,
                const ff_library_conv_arguments *arguments) {
    ff_library_conv *conv;
    assert_ok(library->table->conv_create(library, spec, &conv, error));
    assert_non_null(conv);
    unsigned char *workspace = (unsigned char *)floats(conv->workspace_bytes / 4 + GUARD);
    memset(workspace, 0xEE, conv->workspace_bytes + GUARD);
    assert_ok(library->table->conv_run(library, conv, NULL, arguments, workspace, error));
    for (int i = 0; i < GUARD; i++) assert_int_equal(workspace[conv->workspace_bytes + i], 0xEE);
    free(workspace);
    library->table->conv_destroy(library, conv);
}

/* Compares what `pass` wrote with the expected values, each rounded once to the storage type. */
static void compare(const ff_library_conv_spec *s, const float *right, const void *got,
                    ff_dtype dtype, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float value = stored(right[i], dtype), found = (float)ff_element(got, dtype, i);
        /* The expected sums were already rounded to f32: at most one step of the type apart. */
        double step = dtype == FF_F32 ? 1e-6 : dtype == FF_F16 ? 1e-3 : 8e-3;
        double apart = fabs((double)value - (double)found);
        if (!(apart <= step * fmax(fabs((double)value), 1e-3)))
            fail_msg("pass %d %s n%d c%d %dx%d k%d kernel %d/%d pad %d: element %zu is %g, not %g",
                     s->pass, ff_precision_name(s->precision), s->n, s->c, s->h, s->w, s->k,
                     s->kernel, s->stride, s->pad, i, (double)found, (double)value);
    }
}

static void passes_match_the_reference(void **state) {
    (void)state;
    dice d = {.seed = 11};
    ff_library *library;
    ff_compute *right;
    assert_ok(ff_library_plain.open(&library, &(ff_library_options){0}, error));
    assert_ok(ff_compute_open(&right, "reference", &(ff_compute_options){.threads = 1}, error));
    for (int trial = 0; trial < 60; trial++) {
        ff_library_conv_spec s = random_spec(&d);
        ff_dtype dtype = ff_precision_dtype(s.precision);
        int p = ff_library_conv_out(&s, s.h), q = ff_library_conv_out(&s, s.w);
        int taps = s.kernel * s.kernel;
        size_t nx = (size_t)s.n * s.h * s.w * s.c, nw = (size_t)s.k * taps * s.c;
        size_t ny = (size_t)s.n * p * q * s.k;
        float *x, *w, *dy;
        void *xs = random_stored(&d, dtype, nx, &x), *ws = random_stored(&d, dtype, nw, &w);
        void *dys = random_stored(&d, dtype, ny, &dy);
        float *x2 = planes(x, s.n, s.h * s.w, s.c), *w2 = planes(w, s.k, taps, s.c);
        float *dy2 = planes(dy, s.n, p * q, s.k);
        float *y2 = floats(ny), *dx2 = floats(nx), *dw2 = floats(nw);
        ff_conv_shape shape = {
            .input = {s.n, s.c, s.h, s.w, 1},
            .output = {s.n, s.k, p, q, 1},
            .kernel = s.kernel,
            .stride = s.stride,
            .pad = s.pad,
            .groups = 1,
            .input_gradient = true,
            .training = true,
        };
        ff_conv *conv;
        assert_ok(right->ops->conv_create(right, &shape, NULL, &conv, error));
        void *scratch = floats(conv->scratch_bytes / 4 + 1);
        right->ops->conv_forward(right, conv, x2, w2, NULL, y2, scratch);
        right->ops->conv_backward_data(right, conv, dy2, w2, dx2, scratch);
        right->ops->conv_backward_weights(right, conv, x2, dy2, dw2, NULL, scratch);
        assert_ok(ff_compute_check(right, error));
        right->ops->conv_destroy(right, conv);

        float *y3 = interleaved(y2, s.n, p * q, s.k), *dx3 = interleaved(dx2, s.n, s.h * s.w, s.c);
        float *dw3 = interleaved(dw2, s.k, taps, s.c);
        void *out = floats(nx + ny + nw);
        s.pass = FF_PASS_FORWARD;
        run(library, &s, &(ff_library_conv_arguments){.x = xs, .w = ws, .y = out});
        compare(&s, y3, out, dtype, ny);
        s.pass = FF_PASS_BACKWARD_DATA;
        run(library, &s, &(ff_library_conv_arguments){.x = out, .w = ws, .y = dys});
        compare(&s, dx3, out, dtype, nx);
        s.pass = FF_PASS_BACKWARD_WEIGHTS;
        run(library, &s, &(ff_library_conv_arguments){.x = xs, .w = out, .y = dys});
        compare(&s, dw3, out, dtype, nw);
        s.f32_gradient = true;
        run(library, &s, &(ff_library_conv_arguments){.x = xs, .w = out, .y = dys});
        compare(&s, dw3, out, FF_F32, nw);

        void *all[] = {x,  w,   dy,  xs,      ws, dys, x2,  w2, dy2,
                       y2, dx2, dw2, scratch, y3, dx3, dw3, out};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    }
    ff_compute_close(&right);
    ff_library_close(&library);
}

/* Each fused graph equals its operations, one after another. In f32, where rounding in between is
 * negligible. */
static void fused_graphs_equal_their_pieces(void **state) {
    (void)state;
    dice d = {.seed = 12};
    ff_library *library;
    assert_ok(ff_library_plain.open(&library, &(ff_library_options){0}, error));
    for (int trial = 0; trial < 40; trial++) {
        ff_library_conv_spec s = random_spec(&d);
        s.precision = FF_PRECISION_F32;
        int p = ff_library_conv_out(&s, s.h), q = ff_library_conv_out(&s, s.w);
        size_t nx = (size_t)s.n * s.h * s.w * s.c, ny = (size_t)s.n * p * q * s.k;
        size_t nw = (size_t)s.k * s.kernel * s.kernel * s.c, c = (size_t)s.c, k = (size_t)s.k;
        float *x = random_floats(&d, nx), *w = random_floats(&d, nw), *dy = random_floats(&d, ny);
        float *scale = random_floats(&d, c), *shift = random_floats(&d, c);
        float *bias = random_floats(&d, k), *mask = random_floats(&d, nx);
        float *mean = random_floats(&d, c), *inv_std = random_floats(&d, c);
        float *y = floats(ny), *fused = floats(nx + ny + nw), *dx = floats(nx), *dw = floats(nw);
        float *small = floats(8 * (c + k));
        float *sum = small, *squares = sum + k, *dgamma = squares + k, *dbeta = dgamma + c;
        float *a1 = dbeta + c, *a2 = a1 + c, *a3 = a2 + c;

        /* Forward: prologue by hand, then bias, ReLU, GELU, statistics from plain y. */
        float *z = floats(nx);
        for (size_t i = 0; i < nx; i++) z[i] = fmaxf(x[i] * scale[i % c] + shift[i % c], 0);
        run(library, &s, &(ff_library_conv_arguments){.x = z, .w = w, .y = y});
        s.prologue = FF_PROLOGUE_SCALE_SHIFT_RELU;
        ff_library_conv_arguments a = {.x = x,
                                       .w = w,
                                       .y = fused,
                                       .scale = scale,
                                       .shift = shift,
                                       .bias = bias,
                                       .sum = sum,
                                       .square_sum = squares};
        for (int e = FF_EPILOGUE_NONE; e <= FF_EPILOGUE_STATISTICS; e++) {
            s.epilogue = (ff_library_epilogue)e;
            run(library, &s, &a);
            for (size_t i = 0; i < ny; i++) {
                double u = (double)y[i], b = u + (double)bias[i % k];
                if (e == FF_EPILOGUE_BIAS) u = b;
                if (e == FF_EPILOGUE_BIAS_RELU) u = fmax(b, 0);
                if (e == FF_EPILOGUE_BIAS_GELU) u = 0.5 * b * erfc(-b * 0.70710678118654752);
                assert_true(fabs(u - (double)fused[i]) <= 1e-5 * fmax(1, fabs(u)));
            }
        }
        for (size_t j = 0; j < k; j++) {
            double total = 0, square = 0;
            for (size_t i = j; i < ny; i += k)
                total += (double)y[i], square += (double)y[i] * (double)y[i];
            assert_true(fabs(total - (double)sum[j]) <= 1e-4 * sqrt(square * ny + 1));
            assert_true(fabs(square - (double)squares[j]) <= 1e-4 * (square + 1));
        }

        s.pass = FF_PASS_BACKWARD_WEIGHTS;
        s.epilogue = FF_EPILOGUE_NONE;
        run(library, &s,
            &(ff_library_conv_arguments){
                .x = x, .w = fused, .y = dy, .scale = scale, .shift = shift});
        s.prologue = FF_PROLOGUE_NONE;
        run(library, &s, &(ff_library_conv_arguments){.x = z, .w = dw, .y = dy});
        assert_true(difference(dw, fused, nw) < 1e-5);

        s.pass = FF_PASS_BACKWARD_DATA;
        run(library, &s, &(ff_library_conv_arguments){.x = dx, .w = w, .y = dy});
        s.epilogue = FF_EPILOGUE_RELU_BACKWARD;
        run(library, &s, &(ff_library_conv_arguments){.x = fused, .w = w, .y = dy, .relu_y = mask});
        for (size_t i = 0; i < nx; i++)
            assert_true(fused[i] == (mask[i] > 0 ? dx[i] : 0)); /* the same sums */

        s.epilogue = FF_EPILOGUE_RELU_NORM_BACKWARD;
        a = (ff_library_conv_arguments){.x = fused,
                                        .w = w,
                                        .y = dy,
                                        .norm_x = x,
                                        .mean = mean,
                                        .inv_std = inv_std,
                                        .gamma = scale,
                                        .beta = shift,
                                        .dgamma = dgamma,
                                        .dbeta = dbeta,
                                        .gradient_scale = a1,
                                        .input_scale = a2,
                                        .offset = a3};
        run(library, &s, &a);
        double m = (double)nx / (double)c;
        for (size_t j = 0; j < c; j++) {
            double dg = 0, db = 0, size = 1e-3, gain = (double)scale[j] * (double)inv_std[j];
            for (size_t i = j; i < nx; i += c) {
                double xhat = ((double)x[i] - (double)mean[j]) * (double)inv_std[j];
                double g = (double)scale[j] * xhat + (double)shift[j] > 0 ? (double)dx[i] : 0;
                assert_true(g == (double)fused[i]);
                dg += g * xhat, db += g, size += fabs(g * xhat) + fabs(g);
            }
            assert_true(fabs(dg - (double)dgamma[j]) <= 1e-5 * size);
            assert_true(fabs(db - (double)dbeta[j]) <= 1e-5 * size);
            for (size_t i = j; i < nx; i += c) {
                double xhat = ((double)x[i] - (double)mean[j]) * (double)inv_std[j];
                double right = gain * ((double)fused[i] - db / m - xhat * dg / m);
                double got =
                    (double)a1[j] * (double)fused[i] + (double)a2[j] * (double)x[i] + (double)a3[j];
                double most = fabs(gain) * (1 + size) * (1 + fabs(xhat) + fabs((double)mean[j]));
                assert_true(fabs(right - got) <= 1e-5 * most);
            }
        }
        void *all[] = {x,       w, dy,    scale, shift, bias,  mask, mean,
                       inv_std, y, fused, dx,    dw,    small, z};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    }
    ff_library_close(&library);
}

static void products_are_sums(void **state) {
    (void)state;
    dice d = {.seed = 13};
    ff_library *library;
    assert_ok(ff_library_plain.open(&library, &(ff_library_options){0}, error));
    void *workspace = floats(library->table->gemm_workspace(library) / 4 + 1);
    for (int trial = 0; trial < 100; trial++) {
        ff_library_gemm g = {
            .m = between(&d, 1, 9),
            .n = between(&d, 1, 9),
            .k = between(&d, 1, 20),
            .precision = (ff_precision)roll(&d, FF_PRECISION_COUNT),
            .transpose_a = roll(&d, 2),
            .transpose_b = roll(&d, 2),
            .alpha = gauss(&d),
            .beta = roll(&d, 2) ? gauss(&d) : 0,
            .batch = (int)roll(&d, 3),
        };
        ff_dtype dtype = ff_precision_dtype(g.precision);
        g.c_type = roll(&d, 2) ? FF_F32 : dtype;
        int gap = (int)roll(&d, 2) * 3, rows_a = g.transpose_a ? g.k : g.m;
        int columns_a = g.transpose_a ? g.m : g.k, rows_b = g.transpose_b ? g.n : g.k;
        int columns_b = g.transpose_b ? g.k : g.n, batch = g.batch ? g.batch : 1;
        int row_a = columns_a + gap, row_b = columns_b + gap, row_c = g.n + gap;
        if (gap) g.row_a = row_a, g.row_b = row_b, g.row_c = row_c;
        g.stride_a = (int64_t)rows_a * row_a, g.stride_b = roll(&d, 2) ? rows_b * row_b : 0;
        g.stride_c = (int64_t)g.m * row_c;
        float *a, *b, *c;
        void *as = random_stored(&d, dtype, (size_t)(batch * g.stride_a), &a);
        void *bs = random_stored(&d, dtype, (size_t)(batch * rows_b * row_b), &b);
        void *cs = random_stored(&d, g.c_type, (size_t)(batch * g.stride_c), &c);
        if (g.beta == 0) /* is not read: NaN */
            memset(cs, 0xFF, (size_t)(batch * g.stride_c) * ff_dtype_bytes(g.c_type));
        g.a = as, g.b = bs, g.c = cs;
        assert_ok(library->table->gemm(library, NULL, &g, workspace, error));
        for (int matrix = 0; matrix < batch; matrix++)
            for (int i = 0; i < g.m; i++)
                for (int j = 0; j < row_c; j++) {
                    size_t at = (size_t)(matrix * g.stride_c + i * row_c + j);
                    double got = ff_element(cs, g.c_type, at), right = 0, size = 0;
                    if (j >= g.n) { /* the gap is unused */
                        assert_true(g.beta == 0 ? isnan(got) : got == (double)c[at]);
                        continue;
                    }
                    for (int k = 0; k < g.k; k++) {
                        size_t ia = (size_t)matrix * g.stride_a +
                                    (size_t)(g.transpose_a ? k * row_a + i : i * row_a + k);
                        size_t ib = (size_t)matrix * g.stride_b +
                                    (size_t)(g.transpose_b ? j * row_b + k : k * row_b + j);
                        right += (double)a[ia] * (double)b[ib];
                        size += fabs((double)a[ia] * (double)b[ib]);
                    }
                    right = (double)g.alpha * right;
                    if (g.beta != 0) right += (double)g.beta * (double)c[at];
                    double step = g.c_type == FF_F32 ? 1e-6 : g.c_type == FF_F16 ? 1e-3 : 8e-3;
                    assert_true(fabs(right - got) <= step * (fabs(right) + 1e-3 * size + 1e-4));
                }
        void *all[] = {a, b, c, as, bs, cs};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    }
    free(workspace);
    ff_library_close(&library);
}

static void pieces_have_no_fused_graph(void **state) {
    (void)state;
    ff_library *library;
    ff_library_conv *conv;
    ff_library_conv_spec s = {
        .n = 1, .h = 3, .w = 3, .c = 8, .k = 8, .kernel = 3, .stride = 1, .groups = 1};
    assert_ok(ff_library_plain_pieces.open(&library, &(ff_library_options){0}, error));
    assert_ok(library->table->conv_create(library, &s, &conv, error));
    assert_non_null(conv);
    library->table->conv_destroy(library, conv);
    s.epilogue = FF_EPILOGUE_BIAS;
    assert_ok(library->table->conv_create(library, &s, &conv, error));
    assert_null(conv);
    ff_library_close(&library);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_match_the_reference),
        cmocka_unit_test(fused_graphs_equal_their_pieces),
        cmocka_unit_test(products_are_sums),
        cmocka_unit_test(pieces_have_no_fused_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
