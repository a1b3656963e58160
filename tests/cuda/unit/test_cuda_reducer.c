/* The reduction of gradients during a simulated GPU's backward pass: each wait between the
 * compute's stream and the reducer's, called and captured. All that one of them has to wait for is
 * held up, so that what does not wait for it comes too early. Two ranks with the same gradients: a
 * communicator that doubles. */
#include "tests/cuda/unit/cuda_helpers.h"

#include "train/step/reducer.h"

#include <stdatomic.h>
#include <time.h>

enum { RANKS = 2, ROUNDS = 4, MOST_CALLS = 256, HOLD_NS = 4000000 };

typedef struct form {
    bool in_graphs; /* the communicator's calls */
    bool recorded, late;
    ff_dtype dtype;
} form;

struct call;
typedef struct wire {
    ff_comm base;
    const machine *m;
    struct call *calls;
    int count;
    atomic_bool counted; /* the outcome is complete */
    atomic_int early;    /* reductions before that */
    bool awaited;        /* the outcome waits for the first reduction: the machine may be busy */
    bool alone;          /* the other rank has zeros */
} wire;

/* A collective, for each time that it runs. */
typedef struct call {
    wire *wire;
    void *to;
    const void *from;
    size_t count;
    ff_dtype dtype;
} call;

static void hold_up(void *context) {
    (void)context;
    nanosleep(&(struct timespec){.tv_nsec = HOLD_NS}, NULL);
}

static void hold(const machine *m, ff_stream *stream) {
    assert_ok(m->device->table->call(m->device, stream, hold_up, NULL, error));
}

static call *add_call(ff_comm *comm, call made) {
    wire *w = (wire *)comm;
    assert_true(w->count < MOST_CALLS);
    made.wire = w;
    w->calls[w->count] = made;
    return &w->calls[w->count++];
}

static void run_sum(void *context) {
    const call *c = context;
    float *wide = floats(c->count);
    c->wire->early += !c->wire->counted;
    ff_convert(wide, FF_F32, c->to, c->dtype, c->count);
    for (size_t i = 0; i < c->count; i++) wide[i] *= c->wire->alone ? 1 : 2;
    ff_convert(c->to, c->dtype, wide, FF_F32, c->count);
    free(wide);
}

static void run_gather(void *context) {
    const call *c = context;
    for (size_t i = 0; i < RANKS; i++) memcpy((char *)c->to + i * c->count, c->from, c->count);
}

static ff_status all_reduce(ff_comm *comm, ff_stream *stream, void *values, size_t count,
                            ff_dtype dtype, ff_error *why) {
    ff_device *device = ((wire *)comm)->m->device;
    call *c = add_call(comm, (call){.to = values, .count = count, .dtype = dtype});
    return device->table->call(device, stream, run_sum, c, why);
}

static ff_status all_gather(ff_comm *comm, ff_stream *stream, const void *from, void *to,
                            uint64_t bytes, ff_error *why) {
    ff_device *device = ((wire *)comm)->m->device;
    call *c = add_call(comm, (call){.to = to, .from = from, .count = bytes});
    FF_TRY(device->table->call(device, stream, run_gather, c, why));
    hold(((wire *)comm)->m, stream); /* for the join */
    return FF_OK;
}

/* The other rank is the one whose values all get: twice this one's. */
static ff_status broadcast(ff_comm *comm, ff_stream *stream, void *memory, uint64_t bytes, int root,
                           ff_error *why) {
    assert_int_equal(root, 0);
    FF_TRY(all_reduce(comm, stream, memory, bytes / sizeof(float), FF_F32, why));
    hold(((wire *)comm)->m, stream);
    return FF_OK;
}

static ff_status check(ff_comm *comm, ff_error *why) {
    (void)comm, (void)why;
    return FF_OK;
}

static const ff_comm_table doubling = {.name = "doubling",
                                       .all_reduce = all_reduce,
                                       .broadcast = broadcast,
                                       .all_gather = all_gather,
                                       .check = check};

static void build(ff_graph *g) {
    ff_node x = ff_graph_conv(g, 0, "a", 6, &(ff_conv_form){.kernel = 3, .pad = 1, .bias = true});
    x = ff_graph_relu(g, ff_graph_norm(g, x, "n"));
    ff_graph_finish(g, ff_graph_linear(g, ff_graph_flatten(g, x), "fc", 5));
}

/* A step's memory; what its graph reads and writes stays where it is. */
typedef struct work {
    machine m;
    net n;
    wire comm;
    ff_reducer *reducer;
    float *sums, *reduced; /* [sum_count]: of this rank; of all */
    ff_outcome outcome, outcomes[RANKS];
} work;

static void open_work(work *w, const form *f) {
    open_machine(&w->m, plain_library, 0, 5);
    open_net_on(&w->n, build, 3, 8, 8, 2, open_cuda(&w->m, FF_PRECISION_F32));
    assert_ok(ff_store_reserve_sums(&w->n.store, false, error));
    w->comm =
        (wire){.base = {.table = &doubling, .size = RANKS, .in_graphs = f->in_graphs}, .m = &w->m};
    w->comm.awaited = !f->late;
    assert_ok(ff_alloc(&w->comm.calls, MOST_CALLS, sizeof *w->comm.calls, "a test", error));
    const ff_reducer_options how = {.ranks = RANKS,
                                    .comm = &w->comm.base,
                                    .bucket_bytes = 1000,
                                    .dtype = f->dtype,
                                    .samples = 4,
                                    .late = f->late};
    assert_ok(ff_reducer_create(&w->reducer, &w->n.store, &how, error));
    assert_true(ff_reducer_bucket_count(w->reducer) > 1);
    w->sums = floats(w->n.store.sum_count);
    w->reduced = floats(w->n.store.sum_count);
}

static void close_work(work *w) {
    ff_reducer_destroy(&w->reducer);
    free(w->comm.calls);
    free(w->sums);
    free(w->reduced);
    close_net(&w->n);
    close_machine(&w->m);
}

static void copy(const work *w, void *to, const void *from, size_t bytes) {
    assert_ok(w->m.device->table->copy(w->m.device, w->n.compute->stream, to, from, bytes, error));
}

static void set_counted(void *context) {
    wire *w = context;
    for (int i = 0; i < 5000 && w->awaited && !atomic_load(&w->early); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    atomic_store(&w->counted, true);
}

/* What stands for the backward pass: each bucket and the outcome come late. */
static void enqueue_gradients(work *w) {
    const ff_store *store = &w->n.store;
    ff_stream *stream = w->n.compute->stream;
    for (int i = 0; i < ff_reducer_bucket_count(w->reducer); i++) {
        const ff_bucket *b = ff_reducer_bucket(w->reducer, i);
        hold(&w->m, stream);
        copy(w, store->sums + b->weights, w->sums + b->weights,
             (b->weights_end - b->weights) * sizeof(float));
        assert_ok(ff_reducer_bucket_done(w->reducer, w->n.plan, i, error));
    }
    hold(&w->m, stream);
    assert_ok(w->m.device->table->call(w->m.device, stream, set_counted, &w->comm, error));
    copy(w, store->sums + store->weight_count, w->sums + store->weight_count,
         (store->sum_count - store->weight_count) * sizeof(float));
    copy(w, store->total, &w->outcome, sizeof w->outcome);
    assert_ok(ff_reducer_outcome_done(w->reducer, error));
}

/* What stands for the update. */
static void enqueue_update(work *w) {
    const ff_store *store = &w->n.store;
    ff_reducer_widen(w->reducer);
    copy(w, w->reduced, store->sums, store->sum_count * sizeof(float));
    copy(w, w->outcomes, ff_reducer_outcomes(w->reducer), sizeof w->outcomes);
}

/* As a step (step.h) does it: in one graph where the communicator's calls are in graphs; else these
 * are made after the graph of the gradients. */
static ff_recording *record(work *w, const form *f) {
    ff_recording *recording;
    ff_device *device = w->m.device;
    ff_stream *stream = w->n.compute->stream;
    assert_ok(device->table->capture_begin(device, stream, error));
    enqueue_gradients(w);
    if (f->in_graphs) {
        assert_ok(ff_reducer_run(w->reducer, w->n.plan, error));
        enqueue_update(w);
    }
    assert_ok(device->table->capture_end(device, stream, &recording, error));
    return recording;
}

static void run(work *w, const form *f, ff_recording *recording) {
    if (recording)
        assert_ok(w->m.device->table->recording_launch(w->m.device, recording, w->n.compute->stream,
                                                       error));
    else
        enqueue_gradients(w);
    if (!recording || !f->in_graphs) {
        assert_ok(ff_reducer_run(w->reducer, w->n.plan, error));
        enqueue_update(w);
    }
    assert_ok(ff_compute_wait(w->n.compute, error));
}

/* Sums that f16 can hold, other ones in each round. */
static void give(work *w, int round) {
    for (size_t i = 0; i < w->n.store.sum_count; i++)
        w->sums[i] = (float)((i * 7 + (size_t)round * 131) % 1000);
    w->outcome = (ff_outcome){.step = (uint64_t)round, .count = 10 + round, .bad_sample = -1};
    w->comm.counted = false;
    w->comm.early = 0;
}

static void check_round(const work *w, const form *f, int round) {
    const char *how = f->recorded ? f->in_graphs ? "in a graph" : "beside a graph" : "called";
    for (size_t i = 0; i < w->n.store.sum_count; i++)
        if (w->reduced[i] != 2 * w->sums[i])
            fail_msg("%s%s, %s, round %d: sum %zu is %g, not %g", how, f->late ? ", late" : "",
                     ff_dtype_name(f->dtype), round, i, (double)w->reduced[i],
                     2 * (double)w->sums[i]);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(w->outcomes[i].step, round);
        assert_int_equal(w->outcomes[i].count, 10 + round);
    }
    /* Gradients are reduced while the backward pass continues, or only after it. */
    assert_int_equal(w->comm.early > 0, !f->late);
}

static void waits_for(const form *f) {
    work w = {0};
    open_work(&w, f);
    ff_recording *recording = NULL;
    for (int round = 0; round < ROUNDS; round++) {
        give(&w, round);
        if (round == 1 && f->recorded) recording = record(&w, f);
        run(&w, f, recording);
        check_round(&w, f, round);
    }
    w.m.device->table->recording_destroy(w.m.device, recording);
    close_work(&w);
}

static void streams_wait_for_each_other(void **state) {
    (void)state;
    const ff_dtype dtypes[] = {FF_F32, FF_F16};
    for (int d = 0; d < 2; d++)
        for (int in_graphs = 0; in_graphs < 2; in_graphs++)
            for (int recorded = 0; recorded < 2; recorded++)
                for (int late = 0; late < (in_graphs ? 1 : 2); late++)
                    waits_for(&(form){in_graphs, recorded, late, dtypes[d]});
}

/* What one rank cannot do, none does. */
static void ranks_agree(void **state) {
    (void)state;
    for (int in_graphs = 0; in_graphs < 2; in_graphs++) {
        work w = {0};
        open_work(&w, &(form){.in_graphs = in_graphs, .dtype = FF_F16});
        for (int i = 0; i < 4; i++) {
            bool all = i % 2 == 0;
            w.comm.alone = i >= 2;
            assert_ok(ff_reducer_agree(w.reducer, &all, error));
            assert_int_equal(all, i == 0);
        }
        close_work(&w);
    }
}

/* What the compute's stream writes is sent, and what comes is there for its further work. */
static void buffers_are_shared(void **state) {
    (void)state;
    for (int in_graphs = 0; in_graphs < 2; in_graphs++) {
        work w = {0};
        open_work(&w, &(form){.in_graphs = in_graphs, .dtype = FF_F32});
        const ff_store *store = &w.n.store;
        for (int round = 0; round < ROUNDS; round++) {
            give(&w, round);
            hold(&w.m, w.n.compute->stream);
            copy(&w, store->buffers, w.sums, store->buffer_count * sizeof(float));
            assert_ok(ff_reducer_share_buffers(w.reducer, error));
            copy(&w, w.reduced, store->buffers, store->buffer_count * sizeof(float));
            assert_ok(ff_compute_wait(w.n.compute, error));
            for (size_t i = 0; i < store->buffer_count; i++)
                assert_true(w.reduced[i] == 2 * w.sums[i]);
        }
        close_work(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_wait_for_each_other),
        cmocka_unit_test(ranks_agree),
        cmocka_unit_test(buffers_are_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
