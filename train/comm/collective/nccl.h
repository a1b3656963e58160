/* NCCL's communicator (train/comm/collective/comm.h), for ranks that have a CUDA device each: part
 * of the CUDA module, reached through its exports. This file opens NCCL when a run needs it
 * (nccl_library.h).
 *
 * NCCL calls do not block (ncclConfig_t.blocking = 0): each has ended when ncclCommGetAsyncError
 * reports this, within the timeout. A thread looks for asynchronous errors 20 times a second. After
 * an error, or after `abort`, it calls ncclCommAbort, which ends the collectives in all streams of
 * this rank only. The channel notifies the other ranks, which abort theirs.
 *
 * Captures: a collective is in a graph of every rank or of no rank. Every rank launches its own
 * graph of the same capture (NCCL's user guide, "Using NCCL with CUDA Graphs"). Recordings with
 * collectives must be destroyed before the communicator, also after an abort: NCCL waits for them.
 *
 * NCCL before 2.30 refuses two ranks on one GPU; they need a communicator of the host. Such ranks
 * have the same host and the same `bus` of ff_cuda_properties, which the ranks can compare
 * beforehand. */
#ifndef FF_TRAIN_CUDA_NCCL_H
#define FF_TRAIN_CUDA_NCCL_H

#include "format/base/memory.h"
#include "train/comm/collective/comm.h"

typedef struct ff_nccl_options {
    int rank, size;
    uint64_t timeout_ns; /* of each NCCL call, including those that connect the ranks */

    /* Sends `length` bytes and receives those of all ranks, in the order of the ranks: parts[size],
     * each freed with ff_buffer_free (ff_channel_gather). Only ff_nccl_create calls it. */
    ff_status (*gather)(void *context, const void *bytes, size_t length, ff_buffer *parts,
                        ff_error *error);
    /* Whether all ranks are still there, asked while they connect (ff_channel_check); NULL = not
     * asked. */
    ff_status (*check)(void *context, ff_error *error);
    void *context;
} ff_nccl_options;

/* Every rank calls it. FF_FAILED at every rank if NCCL is missing or too old at one of them, if
 * their versions differ, if NCCL refuses, or if not all ranks connect in time. The device must
 * outlive the communicator. */
FF_MUST_USE ff_status ff_nccl_create(ff_comm **comm, ff_device *device,
                                     const ff_nccl_options *options, ff_error *error);

#endif
