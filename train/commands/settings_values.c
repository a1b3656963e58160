/* Converts the options' values to the trainer's, and back. */
#include "format/base/real.h"
#include "train/commands/settings_table.h"

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
        return ff_fail(error, FF_USAGE, "--overfit starts from the beginning; leave out %s",
                       out->finds ? "lr-find" : "--resume");
    if (!out->finds) trainer->sweep = (ff_trainer_sweep){0};
    if (out->finds && trainer->sweep.from >= trainer->sweep.to)
        return ff_fail(error, FF_USAGE, "--from %g: is not below --to %g", trainer->sweep.from,
                       trainer->sweep.to);
    if (out->finds && out->session.resume)
        return ff_fail(error, FF_USAGE, "lr-find starts from the beginning; leave out --resume");
    if (out->placement && !ff_placement_parse(out->placement, &trainer->placement))
        return ff_fail(error, FF_USAGE, "--placement: '%s' is not one of auto|resident|stream|host",
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
    if (!ff_order_has_blocks(trainer->order) && (trainer->block || trainer->group))
        return ff_fail(error, FF_USAGE, "--%s is of --order block, and the order is %s",
                       trainer->block ? "block" : "group", ff_order_name(trainer->order));
    if (trainer->order != FF_ORDER_NODE_BLOCK && trainer->machines)
        return ff_fail(error, FF_USAGE, "--machines is of --order node-block, and the order is %s",
                       ff_order_name(trainer->order));
    if (trainer->parts && !trainer->reproducible)
        return ff_fail(error, FF_USAGE, "--parts needs --reproducible");
    if (!trainer->device) trainer->device = "auto";
    return ff_machine_check(trainer->device, error);
}

/* Groups with numbers for the optimizer that is replaced cannot stay: their rates would be used for
 * the other one. */
static ff_status check_groups(const char *groups, const char *was, const char *now,
                              ff_error *error) {
    for (const char *at = groups; at && *at; at += *at == ';') {
        const size_t length = strcspn(at, ";");
        if (length && !memmem(at, length, "optimizer=", strlen("optimizer=")))
            return ff_fail(error, FF_USAGE,
                           "--optimizer %s: the recipe's groups %s have numbers for %s; set "
                           "--groups with numbers for %s, or --groups '' for none",
                           now, groups, was, now);
        at += length;
    }
    return FF_OK;
}

/* ", lr 0.4" */
static void add_dropped(ff_settings *settings, const char *name, double value) {
    const size_t used = strlen(settings->dropped);
    char number[FF_REAL_BYTES] = "";
    if (value >= 0) ff_real_write(value, 6, number);
    snprintf(settings->dropped + used, sizeof settings->dropped - used, "%s%s%s%s",
             used ? ", " : "", name, *number ? " " : "", number);
}

/* Fills in the numbers that no option sets. */
static void drop(ff_settings *settings, const ff_hyper *numbers, const ff_hyper *given) {
    *settings->dropped = 0;
    for (int i = 0; ff_hyper_name(i); i++)
        if (*ff_hyper_at(numbers, i) >= 0 && *ff_hyper_at(given, i) < 0)
            add_dropped(settings, ff_hyper_name(i), *ff_hyper_at(numbers, i));
}

void ff_settings_leave_row(ff_settings *settings, const ff_recipe *row) {
    const ff_trainer_options *given = &settings->trainer;
    ff_hyper numbers = ff_settings_default().trainer.hyper;
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
        ff_real_write(*ff_hyper_at(&main->hyper, i), 6, number);
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
        own->hyper = ff_settings_default().trainer.hyper;
    }
    if (other || given->nesterov || given->no_nesterov || given->hyper.momentum == 0)
        own->nesterov = own->no_nesterov = false;
    return FF_OK;
}

const char *ff_settings_shares(const ff_settings *settings) {
    static const char measured[] = "auto=";
    const size_t length = sizeof measured - 1;
    const char *balance = settings->dp_balance;
    return balance && strncmp(balance, measured, length) == 0 ? balance + length : NULL;
}

bool ff_settings_looks(const ff_settings *settings) {
    return settings->finds || settings->trainer.overfit || settings->diagnose ||
           settings->check_gradients;
}

bool ff_settings_trains(const ff_settings *settings) {
    return !ff_settings_looks(settings) && !settings->dry_run && !settings->show_batch;
}

/* ---- what the trainer has resolved, in place of defaults ---- */

void ff_resolve_model(ff_settings *settings, const ff_trainer *trainer) {
    settings->trainer.model = trainer->model_name;
}

void ff_resolve_stem(ff_settings *settings, const ff_trainer *trainer) {
    if (trainer->stem_of_weights) settings->stem = trainer->stem;
}

void ff_resolve_epochs(ff_settings *settings, const ff_trainer *trainer) {
    settings->trainer.epochs = trainer->epochs;
}

void ff_resolve_batch(ff_settings *settings, const ff_trainer *trainer) {
    settings->trainer.batch = trainer->batch_asked;
}

/* A reproducible run may resume on more or fewer ranks: it keeps its parts of a batch, not the
 * micro-batches of a rank. */
void ff_resolve_parts(ff_settings *settings, const ff_trainer *trainer) {
    const ff_job *job = trainer->options->job;
    if (settings->trainer.reproducible)
        settings->trainer.parts = trainer->accumulate * (job ? job->size : 1);
}

void ff_resolve_accumulate(ff_settings *settings, const ff_trainer *trainer) {
    (void)trainer;
    if (settings->trainer.reproducible)
        settings->trainer.accumulate = ff_settings_default().trainer.accumulate;
}

void ff_resolve_augment(ff_settings *settings, const ff_trainer *trainer) {
    settings->trainer.augment = trainer->augment_text;
}

void ff_resolve_val_every(ff_settings *settings, const ff_trainer *trainer) {
    settings->trainer.val_every = trainer->val_every;
}

/* A run that began without blocks resumes without blocks. */
static bool keeps_blocks(const ff_settings *settings, const ff_trainer *trainer) {
    const ff_trainer_options *options = &settings->trainer;
    return ff_order_has_blocks(trainer->order) && (options->group || !options->first_step);
}

void ff_resolve_block(ff_settings *settings, const ff_trainer *trainer) {
    if (keeps_blocks(settings, trainer)) settings->trainer.block = (int64_t)trainer->block;
}

void ff_resolve_group(ff_settings *settings, const ff_trainer *trainer) {
    if (keeps_blocks(settings, trainer)) settings->trainer.group = (int64_t)trainer->group;
}

void ff_resolve_machines(ff_settings *settings, const ff_trainer *trainer) {
    settings->trainer.machines = trainer->machines;
}

void ff_resolve_label_smoothing(ff_settings *settings, const ff_trainer *trainer) {
    settings->trainer.label_smoothing = trainer->label_smoothing;
}

void ff_resolve_views(ff_settings *settings, const ff_trainer *trainer) {
    for (int i = 0; i < VIEWS; i++)
        if (views_of[i] == trainer->views) settings->views = i;
}

void ff_resolve_precision(ff_settings *settings, const ff_trainer *trainer) {
    if (settings->trainer.precision)
        settings->trainer.precision = ff_precision_name(trainer->precision);
}

void ff_resolve_groups(ff_settings *settings, const ff_trainer *trainer) {
    if (settings->trainer.groups) settings->trainer.groups = trainer->groups_text;
}

void ff_resolve_dp_balance(ff_settings *settings, const ff_trainer *trainer) {
    (void)trainer;
    if (!ff_settings_shares(settings)) settings->dp_balance = NULL;
}

static const ff_trainer_update *main_update(const ff_trainer *trainer) {
    return &trainer->groups[trainer->main_group];
}

static const ff_optimizer *main_optimizer(const ff_trainer *trainer) {
    return ff_optimizer_at(main_update(trainer)->rule);
}

static bool has_momentum(const ff_trainer *trainer) {
    return main_optimizer(trainer)->defaults.momentum != FF_UNREAD;
}

/* If a recipe has its own groups, their numbers and learning rates are not written as options. */
static bool has_updates(const ff_trainer *trainer) {
    const ff_recipe *recipe = trainer->recipe_name ? ff_recipe_named(trainer->recipe_name) : NULL;
    return !recipe || !recipe->groups[0].names;
}

void ff_resolve_optimizer(ff_settings *settings, const ff_trainer *trainer) {
    if (has_updates(trainer)) settings->trainer.optimizer = main_optimizer(trainer)->name;
}

/* Resolves all numbers of the optimizer together. */
void ff_resolve_numbers(ff_settings *settings, const ff_trainer *trainer) {
    const ff_hyper *reads = &main_optimizer(trainer)->defaults;
    for (int i = 0; has_updates(trainer) && ff_hyper_name(i); i++)
        if (*ff_hyper_at(reads, i) != FF_UNREAD)
            *ff_hyper_at(&settings->trainer.hyper, i) =
                *ff_hyper_at(&main_update(trainer)->hyper, i);
}

void ff_resolve_nesterov(ff_settings *settings, const ff_trainer *trainer) {
    if (has_updates(trainer))
        settings->trainer.nesterov = has_momentum(trainer) && main_update(trainer)->hyper.nesterov;
}

void ff_resolve_no_nesterov(ff_settings *settings, const ff_trainer *trainer) {
    if (has_updates(trainer))
        settings->trainer.no_nesterov =
            has_momentum(trainer) && !main_update(trainer)->hyper.nesterov;
}

void ff_resolve_schedule(ff_settings *settings, const ff_trainer *trainer) {
    if (has_updates(trainer)) settings->trainer.schedule = main_update(trainer)->schedule.text;
}

void ff_resolve_warmup(ff_settings *settings, const ff_trainer *trainer) {
    const ff_schedule *schedule = &main_update(trainer)->schedule;
    if (has_updates(trainer) && !ff_schedule_rises(schedule))
        settings->trainer.warmup_epochs = (double)schedule->warmup_steps / (double)trainer->batches;
}
