#include "loader/device/host_stream.h"

#include "format/base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

void ff_host_event_await(ff_event *event, uint64_t generation) {
    pthread_mutex_lock(&event->mutex);
    while (event->done < generation) pthread_cond_wait(&event->changed, &event->mutex);
    pthread_mutex_unlock(&event->mutex);
}

/* xorshift64*: the delays only need to vary. */
static uint64_t next_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

ff_delays ff_host_delays(uint64_t most_ns, uint64_t seed) {
    return (ff_delays){most_ns, seed * UINT64_C(0x9e3779b97f4a7c15) | 1};
}

static void maybe_delay(ff_delays *delays) {
    if (delays->most_ns == 0) return;
    uint64_t random = next_random(&delays->random) >> 16;
    if (random % 4 != 0) return;
    uint64_t ns = (random >> 2) % delays->most_ns;
    struct timespec pause = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    nanosleep(&pause, NULL);
}

void ff_host_perform(ff_delays *delays, const ff_work *piece, uint64_t generation) {
    maybe_delay(delays);
    switch (piece->kind) {
    case FF_WORK_COPY: memcpy(piece->to, piece->from, piece->bytes); break;
    case FF_WORK_FILL: memset(piece->to, piece->value, piece->bytes); break;
    case FF_WORK_CALL: piece->function(piece->context); break;
    case FF_WORK_RECORD: ff_host_event_reach(piece->event, generation); break;
    case FF_WORK_WAIT: ff_host_event_await(piece->event, generation); break;
    }
}

static void stream_body(void *context, int index) {
    (void)index;
    ff_stream *stream = context;
    for (;;) {
        pthread_mutex_lock(&stream->mutex);
        while (!stream->head && !stream->stop) pthread_cond_wait(&stream->changed, &stream->mutex);
        ff_work *piece = stream->head;
        if (piece) {
            stream->head = piece->next;
            if (!stream->head) stream->tail = &stream->head;
        }
        pthread_mutex_unlock(&stream->mutex);
        if (!piece) return;
        ff_host_perform(&stream->delays, piece, piece->generation);
        if (piece->release) piece->release(piece->context);
        free(piece);
        pthread_mutex_lock(&stream->mutex);
        stream->done++;
        pthread_cond_broadcast(&stream->changed);
        pthread_mutex_unlock(&stream->mutex);
    }
}

ff_status ff_host_stream_give(ff_stream *stream, ff_work piece, ff_error *error) {
    if (stream->capture) return ff_host_capture_piece(stream, piece, error);
    if (!stream->thread) {
        ff_host_perform(&stream->delays, &piece, piece.generation);
        if (piece.release) piece.release(piece.context);
        return FF_OK;
    }
    ff_work *copy;
    FF_TRY(ff_alloc(&copy, 1, sizeof *copy, "work for a stream", error));
    *copy = piece;
    pthread_mutex_lock(&stream->mutex);
    *stream->tail = copy;
    stream->tail = &copy->next;
    stream->given++;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
    return FF_OK;
}

void ff_host_stream_destroy(ff_stream *stream) {
    if (!stream) return;
    pthread_mutex_lock(&stream->mutex);
    stream->stop = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
    ff_threads_join(&stream->thread);
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->mutex);
    free(stream);
}

ff_status ff_host_stream_create(ff_stream **out, bool thread, uint64_t delay_ns, uint64_t seed,
                                ff_error *error) {
    ff_stream *stream;
    *out = NULL;
    FF_TRY(ff_alloc(&stream, 1, sizeof *stream, "a stream", error));
    stream->tail = &stream->head;
    stream->seed = seed;
    stream->delays = ff_host_delays(thread ? delay_ns : 0, seed);
    pthread_mutex_init(&stream->mutex, NULL);
    pthread_cond_init(&stream->changed, NULL);
    ff_status status = FF_OK;
    if (thread) status = ff_threads_start(&stream->thread, 1, "stream", stream_body, stream, error);
    if (status != FF_OK)
        ff_host_stream_destroy(stream);
    else
        *out = stream;
    return status;
}

ff_status ff_host_stream_synchronize(ff_stream *stream, ff_error *error) {
    if (stream->capture)
        return ff_fail(error, FF_FAILED, "stream_synchronize: the stream is in a capture");
    pthread_mutex_lock(&stream->mutex);
    uint64_t given = stream->given;
    while (stream->done < given) pthread_cond_wait(&stream->changed, &stream->mutex);
    pthread_mutex_unlock(&stream->mutex);
    return FF_OK;
}

ff_status ff_host_event_create(ff_event **out, bool timed, ff_error *error) {
    ff_event *event;
    *out = NULL;
    FF_TRY(ff_alloc(&event, 1, sizeof *event, "an event", error));
    event->timed = timed;
    pthread_mutex_init(&event->mutex, NULL);
    pthread_cond_init(&event->changed, NULL);
    *out = event;
    return FF_OK;
}

void ff_host_event_destroy(ff_event *event) {
    if (!event) return;
    pthread_cond_destroy(&event->changed);
    pthread_mutex_destroy(&event->mutex);
    free(event);
}

uint64_t ff_host_event_next(ff_event *event) {
    pthread_mutex_lock(&event->mutex);
    uint64_t generation = ++event->recorded;
    event->captured = false;
    pthread_mutex_unlock(&event->mutex);
    return generation;
}

void ff_host_event_reach(ff_event *event, uint64_t generation) {
    pthread_mutex_lock(&event->mutex);
    if (generation > event->done) {
        event->done = generation;
        event->done_ns = ff_now_ns();
    }
    pthread_cond_broadcast(&event->changed);
    pthread_mutex_unlock(&event->mutex);
}

ff_status ff_host_event_record(ff_event *event, ff_stream *stream, bool external, ff_error *error) {
    if (stream->capture) return ff_host_capture_record(event, stream, external, error);
    uint64_t generation = ff_host_event_next(event);
    ff_work piece = {.kind = FF_WORK_RECORD, .event = event, .generation = generation};
    ff_status status = ff_host_stream_give(stream, piece, error);
    if (status != FF_OK) ff_host_event_reach(event, generation); /* or its waiters would hang */
    return status;
}

/* *generation = the event's last record; fails if that record was in a capture. */
static ff_status recorded(const char *call, ff_event *event, uint64_t *generation,
                          ff_error *error) {
    pthread_mutex_lock(&event->mutex);
    *generation = event->recorded;
    bool captured = event->captured;
    pthread_mutex_unlock(&event->mutex);
    if (captured)
        return ff_fail(error, FF_FAILED, "%s: the event was last recorded in a capture", call);
    return FF_OK;
}

ff_status ff_host_event_synchronize(ff_event *event, ff_error *error) {
    uint64_t generation;
    FF_TRY(recorded("event_synchronize", event, &generation, error));
    ff_host_event_await(event, generation);
    return FF_OK;
}

bool ff_host_event_done(ff_event *event) {
    pthread_mutex_lock(&event->mutex);
    bool done = event->done >= event->recorded && !event->captured;
    pthread_mutex_unlock(&event->mutex);
    return done;
}

ff_status ff_host_stream_wait(ff_stream *stream, ff_event *event, ff_error *error) {
    pthread_mutex_lock(&event->mutex);
    bool capture = event->captured && event->capture;
    pthread_mutex_unlock(&event->mutex);
    if (stream->capture || capture) return ff_host_capture_wait(stream, event, error);
    ff_work piece = {.kind = FF_WORK_WAIT, .event = event};
    FF_TRY(recorded("stream_wait", event, &piece.generation, error));
    return ff_host_stream_give(stream, piece, error);
}

ff_status ff_host_event_elapsed(ff_event *from, ff_event *to, uint64_t *ns, ff_error *error) {
    uint64_t at[2];
    ff_event *event[2] = {from, to};
    for (int i = 0; i < 2; i++) {
        pthread_mutex_lock(&event[i]->mutex);
        bool done = event[i]->timed && event[i]->done && event[i]->done >= event[i]->recorded;
        at[i] = event[i]->done_ns;
        pthread_mutex_unlock(&event[i]->mutex);
        if (!done)
            return ff_fail(error, FF_FAILED, "elapsed: an event is not %s",
                           event[i]->timed ? "recorded and done" : "a timed one");
    }
    *ns = at[1] > at[0] ? at[1] - at[0] : 0;
    return FF_OK;
}
