/* The communicator of processes: shared memory between processes on one machine, TCP between
 * machines. */
#ifndef FF_TRAIN_COMM_PROCESSES_H
#define FF_TRAIN_COMM_PROCESSES_H

#include "format/base/memory.h"
#include "train/comm/collective/host.h"

typedef struct ff_comm_processes_options {
    int rank, size; /* 1 to 64 */
    /* For rendezvous, called a few times in the same order at all ranks: sends `length` bytes to
     * all and receives those of all, in the order of the ranks: parts[size], each freed with
     * ff_buffer_free. */
    ff_status (*gather)(void *context, const void *bytes, size_t length, ff_buffer *parts,
                        ff_error *error);
    void *context;
    uint64_t timeout_ns; /* for connecting */
    bool network;        /* use TCP also between ranks on one machine */
    uint64_t delay_ns;   /* for experiments: delays every message by this time */
} ff_comm_processes_options;

/* FF_FAILED: a rank cannot be reached. */
FF_MUST_USE ff_status ff_comm_processes_create(ff_comm **comm,
                                               const ff_comm_processes_options *options,
                                               ff_comm_memory memory, ff_error *error);

#endif
