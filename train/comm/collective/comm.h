/* Room train/comm/collective, floor 7: sums and copies among the ranks of a job.
 *
 * This header is the table of a communicator. host.c is what all communicators of the host share,
 * over one exchange of messages; sum.c fixes the order of additions. Below it: threads.c for
 * replicas in a process (threads_staged.c on one GPU), shared.c for processes of a machine,
 * network.c over TCP, processes.c for both together, mpi.c under MPI's launchers (mpi_module.c is
 * the one file that is linked with MPI). nccl.c is for GPUs. A barrier ends with the first failure
 * of any rank.
 *
 * May include format, loader/cuda, loader/device.
 *
 * Communicators: collectives among the ranks of a job, enqueued on streams. A rank is a process
 * with a device, or one of the replicas of --dp, each of which is a thread with a device.
 *
 * Implementations: threads of one process, processes (shared memory on a machine, TCP between
 * machines), MPI (a module of its own), NCCL (CUDA devices). On the host sums are made in f32 by a
 * fixed binary tree over the ranks: the sum of ranks [a, b) is that of its first 2^k plus that of
 * the rest, 2^k the largest power of two below b - a; so (0 + 1) + (2 + 3), and with five ranks
 * ((0 + 1) + (2 + 3)) + 4. Every host implementation gives the same bits on every rank. NCCL's
 * order is its own.
 *
 * Every rank makes the same calls with the same arguments (but for addresses) in the same order; a
 * communicator is used with one stream. The calls only enqueue and may be captured
 * (loader/device/device.h), but for those of threads on one GPU (threads_staged.h): a call by all
 * ranks or by none, which then launch what they captured together; buffers must stay allocated as
 * long as the recording exists. `in_graphs` says whether a step's calls are to be captured.
 *
 * Failure: where a rank is lost or one aborts, all enqueued and further collectives of all ranks
 * end soon, with undefined results, so that no stream hangs; `check` then says why, and a call may.
 *
 * Thread rule: one thread enqueues; check and abort from any thread. */
#ifndef FF_TRAIN_COMM_H
#define FF_TRAIN_COMM_H

#include "format/dtype.h"
#include "loader/device/device.h"

typedef struct ff_comm ff_comm;

typedef struct ff_comm_table {
    const char *name; /* "threads", "processes", "mpi", "nccl" */
    /* On a GPU it waits for other ranks in calls of the host, of which CUDA may run one at a time
     * for all streams: two such communicators must not be used at once. */
    bool waits_in_calls;

    /* values[count] of every rank become their sum. dtype: FF_F32, FF_F16 or FF_BF16 (summed in
     * f32, rounded once, on the host). */
    ff_status (*all_reduce)(ff_comm *comm, ff_stream *stream, void *values, size_t count,
                            ff_dtype dtype, ff_error *error);
    /* `bytes` bytes of rank `root` to every rank. */
    ff_status (*broadcast)(ff_comm *comm, ff_stream *stream, void *memory, uint64_t bytes, int root,
                           ff_error *error);
    /* `bytes` bytes at `from` of every rank, in their order, to `to`[size][bytes] of every rank. */
    ff_status (*all_gather)(ff_comm *comm, ff_stream *stream, const void *from, void *to,
                            uint64_t bytes, ff_error *error);

    /* FF_OK, or FF_FAILED with the first failure of any collective, again at every later call. */
    ff_status (*check)(ff_comm *comm, ff_error *error);
    /* Ends the collectives of all ranks; `why` is what their `check` says. */
    void (*abort)(ff_comm *comm, const char *why);
    /* Optional: the part of `destroy` that waits for the other ranks, which `abort` ends. */
    void (*leave)(ff_comm *comm);
    /* The enqueued work must be done, or aborted. */
    void (*destroy)(ff_comm *comm);
} ff_comm_table;

/* Implementations begin with this. */
struct ff_comm {
    const ff_comm_table *table;
    int rank, size;
    bool in_graphs; /* where a step is captured, the calls are in its graph; else between graphs */
};

/* NULL is accepted; *comm = NULL. */
static inline void ff_comm_destroy(ff_comm **comm) {
    if (*comm) (*comm)->table->destroy(*comm);
    *comm = NULL;
}

#endif
