/* Steps of a job on simulated GPUs: a thread for each rank, NCCL's stand-in between them, random
 * delays in streams, in the branches of graphs and in collectives. How many graphs a step is, and
 * that they change no bit; ranks that cannot capture; ranks that are lost. */
#include "tests/cuda/unit/cuda_helpers.h"

#include "format/base/thread.h"
#include "tests/unit/loopback.h"
#include "train/comm/collective/nccl.h"
#include "train/comm/job/channel.h"
#include "train/step/step.h"

#include <stdatomic.h>
#include <time.h>

/* The sanitizers make the simulated kernels slow; so does the strict stand-in for CUDA's runtime,
 * which sees an order without delays. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || defined(FF_TESTS_STRICT)
enum { STEPS = 5, LOST = 3, QUICK = 1 };
#else
enum { STEPS = 9, LOST = 5, QUICK = 0 };
#endif
enum { RANKS = 3, SIDE = 8, CHANNELS = 3, SECOND = 1000000000 };
static const int rows[RANKS] = {4, 3, 3}, first_rows[RANKS + 1] = {0, 4, 7, 10};

typedef struct rank {
    ff_outcome outcomes[STEPS];
    int count;
    float *values; /* of all trained parameters */
    size_t value_count;
    char note[512];
    int launches;
    ff_error failure;
    uint64_t ended_ns; /* its steps */
} rank;

typedef struct job {
    /* apart: collectives are not in graphs, as the host's. */
    bool record, apart, sync, adds;
    bool tail;   /* the last rank has no sample in every fourth step, the others have fewer */
    int refuses; /* of rank 1: this capture fails, counted from 1; 0 = none */
    int loses;   /* the last rank is gone after this number of steps; 0 = never */
    ff_dtype reduce_dtype;
    uint64_t delay_ns;
    rank ranks[RANKS];
    loopback at;
    ff_channel *channels[RANKS];
    ff_comm *comms[RANKS];
    atomic_int ended; /* ranks whose steps are done */
    uint64_t lost_ns;
} job;

/* ---- a device that counts ---- */

static const ff_device_table *whole;
static _Thread_local int launches, captures, refused;

static ff_status count_launch(ff_device *device, ff_recording *recording, ff_stream *stream,
                              ff_error *error) {
    launches++;
    return whole->recording_launch(device, recording, stream, error);
}

static ff_status count_capture(ff_device *device, ff_stream *stream, ff_recording **recording,
                               ff_error *error) {
    FF_TRY(whole->capture_end(device, stream, recording, error));
    if (++captures != refused) return FF_OK;
    whole->recording_destroy(device, *recording);
    *recording = NULL;
    return ff_fail(error, FF_FAILED, "capture_end: refused by the test");
}

/* ---- one rank ---- */

static ff_status gather(void *context, const void *bytes, size_t length, ff_buffer *parts,
                        ff_error *error) {
    return ff_channel_gather(context, bytes, length, parts, error);
}

static void connect_rank(job *j, int index, ff_device *device) {
    const ff_channel_options channel = {.timeout_ns = 60ull * SECOND};
    const ff_ranks ranks = loopback_rank(&j->at, index);
    assert_ok(ff_channel_open(&j->channels[index], &ranks, &channel, error));
    const ff_nccl_options how = {.rank = index,
                                 .size = RANKS,
                                 .timeout_ns = 60ull * SECOND,
                                 .gather = gather,
                                 .context = j->channels[index]};
    assert_ok(ff_nccl_create(&j->comms[index], device, &how, error));
    j->comms[index]->in_graphs = !j->apart;
}

static ff_batch make_batch(ff_compute *compute, int index) {
    const ff_tensor shape = {rows[index], CHANNELS, SIDE, SIDE,
                             compute->ops->input_block(compute, CHANNELS)};
    dice d = {.seed = 40 + (uint64_t)index};
    float *nchw = random_floats(&d, logical_count(&shape)), *laid = lay_out(&shape, nchw);
    int32_t labels[4], *at;
    for (int i = 0; i < rows[index]; i++) labels[i] = between(&d, 0, 3);
    assert_ok(ff_compute_allocate(compute, &at, sizeof labels, "a test", error));
    ff_compute_write(compute, at, labels, sizeof labels);
    const ff_batch batch = {.images = put(compute, FF_F32, laid, ff_tensor_count(&shape)),
                            .labels = at,
                            .label_dtype = FF_I32};
    free(nchw);
    free(laid);
    return batch;
}

static ff_model *make_model(const job *j, const machine *m, int index) {
    const ff_model_device device = {"a GPU", m->ops, m->device, &m->cuda};
    const ff_model_options options = {
        .name = "smallnet",
        .channels = CHANNELS,
        .height = SIDE,
        .width = SIDE,
        .classes = 4,
        .batch = rows[index],
        .share = {(uint64_t)first_rows[RANKS], (uint64_t)first_rows[index]},
        .norm_ranks = j->sync ? RANKS : 0,
        .sums_in_place = !j->adds,
        .threads = 1,
        .seed = 5,
        .dropout = 0.25,
        .device = &device,
        .precision = FF_PRECISION_F32,
        .deterministic = true};
    ff_model *model;
    assert_ok(ff_model_create(&model, &options, error));
    assert_ok(ff_store_reserve_sums(ff_model_store(model), !j->adds, error));
    return model;
}

static ff_step *make_step(const job *j, int index, ff_model *model) {
    static const double rates[] = {0.1, 0.05, 0.02};
    const ff_hyper hyper = {.momentum = 0.9};
    const ff_step_options how = {.update.groups = &hyper,
                                 .update.group_count = 1,
                                 .update.rates = rates,
                                 .update.rate_steps = 3,
                                 .update.part_samples = first_rows[RANKS],
                                 .update.first_sample = first_rows[index],
                                 .record = j->record,
                                 .send_steps = 2,
                                 .ranks = RANKS,
                                 .comm = j->comms[index],
                                 .norms = j->sync ? j->comms[index] : NULL,
                                 .bucket_bytes = 20000,
                                 .reduce_dtype = j->reduce_dtype,
                                 .samples = first_rows[RANKS]};
    ff_step *step;
    assert_ok(ff_step_create(&step, model, &how, error));
    assert_true(ff_reducer_bucket_count(ff_step_reducer(step)) > 2);
    return step;
}

static ff_status collect(rank *r, ff_step *step, bool wait, ff_error *error) {
    const ff_outcome *outcomes;
    uint32_t count;
    do {
        FF_TRY(ff_step_outcomes(step, wait, &outcomes, &count, error));
        for (uint32_t i = 0; i < count; i++) r->outcomes[r->count++] = outcomes[i];
    } while (count);
    return FF_OK;
}

static ff_status run_steps(const job *j, int index, ff_step *step, ff_plan *const plans[2],
                           const ff_batch *batch, ff_error *error) {
    rank *r = (rank *)&j->ranks[index];
    const bool last = index == RANKS - 1;
    for (int i = 0; i < STEPS; i++) {
        const bool tail = j->tail && i % 4 == 3;
        if (j->loses && last && i == j->loses) return FF_OK;
        ff_step_set_whole(step, !tail);
        if (j->adds) FF_TRY(ff_step_add(step, plans[0], batch, error));
        FF_TRY(ff_step_run(step, plans[tail && !last], tail && last ? NULL : batch, error));
        FF_TRY(collect(r, step, false, error));
    }
    FF_TRY(collect(r, step, true, error));
    return j->comms[index]->table->check(j->comms[index], error);
}

static void keep_values(rank *r, ff_model *model) {
    for (int pass = 0; pass < 2; pass++) {
        if (pass) r->values = floats(r->value_count);
        r->value_count = 0;
        for (int i = 0; i < ff_model_parameter_count(model); i++) {
            const ff_parameter *p = ff_model_parameter(model, i);
            if (!p->trained) continue;
            if (pass) ff_model_get(model, i, FF_PART_VALUE, r->values + r->value_count);
            r->value_count += p->count;
        }
    }
}

/* Ends the collectives of all ranks, as the channel does. */
static void end_all(job *j, const char *why) {
    for (int i = 0; i < RANKS; i++) j->comms[i]->table->abort(j->comms[i], why);
}

static void run_rank(void *context, int index) {
    job *j = context;
    rank *r = &j->ranks[index];
    machine m;
    ff_plan *tail;
    launches = captures = 0;
    refused = index == 1 ? j->refuses : 0;
    open_machine(&m, plain_library, j->delay_ns, (uint64_t)index + 3);
    ff_device_table counting = *whole;
    counting.recording_launch = count_launch;
    counting.capture_end = count_capture;
    m.device->table = &counting;
    connect_rank(j, index, m.device);
    ff_model *model = make_model(j, &m, index);
    assert_ok(ff_model_plan(model, 2, true, &tail, error));
    ff_step *step = make_step(j, index, model);
    ff_compute *compute = ff_model_compute(model);
    const ff_batch batch = make_batch(compute, index);
    ff_plan *const plans[] = {ff_model_training_plan(model), tail};
    const ff_status status = run_steps(j, index, step, plans, &batch, &r->failure);
    r->ended_ns = ff_now_ns();
    if (status != FF_OK) {
        assert_int_equal(r->failure.status, FF_FAILED);
        if (!j->loses) end_all(j, r->failure.message);
    } else if (j->loses) { /* the last rank */
        nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
        j->lost_ns = ff_now_ns();
        end_all(j, "rank 2 was lost");
    }
    if (!j->loses) keep_values(r, model);
    if (ff_step_note(step)) snprintf(r->note, sizeof r->note, "%s", ff_step_note(step));
    r->launches = launches;
    ff_step_destroy(&step);
    ff_compute_release(compute, (void *)batch.images);
    ff_compute_release(compute, (void *)batch.labels);
    ff_model_destroy(&model);
    for (atomic_fetch_add(&j->ended, 1); j->ended < RANKS;) /* others may use its communicator */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    ff_comm_destroy(&j->comms[index]);
    m.device->table = whole;
    close_machine(&m);
}

/* ---- a job ---- */

static void perform(job *j) {
    ff_threads *threads;
    machine any;
    open_machine(&any, plain_library, 0, 1);
    whole = any.device->table;
    close_machine(&any);
    setenv("FF_NCCL_SIM_DELAY_NS", j->delay_ns ? "200000" : "0", 1);
    j->at = open_loopback(RANKS);
    assert_ok(ff_threads_start(&threads, RANKS, "rank", run_rank, j, error));
    ff_threads_join(&threads);
    for (int i = 0; i < RANKS; i++) ff_channel_close(&j->channels[i]);
}

/* All ranks of the job have what rank 0 of the other one has. */
static void assert_same(const job *right, const job *j) {
    const rank *a = &right->ranks[0];
    for (int i = 0; i < RANKS; i++) {
        const rank *b = &j->ranks[i];
        if (b->failure.status != FF_OK) fail_msg("rank %d: %s", i, b->failure.message);
        assert_int_equal(b->count, STEPS);
        assert_memory_equal(a->outcomes, b->outcomes, sizeof a->outcomes);
        assert_memory_equal(a->values, b->values, a->value_count * sizeof *a->values);
    }
}

static void release(job *j) {
    for (int i = 0; i < RANKS; i++) free(j->ranks[i].values);
}

/* The steps of `how`, called, and then with graphs: as many launches as steps, times `each`. */
static void compare(job how, int whole_steps, int each) {
    job called = how, graphs = how;
    called.record = false;
    graphs.record = true;
    graphs.delay_ns = 200000;
    perform(&called);
    perform(&graphs);
    assert_same(&called, &called);
    assert_same(&called, &graphs);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(called.ranks[i].launches, 0);
        assert_string_equal(graphs.ranks[i].note, "");
        assert_int_equal(graphs.ranks[i].launches, (whole_steps - 1) * each);
    }
    release(&called);
    release(&graphs);
}

enum { NORMS = 4 /* of the net */ };

/* Where a rank has its communicator in graphs: batch, forward, backward, reduction and update are
 * one; also with the norms' collectives, in the compute's stream. Micro-batches before the last
 * have two. Steps of which ranks have other shares have none. */
static void a_step_is_one_graph(void **state) {
    (void)state;
    if (!QUICK) compare((job){0}, STEPS, 1);
    if (!QUICK) compare((job){.sync = true}, STEPS, 1);
    compare((job){.sync = true, .tail = true, .reduce_dtype = FF_F16}, STEPS - STEPS / 4, 1);
    if (!QUICK) compare((job){.adds = true, .reduce_dtype = FF_BF16}, STEPS, 3);
    compare((job){.adds = true, .sync = true}, STEPS, 3);
}

/* Else it ends at each. */
static void collectives_are_between_graphs(void **state) {
    (void)state;
    if (!QUICK) compare((job){.apart = true}, STEPS, 2);
    compare((job){.apart = true, .sync = true}, STEPS, 2 + 2 * NORMS);
}

/* Where one rank cannot capture, at its first or at a later time, no rank launches graphs. */
static void ranks_capture_together(void **state) {
    (void)state;
    job called = {0};
    perform(&called);
    for (int refuses = 1 + QUICK; refuses <= 2; refuses++) {
        job j = {.record = true, .refuses = refuses, .delay_ns = 200000};
        perform(&j);
        assert_same(&called, &j);
        for (int i = 0; i < RANKS; i++) {
            const char *why = i == 1 ? "refused by the test" : "another rank could not capture";
            if (!strstr(j.ranks[i].note, why)) fail_msg("rank %d: %s", i, j.ranks[i].note);
            assert_int_equal(j.ranks[i].launches, 0);
        }
        release(&j);
    }
    release(&called);
}

/* The others' graphs end, and their steps fail with the reason, within some seconds. */
static void a_rank_is_lost(void **state) {
    (void)state;
    for (int k = 3 * QUICK; k < 8; k += 1 + 3 * QUICK) {
        job j = {.record = k % 2, .sync = k / 2 % 2, .apart = k / 4, .loses = LOST};
        perform(&j);
        for (int i = 0; i < RANKS - 1; i++) {
            if (!strstr(j.ranks[i].failure.message, "rank 2 was lost"))
                fail_msg("rank %d: %s", i, j.ranks[i].failure.message);
            assert_int_equal(j.ranks[i].launches > 0, j.record);
            assert_true(j.ranks[i].ended_ns < j.lost_ns + 20ull * SECOND);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_one_graph),
        cmocka_unit_test(collectives_are_between_graphs),
        cmocka_unit_test(ranks_capture_together),
        cmocka_unit_test(a_rank_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
