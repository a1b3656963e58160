#include "loader/device/absent.h"

#include "format/base/memory.h"
#include "format/cli/say.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char table_name[] = "absent";
/* The first address. No process can map memory at or above it (x86-64: not canonical; arm64: beyond
 * 52 bits), so nothing needs to be reserved, and no address space limit applies. */
#define FIRST_ADDRESS (UINT64_C(1) << 52)
enum { PAGE = 4096 };

typedef struct block {
    void *address;
    uint64_t bytes;
    bool pinned;
} block;

typedef struct absent_device {
    ff_device base;
    uint64_t total_bytes, next;
    ff_absent_bytes now, most;
    block *blocks;
    size_t count, capacity;
} absent_device;

static absent_device *absent(ff_device *device) {
    return (absent_device *)device;
}

bool ff_device_is_absent(const ff_device *device) {
    return strcmp(device->table->name, table_name) == 0;
}

ff_absent_bytes ff_device_absent_most(const ff_device *device) {
    return ((const absent_device *)device)->most;
}

static void absent_release(ff_device *base, void *memory) {
    absent_device *device = absent(base);
    for (size_t i = 0; memory && i < device->count; i++) {
        const block found = device->blocks[i];
        if (found.address != memory) continue;
        *(found.pinned ? &device->now.pinned : &device->now.device) -= found.bytes;
        if (found.pinned) free(memory);
        device->blocks[i] = device->blocks[--device->count];
        return;
    }
}

static void absent_destroy(ff_device *base) {
    absent_device *device = absent(base);
    while (device->count) absent_release(base, device->blocks[0].address);
    free(device->blocks);
    free(device);
}

static ff_status absent_memory(ff_device *base, uint64_t *free_bytes, uint64_t *total_bytes,
                               ff_error *error) {
    (void)error;
    const absent_device *device = absent(base);
    *total_bytes = device->total_bytes;
    *free_bytes = *total_bytes > device->now.device ? *total_bytes - device->now.device : 0;
    return FF_OK;
}

static ff_status count_block(absent_device *device, void *memory, uint64_t bytes, bool pinned,
                             const char *what, ff_error *error) {
    uint64_t *now = pinned ? &device->now.pinned : &device->now.device;
    uint64_t *most = pinned ? &device->most.pinned : &device->most.device;
    FF_TRY(ff_reserve(&device->blocks, &device->capacity, device->count + 1, sizeof *device->blocks,
                      what, error));
    device->blocks[device->count++] = (block){memory, bytes, pinned};
    *now += bytes;
    if (*now > *most) *most = *now;
    return FF_OK;
}

/* Returns addresses without memory. */
static ff_status absent_allocate(ff_device *base, void **memory, uint64_t bytes, const char *what,
                                 ff_error *error) {
    absent_device *device = absent(base);
    *memory = NULL;
    if (bytes > UINT64_C(1) << 50)
        return ff_fail(error, FF_NO_MEMORY, "%s: %s are beyond any memory", what,
                       ff_say_bytes(bytes).text);
    void *address = (void *)(uintptr_t)(FIRST_ADDRESS + device->next);
    FF_TRY(count_block(device, address, bytes, false, what, error));
    device->next += ff_align_u64(bytes ? bytes : 1, PAGE);
    *memory = address;
    return FF_OK;
}

/* Real host memory: pages that are never written take no memory. */
static ff_status absent_allocate_pinned(ff_device *base, void **memory, uint64_t bytes,
                                        const char *what, ff_error *error) {
    FF_TRY(ff_alloc(memory, bytes, 1, what, error));
    ff_status status = count_block(absent(base), *memory, bytes, true, what, error);
    if (status == FF_OK) return FF_OK;
    free(*memory);
    *memory = NULL;
    return status;
}

/* Streams, events and recordings are only compared with NULL. */
static ff_status token(void *out, const char *what, ff_error *error) {
    return ff_alloc(out, 1, 1, what, error);
}

static ff_status absent_stream_create(ff_device *device, ff_stream **stream, ff_error *error) {
    (void)device;
    return token(stream, "a stream", error);
}
static void absent_stream_destroy(ff_device *device, ff_stream *stream) {
    (void)device;
    free(stream);
}
static ff_status absent_stream_synchronize(ff_device *device, ff_stream *stream, ff_error *error) {
    (void)device, (void)stream, (void)error;
    return FF_OK;
}
static void *absent_native_stream(ff_device *device, ff_stream *stream) {
    (void)device;
    return stream;
}
static ff_status absent_make_current(ff_device *device, ff_error *error) {
    (void)device, (void)error;
    return FF_OK;
}
static int absent_current(ff_device *device) {
    (void)device;
    return 0;
}
static void absent_restore(ff_device *device, int ordinal) {
    (void)device, (void)ordinal;
}

static ff_status absent_event_create(ff_device *device, ff_event **event, bool timed,
                                     ff_error *error) {
    (void)device, (void)timed;
    return token(event, "an event", error);
}
static void absent_event_destroy(ff_device *device, ff_event *event) {
    (void)device;
    free(event);
}
static ff_status absent_event_record(ff_device *device, ff_event *event, ff_stream *stream,
                                     ff_error *error) {
    (void)device, (void)event, (void)stream, (void)error;
    return FF_OK;
}
static ff_status absent_event_synchronize(ff_device *device, ff_event *event, ff_error *error) {
    (void)device, (void)event, (void)error;
    return FF_OK;
}
static bool absent_event_done(ff_device *device, ff_event *event) {
    (void)device, (void)event;
    return true;
}
static ff_status absent_stream_wait(ff_device *device, ff_stream *stream, ff_event *event,
                                    ff_error *error) {
    (void)device, (void)stream, (void)event, (void)error;
    return FF_OK;
}

static ff_status absent_copy(ff_device *device, ff_stream *stream, void *to, const void *from,
                             uint64_t bytes, ff_error *error) {
    (void)device, (void)stream, (void)to, (void)from, (void)bytes, (void)error;
    return FF_OK;
}
static ff_status absent_fill(ff_device *device, ff_stream *stream, void *to, uint8_t value,
                             uint64_t bytes, ff_error *error) {
    (void)device, (void)stream, (void)to, (void)value, (void)bytes, (void)error;
    return FF_OK;
}
static ff_status absent_call(ff_device *device, ff_stream *stream, void (*function)(void *),
                             void *context, ff_error *error) {
    (void)device, (void)stream, (void)function, (void)context, (void)error;
    return FF_OK;
}
static ff_status absent_elapsed(ff_device *device, ff_event *from, ff_event *to, uint64_t *ns,
                                ff_error *error) {
    (void)device, (void)from, (void)to;
    *ns = 0;
    return ff_fail(error, FF_FAILED, "an absent device measures no time");
}

static ff_status absent_capture_begin(ff_device *device, ff_stream *stream, ff_error *error) {
    (void)device, (void)stream, (void)error;
    return FF_OK;
}
static ff_status absent_capture_end(ff_device *device, ff_stream *stream, ff_recording **recording,
                                    ff_error *error) {
    (void)device, (void)stream;
    return token(recording, "a recording", error);
}
static bool absent_capturing(ff_device *device, ff_stream *stream) {
    (void)device, (void)stream;
    return false;
}
static ff_status absent_recording_launch(ff_device *device, ff_recording *recording,
                                         ff_stream *stream, ff_error *error) {
    (void)device, (void)recording, (void)stream, (void)error;
    return FF_OK;
}
static void absent_recording_destroy(ff_device *device, ff_recording *recording) {
    (void)device;
    free(recording);
}

#define ABSENT_TABLE(is_unified)                                                                   \
    {                                                                                              \
        .name = table_name, .unified = is_unified, .destroy = absent_destroy,                      \
        .memory = absent_memory, .allocate = absent_allocate, .release = absent_release,           \
        .allocate_pinned = absent_allocate_pinned, .release_pinned = absent_release,               \
        .stream_create = absent_stream_create, .stream_destroy = absent_stream_destroy,            \
        .stream_synchronize = absent_stream_synchronize, .native_stream = absent_native_stream,    \
        .make_current = absent_make_current, .current = absent_current, .restore = absent_restore, \
        .event_create = absent_event_create, .event_destroy = absent_event_destroy,                \
        .event_record = absent_event_record, .event_record_external = absent_event_record,         \
        .event_synchronize = absent_event_synchronize, .event_done = absent_event_done,            \
        .stream_wait = absent_stream_wait, .copy = absent_copy, .fill = absent_fill,               \
        .call = absent_call, .elapsed = absent_elapsed, .capture_begin = absent_capture_begin,     \
        .capture_end = absent_capture_end, .capturing = absent_capturing,                          \
        .recording_launch = absent_recording_launch,                                               \
        .recording_destroy = absent_recording_destroy,                                             \
    }
static const ff_device_table apart_table = ABSENT_TABLE(false);
static const ff_device_table unified_table = ABSENT_TABLE(true);

ff_status ff_device_absent_create(ff_device **out, uint64_t memory_bytes, bool unified,
                                  ff_error *error) {
    absent_device *device;
    *out = NULL;
    FF_TRY(ff_alloc(&device, 1, sizeof *device, "a device", error));
    device->base.table = unified ? &unified_table : &apart_table;
    device->total_bytes = memory_bytes;
    *out = &device->base;
    return FF_OK;
}
