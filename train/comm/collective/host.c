#include "train/comm/collective/host.h"

#include "format/base/memory.h"

#include <stdlib.h>
#include <string.h>

enum {
    STAGING_BYTES = 4 << 20, /* of one piece of a staged call */
    SMALL_BYTES = 8 << 10,   /* up to this size, values are sent to all */
};

typedef enum call_kind { ALL_REDUCE, BROADCAST, ALL_GATHER } call_kind;

typedef struct call_arguments {
    call_kind kind;
    ff_dtype dtype;
    int root;
    void *values; /* or `to` */
    const void *from;
    uint64_t count; /* or bytes */
} call_arguments;

/* A call. Calls with the same arguments share one: a step enqueues the same calls again and again,
 * and a recording runs them as long as the communicator lives. */
typedef struct ff_host_call {
    struct ff_host_call *next;
    ff_host_comm *comm;
    call_arguments with;
} ff_host_call;

/* ---- collectives, in the stream ------------------------------------------------------------- */

static ff_status exchange(ff_host_comm *comm, ff_message *messages, ff_error *error) {
    return comm->transport->exchange(comm, messages, error);
}

static ff_status reduce_small(ff_host_comm *comm, void *values, size_t count, ff_dtype dtype,
                              ff_error *error) {
    ff_message messages[FF_COMM_RANKS_MOST];
    const void *parts[FF_COMM_RANKS_MOST];
    _Alignas(64) char sum[SMALL_BYTES];
    const int size = comm->base.size;
    const size_t bytes = count * ff_dtype_bytes(dtype);
    for (int r = 0; r < size; r++)
        messages[r] = (ff_message){.send = values, .send_bytes = bytes, .receive_bytes = bytes};
    FF_TRY(exchange(comm, messages, error));
    for (int r = 0; r < size; r++) parts[r] = r == comm->base.rank ? values : messages[r].received;
    ff_comm_sum(sum, parts, size, dtype, count);
    memcpy(values, sum, bytes);
    return FF_OK;
}

static ff_status reduce_sliced(ff_host_comm *comm, char *values, size_t count, ff_dtype dtype,
                               ff_error *error) {
    ff_message messages[FF_COMM_RANKS_MOST];
    const void *parts[FF_COMM_RANKS_MOST];
    const int size = comm->base.size, rank = comm->base.rank;
    const size_t bytes = count * ff_dtype_bytes(dtype);
    char *own = values + ff_comm_slice(bytes, rank, size);
    const size_t own_bytes =
        ff_comm_slice(bytes, rank + 1, size) - ff_comm_slice(bytes, rank, size);
    for (int r = 0; r < size; r++) {
        size_t begin = ff_comm_slice(bytes, r, size);
        messages[r] = (ff_message){.send = values + begin,
                                   .send_bytes = ff_comm_slice(bytes, r + 1, size) - begin,
                                   .receive_bytes = own_bytes};
    }
    FF_TRY(exchange(comm, messages, error));
    for (int r = 0; r < size; r++) parts[r] = r == rank ? own : messages[r].received;
    ff_comm_sum(own, parts, size, dtype, own_bytes / ff_dtype_bytes(dtype));
    for (int r = 0; r < size; r++) {
        size_t begin = ff_comm_slice(bytes, r, size);
        messages[r] = (ff_message){.send = own,
                                   .send_bytes = own_bytes,
                                   .receive = values + begin,
                                   .receive_bytes = ff_comm_slice(bytes, r + 1, size) - begin};
    }
    return exchange(comm, messages, error);
}

static ff_status all_reduce(ff_host_comm *comm, char *values, size_t count, ff_dtype dtype,
                            ff_error *error) {
    const size_t element = ff_dtype_bytes(dtype), most = comm->most_bytes / element;
    if (count * element <= SMALL_BYTES) return reduce_small(comm, values, count, dtype, error);
    for (size_t at = 0; at < count; at += most)
        FF_TRY(reduce_sliced(comm, values + at * element, count - at < most ? count - at : most,
                             dtype, error));
    return FF_OK;
}

static ff_status broadcast(ff_host_comm *comm, char *memory, size_t bytes, int root,
                           ff_error *error) {
    ff_message messages[FF_COMM_RANKS_MOST];
    const size_t most = comm->most_bytes;
    for (size_t at = 0; at < bytes; at += most) {
        size_t some = bytes - at < most ? bytes - at : most;
        memset(messages, 0, sizeof messages);
        for (int r = 0; r < comm->base.size; r++)
            if (comm->base.rank == root)
                messages[r] = (ff_message){.send = memory + at, .send_bytes = some};
        if (comm->base.rank != root)
            messages[root] = (ff_message){.receive = memory + at, .receive_bytes = some};
        FF_TRY(exchange(comm, messages, error));
    }
    return FF_OK;
}

static ff_status all_gather(ff_host_comm *comm, const char *from, char *to, size_t bytes,
                            ff_error *error) {
    ff_message messages[FF_COMM_RANKS_MOST];
    const size_t most = comm->most_bytes;
    for (size_t at = 0; at < bytes; at += most) {
        size_t some = bytes - at < most ? bytes - at : most;
        for (int r = 0; r < comm->base.size; r++)
            messages[r] = (ff_message){.send = from + at,
                                       .send_bytes = some,
                                       .receive = to + (size_t)r * bytes + at,
                                       .receive_bytes = some};
        FF_TRY(exchange(comm, messages, error));
    }
    return FF_OK;
}

static void run_call(void *context) {
    const ff_host_call *call = context;
    const call_arguments *with = &call->with;
    ff_host_comm *comm = call->comm;
    ff_error error;
    ff_status status = ff_barrier_check(comm->barrier, &error);
    if (status == FF_OK) switch (with->kind) {
        case ALL_REDUCE:
            status = all_reduce(comm, with->values, with->count, with->dtype, &error);
            break;
        case BROADCAST:
            status = broadcast(comm, with->values, with->count, with->root, &error);
            break;
        case ALL_GATHER:
            status = all_gather(comm, with->from, with->values, with->count, &error);
            break;
        }
    if (status != FF_OK) ff_host_comm_abort(&comm->base, error.message);
}

/* ---- enqueuing ------------------------------------------------------------------------------ */

static bool same(const call_arguments *a, const call_arguments *b) {
    return a->kind == b->kind && a->dtype == b->dtype && a->root == b->root &&
           a->values == b->values && a->from == b->from && a->count == b->count;
}

/* Searches from the call that follows the last one: a step makes the calls of the previous step, in
 * the same order. */
static ff_status enqueue(ff_host_comm *comm, ff_stream *stream, call_arguments with,
                         ff_error *error) {
    ff_host_call *last = comm->calls, *call = last ? last->next : NULL;
    while (call && call != last && !same(&call->with, &with)) call = call->next;
    if (!call || !same(&call->with, &with)) {
        FF_TRY(ff_alloc(&call, 1, sizeof *call, "a collective's call", error));
        *call = (ff_host_call){.comm = comm, .with = with};
        call->next = last ? last->next : call;
        if (last) last->next = call;
    }
    comm->calls = call;
    ff_device *device = comm->memory.device;
    return device->table->call(device, stream, run_call, call, error);
}

static ff_status copy(ff_host_comm *comm, ff_stream *stream, void *to, const void *from,
                      uint64_t bytes, ff_error *error) {
    ff_device *device = comm->memory.device;
    return device->table->copy(device, stream, to, from, bytes, error);
}

ff_status ff_host_comm_all_reduce(ff_comm *base, ff_stream *stream, void *values, size_t count,
                                  ff_dtype dtype, ff_error *error) {
    ff_host_comm *comm = (ff_host_comm *)base;
    const size_t element = ff_dtype_bytes(dtype);
    const size_t most = comm->pieces ? STAGING_BYTES / element : count;
    call_arguments with = {.kind = ALL_REDUCE, .dtype = dtype};
    if (base->size == 1) return FF_OK;
    for (size_t at = 0; at < count; at += most) {
        char *piece = (char *)values + at * element;
        with.count = count - at < most ? count - at : most;
        with.values = comm->staging ? comm->staging : piece;
        if (comm->staging)
            FF_TRY(copy(comm, stream, with.values, piece, with.count * element, error));
        FF_TRY(enqueue(comm, stream, with, error));
        if (comm->staging)
            FF_TRY(copy(comm, stream, piece, with.values, with.count * element, error));
    }
    return FF_OK;
}

ff_status ff_host_comm_broadcast(ff_comm *base, ff_stream *stream, void *memory, uint64_t bytes,
                                 int root, ff_error *error) {
    ff_host_comm *comm = (ff_host_comm *)base;
    const uint64_t most = comm->pieces ? STAGING_BYTES : bytes;
    call_arguments with = {.kind = BROADCAST, .root = root};
    if (base->size == 1) return FF_OK;
    for (uint64_t at = 0; at < bytes; at += most) {
        char *piece = (char *)memory + at;
        with.count = bytes - at < most ? bytes - at : most;
        with.values = comm->staging ? comm->staging : piece;
        if (comm->staging && base->rank == root)
            FF_TRY(copy(comm, stream, with.values, piece, with.count, error));
        FF_TRY(enqueue(comm, stream, with, error));
        if (comm->staging && base->rank != root)
            FF_TRY(copy(comm, stream, piece, with.values, with.count, error));
    }
    return FF_OK;
}

ff_status ff_host_comm_all_gather(ff_comm *base, ff_stream *stream, const void *from, void *to,
                                  uint64_t bytes, ff_error *error) {
    ff_host_comm *comm = (ff_host_comm *)base;
    if (bytes == 0) return FF_OK;
    char *own = (char *)to + (uint64_t)base->rank * bytes;
    if (own != from) FF_TRY(copy(comm, stream, own, from, bytes, error));
    if (base->size == 1) return FF_OK;
    call_arguments with = {.kind = ALL_GATHER, .from = from, .values = to, .count = bytes};
    if (!comm->pieces) return enqueue(comm, stream, with, error);
    /* Broadcasts, so that staged and unstaged ranks make the same calls. */
    for (int r = 0; r < base->size; r++)
        FF_TRY(ff_host_comm_broadcast(base, stream, (char *)to + (uint64_t)r * bytes, bytes, r,
                                      error));
    return FF_OK;
}

/* ---- life ----------------------------------------------------------------------------------- */

ff_status ff_host_comm_check(ff_comm *base, ff_error *error) {
    return ff_barrier_check(((ff_host_comm *)base)->barrier, error);
}

void ff_host_comm_abort(ff_comm *base, const char *why) {
    ff_host_comm *comm = (ff_host_comm *)base;
    ff_barrier_name(comm->barrier, base->rank);
    ff_barrier_fail(comm->barrier, why);
    if (comm->transport->abort) comm->transport->abort(comm);
}

ff_status ff_host_comm_init(ff_host_comm *comm, const ff_comm_table *table, int rank, int size,
                            ff_comm_memory memory, bool pieces, ff_error *error) {
    comm->base = (ff_comm){.table = table, .rank = rank, .size = size};
    comm->memory = memory;
    comm->pieces = pieces;
    if (!memory.staged) return FF_OK;
    return memory.device->table->allocate_pinned(memory.device, &comm->staging, STAGING_BYTES,
                                                 "the communicator's copies", error);
}

void ff_host_comm_release(ff_host_comm *comm) {
    ff_device *device = comm->memory.device;
    for (ff_host_call *call = comm->calls, *next; call; call = next) {
        next = call->next == comm->calls ? NULL : call->next;
        free(call);
    }
    if (comm->staging) device->table->release_pinned(device, comm->staging);
}

void ff_host_comm_destroy(ff_comm *base) {
    ff_host_comm *comm = (ff_host_comm *)base;
    comm->transport->destroy(comm);
}
