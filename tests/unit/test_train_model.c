/* Models as trainers see them: parameters, initial values, training, what is refused. */
#include "tests/unit/train_helpers.h"

#include "train/recipes/table.h"
#include "train/step/step.h"

static ff_model_options options_of(const char *name, int channels, int side, int batch) {
    return (ff_model_options){.name = name,
                              .channels = channels,
                              .height = side,
                              .width = side,
                              .classes = 10,
                              .batch = batch,
                              .threads = 2,
                              .seed = 1,
                              .dropout = -1};
}

/* torchvision's names, shapes and counts; values that are read back as they were written. */
static void resnet18_has_torchvisions_parameters(void **state) {
    (void)state;
    ff_model_options options = options_of("resnet18", 3, 224, 1);
    options.classes = 1000;
    ff_model *model;
    assert_ok(ff_model_create(&model, &options, error));
    assert_int_equal(ff_model_stem(model), FF_STEM_IMAGENET);
    assert_int_equal(ff_model_parameter_count(model), 122);
    uint64_t trained = 0;
    for (int i = 0; i < 122; i++)
        if (ff_model_parameter(model, i)->trained) trained += ff_model_parameter(model, i)->count;
    assert_int_equal(trained, 11689512);
    static const char *const names[] = {
        "conv1.weight",         "bn1.weight",      "bn1.bias",
        "bn1.running_mean",     "bn1.running_var", "bn1.num_batches_tracked",
        "layer1.0.conv1.weight"};
    for (int i = 0; i < 7; i++) assert_string_equal(ff_model_parameter(model, i)->name, names[i]);
    assert_string_equal(ff_model_parameter(model, 121)->name, "fc.bias");
    assert_int_equal(ff_model_find(model, "layer4.0.downsample.1.num_batches_tracked"), 107);
    assert_int_equal(ff_model_find(model, "layer5"), -1);
    assert_int_equal(ff_model_macs(model), 1814073344);

    dice d = {.seed = 32};
    for (int i = 0; i < 122; i += 7) {
        const ff_parameter *p = ff_model_parameter(model, i);
        if (p->dtype != FF_F32) continue;
        float *in = random_floats(&d, p->count), *out = floats(p->count);
        ff_model_set(model, i, FF_PART_VALUE, in);
        ff_model_get(model, i, FF_PART_VALUE, out);
        assert_memory_equal(in, out, p->count * sizeof *in);
        free(in);
        free(out);
    }
    int64_t tracked = 41;
    ff_model_set(model, 5, FF_PART_VALUE, &tracked);
    tracked = 0;
    ff_model_get(model, 5, FF_PART_VALUE, &tracked);
    assert_int_equal(tracked, 41);
    for (int role = 0; role < FF_ROLE_COUNT; role++) assert_true(ff_model_bytes(model, role) > 0);
    ff_model_destroy(&model);
    assert_null(model);
}

/* Weights lie before the parameters of channels, the last layer's first, each aligned to 16
 * elements, without overlap. */
static void parameters_have_their_places(void **state) {
    (void)state;
    ff_model *model;
    const ff_model_options options = options_of("smallnet", 3, 12, 2);
    assert_ok(ff_model_create(&model, &options, error));
    const ff_store *store = ff_model_training_plan(model)->store;
    size_t held = 0, weights = 0;
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const ff_parameter *p = ff_model_parameter(model, i);
        if (!p->trained) continue;
        const bool weight = strstr(p->name, "conv") || strcmp(p->name, "fc.weight") == 0;
        assert_int_equal(store->offsets[i] % 16, 0);
        assert_int_equal(store->offsets[i] < store->weight_count, weight);
        assert_true(store->offsets[i] + p->count <= store->trained_count);
        held += p->count;
        if (weight) weights += p->count;
        for (int k = 0; k < i; k++) {
            const ff_parameter *q = ff_model_parameter(model, k);
            if (!q->trained) continue;
            if (store->offsets[k] < store->offsets[i])
                assert_true(store->offsets[k] + q->count <= store->offsets[i]);
            else
                assert_true(store->offsets[i] + p->count <= store->offsets[k]);
        }
    }
    assert_true(weights <= store->weight_count && held <= store->trained_count);
    assert_int_equal(store->offsets[ff_model_find(model, "fc.weight")], 0);
    assert_int_equal(store->offsets[ff_model_find(model, "fc.bias")], store->weight_count);
    ff_model_destroy(&model);
}

/* Initial values: their moments are torchvision's, and they do not depend on how they are
 * stored. */
static void initial_values_are_torchvisions(void **state) {
    (void)state;
    float *first[2];
    for (int k = 0; k < 2; k++) {
        ff_model *model;
        ff_model_options options = options_of("resnet18", 3, 32, 2);
        options.compute = k ? "reference" : NULL;
        options.threads = k + 1;
        assert_ok(ff_model_create(&model, &options, error));
        assert_int_equal(ff_model_stem(model), FF_STEM_CIFAR);
        int index = ff_model_find(model, "layer2.0.conv1.weight");
        const size_t count = ff_model_parameter(model, index)->count;
        first[k] = floats(count);
        ff_model_get(model, index, FF_PART_VALUE, first[k]);
        double sum = 0, squares = 0;
        for (size_t i = 0; i < count; i++) {
            sum += (double)first[k][i];
            squares += (double)first[k][i] * (double)first[k][i];
        }
        assert_true(fabs(sum / (double)count) < 1e-3);
        assert_true(fabs(squares / (double)count / (2.0 / (9 * 128)) - 1) < 0.02);
        float ones[10];
        index = ff_model_find(model, "fc.bias");
        ff_model_get(model, index, FF_PART_VALUE, ones);
        for (int i = 0; i < 10; i++) assert_true(fabs((double)ones[i]) <= 1 / sqrt(512.0));
        float *gamma = floats(64);
        ff_model_get(model, ff_model_find(model, "bn1.running_var"), FF_PART_VALUE, gamma);
        for (int i = 0; i < 64; i++) assert_true(gamma[i] == 1);
        free(gamma);
        if (k) assert_memory_equal(first[0], first[1], count * sizeof(float));
        ff_model_destroy(&model);
    }
    free(first[0]);
    free(first[1]);
}

static float *values_of(const ff_model *model, const char *name, size_t *count) {
    const int index = ff_model_find(model, name);
    assert_true(index >= 0);
    *count = ff_model_parameter(model, index)->count;
    float *values = floats(*count);
    ff_model_get(model, index, FF_PART_VALUE, values);
    return values;
}

/* The first filters of cifarnet pass their channel on, the others are random; its head has standard
 * deviation 1; frozen parameters have no gradient. */
static void cifarnet_begins_as_its_source(void **state) {
    (void)state;
    ff_model *model;
    const ff_model_options options = options_of("cifarnet", 3, 32, 2);
    assert_ok(ff_model_create(&model, &options, error));
    size_t count;
    float *filters = values_of(model, "layers.1.conv1.weight", &count);
    assert_int_equal(count, 64 * 24 * 9);
    double sum = 0, squares = 0;
    for (size_t e = 0; e < count; e++) {
        const size_t o = e / (24 * 9), i = e / 9 % 24, tap = e % 9;
        if (o < 24) assert_true(filters[e] == (o == i && tap == 4 ? 1.0f : 0.0f));
        if (o >= 24) squares += (double)filters[e] * (double)filters[e] / (40 * 24 * 9);
    }
    assert_true(fabs(squares * 3 * 24 * 9 - 1) < 0.05); /* uniform within 1 / sqrt(24 * 9) */
    free(filters);
    float *head = values_of(model, "head.weight", &count);
    for (size_t e = 0; e < count; e++) sum += (double)head[e] / (double)count;
    squares = 0;
    for (size_t e = 0; e < count; e++)
        squares += ((double)head[e] - sum) * ((double)head[e] - sum) / ((double)count - 1);
    assert_true(fabs(squares - 1) < 1e-5);
    free(head);
    float *scale = values_of(model, "layers.3.norm2.weight", &count);
    for (size_t e = 0; e < count; e++) assert_true(scale[e] == 1);
    free(scale);
    static const char *const frozen[] = {"whiten.weight", "layers.1.norm1.weight"};
    for (int i = 0; i < 2; i++)
        assert_false(ff_model_parameter(model, ff_model_find(model, frozen[i]))->trained);
    assert_true(ff_model_parameter(model, ff_model_find(model, "whiten.bias"))->trained);
    ff_model_destroy(&model);
}

/* Two fresh models train to the same bits; a smaller plan shares their parameters. */
static void training_repeats(void **state) {
    (void)state;
    enum { BATCH = 24, SIDE = 28, TAIL = 7 };
    dice d = {.seed = 33};
    float *images = random_floats(&d, BATCH * SIDE * SIDE), *kept = NULL;
    int32_t labels[BATCH];
    for (int i = 0; i < BATCH; i++) labels[i] = i % 10;
    const ff_hyper sgd = {.momentum = 0.9, .weight_decay = 5e-4, .nesterov = true};
    const double rate = 0.1;
    const ff_step_options how = {.update.groups = &sgd,
                                 .update.group_count = 1,
                                 .update.rates = &rate,
                                 .update.rate_steps = 1,
                                 .send_steps = 1};
    const ff_batch batch = {.images = images, .labels = labels, .label_dtype = FF_I32};
    for (int run = 0; run < 2; run++) {
        ff_model *model;
        ff_plan *tail, *evaluation;
        ff_model_options options = options_of("smallnet", 1, SIDE, BATCH);
        options.label_smoothing = 0.1;
        assert_ok(ff_model_create(&model, &options, error));
        assert_ok(ff_model_plan(model, TAIL, true, &tail, error));
        assert_ok(ff_model_plan(model, BATCH, false, &evaluation, error));
        assert_int_equal(ff_plan_batch(tail), TAIL);
        ff_step *step;
        const ff_outcome *outcomes;
        ff_outcome result;
        uint32_t found;
        double first = 0;
        assert_ok(ff_step_create(&step, model, &how, error));
        for (int i = 0; i < 12; i++) {
            ff_plan *plan = i % 3 == 2 ? tail : ff_model_training_plan(model);
            assert_ok(ff_step_run(step, plan, &batch, error));
            assert_ok(ff_step_outcomes(step, true, &outcomes, &found, error));
            assert_int_equal(found, 1);
            assert_int_equal(outcomes->count, i % 3 == 2 ? TAIL : BATCH);
            if (i == 0) first = outcomes->loss_sum;
        }
        assert_ok(ff_step_gradients(step, ff_model_training_plan(model), &batch, &result, error));
        assert_true(result.loss_sum < first);
        ff_step_destroy(&step);
        assert_int_equal(run_plan(evaluation, &batch, false).count, BATCH);
        const int index = ff_model_find(model, "conv2.weight");
        const size_t count = ff_model_parameter(model, index)->count;
        float *weights = floats(count);
        ff_model_get(model, index, FF_PART_VALUE, weights);
        if (run) assert_memory_equal(kept, weights, count * sizeof *weights);
        free(kept);
        kept = weights;
        int64_t tracked;
        ff_model_get(model, ff_model_find(model, "bn1.num_batches_tracked"), FF_PART_VALUE,
                     &tracked);
        assert_int_equal(tracked, 13);
        ff_model_destroy(&model);
    }
    free(kept);
    free(images);
}

/* The mean loss with `by` times `way` added to a parameter whose values are `at`. */
static double moved(ff_step *step, ff_model *model, int p, const float *at, const float *way,
                    double by, const ff_batch *batch) {
    const size_t count = ff_model_parameter(model, p)->count;
    float *values = floats(count);
    ff_outcome outcome;
    for (size_t e = 0; e < count; e++) values[e] = (float)((double)at[e] + by * (double)way[e]);
    ff_model_set(model, p, FF_PART_VALUE, values);
    assert_ok(ff_step_gradients(step, ff_model_training_plan(model), batch, &outcome, error));
    ff_model_set(model, p, FF_PART_VALUE, at);
    free(values);
    return outcome.loss_sum / (double)outcome.count;
}

/* A step without its update gives gradients that match the loss's slope in their direction, and a
 * whole step with a learning rate of 1 subtracts exactly these. */
static void updates_get_the_gradients(void **state) {
    (void)state;
    enum { BATCH = 6, SIDE = 12 };
    static const double rate = 1, by = 2e-3;
    const ff_hyper sgd = {0};
    const ff_step_options how = {.update.groups = &sgd,
                                 .update.group_count = 1,
                                 .update.rates = &rate,
                                 .update.rate_steps = 1};
    dice d = {.seed = 34};
    float *images = random_floats(&d, BATCH * SIDE * SIDE);
    const int32_t labels[BATCH] = {1, 7, 0, 3, 3, 9};
    const ff_batch batch = {.images = images, .labels = labels, .label_dtype = FF_I32};
    for (int i = 0; ff_compute_implementation(i); i++) {
        ff_model *model;
        ff_step *step;
        ff_outcome outcome;
        ff_model_options options = options_of("smallnet", 1, SIDE, BATCH);
        options.dropout = 0.25;
        options.compute = ff_compute_implementation(i)->name;
        assert_ok(ff_model_create(&model, &options, error));
        assert_ok(ff_step_create(&step, model, &how, error));
        ff_plan *plan = ff_model_training_plan(model);
        const ff_store *store = ff_model_store(model);
        for (int p = 0; p < ff_model_parameter_count(model); p++) {
            const ff_parameter *parameter = ff_model_parameter(model, p);
            if (!parameter->trained) continue;
            float *at = floats(parameter->count), *gradient = floats(parameter->count);
            double length = 0;
            assert_ok(ff_step_gradients(step, plan, &batch, &outcome, error));
            ff_model_get(model, p, FF_PART_VALUE, at);
            ff_model_get(model, p, FF_PART_GRADIENT, gradient);
            for (size_t e = 0; e < parameter->count; e++)
                length += (double)gradient[e] * (double)gradient[e];
            length = sqrt(length);
            const double slope = (moved(step, model, p, at, gradient, by / length, &batch) -
                                  moved(step, model, p, at, gradient, -by / length, &batch)) /
                                 (2 * by);
            if (!(fabs(slope - length) < 0.02 * length + 1e-3))
                print_message("%s: %g, not %g\n", parameter->name, length, slope);
            assert_true(fabs(slope - length) < 0.02 * length + 1e-3);
            free(at);
            free(gradient);
        }
        const size_t count = store->trained_count;
        float *before = floats(count), *gradients = floats(count);
        assert_ok(ff_step_gradients(step, plan, &batch, &outcome, error));
        memcpy(before, store->values, count * sizeof *before);
        memcpy(gradients, store->gradients, count * sizeof *gradients);
        assert_ok(ff_step_run(step, plan, &batch, error));
        for (size_t e = 0; e < count; e++)
            assert_true(store->values[e] == before[e] - gradients[e]);
        free(before);
        free(gradients);
        ff_step_destroy(&step);
        ff_model_destroy(&model);
    }
    free(images);
}

/* In torchvision's Sequential a convolution, its norm and ReLU take three places, a pooling one. */
static void vgg_counts_as_torchvision(void **state) {
    (void)state;
    ff_model *model;
    const ff_model_options options = options_of("vgg16_bn", 3, 32, 1);
    assert_ok(ff_model_create(&model, &options, error));
    static const char *const names[] = {"features.3.weight", "features.4.running_mean",
                                        "features.7.bias", "features.40.weight",
                                        "features.41.num_batches_tracked"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (ff_model_find(model, names[i]) < 0) fail_msg("no %s", names[i]);
    ff_model_destroy(&model);
}

/* A model's row of defaults is found by its name, too; a model without one has the usual row. */
static void every_model_has_a_recipe(void **state) {
    (void)state;
    for (int i = 0; ff_model_name(i); i++) {
        const ff_recipe *recipe = ff_recipe_of(ff_model_name(i));
        assert_true(recipe->epochs > 0 && recipe->batch > 0 && recipe->augment);
        if (!recipe->model) continue;
        assert_string_equal(recipe->model, ff_model_name(i));
        assert_ptr_equal(ff_recipe_named(recipe->name), recipe);
    }
}

static void refused(ff_model_options options, const char *word) {
    ff_error failure = {0};
    ff_model *model;
    assert_int_equal(ff_model_create(&model, &options, &failure), FF_USAGE);
    assert_null(model);
    if (!strstr(failure.message, word)) print_message("%s\n", failure.message);
    assert_non_null(strstr(failure.message, word));
}

static void models_refuse(void **state) {
    (void)state;
    refused(options_of("smallnot", 1, 28, 8), "smallnet, cifarnet, resnet18, resnet34, resnet50");
    refused(options_of("vgg16_bn", 3, 31, 8), "features.43");
    refused(options_of("cifarnet", 3, 16, 8), "pool");
    refused(options_of("smallnet", 1, 1, 8), "pool");
    refused(options_of("smallnet", 0, 28, 8), "channels");
    refused(options_of("smallnet", 1, 28, 0), "batch");
    refused(options_of("resnet18", 3, 8, 1), "layer4.0.bn1");
    ff_model_options options = options_of("smallnet", 1, 28, 8);
    options.stem = FF_STEM_IMAGENET;
    refused(options, "stem");
    options = options_of("smallnet", 1, 28, 8);
    options.classes = 0;
    refused(options, "classes");
    options = options_of("smallnet", 1, 28, 8);
    options.label_smoothing = 1;
    refused(options, "smoothing");
    options = options_of("resnet18", 3, 32, 8);
    options.dropout = 0.5;
    refused(options, "dropout");
    options = options_of("smallnet", 1, 28, 8);
    options.compute = "abacus";
    refused(options, "abacus");
    ff_model *nothing = NULL;
    ff_model_destroy(&nothing);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resnet18_has_torchvisions_parameters),
        cmocka_unit_test(parameters_have_their_places),
        cmocka_unit_test(initial_values_are_torchvisions),
        cmocka_unit_test(cifarnet_begins_as_its_source),
        cmocka_unit_test(training_repeats),
        cmocka_unit_test(updates_get_the_gradients),
        cmocka_unit_test(vgg_counts_as_torchvision),
        cmocka_unit_test(every_model_has_a_recipe),
        cmocka_unit_test(models_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
