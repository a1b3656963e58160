#include "loader/host/ahead/engine.h"

#include "format/base/thread.h"

#include <stdlib.h>

/* Threads mostly wait for the disk. With random reads of 12 KiB, on a virtual disk and two busy
 * cores, 64 threads read more than 32, and 1.8 times as much as io_uring at its best depth
 * (tests/bench/RESULTS.md). */
enum { THREADS = 64 };

typedef struct array {
    ff_request *request;
    const uint32_t *order; /* or NULL */
    size_t count;
} array;

struct ff_engine {
    ff_dataset *dataset;
    ff_engine_done *done;
    void *context;
    pthread_mutex_t mutex;
    pthread_cond_t work, idle;
    array queue[FF_ENGINE_QUEUE]; /* a ring */
    unsigned first, arrays;
    int busy;
    bool stop;
    ff_queue_watch watch;
    ff_threads *threads;
};

/* The next request, or NULL; with the lock held. */
static ff_request *take(ff_engine *engine) {
    if (!engine->arrays) return NULL;
    array *from = &engine->queue[engine->first];
    ff_request *request = from->order ? &from->request[*from->order++] : from->request++;
    if (!--from->count) {
        engine->first = (engine->first + 1) % FF_ENGINE_QUEUE;
        engine->arrays--;
    }
    return request;
}

static ff_status read_request(ff_dataset *dataset, const ff_request *request) {
    const uint32_t shard = request->shard;
    const uint64_t offset = request->offset, bytes = request->bytes;
    if (!request->to) return ff_dataset_bring(dataset, shard, offset, bytes, NULL);
    return request->alone ? ff_dataset_read_alone(dataset, shard, offset, bytes, request->to, NULL)
                          : ff_dataset_read(dataset, shard, offset, bytes, request->to, NULL);
}

static void run(void *context, int index) {
    ff_engine *engine = context;
    (void)index;
    pthread_mutex_lock(&engine->mutex);
    while (!engine->stop) {
        ff_request *request = take(engine);
        if (!request) {
            pthread_cond_wait(&engine->work, &engine->mutex);
            continue;
        }
        engine->busy++;
        const ff_queue_look look = ff_queue_begin(&engine->watch);
        pthread_mutex_unlock(&engine->mutex);
        const ff_status status = read_request(engine->dataset, request);
        atomic_store(&request->state, status == FF_OK ? FF_REQUEST_READ : FF_REQUEST_FAILED);
        engine->done(engine->context, request);
        pthread_mutex_lock(&engine->mutex);
        ff_queue_end(&engine->watch, &look);
        if (!--engine->busy) pthread_cond_broadcast(&engine->idle);
    }
    pthread_mutex_unlock(&engine->mutex);
}

ff_status ff_engine_create(ff_engine **out, ff_dataset *dataset, ff_engine_done *done,
                           void *context, ff_error *error) {
    ff_engine *engine;
    *out = NULL;
    FF_TRY(ff_alloc(&engine, 1, sizeof *engine, "requests", error));
    engine->dataset = dataset;
    engine->done = done;
    engine->context = context;
    pthread_mutex_init(&engine->mutex, NULL);
    pthread_cond_init(&engine->work, NULL);
    pthread_cond_init(&engine->idle, NULL);
    const ff_status status =
        ff_threads_start_small(&engine->threads, THREADS, "read", run, engine, error);
    if (status != FF_OK) ff_engine_destroy(&engine);
    *out = engine;
    return status;
}

void ff_engine_destroy(ff_engine **out) {
    ff_engine *engine = *out;
    if (!engine) return;
    pthread_mutex_lock(&engine->mutex);
    engine->stop = true;
    pthread_cond_broadcast(&engine->work);
    pthread_mutex_unlock(&engine->mutex);
    ff_threads_join(&engine->threads);
    pthread_cond_destroy(&engine->idle);
    pthread_cond_destroy(&engine->work);
    pthread_mutex_destroy(&engine->mutex);
    free(engine);
    *out = NULL;
}

void ff_engine_submit(ff_engine *engine, ff_request *request, const uint32_t *order, size_t count) {
    if (!count) return;
    pthread_mutex_lock(&engine->mutex);
    engine->queue[(engine->first + engine->arrays++) % FF_ENGINE_QUEUE] =
        (array){.request = request, .order = order, .count = count};
    for (size_t i = 0; i < count && i < THREADS; i++) pthread_cond_signal(&engine->work);
    pthread_mutex_unlock(&engine->mutex);
}

double ff_engine_queued(ff_engine *engine) {
    pthread_mutex_lock(&engine->mutex);
    const double share = ff_queue_share(&engine->watch);
    pthread_mutex_unlock(&engine->mutex);
    return share;
}

void ff_engine_drop(ff_engine *engine) {
    pthread_mutex_lock(&engine->mutex);
    engine->arrays = 0;
    while (engine->busy) pthread_cond_wait(&engine->idle, &engine->mutex);
    pthread_mutex_unlock(&engine->mutex);
}
