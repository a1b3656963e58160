/* Simulated kernels, the plain library and the asynchronous host device in place of the CUDA
 * module: a program linked with this before the archives runs on simulated GPUs. FF_SIM_CARDS is
 * their number, of which CUDA_VISIBLE_DEVICES selects some, by numbers. FF_SIM_NO_CAPTURE refuses
 * recordings; FF_SIM_GRAPHS prints at exit how many were launched, FF_SIM_RANGES how many ranges
 * were pushed and popped; FF_SIM_ENGINES prints how engines may be chosen; FF_SIM_NOTES is the note
 * of the module's libraries. Of each card, in a list whose last number is also that of further
 * ones: FF_SIM_DELAY_NS makes its streams sometimes wait that long; FF_SIM_MEMORY is its memory in
 * KiB, and makes it print at exit how often memory was allocated, and the most at a time.
 *
 * Memory is not zero at first, but of NaN in every dtype, so that what nobody wrote is noticed.
 * Each thread has a current device, as with CUDA: calls of a device make it current, and a kernel's
 * launch in a stream of another device is refused (CUDA programming guide, "Stream and Event
 * Behavior").
 */
#include "loader/cuda/module.h"
#include "format/base/memory.h"
#include "loader/cuda/kernels.h"
#include "tests/cuda/sim/cudasim.h"
#include "tests/cuda/sim/device.h"
#include "tests/cuda/sim/library_plain.h"
#include "train/compute/cuda/compute.h"
#include "train/compute/cuda/exports.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CARDS = 2, CARDS_MOST = 8, MULTIPROCESSORS = 4, FIRST_BUS = 0x3b };

static const ff_device_table *host_table;
static ff_device_table own_table;

/* The cards that ordinals name; returns how many. */
static int visible(int cards[CARDS_MOST]) {
    const char *given = getenv("FF_SIM_CARDS"), *list = getenv("CUDA_VISIBLE_DEVICES");
    const int there = given ? atoi(given) : CARDS;
    int count = 0;
    for (; !list && count < there && count < CARDS_MOST; count++) cards[count] = count;
    while (list && *list >= '0' && *list <= '9' && count < CARDS_MOST) {
        char *end;
        const long card = strtol(list, &end, 10);
        if (card >= there) break; /* as CUDA does */
        cards[count++] = (int)card;
        list = *end == ',' ? end + 1 : end;
    }
    return count;
}

static int card_of(int ordinal) {
    int cards[CARDS_MOST];
    return ordinal < visible(cards) ? cards[ordinal] : 0;
}

/* A card's number in a list of the environment; 0: there is none. */
static uint64_t number_of(const char *name, int card) {
    const char *list = getenv(name);
    while (list && card-- && strchr(list, ',')) list = strchr(list, ',') + 1;
    return list ? strtoull(list, NULL, 10) : 0;
}

static ff_status device_count(int *count, ff_error *error) {
    int cards[CARDS_MOST];
    (void)error;
    *count = visible(cards);
    return FF_OK;
}

static ff_status properties(int ordinal, ff_cuda_properties *found, ff_error *error) {
    (void)error;
    *found = (ff_cuda_properties){
        .name = "simulated GPU", .major = 9, .multiprocessors = MULTIPROCESSORS};
    snprintf(found->bus, sizeof found->bus, "0000:%x:00.0", FIRST_BUS + card_of(ordinal));
    return FF_OK;
}

static ff_status refuse_capture(ff_device *device, ff_stream *stream, ff_recording **recording,
                                ff_error *error) {
    ff_recording *made = NULL;
    *recording = NULL;
    FF_TRY(host_table->capture_end(device, stream, &made, error));
    host_table->recording_destroy(device, made);
    return ff_fail(error, FF_FAILED, "captures are refused");
}

static atomic_ullong launched;

static ff_status count_launch(ff_device *device, ff_recording *recording, ff_stream *stream,
                              ff_error *error) {
    atomic_fetch_add(&launched, 1);
    return host_table->recording_launch(device, recording, stream, error);
}

static void print_graphs(void) {
    fprintf(stderr, "graphs: %llu launched\n", atomic_load(&launched));
}

/* ---- memory ---- */

enum { UNWRITTEN = 0xff };

static ff_status allocate(ff_device *device, void **memory, uint64_t bytes, const char *what,
                          ff_error *error) {
    FF_TRY(host_table->allocate(device, memory, bytes, what, error));
    memset(*memory, UNWRITTEN, bytes);
    return FF_OK;
}

/* ---- memory of a given size ---- */

enum { MOST_BLOCKS = 4096 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct taken {
    uint64_t has, used, most, count;
    struct {
        void *memory;
        uint64_t bytes;
    } blocks[MOST_BLOCKS];
} taken_of[CARDS_MOST];

static ff_status tell_memory(ff_device *device, uint64_t *free_bytes, uint64_t *total_bytes,
                             ff_error *error) {
    const struct taken *taken = &taken_of[card_of(device->ordinal)];
    (void)error;
    pthread_mutex_lock(&lock);
    *total_bytes = taken->has;
    *free_bytes = taken->has - taken->used;
    pthread_mutex_unlock(&lock);
    return FF_OK;
}

static ff_status take_memory(ff_device *device, void **memory, uint64_t bytes, const char *what,
                             ff_error *error) {
    struct taken *taken = &taken_of[card_of(device->ordinal)];
    ff_status status = FF_OK;
    int i = 0;
    *memory = NULL;
    pthread_mutex_lock(&lock);
    while (i < MOST_BLOCKS && taken->blocks[i].memory) i++;
    taken->count++;
    if (i == MOST_BLOCKS || bytes > taken->has - taken->used)
        status = ff_fail(error, FF_NO_MEMORY, "the simulated GPU has no memory left for %s", what);
    if (status == FF_OK) status = allocate(device, memory, bytes, what, error);
    if (status == FF_OK) {
        taken->blocks[i].memory = *memory;
        taken->blocks[i].bytes = bytes;
        taken->used += bytes;
        if (taken->used > taken->most) taken->most = taken->used;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static void give_memory(ff_device *device, void *memory) {
    struct taken *taken = &taken_of[card_of(device->ordinal)];
    pthread_mutex_lock(&lock);
    for (int i = 0; memory && i < MOST_BLOCKS; i++) {
        if (taken->blocks[i].memory != memory) continue;
        taken->used -= taken->blocks[i].bytes;
        taken->blocks[i].memory = NULL;
        break;
    }
    host_table->release(device, memory);
    pthread_mutex_unlock(&lock);
}

static void print_memory(void) {
    for (int i = 0; i < CARDS_MOST; i++)
        if (taken_of[i].has)
            fprintf(stderr, "memory: taken %llu times, at most %llu KiB\n",
                    (unsigned long long)taken_of[i].count,
                    (unsigned long long)(taken_of[i].most + 1023) / 1024);
}

/* ---- the current device of each thread, and the devices of streams ---- */

enum { INVALID_HANDLE = 400 }; /* cudaErrorInvalidResourceHandle */

static _Thread_local int current;
static struct owned {
    struct owned *next;
    void *stream;
    int ordinal;
} * owned;

static int current_device(ff_device *device) {
    (void)device;
    return current;
}
static void restore_device(ff_device *device, int ordinal) {
    (void)device;
    current = ordinal;
}

#define ON_DEVICE(entry, type, parameters, ...)                                                    \
    static type on_##entry parameters {                                                            \
        current = device->ordinal;                                                                 \
        return host_table->entry(device, __VA_ARGS__);                                             \
    }
ON_DEVICE(make_current, ff_status, (ff_device * device, ff_error *error), error)
ON_DEVICE(event_create, ff_status,
          (ff_device * device, ff_event **event, bool timed, ff_error *error), event, timed, error)
ON_DEVICE(event_record, ff_status,
          (ff_device * device, ff_event *event, ff_stream *stream, ff_error *error), event, stream,
          error)
ON_DEVICE(event_synchronize, ff_status, (ff_device * device, ff_event *event, ff_error *error),
          event, error)
ON_DEVICE(stream_wait, ff_status,
          (ff_device * device, ff_stream *stream, ff_event *event, ff_error *error), stream, event,
          error)
ON_DEVICE(capturing, bool, (ff_device * device, ff_stream *stream), stream)

static ff_status create_stream(ff_device *device, ff_stream **stream, ff_error *error) {
    struct owned *own;
    current = device->ordinal;
    FF_TRY(ff_alloc(&own, 1, sizeof *own, "a stream", error));
    const ff_status status = host_table->stream_create(device, stream, error);
    if (status != FF_OK) {
        free(own);
        return status;
    }
    pthread_mutex_lock(&lock);
    *own = (struct owned){.next = owned, .stream = *stream, .ordinal = device->ordinal};
    owned = own;
    pthread_mutex_unlock(&lock);
    return FF_OK;
}

static void destroy_stream(ff_device *device, ff_stream *stream) {
    current = device->ordinal;
    pthread_mutex_lock(&lock);
    for (struct owned **at = &owned, *own; (own = *at); at = &own->next) {
        if (own->stream != stream) continue;
        *at = own->next;
        free(own);
        break;
    }
    pthread_mutex_unlock(&lock);
    host_table->stream_destroy(device, stream);
}

static int enqueue_kernel(void *stream, void (*function)(void *), void *context,
                          void (*release)(void *)) {
    pthread_mutex_lock(&lock);
    const struct owned *own = owned;
    while (own && own->stream != stream) own = own->next;
    const bool elsewhere = own && own->ordinal != current;
    pthread_mutex_unlock(&lock);
    return elsewhere ? INVALID_HANDLE : ff_device_sim_enqueue(stream, function, context, release);
}

/* Of all devices: made once, as others may use it. */
static void make_table(const ff_device_table *host) {
    const bool counts = getenv("FF_SIM_MEMORY") != NULL;
    host_table = host;
    own_table = *host;
    own_table.recording_launch = count_launch;
    own_table.allocate = own_table.allocate_pinned = allocate;
    own_table.current = current_device;
    own_table.restore = restore_device;
    own_table.make_current = on_make_current;
    own_table.event_create = on_event_create;
    own_table.event_record = on_event_record;
    own_table.event_synchronize = on_event_synchronize;
    own_table.stream_wait = on_stream_wait;
    own_table.capturing = on_capturing;
    own_table.stream_create = create_stream;
    own_table.stream_destroy = destroy_stream;
    if (getenv("FF_SIM_NO_CAPTURE")) own_table.capture_end = refuse_capture;
    if (!counts) return;
    atexit(print_memory);
    own_table.memory = tell_memory;
    own_table.allocate = take_memory;
    own_table.release = give_memory;
}

static ff_status device_create(ff_device **device, int ordinal, ff_error *error) {
    const int card = card_of(ordinal);
    FF_TRY(ff_device_sim_create(device, FF_HOST_STREAMS_THREADS, number_of("FF_SIM_DELAY_NS", card),
                                (uint64_t)card + 1, error));
    (*device)->ordinal = ordinal;
    pthread_mutex_lock(&lock);
    if (!host_table) make_table((*device)->table);
    taken_of[card].has = number_of("FF_SIM_MEMORY", card) * 1024;
    pthread_mutex_unlock(&lock);
    (*device)->table = &own_table;
    return FF_OK;
}

static _Atomic uint64_t pushed, popped, popped_none;
static _Thread_local uint64_t open_ranges;

static void range_push(const char *name) {
    (void)name;
    open_ranges++;
    atomic_fetch_add(&pushed, 1);
}

static void range_pop(void) {
    if (open_ranges)
        open_ranges--;
    else
        atomic_fetch_add(&popped_none, 1);
    atomic_fetch_add(&popped, 1);
}

static void print_ranges(void) {
    fprintf(stderr, "ranges: %llu pushed, %llu popped, %llu of them without a push\n",
            (unsigned long long)pushed, (unsigned long long)popped,
            (unsigned long long)popped_none);
}

static ff_status describe(ff_device *device, char **json, ff_error *error) {
    (void)device;
    return ff_copy_string(json,
                          "{\"deviceName\": \"simulated GPU\", \"deviceVer\": 900, "
                          "\"totalGlobalMem\": 8589934592, \"multiProcessorCount\": 4}",
                          error);
}

static const struct ff_train_cuda train_part = {
    .compute = &ff_cuda_compute_ops,
    .library = &ff_library_plain,
    .describe = describe,
    .comm_create = ff_nccl_create,
};

static const ff_cuda_table sim_table = {
    .built = "simulated",
    .device_count = device_count,
    .properties = properties,
    .device_create = device_create,
    .loader = &ff_loader_cuda_kernels,
    .train = &train_part,
    .range_push = range_push,
    .range_pop = range_pop,
};

/* In place of loader/cuda/module.c. */
struct ff_cuda_module {
    int ordinal;
};

static void prepare(void) {
    ff_cudasim_enqueue = enqueue_kernel;
    if (getenv("FF_SIM_GRAPHS")) atexit(print_graphs);
    if (getenv("FF_SIM_RANGES")) atexit(print_ranges);
}

ff_status ff_cuda_module_open(ff_cuda_module **module, int ordinal, ff_error *error) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    *module = NULL;
    int cards[CARDS_MOST];
    const int count = visible(cards);
    if (ordinal >= count)
        return ff_fail(error, FF_FAILED, "cuda:%d: there are %d simulated GPUs", ordinal, count);
    pthread_once(&once, prepare);
    return ff_alloc(module, 1, sizeof **module, "a module", error);
}

void ff_cuda_module_close(ff_cuda_module **module) {
    free(*module);
    *module = NULL;
}

const ff_cuda_table *ff_cuda_module_table(const ff_cuda_module *module) {
    (void)module;
    return &sim_table;
}

const char *ff_cuda_module_notes(const ff_cuda_module *module) {
    const char *notes = getenv("FF_SIM_NOTES");
    (void)module;
    return notes ? notes : "";
}
