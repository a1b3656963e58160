#include "train/commands/train_ranks.h"

#include "format/base/read.h"
#include "format/cli/interrupt.h"
#include "format/disk/checksum.h"
#include "train/comm/job/devices.h"
#include "train/comm/job/job.h"
#include "train/comm/job/launch.h"
#include "train/comm/job/shares.h"
#include "train/predict/balance.h"
#include "train/predict/precision_choice.h"
#include "train/run/run.h"
#include "train/trainer/origin.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One version may have several builds, for example an old one left on a machine. */
static ff_status agree_build(ff_job *job, ff_error *error) {
    ff_buffer program = {0};
    uint64_t sum;
    ff_status status;
    FF_TRY_DONE(ff_read_whole(&program, "/proc/self/exe", UINT64_C(1) << 30, error));
    sum = ff_checksum(program.bytes, program.length);
    status = ff_job_agree(job, "another build of fftrain", &sum, sizeof sum, error);
done:
    ff_buffer_free(&program);
    return status;
}

ff_status ff_train_agree(const ff_settings *settings, const ff_trainer *trainer, ff_error *error) {
    ff_job *job = trainer->options->job;
    ff_settings kept = *settings;
    ff_buffer recipe = {0};
    ff_origin origin;
    ff_status status;
    if (!job || !job->channel) return FF_OK;
    FF_TRY(agree_build(job, error));
    ff_settings_keep_run(&kept, trainer);
    ff_settings_leave_rank(&kept);
    FF_TRY_DONE(ff_settings_write(&kept, &recipe, error));
    FF_TRY_DONE(
        ff_buffer_printf(&recipe, error, "first step %" PRIu64 "\n", trainer->options->first_step));
    FF_TRY_DONE(ff_job_agree_text(job, "other options", &recipe, error));
    ff_dataset *const sets[] = {trainer->splits.train, trainer->splits.val};
    static const char *const what[] = {"another training set", "another validation set"};
    for (int i = 0; i < 2; i++) {
        const uint8_t none[16] = {0};
        const uint8_t *id = sets[i] ? ff_dataset_id(sets[i])->content : none;
        const uint8_t *classes = sets[i] ? ff_dataset_id(sets[i])->transform : none;
        FF_TRY_DONE(ff_job_agree(job, what[i], id, sizeof none, error));
        FF_TRY_DONE(
            ff_job_agree(job, "other classes or transforms of a set", classes, sizeof none, error));
    }
    ff_origin_of(&origin, trainer);
    FF_TRY_DONE(
        ff_job_agree(job, "other samples of them", origin.selected, sizeof origin.selected, error));
    status = ff_job_agree(job, "other class weights", origin.class_weights,
                          sizeof origin.class_weights, error);
done:
    ff_buffer_free(&recipe);
    return status;
}

typedef struct team {
    const ff_settings *settings;
    ff_session *session;
    ff_train_first *first;
    ff_rank_devices devices; /* of --dp */
    const char *device;      /* of this rank; NULL = by the options */
} team;

/* Another rank, on another machine, may lack the files that rank 0 finds. */
static ff_status not_there(const ff_job *job, ff_status status, ff_error *error) {
    char first[sizeof error->message];
    if (!job->rank || status != FF_IO || ff_ranks_are_own(job->ranks)) return status;
    snprintf(first, sizeof first, "%s", error->message);
    return ff_fail(error, status, "%s; every rank opens it at this path", first);
}

/* A rank without a folder and reports. */
static ff_status train_silently(const team *all, ff_job *job, ff_error *error) {
    static const char *const no_logs[FF_REPORT_LOGS] = {NULL};
    ff_trainer_options options = all->settings->trainer;
    ff_trainer *trainer = NULL;
    ff_report *report = NULL;
    ff_run_options run = {.best_by = (ff_best_by)all->settings->session.best_by,
                          .may_be_complete = ff_session_is_automatic(all->session)};
    ff_tuning tuning = {.quiet = true};
    ff_status status;
    options.tuning = &tuning;
    options.first_step = ff_session_step(all->session);
    options.job = job;
    if (all->device) options.device = all->device;
    options.quiet = true;
    status = ff_trainer_create(&trainer, &options, error);
    ff_tuning_end(&tuning);
    FF_TRY_DONE(not_there(job, status, error));
    FF_TRY_DONE(ff_train_agree(all->settings, trainer, error));
    FF_TRY_DONE(ff_report_create(&report, no_logs, NULL, NULL, error));
    FF_TRY_DONE(ff_run(trainer, report, &run, error));
done:
    status = ff_job_conclude(job, status, error);
    ff_trainer_destroy(&trainer);
    ff_tuning_release(&tuning);
    ff_report_destroy(&report);
    return status;
}

/* --dp-balance auto */
static bool measures(const ff_settings *settings) {
    return settings->dp_balance &&
           (strcmp(settings->dp_balance, "auto") == 0 || ff_settings_shares(settings));
}

/* Measures shares[job->size], and writes them. */
static ff_status choose_shares(const team *all, ff_job *job, uint32_t *cuts, ff_buffer *text,
                               ff_error *error) {
    const ff_settings *settings = all->settings;
    ff_trainer_options options = settings->trainer;
    char *why = NULL;
    int64_t *rows;
    ff_status status;
    options.job = job;
    options.quiet = true;
    if (all->device) options.device = all->device;
    FF_TRY(ff_alloc(&rows, (uint64_t)job->size, sizeof *rows, "shares", error));
    FF_TRY_DONE(ff_balance_measure(&options, rows, &why, error));
    for (int i = 0; i < job->size; i++) cuts[i + 1] = cuts[i] + (uint32_t)rows[i];
    FF_TRY_DONE(ff_buffer_printf(text, error, "auto"));
    for (int i = 0; i < job->size; i++)
        FF_TRY_DONE(ff_buffer_printf(text, error, "%c%" PRId64, i ? ',' : '=', rows[i]));
    if (!job->rank && !settings->quiet)
        printf("balance        %s of %" PRIu32 " samples: %s\n", text->bytes + sizeof "auto",
               cuts[job->size], why);
done:
    free(why);
    free(rows);
    return status;
}

/* --precision auto: writes the choice to the settings. *text: why, owned by the caller. Commands
 * that need no choice measure nothing; --check-gradients has the precision without the option. */
static ff_status choose_precision(const team *all, ff_job *job, ff_settings *settings, char **text,
                                  ff_error *error) {
    ff_trainer_options options = settings->trainer;
    ff_precision precision;
    if (!ff_precision_is_auto(options.precision) || settings->dry_run || settings->show_batch ||
        settings->check_gradients)
        return FF_OK;
    options.job = job;
    options.quiet = true;
    if (all->device) options.device = all->device;
    FF_TRY(ff_precision_choose(&options, &precision, text, error));
    settings->trainer.precision = ff_precision_name(precision);
    settings->trainer.precision_reason = *text;
    if ((!job || !job->rank) && !settings->quiet)
        printf("precision      %s: %s\n", settings->trainer.precision, *text);
    return FF_OK;
}

static ff_status run_rank(void *context, ff_job *job, ff_error *error) {
    team all = *(const team *)context;
    ff_settings settings = *all.settings;
    const char *shares = ff_settings_shares(&settings);
    ff_buffer text = {0};
    char *why = NULL;
    uint32_t *cuts;
    ff_status status;
    all.settings = &settings;
    FF_TRY(ff_alloc(&cuts, (uint64_t)job->size + 1, sizeof *cuts, "shares", error));
    job->divides = all.devices.count;
    if (job->divides) job->cuts = all.devices.cuts;
    if (measures(&settings) && !(shares && ff_shares_parse(shares, job->size, cuts))) {
        cuts[0] = 0;
        FF_TRY_DONE(choose_shares(&all, job, cuts, &text, error));
        settings.dp_balance = text.bytes;
    }
    if (measures(&settings)) job->cuts = cuts;
    FF_TRY_DONE(choose_precision(&all, job, &settings, &why, error));
    status = job->rank ? train_silently(&all, job, error)
                       : all.first(&settings, all.session, job, all.device, error);
done:
    ff_buffer_free(&text);
    free(cuts);
    free(why);
    return status;
}

/* Reads --dp, which excludes the other ways to name ranks or a device. */
static ff_status read_devices(team *all, const ff_ranks *ranks, ff_error *error) {
    const ff_settings *settings = all->settings;
    ff_rank_devices *devices = &all->devices;
    const char *device = settings->trainer.device;
    FF_TRY(ff_rank_devices_parse(devices, settings->dp,
                                 measures(settings) ? NULL : settings->dp_balance, error));
    if (!devices->count) return FF_OK;
    if (settings->ranks) return ff_fail(error, FF_USAGE, "--dp and --ranks exclude each other");
    if (device && strcmp(device, "auto") != 0)
        return ff_fail(error, FF_USAGE, "--dp and --device exclude each other");
    if (ranks->size > 1 && !(ff_ranks_are_own(ranks) && ranks->size == devices->count))
        return ff_fail(error, FF_USAGE, "--dp: a rank of a job that %s started has one device",
                       ranks->family);
    all->device = devices->name[ranks->rank];
    return FF_OK;
}

/* Trains alone, or as a rank of a job. A single device of --dp is a job of one rank. */
static ff_status train_on(team *all, const ff_ranks *ranks, int count, ff_error *error) {
    ff_settings own = *all->settings;
    const ff_settings *settings = all->settings;
    const ff_rank_work work = {run_rank, all, (uint64_t)settings->rank_timeout * 1000000000};
    const bool is_job = all->devices.count || ranks->size > 1;
    uint32_t equal[FF_RANK_DEVICES + 1];
    char *why = NULL;
    if (is_job && ff_settings_trains(settings)) return ff_rank_run(ranks, &work, error);
    if ((is_job || count > 1) && !settings->dry_run && !ff_settings_trains(settings))
        return ff_fail(error, FF_USAGE,
                       "several ranks only train; what looks at a net or at "
                       "its input takes one device");
    if (ranks->rank) return FF_OK; /* only the first one's plan */
    for (uint32_t i = 0; i <= FF_RANK_DEVICES; i++) equal[i] = i;
    ff_job first = {
        .size = count, .local_size = count, .cuts = all->devices.count ? all->devices.cuts : equal};
    const bool plans = all->devices.count || count > 1;
    ff_status status = choose_precision(all, NULL, &own, &why, error);
    if (status == FF_OK)
        status = all->first(&own, all->session, plans ? &first : NULL, all->device, error);
    free(why);
    return status;
}

ff_status ff_train_ranks(const ff_settings *settings, ff_session *session, char **argv,
                         ff_train_first *first, ff_error *error) {
    team all = {.settings = settings, .session = session, .first = first};
    ff_ranks ranks = {0};
    ff_status status;
    FF_TRY_DONE(ff_ranks_read(&ranks, error));
    FF_TRY_DONE(read_devices(&all, &ranks, error));
    const int count = all.devices.count ? all.devices.count : (int)settings->ranks;
    const bool starts = (all.devices.count > 1 || settings->ranks) && ff_settings_trains(settings);
    if (starts && !ff_ranks_are_own(&ranks)) {
        status = ff_ranks_start(count, argv, (uint64_t)settings->rank_timeout * 1000000000, error);
        goto done;
    }
    ff_interrupt_install(SIGUSR1);
    status = train_on(&all, &ranks, count, error);
done:
    ff_ranks_free(&ranks);
    return status;
}

static ff_status fail_again(void *context, ff_job *job, ff_error *error) {
    *error = *(const ff_error *)context;
    return not_there(job, error->status, error);
}

void ff_train_tell_ranks(const ff_settings *settings, ff_error *error) {
    ff_error own = *error, told;
    const ff_rank_work work = {fail_again, &own, (uint64_t)settings->rank_timeout * 1000000000};
    ff_ranks ranks;
    if (ff_ranks_read(&ranks, &told) == FF_OK && ranks.size > 1)
        (void)!ff_rank_run(&ranks, &work, &told);
    ff_ranks_free(&ranks);
}
