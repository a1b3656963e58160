#include "loader/device/host.h"

#include "format/base/memory.h"
#include "loader/device/host_stream.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct host_device {
    ff_device base;
    ff_host_streams streams;
    uint64_t delay_ns;
    atomic_uint_fast64_t seed; /* the streams' seeds derive from it */
} host_device;

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
    return ff_alloc_aligned(memory, bytes, 1, 256, what, error);
}

static void host_release(ff_device *device, void *memory) {
    (void)device;
    free(memory);
}

static void host_stream_destroy(ff_device *device, ff_stream *stream) {
    (void)device;
    ff_host_stream_destroy(stream);
}

static ff_status host_stream_create(ff_device *base, ff_stream **stream, ff_error *error) {
    host_device *device = (host_device *)base;
    return ff_host_stream_create(stream, device->streams == FF_HOST_STREAMS_THREADS,
                                 device->delay_ns, atomic_fetch_add(&device->seed, 1), error);
}

static ff_status host_stream_synchronize(ff_device *device, ff_stream *stream, ff_error *error) {
    (void)device;
    return ff_host_stream_synchronize(stream, error);
}

static void *host_native_stream(ff_device *device, ff_stream *stream) {
    (void)device;
    return stream;
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

static ff_status host_event_create(ff_device *device, ff_event **event, bool timed,
                                   ff_error *error) {
    (void)device;
    return ff_host_event_create(event, timed, error);
}

static void host_event_destroy(ff_device *device, ff_event *event) {
    (void)device;
    ff_host_event_destroy(event);
}

static ff_status host_event_record(ff_device *device, ff_event *event, ff_stream *stream,
                                   ff_error *error) {
    (void)device;
    return ff_host_event_record(event, stream, false, error);
}

static ff_status host_event_record_external(ff_device *device, ff_event *event, ff_stream *stream,
                                            ff_error *error) {
    (void)device;
    return ff_host_event_record(event, stream, true, error);
}

static ff_status host_event_synchronize(ff_device *device, ff_event *event, ff_error *error) {
    (void)device;
    return ff_host_event_synchronize(event, error);
}

static bool host_event_done(ff_device *device, ff_event *event) {
    (void)device;
    return ff_host_event_done(event);
}

static ff_status host_stream_wait(ff_device *device, ff_stream *stream, ff_event *event,
                                  ff_error *error) {
    (void)device;
    return ff_host_stream_wait(stream, event, error);
}

static ff_status host_copy(ff_device *device, ff_stream *stream, void *to, const void *from,
                           uint64_t bytes, ff_error *error) {
    (void)device;
    ff_work piece = {.kind = FF_WORK_COPY, .to = to, .from = from, .bytes = bytes};
    return ff_host_stream_give(stream, piece, error);
}

static ff_status host_fill(ff_device *device, ff_stream *stream, void *to, uint8_t value,
                           uint64_t bytes, ff_error *error) {
    (void)device;
    ff_work piece = {.kind = FF_WORK_FILL, .to = to, .value = value, .bytes = bytes};
    return ff_host_stream_give(stream, piece, error);
}

static ff_status host_call(ff_device *device, ff_stream *stream, void (*function)(void *),
                           void *context, ff_error *error) {
    (void)device;
    ff_work piece = {.kind = FF_WORK_CALL, .function = function, .context = context};
    return ff_host_stream_give(stream, piece, error);
}

static ff_status host_elapsed(ff_device *device, ff_event *from, ff_event *to, uint64_t *ns,
                              ff_error *error) {
    (void)device;
    return ff_host_event_elapsed(from, to, ns, error);
}

static ff_status host_capture_begin(ff_device *device, ff_stream *stream, ff_error *error) {
    (void)device;
    return ff_host_capture_begin(stream, error);
}

static ff_status host_capture_end(ff_device *device, ff_stream *stream, ff_recording **recording,
                                  ff_error *error) {
    (void)device;
    return ff_host_capture_end(stream, recording, error);
}

static bool host_capturing(ff_device *device, ff_stream *stream) {
    (void)device;
    return stream->capture != NULL;
}

static ff_status host_recording_launch(ff_device *device, ff_recording *recording,
                                       ff_stream *stream, ff_error *error) {
    (void)device;
    return ff_host_recording_launch(recording, stream, error);
}

static void host_recording_destroy(ff_device *device, ff_recording *recording) {
    (void)device;
    ff_host_recording_destroy(recording);
}

int ff_device_host_enqueue(void *stream, void (*function)(void *), void *context,
                           void (*release)(void *)) {
    ff_work piece = {
        .kind = FF_WORK_CALL, .function = function, .context = context, .release = release};
    return ff_host_stream_give(stream, piece, NULL) == FF_OK ? 0 : 2;
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
        .native_stream = host_native_stream, .make_current = host_make_current,                    \
        .current = host_current, .restore = host_restore,                                          \
        .event_record_external = host_event_record_external, .capture_begin = host_capture_begin,  \
        .capture_end = host_capture_end, .capturing = host_capturing,                              \
        .recording_launch = host_recording_launch, .recording_destroy = host_recording_destroy,    \
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
