#include "train/run/run.h"

#include "format/base/thread.h"
#include "format/cli/interrupt.h"
#include "format/cli/say.h"
#include "train/compute/compute.h"
#include "train/debug/bad_loss.h"
#include "train/debug/hashes.h"
#include "train/net/average.h"
#include "train/net/whitening.h"
#include "train/run/epoch_evaluation.h"
#include "train/run/ranks.h"
#include "train/run/saves.h"
#include "train/trainer/run_step.h"
#include "train/trainer/warm_up.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>

/* A run in progress. */
typedef struct running {
    ff_trainer *trainer;
    ff_report *report;
    const ff_run_options *options;
    ff_run_state state; /* except control and forwards, which belong to the model */
    ff_run_result result;
    bool gpu_read; /* in this epoch */
    ff_nvml_reading gpu;
    uint64_t began_ns; /* when the epoch's training began in this process */
    uint64_t asked_ns; /* since then: the host's waiting for batches */
    ff_saves saves;
    ff_hashes *hashes;   /* NULL = no hashes are kept */
    ff_outcome outcome;  /* the last that has arrived */
    bool goes_on;        /* resumes from a checkpoint; in a job, rank 0 does */
    uint64_t steps;      /* in this process */
    ff_epoch_sums begun; /* the run's, before the steps that are timed for a warning */
    const char *told[2]; /* notes already reported */
    ff_stop stop;
    bool unread; /* the next step's samples could not be read, and nothing of the step was made */
} running;

static double rate_of(const ff_trainer *trainer, uint64_t step) {
    return ff_schedule_rate(&trainer->groups[trainer->main_group].schedule, step);
}

/* Time of the epoch's training so far. */
static ff_step_clock clock_of(const running *run) {
    const ff_epoch_sums *sums = &run->state.epoch;
    return (ff_step_clock){.elapsed = (double)(sums->train_ns + ff_now_ns() - run->began_ns),
                           .waited = (double)(sums->wait_ns + run->asked_ns)};
}

/* Adds the outcomes that have arrived; with `wait`, all of them. */
static ff_status collect(running *run, bool wait, ff_error *error) {
    ff_trainer *trainer = run->trainer;
    ff_epoch_sums *sums = &run->state.epoch;
    for (;;) {
        const ff_outcome *outcomes;
        uint32_t count;
        FF_TRY(ff_step_outcomes(trainer->step, wait, &outcomes, &count, error));
        if (!count) return FF_OK;
        ff_report_outcomes(run->report, outcomes, count, clock_of(run));
        for (uint32_t i = 0; i < count; i++) {
            const ff_outcome *one = &outcomes[i];
            if (one->bad_sample >= 0)
                return ff_fail(
                    error, FF_BAD_DATA,
                    "%s: the label of sample %d of step %" PRIu64 " is not a class of the model",
                    ff_dataset_path(trainer->splits.train), one->bad_sample, one->step + 1);
            if (ff_loss_is_bad(trainer, one)) {
                const char *last = ff_saves_last(&run->saves);
                return ff_loss_failed(trainer, one, last ? last : run->options->from_path,
                                      run->options->folder, error);
            }
            run->outcome = *one;
            ff_stop_note(&run->stop, trainer, one);
            sums->loss_sum += ff_outcome_loss(one);
            sums->count += one->count;
            sums->correct += one->correct;
            sums->skipped += one->non_finite != 0;
            sums->loss_scale = one->loss_scale;
        }
    }
}

/* Enqueues the next step. */
static ff_status train_batch(running *run, ff_error *error) {
    ff_trainer *trainer = run->trainer;
    const uint64_t step = run->state.totals.steps;
    const bool hashed = ff_hashes_due(run->hashes, step + 1);
    ff_step_input taken = {0};
    const ff_status status =
        hashed ? ff_run_step(trainer, step, ff_hashes_part, run->hashes, &taken, error)
               : ff_run_step(trainer, step, ff_micro_batch_train, trainer->step, &taken, error);
    run->unread = status == FF_IO && !taken.begun;
    FF_TRY(status);
    run->state.epoch.samples += ff_trainer_samples(trainer, step);
    run->asked_ns += taken.asked_ns;
    run->state.totals.steps++;
    run->steps++;
    if (!hashed) return FF_OK;
    FF_TRY(collect(run, true, error));
    (void)!ff_hashes_write(run->hashes, &run->outcome, NULL); /* its note is reported */
    return FF_OK;
}

/* The time that steps waited for data since the last call; a device measures it by events. */
static uint64_t take_wait(running *run, uint64_t train_ns) {
    const ff_step_times times = ff_step_measure(run->trainer->step);
    const uint64_t asked = run->asked_ns;
    run->asked_ns = 0;
    if (!ff_machine_device(run->trainer->machine)) return asked;
    if (!times.step_ns) return 0;
    return (uint64_t)((double)train_ns * (double)times.wait_ns / (double)times.step_ns);
}

/* Adds the time since the last call to the epoch's. */
static void take_times(running *run) {
    const uint64_t now = ff_now_ns(), train_ns = now - run->began_ns;
    run->state.epoch.train_ns += train_ns;
    run->state.epoch.wait_ns += take_wait(run, train_ns);
    run->began_ns = now;
}

/* Reports notes, each once. */
static void tell_note(running *run) {
    const char *notes[] = {ff_step_note(run->trainer->step), ff_hashes_note(run->hashes)};
    const char *reading = ff_feed_take_note(run->trainer->train_feed);
    for (int i = 0; i < 2; i++) {
        if (notes[i] && notes[i] != run->told[i]) ff_report_note(run->report, notes[i]);
        run->told[i] = notes[i];
    }
    if (reading) ff_report_note(run->report, reading);
}

/* The run's times and samples so far. */
static ff_epoch_sums all_of(const running *run) {
    const ff_epoch_sums *sums = &run->state.epoch;
    const ff_run_totals *totals = &run->state.totals;
    return (ff_epoch_sums){.train_ns = totals->train_ns + sums->train_ns,
                           .wait_ns = totals->wait_ns + sums->wait_ns,
                           .samples = totals->samples + sums->samples};
}

/* Once some steps have shown how long they take without waiting: reports if the disk, as it was
 * measured, will slow them down. The first steps take longer and do not count. */
static ff_status expect_waits(running *run, ff_error *error) {
    enum { FIRST = 2 };
    const ff_trainer *trainer = run->trainer;
    const uint64_t timed =
        ff_machine_device(trainer->machine) ? 32 : 8; /* events measure only some of the steps */
    char text[512];
    if (ff_promise_own(&trainer->promise)->samples <= 0) return FF_OK;
    if (run->steps != FIRST && run->steps != FIRST + timed) return FF_OK;
    FF_TRY(collect(run, true, error));
    take_times(run);
    const ff_epoch_sums now = all_of(run);
    if (run->steps == FIRST) {
        run->begun = now;
        return FF_OK;
    }
    const double train_ns = (double)(now.train_ns - run->begun.train_ns);
    const double alone_ns = train_ns - (double)(now.wait_ns - run->begun.wait_ns);
    const double rate = (double)(now.samples - run->begun.samples) * 1e9 / fmax(alone_ns, 1);
    if (ff_promise_warns(&trainer->promise, rate, text, sizeof text))
        ff_report_note(run->report, text);
    return FF_OK;
}

/* A checkpoint of the steps so far. */
static ff_status save(running *run, ff_error *error) {
    FF_TRY(collect(run, true, error));
    FF_TRY(ff_saves_take(&run->saves, &run->state, error));
    run->began_ns = ff_now_ns();
    return FF_OK;
}

/* ---- epochs ---- */

static ff_status train_epoch(running *run, uint32_t epoch, ff_error *error) {
    ff_trainer *trainer = run->trainer;
    ff_epoch_sums *sums = &run->state.epoch;
    run->began_ns = ff_now_ns();
    run->asked_ns = 0;
    ff_report_begin_epoch(run->report, trainer, epoch + 1, clock_of(run));
    for (uint64_t batch = run->state.totals.steps - epoch * trainer->batches;
         batch < trainer->batches; batch++) {
        FF_TRY(ff_stop_check(&run->stop, trainer, run->state.totals.steps, error));
        FF_TRY(train_batch(run, error));
        tell_note(run);
        FF_TRY(collect(run, false, error));
        FF_TRY(expect_waits(run, error));
        ff_report_step(run->report, sums, clock_of(run));
        if (batch + 1 == trainer->batches ||
            !ff_saves_due_after_step(&run->saves, run->state.totals.steps))
            continue;
        take_times(run);
        FF_TRY(save(run, error));
    }
    /* Read now, while the GPU works on the last steps. */
    run->gpu_read = ff_machine_read(trainer->machine, &run->gpu);
    FF_TRY(collect(run, true, error));
    if (sums->count == 0)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: every sample's '%s' is -1, unlabeled; there is nothing to learn from",
                       ff_dataset_path(trainer->splits.train), trainer->splits.label);
    return FF_OK;
}

/* Adds the epoch's sums to the run's totals, and resets them. */
static void end_epoch(running *run) {
    const ff_epoch_sums *sums = &run->state.epoch;
    ff_run_totals *totals = &run->state.totals;
    totals->train_ns += sums->train_ns;
    totals->wait_ns += sums->wait_ns;
    totals->samples += sums->samples;
    totals->skipped += sums->skipped;
    run->state.epoch = (ff_epoch_sums){0};
}

/* The line that reports an epoch's training. */
static ff_epoch line_of(const running *run, uint32_t epoch) {
    const ff_epoch_sums *sums = &run->state.epoch;
    const double seconds = (double)sums->train_ns * 1e-9;
    return (ff_epoch){.epoch = epoch + 1,
                      .steps = run->state.totals.steps,
                      .train_loss = sums->loss_sum / (double)sums->count,
                      .train_accuracy = (double)sums->correct / (double)sums->count,
                      .learning_rate = rate_of(run->trainer, run->state.totals.steps - 1),
                      .seconds = seconds,
                      .samples_per_second = (double)sums->samples / seconds,
                      .data_wait_percent = 100 * (double)sums->wait_ns / (double)sums->train_ns,
                      .skipped = sums->skipped,
                      .loss_scale = sums->loss_scale,
                      .gpu_read = run->gpu_read,
                      .gpu = run->gpu};
}

/* Whether the run stops early now: all ranks stop if rank 0 does, because only rank 0 knows the
 * earlier checkpoints. */
static ff_status decide_early(running *run, bool *stops, ff_error *error) {
    const ff_trainer *trainer = run->trainer;
    const bool goes_on = run->state.totals.steps < ff_trainer_total_steps(trainer);
    if (!trainer->options->patience) return FF_OK;
    *stops = goes_on && ff_patience_over(&run->state, trainer->options->patience);
    FF_TRY(ff_job_broadcast(trainer->options->job, stops, sizeof *stops, error));
    if (*stops) ff_patience_say(&run->state.totals, run->result.early);
    return FF_OK;
}

/* Evaluates and reports a trained epoch, counted from 0, and saves it if a checkpoint is due.
 * *last: the run ends with this epoch. */
static ff_status complete_epoch(running *run, uint32_t epoch, bool *last, ff_error *error) {
    const ff_trainer *trainer = run->trainer;
    bool best = false;
    ff_epoch line = line_of(run, epoch);
    if (ff_evaluates_after(trainer, epoch + 1)) {
        const ff_status status = ff_evaluate_epoch(run->trainer, &run->state, run->options->best_by,
                                                   run->report, &line, &best, error);
        if (status == FF_INTERRUPTED) run->stop.signal = error->signal_number;
        FF_TRY(status);
    }
    end_epoch(run);
    if (line.evaluated) FF_TRY(decide_early(run, last, error));
    *last |= epoch + 1 == trainer->epochs;
    run->result.last = line;
    FF_TRY(ff_report_epoch(run->report, &line, error));
    const bool due =
        ff_saves_due_after_epoch(&run->saves, run->state.totals.steps, epoch + 1, *last, best);
    return due ? save(run, error) : FF_OK;
}

/* The link or the disk is lost: what was trained until then is kept. */
static void keep_trained(running *run, ff_error *error) {
    if (collect(run, true, NULL) == FF_OK) ff_saves_fail(&run->saves, &run->state, error);
}

static ff_status run_epochs(running *run, ff_error *error) {
    ff_trainer *trainer = run->trainer;
    /* A run that was stopped during an evaluation has the sums of a trained epoch. */
    const uint64_t steps = run->state.totals.steps - (run->state.epoch.samples > 0);
    uint32_t epoch = (uint32_t)(steps / trainer->batches);
    for (bool last = false; epoch < trainer->epochs && !last; epoch++) {
        ff_status status = train_epoch(run, epoch, error);
        take_times(run);
        ff_report_end_steps(run->report);
        if (run->unread) keep_trained(run, error);
        FF_TRY(status);
        FF_TRY(ff_ranks_compare(trainer, run->state.totals.steps, error));
        status = complete_epoch(run, epoch, &last, error);
        if (status != FF_OK && status != FF_INTERRUPTED)
            ff_saves_fail(&run->saves, &run->state, error);
        FF_TRY(status);
    }
    return FF_OK;
}

static ff_status stopped_at(running *run, int number, ff_error *error) {
    ff_error why = {0};
    const ff_status status = collect(run, true, &why);
    if (status != FF_OK)
        return ff_fail_within(error, FF_INTERRUPTED, "no checkpoint was saved (%s)", why.message);
    return ff_saves_stop(&run->saves, &run->state, number, error);
}

/* A signal is not a failure of the run: reports how far the run got. */
static ff_status stopped(running *run, ff_error *error) {
    const ff_trainer *trainer = run->trainer;
    const uint64_t steps = run->state.totals.steps;
    const int number = run->stop.signal ? run->stop.signal : ff_interrupt_signal();
    ff_status status =
        ff_fail(error, FF_INTERRUPTED,
                "stopped by %s after step %" PRIu64 " of %" PRIu64 " (%" PRIu64 " of %s done)",
                ff_interrupt_name(number), steps, ff_trainer_total_steps(trainer),
                steps / trainer->batches, ff_say_count(trainer->epochs, "epoch", "epochs").text);
    if (steps) status = stopped_at(run, number, error);
    return ff_ranks_stopped(run->trainer, &run->stop, status, error);
}

/* Runs before the clock starts. */
static ff_status warm_up(running *run, ff_error *error) {
    if (run->trainer->options->no_warm_up) return FF_OK;
    const uint64_t began = ff_now_ns();
    ff_status status = ff_warm_up(run->trainer, error);
    if (ff_machine_device(run->trainer->machine)) run->result.warm_up_ns = ff_now_ns() - began;
    if (status == FF_OK) tell_note(run); /* what failed may be the reason of the note */
    return status;
}

/* Runs before the first step, if the net has a whitening convolution that has no values yet. */
static ff_status whiten(running *run, ff_error *error) {
    ff_trainer *trainer = run->trainer;
    if (run->goes_on || trainer->options->weights) return FF_OK;
    uint64_t began = ff_now_ns();
    ff_status status = ff_whiten(
        trainer->model, trainer->splits.train, ff_splits_selection(&trainer->splits.train_selected),
        trainer->splits.val_resize, ff_model_threads(trainer->model), error);
    run->result.whiten_ns = ff_now_ns() - began;
    return status;
}

/* Checks a run that was resumed after its end: *complete if there is nothing to do and this is not
 * an error. */
static ff_status check_complete(const running *run, bool *complete, ff_error *error) {
    const ff_trainer *trainer = run->trainer;
    const ff_run_totals *totals = &run->state.totals;
    const bool all_done =
        totals->steps >= ff_trainer_total_steps(trainer) && !run->state.epoch.samples;
    char text[FF_PATIENCE_ENDED_BYTES];
    bool early = ff_patience_over(&run->state, trainer->options->patience);
    FF_TRY(ff_job_broadcast(trainer->options->job, &early, sizeof early, error));
    if (!early && !all_done) return FF_OK;
    if (run->options->keeper) FF_TRY(ff_keeper_complete(run->options->keeper, error));
    ff_patience_say_ended(totals, all_done, trainer->epochs, text);
    *complete = run->options->may_be_complete;
    if (!*complete) return ff_fail(error, FF_USAGE, "%s", text);
    ff_report_note(run->report, text);
    return FF_OK;
}

/* What a thread that fills a batch waits for: a processor that other work has, or the storage. A
 * few pages prove nothing. */
static void share_waits(ff_run_result *result, const ff_trainer *trainer,
                        const ff_loader_stats *loader) {
    enum { FEW = 64 };
    if (!loader->fill_ns || loader->busy_ns > loader->fill_ns) return;
    const uint64_t waited = loader->fill_ns - loader->busy_ns;
    const uint64_t queued = loader->queued_ns < waited ? loader->queued_ns : waited;
    result->queued_share = (double)queued / (double)loader->fill_ns;
    if (loader->pages_awaited >= FEW || ff_feed_describe(trainer->train_feed).loader.direct)
        result->storage_share = (double)(waited - queued) / (double)loader->fill_ns;
}

ff_status ff_run(ff_trainer *trainer, ff_report *report, const ff_run_options *options,
                 ff_error *error) {
    ff_error own = {0};
    if (!error) error = &own;
    running run = {.trainer = trainer, .report = report, .options = options};
    const uint64_t began = ff_now_ns();
    bool complete = false;
    run.goes_on = options->from != NULL;
    if (options->from) run.state = *options->from;
    FF_TRY(ff_ranks_begin(trainer, &run.goes_on, &run.state, error));
    ff_patience_resume(&run.state.totals, options->keeper, options->best_by,
                       (uint32_t)trainer->views);
    if (run.goes_on) FF_TRY(check_complete(&run, &complete, error));
    if (complete) return FF_OK;
    if (options->begins) FF_TRY(options->begins(options->context, error));
    run.saves = (ff_saves){.keeper = options->keeper,
                           .every = options->every,
                           .report = report,
                           .saved_step = run.state.totals.steps};
    FF_TRY(ff_report_start(report, trainer, error));
    ff_status status;
    FF_TRY_DONE(warm_up(&run, error));
    FF_TRY_DONE(whiten(&run, error));
    FF_TRY_DONE(ff_hashes_open(&run.hashes, options->hashes, trainer, options->hash_every,
                               run.state.totals.steps, false, error));
    FF_TRY_DONE(ff_ranks_compare(trainer, run.state.totals.steps, error));
    if (trainer->ema_decay >= 0 && !run.goes_on) ff_average_begin(ff_model_store(trainer->model));
    run.saves.saved_ns = ff_now_ns();
    FF_TRY_DONE(run_epochs(&run, error));
done:
    if (status == FF_INTERRUPTED) status = stopped(&run, error);
    status = ff_saves_finish(&run.saves, status, error);
    ff_hashes_close(&run.hashes);
    run.result.total_ns = ff_now_ns() - began;
    run.result.reduced = ff_ranks_measure(trainer);
    end_epoch(&run); /* also for an epoch that was stopped */
    run.result.totals = run.state.totals;
    ff_loader_stats loader = ff_feed_measure(trainer->train_feed);
    if (loader.fill_ns)
        run.result.loader_rate = (double)loader.samples * 1e9 / (double)loader.fill_ns *
                                 (trainer->workers > 1 ? trainer->workers : 1);
    share_waits(&run.result, trainer, &loader);
    /* The end is logged in any case; a failure to log must not hide the first failure. */
    ff_error log_error = {0};
    ff_status log_status =
        ff_report_end(report, trainer, &run.result, status, error->message, &log_error);
    if (status == FF_OK && log_status != FF_OK) *error = log_error;
    return status == FF_OK ? log_status : status;
}
