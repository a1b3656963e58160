#include "train/trainer/trainer.h"

#include "format/base/memory.h"
#include "format/cli/nearest.h"
#include "train/checkpoint/weights.h"
#include "train/sets/class_weights.h"
#include "train/trainer/batches.h"
#include "train/trainer/parts.h"
#include "train/trainer/updates.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ff_trainer_options ff_trainer_options_counting(const ff_trainer_options *options) {
    ff_trainer_options counting = *options;
    counting.counts = true;
    counting.tuning = NULL;
    counting.measures_disk = false;
    return counting;
}

/* `given` is unknown, or NULL; `what` as in "model". */
static ff_status refuse_name(const char *what, const char *given, const char *(*name)(int),
                             ff_error *error) {
    ff_buffer known = {0};
    ff_nearest nearest = {.wanted = given ? given : "", .length = given ? strlen(given) : 0};
    ff_status status;
    for (int i = 0; name(i); i++) {
        ff_nearest_offer(&nearest, name(i));
        FF_TRY_DONE(ff_buffer_printf(&known, error, "%s%s", i ? ", " : "", name(i)));
    }
    if (!given)
        status =
            ff_fail(error, FF_USAGE, "--%s is missing; the %ss are %s", what, what, known.bytes);
    else if (nearest.name)
        status = ff_fail(error, FF_USAGE, "--%s: '%s' is unknown; did you mean %s? The %ss are %s",
                         what, given, nearest.name, what, known.bytes);
    else
        status = ff_fail(error, FF_USAGE, "--%s: '%s' is unknown; the %ss are %s", what, given,
                         what, known.bytes);
done:
    ff_buffer_free(&known);
    return status;
}

/* Checks the recipe, if there is one, and the model, from the recipe or the option. */
static ff_status check_recipe(const ff_trainer_options *options, ff_error *error) {
    if (!options->recipe) {
        for (int i = 0; options->model && ff_model_name(i); i++)
            if (strcmp(options->model, ff_model_name(i)) == 0) return FF_OK;
        return refuse_name("model", options->model, ff_model_name, error);
    }
    const ff_recipe *row = ff_recipe_named(options->recipe);
    if (!row) return refuse_name("recipe", options->recipe, ff_recipe_name, error);
    if (!options->model || strcmp(options->model, row->model) == 0) return FF_OK;
    return ff_fail(error, FF_USAGE, "--recipe %s trains %s, not --model %s", row->name, row->model,
                   options->model);
}

/* Checks that need only the options. */
static ff_status check_options(const ff_trainer_options *options, ff_error *error) {
    if (!options->data)
        return ff_fail(error, FF_USAGE, "--data is missing; it names the packed training set");
    FF_TRY(check_recipe(options, error));
    if (options->nesterov && options->no_nesterov)
        return ff_fail(error, FF_USAGE, "--nesterov and --no-nesterov exclude each other");
    if (options->reproducible && options->batch == FF_BATCH_AUTO)
        return ff_fail(error, FF_USAGE,
                       "--reproducible: --batch auto depends on the machine; set a number");
    if (options->nesterov && options->hyper.momentum == 0)
        return ff_fail(error, FF_USAGE, "--nesterov needs a --momentum above 0");
    return FF_OK;
}

static uint32_t chosen_padding(const ff_trainer *trainer) {
    const ff_splits *splits = &trainer->splits;
    const ff_metadata *train = ff_dataset_metadata(splits->train);
    if (trainer->augment.resize) return 0;
    return ff_augment_usual_pad(train->height, train->width, splits->height, splits->width);
}

/* Keeps the words that set the size of inputs, and leaves out all others, which make inputs
 * vary. */
static void fix_inputs(ff_trainer *trainer) {
    const ff_augment_spec *given = &trainer->augment;
    trainer->augment = (ff_augment_spec){
        .resize = given->resize,
        .rrc = given->rrc,
        .scale = {given->scale[0], given->scale[1]},
        .ratio = {given->ratio[0], given->ratio[1]},
    };
    trainer->pad_chosen = false;
}

static ff_status resolve_augment(ff_trainer *trainer, const ff_trainer_options *options,
                                 const ff_recipe *recipe, ff_error *error) {
    const ff_splits *splits = &trainer->splits;
    trainer->is_small = splits->height <= FF_RECIPE_SMALL && splits->width <= FF_RECIPE_SMALL;
    trainer->augment_chosen = options->augment == NULL;
    const char *text = options->augment;
    if (!text) text = trainer->is_small ? recipe->augment_small : recipe->augment;
    if (!options->augment) FF_TRY(ff_augment_parse(&trainer->augment, text, error));
    trainer->pad_chosen = ff_augment_chooses_pad(text);
    if (trainer->pad_chosen) trainer->augment.pad = chosen_padding(trainer);
    if (options->overfit) fix_inputs(trainer);
    ff_augment_text(&trainer->augment, trainer->augment_text);

    const ff_metadata *train = ff_dataset_metadata(splits->train);
    ff_status status = ff_augment_check(&trainer->augment, train->height, train->width,
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

/* The augmentation for images of another size, whose short side is `ratio` times as long: crops and
 * cutouts cover the same part of a sample. A resized sample is not padded: it is resized to what
 * the padded one would be. */
static ff_augment_spec scaled(const ff_augment_spec *spec, const ff_metadata *train, double ratio) {
    const uint32_t side = train->height < train->width ? train->height : train->width;
    ff_augment_spec made = *spec;
    if (ratio == 1) return made;
    made.cutout = (uint32_t)(spec->cutout * ratio + 0.5);
    if (spec->rrc) return made;
    const uint32_t from = spec->resize ? spec->resize : side + 2 * spec->pad;
    made.resize = (uint32_t)(from * ratio + 0.5);
    made.pad = 0;
    made.pad_mode = FF_PAD_BLACK;
    return made;
}

static ff_status resolve_sizes(ff_trainer *trainer, const ff_trainer_options *options,
                               ff_error *error) {
    const ff_splits *splits = &trainer->splits;
    const ff_metadata *train = ff_dataset_metadata(splits->train);
    const uint32_t whole = splits->height < splits->width ? splits->height : splits->width;
    ff_sizes sizes;
    FF_TRY(ff_sizes_parse(&sizes, options->sizes, whole, error));
    for (int i = 0; i < sizes.count && sizes.epoch[i] < trainer->epochs; i++) {
        uint32_t height = splits->height, width = splits->width;
        ff_augment_resized(sizes.side[i], &height, &width);
        const ff_augment_spec augment =
            scaled(&trainer->augment, train, (double)sizes.side[i] / whole);
        FF_TRY(ff_augment_check(&augment, train->height, train->width, height, width, error));
        trainer->sizes[i] =
            (ff_trainer_size){.epoch = sizes.epoch[i], .height = height, .width = width};
        trainer->input_sizes[i] = (ff_loader_size){sizes.epoch[i], height, width, augment};
        trainer->size_count = i + 1;
    }
    if (trainer->size_count < sizes.count) trainer->size_late = sizes.epoch[trainer->size_count];
    return FF_OK;
}

/* A run made before groups depended on the memory resumes with the groups that every set had then.
 */
static void resolve_blocks(ff_trainer *trainer, const ff_trainer_options *options) {
    trainer->block = (uint64_t)options->block;
    trainer->group = (uint64_t)options->group;
    trainer->machines = (uint32_t)options->machines;
    if (options->order == FF_ORDER_BLOCK && options->first_step && !options->group)
        trainer->group = FF_ORDER_GROUP;
}

/* ---- the machine and its precision ---- */

static ff_status check_precision(const ff_trainer *trainer, const char *compute, ff_error *error) {
    ff_error why;
    if (ff_compute_allows(compute, trainer->precision, &why) == FF_OK) return FF_OK;
    return ff_fail(error, FF_USAGE, "--precision %s: %s (device: %s)",
                   ff_precision_name(trainer->precision), why.message,
                   ff_machine_text(trainer->machine));
}

static ff_status open_machine(ff_trainer *trainer, const ff_trainer_options *options,
                              ff_error *error) {
    const bool chosen = options->compute && strcmp(options->compute, "auto") != 0;
    /* --compute names an implementation on the CPU. */
    const char *device = options->device ? options->device : "cpu";
    if (chosen && strcmp(device, "auto") == 0) device = "cpu";
    if (chosen && strcmp(device, "cpu") != 0)
        return ff_fail(error, FF_USAGE, "--compute %s is for the CPU; it excludes --device %s",
                       options->compute, device);
    if (options->planned) device = "cpu"; /* planning needs no GPU */
    const ff_machine_options machine = {
        .device = device,
        .local_rank = ff_job_local_rank(options->job),
        .plan_cache = options->plan_cache,
        .tune_seconds = options->tune_seconds,
        .no_fold = options->no_fold,
        .tuning = options->tuning,
        .verbose = options->verbose,
    };
    FF_TRY(ff_machine_open(&trainer->machine, &machine, error));
    trainer->device = options->planned ? options->planned : ff_machine_device(trainer->machine);
    const bool cpu = !trainer->device;
    trainer->precision = cpu ? FF_PRECISION_F32 : FF_PRECISION_F16;
    if (options->precision && !ff_precision_is_auto(options->precision))
        FF_TRY(ff_precision_read(options->precision, &trainer->precision, error));
    if (cpu) FF_TRY(check_precision(trainer, chosen ? options->compute : NULL, error));
    if (!cpu && options->reproducible)
        return ff_fail(error, FF_USAGE,
                       "--reproducible: gradients of GPUs are summed in NCCL's order; it is for "
                       "the CPU, --device cpu");
    if (cpu && options->placement != FF_PLACEMENT_AUTO)
        return ff_fail(error, FF_USAGE,
                       "--placement %s: placements are for GPUs; the CPU maps the set (device: %s)",
                       ff_placement_name(options->placement), ff_machine_text(trainer->machine));
    if (options->loss_scale > 0 && ff_precision_dtype(trainer->precision) == FF_F32)
        return ff_fail(error, FF_USAGE, "--loss-scale: %s needs no scale; it is for f16 and bf16",
                       ff_precision_name(trainer->precision));
    return FF_OK;
}

static void resolve_loss_scale(ff_trainer *trainer, const ff_trainer_options *options,
                               const ff_recipe *recipe) {
    const bool chosen = options->loss_scale < 0;
    const double own = trainer->precision == FF_PRECISION_F16 ? recipe->loss_scale : 0;
    trainer->scale_moves = chosen && trainer->precision == FF_PRECISION_F16 && own == 0;
    trainer->loss_scale = trainer->scale_moves ? FF_TRAINER_LOSS_SCALE
                          : chosen             ? own
                                               : options->loss_scale;
}

/* Weights decide the form of the net if the user does not. A checkpoint's recipe records it. */
static ff_status resolve_stem(ff_trainer *trainer, const ff_trainer_options *options,
                              ff_error *error) {
    const ff_splits *splits = &trainer->splits;
    ff_weights_net net = {.channels = splits->channels,
                          .height = splits->height,
                          .width = splits->width,
                          .classes = splits->classes};
    ff_weights_form form;
    trainer->stem = options->stem;
    if (options->stem != FF_STEM_AUTO || !options->weights || options->first_step) return FF_OK;
    snprintf(net.model, sizeof net.model, "%s", trainer->model_name);
    const ff_model_options model = ff_weights_net_model(&net);
    const ff_status status = ff_weights_read_form(&form, options->weights, &model, error);
    if (status != FF_OK) return ff_fail_within(error, status, "--weights");
    trainer->stem = form.stem;
    trainer->stem_of_weights = form.stem != FF_STEM_AUTO;
    return FF_OK;
}

static const ff_recipe *recipe_of(const ff_trainer_options *options) {
    return options->recipe ? ff_recipe_named(options->recipe) : ff_recipe_of(options->model);
}

static ff_status build(ff_trainer *trainer, const ff_trainer_options *options, ff_error *error) {
    FF_TRY(check_options(options, error));
    const ff_recipe *recipe = recipe_of(options);
    if (options->augment) FF_TRY(ff_augment_parse(&trainer->augment, options->augment, error));
    ff_splits_options splits = {.data = options->data,
                                .val = options->val,
                                .label = options->label,
                                .subset = options->subset,
                                .fold = options->fold,
                                .sample_weights = options->sample_weights,
                                .no_replacement = options->no_replacement,
                                .samples_per_epoch = (uint64_t)options->samples_per_epoch,
                                .shares = options->shares,
                                .shares_of_batch = options->shares_of != 0,
                                .verify = options->verify,
                                .began_data = options->began_data,
                                .began_val = options->began_val,
                                .crop = (uint32_t)options->crop,
                                .augment = &trainer->augment,
                                .val_resize = (uint32_t)options->val_resize};
    FF_TRY(ff_splits_open(&trainer->splits, &splits, error));
    FF_TRY(ff_class_weights_read(&trainer->class_weights, &trainer->splits, options->class_weights,
                                 error));
    if (options->overfit) ff_dataset_close(&trainer->splits.val);
    const ff_splits *sets = &trainer->splits;
    trainer->train_count = ff_splits_count(sets->train, &sets->train_selected);
    if (options->samples_per_epoch > 0) trainer->train_count = (uint64_t)options->samples_per_epoch;
    trainer->val_count = sets->val ? ff_splits_count(sets->val, &sets->val_selected) : 0;
    trainer->model_name = options->model ? options->model : recipe->model;
    trainer->recipe_name = recipe->name;
    trainer->seed = (uint64_t)options->seed;
    trainer->order = options->order;
    resolve_blocks(trainer, options);
    trainer->verify = options->verify;
    FF_TRY(resolve_augment(trainer, options, recipe, error));
    FF_TRY(ff_trainer_resolve_batches(trainer, options, recipe, error));
    FF_TRY(ff_trainer_resolve_updates(trainer, options, recipe, error));
    FF_TRY(resolve_sizes(trainer, options, error));
    FF_TRY(resolve_stem(trainer, options, error));
    if (options->first_step > ff_trainer_total_steps(trainer))
        return ff_fail(error, FF_USAGE,
                       "%" PRIu64 " steps are done already, more than the %" PRIu64 " of %" PRIu32
                       " epochs",
                       options->first_step, ff_trainer_total_steps(trainer), trainer->epochs);
    FF_TRY(open_machine(trainer, options, error));
    resolve_loss_scale(trainer, options, recipe);
    trainer->options = options;
    return ff_trainer_build_parts(trainer, error);
}

/* Counts a run with the recipe's batch, and others, before the trainer's own parts are built. */
static ff_status choose_batch(ff_trainer *trainer, const ff_trainer_options *options,
                              ff_error *error) {
    const ff_trainer_options counts = ff_trainer_options_counting(options);
    ff_trainer *counted;
    FF_TRY(ff_alloc(&counted, 1, sizeof *counted, "the recipe", error));
    const ff_status status = build(counted, &counts, error);
    if (status == FF_OK)
        ff_needs_choose_batch(counted, recipe_of(options)->batch, &trainer->batch_asked,
                              &trainer->batch_reason);
    ff_trainer_destroy(&counted);
    return status;
}

ff_status ff_trainer_create(ff_trainer **trainer, const ff_trainer_options *options,
                            ff_error *error) {
    FF_TRY(ff_alloc(trainer, 1, sizeof **trainer, "the recipe", error));
    ff_status status = FF_OK;
    if (options->batch == FF_BATCH_AUTO) status = choose_batch(*trainer, options, error);
    if (status == FF_OK) status = build(*trainer, options, error);
    if (status == FF_OK) return FF_OK;
    /* One rank alone may fail here; NCCL's end would wait for the others. */
    if (options->job && options->job->comm) status = ff_job_conclude(options->job, status, error);
    ff_trainer_destroy(trainer);
    return status;
}

void ff_trainer_destroy(ff_trainer **trainer) {
    if (!*trainer) return;
    ff_trainer_drop_parts(*trainer);
    ff_job_disconnect((*trainer)->options ? (*trainer)->options->job : NULL);
    ff_splits_close(&(*trainer)->splits);
    ff_machine_close(&(*trainer)->machine);
    free((*trainer)->weights_text);
    free((*trainer)->groups_given);
    free((*trainer)->groups_text);
    free((*trainer)->class_weights);
    free(*trainer);
    *trainer = NULL;
}
