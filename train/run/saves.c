#include "train/run/saves.h"

#include "format/base/thread.h"

#include <signal.h>
#include <stdio.h>

static double seconds_since(const ff_saves *saves) {
    return (double)(ff_now_ns() - saves->saved_ns) * 1e-9;
}

bool ff_saves_due_after_step(const ff_saves *saves, uint64_t steps) {
    const ff_every *every = &saves->every;
    if (!saves->keeper) return false;
    if (every->unit == FF_EVERY_STEPS) return steps % (uint64_t)every->amount == 0;
    return every->unit == FF_EVERY_MINUTES && seconds_since(saves) >= 60 * every->amount;
}

bool ff_saves_due_after_epoch(const ff_saves *saves, uint64_t steps, uint32_t epoch, bool last,
                              bool best) {
    const ff_every *every = &saves->every;
    if (!saves->keeper) return false;
    if (best || last) return true;
    if (every->unit == FF_EVERY_EPOCHS) return epoch % (uint32_t)every->amount == 0;
    if (every->unit == FF_EVERY_CHOSEN)
        return ff_every_worthwhile(seconds_since(saves), ff_keeper_took(saves->keeper));
    return ff_saves_due_after_step(saves, steps);
}

ff_status ff_saves_take(ff_saves *saves, const ff_run_state *state, ff_error *error) {
    if (!saves->keeper) return FF_OK;
    FF_TRY(ff_keeper_save(saves->keeper, state, error));
    const char *note = ff_keeper_note(saves->keeper);
    if (note) ff_report_note(saves->report, note);
    saves->saved_ns = ff_now_ns();
    saves->saved_step = state->totals.steps;
    return FF_OK;
}

const char *ff_saves_last(const ff_saves *saves) {
    if (!saves->keeper) return NULL;
    (void)!ff_keeper_finish(saves->keeper, NULL); /* its note is reported at the end */
    return ff_keeper_last(saves->keeper);
}

ff_status ff_saves_stop(ff_saves *saves, const ff_run_state *state, int signal_number,
                        ff_error *error) {
    ff_error why = {0};
    ff_status status = FF_OK;
    if (!saves->keeper) return FF_INTERRUPTED;
    if (!ff_saves_last(saves) || state->totals.steps != saves->saved_step)
        status = ff_saves_take(saves, state, &why);
    if (status == FF_OK) status = ff_keeper_finish(saves->keeper, &why);
    if (status != FF_OK)
        return ff_fail_within(error, FF_INTERRUPTED, "no checkpoint was saved (%s)", why.message);
    const bool preempted = signal_number == SIGTERM || signal_number == SIGUSR1;
    char first[sizeof error->message];
    snprintf(first, sizeof first, "%s", error->message);
    return ff_fail(error, preempted ? FF_PREEMPTED : FF_INTERRUPTED,
                   "%s; --resume continues from "
                   "%s",
                   first, ff_keeper_last(saves->keeper));
}

void ff_saves_fail(ff_saves *saves, const ff_run_state *state, ff_error *error) {
    if (!saves->keeper || state->totals.steps == saves->saved_step) return;
    if (ff_saves_take(saves, state, NULL) != FF_OK) return;
    if (ff_keeper_finish(saves->keeper, NULL) != FF_OK) return;
    char first[sizeof error->message];
    snprintf(first, sizeof first, "%s", error->message);
    (void)!ff_fail(error, error->status, "%s; what was trained is in %s", first,
                   ff_keeper_last(saves->keeper));
}

ff_status ff_saves_finish(ff_saves *saves, ff_status status, ff_error *error) {
    ff_error why = {0};
    if (!saves->keeper) return status;
    const ff_status last = ff_keeper_finish(saves->keeper, &why);
    const char *note = ff_keeper_note(saves->keeper);
    if (status == FF_OK && last != FF_OK)
        return ff_fail(error, last, "the last checkpoint was not saved: %s", why.message);
    if (note) ff_report_note(saves->report, note);
    return status;
}
