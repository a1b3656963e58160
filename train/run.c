#include "train/run.h"

#include "format/base/interrupt.h"
#include "format/base/thread.h"
#include "train/evaluate.h"
#include "train/whitening.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>

/* Sums over the steps of an epoch. */
typedef struct epoch_sums {
    double loss_sum;
    int64_t count, correct;
    uint64_t samples; /* with and without labels */
    uint64_t began_ns, wait_ns;
} epoch_sums;

/* The sentence for a loss that is no number. */
static ff_status loss_failed(const ff_recipe *recipe, uint64_t step, uint32_t epoch, double loss,
                             double rate, ff_error *error) {
    const char *found = isnan(loss) ? "NaN" : "infinite";
    if (step == 0)
        return ff_fail(
            error, FF_FAILED,
            "the training loss is %s at the first step (epoch 1, learning rate %g), "
            "before anything was learned: %s holds NaN or huge values (ffinspect --stats "
            "shows them)",
            found, rate, ff_dataset_path(recipe->splits.train));
    return ff_fail(error, FF_FAILED,
                   "the training loss became %s at step %" PRIu64 " (epoch %" PRIu32
                   ", learning rate %g); lower --lr (it is %g) or lengthen --warmup",
                   found, step + 1, epoch + 1, rate, recipe->groups[0].schedule.peak);
}

/* One acquired batch through the model. */
static ff_status train_slot(ff_recipe *recipe, const ff_slot *slot, uint64_t step,
                            const ff_sgd *steps, ff_step_result *result, ff_error *error) {
    ff_plan *plan = slot->count == slot->rows ? recipe->train_plan : recipe->last_plan;
    assert(plan && ff_plan_batch(plan) == (int)slot->count);
    /* Samples lie at the front, so a shorter plan reads the same memory. */
    ff_batch batch = {.images = slot->data,
                      .labels = slot->label[0].values,
                      .label_dtype = slot->label[0].dtype,
                      .weights = NULL,
                      .mix = slot->mix,
                      .step = step};
    return ff_plan_train(plan, &batch, steps, result, error);
}

static ff_status train_epoch(ff_recipe *recipe, uint32_t epoch, epoch_sums *sums, uint64_t *step,
                             double *rate, ff_report *report, ff_error *error) {
    *sums = (epoch_sums){.began_ns = ff_now_ns()};
    ff_report_begin_epoch(report, recipe, epoch + 1);
    for (uint64_t batch = 0; batch < recipe->batches; batch++, ++*step) {
        FF_TRY(ff_interrupt_check(error));
        ff_slot *slot;
        uint64_t asked = ff_now_ns();
        FF_TRY(ff_loader_acquire(recipe->train_loader, &slot, error));
        sums->wait_ns += ff_now_ns() - asked;
        ff_step_result result;
        ff_sgd steps[FF_RECIPE_GROUPS];
        ff_recipe_steps(recipe, *step, steps);
        *rate = steps[0].learning_rate;
        ff_status status = train_slot(recipe, slot, *step, steps, &result, error);
        sums->samples += slot->count;
        ff_loader_release(recipe->train_loader, slot, NULL);
        if (status != FF_OK) return status;
        if (!isfinite(result.loss_sum))
            return loss_failed(recipe, *step, epoch, result.loss_sum, *rate, error);
        sums->loss_sum += result.loss_sum;
        sums->count += result.count;
        sums->correct += result.correct;
        ff_report_step(report, sums->samples,
                       sums->count ? sums->loss_sum / (double)sums->count : 0, sums->wait_ns,
                       ff_now_ns() - sums->began_ns);
    }
    if (sums->count == 0)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: every sample's '%s' is -1, unlabeled; there is nothing to learn from",
                       ff_dataset_path(recipe->splits.train), recipe->splits.label);
    return FF_OK;
}

/* Trains and evaluates epochs until the end; *result is what was reached, also on failure. */
static ff_status run_epochs(ff_recipe *recipe, ff_report *report, ff_run_result *result,
                            ff_error *error) {
    double rate = 0;
    for (uint32_t epoch = 0; epoch < recipe->epochs; epoch++) {
        epoch_sums sums;
        ff_status status = train_epoch(recipe, epoch, &sums, &result->steps, &rate, report, error);
        uint64_t train_ns = ff_now_ns() - sums.began_ns;
        ff_report_end_steps(report);
        result->train_ns += train_ns;
        result->wait_ns += sums.wait_ns;
        result->samples += sums.samples;
        if (status != FF_OK) return status;

        ff_epoch line = {.epoch = epoch + 1,
                         .train_loss = sums.loss_sum / (double)sums.count,
                         .train_accuracy = (double)sums.correct / (double)sums.count,
                         .learning_rate = rate,
                         .seconds = (double)train_ns * 1e-9,
                         .samples_per_second = (double)sums.samples / ((double)train_ns * 1e-9),
                         .data_wait_percent = 100 * (double)sums.wait_ns / (double)train_ns};
        if (recipe->val_plan) {
            ff_evaluation evaluation;
            status = ff_evaluate(recipe->val_plan, recipe->val_loader, &evaluation, error);
            if (status != FF_OK) return status;
            result->val_ns += evaluation.ns;
            result->last_val_ns = evaluation.ns;
            line.evaluated = true;
            line.val_loss = evaluation.loss;
            line.val_accuracy = evaluation.accuracy;
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

/* A signal is no failure of the run: say how far it came. */
static ff_status interrupted(const ff_recipe *recipe, const ff_run_result *result,
                             ff_error *error) {
    int number = ff_interrupt_signal();
    return ff_fail(error, FF_INTERRUPTED,
                   "stopped by %s after step %" PRIu64 " of %" PRIu64 " (%" PRIu32 " of %" PRIu32
                   " epochs done)",
                   number == SIGTERM ? "SIGTERM" : "SIGINT", result->steps,
                   ff_recipe_total_steps(recipe), result->last.epoch, recipe->epochs);
}

/* Before the first step, where the net wants it. */
static ff_status whiten(ff_recipe *recipe, ff_run_result *result, ff_error *error) {
    uint64_t began = ff_now_ns();
    ff_status status = ff_whiten(recipe->model, recipe->splits.train, recipe->splits.val_resize,
                                 ff_model_threads(recipe->model), error);
    result->whiten_ns = ff_now_ns() - began;
    return status;
}

ff_status ff_run(ff_recipe *recipe, ff_report *report, ff_error *error) {
    ff_error own = {0};
    if (!error) error = &own;
    ff_run_result result = {0};
    uint64_t began = ff_now_ns();
    FF_TRY(ff_report_start(report, recipe, error));
    ff_status status = whiten(recipe, &result, error);
    if (status == FF_OK) status = run_epochs(recipe, report, &result, error);
    if (status == FF_INTERRUPTED) status = interrupted(recipe, &result, error);
    result.total_ns = ff_now_ns() - began;
    ff_loader_stats loader = ff_loader_measure(recipe->train_loader);
    if (loader.fill_ns)
        result.loader_rate = (double)loader.samples * 1e9 / (double)loader.fill_ns *
                             (recipe->workers > 1 ? recipe->workers : 1);
    /* The end is logged whatever it was; a failure to log must not hide the first one. */
    ff_error log_error = {0};
    ff_status log_status =
        ff_report_end(report, recipe, &result, status, error->message, &log_error);
    if (status != FF_OK || log_status == FF_OK) return status;
    *error = log_error;
    return log_status;
}

ff_status ff_run_compute_rate(ff_recipe *recipe, uint64_t budget_ns, double *rate,
                              ff_error *error) {
    ff_slot *slot;
    ff_step_result result;
    ff_sgd steps[FF_RECIPE_GROUPS];
    ff_recipe_steps(recipe, 0, steps);
    for (int i = 0; i < recipe->group_count; i++) steps[i].learning_rate = 0;
    FF_TRY(ff_loader_acquire(recipe->train_loader, &slot, error));
    ff_status status = train_slot(recipe, slot, 0, steps, &result, error);
    uint64_t began = ff_now_ns(), took = 0, samples = 0;
    while (status == FF_OK && took < budget_ns) {
        status = ff_interrupt_check(error);
        if (status == FF_OK) status = train_slot(recipe, slot, 0, steps, &result, error);
        samples += slot->count;
        took = ff_now_ns() - began;
    }
    *rate = took ? (double)samples * 1e9 / (double)took : 0;
    ff_loader_release(recipe->train_loader, slot, NULL);
    return status;
}
