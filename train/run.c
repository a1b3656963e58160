#include "train/run.h"

#include "format/base/interrupt.h"
#include "format/base/say.h"
#include "format/base/thread.h"
#include "train/average.h"
#include "train/compute.h"
#include "train/evaluate.h"
#include "train/warm_up.h"
#include "train/whitening.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>

/* Sums over the steps of an epoch. */
typedef struct epoch_sums {
    double loss_sum;
    int64_t count, correct;
    uint64_t skipped;  /* updates */
    double loss_scale; /* of the last step */
    uint64_t samples;  /* with and without labels */
    bool gpu_read;
    ff_nvml_reading gpu;
    uint64_t began_ns;
    uint64_t asked_ns; /* the host's waiting for batches */
    bool over;         /* the feed's epoch is */
} epoch_sums;

static double rate_of(const ff_trainer *trainer, uint64_t step) {
    return ff_schedule_rate(&trainer->groups[trainer->main_group].schedule, step);
}

/* The error message for a loss that is NaN or infinite. */
static ff_status loss_failed(const ff_trainer *trainer, uint64_t step, uint32_t epoch, double loss,
                             double rate, ff_error *error) {
    const char *found = isnan(loss) ? "NaN" : "infinite";
    if (step == 0)
        return ff_fail(
            error, FF_FAILED,
            "the training loss is %s at the first step (epoch 1, learning rate %g), "
            "before anything was learned: %s holds NaN or huge values (ffinspect --stats "
            "shows them)",
            found, rate, ff_dataset_path(trainer->splits.train));
    return ff_fail(error, FF_FAILED,
                   "the training loss became %s at step %" PRIu64 " (epoch %" PRIu32
                   ", learning rate %g); lower --lr (it is %g) or lengthen --warmup",
                   found, step + 1, epoch + 1, rate,
                   trainer->groups[trainer->main_group].schedule.peak);
}

/* Adds the outcomes that have arrived; with `wait`, all of them. */
static ff_status collect(ff_trainer *trainer, bool wait, epoch_sums *sums, ff_error *error) {
    for (;;) {
        const ff_outcome *outcomes;
        uint32_t count;
        FF_TRY(ff_step_outcomes(trainer->step, wait, &outcomes, &count, error));
        if (!count) return FF_OK;
        for (uint32_t i = 0; i < count; i++) {
            const ff_outcome *one = &outcomes[i];
            const uint32_t epoch = (uint32_t)(one->step / trainer->batches);
            if (one->bad_sample >= 0)
                return ff_fail(
                    error, FF_BAD_DATA,
                    "%s: the label of sample %d of step %" PRIu64 " is no class of the model",
                    ff_dataset_path(trainer->splits.train), one->bad_sample, one->step + 1);
            if (!isfinite(one->loss_sum))
                return loss_failed(trainer, one->step, epoch, one->loss_sum,
                                   rate_of(trainer, one->step), error);
            sums->loss_sum += one->loss_sum;
            sums->count += one->count;
            sums->correct += one->correct;
            sums->skipped += one->non_finite != 0;
            sums->loss_scale = one->loss_scale;
        }
    }
}

/* Takes the next micro-batch; *last: it is the step's last one, or NULL to leave it unused. */
static ff_status train_part(ff_trainer *trainer, uint64_t step, int64_t part, epoch_sums *sums,
                            bool *last, ff_error *error) {
    ff_feed_batch next;
    uint64_t asked = ff_now_ns();
    ff_status status = FF_OK;
    FF_TRY(ff_feed_next(trainer->train_feed, &next, error));
    sums->asked_ns += ff_now_ns() - asked;
    sums->over = next.last;
    if (last) {
        ff_plan *plan = ff_trainer_plan(trainer, step, next.count);
        assert(plan && ff_plan_batch(plan) == (int)next.count);
        /* Samples are at the front, so a plan of fewer samples reads the same memory, and all
         * count. */
        next.batch.weights = NULL;
        *last = next.last || part + 1 == trainer->accumulate;
        status = *last ? ff_step_run(trainer->step, plan, &next.batch, error)
                       : ff_step_add(trainer->step, plan, &next.batch, error);
        sums->samples += next.count;
    }
    ff_status done = ff_feed_done(trainer->train_feed, status == FF_OK ? error : NULL);
    return status == FF_OK ? done : status;
}

/* Enqueues the next step. */
static ff_status train_batch(ff_trainer *trainer, uint64_t step, epoch_sums *sums,
                             ff_error *error) {
    ff_status status = FF_OK;
    ff_machine_push(trainer->machine, "step");
    bool last = false;
    for (int64_t part = 0; status == FF_OK && !last; part++)
        status = train_part(trainer, step, part, sums, &last, error);
    ff_machine_pop(trainer->machine);
    return status;
}

/* Time that the epoch's steps waited for data; on a device measured by its events. */
static uint64_t wait_of(ff_trainer *trainer, const epoch_sums *sums, uint64_t train_ns) {
    const ff_step_times times = ff_step_measure(trainer->step);
    if (!ff_machine_device(trainer->machine)) return sums->asked_ns;
    if (!times.step_ns) return 0;
    return (uint64_t)((double)train_ns * (double)times.wait_ns / (double)times.step_ns);
}

/* Reports the step's note, once. */
static void tell_note(const ff_trainer *trainer, ff_report *report) {
    const char *note = ff_step_note(trainer->step);
    if (note) ff_report_note(report, note);
}

static ff_status train_epoch(ff_trainer *trainer, uint32_t epoch, epoch_sums *sums, uint64_t *step,
                             ff_report *report, ff_error *error) {
    *sums = (epoch_sums){.began_ns = ff_now_ns()};
    ff_report_begin_epoch(report, trainer, epoch + 1);
    for (uint64_t batch = 0; batch < trainer->batches; batch++, ++*step) {
        FF_TRY(ff_interrupt_check(error));
        FF_TRY(train_batch(trainer, *step, sums, error));
        tell_note(trainer, report);
        FF_TRY(collect(trainer, false, sums, error));
        ff_report_step(report, sums->samples,
                       sums->count ? sums->loss_sum / (double)sums->count : 0, sums->asked_ns,
                       ff_now_ns() - sums->began_ns);
    }
    /* Micro-batches that are too few for a step. */
    while (!sums->over) FF_TRY(train_part(trainer, *step, 0, sums, NULL, error));
    /* Now, while the GPU works on the last steps. */
    sums->gpu_read = ff_machine_read(trainer->machine, &sums->gpu);
    FF_TRY(collect(trainer, true, sums, error));
    if (sums->count == 0)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: every sample's '%s' is -1, unlabeled; there is nothing to learn from",
                       ff_dataset_path(trainer->splits.train), trainer->splits.label);
    return FF_OK;
}

/* Whether the epoch, counted from 1, is followed by an evaluation. */
static bool evaluates_after(const ff_trainer *trainer, uint32_t epoch) {
    return epoch % trainer->val_every == 0 || epoch == trainer->epochs;
}

/* Evaluates the average of the parameters, where one is kept. */
static ff_status evaluate_average(ff_trainer *trainer, ff_epoch *line, ff_run_result *result,
                                  ff_error *error) {
    ff_store *store = ff_model_store(trainer->model);
    ff_evaluation evaluation;
    if (!store->average) return FF_OK;
    ff_average_swap(store);
    const ff_status status = ff_evaluate(trainer->val_plan, trainer->val_feed, &evaluation, error);
    ff_average_swap(store);
    FF_TRY(status);
    result->val_ns += evaluation.ns;
    result->last_val_ns += evaluation.ns;
    line->averaged = true;
    line->ema_loss = evaluation.loss;
    line->ema_accuracy = evaluation.accuracy;
    return FF_OK;
}

/* Trains and evaluates epochs until the end; *result has the results so far, also on failure. */
static ff_status run_epochs(ff_trainer *trainer, ff_report *report, ff_run_result *result,
                            ff_error *error) {
    for (uint32_t epoch = 0; epoch < trainer->epochs; epoch++) {
        epoch_sums sums;
        ff_status status = train_epoch(trainer, epoch, &sums, &result->steps, report, error);
        uint64_t train_ns = ff_now_ns() - sums.began_ns;
        ff_report_end_steps(report);
        result->train_ns += train_ns;
        const uint64_t wait_ns = wait_of(trainer, &sums, train_ns);
        result->wait_ns += wait_ns;
        result->samples += sums.samples;
        result->skipped += sums.skipped;
        if (status != FF_OK) return status;

        ff_epoch line = {.epoch = epoch + 1,
                         .train_loss = sums.loss_sum / (double)sums.count,
                         .train_accuracy = (double)sums.correct / (double)sums.count,
                         .learning_rate = rate_of(trainer, result->steps - 1),
                         .seconds = (double)train_ns * 1e-9,
                         .samples_per_second = (double)sums.samples / ((double)train_ns * 1e-9),
                         .data_wait_percent = 100 * (double)wait_ns / (double)train_ns,
                         .skipped = sums.skipped,
                         .loss_scale = sums.loss_scale,
                         .gpu_read = sums.gpu_read,
                         .gpu = sums.gpu};
        if (trainer->val_plan && evaluates_after(trainer, epoch + 1)) {
            ff_evaluation evaluation;
            status = ff_evaluate(trainer->val_plan, trainer->val_feed, &evaluation, error);
            if (status != FF_OK) return status;
            result->val_ns += evaluation.ns;
            result->last_val_ns = evaluation.ns;
            line.evaluated = true;
            line.val_loss = evaluation.loss;
            line.val_accuracy = evaluation.accuracy;
            FF_TRY(evaluate_average(trainer, &line, result, error));
            result->val_epoch = epoch + 1;
            result->val_accuracy = evaluation.accuracy;
            if (!result->best_epoch || evaluation.accuracy > result->best_accuracy) {
                result->best_epoch = epoch + 1;
                result->best_accuracy = evaluation.accuracy;
            }
        }
        result->last = line;
        FF_TRY(ff_report_epoch(report, &line, error));
    }
    return FF_OK;
}

/* A signal is not a failure of the run: say how far it got. */
static ff_status interrupted(const ff_trainer *trainer, const ff_run_result *result,
                             ff_error *error) {
    int number = ff_interrupt_signal();
    return ff_fail(error, FF_INTERRUPTED,
                   "stopped by %s after step %" PRIu64 " of %" PRIu64 " (%" PRIu32 " of %s done)",
                   number == SIGTERM ? "SIGTERM" : "SIGINT", result->steps,
                   ff_trainer_total_steps(trainer), result->last.epoch,
                   ff_say_count(trainer->epochs, "epoch", "epochs").text);
}

/* Before the clock starts. */
static ff_status warm_up(ff_trainer *trainer, ff_report *report, ff_run_result *result,
                         ff_error *error) {
    if (trainer->options->no_warm_up) return FF_OK;
    const uint64_t began = ff_now_ns();
    ff_status status = ff_warm_up(trainer, error);
    if (ff_machine_device(trainer->machine)) result->warm_up_ns = ff_now_ns() - began;
    tell_note(trainer, report);
    return status;
}

/* Before the first step, if the net has a whitening convolution. */
static ff_status whiten(ff_trainer *trainer, ff_run_result *result, ff_error *error) {
    uint64_t began = ff_now_ns();
    ff_status status = ff_whiten(trainer->model, trainer->splits.train, trainer->splits.val_resize,
                                 ff_model_threads(trainer->model), error);
    result->whiten_ns = ff_now_ns() - began;
    return status;
}

ff_status ff_run(ff_trainer *trainer, ff_report *report, ff_error *error) {
    ff_error own = {0};
    if (!error) error = &own;
    ff_run_result result = {0};
    uint64_t began = ff_now_ns();
    FF_TRY(ff_report_start(report, trainer, error));
    ff_status status;
    FF_TRY_DONE(warm_up(trainer, report, &result, error));
    FF_TRY_DONE(whiten(trainer, &result, error));
    if (trainer->ema_decay >= 0) ff_average_begin(ff_model_store(trainer->model));
    FF_TRY_DONE(run_epochs(trainer, report, &result, error));
done:
    if (status == FF_INTERRUPTED) status = interrupted(trainer, &result, error);
    result.total_ns = ff_now_ns() - began;
    ff_loader_stats loader = ff_feed_measure(trainer->train_feed);
    if (loader.fill_ns)
        result.loader_rate = (double)loader.samples * 1e9 / (double)loader.fill_ns *
                             (trainer->workers > 1 ? trainer->workers : 1);
    /* The end is logged in any case; a failure to log must not hide the first failure. */
    ff_error log_error = {0};
    ff_status log_status =
        ff_report_end(report, trainer, &result, status, error->message, &log_error);
    if (status != FF_OK || log_status == FF_OK) return status;
    *error = log_error;
    return log_status;
}

ff_status ff_run_compute_rate(ff_trainer *trainer, uint64_t budget_ns, double *rate,
                              ff_error *error) {
    ff_step *step;
    ff_feed_batch next = {0};
    FF_TRY(ff_trainer_make_step(trainer, trainer->options, false, &step, error));
    ff_compute *compute = ff_model_compute(trainer->model);
    uint64_t began = 0, took = 0, samples = 0;
    ff_status status;
    FF_TRY_DONE(ff_feed_next(trainer->train_feed, &next, error));
    FF_TRY_DONE(ff_feed_make(trainer->train_feed, compute->stream, error));
    ff_plan *plan =
        next.count == (uint32_t)trainer->micro ? trainer->train_plan : trainer->last_plan;
    next.batch.weights = NULL;
    /* The first steps are not counted: graphs are captured in the second. */
    for (int i = 0; i < 4 || took < budget_ns; i++) {
        const ff_outcome *outcomes;
        uint32_t count = 1;
        FF_TRY_DONE(ff_interrupt_check(error));
        FF_TRY_DONE(ff_step_run(step, plan, &next.batch, error));
        while (count) FF_TRY_DONE(ff_step_outcomes(step, i == 3, &outcomes, &count, error));
        if (i == 3) began = ff_now_ns();
        if (i < 4) continue;
        samples += next.count;
        took = ff_now_ns() - began;
    }
    FF_TRY_DONE(ff_compute_wait(compute, error));
    *rate = samples ? (double)samples * 1e9 / (double)(ff_now_ns() - began) : 0;
done:;
    ff_status given_back = ff_feed_done(trainer->train_feed, NULL);
    ff_step_destroy(&step);
    return status == FF_OK ? given_back : status;
}
