#include "tools/ffpack/split/pipeline.h"

#include "format/base/memory.h"
#include "format/base/thread.h"

#include <stdlib.h>
#include <time.h>

typedef struct unit_state {
    size_t slot;
    bool ready;
    ff_error error; /* status FF_OK if the unit was made */
} unit_state;

/* Units that are begun and not taken are consecutive and have a slot each, so the lowest one is
 * always under way. A unit is begun in the slot that became free last: its memory is in the
 * caches. */
typedef struct run {
    const ff_pipeline *pipeline;
    pthread_mutex_t mutex;
    pthread_cond_t room, ended;
    uint64_t next;  /* to begin */
    uint64_t taken; /* all below are taken */
    bool stop;      /* no unit is begun any more */
    bool busy;      /* a thread takes units, or watches */
    ff_status status;
    ff_error error; /* of the lowest unit that failed */
    size_t *free;   /* [slot_count]: slots, the last one is used first */
    size_t free_count;
    unit_state *unit; /* [slot_count]: unit n is at n % slot_count */
} run;

/* With the mutex held: whether all is taken, or has failed. */
static bool has_ended(const run *job) {
    return job->status != FF_OK || job->taken == job->pipeline->end;
}

static ff_status watch(const run *job, ff_error *error) {
    const ff_pipeline *pipeline = job->pipeline;
    return pipeline->watch ? pipeline->watch(pipeline->context, error) : FF_OK;
}

static ff_status take(const run *job, const unit_state *unit, uint64_t number, ff_error *error) {
    FF_TRY(watch(job, error));
    if (unit->error.status == FF_OK)
        return job->pipeline->take(job->pipeline->context, unit->slot, number, error);
    *error = unit->error;
    return error->status;
}

/* With the mutex held, which it releases meanwhile: takes the units that are ready, unless another
 * thread is busy with that: it takes them all. */
static void take_ready(run *job) {
    if (job->busy) return;
    job->busy = true;
    while (!has_ended(job)) {
        const uint64_t number = job->taken;
        unit_state *unit = &job->unit[number % job->pipeline->slot_count];
        if (!unit->ready) break;
        pthread_mutex_unlock(&job->mutex);
        const ff_status status = take(job, unit, number, &job->error);
        pthread_mutex_lock(&job->mutex);
        job->status = status;
        if (status != FF_OK) break;
        job->taken++;
        unit->ready = false;
        job->free[job->free_count++] = unit->slot;
        pthread_cond_signal(&job->room);
    }
    job->busy = false;
    job->stop |= job->status != FF_OK;
    if (has_ended(job)) pthread_cond_signal(&job->ended);
}

static void worker_main(void *argument, int index) {
    run *job = argument;
    const ff_pipeline *pipeline = job->pipeline;
    pthread_mutex_lock(&job->mutex);
    for (;;) {
        while (!job->stop && job->next < pipeline->end && !job->free_count)
            pthread_cond_wait(&job->room, &job->mutex);
        if (job->stop || job->next >= pipeline->end) break;
        const uint64_t number = job->next++;
        unit_state *unit = &job->unit[number % pipeline->slot_count];
        unit->slot = job->free[--job->free_count];
        pthread_mutex_unlock(&job->mutex);
        unit->error.status = FF_OK;
        const ff_status status =
            pipeline->make(pipeline->context, index, unit->slot, number, &unit->error);
        unit->error.status = status;
        pthread_mutex_lock(&job->mutex);
        unit->ready = true;
        /* Units above a failed one are never taken; all below it have been begun. */
        if (status != FF_OK) job->stop = true;
        take_ready(job);
    }
    pthread_mutex_unlock(&job->mutex);
}

/* With the mutex held: waits until the end, watching ten times a second, or as often as units are
 * taken. */
static void wait_and_watch(run *job) {
    while (!has_ended(job)) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += 100000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&job->ended, &job->mutex, &until);
        if (job->busy || has_ended(job)) continue;
        job->busy = true;
        pthread_mutex_unlock(&job->mutex);
        const ff_status status = watch(job, &job->error);
        pthread_mutex_lock(&job->mutex);
        job->status = status;
        job->busy = false;
        take_ready(job); /* became ready meanwhile */
    }
}

static void run_threads(run *job) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&job->mutex, NULL);
    pthread_cond_init(&job->room, NULL);
    pthread_cond_init(&job->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    ff_threads *threads;
    pthread_mutex_lock(&job->mutex); /* none begins before all are started */
    job->status =
        ff_threads_start(&threads, job->pipeline->jobs, "ffpack", worker_main, job, &job->error);
    wait_and_watch(job);
    job->stop = true;
    pthread_cond_broadcast(&job->room);
    pthread_mutex_unlock(&job->mutex);
    ff_threads_join(&threads);
    pthread_cond_destroy(&job->room);
    pthread_cond_destroy(&job->ended);
    pthread_mutex_destroy(&job->mutex);
}

ff_status ff_pipeline_run(const ff_pipeline *pipeline, ff_error *error) {
    run job = {.pipeline = pipeline, .next = pipeline->first, .taken = pipeline->first};
    const size_t slots = pipeline->slot_count;
    ff_status status = ff_alloc(&job.unit, slots, sizeof *job.unit, "a pipeline", error);
    if (status == FF_OK) status = ff_alloc(&job.free, slots, sizeof *job.free, "a pipeline", error);
    if (status == FF_OK) {
        for (size_t i = 0; i < slots; i++) job.free[i] = slots - 1 - i;
        job.free_count = slots;
        run_threads(&job);
        status = job.status;
        if (status != FF_OK && error) *error = job.error;
    }
    free(job.free);
    free(job.unit);
    return status;
}
