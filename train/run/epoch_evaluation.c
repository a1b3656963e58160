#include "train/run/epoch_evaluation.h"

#include "train/evaluate/evaluate.h"
#include "train/net/average.h"
#include "train/run/ranks.h"

#include <math.h>

bool ff_evaluates_after(const ff_trainer *trainer, uint32_t epoch) {
    const uint32_t every = trainer->val_every;
    return trainer->val_plan && (epoch == trainer->epochs || (every && epoch % every == 0));
}

/* Evaluates the average of the parameters, if there is one. */
static ff_status evaluate_average(ff_trainer *trainer, ff_run_totals *totals, ff_epoch *line,
                                  ff_error *error) {
    ff_store *store = ff_model_store(trainer->model);
    ff_evaluation evaluation;
    if (!store->average) return FF_OK;
    ff_average_swap(store);
    const ff_status status = ff_evaluate(trainer->val_plan, trainer->val_feed, NULL,
                                         trainer->options->job, &evaluation, error);
    ff_average_swap(store);
    FF_TRY(status);
    totals->val_ns += evaluation.ns;
    totals->last_val_ns += evaluation.ns;
    line->averaged = true;
    line->ema_loss = evaluation.loss;
    line->ema_accuracy = evaluation.accuracy;
    return FF_OK;
}

ff_status ff_evaluate_epoch(ff_trainer *trainer, ff_run_state *state, ff_best_by best_by,
                            ff_report *report, ff_epoch *line, bool *best, ff_error *error) {
    ff_run_totals *totals = &state->totals;
    const uint32_t views = (uint32_t)trainer->views;
    ff_evaluation evaluation;
    FF_TRY(ff_ranks_share_buffers(trainer, error));
    FF_TRY(ff_evaluate(trainer->val_plan, trainer->val_feed, trainer->tally, trainer->options->job,
                       &evaluation, error));
    totals->val_ns += evaluation.ns;
    totals->last_val_ns = evaluation.ns;
    totals->val_step = totals->steps;
    totals->val = (ff_evaluated){.epoch = line->epoch,
                                 .views = views,
                                 .loss = evaluation.loss,
                                 .accuracy = evaluation.accuracy};
    line->evaluated = true;
    line->val_loss = evaluation.loss;
    line->val_accuracy = evaluation.accuracy;
    line->val_top5 = ff_tally_top(trainer->tally);
    FF_TRY(evaluate_average(trainer, totals, line, error));
    const double score = ff_evaluation_score(&totals->val, best_by, views);
    const double earlier = ff_evaluation_score(&totals->best, best_by, views);
    if (isnan(score))
        ff_report_note(report, "the loss of the evaluation is not finite: it cannot be the best");
    *best = !isnan(score) && !(score <= earlier);
    totals->waited = *best ? 0 : totals->waited + 1;
    if (*best) totals->best = totals->val;
    return FF_OK;
}
