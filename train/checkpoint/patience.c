#include "train/checkpoint/patience.h"

#include "format/base/say.h"

#include <inttypes.h>
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
