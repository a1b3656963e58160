#include "train/trainer/warm_up.h"

#include "format/base/memory.h"
#include "format/cli/interrupt.h"
#include "train/net/plan.h"

#include <stdlib.h>

/* ---- saving and restoring state ---- */

typedef struct snapshot {
    ff_store_block blocks[FF_STORE_BLOCKS];
    void *host[FF_STORE_BLOCKS]; /* their copies */
    int64_t forwards;
} snapshot;

static ff_status take(snapshot *kept, ff_store *store, ff_error *error) {
    ff_compute *compute = store->compute;
    ff_store_blocks(store, kept->blocks);
    kept->forwards = store->forwards;
    for (int i = 0; i < FF_STORE_BLOCKS; i++) {
        const ff_store_block *block = &kept->blocks[i];
        if (!block->memory || !block->bytes) continue;
        FF_TRY(ff_alloc(&kept->host[i], block->bytes, 1, "the state before the warm-up", error));
        ff_compute_read(compute, kept->host[i], block->memory, block->bytes);
    }
    return ff_compute_check(compute, error);
}

static ff_status put_back(const snapshot *kept, ff_store *store, ff_error *error) {
    for (int i = 0; i < FF_STORE_BLOCKS; i++)
        if (kept->host[i])
            ff_compute_write(store->compute, kept->blocks[i].memory, kept->host[i],
                             kept->blocks[i].bytes);
    store->forwards = kept->forwards;
    return ff_compute_wait(store->compute, error);
}

static void drop(snapshot *kept) {
    for (int i = 0; i < FF_STORE_BLOCKS; i++) free(kept->host[i]);
}

/* ---- the steps ---- */

/* A plan of fewer samples reads the front of the batch. */
static ff_status steps_of(ff_trainer *trainer, ff_plan *plan, ff_error *error) {
    enum { STEPS = 2 };
    for (int i = 0; plan && i < STEPS; i++) {
        ff_feed_batch first;
        FF_TRY(ff_interrupt_check(error));
        FF_TRY(ff_feed_next(trainer->train_feed, &first, error));
        first.batch.weights = NULL;
        FF_TRY(ff_step_run(trainer->step, plan, &first.batch, error));
        FF_TRY(ff_step_restart(trainer->step, error));
        FF_TRY(ff_feed_again(trainer->train_feed, error));
    }
    return FF_OK;
}

static ff_status evaluate_once(ff_trainer *trainer, ff_error *error) {
    ff_compute *compute = ff_model_compute(trainer->model);
    ff_feed_batch first;
    if (!trainer->val_plan) return FF_OK;
    FF_TRY(ff_feed_next(trainer->val_feed, &first, error));
    FF_TRY(ff_feed_make(trainer->val_feed, compute->stream, error));
    ff_plan_enqueue(trainer->val_plan, &first.batch, false, ff_feed_outcomes(trainer->val_feed), 1,
                    NULL);
    FF_TRY(ff_compute_wait(compute, error));
    return ff_feed_again(trainer->val_feed, error);
}

/* Plan k of a size. All ranks make the same steps: a rank with all or none of a last batch has no
 * plan for it, and uses the plan of whole batches. */
static ff_plan *plan_of(const ff_trainer *trainer, const ff_trainer_size *size, int k) {
    ff_plan *const *plans = size->plans[k / 2];
    const bool other_has_one = trainer->options->job && trainer->keeps_last;
    return plans[k % 2] || !other_has_one ? plans[k % 2] : plans[0];
}

static ff_status run(ff_trainer *trainer, ff_error *error) {
    for (int i = 0; i < trainer->size_count; i++) {
        ff_feed_set_size(trainer->train_feed, i);
        for (int k = 0; k < 4; k++) {
            ff_step_set_whole(trainer->step, k % 2 == 0);
            FF_TRY(steps_of(trainer, plan_of(trainer, &trainer->sizes[i], k), error));
        }
    }
    ff_step_set_whole(trainer->step, true);
    ff_feed_set_size(trainer->train_feed, -1);
    return evaluate_once(trainer, error);
}

ff_status ff_warm_up(ff_trainer *trainer, ff_error *error) {
    ff_store *store = ff_model_store(trainer->model);
    snapshot kept = {0};
    if (store->compute->device->table->unified) return FF_OK;
    ff_status status;
    FF_TRY_DONE(take(&kept, store, error));
    FF_TRY_DONE(run(trainer, error));
    FF_TRY_DONE(put_back(&kept, store, error));
    FF_TRY_DONE(
        ff_device_memory_read(&trainer->memory, FF_MEMORY_WARM_UP, store->compute->device, error));
done:
    drop(&kept);
    return status;
}
