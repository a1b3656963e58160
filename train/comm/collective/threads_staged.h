/* The communicator of threads whose memory the host cannot read: replicas on one GPU (threads.h).
 *
 * Nothing waits in a stream: CUDA may run the host functions of all streams of a process in one
 * thread; then a function that waits for another stream's function never ends. Instead, the ranks'
 * threads meet when they enqueue, and their streams wait for each other's events. So a call may
 * wait until the other ranks make the same call, returns the failure if a rank has failed, and
 * cannot be captured. */
#ifndef FF_TRAIN_COMM_THREADS_STAGED_H
#define FF_TRAIN_COMM_THREADS_STAGED_H

#include "train/comm/collective/comm.h"

/* devices[count] must outlive the communicators. On failure comms[count] are NULL. */
FF_MUST_USE ff_status ff_comm_threads_staged_create(ff_comm **comms, int count, ff_device **devices,
                                                    ff_error *error);

#endif
