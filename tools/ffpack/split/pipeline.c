#include "tools/ffpack/split/pipeline.h"

#include "format/base/memory.h"
#include "format/base/thread.h"

#include <stdlib.h>
#include <time.h>

typedef struct slot_state {
    bool ready;
    ff_error error; /* status FF_OK if the unit was made */
} slot_state;

/* Unit n is in slot n % slot_count from its start until it is taken; so a worker may start n only
 * while n < taken + slot_count, and the lowest unit always has its slot. */
typedef struct run {
    const ff_pipeline *pipeline;
    pthread_mutex_t mutex;
    pthread_cond_t room, ready;
    uint64_t next;  /* to begin */
    uint64_t taken; /* all below are taken */
    bool stop;
    slot_state *slot;
} run;

static void worker_main(void *argument, int index) {
    run *job = argument;
    const ff_pipeline *pipeline = job->pipeline;
    pthread_mutex_lock(&job->mutex);
    for (;;) {
        while (!job->stop && job->next < pipeline->end &&
               job->next >= job->taken + pipeline->slot_count)
            pthread_cond_wait(&job->room, &job->mutex);
        if (job->stop || job->next >= pipeline->end) break;
        uint64_t number = job->next++;
        size_t place = number % pipeline->slot_count;
        slot_state *slot = &job->slot[place];
        pthread_mutex_unlock(&job->mutex);
        slot->error.status = FF_OK;
        ff_status status = pipeline->make(pipeline->context, index, place, number, &slot->error);
        slot->error.status = status;
        pthread_mutex_lock(&job->mutex);
        slot->ready = true;
        /* Units above a failed one are never taken; all below it have been started. */
        if (status != FF_OK) job->stop = true;
        if (number == job->taken) pthread_cond_signal(&job->ready);
    }
    pthread_mutex_unlock(&job->mutex);
}

/* Waits for unit `number`, calling watch at least ten times a second. */
static ff_status wait_for(run *job, uint64_t number, ff_error *error) {
    const ff_pipeline *pipeline = job->pipeline;
    slot_state *slot = &job->slot[number % pipeline->slot_count];
    pthread_mutex_lock(&job->mutex);
    bool ready;
    while (!(ready = slot->ready)) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += 100000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&job->ready, &job->mutex, &until);
        if (slot->ready || !pipeline->watch) continue;
        pthread_mutex_unlock(&job->mutex);
        FF_TRY(pipeline->watch(pipeline->context, error));
        pthread_mutex_lock(&job->mutex);
    }
    pthread_mutex_unlock(&job->mutex);
    return FF_OK;
}

static ff_status take_all(run *job, ff_error *error) {
    const ff_pipeline *pipeline = job->pipeline;
    for (uint64_t number = pipeline->first; number < pipeline->end; number++) {
        size_t place = number % pipeline->slot_count;
        FF_TRY(wait_for(job, number, error));
        if (pipeline->watch) FF_TRY(pipeline->watch(pipeline->context, error));
        if (job->slot[place].error.status != FF_OK) {
            if (error) *error = job->slot[place].error;
            return job->slot[place].error.status;
        }
        FF_TRY(pipeline->take(pipeline->context, place, number, error));
        pthread_mutex_lock(&job->mutex);
        job->slot[place].ready = false;
        job->taken = number + 1;
        pthread_cond_broadcast(&job->room);
        pthread_mutex_unlock(&job->mutex);
    }
    return FF_OK;
}

ff_status ff_pipeline_run(const ff_pipeline *pipeline, ff_error *error) {
    run job = {.pipeline = pipeline, .next = pipeline->first, .taken = pipeline->first};
    FF_TRY(ff_alloc(&job.slot, pipeline->slot_count, sizeof *job.slot, "a pipeline", error));
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&job.mutex, NULL);
    pthread_cond_init(&job.room, NULL);
    pthread_cond_init(&job.ready, &monotonic);
    pthread_condattr_destroy(&monotonic);
    ff_threads *threads;
    ff_status status =
        ff_threads_start(&threads, pipeline->jobs, "ffpack", worker_main, &job, error);
    if (status == FF_OK) status = take_all(&job, error);
    pthread_mutex_lock(&job.mutex);
    job.stop = true;
    pthread_cond_broadcast(&job.room);
    pthread_mutex_unlock(&job.mutex);
    ff_threads_join(&threads);
    pthread_cond_destroy(&job.room);
    pthread_cond_destroy(&job.ready);
    pthread_mutex_destroy(&job.mutex);
    free(job.slot);
    return status;
}
