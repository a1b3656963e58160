/* Sockets of the control channel: they do not block, are closed when a program is executed, and
 * send small messages without delay. */
#ifndef FF_TRAIN_COMM_CHANNEL_SOCKET_H
#define FF_TRAIN_COMM_CHANNEL_SOCKET_H

#include "train/comm/job/ranks.h"

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

/* The address of the Unix socket of a job that fftrain started, in Linux's abstract namespace: it
 * has no file. Returns its length. */
socklen_t ff_channel_name(const char *job, struct sockaddr_un *address);
/* *fd = a socket that listens at the port of `ranks`: ranks->listener, if it is set; else a new
 * one, on this machine's loopback if the host is its loopback name, otherwise on all its addresses.
 * The caller closes it. */
FF_MUST_USE ff_status ff_channel_listen(const ff_ranks *ranks, int *fd, ff_error *error);
/* Accepts a connection; -1 if none is waiting. */
int ff_channel_accept(int listener);
/* Connects to rank 0; tries again until `end_ns` (ff_now_ns) or a signal. */
FF_MUST_USE ff_status ff_channel_connect(const ff_ranks *ranks, uint64_t end_ns, int *fd,
                                         ff_error *error);

#endif
