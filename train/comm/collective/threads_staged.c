#include "train/comm/collective/threads_staged.h"

#include "format/base/memory.h"
#include "train/comm/collective/barrier.h"
#include "train/comm/collective/sum.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STAGING_BYTES = 4 << 20 }; /* of one piece of a call */

typedef struct staged_comm staged_comm;

typedef struct staged_group {
    ff_barrier barrier;
    atomic_int owners;
    atomic_int enqueuing; /* ranks that may be using other ranks' events */
    atomic_int summing;   /* ranks that may be using other ranks' staging */
    staged_comm *ranks[FF_COMM_RANKS_MOST];
} staged_group;

/* A call in a stream; calls with the same arguments share one. */
typedef struct sum_call {
    struct sum_call *next;
    staged_comm *comm;
    size_t count;
    ff_dtype dtype;
} sum_call;

struct staged_comm {
    ff_comm base;
    staged_group *group;
    ff_device *device;
    void *staging;
    ff_event *ready, *done; /* staging holds the values; holds the sum */
    sum_call *calls;
};

static void wait_for_none(atomic_int *number) {
    while (atomic_load(number)) nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

/* Sums the rank's slice and writes the sum to all ranks: no other rank uses this slice. */
static void run_sum(void *context) {
    const sum_call *call = context;
    staged_group *group = call->comm->group;
    const int size = call->comm->base.size, rank = call->comm->base.rank;
    const size_t bytes = call->count * ff_dtype_bytes(call->dtype);
    const size_t begin = ff_comm_slice(bytes, rank, size);
    const size_t length = ff_comm_slice(bytes, rank + 1, size) - begin;
    char *slices[FF_COMM_RANKS_MOST];
    atomic_fetch_add(&group->summing, 1);
    if (ff_barrier_check(&group->barrier, NULL) == FF_OK) {
        for (int r = 0; r < size; r++) slices[r] = (char *)group->ranks[r]->staging + begin;
        ff_comm_sum(slices[rank], (const void *const *)slices, size, call->dtype,
                    length / ff_dtype_bytes(call->dtype));
        for (int r = 0; r < size; r++)
            if (r != rank) memcpy(slices[r], slices[rank], length);
    }
    atomic_fetch_sub(&group->summing, 1);
}

static ff_status enqueue_sum(staged_comm *comm, ff_stream *stream, size_t count, ff_dtype dtype,
                             ff_error *error) {
    sum_call *call = comm->calls;
    while (call && (call->count != count || call->dtype != dtype)) call = call->next;
    if (!call) {
        FF_TRY(ff_alloc(&call, 1, sizeof *call, "a collective's call", error));
        *call = (sum_call){comm->calls, comm, count, dtype};
        comm->calls = call;
    }
    return comm->device->table->call(comm->device, stream, run_sum, call, error);
}

/* Further work of the stream runs after everything that all ranks have enqueued so far. The same
 * event is recorded again only after another meeting, when all streams wait for the earlier
 * record. */
static ff_status meet(staged_comm *comm, ff_stream *stream, bool done, ff_error *error) {
    staged_group *group = comm->group;
    const ff_device_table *table = comm->device->table;
    FF_TRY(table->event_record(comm->device, done ? comm->done : comm->ready, stream, error));
    FF_TRY(ff_barrier_wait(&group->barrier, NULL, NULL, error));
    for (int r = 0; r < comm->base.size; r++) {
        const staged_comm *other = group->ranks[r];
        if (other == comm) continue;
        FF_TRY(table->stream_wait(comm->device, stream, done ? other->done : other->ready, error));
    }
    return FF_OK;
}

static ff_status copy(const staged_comm *comm, ff_stream *stream, void *to, const void *from,
                      size_t bytes, ff_error *error) {
    return comm->device->table->copy(comm->device, stream, to, from, bytes, error);
}

static ff_status reduce_piece(staged_comm *comm, ff_stream *stream, void *values, size_t count,
                              ff_dtype dtype, ff_error *error) {
    const size_t bytes = count * ff_dtype_bytes(dtype);
    FF_TRY(copy(comm, stream, comm->staging, values, bytes, error));
    FF_TRY(meet(comm, stream, false, error));
    FF_TRY(enqueue_sum(comm, stream, count, dtype, error));
    FF_TRY(meet(comm, stream, true, error));
    return copy(comm, stream, values, comm->staging, bytes, error);
}

static ff_status broadcast_piece(staged_comm *comm, ff_stream *stream, void *memory, size_t bytes,
                                 int root, ff_error *error) {
    const bool own = comm->base.rank == root;
    if (own) FF_TRY(copy(comm, stream, comm->staging, memory, bytes, error));
    FF_TRY(meet(comm, stream, false, error));
    if (!own) FF_TRY(copy(comm, stream, memory, comm->group->ranks[root]->staging, bytes, error));
    return meet(comm, stream, true, error);
}

static void staged_abort(ff_comm *base, const char *why) {
    ff_barrier *barrier = &((staged_comm *)base)->group->barrier;
    ff_barrier_name(barrier, base->rank);
    ff_barrier_fail(barrier, why);
}

/* After a failure no rank begins to sum; the caller may release its memory when this returns. */
static ff_status leave(staged_comm *comm, ff_status status, const ff_error *error) {
    if (status != FF_OK) {
        staged_abort(&comm->base, error->message);
        wait_for_none(&comm->group->summing);
    }
    atomic_fetch_sub(&comm->group->enqueuing, 1);
    return status;
}

static ff_status staged_all_reduce(ff_comm *base, ff_stream *stream, void *values, size_t count,
                                   ff_dtype dtype, ff_error *error) {
    staged_comm *comm = (staged_comm *)base;
    const size_t element = ff_dtype_bytes(dtype), most = STAGING_BYTES / element;
    ff_status status = FF_OK;
    if (base->size == 1) return FF_OK;
    atomic_fetch_add(&comm->group->enqueuing, 1);
    for (size_t at = 0; at < count && status == FF_OK; at += most)
        status = reduce_piece(comm, stream, (char *)values + at * element,
                              count - at < most ? count - at : most, dtype, error);
    return leave(comm, status, error);
}

static ff_status staged_broadcast(ff_comm *base, ff_stream *stream, void *memory, uint64_t bytes,
                                  int root, ff_error *error) {
    staged_comm *comm = (staged_comm *)base;
    ff_status status = FF_OK;
    if (base->size == 1) return FF_OK;
    atomic_fetch_add(&comm->group->enqueuing, 1);
    for (uint64_t at = 0; at < bytes && status == FF_OK; at += STAGING_BYTES) {
        const uint64_t some = bytes - at < STAGING_BYTES ? bytes - at : STAGING_BYTES;
        status = broadcast_piece(comm, stream, (char *)memory + at, some, root, error);
    }
    return leave(comm, status, error);
}

static ff_status staged_all_gather(ff_comm *base, ff_stream *stream, const void *from, void *to,
                                   uint64_t bytes, ff_error *error) {
    char *own = (char *)to + (uint64_t)base->rank * bytes;
    if (own != from && bytes) FF_TRY(copy((staged_comm *)base, stream, own, from, bytes, error));
    for (int r = 0; r < base->size; r++)
        FF_TRY(staged_broadcast(base, stream, (char *)to + (uint64_t)r * bytes, bytes, r, error));
    return FF_OK;
}

static ff_status staged_check(ff_comm *base, ff_error *error) {
    return ff_barrier_check(&((staged_comm *)base)->group->barrier, error);
}

static void group_release(staged_group *group) {
    if (atomic_fetch_sub(&group->owners, 1) == 1) free(group);
}

static void staged_destroy(ff_comm *base) {
    staged_comm *comm = (staged_comm *)base;
    const ff_device_table *table = comm->device->table;
    wait_for_none(&comm->group->enqueuing);
    for (sum_call *call = comm->calls, *next; call; call = next) {
        next = call->next;
        free(call);
    }
    table->event_destroy(comm->device, comm->ready);
    table->event_destroy(comm->device, comm->done);
    if (comm->staging) table->release_pinned(comm->device, comm->staging);
    group_release(comm->group);
    free(comm);
}

static const ff_comm_table table = {
    .name = "threads",
    .all_reduce = staged_all_reduce,
    .broadcast = staged_broadcast,
    .all_gather = staged_all_gather,
    .check = staged_check,
    .abort = staged_abort,
    .destroy = staged_destroy,
};

static ff_status create_rank(ff_comm **out, staged_group *group, int rank, int size,
                             ff_device *device, ff_error *error) {
    staged_comm *comm;
    FF_TRY(ff_alloc(&comm, 1, sizeof *comm, "a communicator", error));
    *comm = (staged_comm){
        .base = {.table = &table, .rank = rank, .size = size}, .group = group, .device = device};
    atomic_fetch_add(&group->owners, 1);
    group->ranks[rank] = comm;
    *out = &comm->base;
    FF_TRY(device->table->allocate_pinned(device, &comm->staging, STAGING_BYTES,
                                          "the communicator's copies", error));
    FF_TRY(device->table->event_create(device, &comm->ready, false, error));
    return device->table->event_create(device, &comm->done, false, error);
}

ff_status ff_comm_threads_staged_create(ff_comm **comms, int count, ff_device **devices,
                                        ff_error *error) {
    staged_group *group;
    FF_TRY(ff_alloc(&group, 1, sizeof *group, "a communicator", error));
    ff_barrier_init(&group->barrier, count);
    atomic_store(&group->owners, 1);
    ff_status status = FF_OK;
    for (int r = 0; r < count && status == FF_OK; r++)
        status = create_rank(&comms[r], group, r, count, devices[r], error);
    for (int r = 0; r < count && status != FF_OK; r++) ff_comm_destroy(&comms[r]);
    group_release(group);
    return status;
}
