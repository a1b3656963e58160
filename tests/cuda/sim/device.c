#include "tests/cuda/sim/device.h"

#include "format/base/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

typedef struct sim_device {
    ff_device base;
    ff_device *host; /* does the work */
    uint64_t delay_ns;
    atomic_uint_fast64_t seed; /* the streams' seeds derive from it */
} sim_device;

typedef struct delay_draw {
    uint64_t most_ns, random;
} delay_draw;

typedef struct branch branch;

typedef struct sim_stream {
    sim_device *device;
    ff_stream *host;
    delay_draw delays;
    ff_recording *capture; /* the stream's capture; NULL = none */
    branch *branch;        /* the stream's branch of that capture */
} sim_stream;

typedef struct sim_event {
    ff_event *host;
    pthread_mutex_t mutex;
    bool captured;                  /* last recorded in a capture: no meaning outside it */
    ff_recording *capture;          /* during that capture */
    branch *branch;                 /* the branch that recorded the event */
    uint64_t position;              /* the record's position in that branch */
    ff_event *mark;                 /* the recording's own event of that record */
    struct sim_event *next_capture; /* the capture's next event */
} sim_event;

typedef enum work_kind { COPY, FILL, CALL, RECORD, WAIT } work_kind;

typedef struct work {
    struct work *next;
    branch *branch; /* of a recording */
    work_kind kind;
    uint8_t value;
    void *to;
    const void *from;
    uint64_t bytes;
    void (*function)(void *context);
    void *context;
    void (*release)(void *context);
    ff_event *event;     /* record, wait */
    sim_event *external; /* record: the event that `event` belongs to; NULL: a recording's own */
} work;

/* The part of a recording that one stream enqueued. */
struct branch {
    branch *next;
    sim_stream *stream; /* during the capture */
    ff_stream *host;    /* runs it; NULL for the first branch: the stream of the launch */
    delay_draw delays;
    uint64_t given;  /* pieces of work, including waits */
    uint64_t joined; /* pieces that another stream of the capture waits for */
};

struct ff_recording {
    sim_device *device;
    pthread_mutex_t launching;
    work *head, **tail; /* of all branches, in the order of the capture */
    branch *first;      /* the last of the list `branches` */
    branch *branches;
    sim_event *events; /* that were recorded in the capture */
    ff_event *ended;   /* the last launch */
    ff_status status;  /* of the first call in the capture that failed */
};

static sim_device *of_device(ff_device *device) {
    return (sim_device *)device;
}
static sim_stream *of_stream(ff_stream *stream) {
    return (sim_stream *)stream;
}
static sim_event *of_event(ff_event *event) {
    return (sim_event *)event;
}

/* ---- memory ---- */

static void sim_destroy(ff_device *device) {
    ff_device_destroy(&of_device(device)->host);
    free(device);
}

static ff_status sim_memory(ff_device *device, uint64_t *free_bytes, uint64_t *total_bytes,
                            ff_error *error) {
    ff_device *host = of_device(device)->host;
    return host->table->memory(host, free_bytes, total_bytes, error);
}

static ff_status sim_allocate(ff_device *device, void **memory, uint64_t bytes, const char *what,
                              ff_error *error) {
    ff_device *host = of_device(device)->host;
    return host->table->allocate(host, memory, bytes, what, error);
}

static void sim_release(ff_device *device, void *memory) {
    ff_device *host = of_device(device)->host;
    host->table->release(host, memory);
}

static ff_status sim_make_current(ff_device *device, ff_error *error) {
    ff_device *host = of_device(device)->host;
    return host->table->make_current(host, error);
}

static int sim_current(ff_device *device) {
    ff_device *host = of_device(device)->host;
    return host->table->current(host);
}

static void sim_restore(ff_device *device, int ordinal) {
    ff_device *host = of_device(device)->host;
    host->table->restore(host, ordinal);
}

/* ---- delays ---- */

static delay_draw delays_of(const sim_device *device, uint64_t seed) {
    const uint64_t most_ns = device->host->table->unified ? 0 : device->delay_ns;
    return (delay_draw){most_ns, seed * UINT64_C(0x9e3779b97f4a7c15) | 1};
}

/* xorshift64*: the delays only need to vary. */
static uint64_t next_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static void nap(void *context) {
    const uint64_t ns = (uintptr_t)context;
    nanosleep(&(struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)}, NULL);
}

static ff_status maybe_delay(ff_device *host, ff_stream *stream, delay_draw *delays,
                             ff_error *error) {
    if (delays->most_ns == 0) return FF_OK;
    const uint64_t random = next_random(&delays->random) >> 16;
    if (random % 4 != 0) return FF_OK;
    const uintptr_t ns = (uintptr_t)((random >> 2) % delays->most_ns);
    return host->table->call(host, stream, nap, (void *)ns, error);
}

/* ---- work ---- */

static ff_status enqueue(ff_device *host, ff_stream *stream, delay_draw *delays, const work *piece,
                         ff_error *error) {
    const ff_device_table *table = host->table;
    FF_TRY(maybe_delay(host, stream, delays, error));
    switch (piece->kind) {
    case COPY: return table->copy(host, stream, piece->to, piece->from, piece->bytes, error);
    case FILL: return table->fill(host, stream, piece->to, piece->value, piece->bytes, error);
    case CALL: return table->call(host, stream, piece->function, piece->context, error);
    case WAIT: return table->stream_wait(host, stream, piece->event, error);
    case RECORD: break;
    }
    if (piece->external) {
        pthread_mutex_lock(&piece->external->mutex);
        piece->external->captured = false;
        pthread_mutex_unlock(&piece->external->mutex);
    }
    return table->event_record(host, piece->event, stream, error);
}

/* A capture in which a call failed returns no recording. */
static ff_status note(ff_recording *recording, ff_status status) {
    if (recording->status == FF_OK) recording->status = status;
    return status;
}

static ff_status record_work(sim_stream *stream, work piece, ff_error *error) {
    ff_recording *recording = stream->capture;
    work *copy;
    const ff_status status = ff_alloc(&copy, 1, sizeof *copy, "work of a capture", error);
    if (status != FF_OK) return note(recording, status);
    *copy = piece;
    copy->branch = stream->branch;
    *recording->tail = copy;
    recording->tail = &copy->next;
    return FF_OK;
}

static ff_status give(ff_stream *to, work piece, ff_error *error) {
    sim_stream *stream = of_stream(to);
    if (!stream->capture)
        return enqueue(stream->device->host, stream->host, &stream->delays, &piece, error);
    stream->branch->given++;
    return record_work(stream, piece, error);
}

static ff_status sim_copy(ff_device *device, ff_stream *stream, void *to, const void *from,
                          uint64_t bytes, ff_error *error) {
    (void)device;
    return give(stream, (work){.kind = COPY, .to = to, .from = from, .bytes = bytes}, error);
}

static ff_status sim_fill(ff_device *device, ff_stream *stream, void *to, uint8_t value,
                          uint64_t bytes, ff_error *error) {
    (void)device;
    return give(stream, (work){.kind = FILL, .to = to, .value = value, .bytes = bytes}, error);
}

static ff_status sim_call(ff_device *device, ff_stream *stream, void (*function)(void *),
                          void *context, ff_error *error) {
    (void)device;
    return give(stream, (work){.kind = CALL, .function = function, .context = context}, error);
}

static void run_once(void *context) {
    work *piece = context;
    piece->function(piece->context);
    piece->release(piece->context);
    free(piece);
}

int ff_device_sim_enqueue(void *to, void (*function)(void *), void *context,
                          void (*release)(void *)) {
    enum { DONE, NO_MEMORY = 2 };
    const work piece = {.kind = CALL, .function = function, .context = context, .release = release};
    if (!release || of_stream(to)->capture)
        return give(to, piece, NULL) == FF_OK ? DONE : NO_MEMORY;
    work *once;
    if (ff_alloc(&once, 1, sizeof *once, "work for a stream", NULL) != FF_OK) return NO_MEMORY;
    *once = piece;
    if (give(to, (work){.kind = CALL, .function = run_once, .context = once}, NULL) == FF_OK)
        return DONE;
    free(once);
    return NO_MEMORY;
}

/* ---- streams ---- */

static ff_status sim_stream_create(ff_device *base, ff_stream **out, ff_error *error) {
    sim_device *device = of_device(base);
    sim_stream *stream;
    *out = NULL;
    FF_TRY(ff_alloc(&stream, 1, sizeof *stream, "a stream", error));
    stream->device = device;
    stream->delays = delays_of(device, atomic_fetch_add(&device->seed, 1));
    const ff_status status = device->host->table->stream_create(device->host, &stream->host, error);
    if (status == FF_OK)
        *out = (ff_stream *)stream;
    else
        free(stream);
    return status;
}

static void sim_stream_destroy(ff_device *device, ff_stream *stream) {
    ff_device *host = of_device(device)->host;
    if (!stream) return;
    host->table->stream_destroy(host, of_stream(stream)->host);
    free(stream);
}

static ff_status sim_stream_synchronize(ff_device *device, ff_stream *stream, ff_error *error) {
    ff_device *host = of_device(device)->host;
    if (of_stream(stream)->capture)
        return ff_fail(error, FF_FAILED, "stream_synchronize: the stream is in a capture");
    return host->table->stream_synchronize(host, of_stream(stream)->host, error);
}

static void *sim_native_stream(ff_device *device, ff_stream *stream) {
    (void)device;
    return stream;
}

/* ---- events ---- */

static ff_status sim_event_create(ff_device *device, ff_event **out, bool timed, ff_error *error) {
    ff_device *host = of_device(device)->host;
    sim_event *event;
    *out = NULL;
    FF_TRY(ff_alloc(&event, 1, sizeof *event, "an event", error));
    const ff_status status = host->table->event_create(host, &event->host, timed, error);
    if (status != FF_OK) {
        free(event);
        return status;
    }
    pthread_mutex_init(&event->mutex, NULL);
    *out = (ff_event *)event;
    return FF_OK;
}

static void sim_event_destroy(ff_device *device, ff_event *event) {
    ff_device *host = of_device(device)->host;
    if (!event) return;
    host->table->event_destroy(host, of_event(event)->host);
    pthread_mutex_destroy(&of_event(event)->mutex);
    free(event);
}

/* Records an event of the recording, whose meaning ends with the capture. */
static ff_status record_inside(sim_event *event, sim_stream *stream, ff_error *error) {
    ff_recording *recording = stream->capture;
    ff_device *host = stream->device->host;
    work piece = {.kind = RECORD};
    ff_status status = host->table->event_create(host, &piece.event, false, error);
    if (status != FF_OK) return note(recording, status);
    status = record_work(stream, piece, error);
    if (status != FF_OK) {
        host->table->event_destroy(host, piece.event);
        return status;
    }
    pthread_mutex_lock(&event->mutex);
    if (!event->capture) {
        event->next_capture = recording->events;
        recording->events = event;
    }
    event->captured = true;
    event->capture = recording;
    event->branch = stream->branch;
    event->position = stream->branch->given;
    event->mark = piece.event;
    pthread_mutex_unlock(&event->mutex);
    return FF_OK;
}

static ff_status sim_event_record_external(ff_device *device, ff_event *event, ff_stream *stream,
                                           ff_error *error) {
    (void)device;
    sim_event *own = of_event(event);
    return give(stream, (work){.kind = RECORD, .event = own->host, .external = own}, error);
}

static ff_status sim_event_record(ff_device *device, ff_event *event, ff_stream *stream,
                                  ff_error *error) {
    if (of_stream(stream)->capture) return record_inside(of_event(event), of_stream(stream), error);
    return sim_event_record_external(device, event, stream, error);
}

static bool is_captured(sim_event *event) {
    pthread_mutex_lock(&event->mutex);
    const bool captured = event->captured;
    pthread_mutex_unlock(&event->mutex);
    return captured;
}

static ff_status check_outside(const char *call, ff_event *event, ff_error *error) {
    if (is_captured(of_event(event)))
        return ff_fail(error, FF_FAILED, "%s: the event was last recorded in a capture", call);
    return FF_OK;
}

static ff_status sim_event_synchronize(ff_device *device, ff_event *event, ff_error *error) {
    ff_device *host = of_device(device)->host;
    FF_TRY(check_outside("event_synchronize", event, error));
    return host->table->event_synchronize(host, of_event(event)->host, error);
}

static bool sim_event_done(ff_device *device, ff_event *event) {
    ff_device *host = of_device(device)->host;
    return !is_captured(of_event(event)) && host->table->event_done(host, of_event(event)->host);
}

static ff_status sim_elapsed(ff_device *device, ff_event *from, ff_event *to, uint64_t *ns,
                             ff_error *error) {
    ff_device *host = of_device(device)->host;
    return host->table->elapsed(host, of_event(from)->host, of_event(to)->host, ns, error);
}

/* ---- captures ---- */

static ff_status branch_add(ff_recording *recording, sim_stream *stream, ff_error *error) {
    ff_device *host = recording->device->host;
    branch *added;
    FF_TRY(ff_alloc(&added, 1, sizeof *added, "a capture", error));
    *added = (branch){.next = recording->branches, .stream = stream, .delays = stream->delays};
    ff_status status = FF_OK;
    if (recording->first) status = host->table->stream_create(host, &added->host, error);
    if (status != FF_OK) {
        free(added);
        return status;
    }
    if (!recording->first) recording->first = added;
    recording->branches = added;
    stream->capture = recording;
    stream->branch = added;
    return FF_OK;
}

static void sim_recording_destroy(ff_device *device, ff_recording *recording) {
    ff_device *host = of_device(device)->host;
    if (!recording) return;
    for (branch *b = recording->branches, *next; b; b = next) {
        next = b->next;
        host->table->stream_destroy(host, b->host);
        free(b);
    }
    for (work *piece = recording->head, *next; piece; piece = next) {
        next = piece->next;
        if (piece->release) piece->release(piece->context);
        if (piece->kind == RECORD && !piece->external)
            host->table->event_destroy(host, piece->event);
        free(piece);
    }
    host->table->event_destroy(host, recording->ended);
    pthread_mutex_destroy(&recording->launching);
    free(recording);
}

static ff_status sim_capture_begin(ff_device *device, ff_stream *stream, ff_error *error) {
    ff_device *host = of_device(device)->host;
    ff_recording *recording;
    if (of_stream(stream)->capture)
        return ff_fail(error, FF_FAILED, "capture_begin: the stream is in a capture");
    FF_TRY(ff_alloc(&recording, 1, sizeof *recording, "a capture", error));
    recording->device = of_device(device);
    recording->tail = &recording->head;
    pthread_mutex_init(&recording->launching, NULL);
    ff_status status = host->table->event_create(host, &recording->ended, false, error);
    if (status == FF_OK) status = branch_add(recording, of_stream(stream), error);
    if (status != FF_OK) sim_recording_destroy(device, recording);
    return status;
}

static ff_status wait_inside(sim_stream *stream, sim_event *event, ff_error *error) {
    pthread_mutex_lock(&event->mutex);
    ff_recording *capture = event->captured ? event->capture : NULL;
    branch *awaited = event->branch;
    const uint64_t position = event->position;
    const work piece = {.kind = WAIT, .event = event->mark};
    pthread_mutex_unlock(&event->mutex);
    if (!capture || (stream->capture && stream->capture != capture)) {
        if (stream->capture) (void)note(stream->capture, FF_FAILED);
        return ff_fail(error, FF_FAILED,
                       "stream_wait: a stream in a capture waits for an event that was recorded "
                       "outside of it");
    }
    if (!stream->capture) {
        const ff_status status = branch_add(capture, stream, error);
        if (status != FF_OK) return note(capture, status);
    }
    if (awaited == stream->branch) return FF_OK;
    if (awaited->joined < position) awaited->joined = position;
    return give((ff_stream *)stream, piece, error);
}

static ff_status sim_stream_wait(ff_device *device, ff_stream *stream, ff_event *event,
                                 ff_error *error) {
    (void)device;
    sim_event *own = of_event(event);
    pthread_mutex_lock(&own->mutex);
    const bool inside = of_stream(stream)->capture || (own->captured && own->capture);
    pthread_mutex_unlock(&own->mutex);
    if (inside) return wait_inside(of_stream(stream), own, error);
    FF_TRY(check_outside("stream_wait", event, error));
    return give(stream, (work){.kind = WAIT, .event = own->host}, error);
}

/* Detaches all streams and events from the capture; returns whether all branches were joined. */
static bool leave(ff_recording *recording) {
    bool joined = true;
    for (branch *b = recording->branches; b; b = b->next) {
        joined = joined && (b == recording->first || b->joined == b->given);
        b->stream->capture = NULL;
        b->stream->branch = NULL;
    }
    for (sim_event *event = recording->events, *next; event; event = next) {
        pthread_mutex_lock(&event->mutex);
        next = event->next_capture;
        event->capture = NULL;
        event->branch = NULL;
        pthread_mutex_unlock(&event->mutex);
    }
    recording->events = NULL;
    return joined;
}

static ff_status sim_capture_end(ff_device *device, ff_stream *stream, ff_recording **out,
                                 ff_error *error) {
    ff_recording *recording = of_stream(stream)->capture;
    *out = NULL;
    if (!recording) return ff_fail(error, FF_FAILED, "capture_end: the stream is in no capture");
    const bool joined = leave(recording);
    ff_status status = recording->status;
    if (status != FF_OK)
        status = ff_fail(error, status, "capture_end: a call in the capture failed");
    else if (!joined)
        status = ff_fail(error, FF_FAILED,
                         "capture_end: a stream that joined the capture has work that the first "
                         "stream did not wait for");
    if (status != FF_OK)
        sim_recording_destroy(device, recording);
    else
        *out = recording;
    return status;
}

static bool sim_capturing(ff_device *device, ff_stream *stream) {
    (void)device;
    return of_stream(stream)->capture != NULL;
}

int ff_device_sim_nodes(const ff_stream *stream) {
    int count = 0;
    const ff_recording *capture = ((const sim_stream *)stream)->capture;
    for (const work *piece = capture->head; piece; piece = piece->next)
        count += piece->kind == COPY || piece->kind == FILL || piece->kind == CALL;
    return count;
}

/* A branch other than the first begins with a wait, so only the first waits for the last launch. */
static ff_status launch(ff_recording *recording, sim_stream *stream, ff_error *error) {
    ff_device *host = recording->device->host;
    FF_TRY(host->table->stream_wait(host, stream->host, recording->ended, error));
    for (const work *piece = recording->head; piece; piece = piece->next) {
        branch *b = piece->branch;
        const bool first = b == recording->first;
        FF_TRY(enqueue(host, first ? stream->host : b->host, first ? &stream->delays : &b->delays,
                       piece, error));
    }
    return host->table->event_record(host, recording->ended, stream->host, error);
}

static ff_status sim_recording_launch(ff_device *device, ff_recording *recording, ff_stream *stream,
                                      ff_error *error) {
    (void)device;
    if (of_stream(stream)->capture)
        return ff_fail(error, FF_FAILED, "recording_launch: the stream is in a capture");
    pthread_mutex_lock(&recording->launching);
    const ff_status status = launch(recording, of_stream(stream), error);
    pthread_mutex_unlock(&recording->launching);
    return status;
}

#define SIM_TABLE(is_unified)                                                                      \
    {                                                                                              \
        .name = "simulated", .unified = is_unified, .destroy = sim_destroy, .memory = sim_memory,  \
        .allocate = sim_allocate, .release = sim_release, .allocate_pinned = sim_allocate,         \
        .release_pinned = sim_release, .stream_create = sim_stream_create,                         \
        .stream_destroy = sim_stream_destroy, .stream_synchronize = sim_stream_synchronize,        \
        .native_stream = sim_native_stream, .make_current = sim_make_current,                      \
        .current = sim_current, .restore = sim_restore, .event_create = sim_event_create,          \
        .event_destroy = sim_event_destroy, .event_record = sim_event_record,                      \
        .event_record_external = sim_event_record_external,                                        \
        .event_synchronize = sim_event_synchronize, .event_done = sim_event_done,                  \
        .stream_wait = sim_stream_wait, .copy = sim_copy, .fill = sim_fill, .call = sim_call,      \
        .elapsed = sim_elapsed, .capture_begin = sim_capture_begin,                                \
        .capture_end = sim_capture_end, .capturing = sim_capturing,                                \
        .recording_launch = sim_recording_launch, .recording_destroy = sim_recording_destroy,      \
    }
static const ff_device_table caller_table = SIM_TABLE(true);
static const ff_device_table threads_table = SIM_TABLE(false);

ff_status ff_device_sim_create(ff_device **out, ff_host_streams streams, uint64_t delay_ns,
                               uint64_t seed, ff_error *error) {
    sim_device *device;
    *out = NULL;
    FF_TRY(ff_alloc(&device, 1, sizeof *device, "a device", error));
    const ff_status status = ff_device_host_create(&device->host, streams, error);
    if (status != FF_OK) {
        free(device);
        return status;
    }
    device->base.table = streams == FF_HOST_STREAMS_THREADS ? &threads_table : &caller_table;
    device->delay_ns = delay_ns;
    atomic_init(&device->seed, seed + 1);
    *out = &device->base;
    return FF_OK;
}
