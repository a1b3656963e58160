#include "train/trainer_updates.h"

#include <inttypes.h>
#include <math.h>

static double real_or(double given, double fallback) {
    return given >= 0 ? given : fallback;
}

/* What cannot be given where each group has numbers of its own. */
static ff_status refuse_single(const ff_recipe_options *options, const ff_recipe_defaults *defaults,
                               ff_error *error) {
    const char *option = options->learning_rate >= 0                 ? "--lr"
                         : options->momentum >= 0                    ? "--momentum"
                         : options->weight_decay >= 0                ? "--weight-decay"
                         : options->nesterov || options->no_nesterov ? "--nesterov"
                                                                     : NULL;
    if (!option) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "%s: the recipe %s gives each group of parameters its own; leave it out", option,
                   defaults->recipe);
}

static ff_schedule schedule_of(const ff_recipe *recipe, const ff_recipe_options *options,
                               const ff_recipe_defaults *defaults, double warmup, double peak) {
    return (ff_schedule){
        .kind = options->schedule >= 0 ? (ff_schedule_kind)options->schedule : defaults->schedule,
        .peak = peak,
        .final = 0,
        .warmup_steps = (uint64_t)(warmup * (double)recipe->batches + 0.5),
        .total_steps = ff_recipe_total_steps(recipe),
    };
}

/* One group: all parameters. */
static void resolve_single(ff_recipe *recipe, const ff_recipe_options *options,
                           const ff_recipe_defaults *defaults, double warmup) {
    double rate = options->learning_rate;
    if (rate < 0) rate = defaults->learning_rate * (double)recipe->batch / defaults->batch;
    ff_recipe_update *all = &recipe->groups[0];
    recipe->group_count = 1;
    *all = (ff_recipe_update){.names = "*", .rule = FF_RULE_SGD};
    all->schedule = schedule_of(recipe, options, defaults, warmup, rate);
    all->sgd.learning_rate = rate;
    all->sgd.momentum = real_or(options->momentum, defaults->momentum);
    all->sgd.weight_decay = real_or(options->weight_decay, defaults->weight_decay);
    all->sgd.nesterov =
        !options->no_nesterov && (options->nesterov || defaults->nesterov) && all->sgd.momentum > 0;
}

static void resolve_groups(ff_recipe *recipe, const ff_recipe_options *options,
                           const ff_recipe_defaults *defaults, double warmup) {
    const double scale =
        defaults->summed_loss ? (double)recipe->batch / (double)defaults->batch : 1;
    for (int i = 0; i < FF_RECIPE_GROUPS && defaults->groups[i].names; i++) {
        const ff_recipe_group *from = &defaults->groups[i];
        ff_recipe_update *to = &recipe->groups[recipe->group_count++];
        *to = (ff_recipe_update){
            .names = from->names,
            .rule = from->rule,
            .sgd = {.learning_rate = from->learning_rate,
                    .momentum = from->momentum,
                    .weight_decay = from->weight_decay * scale,
                    .nesterov = from->nesterov},
            .schedule = schedule_of(recipe, options, defaults, warmup, from->learning_rate),
        };
        const uint64_t end = (uint64_t)ceil(from->epochs * (double)recipe->batches);
        if (end && end < to->schedule.total_steps) to->schedule.total_steps = end;
    }
}

ff_status ff_recipe_resolve_updates(ff_recipe *recipe, const ff_recipe_options *options,
                                    const ff_recipe_defaults *defaults, ff_error *error) {
    recipe->epochs = (uint32_t)(options->epochs > 0 ? options->epochs : defaults->epochs);
    double warmup = options->warmup_epochs;
    if (warmup > recipe->epochs)
        return ff_fail(error, FF_USAGE,
                       "--warmup: %g epochs are more than the %" PRIu32 " of the whole run", warmup,
                       recipe->epochs);
    /* A default warm-up leaves a short run most of its steps. */
    if (warmup < 0) warmup = fmin(defaults->warmup_epochs, 0.2 * recipe->epochs);
    if (defaults->groups[0].names) {
        FF_TRY(refuse_single(options, defaults, error));
        resolve_groups(recipe, options, defaults, warmup);
    } else {
        resolve_single(recipe, options, defaults, warmup);
    }
    recipe->summed_loss = defaults->summed_loss;
    recipe->label_smoothing = real_or(options->label_smoothing, defaults->label_smoothing);
    recipe->dropout = options->dropout;
    recipe->views = options->views > 0    ? (int)options->views
                    : defaults->views > 0 ? defaults->views
                                          : 1;
    recipe->val_every = options->val_every >= 0 ? (uint32_t)options->val_every
                                                : (uint32_t)!defaults->evaluates_once;
    if (!recipe->val_every) recipe->val_every = recipe->epochs;
    return FF_OK;
}

ff_status ff_recipe_set_groups(const ff_recipe *recipe, ff_error *error) {
    ff_group groups[FF_RECIPE_GROUPS];
    if (recipe->group_count == 1) return FF_OK;
    for (int i = 0; i < recipe->group_count; i++)
        groups[i] = (ff_group){recipe->groups[i].names, recipe->groups[i].rule};
    return ff_model_set_groups(recipe->model, groups, recipe->group_count, error);
}

/* The step from which the group's parameters stay as they are. Muon's never do: its step restores
 * the norm of the filters at any learning rate. */
static uint64_t settled_at(const ff_recipe *recipe, int group) {
    const ff_schedule *schedule = &recipe->groups[group].schedule;
    const uint64_t all = ff_recipe_total_steps(recipe), end = schedule->total_steps;
    if (recipe->groups[group].rule != FF_RULE_SGD || end >= all) return all;
    return ff_schedule_rate(schedule, end) == 0 ? end : all;
}

uint64_t ff_recipe_settled(const ff_recipe *recipe, bool *settled) {
    const ff_model *model = recipe->model;
    uint64_t first = ff_recipe_total_steps(recipe);
    for (int g = 0; g < recipe->group_count; g++)
        if (settled_at(recipe, g) < first) first = settled_at(recipe, g);
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const int group = ff_model_group(model, i);
        settled[i] = group >= 0 && settled_at(recipe, group) <= first &&
                     first < ff_recipe_total_steps(recipe);
    }
    return first;
}

void ff_recipe_steps(const ff_recipe *recipe, uint64_t step, ff_sgd *steps) {
    for (int i = 0; i < recipe->group_count; i++) {
        steps[i] = recipe->groups[i].sgd;
        steps[i].learning_rate = ff_schedule_rate(&recipe->groups[i].schedule, step);
    }
}
