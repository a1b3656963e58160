#include "train/trainer_parts.h"

#include "loader/device/absent.h"
#include "train/compute.h"
#include "train/trainer_updates.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the model and its plans ---- */

/* Plans without the gradients that nothing is learned from any more. */
static ff_status plan_settled(ff_recipe *recipe, ff_error *error) {
    bool *settled;
    FF_TRY(ff_alloc(&settled, (uint64_t)ff_model_parameter_count(recipe->model), sizeof *settled,
                    "the recipe", error));
    recipe->settled_step = ff_recipe_settled(recipe, settled);
    ff_status status = FF_OK;
    if (recipe->settled_step < ff_recipe_total_steps(recipe))
        status = ff_model_plan_without(recipe->model, (int)recipe->batch, settled,
                                       &recipe->settled_plan, error);
    if (status == FF_OK && recipe->settled_plan && recipe->last_count)
        status = ff_model_plan_without(recipe->model, (int)recipe->last_count, settled,
                                       &recipe->settled_last_plan, error);
    free(settled);
    return status;
}

ff_plan *ff_recipe_plan(const ff_recipe *recipe, uint64_t step, uint32_t count) {
    const bool settled = recipe->settled_plan && step >= recipe->settled_step;
    if (count == (uint32_t)recipe->batch)
        return settled ? recipe->settled_plan : recipe->train_plan;
    return settled ? recipe->settled_last_plan : recipe->last_plan;
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
        .device = recipe->device,
        .memory = recipe->counted,
        .precision = recipe->precision,
        .deterministic = options->deterministic,
    };
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
    FF_TRY(plan_settled(recipe, error));
    if (!recipe->val_batch) return FF_OK;
    FF_TRY(ff_model_plan(recipe->model, (int)recipe->val_batch, false, &recipe->val_plan, error));
    return ff_plan_set_views(recipe->val_plan, recipe->views, error);
}

/* ---- batches ---- */

static ff_status build_feed(const ff_recipe *recipe, const ff_recipe_options *options,
                            const ff_loader_options *loader, ff_dataset *set, ff_feed **feed,
                            ff_error *error) {
    const ff_feed_options how = {
        .loader = *loader,
        .compute = ff_model_compute(recipe->model),
        .kernels =
            options->planned ? options->planned_kernels : ff_machine_kernels(recipe->machine),
        .placement = options->placement,
        .quiet = options->quiet,
    };
    ff_status status = ff_feed_create(feed, set, &how, error);
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "%s", ff_dataset_path(set));
}

static ff_status build_feeds(ff_recipe *recipe, const ff_recipe_options *options, ff_error *error) {
    ff_splits *splits = &recipe->splits;
    ff_loader_options loader = ff_loader_defaults();
    loader.dtype = FF_F32;
    loader.layout = ff_model_input_layout(recipe->model);
    loader.height = splits->height;
    loader.width = splits->width;
    loader.label = &splits->label;
    loader.label_count = 1;
    loader.seed = recipe->seed;
    loader.threads = recipe->workers;

    ff_loader_options train = loader;
    train.batch = (uint64_t)recipe->batch;
    train.last_batch = recipe->last_count ? FF_LAST_BATCH_KEEP : FF_LAST_BATCH_DROP;
    train.order = recipe->order;
    train.epochs = recipe->epochs;
    train.augment = recipe->augment;
    recipe->train_input = train;
    FF_TRY(build_feed(recipe, options, &train, splits->train, &recipe->train_feed, error));
    if (!splits->val) return FF_OK;

    ff_loader_options val = loader;
    val.batch = (uint64_t)recipe->val_batch;
    val.last_batch = FF_LAST_BATCH_KEEP;
    val.order = FF_ORDER_SEQUENTIAL;
    val.epochs = 0;
    val.augment.resize = splits->val_resize;
    return build_feed(recipe, options, &val, splits->val, &recipe->val_feed, error);
}

/* ---- the step ---- */

ff_status ff_recipe_make_step(ff_recipe *recipe, const ff_recipe_options *options, bool learns,
                              ff_step **step, ff_error *error) {
    const uint64_t steps = learns ? ff_recipe_total_steps(recipe) : 1;
    const uint64_t groups = (uint64_t)recipe->group_count;
    const bool unified = ff_model_compute(recipe->model)->device->table->unified;
    ff_sgd sgd[FF_RECIPE_GROUPS];
    double *rates;
    if (steps > FF_RECIPE_STEPS)
        return ff_fail(error, FF_USAGE, "a run of %" PRIu64 " steps; up to %d are possible", steps,
                       FF_RECIPE_STEPS);
    FF_TRY(ff_alloc(&rates, groups * steps, sizeof *rates, "learning rates", error));
    const bool counted = ff_device_is_absent(ff_model_compute(recipe->model)->device);
    for (uint64_t i = 0; learns && !counted && i < steps; i++) {
        ff_recipe_steps(recipe, i, sgd);
        for (uint64_t g = 0; g < groups; g++) rates[g * steps + i] = sgd[g].learning_rate;
    }
    ff_recipe_steps(recipe, 0, sgd);
    const ff_step_options how = {
        .groups = sgd,
        .group_count = recipe->group_count,
        .rates = rates,
        .rate_steps = steps,
        .loss_scale = recipe->loss_scale,
        .scale_interval = recipe->scale_moves ? FF_RECIPE_SCALE_STEPS : 0,
        .record = !options->no_graph,
        /* On the CPU a step is done when it was given. */
        .report_steps = unified ? 1 : 0,
        .make_batch = learns ? ff_feed_make : NULL,
        .context = recipe->train_feed,
    };
    ff_status status = ff_step_create(step, recipe->model, &how, error);
    free(rates);
    return status;
}

/* The compute threads use every CPU, and filling batches is a small part of the work: one thread
 * that does it beside them loses less at their barriers than filling between the steps costs
 * (smallnet on two CPUs: 24,900 samples/s with one, 23,100 without). */
static int choose_workers(int64_t given, int threads) {
    if (given >= 0) return (int)given;
    return threads / 8 + 1;
}

/* ---- all of it ---- */

static ff_status build(ff_recipe *recipe, ff_error *error) {
    const ff_recipe_options *options = recipe->options;
    FF_TRY(build_model(recipe, options, error));
    recipe->workers = choose_workers(options->workers, ff_model_threads(recipe->model));
    FF_TRY(build_feeds(recipe, options, error));
    return ff_recipe_make_step(recipe, options, true, &recipe->step, error);
}

void ff_recipe_drop_parts(ff_recipe *recipe) {
    ff_step_destroy(&recipe->step);
    ff_feed_destroy(&recipe->train_feed);
    ff_feed_destroy(&recipe->val_feed);
    ff_model_destroy(&recipe->model);
    recipe->train_plan = recipe->last_plan = recipe->val_plan = NULL;
    recipe->settled_plan = recipe->settled_last_plan = NULL;
    ff_device_destroy(&recipe->counted);
    ff_planned_device_close(&recipe->stand_in);
}

/* In place of the device that the parts are for. */
static ff_status begin_count(ff_recipe *recipe, ff_error *error) {
    if (recipe->options->planned) return FF_OK;
    if (!recipe->device) return ff_device_absent_create(&recipe->counted, UINT64_MAX, true, error);
    FF_TRY(ff_planned_device_of(&recipe->stand_in, recipe->machine, error));
    recipe->device = ff_planned_device_model(recipe->stand_in);
    return FF_OK;
}

/* Built counted first, by the same calls: a run that does not fit says so before it takes any
 * memory, and a dry run ends there. */
ff_status ff_recipe_build_parts(ff_recipe *recipe, ff_error *error) {
    const ff_recipe_options *options = recipe->options;
    FF_TRY(begin_count(recipe, error));
    FF_TRY(build(recipe, error));
    FF_TRY(ff_needs_of(&recipe->needs, recipe, error));
    if (options->counts || options->planned) return FF_OK;
    FF_TRY(ff_needs_check(recipe, error));
    ff_recipe_drop_parts(recipe);
    recipe->device = ff_machine_device(recipe->machine);
    return build(recipe, error);
}
