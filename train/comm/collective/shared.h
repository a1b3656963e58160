/* Messages between processes of one machine: a file in memory that all of them map. The file has no
 * name, so nothing is left of it however the processes end.
 *
 * Each rank writes its messages into its part and waits at the barrier. The others read them there
 * until the next exchange, whose messages go to another part. Thread rule: one thread; `ff_barrier`
 * has its own rule. */
#ifndef FF_TRAIN_COMM_SHARED_H
#define FF_TRAIN_COMM_SHARED_H

#include "train/comm/collective/host.h"

/* The most bytes that a rank may send in an exchange: they fit into caches, and into the buffers of
 * a socket. */
enum { FF_SHARED_BYTES = 1 << 20 };

typedef struct ff_shared {
    int file;                        /* -1 = none */
    struct ff_shared_memory *memory; /* mapped; NULL before ff_shared_open */
    size_t bytes;
    int rank, size;
    bool member[FF_COMM_RANKS_MOST]; /* the ranks that share the memory */
    unsigned turn;
} ff_shared;

/* Makes a file for `size` ranks; its memory is used only when it is written. Any rank of the
 * machine may open any other rank's file. ff_shared_close releases, after a failure too. */
FF_MUST_USE ff_status ff_shared_create(ff_shared *shared, int rank, int size, ff_error *error);

/* Maps the file `file` of process `pid`, or the own one (pid 0), for the ranks in `member`. One of
 * these ranks must open its own file before any rank uses the memory. */
FF_MUST_USE ff_status ff_shared_open(ff_shared *shared, const bool *member, int pid, int file,
                                     ff_error *error);

ff_barrier *ff_shared_barrier(ff_shared *shared);

/* The exchange (host.h) among the members. */
FF_MUST_USE ff_status ff_shared_exchange(ff_shared *shared, ff_message *messages, ff_error *error);

void ff_shared_close(ff_shared *shared);

#endif
