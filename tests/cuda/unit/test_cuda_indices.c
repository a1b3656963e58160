/* Kernels over tensors of more than 2^32 elements, or 2^32 bytes (huge.h), beside what ten plain
 * lines say of each element that the chosen blocks wrote. */
#include "tests/cuda/unit/huge_kernels.h"
#include "tests/cuda/unit/huge_tensors.h"

static struct {
    ff_tensor shape;
    ff_dropout dropout;
} now;

static int by_channel(uint64_t i) { /* a bias of c % 8 */
    return array(0, i) + (int)(i % 8);
}
static int above_16(uint64_t i) { /* ReLU of x - 16 */
    return array(0, i) > 16 ? array(0, i) - 16 : 0;
}
static int sum_above_32(uint64_t i) {
    return sum(i) > 32 ? sum(i) - 32 : 0;
}
static int mask_bits(uint64_t v, int lanes) {
    int bits = 0;
    for (int k = 0; k < lanes; k++) bits |= (sum(v * (uint64_t)lanes + (uint64_t)k) > 32) << k;
    return bits;
}
static int mask_of_8(uint64_t v) {
    return mask_bits(v, 8);
}
static int mask_of_4(uint64_t v) {
    return mask_bits(v, 4);
}
/* ---- flat arrays ---- */

enum { TAIL = 12347 };
#define FLAT ((UINT64_C(1) << 32) + (UINT64_C(1) << 31) + TAIL)

static void test_pointwise(void **state) {
    for (int k = dtype_first(); k < dtype_end(); k++) {
        const ff_dtype dtype = dtypes[k];
        const ff_cuda_queue queue = queue_of(dtype);
        void *x = huge_in("x", dtype, FLAT), *dy = huge_in("dy", dtype, FLAT);
        huge *y = huge_out("y", dtype, FLAT), *dx = huge_out("dx", dtype, FLAT);
        huge *to = huge_out("sum", dtype, FLAT);
        assert_launched(
            ff_cuda_activation_forward(&queue, FF_ACTIVATION_RELU, dtype, FLAT, x, y->memory));
        huge_check(y, first);
        assert_launched(ff_cuda_activation_backward(&queue, FF_ACTIVATION_RELU, dtype, FLAT, x, dy,
                                                    dx->memory));
        huge_check(dx, second);
        assert_launched(ff_cuda_add(&queue, dtype, FLAT, x, dy, to->memory));
        huge_check(to, sum);
        huge_release(state);
    }
}

static void test_cast(void **state) {
    for (int from = dtype_first(); from < dtype_end(); from++)
        for (int to = dtype_first(); to < dtype_end(); to++) {
            const ff_cuda_queue queue = queue_of(FF_F32);
            void *x = huge_in("x", dtypes[from], FLAT);
            huge *y = huge_out("y", dtypes[to], FLAT);
            assert_launched(ff_cuda_cast(&queue, FLAT, 1, x, dtypes[from], y->memory, dtypes[to]));
            huge_check(y, first);
            huge_release(state);
        }
}

/* ---- one row after another ---- */

static void maps_of(ff_tensor shape, ff_dtype dtype) {
    const uint64_t count = ff_tensor_count(&shape);
    const ff_cuda_queue queue = queue_of(dtype);
    float *bias = channels_of(0), *ones = channels_of(1), *zeros = channels_of(0);
    for (int c = 0; c < 8192; c++) bias[c] = (float)(c % 8);
    void *x = huge_in("x", dtype, count), *residual = huge_in("residual", dtype, count);
    huge *biased = huge_out("biased", dtype, count), *y = huge_out("y", dtype, count);
    huge *added = huge_out("added", dtype, count), *dx = huge_out("dx", dtype, count);
    huge *mask = huge_out("mask", FF_U8, ff_cuda_norm_mask(dtype, &shape));
    now.shape = shape;
    assert_launched(ff_cuda_bias(&queue, &shape, x, bias, biased->memory));
    huge_check(biased, by_channel);
    float *half = channels_of(-16), *less = channels_of(-32),
          *factors = huge_zeros(3 * 8192 * sizeof *factors);
    ff_norm norm = {.shape = shape,
                    .activation = FF_ACTIVATION_RELU,
                    .gamma = ones,
                    .beta = half,
                    .mean = zeros,
                    .inv_std = ones,
                    .x = x,
                    .y = y->memory};
    assert_launched(ff_cuda_norm_apply(&queue, &norm, true));
    huge_check(y, above_16);
    norm.beta = less, norm.residual = residual, norm.y = added->memory, norm.mask = mask->memory;
    assert_launched(ff_cuda_norm_apply(&queue, &norm, true));
    huge_check(added, sum_above_32);
    huge_check(mask, dtype == FF_F32 ? mask_of_4 : mask_of_8);
    const ff_norm same = {.beta = zeros, .mean = zeros, .inv_std = ones};
    huge *normed = huge_out("added with its norm", dtype, count);
    norm.residual_norm = &same, norm.y = normed->memory;
    assert_launched(ff_cuda_norm_apply(&queue, &norm, true));
    huge_check(normed, sum_above_32);
    for (int k = 0; k < 2 * shape.c; k++) factors[k] = 1;
    assert_launched(ff_cuda_norm_backward_apply(&queue, &shape, x, residual, factors, dx->memory));
    huge_check(dx, sum);
}

static int dropped(uint64_t i) {
    const ff_tensor *t = &now.shape;
    const place p = place_of(t, i);
    const uint64_t e =
        (((uint64_t)p.n * (uint64_t)t->c + (uint64_t)p.c) * (uint64_t)t->h + (uint64_t)p.h) *
            (uint64_t)t->w +
        (uint64_t)p.w;
    const ff_random random =
        ff_philox_draw(now.dropout.seed, FF_DOMAIN_DROPOUT, 0, e / 4, now.dropout.layer);
    return ff_random_unit(random.word[e % 4]) >= 0.5f ? 2 * array(0, i) : 0;
}

static void test_maps(void **state) {
    static const uint64_t step = 0;
    const ff_tensor shapes[] = {wide, tall, flat};
    for (int s = 0; s < 3; s++)
        for (int k = dtype_first(); k < dtype_end(); k++) {
            const ff_cuda_queue queue = queue_of(dtypes[k]);
            const uint64_t count = ff_tensor_count(&shapes[s]);
            maps_of(shapes[s], dtypes[k]);
            huge_release(state);
            now.dropout = (ff_dropout){
                .shape = shapes[s], .probability = 0.5, .seed = 5, .layer = 3, .step = &step};
            void *x = huge_in("x", dtypes[k], count);
            huge *y = huge_out("y", dtypes[k], count);
            assert_launched(ff_cuda_dropout(&queue, &now.dropout, x, y->memory));
            huge_check(y, dropped);
            huge_release(state);
        }
}

/* ---- sums over rows ---- */

/* The sum of a channel over the rows of the blocks that ran. */
static double sum_of_chosen(const huge *a, const ff_tensor *t, int blocks, int c) {
    const sharing by = sharing_of(t, a->dtype, blocks);
    const uint64_t channels = (uint64_t)t->c;
    double total = 0;
    for (unsigned k = 0; k < huges.chosen_count; k++) {
        const uint64_t part = huges.chosen[k] % by.parts, slice = huges.chosen[k] / by.parts;
        if (slice != (uint64_t)c / (channels / by.slices)) continue;
        for (uint64_t tile = part * by.down; tile < by.rows; tile += by.parts * by.down)
            for (uint64_t row = tile; row < tile + by.down && row < by.rows; row++)
                total += a->value(row * channels + (uint64_t)c, a->salt);
    }
    return total;
}

static void check_sums(const float *found, const huge *a, const ff_tensor *t, int blocks) {
    for (int c = 0; c < t->c; c += t->c < 64 ? 1 : t->c / 64)
        if (found[c] != (float)sum_of_chosen(a, t, blocks, c))
            fail_msg("channel %d of %d: a sum of %.9g, wanted %.9g", c, t->c, (double)found[c],
                     sum_of_chosen(a, t, blocks, c));
}

static void sums_of(ff_tensor shape, ff_dtype dtype) {
    const uint64_t count = ff_tensor_count(&shape);
    const ff_cuda_queue queue = queue_of(dtype);
    float *sums = channels_of(0), *products = channels_of(0), *ones = channels_of(1);
    float *zeros = channels_of(0), *mean = channels_of(0), *inv_std = channels_of(0);
    const size_t bytes = 2 * ff_cuda_scratch(multiprocessors, shape.c);
    void *scratch = huge_zeros(bytes);
    huge *dy = huge_reserve("dy", HUGE_INPUT, dtype, count, huge_slow);
    huge *x = huge_reserve("x", HUGE_INPUT, dtype, count, huge_one);
    huge *dx = huge_out("dx", dtype, count), *dresidual = huge_out("dresidual", dtype, count);
    huges.whole = 1024; /* all blocks of what finishes sums */
    LAUNCH_AND_KEEP(ff_cuda_bias_gradient(&queue, &shape, dy->memory, sums, scratch));
    check_sums(sums, dy, &shape, 4);
    scratch = huge_zeros(bytes); /* the results of blocks that do not run are 0 */
    ff_norm_backward norm = {.forward = {.shape = shape,
                                         .held = true,
                                         .gamma = ones,
                                         .beta = zeros,
                                         .mean = zeros,
                                         .inv_std = ones,
                                         .x = x->memory},
                             .dy = dy->memory,
                             .dx = dx->memory,
                             .dgamma = products,
                             .dbeta = sums};
    LAUNCH_AND_KEEP(ff_cuda_norm_backward_run(&queue, &norm, scratch, false));
    check_sums(sums, dy, &shape, 3);
    check_sums(products, dy, &shape, 3);
    huge_check(dx, first);
    norm.dresidual = dresidual->memory, norm.dy2 = x->memory;
    assert_launched(ff_cuda_norm_backward_run(&queue, &norm, scratch, false));
    huge_check(dresidual, sum);
    const ff_norm statistics = {
        .shape = shape, .epsilon = 1e-5f, .mean = mean, .inv_std = inv_std, .x = dy->memory};
    scratch = huge_zeros(bytes);
    LAUNCH_AND_KEEP(ff_cuda_norm_statistics(&queue, &statistics, scratch));
    const double rows = (double)ff_cuda_rows(&shape);
    for (int c = 0; c < shape.c; c += shape.c < 64 ? 1 : shape.c / 64) {
        const double want = sum_of_chosen(dy, &shape, 4, c) / rows;
        if (fabs((double)mean[c] - want) > 1e-4 * want)
            fail_msg("channel %d: a mean of %.9g, wanted %.9g", c, (double)mean[c], want);
    }
}

static void test_sums(void **state) {
    const ff_tensor shapes[] = {wide, tall, flat};
    for (int s = 0; s < 3; s++)
        for (int k = dtype_first(); k < dtype_end(); k++) {
            /* so few rows for a block that the pages of all are not too many for a process */
            multiprocessors = s == 2 && dtypes[k] == FF_F32 ? 1 << 18 : 1 << 16;
            sums_of(shapes[s], dtypes[k]);
            huge_release(state);
        }
    multiprocessors = 1 << 16;
}

/* A card's number of multiprocessors: a block has rows from the whole array. */
static void test_resident(void **state) {
    (void)state;
    multiprocessors = 132;
    huges.ends = true;
    const ff_cuda_queue queue = queue_of(FF_F16);
    float *sums = channels_of(0);
    huge *dy = huge_reserve("dy", HUGE_INPUT, FF_F16, ff_tensor_count(&wide), huge_slow);
    LAUNCH_AND_KEEP(ff_cuda_bias_gradient(&queue, &wide, dy->memory, sums,
                                          huge_zeros(ff_cuda_scratch(132, 64))));
    check_sums(sums, dy, &wide, 4);
    multiprocessors = 1 << 16;
}

/* The gradient through a mask, and through y. */
static int masked(uint64_t i) {
    return array(0, i / 8) >> i % 8 & 1 ? array(1, i) : 0;
}
static int where_positive(uint64_t i) {
    return array(2, i) > 0 ? array(1, i) : 0;
}
static int around_zero(uint64_t i, uint64_t salt) {
    return huge_hashed(i, salt) - 16;
}

static void test_slopes(void **state) {
    const ff_cuda_queue queue = queue_of(FF_F16);
    const uint64_t count = ff_tensor_count(&wide);
    float *ones = channels_of(1), *zeros = channels_of(0);
    void *scratch = huge_zeros(2 * ff_cuda_scratch(multiprocessors, 64));
    huge *mask = huge_reserve("mask", HUGE_INPUT, FF_U8, count / 8, huge_hashed);
    void *dy = huge_in("dy", FF_F16, count);
    huge *x = huge_reserve("x", HUGE_INPUT, FF_F16, count, around_zero);
    huge *dx = huge_out("dx", FF_F16, count), *other = huge_out("dx by y", FF_F16, count);
    ff_norm_backward norm = {.forward = {.shape = wide,
                                         .activation = FF_ACTIVATION_RELU,
                                         .held = true,
                                         .gamma = ones,
                                         .beta = zeros,
                                         .mean = zeros,
                                         .inv_std = ones,
                                         .x = x->memory,
                                         .mask = mask->memory},
                             .dy = dy,
                             .dx = dx->memory};
    assert_launched(ff_cuda_norm_backward_run(&queue, &norm, scratch, false));
    huge_check(dx, masked);
    norm.forward.mask = NULL, norm.dx = other->memory;
    assert_launched(ff_cuda_norm_backward_run(&queue, &norm, scratch, false));
    huge_check(other, where_positive);
    huge *active = huge_out("dx of an activation", FF_F16, count);
    assert_launched(ff_cuda_activation_bias_gradient(&queue, FF_ACTIVATION_RELU, &wide, x->memory,
                                                     dy, active->memory, channels_of(0), scratch));
    huge_check(active, where_positive);
    (void)state;
}

/* Kernels of channels, which count rows: two ranks, one of them this one. */
static void test_channels(void **state) {
    (void)state;
    const ff_cuda_queue queue = queue_of(FF_F16);
    float *mean = channels_of(0), *inv_std = channels_of(0), *ones = channels_of(1);
    float *sums = huge_zeros(2 * 8192 * sizeof *sums), *zeros = channels_of(0);
    double *own = huge_zeros(17 * sizeof *own), *all = huge_zeros(2 * 17 * sizeof *all);
    const double rows = (double)ff_cuda_rows(&tall);
    for (int c = 0; c < 8; c++) sums[c] = (float)(rows * c), sums[8 + c] = (float)(rows * c * c);
    ff_norm norm = {.shape = tall,
                    .epsilon = 1,
                    .gamma = ones,
                    .beta = zeros,
                    .mean = mean,
                    .inv_std = inv_std,
                    .sums = sums};
    assert_launched(ff_cuda_norm_finish(&queue, &norm));
    for (int c = 0; c < 8; c++) assert_true(fabsf(mean[c] - (float)c) < 1e-5f);
    norm.ranks.count = 2, norm.ranks.own = own, norm.ranks.all = all;
    assert_launched(ff_cuda_norm_finish(&queue, &norm));
    assert_true(own[0] == rows);
    memcpy(all, own, 17 * sizeof *own);
    memcpy(all + 17, own, 17 * sizeof *own);
    assert_launched(ff_cuda_norm_join(&queue, &norm));
    for (int c = 0; c < 8; c++) assert_true(fabsf(mean[c] - (float)c) < 1e-5f);
    void *x = huge_in("x", FF_F16, ff_tensor_count(&tall));
    huge *dx = huge_out("dx", FF_F16, ff_tensor_count(&tall));
    ff_norm_backward backward = {.forward = norm, .dy = x, .dx = dx->memory};
    backward.forward.x = x, backward.forward.mean = zeros, backward.forward.inv_std = ones;
    backward.forward.held = true;
    void *scratch = huge_zeros(2 * ff_cuda_scratch(multiprocessors, 8));
    assert_launched(ff_cuda_norm_backward_run(&queue, &backward, scratch, true));
    huge_check(dx, first);
    uint16_t *scale = huge_zeros(2 * 8192 * sizeof *scale);
    backward.forward.shape = flat;
    assert_launched(ff_cuda_norm_scale_shift(&queue, &backward.forward, true, scale, scale + 8192));
    assert_int_equal(scale[8191], 0x3c00);
    assert_int_equal(scale[8192 + 8191], 0);
}

static void test_all_kernels(void **state) {
    (void)state;
    huge_check_kernels(HUGE_TENSORS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_pointwise, huge_release),
        cmocka_unit_test_teardown(test_cast, huge_release),
        cmocka_unit_test_teardown(test_maps, huge_release),
        cmocka_unit_test_teardown(test_sums, huge_release),
        cmocka_unit_test_teardown(test_resident, huge_release),
        cmocka_unit_test_teardown(test_slopes, huge_release),
        cmocka_unit_test_teardown(test_channels, huge_release),
        cmocka_unit_test(test_all_kernels),
    };
    return huge_run(tests, 4, huge_open);
}
