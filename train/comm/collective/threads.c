#include "train/comm/collective/threads.h"

#include "format/base/memory.h"
#include "train/comm/collective/threads_staged.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SOME_BYTES = 16 << 10 }; /* of a slice, summed at a time: they stay in a core's cache */

/* Messages are not copied: between barriers, ranks use each other's memory. */
typedef struct thread_group {
    ff_barrier barrier;
    atomic_int owners;
    atomic_int inside;                /* ranks that may be using other ranks' memory */
    char *values[FF_COMM_RANKS_MOST]; /* of a reduction */
    /* The pointers of this exchange and of the last one, which a slower rank may still be
     * reading. */
    const void *sent[2][FF_COMM_RANKS_MOST][FF_COMM_RANKS_MOST]; /* [from][to] */
} thread_group;

typedef struct thread_comm {
    ff_host_comm host;
    thread_group *group;
    unsigned turn;
    bool inside;
} thread_comm;

/* After a failure ranks leave at different times, and may then release their memory. So `leave`
 * waits for the other ranks that are using it. After a failure, no rank begins to use another
 * rank's memory. */
static ff_status meet(thread_comm *comm, bool enter, ff_error *error) {
    thread_group *group = comm->group;
    if (comm->inside) atomic_fetch_sub(&group->inside, 1);
    comm->inside = false;
    FF_TRY(ff_barrier_wait(&group->barrier, NULL, NULL, error));
    if (!enter) return FF_OK;
    atomic_fetch_add(&group->inside, 1);
    comm->inside = true;
    return ff_barrier_check(&group->barrier, error);
}

static void thread_leave(ff_host_comm *host) {
    thread_comm *comm = (thread_comm *)host;
    if (comm->inside) atomic_fetch_sub(&comm->group->inside, 1);
    comm->inside = false;
    while (atomic_load(&comm->group->inside)) nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

static ff_status thread_exchange(ff_host_comm *host, ff_message *messages, ff_error *error) {
    thread_comm *comm = (thread_comm *)host;
    const int size = host->base.size, rank = host->base.rank;
    const void *(*sent)[FF_COMM_RANKS_MOST] = comm->group->sent[comm->turn++ % 2];
    for (int r = 0; r < size; r++) sent[rank][r] = messages[r].send;
    FF_TRY(meet(comm, true, error));
    for (int r = 0; r < size; r++) {
        ff_message *message = &messages[r];
        if (r == rank || message->receive_bytes == 0) continue;
        message->received = sent[r][rank];
        if (!message->receive) continue;
        memcpy(message->receive, message->received, message->receive_bytes);
        message->received = message->receive;
    }
    return FF_OK;
}

/* Sums this rank's slice over all ranks, and writes the sum into the values of all. */
static ff_status thread_reduce(ff_host_comm *host, char *own, size_t count, ff_dtype dtype,
                               ff_error *error) {
    thread_comm *comm = (thread_comm *)host;
    const int size = host->base.size, rank = host->base.rank;
    const size_t element = ff_dtype_bytes(dtype), bytes = count * element;
    const size_t end = ff_comm_slice(bytes, rank + 1, size);
    char **values = comm->group->values;
    const void *parts[FF_COMM_RANKS_MOST];
    values[rank] = own;
    FF_TRY(meet(comm, true, error));
    for (size_t at = ff_comm_slice(bytes, rank, size), some; at < end; at += some) {
        some = end - at < SOME_BYTES ? end - at : SOME_BYTES;
        for (int r = 0; r < size; r++) parts[r] = values[r] + at;
        ff_comm_sum(own + at, parts, size, dtype, some / element);
        for (int r = 0; r < size; r++)
            if (r != rank) memcpy(values[r] + at, own + at, some);
    }
    return meet(comm, false, error);
}

static ff_status thread_settle(ff_host_comm *host, ff_error *error) {
    return meet((thread_comm *)host, false, error);
}

static void thread_destroy(ff_host_comm *host) {
    thread_comm *comm = (thread_comm *)host;
    ff_host_comm_release(host);
    if (atomic_fetch_sub(&comm->group->owners, 1) == 1) free(comm->group);
    free(comm);
}

static const ff_comm_table table = FF_HOST_COMM_TABLE("threads");
static const ff_transport transport = {
    .exchange = thread_exchange,
    .reduce = thread_reduce,
    .settle = thread_settle,
    .leave = thread_leave,
    .destroy = thread_destroy,
};

ff_status ff_comm_threads_create(ff_comm **comms, int count, const ff_comm_memory *memory,
                                 ff_error *error) {
    assert(count >= 1 && count <= FF_COMM_RANKS_MOST);
    thread_group *group;
    ff_device *devices[FF_COMM_RANKS_MOST];
    bool staged = false;
    for (int r = 0; r < count; r++) {
        comms[r] = NULL;
        devices[r] = memory[r].device;
        staged = staged || memory[r].staged;
    }
    if (staged) return ff_comm_threads_staged_create(comms, count, devices, error);
    FF_TRY(ff_alloc(&group, 1, sizeof *group, "a communicator", error));
    ff_barrier_init(&group->barrier, count);
    atomic_store(&group->owners, 1);
    ff_status status = FF_OK;
    for (int r = 0; r < count && status == FF_OK; r++) {
        thread_comm *comm;
        FF_TRY_DONE(ff_alloc(&comm, 1, sizeof *comm, "a communicator", error));
        atomic_fetch_add(&group->owners, 1);
        comm->group = group;
        comm->host.transport = &transport;
        comm->host.barrier = &group->barrier;
        comm->host.most_bytes = SIZE_MAX;
        comms[r] = &comm->host.base;
        status = ff_host_comm_init(&comm->host, &table, r, count, memory[r], false, error);
    }
done:
    for (int r = 0; r < count && status != FF_OK; r++) ff_comm_destroy(&comms[r]);
    if (atomic_fetch_sub(&group->owners, 1) == 1) free(group);
    return status;
}
