#include "loader/host/ahead/warm.h"

#include "format/base/thread.h"

#include <stdlib.h>

/* Two of these requests are at the disk at the same time. */
#define CHUNK_BYTES (UINT64_C(4) << 20)
#define LEAD_BYTES  (UINT64_C(256) << 20)
enum { LEAD_TIMES = 16, LOOKS = 64 };

struct ff_warm {
    ff_dataset *dataset;
    uint64_t begin; /* this share's place in the bytes of all shards */
    pthread_mutex_t mutex;
    pthread_cond_t used;
    double sample_bytes;
    uint64_t read, rows; /* bytes asked for; rows that the loader has used */
    bool stop;
    ff_threads *thread;
};

static uint64_t bytes_of(ff_dataset *dataset, uint32_t number) {
    ff_shard_info shard = {0};
    (void)!ff_dataset_shard(dataset, number, &shard, NULL);
    return shard.file_bytes;
}

/* At places that are spread over all shards. */
static bool all_in_memory(ff_dataset *dataset) {
    const uint32_t shards = ff_dataset_shard_count(dataset);
    const uint32_t step = shards > LOOKS ? shards / LOOKS : 1;
    const uint32_t looks = shards < LOOKS ? LOOKS / shards : 1;
    for (uint32_t i = 0; i < shards; i += step) {
        const uint64_t part = bytes_of(dataset, i) / looks;
        for (uint32_t k = 0; k < looks; k++)
            if (!ff_dataset_has_page(dataset, i, part * k + part / 2)) return false;
    }
    return true;
}

/* Waits until the loader has used enough for another chunk; false: stop. */
static bool may_read(ff_warm *warm) {
    pthread_mutex_lock(&warm->mutex);
    while (!warm->stop && warm->read > LEAD_BYTES + LEAD_TIMES * (uint64_t)((double)warm->rows *
                                                                            warm->sample_bytes))
        pthread_cond_wait(&warm->used, &warm->mutex);
    const bool goes_on = !warm->stop;
    warm->read += CHUNK_BYTES;
    pthread_mutex_unlock(&warm->mutex);
    return goes_on;
}

/* Reads one shard from `begin` to `end`, and waits for each chunk while the disk reads the next. */
static bool read_shard(ff_warm *warm, uint32_t number, uint64_t begin, uint64_t end) {
    ff_dataset *dataset = warm->dataset;
    for (uint64_t at = begin; at < end; at += CHUNK_BYTES) {
        if (!may_read(warm)) return false;
        ff_dataset_fetch(dataset, number, at, end - at < CHUNK_BYTES ? end - at : CHUNK_BYTES);
        if (at > begin) ff_dataset_await_page(dataset, number, at - 1);
    }
    if (end > begin) ff_dataset_await_page(dataset, number, end - 1);
    return true;
}

/* From this share's place to the end of all shards, then from the first to that place. */
static void warm_all(void *context, int index) {
    ff_warm *warm = context;
    const uint32_t shards = ff_dataset_shard_count(warm->dataset);
    uint64_t before = 0, begin = warm->begin;
    (void)index;
    if (all_in_memory(warm->dataset)) return;
    for (int turn = 0; turn < 2; turn++, before = 0)
        for (uint32_t i = 0; i < shards; i++) {
            const uint64_t bytes = bytes_of(warm->dataset, i);
            const uint64_t split = begin < before           ? 0
                                   : begin - before > bytes ? bytes
                                                            : begin - before;
            before += bytes;
            if (!read_shard(warm, i, turn ? 0 : split, turn ? split : bytes)) return;
        }
}

void ff_warm_create(ff_warm **out, const ff_loader_settings *settings) {
    ff_warm *warm;
    *out = NULL;
    /* If few samples of the set are wanted, most of what is read would not be used. */
    if (settings->direct || !settings->threads || settings->count <= settings->stored / 2 ||
        ff_alloc(&warm, 1, sizeof *warm, "warming", NULL) != FF_OK)
        return;
    const ff_sequence *sequence = &settings->sequence;
    warm->dataset = settings->dataset;
    warm->begin = (uint64_t)((double)sequence->share_begin / (double)sequence->batch *
                             (double)settings->shard_bytes);
    warm->sample_bytes = (double)settings->shard_bytes / (double)settings->stored;
    pthread_mutex_init(&warm->mutex, NULL);
    pthread_cond_init(&warm->used, NULL);
    if (ff_threads_start_small(&warm->thread, 1, "warm", warm_all, warm, NULL) != FF_OK)
        ff_warm_destroy(&warm);
    *out = warm;
}

void ff_warm_destroy(ff_warm **out) {
    ff_warm *warm = *out;
    if (!warm) return;
    pthread_mutex_lock(&warm->mutex);
    warm->stop = true;
    pthread_cond_signal(&warm->used);
    pthread_mutex_unlock(&warm->mutex);
    ff_threads_join(&warm->thread);
    pthread_cond_destroy(&warm->used);
    pthread_mutex_destroy(&warm->mutex);
    free(warm);
    *out = NULL;
}

void ff_warm_used(ff_warm *warm, uint64_t rows) {
    if (!warm) return;
    pthread_mutex_lock(&warm->mutex);
    warm->rows += rows;
    pthread_cond_signal(&warm->used);
    pthread_mutex_unlock(&warm->mutex);
}
