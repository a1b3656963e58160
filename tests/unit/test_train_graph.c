/* Whole small nets of every layer: gradients against finite differences, implementations against
 * each other, plans against plans. */
#include "tests/unit/train_nets.h"

#include "train/net/groups.h"
#include "train/step/update.h"

static double mean_loss(net *n, const samples *s) {
    const ff_outcome result = run_plan(n->plan, &s->batch, true);
    return result.loss_sum / (double)result.count;
}

/* The loss with `by` added to a parameter, and the value reached. */
static double moved(net *n, const samples *s, float *at, float by, double *reached) {
    const float kept = *at;
    *at = kept + by;
    *reached = (double)*at - (double)kept;
    const double loss = mean_loss(n, s);
    *at = kept;
    return loss;
}

/* Checks one gradient: 0 if a central difference agrees with it, 1 if none does because a kink of
 * ReLU or max is so near that the differences on both sides disagree, -1 if it is wrong. */
static int check_place(net *n, const samples *s, double loss, size_t at, double gradient) {
    const double near = 1e-4 + 1e-3 * fabs(gradient);
    double kink = INFINITY;
    for (float by = 5e-5f; by < 4e-3f; by *= 2) {
        double up, down;
        const double above = moved(n, s, n->store.values + at, by, &up);
        const double below = moved(n, s, n->store.values + at, -by, &down);
        if (fabs((above - below) / (up - down) - gradient) <= near) return 0;
        kink = fmin(kink, fabs((above - loss) / up - (below - loss) / down));
    }
    return kink > 2 * near ? 1 : -1;
}

/* Checks a parameter's gradients: each of a vector's, and three of each filter or row, at other
 * places in each. None may be wrong. Counts the places, and those next to a kink. */
static void check_parameter(net *n, const samples *s, const float *gradients, int p, int *checked,
                            int *kinks) {
    const ff_graph_parameter *parameter = &n->graph->parameters[p];
    size_t each = 1;
    for (int i = 1; i < parameter->rank; i++) each *= (size_t)parameter->shape[i];
    const double loss = mean_loss(n, s);
    for (size_t row = 0; row < (size_t)parameter->shape[0]; row++)
        for (size_t k = 0; k < 3 && k < each; k++, ++*checked) {
            const size_t e = row * each + (row + k * (each / 3 + 1)) % each;
            const size_t at = n->store.offsets[p] + e;
            const int found = check_place(n, s, loss, at, (double)gradients[at]);
            if (found < 0)
                print_message("%s[%zu]: gradient %g\n", parameter->name, e, (double)gradients[at]);
            assert_true(found >= 0);
            *kinks += found;
        }
}

static void gradients_are_right(void **state) {
    (void)state;
    for (int c = 0; c < CASES; c++) {
        net n;
        samples s;
        open_net(&n, cases[c].build, cases[c].channels, cases[c].height, cases[c].width,
                 cases[c].batch, "reference", 1);
        draw(&s, &cases[c]);
        n.plan->smoothing = 0.1;
        mean_loss(&n, &s);
        float *gradients = floats(n.store.trained_count);
        memcpy(gradients, n.store.gradients, n.store.trained_count * sizeof *gradients);
        int checked = 0, kinks = 0;
        for (int p = 0; p < n.graph->parameter_count; p++)
            if (n.graph->parameters[p].trained)
                check_parameter(&n, &s, gradients, p, &checked, &kinks);
        assert_true(checked > 50 && kinks * 5 <= checked);
        free(gradients);
        free(s.images);
        close_net(&n);
    }
}

/* Every implementation gives the same loss, gradients and running statistics. */
static void implementations_agree(void **state) {
    (void)state;
    for (int c = 0; c < CASES; c++)
        for (int i = 0; ff_compute_implementation(i); i++) {
            net right, other;
            samples s;
            const net_case *k = &cases[c];
            const char *name = ff_compute_implementation(i)->name;
            open_net(&right, k->build, k->channels, k->height, k->width, k->batch, "reference", 2);
            open_net(&other, k->build, k->channels, k->height, k->width, k->batch, name, 2);
            draw(&s, k);
            s.weights[1] = 0;
            s.labels[0] = -1;
            double apart = mean_loss(&right, &s) - mean_loss(&other, &s);
            if (!(fabs(apart) < 1e-5)) print_message("%s, %s: %g\n", k->name, name, apart);
            assert_true(fabs(apart) < 1e-5);
            for (int p = 0; p < right.graph->parameter_count; p++) {
                const ff_graph_parameter *parameter = &right.graph->parameters[p];
                if (parameter->dtype != FF_F32) continue;
                size_t count = 1;
                for (int r = 0; r < parameter->rank; r++) count *= (size_t)parameter->shape[r];
                const bool trained = parameter->trained;
                float *a = exported(&right, p, trained ? FF_PART_GRADIENT : FF_PART_VALUE);
                float *b = exported(&other, p, trained ? FF_PART_GRADIENT : FF_PART_VALUE);
                double worst = 0;
                for (size_t e = 0; e < count; e++)
                    worst = fmax(worst,
                                 fabs((double)a[e] - (double)b[e]) / (1e-2 + fabs((double)a[e])));
                if (!(worst < 2e-3))
                    print_message("%s, %s: %s: %g\n", k->name, name, parameter->name, worst);
                assert_true(worst < 2e-3);
                free(a);
                free(b);
            }
            free(s.images);
            close_net(&right);
            close_net(&other);
        }
}

/* Evaluation: weights leave samples out exactly, and a plan of another batch that shares the
 * parameters gives the same sums; nothing is changed. */
static void evaluation_counts_once(void **state) {
    (void)state;
    for (int c = 0; c < CASES; c++)
        for (int i = 0; ff_compute_implementation(i); i++) {
            net n;
            samples s;
            const net_case *k = &cases[c];
            open_net(&n, k->build, k->channels, k->height, k->width, k->batch,
                     ff_compute_implementation(i)->name, 2);
            draw(&s, k);
            mean_loss(&n, &s); /* running statistics that are not the initial ones */
            ff_plan *one;
            assert_ok(ff_plan_create(&one, n.graph, n.compute, 1, false, NULL, n.plan, error));
            one->store = &n.store;
            float *buffers = floats(n.store.buffer_count);
            memcpy(buffers, n.store.buffers, n.store.buffer_count * sizeof *buffers);
            s.weights[1] = 0;
            const ff_outcome all = run_plan(n.plan, &s.batch, false);
            ff_outcome sum = {0};
            for (int b = 0; b < k->batch; b++) {
                ff_batch batch = s.batch;
                batch.images =
                    (const float *)s.batch.images + (size_t)b * k->channels * k->height * k->width;
                batch.labels = s.labels + b;
                batch.weights = s.weights + b;
                const ff_outcome result = run_plan(one, &batch, false);
                sum.loss_sum += result.loss_sum;
                sum.count += result.count;
                sum.correct += result.correct;
            }
            assert_int_equal(all.count, k->batch - 1);
            assert_int_equal(all.count, sum.count);
            assert_int_equal(all.correct, sum.correct);
            assert_true(fabs(all.loss_sum - sum.loss_sum) < 1e-4 * (1 + all.loss_sum));
            assert_memory_equal(buffers, n.store.buffers, n.store.buffer_count * sizeof *buffers);
            free(buffers);
            free(s.images);
            ff_plan_destroy(&one);
            close_net(&n);
        }
}

/* Smoothed and mixed labels apply to training, not to evaluation. */
static void evaluation_is_of_the_labels_alone(void **state) {
    (void)state;
    const net_case *k = &cases[1];
    static const float mix[16] = {0.25f, 0.25f, 0.75f, 0.75f, 0.5f, 0.5f};
    for (int i = 0; ff_compute_implementation(i); i++) {
        net n;
        samples s;
        ff_outcome plain, harder;
        open_net(&n, k->build, k->channels, k->height, k->width, 4,
                 ff_compute_implementation(i)->name, 2);
        net_case four = *k;
        four.batch = 4;
        draw(&s, &four);
        s.labels[0] = 1, s.labels[1] = 3;
        const double trained = mean_loss(&n, &s);
        plain = run_plan(n.plan, &s.batch, false);
        s.batch.mix = mix;
        harder = run_plan(n.plan, &s.batch, false);
        assert_true(harder.loss_sum == plain.loss_sum && harder.count == plain.count);
        assert_true(mean_loss(&n, &s) != trained);
        s.batch.mix = NULL;
        plain = run_plan(n.plan, &s.batch, false); /* other statistics now */
        n.plan->smoothing = 0.3;
        harder = run_plan(n.plan, &s.batch, false);
        assert_true(harder.loss_sum == plain.loss_sum && harder.count == plain.count);
        assert_true(mean_loss(&n, &s) != trained);
        free(s.images);
        close_net(&n);
    }
}

/* ---- buckets of gradients ---- */

/* Keeps a copy of a bucket when it is said to be complete. */
enum { MOST_BUCKETS = 16 };
static const ff_bucket *watched;
static const ff_store *watched_store;
static float *kept[MOST_BUCKETS];

static size_t bucket_values(const ff_bucket *bucket) {
    return bucket->weights_end - bucket->weights + bucket->channels_end - bucket->channels;
}
static float *copy_of(const ff_bucket *bucket) {
    const float *from = (const float *)(const void *)watched_store->gradients;
    const size_t weights = bucket->weights_end - bucket->weights;
    float *to = floats(bucket_values(bucket));
    memcpy(to, from + bucket->weights, weights * sizeof *to);
    memcpy(to + weights, from + bucket->channels,
           (bucket->channels_end - bucket->channels) * sizeof *to);
    return to;
}
static void keep(void *context, const ff_plan *plan, int bucket) {
    (void)context, (void)plan;
    assert_null(kept[bucket]);
    kept[bucket] = copy_of(&watched[bucket]);
}

/* What is said to be complete is final: no layer writes to the bucket after it. */
static void buckets_are_complete_when_told(void **state) {
    (void)state;
    static const uint64_t sizes[] = {64, 2000, UINT64_C(1) << 40};
    for (int c = 0; c < 3 * CASES; c++)
        for (int i = 0; ff_compute_implementation(i); i++) {
            const net_case *k = &cases[c / 3];
            net n;
            samples s;
            ff_bucket *buckets;
            ff_bucket_watch all = {.completed = keep};
            ff_outcome outcome;
            open_net(&n, k->build, k->channels, k->height, k->width, k->batch,
                     ff_compute_implementation(i)->name, 2);
            draw(&s, k);
            assert_ok(ff_store_buckets(&n.store, sizes[c % 3], &buckets, &all.count, error));
            assert_true(all.count > (c % 3 ? 0 : 2) && all.count <= MOST_BUCKETS);
            all.buckets = watched = buckets, watched_store = &n.store;
            memset(n.store.gradients, 0xff, n.store.trained_count * sizeof(float));
            ff_plan_enqueue(n.plan, &s.batch, true, &outcome, 1, &all);
            assert_ok(ff_compute_check(n.compute, error));
            for (int b = 0; b < all.count; b++) {
                float *now = copy_of(&buckets[b]);
                assert_non_null(kept[b]);
                assert_memory_equal(kept[b], now, bucket_values(&buckets[b]) * sizeof *now);
                free(now);
                free(kept[b]);
                kept[b] = NULL;
            }
            free(buckets);
            free(s.images);
            close_net(&n);
        }
}

/* Evaluating views is the weighted mean of evaluating each of them. */
static void views_are_averaged(void **state) {
    (void)state;
    const net_case *k = &cases[0];
    for (int i = 0; ff_compute_implementation(i); i++)
        for (int views = 2; views <= 6; views += 4) {
            net n;
            samples s;
            ff_error failure = {0};
            ff_outcome result = {0}, all;
            open_net(&n, k->build, k->channels, k->height, k->width, k->batch,
                     ff_compute_implementation(i)->name, 2);
            draw(&s, k);
            mean_loss(&n, &s);
            ff_plan *plain, *averaged;
            assert_ok(
                ff_plan_create(&plain, n.graph, n.compute, k->batch, false, NULL, n.plan, error));
            assert_ok(ff_plan_create(&averaged, n.graph, n.compute, k->batch, false, NULL, n.plan,
                                     error));
            plain->store = averaged->store = &n.store;
            assert_int_equal(ff_plan_set_views(averaged, 3, &failure), FF_USAGE);
            assert_ok(ff_plan_set_views(averaged, views, error));
            const size_t count = ff_tensor_count(&n.plan->tensors[0]);
            float *seen = floats(count);
            double mean[64] = {0}, weights = 0;
            const int logits = k->batch * CLASSES;
            for (int v = 0; v < views; v++) {
                const ff_planned_view view = ff_plan_view(views, v);
                const ff_image_view arguments = {n.plan->tensors[0], view.down, view.right,
                                                 view.mirror};
                n.compute->ops->view(n.compute, &arguments, s.images, seen);
                ff_batch batch = s.batch;
                batch.images = seen;
                result = run_plan(plain, &batch, false);
                weights += (double)view.weight;
                for (int e = 0; e < logits; e++)
                    mean[e] += (double)view.weight * (double)logits_of(plain)[e];
            }
            assert_true(weights == 1);
            all = run_plan(averaged, &s.batch, false);
            for (int e = 0; e < logits; e++)
                assert_true(fabs(mean[e] - (double)logits_of(averaged)[e]) < 1e-5);
            assert_true(all.loss_sum != result.loss_sum);
            free(seen);
            free(s.images);
            ff_plan_destroy(&plain);
            ff_plan_destroy(&averaged);
            close_net(&n);
        }
}

/* The same steps give the same bits, and a step has no effect on the next except through the
 * parameters. */
static void steps_repeat(void **state) {
    (void)state;
    const ff_hyper sgd = {.momentum = 0.9, .weight_decay = 1e-3};
    const double rate = 0.05;
    const ff_update_options options = {
        .groups = &sgd, .group_count = 1, .rates = &rate, .rate_steps = 1};
    float *first = NULL;
    for (int run = 0; run < 2; run++) {
        net n;
        samples s;
        ff_update *update;
        ff_outcome outcome;
        open_net(&n, build_residual, 3, 16, 12, 3, NULL, 2);
        draw(&s, &cases[1]);
        assert_ok(ff_update_create(&update, &n.store, &options, error));
        double before = mean_loss(&n, &s);
        for (int step = 0; step < 20; step++) {
            ff_plan_enqueue(n.plan, &s.batch, true, &outcome, 1, NULL);
            ff_update_enqueue(update, &outcome, 1);
            assert_ok(ff_compute_check(n.compute, error));
            assert_int_equal(outcome.step, step);
        }
        assert_true(mean_loss(&n, &s) < before / 2); /* it memorizes three samples */
        if (run == 0) {
            first = floats(n.store.trained_count);
            memcpy(first, n.store.values, n.store.trained_count * sizeof *first);
        } else {
            assert_memory_equal(first, n.store.values, n.store.trained_count * sizeof *first);
        }
        s.labels[2] = CLASSES;
        assert_int_equal(run_plan(n.plan, &s.batch, true).bad_sample, 2);
        for (int b = 0; b < 3; b++) s.labels[b] = -1; /* no sample counts */
        assert_int_equal(run_plan(n.plan, &s.batch, true).count, 0);
        for (size_t e = 0; e < n.store.trained_count; e++)
            assert_true(((float *)n.store.gradients)[e] == 0);
        ff_update_destroy(&update);
        free(s.images);
        close_net(&n);
    }
    free(first);
}

/* A convolution and its pool work in chunks; also when the batch is not a multiple of the chunk. */
static void build_wide(ff_graph *g) {
    ff_node x = ff_graph_conv(g, 0, "a", 40, &(ff_conv_form){.kernel = 3, .pad = 1, .bias = true});
    x = ff_graph_max_pool(g, x, "p", 2, 2, 0);
    ff_graph_finish(g, ff_graph_linear(g, ff_graph_global_pool(g, x, "avg"), "fc", CLASSES));
}

static void chunks_are_invisible(void **state) {
    (void)state;
    enum { SAMPLES = 11, SIDE = 64 };
    dice d = {.seed = 22};
    float *images = random_floats(&d, SAMPLES * 3 * SIDE * SIDE);
    int64_t labels[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) labels[i] = i % CLASSES;
    for (int i = 0; ff_compute_implementation(i); i++) {
        net n;
        open_net(&n, build_wide, 3, SIDE, SIDE, SAMPLES, ff_compute_implementation(i)->name, 2);
        assert_non_null(n.plan->ops[0].conv_pool.tail);
        const ff_batch all = {.images = images, .labels = labels, .label_dtype = FF_I64};
        run_plan(n.plan, &all, true);
        double *sum;
        assert_ok(ff_alloc(&sum, n.store.trained_count, sizeof *sum, "sums", error));
        float *whole = floats(n.store.trained_count);
        memcpy(whole, n.store.gradients, n.store.trained_count * sizeof *whole);
        ff_plan *one;
        assert_ok(ff_plan_create(&one, n.graph, n.compute, 1, true, NULL, n.plan, error));
        one->store = &n.store;
        for (int k = 0; k < SAMPLES; k++) {
            ff_batch batch = all;
            batch.images = (const float *)all.images + (size_t)k * 3 * SIDE * SIDE;
            batch.labels = labels + k;
            run_plan(one, &batch, true);
            for (size_t e = 0; e < n.store.trained_count; e++)
                sum[e] += (double)((float *)n.store.gradients)[e] / SAMPLES;
        }
        for (size_t e = 0; e < n.store.trained_count; e++)
            assert_true(fabs(sum[e] - (double)whole[e]) < 1e-5 + 1e-4 * fabs(sum[e]));
        free(sum);
        free(whole);
        ff_plan_destroy(&one);
        close_net(&n);
    }
    free(images);
}

static void build_too_small(ff_graph *g) {
    ff_node x = ff_graph_conv(g, 0, "first", 4, &(ff_conv_form){.kernel = 3});
    x = ff_graph_conv(g, x, "second", 4, &(ff_conv_form){.kernel = 5});
    ff_graph_finish(g, ff_graph_linear(g, x, "fc", CLASSES));
}

static void errors_name_the_layer(void **state) {
    (void)state;
    ff_error failure = {0};
    ff_graph *graph;
    assert_ok(ff_graph_create(&graph, 1, 6, 6, error));
    build_too_small(graph);
    assert_int_equal(ff_graph_check(graph, &failure), FF_USAGE);
    assert_non_null(strstr(failure.message, "second"));
    assert_non_null(strstr(failure.message, "4x4"));
    ff_graph_destroy(&graph);

    assert_ok(ff_graph_create(&graph, 6, 6, 6, error));
    ff_graph_conv(graph, 0, "uneven", 8, &(ff_conv_form){.kernel = 3, .groups = 4});
    assert_int_equal(ff_graph_check(graph, &failure), FF_USAGE);
    assert_non_null(
        strstr(failure.message, "uneven: a convolution of 6 to 8 channels in 4 groups"));
    ff_graph_destroy(&graph);
    assert_ok(ff_graph_create(&graph, 8, 6, 6, error));
    ff_graph_conv(graph, 0, "uneven", 6, &(ff_conv_form){.kernel = 3, .groups = 4});
    assert_int_equal(ff_graph_check(graph, &failure), FF_USAGE);
    ff_graph_destroy(&graph);

    ff_compute *compute;
    const ff_compute_options options = {.threads = 1};
    assert_ok(ff_compute_open(&compute, NULL, &options, error));
    assert_int_equal(ff_graph_create(&graph, 0, 6, 6, &failure), FF_USAGE);
    assert_null(graph);
    assert_ok(ff_graph_create(&graph, 3, 8, 8, error));
    ff_node x = ff_graph_conv(graph, 0, "c", 4, &(ff_conv_form){.kernel = 8});
    x = ff_graph_norm(graph, x, "lonely");
    ff_graph_finish(graph, ff_graph_linear(graph, x, "fc", CLASSES));
    ff_plan *plan;
    assert_int_equal(ff_plan_create(&plan, graph, compute, 1, true, NULL, NULL, &failure),
                     FF_USAGE);
    assert_null(plan);
    assert_non_null(strstr(failure.message, "lonely"));
    assert_ok(ff_plan_create(&plan, graph, compute, 1, false, NULL, NULL, error));
    ff_plan_destroy(&plan);
    assert_int_equal(ff_plan_create(&plan, graph, compute, 0, true, NULL, NULL, &failure),
                     FF_USAGE);
    ff_graph_destroy(&graph);
    ff_compute_close(&compute);
    assert_int_equal(ff_compute_open(&compute, "abacus", &options, &failure), FF_USAGE);
    assert_non_null(strstr(failure.message, "reference"));
}

/* Shapes, bounds of the first values (torch's fans: a filter's inputs, all filters) and work. */
static void groups_are_torchs(void **state) {
    (void)state;
    const ff_conv_form form = {.kernel = 3, .pad = 1, .groups = 4, .bias = true};
    const ff_conv_form fan_out = {.kernel = 3, .groups = 4, .filters = FF_FILTERS_FAN_OUT};
    const ff_conv_form dirac = {.kernel = 1, .groups = 4, .filters = FF_FILTERS_DIRAC};
    ff_graph *graph;
    ff_compute *compute;
    ff_plan *plan;
    ff_store store;
    assert_ok(ff_graph_create(&graph, 8, 6, 5, error));
    ff_node x = ff_graph_conv(graph, 0, "a", 12, &form);
    const double macs = ff_graph_macs(graph);
    x = ff_graph_conv(graph, x, "b", 12, &fan_out);
    x = ff_graph_conv(graph, x, "c", 16, &dirac);
    ff_graph_finish(graph, ff_graph_linear(graph, x, "fc", CLASSES));
    assert_ok(ff_graph_check(graph, error));
    const ff_graph_parameter *a = graph->parameters;
    assert_int_equal(a->shape[0], 12);
    assert_int_equal(a->shape[1], 2);
    assert_int_equal(a->shape[2], 3);
    assert_true(macs == 12.0 * 2 * 9 * 6 * 5);
    assert_true(fabs(a[0].scale - 1 / sqrt(2 * 9)) < 1e-12 && a[1].scale == a[0].scale);
    assert_true(fabs(a[2].scale - sqrt(2.0 / (12 * 9))) < 1e-12);
    assert_ok(ff_compute_open(&compute, "reference", &(ff_compute_options){.threads = 1}, error));
    assert_ok(ff_plan_create(&plan, graph, compute, 2, true, NULL, NULL, error));
    assert_ok(ff_store_create(&store, graph, compute, plan->convs, plan->tensors, error));
    assert_ok(ff_store_initialise(&store, &(uint64_t){7}, error));
    const float *c = ff_store_value(&store, 3); /* [16][3]: 4 filters a group of 3 inputs */
    for (int o = 0; o < 16; o++)
        for (int i = 0; i < 3; i++)
            if (o % 4 < 3)
                assert_true(c[o * 3 + i] == (o % 4 == i));
            else
                assert_true(c[o * 3 + i] != 0 && fabsf(c[o * 3 + i]) <= 1 / sqrtf(3));
    /* Muon has no matrix for filters of a part of the channels */
    const ff_group muon[] = {{.names = "a.weight", .rule = FF_RULE_MUON},
                             {.names = "*", .rule = FF_RULE_SGD}};
    ff_groups groups;
    ff_error failure = {0};
    assert_int_equal(ff_groups_create(&groups, &store, muon, 2, &failure), FF_USAGE);
    assert_non_null(strstr(failure.message, "a.weight"));
    assert_non_null(strstr(failure.message, "4 groups"));
    ff_store_destroy(&store);
    ff_plan_destroy(&plan);
    ff_compute_close(&compute);
    ff_graph_destroy(&graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_right),
        cmocka_unit_test(implementations_agree),
        cmocka_unit_test(evaluation_counts_once),
        cmocka_unit_test(steps_repeat),
        cmocka_unit_test(views_are_averaged),
        cmocka_unit_test(chunks_are_invisible),
        cmocka_unit_test(errors_name_the_layer),
        cmocka_unit_test(groups_are_torchs),
        cmocka_unit_test(evaluation_is_of_the_labels_alone),
        cmocka_unit_test(buckets_are_complete_when_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
