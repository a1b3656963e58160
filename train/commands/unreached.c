#include "train/commands/unreached.h"

#include "format/base/memory.h"
#include "format/cli/say.h"
#include "train/checkpoint/every.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static ff_status say_every(const ff_settings *settings, const ff_trainer *trainer, char **text,
                           ff_error *error) {
    ff_every every;
    if (!ff_session_keeps(&settings->session)) return FF_OK;
    FF_TRY(ff_every_parse(&every, settings->session.every, error));
    const uint64_t steps = ff_trainer_total_steps(trainer), epochs = trainer->epochs;
    const bool late = (every.unit == FF_EVERY_STEPS && every.amount > (double)steps) ||
                      (every.unit == FF_EVERY_EPOCHS && every.amount > (double)epochs);
    if (!late) return FF_OK;
    return ff_format(text, error,
                     "--checkpoint-every %s: the run has %s, so a checkpoint is saved at its end "
                     "alone",
                     settings->session.every,
                     every.unit == FF_EVERY_STEPS ? ff_say_count(steps, "step", "steps").text
                                                  : ff_say_count(epochs, "epoch", "epochs").text);
}

static ff_status say_sizes(const ff_settings *settings, const ff_trainer *trainer, char **text,
                           ff_error *error) {
    if (!trainer->size_late) return FF_OK;
    return ff_format(text, error,
                     "--sizes %s: the run has %s, so the sizes from epoch %" PRIu32
                     " on have no effect",
                     settings->trainer.sizes, ff_say_count(trainer->epochs, "epoch", "epochs").text,
                     trainer->size_late + 1);
}

static ff_status say_schedule(const ff_settings *settings, const ff_trainer *trainer, char **text,
                              ff_error *error) {
    const ff_schedule *schedule = &trainer->groups[trainer->main_group].schedule;
    const double late = ff_schedule_late(schedule, ff_trainer_total_steps(trainer));
    (void)settings;
    if (late <= 0) return FF_OK;
    return ff_format(
        text, error,
        "--schedule %s: the run has %s, so the learning rate does not fall after epoch %g",
        schedule->text, ff_say_count(trainer->epochs, "epoch", "epochs").text, late);
}

static ff_status say_warm_up(const ff_settings *settings, const ff_trainer *trainer, char **text,
                             ff_error *error) {
    const ff_schedule *schedule = &trainer->groups[trainer->main_group].schedule;
    const double warmup = settings->trainer.warmup_epochs;
    if (warmup <= 0) return FF_OK;
    if (!schedule->warmup_steps)
        return ff_format(text, error, "--warmup %g: an epoch has %s, so there is no warm-up",
                         warmup, ff_say_count(trainer->batches, "step", "steps").text);
    if (schedule->warmup_steps < ff_trainer_total_steps(trainer)) return FF_OK;
    return ff_format(text, error,
                     "--warmup %g: the run has %s, so the learning rate rises until its end and "
                     "the schedule %s has no effect",
                     warmup, ff_say_count(trainer->epochs, "epoch", "epochs").text, schedule->text);
}

static ff_status say_folder(const ff_settings *settings, const ff_trainer *trainer, char **text,
                            ff_error *error) {
    (void)trainer;
    if (!*settings->for_folder || ff_session_keeps(&settings->session)) return FF_OK;
    return ff_format(text, error, "--out none: nothing is kept, so these have no effect: %s",
                     settings->for_folder);
}

static ff_status say_validation(const ff_settings *settings, const ff_trainer *trainer, char **text,
                                ff_error *error) {
    if (!*settings->for_validation || trainer->splits.val) return FF_OK;
    return ff_format(text, error, "the run has no validation set, so these have no effect: %s",
                     settings->for_validation);
}

static ff_status say_patience(const ff_settings *settings, const ff_trainer *trainer, char **text,
                              ff_error *error) {
    const int64_t patience = settings->trainer.patience;
    const uint32_t every = trainer->val_every ? trainer->val_every : trainer->epochs;
    const uint32_t evaluations = (trainer->epochs + every - 1) / every;
    if (!patience) return FF_OK;
    if (!trainer->splits.val)
        return ff_fail(error, FF_USAGE,
                       "--patience %" PRId64
                       " counts evaluations, and the run has no validation set; --val names one, "
                       "--patience 0 trains to the end",
                       patience);
    if (patience < evaluations) return FF_OK;
    return ff_format(text, error, "--patience %" PRId64 ": the run has %s, so it never stops early",
                     patience, ff_say_count(evaluations, "evaluation", "evaluations").text);
}

static ff_status say_storage(const ff_settings *settings, const ff_trainer *trainer, char **text,
                             ff_error *error) {
    const ff_dataset *train = trainer->splits.train, *val = trainer->splits.val;
    const char *path[FF_SETS_LIMIT + 1];
    size_t count = 0;
    for (; count < ff_dataset_set_count(train); count++)
        path[count] = ff_dataset_path(ff_dataset_set(train, count));
    path[count++] = val ? ff_dataset_path(val) : NULL;
    const char *idle = ff_storage_idle_option(&settings->storage, path, count);
    if (!idle) return FF_OK;
    return ff_format(text, error, "--%s has no effect: no set lies behind a URL%s", idle,
                     strcmp(idle, "endpoint") ? "" : " of s3:// or gs://");
}

ff_status ff_unreached_say(const ff_settings *settings, const ff_trainer *trainer,
                           ff_session *session, ff_error *error) {
    static ff_status (*const parts[])(const ff_settings *settings, const ff_trainer *trainer,
                                      char **text, ff_error *error) = {
        say_folder, say_validation, say_patience, say_every,
        say_sizes,  say_schedule,   say_warm_up,  say_storage};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *text = NULL;
        ff_status status = parts[i](settings, trainer, &text, error);
        if (text) status = ff_session_add_note(session, text, error);
        free(text);
        FF_TRY(status);
    }
    return FF_OK;
}
