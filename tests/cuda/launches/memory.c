/* What the simulated devices hold: allocations, streams, and each thread's current device. Linked
 * with --wrap=ff_device_sim_create. */
#include "tests/cuda/launches/launches.h"
#include "tests/cuda/sim/device.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { INVALID_VALUE = 1 }; /* cudaErrorInvalidValue */

ff_launches ff_launched;

/* An allocation, or a stream (bytes = 0). */
typedef struct held {
    struct held *next;
    ff_device *device;
    char *at;
    uint64_t bytes;
} held;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static held *all;
static const ff_device_table *sim;
static ff_device_table own;
static _Thread_local ff_device *current;

static void keep(ff_device *device, void *at, uint64_t bytes) {
    held *one = malloc(sizeof *one);
    if (!one) abort();
    pthread_mutex_lock(&mutex);
    *one = (held){.next = all, .device = device, .at = at, .bytes = bytes};
    all = one;
    pthread_mutex_unlock(&mutex);
}

static void forget(const void *at) {
    pthread_mutex_lock(&mutex);
    for (held **link = &all; *link; link = &(*link)->next) {
        held *one = *link;
        if (one->at != at) continue;
        *link = one->next;
        free(one);
        break;
    }
    pthread_mutex_unlock(&mutex);
}

/* The allocation that holds `at`, or the stream; a copy without a device if there is none. */
static held find(const void *at) {
    held found = {0};
    pthread_mutex_lock(&mutex);
    for (const held *one = all; one && !found.device; one = one->next)
        if (one->at == at ||
            ((const char *)at > one->at && (const char *)at < one->at + one->bytes))
            found = *one;
    pthread_mutex_unlock(&mutex);
    return found;
}

/* ---- the simulated device's entries ---- */

static ff_status allocate(ff_device *device, void **memory, uint64_t bytes, const char *what,
                          ff_error *error) {
    FF_TRY(sim->allocate(device, memory, bytes, what, error));
    keep(device, *memory, bytes ? bytes : 1);
    return FF_OK;
}

static void release(ff_device *device, void *memory) {
    if (memory) forget(memory);
    sim->release(device, memory);
}

static ff_status stream_create(ff_device *device, ff_stream **stream, ff_error *error) {
    FF_TRY(sim->stream_create(device, stream, error));
    keep(device, *stream, 0);
    return FF_OK;
}

static void stream_destroy(ff_device *device, ff_stream *stream) {
    if (stream) forget(stream);
    sim->stream_destroy(device, stream);
}

static ff_status make_current(ff_device *device, ff_error *error) {
    current = device;
    return sim->make_current(device, error);
}

ff_status __real_ff_device_sim_create(ff_device **device, ff_host_streams streams,
                                      uint64_t delay_ns, uint64_t seed, ff_error *error);
ff_status __wrap_ff_device_sim_create(ff_device **device, ff_host_streams streams,
                                      uint64_t delay_ns, uint64_t seed, ff_error *error);
ff_status __wrap_ff_device_sim_create(ff_device **device, ff_host_streams streams,
                                      uint64_t delay_ns, uint64_t seed, ff_error *error) {
    FF_TRY(__real_ff_device_sim_create(device, streams, delay_ns, seed, error));
    pthread_mutex_lock(&mutex);
    if (!sim || sim != (*device)->table) {
        sim = (*device)->table;
        own = *sim;
        own.allocate = allocate;
        own.release = release;
        own.stream_create = stream_create;
        own.stream_destroy = stream_destroy;
        own.make_current = make_current;
    }
    pthread_mutex_unlock(&mutex);
    (*device)->table = &own;
    return FF_OK;
}

/* ---- rules ---- */

void ff_launches_break(const char *format, ...) {
    va_list list;
    pthread_mutex_lock(&mutex);
    if (!ff_launched.broken++) {
        va_start(list, format);
        vsnprintf(ff_launched.first, sizeof ff_launched.first, format, list);
        va_end(list);
    }
    pthread_mutex_unlock(&mutex);
}

void ff_launches_memory(const void *stream, const char *what, const void *at, uint64_t bytes,
                        uint64_t alignment) {
    const held memory = find(at);
    if ((uintptr_t)at % alignment)
        ff_launches_break("%s is not aligned to %llu bytes", what, (unsigned long long)alignment);
    if (!memory.device || memory.device != find(stream).device)
        ff_launches_break("%s is not in the device's memory", what);
    else if (bytes > memory.bytes - (uint64_t)((const char *)at - memory.at))
        ff_launches_break(
            "%s has %llu bytes, and its allocation has %llu from there on", what,
            (unsigned long long)bytes,
            (unsigned long long)(memory.bytes - (uint64_t)((const char *)at - memory.at)));
}

ff_launches_user ff_launches_user_here(void) {
    return (ff_launches_user){.device = current};
}

int ff_launches_enqueue(const ff_launches_user *user, const char *what, bool loaded,
                        void (*function)(void *), void *context) {
    ff_device *device = find(user->stream).device;
    bool captured = false;
    if (!device)
        ff_launches_break("%s: in a stream that is not, or no longer, there", what);
    else if (device != user->device)
        ff_launches_break("%s: the stream is of another device than the handle", what);
    else if (current != user->device)
        ff_launches_break("%s: the current device is not the handle's", what);
    if (device) captured = sim->capturing(device, user->stream);
    if (!loaded && captured) ff_launches_break("%s: its first execution is captured", what);
    if (ff_launched.broken) { /* the loops would read or write what is not there */
        free(context);
        return INVALID_VALUE;
    }
    pthread_mutex_lock(&mutex);
    ff_launched.captured += captured;
    pthread_mutex_unlock(&mutex);
    const int code = ff_device_sim_enqueue(user->stream, function, context, free);
    if (code) free(context);
    return code;
}
