/* Room train/comm/collective, floor 10: sums and copies among the ranks of a job.
 *
 * This header is the table of a communicator. host.c is shared by all communicators of the host and
 * needs one operation, the exchange of messages; sum.c fixes the order of additions. The exchange
 * is implemented in: shared.c between processes of a machine, network.c over TCP, processes.c for
 * both together, mpi.c under MPI's launchers (only mpi_module.c is linked with MPI). nccl.c is for
 * GPUs. A barrier ends with the first failure of any rank.
 *
 * May include format, loader/cuda, loader/device.
 *
 * Communicators: collectives among the ranks of a job, enqueued on streams. A rank is a process
 * with a device.
 *
 * Implementations: processes (shared memory on a machine, TCP between machines), MPI (a module of
 * its own), NCCL (CUDA devices). The host sums in f32 by a fixed binary
 * tree over the ranks: the sum of ranks [a, b) is the sum of the first 2^k ranks plus the sum of
 * the rest, 2^k the largest power of two below b - a. So four ranks are added as (0 + 1) + (2 + 3),
 * five as ((0 + 1) + (2 + 3)) + 4. Every host implementation produces the same bits on every rank.
 * NCCL uses its own order.
 *
 * Every rank makes the same calls with the same arguments (except for addresses) in the same order;
 * a communicator is used with one stream. The calls only enqueue. They may be captured
 * (loader/device/device.h). Either all ranks capture a call or none, and all ranks launch the
 * recording together. Buffers must stay
 * allocated as long as the recording exists. `in_graphs`: a step's calls are to be captured.
 *
 * Failure: if a rank is lost or aborts, all enqueued and further collectives of all ranks end soon,
 * with undefined results, so that no stream hangs. `check` then returns the reason, and a call may
 * return it, too.
 *
 * Thread rule: one thread enqueues; check and abort from any thread. */
#ifndef FF_TRAIN_COMM_H
#define FF_TRAIN_COMM_H

#include "format/disk/dtype.h"
#include "loader/device/device.h"

typedef struct ff_comm ff_comm;

typedef struct ff_comm_table {
    const char *name; /* "processes", "mpi", "nccl" */

    /* Replaces values[count] of every rank by their sum. dtype: FF_F32, FF_F16 or FF_BF16 (summed
     * in f32, rounded once, on the host). */
    ff_status (*all_reduce)(ff_comm *comm, ff_stream *stream, void *values, size_t count,
                            ff_dtype dtype, ff_error *error);
    /* Copies `bytes` bytes of rank `root` to every rank. */
    ff_status (*broadcast)(ff_comm *comm, ff_stream *stream, void *memory, uint64_t bytes, int root,
                           ff_error *error);
    /* Copies `bytes` bytes at `from` of every rank, in the order of the ranks, to `to`[size][bytes]
     * of every rank. */
    ff_status (*all_gather)(ff_comm *comm, ff_stream *stream, const void *from, void *to,
                            uint64_t bytes, ff_error *error);

    /* FF_OK, or FF_FAILED with the first failure of any collective, also at every later call. */
    ff_status (*check)(ff_comm *comm, ff_error *error);
    /* Ends the collectives of all ranks; their `check` reports `why`. */
    void (*abort)(ff_comm *comm, const char *why);
    /* Optional: the part of `destroy` that waits for the other ranks; `abort` ends this wait. */
    void (*leave)(ff_comm *comm);
    /* Call after the enqueued work is done, or aborted. */
    void (*destroy)(ff_comm *comm);
} ff_comm_table;

/* Implementations begin with this. */
struct ff_comm {
    const ff_comm_table *table;
    int rank, size;
    bool in_graphs; /* in a captured step: calls are in its graph; else between graphs */
};

/* Accepts NULL; *comm = NULL. */
static inline void ff_comm_destroy(ff_comm **comm) {
    if (*comm) (*comm)->table->destroy(*comm);
    *comm = NULL;
}

#endif
