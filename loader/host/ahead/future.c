#include "loader/host/ahead/future.h"

#include "loader/host/ahead/uses.h"

#include <pthread.h>
#include <stdlib.h>

/* The uses of each piece in one epoch: those of piece p are at[begin[p]] to at[begin[p + 1] - 1],
 * increasing. */
typedef struct uses {
    uint32_t epoch;
    bool made, failed;
    uint32_t *begin; /* [pieces + 1] */
    uint32_t *at;    /* positions */
} uses;

struct ff_future {
    const ff_loader_settings *settings;
    uint32_t *first_piece; /* [shards + 1] */
    pthread_mutex_t mutex; /* of all below */
    uint64_t *done;        /* [pieces]: the first time that is not done with */
    uses uses[2];          /* of the epoch that is read, and of the next */
    uint32_t epoch;
    uint64_t position;
    bool last; /* there is no next epoch */
};

static void count_use(void *context, uint32_t piece, uint32_t position) {
    uses *to = context;
    (void)position;
    to->begin[piece + 1]++;
}

static void put_use(void *context, uint32_t piece, uint32_t position) {
    uses *to = context;
    to->at[to->begin[piece]++] = position;
}

/* A piece that is copied into memory is used once in a group of blocks. */
static ff_status walk(const ff_future *future, uint32_t epoch, ff_uses_take *take, uses *to) {
    const ff_loader_settings *settings = future->settings;
    return ff_uses_walk(settings, future->first_piece, epoch,
                        ff_uses_groups(settings) && !settings->ahead.in_cache, take, to, NULL);
}

/* Counts, adds up, and puts: each piece's begin ends where the next one's stood, and is moved back.
 */
static ff_status make(const ff_future *future, uses *to, uint32_t epoch) {
    const uint32_t pieces = future->first_piece[ff_dataset_shard_count(future->settings->dataset)];
    uint64_t all = 0;
    free(to->begin);
    free(to->at);
    *to = (uses){.epoch = epoch, .made = true, .failed = true};
    FF_TRY(ff_alloc(&to->begin, (uint64_t)pieces + 1, sizeof *to->begin, "an order", NULL));
    FF_TRY(walk(future, epoch, count_use, to));
    for (uint32_t p = 0; p < pieces; p++) all += to->begin[p + 1];
    if (all > UINT32_MAX) return FF_NO_MEMORY;
    for (uint32_t p = 0; p < pieces; p++) to->begin[p + 1] += to->begin[p];
    FF_TRY(ff_alloc(&to->at, all, sizeof *to->at, "an order", NULL));
    FF_TRY(walk(future, epoch, put_use, to));
    for (uint32_t p = pieces; p > 0; p--) to->begin[p] = to->begin[p - 1];
    to->begin[0] = 0;
    to->failed = false;
    return FF_OK;
}

/* The first use of a piece in an epoch at `position` or later; UINT64_MAX = none. */
static uint64_t first_use(ff_future *future, int which, uint32_t epoch, uint32_t piece,
                          uint64_t position) {
    uses *in = &future->uses[which];
    if (!in->made || in->epoch != epoch) (void)!make(future, in, epoch);
    if (in->failed) return UINT64_MAX;
    uint32_t low = in->begin[piece], high = in->begin[piece + 1];
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (in->at[middle] < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low < in->begin[piece + 1] ? epoch * future->settings->sequence.count + in->at[low]
                                      : UINT64_MAX;
}

static uint64_t next_of(void *context, uint32_t shard, uint32_t piece) {
    ff_future *future = context;
    const uint64_t count = future->settings->sequence.count;
    pthread_mutex_lock(&future->mutex);
    const uint32_t number = future->first_piece[shard] + piece,
                   last = future->epoch + !future->last;
    const uint64_t done = future->done[number], now = future->epoch * count + future->position;
    const uint64_t from = done > now ? done : now;
    uint64_t next = UINT64_MAX, position = from % count;
    for (uint32_t epoch = (uint32_t)(from / count); epoch <= last && next == UINT64_MAX; epoch++) {
        next = first_use(future, (int)(epoch % 2), epoch, number, position);
        position = 0;
    }
    pthread_mutex_unlock(&future->mutex);
    return next;
}

void ff_future_done(ff_future *future, const ff_sequence *sequence, uint32_t shard, uint32_t piece,
                    uint64_t number) {
    const ff_sequence_batch batch = ff_sequence_at(sequence, number);
    pthread_mutex_lock(&future->mutex);
    future->done[future->first_piece[shard] + piece] =
        batch.epoch * sequence->count + batch.global_position + batch.global_count;
    pthread_mutex_unlock(&future->mutex);
}

void ff_future_move(ff_future *future, const ff_sequence *sequence, uint64_t number) {
    const ff_sequence_batch batch = ff_sequence_at(sequence, number);
    const uint64_t left = sequence->total_batches - number;
    pthread_mutex_lock(&future->mutex);
    future->epoch = batch.epoch;
    future->position = batch.global_position;
    future->last =
        sequence->total_batches != UINT64_MAX &&
        left <= (sequence->count - batch.global_position) / sequence->batch * sequence->cuts;
    pthread_mutex_unlock(&future->mutex);
}

ff_status ff_future_create(ff_future **out, const ff_loader_settings *settings, ff_error *error) {
    ff_future *future;
    ff_status status;
    FF_TRY(ff_alloc(&future, 1, sizeof *future, "an order", error));
    *out = future;
    future->settings = settings;
    pthread_mutex_init(&future->mutex, NULL);
    FF_TRY_DONE(ff_uses_number(&future->first_piece, settings->dataset, error));
    FF_TRY_DONE(ff_alloc(&future->done,
                         future->first_piece[ff_dataset_shard_count(settings->dataset)],
                         sizeof *future->done, "an order", error));
    ff_future_move(future, &settings->sequence, 0);
    ff_dataset_foresee(settings->dataset, next_of, future);
    return FF_OK;
done:
    ff_future_destroy(out);
    return status;
}

void ff_future_destroy(ff_future **out) {
    ff_future *future = *out;
    if (!future) return;
    ff_dataset_foresee(future->settings->dataset, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        free(future->uses[i].begin);
        free(future->uses[i].at);
    }
    free(future->first_piece);
    free(future->done);
    pthread_mutex_destroy(&future->mutex);
    free(future);
    *out = NULL;
}
