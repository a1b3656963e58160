#include "train/compute/cuda/engine_timer.h"

#include "format/base/memory.h"
#include "loader/sequence/philox.h"

#include <stdlib.h>
#include <string.h>

/* Random elements that are copied repeatedly into larger buffers. */
enum { PATTERN = 1 << 20, ALIGNMENT = 256, VECTORS = 12 };

struct ff_engine_timer {
    ff_device *device;
    ff_stream *stream;
    ff_event *begin, *end;
    ff_recording *recording;
    /* [PATTERN] f32, then [PATTERN] of `dtype`; NULL: not yet made. */
    char *pattern;
    ff_dtype dtype;
    char *memory; /* [sets][x, w, y, a tensor like x], then the vectors */
    size_t memory_bytes;
    void *workspace; /* of the current engine */
    size_t workspace_bytes;
    int sets; /* 0: no convolution yet */
    ff_library_conv_arguments arguments[FF_TIMER_SETS];
};

static size_t aligned(size_t bytes) {
    return (size_t)ff_align_u64(bytes, ALIGNMENT);
}

/* Makes *memory at least `bytes` long; its content is lost when it grows. */
static ff_status grow(ff_engine_timer *t, void **memory, size_t *capacity, size_t bytes,
                      const char *what, ff_error *error) {
    const ff_device_table *table = t->device->table;
    if (bytes <= *capacity) return FF_OK;
    FF_TRY(table->stream_synchronize(t->device, t->stream, error));
    table->release(t->device, *memory);
    *memory = NULL;
    *capacity = 0;
    FF_TRY(table->allocate(t->device, memory, bytes, what, error));
    *capacity = bytes;
    return FF_OK;
}

/* The only upload: uniform in [-1, 1), as f32 and in the storage type. */
static ff_status make_pattern(ff_engine_timer *t, ff_dtype dtype, ff_error *error) {
    const ff_device_table *table = t->device->table;
    const size_t bytes = 2 * PATTERN * sizeof(float);
    float *values;
    if (t->pattern && t->dtype == dtype) return FF_OK;
    if (!t->pattern)
        FF_TRY(table->allocate(t->device, (void **)&t->pattern, bytes, "random data", error));
    FF_TRY(table->allocate_pinned(t->device, (void **)&values, bytes, "random data", error));
    for (uint32_t i = 0; i < PATTERN; i += 4) {
        ff_random r = ff_philox_draw(1, 0, 0, i, 0);
        for (int j = 0; j < 4; j++)
            values[i + (uint32_t)j] = 2 * (float)ff_random_unit(r.word[j]) - 1;
    }
    ff_convert(values + PATTERN, dtype, values, FF_F32, PATTERN);
    ff_status status = table->copy(t->device, t->stream, t->pattern, values, bytes, error);
    const ff_status done = table->stream_synchronize(t->device, t->stream, status ? NULL : error);
    table->release_pinned(t->device, values);
    t->dtype = dtype;
    return status == FF_OK ? done : status;
}

/* Fills [bytes] of device memory with repetitions of the pattern, by copies that double. */
static ff_status fill(ff_engine_timer *t, char *to, const char *pattern, size_t pattern_bytes,
                      size_t bytes, ff_error *error) {
    const ff_device_table *table = t->device->table;
    size_t filled = bytes < pattern_bytes ? bytes : pattern_bytes;
    FF_TRY(table->copy(t->device, t->stream, to, pattern, filled, error));
    while (filled < bytes) {
        const size_t part = bytes - filled < filled ? bytes - filled : filled;
        FF_TRY(table->copy(t->device, t->stream, to + filled, to, part, error));
        filled += part;
    }
    return FF_OK;
}

static ff_library_conv_arguments arguments_at(char *x, char *w, char *y, char *like_x,
                                              char *vectors, size_t vector) {
    ff_library_conv_arguments a = {.x = x, .w = w, .y = y, .relu_y = like_x, .norm_x = like_x};
    void *places[VECTORS];
    for (int i = 0; i < VECTORS; i++) places[i] = vectors + (size_t)i * vector;
    /* scale and bias share memory: both are only read, and never by the same convolution. */
    a.bias = a.scale = places[0], a.shift = places[1];
    a.sum = places[2], a.square_sum = places[3];
    a.mean = places[4], a.inv_std = places[5], a.gamma = places[6], a.beta = places[7];
    a.dgamma = places[8], a.dbeta = places[9];
    a.gradient_scale = places[10], a.input_scale = places[11], a.offset = places[2];
    return a;
}

ff_status ff_engine_timer_take(ff_engine_timer *t, const ff_library_conv_spec *spec,
                               ff_error *error) {
    ff_library_conv_sizes size = ff_library_conv_bytes(spec);
    bool mask = spec->epilogue == FF_EPILOGUE_RELU_BACKWARD ||
                spec->epilogue == FF_EPILOGUE_RELU_NORM_BACKWARD;
    size_t x = aligned(size.x), w = aligned(size.w), y = aligned(size.y), like_x = mask ? x : 0;
    size_t set = x + w + y + like_x;
    size_t vector = aligned((size_t)(spec->c > spec->k ? spec->c : spec->k) * sizeof(float));
    size_t sets = (FF_TIMER_BYTES + set - 1) / set;
    const int count = (int)(sets < FF_TIMER_SETS ? sets : FF_TIMER_SETS);
    const size_t tensors = (size_t)count * set, vectors = VECTORS * vector;
    const ff_dtype dtype = ff_precision_dtype(spec->precision);
    ff_engine_timer_forget(t);
    t->sets = 0;
    FF_TRY(make_pattern(t, dtype, error));
    FF_TRY(
        grow(t, (void **)&t->memory, &t->memory_bytes, tensors + vectors, "timing engines", error));
    const char *stored = t->pattern + PATTERN * sizeof(float);
    char *after = t->memory + tensors;
    FF_TRY(fill(t, t->memory, stored, PATTERN * ff_dtype_bytes(dtype), tensors, error));
    FF_TRY(fill(t, after, t->pattern, PATTERN * sizeof(float), vectors, error));
    /* Bias or scale, and shift, are read in the storage type. */
    FF_TRY(fill(t, after, stored, PATTERN * ff_dtype_bytes(dtype), 2 * vector, error));
    for (int i = 0; i < count; i++) {
        char *at = t->memory + (size_t)i * set;
        t->arguments[i] = arguments_at(at, at + x, at + x + w, at + x + w + y, after, vector);
    }
    t->sets = count;
    return FF_OK;
}

ff_status ff_engine_timer_create(ff_engine_timer **timer, ff_device *device, ff_error *error) {
    const ff_device_table *table = device->table;
    ff_status status;
    FF_TRY(ff_alloc(timer, 1, sizeof **timer, "a timer", error));
    ff_engine_timer *t = *timer;
    t->device = device;
    FF_TRY_DONE(table->stream_create(device, &t->stream, error));
    FF_TRY_DONE(table->event_create(device, &t->begin, true, error));
    FF_TRY_DONE(table->event_create(device, &t->end, true, error));
done:
    if (status != FF_OK) ff_engine_timer_destroy(timer);
    return status;
}

void ff_engine_timer_rest(ff_engine_timer *t) {
    const ff_device_table *table = t->device->table;
    ff_engine_timer_forget(t);
    if (t->memory && table->stream_synchronize(t->device, t->stream, NULL) != FF_OK) {
        /* ignored: the memory is not in use any more */
    }
    table->release(t->device, t->workspace);
    table->release(t->device, t->memory);
    t->workspace = t->memory = NULL;
    t->workspace_bytes = t->memory_bytes = 0;
    t->sets = 0;
}

void ff_engine_timer_destroy(ff_engine_timer **timer) {
    ff_engine_timer *t = *timer;
    *timer = NULL;
    if (!t) return;
    const ff_device_table *table = t->device->table;
    table->stream_destroy(t->device, t->stream); /* waits */
    table->recording_destroy(t->device, t->recording);
    table->event_destroy(t->device, t->begin);
    table->event_destroy(t->device, t->end);
    table->release(t->device, t->workspace);
    table->release(t->device, t->memory);
    table->release(t->device, t->pattern);
    free(t);
}

void ff_engine_timer_forget(ff_engine_timer *t) {
    /* Every measurement waits for its launch, so the graph is not running. */
    t->device->table->recording_destroy(t->device, t->recording);
    t->recording = NULL;
}

bool ff_engine_timer_lost(ff_engine_timer *t) {
    return t->device->table->stream_synchronize(t->device, t->stream, NULL) != FF_OK;
}

ff_status ff_engine_timer_prepare(ff_engine_timer *t, ff_engine_run *run, void *context,
                                  size_t workspace_bytes, ff_error *error) {
    const ff_device_table *table = t->device->table;
    void *native = table->native_stream(t->device, t->stream);
    ff_engine_timer_forget(t);
    FF_TRY(grow(t, &t->workspace, &t->workspace_bytes, workspace_bytes, "an engine's workspace",
                error));
    for (int i = 0; i < t->sets; i++)
        FF_TRY(run(context, native, &t->arguments[i], t->workspace, error));
    FF_TRY(table->stream_synchronize(t->device, t->stream, error));
    FF_TRY(table->capture_begin(t->device, t->stream, error));
    ff_status status = FF_OK;
    for (int i = 0; i < FF_TIMER_LAUNCHES && status == FF_OK; i++)
        status = run(context, native, &t->arguments[i % t->sets], t->workspace, error);
    ff_status ended =
        table->capture_end(t->device, t->stream, &t->recording, status ? NULL : error);
    return status == FF_OK ? ended : status;
}

ff_status ff_engine_timer_measure(ff_engine_timer *t, double *seconds, ff_error *error) {
    const ff_device_table *table = t->device->table;
    uint64_t ns;
    FF_TRY(table->event_record(t->device, t->begin, t->stream, error));
    FF_TRY(table->recording_launch(t->device, t->recording, t->stream, error));
    FF_TRY(table->event_record(t->device, t->end, t->stream, error));
    FF_TRY(table->event_synchronize(t->device, t->end, error));
    FF_TRY(table->elapsed(t->device, t->begin, t->end, &ns, error));
    *seconds = (double)ns * 1e-9 / FF_TIMER_LAUNCHES;
    return FF_OK;
}
