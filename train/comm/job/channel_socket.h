/* Sockets of the control channel: not blocking, closed when a program is executed, without delay
 * for small messages. */
#ifndef FF_TRAIN_COMM_CHANNEL_SOCKET_H
#define FF_TRAIN_COMM_CHANNEL_SOCKET_H

#include "train/comm/job/ranks.h"

#include <stdint.h>

/* *fd = a socket that listens at the port of `ranks`: ranks->listener where there is one; of this
 * machine alone where the host is its loopback name, else of all its addresses. The caller closes
 * it. */
FF_MUST_USE ff_status ff_channel_listen(const ff_ranks *ranks, int *fd, ff_error *error);
/* A connection that came; -1 where there is none. */
int ff_channel_accept(int listener);
/* A connection to rank 0, tried again until `end_ns` (ff_now_ns) or a signal. */
FF_MUST_USE ff_status ff_channel_connect(const ff_ranks *ranks, uint64_t end_ns, int *fd,
                                         ff_error *error);

#endif
