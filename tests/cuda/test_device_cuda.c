/* The device table on CUDA, with a stand-in for CUDA's runtime: what each entry does, that it uses
 * its own device, and that the message of every failing call names it. */
#include "loader/cuda/device_cuda.h"
#include "tests/cuda/fake_cudart.h"
#include "tests/unit/check.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICE = 1, BYTES = 100, OUT_OF_MEMORY = 2, OTHER = 719 };

static void count_up(void *context) {
    ++*(int *)context;
}

/* Everything that a scenario owns, so that it can be released wherever it stopped. */
typedef struct holding {
    ff_device *device;
    ff_stream *stream;
    ff_event *begin, *end, *outside;
    ff_recording *recording;
    void *pinned, *memory;
    int called;
} holding;

static ff_status use(holding *h, ff_error *error) {
    FF_TRY(ff_device_cuda_create(&h->device, DEVICE, error));
    ff_device *device = h->device;
    const ff_device_table *table = device->table;
    uint64_t unused, total, ns;
    fake.current = 0; /* as another thread would leave it */
    FF_TRY(table->memory(device, &unused, &total, error));
    assert_true(unused == 1000 && total == 5000);
    fake.current = 0;
    FF_TRY(table->allocate(device, &h->memory, BYTES, "values", error));
    fake.current = 2;
    FF_TRY(table->allocate_pinned(device, &h->pinned, BYTES, "values", error));
    fake.current = 0;
    FF_TRY(table->stream_create(device, &h->stream, error));
    assert_ptr_equal(table->native_stream(device, h->stream), h->stream);
    fake.current = 0;
    FF_TRY(table->event_create(device, &h->begin, true, error));
    FF_TRY(table->event_create(device, &h->end, true, error));
    fake.current = 2;
    FF_TRY(table->event_create(device, &h->outside, false, error));
    fake.current = 0;
    assert_false(table->event_done(device, h->begin) && fake.fail_at == 0);
    fake.current = 0;
    FF_TRY(table->event_record(device, h->begin, h->stream, error));
    memset(h->pinned, 7, BYTES);
    fake.current = 0;
    FF_TRY(table->copy(device, h->stream, h->memory, h->pinned, BYTES, error));
    assert_memory_equal(h->memory, h->pinned, BYTES);
    fake.current = 0;
    FF_TRY(table->fill(device, h->stream, h->memory, 9, BYTES / 2, error));
    assert_int_equal(((uint8_t *)h->memory)[0], 9);
    assert_int_equal(((uint8_t *)h->memory)[BYTES / 2], 7);
    fake.current = 0;
    FF_TRY(table->call(device, h->stream, count_up, &h->called, error));
    assert_int_equal(h->called, 1);
    FF_TRY(table->event_record(device, h->end, h->stream, error));
    fake.current = 0;
    FF_TRY(table->stream_wait(device, h->stream, h->end, error));
    fake.current = 0;
    FF_TRY(table->event_synchronize(device, h->end, error));
    fake.current = 0;
    FF_TRY(table->elapsed(device, h->begin, h->end, &ns, error));
    assert_int_equal(ns, 1500000);
    fake.current = 0;
    FF_TRY(table->event_record_external(device, h->outside, h->stream, error));
    assert_true(table->event_done(device, h->outside));

    fake.current = 0;
    FF_TRY(table->capture_begin(device, h->stream, error));
    assert_true(table->capturing(device, h->stream));
    ff_status status = table->call(device, h->stream, count_up, &h->called, error);
    if (status == FF_OK) status = table->fill(device, h->stream, h->memory, 3, BYTES, error);
    if (status == FF_OK)
        status = table->event_record_external(device, h->outside, h->stream, error);
    fake.current = 0;
    ff_status ended =
        table->capture_end(device, h->stream, &h->recording, status == FF_OK ? error : NULL);
    FF_TRY(status);
    FF_TRY(ended);
    assert_int_equal(h->called, 1); /* kept, not run */
    assert_false(table->capturing(device, h->stream) && fake.fail_at == 0);
    for (int i = 0; i < 3; i++) {
        fake.current = 0;
        FF_TRY(table->recording_launch(device, h->recording, h->stream, error));
        assert_int_equal(h->called, 2 + i);
    }
    assert_int_equal(((uint8_t *)h->memory)[BYTES - 1], 3);
    fake.current = 0;
    FF_TRY(table->stream_synchronize(device, h->stream, error));
    fake.current = 2;
    FF_TRY(table->make_current(device, error));
    assert_int_equal(fake.current, DEVICE);
    return FF_OK;
}

static void release(holding *h) {
    if (!h->device) return;
    const ff_device_table *table = h->device->table;
    fake.current = 0;
    table->recording_destroy(h->device, h->recording);
    fake.current = 0;
    table->event_destroy(h->device, h->begin);
    table->event_destroy(h->device, h->end);
    table->event_destroy(h->device, h->outside);
    fake.current = 2;
    table->stream_destroy(h->device, h->stream);
    fake.current = 0;
    table->release(h->device, h->memory);
    fake.current = 0;
    table->release_pinned(h->device, h->pinned);
    ff_device_destroy(&h->device);
}

static int calls_of_use;
static ff_status scenario(int fail_at, int fail_with, ff_error *error) {
    holding h = {0};
    fake = (fake_cudart){.device = DEVICE, .fail_at = fail_at, .fail_with = fail_with};
    ff_status status = use(&h, error);
    calls_of_use = fake.calls;
    /* After any failure CUDA's last error is cleared. */
    assert_int_equal(fake.last_error, 0);
    release(&h);
    assert_int_equal(fake.last_error, 0);
    return status;
}

static void every_entry_works_on_its_own_device(void **state) {
    (void)state;
    assert_ok(scenario(0, 0, error));
    assert_int_equal(fake.strays, 0);
    assert_int_equal(fake.held, 0);
    assert_false(fake.capture_lost);
}

static void every_call_that_fails_is_named(void **state) {
    (void)state;
    ff_error failure = {0};
    assert_ok(scenario(0, 0, error));
    int used = calls_of_use, calls = fake.calls, unnamed = 0;
    assert_true(used > 50 && calls > used);
    for (int at = 1; at <= calls; at++) {
        failure = (ff_error){0};
        ff_status status = scenario(at, OTHER, &failure);
        if (at > used) { /* releasing reports nothing */
            assert_int_equal(status, FF_OK);
            continue;
        }
        if (status == FF_OK) {
            unnamed++;
            continue;
        }
        char sentence[256];
        snprintf(sentence, sizeof sentence, "%s failed: as it was told (cudaErrorOfTheFake)",
                 fake.failed);
        assert_int_equal(status, FF_FAILED);
        if (!strstr(failure.message, sentence)) fail_msg("%s: %s", fake.failed, failure.message);
        if (strcmp(fake.failed, "cudaGetDeviceCount") != 0)
            assert_non_null(strstr(failure.message, "cuda:1: "));
        if (fake.held) fail_msg("%s left %d things", fake.failed, fake.held);
    }
    /* event_done, twice four calls, capturing, twice two calls, the modes of captures that
     * allocating twice and waiting twice exchange, and the graph that capture_end no longer needs.
     */
    assert_int_equal(unnamed, 21);
}

/* Calls that the table's users make for streams and memory of their own. */
static void captures_of_others_are_no_matter(void **state) {
    (void)state;
    ff_device *device;
    ff_stream *stream;
    ff_event *event;
    void *memory;
    fake = (fake_cudart){.device = DEVICE};
    assert_ok(ff_device_cuda_create(&device, DEVICE, error));
    const ff_device_table *table = device->table;
    assert_ok(table->allocate(device, &memory, BYTES, "values", error));
    assert_ok(table->stream_create(device, &stream, error));
    assert_ok(table->event_create(device, &event, false, error));
    fake.global_capture = true;
    assert_false(table->event_done(device, event));
    assert_ok(table->event_record(device, event, stream, error));
    assert_true(table->event_done(device, event));
    assert_ok(table->event_synchronize(device, event, error));
    const int held = fake.held;
    table->release(device, memory);
    assert_int_equal(fake.held, held - 1);
    assert_int_equal(fake.mode, 0);
    table->event_destroy(device, event);
    table->stream_destroy(device, stream);
    ff_device_destroy(&device);
}

/* A consumer's stream is in a capture of the calling thread: what a batch needs is still allocated,
 * waited for and freed, and the capture continues. */
static void a_capture_of_this_thread_is_no_matter(void **state) {
    (void)state;
    ff_device *device;
    ff_stream *captured, *stream;
    ff_event *event;
    ff_recording *recording;
    void *memory, *pinned;
    fake = (fake_cudart){.device = DEVICE};
    assert_ok(ff_device_cuda_create(&device, DEVICE, error));
    const ff_device_table *table = device->table;
    assert_ok(table->stream_create(device, &captured, error));
    assert_ok(table->capture_begin(device, captured, error));
    assert_ok(table->stream_create(device, &stream, error));
    assert_ok(table->event_create(device, &event, false, error));
    assert_ok(table->allocate(device, &memory, BYTES, "values", error));
    assert_ok(table->allocate_pinned(device, &pinned, BYTES, "values", error));
    assert_ok(table->event_record(device, event, stream, error));
    assert_ok(table->event_synchronize(device, event, error));
    assert_true(table->event_done(device, event));
    assert_ok(table->stream_synchronize(device, stream, error));
    table->release(device, memory);
    table->release_pinned(device, pinned);
    table->event_destroy(device, event);
    table->stream_destroy(device, stream);
    assert_ok(table->capture_end(device, captured, &recording, error));
    assert_false(fake.capture_lost);
    assert_int_equal(fake.mode, 0);
    table->recording_destroy(device, recording);
    table->stream_destroy(device, captured);
    ff_device_destroy(&device);
    assert_int_equal(fake.held, 0);
}

static void memory_that_is_not_there_is_counted(void **state) {
    (void)state;
    fake = (fake_cudart){.device = DEVICE};
    ff_error failure = {0};
    ff_device *device;
    void *memory = &device;
    assert_ok(ff_device_cuda_create(&device, DEVICE, error));
    assert_int_equal(device->table->allocate(device, &memory, 6000, "the weights", &failure),
                     FF_NO_MEMORY);
    assert_null(memory);
    assert_string_equal(failure.message, "cuda:1: the weights needs 6000 bytes of device memory; "
                                         "1000 of 5000 are free");
    fake.fail_at = fake.calls + 3;
    fake.fail_with = OUT_OF_MEMORY;
    assert_int_equal(device->table->allocate_pinned(device, &memory, 70, "the ring", &failure),
                     FF_NO_MEMORY);
    assert_null(memory);
    assert_string_equal(failure.message, "70 bytes of pinned memory for the ring: cuda:1: "
                                         "cudaHostAlloc failed: out of memory "
                                         "(cudaErrorMemoryAllocation)");
    ff_device_destroy(&device);
    assert_int_equal(fake.last_error, 0);
}

static void devices_are_described_and_counted(void **state) {
    (void)state;
    fake = (fake_cudart){.device = DEVICE};
    ff_error failure = {0};
    ff_device *device = NULL;
    ff_cuda_properties is;
    assert_ok(ff_device_cuda_properties(2, &is, error));
    assert_string_equal(is.name, "fake 2");
    assert_string_equal(is.bus, "0000:02:00.0");
    assert_true(is.major == 9 && is.minor == 0 && is.multiprocessors == 132);
    assert_true(is.runtime == 13000 && is.driver == 13010);
    assert_int_equal(ff_device_cuda_create(&device, 3, &failure), FF_USAGE);
    assert_string_equal(failure.message, "cuda:3: there are 3 CUDA devices, counted from 0");
    assert_int_equal(ff_device_cuda_create(&device, -2, &failure), FF_USAGE);
    assert_null(device);
    assert_int_equal(fake.current, 0); /* no device was made current, so no context was created */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_entry_works_on_its_own_device),
        cmocka_unit_test(every_call_that_fails_is_named),
        cmocka_unit_test(captures_of_others_are_no_matter),
        cmocka_unit_test(a_capture_of_this_thread_is_no_matter),
        cmocka_unit_test(memory_that_is_not_there_is_counted),
        cmocka_unit_test(devices_are_described_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
