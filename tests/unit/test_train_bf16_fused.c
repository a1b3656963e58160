/* The fused kernels in bf16 against the plain loops in bf16, on random odd shapes. */
#include "tests/unit/bf16_case.h"
#include "tests/unit/norm_ranks_case.h"

#include "train/compute/cpu/cpu.h"
#include "train/compute/cpu/fused.h"

enum { PLAIN, FUSED, SIDES };

/* `fill` elements of a tensor in both sides' memory, zero in the padding. */
static void lay_both(ff_compute *compute, const ff_tensor *t, const float *nchw,
                     uint16_t *to[SIDES]) {
    for (int k = 0; k < SIDES; k++) to[k] = put_tensor(compute, t, nchw);
}

/* Steps between neighbours of bf16 from one value to another. */
static int steps_apart(uint16_t a, uint16_t b) {
    const int x = a & 0x8000 ? -(a & 0x7fff) : a, y = b & 0x8000 ? -(b & 0x7fff) : b;
    return abs(x - y);
}

/* Elements may be neighbours if few are, or closer than `least` where sums cancel; padding is 0.
 * Releases both. */
static void expect_near(ff_compute *compute, const ff_tensor *t, uint16_t *from[SIDES], bool same,
                        float least) {
    size_t apart = 0;
    for (int n = 0; n < t->n; n++)
        for (int c = 0; c < ff_tensor_padded_channels(t); c++)
            for (int i = 0; i < t->h * t->w; i++) {
                const size_t at = ff_tensor_at(t, n, c, i / t->w, i % t->w);
                const uint16_t a = from[PLAIN][at], b = from[FUSED][at];
                if (c >= t->c) assert_int_equal((a | b) & 0x7fff, 0);
                if (a == b) continue;
                const float difference = fabsf(ff_f32_from_bf16(a) - ff_f32_from_bf16(b));
                assert_false(same && difference > 0); /* -0 is 0 */
                if (difference < least) continue;
                assert_true(steps_apart(a, b) < 2);
                apart++;
            }
    assert_true(apart <= 3 + logical_count(t) / 50);
    for (int k = 0; k < SIDES; k++) ff_compute_release(compute, from[k]);
}

/* ---- batch norm ---- */

typedef struct norm_case {
    ff_norm_backward backward;
    uint16_t *y[2][SIDES], *x[SIDES], *residual[SIDES], *dy[SIDES], *dy2[SIDES];
    uint16_t *dx[SIDES], *dresidual[SIDES];
    float *channels[SIDES]; /* [8][padded channels] */
} norm_case;

static void run_norm(ff_compute *compute, norm_case *k, int side, bool in_place) {
    ff_norm_backward backward = k->backward;
    ff_norm *norm = &backward.forward;
    const size_t wide = (size_t)ff_tensor_padded_channels(&norm->shape);
    float *s = k->channels[side], *scratch = floats(ff_fused_norm_scratch(compute, &norm->shape));
    const bool fused = side == FUSED, add = k->residual[side];
    norm->gamma = s, norm->beta = s + wide;
    norm->running_mean = s + 2 * wide, norm->running_var = s + 3 * wide;
    norm->mean = s + 4 * wide, norm->inv_std = s + 5 * wide;
    norm->x = k->x[side], norm->residual = k->residual[side];
    norm->y = k->y[0][side];
    (fused ? ff_fused_norm_evaluate : compute->ops->norm_evaluate)(compute, norm, scratch);
    norm->y = k->y[1][side];
    (fused ? ff_fused_norm_train : compute->ops->norm_train)(compute, norm, scratch);
    if (fused) /* the backward pass begins with the same numbers */
        for (size_t i = 4 * wide; i < 6 * wide; i++) {
            assert_float_equal(s[i], k->channels[PLAIN][i], 1e-4 * (double)(1 + fabsf(s[i])));
            s[i] = k->channels[PLAIN][i];
        }
    backward.dy = k->dy[side], backward.dy2 = k->dy2[side];
    backward.dx = in_place && !add ? k->dy[side] : k->dx[side];
    backward.dresidual = add ? (in_place ? k->dy[side] : k->dresidual[side]) : NULL;
    backward.dgamma = s + 6 * wide, backward.dbeta = s + 7 * wide;
    (fused ? ff_fused_norm_backward : compute->ops->norm_backward)(compute, &backward, scratch);
    free(scratch);
}

static void compare_norm(ff_compute *compute, dice *d, int block) {
    const ff_tensor t = {between(d, 1, 6), between(d, 1, 40), between(d, 1, 9), between(d, 2, 9),
                         block};
    const size_t count = logical_count(&t), wide = (size_t)ff_tensor_padded_channels(&t);
    const ff_activation activation = (ff_activation)roll(d, 4);
    const bool add = activation <= FF_ACTIVATION_RELU && roll(d, 2), second = roll(d, 2);
    const bool in_place = roll(d, 2), gelu = activation == FF_ACTIVATION_GELU;
    norm_case k = {.backward.forward = {.shape = t,
                                        .activation = activation,
                                        .momentum = 0.1f,
                                        .epsilon = 1e-5f,
                                        .held = roll(d, 3) == 0}};
    float *x = random_floats(d, count), *zero = floats(count);
    float *others[3] = {random_floats(d, count), random_floats(d, count), random_floats(d, count)};
    for (size_t i = 0; i < count; i++) x[i] = x[i] * 0.5f + 4;
    lay_both(compute, &t, x, k.x);
    lay_both(compute, &t, others[0], k.dy);
    if (add) lay_both(compute, &t, others[1], k.residual);
    if (second) lay_both(compute, &t, others[2], k.dy2);
    for (int i = 0; i < 2; i++) lay_both(compute, &t, zero, k.y[i]);
    lay_both(compute, &t, zero, k.dx);
    lay_both(compute, &t, zero, k.dresidual);
    for (int side = 0; side < SIDES; side++) k.channels[side] = floats(8 * wide);
    for (size_t c = 0; c < (size_t)t.c; c++) {
        k.channels[PLAIN][c] = gauss(d);
        k.channels[PLAIN][wide + c] = gauss(d) * (activation == FF_ACTIVATION_RELU6 ? 5 : 1);
        k.channels[PLAIN][2 * wide + c] = gauss(d) + 4;
        k.channels[PLAIN][3 * wide + c] = 0.1f + uniform(d);
    }
    memcpy(k.channels[FUSED], k.channels[PLAIN], 8 * wide * sizeof *k.channels[0]);
    for (int side = 0; side < SIDES; side++) run_norm(compute, &k, side, in_place);
    for (size_t i = 2 * wide; i < 8 * wide; i++) /* sums of up to 486 gradients */
        assert_float_equal(k.channels[PLAIN][i], k.channels[FUSED][i],
                           (i < 6 * wide ? 1e-4
                            : gelu       ? 2e-1
                                         : 2e-3) *
                               (double)(1 + fabsf(k.channels[PLAIN][i])));
    expect_near(compute, &t, k.y[0], !gelu, 1e-6f);
    expect_near(compute, &t, k.y[1], false, 1e-4f);
    if (add) expect_near(compute, &t, in_place ? k.dy : k.dresidual, true, 0);
    expect_near(compute, &t, in_place && !add ? k.dy : k.dx, false, 1e-3f);
    for (int side = 0; side < SIDES; side++) {
        uint16_t *rest[] = {k.x[side],
                            k.residual[side],
                            k.dy2[side],
                            in_place ? NULL : k.dy[side],
                            in_place && !add ? k.dx[side] : NULL,
                            in_place || !add ? k.dresidual[side] : NULL};
        for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
            ff_compute_release(compute, rest[i]);
        free(k.channels[side]);
    }
    free(x);
    free(zero);
    for (int i = 0; i < 3; i++) free(others[i]);
}

static ff_compute *with_threads(int threads) {
    const ff_compute_options options = {.threads = threads, .precision = FF_PRECISION_BF16};
    ff_compute *compute;
    assert_ok(ff_compute_open(&compute, "reference", &options, error));
    return compute;
}

static void norms_match(void **state) {
    (void)state;
    dice d = {.seed = 61};
    for (int threads = 1; threads <= 4; threads++) {
        ff_compute *compute = with_threads(threads);
        for (int i = 0; i < 60; i++) compare_norm(compute, &d, i % 2 ? 16 : 8);
        ff_compute_close(&compute);
    }
}

static int eight(const ff_compute *compute, int channels) {
    (void)compute;
    (void)channels;
    return 8;
}

static int sixteen(const ff_compute *compute, int channels) {
    (void)compute;
    (void)channels;
    return 16;
}

/* Parts of a batch in bf16, in plain loops and fused, against the whole in f32. */
static void norms_of_ranks_match(void **state) {
    (void)state;
    const ff_compute_options options = {.threads = 2};
    ff_compute *whole, *parts = with_threads(2);
    ff_compute_ops fused = *parts->ops;
    fused.norm_scratch = ff_fused_norm_scratch;
    fused.norm_train = ff_fused_norm_train;
    fused.norm_backward = ff_fused_norm_backward;
    dice d = {.seed = 64};
    assert_ok(ff_compute_open(&whole, "reference", &options, error));
    for (int i = 0; i < 60; i++) {
        fused.channel_block = i % 3 == 1 ? eight : sixteen;
        parts->ops = i % 3 ? &fused : &ff_reference_ops_bf16;
        norm_ranks_case(whole, parts, &d, 3e-2,
                        1e-5); /* 2^-9 of up to 16 times the root mean square */
    }
    ff_compute_close(&whole);
    ff_compute_close(&parts);
}

/* ---- pooling ---- */

static void compare_pool(ff_compute *compute, dice *d, int block) {
    ff_pool pool = {.max = roll(d, 2), .stride = between(d, 1, 3)};
    pool.kernel_h = between(d, 1, 4);
    pool.kernel_w = between(d, 1, 4);
    pool.pad = (int)roll(
        d, (uint32_t)(pool.kernel_h < pool.kernel_w ? pool.kernel_h : pool.kernel_w) / 2 + 1);
    if (roll(d, 3) == 0) pool = (ff_pool){.max = true, .kernel_h = 2, .kernel_w = 2, .stride = 2};
    pool.adaptive = !pool.max && roll(d, 3) == 0;
    pool.input = (ff_tensor){between(d, 1, 4), between(d, 1, 35), between(d, 5, 12),
                             between(d, 5, 12), block};
    pool.output = pool.input;
    pool.output.h = pool.adaptive ? between(d, 1, 9)
                                  : (pool.input.h + 2 * pool.pad - pool.kernel_h) / pool.stride + 1;
    pool.output.w = pool.adaptive ? between(d, 1, 9)
                                  : (pool.input.w + 2 * pool.pad - pool.kernel_w) / pool.stride + 1;
    float *x = random_floats(d, logical_count(&pool.input));
    float *dy = random_floats(d, logical_count(&pool.output));
    float *zero = floats(logical_count(&pool.input) + logical_count(&pool.output));
    uint16_t *xs[SIDES], *dys[SIDES], *ys[SIDES], *dxs[SIDES];
    uint8_t *index[SIDES];
    /* equal values, so that the first largest must win in both */
    for (size_t i = 0; i < logical_count(&pool.input); i++)
        if (pool.max) x[i] = roundf(x[i] * 2);
    lay_both(compute, &pool.input, x, xs);
    lay_both(compute, &pool.output, dy, dys);
    lay_both(compute, &pool.output, zero, ys);
    lay_both(compute, &pool.input, zero, dxs);
    for (int k = 0; k < SIDES; k++) {
        index[k] = (uint8_t *)floats(ff_tensor_count(&pool.output));
        (k ? ff_fused_pool_forward : compute->ops->pool_forward)(compute, &pool, xs[k], ys[k],
                                                                 pool.max ? index[k] : NULL);
        (k ? ff_fused_pool_backward : compute->ops->pool_backward)(
            compute, &pool, dys[k], pool.max ? index[k] : NULL, dxs[k]);
    }
    assert_memory_equal(index[PLAIN], index[FUSED], ff_tensor_count(&pool.output));
    expect_near(compute, &pool.output, ys, pool.max, 1e-6f);
    expect_near(compute, &pool.input, dxs, true, 0);
    for (int k = 0; k < SIDES; k++) {
        ff_compute_release(compute, xs[k]);
        ff_compute_release(compute, dys[k]);
        free(index[k]);
    }
    free(x);
    free(dy);
    free(zero);
}

static void pools_match(void **state) {
    (void)state;
    dice d = {.seed = 62};
    for (int threads = 1; threads <= 4; threads++) {
        ff_compute *compute = with_threads(threads);
        for (int i = 0; i < 60; i++) compare_pool(compute, &d, i % 2 ? 16 : 8);
        ff_compute_close(&compute);
    }
}

/* ---- activations ---- */

static void activations_match(void **state) {
    (void)state;
    dice d = {.seed = 63};
    for (int i = 0; i < 48; i++) {
        ff_compute *compute = with_threads(1 + i % 4);
        const ff_tensor t = {1, between(&d, 1, 9000), 1, 1, 1};
        const ff_activation activation = (ff_activation)(1 + i % 3);
        const bool gelu = activation == FF_ACTIVATION_GELU, in_place = i / 3 % 2;
        float *x = random_floats(&d, (size_t)t.c), *dy = random_floats(&d, (size_t)t.c);
        uint16_t *xs[SIDES], *dys[SIDES], *ys[SIDES];
        for (int c = 0; c < t.c; c++) x[c] *= 5;
        for (int backward = 0; backward < 2; backward++) {
            lay_both(compute, &t, x, xs);
            lay_both(compute, &t, dy, dys);
            lay_both(compute, &t, dy, ys);
            for (int k = 0; k < SIDES; k++) {
                uint16_t *to = !in_place ? ys[k] : backward ? dys[k] : xs[k];
                const ff_compute_ops *ops = compute->ops;
                if (backward)
                    (k ? ff_fused_activation_backward : ops->activation_backward)(
                        compute, activation, (size_t)t.c, xs[k], dys[k], to);
                else
                    (k ? ff_fused_activation_forward
                       : ops->activation_forward)(compute, activation, (size_t)t.c, xs[k], to);
            }
            uint16_t **to = !in_place ? ys : backward ? dys : xs;
            expect_near(compute, &t, to, !gelu, 1e-4f);
            for (int k = 0; k < SIDES; k++) {
                if (to != xs) ff_compute_release(compute, xs[k]);
                if (to != dys) ff_compute_release(compute, dys[k]);
                if (to != ys) ff_compute_release(compute, ys[k]);
            }
        }
        free(x);
        free(dy);
        ff_compute_close(&compute);
    }
}

/* NaN must pass through, so that the trainer sees it in the loss; and every NaN stays one: the
 * largest payload would become -0 if it were rounded as a number. */
static void nan_passes(void **state) {
    (void)state;
    static const uint32_t payloads[] = {0x7f800001, 0x7fc00000, 0x7fffffff, 0xffffffff};
    ff_compute *compute = with_threads(2);
    for (int i = 0; i < 4 * 2; i++) {
        const ff_tensor t = {1, 16, 2, 2, i % 2 ? 16 : 8}, half = {1, 16, 1, 1, t.block};
        const ff_pool pool = {t, half, 2, 2, 2, 0, true, false};
        float *beta = floats(16), *other = floats(16), *scratch = floats(1000), weird;
        uint16_t *x = (uint16_t *)floats(64), *y = (uint16_t *)floats(64);
        memcpy(&weird, &payloads[i / 2], sizeof weird);
        beta[3] = weird;
        const ff_norm norm = {.shape = t,
                              .epsilon = 1,
                              .gamma = other,
                              .beta = beta,
                              .running_mean = other,
                              .running_var = other,
                              .x = x,
                              .y = y};
        ff_fused_norm_evaluate(compute, &norm, scratch);
        for (int n = 0; n < 64; n++) {
            const bool wanted = n == (int)ff_tensor_at(&t, 0, 3, 0, n / t.block % 4);
            assert_int_equal((y[n] & 0x7fff) > 0x7f80, wanted);
        }
        memset(x, 0, 64 * sizeof *x);
        x[ff_tensor_at(&t, 0, 3, 1, 0)] = (uint16_t)(payloads[i / 2] >> 16 | 1);
        ff_fused_pool_forward(compute, &pool, x, y, NULL);
        assert_true((y[ff_tensor_at(&half, 0, 3, 0, 0)] & 0x7fff) > 0x7f80);
        for (int a = FF_ACTIVATION_RELU; a <= FF_ACTIVATION_GELU; a++) {
            ff_fused_activation_forward(compute, (ff_activation)a, 64, x, y);
            assert_true((y[ff_tensor_at(&t, 0, 3, 1, 0)] & 0x7fff) > 0x7f80);
        }
        free(beta);
        free(other);
        free(scratch);
        free(x);
        free(y);
    }
    ff_compute_close(&compute);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_match), cmocka_unit_test(norms_of_ranks_match),
        cmocka_unit_test(pools_match), cmocka_unit_test(activations_match),
        cmocka_unit_test(nan_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
