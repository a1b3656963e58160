/* The control channel of replicas that are threads of one process. */
#include "train/comm/job/channel_state.h"

#include <stdlib.h>

/* The parts that one rank passes to gathers. Even and odd gathers have separate buffers, so that a
 * rank may begin the next gather while others still read the last one. All ranks have left a gather
 * before its buffers are used again. */
typedef struct offer {
    ff_buffer part[2];
} offer;

typedef struct replica_group {
    ff_channel_state state;
    int size, open, arrived;
    int left;       /* the first rank that has closed, or -1 */
    uint64_t round; /* finished gathers */
    offer offers[];
} replica_group;

typedef struct replica_channel {
    ff_channel base;
    replica_group *group;
} replica_channel;

static ff_status gather(ff_channel *channel, const void *bytes, size_t length, ff_buffer *parts,
                        ff_error *error) {
    replica_group *group = ((replica_channel *)channel)->group;
    ff_channel_state *state = &group->state;
    ff_status status;
    int left = -1;
    pthread_mutex_lock(&state->mutex);
    const uint64_t round = group->round;
    ff_buffer *own = &group->offers[channel->rank].part[round % 2];
    FF_TRY_DONE(ff_channel_state_check(state, error));
    own->length = 0;
    FF_TRY_DONE(ff_buffer_add(own, bytes, length, error));
    if (++group->arrived == group->size) {
        group->arrived = 0;
        group->round++;
        pthread_cond_broadcast(&state->changed);
    }
    while (group->round == round && !state->failed && group->left < 0)
        pthread_cond_wait(&state->changed, &state->mutex);
    if (group->round == round) {
        status = ff_channel_state_check(state, error);
        left = group->left;
    }
    for (int i = 0; i < group->size && group->round != round && status == FF_OK; i++) {
        const ff_buffer *part = &group->offers[i].part[round % 2];
        status = ff_buffer_add(&parts[i], part->bytes, part->length, error);
    }
done:
    pthread_mutex_unlock(&state->mutex);
    if (status == FF_OK && left >= 0) {
        ff_channel_state_fail(state, "replica %d ended before the others", left);
        status = ff_channel_check(channel, error);
    }
    return status;
}

static void report(ff_channel *channel, const char *why) {
    ff_channel_state_fail(channel->state, "replica %d failed: %s", channel->rank, why);
}

static void free_group(replica_group *group) {
    for (int i = 0; i < group->size; i++)
        for (int k = 0; k < 2; k++) ff_buffer_free(&group->offers[i].part[k]);
    ff_channel_state_release(&group->state);
    free(group);
}

static void close_channel(ff_channel *channel) {
    replica_group *group = ((replica_channel *)channel)->group;
    pthread_mutex_lock(&group->state.mutex);
    if (group->left < 0) group->left = channel->rank;
    const bool last = --group->open == 0;
    pthread_cond_broadcast(&group->state.changed);
    pthread_mutex_unlock(&group->state.mutex);
    if (last) free_group(group);
    free(channel);
}

ff_status ff_channel_open_threads(ff_channel **channels, int count,
                                  const ff_channel_options *options, ff_error *error) {
    static const ff_channel_table table = {gather, report, close_channel, 0};
    replica_group *group;
    ff_status status = FF_OK;
    for (int i = 0; i < count; i++) channels[i] = NULL;
    FF_TRY(ff_alloc(&group, 1, sizeof *group + (size_t)count * sizeof *group->offers,
                    "the replicas' channel", error));
    ff_channel_state_init(&group->state, options);
    group->size = count;
    group->left = -1;
    for (int i = 0; i < count && status == FF_OK; i++) {
        replica_channel *replica;
        status = ff_alloc(&replica, 1, sizeof *replica, "the replicas' channel", error);
        if (status != FF_OK) break;
        replica->base = (ff_channel){&table, &group->state, i, count};
        replica->group = group;
        channels[i] = &replica->base;
        group->open++;
    }
    if (status == FF_OK) return FF_OK;
    if (!group->open) free_group(group);
    for (int i = 0; i < count; i++) ff_channel_close(&channels[i]);
    return status;
}
