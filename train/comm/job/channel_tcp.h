/* The inside of the control channel (channel.h). One thread per process uses the sockets; calls
 * leave bytes for it and wait. Rank 0 has a connection to each other rank, the others only to rank
 * 0. The failure that rank 0 receives first is the job's. Every rank notices by itself if rank 0 is
 * lost. */
#ifndef FF_TRAIN_COMM_CHANNEL_TCP_H
#define FF_TRAIN_COMM_CHANNEL_TCP_H

#include "format/base/thread.h"
#include "train/comm/job/channel.h"
#include "train/comm/job/channel_message.h"

enum { FF_CHANNEL_STRANGERS = 64, FF_CHANNEL_PART = 16 << 20, FF_CHANNEL_WHY = 1024 };
#define FF_CHANNEL_CLOSING_NS UINT64_C(5000000000) /* the longest time that closing takes */

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

struct ff_channel {
    ff_channel_options options;
    int rank, size;
    pthread_mutex_t mutex;    /* of everything below */
    pthread_cond_t changed;   /* on the monotonic clock */
    bool failed;              /* the job has, for the first reason reported */
    char why[FF_CHANNEL_WHY]; /* with the name of the rank */
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
};

/* The thread; takes the mutex. */
void ff_channel_serve(void *context, int index);

/* The caller holds the mutex in all functions below. */

/* Sets the failure of the job, unless it has one: returns whether this is the first. */
bool ff_channel_set_failure(ff_channel *channel, const char *format, ...) FF_PRINTF(2, 3);
void ff_peer_name(char *name, size_t size, const ff_hello *hello);
/* Reports that this process fails. */
void ff_tcp_fail(ff_channel *channel, const ff_error *why);
/* Leaves a message for a peer; does nothing if its connection is closed or closing. */
void ff_peer_post(ff_channel *channel, ff_peer *peer, ff_message_kind kind, const void *body,
                  size_t length);
void ff_peer_close(ff_peer *peer);
/* Rank 0: takes a part of the gather. */
void ff_tcp_offer(ff_channel *channel, ff_peer *peer, const void *bytes, size_t length);
/* Handles all complete messages that have come from a peer. */
void ff_peer_take(ff_channel *channel, ff_peer *peer);
/* Begins the job when all ranks have come. */
void ff_tcp_welcome(ff_channel *channel);

#endif
