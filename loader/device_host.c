#include "loader/device_host.h"

#include "format/base/memory.h"
#include "format/base/thread.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct host_device {
    ff_device base;
    ff_host_streams streams;
    uint64_t delay_ns;
    atomic_uint_fast64_t seed; /* a stream's own follows from it */
} host_device;

/* Generations: an event is done when the work given before its last recording is. */
struct ff_event {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t recorded, done; /* numbers of recordings asked for and reached */
    uint64_t done_ns;
};

typedef enum work_kind { WORK_COPY, WORK_FILL, WORK_CALL, WORK_RECORD, WORK_WAIT } work_kind;

typedef struct work {
    struct work *next;
    work_kind kind;
    void *to; /* copy, fill */
    const void *from;
    uint64_t bytes;
    uint8_t value;
    void (*function)(void *context); /* call */
    void *context;
    ff_event *event; /* record, wait */
    uint64_t generation;
} work;

struct ff_stream {
    host_device *device;
    ff_threads *thread; /* NULL: work runs in the caller */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    work *head, **tail;
    uint64_t given, done; /* pieces of work */
    uint64_t random;
    bool stop;
};

static void event_reach(ff_event *event, uint64_t generation) {
    pthread_mutex_lock(&event->mutex);
    if (generation > event->done) {
        event->done = generation;
        event->done_ns = ff_now_ns();
    }
    pthread_cond_broadcast(&event->changed);
    pthread_mutex_unlock(&event->mutex);
}

static void event_await(ff_event *event, uint64_t generation) {
    pthread_mutex_lock(&event->mutex);
    while (event->done < generation) pthread_cond_wait(&event->changed, &event->mutex);
    pthread_mutex_unlock(&event->mutex);
}

static void perform(const work *piece) {
    switch (piece->kind) {
    case WORK_COPY: memcpy(piece->to, piece->from, piece->bytes); break;
    case WORK_FILL: memset(piece->to, piece->value, piece->bytes); break;
    case WORK_CALL: piece->function(piece->context); break;
    case WORK_RECORD: event_reach(piece->event, piece->generation); break;
    case WORK_WAIT: event_await(piece->event, piece->generation); break;
    }
}

/* xorshift64*: the delays only have to differ. */
static uint64_t next_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static void maybe_delay(ff_stream *stream) {
    uint64_t random = next_random(&stream->random) >> 16;
    if (stream->device->delay_ns == 0 || random % 4 != 0) return;
    uint64_t ns = (random >> 2) % stream->device->delay_ns;
    struct timespec pause = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    nanosleep(&pause, NULL);
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
        maybe_delay(stream);
        perform(piece);
        free(piece);
        pthread_mutex_lock(&stream->mutex);
        stream->done++;
        pthread_cond_broadcast(&stream->changed);
        pthread_mutex_unlock(&stream->mutex);
    }
}

static ff_status give(ff_stream *stream, work piece, ff_error *error) {
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

static void host_destroy(ff_device *device) {
    free(device);
}

static ff_status host_memory(ff_device *device, uint64_t *free_bytes, uint64_t *total_bytes,
                             ff_error *error) {
    (void)device;
    long page = sysconf(_SC_PAGESIZE), total = sysconf(_SC_PHYS_PAGES);
    long available = sysconf(_SC_AVPHYS_PAGES);
    if (page <= 0 || total <= 0 || available < 0)
        return ff_fail(error, FF_FAILED, "sysconf does not tell the size of memory");
    *free_bytes = (uint64_t)available * (uint64_t)page;
    *total_bytes = (uint64_t)total * (uint64_t)page;
    return FF_OK;
}

static ff_status host_allocate(ff_device *device, void **memory, uint64_t bytes, const char *what,
                               ff_error *error) {
    (void)device;
    return ff_alloc_aligned(memory, bytes, 1, 256, what, error);
}

static void host_release(ff_device *device, void *memory) {
    (void)device;
    free(memory);
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

static ff_status host_stream_create(ff_device *base, ff_stream **out, ff_error *error) {
    host_device *device = (host_device *)base;
    ff_stream *stream;
    *out = NULL;
    FF_TRY(ff_alloc(&stream, 1, sizeof *stream, "a stream", error));
    stream->device = device;
    stream->tail = &stream->head;
    stream->random = atomic_fetch_add(&device->seed, 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    pthread_mutex_init(&stream->mutex, NULL);
    pthread_cond_init(&stream->changed, NULL);
    ff_status status = FF_OK;
    if (device->streams == FF_HOST_STREAMS_THREADS)
        status = ff_threads_start(&stream->thread, 1, "stream", stream_body, stream, error);
    if (status != FF_OK)
        host_stream_destroy(base, stream);
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

static ff_status host_event_create(ff_device *device, ff_event **out, ff_error *error) {
    (void)device;
    ff_event *event;
    *out = NULL;
    FF_TRY(ff_alloc(&event, 1, sizeof *event, "an event", error));
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

static ff_status host_event_record(ff_device *device, ff_event *event, ff_stream *stream,
                                   ff_error *error) {
    (void)device;
    pthread_mutex_lock(&event->mutex);
    uint64_t generation = ++event->recorded;
    pthread_mutex_unlock(&event->mutex);
    ff_status status =
        give(stream, (work){.kind = WORK_RECORD, .event = event, .generation = generation}, error);
    if (status != FF_OK) event_reach(event, generation); /* or its waiters would hang */
    return status;
}

static uint64_t event_recorded(ff_event *event) {
    pthread_mutex_lock(&event->mutex);
    uint64_t recorded = event->recorded;
    pthread_mutex_unlock(&event->mutex);
    return recorded;
}

static ff_status host_event_synchronize(ff_device *device, ff_event *event, ff_error *error) {
    (void)device, (void)error;
    event_await(event, event_recorded(event));
    return FF_OK;
}

static bool host_event_done(ff_device *device, ff_event *event) {
    (void)device;
    pthread_mutex_lock(&event->mutex);
    bool done = event->done >= event->recorded;
    pthread_mutex_unlock(&event->mutex);
    return done;
}

static ff_status host_stream_wait(ff_device *device, ff_stream *stream, ff_event *event,
                                  ff_error *error) {
    (void)device;
    work piece = {.kind = WORK_WAIT, .event = event, .generation = event_recorded(event)};
    return give(stream, piece, error);
}

static ff_status host_copy(ff_device *device, ff_stream *stream, void *to, const void *from,
                           uint64_t bytes, ff_error *error) {
    (void)device;
    return give(stream, (work){.kind = WORK_COPY, .to = to, .from = from, .bytes = bytes}, error);
}

static ff_status host_fill(ff_device *device, ff_stream *stream, void *to, uint8_t value,
                           uint64_t bytes, ff_error *error) {
    (void)device;
    return give(stream, (work){.kind = WORK_FILL, .to = to, .value = value, .bytes = bytes}, error);
}

static ff_status host_call(ff_device *device, ff_stream *stream, void (*function)(void *),
                           void *context, ff_error *error) {
    (void)device;
    return give(stream, (work){.kind = WORK_CALL, .function = function, .context = context}, error);
}

static ff_status host_elapsed(ff_device *device, ff_event *from, ff_event *to, uint64_t *ns,
                              ff_error *error) {
    if (!host_event_done(device, from) || !host_event_done(device, to))
        return ff_fail(error, FF_FAILED, "elapsed: an event is not done");
    *ns = to->done_ns - from->done_ns;
    return FF_OK;
}

#define HOST_TABLE(is_unified)                                                                     \
    {                                                                                              \
        .name = "host", .unified = is_unified, .destroy = host_destroy, .memory = host_memory,     \
        .allocate = host_allocate, .release = host_release, .allocate_pinned = host_allocate,      \
        .release_pinned = host_release, .stream_create = host_stream_create,                       \
        .stream_destroy = host_stream_destroy, .stream_synchronize = host_stream_synchronize,      \
        .event_create = host_event_create, .event_destroy = host_event_destroy,                    \
        .event_record = host_event_record, .event_synchronize = host_event_synchronize,            \
        .event_done = host_event_done, .stream_wait = host_stream_wait, .copy = host_copy,         \
        .fill = host_fill, .call = host_call, .elapsed = host_elapsed,                             \
    }
static const ff_device_table caller_table = HOST_TABLE(true);
static const ff_device_table threads_table = HOST_TABLE(false);

ff_status ff_device_host_create(ff_device **out, ff_host_streams streams, uint64_t delay_ns,
                                uint64_t seed, ff_error *error) {
    host_device *device;
    *out = NULL;
    FF_TRY(ff_alloc(&device, 1, sizeof *device, "a device", error));
    device->base.table = streams == FF_HOST_STREAMS_THREADS ? &threads_table : &caller_table;
    device->streams = streams;
    device->delay_ns = delay_ns;
    atomic_init(&device->seed, seed + 1);
    *out = &device->base;
    return FF_OK;
}
