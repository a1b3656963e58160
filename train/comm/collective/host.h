/* What the communicators of the host share: calls enqueued in streams, staging, failure, and the
 * collectives themselves, over one operation of a transport: the exchange of messages among all
 * ranks.
 *
 * all_reduce of more than a few KiB: each rank receives its slice of the values from all others,
 * sums it and sends the sum to them; in pieces, so that memory is bounded. Fewer values are sent
 * to all and summed by each rank. Threads write the sum of a slice where all ranks have it. */
#ifndef FF_TRAIN_COMM_HOST_H
#define FF_TRAIN_COMM_HOST_H

#include "train/comm/collective/barrier.h"
#include "train/comm/collective/comm.h"
#include "train/comm/collective/sum.h"

typedef struct ff_host_comm ff_host_comm;

/* Where a rank's values are. */
typedef struct ff_comm_memory {
    ff_device *device; /* of the streams; outlives the communicator */
    bool staged;       /* values are not the host's to read: copied to pinned memory and back */
} ff_comm_memory;

/* To and from one rank. */
typedef struct ff_message {
    const void *send;
    void *receive; /* NULL: the transport says where the bytes are: `received` */
    size_t send_bytes, receive_bytes;
    const void *received; /* until the next exchange; with `receive` the same */
} ff_message;

typedef struct ff_transport {
    /* messages[size]: sends and receives all but the rank's own. What is sent must not change until
     * `settle`. The same messages for several ranks have the same address. */
    ff_status (*exchange)(ff_host_comm *comm, ff_message *messages, ff_error *error);
    /* Optional: an all_reduce where ranks can write to each other's memory; NULL: by exchanges. */
    ff_status (*reduce)(ff_host_comm *comm, char *values, size_t count, ff_dtype dtype,
                        ff_error *error);
    /* Optional: waits until the other ranks have what was sent; NULL: exchange does. */
    ff_status (*settle)(ff_host_comm *comm, ff_error *error);
    /* Optional: after a failure, returns when no other rank uses this rank's values. */
    void (*leave)(ff_host_comm *comm);
    /* Optional: after a failure, from any thread: ends what waits outside the barrier, and ranks
     * that do not share it. */
    void (*abort)(ff_host_comm *comm);
    void (*destroy)(ff_host_comm *comm);
} ff_transport;

/* Transports begin with this and fill what is before `memory`. */
struct ff_host_comm {
    ff_comm base;
    const ff_transport *transport;
    ff_barrier *barrier; /* its failure is the communicator's; not owned */
    /* Different bytes that a rank may send, or receive without an address, in an exchange; the same
     * at all ranks, at least 1 MiB. */
    size_t most_bytes;
    ff_comm_memory memory;
    bool pieces; /* some rank is staged: all make calls in the same pieces */
    void *staging;
    struct ff_host_call *calls; /* a ring; the one last used */
};

/* `table` has the entries below. On failure ff_host_comm_release releases what it holds. */
FF_MUST_USE ff_status ff_host_comm_init(ff_host_comm *comm, const ff_comm_table *table, int rank,
                                        int size, ff_comm_memory memory, bool pieces,
                                        ff_error *error);
void ff_host_comm_release(ff_host_comm *comm);

ff_status ff_host_comm_all_reduce(ff_comm *comm, ff_stream *stream, void *values, size_t count,
                                  ff_dtype dtype, ff_error *error);
ff_status ff_host_comm_broadcast(ff_comm *comm, ff_stream *stream, void *memory, uint64_t bytes,
                                 int root, ff_error *error);
ff_status ff_host_comm_all_gather(ff_comm *comm, ff_stream *stream, const void *from, void *to,
                                  uint64_t bytes, ff_error *error);
ff_status ff_host_comm_check(ff_comm *comm, ff_error *error);
void ff_host_comm_abort(ff_comm *comm, const char *why);
void ff_host_comm_destroy(ff_comm *comm);

#define FF_HOST_COMM_TABLE(title)                                                                  \
    {                                                                                              \
        .name = (title), .waits_in_calls = true, .all_reduce = ff_host_comm_all_reduce,            \
        .broadcast = ff_host_comm_broadcast, .all_gather = ff_host_comm_all_gather,                \
        .check = ff_host_comm_check, .abort = ff_host_comm_abort, .destroy = ff_host_comm_destroy, \
    }

#endif
