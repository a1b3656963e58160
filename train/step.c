#include "train/step.h"

#include "format/base/memory.h"
#include "train/outcome_ring.h"
#include "train/plan.h"
#include "train/segments.h"
#include "train/update.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* One step in TIMED_STEPS is timed, if the timing of the previous one has finished. */
enum { SEND_STEPS = 16, TIMED_STEPS = 8 };

/* The segments of a step, in their order. In a job the last micro-batch's gradients are added to
 * the sums bucket by bucket: SUM_FIRST where it is the only one. */
enum { GRADIENTS, SUM_FIRST, SUM, ADD_FIRST, ADD, UPDATE, SEGMENTS };

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
    /* Of the step being timed: the end of the previous one, its first kernel, its end. */
    ff_event *before, *begun, *ended;
    bool before_set, timing;
    int parts;       /* micro-batches of the next step so far */
    bool ends;       /* the one being added is its last */
    bool part_timed; /* the first of them was */
    ff_step_times times;
};

static const ff_device_table *table_of(const ff_step *step) {
    return step->compute->device->table;
}

/* ---- the segments ---- */

/* The batch, forward and backward. */
static ff_status enqueue_gradients(ff_step *step, ff_plan *plan, const ff_batch *batch, bool timed,
                                   const ff_bucket_watch *watch, ff_error *error) {
    ff_compute *compute = step->compute;
    ff_compute_enter(compute);
    if (step->options.make_batch)
        FF_TRY(step->options.make_batch(step->options.context, compute->stream, error));
    if (timed)
        FF_TRY(table_of(step)->event_record_external(compute->device, step->begun, compute->stream,
                                                     error));
    ff_plan_enqueue(plan, batch, true, step->ring.entries, ff_outcome_ring_size(&step->ring),
                    watch);
    return ff_compute_check(compute, error);
}

static ff_status give_gradients(void *context, ff_plan *plan, const ff_batch *batch, bool timed,
                                ff_error *error) {
    return enqueue_gradients(context, plan, batch, timed, NULL, error);
}

/* A bucket of the last micro-batch. */
static void add_bucket(void *context, const ff_plan *plan, int bucket) {
    ff_step *step = context;
    if (ff_reducer_needs(step->reducer, plan, bucket))
        ff_update_sum(step->update, (ff_batch_part){step->parts, true},
                      ff_reducer_bucket(step->reducer, bucket), step->ring.entries,
                      ff_outcome_ring_size(&step->ring));
    (void)!ff_reducer_bucket_done(step->reducer, plan, bucket, ff_compute_error(step->compute));
}

static ff_status give_last_sum(void *context, ff_plan *plan, const ff_batch *batch, bool timed,
                               ff_error *error) {
    ff_step *step = context;
    const ff_bucket_watch watch = {ff_reducer_bucket(step->reducer, 0),
                                   ff_reducer_bucket_count(step->reducer), add_bucket, step};
    FF_TRY(enqueue_gradients(step, plan, batch, timed, &watch, error));
    ff_update_count(step->update, (ff_batch_part){step->parts, true}, step->ring.entries,
                    ff_outcome_ring_size(&step->ring));
    FF_TRY(ff_reducer_outcome_done(step->reducer, error));
    return ff_compute_check(step->compute, error);
}

static ff_status give_sum(void *context, ff_plan *plan, const ff_batch *batch, bool timed,
                          ff_error *error) {
    ff_step *step = context;
    (void)plan, (void)batch, (void)timed;
    ff_update_add(step->update, (ff_batch_part){step->parts - 1, step->ends}, step->ring.entries,
                  ff_outcome_ring_size(&step->ring));
    return ff_compute_check(step->compute, error);
}

static ff_status give_update(void *context, ff_plan *plan, const ff_batch *batch, bool timed,
                             ff_error *error) {
    ff_step *step = context;
    (void)plan, (void)batch, (void)timed;
    if (step->reducer) {
        ff_reducer_widen(step->reducer);
        ff_update_join(step->update, ff_reducer_outcomes(step->reducer), step->options.ranks,
                       step->ring.entries, ff_outcome_ring_size(&step->ring));
    }
    ff_update_enqueue(step->update, step->ring.entries, ff_outcome_ring_size(&step->ring));
    return ff_compute_check(step->compute, error);
}

static const ff_segment_kind kinds[SEGMENTS] = {
    [GRADIENTS] = {.give = give_gradients, .of_plan = true, .timed = true},
    [SUM_FIRST] = {.give = give_last_sum, .of_plan = true, .timed = true},
    [SUM] = {.give = give_last_sum, .of_plan = true, .timed = true},
    [ADD_FIRST] = {.give = give_sum},
    [ADD] = {.give = give_sum},
    [UPDATE] = {.give = give_update},
};

/* ---- life ---- */

static ff_status create_events(ff_step *step, ff_error *error) {
    ff_device *device = step->compute->device;
    const ff_device_table *table = device->table;
    ff_event **timed[] = {&step->before, &step->begun, &step->ended};
    for (size_t i = 0; i < sizeof timed / sizeof *timed; i++)
        FF_TRY(table->event_create(device, timed[i], true, error));
    return FF_OK;
}

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

/* What ranks tell each other of batch norms. */
static void gather_norms(void *context, const void *own, void *all, uint64_t bytes) {
    ff_step *step = context;
    ff_segments_gather(&step->segments, step->options.norms, own, all, bytes);
}

static ff_status build(ff_step *step, ff_error *error) {
    const ff_step_options *options = &step->options;
    const ff_update_options update = {
        .groups = options->groups,
        .group_count = options->group_count,
        .rates = options->rates,
        .rate_steps = options->rate_steps,
        .clip_norm = options->clip_norm,
        .ema_decay = options->ema_decay,
        .part_samples = options->part_samples,
        .first_sample = options->first_sample,
        .summed = options->summed,
        .tree = options->tree,
        .divisor = ff_model_loss_divisor(step->model),
    };
    FF_TRY(ff_update_create(&step->update, step->store, &update, error));
    step->options.groups = NULL; /* owned by the caller; the update has copies */
    step->options.rates = NULL;
    FF_TRY(ff_outcome_ring_create(&step->ring, step->compute, options->send_steps,
                                  options->first_step, error));
    const ff_reducer_options reducer = {options->ranks,        options->comm,
                                        options->comm_device,  options->bucket_bytes,
                                        options->reduce_dtype, options->samples};
    if (options->ranks > 1) FF_TRY(ff_reducer_create(&step->reducer, step->store, &reducer, error));
    FF_TRY(create_events(step, error));
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
    step->segments.apart = options->norms_apart;
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
    ff_device *device = step->compute->device;
    if (ff_compute_wait(step->compute, NULL) != FF_OK) {
        /* the failure was reported before, or will be at the next check */
    }
    ff_reducer_destroy(&step->reducer);
    ff_segments_destroy(&step->segments);
    ff_update_destroy(&step->update);
    ff_event *events[] = {step->before, step->begun, step->ended};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        device->table->event_destroy(device, events[i]);
    ff_outcome_ring_destroy(&step->ring);
    free(step);
    *pointer = NULL;
}

/* ---- times ---- */

/* Adds the timed step, if it has finished. */
static void take_time(ff_step *step) {
    ff_device *device = step->compute->device;
    uint64_t whole, wait;
    if (!step->timing || !device->table->event_done(device, step->ended)) return;
    step->timing = false;
    if (device->table->elapsed(device, step->before, step->ended, &whole, NULL) != FF_OK ||
        device->table->elapsed(device, step->before, step->begun, &wait, NULL) != FF_OK)
        return;
    step->times.steps++;
    step->times.step_ns += whole;
    step->times.wait_ns += wait;
}

/* At the end of a step: records its end if timed, or the start of the next timing. */
static ff_status mark_end(ff_step *step, bool timed, ff_error *error) {
    ff_device *device = step->compute->device;
    ff_stream *stream = step->compute->stream;
    if (timed) {
        step->timing = true;
        return device->table->event_record(device, step->ended, stream, error);
    }
    take_time(step);
    step->before_set = !step->timing && (step->ring.given + 1) % TIMED_STEPS == TIMED_STEPS / 2;
    if (!step->before_set) return FF_OK;
    return device->table->event_record(device, step->before, stream, error);
}

ff_step_times ff_step_measure(ff_step *step) {
    take_time(step);
    ff_step_times times = step->times;
    step->times = (ff_step_times){0};
    return times;
}

ff_status ff_step_outcomes(ff_step *step, bool wait, const ff_outcome **outcomes, uint32_t *count,
                           ff_error *error) {
    return ff_outcome_ring_take(&step->ring, wait, outcomes, count, error);
}

/* ---- a step ---- */

/* Gradients that the plan does not compute are set to 0, and so are their sums. Those left by an
 * earlier plan may not be finite, and then every update would be skipped. */
static void enter_plan(ff_step *step, const ff_plan *plan) {
    for (int i = 0; plan != step->plan && plan->without && i < plan->graph->parameter_count; i++)
        if (plan->without[i] && plan->graph->parameters[i].trained)
            ff_store_clear_gradient(step->store, i);
    step->plan = plan;
}

/* This rank has no sample of the batch, which is made all the same: the next one comes after it. */
static ff_status enqueue_nothing(ff_step *step, ff_plan *plan, bool first, ff_error *error) {
    ff_compute_enter(step->compute);
    if (step->options.make_batch)
        FF_TRY(step->options.make_batch(step->options.context, step->compute->stream, error));
    ff_plan_enqueue_empty(plan);
    return ff_reducer_nothing(step->reducer, plan, first, error);
}

/* Enqueues the gradients of the next step, or of its next micro-batch. */
static ff_status run_gradients(ff_step *step, int kind, ff_plan *plan, const ff_batch *batch,
                               bool timed, ff_error *error) {
    step->before_set = false;
    FF_TRY(ff_compute_check(step->compute, error));
    FF_TRY(ff_outcome_ring_await(&step->ring, error));
    enter_plan(step, plan);
    ff_update_begin(step->update, step->parts);
    if (batch)
        FF_TRY(ff_segments_run(&step->segments, kind, plan, batch, timed, error));
    else
        FF_TRY(enqueue_nothing(step, plan, kind == SUM_FIRST, error));
    if (step->options.norms) FF_TRY(step->options.norms->table->check(step->options.norms, error));
    step->store->forwards += !(step->options.tree && step->parts);
    return FF_OK;
}

/* Whether the next segment of this kind is timed. */
static bool is_timed(const ff_step *step, int kind, const ff_plan *plan) {
    return step->before_set && ff_segments_timeable(&step->segments, kind, plan);
}

static ff_status add(ff_step *step, ff_plan *plan, const ff_batch *batch, bool last,
                     ff_error *error) {
    const bool first = !step->parts;
    if (first) step->part_timed = is_timed(step, GRADIENTS, plan);
    FF_TRY(run_gradients(step, GRADIENTS, plan, batch, first && step->part_timed, error));
    step->parts++;
    step->ends = last;
    return ff_segments_run(&step->segments, first ? ADD_FIRST : ADD, plan, batch, false, error);
}

ff_status ff_step_add(ff_step *step, ff_plan *plan, const ff_batch *batch, ff_error *error) {
    return add(step, plan, batch, false, error);
}

/* The last micro-batch in a job, and the reduction. */
static ff_status reduce(ff_step *step, ff_plan *plan, const ff_batch *batch, bool *timed,
                        ff_error *error) {
    const int kind = step->parts ? SUM : SUM_FIRST;
    const bool now = !step->parts && is_timed(step, kind, plan);
    FF_TRY(run_gradients(step, kind, plan, batch, now, error));
    *timed = step->parts ? step->part_timed : now;
    return ff_reducer_run(step->reducer, plan, error);
}

ff_status ff_step_run(ff_step *step, ff_plan *plan, const ff_batch *batch, ff_error *error) {
    bool timed = is_timed(step, GRADIENTS, plan);
    if (step->reducer) {
        FF_TRY(reduce(step, plan, batch, &timed, error));
    } else if (step->store->sums) {
        FF_TRY(add(step, plan, batch, true, error));
        timed = step->part_timed;
    } else {
        FF_TRY(run_gradients(step, GRADIENTS, plan, batch, timed, error));
    }
    step->parts = 0;
    const ff_batch none = {0};
    FF_TRY(ff_segments_run(&step->segments, UPDATE, plan, batch ? batch : &none, false, error));
    FF_TRY(mark_end(step, timed, error));
    return ff_outcome_ring_advance(&step->ring, error);
}

ff_status ff_step_gradients(ff_step *step, ff_plan *plan, const ff_batch *batch,
                            ff_outcome *outcome, ff_error *error) {
    FF_TRY(run_gradients(step, GRADIENTS, plan, batch, false, error));
    ff_compute_read(step->compute, outcome, ff_outcome_ring_next(&step->ring), sizeof *outcome);
    return ff_compute_check(step->compute, error);
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
    step->before_set = step->timing = false;
    step->parts = 0;
    step->times = (ff_step_times){0};
    step->plan = NULL;
    return FF_OK;
}
