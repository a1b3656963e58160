/* An evaluation counts each labelled sample exactly once, whatever the batch. */
#include "tests/unit/format_set.h"

#include "train/evaluate.h"
#include "train/recipe.h"

enum { SAMPLES = 101, CLASSES = 5 };

static char *make_set(void) {
    char *folder = new_folder();
    set_spec spec = {.dtype = FF_U8,
                     .layout = FF_CHW,
                     .channels = 3,
                     .height = 19,
                     .width = 17,
                     .alignment = 64,
                     .items = SAMPLES,
                     .labels = LABELS_CLASS,
                     .seed = 5};
    ff_writer_result result;
    set_write(&spec, folder, &result);
    return folder;
}

static void evaluate(ff_recipe *recipe, int batch, int workers, ff_evaluation *result) {
    ff_plan *plan;
    ff_loader *loader;
    ff_loader_options options = ff_loader_defaults();
    options.batch = (uint64_t)batch;
    options.last_batch = FF_LAST_BATCH_KEEP;
    options.order = FF_ORDER_SEQUENTIAL;
    options.layout = ff_model_input_layout(recipe->model);
    options.threads = workers;
    OK(ff_model_plan(recipe->model, batch, false, &plan, &test_error));
    OK(ff_loader_create(&loader, recipe->splits.train, &options, &test_error));
    /* Twice: the second pass begins where the first one ended. */
    OK(ff_evaluate(plan, loader, result, &test_error));
    ff_evaluation again;
    OK(ff_evaluate(plan, loader, &again, &test_error));
    assert_true(again.loss == result->loss && again.count == result->count);
    ff_loader_destroy(&loader);
}

static void counts_each_sample_once(void **state) {
    (void)state;
    char *folder = make_set();
    ff_recipe_options options = ff_recipe_default_options();
    options.data = folder;
    options.model = "smallnet";
    options.compute = "reference";
    options.threads = 1;
    options.batch = 16;
    ff_recipe *recipe;
    OK(ff_recipe_create(&recipe, &options, &test_error));
    int64_t labelled = 0;
    for (uint64_t i = 0; i < SAMPLES; i++) {
        int64_t value;
        OK(ff_dataset_class(recipe->splits.train, i, 0, &value, &test_error));
        labelled += value >= 0;
    }
    assert_true(labelled > 0 && labelled < SAMPLES);
    ff_evaluation whole, part;
    evaluate(recipe, SAMPLES, 0, &whole);
    assert_int_equal(whole.count, labelled);
    static const int batches[] = {1, 7, 64, 100, SAMPLES, 128};
    for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++) {
        evaluate(recipe, batches[i], (int)(i % 3), &part);
        assert_int_equal(part.count, labelled);
        assert_true(part.accuracy == whole.accuracy);
        double difference = part.loss - whole.loss;
        assert_true(difference < 1e-6 && difference > -1e-6);
    }
    ff_recipe_destroy(&recipe);
    remove_folder(folder);
}

static void resolves_what_is_left_out(void **state) {
    (void)state;
    char *folder = make_set();
    ff_recipe_options options = ff_recipe_default_options();
    options.data = options.val = folder;
    options.model = "smallnet";
    options.compute = "reference";
    options.threads = 1;
    options.epochs = 3;
    options.batch = 25;
    options.last_batch = FF_LAST_BATCH_KEEP;
    options.learning_rate = 0.5;
    options.warmup_epochs = 0.4;
    ff_recipe *recipe;
    OK(ff_recipe_create(&recipe, &options, &test_error));
    assert_int_equal(recipe->batches, 5);
    assert_int_equal(recipe->last_count, 1);
    assert_int_equal(recipe->dropped, 0);
    assert_int_equal(recipe->groups[0].schedule.total_steps, 15);
    assert_int_equal(recipe->groups[0].schedule.warmup_steps, 2);
    assert_true(recipe->groups[0].schedule.peak == 0.5);
    assert_int_equal(recipe->splits.classes, CLASSES);
    assert_non_null(recipe->val_plan);
    ff_recipe_destroy(&recipe);
    assert_null(recipe);

    options.last_batch = FF_LAST_BATCH_DROP;
    OK(ff_recipe_create(&recipe, &options, &test_error));
    assert_int_equal(recipe->batches, 4);
    assert_int_equal(recipe->dropped, 1);
    assert_null(recipe->last_plan);
    ff_recipe_destroy(&recipe);

    options.batch = 4096;
    OK(ff_recipe_create(&recipe, &options, &test_error));
    assert_int_equal(recipe->batches, 1);
    assert_int_equal(recipe->batch, SAMPLES);
    assert_int_equal(recipe->val_batch, SAMPLES);
    ff_recipe_destroy(&recipe);

    options.warmup_epochs = 3.5;
    FAILS(ff_recipe_create(&recipe, &options, &test_error), FF_USAGE, "--warmup: 3.5 epochs");
    assert_null(recipe);
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_each_sample_once),
        cmocka_unit_test(resolves_what_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
