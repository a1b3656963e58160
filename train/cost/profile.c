#include "train/cost/profile.h"

#include "format/base/memory.h"

#include <stdlib.h>

enum { WARM_UP = 2 };

typedef struct profiler {
    ff_plan *plan;
    ff_compute *compute;
    ff_device *device;
    const ff_device_table *table;
    const ff_costs *costs;
    const ff_profile_options *options;
    ff_update *update;
    ff_outcome *ring;  /* one entry */
    ff_event **events; /* [rows + 1]: before each row, and after the last */
    size_t row;        /* the row whose event comes next */
    ff_status status;  /* result of recording the events */
    ff_error failure;
    ff_event *before, *after; /* around a whole launch */
    ff_recording *plain, *marked;
    uint64_t *taken; /* [rows + 1][launches]; the last row: launches without events */
} profiler;

/* ---- the parts of a step ---- */

static void record_next(profiler *p) {
    if (p->status != FF_OK) return;
    p->status = p->table->event_record_external(p->device, p->events[p->row++], p->compute->stream,
                                                &p->failure);
}

static void begins(void *context, ff_mark mark, int op) {
    profiler *p = context;
    if (p->status != FF_OK) return;
    const ff_cost_row *row = p->row < p->costs->row_count ? &p->costs->rows[p->row] : NULL;
    if (!row || row->pass == FF_COST_BATCH || row->mark != mark || row->op != op)
        p->status = ff_fail(&p->failure, FF_FAILED,
                            "part %zu of the step is not the one that was counted", p->row + 1);
    else
        record_next(p);
}

/* Enqueues a whole step. */
static ff_status give(profiler *p, const ff_batch *batch, bool marked, ff_error *error) {
    const ff_compute_watch watch = {.begins = begins, .context = p};
    ff_compute_enter(p->compute);
    p->row = 0;
    p->status = FF_OK;
    if (p->options->feed) {
        if (marked) record_next(p);
        FF_TRY(ff_feed_make(p->options->feed, p->compute->stream, error));
    }
    if (marked) p->compute->watch = &watch;
    ff_plan_enqueue(p->plan, batch, true, p->ring, 1, NULL);
    ff_update_enqueue(p->update, p->ring, 1);
    p->compute->watch = NULL;
    FF_TRY(ff_compute_check(p->compute, error));
    if (!marked) return FF_OK;
    if (p->status == FF_OK && p->row != p->costs->row_count)
        return ff_fail(error, FF_FAILED, "the step has %zu parts, and %zu were counted", p->row,
                       p->costs->row_count);
    record_next(p);
    if (p->status != FF_OK && error) *error = p->failure;
    return p->status;
}

static ff_status capture(profiler *p, const ff_batch *batch, bool marked, ff_recording **recording,
                         ff_error *error) {
    FF_TRY(p->table->capture_begin(p->device, p->compute->stream, error));
    ff_status status = give(p, batch, marked, error);
    ff_status ended = p->table->capture_end(p->device, p->compute->stream, recording,
                                            status == FF_OK ? error : NULL);
    return status == FF_OK ? ended : status;
}

/* ---- steps ---- */

static ff_status next_batch(const profiler *p, ff_batch *batch, ff_error *error) {
    ff_feed_batch next;
    *batch = p->options->batch;
    if (!p->options->feed) return FF_OK;
    FF_TRY(ff_feed_next(p->options->feed, &next, error));
    *batch = next.batch;
    batch->weights = NULL;
    return FF_OK;
}
static ff_status batch_done(const profiler *p, ff_error *error) {
    return p->options->feed ? ff_feed_done(p->options->feed, error) : FF_OK;
}

static ff_status launch(profiler *p, int k, bool marked, ff_error *error) {
    const size_t rows = p->costs->row_count, launches = (size_t)p->options->launches;
    ff_stream *stream = p->compute->stream;
    ff_batch batch; /* at the same address as when captured */
    FF_TRY(next_batch(p, &batch, error));
    FF_TRY(p->table->event_record(p->device, p->before, stream, error));
    FF_TRY(p->table->recording_launch(p->device, marked ? p->marked : p->plain, stream, error));
    FF_TRY(p->table->event_record(p->device, p->after, stream, error));
    FF_TRY(batch_done(p, error));
    FF_TRY(ff_compute_wait(p->compute, error));
    if (!marked)
        return p->table->elapsed(p->device, p->before, p->after,
                                 &p->taken[rows * launches + (size_t)k], error);
    for (size_t i = 0; i < rows; i++)
        FF_TRY(p->table->elapsed(p->device, p->events[i], p->events[i + 1],
                                 &p->taken[i * launches + (size_t)k], error));
    return FF_OK;
}

/* Runs steps without graphs first, which loads kernels and libraries. Then captures the step, which
 * runs nothing, and launches the graphs. */
static ff_status run(profiler *p, ff_error *error) {
    ff_batch batch;
    for (int i = 0; i < WARM_UP; i++) {
        FF_TRY(next_batch(p, &batch, error));
        FF_TRY(give(p, &batch, false, error));
        FF_TRY(batch_done(p, error));
    }
    FF_TRY(ff_compute_wait(p->compute, error));
    FF_TRY(capture(p, &batch, false, &p->plain, error));
    FF_TRY(capture(p, &batch, true, &p->marked, error));
    for (int k = 0; k < p->options->launches; k++) {
        FF_TRY(launch(p, k, false, error));
        FF_TRY(launch(p, k, true, error));
    }
    return FF_OK;
}

/* ---- life ---- */

static ff_status prepare(profiler *p, ff_error *error) {
    const uint64_t rows = p->costs->row_count;
    const char *what = "the times of a step";
    FF_TRY(ff_update_create(&p->update, p->plan->store, &p->options->update, error));
    FF_TRY(ff_compute_allocate(p->compute, &p->ring, sizeof *p->ring, what, error));
    FF_TRY(ff_alloc(&p->taken, (rows + 1) * (uint64_t)p->options->launches, sizeof *p->taken, what,
                    error));
    FF_TRY(ff_alloc(&p->events, rows + 1, sizeof(ff_event *), what, error));
    for (uint64_t i = 0; i <= rows; i++)
        FF_TRY(p->table->event_create(p->device, &p->events[i], true, error));
    FF_TRY(p->table->event_create(p->device, &p->before, true, error));
    return p->table->event_create(p->device, &p->after, true, error);
}

static void destroy(profiler *p) {
    if (ff_compute_wait(p->compute, NULL) != FF_OK) {
        /* the failure is reported at the next check */
    }
    p->table->recording_destroy(p->device, p->plain);
    p->table->recording_destroy(p->device, p->marked);
    for (size_t i = 0; p->events && i <= p->costs->row_count; i++)
        p->table->event_destroy(p->device, p->events[i]);
    p->table->event_destroy(p->device, p->before);
    p->table->event_destroy(p->device, p->after);
    ff_update_destroy(&p->update);
    if (p->ring) ff_compute_release(p->compute, p->ring);
    free(p->events);
    free(p->taken);
}

static int compare(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}
static uint64_t median(uint64_t *values, size_t count) {
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}

ff_status ff_profile_step(ff_profile *profile, ff_plan *plan, const ff_costs *costs,
                          const ff_profile_options *options, ff_error *error) {
    profiler p = {.plan = plan,
                  .compute = plan->compute,
                  .device = plan->compute->device,
                  .table = plan->compute->device->table,
                  .costs = costs,
                  .options = options};
    const size_t launches = (size_t)options->launches;
    ff_control control;
    *profile = (ff_profile){0};
    FF_TRY(ff_alloc(&profile->row_ns, costs->row_count, sizeof *profile->row_ns,
                    "the times of a step", error));
    ff_compute_read(p.compute, &control, plan->store->control, sizeof control);
    ff_status status;
    FF_TRY_DONE(ff_compute_check(p.compute, error));
    FF_TRY_DONE(prepare(&p, error));
    FF_TRY_DONE(run(&p, error));
    for (size_t i = 0; i < costs->row_count; i++)
        profile->row_ns[i] = median(p.taken + i * launches, launches);
    profile->step_ns = median(p.taken + costs->row_count * launches, launches);
    plan->store->forwards += WARM_UP + 2 * (int64_t)launches;
    ff_compute_write(p.compute, plan->store->control, &control, sizeof control);
    FF_TRY_DONE(ff_compute_check(p.compute, error));
done:
    destroy(&p);
    if (status != FF_OK) ff_profile_free(profile);
    return status;
}

void ff_profile_free(ff_profile *profile) {
    free(profile->row_ns);
    *profile = (ff_profile){0};
}
