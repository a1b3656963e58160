#include "train/predict/world.h"

#include "format/base/json.h"
#include "format/cli/interrupt.h"
#include "format/cli/say.h"
#include "train/net/store.h"
#include "train/predict/trainer_cost.h"
#include "train/step/update.h"

#include <inttypes.h>
#include <stdlib.h>

static const ff_rank_change same = {1, 1, 1};

/* ---- measuring ---- */

enum { BEGUN, BACKWARD, PASSED, UPDATED, MOMENTS, ROUNDS = 5 };

typedef struct meter {
    ff_plan *plan;
    ff_compute *compute;
    ff_device *device;
    const ff_device_table *table;
    ff_update *update;
    ff_outcome *ring;           /* one entry */
    ff_event *moments[MOMENTS]; /* timed */
    ff_event **ready;           /* [buckets] timed */
    ff_bucket_watch watch;
    bool backward;    /* the backward pass has begun */
    ff_status status; /* result of recording events */
    ff_error failure;
} meter;

static void record(meter *m, ff_event *event) {
    if (m->status == FF_OK)
        m->status =
            m->table->event_record_external(m->device, event, m->compute->stream, &m->failure);
}

static void begins(void *context, ff_mark mark, int op) {
    meter *m = context;
    (void)op;
    if (mark != FF_MARK_BACKWARD || m->backward) return;
    m->backward = true;
    record(m, m->moments[BACKWARD]);
}

static void completed(void *context, const ff_plan *plan, int bucket) {
    meter *m = context;
    (void)plan;
    record(m, m->ready[bucket]);
}

static ff_status enqueue(meter *m, const ff_batch *batch, ff_error *error) {
    const ff_compute_watch watch = {.begins = begins, .context = m};
    m->backward = false;
    m->status = FF_OK;
    record(m, m->moments[BEGUN]);
    m->compute->watch = &watch;
    ff_plan_enqueue(m->plan, batch, true, m->ring, 1, &m->watch);
    m->compute->watch = NULL;
    record(m, m->moments[PASSED]);
    ff_update_enqueue(m->update, m->ring, 1);
    record(m, m->moments[UPDATED]);
    FF_TRY(ff_compute_check(m->compute, error));
    return m->status == FF_OK ? FF_OK : ff_fail(error, m->status, "%s", m->failure.message);
}

static ff_status between(const meter *m, ff_event *from, ff_event *to, double *seconds,
                         ff_error *error) {
    uint64_t ns = 0;
    FF_TRY(m->table->elapsed(m->device, from, to, &ns, error));
    *seconds = (double)ns * 1e-9;
    return FF_OK;
}

/* Keeps the fastest round. */
static ff_status read_times(const meter *m, ff_rank_times *times, ff_bucket_time *buckets,
                            ff_error *error) {
    const double best = times->before_s + times->backward_s + times->update_s;
    double before, backward, update;
    FF_TRY(between(m, m->moments[BEGUN], m->moments[BACKWARD], &before, error));
    FF_TRY(between(m, m->moments[BACKWARD], m->moments[PASSED], &backward, error));
    FF_TRY(between(m, m->moments[PASSED], m->moments[UPDATED], &update, error));
    if (best > 0 && before + backward + update > best) return FF_OK;
    times->before_s = before;
    times->backward_s = backward;
    times->update_s = update;
    for (int i = 0; i < m->watch.count; i++)
        FF_TRY(between(m, m->moments[BACKWARD], m->ready[i], &buckets[i].ready_s, error));
    return FF_OK;
}

/* On a GPU, runs the step from a recording, as a run does. */
static ff_status run_rounds(meter *m, const ff_batch *batch, ff_rank_times *times,
                            ff_bucket_time *buckets, ff_error *error) {
    ff_recording *recording = NULL;
    ff_status status;
    FF_TRY(enqueue(m, batch, error));
    FF_TRY(ff_compute_wait(m->compute, error));
    if (!m->table->unified) {
        FF_TRY(m->table->capture_begin(m->device, m->compute->stream, error));
        status = enqueue(m, batch, error);
        const ff_status ended =
            m->table->capture_end(m->device, m->compute->stream, &recording, error);
        if (status == FF_OK) status = ended;
        FF_TRY_DONE(status);
    }
    for (int i = 0; i < ROUNDS; i++) {
        FF_TRY_DONE(ff_interrupt_check(error));
        FF_TRY_DONE(
            recording ? m->table->recording_launch(m->device, recording, m->compute->stream, error)
                      : enqueue(m, batch, error));
        FF_TRY_DONE(ff_compute_wait(m->compute, error));
        FF_TRY_DONE(read_times(m, times, buckets, error));
    }
done:
    if (recording) m->table->recording_destroy(m->device, recording);
    return status;
}

static ff_status measure(ff_rank_times *times, ff_bucket_time *times_of, const ff_bucket *buckets,
                         ff_trainer *trainer, ff_error *error) {
    static const double still[FF_TRAINER_GROUPS];
    ff_hyper hypers[FF_TRAINER_GROUPS];
    ff_compute *compute = ff_model_compute(trainer->model);
    meter m = {.plan = trainer->train_plan,
               .compute = compute,
               .device = compute->device,
               .table = compute->device->table};
    const ff_update_options options = ff_trainer_update_options(trainer, hypers, still, 1);
    ff_feed_batch next = {0};
    const int count = times->bucket_count;
    ff_status status;
    m.watch = (ff_bucket_watch){buckets, count, completed, &m};
    ff_trainer_steps(trainer, 0, hypers);
    FF_TRY_DONE(ff_alloc(&m.ready, (uint64_t)count, sizeof(ff_event *), "events", error));
    for (int i = 0; i < count; i++)
        FF_TRY_DONE(m.table->event_create(m.device, &m.ready[i], true, error));
    for (int i = 0; i < MOMENTS; i++)
        FF_TRY_DONE(m.table->event_create(m.device, &m.moments[i], true, error));
    FF_TRY_DONE(ff_compute_allocate(compute, &m.ring, sizeof *m.ring, "an outcome", error));
    FF_TRY_DONE(ff_update_create(&m.update, ff_model_store(trainer->model), &options, error));
    FF_TRY_DONE(ff_feed_next(trainer->train_feed, &next, error));
    FF_TRY_DONE(ff_feed_make(trainer->train_feed, compute->stream, error));
    next.batch.weights = NULL;
    FF_TRY_DONE(run_rounds(&m, &next.batch, times, times_of, error));
    status = ff_feed_done(trainer->train_feed, error);
done:
    ff_update_destroy(&m.update);
    ff_compute_release(compute, m.ring);
    for (int i = 0; i < MOMENTS; i++) m.table->event_destroy(m.device, m.moments[i]);
    for (int i = 0; m.ready && i < count; i++) m.table->event_destroy(m.device, m.ready[i]);
    free(m.ready);
    return status;
}

/* ---- estimating ---- */

/* A bucket is complete after the last operation of its layers. */
static ff_status estimate(ff_rank_times *times, ff_bucket_time *times_of, const ff_bucket *buckets,
                          const ff_trainer *trainer, const ff_card *card, ff_error *error) {
    const ff_plan *plan = trainer->train_plan;
    ff_costs costs;
    FF_TRY(ff_trainer_costs(&costs, trainer, trainer->train_plan, error));
    for (size_t i = 0; i < costs.row_count; i++) {
        const ff_cost_row *row = &costs.rows[i];
        const double seconds = ff_cost_row_us(&costs, row, card, 0.8) * 1e-6;
        if (row->pass == FF_COST_UPDATE)
            times->update_s += seconds;
        else if (row->pass == FF_COST_BACKWARD)
            times->backward_s += seconds;
        else
            times->before_s += seconds;
        for (int b = 0; row->pass == FF_COST_BACKWARD && b < times->bucket_count; b++)
            if (plan->ops[row->op].layer >= buckets[b].layer)
                times_of[b].ready_s = times->backward_s;
    }
    ff_costs_free(&costs);
    return FF_OK;
}

static ff_status estimate_one(double *seconds, const ff_trainer *trainer, const ff_card *card,
                              ff_error *error) {
    ff_costs costs;
    FF_TRY(ff_trainer_costs(&costs, trainer, trainer->train_plan, error));
    const double update = ff_cost_pass_us(&costs, FF_COST_UPDATE, card, 0.8) * 1e-6;
    const double step = ff_cost_pass_us(&costs, FF_COST_PASSES, card, 0.8) * 1e-6;
    *seconds = (double)trainer->accumulate * (step - update) + update;
    ff_costs_free(&costs);
    return FF_OK;
}

/* ---- measured or estimated ---- */

static ff_status take_times(ff_world *world, ff_trainer *rank, const ff_card *card,
                            ff_error *error) {
    const ff_store *store = ff_model_store(rank->model);
    const double each = (double)ff_dtype_bytes(rank->options->reduce_dtype);
    ff_bucket *buckets = NULL;
    ff_bucket_time *times_of = NULL;
    ff_status status;
    FF_TRY_DONE(ff_store_buckets(store, FF_TRAINER_BUCKET_BYTES, &buckets,
                                 &world->times.bucket_count, error));
    const size_t count = (size_t)world->times.bucket_count;
    FF_TRY_DONE(ff_alloc(&times_of, count + 2, sizeof *times_of, "times of buckets", error));
    world->times.buckets = times_of;
    for (size_t i = 0; i < count; i++)
        times_of[i].bytes = (double)(buckets[i].weights_end - buckets[i].weights) * each;
    FF_TRY_DONE(card ? estimate(&world->times, times_of, buckets, rank, card, error)
                     : measure(&world->times, times_of, buckets, rank, error));
    /* The bytes that are reduced at the end (reducer.h): per-channel gradients, outcomes. */
    const double end = world->times.backward_s;
    const size_t channels = store->trained_count - store->weight_count;
    times_of[count] = (ff_bucket_time){end, (double)channels * each};
    times_of[count + 1] = (ff_bucket_time){end, (double)sizeof(ff_outcome) * world->ranks};
    world->times.bucket_count += 2;
done:
    free(buckets);
    return status;
}

ff_status ff_world_predict(ff_world *world, const ff_trainer *trainer, int64_t ranks,
                           const char *net, const ff_card *card, ff_error *error) {
    const int64_t micro = trainer->micro_all;
    ff_trainer_options options = *trainer->options;
    ff_trainer *rank = NULL;
    ff_status status;
    options.measures_disk = false;
    *world = (ff_world){.ranks = (int)ranks,
                        .batch = trainer->batch,
                        .estimated = card != NULL,
                        .narrow = trainer->options->reduce_dtype != FF_F32};
    if (ranks > micro)
        return ff_fail(error, FF_USAGE,
                       "--world %" PRId64 ": there are only %" PRId64
                       " samples in a %sbatch, one for each rank",
                       ranks, micro, trainer->accumulate > 1 ? "micro-" : "");
    if (card && !ff_card_known(card))
        return ff_fail(error, FF_USAGE,
                       "--world: the GPU's description does not have its limits, from which the "
                       "times of a step are estimated");
    options.batch = (micro + ranks - 1) / ranks;
    options.accumulate = 1;
    options.reproducible = false; /* the same work, except for sums of micro-batches */
    options.counts = card != NULL;
    options.checkpoints = false;
    options.tuning = NULL;
    options.job = NULL;
    world->share = options.batch * trainer->accumulate;
    world->times.micro_batches = (int)trainer->accumulate;
    FF_TRY_DONE(ff_trainer_create(&rank, &options, error));
    FF_TRY_DONE(ff_net_open(&world->net, net, !rank->device, error));
    FF_TRY_DONE(take_times(world, rank, card, error));
    world->step = ff_predict(&world->times, &world->net, world->ranks, same);
    const ff_rank_times *times = &world->times;
    world->one_device_s =
        (times->before_s + times->backward_s) * (double)world->batch / (double)options.batch +
        times->update_s;
    if (card) status = estimate_one(&world->one_device_s, trainer, card, error);
done:
    ff_trainer_destroy(&rank);
    if (status != FF_OK) ff_world_free(world);
    return status;
}

void ff_world_free(ff_world *world) {
    free((ff_bucket_time *)(uintptr_t)world->times.buckets);
    world->times.buckets = NULL;
}

/* ---- printing ---- */

static double bytes_of(const ff_world *world) {
    double sum = 0;
    for (int i = 0; i < world->times.bucket_count; i++) sum += world->times.buckets[i].bytes;
    return sum;
}

static double speedup(const ff_world *world) {
    return world->one_device_s / world->step.step_s;
}

/* The efficiency after a change, if it is better by at least 2 percent; else 0. */
static double better(const ff_world *world, ff_rank_change change) {
    const double found = ff_predict(&world->times, &world->net, world->ranks, change).efficiency;
    return found >= world->step.efficiency + 0.02 ? found : 0;
}

static void print_help(FILE *out, const ff_world *world) {
    const char *before = "";
    double found = 0;
    int64_t times = 1;
    while (times < 16 && found < 0.9)
        found = better(world, (ff_rank_change){(double)(times *= 2), 1, 1});
    fprintf(out, "               What would help: ");
    if (found > 0) {
        fprintf(out,
                "--batch %" PRId64 ", with --accumulate %" PRId64
                " where memory does not suffice (efficiency %.0f %%)",
                world->batch * times, times * world->times.micro_batches, 100 * found);
        before = "; ";
    }
    found = world->narrow ? 0 : better(world, (ff_rank_change){1, 0.5, 1});
    if (found > 0) {
        fprintf(out, "%sgradients sent in 16 bits, --reduce-dtype bf16 (%.0f %%)", before,
                100 * found);
        before = "; ";
    }
    found = better(world, (ff_rank_change){1, 1, 4});
    if (found > 0) {
        fprintf(out, "%slarger buckets (%.0f %%)", before, 100 * found);
        before = "; ";
    }
    fprintf(out, "%sa faster network, or fewer ranks.\n", before);
}

void ff_world_print(FILE *out, const ff_world *world) {
    const ff_prediction *step = &world->step;
    const double hidden = step->reduce_s > 0 ? 1 - step->exposed_s / step->reduce_s : 1;
    fprintf(out,
            "world          %d ranks on %s, %s and %.0f us a message; %" PRId64 " of %" PRId64
            " samples each\n",
            world->ranks, world->net.name, ff_say_byte_rate(world->net.bytes_per_s).text,
            world->net.latency_s * 1e6, world->share, world->batch);
    fprintf(out, "               computing %.2f ms a step, %s\n", step->compute_s * 1e3,
            world->estimated ? "estimated at 80 % of the GPU's limits" : "measured");
    fprintf(out, "               reducing %s in %s: %.2f ms, %.0f %% of it in the backward pass\n",
            ff_say_bytes((uint64_t)bytes_of(world)).text,
            ff_say_count((uint64_t)world->times.bucket_count, "bucket", "buckets").text,
            step->reduce_s * 1e3, 100 * hidden);
    fprintf(out, "               a step %.2f ms: %s, efficiency %.0f %%, %.2f times one device\n",
            step->step_s * 1e3, ff_say_rate((double)world->batch / step->step_s, "samples").text,
            100 * step->efficiency, speedup(world));
    if (step->efficiency >= 0.9) {
        fprintf(out, "               The network is not the bottleneck.\n");
        return;
    }
    fprintf(out,
            "               The network is the bottleneck: steps wait %.0f %% of the time for it",
            100 * step->exposed_s / step->step_s);
    if (speedup(world) < 1) fprintf(out, ", and one device alone is faster");
    fprintf(out, ".\n");
    print_help(out, world);
}

static json_t *bucket_objects(const ff_rank_times *times) {
    json_t *list = json_array();
    for (int i = 0; list && i < times->bucket_count; i++) {
        json_t *bucket = json_pack("{s:f, s:f}", "bytes", times->buckets[i].bytes, "ready_seconds",
                                   times->buckets[i].ready_s);
        ff_json_append(&list, bucket);
    }
    return list;
}

json_t *ff_world_json(const ff_world *world) {
    const ff_rank_times *times = &world->times;
    const ff_prediction *step = &world->step;
    return json_pack(
        "{s:i, s:s, s:s, s:f, s:f, s:I, s:s, s:i, s:f, s:f, s:f, s:o, s:f, s:f, s:f, s:f, s:f, "
        "s:f, s:f}",
        "ranks", world->ranks, "net", world->net.name, "algorithm",
        world->net.direct ? "direct" : "ring or tree", "latency_seconds", world->net.latency_s,
        "bytes_per_second", world->net.bytes_per_s, "share", (json_int_t)world->share, "source",
        world->estimated ? "estimated" : "measured", "micro_batches", times->micro_batches,
        "before_seconds", times->before_s, "backward_seconds", times->backward_s, "update_seconds",
        times->update_s, "buckets", bucket_objects(times), "compute_seconds", step->compute_s,
        "reduce_seconds", step->reduce_s, "exposed_seconds", step->exposed_s, "step_seconds",
        step->step_s, "efficiency", step->efficiency, "one_device_seconds", world->one_device_s,
        "speedup", speedup(world));
}
