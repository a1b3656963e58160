#include "train/trainer/run_step.h"

#include "format/base/thread.h"

#include <assert.h>

ff_status ff_micro_batch_train(void *step, ff_plan *plan, const ff_batch *batch, bool last,
                               ff_error *error) {
    return last ? ff_step_run(step, plan, batch, error) : ff_step_add(step, plan, batch, error);
}

static ff_status take(ff_trainer *trainer, ff_feed_batch *next, ff_step_input *taken,
                      ff_error *error) {
    const uint64_t asked = ff_now_ns();
    FF_TRY(ff_feed_next(trainer->train_feed, next, error));
    taken->asked_ns += ff_now_ns() - asked;
    taken->epoch_over = next->last;
    return FF_OK;
}

static ff_status run_part(ff_trainer *trainer, uint64_t step, int64_t part, ff_micro_batch_run use,
                          void *context, bool *last, ff_step_input *taken, ff_error *error) {
    ff_feed_batch next;
    FF_TRY(take(trainer, &next, taken, error));
    ff_plan *plan = ff_trainer_plan(trainer, step, next.count);
    assert(plan && (!next.count || ff_plan_batch(plan) == (int)next.count));
    /* Samples are at the front, so a plan of fewer samples reads the same memory, and all count. */
    next.batch.weights = NULL;
    *last = next.last || part + 1 == trainer->accumulate;
    taken->begun = true;
    const ff_status status = use(context, plan, next.count ? &next.batch : NULL, *last, error);
    const ff_status done = ff_feed_done(trainer->train_feed, status == FF_OK ? error : NULL);
    return status == FF_OK ? done : status;
}

ff_status ff_run_step(ff_trainer *trainer, uint64_t step, ff_micro_batch_run use, void *context,
                      ff_step_input *taken, ff_error *error) {
    ff_status status = FF_OK;
    bool last = false;
    ff_step_set_whole(trainer->step, !trainer->keeps_last || (step + 1) % trainer->batches != 0);
    ff_machine_push(trainer->machine, "step");
    for (int64_t part = 0; status == FF_OK && !last; part++)
        status = run_part(trainer, step, part, use, context, &last, taken, error);
    ff_machine_pop(trainer->machine);
    FF_TRY(status);
    while ((step + 1) % trainer->batches == 0 && !taken->epoch_over) {
        ff_feed_batch rest;
        FF_TRY(take(trainer, &rest, taken, error));
        FF_TRY(ff_feed_skip(trainer->train_feed, error));
    }
    return FF_OK;
}
