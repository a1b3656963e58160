/* The shared part of the host's communicators: calls enqueued in streams, staging, failure, and the
 * collectives themselves. They need one operation of a transport: the exchange of messages among
 * all ranks.
 *
 * For an all_reduce of more than a few KiB, each rank receives its slice of the values from all
 * others, sums it and sends the sum to them. This is done in pieces, so that memory is bounded.
 * Fewer values are sent to all ranks, and each rank sums them. */
#ifndef FF_TRAIN_COMM_HOST_H
#define FF_TRAIN_COMM_HOST_H

#include "train/comm/collective/barrier.h"
#include "train/comm/collective/comm.h"
#include "train/comm/collective/sum.h"

typedef struct ff_host_comm ff_host_comm;

/* The place of a rank's values. */
typedef struct ff_comm_memory {
    ff_device *device; /* of the streams; outlives the communicator */
    bool staged;       /* the host cannot read values: copied to pinned memory and back */
} ff_comm_memory;

/* The message to one rank, and the message from it. */
typedef struct ff_message {
    const void *send;
    void *receive; /* NULL: the transport sets `received` to the bytes' address */
    size_t send_bytes, receive_bytes;
    const void *received; /* valid until the next exchange; equals `receive` if set */
} ff_message;

typedef struct ff_transport {
    /* messages[size]: sends and receives all of them except the rank's own; waits until the other
     * ranks have the sent bytes. A message that goes to several ranks has one address. */
    ff_status (*exchange)(ff_host_comm *comm, ff_message *messages, ff_error *error);
    /* Optional: after a failure, from any thread: ends waits outside the barrier, and notifies
     * ranks that do not share the barrier. */
    void (*abort)(ff_host_comm *comm);
    void (*destroy)(ff_host_comm *comm);
} ff_transport;

/* Transports begin with this struct and fill the members before `memory`. */
struct ff_host_comm {
    ff_comm base;
    const ff_transport *transport;
    ff_barrier *barrier; /* its failure is the communicator's; not owned */
    /* The most distinct bytes that a rank may send in an exchange, or receive without an address;
     * the same at all ranks, at least 1 MiB. */
    size_t most_bytes;
    ff_comm_memory memory;
    bool pieces; /* some rank is staged: all make calls in the same pieces */
    void *staging;
    struct ff_host_call *calls; /* a ring; points to the last used call */
};

/* `table` has the functions declared below. On failure ff_host_comm_release releases what it
 * holds. */
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
        .name = (title), .all_reduce = ff_host_comm_all_reduce,                                    \
        .broadcast = ff_host_comm_broadcast, .all_gather = ff_host_comm_all_gather,                \
        .check = ff_host_comm_check, .abort = ff_host_comm_abort, .destroy = ff_host_comm_destroy, \
    }

#endif
