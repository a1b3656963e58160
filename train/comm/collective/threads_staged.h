/* The communicator of threads whose memory the host cannot read: replicas on one GPU (threads.h).
 *
 * Nothing waits in a stream, because CUDA may run the host functions of all streams of a process in
 * one thread, where one that waits for another's never ends. Instead the ranks' threads meet as
 * they enqueue, and their streams wait for each other's events. So calls may wait for other ranks
 * to make theirs, return the failure where one has failed, and cannot be captured. */
#ifndef FF_TRAIN_COMM_THREADS_STAGED_H
#define FF_TRAIN_COMM_THREADS_STAGED_H

#include "train/comm/collective/comm.h"

/* devices[count], which outlive the communicators. On failure comms[count] are NULL. */
FF_MUST_USE ff_status ff_comm_threads_staged_create(ff_comm **comms, int count, ff_device **devices,
                                                    ff_error *error);

#endif
