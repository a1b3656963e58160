/* The pool of a GPU's batches over a device that notes the calls in streams: those that were
 * destroyed, default streams, and which device is the calling thread's. */
#include "tests/unit/check.h"

#include "loader/library/pool.h"
#include "tests/cuda/sim/device.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { OWN = 1, CALLER = 3 };
#define STREAM(number) ((ff_stream *)(uintptr_t)(number))

/* A stream is a number, an event is the stream of its last record. */
static char calls[1024];
static int current, allocations;
static ff_stream *destroyed, *captured;
static ff_device_table table;
static uintptr_t last_record[64];
static int events;

static void note(const char *name, ff_stream *stream) {
    const size_t length = strlen(calls);
    snprintf(calls + length, sizeof calls - length, "%s %d, ", name, (int)(uintptr_t)stream);
}

static ff_status create_event(ff_device *device, ff_event **event, bool timed, ff_error *error) {
    (void)timed, (void)error;
    current = device->ordinal;
    *event = (ff_event *)&last_record[events++];
    return FF_OK;
}
static void destroy_event(ff_device *device, ff_event *event) {
    (void)event;
    current = device->ordinal;
}
static ff_status record(ff_device *device, ff_event *event, ff_stream *stream, ff_error *error) {
    current = device->ordinal;
    if (stream == destroyed) return ff_fail(error, FF_FAILED, "this stream was destroyed");
    *(uintptr_t *)event = (uintptr_t)stream;
    note("record", stream);
    return FF_OK;
}
static ff_status synchronize(ff_device *device, ff_event *event, ff_error *error) {
    (void)error;
    current = device->ordinal;
    note("synchronize", STREAM(*(uintptr_t *)event));
    return FF_OK;
}
/* Notes the stream for whose work it waits. */
static ff_status await(ff_device *device, ff_stream *stream, ff_event *event, ff_error *error) {
    (void)stream, (void)error;
    current = device->ordinal;
    note("wait", STREAM(*(uintptr_t *)event));
    return FF_OK;
}
static bool capturing(ff_device *device, ff_stream *stream) {
    current = device->ordinal;
    return stream == captured;
}
static ff_status allocate(ff_device *device, void **memory, uint64_t bytes, const char *what,
                          ff_error *error) {
    (void)bytes, (void)what, (void)error;
    current = device->ordinal;
    *memory = &allocations;
    allocations++;
    return FF_OK;
}
static void release(ff_device *device, void *memory) {
    current = device->ordinal;
    if (memory) note("free", NULL);
}
static int get_current(ff_device *device) {
    (void)device;
    return current;
}
static void restore(ff_device *device, int ordinal) {
    (void)device;
    current = ordinal;
}

static ff_library_pool *open_pool(void) {
    ff_device *device;
    ff_library_pool *pool;
    assert_ok(ff_device_sim_create(&device, FF_HOST_STREAMS_CALLER, 0, 0, error));
    table = *device->table;
    table.event_create = create_event;
    table.event_destroy = destroy_event;
    table.event_record = record;
    table.event_synchronize = synchronize;
    table.stream_wait = await;
    table.capturing = capturing;
    table.allocate = allocate;
    table.release = release;
    table.current = get_current;
    table.restore = restore;
    device->table = &table;
    device->ordinal = OWN;
    assert_ok(ff_library_pool_create(&pool, NULL, device, error));
    ff_library_pool_set(pool, 100, 8);
    calls[0] = 0;
    events = allocations = 0;
    destroyed = captured = STREAM(UINTPTR_MAX);
    return pool;
}

static ff_library_block *take(ff_library_pool *pool, int stream) {
    ff_library_block *block;
    assert_ok(ff_library_pool_take(pool, STREAM(stream), &block, error));
    assert_ok(ff_library_block_written(block, error));
    return block;
}

/* Whether these were the calls since the last time. */
static void expect(const char *wanted) {
    if (strcmp(calls, wanted) != 0) fail_msg("%s, not %s", calls, wanted);
    calls[0] = 0;
}

/* After the return the streams may be destroyed; another stream may even have the handle of one. */
static void streams_are_needed_until_the_return(void **state) {
    (void)state;
    ff_library_pool *pool = open_pool();
    ff_library_block *block = take(pool, 10);
    assert_ok(ff_library_block_use(block, STREAM(0), error)); /* as PyTorch's default stream */
    expect("record 10, wait 10, ");
    ff_library_pool_give(block);
    expect("record 10, record 0, ");
    destroyed = STREAM(10);
    block = take(pool, 11);
    expect("wait 10, wait 0, record 11, ");
    ff_library_pool_give(block);
    expect("record 11, ");
    block = take(pool, 11); /* perhaps another one */
    expect("wait 11, record 11, ");
    assert_int_equal(allocations, 1);
    ff_library_pool_give(block);
    ff_library_pool_close(&pool);
}

/* One that was destroyed before cannot be waited for, but freeing the memory waits. */
static void a_stream_that_is_gone_costs_its_block(void **state) {
    (void)state;
    ff_library_pool *pool = open_pool();
    for (int i = 0; i < 20; i++) {
        ff_library_block *block = take(pool, 10);
        assert_ok(ff_library_block_use(block, STREAM(20), error));
        expect("record 10, wait 10, ");
        destroyed = STREAM(20);
        ff_library_pool_give(block);
        expect("record 10, synchronize 10, free 0, ");
        destroyed = STREAM(UINTPTR_MAX);
    }
    ff_library_block *block = take(pool, 10);
    ff_library_pool_give(block);
    block = take(pool, 10);
    assert_int_equal(allocations, 21); /* the pool has a block again */
    ff_library_pool_give(block);
    ff_library_pool_close(&pool);
}

static void a_capture_ends_later(void **state) {
    (void)state;
    ff_library_pool *pool = open_pool();
    ff_library_block *block = take(pool, 10), *other;
    assert_ok(ff_library_block_use(block, STREAM(20), error));
    captured = STREAM(20);
    ff_library_pool_give(block);
    expect("record 10, wait 10, record 10, ");
    other = take(pool, 10);
    expect("record 10, ");
    assert_int_equal(allocations, 2);
    captured = STREAM(UINTPTR_MAX);
    ff_library_pool_give(other);
    other = take(pool, 10);
    expect("record 10, record 20, wait 10, wait 20, record 10, ");
    assert_int_equal(allocations, 2);
    ff_library_pool_give(other);
    ff_library_pool_close(&pool);
}

/* Handle 2 names another stream in each thread: each of them waits, and the legacy stream, which
 * waits for all of them, stands for them when another thread returns the block. */
static void default_streams_of_threads(void **state) {
    (void)state;
    ff_library_pool *pool = open_pool();
    ff_library_block *block = take(pool, 10);
    assert_ok(ff_library_block_use(block, STREAM(2), error));
    assert_ok(ff_library_block_use(block, STREAM(2), error)); /* perhaps by another thread */
    assert_ok(ff_library_block_use(block, STREAM(10), error));
    expect("record 10, wait 10, wait 10, ");
    ff_library_pool_give(block);
    expect("record 10, record 1, ");
    ff_library_pool_close(&pool);
    expect("synchronize 10, synchronize 1, free 0, ");
}

static void the_current_device_stays(void **state) {
    (void)state;
    ff_library_pool *pool = open_pool();
    ff_library_block *block = take(pool, 10), *other = take(pool, 10);
    assert_int_equal(current, OWN);
    current = CALLER;
    assert_ok(ff_library_block_use(block, STREAM(20), error));
    assert_int_equal(current, CALLER);
    ff_library_pool_give(block);
    assert_int_equal(current, CALLER);
    ff_library_pool_close(&pool);
    assert_int_equal(current, CALLER);
    ff_library_pool_give(other); /* ends the pool */
    assert_int_equal(current, CALLER);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_needed_until_the_return),
        cmocka_unit_test(a_stream_that_is_gone_costs_its_block),
        cmocka_unit_test(a_capture_ends_later),
        cmocka_unit_test(default_streams_of_threads),
        cmocka_unit_test(the_current_device_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
