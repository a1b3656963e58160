/* SGD, Muon, groups of parameters, learning rates and whitening against closed forms. */
#include "tests/unit/train_helpers.h"

#include "train/compute/optimizers/muon.h"
#include "train/compute/optimizers/optimizers.h"
#include "train/net/average.h"
#include "train/net/groups.h"
#include "train/net/whitening.h"
#include "train/recipes/schedule.h"
#include "train/recipes/table.h"
#include "train/step/step.h"
#include "train/step/update.h"

/* ---- SGD ---- */

static void update_sgd(const ff_hyper *hyper, size_t count, float *value, float *momentum,
                       const float *gradient) {
    const ff_factors factors = ff_factors_of(hyper, hyper->learning_rate, 0, 1);
    const ff_arrays arrays = {
        .count = count, .value = value, .state = {momentum}, .gradient = gradient};
    ff_optimizer_at(FF_RULE_SGD)->update(&factors, &arrays);
}

static void sgd_is_torchs(void **state) {
    (void)state;
    dice d = {.seed = 31};
    for (int k = 0; k < 8; k++) {
        const ff_hyper sgd = {.learning_rate = 0.1,
                              .momentum = k & 1 ? 0.9 : 0,
                              .weight_decay = k & 2 ? 0.01 : 0,
                              .nesterov = k == 5 || k == 7};
        const size_t count = (size_t)between(&d, 1, 6000);
        float *value = random_floats(&d, count), *momentum = floats(count);
        double *w, *m;
        assert_ok(ff_alloc(&w, count, sizeof *w, "a test", error));
        assert_ok(ff_alloc(&m, count, sizeof *m, "a test", error));
        for (size_t i = 0; i < count; i++) w[i] = (double)value[i];
        for (int step = 0; step < 5; step++) {
            float *gradient = random_floats(&d, count);
            update_sgd(&sgd, count, value, momentum, gradient);
            for (size_t i = 0; i < count; i++) {
                double g = (double)gradient[i] + sgd.weight_decay * w[i];
                m[i] = step == 0 ? g : sgd.momentum * m[i] + g; /* torch's first step */
                double by = sgd.momentum == 0 ? g : sgd.nesterov ? g + sgd.momentum * m[i] : m[i];
                w[i] -= sgd.learning_rate * by;
                assert_true(fabs(w[i] - (double)value[i]) < 1e-5);
            }
            free(gradient);
        }
        free(value);
        free(momentum);
        free(w);
        free(m);
    }
}

/* With a constant gradient g and no decay: w_n = w_0 - lr * g * sum over k < n of (1 - mu^(k+1)) /
 * (1 - mu). */
static void sgd_has_a_closed_form(void **state) {
    (void)state;
    const ff_hyper sgd = {.learning_rate = 0.01, .momentum = 0.9};
    float value[16] = {1}, momentum[16] = {0}, gradient[16] = {0.5f};
    double expected = 1;
    for (int k = 0; k < 50; k++) {
        update_sgd(&sgd, 1, value, momentum, gradient);
        expected -= 0.01 * 0.5 * (1 - pow(0.9, k + 1)) / (1 - 0.9);
        assert_float_equal(value[0], expected, 1e-5);
    }
}

/* ---- Muon ---- */

static void product(void *context, bool transposed, size_t m, size_t n, size_t k, float alpha,
                    const float *a, const float *b, float beta, float *c) {
    (void)context;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t l = 0; l < k; l++)
                sum += (double)a[i * k + l] * (double)b[transposed ? j * k + l : l * n + j];
            c[i * n + j] = (float)((double)alpha * sum +
                                   (beta != 0 ? (double)beta * (double)c[i * n + j] : 0));
        }
}

static double quintic(double x) {
    for (int step = 0; step < 3; step++)
        x = 3.4445 * x - 4.7750 * x * x * x + 2.0315 * x * x * x * x * x;
    return x;
}

/* Rotates rows i and j, or columns, by an angle. */
static void turn(float *u, size_t rows, size_t columns, size_t i, size_t j, bool of_rows,
                 double angle) {
    const size_t count = of_rows ? columns : rows, step = of_rows ? 1 : columns;
    const size_t stride = of_rows ? columns : 1;
    const float c = (float)cos(angle), s = (float)sin(angle);
    for (size_t k = 0; k < count; k++) {
        float *a = u + i * stride + k * step, *b = u + j * stride + k * step;
        const float x = *a, y = *b;
        *a = c * x - s * y;
        *b = s * x + c * y;
    }
}

/* A matrix U S V' becomes U f(S / |S|) V': made from a diagonal one by rotating rows and columns,
 * which are then rotated back. Wide and tall ones; also in bf16, within its rounding. */
static void muon_moves_singular_values(void **state) {
    (void)state;
    static const size_t shapes[][2] = {{5, 7}, {7, 5}, {4, 4}, {1, 9}, {9, 1}};
    dice d = {.seed = 41};
    for (int k = 0; k < 10; k++) {
        const size_t rows = shapes[k / 2][0], columns = shapes[k / 2][1];
        const size_t least = rows < columns ? rows : columns;
        const ff_muon muon = {.bf16 = k % 2};
        float *u = floats(rows * columns), *room = floats(ff_muon_room(rows, columns));
        double values[9], norm = 0;
        for (size_t i = 0; i < least; i++) {
            values[i] = 0.2 + fabs((double)gauss(&d));
            norm += values[i] * values[i];
            u[i * columns + i] = (float)values[i];
        }
        norm = sqrt(norm);
        for (size_t i = 0; i + 1 < rows; i++) turn(u, rows, columns, i, i + 1, true, 0.7);
        for (size_t j = 0; j + 1 < columns; j++) turn(u, rows, columns, j, j + 1, false, -0.4);
        ff_muon_orthogonalise(&muon, rows, columns, u, room, product, NULL);
        for (size_t e = 0; muon.bf16 && e < rows * columns; e++)
            assert_true(u[e] == ff_f32_from_bf16(ff_bf16_from_f32(u[e])));
        for (size_t j = columns - 1; j-- > 0;) turn(u, rows, columns, j, j + 1, false, 0.4);
        for (size_t i = rows - 1; i-- > 0;) turn(u, rows, columns, i, i + 1, true, -0.7);
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < columns; j++) {
                double want = i == j ? quintic(values[i] / norm) : 0;
                double apart = fabs(want - (double)u[i * columns + j]);
                assert_true(apart < (muon.bf16 ? 0.1 : 2e-5));
            }
        free(u);
        free(room);
    }
}

/* Momentum of both kinds, and weights that keep the norm sqrt(rows) except for the step. */
static void muon_keeps_the_norm(void **state) {
    (void)state;
    dice d = {.seed = 42};
    enum { ROWS = 6, COUNT = 60 };
    float *value = random_floats(&d, COUNT), *momentum = random_floats(&d, COUNT);
    float *gradient = random_floats(&d, COUNT), *zero = floats(COUNT), u[COUNT], kept[COUNT];
    for (int nesterov = 0; nesterov < 2; nesterov++) {
        const ff_muon muon = {.learning_rate = 0.1, .momentum = 0.6, .nesterov = nesterov};
        memcpy(kept, momentum, sizeof kept);
        ff_muon_momentum(&muon, 1, COUNT, momentum, gradient, u);
        for (int i = 0; i < COUNT; i++) {
            double m = 0.6 * (double)kept[i] + (double)gradient[i];
            assert_float_equal(momentum[i], m, 1e-5);
            assert_float_equal(u[i], nesterov ? (double)gradient[i] + 0.6 * m : m, 1e-5);
        }
        memcpy(kept, value, sizeof kept);
        ff_muon_apply(&muon, ROWS, COUNT, value, zero);
        double squares = 0, before = 0;
        for (int i = 0; i < COUNT; i++) {
            squares += (double)value[i] * (double)value[i];
            before += (double)kept[i] * (double)kept[i];
        }
        assert_float_equal(squares, ROWS, 1e-4);
        ff_muon_apply(&muon, ROWS, COUNT, kept, u);
        for (int i = 0; i < COUNT; i++)
            assert_float_equal(kept[i], (double)value[i] - 0.1 * (double)u[i], 1e-4);
        assert_true(before > 0);
        ff_muon_apply(&muon, ROWS, COUNT, zero, zero); /* all zero: nothing to scale */
        for (int i = 0; i < COUNT; i++) assert_true(zero[i] == 0);
    }
    free(value);
    free(momentum);
    free(gradient);
    free(zero);
}

/* ---- groups ---- */

static ff_model *cifarnet(void) {
    ff_model *model;
    const ff_model_options options = {.name = "cifarnet",
                                      .channels = 3,
                                      .height = 32,
                                      .width = 32,
                                      .classes = 10,
                                      .batch = 2,
                                      .threads = 1,
                                      .dropout = -1};
    assert_ok(ff_model_create(&model, &options, error));
    return model;
}

/* The recipe's patterns group cifarnet's parameters as they should; parameters that no pattern
 * matches, or that Muon cannot take, are named. */
static void groups_divide(void **state) {
    (void)state;
    const ff_recipe *recipe = ff_recipe_named("cifar-speed");
    assert_non_null(recipe);
    assert_null(ff_recipe_named("cifar-slow"));
    ff_group list[FF_RECIPE_GROUPS];
    int count = 0, seen[FF_RECIPE_GROUPS] = {0};
    for (; count < FF_RECIPE_GROUPS && recipe->groups[count].names; count++)
        list[count] =
            (ff_group){.names = recipe->groups[count].names, .rule = recipe->groups[count].rule};
    ff_model *model = cifarnet();
    assert_ok(ff_model_set_groups(model, list, count, error));
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const ff_parameter *p = ff_model_parameter(model, i);
        const int group = ff_model_group(model, i);
        assert_int_equal(group >= 0, p->trained);
        if (group < 0) continue;
        seen[group]++;
        assert_int_equal(list[group].rule == FF_RULE_MUON, p->rank == 4);
    }
    assert_int_equal(seen[0], 6);
    assert_int_equal(seen[1], 1);
    assert_int_equal(seen[2], 6);
    assert_int_equal(seen[3], 1);
    ff_error failure = {0};
    assert_int_equal(ff_model_set_groups(model, list, count - 1, &failure), FF_USAGE);
    assert_non_null(strstr(failure.message, "head.weight"));
    const ff_group muon = {.names = "*", .rule = FF_RULE_MUON};
    assert_int_equal(ff_model_set_groups(model, &muon, 1, &failure), FF_USAGE);
    assert_non_null(strstr(failure.message, "whiten.bias"));
    const ff_group wide[] = {{.names = "head.weight", .rule = FF_RULE_MUON},
                             {.names = "*", .rule = FF_RULE_SGD}};
    assert_int_equal(ff_model_set_groups(model, wide, 2, &failure), FF_USAGE);
    assert_non_null(strstr(failure.message, "head.weight: Muon"));
    ff_model_destroy(&model);
}

/* Spans cover all trained parameters in the store's order; neighbours of one SGD group are one span
 * where their gradients are of one kind, and each of Muon's banks is a span. */
static void spans_cover_the_store(void **state) {
    (void)state;
    static const ff_group lists[][2] = {
        {{.names = "*", .rule = FF_RULE_SGD}},
        {{.names = "*.bias", .rule = FF_RULE_SGD}, {.names = "*", .rule = FF_RULE_SGD}},
        {{.names = "layers.2.*", .rule = FF_RULE_SGD}, {.names = "*", .rule = FF_RULE_SGD}},
        {{.names = "layers.*.conv*.weight", .rule = FF_RULE_MUON},
         {.names = "*", .rule = FF_RULE_SGD}},
    };
    static const int least[] = {2, 2, 4, 8};
    ff_model *model = cifarnet();
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        assert_ok(ff_model_set_groups(model, lists[k], k ? 2 : 1, error));
        const ff_store *store = ff_model_training_plan(model)->store;
        const ff_groups *groups = store->groups;
        size_t at = 0;
        for (int i = 0; i < groups->span_count; i++) {
            const ff_span *span = &groups->spans[i], *before = i ? span - 1 : NULL;
            assert_int_equal(span->offset, at);
            at += span->count;
            assert_true(at <= store->weight_count || span->offset >= store->weight_count);
            assert_int_equal(span->rule, lists[k][span->group].rule);
            if (before && span->offset != store->weight_count)
                assert_true(span->group != before->group || span->rule == FF_RULE_MUON);
            for (int p = 0; p < ff_model_parameter_count(model); p++)
                if (ff_model_group(model, p) >= 0 && store->offsets[p] >= span->offset &&
                    store->offsets[p] < at)
                    assert_int_equal(ff_model_group(model, p), span->group);
        }
        assert_int_equal(at, store->trained_count);
        assert_true(groups->span_count >= least[k]);
    }
    ff_model_destroy(&model);
}

/* Groups with equal numbers give what one group gives, bit for bit; only a group with a learning
 * rate of 0 stays unchanged. */
static void groups_are_separate(void **state) {
    (void)state;
    dice d = {.seed = 43};
    float *images = random_floats(&d, 2 * 3 * 32 * 32), *kept[3][2];
    const int64_t labels[] = {3, 7};
    const ff_batch batch = {.images = images, .labels = labels, .label_dtype = FF_I64};
    static const char *const names[] = {"head.weight", "layers.2.norm1.bias"};
    const ff_group list[] = {{.names = "*.bias", .rule = FF_RULE_SGD},
                             {.names = "*", .rule = FF_RULE_SGD}};
    for (int run = 0; run < 3; run++) {
        ff_model *model = cifarnet();
        ff_step *step;
        const ff_hyper sgd = {.momentum = 0.9, .weight_decay = 1e-3}, sgds[2] = {sgd, sgd};
        const double rates[2] = {run == 2 ? 0 : 0.1, 0.1};
        const ff_step_options how = {.update.groups = sgds,
                                     .update.group_count = run ? 2 : 1,
                                     .update.rates = rates,
                                     .update.rate_steps = 1};
        if (run) assert_ok(ff_model_set_groups(model, list, 2, error));
        assert_ok(ff_step_create(&step, model, &how, error));
        for (int i = 0; i < 3; i++)
            assert_ok(ff_step_run(step, ff_model_training_plan(model), &batch, error));
        ff_step_destroy(&step);
        for (int i = 0; i < 2; i++) {
            const int index = ff_model_find(model, names[i]);
            kept[run][i] = floats(2560);
            ff_model_get(model, index, FF_PART_VALUE, kept[run][i]);
        }
        ff_model_destroy(&model);
    }
    for (int i = 0; i < 2; i++) assert_memory_equal(kept[0][i], kept[1][i], 2560 * sizeof(float));
    for (int i = 0; i < 256; i++) assert_true(kept[2][1][i] == 0); /* where biases begin */
    assert_memory_not_equal(kept[0][1], kept[2][1], 256 * sizeof(float));
    for (int run = 0; run < 3; run++)
        for (int i = 0; i < 2; i++) free(kept[run][i]);
    free(images);
}

/* ---- learning rates ---- */

static ff_schedule schedule_of(const char *text, double peak, uint64_t warmup, uint64_t total) {
    ff_schedule s = {.peak = peak, .epoch_steps = 10, .warmup_steps = warmup, .total_steps = total};
    assert_ok(ff_schedule_parse(&s, text, error));
    return s;
}

/* tests/parity compares all with torch. */
static void schedule_has_its_shape(void **state) {
    (void)state;
    ff_schedule s = schedule_of("cosine=0.25", 0.4, 3, 13);
    assert_float_equal(ff_schedule_rate(&s, 0), 0.1, 1e-12);
    assert_float_equal(ff_schedule_rate(&s, 2), 0.3, 1e-12);
    assert_float_equal(ff_schedule_rate(&s, 3), 0.4, 1e-12);
    assert_float_equal(ff_schedule_rate(&s, 8), 0.25, 1e-12); /* half way */
    assert_float_equal(ff_schedule_rate(&s, 13), 0.1, 1e-12);
    assert_float_equal(ff_schedule_rate(&s, 1000), 0.1, 1e-12);
    for (uint64_t step = 4; step <= 13; step++)
        assert_true(ff_schedule_rate(&s, step) < ff_schedule_rate(&s, step - 1));
    s = schedule_of("constant", 0.4, 0, 13);
    assert_float_equal(ff_schedule_rate(&s, 0), 0.4, 1e-12);
    assert_float_equal(ff_schedule_rate(&s, 12), 0.4, 1e-12);
    /* Epochs are the run's, its warm-up among them. */
    s = schedule_of("multi-step=1.2,3:0.5", 0.4, 5, 40);
    for (uint64_t step = 5; step < 40; step++)
        assert_true(ff_schedule_rate(&s, step) == (step < 12 ? 0.4 : step < 30 ? 0.2 : 0.1));
}

/* The epoch that is late is the first after which the rate of the last step is still the one
 * before. */
static void late_epochs_are_found(void **state) {
    (void)state;
    ff_schedule s = schedule_of("multi-step=1.2,3,4:0.5", 0.4, 0, 40);
    for (uint64_t steps = 1; steps <= 60; steps++)
        assert_true(ff_schedule_late(&s, steps) == (steps <= 12   ? 1.2
                                                    : steps <= 30 ? 3
                                                    : steps <= 40 ? 4
                                                                  : 0));
    s = schedule_of("step=3", 0.4, 0, 40);
    assert_true(ff_schedule_late(&s, 30) == 3 && ff_schedule_late(&s, 31) == 0);
    assert_true(ff_schedule_rate(&s, 29) == 0.4 && ff_schedule_rate(&s, 30) < 0.4);
    s = schedule_of("polynomial=99", 0.4, 0, 40);
    assert_true(ff_schedule_late(&s, 40) == 0);
}

static void linear_schedule_has_its_shape(void **state) {
    (void)state;
    ff_schedule s = schedule_of("linear", 0.24, 0, 200);
    for (uint64_t step = 0; step < 200; step++)
        assert_true(fabs(ff_schedule_rate(&s, step) - 0.24 * (1 - (double)step / 200)) < 1e-15);
    assert_true(ff_schedule_rate(&s, 200) == 0 && ff_schedule_rate(&s, 999) == 0);
    s.warmup_steps = 3;
    assert_float_equal(ff_schedule_rate(&s, 0), 0.06, 1e-12);
    assert_float_equal(ff_schedule_rate(&s, 3), 0.24, 1e-12);
}

static void bad_schedules_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      "cosin",
                                      "Cosine",
                                      "cosine=",
                                      "cosine=2",
                                      "cosine=-1",
                                      "cosine=0.1:2",
                                      "cosine=0.1,0.2",
                                      "constant=1",
                                      "step=0",
                                      "step=30:",
                                      "step=30:0",
                                      "step=30:2",
                                      "step=30:0.1:0.2",
                                      "multi-step",
                                      "multi-step=",
                                      "multi-step=60,30",
                                      "multi-step=1,1",
                                      "multi-step=1;2",
                                      "multi-step=1,",
                                      "multi-step=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
                                      "polynomial=0",
                                      "polynomial=nan",
                                      "one-cycle=0",
                                      "one-cycle=x",
                                      "step:0.1",
                                      "linear 0.1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ff_schedule s;
        ff_error failure = {0};
        assert_int_equal(ff_schedule_parse(&s, bad[i], &failure), FF_USAGE);
        assert_non_null(strstr(failure.message, "--schedule"));
    }
}

/* Every step takes its own learning rate, of its group, and those past the last take the last; a
 * step's outcome is at its place in the ring. */
static void every_step_has_its_rate(void **state) {
    (void)state;
    enum { STEPS = 5, RING = 3 };
    static const double rates[] = {0.5, 0.25, 0.125, 1, 2, 4};
    static const ff_group list[] = {{.names = "*.bias", .rule = FF_RULE_SGD},
                                    {.names = "*", .rule = FF_RULE_SGD}};
    const ff_hyper sgds[2] = {{0}};
    ff_update *update;
    ff_outcome ring[RING] = {{0}};
    ff_model *model = cifarnet();
    assert_ok(ff_model_set_groups(model, list, 2, error));
    ff_store *store = ff_model_training_plan(model)->store;
    const ff_update_options options = {
        .groups = sgds, .group_count = 2, .rates = rates, .rate_steps = 3};
    assert_ok(ff_update_create(&update, store, &options, error));
    float *const bias = ff_store_value(store, ff_model_find(model, "whiten.bias"));
    float *const weight = ff_store_value(store, ff_model_find(model, "head.weight"));
    float *const gradients = (float *)(void *)store->gradients;
    for (size_t i = 0; i < store->trained_count; i++) gradients[i] = 1;
    for (int step = 0; step < STEPS; step++) {
        const int at = step < 3 ? step : 2;
        *bias = *weight = 0;
        ff_update_enqueue(update, ring, RING);
        assert_ok(ff_compute_check(store->compute, error));
        assert_float_equal(*bias, -rates[at], 0);
        assert_float_equal(*weight, -rates[3 + at], 0);
        assert_int_equal(ring[step % RING].step, step);
        assert_float_equal(ring[step % RING].learning_rate, rates[at], 0);
    }
    assert_int_equal(ring[0].step, 3);
    ff_update_destroy(&update);
    ff_model_destroy(&model);
}

/* ---- sums over micro-batches ---- */

static void build_normless(ff_graph *g) {
    ff_node x = ff_graph_conv(g, 0, "a", 6, &(ff_conv_form){.kernel = 3, .pad = 1, .bias = true});
    x = ff_graph_max_pool(g, ff_graph_relu(g, x), "p", 2, 2, 0);
    x = ff_graph_dropout(g, x, 0.25);
    x = ff_graph_relu(g, ff_graph_conv(g, x, "b", 9, &(ff_conv_form){.kernel = 3, .bias = true}));
    ff_graph_finish(g, ff_graph_linear(g, ff_graph_flatten(g, x), "fc", 5));
}

enum { WHOLE = 12, PIXELS = 3 * 8 * 8 };

/* Three updates by batches of 12 in micro-batches of `micro`; the caller frees the values. */
static float *update_in_parts(int micro, bool summed, double clip, ff_outcome *outcome,
                              size_t *count) {
    dice d = {.seed = 47};
    net n;
    ff_update *update;
    ff_outcome ring[2];
    const ff_hyper hyper = {.momentum = 0.9, .weight_decay = 1e-3};
    const double rate = summed ? 0.01 : 0.1;
    const ff_update_options how = {.groups = &hyper,
                                   .group_count = 1,
                                   .rates = &rate,
                                   .rate_steps = 1,
                                   .clip_norm = clip,
                                   .part_samples = micro,
                                   .summed = summed};
    open_net(&n, build_normless, 3, 8, 8, micro, "reference", 2);
    n.plan->divisor = summed;
    if (micro < WHOLE) assert_ok(ff_store_reserve_sums(&n.store, false, error));
    assert_ok(ff_update_create(&update, &n.store, &how, error));
    for (int step = 0; step < 3; step++) {
        float *images = random_floats(&d, WHOLE * PIXELS);
        int64_t labels[WHOLE];
        for (int i = 0; i < WHOLE; i++) labels[i] = i % 3 == 2 && i > 3 ? -1 : i % 5;
        if (step == 2)
            labels[7] = 9; /* bad; its loss and gradient are meaningless, its place not */
        if (step == 2 && micro < WHOLE) labels[10] = 8;
        for (int at = 0; at < WHOLE; at += micro) {
            float *part = floats((size_t)micro * PIXELS);
            memcpy(part, images + at * PIXELS, (size_t)micro * PIXELS * sizeof *part);
            const ff_batch batch = {.images = part, .labels = labels + at, .label_dtype = FF_I64};
            ff_plan_enqueue(n.plan, &batch, true, ring, 2, NULL);
            if (micro < WHOLE) ff_update_add(update, (ff_batch_part){at / micro, false}, ring, 2);
            free(part);
        }
        free(images);
        outcome[step] = ring[step % 2];
        if (step == 2) break;
        ff_update_enqueue(update, ring, 2);
    }
    *count = n.store.trained_count;
    float *values = floats(*count);
    memcpy(values, n.store.values, *count * sizeof *values);
    ff_update_destroy(&update);
    close_net(&n);
    return values;
}

/* A batch at once or in parts, with labels missing in some: the same update and outcome, within the
 * rounding of sums; dropout, too, draws as in the whole batch. */
static void parts_add_up(void **state) {
    (void)state;
    static const int micros[] = {6, 4, 1};
    for (int k = 0; k < 3; k++) {
        const bool summed = k == 1;
        ff_outcome whole[3], parts[3];
        size_t count;
        float *want = update_in_parts(WHOLE, summed, k ? 0 : 0.5, whole, &count);
        float *got = update_in_parts(micros[k], summed, k ? 0 : 0.5, parts, &count);
        assert_close(want, got, count, 1e-6);
        for (int step = 0; step < 2; step++) {
            assert_int_equal(whole[step].count, parts[step].count);
            assert_int_equal(whole[step].correct, parts[step].correct);
            assert_float_equal(whole[step].loss_sum, parts[step].loss_sum, 1e-5);
            assert_int_equal(parts[step].bad_sample, -1);
            assert_int_equal(parts[step].step, step);
        }
        assert_int_equal(whole[2].bad_sample, 7);
        assert_int_equal(parts[2].bad_sample, 7);
        free(want);
        free(got);
    }
}

/* ---- the average ---- */

/* Of parameters and running statistics, after updates of several steps against plain sums; swapped
 * in, evaluation would see it, and swapped back all is as before. */
static void average_follows_the_values(void **state) {
    (void)state;
    enum { STEPS = 4 };
    dice d = {.seed = 46};
    const ff_model_options options = {.name = "smallnet",
                                      .channels = 1,
                                      .height = 8,
                                      .width = 8,
                                      .classes = 4,
                                      .batch = 6,
                                      .threads = 2,
                                      .dropout = -1};
    static const char *const names[] = {"conv2.weight", "bn3.bias", "bn2.running_var", "fc.bias"};
    enum { NAMES = 4, MOST = 32 * 16 * 9 };
    const int64_t labels[] = {3, 1, 0, 2, 2, 1};
    const ff_hyper hyper = {.momentum = 0.9};
    const double rate = 0.1, decay = 0.75;
    const ff_step_options how = {.update.groups = &hyper,
                                 .update.group_count = 1,
                                 .update.rates = &rate,
                                 .update.rate_steps = 1,
                                 .update.ema_decay = decay};
    ff_model *model;
    ff_step *step;
    float values[MOST], averages[MOST], *images = random_floats(&d, 6 * 64);
    static double want[NAMES][MOST];
    const ff_batch batch = {.images = images, .labels = labels, .label_dtype = FF_I64};
    assert_ok(ff_model_create(&model, &options, error));
    ff_store *store = ff_model_store(model);
    assert_ok(ff_average_reserve(store, error));
    assert_ok(ff_step_create(&step, model, &how, error));
    ff_average_begin(store);
    for (int i = 0; i <= STEPS; i++)
        for (int n = 0; n < NAMES; n++) {
            const int p = ff_model_find(model, names[n]);
            const size_t count = ff_model_parameter(model, p)->count;
            if (i && !n) assert_ok(ff_step_run(step, ff_model_training_plan(model), &batch, error));
            ff_model_get(model, p, FF_PART_VALUE, values);
            ff_model_get(model, p, FF_PART_AVERAGE, averages);
            for (size_t e = 0; e < count; e++) {
                const double value = (double)values[e];
                want[n][e] = i ? decay * want[n][e] + (1 - decay) * value : value;
                assert_float_equal(averages[e], want[n][e], i ? 1e-6 : 0);
            }
            assert_true(!i || memcmp(values, averages, count * sizeof *values) != 0);
        }
    for (int i = 0; i < 2; i++) {
        ff_average_swap(store);
        ff_model_get(model, ff_model_find(model, "fc.bias"), i ? FF_PART_AVERAGE : FF_PART_VALUE,
                     values);
        for (int e = 0; e < 4; e++) assert_float_equal(values[e], want[3][e], 1e-6);
        assert_ptr_equal(store->working, store->values);
    }
    free(images);
    ff_step_destroy(&step);
    ff_model_destroy(&model);
}

/* ---- whitening ---- */

/* A = V' diag(values) V, with orthogonal rows of V and increasing values. */
static void eigenvectors_are_right(void **state) {
    (void)state;
    dice d = {.seed = 44};
    for (int n = 1; n <= 24; n++) {
        double a[24 * 24], given[24 * 24] = {0}, values[24], vectors[24 * 24];
        for (int i = 0; i < n; i++)
            for (int j = i; j < n; j++)
                given[i * n + j] = given[j * n + i] = n % 4 == 3 ? 1 : (double)gauss(&d);
        memcpy(a, given, sizeof a);
        ff_symmetric_eigen(n, a, values, vectors);
        for (int i = 0; i < n; i++) {
            assert_true(i == 0 || values[i] >= values[i - 1]);
            for (int j = 0; j < n; j++) {
                double dot = 0, rebuilt = 0;
                for (int k = 0; k < n; k++) {
                    dot += vectors[i * n + k] * vectors[j * n + k];
                    rebuilt += values[k] * vectors[k * n + i] * vectors[k * n + j];
                }
                assert_true(fabs(dot - (i == j)) < 1e-12);
                assert_true(fabs(rebuilt - given[i * n + j]) < 1e-11);
            }
        }
    }
}

/* On the images that they come from, the filters' outputs have the covariance v / (v + epsilon) on
 * the diagonal, about 1, and 0 elsewhere; the second half is the first with the other sign. */
static void filters_whiten(void **state) {
    (void)state;
    enum { CHANNELS = 3, H = 13, W = 11, IMAGES = 40, K = 12, PLACES = (H - 1) * (W - 1) };
    dice d = {.seed = 45};
    float *images = random_floats(&d, IMAGES * CHANNELS * H * W), filters[2 * K * K];
    for (int i = 1; i < IMAGES * CHANNELS * H * W; i++) /* similar neighbours */
        images[i] = 0.8f * images[i - 1] + 0.3f * images[i];
    double sums[K * K] = {0};
    for (int i = 0; i < IMAGES; i++)
        ff_whitening_add(CHANNELS, H, W, 2, images + (size_t)i * CHANNELS * H * W, sums);
    double values[K], vectors[K * K], copy[K * K];
    for (int i = 0; i < K * K; i++) copy[i] = sums[i] / (IMAGES * PLACES);
    ff_symmetric_eigen(K, copy, values, vectors);
    assert_ok(ff_whitening_filters(K, sums, IMAGES * PLACES, 5e-4, filters, error));
    double covariance[K * K] = {0};
    for (int n = 0; n < IMAGES; n++)
        for (int place = 0; place < PLACES; place++) {
            double made[K] = {0};
            for (int o = 0; o < K; o++)
                for (int e = 0; e < K; e++) {
                    int y = place / (W - 1) + e % 4 / 2, x = place % (W - 1) + e % 2;
                    made[o] += (double)filters[o * K + e] *
                               (double)images[((n * CHANNELS + e / 4) * H + y) * W + x];
                }
            for (int o = 0; o < K * K; o++)
                covariance[o] += made[o / K] * made[o % K] / (IMAGES * PLACES);
        }
    for (int o = 0; o < K * K; o++) {
        double want = o / K == o % K ? values[o / K] / (values[o / K] + 5e-4) : 0;
        assert_true(fabs(covariance[o] - want) < 1e-4);
        assert_true(filters[K * K + o] == -filters[o]);
    }
    sums[3] = NAN;
    ff_error failure = {0};
    assert_int_equal(ff_whitening_filters(K, sums, 1, 5e-4, filters, &failure), FF_BAD_DATA);
    free(images);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_is_torchs),
        cmocka_unit_test(sgd_has_a_closed_form),
        cmocka_unit_test(muon_moves_singular_values),
        cmocka_unit_test(muon_keeps_the_norm),
        cmocka_unit_test(groups_divide),
        cmocka_unit_test(spans_cover_the_store),
        cmocka_unit_test(groups_are_separate),
        cmocka_unit_test(schedule_has_its_shape),
        cmocka_unit_test(late_epochs_are_found),
        cmocka_unit_test(linear_schedule_has_its_shape),
        cmocka_unit_test(bad_schedules_are_refused),
        cmocka_unit_test(every_step_has_its_rate),
        cmocka_unit_test(parts_add_up),
        cmocka_unit_test(average_follows_the_values),
        cmocka_unit_test(eigenvectors_are_right),
        cmocka_unit_test(filters_whiten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
