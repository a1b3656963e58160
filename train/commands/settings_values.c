/* From the options' values to the trainer's, and back. */
#include "train/commands/settings.h"

#include <string.h>

static const int views_of[] = {-1, 1, 2, 6};
enum { VIEWS = sizeof views_of / sizeof *views_of };
static const char *const computes[] = {"auto", "onednn", "reference"};

ff_status ff_settings_complete(ff_settings *out, ff_error *error) {
    ff_trainer_options *trainer = &out->trainer;
    trainer->stem = (ff_stem)out->stem;
    trainer->views = views_of[out->views];
    trainer->order = (ff_order_kind)out->order;
    trainer->last_batch = out->last_batch == 0 ? FF_LAST_BATCH_DROP : FF_LAST_BATCH_KEEP;
    trainer->verify = (ff_verify)out->verify;
    trainer->frozen_norms_train = out->frozen_norms == 1;
    trainer->frozen_norms_given = out->frozen_norms >= 0;
    trainer->reduce_dtype = (ff_dtype[]){FF_F32, FF_F16, FF_BF16}[out->reduce_dtype];
    trainer->compute = computes[out->compute];
    trainer->quiet = out->quiet;
    if (trainer->overfit && (out->finds || out->session.resume))
        return ff_fail(error, FF_USAGE, "--overfit begins anew; leave out %s",
                       out->finds ? "lr-find" : "--resume");
    if (!out->finds) trainer->sweep = (ff_trainer_sweep){0};
    if (out->finds && trainer->sweep.from >= trainer->sweep.to)
        return ff_fail(error, FF_USAGE, "--from %g: is not below --to %g", trainer->sweep.from,
                       trainer->sweep.to);
    if (out->finds && out->session.resume)
        return ff_fail(error, FF_USAGE, "lr-find begins anew; leave out --resume");
    if (out->placement && !ff_placement_parse(out->placement, &trainer->placement))
        return ff_fail(error, FF_USAGE, "--placement: '%s' is none of auto|resident|stream|host",
                       out->placement);
    if (out->device_json && !out->dry_run)
        return ff_fail(error, FF_USAGE, "--device-json only plans for a GPU; it needs --dry-run");
    if (out->json && !out->dry_run)
        return ff_fail(error, FF_USAGE,
                       "--json needs --dry-run; a run that trains logs with --log-json FILE");
    if (out->log_json && !strcmp(out->log_json, "-"))
        return ff_fail(error, FF_USAGE,
                       "--log-json -: wanted a file; --quiet --log-json /dev/stdout logs to the "
                       "standard output");
    if (out->world && !(out->dry_run && out->net))
        return ff_fail(error, FF_USAGE, "--world only predicts; it needs --dry-run and --net");
    if (out->net && !out->world)
        return ff_fail(error, FF_USAGE, "--net is the network of --world N, which is missing");
    if (trainer->order != FF_ORDER_BLOCK && (trainer->block || trainer->group))
        return ff_fail(error, FF_USAGE, "--%s is of --order block, and the order is %s",
                       trainer->block ? "block" : "group", ff_order_name(trainer->order));
    if (trainer->parts && !trainer->reproducible)
        return ff_fail(error, FF_USAGE, "--parts needs --reproducible");
    if (!trainer->device) trainer->device = "auto";
    return ff_machine_check(trainer->device, error);
}

/* The numbers of the optimizer and its learning rates, which a recipe with groups of its own keeps
 * to itself. */
static void resolve_updates(ff_settings *settings, const ff_trainer *trainer) {
    ff_trainer_options *options = &settings->trainer;
    const ff_trainer_update *main = &trainer->groups[trainer->main_group];
    const ff_optimizer *optimizer = ff_optimizer_at(main->rule);
    const bool momentum = optimizer->defaults.momentum != FF_UNREAD;
    options->optimizer = optimizer->name;
    for (int i = 0; ff_hyper_name(i); i++)
        if (*ff_hyper_at(&optimizer->defaults, i) != FF_UNREAD)
            *ff_hyper_at(&options->hyper, i) = *ff_hyper_at(&main->hyper, i);
    options->nesterov = momentum && main->hyper.nesterov;
    options->no_nesterov = momentum && !main->hyper.nesterov;
    options->schedule = main->schedule.text;
    if (!ff_schedule_rises(&main->schedule))
        options->warmup_epochs = (double)main->schedule.warmup_steps / (double)trainer->batches;
}

/* Groups with numbers for the optimizer that is replaced cannot stay: their rates would be used for
 * the other one. */
static ff_status check_groups(const char *groups, const char *was, const char *now,
                              ff_error *error) {
    for (const char *at = groups; at && *at; at += *at == ';') {
        const size_t length = strcspn(at, ";");
        if (length && !memmem(at, length, "optimizer=", strlen("optimizer=")))
            return ff_fail(error, FF_USAGE,
                           "--optimizer %s: the recipe's groups %s have numbers for %s; give "
                           "--groups with those for %s, or --groups '' for none",
                           now, groups, was, now);
        at += length;
    }
    return FF_OK;
}

/* ", lr 0.4" */
static void add_dropped(ff_settings *settings, const char *name, double value) {
    const size_t used = strlen(settings->dropped);
    char number[32] = "";
    if (value >= 0) ff_real_text(value, number);
    snprintf(settings->dropped + used, sizeof settings->dropped - used, "%s%s%s%s",
             used ? ", " : "", name, *number ? " " : "", number);
}

/* Of these numbers, those that are not given. */
static void drop(ff_settings *settings, const ff_hyper *numbers, const ff_hyper *given) {
    *settings->dropped = 0;
    for (int i = 0; ff_hyper_name(i); i++)
        if (*ff_hyper_at(numbers, i) >= 0 && *ff_hyper_at(given, i) < 0)
            add_dropped(settings, ff_hyper_name(i), *ff_hyper_at(numbers, i));
}

void ff_settings_leave_row(ff_settings *settings, const ff_recipe *row) {
    const ff_trainer_options *given = &settings->trainer;
    ff_hyper numbers = ff_trainer_default_options().hyper;
    if (row->groups[0].names || !given->optimizer || !strcmp(given->optimizer, "sgd")) return;
    numbers.learning_rate = row->learning_rate;
    numbers.momentum = row->momentum;
    numbers.weight_decay = row->weight_decay;
    drop(settings, &numbers, &given->hyper);
    if (row->nesterov) add_dropped(settings, "nesterov", -1);
}

ff_status ff_settings_say_dropped(const ff_settings *settings, const ff_trainer *trainer,
                                  ff_buffer *text, ff_error *error) {
    const ff_trainer_update *main = &trainer->groups[trainer->main_group];
    const ff_optimizer *optimizer = ff_optimizer_at(main->rule);
    const char *separator = "";
    if (!*settings->dropped) return FF_OK;
    FF_TRY(ff_buffer_printf(text, error,
                            "the recipe's %s are for another optimizer and not used; %s has ",
                            settings->dropped, optimizer->name));
    for (int i = 0; ff_hyper_name(i); i++) {
        char number[32];
        if (*ff_hyper_at(&optimizer->defaults, i) == FF_UNREAD) continue;
        ff_real_text(*ff_hyper_at(&main->hyper, i), number);
        FF_TRY(ff_buffer_printf(text, error, "%s%s %s", separator, ff_hyper_name(i), number));
        separator = ", ";
    }
    return FF_OK;
}

ff_status ff_settings_give_way(ff_settings *settings, const ff_settings *later, ff_error *error) {
    ff_trainer_options *own = &settings->trainer;
    const ff_trainer_options *given = &later->trainer;
    const char *optimizer = own->optimizer ? own->optimizer : "sgd";
    const bool other = given->optimizer && strcmp(given->optimizer, optimizer) != 0;
    if (other && !given->groups)
        FF_TRY(check_groups(own->groups, optimizer, given->optimizer, error));
    if (other) {
        drop(settings, &own->hyper, &given->hyper);
        if (own->nesterov) add_dropped(settings, "nesterov", -1);
        own->hyper = ff_trainer_default_options().hyper;
    }
    if (other || given->nesterov || given->no_nesterov || given->hyper.momentum == 0)
        own->nesterov = own->no_nesterov = false;
    return FF_OK;
}

void ff_settings_resolve(ff_settings *settings, const ff_trainer *trainer) {
    ff_trainer_options *options = &settings->trainer;
    const ff_recipe *recipe = trainer->recipe_name ? ff_recipe_named(trainer->recipe_name) : NULL;
    options->model = trainer->model_name;
    if (trainer->stem_of_weights) settings->stem = trainer->stem;
    options->epochs = trainer->epochs;
    options->batch = trainer->batch_asked;
    if (options->reproducible) { /* it may go on on more or fewer ranks */
        const ff_job *job = trainer->options->job;
        options->parts = trainer->accumulate * (job ? job->size : 1);
        options->accumulate = ff_trainer_default_options().accumulate;
    }
    options->augment = trainer->augment_text;
    options->val_every = trainer->val_every;
    /* A run that began without them goes on without. */
    if (trainer->order == FF_ORDER_BLOCK && (options->group || !options->first_step)) {
        options->block = (int64_t)trainer->block;
        options->group = (int64_t)trainer->group;
    }
    options->label_smoothing = trainer->label_smoothing;
    for (int i = 0; i < VIEWS; i++)
        if (views_of[i] == trainer->views) settings->views = i;
    if (!recipe || !recipe->groups[0].names) resolve_updates(settings, trainer);
}

const char *ff_settings_shares(const ff_settings *settings) {
    static const char measured[] = "auto=";
    const size_t length = sizeof measured - 1;
    const char *balance = settings->dp_balance;
    return balance && strncmp(balance, measured, length) == 0 ? balance + length : NULL;
}

void ff_settings_keep_run(ff_settings *settings, const ff_trainer *trainer) {
    const ff_settings defaults = ff_settings_default();
    settings->session.out = settings->session.name = settings->session.resume = NULL;
    settings->device_json = settings->log_json = settings->tensorboard = settings->show_batch =
        NULL;
    settings->quiet = settings->trainer.verbose = settings->top5 = false;
    settings->dp = NULL;
    if (!ff_settings_shares(settings)) settings->dp_balance = NULL;
    settings->ranks = defaults.ranks;
    settings->trainer.memory_bytes = 0;
    settings->trainer.scale_lr = false; /* the rates are resolved */
    if (settings->trainer.groups) settings->trainer.groups = trainer->groups_text;
    settings->rank_timeout = defaults.rank_timeout;
    ff_settings_resolve(settings, trainer);
}

bool ff_settings_looks(const ff_settings *settings) {
    return settings->finds || settings->trainer.overfit || settings->diagnose ||
           settings->check_gradients;
}

bool ff_settings_trains(const ff_settings *settings) {
    return !ff_settings_looks(settings) && !settings->dry_run && !settings->show_batch;
}

static void name_given(char *names, size_t size, bool given, const char *name) {
    const size_t used = strlen(names);
    if (given) snprintf(names + used, size - used, "%s--%s", used ? ", " : "", name);
}

void ff_settings_name_needy(ff_settings *settings, const ff_settings *line) {
    const ff_settings plain = ff_settings_default();
    const ff_session_options *is = &line->session, *was = &plain.session;
    char *folder = settings->for_folder, *validation = settings->for_validation;
    const size_t size = sizeof settings->for_folder;
    *folder = *validation = '\0';
    name_given(folder, size, is->every, "checkpoint-every");
    name_given(folder, size, is->keep != was->keep, "keep");
    name_given(folder, size, is->hash_every > 0, "hash-every");
    name_given(validation, size, line->trainer.val_every != plain.trainer.val_every, "val-every");
    name_given(validation, size, is->best_by != was->best_by, "best-by");
    name_given(validation, size, line->top5, "top5");
}
