/* NCCL's communicator (train/comm/collective/comm.h), for ranks that have a CUDA device each: part
 * of the module, reached through its exports. NCCL is opened here, by the first run that needs it
 * (nccl_library.h).
 *
 * NCCL calls do not block (ncclConfig_t.blocking = 0): each ends when ncclCommGetAsyncError says
 * so, within the timeout. A thread looks for asynchronous errors 20 times a second; after one, or
 * after `abort`, it calls ncclCommAbort, which ends the collectives in all streams of this rank
 * alone: the other ranks are told through the channel, and abort theirs.
 *
 * Captures: a collective is in a graph of every rank or of none, and a graph is launched by every
 * rank, each its own of the same capture (NCCL's user guide, "Using NCCL with CUDA Graphs").
 * Recordings with collectives must be destroyed before the communicator, also after an abort: NCCL
 * waits for them.
 *
 * NCCL before 2.30 refuses two ranks on one GPU. Such ranks have the same host and the same `bus`
 * of ff_cuda_properties, which the ranks can compare before; they need a communicator of the
 * host. */
#ifndef FF_TRAIN_CUDA_NCCL_H
#define FF_TRAIN_CUDA_NCCL_H

#include "format/base/memory.h"
#include "train/comm/collective/comm.h"

typedef struct ff_nccl_options {
    int rank, size;
    bool in_graphs;      /* as in ff_comm */
    uint64_t timeout_ns; /* of each NCCL call, connecting to all ranks among them */

    /* Sends `length` bytes and receives those of all ranks, in their order: parts[size], each freed
     * with ff_buffer_free (ff_channel_gather). Called by ff_nccl_create alone. */
    ff_status (*gather)(void *context, const void *bytes, size_t length, ff_buffer *parts,
                        ff_error *error);
    /* Whether all ranks are still there, asked while they connect (ff_channel_check); NULL = not
     * asked. */
    ff_status (*check)(void *context, ff_error *error);
    void *context;
} ff_nccl_options;

/* Every rank calls it. FF_FAILED at every rank where NCCL is missing or too old at one of them, or
 * where their versions differ; where NCCL refuses; where not all ranks connect in time. The device
 * must outlive the communicator. */
FF_MUST_USE ff_status ff_nccl_create(ff_comm **comm, ff_device *device,
                                     const ff_nccl_options *options, ff_error *error);

#endif
