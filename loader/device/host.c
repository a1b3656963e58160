#include "loader/device/host.h"

#include "format/base/memory.h"
#include "format/base/thread.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum work_kind { COPY, FILL, CALL, RECORD, WAIT } work_kind;

typedef struct work {
    struct work *next;
    work_kind kind;
    uint8_t value;
    void *to; /* copy, fill */
    const void *from;
    uint64_t bytes;
    void (*function)(void *context); /* call */
    void *context;
    ff_event *event; /* record, wait */
    uint64_t generation;
} work;

/* An event's generations count its records. The event is done when the work enqueued before its
 * last record is done. */
struct ff_event {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t recorded, done; /* numbers of records enqueued and reached */
    uint64_t done_ns;
    bool timed;
};

/* A queue of work and a thread that runs it in order; without a thread, work runs at the call. */
struct ff_stream {
    ff_threads *thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    work *head, **tail;
    uint64_t given, done; /* numbers of pieces of work */
    bool stop;
};

/* ---- memory ---- */

static void host_destroy(ff_device *device) {
    free(device);
}

static ff_status host_memory(ff_device *device, uint64_t *free_bytes, uint64_t *total_bytes,
                             ff_error *error) {
    (void)device;
    long page = sysconf(_SC_PAGESIZE), total = sysconf(_SC_PHYS_PAGES);
    long available = sysconf(_SC_AVPHYS_PAGES);
    if (page <= 0 || total <= 0 || available < 0)
        return ff_fail(error, FF_FAILED, "sysconf does not return the size of memory");
    *free_bytes = (uint64_t)available * (uint64_t)page;
    *total_bytes = (uint64_t)total * (uint64_t)page;
    return FF_OK;
}

static ff_status host_allocate(ff_device *device, void **memory, uint64_t bytes, const char *what,
                               ff_error *error) {
    (void)device;
    return ff_alloc_huge(memory, bytes, 256, what, error);
}

static void host_release(ff_device *device, void *memory) {
    (void)device;
    free(memory);
}

static ff_status host_make_current(ff_device *device, ff_error *error) {
    (void)device, (void)error;
    return FF_OK;
}

static int host_current(ff_device *device) {
    (void)device;
    return 0;
}

static void host_restore(ff_device *device, int ordinal) {
    (void)device, (void)ordinal;
}

/* ---- events ---- */

static ff_status host_event_create(ff_device *device, ff_event **out, bool timed, ff_error *error) {
    (void)device;
    ff_event *event;
    *out = NULL;
    FF_TRY(ff_alloc(&event, 1, sizeof *event, "an event", error));
    event->timed = timed;
    pthread_mutex_init(&event->mutex, NULL);
    pthread_cond_init(&event->changed, NULL);
    *out = event;
    return FF_OK;
}

static void host_event_destroy(ff_device *device, ff_event *event) {
    (void)device;
    if (!event) return;
    pthread_cond_destroy(&event->changed);
    pthread_mutex_destroy(&event->mutex);
    free(event);
}

static uint64_t last_record(ff_event *event) {
    pthread_mutex_lock(&event->mutex);
    const uint64_t generation = event->recorded;
    pthread_mutex_unlock(&event->mutex);
    return generation;
}

static void await(ff_event *event, uint64_t generation) {
    pthread_mutex_lock(&event->mutex);
    while (event->done < generation) pthread_cond_wait(&event->changed, &event->mutex);
    pthread_mutex_unlock(&event->mutex);
}

static void reach(ff_event *event, uint64_t generation) {
    pthread_mutex_lock(&event->mutex);
    if (generation > event->done) {
        event->done = generation;
        event->done_ns = ff_now_ns();
    }
    pthread_cond_broadcast(&event->changed);
    pthread_mutex_unlock(&event->mutex);
}

static ff_status host_event_synchronize(ff_device *device, ff_event *event, ff_error *error) {
    (void)device, (void)error;
    await(event, last_record(event));
    return FF_OK;
}

static bool host_event_done(ff_device *device, ff_event *event) {
    (void)device;
    pthread_mutex_lock(&event->mutex);
    const bool done = event->done >= event->recorded;
    pthread_mutex_unlock(&event->mutex);
    return done;
}

static ff_status host_elapsed(ff_device *device, ff_event *from, ff_event *to, uint64_t *ns,
                              ff_error *error) {
    (void)device;
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

/* ---- streams ---- */

static void perform(const work *piece) {
    switch (piece->kind) {
    case COPY: memcpy(piece->to, piece->from, piece->bytes); break;
    case FILL: memset(piece->to, piece->value, piece->bytes); break;
    case CALL: piece->function(piece->context); break;
    case RECORD: reach(piece->event, piece->generation); break;
    case WAIT: await(piece->event, piece->generation); break;
    }
}

static void stream_body(void *context, int index) {
    (void)index;
    ff_stream *stream = context;
    for (;;) {
        pthread_mutex_lock(&stream->mutex);
        while (!stream->head && !stream->stop) pthread_cond_wait(&stream->changed, &stream->mutex);
        work *piece = stream->head;
        if (piece) {
            stream->head = piece->next;
            if (!stream->head) stream->tail = &stream->head;
        }
        pthread_mutex_unlock(&stream->mutex);
        if (!piece) return;
        perform(piece);
        free(piece);
        pthread_mutex_lock(&stream->mutex);
        stream->done++;
        pthread_cond_broadcast(&stream->changed);
        pthread_mutex_unlock(&stream->mutex);
    }
}

static ff_status enqueue(ff_stream *stream, work piece, ff_error *error) {
    if (!stream->thread) {
        perform(&piece);
        return FF_OK;
    }
    work *copy;
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

static void host_stream_destroy(ff_device *device, ff_stream *stream) {
    (void)device;
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

static ff_status host_stream_create(ff_device *device, ff_stream **out, ff_error *error) {
    ff_stream *stream;
    *out = NULL;
    FF_TRY(ff_alloc(&stream, 1, sizeof *stream, "a stream", error));
    stream->tail = &stream->head;
    pthread_mutex_init(&stream->mutex, NULL);
    pthread_cond_init(&stream->changed, NULL);
    ff_status status = FF_OK;
    if (!device->table->unified)
        status = ff_threads_start(&stream->thread, 1, "stream", stream_body, stream, error);
    if (status != FF_OK)
        host_stream_destroy(device, stream);
    else
        *out = stream;
    return status;
}

static ff_status host_stream_synchronize(ff_device *device, ff_stream *stream, ff_error *error) {
    (void)device, (void)error;
    pthread_mutex_lock(&stream->mutex);
    uint64_t given = stream->given;
    while (stream->done < given) pthread_cond_wait(&stream->changed, &stream->mutex);
    pthread_mutex_unlock(&stream->mutex);
    return FF_OK;
}

static ff_status host_event_record(ff_device *device, ff_event *event, ff_stream *stream,
                                   ff_error *error) {
    (void)device;
    pthread_mutex_lock(&event->mutex);
    const uint64_t generation = ++event->recorded;
    pthread_mutex_unlock(&event->mutex);
    ff_status status =
        enqueue(stream, (work){.kind = RECORD, .event = event, .generation = generation}, error);
    if (status != FF_OK) reach(event, generation); /* or its waiters would hang */
    return status;
}

static ff_status host_stream_wait(ff_device *device, ff_stream *stream, ff_event *event,
                                  ff_error *error) {
    (void)device;
    work piece = {.kind = WAIT, .event = event, .generation = last_record(event)};
    return enqueue(stream, piece, error);
}

static ff_status host_copy(ff_device *device, ff_stream *stream, void *to, const void *from,
                           uint64_t bytes, ff_error *error) {
    (void)device;
    return enqueue(stream, (work){.kind = COPY, .to = to, .from = from, .bytes = bytes}, error);
}

static ff_status host_fill(ff_device *device, ff_stream *stream, void *to, uint8_t value,
                           uint64_t bytes, ff_error *error) {
    (void)device;
    return enqueue(stream, (work){.kind = FILL, .to = to, .value = value, .bytes = bytes}, error);
}

static ff_status host_call(ff_device *device, ff_stream *stream, void (*function)(void *),
                           void *context, ff_error *error) {
    (void)device;
    return enqueue(stream, (work){.kind = CALL, .function = function, .context = context}, error);
}

#define HOST_TABLE(is_unified)                                                                     \
    {                                                                                              \
        .name = "host", .unified = is_unified, .destroy = host_destroy, .memory = host_memory,     \
        .allocate = host_allocate, .release = host_release, .allocate_pinned = host_allocate,      \
        .release_pinned = host_release, .stream_create = host_stream_create,                       \
        .stream_destroy = host_stream_destroy, .stream_synchronize = host_stream_synchronize,      \
        .event_create = host_event_create, .event_destroy = host_event_destroy,                    \
        .event_record = host_event_record, .event_record_external = host_event_record,             \
        .event_synchronize = host_event_synchronize, .event_done = host_event_done,                \
        .stream_wait = host_stream_wait, .copy = host_copy, .fill = host_fill, .call = host_call,  \
        .elapsed = host_elapsed, .make_current = host_make_current, .current = host_current,       \
        .restore = host_restore,                                                                   \
    }
static const ff_device_table caller_table = HOST_TABLE(true);
static const ff_device_table threads_table = HOST_TABLE(false);

ff_status ff_device_host_create(ff_device **out, ff_host_streams streams, ff_error *error) {
    FF_TRY(ff_alloc(out, 1, sizeof **out, "a device", error));
    (*out)->table = streams == FF_HOST_STREAMS_THREADS ? &threads_table : &caller_table;
    return FF_OK;
}
