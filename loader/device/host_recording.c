#include "loader/device/host_stream.h"

#include "format/base/memory.h"

#include <stdlib.h>

/* One launch, with the generations of the events that it records. */
typedef struct launch {
    ff_recording *recording;
    ff_stream *stream;
    uint64_t generation[];
} launch;

/* ---- capture ---- */

static ff_status branch_add(ff_recording *recording, ff_stream *stream, ff_error *error) {
    ff_branch *branch;
    FF_TRY(ff_alloc(&branch, 1, sizeof *branch, "a capture", error));
    *branch = (ff_branch){.next = recording->branch, .stream = stream};
    branch->delays = ff_host_delays(stream->delays.most_ns, ~stream->seed);
    ff_status status = ff_host_event_create(&branch->progress, false, error);
    if (status != FF_OK) {
        free(branch);
        return status;
    }
    if (!recording->branch) recording->first = branch;
    recording->branch = branch;
    recording->branch_count++;
    stream->capture = recording;
    stream->branch = branch;
    return FF_OK;
}

ff_status ff_host_capture_begin(ff_stream *stream, ff_error *error) {
    if (stream->capture)
        return ff_fail(error, FF_FAILED, "capture_begin: the stream is in a capture");
    ff_recording *recording;
    FF_TRY(ff_alloc(&recording, 1, sizeof *recording, "a capture", error));
    recording->tail = &recording->head;
    pthread_mutex_init(&recording->running, NULL);
    ff_status status = branch_add(recording, stream, error);
    if (status != FF_OK) ff_host_recording_destroy(recording);
    return status;
}

/* A capture in which a call failed returns no recording. */
static ff_status note(ff_recording *recording, ff_status status) {
    if (recording->status == FF_OK) recording->status = status;
    return status;
}

ff_status ff_host_capture_piece(ff_stream *stream, ff_work piece, ff_error *error) {
    ff_recording *recording = stream->capture;
    ff_work *copy;
    ff_status status = ff_alloc(&copy, 1, sizeof *copy, "work of a capture", error);
    if (status != FF_OK) return note(recording, status);
    *copy = piece;
    copy->branch = stream->branch;
    *recording->tail = copy;
    recording->tail = &copy->next;
    stream->branch->given++;
    return FF_OK;
}

ff_status ff_host_capture_record(ff_event *event, ff_stream *stream, bool external,
                                 ff_error *error) {
    ff_recording *recording = stream->capture;
    if (external) {
        ff_work piece = {
            .kind = FF_WORK_RECORD, .event = event, .generation = recording->records++};
        return ff_host_capture_piece(stream, piece, error);
    }
    pthread_mutex_lock(&event->mutex);
    if (!event->capture) {
        event->next_capture = recording->event;
        recording->event = event;
    }
    event->captured = true;
    event->capture = recording;
    event->branch = stream->branch;
    event->position = stream->branch->given;
    pthread_mutex_unlock(&event->mutex);
    return FF_OK;
}

ff_status ff_host_capture_wait(ff_stream *stream, ff_event *event, ff_error *error) {
    pthread_mutex_lock(&event->mutex);
    ff_recording *capture = event->captured ? event->capture : NULL;
    ff_branch *branch = event->branch;
    uint64_t position = event->position;
    pthread_mutex_unlock(&event->mutex);
    if (!capture || (stream->capture && stream->capture != capture)) {
        if (stream->capture) (void)note(stream->capture, FF_FAILED);
        return ff_fail(error, FF_FAILED,
                       "stream_wait: a stream in a capture waits for an event that was recorded "
                       "outside of it");
    }
    if (!stream->capture) {
        ff_status status = branch_add(capture, stream, error);
        if (status != FF_OK) return note(capture, status);
    }
    if (branch == stream->branch) return FF_OK;
    if (branch->joined < position) branch->joined = position;
    ff_work piece = {.kind = FF_WORK_WAIT, .awaited = branch, .generation = position};
    return ff_host_capture_piece(stream, piece, error);
}

/* Detaches all streams and events from the capture; returns whether all branches were joined. */
static bool leave(ff_recording *recording) {
    bool joined = true;
    for (ff_branch *branch = recording->branch; branch; branch = branch->next) {
        joined = joined && (branch == recording->first || branch->joined == branch->given);
        branch->stream->capture = NULL;
        branch->stream->branch = NULL;
    }
    for (ff_event *event = recording->event, *next; event; event = next) {
        pthread_mutex_lock(&event->mutex);
        next = event->next_capture;
        event->capture = NULL;
        event->branch = NULL;
        pthread_mutex_unlock(&event->mutex);
    }
    recording->event = NULL;
    return joined;
}

/* ---- launches ---- */

static uint64_t generation_of(const ff_recording *recording, const ff_work *piece) {
    return piece->kind == FF_WORK_RECORD ? recording->generation[piece->generation] : 0;
}

/* Items of the branch that earlier launches did. */
static uint64_t done_before(const ff_recording *recording, const ff_branch *branch) {
    return (recording->launches - 1) * branch->given;
}

static void run_branch(ff_recording *recording, ff_branch *branch, ff_delays *delays) {
    uint64_t done = done_before(recording, branch);
    for (const ff_work *piece = recording->head; piece; piece = piece->next) {
        if (piece->branch != branch) continue;
        if (piece->kind == FF_WORK_WAIT)
            ff_host_event_await(piece->awaited->progress,
                                done_before(recording, piece->awaited) + piece->generation);
        else
            ff_host_perform(delays, piece, generation_of(recording, piece));
        ff_host_event_reach(branch->progress, ++done);
    }
}

/* `launches` does not change while a branch runs: the first branch waits for all others (leave
 * checks this). */
static void branch_body(void *context, int index) {
    ff_recording *recording = context;
    ff_branch *branch = recording->branch;
    while (index--) branch = branch->next;
    for (uint64_t launches = 1;; launches++) {
        ff_host_event_await(recording->begun, launches);
        if (recording->stop) return;
        run_branch(recording, branch, &branch->delays);
    }
}

static void run_branches(ff_recording *recording, ff_delays *delays) {
    recording->launches++;
    ff_host_event_reach(recording->begun, recording->launches);
    run_branch(recording, recording->first, delays);
}

/* Runs all branches one after another, because no other thread would end a wait. */
static void run_in_order(ff_recording *recording, ff_delays *delays) {
    for (const ff_work *piece = recording->head; piece; piece = piece->next)
        if (piece->kind != FF_WORK_WAIT)
            ff_host_perform(delays, piece, generation_of(recording, piece));
}

static ff_status start_threads(ff_recording *recording, ff_error *error) {
    const int others = recording->branch_count - 1;
    if (others == 0 || !recording->first->stream->thread) return FF_OK;
    FF_TRY(ff_host_event_create(&recording->begun, false, error));
    return ff_threads_start(&recording->threads, others, "branch", branch_body, recording, error);
}

ff_status ff_host_capture_end(ff_stream *stream, ff_recording **out, ff_error *error) {
    ff_recording *recording = stream->capture;
    *out = NULL;
    if (!recording) return ff_fail(error, FF_FAILED, "capture_end: the stream is in no capture");
    bool joined = leave(recording);
    ff_status status = recording->status;
    if (status != FF_OK)
        status = ff_fail(error, status, "capture_end: a call in the capture failed");
    else if (!joined)
        status = ff_fail(error, FF_FAILED,
                         "capture_end: a stream that joined the capture has work that the first "
                         "stream did not wait for");
    else
        status = start_threads(recording, error);
    if (status != FF_OK)
        ff_host_recording_destroy(recording);
    else
        *out = recording;
    return status;
}

static void replay(void *context) {
    launch *job = context;
    ff_recording *recording = job->recording;
    pthread_mutex_lock(&recording->running);
    recording->generation = job->generation;
    if (recording->threads)
        run_branches(recording, &job->stream->delays);
    else
        run_in_order(recording, &job->stream->delays);
    pthread_mutex_unlock(&recording->running);
}

ff_status ff_host_recording_launch(ff_recording *recording, ff_stream *stream, ff_error *error) {
    if (stream->capture)
        return ff_fail(error, FF_FAILED, "recording_launch: the stream is in a capture");
    launch *job;
    uint64_t bytes = sizeof *job + recording->records * sizeof *job->generation;
    FF_TRY(ff_alloc(&job, 1, bytes, "a launch", error));
    job->recording = recording;
    job->stream = stream;
    for (const ff_work *piece = recording->head; piece; piece = piece->next)
        if (piece->kind == FF_WORK_RECORD)
            job->generation[piece->generation] = ff_host_event_next(piece->event);
    ff_work piece = {.kind = FF_WORK_CALL, .function = replay, .context = job, .release = free};
    ff_status status = ff_host_stream_give(stream, piece, error);
    if (status == FF_OK) return FF_OK;
    for (const ff_work *record = recording->head; record; record = record->next)
        if (record->kind == FF_WORK_RECORD) /* or its waiters would hang */
            ff_host_event_reach(record->event, job->generation[record->generation]);
    free(job);
    return status;
}

static void stop_threads(ff_recording *recording) {
    if (!recording->begun) return;
    recording->stop = true;
    ff_host_event_reach(recording->begun, recording->launches + 1);
    ff_threads_join(&recording->threads);
    ff_host_event_destroy(recording->begun);
}

void ff_host_recording_destroy(ff_recording *recording) {
    if (!recording) return;
    stop_threads(recording);
    for (ff_branch *branch = recording->branch, *next; branch; branch = next) {
        next = branch->next;
        ff_host_event_destroy(branch->progress);
        free(branch);
    }
    for (ff_work *piece = recording->head, *next; piece; piece = next) {
        next = piece->next;
        if (piece->release) piece->release(piece->context);
        free(piece);
    }
    pthread_mutex_destroy(&recording->running);
    free(recording);
}
