/* Losses, gradients, updates and Muon over more than 2^32 elements (huge.h), and the limits of
 * launchers: grids, and loops in 31 bits. */
#include "tests/cuda/unit/huge_kernels.h"
#include "tests/cuda/unit/huge_tensors.h"

/* A parameter of more than 2^32 elements, in chunks with a tail. */
#define COUNT   ((UINT64_C(1) << 32) + (UINT64_C(1) << 31) + 12344)
#define ROWS    65537 /* of a bank */
#define COLUMNS UINT64_C(98312)

static ff_control *control;
static float *rates;

static int open_control(void **state) {
    control = huge_zeros(sizeof *control);
    rates = huge_zeros(sizeof *rates);
    control->loss_scale = 1;
    *rates = 1;
    return huge_open(state);
}

/* ---- losses ---- */

enum { SAMPLES = 4300007, CLASSES = 997, STRIDE = 1000 };

/* One logit of a row is so large that the others' share is 0. */
static int hot_class(uint64_t n) {
    return (int)(n * 2654435761u % CLASSES);
}
static int hot(uint64_t i, uint64_t salt) {
    (void)salt;
    return (int)(i % STRIDE) == hot_class(i / STRIDE) ? 127 : 0;
}
static int hot_gradient(uint64_t i) {
    const int c = (int)(i % STRIDE), label = array(1, i / STRIDE);
    return (c == hot_class(i / STRIDE)) - (c == label);
}

static void test_loss(void **state) {
    (void)state;
    const ff_cuda_queue queue = queue_of(FF_F16);
    ff_outcome *ring = huge_zeros(sizeof *ring);
    huge *logits = huge_reserve("logits", HUGE_INPUT, FF_F32, (uint64_t)SAMPLES * STRIDE, hot);
    void *labels = huge_in("labels", FF_I32, SAMPLES);
    huge *gradient = huge_out("gradient", FF_F16, (uint64_t)SAMPLES * STRIDE);
    ff_loss loss = {.n = SAMPLES,
                    .classes = CLASSES,
                    .divisor = 1,
                    .stride = STRIDE,
                    .logits = (float *)logits->memory,
                    .labels = labels,
                    .label_dtype = FF_I32,
                    .gradient = gradient->memory,
                    .scratch = huge_zeros(ff_cuda_loss_scratch(SAMPLES)),
                    .ring = ring,
                    .ring_size = 1,
                    .control = control};
    assert_launched(ff_cuda_loss(&queue, &loss));
    huge_check(gradient, hot_gradient);
    assert_int_equal(ring->count, SAMPLES);
    assert_int_equal(ring->bad_sample, -1);
    /* Numbers of samples, and of a row's elements, from which loops pass 2^31. */
    loss.n = INT32_MAX;
    assert_int_equal(ff_cuda_loss(&queue, &loss), FF_CUDA_INVALID_VALUE);
    loss.n = 1, loss.stride = INT32_MAX - 7;
    assert_int_equal(ff_cuda_loss(&queue, &loss), FF_CUDA_INVALID_VALUE);
}

/* ---- gradients and updates ---- */

static int difference(uint64_t i) {
    return array(0, i) - array(1, i);
}
static int less_one(uint64_t i) {
    return array(0, i) - 1;
}

/* Tables of one segment in device memory. */
static ff_cuda_update update_of(const ff_cuda_segment *segment, const ff_hyper *hyper) {
    ff_cuda_segment *segments = huge_zeros(sizeof *segments);
    ff_cuda_group *group = huge_zeros(sizeof *group);
    *segments = *segment;
    *group = (ff_cuda_group){.multiplier = 1, .hyper = *hyper};
    const uint32_t count = ff_cuda_chunks(segments, 1, NULL);
    ff_cuda_chunk *chunks = huge_zeros(count * sizeof *chunks);
    assert_int_equal(ff_cuda_chunks(segments, 1, chunks), count);
    assert_int_equal(count, (segment->count + FF_CUDA_CHUNK - 1) / FF_CUDA_CHUNK);
    return (ff_cuda_update){.segments = segments,
                            .chunks = chunks,
                            .chunk_count = count,
                            .groups = group,
                            .group_count = 1,
                            .rates = rates,
                            .rate_steps = 1,
                            .control = control,
                            .sums = huge_zeros(count * 2 * sizeof(double))};
}

/* rule: SGD and LARS subtract the gradient, AdamW and LAMB its sign. */
static void update_by(ff_rule rule, ff_dtype dtype) {
    const ff_cuda_queue queue = queue_of(dtype);
    const bool moments = rule == FF_RULE_ADAMW || rule == FF_RULE_LAMB;
    const ff_hyper hyper = {.momentum = 0};
    huge *master = huge_reserve("weights", HUGE_BOTH, FF_F32, COUNT, huge_hashed);
    void *gradient = huge_in("gradient", dtype, COUNT);
    huge *state[2] = {huge_out("state", FF_F32, COUNT), huge_out("squares", FF_F32, COUNT)};
    huge *working = huge_out("working", dtype, COUNT), *ema = huge_out("ema", FF_F32, COUNT);
    for (int k = 0; k < 2; k++) {
        state[k]->use = HUGE_BOTH; /* read, although times 0 */
        state[k]->value = huge_one;
    }
    ema->use = HUGE_BOTH, ema->value = huge_one;
    const ff_cuda_segment segment = {
        .count = COUNT,
        .gradient_dtype = (uint32_t)dtype,
        .working_dtype = (uint32_t)dtype,
        .gradient = gradient,
        .master = (float *)master->memory,
        .state = {(float *)state[0]->memory, moments ? (float *)state[1]->memory : NULL},
        .working = working->memory,
        .ema = (float *)ema->memory};
    const ff_cuda_update update = update_of(&segment, &hyper);
    assert_launched(ff_cuda_update_run(&queue, &update, rule));
    huge_check(state[0], second);
    huge_check(working, moments ? less_one : difference);
    huge_check(master, moments ? less_one : difference);
    huge_check(ema, moments ? less_one : difference);
}

static void test_updates(void **state) {
    static const ff_rule rules[] = {FF_RULE_SGD, FF_RULE_LARS, FF_RULE_LAMB, FF_RULE_ADAMW};
    for (int rule = 0; rule < 4; rule++)
        for (int k = dtype_first(); k < dtype_end(); k++) {
            update_by(rules[rule], dtypes[k]);
            huge_release(state);
        }
}

static void test_gradients(void **state) {
    for (int k = dtype_first(); k < dtype_end(); k++) {
        const ff_cuda_queue queue = {NULL, 1 << 24, dtypes[k]};
        ff_outcome *ring = huge_zeros(sizeof *ring);
        huge *sums = huge_reserve("sums", HUGE_BOTH, FF_F32, COUNT, huge_hashed);
        void *gradient = huge_in("gradient", dtypes[k], COUNT);
        huge *fresh = huge_out("first sums", FF_F32, COUNT);
        ff_gradient_sum sum_of = {.count = COUNT,
                                  .gradient = gradient,
                                  .dtype = dtypes[k],
                                  .sums = (float *)fresh->memory,
                                  .first = true,
                                  .weight = 1,
                                  .ring = ring,
                                  .ring_size = 1,
                                  .control = control};
        assert_launched(ff_cuda_sum_gradients(&queue, &sum_of));
        huge_check(fresh, second);
        sum_of.first = false, sum_of.sums = (float *)sums->memory;
        assert_launched(ff_cuda_sum_gradients(&queue, &sum_of));
        huge_check(sums, sum);
        const ff_hyper hyper = {.momentum = 0};
        const ff_cuda_segment segment = {
            .count = COUNT, .gradient_dtype = (uint32_t)dtypes[k], .gradient = gradient};
        ff_cuda_update update = update_of(&segment, &hyper);
        update.scale = huge_zeros(sizeof *update.scale);
        update.how.clip_norm = 1;
        LAUNCH_AND_KEEP(ff_cuda_check(&queue, &update));
        double all = 0;
        for (unsigned b = 0; b < huges.chosen_count; b++) {
            const uint64_t begin = huges.chosen[b] * FF_CUDA_CHUNK;
            double want = 0;
            for (uint64_t i = begin; i < begin + FF_CUDA_CHUNK && i < COUNT; i++)
                want += array(1, i) * array(1, i);
            assert_true(update.sums[2 * huges.chosen[b]] == want);
            all += want;
        }
        assert_int_equal(control->non_finite, 0);
        assert_true(fabs((double)*update.scale * sqrt(all) - 1) < 1e-6);
        huge_release(state);
    }
}

static void test_average(void **state) {
    (void)state;
    const ff_cuda_queue queue = queue_of(FF_F32);
    huge *average = huge_reserve("average", HUGE_BOTH, FF_F32, COUNT, huge_one);
    float *value = huge_in("value", FF_F32, COUNT);
    assert_launched(ff_cuda_average(&queue, control, 0, COUNT, value, (float *)average->memory));
    huge_check(average, second);
}

/* ---- Muon ---- */

static double scale_of_x;
static const huge *of_x;
static void check_x(uint64_t i, float found) {
    const double want = array(1, i) * scale_of_x;
    if (found == 1) return; /* its block did not run */
    if (fabs((double)found - want) > 0.005 * want)
        fail_msg("%s: element %llu is %.9g, wanted %.9g", of_x->name, (unsigned long long)i,
                 (double)found, want);
}

static void test_muon(void **state) {
    const ff_cuda_queue queue = {NULL, 1 << 21, FF_F16};
    double *norms = huge_zeros(2 * sizeof *norms);
    huge *master = huge_reserve("weights", HUGE_BOTH, FF_F32, ROWS * COLUMNS, huge_hashed);
    void *gradient = huge_in("gradient", FF_F16, ROWS * COLUMNS);
    huge *momentum = huge_reserve("momentum", HUGE_BOTH, FF_F32, ROWS * COLUMNS, huge_one);
    huge *x = huge_reserve("x", HUGE_BOTH, FF_BF16, ROWS * COLUMNS, huge_one);
    huge *next = huge_reserve("the next x", HUGE_BOTH, FF_BF16, ROWS * COLUMNS, huge_one);
    huge *working = huge_out("working", FF_F16, ROWS * COLUMNS);
    ff_cuda_muon muon = {.rows = ROWS,
                         .columns = COLUMNS,
                         .segment = {.count = ROWS * COLUMNS,
                                     .gradient_dtype = FF_F16,
                                     .working_dtype = FF_F16,
                                     .gradient = gradient,
                                     .master = (float *)master->memory,
                                     .state = {(float *)momentum->memory},
                                     .working = working->memory},
                         .group = {.multiplier = 1},
                         .rates = rates,
                         .rate_steps = 1,
                         .control = control,
                         .dtype = FF_BF16,
                         .x = x->memory,
                         .next = next->memory,
                         .norms = norms};
    assert_launched(ff_cuda_muon_begin(&queue, &muon, 1, ROWS * COLUMNS,
                                       huge_zeros(ff_cuda_muon_scratch(1 << 21, 1))));
    huge_check(momentum, second);
    assert_true(norms[0] > 0 && norms[1] > 0);
    scale_of_x = 1 / norms[0], of_x = x;
    huge_each(x, check_x);
    of_x = next;
    huge_each(next, check_x);
    /* W * sqrt(rows) / |W| - rate * X with the old norm, then X all 1 again. */
    norms[1] = sqrt((double)ROWS);
    huge *ones = huge_reserve("ones", HUGE_INPUT, FF_BF16, ROWS * COLUMNS, huge_one);
    muon.last = ones->memory;
    assert_launched(ff_cuda_muon_end(&queue, &muon, 1, ROWS * COLUMNS));
    huge_check(working, less_one);
    huge_check(master, less_one);
    (void)state;
}

/* The square of the smaller side, and X. */
static void test_muon_copy(void **state) {
    (void)state;
    const ff_cuda_queue queue = {NULL, 1 << 22, FF_F16};
    void *a = huge_in("a", FF_BF16, (uint64_t)ROWS * ROWS);
    void *x = huge_in("x", FF_BF16, ROWS * COLUMNS);
    huge *b = huge_out("b", FF_BF16, (uint64_t)ROWS * ROWS);
    huge *y = huge_out("y", FF_BF16, ROWS * COLUMNS);
    assert_launched(ff_cuda_muon_copy(&queue, a, b->memory, (uint64_t)ROWS * ROWS / 8 * 16 + 16, x,
                                      y->memory, ROWS * COLUMNS * 2));
    huge_check(b, first);
    huge_check(y, second);
}

/* ---- one thread, and limits ---- */

static void test_outcomes(void **state) {
    (void)state;
    const ff_cuda_queue queue = queue_of(FF_F32);
    ff_outcome *ring = huge_zeros(3 * sizeof *ring), *ranks = huge_zeros(2 * sizeof *ranks);
    ff_outcome *total = huge_zeros(sizeof *total);
    control->step = (UINT64_C(1) << 32) + 1; /* mod 3 = 2; of 32 bits 1 */
    const ff_cuda_update update = {.control = control, .total = total, .how.part_samples = 1 << 20};
    ring[2] = (ff_outcome){.count = INT64_C(1) << 33, .bad_sample = -1};
    assert_launched(ff_cuda_outcome_add(&queue, &update, true, ring, 3));
    assert_launched(ff_cuda_outcome_add(&queue, &update, false, ring, 3));
    assert_int_equal(total->count, INT64_C(1) << 34);
    ranks[0] = ranks[1] = *total;
    assert_launched(ff_cuda_outcome_join(&queue, &update, ranks, 2, ring, 3));
    assert_int_equal(ring[2].count, INT64_C(1) << 35);
    assert_launched(ff_cuda_advance(&queue, &update, ring, 3));
    assert_int_equal(ring[2].step, (UINT64_C(1) << 32) + 1);
    assert_int_equal(control->step, (UINT64_C(1) << 32) + 2);
    control->step = 0;
}

/* Counts that need more blocks than a grid has, also one whose blocks are 1 in 32 bits. */
static void test_grids(void **state) {
    (void)state;
    const ff_cuda_queue queue = queue_of(FF_F16);
    for (int more = 0; more < 2; more++) {
        const uint64_t blocks = (UINT64_C(1) << (31 + more)) + 1;
        assert_int_not_equal(ff_cuda_add(&queue, FF_F16, blocks * 8192, NULL, NULL, NULL), 0);
        assert_int_not_equal(ff_cuda_activation_forward(&queue, FF_ACTIVATION_RELU, FF_F32,
                                                        blocks * 4096, NULL, NULL),
                             0);
        assert_int_not_equal(ff_cuda_activation_backward(&queue, FF_ACTIVATION_RELU, FF_F32,
                                                         blocks * 4096, NULL, NULL, NULL),
                             0);
        assert_int_not_equal(ff_cuda_cast(&queue, blocks * 4096, 1, NULL, FF_F16, NULL, FF_F32), 0);
        assert_int_not_equal(ff_cuda_weigh(&queue, FF_F16, blocks * 256, 1, true, NULL, NULL), 0);
        assert_int_not_equal(ff_cuda_average(&queue, control, 0, blocks * 256, NULL, NULL), 0);
    }
    /* More slices of channels than a grid's y. */
    const ff_tensor broad = {1, 65536 * 256, 1, 1, 65536 * 256};
    assert_int_equal(ff_cuda_bias(&queue, &broad, NULL, NULL, NULL), FF_CUDA_INVALID_VALUE);
}

static void test_all_kernels(void **state) {
    (void)state;
    huge_check_kernels(HUGE_UPDATE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_updates, huge_release),
        cmocka_unit_test_teardown(test_gradients, huge_release),
        cmocka_unit_test_teardown(test_loss, huge_release),
        cmocka_unit_test_teardown(test_average, huge_release),
        cmocka_unit_test_teardown(test_muon, huge_release),
        cmocka_unit_test_teardown(test_muon_copy, huge_release),
        cmocka_unit_test(test_outcomes),
        cmocka_unit_test(test_grids),
        cmocka_unit_test(test_all_kernels),
    };
    return huge_run(tests, 2, open_control);
}
