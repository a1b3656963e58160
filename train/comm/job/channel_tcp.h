/* The control channel of ranks that are processes. One thread per process uses the sockets; calls
 * leave bytes for it and wait. Rank 0 has a connection to each other rank, the others only to rank
 * 0. The failure that rank 0 receives first is the job's. Every rank notices by itself if rank 0 is
 * lost. */
#ifndef FF_TRAIN_COMM_CHANNEL_TCP_H
#define FF_TRAIN_COMM_CHANNEL_TCP_H

#include "train/comm/job/channel_message.h"
#include "train/comm/job/channel_state.h"

enum { FF_CHANNEL_STRANGERS = 64 };

/* A connection. */
typedef struct ff_peer {
    int fd;       /* -1 = not connected */
    int rank;     /* -1: has not greeted yet */
    bool left;    /* has ended without a failure */
    bool closing; /* closes after the bytes in `out` */
    bool offered; /* its part of the gather is in the channel's `offers` */
    char name[192];
    char lost[128]; /* what ended the connection; "" = nothing */
    ff_buffer in, out;
    size_t sent;                   /* bytes of `out` that are sent */
    uint64_t silent_ns, unsent_ns; /* time since bytes came, and since bytes went */
} ff_peer;

typedef struct ff_tcp_channel {
    ff_channel base;
    ff_channel_state state; /* its mutex guards everything below */
    ff_hello own;
    char name[192], refused[512]; /* refused: the last refusal that rank 0 sent */
    int listener, wake;
    uint64_t beat_ns, end_ns; /* time between heartbeats; end of opening */
    bool opened, told, ending;
    uint64_t ending_ns; /* the latest end */
    int arrived;        /* parts of this gather that have come */
    uint64_t round;     /* finished gathers */
    ff_buffer *offers;  /* rank 0: the parts of the gather, by rank */
    ff_buffer result;   /* of the last gather: the body of PARTS */
    int peer_count;     /* rank 0: one for each rank, including itself; others: 1, rank 0 */
    ff_peer *peers; /* rank 0: after the ranks FF_CHANNEL_STRANGERS, which have not greeted yet */
    int slots;      /* number of `peers` */
    struct pollfd *polled;
    ff_threads *thread;
} ff_tcp_channel;

/* The caller holds the mutex in all functions below. */
void ff_peer_name(char *name, size_t size, const ff_hello *hello);
/* Reports that this process fails. */
void ff_tcp_fail(ff_tcp_channel *channel, const ff_error *why);
/* Leaves a message for a peer; does nothing if its connection is closed or closing. */
void ff_peer_post(ff_tcp_channel *channel, ff_peer *peer, ff_message_kind kind, const void *body,
                  size_t length);
void ff_peer_close(ff_peer *peer);
/* Rank 0: takes a part of the gather. */
void ff_tcp_offer(ff_tcp_channel *channel, ff_peer *peer, const void *bytes, size_t length);
/* Handles all complete messages that have come from a peer. */
void ff_peer_take(ff_tcp_channel *channel, ff_peer *peer);
/* Begins the job when all ranks have come. */
void ff_tcp_welcome(ff_tcp_channel *channel);

#endif
