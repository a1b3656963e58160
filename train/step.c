#include "train/step.h"

#include "format/base/memory.h"
#include "train/plan.h"
#include "train/segments.h"
#include "train/update.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* One step in TIMED_STEPS is timed, if the timing of the previous one has finished. */
enum { SEND_STEPS = 16, PARTS = 3, TIMED_STEPS = 8 };

/* The segments of a step, in their order. */
enum { GRADIENTS, ADD_FIRST, ADD, UPDATE, SEGMENTS };

struct ff_step {
    ff_model *model;
    ff_compute *compute;
    ff_store *store;
    ff_step_options options;
    ff_update *update;
    ff_segments segments;
    const ff_plan *plan; /* of the previous step; NULL = none */
    ff_outcome *ring;    /* [PARTS * send_steps], on the device */
    ff_outcome *pinned;  /* its copy */
    ff_event *copied[PARTS];
    /* Numbers of the next step to enqueue, of the next outcome to copy to the host, and of the next
     * to return to the caller: delivered <= sent <= given. */
    uint64_t given, sent, delivered;
    ff_bucket *buckets;
    ff_event **bucket_events;
    int bucket_count;
    /* Of the step being timed: the end of the previous one, its first kernel, its end. */
    ff_event *before, *begun, *ended;
    bool before_set, timing;
    int parts;       /* micro-batches of the next step so far */
    bool part_timed; /* the first of them was */
    ff_step_times times;
};

static const ff_device_table *table_of(const ff_step *step) {
    return step->compute->device->table;
}

/* ---- the segments ---- */

/* The batch, forward and backward. */
static ff_status give_gradients(void *context, ff_plan *plan, const ff_batch *batch, bool timed,
                                ff_error *error) {
    ff_step *step = context;
    ff_compute *compute = step->compute;
    const ff_bucket_events events = {step->buckets, step->bucket_events, step->bucket_count};
    ff_compute_enter(compute);
    if (step->options.make_batch)
        FF_TRY(step->options.make_batch(step->options.context, compute->stream, error));
    if (timed)
        FF_TRY(table_of(step)->event_record_external(compute->device, step->begun, compute->stream,
                                                     error));
    ff_plan_enqueue(plan, batch, true, step->ring, PARTS * step->options.send_steps,
                    step->options.bucket_bytes ? &events : NULL);
    return ff_compute_check(compute, error);
}

static ff_status give_sum(void *context, ff_plan *plan, const ff_batch *batch, bool timed,
                          ff_error *error) {
    ff_step *step = context;
    (void)plan, (void)batch, (void)timed;
    ff_update_add(step->update, step->parts == 1, step->ring, PARTS * step->options.send_steps);
    return ff_compute_check(step->compute, error);
}

static ff_status give_update(void *context, ff_plan *plan, const ff_batch *batch, bool timed,
                             ff_error *error) {
    ff_step *step = context;
    (void)plan, (void)batch, (void)timed;
    ff_update_enqueue(step->update, step->ring, PARTS * step->options.send_steps);
    return ff_compute_check(step->compute, error);
}

static const ff_segment_kind kinds[SEGMENTS] = {
    [GRADIENTS] = {.give = give_gradients, .of_plan = true, .timed = true},
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
    for (int i = 0; i < PARTS; i++)
        FF_TRY(table->event_create(device, &step->copied[i], false, error));
    FF_TRY(ff_alloc(&step->bucket_events, (uint64_t)step->bucket_count, sizeof(ff_event *),
                    "gradient buckets", error));
    for (int i = 0; i < step->bucket_count; i++)
        FF_TRY(table->event_create(device, &step->bucket_events[i], false, error));
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

static ff_status build(ff_step *step, ff_error *error) {
    const ff_step_options *options = &step->options;
    const uint64_t bytes = (uint64_t)PARTS * options->send_steps * sizeof(ff_outcome);
    const ff_update_options update = {
        .groups = options->groups,
        .group_count = options->group_count,
        .rates = options->rates,
        .rate_steps = options->rate_steps,
        .clip_norm = options->clip_norm,
        .ema_decay = options->ema_decay,
        .part_samples = options->part_samples,
        .summed = options->summed,
    };
    ff_device *device = step->compute->device;
    FF_TRY(ff_update_create(&step->update, step->store, &update, error));
    step->options.groups = NULL; /* owned by the caller; the update has copies */
    step->options.rates = NULL;
    FF_TRY(ff_compute_allocate(step->compute, &step->ring, bytes, "the outcomes of steps", error));
    void *pinned;
    FF_TRY(device->table->allocate_pinned(device, &pinned, bytes, "the outcomes of steps", error));
    step->pinned = pinned;
    FF_TRY(ff_store_buckets(step->store, options->bucket_bytes, &step->buckets, &step->bucket_count,
                            error));
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
    step->given = step->sent = step->delivered = options->first_step;
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
    ff_segments_destroy(&step->segments);
    ff_update_destroy(&step->update);
    ff_event *events[] = {step->before, step->begun, step->ended};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        device->table->event_destroy(device, events[i]);
    for (int i = 0; i < PARTS; i++) device->table->event_destroy(device, step->copied[i]);
    for (int i = 0; step->bucket_events && i < step->bucket_count; i++)
        device->table->event_destroy(device, step->bucket_events[i]);
    if (step->ring) ff_compute_release(step->compute, step->ring);
    if (step->pinned) device->table->release_pinned(device, step->pinned);
    free(step->bucket_events);
    free(step->buckets);
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
    step->before_set = !step->timing && step->given % TIMED_STEPS == TIMED_STEPS / 2;
    if (!step->before_set) return FF_OK;
    return device->table->event_record(device, step->before, stream, error);
}

ff_step_times ff_step_measure(ff_step *step) {
    take_time(step);
    ff_step_times times = step->times;
    step->times = (ff_step_times){0};
    return times;
}

/* ---- outcomes ---- */

static int part_of(const ff_step *step, uint64_t number) {
    return (int)(number / step->options.send_steps % PARTS);
}

static uint64_t queue_of(const ff_step *step, uint64_t number) {
    return number % (PARTS * (uint64_t)step->options.send_steps);
}

/* Copies the remaining outcomes to the host. They are in one part, because every part is sent at
 * its end. */
static ff_status send_outcomes(ff_step *step, ff_error *error) {
    ff_device *device = step->compute->device;
    ff_stream *stream = step->compute->stream;
    const uint64_t at = queue_of(step, step->sent);
    const uint64_t bytes = (step->given - step->sent) * sizeof(ff_outcome);
    FF_TRY(device->table->copy(device, stream, step->pinned + at, step->ring + at, bytes, error));
    FF_TRY(device->table->event_record(device, step->copied[part_of(step, step->sent)], stream,
                                       error));
    step->sent = step->given;
    return FF_OK;
}

ff_status ff_step_outcomes(ff_step *step, bool wait, const ff_outcome **outcomes, uint32_t *count,
                           ff_error *error) {
    ff_device *device = step->compute->device;
    ff_event *copied = step->copied[part_of(step, step->delivered)];
    *outcomes = NULL;
    *count = 0;
    FF_TRY(ff_compute_check(step->compute, error));
    if (wait && step->sent < step->given) FF_TRY(send_outcomes(step, error));
    if (step->delivered == step->sent) return FF_OK;
    if (!wait && !device->table->event_done(device, copied)) return FF_OK;
    FF_TRY(device->table->event_synchronize(device, copied, error));
    const uint64_t at = queue_of(step, step->delivered), each = step->options.send_steps;
    const uint64_t left = each - at % each, there = step->sent - step->delivered;
    *count = (uint32_t)(there < left ? there : left);
    *outcomes = step->pinned + at;
    step->delivered += *count;
    return FF_OK;
}

/* The ring has three parts: one that steps write to, one being copied, and one that the caller
 * reads. The host waits where it would be further ahead. */
static ff_status await_place(ff_step *step, ff_error *error) {
    ff_device *device = step->compute->device;
    const uint64_t ahead = step->given - step->delivered;
    const uint64_t most = (PARTS - 1) * (uint64_t)step->options.send_steps;
    assert(ahead <= most);
    if (ahead < most) return FF_OK;
    return device->table->event_synchronize(device, step->copied[part_of(step, step->delivered)],
                                            error);
}

/* ---- a step ---- */

/* Gradients that the plan does not compute are set to 0. Those left by an earlier plan may not be
 * finite, and then every update would be skipped. */
static void enter_plan(ff_step *step, const ff_plan *plan) {
    for (int i = 0; plan != step->plan && plan->without && i < plan->graph->parameter_count; i++)
        if (plan->without[i] && plan->graph->parameters[i].trained)
            ff_store_clear_gradient(step->store, i);
    step->plan = plan;
}

/* Enqueues the gradients of the next step, or of its next micro-batch. */
static ff_status run_gradients(ff_step *step, ff_plan *plan, const ff_batch *batch, bool timed,
                               ff_error *error) {
    step->before_set = false;
    FF_TRY(ff_compute_check(step->compute, error));
    FF_TRY(await_place(step, error));
    enter_plan(step, plan);
    FF_TRY(ff_segments_run(&step->segments, GRADIENTS, plan, batch, timed, error));
    step->store->forwards++;
    return FF_OK;
}

ff_status ff_step_add(ff_step *step, ff_plan *plan, const ff_batch *batch, ff_error *error) {
    const bool first = !step->parts;
    if (first)
        step->part_timed =
            step->before_set && ff_segments_timeable(&step->segments, GRADIENTS, plan);
    FF_TRY(run_gradients(step, plan, batch, first && step->part_timed, error));
    step->parts++;
    return ff_segments_run(&step->segments, first ? ADD_FIRST : ADD, plan, batch, false, error);
}

ff_status ff_step_run(ff_step *step, ff_plan *plan, const ff_batch *batch, ff_error *error) {
    bool timed = step->before_set && ff_segments_timeable(&step->segments, GRADIENTS, plan);
    if (step->store->sums) {
        FF_TRY(ff_step_add(step, plan, batch, error));
        timed = step->part_timed;
        step->parts = 0;
    } else {
        FF_TRY(run_gradients(step, plan, batch, timed, error));
    }
    FF_TRY(ff_segments_run(&step->segments, UPDATE, plan, batch, false, error));
    step->given++;
    FF_TRY(mark_end(step, timed, error));
    if (step->given % step->options.send_steps == 0) return send_outcomes(step, error);
    return FF_OK;
}

ff_status ff_step_gradients(ff_step *step, ff_plan *plan, const ff_batch *batch,
                            ff_outcome *outcome, ff_error *error) {
    FF_TRY(run_gradients(step, plan, batch, false, error));
    ff_compute_read(step->compute, outcome, step->ring + queue_of(step, step->given),
                    sizeof *outcome);
    return ff_compute_check(step->compute, error);
}

const char *ff_step_note(const ff_step *step) {
    return *step->segments.note ? step->segments.note : NULL;
}

ff_status ff_step_restart(ff_step *step, ff_error *error) {
    FF_TRY(ff_compute_wait(step->compute, error));
    step->given = step->sent = step->delivered = step->options.first_step;
    step->before_set = step->timing = false;
    step->parts = 0;
    step->times = (ff_step_times){0};
    step->plan = NULL;
    return FF_OK;
}
