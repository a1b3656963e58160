/* The shared part of the two forms of the control channel (channel.h): their functions, and the
 * failure of a job, which is the first one reported. */
#ifndef FF_TRAIN_COMM_CHANNEL_STATE_H
#define FF_TRAIN_COMM_CHANNEL_STATE_H

#include "format/base/thread.h"
#include "train/comm/job/channel.h"

enum { FF_CHANNEL_PART = 16 << 20, FF_CHANNEL_WHY = 1024 };

/* One per process. The mutex guards all fields except the options. */
typedef struct ff_channel_state {
    ff_channel_options options;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* on the monotonic clock */
    bool failed;
    char why[FF_CHANNEL_WHY]; /* with the name of the rank */
} ff_channel_state;

void ff_channel_state_init(ff_channel_state *state, const ff_channel_options *options);
void ff_channel_state_release(ff_channel_state *state);
/* Sets the failure of the job, unless it has one: returns whether this is the first. `set`: the
 * caller holds the mutex. `fail`: the caller does not; calls options.failed. */
bool ff_channel_state_set(ff_channel_state *state, const char *format, ...) FF_PRINTF(2, 3);
void ff_channel_state_fail(ff_channel_state *state, const char *format, ...) FF_PRINTF(2, 3);
/* FF_OK, or FF_FAILED with the reason; the caller holds the mutex. */
FF_MUST_USE ff_status ff_channel_state_check(const ff_channel_state *state, ff_error *error);

/* Implementations begin with this struct. */
struct ff_channel {
    const struct ff_channel_table *table;
    ff_channel_state *state;
    int rank, size;
};

typedef struct ff_channel_table {
    /* As in channel.h; the parts are empty before the call. */
    ff_status (*gather)(ff_channel *channel, const void *bytes, size_t length, ff_buffer *parts,
                        ff_error *error);
    void (*report)(ff_channel *channel, const char *why);
    void (*close)(ff_channel *channel);
    uint64_t cause_ns; /* the cause of a failure is known within this time */
} ff_channel_table;

#endif
