#include "train/recipe.h"

#include "format/base/thread.h"
#include "train/recipe_updates.h"

#include <stdlib.h>
#include <string.h>

ff_recipe_options ff_recipe_default_options(void) {
    return (ff_recipe_options){
        .verify = FF_VERIFY_FIRST,
        .stem = FF_STEM_AUTO,
        .epochs = -1,
        .batch = -1,
        .last_batch = FF_LAST_BATCH_DROP,
        .schedule = -1,
        .learning_rate = -1,
        .warmup_epochs = -1,
        .momentum = -1,
        .weight_decay = -1,
        .label_smoothing = -1,
        .dropout = -1,
        .order = FF_ORDER_RANDOM,
        .views = -1,
        .workers = -1,
    };
}

/* The compute threads use every CPU, and filling batches is a small part of the work: one thread
 * that does it beside them loses less at their barriers than filling between the steps costs
 * (smallnet on two CPUs: 24,900 samples/s with one, 23,100 without). */
static int choose_workers(int64_t given, int threads) {
    if (given >= 0) return (int)given;
    return threads / 8 + 1;
}

static ff_status check_model_name(const char *name, ff_error *error) {
    ff_buffer known = {0};
    ff_status status = FF_OK;
    for (int i = 0; ff_model_name(i) && status == FF_OK; i++) {
        if (name && strcmp(name, ff_model_name(i)) == 0) {
            ff_buffer_free(&known);
            return FF_OK;
        }
        status = ff_buffer_printf(&known, error, "%s%s", i ? ", " : "", ff_model_name(i));
    }
    if (status == FF_OK && name)
        status = ff_fail(error, FF_USAGE, "--model: '%s' is unknown; the models are %s", name,
                         known.bytes);
    else if (status == FF_OK)
        status = ff_fail(error, FF_USAGE, "--model is missing; the models are %s", known.bytes);
    ff_buffer_free(&known);
    return status;
}

/* The recipe, where one is given, and the model, which is the recipe's or the one given. */
static ff_status check_recipe(const ff_recipe_options *options, ff_error *error) {
    if (!options->recipe) return check_model_name(options->model, error);
    const ff_recipe_defaults *row = ff_recipe_named(options->recipe);
    if (row && (!options->model || strcmp(options->model, row->model) == 0)) return FF_OK;
    if (row)
        return ff_fail(error, FF_USAGE, "--recipe %s trains %s, not --model %s", row->recipe,
                       row->model, options->model);
    ff_buffer known = {0};
    ff_status status = FF_OK;
    for (int i = 0; ff_recipe_name(i) && status == FF_OK; i++)
        status = ff_buffer_printf(&known, error, "%s%s", i ? ", " : "", ff_recipe_name(i));
    if (status == FF_OK)
        status = ff_fail(error, FF_USAGE, "--recipe: '%s' is unknown; the recipes are %s",
                         options->recipe, known.bytes);
    ff_buffer_free(&known);
    return status;
}

/* What can be told from the options alone. */
static ff_status check_options(const ff_recipe_options *options, ff_error *error) {
    if (!options->data)
        return ff_fail(error, FF_USAGE, "--data is missing; it names the packed training set");
    FF_TRY(check_recipe(options, error));
    if (options->nesterov && options->no_nesterov)
        return ff_fail(error, FF_USAGE, "--nesterov and --no-nesterov exclude each other");
    if (options->nesterov && options->momentum == 0)
        return ff_fail(error, FF_USAGE, "--nesterov needs a --momentum above 0");
    return FF_OK;
}

static ff_status resolve_augment(ff_recipe *recipe, const ff_recipe_options *options,
                                 const ff_recipe_defaults *defaults, ff_error *error) {
    const ff_splits *splits = &recipe->splits;
    bool is_small = splits->height <= FF_RECIPE_SMALL && splits->width <= FF_RECIPE_SMALL;
    recipe->augment_chosen = options->augment == NULL;
    if (recipe->augment_chosen)
        FF_TRY(ff_augment_parse(&recipe->augment,
                                is_small ? defaults->augment_small : defaults->augment, error));
    ff_augment_text(&recipe->augment, recipe->augment_text);

    const ff_metadata *train = ff_dataset_metadata(splits->train);
    ff_status status = ff_augment_check(&recipe->augment, train->height, train->width,
                                        splits->height, splits->width, error);
    if (status != FF_OK) return ff_fail_within(error, status, "%s", ff_dataset_path(splits->train));
    if (!splits->val) return FF_OK;
    const ff_metadata *val = ff_dataset_metadata(splits->val);
    const ff_augment_spec evaluation = {.resize = splits->val_resize};
    uint32_t height = val->height, width = val->width;
    if (val->variable_size) height = width = splits->val_resize;
    status = ff_augment_check(&evaluation, height, width, splits->height, splits->width, error);
    return status == FF_OK ? FF_OK
                           : ff_fail_within(error, status, "%s", ff_dataset_path(splits->val));
}

static void resolve_batches(ff_recipe *recipe, const ff_recipe_options *options,
                            const ff_recipe_defaults *defaults) {
    uint64_t count = recipe->train_count;
    recipe->batch_asked = options->batch > 0 ? options->batch : defaults->batch;
    recipe->batch = recipe->batch_asked;
    /* One batch of everything is what a loader gives in either mode; a plan of that size spares
     * batch norms the padding. */
    if ((uint64_t)recipe->batch > count) recipe->batch = (int64_t)count;
    int64_t rest = (int64_t)(count % (uint64_t)recipe->batch);
    recipe->batches = count / (uint64_t)recipe->batch;
    if (options->last_batch == FF_LAST_BATCH_KEEP && rest) {
        recipe->last_count = rest;
        recipe->batches++;
    } else {
        recipe->dropped = rest;
    }
    if (recipe->val_count)
        recipe->val_batch = (uint64_t)recipe->batch_asked < recipe->val_count
                                ? recipe->batch_asked
                                : (int64_t)recipe->val_count;
}

static ff_status build_model(ff_recipe *recipe, const ff_recipe_options *options, ff_error *error) {
    const ff_splits *splits = &recipe->splits;
    bool chosen = options->compute && strcmp(options->compute, "auto") != 0;
    ff_model_options model = {
        .name = recipe->model_name,
        .stem = options->stem,
        .channels = (int)splits->channels,
        .height = (int)splits->height,
        .width = (int)splits->width,
        .classes = (int)splits->classes,
        .batch = (int)recipe->batch,
        .threads = (int)options->threads,
        .seed = recipe->seed,
        .label_smoothing = recipe->label_smoothing,
        .summed_loss = recipe->summed_loss,
        .dropout = recipe->dropout,
        .compute = chosen ? options->compute : NULL,
        .device = options->device,
        .precision = options->precision,
        .deterministic = options->deterministic,
    };
    recipe->device = options->device;
    FF_TRY(ff_model_create(&recipe->model, &model, error));
    FF_TRY(ff_recipe_set_groups(recipe, error));
    recipe->train_plan = ff_model_training_plan(recipe->model);
    if (recipe->last_count) {
        ff_status status =
            ff_model_plan(recipe->model, (int)recipe->last_count, true, &recipe->last_plan, error);
        if (status != FF_OK)
            return ff_fail_within(error, status,
                                  "the last batch of an epoch, which --last-batch keep keeps");
    }
    if (!recipe->val_batch) return FF_OK;
    FF_TRY(ff_model_plan(recipe->model, (int)recipe->val_batch, false, &recipe->val_plan, error));
    return ff_plan_set_views(recipe->val_plan, recipe->views, error);
}

static ff_status build_loaders(ff_recipe *recipe, ff_error *error) {
    ff_splits *splits = &recipe->splits;
    ff_loader_options options = ff_loader_defaults();
    options.dtype = FF_F32;
    options.layout = ff_model_input_layout(recipe->model);
    options.height = splits->height;
    options.width = splits->width;
    options.label = &splits->label;
    options.label_count = 1;
    options.seed = recipe->seed;
    options.threads = recipe->workers;

    ff_loader_options train = options;
    train.batch = (uint64_t)recipe->batch;
    train.last_batch = recipe->last_count ? FF_LAST_BATCH_KEEP : FF_LAST_BATCH_DROP;
    train.order = recipe->order;
    train.epochs = recipe->epochs;
    train.augment = recipe->augment;
    recipe->train_input = train;
    ff_status status = ff_loader_create(&recipe->train_loader, splits->train, &train, error);
    if (status != FF_OK) return ff_fail_within(error, status, "%s", ff_dataset_path(splits->train));
    if (!splits->val) return FF_OK;

    ff_loader_options val = options;
    val.batch = (uint64_t)recipe->val_batch;
    val.last_batch = FF_LAST_BATCH_KEEP;
    val.order = FF_ORDER_SEQUENTIAL;
    val.epochs = 0;
    val.augment.resize = splits->val_resize;
    status = ff_loader_create(&recipe->val_loader, splits->val, &val, error);
    if (status != FF_OK) return ff_fail_within(error, status, "%s", ff_dataset_path(splits->val));
    return FF_OK;
}

static ff_status build(ff_recipe *recipe, const ff_recipe_options *options, ff_error *error) {
    FF_TRY(check_options(options, error));
    const ff_recipe_defaults *defaults =
        options->recipe ? ff_recipe_named(options->recipe) : ff_recipe_defaults_of(options->model);
    if (options->augment) FF_TRY(ff_augment_parse(&recipe->augment, options->augment, error));
    ff_splits_options splits = {.data = options->data,
                                .val = options->val,
                                .label = options->label,
                                .verify = options->verify,
                                .crop = (uint32_t)options->crop,
                                .augment = &recipe->augment,
                                .val_resize = (uint32_t)options->val_resize};
    FF_TRY(ff_splits_open(&recipe->splits, &splits, error));
    recipe->train_count = ff_dataset_count(recipe->splits.train);
    recipe->val_count = recipe->splits.val ? ff_dataset_count(recipe->splits.val) : 0;
    recipe->model_name = options->model ? options->model : defaults->model;
    recipe->recipe_name = defaults->recipe;
    recipe->seed = (uint64_t)options->seed;
    recipe->order = options->order;
    recipe->verify = options->verify;
    FF_TRY(resolve_augment(recipe, options, defaults, error));
    resolve_batches(recipe, options, defaults);
    FF_TRY(ff_recipe_resolve_updates(recipe, options, defaults, error));
    FF_TRY(build_model(recipe, options, error));
    recipe->workers = choose_workers(options->workers, ff_model_threads(recipe->model));
    return build_loaders(recipe, error);
}

ff_status ff_recipe_create(ff_recipe **recipe, const ff_recipe_options *options, ff_error *error) {
    FF_TRY(ff_alloc(recipe, 1, sizeof **recipe, "the recipe", error));
    ff_status status = build(*recipe, options, error);
    if (status != FF_OK) ff_recipe_destroy(recipe);
    return status;
}

void ff_recipe_destroy(ff_recipe **recipe) {
    if (!*recipe) return;
    ff_loader_destroy(&(*recipe)->train_loader);
    ff_loader_destroy(&(*recipe)->val_loader);
    ff_model_destroy(&(*recipe)->model);
    ff_splits_close(&(*recipe)->splits);
    free(*recipe);
    *recipe = NULL;
}
