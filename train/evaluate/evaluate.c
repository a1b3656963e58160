#include "train/evaluate/evaluate.h"

#include "format/base/memory.h"
#include "format/base/thread.h"
#include "format/cli/interrupt.h"
#include "train/net/plan.h"

#include <assert.h>
#include <stdlib.h>

enum { AGREE_EVERY = 16 }; /* batches between checks */

/* FF_INTERRUPTED after a signal; all ranks stop at the same batch. */
static ff_status check_stop(ff_job *job, uint64_t batch, ff_error *error) {
    int32_t number = ff_interrupt_signal();
    ff_buffer nothing = {0};
    if (!job) return ff_interrupt_check(error);
    if (batch % AGREE_EVERY) return FF_OK;
    const ff_status status = ff_job_choose(job, &number, &nothing, error);
    ff_buffer_free(&nothing);
    return status == FF_OK && number ? ff_interrupt_fail(number, error) : status;
}

/* Enqueues all batches of a pass; *count = their number. */
static ff_status give_all(ff_plan *plan, ff_feed *feed, ff_tally *tally, ff_job *job,
                          uint64_t *count, ff_error *error) {
    ff_outcome *outcomes = ff_feed_outcomes(feed);
    ff_compute *compute = ff_feed_compute(feed);
    for (bool last = false; !last; ++*count) {
        ff_feed_batch batch;
        FF_TRY(check_stop(job, *count, error));
        FF_TRY(ff_feed_next(feed, &batch, error));
        ff_status status = ff_feed_make(feed, compute->stream, error);
        if (status == FF_OK) ff_plan_enqueue(plan, &batch.batch, false, outcomes + *count, 1, NULL);
        if (status == FF_OK && tally)
            status = ff_tally_add(tally, &batch.batch, batch.count, error);
        ff_status done = ff_feed_done(feed, status == FF_OK ? error : NULL);
        FF_TRY(status == FF_OK ? done : status);
        FF_TRY(ff_compute_check(compute, error));
        last = batch.last;
    }
    return tally ? ff_tally_end(tally, error) : FF_OK;
}

static ff_status add_up(const ff_outcome *outcomes, uint64_t count, ff_outcome *sum,
                        ff_error *error) {
    for (uint64_t i = 0; i < count; i++) {
        if (outcomes[i].bad_sample >= 0)
            return ff_fail(
                error, FF_BAD_DATA,
                "the label of sample %d of a validation batch is not a class of the model",
                outcomes[i].bad_sample);
        sum->loss_sum += outcomes[i].loss_sum;
        sum->count += outcomes[i].count;
        sum->correct += outcomes[i].correct;
    }
    return FF_OK;
}

/* Sums the numbers over all ranks. */
static ff_status sum_ranks(ff_job *job, ff_tally *tally, ff_outcome *sum, ff_error *error) {
    double numbers[] = {sum->loss_sum, (double)sum->count, (double)sum->correct};
    FF_TRY(ff_job_sum(job, numbers, 3, error));
    sum->loss_sum = numbers[0];
    sum->count = (int64_t)numbers[1];
    sum->correct = (int64_t)numbers[2];
    return tally ? ff_tally_join(tally, job, error) : FF_OK;
}

ff_status ff_evaluate(ff_plan *plan, ff_feed *feed, ff_tally *tally, ff_job *job,
                      ff_evaluation *result, ff_error *error) {
    const uint64_t began = ff_now_ns();
    ff_compute *compute = ff_feed_compute(feed);
    ff_outcome sum = {0};
    ff_outcome *outcomes;
    uint64_t count = 0;
    if (tally) ff_tally_begin(tally, job ? job->rank : 0, job ? job->size : 1);
    FF_TRY(give_all(plan, feed, tally, job, &count, error));
    FF_TRY(ff_alloc(&outcomes, count, sizeof *outcomes, "an evaluation", error));
    ff_compute_read(compute, outcomes, ff_feed_outcomes(feed), count * sizeof *outcomes);
    ff_status status;
    FF_TRY_DONE(ff_compute_check(compute, error));
    FF_TRY_DONE(add_up(outcomes, count, &sum, error));
    if (job) FF_TRY_DONE(sum_ranks(job, tally, &sum, error));
    assert(!tally || tally->count == sum.count);
done:
    free(outcomes);
    FF_TRY(status);
    if (sum.count == 0)
        return ff_fail(error, FF_BAD_DATA,
                       "the validation set has no sample with a label (all are -1, unlabeled)");
    *result = (ff_evaluation){.loss = sum.loss_sum / (double)sum.count,
                              .accuracy = (double)sum.correct / (double)sum.count,
                              .count = sum.count,
                              .ns = ff_now_ns() - began};
    return FF_OK;
}
