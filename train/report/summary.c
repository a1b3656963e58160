#include "train/report/summary.h"

#include "format/base/json.h"
#include "format/cli/say.h"
#include "train/report/fetches.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

uint64_t ff_summary_parameters(const ff_model *model) {
    uint64_t count = 0;
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const ff_parameter *parameter = ff_model_parameter(model, i);
        if (parameter->trained) count += parameter->count;
    }
    return count;
}

static void print_scale(FILE *out, const ff_trainer *trainer) {
    if (trainer->loss_scale > 0)
        fprintf(out, "loss scale     %g%s\n", trainer->loss_scale,
                trainer->scale_moves ? ", dynamic" : "");
    else
        fprintf(out, "loss scale     none\n");
}

static void print_model(FILE *out, const ff_trainer *trainer) {
    const ff_model *model = trainer->model;
    const ff_splits *splits = &trainer->splits;
    static const char *const stems[] = {"", ", cifar stem", ", imagenet stem"};
    const char *stem = stems[ff_model_stem(model)];
    if (trainer->recipe_name && strcmp(trainer->recipe_name, trainer->model_name) != 0)
        fprintf(out, "recipe         %s\n", trainer->recipe_name);
    fprintf(out,
            "model          %s%s%s: %" PRIu32 "x%" PRIu32 "x%" PRIu32 " -> %s, %" PRIu64
            " parameters, %.4g million multiply-accumulates a sample\n",
            trainer->model_name, stem, trainer->stem_of_weights ? " as in the weights" : "",
            splits->channels, splits->height, splits->width,
            ff_say_count(splits->classes, "class", "classes").text, ff_summary_parameters(model),
            ff_model_macs(model) * 1e-6);
    if (trainer->weights_text) fprintf(out, "weights        %s\n", trainer->weights_text);
    if (trainer->options->planned)
        fprintf(out, "compute        %s, %s\n", trainer->device->name,
                ff_model_compute_name(model));
    else if (trainer->device)
        fprintf(out, "device         %s\ncompute        %s\n", ff_machine_text(trainer->machine),
                ff_model_compute_name(model));
    else
        fprintf(out, "compute        %s, %s, %s\n", ff_machine_text(trainer->machine),
                ff_model_compute_name(model),
                ff_say_count((uint64_t)ff_model_threads(model), "thread", "threads").text);
    if (trainer->device) print_scale(out, trainer);
    fprintf(out, "memory         ");
    for (int role = 0; role < FF_ROLE_COUNT; role++) {
        fprintf(out, "%s%s %s", role ? ", " : "", ff_role_name((ff_role)role),
                ff_say_bytes(ff_model_bytes(model, (ff_role)role)).text);
    }
    fputc('\n', out);
    ff_needs_print(out, &trainer->needs);
}

/* The number of samples in every (micro-)batch that belong to a rank. */
static int64_t share_of(const ff_trainer *trainer, int rank) {
    const ff_job *job = trainer->options->job;
    const ff_job other = {.rank = rank, .size = job->size, .cuts = job->cuts};
    uint64_t first, rows;
    ff_job_share(&other, (uint64_t)trainer->micro_all, ff_augment_mixes(&trainer->augment), &first,
                 &rows);
    return (int64_t)rows;
}

/* "ranks          0 on host a: cuda:0, ...; 2 of 8 samples" */
static void print_ranks(FILE *out, const ff_trainer *trainer) {
    const ff_job *job = trainer->options->job;
    for (int i = 0; job && job->places && i < job->size; i++)
        fprintf(out, "%-14s %d on host %s: %s; %" PRId64 " of %" PRId64 " samples\n",
                i ? "" : "ranks", i, job->places[i].host, job->places[i].device,
                share_of(trainer, i), trainer->micro_all);
    if (job && job->comm) fprintf(out, "communicator   %s\n", job->comm->table->name);
}

json_t *ff_summary_ranks(const ff_trainer *trainer) {
    const ff_job *job = trainer->options->job;
    if (!job || !job->places) return json_object();
    json_t *list = json_array();
    for (int i = 0; i < job->size; i++)
        json_array_append_new(
            list, json_pack("{s:o, s:s, s:I}", "host", ff_json_text(job->places[i].host), "device",
                            job->places[i].device, "samples", (json_int_t)share_of(trainer, i)));
    return json_pack("{s:o, s:s}", "ranks", list, "communicator", job->comm->table->name);
}

static void print_set(FILE *out, const char *what, const ff_dataset *dataset, const char *note) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    fprintf(out, "%-14s %s: %s, %s %s %s%" PRIu32 "x%" PRIu32 "x%" PRIu32 "%s%s\n", what,
            ff_dataset_path(dataset),
            ff_say_count(ff_dataset_count(dataset), "sample", "samples").text,
            ff_dtype_name(metadata->dtype), ff_layout_name(metadata->layout),
            metadata->variable_size ? "up to " : "", metadata->channels, metadata->height,
            metadata->width, metadata->compression == FF_COMPRESSION_ZSTD ? ", zstd" : "", note);
}

static void print_augment(FILE *out, const ff_trainer *trainer) {
    fprintf(out, "augment        %s%s\n", trainer->augment_text,
            trainer->augment_chosen ? " (the model's default; --augment none for none)" : "");
    if (trainer->pad_chosen && trainer->augment.pad)
        fprintf(out, "               crop without a number pads by %" PRIu32 ", %s; crop=N by N\n",
                trainer->augment.pad,
                trainer->is_small ? "as is usual for small images" : "an eighth of the side");
    else if (trainer->pad_chosen)
        fprintf(out, "               samples are larger than the crop; nothing is padded\n");
    if (trainer->augment_chosen && !trainer->is_small)
        fprintf(out,
                "               no random resized crops; --augment rrc=%" PRIu32 ",flip for them\n",
                trainer->splits.height);
    const ff_metadata *samples = ff_dataset_metadata(trainer->splits.train);
    const uint32_t rrc = trainer->augment.rrc;
    if (rrc > samples->height && rrc > samples->width)
        fprintf(out,
                "               the samples (%" PRIu32 "x%" PRIu32 ") are smaller than the crops "
                "(%" PRIu32 "x%" PRIu32 "), which enlarges them at %.3g times the cost of "
                "rrc=%" PRIu32 "\n",
                samples->height, samples->width, rrc, rrc,
                (double)rrc * rrc / ((double)samples->height * samples->width),
                samples->height > samples->width ? samples->height : samples->width);
}

/* "128x128 from epoch 1, 160x160 from epoch 31; evaluation 160x160" */
static void print_sizes(FILE *out, const ff_trainer *trainer) {
    if (trainer->size_count == 1 && !trainer->options->sizes) return;
    fprintf(out, "sizes          ");
    for (int i = 0; i < trainer->size_count; i++)
        fprintf(out, "%s%" PRIu32 "x%" PRIu32 " from epoch %" PRIu32, i ? ", " : "",
                trainer->sizes[i].height, trainer->sizes[i].width, trainer->sizes[i].epoch + 1);
    fprintf(out, "; evaluation %" PRIu32 "x%" PRIu32 "\n", trainer->splits.height,
            trainer->splits.width);
}

/* "order block (341 samples a block, 2048 blocks a group), seed 0, 1 worker, verify first, ..." */
static void print_loader(FILE *out, const ff_trainer *trainer) {
    static const char *const verify[] = {"off", "first", "always"};
    const ff_feed_info feed = ff_feed_describe(trainer->train_feed);
    fprintf(out, "loader         order %s", ff_order_name(trainer->order));
    if (ff_order_has_blocks(trainer->order))
        fprintf(out, " (%s a block, %s a group",
                ff_say_count(trainer->block, "sample", "samples").text,
                ff_say_count(trainer->group, "block", "blocks").text);
    if (trainer->order == FF_ORDER_NODE_BLOCK)
        fprintf(out, ", %s", ff_say_count(trainer->machines, "machine", "machines").text);
    if (ff_order_has_blocks(trainer->order)) putc(')', out);
    fprintf(out, ", seed %" PRIu64 ", %d worker%s%s, verify %s, a slot of %s\n", trainer->seed,
            trainer->workers, trainer->workers == 1 ? "" : "s",
            trainer->workers == 0 ? " (batches are filled between steps)" : "",
            verify[trainer->verify], ff_say_bytes(feed.loader.slot_bytes).text);
    if (feed.placement) fprintf(out, "placement      %s\n", feed.placement);
    fprintf(out, "reading        %s\n", ff_loader_say_reading(&feed.loader).text);
    ff_fetches_print(out, trainer, &feed.loader);
    ff_promise_print(out, &trainer->promise);
}

static void print_data(FILE *out, const ff_trainer *trainer) {
    const ff_splits *splits = &trainer->splits;
    print_set(out, "data", splits->train, "");
    if (splits->train_selected.count)
        fprintf(out, "               trains on %s\n",
                ff_selection_say(&splits->train_selected).text);
    if (trainer->train_input.weights || trainer->train_input.shares ||
        trainer->train_input.repeats > 1 || trainer->train_input.samples_per_epoch)
        fprintf(out, "               with %s\n",
                ff_loader_say_sampling(&trainer->train_input).text);
    if (splits->val)
        print_set(out, "validation", splits->val,
                  !splits->val_found ? ""
                  : !strcmp(ff_dataset_metadata(splits->val)->split, "test")
                      ? "; found next to it, --val names another: best is chosen by this test split"
                      : "; found next to it, --val names another");
    else
        fprintf(out, "validation     none%s\n",
                ff_splits_val_is_none(trainer->options->val)
                    ? " (--val none)"
                    : "; --val names a set to evaluate on: without one no checkpoint is best");
    if (splits->val_selected.count)
        fprintf(out, "               evaluates on %s\n",
                ff_selection_say(&splits->val_selected).text);
    const uint32_t every = trainer->val_every;
    if (splits->val && trainer->epochs > 1 && (!every || every >= trainer->epochs))
        fprintf(out, "               after the last epoch only; --val-every 1: after each\n");
    else if (splits->val && every > 1)
        fprintf(out, "               after every %" PRIu32 " epochs, and after the last\n", every);
    const uint64_t patience = (uint64_t)trainer->options->patience;
    if (splits->val && patience)
        fprintf(out, "               the run stops early after %s in a row without a better one\n",
                ff_say_count(patience, "evaluation", "evaluations").text);
    fprintf(out, "label          %s, %s\n", splits->label,
            ff_say_count(splits->classes, "class", "classes").text);
    if (splits->train_without_label || splits->val_without_label)
        fprintf(out,
                "               left out, without a label: %s of the training set, %s of the "
                "validation set\n",
                ff_say_count(splits->train_without_label, "sample", "samples").text,
                ff_say_count(splits->val_without_label, "sample", "samples").text);
    print_augment(out, trainer);
    print_sizes(out, trainer);
    if (splits->val && splits->val_resize)
        fprintf(out, "evaluation     resize %" PRIu32 ", central crop %" PRIu32 "x%" PRIu32 "\n",
                splits->val_resize, splits->height, splits->width);
    print_loader(out, trainer);
}

static void print_batches(FILE *out, const ff_trainer *trainer) {
    fprintf(out, "batches        %" PRIu64 " an epoch of %s, %s, %s", trainer->batches,
            ff_say_count((uint64_t)trainer->batch, "sample", "samples").text,
            ff_say_count(trainer->epochs, "epoch", "epochs").text,
            ff_say_count(ff_trainer_total_steps(trainer), "step", "steps").text);
    if (trainer->batch != trainer->batch_asked)
        fprintf(out, " (the whole set; --batch was %" PRId64 ")", trainer->batch_asked);
    if (trainer->accumulate > 1)
        fprintf(out, ", each in %" PRId64 " micro-batches of %" PRId64, trainer->accumulate,
                trainer->micro);
    if (trainer->keeps_last)
        fprintf(out, " (the last batch has %" PRIu64 ")",
                trainer->train_count % (uint64_t)trainer->batch);
    if (trainer->dropped)
        fprintf(out, " (%" PRId64 " left out of each epoch; --last-batch keep keeps them)",
                trainer->dropped);
    fputc('\n', out);
    if (!trainer->batch_reason) return;
    const bool scaled = trainer->options->hyper.learning_rate < 0 && !trainer->summed_loss &&
                        trainer->groups[trainer->main_group].rule == FF_RULE_SGD;
    fprintf(out, "               --batch auto chose %" PRId64 ": %s%s\n", trainer->batch,
            trainer->batch_reason,
            scaled ? "; the learning rate is the recipe's in proportion to it" : "");
}

/* "momentum 0.9 (Nesterov), weight decay 0.0005" */
static void print_hyper(FILE *out, const ff_trainer_update *group) {
    const ff_hyper *defaults = &ff_optimizer_at(group->rule)->defaults;
    const char *before = "";
    for (int i = 1; ff_hyper_name(i); i++) { /* 0 is the learning rate */
        const char *name = ff_hyper_name(i);
        if (*ff_hyper_at(defaults, i) == FF_UNREAD) continue;
        fputs(before, out);
        for (; *name; name++) fputc(*name == '-' ? ' ' : *name, out);
        fprintf(out, " %g", *ff_hyper_at(&group->hyper, i));
        if (i == 1 && group->hyper.nesterov) fprintf(out, " (Nesterov)");
        before = ", ";
    }
}

/* Prints a line per group, if groups have their own numbers. */
static void print_groups(FILE *out, const ff_trainer *trainer) {
    for (int i = 0; i < trainer->group_count; i++) {
        const ff_trainer_update *group = &trainer->groups[i];
        if (group->frozen) {
            fprintf(out, "%-14s %s: frozen\n", i ? "" : "optimizer", group->names);
            continue;
        }
        fprintf(out, "%-14s %s%s%s: %s at %g, ", i ? "" : "optimizer", group->names,
                group->within ? " of " : "", group->within ? group->within : "",
                ff_optimizer_at(group->rule)->title, group->schedule.peak);
        print_hyper(out, group);
        if (group->schedule.total_steps < ff_trainer_total_steps(trainer))
            fprintf(out, ", until step %" PRIu64, group->schedule.total_steps);
        fputc('\n', out);
    }
}

static void print_rates(FILE *out, const ff_schedule *schedule) {
    bool falls = strcmp(schedule->text, "constant") != 0;
    uint64_t middle = schedule->warmup_steps + (schedule->total_steps - schedule->warmup_steps) / 2;
    fprintf(out, "learning rate  %s", schedule->text);
    if (schedule->warmup_steps)
        fprintf(out, ", %.4g at step 1, warming up over %s", ff_schedule_rate(schedule, 0),
                ff_say_count(schedule->warmup_steps, "step", "steps").text);
    fprintf(out, ", peak %g", schedule->peak);
    if (falls && schedule->total_steps > schedule->warmup_steps)
        fprintf(out, ", %.4g at step %" PRIu64 ", %.4g at the last",
                ff_schedule_rate(schedule, middle), middle + 1,
                ff_schedule_rate(schedule, schedule->total_steps - 1));
    fputc('\n', out);
}

static void print_optimizer(FILE *out, const ff_trainer *trainer) {
    char loss[FF_LOSS_TEXT_BYTES];
    if (trainer->group_count == 1) {
        fprintf(out, "optimizer      %s, ", ff_optimizer_at(trainer->groups[0].rule)->title);
        print_hyper(out, &trainer->groups[0]);
        fprintf(out, ", ");
    } else {
        print_groups(out, trainer);
        fprintf(out, "loss           ");
        if (trainer->summed_loss) fprintf(out, "summed over a batch, ");
    }
    if (trainer->loss.kind != FF_LOSS_CROSS_ENTROPY)
        fprintf(out, "%s%s, ", trainer->group_count == 1 ? "loss " : "",
                ff_loss_text(&trainer->loss, loss));
    fprintf(out, "label smoothing %g", trainer->label_smoothing);
    if (trainer->class_weights) {
        float least = trainer->class_weights[0], most = least;
        for (uint32_t c = 1; c < trainer->splits.classes; c++) {
            least = fminf(least, trainer->class_weights[c]);
            most = fmaxf(most, trainer->class_weights[c]);
        }
        fprintf(out, ", class weights %.4g to %.4g", (double)least, (double)most);
    }
    if (trainer->dropout >= 0) fprintf(out, ", dropout %g", trainer->dropout);
    if (trainer->ema_decay >= 0) fprintf(out, ", average with decay %g", trainer->ema_decay);
    if (trainer->clip_norm > 0) fprintf(out, ", gradients clipped to norm %g", trainer->clip_norm);
    fputc('\n', out);
    if (trainer->sweep.steps)
        fprintf(out, "learning rate  from %g to %g in %s, by the same factor each\n",
                trainer->sweep.from, trainer->sweep.to,
                ff_say_count((uint64_t)trainer->sweep.steps, "step", "steps").text);
    else
        print_rates(out, &trainer->groups[trainer->main_group].schedule);
    if (trainer->views > 1)
        fprintf(out,
                "views          %d of each sample in evaluation; --views 1 for the sample alone\n",
                trainer->views);
}

void ff_summary_print(FILE *out, const ff_trainer *trainer) {
    print_model(out, trainer);
    print_ranks(out, trainer);
    print_data(out, trainer);
    print_batches(out, trainer);
    print_optimizer(out, trainer);
    fflush(out);
}
