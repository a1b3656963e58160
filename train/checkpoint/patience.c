#include "train/checkpoint/patience.h"

#include "format/cli/say.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

bool ff_patience_over(const ff_run_state *state, int64_t patience) {
    return patience > 0 && state->totals.waited >= patience &&
           ff_run_state_evaluation(state).epoch != 0;
}

void ff_patience_say(const ff_run_totals *totals, char text[FF_PATIENCE_BYTES]) {
    const ff_evaluated *best = &totals->best;
    const ff_said count = ff_say_count(totals->waited, "evaluation", "evaluations");
    if (!best->epoch)
        snprintf(text, FF_PATIENCE_BYTES, "%s in a row had no finite loss", count.text);
    else if (totals->best_by == FF_BEST_LOSS)
        snprintf(text, FF_PATIENCE_BYTES,
                 "%s in a row had no lower loss than the %.4f after epoch %" PRIu32, count.text,
                 best->loss, best->epoch);
    else
        snprintf(text, FF_PATIENCE_BYTES,
                 "%s in a row had no better accuracy than the %.2f %% after epoch %" PRIu32,
                 count.text, 100 * best->accuracy, best->epoch);
}

void ff_patience_resume(ff_run_totals *totals, const ff_keeper *keeper, ff_best_by by,
                        uint32_t views) {
    const bool same = totals->best_by == by;
    if (same && !isnan(ff_evaluation_score(&totals->best, by, views))) return;
    if (!same || totals->best.epoch) totals->waited = 0;
    totals->best = keeper ? ff_keeper_best(keeper) : (ff_evaluated){0};
    if (isnan(ff_evaluation_score(&totals->best, by, views))) totals->best = (ff_evaluated){0};
    totals->best_by = by;
}

void ff_patience_say_ended(const ff_run_totals *totals, bool all_done, uint32_t epochs,
                           char text[FF_PATIENCE_ENDED_BYTES]) {
    char why[FF_PATIENCE_BYTES];
    ff_patience_say(totals, why);
    if (all_done)
        snprintf(text, FF_PATIENCE_ENDED_BYTES,
                 "the run is complete: all its %" PRIu64
                 " steps are done; with more --epochs it continues",
                 totals->steps);
    else
        snprintf(text, FF_PATIENCE_ENDED_BYTES,
                 "the run stopped early after epoch %" PRIu32 " of %" PRIu32
                 ": %s; with a larger --patience, or 0, it continues",
                 totals->val.epoch, epochs, why);
}
