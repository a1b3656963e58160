/* Calls of the device table that CUDA refuses while captures are under way, and that must lose
 * none: over the strict stand-in for CUDA's runtime, in a thread that captures, and next to a
 * thread that captures in the global mode, as PyTorch does. */
#include "loader/cuda/device_cuda.h"
#include "tests/unit/check.h"

#include <cuda_runtime_api.h>
#include <pthread.h>

enum { BYTES = 4096 };

typedef struct bench {
    ff_device *device;
    const ff_device_table *table;
    ff_stream *captured, *other;
    ff_event *event;
    void *memory;
} bench;

static void open_bench(bench *k) {
    assert_ok(ff_device_cuda_create(&k->device, 0, error));
    k->table = k->device->table;
    assert_ok(k->table->stream_create(k->device, &k->captured, error));
    assert_ok(k->table->stream_create(k->device, &k->other, error));
    assert_ok(k->table->event_create(k->device, &k->event, false, error));
    assert_ok(k->table->allocate(k->device, &k->memory, BYTES, "a test", error));
    assert_ok(k->table->fill(k->device, k->other, k->memory, 1, BYTES, error));
    assert_ok(k->table->event_record(k->device, k->event, k->other, error));
}

static void close_bench(bench *k) {
    k->table->event_destroy(k->device, k->event);
    k->table->stream_destroy(k->device, k->other);
    k->table->release(k->device, k->memory);
    k->table->stream_destroy(k->device, k->captured);
    ff_device_destroy(&k->device);
}

/* ---- the calls ---- */

static void device_memory(bench *k) {
    void *more;
    assert_ok(k->table->allocate(k->device, &more, BYTES, "a test", error));
    k->table->release(k->device, more);
}
static void pinned_memory(bench *k) {
    void *more;
    assert_ok(k->table->allocate_pinned(k->device, &more, BYTES, "a test", error));
    k->table->release_pinned(k->device, more);
}
static void a_stream(bench *k) {
    ff_stream *more;
    assert_ok(k->table->stream_create(k->device, &more, error));
    k->table->stream_destroy(k->device, more);
}
static void a_wait_for_a_stream(bench *k) {
    assert_ok(k->table->stream_synchronize(k->device, k->other, error));
}
static void a_wait_for_an_event(bench *k) {
    assert_ok(k->table->event_synchronize(k->device, k->event, error));
}
static void a_query(bench *k) {
    while (!k->table->event_done(k->device, k->event)) continue;
}
static void another_device(bench *k) {
    ff_device *more;
    (void)k;
    assert_ok(ff_device_cuda_create(&more, 1, error));
    ff_device_destroy(&more);
}

static void (*const calls[])(bench *k) = {device_memory,       pinned_memory,       a_stream,
                                          a_wait_for_a_stream, a_wait_for_an_event, a_query,
                                          another_device};
enum { CALLS = sizeof calls / sizeof *calls };

/* The capture in the bench's stream has one piece of work, and was not lost. */
static void end_capture(bench *k) {
    ff_recording *recording;
    assert_ok(k->table->fill(k->device, k->captured, k->memory, 2, BYTES, error));
    assert_ok(k->table->capture_end(k->device, k->captured, &recording, error));
    k->table->recording_destroy(k->device, recording);
}

static void in_a_thread_that_captures(void **state) {
    (void)state;
    for (int i = 0; i < CALLS; i++) {
        bench k;
        open_bench(&k);
        assert_ok(k.table->capture_begin(k.device, k.captured, error));
        calls[i](&k);
        end_capture(&k);
        close_bench(&k);
    }
}

static void *call_all(void *context) {
    for (int i = 0; i < CALLS; i++) calls[i](context);
    return NULL;
}

static void next_to_a_global_capture(void **state) {
    bench k;
    pthread_t other;
    (void)state;
    open_bench(&k);
    assert_int_equal(cudaStreamBeginCapture((cudaStream_t)k.captured, cudaStreamCaptureModeGlobal),
                     cudaSuccess);
    assert_int_equal(pthread_create(&other, NULL, call_all, &k), 0);
    pthread_join(other, NULL);
    end_capture(&k);
    close_bench(&k);
}

static void *allocate_plainly(void *context) {
    void *memory;
    (void)context;
    assert_int_equal(cudaMalloc(&memory, BYTES), cudaSuccess);
    assert_int_equal(cudaFree(memory), cudaSuccess);
    return NULL;
}

/* The table's own captures refuse nothing to other threads. */
static void own_captures_leave_others_alone(void **state) {
    bench k;
    pthread_t other;
    (void)state;
    open_bench(&k);
    assert_ok(k.table->capture_begin(k.device, k.captured, error));
    assert_int_equal(pthread_create(&other, NULL, allocate_plainly, NULL), 0);
    pthread_join(other, NULL);
    end_capture(&k);
    close_bench(&k);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_a_thread_that_captures),
                                       cmocka_unit_test(next_to_a_global_capture),
                                       cmocka_unit_test(own_captures_leave_others_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
