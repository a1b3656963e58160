#include "train/summary.h"

#include "format/base/say.h"
#include "train/models/models.h"

#include <inttypes.h>
#include <string.h>

uint64_t ff_summary_parameters(const ff_model *model) {
    uint64_t count = 0;
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const ff_parameter *parameter = ff_model_parameter(model, i);
        if (parameter->trained) count += parameter->count;
    }
    return count;
}

static void print_scale(FILE *out, const ff_recipe *recipe) {
    if (recipe->loss_scale > 0)
        fprintf(out, "loss scale     %g%s\n", recipe->loss_scale,
                recipe->scale_moves ? " at first; it moves" : "");
    else
        fprintf(out, "loss scale     none\n");
}

static void print_model(FILE *out, const ff_recipe *recipe) {
    const ff_model *model = recipe->model;
    const ff_splits *splits = &recipe->splits;
    const char *stem = "";
    for (int i = 0; ff_net_at(i); i++)
        if (ff_net_at(i)->stems && strcmp(ff_net_at(i)->name, recipe->model_name) == 0)
            stem = ff_model_stem(model) == FF_STEM_CIFAR ? ", cifar stem" : ", imagenet stem";
    if (recipe->recipe_name && strcmp(recipe->recipe_name, recipe->model_name) != 0)
        fprintf(out, "recipe         %s\n", recipe->recipe_name);
    fprintf(out,
            "model          %s%s: %" PRIu32 "x%" PRIu32 "x%" PRIu32 " -> %s, %" PRIu64
            " parameters, %.4g million multiply-accumulates a sample\n",
            recipe->model_name, stem, splits->channels, splits->height, splits->width,
            ff_say_count(splits->classes, "class", "classes").text, ff_summary_parameters(model),
            ff_model_macs(model) * 1e-6);
    if (recipe->options->planned)
        fprintf(out, "compute        %s, %s\n", recipe->device->name, ff_model_compute_name(model));
    else if (recipe->device)
        fprintf(out, "device         %s\ncompute        %s\n", ff_machine_text(recipe->machine),
                ff_model_compute_name(model));
    else
        fprintf(out, "compute        %s, %s, %s\n", ff_machine_text(recipe->machine),
                ff_model_compute_name(model),
                ff_say_count((uint64_t)ff_model_threads(model), "thread", "threads").text);
    if (recipe->device) print_scale(out, recipe);
    fprintf(out, "memory         ");
    for (int role = 0; role < FF_ROLE_COUNT; role++) {
        fprintf(out, "%s%s %s", role ? ", " : "", ff_role_name((ff_role)role),
                ff_say_bytes(ff_model_bytes(model, (ff_role)role)).text);
    }
    fputc('\n', out);
    ff_needs_print(out, &recipe->needs);
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

static void print_augment(FILE *out, const ff_recipe *recipe) {
    fprintf(out, "augment        %s%s\n", recipe->augment_text,
            recipe->augment_chosen ? " (the model's default; --augment none for nothing)" : "");
    if (recipe->pad_chosen && recipe->augment.pad)
        fprintf(out, "               crop without a number pads by %" PRIu32 ", %s; crop=N by N\n",
                recipe->augment.pad,
                recipe->is_small ? "as is usual for small images" : "an eighth of the side");
    else if (recipe->pad_chosen)
        fprintf(out, "               crop cuts from samples that are larger; nothing is padded\n");
    if (recipe->augment_chosen && !recipe->is_small)
        fprintf(out,
                "               no random resized crops; --augment rrc=%" PRIu32 ",flip for them\n",
                recipe->splits.height);
}

static void print_data(FILE *out, const ff_recipe *recipe) {
    const ff_splits *splits = &recipe->splits;
    static const char *const verify[] = {"off", "first", "always"};
    print_set(out, "data", splits->train, "");
    if (splits->val)
        print_set(out, "validation", splits->val,
                  splits->val_found ? "; found beside it, --val names another" : "");
    else
        fprintf(out, "validation     none; --val names a set to evaluate on\n");
    if (splits->val && recipe->val_every > 1 && recipe->val_every >= recipe->epochs)
        fprintf(out, "               after the last epoch only; --val-every 1: after each\n");
    else if (splits->val && recipe->val_every > 1)
        fprintf(out, "               after every %" PRIu32 " epochs, and after the last\n",
                recipe->val_every);
    fprintf(out, "label          %s, %s\n", splits->label,
            ff_say_count(splits->classes, "class", "classes").text);
    print_augment(out, recipe);
    if (splits->val_resize)
        fprintf(out, "evaluation     resize %" PRIu32 ", central crop %" PRIu32 "x%" PRIu32 "\n",
                splits->val_resize, splits->height, splits->width);
    const ff_feed_info feed = ff_feed_describe(recipe->train_feed);
    fprintf(out,
            "loader         order %s, seed %" PRIu64 ", %d worker%s%s, verify %s, a slot of %s\n",
            ff_order_name(recipe->order), recipe->seed, recipe->workers,
            recipe->workers == 1 ? "" : "s",
            recipe->workers == 0 ? " (batches are filled between steps)" : "",
            verify[recipe->verify], ff_say_bytes(feed.loader.slot_bytes).text);
    if (feed.placement) fprintf(out, "placement      %s\n", feed.placement);
    if (!feed.loader.beyond_memory_bytes) return;
    fprintf(out,
            "reading        the samples take %s, more than this machine's memory, so they are read "
            "from the disk each epoch%s\n",
            ff_say_bytes(feed.loader.beyond_memory_bytes).text,
            recipe->order == FF_ORDER_BLOCK
                ? ""
                : "; --order block reads those together that lie together");
}

static void print_batches(FILE *out, const ff_recipe *recipe) {
    fprintf(out, "batches        %" PRIu64 " an epoch of %s, %s, %s", recipe->batches,
            ff_say_count((uint64_t)recipe->batch, "sample", "samples").text,
            ff_say_count(recipe->epochs, "epoch", "epochs").text,
            ff_say_count(ff_recipe_total_steps(recipe), "step", "steps").text);
    if (recipe->batch != recipe->batch_asked)
        fprintf(out, " (the whole set; --batch was %" PRId64 ")", recipe->batch_asked);
    if (recipe->last_count) fprintf(out, " (the last batch has %" PRId64 ")", recipe->last_count);
    if (recipe->dropped)
        fprintf(out, " (%" PRId64 " left out each epoch; --last-batch keep keeps them)",
                recipe->dropped);
    fputc('\n', out);
}

static void print_sgd(FILE *out, const ff_sgd *sgd) {
    fprintf(out, "momentum %g%s, weight decay %g", sgd->momentum,
            sgd->nesterov ? " (Nesterov)" : "", sgd->weight_decay);
}

/* A line a group, where each has its own numbers. */
static void print_groups(FILE *out, const ff_recipe *recipe) {
    for (int i = 0; i < recipe->group_count; i++) {
        const ff_recipe_update *group = &recipe->groups[i];
        fprintf(out, "%-14s %s: %s at %g, ", i ? "" : "optimizer", group->names,
                group->rule == FF_RULE_MUON ? "Muon" : "SGD", group->schedule.peak);
        if (group->rule == FF_RULE_MUON)
            fprintf(out, "momentum %g%s", group->sgd.momentum,
                    group->sgd.nesterov ? " (Nesterov)" : "");
        else
            print_sgd(out, &group->sgd);
        if (group->schedule.total_steps < ff_recipe_total_steps(recipe))
            fprintf(out, ", until step %" PRIu64, group->schedule.total_steps);
        fputc('\n', out);
    }
}

static void print_rates(FILE *out, const ff_schedule *schedule) {
    bool falls = schedule->kind != FF_SCHEDULE_CONSTANT;
    uint64_t middle = schedule->warmup_steps + (schedule->total_steps - schedule->warmup_steps) / 2;
    fprintf(out, "learning rate  %s", ff_schedule_name(schedule->kind));
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

static void print_optimizer(FILE *out, const ff_recipe *recipe) {
    if (recipe->group_count == 1) {
        fprintf(out, "optimizer      SGD, ");
        print_sgd(out, &recipe->groups[0].sgd);
        fprintf(out, ", ");
    } else {
        print_groups(out, recipe);
        fprintf(out, "loss           ");
        if (recipe->summed_loss) fprintf(out, "summed over a batch, ");
    }
    fprintf(out, "label smoothing %g", recipe->label_smoothing);
    if (recipe->dropout >= 0) fprintf(out, ", dropout %g", recipe->dropout);
    fputc('\n', out);
    print_rates(out, &recipe->groups[0].schedule);
    if (recipe->views > 1)
        fprintf(out,
                "views          %d of each sample in evaluation; --views 1 for the sample alone\n",
                recipe->views);
}

void ff_summary_print(FILE *out, const ff_recipe *recipe) {
    print_model(out, recipe);
    print_data(out, recipe);
    print_batches(out, recipe);
    print_optimizer(out, recipe);
    fflush(out);
}
