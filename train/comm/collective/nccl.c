#include "train/comm/collective/nccl.h"

#include "format/base/thread.h"
#include "train/comm/collective/nccl_library.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WATCH_NS = 50000000, LEAST_NAP_NS = 4000, MOST_NAP_NS = 1000000 };

typedef struct nccl_comm {
    ff_comm base;
    ff_device *device;
    ff_nccl_library library;
    ff_nccl_options options;
    ff_threads *watcher;
    pthread_mutex_t mutex; /* of all below, and of every NCCL call: an abort frees `nccl` */
    pthread_cond_t changed;
    ff_ncclComm_t nccl; /* NULL after a failure */
    ff_error failure;   /* the first one; status FF_OK = none */
    bool stop;
} nccl_comm;

/* The message that each rank sends to the others before they connect. */
typedef struct greeting {
    int version;
    ff_error failure;   /* status FF_OK = none */
    ff_ncclUniqueId id; /* rank 0's */
} greeting;

static void lock(nccl_comm *comm) {
    pthread_mutex_lock(&comm->mutex);
}
static void unlock(nccl_comm *comm) {
    pthread_mutex_unlock(&comm->mutex);
}

/* ---- failures: the caller holds the mutex ---- */

/* Stores the first failure and wakes the watcher, which aborts. */
static void keep(nccl_comm *comm, const char *why) {
    if (comm->failure.status != FF_OK) return;
    (void)ff_fail(&comm->failure, FF_FAILED, "%s", why);
    pthread_cond_broadcast(&comm->changed);
}

static ff_status kept(const nccl_comm *comm, ff_error *error) {
    return comm->failure.status == FF_OK
               ? FF_OK
               : ff_fail(error, comm->failure.status, "%s", comm->failure.message);
}

/* NCCL's guide, "Shared memory": ranks of a host share memory in /dev/shm, of which a container has
 * 64 MB unless it asks for more. */
static const char *advice(const char *last) {
    return strstr(last, "shared memory segment")
               ? "; a container needs more of /dev/shm: docker run --shm-size=1g, or --ipc=host"
               : "";
}

static ff_status fail_result(const ff_nccl_library *nccl, const char *call, int result,
                             ff_ncclComm_t comm, ff_error *error) {
    const char *found = nccl->last_error(comm), *last = found ? found : "";
    return ff_fail(error, FF_FAILED, "NCCL: %s failed: %s%s%s%s", call, nccl->error_string(result),
                   *last ? ": " : "", last, advice(last));
}

/* The state of the last call: FF_ncclInProgress, FF_ncclSuccess, or an error. */
static int state_of(nccl_comm *comm) {
    int result, code = comm->library.async_error(comm->nccl, &result);
    return code == FF_ncclSuccess ? result : code;
}

/* ---- calls that do not block ---- */

static void nap(uint64_t *ns) {
    nanosleep(&(struct timespec){0, (long)*ns}, NULL);
    *ns = *ns * 2 < MOST_NAP_NS ? *ns * 2 : MOST_NAP_NS;
}

/* Waits for a call's end: NCCL enqueues the collective in a thread of its own. The caller holds the
 * mutex. It is released during sleeps, so that an abort can take it. */
static ff_status settle(nccl_comm *comm, const char *call, int result, ff_error *error) {
    const uint64_t deadline = ff_now_ns() + comm->options.timeout_ns;
    uint64_t pause = LEAST_NAP_NS;
    ff_status status = FF_OK;
    while (status == FF_OK && result == FF_ncclInProgress) {
        if (ff_now_ns() > deadline)
            return ff_fail(error, FF_FAILED, "NCCL: %s of rank %d did not end within %.1f s", call,
                           comm->base.rank, (double)comm->options.timeout_ns / 1e9);
        unlock(comm);
        nap(&pause);
        if (comm->options.check) status = comm->options.check(comm->options.context, error);
        lock(comm);
        if (status == FF_OK) status = kept(comm, error);
        if (status == FF_OK) result = state_of(comm);
    }
    if (status == FF_OK && result != FF_ncclSuccess)
        status = fail_result(&comm->library, call, result, comm->nccl, error);
    return status;
}

/* `make`: the NCCL call, in which `comm` is the nccl_comm. */
#define ENQUEUE(comm, name, make)                                                                  \
    do {                                                                                           \
        ff_error own = {0};                                                                        \
        FF_TRY((comm)->device->table->make_current((comm)->device, error));                        \
        lock(comm);                                                                                \
        ff_status status = kept(comm, &own);                                                       \
        if (status == FF_OK) status = settle(comm, name, make, &own);                              \
        if (status != FF_OK) keep(comm, own.message);                                              \
        unlock(comm);                                                                              \
        return status == FF_OK ? FF_OK : ff_fail(error, status, "%s", own.message);                \
    } while (0)

static void *native(const nccl_comm *comm, ff_stream *stream) {
    return comm->device->table->native_stream(comm->device, stream);
}

static ff_status nccl_all_reduce(ff_comm *base, ff_stream *stream, void *values, size_t count,
                                 ff_dtype dtype, ff_error *error) {
    nccl_comm *comm = (nccl_comm *)base;
    assert(dtype == FF_F32 || dtype == FF_F16 || dtype == FF_BF16);
    const int type = dtype == FF_F32   ? FF_ncclFloat32
                     : dtype == FF_F16 ? FF_ncclFloat16
                                       : FF_ncclBfloat16;
    ENQUEUE(comm, "ncclAllReduce",
            comm->library.all_reduce(values, values, count, type, FF_ncclSum, comm->nccl,
                                     native(comm, stream)));
}

static ff_status nccl_broadcast(ff_comm *base, ff_stream *stream, void *memory, uint64_t bytes,
                                int root, ff_error *error) {
    nccl_comm *comm = (nccl_comm *)base;
    ENQUEUE(comm, "ncclBroadcast",
            comm->library.broadcast(memory, memory, bytes, FF_ncclUint8, root, comm->nccl,
                                    native(comm, stream)));
}

static ff_status nccl_all_gather(ff_comm *base, ff_stream *stream, const void *from, void *to,
                                 uint64_t bytes, ff_error *error) {
    nccl_comm *comm = (nccl_comm *)base;
    ENQUEUE(
        comm, "ncclAllGather",
        comm->library.all_gather(from, to, bytes, FF_ncclUint8, comm->nccl, native(comm, stream)));
}

/* ---- watching ---- */

/* The caller holds the mutex. */
static void look(nccl_comm *comm) {
    ff_error error = {0};
    if (comm->failure.status != FF_OK) return;
    const int result = state_of(comm);
    if (result == FF_ncclSuccess || result == FF_ncclInProgress) return;
    (void)fail_result(&comm->library, "a collective", result, comm->nccl, &error);
    keep(comm, error.message);
}

/* False if the GPU is gone. Then recordings cannot be destroyed, and NCCL would wait for them even
 * in an abort: the communicator is left to the end of the process. */
static bool make_current(nccl_comm *comm) {
    return comm->device->table->make_current(comm->device, NULL) == FF_OK;
}

static void watch(void *context, int index) {
    nccl_comm *comm = context;
    (void)index;
    lock(comm);
    while (!comm->stop && comm->failure.status == FF_OK) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += WATCH_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&comm->changed, &comm->mutex, &until);
        if (!comm->stop) look(comm);
    }
    ff_ncclComm_t failed = comm->failure.status != FF_OK ? comm->nccl : NULL;
    if (failed) comm->nccl = NULL;
    unlock(comm); /* before the abort, which may wait for recordings to be destroyed */
    if (failed && make_current(comm)) (void)comm->library.kill(failed);
}

static ff_status nccl_check(ff_comm *base, ff_error *error) {
    nccl_comm *comm = (nccl_comm *)base;
    lock(comm);
    look(comm);
    ff_status status = kept(comm, error);
    unlock(comm);
    return status;
}

static void nccl_abort(ff_comm *base, const char *why) {
    nccl_comm *comm = (nccl_comm *)base;
    lock(comm);
    keep(comm, why);
    unlock(comm);
}

/* ---- beginning and end ---- */

static void nccl_leave(ff_comm *base) {
    nccl_comm *comm = (nccl_comm *)base;
    lock(comm);
    comm->stop = true;
    pthread_cond_broadcast(&comm->changed);
    unlock(comm);
    ff_threads_join(&comm->watcher);
    if (comm->nccl && make_current(comm)) {
        lock(comm);
        const int result = comm->library.finalize(comm->nccl);
        const bool ended = settle(comm, "ncclCommFinalize", result, NULL) == FF_OK;
        unlock(comm);
        (void)(ended ? comm->library.destroy : comm->library.kill)(comm->nccl);
    }
    comm->nccl = NULL;
}

static void nccl_destroy(ff_comm *base) {
    nccl_comm *comm = (nccl_comm *)base;
    nccl_leave(base);
    pthread_cond_destroy(&comm->changed);
    pthread_mutex_destroy(&comm->mutex);
    free(comm);
}

static const ff_comm_table nccl_table = {
    .name = "nccl",
    .all_reduce = nccl_all_reduce,
    .broadcast = nccl_broadcast,
    .all_gather = nccl_all_gather,
    .check = nccl_check,
    .abort = nccl_abort,
    .leave = nccl_leave,
    .destroy = nccl_destroy,
};

/* Makes this rank's greeting: opens NCCL; rank 0 also makes the id. */
static ff_status greet(nccl_comm *comm, greeting *own) {
    FF_TRY(comm->device->table->make_current(comm->device, &own->failure));
    FF_TRY(ff_nccl_library_open(&comm->library, &own->failure));
    own->version = comm->library.found;
    const int result = comm->base.rank == 0 ? comm->library.unique_id(&own->id) : FF_ncclSuccess;
    if (result == FF_ncclSuccess) return FF_OK;
    return fail_result(&comm->library, "ncclGetUniqueId", result, NULL, &own->failure);
}

/* All ranks reach the same result, so that none waits for another. */
static ff_status compare(const ff_buffer *parts, int size, ff_ncclUniqueId *id, ff_error *error) {
    greeting first = {0}, other;
    for (int i = 0; i < size; i++) {
        if (parts[i].length != sizeof other)
            return ff_fail(error, FF_FAILED, "rank %d sent %zu bytes before NCCL, not %zu", i,
                           parts[i].length, sizeof other);
        memcpy(&other, parts[i].bytes, sizeof other);
        if (i == 0) first = other;
        if (other.failure.status != FF_OK)
            return ff_fail(error, FF_FAILED, "rank %d: %.*s", i,
                           (int)sizeof other.failure.message - 1, other.failure.message);
        if (other.version != first.version)
            return ff_fail(error, FF_FAILED,
                           "rank 0 has NCCL %s and rank %d NCCL %s: all ranks need the same",
                           ff_nccl_version_text(first.version).text, i,
                           ff_nccl_version_text(other.version).text);
    }
    *id = first.id;
    return FF_OK;
}

static ff_status meet(nccl_comm *comm, ff_ncclUniqueId *id, ff_error *error) {
    const int size = comm->base.size;
    greeting *own = NULL;
    ff_buffer *parts = NULL;
    ff_status status;
    FF_TRY_DONE(ff_alloc(&own, 1, sizeof *own, "a greeting", error));
    FF_TRY_DONE(ff_alloc(&parts, (uint64_t)size, sizeof *parts, "greetings", error));
    (void)greet(comm, own); /* the greeting reports a failure to the others */
    FF_TRY_DONE(comm->options.gather(comm->options.context, own, sizeof *own, parts, error));
    FF_TRY_DONE(compare(parts, size, id, error));
done:
    for (int i = 0; parts && i < size; i++) ff_buffer_free(&parts[i]);
    free(parts);
    free(own);
    return status;
}

static ff_status connect_ranks(nccl_comm *comm, ff_ncclUniqueId id, ff_error *error) {
    ff_ncclConfig_t config = {.size = sizeof config,
                              .magic = (unsigned)FF_NCCL_MAGIC,
                              .version = FF_NCCL_CONFIG_VERSION,
                              .blocking = 0};
    ff_ncclComm_t made = NULL;
    int result = comm->library.init(&made, comm->base.size, id, comm->base.rank, &config);
    if (!made) return fail_result(&comm->library, "ncclCommInitRankConfig", result, NULL, error);
    lock(comm);
    comm->nccl = made;
    ff_status status = settle(comm, "ncclCommInitRankConfig", result, error);
    if (status != FF_OK) comm->nccl = NULL;
    unlock(comm);
    if (status == FF_OK) status = ff_threads_start(&comm->watcher, 1, "nccl", watch, comm, error);
    if (status == FF_OK) return FF_OK;
    comm->nccl = NULL;
    (void)comm->library.kill(made);
    return status;
}

ff_status ff_nccl_create(ff_comm **out, ff_device *device, const ff_nccl_options *options,
                         ff_error *error) {
    nccl_comm *comm;
    ff_ncclUniqueId id;
    pthread_condattr_t monotonic;
    *out = NULL;
    FF_TRY(ff_alloc(&comm, 1, sizeof *comm, "an NCCL communicator", error));
    comm->base = (ff_comm){
        .table = &nccl_table, .rank = options->rank, .size = options->size, .in_graphs = true};
    comm->device = device;
    comm->options = *options;
    pthread_mutex_init(&comm->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&comm->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    ff_status status = meet(comm, &id, error);
    if (status == FF_OK) status = connect_ranks(comm, id, error);
    comm->options.check = NULL; /* its context may end before the communicator */
    if (status != FF_OK)
        nccl_destroy(&comm->base);
    else
        *out = &comm->base;
    return status;
}
