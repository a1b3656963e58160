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
    fake.current = 2;
    FF_TRY(ff_device_cuda_create(&h->device, DEVICE, error));
    assert_true(fake.current == 2 || fake.fail_at);
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
    assert_true(table->event_done(device, h->begin) || fake.fail_at); /* as nothing was recorded */
    fake.current = 0;
    FF_TRY(table->event_record(device, h->begin, h->stream, error));
    memset(h->pinned, 7, BYTES);
    fake.current = 0;
    FF_TRY(table->copy(device, h->stream, h->memory, h->pinned, BYTES, error));
    fake.current = 0;
    FF_TRY(table->fill(device, h->stream, h->memory, 9, BYTES / 2, error));
    assert_int_equal(((uint8_t *)h->memory)[0], 0); /* enqueued */
    FF_TRY(table->stream_synchronize(device, h->stream, error));
    assert_int_equal(((uint8_t *)h->memory)[0], 9);
    assert_int_equal(((uint8_t *)h->memory)[BYTES / 2], 7);
    fake.current = 0;
    FF_TRY(table->call(device, h->stream, count_up, &h->called, error));
    FF_TRY(table->event_record(device, h->end, h->stream, error));
    assert_false(table->event_done(device, h->end) && fake.fail_at == 0);
    fake.current = 0;
    FF_TRY(table->stream_wait(device, h->stream, h->end, error));
    fake.current = 0;
    FF_TRY(table->event_synchronize(device, h->end, error));
    assert_int_equal(h->called, 1);
    fake.current = 0;
    FF_TRY(table->elapsed(device, h->begin, h->end, &ns, error));
    assert_int_equal(ns, 1500000);
    fake.current = 0;
    FF_TRY(table->event_record_external(device, h->outside, h->stream, error));
    FF_TRY(table->event_synchronize(device, h->outside, error));
    assert_true(table->event_done(device, h->outside));

    fake.current = 0;
    FF_TRY(table->capture_begin(device, h->stream, error));
    assert_true(table->capturing(device, h->stream) || fake.fail_at);
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
    }
    FF_TRY(table->stream_synchronize(device, h->stream, error));
    assert_int_equal(h->called, 4);
    assert_int_equal(((uint8_t *)h->memory)[BYTES - 1], 3);
    fake.current = 2;
    const int before = table->current(device);
    FF_TRY(table->make_current(device, error));
    assert_int_equal(fake.current, DEVICE);
    table->restore(device, before);
    assert_true(fake.current == 2 || fake.fail_at);
    return FF_OK;
}

static void release(holding *h) {
    if (!h->device) return;
    const ff_device_table *table = h->device->table;
    fake.current = 2;
    table->stream_destroy(h->device, h->stream);
    fake.current = 0;
    table->recording_destroy(h->device, h->recording);
    fake.current = 0;
    table->event_destroy(h->device, h->begin);
    table->event_destroy(h->device, h->end);
    table->event_destroy(h->device, h->outside);
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
    assert_string_equal(fake.misuse, "");
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
    /* event_done, three times four calls, capturing, twice two calls, the modes of captures that
     * allocating twice and waiting four times exchange, the graph that capture_end no longer needs,
     * and as the device is created: the caller's device, three calls, then one, then two; the mode
     * of captures, two. */
    assert_int_equal(unnamed, 12 + 4 + 4 + 8 + 1 + 6 + 2);
}

static void what_to_do_is_said(void **state) {
    (void)state;
    static const struct {
        int code;
        ff_status status;
        const char *advice;
    } told[] = {{OUT_OF_MEMORY, FF_NO_MEMORY, "; smaller batches and placement stream need less"},
                {35, FF_FAILED, "; the NVIDIA driver is too old: install a newer one"},
                {209, FF_FAILED, "; this version has no code for the GPU"},
                {46, FF_FAILED, "; another process may have the GPU to itself"},
                {214, FF_FAILED, "; the GPU's memory is damaged: reset the GPU, or use another"},
                {719, FF_FAILED, "; the GPU may be gone: the driver's reason is in the kernel's"},
                {999, FF_FAILED, "; the GPU may be gone: the driver's reason is in the kernel's"}};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        ff_device *device;
        fake = (fake_cudart){.device = DEVICE, .fail_at = 5, .fail_with = told[i].code};
        assert_fails(ff_device_cuda_create(&device, DEVICE, error), told[i].status, told[i].advice);
    }
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
    assert_ok(table->event_record(device, event, stream, error));
    assert_false(table->event_done(device, event));
    assert_ok(table->event_synchronize(device, event, error));
    assert_true(table->event_done(device, event));
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
    assert_ok(table->copy(device, stream, memory, pinned, BYTES, error));
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
    assert_string_equal(fake.misuse, "");
}

/* The legacy stream is as good as in a capture while a stream that waits for it is; about a stream
 * that was destroyed the next call reports. */
static void streams_that_cannot_be_asked(void **state) {
    (void)state;
    enum { IMPLICIT = 906, INVALID_HANDLE = 400 };
    ff_device *device;
    ff_stream *stream;
    fake = (fake_cudart){.device = DEVICE};
    assert_ok(ff_device_cuda_create(&device, DEVICE, error));
    assert_ok(device->table->stream_create(device, &stream, error));
    fake.fail_at = fake.calls + 2;
    fake.fail_with = IMPLICIT;
    assert_true(device->table->capturing(device, stream));
    fake.fail_at = fake.calls + 2;
    fake.fail_with = INVALID_HANDLE;
    assert_false(device->table->capturing(device, stream));
    assert_int_equal(fake.last_error, 0);
    device->table->stream_destroy(device, stream);
    ff_device_destroy(&device);
}

/* What the stand-in notices, or these tests would show little. */
static void the_stand_in_notices(void **state) {
    (void)state;
    ff_device *device, *other;
    ff_stream *stream, *elsewhere;
    ff_event *event;
    ff_recording *recording;
    void *memory, *pinned;
    fake = (fake_cudart){.device = DEVICE};
    assert_ok(ff_device_cuda_create(&device, DEVICE, error));
    assert_ok(ff_device_cuda_create(&other, 2, error));
    const ff_device_table *table = device->table;
    assert_ok(table->stream_create(device, &stream, error));
    assert_ok(table->stream_create(other, &elsewhere, error));
    assert_ok(table->event_create(device, &event, false, error));
    assert_ok(table->allocate(device, &memory, BYTES, "values", error));
    assert_ok(table->allocate_pinned(device, &pinned, BYTES, "values", error));
#define NOTICED(call, sentence)                                                                    \
    do {                                                                                           \
        fake.misuse[0] = 0;                                                                        \
        call;                                                                                      \
        assert_string_equal(fake.misuse, sentence);                                                \
    } while (0)
    const char *const gone = "cudaMemcpyAsync: memory that is not, or no longer, allocated";
    int local[BYTES];
    NOTICED(
        assert_int_equal(table->copy(device, stream, memory, pinned, BYTES + 1, NULL), FF_FAILED),
        gone);
    NOTICED(assert_int_equal(table->copy(device, stream, memory, local, BYTES, NULL), FF_FAILED),
            gone);
    NOTICED(assert_int_equal(table->event_record(device, event, elsewhere, NULL), FF_FAILED),
            "cudaEventRecord: an event and a stream of two devices");
    assert_ok(table->copy(device, stream, memory, pinned, BYTES, error));
    NOTICED(table->release_pinned(device, pinned), "cudaFreeHost: memory that enqueued work uses");
    NOTICED(table->release(device, memory), "cudaFree: memory that enqueued work uses");
    assert_ok(table->stream_synchronize(device, stream, error));
    assert_ok(table->capture_begin(device, stream, error));
    assert_ok(table->fill(device, stream, memory, 1, BYTES, error));
    assert_ok(table->capture_end(device, stream, &recording, error));
    assert_ok(table->recording_launch(device, recording, stream, error));
    NOTICED(table->release(device, memory), "cudaFree: memory that enqueued work uses");
    NOTICED(table->recording_destroy(device, recording),
            "cudaGraphExecDestroy: a graph that is launched");
    assert_ok(table->stream_synchronize(device, stream, error));
    NOTICED(table->release(device, memory), "");
    NOTICED(table->release(device, memory),
            "cudaFree: memory that is not, or no longer, allocated");
    /* Captures: an event of outside in one, and one of it outside, lose it. */
    assert_ok(table->capture_begin(device, stream, error));
    assert_int_equal(table->stream_wait(device, stream, event, NULL), FF_FAILED);
    ff_recording *none;
    assert_int_equal(table->capture_end(device, stream, &none, NULL), FF_FAILED);
    assert_null(none);
    fake.capture_lost = false;
    assert_ok(table->capture_begin(device, stream, error));
    assert_ok(table->event_record(device, event, stream, error));
    assert_int_equal(table->event_synchronize(device, event, NULL), FF_FAILED);
    assert_int_equal(table->capture_end(device, stream, &none, NULL), FF_FAILED);
    table->stream_destroy(device, stream);
    NOTICED(assert_int_equal(table->fill(device, stream, pinned, 0, 1, NULL), FF_FAILED),
            "cudaMemsetAsync: a handle that is not, or no longer, there");
    table->stream_destroy(other, elsewhere);
    table->recording_destroy(device, recording);
    table->event_destroy(device, event);
    table->release_pinned(device, pinned);
    ff_device_destroy(&other);
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
                                         "1000 of 5000 are free; smaller batches and "
                                         "placement stream need less; nvidia-smi shows what else "
                                         "uses the GPU");
    fake.fail_at = fake.calls + 3;
    fake.fail_with = OUT_OF_MEMORY;
    assert_int_equal(device->table->allocate_pinned(device, &memory, 70, "the ring", &failure),
                     FF_NO_MEMORY);
    assert_null(memory);
    assert_string_equal(failure.message, "cuda:1: the ring needs 70 bytes of pinned memory, which "
                                         "is the host's; free some of it, raise the container's "
                                         "limit, or use smaller batches");
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
        cmocka_unit_test(what_to_do_is_said),
        cmocka_unit_test(captures_of_others_are_no_matter),
        cmocka_unit_test(a_capture_of_this_thread_is_no_matter),
        cmocka_unit_test(streams_that_cannot_be_asked),
        cmocka_unit_test(the_stand_in_notices),
        cmocka_unit_test(memory_that_is_not_there_is_counted),
        cmocka_unit_test(devices_are_described_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
