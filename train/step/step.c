#include "train/step/step.h"

#include "format/base/memory.h"
#include "train/net/plan.h"
#include "train/step/outcome_ring.h"
#include "train/step/segments.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { SEND_STEPS = 16, TIMED_STEPS = 8 /* one step in TIMED_STEPS is timed */ };

/* The story of a step. The trainer calls ff_step_add for each micro-batch except the last, and
 * ff_step_run for the last, which is the only one in most runs. Both only enqueue.
 *
 * Each micro-batch, in ff_step_add, and on one rank also in ff_step_run:
 *   run_batch              earlier errors; waits if the host is too far ahead of the device
 *   segment GRADIENTS      make_batch; ff_plan_enqueue: forward, loss (to the ring), backward
 *   segment ADD_FIRST/ADD  ff_update_add: adds the gradients to the sums, if the store has sums
 * Then, on one rank, ff_step_run (run_alone):
 *   segment UPDATE         ff_update_enqueue: check, update, advance of the control
 * On several ranks, ff_step_run (run_last) has one segment, ONLY, or LAST after ff_step_add:
 *   enqueue_gradients      as GRADIENTS; add_bucket, for each bucket that backward completes, adds
 *                          its gradients to the sums, and the reducer may begin the all-reduce
 *   ff_update_count        adds the micro-batch's outcome to this rank's
 *   enqueue_reduced        ff_reducer_run: the other all-reduces, the gather of all outcomes;
 *                          ff_update_combine: the step's outcome from these; then as UPDATE
 *   enqueue_nothing        instead of all this, if the rank has no sample of the batch
 * Finally ff_step_run ends a timing and moves to the ring's next entry. The outcome arrives some
 * steps later: ff_step_outcomes.
 *
 * On the CPU these calls compute. On a GPU the first run of a segment makes the calls, the second
 * captures them as a graph, which this and all later runs launch. The collectives are in the graph
 * if comm->in_graphs, otherwise between graphs (segments.h). */
enum { GRADIENTS, ADD_FIRST, ADD, UPDATE, ONLY, LAST, SEGMENTS };

struct ff_step {
    ff_model *model;
    ff_compute *compute;
    ff_store *store;
    ff_step_options options;
    ff_update *update;
    ff_segments segments;
    const ff_plan *plan; /* of the previous step; NULL = none */
    ff_outcome_ring ring;
    ff_reducer *reducer; /* NULL = one rank */
    ff_step_timer timer;
    int parts;       /* micro-batches of the next step so far */
    bool ends;       /* the micro-batch being added is its last */
    bool part_timed; /* the first of them was timed */
};

static const ff_device_table *table_of(const ff_step *step) {
    return step->compute->device->table;
}

/* ---- the segments ---- */

static ff_status enqueue_gradients(ff_step *step, ff_plan *plan, const ff_batch *batch, bool timed,
                                   const ff_bucket_watch *watch, ff_error *error) {
    ff_compute *compute = step->compute;
    ff_compute_enter(compute);
    if (step->options.make_batch)
        FF_TRY(step->options.make_batch(step->options.context, compute->stream, error));
    if (timed) FF_TRY(ff_step_timer_begun(&step->timer, error));
    ff_plan_enqueue(plan, batch, true, step->ring.entries, ff_outcome_ring_size(&step->ring),
                    watch);
    return ff_compute_check(compute, error);
}

static ff_status gradients_segment(void *context, ff_plan *plan, const ff_batch *batch, bool timed,
                                   ff_error *error) {
    return enqueue_gradients(context, plan, batch, timed, NULL, error);
}

static ff_status sum_segment(void *context, ff_plan *plan, const ff_batch *batch, bool timed,
                             ff_error *error) {
    ff_step *step = context;
    (void)plan, (void)batch, (void)timed;
    ff_update_add(step->update, (ff_batch_part){step->parts - 1, step->ends}, step->ring.entries,
                  ff_outcome_ring_size(&step->ring));
    return ff_compute_check(step->compute, error);
}

static ff_status update_segment(void *context, ff_plan *plan, const ff_batch *batch, bool timed,
                                ff_error *error) {
    ff_step *step = context;
    (void)plan, (void)batch, (void)timed;
    ff_update_enqueue(step->update, step->ring.entries, ff_outcome_ring_size(&step->ring));
    return ff_compute_check(step->compute, error);
}

/* ---- the last segment in a job ---- */

static void reduce_bucket(void *context, const ff_plan *plan, int bucket) {
    ff_step *step = context;
    (void)!ff_reducer_bucket_done(step->reducer, plan, bucket, ff_compute_error(step->compute));
}

static void add_bucket(void *context, const ff_plan *plan, int bucket) {
    ff_step *step = context;
    if (ff_reducer_needs(step->reducer, plan, bucket))
        ff_update_sum(step->update, (ff_batch_part){step->parts, true},
                      ff_reducer_bucket(step->reducer, bucket), step->ring.entries,
                      ff_outcome_ring_size(&step->ring));
    reduce_bucket(step, plan, bucket);
}

static ff_bucket_watch watch_of(ff_step *step, void (*completed)(void *, const ff_plan *, int)) {
    return (ff_bucket_watch){ff_reducer_bucket(step->reducer, 0),
                             ff_reducer_bucket_count(step->reducer), completed, step};
}

static ff_status reduce(void *context, const ff_collective *call, ff_error *error) {
    const ff_step *step = context;
    return ff_reducer_run(step->reducer, call->plan, error);
}

/* From this rank's outcome to the update. */
static ff_status enqueue_reduced(ff_step *step, ff_plan *plan, const ff_batch *batch,
                                 ff_error *error) {
    FF_TRY(ff_reducer_outcome_done(step->reducer, error));
    ff_segments_collective(
        &step->segments, (ff_collective){.make = reduce, .comm = step->options.comm, .plan = plan});
    ff_reducer_widen(step->reducer);
    ff_update_combine(step->update, ff_reducer_outcomes(step->reducer), step->options.ranks,
                      step->ring.entries, ff_outcome_ring_size(&step->ring));
    return update_segment(step, plan, batch, false, error);
}

static ff_status last_segment(void *context, ff_plan *plan, const ff_batch *batch, bool timed,
                              ff_error *error) {
    ff_step *step = context;
    const ff_bucket_watch watch = watch_of(step, add_bucket);
    FF_TRY(enqueue_gradients(step, plan, batch, timed, &watch, error));
    ff_update_count(step->update, (ff_batch_part){step->parts, true}, step->ring.entries,
                    ff_outcome_ring_size(&step->ring));
    return enqueue_reduced(step, plan, batch, error);
}

/* Replaces last_segment if this rank has no sample of the batch. The batch is made anyway, because
 * the next one follows it. The same collectives are called in the same order. */
static ff_status enqueue_nothing(ff_step *step, ff_plan *plan, ff_error *error) {
    const ff_bucket_watch watch = watch_of(step, reduce_bucket);
    ff_compute_enter(step->compute);
    if (step->options.make_batch)
        FF_TRY(step->options.make_batch(step->options.context, step->compute->stream, error));
    if (!step->parts) FF_TRY(ff_reducer_nothing(step->reducer, error));
    ff_plan_enqueue_empty(plan, &watch);
    return enqueue_reduced(step, plan, NULL, error);
}

static const ff_segment_kind kinds[SEGMENTS] = {
    [GRADIENTS] = {.enqueue = gradients_segment, .of_plan = true, .timed = true},
    [ADD_FIRST] = {.enqueue = sum_segment},
    [ADD] = {.enqueue = sum_segment},
    [UPDATE] = {.enqueue = update_segment},
    [ONLY] = {.enqueue = last_segment, .of_plan = true, .timed = true},
    [LAST] = {.enqueue = last_segment, .of_plan = true, .timed = true},
};

/* ---- life ---- */

static ff_status set_control(ff_step *step, ff_error *error) {
    const ff_step_options *options = &step->options;
    const bool scaled = options->loss_scale > 0;
    const ff_control control = {
        .step = options->first_step,
        .loss_scale = scaled ? (float)options->loss_scale : 1,
        .growth = 2,
        .backoff = 0.5f,
        .growth_interval = scaled ? options->scale_interval : 0,
    };
    ff_compute_write(step->compute, step->store->control, &control, sizeof control);
    return ff_compute_check(step->compute, error);
}

static ff_status gather(void *context, const ff_collective *call, ff_error *error) {
    const ff_step *step = context;
    FF_TRY(ff_reducer_await(step->reducer, error));
    return call->comm->table->all_gather(call->comm, step->compute->stream, call->from, call->to,
                                         call->bytes, error);
}

/* Gathers what ranks send each other for batch norms. */
static void gather_norms(void *context, const void *own, void *all, uint64_t bytes) {
    ff_step *step = context;
    ff_segments_collective(
        &step->segments,
        (ff_collective){
            .make = gather, .comm = step->options.norms, .from = own, .to = all, .bytes = bytes});
}

static ff_status agree(void *context, bool *captured, ff_error *error) {
    const ff_step *step = context;
    return ff_reducer_agree(step->reducer, captured, error);
}

/* Whether graphs, if there are any, contain the collectives. */
static bool is_in_graphs(const ff_step *step) {
    return step->options.ranks > 1 && step->options.comm && step->options.comm->in_graphs;
}

static ff_status build(ff_step *step, ff_error *error) {
    const ff_step_options *options = &step->options;
    ff_update_options *update = &step->options.update;
    update->divisor = ff_model_loss_divisor(step->model);
    FF_TRY(ff_update_create(&step->update, step->store, update, error));
    update->groups = NULL; /* owned by the caller; the update has copies */
    update->rates = NULL;
    FF_TRY(ff_outcome_ring_create(&step->ring, step->compute, options->send_steps,
                                  options->first_step, error));
    /* A rank's collectives on a GPU must not run at once. NCCL's may wait for each other (job.c).
     * The host's wait for other ranks in functions of the host, and CUDA may run only one such
     * function at a time for all streams ("CUDA Runtime API", cudaLaunchHostFunc). */
    const ff_reducer_options reducer = {
        options->ranks,        options->comm,    options->comm_device,  options->bucket_bytes,
        options->reduce_dtype, options->samples, options->norms != NULL};
    if (options->ranks > 1) FF_TRY(ff_reducer_create(&step->reducer, step->store, &reducer, error));
    /* Timed steps have graphs of their own. If these contain collectives, all ranks must launch
     * them at the same step: one ring of outcomes later, all ranks have waited for the timed
     * step. */
    const uint32_t every = is_in_graphs(step) ? ff_outcome_ring_size(&step->ring) : TIMED_STEPS;
    FF_TRY(ff_step_timer_create(&step->timer, step->compute, every, error));
    return set_control(step, error);
}

ff_status ff_step_create(ff_step **out, ff_model *model, const ff_step_options *options,
                         ff_error *error) {
    ff_step *step;
    *out = NULL;
    FF_TRY(ff_alloc(&step, 1, sizeof *step, "a training step", error));
    step->model = model;
    step->compute = ff_model_compute(model);
    step->store = ff_model_store(model);
    step->options = *options;
    if (!step->options.send_steps) step->options.send_steps = SEND_STEPS;
    step->segments.compute = step->compute;
    step->segments.kinds = kinds;
    step->segments.context = step;
    step->segments.record = options->record && !table_of(step)->unified;
    if (is_in_graphs(step)) step->segments.agree = agree;
    step->compute->ranks.gather = gather_norms;
    step->compute->ranks.context = step;
    ff_status status = build(step, error);
    if (status == FF_OK)
        *out = step;
    else
        ff_step_destroy(&step);
    return status;
}

void ff_step_destroy(ff_step **pointer) {
    ff_step *step = *pointer;
    if (!step) return;
    if (ff_compute_wait(step->compute, NULL) != FF_OK) {
        /* the failure was reported before, or will be at the next check */
    }
    ff_reducer_destroy(&step->reducer);
    ff_segments_destroy(&step->segments);
    ff_update_destroy(&step->update);
    ff_step_timer_destroy(&step->timer);
    ff_outcome_ring_destroy(&step->ring);
    free(step);
    *pointer = NULL;
}

ff_step_times ff_step_measure(ff_step *step) {
    return ff_step_timer_measure(&step->timer);
}

ff_status ff_step_outcomes(ff_step *step, bool wait, const ff_outcome **outcomes, uint32_t *count,
                           ff_error *error) {
    return ff_outcome_ring_take(&step->ring, wait, outcomes, count, error);
}

/* ---- a step ---- */

/* Sets gradients that the plan does not compute, and their sums, to 0. Those left by an earlier
 * plan may not be finite, and then every update would be skipped. */
static void enter_plan(ff_step *step, const ff_plan *plan) {
    for (int i = 0; plan != step->plan && plan->without && i < plan->graph->parameter_count; i++)
        if (plan->without[i] && plan->graph->parameters[i].trained)
            ff_store_clear_gradient(step->store, i);
    step->plan = plan;
}

/* Errors of earlier collectives; after an error no graph is launched. */
static ff_status check_ranks(const ff_step *step, ff_error *error) {
    ff_comm *const comms[] = {step->options.comm, step->options.norms};
    for (int i = 0; i < 2; i++)
        if (comms[i]) FF_TRY(comms[i]->table->check(comms[i], error));
    return FF_OK;
}

/* Enqueues a segment that begins with the batch: of the next step, or of its next micro-batch. */
static ff_status run_batch(ff_step *step, int kind, ff_plan *plan, const ff_batch *batch,
                           bool timed, ff_error *error) {
    step->timer.next = false;
    FF_TRY(ff_compute_check(step->compute, error));
    FF_TRY(check_ranks(step, error));
    FF_TRY(ff_outcome_ring_await(&step->ring, error));
    enter_plan(step, plan);
    ff_update_begin(step->update, step->parts);
    if (batch)
        FF_TRY(ff_segments_run(&step->segments, kind, plan, batch, timed, error));
    else
        FF_TRY(enqueue_nothing(step, plan, error));
    step->store->forwards += !(step->options.update.tree && step->parts);
    return check_ranks(step, error);
}

static bool is_timed(const ff_step *step, int kind, const ff_plan *plan) {
    return step->timer.next && ff_segments_timeable(&step->segments, kind, plan);
}

static ff_status add(ff_step *step, ff_plan *plan, const ff_batch *batch, bool last,
                     ff_error *error) {
    const bool first = !step->parts;
    if (first) step->part_timed = is_timed(step, GRADIENTS, plan);
    FF_TRY(run_batch(step, GRADIENTS, plan, batch, first && step->part_timed, error));
    step->parts++;
    step->ends = last;
    return ff_segments_run(&step->segments, first ? ADD_FIRST : ADD, plan, batch, false, error);
}

ff_status ff_step_add(ff_step *step, ff_plan *plan, const ff_batch *batch, ff_error *error) {
    return add(step, plan, batch, false, error);
}

static ff_status run_last(ff_step *step, ff_plan *plan, const ff_batch *batch, bool *timed,
                          ff_error *error) {
    const int kind = step->parts ? LAST : ONLY;
    const bool now = !step->parts && is_timed(step, kind, plan);
    *timed = step->parts ? step->part_timed : now;
    return run_batch(step, kind, plan, batch, now, error);
}

static ff_status run_alone(ff_step *step, ff_plan *plan, const ff_batch *batch, bool *timed,
                           ff_error *error) {
    *timed = is_timed(step, GRADIENTS, plan);
    if (step->store->sums) {
        FF_TRY(add(step, plan, batch, true, error));
        *timed = step->part_timed;
    } else {
        FF_TRY(run_batch(step, GRADIENTS, plan, batch, *timed, error));
    }
    return ff_segments_run(&step->segments, UPDATE, plan, batch, false, error);
}

ff_status ff_step_run(ff_step *step, ff_plan *plan, const ff_batch *batch, ff_error *error) {
    bool timed = false;
    FF_TRY((step->reducer ? run_last : run_alone)(step, plan, batch, &timed, error));
    step->parts = 0;
    FF_TRY(ff_step_timer_end(&step->timer, step->ring.enqueued, timed, error));
    return ff_outcome_ring_advance(&step->ring, error);
}

ff_status ff_step_gradients(ff_step *step, ff_plan *plan, const ff_batch *batch,
                            ff_outcome *outcome, ff_error *error) {
    FF_TRY(run_batch(step, GRADIENTS, plan, batch, false, error));
    ff_compute_read(step->compute, outcome, ff_outcome_ring_next(&step->ring), sizeof *outcome);
    return ff_compute_check(step->compute, error);
}

void ff_step_set_whole(ff_step *step, bool whole) {
    step->segments.called = !whole && is_in_graphs(step);
}

ff_reducer *ff_step_reducer(ff_step *step) {
    return step->reducer;
}

const char *ff_step_note(const ff_step *step) {
    return *step->segments.note ? step->segments.note : NULL;
}

ff_status ff_step_restart(ff_step *step, ff_error *error) {
    FF_TRY(ff_compute_wait(step->compute, error));
    ff_outcome_ring_restart(&step->ring, step->options.first_step);
    ff_step_timer_restart(&step->timer);
    step->parts = 0;
    step->plan = NULL;
    return FF_OK;
}
