/* Steps in bf16 on the CPU: updates of f32 masters from bf16 gradients, sums of gradients, and
 * whole nets, against f32. */
#include "tests/unit/bf16_case.h"
#include "tests/unit/train_nets.h"

#include "train/compute/optimizers/optimizers.h"

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
                                         .clip_norm = rule % 2 ? 3 : 0, /* which undoes a scale */
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

/* The f32 masters are those of the same gradients in f32, except for the order of sums of norms;
 * the working copies are the masters, rounded. */
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
        cmocka_unit_test(updates_are_of_the_gradients),
        cmocka_unit_test(sums_of_gradients_are_f32),
        cmocka_unit_test(nets_agree),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
