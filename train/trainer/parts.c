#include "train/trainer/parts.h"

#include "format/base/thread.h"
#include "loader/device/absent.h"
#include "train/checkpoint/weights.h"
#include "train/compute/compute.h"
#include "train/net/average.h"
#include "train/trainer/updates.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the model and its plans ---- */

/* Those plans of one size that it does not have yet; settled: as of ff_trainer_settled. */
static ff_status plan_size(ff_trainer *trainer, ff_trainer_size *size, const bool *settled,
                           ff_error *error) {
    const bool settles = trainer->settled_step < ff_trainer_total_steps(trainer);
    const int64_t batches[] = {trainer->micro, trainer->last_count};
    for (int i = 0; i < (settles ? 4 : 2); i++) {
        ff_plan **plan = &size->plans[i / 2][i % 2];
        const ff_plan_options options = {.batch = (int)batches[i % 2],
                                         .height = (int)size->height,
                                         .width = (int)size->width,
                                         .training = true,
                                         .without = i / 2 ? settled : NULL};
        if (*plan || !options.batch) continue;
        const ff_status status = ff_model_plan_with(trainer->model, &options, plan, error);
        if (status != FF_OK && i % 2)
            return ff_fail_within(error, status,
                                  "the last batch of an epoch, which --last-batch keep keeps");
        FF_TRY(status);
    }
    return FF_OK;
}

static bool same_size(const ff_trainer_size *a, const ff_trainer_size *b) {
    return a->height == b->height && a->width == b->width;
}

/* All plans are made before the first step: a plan may move the memory of earlier plans. `largest`
 * has the model's training plan. */
static ff_status plan_sizes(ff_trainer *trainer, const ff_trainer_size *largest, ff_error *error) {
    bool *settled;
    ff_status status = FF_OK;
    FF_TRY(ff_alloc(&settled, (uint64_t)ff_model_parameter_count(trainer->model), sizeof *settled,
                    "the recipe", error));
    trainer->settled_step = ff_trainer_settled(trainer, settled);
    for (int i = 0; i < trainer->size_count && status == FF_OK; i++) {
        ff_trainer_size *size = &trainer->sizes[i];
        if (same_size(size, largest)) size->plans[0][0] = trainer->train_plan;
        for (int j = 0; j < i; j++)
            if (same_size(size, &trainer->sizes[j]))
                memcpy(size->plans, trainer->sizes[j].plans, sizeof size->plans);
        status = plan_size(trainer, size, settled, error);
    }
    free(settled);
    return status;
}

const ff_trainer_size *ff_trainer_size_in(const ff_trainer *trainer, uint64_t epoch) {
    int i = trainer->size_count - 1;
    while (i > 0 && epoch < trainer->sizes[i].epoch) i--;
    return &trainer->sizes[i];
}

ff_plan *ff_trainer_plan(const ff_trainer *trainer, uint64_t step, uint32_t count) {
    const ff_trainer_size *size = ff_trainer_size_in(trainer, step / trainer->batches);
    const bool settled = size->plans[1][0] && step >= trainer->settled_step;
    return size->plans[settled][count && count != (uint32_t)trainer->micro];
}

static int threads_of(const ff_trainer_options *options) {
    if (options->reproducible && !options->threads) return 1; /* the same number on any machine */
    if (options->threads || !options->job) return (int)options->threads;
    const int each = ff_cpu_count() / options->job->local_size;
    return each > 1 ? each : 1;
}

static bool syncs_norms(const ff_trainer_options *options) {
    return options->sync_bn && options->job && options->job->size > 1;
}

static ff_status build_model(ff_trainer *trainer, const ff_trainer_options *options,
                             ff_error *error) {
    const ff_splits *splits = &trainer->splits;
    const ff_trainer_size *largest = trainer->sizes;
    for (int i = 0; i < trainer->size_count; i++)
        if (trainer->sizes[i].height > largest->height) largest = &trainer->sizes[i];
    const bool in_place = options->job && trainer->accumulate == 1 && !options->reproducible;
    bool chosen = options->compute && strcmp(options->compute, "auto") != 0;
    ff_model_options model = {
        .name = trainer->model_name,
        .stem = trainer->stem,
        .channels = (int)splits->channels,
        .height = (int)splits->height,
        .width = (int)splits->width,
        .classes = (int)splits->classes,
        .batch = (int)trainer->micro,
        .share = {(uint64_t)trainer->micro_all, (uint64_t)trainer->first_row},
        .norm_ranks = syncs_norms(options) ? options->job->size : 0,
        .train_height = (int)largest->height,
        .train_width = (int)largest->width,
        .sizes = trainer->size_count,
        .threads = threads_of(options),
        .seed = trainer->seed,
        .loss = trainer->loss,
        .label_smoothing = trainer->label_smoothing,
        .class_weights = trainer->class_weights,
        .summed_loss = trainer->summed_loss,
        .sums_in_place = in_place,
        .held_norms = options->frozen_norms_train ? NULL : options->freeze,
        .dropout = trainer->dropout,
        .compute = chosen ? options->compute : NULL,
        .device = trainer->device,
        .memory = trainer->counted,
        .precision = trainer->precision,
        .deterministic = options->deterministic,
    };
    FF_TRY(ff_model_create(&trainer->model, &model, error));
    FF_TRY(ff_trainer_set_groups(trainer, error));
    if (options->reproducible)
        FF_TRY(ff_store_reserve_tree(ff_model_store(trainer->model), trainer->accumulate, error));
    else if (trainer->accumulate > 1 || options->job)
        FF_TRY(ff_store_reserve_sums(ff_model_store(trainer->model), in_place, error));
    if (trainer->ema_decay >= 0) FF_TRY(ff_average_reserve(ff_model_store(trainer->model), error));
    trainer->train_plan = ff_model_training_plan(trainer->model);
    FF_TRY(plan_sizes(trainer, largest, error));
    if (!trainer->val_batch) return FF_OK;
    FF_TRY(
        ff_model_plan(trainer->model, (int)trainer->val_batch, false, &trainer->val_plan, error));
    FF_TRY(ff_plan_set_views(trainer->val_plan, trainer->views, error));
    FF_TRY(ff_tally_create(&trainer->tally, trainer->val_plan, error));
    trainer->tally->numbers = splits->val_selected.numbers;
    return FF_OK;
}

/* Matches the file with the model, and loads its values if their memory is allocated. */
static ff_status load_weights(ff_trainer *trainer, const ff_trainer_options *options,
                              ff_error *error) {
    const ff_splits *splits = &trainer->splits;
    ff_weights_net net = {.stem = ff_model_stem(trainer->model),
                          .channels = splits->channels,
                          .height = splits->height,
                          .width = splits->width,
                          .classes = splits->classes};
    ff_weights *weights;
    size_t field;
    if (!options->weights || options->first_step) return FF_OK; /* a checkpoint has them then */
    FF_TRY(ff_dataset_field(trainer->splits.train, trainer->splits.label, &field, error));
    snprintf(net.model, sizeof net.model, "%s", trainer->model_name);
    const ff_model_options model = ff_weights_net_model(&net);
    const ff_weights_options how = {
        .path = options->weights,
        .net = &model,
        .classes = &ff_dataset_metadata(trainer->splits.train)->field[field],
        .data = options->any_normalization ? NULL : ff_dataset_metadata(trainer->splits.train)};
    const ff_status opened = ff_weights_open(&weights, &how, trainer->model, error);
    if (opened != FF_OK) return ff_fail_within(error, opened, "--weights");
    free(trainer->weights_text);
    ff_status status = ff_copy_string(&trainer->weights_text, ff_weights_text(weights), error);
    if (status == FF_OK && !ff_device_is_absent(ff_model_compute(trainer->model)->device))
        status = ff_weights_load(weights, error);
    ff_weights_close(&weights);
    return status;
}

/* ---- batches ---- */

static ff_status build_feed(const ff_trainer *trainer, const ff_trainer_options *options,
                            const ff_loader_options *loader, ff_dataset *set, ff_feed **feed,
                            ff_error *error) {
    const ff_feed_options how = {
        .loader = *loader,
        .compute = ff_model_compute(trainer->model),
        .kernels =
            options->planned ? options->planned_kernels : ff_machine_kernels(trainer->machine),
        .placement = options->placement,
        .quiet = options->quiet,
    };
    ff_status status = ff_feed_create(feed, set, &how, error);
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "%s", ff_dataset_path(set));
}

/* Where the batches of step `step` begin. */
static void begin_at(const ff_trainer *trainer, uint64_t step, ff_loader_options *train) {
    train->epoch = (uint32_t)(step / trainer->batches);
    train->epochs = trainer->epochs - train->epoch;
    train->position = step % trainer->batches * (uint64_t)trainer->batch;
}

/* This rank's rows of every batch: its own share in training, an equal share in evaluation. */
static void share_rows(const ff_job *job, bool training, ff_loader_options *loader) {
    if (!job) return;
    const uint32_t rank = (uint32_t)job->rank;
    loader->share_begin = training ? job->cuts[rank] : rank;
    loader->share_end = training ? job->cuts[rank + 1] : rank + 1;
    loader->share_total = training ? job->cuts[job->size] : (uint32_t)job->size;
}

static void share_memory(const ff_trainer_options *options, ff_loader_options *loader) {
    loader->memory_bytes = options->memory_bytes;
    loader->memory_ranks = options->job ? (uint32_t)options->job->local_size : 1;
}

ff_status ff_trainer_rewind(ff_trainer *trainer, uint64_t step, ff_error *error) {
    begin_at(trainer, step, &trainer->train_input);
    ff_feed_destroy(&trainer->train_feed);
    return build_feed(trainer, trainer->options, &trainer->train_input, trainer->splits.train,
                      &trainer->train_feed, error);
}

ff_loader_options ff_trainer_input(const ff_trainer *trainer, uint64_t step) {
    ff_loader_options input = trainer->train_input;
    begin_at(trainer, step, &input);
    input.batch = (uint64_t)trainer->batch;
    input.cuts = 0;
    input.dtype = FF_F32;
    input.layout = FF_CHW;
    input.threads = 0;
    return input;
}

static ff_status build_feeds(ff_trainer *trainer, const ff_trainer_options *options,
                             ff_error *error) {
    ff_splits *splits = &trainer->splits;
    ff_loader_options train = ff_loader_defaults();
    train.words = (ff_loader_words){"--augment", "--sample-weights", "--shares", "--repeats",
                                    "--samples-per-epoch"};
    train.selection = ff_splits_selection(&splits->train_selected);
    train.weights = ff_splits_weights(splits);
    train.shares = ff_splits_shares(splits);
    train.samples_per_epoch = (uint64_t)options->samples_per_epoch;
    train.repeats = (uint32_t)options->repeats;
    train.drawn_batch = (uint64_t)trainer->batch;
    train.height = splits->height;
    train.width = splits->width;
    train.label = &splits->label;
    train.label_count = 1;
    train.seed = trainer->seed;
    train.threads = trainer->workers;
    train.batch = (uint64_t)(options->reproducible ? trainer->batch : trainer->micro_all);
    train.cuts = options->reproducible ? (uint32_t)trainer->accumulate : 0;
    share_rows(options->job, true, &train);
    train.last_batch = trainer->keeps_last ? FF_LAST_BATCH_KEEP : FF_LAST_BATCH_DROP;
    train.order = trainer->order;
    train.block = trainer->block;
    train.group = trainer->group;
    train.machines = trainer->machines;
    train.node_batch = train.batch;
    share_memory(options, &train);
    begin_at(trainer, options->first_step, &train);
    train.height = trainer->sizes[0].height;
    train.width = trainer->sizes[0].width;
    train.augment = trainer->input_sizes[0].augment;
    train.sizes = trainer->input_sizes + 1;
    train.size_count = (size_t)trainer->size_count - 1;
    trainer->train_input = train;
    FF_TRY(build_feed(trainer, options, &train, splits->train, &trainer->train_feed, error));
    if (ff_feed_describe(trainer->train_feed).resident) trainer->promise = (ff_promise){0};
    if (!splits->val) return FF_OK;

    const int ranks = options->job ? options->job->size : 1;
    ff_loader_options val = ff_feed_in_order(
        trainer->model, &splits->label, (uint64_t)(trainer->val_batch * ranks), splits->val_resize);
    val.selection = ff_splits_selection(&splits->val_selected);
    share_rows(options->job, false, &val);
    share_memory(options, &val);
    val.threads = trainer->workers;
    return build_feed(trainer, options, &val, splits->val, &trainer->val_feed, error);
}

/* ---- the step ---- */

/* The step is made before the feed, and ff_trainer_rewind makes another one. */
static ff_status make_batch(void *trainer, ff_stream *stream, ff_error *error) {
    return ff_feed_make(((const ff_trainer *)trainer)->train_feed, stream, error);
}

ff_status ff_trainer_make_step(ff_trainer *trainer, const ff_trainer_options *options, bool learns,
                               ff_step **step, ff_error *error) {
    const uint64_t steps = learns ? ff_trainer_total_steps(trainer) : 1;
    const uint64_t groups = (uint64_t)trainer->group_count;
    const bool unified = ff_model_compute(trainer->model)->device->table->unified;
    ff_hyper hypers[FF_TRAINER_GROUPS];
    double *rates;
    if (steps > FF_TRAINER_STEPS)
        return ff_fail(error, FF_USAGE, "a run of %" PRIu64 " steps; at most %d are possible",
                       steps, FF_TRAINER_STEPS);
    FF_TRY(ff_alloc(&rates, groups * steps, sizeof *rates, "learning rates", error));
    const bool counted = ff_device_is_absent(ff_model_compute(trainer->model)->device);
    for (uint64_t i = 0; learns && !counted && i < steps; i++) {
        ff_trainer_steps(trainer, i, hypers);
        for (uint64_t g = 0; g < groups; g++) rates[g * steps + i] = hypers[g].learning_rate;
    }
    ff_trainer_steps(trainer, 0, hypers);
    const ff_step_options how = {
        .update = ff_trainer_update_options(trainer, hypers, rates, steps),
        .first_step = learns ? options->first_step : 0,
        .ranks = options->job ? options->job->size : 1,
        .comm = options->job ? options->job->comm : NULL,
        .comm_device = options->job ? options->job->streams : NULL,
        .bucket_bytes = FF_TRAINER_BUCKET_BYTES,
        .reduce_dtype = options->reduce_dtype,
        .samples = trainer->batch,
        .norms = options->job ? options->job->norms : NULL,
        .loss_scale = trainer->loss_scale,
        .scale_interval = trainer->scale_moves ? FF_TRAINER_SCALE_STEPS : 0,
        .record = !options->no_graph,
        /* On the CPU a step is done when ff_step_run returns. */
        .send_steps = unified ? 1 : 0,
        .make_batch = learns && !options->overfit ? make_batch : NULL,
        .context = trainer,
    };
    ff_status status = ff_step_create(step, trainer->model, &how, error);
    free(rates);
    return status;
}

/* On the CPU the compute threads use every CPU, and filling batches is a small part of the work:
 * one extra thread for it costs less at their barriers than filling between the steps (smallnet on
 * two CPUs: 24,900 samples/s with one, 23,100 without). Next to a GPU the CPUs have nothing else to
 * do: eight threads of an H100's host copied 42 of the 53 GB/s that the bus takes. */
static int choose_workers(int64_t given, int threads, bool device) {
    enum { DEVICE_MOST = 8 };
    if (given >= 0) return (int)given;
    if (!device) return threads / 8 + 1;
    return threads < DEVICE_MOST ? threads : DEVICE_MOST;
}

/* ---- all of it ---- */

static ff_status read_memory(ff_trainer *trainer, ff_memory_stage stage, ff_error *error) {
    ff_device *device = trainer->device ? trainer->device->device : NULL;
    return ff_device_memory_read(&trainer->memory, stage, device, error);
}

/* The batches come last: whether a set fits next to the rest is then a matter of what is free. */
static ff_status build(ff_trainer *trainer, ff_error *error) {
    const ff_trainer_options *options = trainer->options;
    FF_TRY(read_memory(trainer, FF_MEMORY_OPENED, error));
    FF_TRY(build_model(trainer, options, error));
    FF_TRY(load_weights(trainer, options, error));
    FF_TRY(read_memory(trainer, FF_MEMORY_MODEL, error));
    ff_device *device = ff_model_compute(trainer->model)->device;
    trainer->workers =
        choose_workers(options->workers, ff_model_threads(trainer->model), !device->table->unified);
    const ff_job_gpu gpu = ff_machine_gpu(trainer->machine);
    if (!ff_device_is_absent(device))
        FF_TRY(ff_job_connect(options->job, device, gpu.create ? &gpu : NULL, syncs_norms(options),
                              error));
    FF_TRY(read_memory(trainer, FF_MEMORY_COMMUNICATOR, error));
    FF_TRY(ff_trainer_make_step(trainer, options, true, &trainer->step, error));
    FF_TRY(read_memory(trainer, FF_MEMORY_STEP, error));
    FF_TRY(build_feeds(trainer, options, error));
    return read_memory(trainer, FF_MEMORY_BATCHES, error);
}

void ff_trainer_drop_parts(ff_trainer *trainer) {
    ff_step_destroy(&trainer->step);
    ff_feed_destroy(&trainer->train_feed);
    ff_feed_destroy(&trainer->val_feed);
    ff_tally_destroy(&trainer->tally);
    ff_model_destroy(&trainer->model);
    trainer->train_plan = trainer->val_plan = NULL;
    for (int i = 0; i < trainer->size_count; i++)
        memset(trainer->sizes[i].plans, 0, sizeof trainer->sizes[i].plans);
    ff_device_destroy(&trainer->counted);
    ff_planned_device_close(&trainer->stand_in);
}

/* Sets an absent device in place of the real one. */
static ff_status begin_count(ff_trainer *trainer, ff_error *error) {
    if (trainer->options->planned) return FF_OK;
    if (!trainer->device)
        return ff_device_absent_create(&trainer->counted, UINT64_MAX, true, error);
    FF_TRY(ff_planned_device_of(&trainer->stand_in, trainer->machine, error));
    trainer->device = ff_planned_device_model(trainer->stand_in);
    return FF_OK;
}

/* After ff_job_meet, and before any rank's loader reads. */
static void measure_disk(ff_trainer *trainer) {
    const ff_trainer_options *options = trainer->options;
    const ff_job *job = options->job;
    if (!options->measures_disk || ff_feed_describe(trainer->train_feed).resident) return;
    ff_promise_measure(&trainer->promise, trainer->splits.train, &trainer->train_input,
                       job ? job->size / ff_job_sharing(job, job->rank, true) : 1);
}

/* Keeps the order's blocks, which a rank on a machine with other memory would choose otherwise. */
static ff_status keep_blocks(ff_trainer *trainer, ff_error *error) {
    const ff_loader_info loader = ff_feed_describe(trainer->train_feed).loader;
    ff_job *job = trainer->options->job;
    uint64_t blocks[] = {loader.block, loader.group, loader.machines};
    if (job && job->channel && !trainer->options->counts)
        FF_TRY(ff_job_broadcast(job, blocks, sizeof blocks, error));
    trainer->block = blocks[0];
    trainer->group = blocks[1];
    trainer->machines = (uint32_t)blocks[2];
    return FF_OK;
}

/* First builds everything on the absent device, by the same calls: a run that does not fit is
 * refused before it allocates any memory, and a dry run ends there. */
ff_status ff_trainer_build_parts(ff_trainer *trainer, ff_error *error) {
    const ff_trainer_options *options = trainer->options;
    const ff_job_gpu gpu = ff_machine_gpu(trainer->machine);
    FF_TRY(begin_count(trainer, error));
    FF_TRY(build(trainer, error));
    FF_TRY(ff_job_meet(options->job, gpu.create ? &gpu : NULL, error));
    measure_disk(trainer);
    FF_TRY(keep_blocks(trainer, error)); /* the other ranks wait for rank 0 */
    FF_TRY(ff_needs_of(&trainer->needs, trainer, error));
    if (options->counts || options->planned) return FF_OK;
    FF_TRY(ff_needs_check(trainer, error));
    ff_trainer_drop_parts(trainer);
    trainer->device = ff_machine_device(trainer->machine);
    return build(trainer, error);
}
