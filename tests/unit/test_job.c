/* How the ranks of a job end. */
#include "format/base/thread.h"
#include "loader/device/host.h"
#include "tests/unit/check.h"
#include "tests/unit/loopback.h"
#include "train/comm/job/job.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* How each rank ended, in memory that the processes share. */
typedef struct ending {
    ff_status work, whole;
    char why[200], message[200]; /* of the work; of the whole */
} ending;

static ff_status stop_or_add(void *context, ff_job *own, ff_error *error) {
    ending *end = context;
    ff_device *device;
    ff_status status = ff_device_host_create(&device, FF_HOST_STREAMS_CALLER, error);
    if (status != FF_OK) return status;
    status = ff_job_connect(own, device, NULL, false, error);
    if (status == FF_OK)
        status = own->rank ? ff_fail(error, FF_INTERRUPTED, "stopped") : add_up(own, error);
    end->work = status;
    if (status != FF_OK) snprintf(end->why, sizeof end->why, "%.190s", error->message);
    status = ff_job_conclude(own, status, error);
    ff_job_disconnect(own);
    ff_device_destroy(&device);
    return status;
}

static void be_rank(const loopback *at, int rank, ending *end) {
    const ff_ranks ranks = loopback_rank(at, rank);
    const ff_rank_work work = {stop_or_add, end, UINT64_C(60000000000)};
    ff_error own = {0};
    alarm(60); /* the test fails rather than hangs */
    end->whole = ff_rank_run(&ranks, &work, &own);
    snprintf(end->message, sizeof end->message, "%.190s", own.message);
    _exit(0);
}

/* A rank that is stopped alone reports no failure, and ends the sum in which the other one waits.
 */
static void one_stops(void **state) {
    ending *ends =
        mmap(NULL, 2 * sizeof *ends, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    loopback at = open_loopback(2);
    (void)state;
    assert_true(ends != MAP_FAILED);
    fflush(NULL);
    for (int rank = 0; rank < 2; rank++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (!child) be_rank(&at, rank, &ends[rank]);
    }
    close(at.listener);
    for (int status, i = 0; i < 2; i++) {
        assert_true(wait(&status) > 0);
        assert_true(WIFEXITED(status));
    }
    assert_int_equal(ends[1].whole, FF_INTERRUPTED);
    assert_string_equal(ends[1].message, "stopped");
    assert_int_equal(ends[0].work, FF_FAILED);
    assert_string_equal(ends[0].why, "stopped");
    munmap(ends, 2 * sizeof *ends);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves),
        cmocka_unit_test(one_stops),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
