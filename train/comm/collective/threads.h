/* The communicator of replicas that are threads of one process. */
#ifndef FF_TRAIN_COMM_THREADS_H
#define FF_TRAIN_COMM_THREADS_H

#include "train/comm/collective/host.h"

/* comms[count], 1 to 64: one for each thread, which destroys it. memory[count]: if one is staged,
 * the calls are those of threads_staged.h. On failure all are NULL. */
FF_MUST_USE ff_status ff_comm_threads_create(ff_comm **comms, int count,
                                             const ff_comm_memory *memory, ff_error *error);

#endif
