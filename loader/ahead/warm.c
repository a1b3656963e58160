#include "loader/ahead/warm.h"

#include "format/base/path.h"
#include "format/base/thread.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

/* The kernel takes up to a device's read-ahead (128 KiB by default) of one advice. */
#define ADVICE_BYTES (UINT64_C(128) << 10)
/* At the disk at the same time: two of these. */
#define CHUNK_BYTES (UINT64_C(4) << 20)
#define LEAD_BYTES  (UINT64_C(256) << 20)
enum { LEAD_TIMES = 16, LOOKS = 64 };

struct ff_warm {
    const ff_loader_settings *settings;
    pthread_mutex_t mutex;
    pthread_cond_t used;
    double sample_bytes;
    uint64_t read, rows; /* bytes asked for; rows that the loader has used */
    bool stop;
    ff_threads *thread;
};

static int open_shard(const ff_loader_settings *settings, uint32_t number, uint64_t *bytes) {
    ff_shard_info shard;
    char *path;
    if (ff_dataset_shard(settings->dataset, number, &shard, NULL) != FF_OK ||
        ff_path_join(&path, ff_dataset_path(settings->dataset), shard.name, NULL) != FF_OK)
        return -1;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    free(path);
    *bytes = shard.file_bytes;
    return file;
}

/* Whether the byte at `offset` is in memory; false, too, where the file system does not say. */
static bool is_in_memory(int file, uint64_t offset) {
    char byte;
    const struct iovec to = {&byte, 1};
    return preadv2(file, &to, 1, (off_t)offset, RWF_NOWAIT) == 1;
}

/* At places that are spread over all shards. */
static bool all_in_memory(const ff_loader_settings *settings) {
    const uint32_t shards = ff_dataset_shard_count(settings->dataset);
    const uint32_t step = shards > LOOKS ? shards / LOOKS : 1;
    const uint32_t looks = shards < LOOKS ? LOOKS / shards : 1;
    for (uint32_t i = 0; i < shards; i += step) {
        uint64_t bytes;
        const int file = open_shard(settings, i, &bytes);
        if (file < 0) continue;
        bool all = true;
        for (uint32_t k = 0; k < looks && all; k++)
            all = is_in_memory(file, bytes / looks * k + bytes / looks / 2);
        close(file);
        if (!all) return false;
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

static void ask_for(int file, uint64_t begin, uint64_t end) {
    for (uint64_t at = begin; at < end; at += ADVICE_BYTES)
        (void)!posix_fadvise(file, (off_t)at, (off_t)ADVICE_BYTES, POSIX_FADV_WILLNEED);
}

/* Of one shard from `begin` to `end`; waits for each chunk while the next one is at the disk. */
static bool read_shard(ff_warm *warm, int file, uint64_t begin, uint64_t end) {
    char byte;
    for (uint64_t at = begin; at < end; at += CHUNK_BYTES) {
        if (!may_read(warm)) return false;
        ask_for(file, at, at + CHUNK_BYTES < end ? at + CHUNK_BYTES : end);
        if (at > begin) (void)!pread(file, &byte, 1, (off_t)at - 1);
    }
    if (end > begin) (void)!pread(file, &byte, 1, (off_t)end - 1);
    return true;
}

/* From this share's place to the end of all shards, then from the first to that place. */
static void warm_all(void *context, int index) {
    ff_warm *warm = context;
    const ff_loader_settings *settings = warm->settings;
    const ff_sequence *sequence = &settings->sequence;
    const uint32_t shards = ff_dataset_shard_count(settings->dataset);
    const double place =
        (double)sequence->share_begin / (double)sequence->batch * (double)settings->shard_bytes;
    uint64_t before = 0, begin = (uint64_t)place, bytes;
    (void)index;
    for (int turn = 0; turn < 2; turn++, before = 0)
        for (uint32_t i = 0; i < shards; i++) {
            const int file = open_shard(settings, i, &bytes);
            if (file < 0) continue;
            const uint64_t split = begin < before           ? 0
                                   : begin - before > bytes ? bytes
                                                            : begin - before;
            const bool goes_on = read_shard(warm, file, turn ? 0 : split, turn ? split : bytes);
            close(file);
            before += bytes;
            if (!goes_on) return;
        }
}

void ff_warm_create(ff_warm **out, const ff_loader_settings *settings) {
    ff_warm *warm;
    *out = NULL;
    if (settings->direct || !settings->threads || !settings->count || all_in_memory(settings) ||
        ff_alloc(&warm, 1, sizeof *warm, "warming", NULL) != FF_OK)
        return;
    warm->settings = settings;
    warm->sample_bytes = (double)settings->shard_bytes / (double)settings->count;
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
