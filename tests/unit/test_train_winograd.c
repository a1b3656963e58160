/* 3x3 convolutions by own Winograd: against the plain loops, with different numbers of threads, and
 * which convolutions the oneDNN table computes so. On processors with AVX-512 the library is
 * limited to AVX2 here; test_train_bf16_products.c has the table in bf16. */
#include "tests/unit/conv_case.h"

#include "train/compute/cpu/winograd.h"
#include "train/compute/cpu/winograd_kernels.h"
#include "train/compute/vector.h"

static ff_compute *opened(const char *name, int threads) {
    ff_compute *compute;
    const ff_compute_options options = {.threads = threads};
    assert_ok(ff_compute_open(&compute, name, &options, error));
    return compute;
}

static bool has_loops(int block) {
    return ff_winograd_kernels_of(FF_F32, block) != NULL;
}

/* Whether the fastest table can compute so here: it is oneDNN's, and the processor has AVX2 or is
 * an arm64. */
static bool is_here(const ff_compute *compute) {
    return strcmp(compute->ops->name, "onednn") == 0 && has_loops(8);
}

typedef struct operands {
    float *x, *w, *bias, *dy;
} operands;

static operands draw_operands(dice *d, const conv_case *k) {
    return (operands){
        .x = random_floats(d, (size_t)k->n * k->c * k->h * k->w),
        .w = random_floats(d, (size_t)k->o * k->c * 9),
        .bias = random_floats(d, (size_t)k->o),
        .dy = random_floats(d, (size_t)k->n * k->o * k->h * k->w),
    };
}

static void free_operands(operands *all) {
    free(all->x);
    free(all->w);
    free(all->bias);
    free(all->dy);
}

static conv_results run_with(const char *name, int threads, const conv_case *k,
                             const operands *all) {
    ff_compute *compute = opened(name, threads);
    const conv_results results = run_conv(compute, k, all->x, all->w, all->bias, all->dy);
    ff_compute_close(&compute);
    return results;
}

static size_t channels_of(const ff_tensor *t) {
    return (size_t)ff_tensor_padded_channels(t);
}

static conv_case square(int n, int c, int o, int h, int w) {
    return (conv_case){n, c, h, w, o, 3, 1, 1, true, false, false, 1};
}

static bool is_taken(ff_compute *compute, const conv_case *k) {
    const ff_conv_shape shape = conv_case_shape(compute, k);
    return ff_winograd_fits(compute, &shape);
}

/* With the plain loops, and with itself for other numbers of threads, bit for bit. */
static void compare(dice *d, const conv_case *k) {
    const size_t xs = (size_t)k->n * k->c * k->h * k->w, ys = (size_t)k->n * k->o * k->h * k->w;
    const size_t ws = (size_t)k->o * k->c * 9, bs = (size_t)k->o;
    operands all = draw_operands(d, k);
    conv_results right = run_with("reference", 2, k, &all), one = run_with(NULL, 1, k, &all);
    assert_close(right.y, one.y, ys, 3e-5);
    assert_close(right.dx, one.dx, xs, 3e-5);
    assert_close(right.dw, one.dw, ws, 3e-5);
    assert_close(right.db, one.db, bs, 1e-5);
    for (int threads = 2; threads <= 3; threads++) {
        conv_results some = run_with(NULL, threads, k, &all);
        assert_memory_equal(one.y, some.y, ys * sizeof *one.y);
        assert_memory_equal(one.dx, some.dx, xs * sizeof *one.dx);
        assert_memory_equal(one.dw, some.dw, ws * sizeof *one.dw);
        free_results(&some);
    }
    free_results(&right);
    free_results(&one);
    free_operands(&all);
}

/* Channels that fill panels of 16 and that leave lanes of the last block empty; tiles that the
 * image's edges cut at each side; one chunk of tiles and several, the last one smaller. */
static void passes_match(void **state) {
    (void)state;
    static const int channels[] = {32, 48, 57, 64, 75, 80, 96};
    dice d = {.seed = 31};
    ff_compute *compute = opened(NULL, 2);
    int taken = 0;
    while (is_here(compute) && taken < 10) {
        conv_case k = square(between(&d, 1, 6), channels[roll(&d, 7)], channels[roll(&d, 7)],
                             between(&d, 2, 19), between(&d, 2, 19));
        k.bias = roll(&d, 2);
        k.images = roll(&d, 4) == 0;
        k.frozen = roll(&d, 4) == 0;
        if (!is_taken(compute, &k)) continue;
        if (k.images) k.images = false, k.frozen = true;
        compare(&d, &k);
        taken++;
    }
    ff_compute_close(&compute);
}

/* Filters of more than one group of outputs, forward and backward; one chunk of tiles, whose
 * transformed inputs are kept from group to group. */
static void groups_of_filters_match(void **state) {
    (void)state;
    dice d = {.seed = 32};
    const conv_case k = square(14, 256, 272, 4, 4);
    ff_compute *compute = opened(NULL, 2);
    if (is_here(compute)) {
        assert_true(is_taken(compute, &k));
        compare(&d, &k);
    }
    ff_compute_close(&compute);
}

/* More than one group, and more than one chunk of tiles: the gradient of a batch is the sum of
 * those of its halves, which are one chunk each. */
static void gradients_of_halves_add_up(void **state) {
    (void)state;
    dice d = {.seed = 34};
    const conv_case whole = square(110, 256, 272, 4, 4), half = square(55, 256, 272, 4, 4);
    const size_t ws = 9 * 256 * 272;
    ff_compute *compute = opened(NULL, 2);
    if (is_here(compute)) {
        operands all = draw_operands(&d, &whole), second = all;
        second.x += 55 * 256 * 16;
        second.dy += 55 * 272 * 16;
        conv_results sum = run_with(NULL, 2, &whole, &all);
        conv_results one = run_with(NULL, 2, &half, &all), two = run_with(NULL, 2, &half, &second);
        for (size_t i = 0; i < ws; i++) one.dw[i] += two.dw[i];
        assert_close(one.dw, sum.dw, ws, 1e-5);
        free_results(&sum);
        free_results(&one);
        free_results(&two);
        free_operands(&all);
    }
    ff_compute_close(&compute);
}

/* Only where the direct convolution is slower, and only what these loops compute. */
static void is_chosen(void **state) {
    (void)state;
    ff_compute *compute = opened(NULL, 2);
    const struct {
        conv_case k;
        bool taken;
    } cases[] = {
        {square(64, 64, 64, 32, 32), true},
        {square(64, 512, 512, 4, 4), true},
        {square(32, 128, 128, 7, 7), true},
        {square(1, 64, 64, 32, 32), true},
        {square(64, 60, 60, 8, 8), true},    /* 64 with the block's empty lanes */
        {square(64, 56, 64, 8, 8), false},   /* half a panel */
        {square(64, 16, 16, 32, 32), false}, /* too few products for the transforms */
        {square(64, 64, 64, 5, 5), false},   /* tiles mostly outside of the image */
        {square(64, 512, 512, 3, 3), false}, /* too few tiles for the filters */
        {square(1, 512, 512, 4, 4), true},   /* as in larger batches */
        {{64, 64, 16, 16, 64, 3, 2, 1, false, false, false, 1}, false},
        {{64, 64, 16, 16, 64, 3, 1, 0, false, false, false, 1}, false},
        {{64, 64, 16, 16, 64, 5, 1, 1, false, false, false, 1}, false},
        {{64, 64, 16, 16, 64, 3, 1, 1, false, false, false, 2}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases && is_here(compute); i++) {
        ff_conv_shape shape = conv_case_shape(compute, &cases[i].k);
        ff_conv *conv;
        assert_int_equal(ff_winograd_fits(compute, &shape), cases[i].taken);
        assert_ok(compute->ops->conv_create(compute, &shape, NULL, &conv, error));
        /* the table asks: its scratch is Winograd's if, and only if, it fits */
        const size_t bytes = ff_winograd_scratch(compute, &shape) * sizeof(float);
        assert_int_equal(conv->scratch_bytes == bytes, cases[i].taken);
        compute->ops->conv_destroy(compute, conv);
    }
    ff_compute_close(&compute);
}

/* An evaluation may have other batches than the training. On arm64 the library computes what
 * Winograd does not by matrix products, which add in another order for other batches. */
static void a_sample_has_the_same_outputs_in_every_batch(void **state) {
    (void)state;
    dice d = {.seed = 35};
    ff_compute *compute = opened(NULL, 2);
    for (int side = 3; side <= 8; side++) {
        const conv_case whole = square(37, 128, 64, side, side),
                        one = square(1, 128, 64, side, side);
#ifdef __aarch64__
        if (!is_taken(compute, &whole)) continue;
#endif
        operands all = draw_operands(&d, &whole), last = all;
        last.x += 36 * 128 * side * side;
        conv_results of_all = run_with(NULL, 2, &whole, &all);
        conv_results of_last = run_with(NULL, 2, &one, &last);
        const size_t ys = (size_t)(64 * side * side);
        assert_memory_equal(of_all.y + 36 * ys, of_last.y, ys * sizeof(float));
        free_results(&of_all);
        free_results(&of_last);
        free_operands(&all);
    }
    ff_compute_close(&compute);
}

/* ---- the loops of every block and dtype, without the table ---- */

/* [out block][in block][3][3][in][out] */
static float *held_of(const ff_conv_shape *s, const float *oihw) {
    const int block = s->input.block, inputs = ff_tensor_blocks(&s->input);
    const int outputs = ff_tensor_blocks(&s->output);
    float *held = floats((size_t)inputs * outputs * 9 * block * block);
    for (int o = 0; o < s->output.c; o++)
        for (int i = 0; i < s->input.c; i++)
            for (int tap = 0; tap < 9; tap++) {
                const int pair = o / block * inputs + i / block, lanes = block * block;
                held[(pair * 9 + tap) * lanes + i % block * block + o % block] = *oihw++;
            }
    return held;
}

/* Results rounded once to the dtype, and sums as exact as Winograd's are. */
static void assert_near(const char *what, const float *right, const float *got, size_t count,
                        ff_dtype dtype) {
    double squares = 0;
    for (size_t i = 0; i < count; i++) squares += (double)right[i] * (double)right[i];
    const double sums = 3e-5 * sqrt(squares / (double)count);
    for (size_t i = 0; i < count; i++) {
        const double half = dtype == FF_BF16 ? fabs((double)right[i]) / 256 : 0;
        if (!(fabs((double)right[i] - (double)got[i]) <= half + sums))
            fail_msg("%s[%zu]: %.9g, not %.9g", what, i, (double)got[i], (double)right[i]);
    }
}

static void compare_loops(dice *d, ff_dtype dtype, int block, const conv_case *k) {
    const size_t xs = (size_t)k->n * k->c * k->h * k->w, ys = (size_t)k->n * k->o * k->h * k->w;
    const size_t ws = (size_t)k->o * k->c * 9;
    ff_compute *compute = opened("reference", between(d, 1, 3));
    ff_conv_shape s = conv_case_shape(compute, k);
    s.input.block = s.output.block = block;
    compute->dtype = dtype;
    compute->element_bytes = ff_dtype_bytes(dtype);
    operands all = draw_operands(d, k);
    round_all(compute, all.x, xs);
    round_all(compute, all.w, ws);
    round_all(compute, all.dy, ys);
    round_all(compute, all.bias, (size_t)k->o);
    conv_results right = run_with("reference", 2, k, &all);
    float *laid_w = held_of(&s, all.w), *laid_bias = floats(channels_of(&s.output));
    const size_t held = channels_of(&s.input) * channels_of(&s.output) * 9;
    memcpy(laid_bias, all.bias, (size_t)k->o * sizeof *laid_bias);
    void *x = put_tensor(compute, &s.input, all.x), *dy = put_tensor(compute, &s.output, all.dy);
    void *w = put(compute, dtype, laid_w, held);
    void *bias = put(compute, dtype, laid_bias, channels_of(&s.output));
    void *y = room(compute, dtype, ff_tensor_count(&s.output));
    void *dx = room(compute, dtype, ff_tensor_count(&s.input)), *dw = room(compute, dtype, held);
    void *scratch = room(compute, FF_F32, ff_winograd_scratch(compute, &s));
    ff_winograd_forward(compute, &s, x, w, k->bias ? bias : NULL, y, scratch);
    ff_winograd_backward_data(compute, &s, dy, w, dx, scratch);
    ff_winograd_backward_weights(compute, &s, x, dy, dw, scratch);
    float *got[] = {take_tensor(compute, &s.output, y), take_tensor(compute, &s.input, dx),
                    take_floats(compute, dtype, dw, held), held_of(&s, right.dw)};
    assert_near("y", right.y, got[0], ys, dtype);
    assert_near("dx", right.dx, got[1], xs, dtype);
    assert_near("dw", got[3], got[2], held, dtype);
    void *memories[] = {x, dy, w, bias, scratch};
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++)
        ff_compute_release(compute, memories[i]);
    for (size_t i = 0; i < sizeof got / sizeof *got; i++) free(got[i]);
    free(laid_w);
    free(laid_bias);
    free_results(&right);
    free_operands(&all);
    ff_compute_close(&compute);
}

static void loops_of_all_blocks_match(void **state) {
    (void)state;
    static const int channels[] = {32, 57, 64, 96, 128};
    dice d = {.seed = 36};
    for (int block = 8; block <= 16; block += 8)
        for (int i = 0; i < 16; i++) {
            const ff_dtype dtype = i % 2 ? FF_BF16 : FF_F32;
            if (!ff_winograd_kernels_of(dtype, block)) continue;
            conv_case k = square(between(&d, 1, 6), channels[roll(&d, 5)], channels[roll(&d, 5)],
                                 between(&d, 1, 19), between(&d, 1, 19));
            k.bias = roll(&d, 2);
            compare_loops(&d, dtype, block, &k);
        }
}

/* 128 channels pay off with every block and dtype for which the processor has loops. */
static void fits_by_block_and_dtype(void **state) {
    (void)state;
    ff_compute *compute = opened("reference", 1);
    const conv_case k = square(64, 128, 128, 32, 32);
    ff_conv_shape shape = conv_case_shape(compute, &k);
    assert_false(ff_winograd_fits(compute, &shape)); /* planes */
    for (int block = 8; block <= 16; block += 8) {
        shape.input.block = shape.output.block = block;
        compute->dtype = FF_F32;
        assert_int_equal(ff_winograd_fits(compute, &shape), has_loops(block));
        compute->dtype = FF_BF16;
        assert_int_equal(ff_winograd_fits(compute, &shape), has_loops(block));
        shape.input.block = 24 - block;
        assert_false(ff_winograd_fits(compute, &shape));
    }
    ff_compute_close(&compute);
}

/* A convolution with the weights of another one, of another batch or image size, that the library
 * computes or Winograd: they hold them in the same order. */
static void weights_are_shared(void **state) {
    (void)state;
    dice d = {.seed = 33};
    ff_compute *compute = opened(NULL, 2), *right = opened("reference", 2);
    const conv_case pairs[][2] = {
        {square(16, 64, 48, 8, 8), square(1, 64, 48, 4, 5)},
        {square(1, 64, 48, 4, 5), square(16, 64, 48, 8, 8)},
        {square(16, 64, 48, 8, 8), square(16, 64, 48, 2, 2)},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs && is_here(compute); i++) {
        const conv_case *first = &pairs[i][0], *second = &pairs[i][1];
        const ff_conv_shape shape = conv_case_shape(compute, first);
        const ff_conv_shape other = conv_case_shape(compute, second);
        const size_t ys = (size_t)second->n * second->o * second->h * second->w;
        operands all = draw_operands(&d, second);
        conv_results expected = run_conv(right, second, all.x, all.w, all.bias, all.dy);
        ff_conv *owner, *sibling;
        assert_ok(compute->ops->conv_create(compute, &shape, NULL, &owner, error));
        assert_ok(compute->ops->conv_create(compute, &other, owner, &sibling, error));
        assert_int_equal(sibling->weight_count, owner->weight_count);
        float *held = floats(owner->weight_count), *x = lay_out(&other.input, all.x);
        float *y = floats(ff_tensor_count(&other.output));
        float *scratch = floats(sibling->scratch_bytes / sizeof *scratch + 1);
        compute->ops->conv_import(owner, all.w, held);
        compute->ops->conv_forward(compute, sibling, x, held, all.bias, y, scratch);
        assert_ok(ff_compute_check(compute, error));
        float *flat = flatten(&other.output, y);
        assert_close(expected.y, flat, ys, 3e-5);
        compute->ops->conv_destroy(compute, sibling);
        compute->ops->conv_destroy(compute, owner);
        free(held);
        free(x);
        free(y);
        free(scratch);
        free(flat);
        free_results(&expected);
        free_operands(&all);
    }
    ff_compute_close(&compute);
    ff_compute_close(&right);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_match),
        cmocka_unit_test(groups_of_filters_match),
        cmocka_unit_test(gradients_of_halves_add_up),
        cmocka_unit_test(is_chosen),
        cmocka_unit_test(a_sample_has_the_same_outputs_in_every_batch),
        cmocka_unit_test(loops_of_all_blocks_match),
        cmocka_unit_test(fits_by_block_and_dtype),
        cmocka_unit_test(weights_are_shared),
    };
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    setenv("DNNL_MAX_CPU_ISA", "AVX2", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
