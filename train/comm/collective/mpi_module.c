/* libff_mpi.so: mpi_table.h, with the MPI library that was found when it was built. */
#include "train/comm/collective/mpi_table.h"

#include "format/base/thread.h"

#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* `why` empty: no failure. */
typedef struct notice {
    int rank; /* the rank that failed */
    char why[1000];
} notice;

static struct {
    pthread_mutex_t mutex;
    MPI_Comm messages, notices;
    int rank, size;
    int started, running; /* communicators */
    notice sent, got;
    MPI_Request getting;
} mpi = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static ff_status failed(const char *call, int code, ff_error *error) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(code, text, &length);
    return ff_fail(error, FF_FAILED, "%s failed: %s", call, text);
}

static const char *level_name(int level) {
    return level == MPI_THREAD_SINGLE ? "MPI_THREAD_SINGLE" : "MPI_THREAD_FUNNELED";
}

static ff_status start(ff_error *error) {
    int granted = MPI_THREAD_SINGLE;
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &granted);
    if (code != MPI_SUCCESS) return failed("MPI_Init_thread", code, error);
    if (granted < MPI_THREAD_SERIALIZED) {
        MPI_Finalize();
        return ff_fail(error, FF_FAILED,
                       "the MPI library grants %s; MPI_THREAD_SERIALIZED is needed, since "
                       "collectives run in a thread of their own",
                       level_name(granted));
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi.messages);
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi.notices);
    MPI_Comm_set_errhandler(mpi.messages, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(mpi.notices, MPI_ERRORS_RETURN);
    MPI_Comm_rank(mpi.messages, &mpi.rank);
    MPI_Comm_size(mpi.messages, &mpi.size);
    code =
        MPI_Irecv(&mpi.got, sizeof mpi.got, MPI_BYTE, MPI_ANY_SOURCE, 0, mpi.notices, &mpi.getting);
    return code == MPI_SUCCESS ? FF_OK : failed("MPI_Irecv", code, error);
}

static ff_status module_start(int *rank, int *size, int *number, ff_error *error) {
    if (!mpi.started) FF_TRY(start(error));
    *rank = mpi.rank;
    *size = mpi.size;
    *number = mpi.started++;
    mpi.running++;
    return FF_OK;
}

/* MPI waits by polling; resting leaves the cores to the threads that compute. */
static void rest(uint64_t waited_ns) {
    if (waited_ns > 1000000)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    else if (waited_ns > 20000)
        sched_yield();
}

/* The communicator's number is the messages' tag. */
static ff_status begin(const ff_message *messages, int number, MPI_Request *requests, int *count,
                       ff_error *error) {
    for (int r = 0; r < mpi.size; r++) {
        const ff_message *message = &messages[r];
        if (r == mpi.rank || message->receive_bytes == 0) continue;
        int code = MPI_Irecv((void *)(uintptr_t)message->received, (int)message->receive_bytes,
                             MPI_BYTE, r, number, mpi.messages, &requests[*count]);
        if (code != MPI_SUCCESS) return failed("MPI_Irecv", code, error);
        (*count)++;
    }
    for (int r = 0; r < mpi.size; r++) {
        const ff_message *message = &messages[r];
        if (r == mpi.rank || message->send_bytes == 0) continue;
        int code = MPI_Isend(message->send, (int)message->send_bytes, MPI_BYTE, r, number,
                             mpi.messages, &requests[*count]);
        if (code != MPI_SUCCESS) return failed("MPI_Isend", code, error);
        (*count)++;
    }
    return FF_OK;
}

/* *done = all requests are done. FF_FAILED if another rank has failed. */
static ff_status ask(MPI_Request *requests, int count, int *done, ff_barrier *barrier,
                     ff_error *error) {
    int noticed = 0;
    int code = MPI_Testall(count, requests, done, MPI_STATUSES_IGNORE);
    if (code != MPI_SUCCESS) return failed("MPI_Testall", code, error);
    if (*done) return FF_OK;
    code = MPI_Test(&mpi.getting, &noticed, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return failed("MPI_Test", code, error);
    if (!mpi.got.why[0] || !noticed) return FF_OK;
    ff_barrier_name(barrier, mpi.got.rank);
    return ff_fail(error, FF_FAILED, "%s", mpi.got.why);
}

static ff_status module_exchange(const ff_message *messages, int number, ff_barrier *barrier,
                                 ff_error *error) {
    MPI_Request requests[2 * FF_COMM_RANKS_MOST];
    int count = 0, done = 0;
    pthread_mutex_lock(&mpi.mutex);
    ff_status status = begin(messages, number, requests, &count, error);
    pthread_mutex_unlock(&mpi.mutex);
    for (uint64_t began = ff_now_ns(); status == FF_OK && !done; rest(ff_now_ns() - began)) {
        FF_TRY(ff_barrier_check(barrier, error));
        pthread_mutex_lock(&mpi.mutex);
        status = ask(requests, count, &done, barrier, error);
        pthread_mutex_unlock(&mpi.mutex);
    }
    return status;
}

/* Notifies the other ranks. Small messages leave at once, or after some polling. Notifies only
 * once: messages that are still being received go to memory that the caller may release after
 * this. */
static void module_abort(ff_barrier *barrier) {
    MPI_Request requests[FF_COMM_RANKS_MOST];
    ff_error failure;
    int count = 0, done = 0;
    if (ff_barrier_check(barrier, &failure) == FF_OK) return;
    pthread_mutex_lock(&mpi.mutex);
    bool first = !mpi.sent.why[0];
    if (first) {
        mpi.sent.rank = atomic_load(&barrier->lost) - 1;
        snprintf(mpi.sent.why, sizeof mpi.sent.why, "%.*s", (int)sizeof mpi.sent.why - 1,
                 failure.message);
        for (int r = 0; r < mpi.size; r++)
            if (r != mpi.rank && MPI_Isend(&mpi.sent, sizeof mpi.sent, MPI_BYTE, r, 0, mpi.notices,
                                           &requests[count]) == MPI_SUCCESS)
                count++;
    }
    for (int i = 0; first && i < 1000 && !done; i++) {
        if (MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS) break;
        rest(UINT64_MAX);
    }
    pthread_mutex_unlock(&mpi.mutex);
}

static void module_finish(void) {
    if (--mpi.running) return;
    MPI_Cancel(&mpi.getting);
    MPI_Wait(&mpi.getting, MPI_STATUS_IGNORE);
    MPI_Comm_free(&mpi.messages);
    MPI_Comm_free(&mpi.notices);
    MPI_Finalize();
}

__attribute__((visibility("default"))) const ff_mpi_table *ff_mpi_module(void);
const ff_mpi_table *ff_mpi_module(void) {
    static const ff_mpi_table table = {
        .headers = FF_HEADERS,
        .start = module_start,
        .exchange = module_exchange,
        .abort = module_abort,
        .finish = module_finish,
    };
    return &table;
}
