/* The communicator of threads: results, staged and direct memory, random delays, abort. */
#include "format/base/thread.h"
#include "tests/cuda/sim/device.h"
#include "tests/unit/check.h"
#include "tests/unit/comm_case.h"
#include "train/comm/collective/threads.h"
#include "train/comm/job/job.h"
#include "train/comm/job/replicas.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 8 };

typedef struct job {
    ff_comm *comms[RANKS];
    ff_comm_memory memory[RANKS];
    ff_error errors[RANKS];
    ff_status statuses[RANKS];
    uint64_t ended_ns[RANKS];
    int count;
    bool staged; /* some are: no recordings */
} job;

/* staged: of every rank, or of odd ones (2). */
static void open_job(job *j, int count, ff_host_streams streams, uint64_t delay_ns, int staged) {
    *j = (job){.count = count, .staged = staged > 0};
    for (int r = 0; r < count; r++) {
        assert_ok(
            ff_device_sim_create(&j->memory[r].device, streams, delay_ns, (uint64_t)r + 1, error));
        j->memory[r].staged = staged == 1 || (staged == 2 && r % 2);
    }
    assert_ok(ff_comm_threads_create(j->comms, count, j->memory, error));
}

static void run_job(job *j, ff_thread_body body) {
    ff_threads *threads;
    assert_ok(ff_threads_start(&threads, j->count, "rank", body, j, error));
    ff_threads_join(&threads);
}

static void close_job(job *j) {
    for (int r = 0; r < j->count; r++) {
        ff_comm_destroy(&j->comms[r]);
        assert_null(j->comms[r]);
        ff_device_destroy(&j->memory[r].device);
    }
}

static void check_rank(void *context, int rank) {
    job *j = context;
    ff_comm *comm = j->comms[rank];
    j->statuses[rank] =
        comm->rank == rank && comm->size == j->count
            ? comm_check_all(comm, j->memory[rank].device, !j->staged, &j->errors[rank])
            : FF_FAILED;
}

static void check_job(int count, ff_host_streams streams, uint64_t delay_ns, int staged) {
    job j;
    open_job(&j, count, streams, delay_ns, staged);
    run_job(&j, check_rank);
    for (int r = 0; r < count; r++)
        if (j.statuses[r] != FF_OK) fail_msg("%s", j.errors[r].message);
    close_job(&j);
}

static void results(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 3, 4, 5, 8};
    for (int i = 0; i < 6; i++) {
        check_job(counts[i], FF_HOST_STREAMS_CALLER, 0, 0);
        check_job(counts[i], FF_HOST_STREAMS_THREADS, 200000, 0);
    }
}

static void staged(void **state) {
    (void)state;
    check_job(2, FF_HOST_STREAMS_THREADS, 200000, 1);
    check_job(3, FF_HOST_STREAMS_THREADS, 0, 2);
    check_job(8, FF_HOST_STREAMS_THREADS, 100000, 1);
    check_job(2, FF_HOST_STREAMS_CALLER, 0, 1);
    check_job(1, FF_HOST_STREAMS_THREADS, 0, 1);
}

/* Sums of every number of ranks, by the tree alone. */
static void trees(void **state) {
    (void)state;
    enum { N = 1000 };
    static float values[FF_COMM_RANKS_MOST][N], sum[N];
    const void *parts[FF_COMM_RANKS_MOST];
    for (int count = 1; count <= FF_COMM_RANKS_MOST; count++) {
        for (int r = 0; r < count; r++) {
            parts[r] = values[r];
            for (size_t i = 0; i < N; i++) values[r][i] = comm_value(r, i, 9);
        }
        ff_comm_sum(sum, parts, count, FF_F32, N);
        for (size_t i = 0; i < N; i++) {
            float column[FF_COMM_RANKS_MOST];
            for (int r = 0; r < count; r++) column[r] = values[r][i];
            float wanted = comm_tree(column, count);
            assert_memory_equal(&sum[i], &wanted, sizeof wanted);
        }
    }
}

/* All but rank 0 wait in a sum, with values that they release at once when it has ended. */
static void wait_rank(void *context, int rank) {
    job *j = context;
    ff_comm *comm = j->comms[rank];
    ff_device *device = j->memory[rank].device;
    ff_stream *stream;
    ff_error *error = &j->errors[rank];
    const size_t n = 1000000;
    /* Pages that are gone at once when they are released. */
    void *values = mmap(NULL, n * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (values == MAP_FAILED) return;
    if (device->table->stream_create(device, &stream, error) != FF_OK) return;
    for (int i = 0; i < 1000 && j->statuses[rank] == FF_OK; i++) {
        if (rank == 0 && i == 20) {
            nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
            j->ended_ns[0] = ff_now_ns();
            comm->table->abort(comm, "the user ended it");
            comm->table->abort(comm, "again");
        }
        (void)comm->table->all_reduce(comm, stream, values, n, FF_F32, error);
        (void)device->table->stream_synchronize(device, stream, error);
        j->statuses[rank] = comm->table->check(comm, error);
    }
    device->table->stream_destroy(device, stream);
    munmap(values, n * 4);
    if (rank) j->ended_ns[rank] = ff_now_ns();
}

static void aborts(void **state) {
    (void)state;
    for (int times = 0; times < 3; times++) {
        /* Within a second. A machine that is busy may take longer, but not each time. */
        uint64_t took = UINT64_MAX;
        for (int i = 0; i < 8 && took > 1000000000; i++) {
            job j;
            open_job(&j, 3, times ? FF_HOST_STREAMS_THREADS : FF_HOST_STREAMS_CALLER, 0,
                     times == 2);
            run_job(&j, wait_rank);
            took = 0;
            for (int r = 0; r < 3; r++) {
                assert_int_equal(j.statuses[r], FF_FAILED);
                assert_string_equal(j.errors[r].message, "the user ended it");
                const uint64_t its = j.ended_ns[r] - j.ended_ns[0];
                if (its > took) took = its;
            }
            close_job(&j);
        }
        assert_in_range(took, 0, 1000000000);
    }
}

/* While others use a rank's values, an abort from another thread does not let it return: it could
 * release them. Many times, at random moments. */
static void *abort_soon(void *context) {
    ff_comm *comm = context;
    nanosleep(&(struct timespec){.tv_nsec = 5000000 + (long)(ff_now_ns() % 15000000)}, NULL);
    comm->table->abort(comm, "at a random time");
    return NULL;
}

static void abort_random(void **state) {
    (void)state;
    for (int times = 0; times < 40; times++) {
        job j;
        pthread_t other;
        open_job(&j, RANKS, FF_HOST_STREAMS_CALLER, 0, 0);
        assert_int_equal(pthread_create(&other, NULL, abort_soon, j.comms[times % RANKS]), 0);
        run_job(&j, wait_rank);
        pthread_join(other, NULL);
        for (int r = 0; r < RANKS; r++) assert_int_equal(j.statuses[r], FF_FAILED);
        close_job(&j);
    }
}

/* ---- a job's end ---- */

static atomic_int leaving; /* 1: waits for other ranks, 2: was aborted */

static void leave(ff_comm *comm) {
    (void)comm;
    leaving = 1;
    for (int i = 0; i < 5000 && leaving == 1; i++) usleep(1000);
}

static void abort_leaving(ff_comm *comm, const char *why) {
    (void)comm, (void)why;
    leaving = 2;
}

static void destroy_nothing(ff_comm *comm) {
    (void)comm;
}

static void abort_job(void *context, int index) {
    (void)index;
    while (!leaving) usleep(1000);
    ff_job_abort(context, "a rank was lost");
}

/* A rank that is lost while this one waits for it to end. */
static void leaves(void **state) {
    static const ff_comm_table table = {
        .name = "slow", .leave = leave, .abort = abort_leaving, .destroy = destroy_nothing};
    ff_comm comm = {.table = &table, .size = 2};
    ff_job one = {.size = 2, .comm = &comm, .lock = PTHREAD_MUTEX_INITIALIZER};
    ff_threads *other;
    (void)state;
    assert_ok(ff_threads_start(&other, 1, "other", abort_job, &one, error));
    ff_job_disconnect(&one);
    assert_int_equal(leaving, 2);
    assert_null(one.comm);
    ff_threads_join(&other);
    ff_job_abort(&one, "too late");
}

/* The sum of all ranks, and its end. */
static ff_status add_up(ff_job *own, ff_error *error) {
    ff_device *device = own->streams;
    ff_stream *stream;
    float value = 1;
    ff_status status = device->table->stream_create(device, &stream, error);
    if (status != FF_OK) return status;
    status = own->comm->table->all_reduce(own->comm, stream, &value, 1, FF_F32, error);
    if (status == FF_OK) status = device->table->stream_synchronize(device, stream, error);
    if (status == FF_OK) status = own->comm->table->check(own->comm, error);
    device->table->stream_destroy(device, stream);
    return status;
}

static ff_status stop_or_add(void *context, ff_job *own, const char *name, ff_error *error) {
    ff_status *statuses = context;
    ff_device *device;
    (void)name;
    ff_status status = ff_device_sim_create(&device, FF_HOST_STREAMS_CALLER, 0, 0, error);
    if (status != FF_OK) return status;
    status = ff_job_connect(own, device, NULL, false, error);
    if (status == FF_OK)
        status = own->rank ? ff_fail(error, FF_INTERRUPTED, "stopped") : add_up(own, error);
    statuses[own->rank] = status;
    status = ff_job_conclude(own, status, error);
    ff_job_disconnect(own);
    ff_device_destroy(&device);
    return status;
}

/* A rank that is stopped alone reports no failure, and ends the sum in which the other one waits.
 */
static void one_stops(void **state) {
    ff_replicas replicas;
    ff_status statuses[2] = {FF_OK, FF_OK};
    const ff_rank_work work = {stop_or_add, statuses, UINT64_C(60000000000)};
    (void)state;
    assert_ok(ff_replicas_parse(&replicas, "cpu,cpu", NULL, error));
    assert_fails(ff_replicas_run(&replicas, &work, error), FF_INTERRUPTED, "stopped");
    assert_int_equal(statuses[0], FF_FAILED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees),     cmocka_unit_test(results),      cmocka_unit_test(staged),
        cmocka_unit_test(aborts),    cmocka_unit_test(abort_random), cmocka_unit_test(leaves),
        cmocka_unit_test(one_stops),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
