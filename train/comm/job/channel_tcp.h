/* The control channel of ranks that are processes: one thread each, which alone uses the sockets;
 * calls leave bytes for it and wait. Rank 0 has a connection to each other rank, they have one to
 * rank 0. Why a job fails is what rank 0 hears first; where it is rank 0 that is lost, every rank
 * sees it itself. */
#ifndef FF_TRAIN_COMM_CHANNEL_TCP_H
#define FF_TRAIN_COMM_CHANNEL_TCP_H

#include "train/comm/job/channel_message.h"
#include "train/comm/job/channel_state.h"

enum { FF_CHANNEL_STRANGERS = 64 };

/* A connection. */
typedef struct ff_peer {
    int fd;       /* -1 = none */
    int rank;     /* -1: has not greeted yet */
    bool left;    /* has ended well */
    bool closing; /* nothing follows what is in `out` */
    bool offered; /* its part of the gather is in the channel's `offers` */
    char name[192];
    char lost[128]; /* what ended the connection; "" = nothing */
    ff_buffer in, out;
    size_t sent;                   /* of `out` */
    uint64_t silent_ns, unsent_ns; /* since bytes came and went */
} ff_peer;

typedef struct ff_tcp_channel {
    ff_channel base;
    ff_channel_state state; /* its mutex guards everything below */
    ff_hello own;
    char name[192], refused[512]; /* refused: what rank 0 told the last that it refused */
    int listener, wake;
    uint64_t beat_ns, end_ns; /* of heartbeats; of opening */
    bool opened, told, ending;
    uint64_t ending_ns; /* when to end at the latest */
    int arrived;        /* parts of this gather */
    uint64_t round;     /* finished gathers */
    ff_buffer *offers;  /* rank 0: the parts of the gather, by rank */
    ff_buffer result;   /* of the last: the body of PARTS */
    int peer_count;     /* rank 0: one for each rank, itself too; others: 1, rank 0 */
    ff_peer *peers;     /* rank 0: after them FF_CHANNEL_STRANGERS, which have not greeted yet */
    int slots;          /* of `peers` */
    struct pollfd *polled;
    ff_threads *thread;
} ff_tcp_channel;

/* All with the mutex held. */
void ff_peer_name(char *name, size_t size, const ff_hello *hello);
/* This process fails. */
void ff_tcp_fail(ff_tcp_channel *channel, const ff_error *why);
/* Leaves a message for a peer; nothing where its connection is closed or closing. */
void ff_peer_post(ff_tcp_channel *channel, ff_peer *peer, ff_message_kind kind, const void *body,
                  size_t length);
void ff_peer_close(ff_peer *peer);
/* Rank 0: a part of the gather has come. */
void ff_tcp_offer(ff_tcp_channel *channel, ff_peer *peer, const void *bytes, size_t length);
/* Handles all whole messages that have come from a peer. */
void ff_peer_take(ff_tcp_channel *channel, ff_peer *peer);
/* Everybody is there: the job begins. */
void ff_tcp_welcome(ff_tcp_channel *channel);

#endif
