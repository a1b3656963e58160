#include "train/trainer/updates.h"

#include "format/base/memory.h"
#include "format/base/real.h"
#include "format/cli/nearest.h"
#include "format/cli/options.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double real_or(double given, double fallback) {
    return given >= 0 ? given : fallback;
}

/* Refuses options for one group if each group has its own numbers. */
static ff_status refuse_single(const ff_trainer_options *options, const ff_recipe *recipe,
                               ff_error *error) {
    const char *option = options->optimizer                          ? "optimizer"
                         : options->freeze                           ? "freeze"
                         : options->groups                           ? "groups"
                         : options->no_decay                         ? "no-decay"
                         : options->nesterov || options->no_nesterov ? "nesterov"
                                                                     : NULL;
    for (int i = 0; !option && ff_hyper_name(i); i++)
        if (*ff_hyper_at(&options->hyper, i) >= 0) option = ff_hyper_name(i);
    if (!option) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "--%s: the recipe %s has its own for each group of parameters; leave it out",
                   option, recipe->name);
}

static ff_schedule schedule_of(const ff_trainer *trainer, const ff_schedule *schedule,
                               double peak) {
    ff_schedule made = *schedule;
    made.peak = peak;
    made.epoch_steps = (double)trainer->batches;
    made.total_steps = ff_trainer_total_steps(trainer);
    return made;
}

/* ---- groups of the command line ---- */

static ff_status find_optimizer(const char *option, const char *name, size_t length, ff_rule *rule,
                                ff_error *error) {
    char known[64] = "";
    ff_nearest nearest = {.wanted = name, .length = length};
    *rule = ff_optimizer_named(name, length);
    if (*rule != FF_RULE_COUNT) return FF_OK;
    for (int i = 0; ff_optimizer_at(i); i++) {
        const size_t used = strlen(known);
        ff_nearest_offer(&nearest, ff_optimizer_at(i)->name);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                 ff_optimizer_at(i)->name);
    }
    return ff_fail(error, FF_USAGE, "--%s: no optimizer '%.*s'%s%s%s are %s", option, (int)length,
                   name, nearest.name ? "; did you mean " : "", nearest.name ? nearest.name : "",
                   nearest.name ? "? There" : "; there", known);
}

/* Sets hyperparameter `index`, if the optimizer of the group reads it. */
static ff_status set_number(ff_trainer_update *group, int index, double value, const char *option,
                            ff_error *error) {
    const ff_optimizer *optimizer = ff_optimizer_at(group->rule);
    char reads[96] = "";
    if (*ff_hyper_at(&optimizer->defaults, index) != FF_UNREAD) {
        *ff_hyper_at(&group->hyper, index) = value;
        return FF_OK;
    }
    for (int i = 0; ff_hyper_name(i); i++) {
        const size_t used = strlen(reads);
        if (*ff_hyper_at(&optimizer->defaults, i) != FF_UNREAD)
            snprintf(reads + used, sizeof reads - used, "%s%s", used ? ", " : "", ff_hyper_name(i));
    }
    return ff_fail(error, FF_USAGE, "--%s: %s has no %s; it has %s", option, optimizer->title,
                   ff_hyper_name(index), reads);
}

/* The numbers of an optimizer: the recipe's for SGD, else its own. */
static void set_defaults(ff_trainer_update *group, ff_rule rule, const ff_trainer *trainer,
                         const ff_recipe *recipe) {
    group->rule = rule;
    group->hyper = ff_optimizer_at(rule)->defaults;
    for (int i = 0; ff_hyper_name(i); i++)
        if (*ff_hyper_at(&group->hyper, i) == FF_UNREAD) *ff_hyper_at(&group->hyper, i) = 0;
    if (rule != FF_RULE_SGD || recipe->groups[0].names) return;
    group->hyper.learning_rate =
        recipe->learning_rate * (double)trainer->batch / (double)recipe->batch;
    group->hyper.momentum = recipe->momentum;
    group->hyper.weight_decay = recipe->weight_decay;
    group->hyper.nesterov = recipe->nesterov;
}

/* The factor by which --scale-lr multiplies learning rates that are not scaled yet. */
static int scale_of(const ff_trainer_options *options, bool scaled) {
    return options->scale_lr && !scaled && options->job ? options->job->size : 1;
}

static ff_status read_base(ff_trainer_update *base, const ff_trainer *trainer,
                           const ff_trainer_options *options, const ff_recipe *recipe,
                           ff_error *error) {
    const char *name = options->optimizer ? options->optimizer : "sgd";
    ff_rule rule;
    FF_TRY(find_optimizer("optimizer", name, strlen(name), &rule, error));
    set_defaults(base, rule, trainer, recipe);
    for (int i = 0; ff_hyper_name(i); i++)
        if (*ff_hyper_at(&options->hyper, i) >= 0)
            FF_TRY(set_number(base, i, *ff_hyper_at(&options->hyper, i), ff_hyper_name(i), error));
    if (options->scale_lr && !(options->hyper.learning_rate >= 0))
        return ff_fail(error, FF_USAGE,
                       "--scale-lr multiplies --lr, which is missing; a recipe's rate follows the "
                       "batch of all ranks by itself");
    base->hyper.learning_rate *= scale_of(options, options->scaled_lr);
    if (options->nesterov && ff_optimizer_at(rule)->defaults.momentum == FF_UNREAD)
        return ff_fail(error, FF_USAGE, "--nesterov: %s has no momentum",
                       ff_optimizer_at(rule)->title);
    base->hyper.nesterov = !options->no_nesterov && (options->nesterov || base->hyper.nesterov) &&
                           base->hyper.momentum > 0;
    return FF_OK;
}

/* Appends the group; if `no_decay` applies, a part without weight decay comes before it. */
static ff_status append(ff_trainer *trainer, const ff_trainer_update *group, const char *no_decay,
                        ff_error *error) {
    const bool parted = no_decay && group->hyper.weight_decay > 0;
    if (trainer->group_count + parted >= FF_TRAINER_GROUPS)
        return ff_fail(error, FF_USAGE, "--groups: more than %d groups of parameters",
                       FF_TRAINER_GROUPS);
    if (parted) {
        ff_trainer_update *part = &trainer->groups[trainer->group_count++];
        *part = *group;
        part->names = no_decay;
        part->within = strcmp(group->names, "*") == 0 ? NULL : group->names;
        part->hyper.weight_decay = 0;
    }
    trainer->groups[trainer->group_count++] = *group;
    return FF_OK;
}

/* "KEY=VALUE,...": *decays becomes true if weight-decay is among the keys. */
static ff_status read_numbers(ff_trainer_update *group, char *text, bool *decays, ff_error *error) {
    char *rest;
    for (char *part = strtok_r(text, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
        char *value = strchr(part, '='), *end = value;
        int i = 0;
        if (value) *value++ = '\0';
        if (strcmp(part, "optimizer") == 0) continue; /* read before */
        while (ff_hyper_name(i) && strcmp(part, ff_hyper_name(i)) != 0) i++;
        if (!ff_hyper_name(i))
            return ff_fail(error, FF_USAGE,
                           "--groups: '%s' of %s is unknown; there are optimizer, lr, momentum, "
                           "weight-decay, beta1, beta2, eps and trust",
                           part, group->names);
        const double number = value ? ff_real_read(value, &end) : -1;
        if (end == value || *end || !(number >= 0 && number <= 1e6))
            return ff_fail(error, FF_USAGE, "--groups: the %s of %s is not a number from 0 on",
                           part, group->names);
        FF_TRY(set_number(group, i, number, "groups", error));
        *decays |= strcmp(part, "weight-decay") == 0;
    }
    return FF_OK;
}

static ff_status read_group(ff_trainer *trainer, char *text, const ff_trainer_update *base,
                            const char *no_decay, const ff_recipe *recipe, ff_error *error) {
    ff_trainer_update group = *base;
    char *numbers = strchr(text, ':'), *optimizer;
    bool decays = false;
    ff_rule rule;
    if (!numbers || numbers == text)
        return ff_fail(error, FF_USAGE, "--groups: '%s' is not as in NAMES:KEY=VALUE,...", text);
    *numbers++ = '\0';
    group.names = text;
    optimizer = strstr(numbers, "optimizer=");
    if (optimizer && (optimizer == numbers || optimizer[-1] == ',')) {
        const char *name = optimizer + strlen("optimizer=");
        FF_TRY(find_optimizer("groups", name, strcspn(name, ","), &rule, error));
        if (rule != base->rule) set_defaults(&group, rule, trainer, recipe);
    }
    FF_TRY(read_numbers(&group, numbers, &decays, error));
    return append(trainer, &group, decays ? NULL : no_decay, error);
}

/* The text of --groups with its learning rates multiplied. */
static ff_status scale_rates(const char *text, int factor, ff_buffer *out, ff_error *error) {
    if (factor == 1) return ff_buffer_printf(out, error, "%s", text);
    for (const char *at = text; *at;) {
        const bool rate = at > text && strchr(":,", at[-1]) && !strncmp(at, "lr=", 3);
        char *end = NULL, number[FF_REAL_BYTES];
        const double value = rate ? ff_real_read(at + 3, &end) : 0;
        if (!rate || end == at + 3) {
            FF_TRY(ff_buffer_add(out, at++, 1, error));
            continue;
        }
        ff_real_write(value * factor, 6, number);
        FF_TRY(ff_buffer_printf(out, error, "lr=%s", number));
        at = end;
    }
    return ff_buffer_add(out, "", 1, error);
}

static ff_status resolve_given(ff_trainer *trainer, const ff_trainer_options *options,
                               const ff_recipe *recipe, ff_error *error) {
    ff_trainer_update base = {.names = "*"};
    FF_TRY(read_base(&base, trainer, options, recipe, error));
    const char *no_decay =
        options->no_decay ? options->no_decay : ff_optimizer_at(base.rule)->no_decay;
    if (no_decay && strcmp(no_decay, "none") == 0) no_decay = NULL;
    if (options->freeze)
        trainer->groups[trainer->group_count++] =
            (ff_trainer_update){.names = options->freeze, .rule = FF_RULE_SGD, .frozen = true};
    if (options->groups) {
        char *rest;
        ff_buffer scaled = {0};
        const ff_status status =
            scale_rates(options->groups, scale_of(options, options->scaled_groups), &scaled, error);
        trainer->groups_text = scaled.bytes;
        FF_TRY(status);
        FF_TRY(ff_copy_string(&trainer->groups_given, trainer->groups_text, error));
        for (char *text = strtok_r(trainer->groups_given, ";", &rest); text;
             text = strtok_r(NULL, ";", &rest))
            FF_TRY(read_group(trainer, text, &base, no_decay, recipe, error));
    }
    FF_TRY(append(trainer, &base, no_decay, error));
    trainer->main_group = trainer->group_count - 1;
    return FF_OK;
}

/* ---- groups of a recipe ---- */

static void resolve_groups(ff_trainer *trainer, const ff_recipe *recipe) {
    const double scale = recipe->summed_loss ? (double)trainer->batch / (double)recipe->batch : 1;
    for (int i = 0; i < FF_RECIPE_GROUPS && recipe->groups[i].names; i++) {
        const ff_recipe_group *from = &recipe->groups[i];
        trainer->groups[trainer->group_count++] = (ff_trainer_update){
            .names = from->names,
            .rule = from->rule,
            .hyper = {.learning_rate = from->learning_rate,
                      .momentum = from->momentum,
                      .weight_decay = from->weight_decay * scale,
                      .nesterov = from->nesterov},
        };
    }
}

/* ---- all of it ---- */

/* Every group has the same schedule, from its own peak; a recipe's group may end before the run. */
static ff_status resolve_schedules(ff_trainer *trainer, const ff_trainer_options *options,
                                   const ff_recipe *recipe, ff_error *error) {
    const bool given = options->schedule && strcmp(options->schedule, "auto") != 0;
    ff_schedule schedule = {0};
    double warmup = options->warmup_epochs;
    FF_TRY(ff_schedule_parse(&schedule, given ? options->schedule : recipe->schedule, error));
    if (warmup > trainer->epochs)
        return ff_fail(error, FF_USAGE,
                       "--warmup: %g epochs are more than the %" PRIu32 " of the whole run", warmup,
                       trainer->epochs);
    if (warmup > 0 && ff_schedule_rises(&schedule))
        return ff_fail(error, FF_USAGE,
                       "--warmup: the schedule %s begins with a rise of its own; leave it out",
                       schedule.text);
    /* A default warm-up takes at most a fifth of a short run. */
    if (warmup < 0) warmup = fmin(recipe->warmup_epochs, 0.2 * trainer->epochs);
    if (ff_schedule_rises(&schedule)) warmup = 0;
    schedule.warmup_steps = (uint64_t)(warmup * (double)trainer->batches + 0.5);
    for (int i = 0; i < trainer->group_count; i++) {
        ff_trainer_update *group = &trainer->groups[i];
        const double epochs = recipe->groups[0].names ? recipe->groups[i].epochs : 0;
        const uint64_t end = (uint64_t)ceil(epochs * (double)trainer->batches);
        group->schedule = schedule_of(trainer, &schedule, group->hyper.learning_rate);
        if (end && end < group->schedule.total_steps) group->schedule.total_steps = end;
    }
    return FF_OK;
}

/* Leaves out everything that keeps the net from overfitting. */
static void resolve_overfit(ff_trainer *trainer) {
    ff_schedule constant = {0};
    (void)!ff_schedule_parse(&constant, "constant", NULL);
    trainer->label_smoothing = trainer->dropout = 0;
    for (int i = 0; i < trainer->group_count; i++) {
        ff_trainer_update *group = &trainer->groups[i];
        group->hyper.weight_decay = 0;
        group->schedule = schedule_of(trainer, &constant, group->schedule.peak);
    }
}

/* The rates of other groups keep their proportion to the main group's rate. */
static void resolve_sweep(ff_trainer *trainer, const ff_trainer_sweep *sweep) {
    const double peak = trainer->groups[trainer->main_group].schedule.peak;
    for (int i = 0; i < trainer->group_count; i++) {
        double *own = &trainer->groups[i].schedule.peak;
        *own = trainer->groups[i].frozen ? 0 : peak > 0 ? *own / peak * sweep->to : sweep->to;
    }
}

ff_status ff_trainer_resolve_updates(ff_trainer *trainer, const ff_trainer_options *options,
                                     const ff_recipe *recipe, ff_error *error) {
    trainer->epochs = (uint32_t)(options->epochs > 0 ? options->epochs : recipe->epochs);
    if (options->sweep.steps)
        trainer->epochs = (uint32_t)((uint64_t)options->sweep.steps / trainer->batches + 1);
    if (recipe->groups[0].names) {
        FF_TRY(refuse_single(options, recipe, error));
        resolve_groups(trainer, recipe);
    } else {
        FF_TRY(resolve_given(trainer, options, recipe, error));
    }
    FF_TRY(resolve_schedules(trainer, options, recipe, error));
    trainer->sweep = options->sweep;
    if (options->sweep.steps) resolve_sweep(trainer, &options->sweep);
    trainer->clip_norm = options->clip_norm;
    trainer->ema_decay = options->ema;
    trainer->summed_loss = recipe->summed_loss;
    if (options->loss) FF_TRY(ff_loss_parse(&trainer->loss, options->loss, error));
    trainer->label_smoothing = real_or(options->label_smoothing, recipe->label_smoothing);
    trainer->dropout = options->dropout;
    if (options->overfit) resolve_overfit(trainer);
    trainer->views = options->views > 0  ? (int)options->views
                     : recipe->views > 0 ? recipe->views
                                         : 1;
    trainer->val_every =
        options->val_every >= 0 ? (uint32_t)options->val_every : (uint32_t)!recipe->evaluates_once;
    return FF_OK;
}

/* The step from which the group's parameters do not change. Parameters under Muon always change:
 * its step restores the norm of the filters at any learning rate. */
static uint64_t settled_at(const ff_trainer *trainer, int group) {
    const ff_schedule *schedule = &trainer->groups[group].schedule;
    const uint64_t all = ff_trainer_total_steps(trainer), end = schedule->total_steps;
    if (trainer->groups[group].frozen) return 0;
    if (trainer->sweep.steps) return all;
    /* Clipping uses the norm of all gradients. */
    if (trainer->clip_norm > 0) return all;
    if (trainer->groups[group].rule == FF_RULE_MUON || end >= all) return all;
    return ff_schedule_rate(schedule, end) == 0 ? end : all;
}

uint64_t ff_trainer_settled(const ff_trainer *trainer, bool *settled) {
    const ff_model *model = trainer->model;
    uint64_t first = ff_trainer_total_steps(trainer);
    for (int g = 0; g < trainer->group_count; g++)
        if (settled_at(trainer, g) < first) first = settled_at(trainer, g);
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const int group = ff_model_group(model, i);
        settled[i] = group >= 0 && settled_at(trainer, group) <= first &&
                     first < ff_trainer_total_steps(trainer);
    }
    return first;
}

/* The share of the largest rate. */
static double sweep_at(const ff_trainer_sweep *sweep, uint64_t step) {
    const double last = (double)(sweep->steps - 1);
    return pow(sweep->from / sweep->to, 1 - fmin((double)step / last, 1));
}

ff_update_options ff_trainer_update_options(const ff_trainer *trainer, const ff_hyper *hypers,
                                            const double *rates, uint64_t steps) {
    return (ff_update_options){
        .groups = hypers,
        .group_count = trainer->group_count,
        .rates = rates,
        .rate_steps = steps,
        .clip_norm = trainer->clip_norm,
        .ema_decay = trainer->ema_decay,
        .part_samples = (int)trainer->micro_all,
        .first_sample = (int)trainer->first_row,
        .summed = trainer->summed_loss,
        .tree = trainer->options->reproducible,
    };
}

void ff_trainer_steps(const ff_trainer *trainer, uint64_t step, ff_hyper *steps) {
    for (int i = 0; i < trainer->group_count; i++) {
        steps[i] = trainer->groups[i].hyper;
        const ff_schedule *schedule = &trainer->groups[i].schedule;
        steps[i].learning_rate = trainer->sweep.steps
                                     ? schedule->peak * sweep_at(&trainer->sweep, step)
                                     : ff_schedule_rate(schedule, step);
    }
}
