/* What the two forms of the control channel (channel.h) share: their functions, and the one failure
 * of a job, of which the first reason counts. */
#ifndef FF_TRAIN_COMM_CHANNEL_STATE_H
#define FF_TRAIN_COMM_CHANNEL_STATE_H

#include "format/base/thread.h"
#include "train/comm/job/channel.h"

enum { FF_CHANNEL_PART = 16 << 20, FF_CHANNEL_WHY = 1024 };

/* Of one process. All fields but options are guarded by mutex. */
typedef struct ff_channel_state {
    ff_channel_options options;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* on the monotonic clock */
    bool failed;
    char why[FF_CHANNEL_WHY]; /* with the name of the rank */
} ff_channel_state;

void ff_channel_state_init(ff_channel_state *state, const ff_channel_options *options);
void ff_channel_state_release(ff_channel_state *state);
/* The job has failed, for which the first reason counts: returns whether this is it. `set` with the
 * mutex held; `fail` with it free, and calls options.failed. */
bool ff_channel_state_set(ff_channel_state *state, const char *format, ...) FF_PRINTF(2, 3);
void ff_channel_state_fail(ff_channel_state *state, const char *format, ...) FF_PRINTF(2, 3);
/* FF_OK, or FF_FAILED with the reason; the mutex is held. */
FF_MUST_USE ff_status ff_channel_state_check(const ff_channel_state *state, ff_error *error);

/* Implementations begin with this. */
struct ff_channel {
    const struct ff_channel_table *table;
    ff_channel_state *state;
    int rank, size;
};

typedef struct ff_channel_table {
    /* As the functions of channel.h; parts are empty. */
    ff_status (*gather)(ff_channel *channel, const void *bytes, size_t length, ff_buffer *parts,
                        ff_error *error);
    void (*report)(ff_channel *channel, const char *why);
    void (*close)(ff_channel *channel);
    uint64_t cause_ns; /* within which the cause of a failure is known */
} ff_channel_table;

#endif
