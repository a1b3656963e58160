#include "train/step/reducer.h"

#include "format/base/memory.h"
#include "format/base/thread.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

struct ff_reducer {
    ff_store *store;
    ff_comm *comm;
    int ranks;
    ff_device *device; /* the device of `stream` */
    ff_stream *stream;
    ff_bucket *buckets;
    ff_event **filled; /* [bucket_count], in the compute's stream */
    int bucket_count;
    bool late, at_once;
    bool begun;        /* a reduction that the compute's stream does not wait for yet */
    ff_event *counted; /* in the compute's stream, too: the outcome is complete */
    ff_event *reduced; /* in `stream` */
    ff_outcome *outcomes, *nothing;
    uint32_t *stop; /* pinned; copied into each outcome */
    char *sent;     /* [trained_count] of dtype: `scale` times the sums; NULL: the sums are sent */
    ff_dtype dtype; /* of what is sent */
    float scale;
    atomic_uint_fast64_t busy_ns;
    uint64_t began_ns, exposed_ns;
};

static ff_compute *compute_of(const ff_reducer *reducer) {
    return reducer->store->compute;
}

/* ---- life ---- */

static ff_status create_events(ff_reducer *reducer, ff_error *error) {
    ff_device *device = compute_of(reducer)->device;
    FF_TRY(ff_alloc(&reducer->filled, (uint64_t)reducer->bucket_count, sizeof *reducer->filled,
                    "gradient buckets", error));
    for (int i = 0; i < reducer->bucket_count; i++)
        FF_TRY(device->table->event_create(device, &reducer->filled[i], false, error));
    FF_TRY(device->table->event_create(device, &reducer->counted, false, error));
    FF_TRY(reducer->device->table->stream_create(reducer->device, &reducer->stream, error));
    return reducer->device->table->event_create(reducer->device, &reducer->reduced, false, error);
}

static ff_status reserve_sent(ff_reducer *reducer, const ff_reducer_options *options,
                              ff_error *error) {
    int exponent;
    reducer->dtype = FF_F32;
    if (options->dtype != FF_F16 && options->dtype != FF_BF16) return FF_OK;
    reducer->dtype = options->dtype;
    (void)frexp((double)options->samples, &exponent);
    reducer->scale = (float)ldexp(1, -exponent);
    return ff_compute_allocate(compute_of(reducer), &reducer->sent,
                               reducer->store->trained_count * ff_dtype_bytes(reducer->dtype),
                               "gradients as they are sent", error);
}

static ff_status build(ff_reducer *reducer, const ff_reducer_options *options, ff_error *error) {
    const char *what = "the outcomes of ranks";
    const ff_outcome nothing = {.bad_sample = -1};
    ff_compute *compute = compute_of(reducer);
    void *stop;
    FF_TRY(reserve_sent(reducer, options, error));
    FF_TRY(ff_store_buckets(reducer->store, options->bucket_bytes, &reducer->buckets,
                            &reducer->bucket_count, error));
    FF_TRY(ff_compute_allocate(compute, &reducer->outcomes,
                               (uint64_t)reducer->ranks * sizeof nothing, what, error));
    FF_TRY(ff_compute_allocate(compute, &reducer->nothing, sizeof nothing, what, error));
    ff_compute_write(compute, reducer->nothing, &nothing, sizeof nothing);
    FF_TRY(compute->device->table->allocate_pinned(compute->device, &stop, sizeof *reducer->stop,
                                                   what, error));
    reducer->stop = stop;
    if (!reducer->comm) return ff_compute_check(compute, error);
    *reducer->stop = 0;
    FF_TRY(create_events(reducer, error));
    return ff_compute_check(compute, error);
}

ff_status ff_reducer_create(ff_reducer **out, ff_store *store, const ff_reducer_options *options,
                            ff_error *error) {
    ff_reducer *reducer;
    *out = NULL;
    FF_TRY(ff_alloc(&reducer, 1, sizeof *reducer, "the reduction of gradients", error));
    reducer->store = store;
    reducer->comm = options->comm;
    reducer->ranks = options->ranks;
    reducer->device = options->device ? options->device : store->compute->device;
    /* A device enqueues the whole backward pass before it runs; the CPU runs it in the calls. */
    reducer->at_once =
        store->compute->device->table->unified || (reducer->comm && reducer->comm->in_graphs);
    reducer->late = options->late && !reducer->at_once;
    const ff_status status = build(reducer, options, error);
    if (status == FF_OK)
        *out = reducer;
    else
        ff_reducer_destroy(&reducer);
    return status;
}

void ff_reducer_destroy(ff_reducer **pointer) {
    ff_reducer *reducer = *pointer;
    if (!reducer) return;
    ff_compute *compute = compute_of(reducer);
    ff_device *device = compute->device;
    if (reducer->stream) reducer->device->table->stream_destroy(reducer->device, reducer->stream);
    for (int i = 0; reducer->filled && i < reducer->bucket_count; i++)
        device->table->event_destroy(device, reducer->filled[i]);
    device->table->event_destroy(device, reducer->counted);
    reducer->device->table->event_destroy(reducer->device, reducer->reduced);
    ff_compute_release(compute, reducer->outcomes);
    ff_compute_release(compute, reducer->nothing);
    ff_compute_release(compute, reducer->sent);
    device->table->release_pinned(device, reducer->stop);
    free(reducer->filled);
    free(reducer->buckets);
    free(reducer);
    *pointer = NULL;
}

const ff_bucket *ff_reducer_bucket(const ff_reducer *reducer, int bucket) {
    return &reducer->buckets[bucket];
}

int ff_reducer_bucket_count(const ff_reducer *reducer) {
    return reducer->bucket_count;
}

const ff_outcome *ff_reducer_outcomes(const ff_reducer *reducer) {
    return reducer->outcomes;
}

bool ff_reducer_needs(const ff_reducer *reducer, const ff_plan *plan, int bucket) {
    const ff_graph *graph = reducer->store->graph;
    const ff_node first = reducer->buckets[bucket].layer;
    const ff_node end = bucket ? reducer->buckets[bucket - 1].layer : graph->layer_count;
    for (int i = 0; i < graph->parameter_count; i++)
        if (graph->parameters[i].layer >= first && graph->parameters[i].layer < end &&
            ff_plan_trains_parameter(plan, i))
            return true;
    return false;
}

/* Records an event in the compute's stream. If the reducer's stream is captured with the compute's,
 * or neither is captured, the event is internal; otherwise it must be visible outside the graph. */
static ff_status record(ff_reducer *reducer, ff_event *event, ff_error *error) {
    ff_compute *compute = compute_of(reducer);
    const ff_device_table *table = compute->device->table;
    return (reducer->at_once ? table->event_record : table->event_record_external)(
        compute->device, event, compute->stream, error);
}

/* The sums [from, end) are complete: rounds them to 16 bits, if they are sent like that. */
static ff_status narrow(ff_reducer *reducer, size_t from, size_t end, ff_error *error) {
    ff_compute *compute = compute_of(reducer);
    if (!reducer->sent || from == end) return FF_OK;
    ff_compute_enter(compute);
    compute->ops->cast(compute, end - from, reducer->scale, reducer->store->sums + from, FF_F32,
                       reducer->sent + from * ff_dtype_bytes(reducer->dtype), reducer->dtype);
    return ff_compute_check(compute, error);
}

void ff_reducer_widen(ff_reducer *reducer) {
    ff_compute *compute = compute_of(reducer);
    if (!reducer->sent) return;
    ff_compute_enter(compute);
    compute->ops->cast(compute, reducer->store->trained_count, 1 / reducer->scale, reducer->sent,
                       reducer->dtype, reducer->store->sums, FF_F32);
}

ff_status ff_reducer_outcome_done(ff_reducer *reducer, ff_error *error) {
    ff_compute *compute = compute_of(reducer);
    FF_TRY(narrow(reducer, reducer->store->weight_count, reducer->store->trained_count, error));
    FF_TRY(compute->device->table->copy(compute->device, compute->stream,
                                        &reducer->store->total->stop, reducer->stop,
                                        sizeof *reducer->stop, error));
    return record(reducer, reducer->counted, error);
}

/* ---- in the reducer's stream ---- */

static void begin_busy(void *context) {
    ((ff_reducer *)context)->began_ns = ff_now_ns();
}

static void end_busy(void *context) {
    ff_reducer *reducer = context;
    atomic_fetch_add(&reducer->busy_ns, ff_now_ns() - reducer->began_ns);
}

static ff_status after(ff_reducer *reducer, ff_event *event, ff_error *error) {
    return reducer->device->table->stream_wait(reducer->device, reducer->stream, event, error);
}

static ff_status reduce_sums(ff_reducer *reducer, size_t from, size_t end, ff_error *error) {
    ff_device *device = reducer->device;
    const bool timed = compute_of(reducer)->device->table->unified;
    void *values = reducer->store->sums + from;
    if (reducer->sent) values = reducer->sent + from * ff_dtype_bytes(reducer->dtype);
    if (from == end) return FF_OK;
    if (timed) FF_TRY(device->table->call(device, reducer->stream, begin_busy, reducer, error));
    FF_TRY(reducer->comm->table->all_reduce(reducer->comm, reducer->stream, values, end - from,
                                            reducer->dtype, error));
    if (timed) FF_TRY(device->table->call(device, reducer->stream, end_busy, reducer, error));
    reducer->begun = true;
    return FF_OK;
}

/* Reduces the bucket's weights. Per-channel gradients are few: they are reduced together at the
 * end. */
static ff_status reduce_bucket(ff_reducer *reducer, const ff_plan *plan, int i, ff_error *error) {
    const ff_bucket *bucket = &reducer->buckets[i];
    if (!ff_reducer_needs(reducer, plan, i)) return FF_OK;
    FF_TRY(after(reducer, reducer->filled[i], error));
    return reduce_sums(reducer, bucket->weights, bucket->weights_end, error);
}

ff_status ff_reducer_bucket_done(ff_reducer *reducer, const ff_plan *plan, int bucket,
                                 ff_error *error) {
    const ff_bucket *sums = &reducer->buckets[bucket];
    FF_TRY(narrow(reducer, sums->weights, sums->weights_end, error));
    FF_TRY(record(reducer, reducer->filled[bucket], error));
    return reducer->at_once ? reduce_bucket(reducer, plan, bucket, error) : FF_OK;
}

ff_status ff_reducer_nothing(ff_reducer *reducer, ff_error *error) {
    const ff_store *store = reducer->store;
    ff_compute *compute = compute_of(reducer);
    FF_TRY(compute->device->table->fill(compute->device, compute->stream, store->sums, 0,
                                        store->sum_count * sizeof(float), error));
    ff_compute_copy(compute, store->total, reducer->nothing, sizeof *store->total);
    return ff_compute_check(compute, error);
}

static ff_status wait_for_reductions(ff_reducer *reducer, ff_error *error) {
    ff_compute *compute = compute_of(reducer);
    reducer->begun = false;
    FF_TRY(reducer->device->table->event_record(reducer->device, reducer->reduced, reducer->stream,
                                                error));
    return compute->device->table->stream_wait(compute->device, compute->stream, reducer->reduced,
                                               error);
}

/* Without a reduction in this capture the reducer's stream has not joined it. */
ff_status ff_reducer_await(ff_reducer *reducer, ff_error *error) {
    const bool waits = reducer->begun && reducer->comm->in_graphs;
    return waits ? wait_for_reductions(reducer, error) : FF_OK;
}

/* The update waits for the reductions; on the CPU the host waits. */
static ff_status join(ff_reducer *reducer, ff_error *error) {
    ff_compute *compute = compute_of(reducer);
    const uint64_t began = ff_now_ns();
    FF_TRY(wait_for_reductions(reducer, error));
    if (!compute->device->table->unified) return FF_OK;
    reducer->exposed_ns += ff_now_ns() - began;
    return reducer->comm->table->check(reducer->comm, error);
}

ff_status ff_reducer_run(ff_reducer *reducer, const ff_plan *plan, ff_error *error) {
    const ff_store *store = reducer->store;
    const ff_comm_table *table = reducer->comm->table;
    if (reducer->late) FF_TRY(after(reducer, reducer->counted, error));
    for (int i = 0; i < reducer->bucket_count && !reducer->at_once; i++)
        FF_TRY(reduce_bucket(reducer, plan, i, error));
    FF_TRY(after(reducer, reducer->counted, error));
    FF_TRY(reduce_sums(reducer, store->weight_count, store->sum_count, error));
    FF_TRY(table->all_gather(reducer->comm, reducer->stream, store->total, reducer->outcomes,
                             sizeof *store->total, error));
    return join(reducer, error);
}

/* ---- what ranks share ---- */

static ff_status broadcast(ff_reducer *reducer, void *memory, uint64_t bytes, ff_error *error) {
    if (!memory || !bytes) return FF_OK;
    return reducer->comm->table->broadcast(reducer->comm, reducer->stream, memory, bytes, 0, error);
}

static ff_status begin(ff_reducer *reducer, ff_error *error) {
    FF_TRY(record(reducer, reducer->counted, error));
    return after(reducer, reducer->counted, error);
}

ff_status ff_reducer_share_buffers(ff_reducer *reducer, ff_error *error) {
    const ff_store *store = reducer->store;
    FF_TRY(begin(reducer, error));
    FF_TRY(broadcast(reducer, store->buffers, store->buffer_count * sizeof(float), error));
    FF_TRY(broadcast(reducer, store->average_buffers, store->buffer_count * sizeof(float), error));
    if (store->working_buffers != store->buffers)
        FF_TRY(broadcast(reducer, store->working_buffers,
                         store->buffer_count * store->compute->element_bytes, error));
    return join(reducer, error);
}

ff_status ff_reducer_share_state(ff_reducer *reducer, ff_error *error) {
    ff_store_block blocks[FF_STORE_BLOCKS];
    ff_store_blocks(reducer->store, blocks);
    FF_TRY(begin(reducer, error));
    for (int i = 0; i < FF_STORE_BLOCKS; i++)
        FF_TRY(broadcast(reducer, blocks[i].memory, blocks[i].bytes, error));
    FF_TRY(join(reducer, error));
    return ff_compute_wait(compute_of(reducer), error);
}

ff_status ff_reducer_agree(ff_reducer *reducer, bool *all, ff_error *error) {
    ff_compute *compute = compute_of(reducer);
    ff_comm *comm = reducer->comm;
    float *count = &reducer->outcomes->learning_rate; /* free between two steps */
    float agreeing = *all;
    ff_compute_write(compute, count, &agreeing, sizeof agreeing);
    FF_TRY(begin(reducer, error));
    FF_TRY(comm->table->all_reduce(comm, reducer->stream, count, 1, FF_F32, error));
    FF_TRY(join(reducer, error));
    ff_compute_read(compute, &agreeing, count, sizeof agreeing);
    *all = agreeing == (float)reducer->ranks;
    FF_TRY(ff_compute_check(compute, error));
    return comm->table->check(comm, error);
}

void ff_reducer_stop(ff_reducer *reducer, int number) {
    *reducer->stop = (uint32_t)number;
}

ff_reducer_times ff_reducer_measure(const ff_reducer *reducer) {
    return (ff_reducer_times){atomic_load(&reducer->busy_ns), reducer->exposed_ns};
}
