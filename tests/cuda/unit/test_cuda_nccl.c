/* NCCL's communicator over the stand-in (tests/cuda/sim/nccl), with ranks that are threads, and
 * processes; on a GPU over NCCL itself, with one rank. */
#include "tests/unit/check.h"

#include "format/base/thread.h"
#include "format/disk/dtype.h"
#include "train/comm/collective/nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef FF_TESTS_ON_CARD
#include "loader/cuda/module.h"
#include "train/compute/cuda/exports.h"
enum { RANKS = 1 };
static const ff_cuda_table *card;
static ff_status device_open(ff_device **device, int rank, ff_error *error) {
    int count;
    (void)rank;
    FF_TRY(card->device_count(&count, error));
    return card->device_create(device, count - 1, error);
}
#define nccl_create card->train->comm_create
#else
#include "tests/cuda/sim/device.h"
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
enum { RANKS = 4 };
static ff_status device_open(ff_device **device, int rank, ff_error *error) {
    return ff_device_sim_create(device, FF_HOST_STREAMS_THREADS, 200000, (uint64_t)rank + 1, error);
}
#define nccl_create ff_nccl_create
#endif

enum { SECOND = 1000000000 };

/* ---- a job: a thread a rank ---- */

struct rank;
typedef struct job {
    int size;
    pthread_barrier_t barrier;
    const void *given[RANKS];
    size_t lengths[RANKS];
    ff_comm *comms[RANKS];
    void (*body)(struct rank *rank);
    /* How they are created: */
    uint64_t timeout_ns;
    void (*change)(int rank, void *greeting); /* what a rank sends; NULL = nothing */
    ff_status (*check)(void *context, ff_error *error);
    bool last_leaves; /* the last rank does not connect */
    ff_status created[RANKS];
    ff_error errors[RANKS];
} job;

typedef struct rank rank;
struct rank {
    job *job;
    int rank, size;
    ff_device *device;
    const ff_device_table *table;
    ff_stream *stream;
    ff_comm *comm;
    char *memory, *pinned; /* BYTES each */
};
enum { BYTES = 1 << 21 };

/* Every rank's bytes to every rank, and a barrier. */
static ff_status gather(void *context, const void *bytes, size_t length, ff_buffer *parts,
                        ff_error *error) {
    rank *r = context;
    job *j = r->job;
    ff_status status = FF_OK;
    j->given[r->rank] = bytes;
    j->lengths[r->rank] = length;
    pthread_barrier_wait(&j->barrier);
    for (int i = 0; i < j->size && status == FF_OK; i++)
        status = ff_buffer_add(&parts[i], j->given[i], j->lengths[i], error);
    pthread_barrier_wait(&j->barrier);
    return status;
}

static ff_status gather_changed(void *context, const void *bytes, size_t length, ff_buffer *parts,
                                ff_error *error) {
    rank *r = context;
    void *copy = malloc(length);
    memcpy(copy, bytes, length);
    if (r->job->change) r->job->change(r->rank, copy);
    ff_status status = gather(context, copy, length, parts, error);
    free(copy);
    if (status == FF_OK && r->job->last_leaves && r->rank == r->size - 1)
        return ff_fail(error, FF_FAILED, "this rank leaves");
    return status;
}

static void open_rank(rank *r) {
    assert_ok(device_open(&r->device, r->rank, error));
    r->table = r->device->table;
    assert_ok(r->table->stream_create(r->device, &r->stream, error));
    assert_ok(r->table->allocate(r->device, (void **)&r->memory, BYTES, "a test", error));
    assert_ok(r->table->allocate_pinned(r->device, (void **)&r->pinned, BYTES, "a test", error));
    r->table->restore(r->device, 0); /* of several GPUs another one is current */
}

static void close_rank(rank *r) {
    r->table->release(r->device, r->memory);
    r->table->release_pinned(r->device, r->pinned);
    r->table->stream_destroy(r->device, r->stream);
    ff_device_destroy(&r->device);
}

static void run_rank(void *context, int index) {
    job *j = context;
    rank r = {.job = j, .rank = index, .size = j->size};
    const ff_nccl_options options = {.rank = index,
                                     .size = j->size,
                                     .timeout_ns = j->timeout_ns ? j->timeout_ns : 60ull * SECOND,
                                     .gather = gather_changed,
                                     .check = j->check,
                                     .context = &r};
    open_rank(&r);
    j->created[index] = nccl_create(&r.comm, r.device, &options, &j->errors[index]);
    j->comms[index] = r.comm;
    if (j->body) {
        if (!r.comm) fail_msg("rank %d: %s", index, j->errors[index].message);
        pthread_barrier_wait(&j->barrier);
        j->body(&r);
        pthread_barrier_wait(&j->barrier); /* others may use its communicator */
    }
    ff_comm_destroy(&r.comm);
    close_rank(&r);
}

static void run_job(job *j, int size, void (*body)(rank *)) {
    ff_threads *threads;
    j->size = size;
    j->body = body;
    pthread_barrier_init(&j->barrier, NULL, (unsigned)size);
    assert_ok(ff_threads_start(&threads, size, "rank", run_rank, j, error));
    ff_threads_join(&threads);
    pthread_barrier_destroy(&j->barrier);
}

/* ---- values ---- */

/* Sums of 4 such values are exact in every dtype. */
static float value(int at, size_t index) {
    return (float)((int)((index * 31 + (size_t)at * 17) % 63) - 31) / 16;
}

static void write_pinned(const rank *r, ff_dtype dtype, size_t count, size_t round) {
    const size_t each = ff_dtype_bytes(dtype);
    for (size_t i = 0; i < count; i++) {
        const float wide = value(r->rank, i + round);
        ff_convert(r->pinned + i * each, dtype, &wide, FF_F32, 1);
    }
}

static void check_sums(const rank *r, ff_dtype dtype, size_t count, size_t round) {
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (int k = 0; k < r->size; k++) sum += (double)value(k, i + round);
        const double found = ff_element(r->pinned, dtype, i);
        if (found != sum)
            fail_msg("%s of %zu: value %zu is %g, not %g", ff_dtype_name(dtype), count, i, found,
                     sum);
    }
}

/* Nothing waits on the host between copy, collective and copy. */
static void enqueue_sum(const rank *r, ff_dtype dtype, size_t count) {
    const size_t bytes = count * ff_dtype_bytes(dtype);
    assert_ok(r->table->copy(r->device, r->stream, r->memory, r->pinned, bytes, error));
    assert_ok(r->comm->table->all_reduce(r->comm, r->stream, r->memory, count, dtype, error));
    assert_ok(r->table->copy(r->device, r->stream, r->pinned, r->memory, bytes, error));
}

static void synchronize(const rank *r) {
    assert_ok(r->table->stream_synchronize(r->device, r->stream, error));
}

static void sums(rank *r) {
    static const ff_dtype dtypes[] = {FF_F32, FF_F16, FF_BF16};
    static const size_t counts[] = {0, 1, 7, 1000, 40000};
    assert_string_equal(r->comm->table->name, "nccl");
    for (int d = 0; d < 3; d++)
        for (int c = 0; c < 5; c++) {
            write_pinned(r, dtypes[d], counts[c], (size_t)c);
            enqueue_sum(r, dtypes[d], counts[c]);
            synchronize(r);
            check_sums(r, dtypes[d], counts[c], (size_t)c);
        }
    assert_ok(r->comm->table->check(r->comm, error));
}

static void moves(rank *r) {
    const uint64_t bytes = 70001;
    for (int root = 0; root < r->size; root++) {
        memset(r->pinned, 'a' + r->rank, bytes);
        assert_ok(r->table->copy(r->device, r->stream, r->memory, r->pinned, bytes, error));
        assert_ok(r->comm->table->broadcast(r->comm, r->stream, r->memory, bytes, root, error));
        assert_ok(r->table->copy(r->device, r->stream, r->pinned, r->memory, bytes, error));
        synchronize(r);
        for (uint64_t i = 0; i < bytes; i++) assert_int_equal(r->pinned[i], 'a' + root);
    }
    char *to = r->memory + 70144;
    memset(r->pinned, 'A' + r->rank, bytes);
    assert_ok(r->table->copy(r->device, r->stream, r->memory, r->pinned, bytes, error));
    assert_ok(r->comm->table->all_gather(r->comm, r->stream, r->memory, to, bytes, error));
    assert_ok(
        r->table->copy(r->device, r->stream, r->pinned, to, bytes * (uint64_t)r->size, error));
    synchronize(r);
    for (uint64_t i = 0; i < bytes * (uint64_t)r->size; i++)
        assert_int_equal(r->pinned[i], 'A' + (int)(i / bytes));
}

static ff_recording *record_sum(const rank *r, size_t count) {
    ff_recording *recording;
    assert_ok(r->table->capture_begin(r->device, r->stream, error));
    enqueue_sum(r, FF_F32, count);
    assert_ok(r->table->capture_end(r->device, r->stream, &recording, error));
    return recording;
}

static void replays(rank *r) {
    const size_t count = 20000;
    ff_recording *recording = record_sum(r, count);
    for (size_t round = 0; round < 3; round++) {
        write_pinned(r, FF_F32, count, round);
        assert_ok(r->table->recording_launch(r->device, recording, r->stream, error));
        synchronize(r);
        check_sums(r, FF_F32, count, round);
    }
    r->table->recording_destroy(r->device, recording);
}

static void of_each_size(void (*body)(rank *)) {
    for (int size = 1; size <= RANKS; size *= 2) run_job(&(job){0}, size, body);
}
static void test_sums(void **state) {
    (void)state;
    of_each_size(sums);
}
static void test_moves(void **state) {
    (void)state;
    of_each_size(moves);
}
static void test_replays(void **state) {
    (void)state;
    of_each_size(replays);
}

/* ---- failures ---- */

/* A rank aborts itself, in a thread that holds a recording with a collective. */
static void aborts(rank *r) {
    ff_recording *recording = record_sum(r, 1000);
    pthread_barrier_wait(&r->job->barrier);
    r->comm->table->abort(r->comm, "the disk is full");
    r->comm->table->abort(r->comm, "a second reason");
    assert_fails(r->comm->table->check(r->comm, error), FF_FAILED, "the disk is full");
    assert_fails(r->comm->table->all_reduce(r->comm, r->stream, r->memory, 8, FF_F32, error),
                 FF_FAILED, "the disk is full");
    assert_ok(r->table->recording_launch(r->device, recording, r->stream, error));
    synchronize(r);
    r->table->recording_destroy(r->device, recording);
}
static void test_aborts(void **state) {
    (void)state;
    of_each_size(aborts);
}

#ifndef FF_TESTS_ON_CARD
/* The last rank never comes to the collective, and tells the others, as the channel does. */
static void lost(rank *r) {
    const bool recorded = r->rank % 2 == 1;
    if (r->rank == r->size - 1) {
        usleep(30000);
        for (int i = 0; i < r->size; i++)
            r->job->comms[i]->table->abort(r->job->comms[i], "rank 3 was lost");
        return;
    }
    ff_recording *recording = recorded ? record_sum(r, 50000) : NULL;
    if (recorded)
        assert_ok(r->table->recording_launch(r->device, recording, r->stream, error));
    else
        enqueue_sum(r, FF_F32, 50000);
    synchronize(r);
    assert_fails(r->comm->table->check(r->comm, error), FF_FAILED, "rank 3 was lost");
    r->table->recording_destroy(r->device, recording);
}
static void test_lost(void **state) {
    (void)state;
    run_job(&(job){0}, RANKS, lost);
}

/* The last rank is lost when the others have done all and leave. */
static void lost_at_end(rank *r) {
    const uint64_t began = ff_now_ns();
    if (r->rank == r->size - 1) {
        usleep(30000);
        for (int i = 0; i < r->size; i++)
            r->job->comms[i]->table->abort(r->job->comms[i], "rank 3 was lost");
        return;
    }
    r->comm->table->leave(r->comm);
    assert_true(ff_now_ns() - began < 20ull * SECOND);
}
static void test_lost_at_end(void **state) {
    (void)state;
    run_job(&(job){0}, RANKS, lost_at_end);
}

/* The call may return before or after its collective failed. */
static void expect_failed(rank *r, size_t count, const char *why) {
    ff_error own = {0};
    ff_status status =
        r->comm->table->all_reduce(r->comm, r->stream, r->memory, count, FF_F32, &own);
    if (status != FF_OK && !strstr(own.message, why)) fail_msg("%s", own.message);
    synchronize(r);
    for (int i = 0; i < 2; i++) assert_fails(r->comm->table->check(r->comm, error), FF_FAILED, why);
}

/* Its stream ends though nothing asks the communicator. */
static void fails(rank *r) {
    enqueue_sum(r, FF_F32, 100);
    if (r->rank == 1) {
        expect_failed(r, 100, "failed: remote process exited: a planted failure");
        r->job->comms[0]->table->abort(r->job->comms[0], "rank 1 failed");
    } else {
        expect_failed(r, 100, "rank 1 failed");
    }
}
static void test_fails(void **state) {
    (void)state;
    setenv("FF_NCCL_SIM_FAIL", "1:1", 1);
    run_job(&(job){0}, 2, fails);
    unsetenv("FF_NCCL_SIM_FAIL");
}

static void differs(rank *r) {
    expect_failed(r, 10 + (size_t)r->rank, "failed: invalid usage: collective 0 of rank");
}
static void test_differs(void **state) {
    (void)state;
    run_job(&(job){0}, 2, differs);
}

/* NCCL's own refusal of a call. */
static void refuses(rank *r) {
    assert_fails(r->comm->table->broadcast(r->comm, r->stream, r->memory, 8, 7, error), FF_FAILED,
                 "NCCL: ncclBroadcast failed: invalid argument");
    assert_fails(r->comm->table->check(r->comm, error), FF_FAILED, "ncclBroadcast failed");
}
static void test_refuses(void **state) {
    (void)state;
    run_job(&(job){0}, 2, refuses);
}

static void expect_created(job *j, int size, const char *first, const char *second) {
    run_job(j, size, NULL);
    assert_string_not_equal(j->errors[0].message, "");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(j->created[i], FF_FAILED);
        if (!strstr(j->errors[i].message, i == 0 ? first : second))
            fail_msg("rank %d: %s", i, j->errors[i].message);
    }
}

static void other_version(int at, void *greeting) {
    if (at == 1) *(int *)greeting = 22907;
}

static ff_status lost_rank(void *context, ff_error *error) {
    (void)context;
    return ff_fail(error, FF_FAILED, "rank 1 (host b) has left");
}

static void test_creation(void **state) {
    (void)state;
    setenv("FF_NCCL_SIM_VERSION", "21306", 1);
    const char *old = "rank 0: NCCL 2.13.6 is too old; 2.14 or newer is needed";
    expect_created(&(job){0}, 2, old, old);
    setenv("FF_NCCL_SIM_VERSION", "2708", 1);
    expect_created(&(job){0}, 2, "NCCL 2.7.8 is too old", "NCCL 2.7.8 is too old");
    unsetenv("FF_NCCL_SIM_VERSION");
    setenv("FF_NCCL_SIM_NO_SHM", "1", 1);
    const char *full = "No space left on device (28); a container needs more of /dev/shm: docker "
                       "run --shm-size=1g, or --ipc=host";
    expect_created(&(job){0}, 2, full, full);
    unsetenv("FF_NCCL_SIM_NO_SHM");
    const char *other = "rank 0 has NCCL 2.28.9 and rank 1 NCCL 2.29.7";
    expect_created(&(job){.change = other_version}, 2, other, other);
    expect_created(&(job){.last_leaves = true, .timeout_ns = SECOND / 5}, 2,
                   "NCCL: ncclCommInitRankConfig of rank 0 did not end within 0.2 s",
                   "this rank leaves");
    expect_created(&(job){.last_leaves = true, .check = lost_rank}, 2, "rank 1 (host b) has left",
                   "this rank leaves");
}

/* ---- processes ---- */

/* Both ends write, then read. */
static ff_status gather_socket(void *context, const void *bytes, size_t length, ff_buffer *parts,
                               ff_error *error) {
    const int *socket = context; /* and the rank */
    char *other = malloc(length);
    assert_int_equal(write(*socket, bytes, length), (ssize_t)length);
    assert_int_equal(recv(*socket, other, length, MSG_WAITALL), (ssize_t)length);
    ff_status status = ff_buffer_add(&parts[socket[1]], bytes, length, error);
    if (status == FF_OK) status = ff_buffer_add(&parts[1 - socket[1]], other, length, error);
    free(other);
    return status;
}

static void run_process(rank *r, int *socket) {
    const ff_nccl_options options = {.rank = r->rank,
                                     .size = 2,
                                     .timeout_ns = 60ull * SECOND,
                                     .gather = gather_socket,
                                     .context = socket};
    open_rank(r);
    assert_ok(nccl_create(&r->comm, r->device, &options, error));
    sums(r);
}

/* Two processes; the second is killed while the first waits for it. */
static void test_processes(void **state) {
    int pair[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    const pid_t child = fork();
    assert_int_not_equal(child, -1);
    rank r = {.rank = child == 0, .size = 2};
    run_process(&r, (int[]){pair[r.rank], r.rank});
    if (child == 0) (void)raise(SIGKILL);
    int status;
    enqueue_sum(&r, FF_F32, 1000);
    assert_int_equal(waitpid(child, &status, 0), child);
    r.comm->table->abort(r.comm, "rank 1 was killed");
    synchronize(&r);
    assert_fails(r.comm->table->check(r.comm, error), FF_FAILED, "rank 1 was killed");
    ff_comm_destroy(&r.comm);
    close_rank(&r);
    close(pair[0]);
    close(pair[1]);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
#ifndef FF_TESTS_ON_CARD
        cmocka_unit_test(test_processes), /* before any thread */
#endif
        cmocka_unit_test(test_sums),      cmocka_unit_test(test_moves),
        cmocka_unit_test(test_replays),   cmocka_unit_test(test_aborts),
#ifndef FF_TESTS_ON_CARD
        cmocka_unit_test(test_lost),      cmocka_unit_test(test_fails),
        cmocka_unit_test(test_differs),   cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_creation),  cmocka_unit_test(test_lost_at_end),
#endif
    };
#ifdef FF_TESTS_ON_CARD
    ff_cuda_module *module;
    assert_ok(ff_cuda_module_open(&module, 0, error));
    card = ff_cuda_module_table(module);
#else
    setenv("FF_NCCL_SIM_DELAY_NS", "2000000", 1);
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
