#include "train/trainer_updates.h"

#include <inttypes.h>
#include <math.h>

static double real_or(double given, double fallback) {
    return given >= 0 ? given : fallback;
}

/* Refuses options for one group where each group has its own numbers. */
static ff_status refuse_single(const ff_trainer_options *options, const ff_recipe *recipe,
                               ff_error *error) {
    const char *option = options->learning_rate >= 0                 ? "--lr"
                         : options->momentum >= 0                    ? "--momentum"
                         : options->weight_decay >= 0                ? "--weight-decay"
                         : options->nesterov || options->no_nesterov ? "--nesterov"
                                                                     : NULL;
    if (!option) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "%s: the recipe %s has its own for each group of parameters; leave it out",
                   option, recipe->name);
}

static ff_schedule schedule_of(const ff_trainer *trainer, const ff_trainer_options *options,
                               const ff_recipe *recipe, double warmup, double peak) {
    return (ff_schedule){
        .kind = options->schedule >= 0 ? (ff_schedule_kind)options->schedule : recipe->schedule,
        .peak = peak,
        .final = 0,
        .warmup_steps = (uint64_t)(warmup * (double)trainer->batches + 0.5),
        .total_steps = ff_trainer_total_steps(trainer),
    };
}

/* One group: all parameters. */
static void resolve_single(ff_trainer *trainer, const ff_trainer_options *options,
                           const ff_recipe *recipe, double warmup) {
    double rate = options->learning_rate;
    if (rate < 0) rate = recipe->learning_rate * (double)trainer->batch / recipe->batch;
    ff_trainer_update *all = &trainer->groups[0];
    trainer->group_count = 1;
    *all = (ff_trainer_update){.names = "*", .rule = FF_RULE_SGD};
    all->schedule = schedule_of(trainer, options, recipe, warmup, rate);
    all->hyper.learning_rate = rate;
    all->hyper.momentum = real_or(options->momentum, recipe->momentum);
    all->hyper.weight_decay = real_or(options->weight_decay, recipe->weight_decay);
    all->hyper.nesterov =
        !options->no_nesterov && (options->nesterov || recipe->nesterov) && all->hyper.momentum > 0;
}

static void resolve_groups(ff_trainer *trainer, const ff_trainer_options *options,
                           const ff_recipe *recipe, double warmup) {
    const double scale = recipe->summed_loss ? (double)trainer->batch / (double)recipe->batch : 1;
    for (int i = 0; i < FF_RECIPE_GROUPS && recipe->groups[i].names; i++) {
        const ff_recipe_group *from = &recipe->groups[i];
        ff_trainer_update *to = &trainer->groups[trainer->group_count++];
        *to = (ff_trainer_update){
            .names = from->names,
            .rule = from->rule,
            .hyper = {.learning_rate = from->learning_rate,
                      .momentum = from->momentum,
                      .weight_decay = from->weight_decay * scale,
                      .nesterov = from->nesterov},
            .schedule = schedule_of(trainer, options, recipe, warmup, from->learning_rate),
        };
        const uint64_t end = (uint64_t)ceil(from->epochs * (double)trainer->batches);
        if (end && end < to->schedule.total_steps) to->schedule.total_steps = end;
    }
}

ff_status ff_trainer_resolve_updates(ff_trainer *trainer, const ff_trainer_options *options,
                                     const ff_recipe *recipe, ff_error *error) {
    trainer->epochs = (uint32_t)(options->epochs > 0 ? options->epochs : recipe->epochs);
    double warmup = options->warmup_epochs;
    if (warmup > trainer->epochs)
        return ff_fail(error, FF_USAGE,
                       "--warmup: %g epochs are more than the %" PRIu32 " of the whole run", warmup,
                       trainer->epochs);
    /* A default warm-up takes at most a fifth of a short run. */
    if (warmup < 0) warmup = fmin(recipe->warmup_epochs, 0.2 * trainer->epochs);
    if (recipe->groups[0].names) {
        FF_TRY(refuse_single(options, recipe, error));
        resolve_groups(trainer, options, recipe, warmup);
    } else {
        resolve_single(trainer, options, recipe, warmup);
    }
    trainer->summed_loss = recipe->summed_loss;
    trainer->label_smoothing = real_or(options->label_smoothing, recipe->label_smoothing);
    trainer->dropout = options->dropout;
    trainer->views = options->views > 0  ? (int)options->views
                     : recipe->views > 0 ? recipe->views
                                         : 1;
    trainer->val_every =
        options->val_every >= 0 ? (uint32_t)options->val_every : (uint32_t)!recipe->evaluates_once;
    if (!trainer->val_every) trainer->val_every = trainer->epochs;
    return FF_OK;
}

ff_status ff_trainer_set_groups(const ff_trainer *trainer, ff_error *error) {
    ff_group groups[FF_RECIPE_GROUPS];
    for (int i = 0; i < trainer->group_count; i++)
        groups[i] = (ff_group){.names = trainer->groups[i].names, .rule = trainer->groups[i].rule};
    return ff_model_set_groups(trainer->model, groups, trainer->group_count, error);
}

/* The step from which the group's parameters do not change. Muon's always change: its step restores
 * the norm of the filters at any learning rate. */
static uint64_t settled_at(const ff_trainer *trainer, int group) {
    const ff_schedule *schedule = &trainer->groups[group].schedule;
    const uint64_t all = ff_trainer_total_steps(trainer), end = schedule->total_steps;
    if (trainer->groups[group].rule != FF_RULE_SGD || end >= all) return all;
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

void ff_trainer_steps(const ff_trainer *trainer, uint64_t step, ff_hyper *steps) {
    for (int i = 0; i < trainer->group_count; i++) {
        steps[i] = trainer->groups[i].hyper;
        steps[i].learning_rate = ff_schedule_rate(&trainer->groups[i].schedule, step);
    }
}
