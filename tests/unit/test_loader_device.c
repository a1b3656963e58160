/* The device tables of the host and of the simulated GPU: order within a stream, events across
 * streams, copies, waits; in the caller and in threads, the simulated GPU's with random delays.
 * Recordings of the simulated GPU. */
#include "tests/cuda/sim/device.h"
#include "tests/unit/check.h"

#include "format/base/thread.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 3, VALUES = 512, STEPS = 40 };

typedef struct fixture {
    ff_device *device;
    const ff_device_table *table;
} fixture;

static fixture open_simulated(int threads, uint64_t seed) {
    fixture f;
    assert_ok(ff_device_sim_create(&f.device,
                                   threads ? FF_HOST_STREAMS_THREADS : FF_HOST_STREAMS_CALLER,
                                   200000, seed, error));
    f.table = f.device->table;
    return f;
}

enum { DEVICES = 4 };

/* The host in the caller and in threads, then the simulated GPU in both ways. */
static fixture open_device(int number, uint64_t seed) {
    fixture f;
    if (number >= 2) return open_simulated(number - 2, seed);
    assert_ok(ff_device_host_create(
        &f.device, number ? FF_HOST_STREAMS_THREADS : FF_HOST_STREAMS_CALLER, error));
    f.table = f.device->table;
    assert_string_equal(f.table->name, "host");
    return f;
}

typedef struct check {
    const uint32_t *values;
    uint32_t step;
    uint64_t *wrong;
} check;

static void check_values(void *context) {
    check *job = context;
    for (uint32_t i = 0; i < VALUES; i++) *job->wrong += job->values[i] != job->step * 7919u + i;
}

/* A ring of pinned and device halves, as the streaming loader's: two streams, two events a slot. */
static void ring(void **state) {
    (void)state;
    for (int number = 0; number < DEVICES; number++) {
        fixture f = open_device(number, 3);
        ff_stream *copies, *compute;
        ff_event *copied[SLOTS], *consumed[SLOTS];
        void *pinned[SLOTS], *device[SLOTS];
        static check jobs[STEPS];
        uint64_t wrong = 0;
        assert_ok(f.table->stream_create(f.device, &copies, error));
        assert_ok(f.table->stream_create(f.device, &compute, error));
        for (int i = 0; i < SLOTS; i++) {
            assert_ok(f.table->event_create(f.device, &copied[i], false, error));
            assert_ok(f.table->event_create(f.device, &consumed[i], false, error));
            assert_ok(f.table->allocate_pinned(f.device, &pinned[i], VALUES * 4, "values", error));
            assert_ok(f.table->allocate(f.device, &device[i], VALUES * 4, "values", error));
            assert_int_equal((uintptr_t)device[i] % 256, 0);
        }
        for (uint32_t step = 0; step < STEPS; step++) {
            uint32_t i = step % SLOTS;
            assert_ok(f.table->event_synchronize(f.device, copied[i], error));
            for (uint32_t k = 0; k < VALUES; k++) ((uint32_t *)pinned[i])[k] = step * 7919u + k;
            assert_ok(f.table->stream_wait(f.device, copies, consumed[i], error));
            assert_ok(f.table->copy(f.device, copies, device[i], pinned[i], VALUES * 4, error));
            assert_ok(f.table->event_record(f.device, copied[i], copies, error));
            assert_ok(f.table->stream_wait(f.device, compute, copied[i], error));
            jobs[step] = (check){device[i], step, &wrong};
            assert_ok(f.table->call(f.device, compute, check_values, &jobs[step], error));
            assert_ok(f.table->event_record(f.device, consumed[i], compute, error));
        }
        assert_ok(f.table->stream_synchronize(f.device, compute, error));
        assert_int_equal(wrong, 0);
        for (int i = 0; i < SLOTS; i++) {
            assert_true(f.table->event_done(f.device, consumed[i]));
            f.table->event_destroy(f.device, copied[i]);
            f.table->event_destroy(f.device, consumed[i]);
            f.table->release(f.device, device[i]);
            f.table->release_pinned(f.device, pinned[i]);
        }
        f.table->stream_destroy(f.device, compute);
        f.table->stream_destroy(f.device, copies);
        ff_device_destroy(&f.device);
        assert_null(f.device);
    }
}

/* Without the wait for the copy the consumer is eventually too early, which shows that the test can
 * fail. Not under the sanitizers, which would rightly report the race. */
static void missing_wait_is_detected(void **state) {
    (void)state;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    return;
#endif
    uint64_t wrong = 0;
    for (uint64_t seed = 0; seed < 50 && !wrong; seed++) {
        fixture f = open_simulated(1, seed);
        ff_stream *copies, *compute;
        uint32_t *from = malloc(VALUES * 4), *to = calloc(VALUES, 4);
        for (uint32_t k = 0; k < VALUES; k++) from[k] = 7919u + k;
        assert_ok(f.table->stream_create(f.device, &copies, error));
        assert_ok(f.table->stream_create(f.device, &compute, error));
        check job = {to, 1, &wrong};
        assert_ok(f.table->copy(f.device, copies, to, from, VALUES * 4, error));
        assert_ok(f.table->call(f.device, compute, check_values, &job, error));
        f.table->stream_destroy(f.device, compute);
        f.table->stream_destroy(f.device, copies);
        free(from);
        free(to);
        ff_device_destroy(&f.device);
    }
    assert_true(wrong > 0);
}

static void events(void **state) {
    (void)state;
    for (int number = 0; number < DEVICES; number++) {
        fixture f = open_device(number, 1);
        ff_stream *stream;
        ff_event *first, *second, *plain, *never;
        uint8_t bytes[100];
        uint64_t ns, free_bytes, total_bytes;
        assert_ok(f.table->stream_create(f.device, &stream, error));
        assert_ok(f.table->event_create(f.device, &first, true, error));
        assert_ok(f.table->event_create(f.device, &second, true, error));
        assert_ok(f.table->event_create(f.device, &plain, false, error));
        assert_ok(f.table->event_create(f.device, &never, true, error));
        /* Never recorded: counts as done, and there is nothing to wait for. */
        assert_true(f.table->event_done(f.device, first));
        assert_ok(f.table->event_synchronize(f.device, first, error));
        assert_ok(f.table->stream_wait(f.device, stream, first, error));
        assert_ok(f.table->event_record(f.device, first, stream, error));
        assert_ok(f.table->fill(f.device, stream, bytes, 7, sizeof bytes, error));
        assert_ok(f.table->event_record(f.device, second, stream, error));
        assert_ok(f.table->event_synchronize(f.device, second, error));
        for (size_t i = 0; i < sizeof bytes; i++) assert_int_equal(bytes[i], 7);
        assert_true(f.table->event_done(f.device, first));
        assert_ok(f.table->elapsed(f.device, first, second, &ns, error));
        assert_true(ns < 10000000000u);
        /* No time for an event without one: not a timed event, or not recorded. */
        ff_error failure;
        assert_int_equal(f.table->elapsed(f.device, first, never, &ns, &failure), FF_FAILED);
        assert_ok(f.table->event_record(f.device, plain, stream, error));
        assert_ok(f.table->event_synchronize(f.device, plain, error));
        assert_int_equal(f.table->elapsed(f.device, first, plain, &ns, &failure), FF_FAILED);
        /* Recorded again: refers to the later work. */
        assert_ok(f.table->fill(f.device, stream, bytes, 9, sizeof bytes, error));
        assert_ok(f.table->event_record(f.device, second, stream, error));
        assert_ok(f.table->event_synchronize(f.device, second, error));
        assert_int_equal(bytes[99], 9);
        assert_ok(f.table->memory(f.device, &free_bytes, &total_bytes, error));
        assert_true(free_bytes <= total_bytes && total_bytes > 0);
        f.table->event_destroy(f.device, first);
        f.table->event_destroy(f.device, second);
        f.table->event_destroy(f.device, plain);
        f.table->event_destroy(f.device, never);
        f.table->event_destroy(f.device, NULL);
        f.table->stream_destroy(f.device, stream);
        f.table->stream_destroy(f.device, NULL);
        f.table->release(f.device, NULL);
        ff_device_destroy(&f.device);
        ff_device_destroy(&f.device);
    }
}

typedef struct tally {
    uint64_t runs, releases;
    uint32_t *counter; /* device memory: how many runs before this one */
    uint32_t seen[8];
} tally;

static void count_run(void *context) {
    tally *job = context;
    job->seen[job->runs++ % 8] = (*job->counter)++;
}

static void count_release(void *context) {
    tally *job = context;
    job->releases++;
}

/* A capture runs nothing; each launch runs all of it, the work of joined streams too, in order; an
 * external record counts again with each launch; owned work is released with the recording. */
static void recordings(void **state) {
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        fixture f = open_simulated(threads, 7);
        ff_stream *first, *second, *other;
        ff_event *fork, *join, *inside, *end;
        ff_recording *recording;
        uint32_t from[4] = {40, 0, 0, 0}, to[4] = {0}, bucket = 0, after = 0;
        tally job = {.counter = &to[0]};
        assert_ok(f.table->stream_create(f.device, &first, error));
        assert_ok(f.table->stream_create(f.device, &second, error));
        assert_ok(f.table->stream_create(f.device, &other, error));
        assert_ok(f.table->event_create(f.device, &fork, false, error));
        assert_ok(f.table->event_create(f.device, &join, false, error));
        assert_ok(f.table->event_create(f.device, &inside, true, error));
        assert_ok(f.table->event_create(f.device, &end, true, error));
        void *native = f.table->native_stream(f.device, first);
        assert_ok(f.table->make_current(f.device, error));

        assert_ok(f.table->capture_begin(f.device, first, error));
        assert_ok(f.table->copy(f.device, first, to, from, 4, error));
        assert_int_equal(ff_device_sim_enqueue(native, count_run, &job, count_release), 0);
        assert_ok(f.table->event_record(f.device, fork, first, error));
        assert_ok(f.table->stream_wait(f.device, second, fork, error));
        assert_ok(f.table->copy(f.device, second, &to[1], to, 4, error));
        assert_ok(f.table->event_record(f.device, join, second, error));
        assert_ok(f.table->stream_wait(f.device, first, join, error));
        assert_ok(f.table->event_record_external(f.device, inside, first, error));
        assert_ok(f.table->copy(f.device, first, &to[2], &to[1], 4, error));
        assert_ok(f.table->fill(f.device, first, &to[3], 1, 4, error));
        assert_ok(f.table->capture_end(f.device, first, &recording, error));
        assert_ok(f.table->stream_synchronize(f.device, first, error));
        assert_ok(f.table->stream_synchronize(f.device, second, error));
        assert_int_equal(to[0] + to[1] + to[2] + to[3] + job.runs + job.releases, 0);

        for (uint32_t step = 0; step < 6; step++) {
            /* The first stream overwrites what the other reads only once that has read it. */
            assert_ok(f.table->stream_wait(f.device, first, end, error));
            from[0] = 40 + step;
            assert_ok(f.table->recording_launch(f.device, recording, first, error));
            assert_ok(f.table->stream_wait(f.device, other, inside, error));
            assert_ok(f.table->copy(f.device, other, &bucket, &to[1], 4, error));
            assert_ok(f.table->event_record(f.device, end, other, error));
            assert_ok(f.table->copy(f.device, first, &after, &to[2], 4, error));
            assert_ok(f.table->event_synchronize(f.device, end, error));
            assert_int_equal(bucket, 41 + step);
            assert_ok(f.table->stream_synchronize(f.device, first, error));
            assert_int_equal(after, 41 + step);
            assert_int_equal(job.seen[step], 40 + step);
            assert_int_equal(to[3], 0x01010101);
            uint64_t ns;
            assert_ok(f.table->elapsed(f.device, inside, end, &ns, error));
            assert_true(ns < 10000000000u);
        }
        assert_int_equal(job.runs, 6);
        assert_int_equal(job.releases, 0);
        f.table->recording_destroy(f.device, recording);
        f.table->recording_destroy(f.device, NULL);
        assert_int_equal(job.releases, 1);

        /* Outside of a capture work is run once and released. */
        assert_int_equal(ff_device_sim_enqueue(native, count_run, &job, count_release), 0);
        assert_ok(f.table->event_record_external(f.device, inside, first, error));
        assert_ok(f.table->event_synchronize(f.device, inside, error));
        assert_ok(f.table->stream_synchronize(f.device, first, error));
        assert_int_equal(job.runs, 7);
        assert_int_equal(job.releases, 2);
        ff_stream *streams[] = {first, second, other};
        ff_event *all[] = {fork, join, inside, end};
        for (int i = 0; i < 3; i++) f.table->stream_destroy(f.device, streams[i]);
        for (int i = 0; i < 4; i++) f.table->event_destroy(f.device, all[i]);
        ff_device_destroy(&f.device);
    }
}

/* Two streams of a recording. */
typedef struct beside {
    uint32_t launches, forked; /* and what `await_open` finds of it */
    atomic_bool open;          /* what it waits for before it counts `value` */
    uint32_t value;
    uint32_t early, joined; /* the value as `read_early` and `read_joined` find it */
    bool gave_up;
} beside;

static void nap(long ns) {
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}
static void begin_late(void *context) {
    nap(2000000);
    ((beside *)context)->launches++;
}
static void await_open(void *context) {
    beside *b = context;
    const uint64_t until = ff_now_ns() + UINT64_C(20000000000);
    b->forked = b->launches;
    while (!atomic_load(&b->open) && ff_now_ns() < until) nap(100000);
    b->gave_up = !atomic_load(&b->open);
    b->value++;
}
static void read_early(void *context) {
    beside *b = context;
    b->early = b->value;
    atomic_store(&b->open, true);
}
static void read_joined(void *context) {
    beside *b = context;
    b->joined = b->value;
    atomic_store(&b->open, false);
}

/* The work of two streams runs at once, in every launch, ordered by the capture's events alone: the
 * forked stream's first work waits for the first stream's, which comes later in the capture and,
 * without a wait for the forked one, finds what that has not written yet. */
static void branches_run_beside_each_other(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        fixture f = open_simulated(1, seed);
        ff_stream *first, *second;
        ff_event *fork, *join;
        ff_recording *recording;
        beside b = {.value = 40};
        assert_ok(f.table->stream_create(f.device, &first, error));
        assert_ok(f.table->stream_create(f.device, &second, error));
        assert_ok(f.table->event_create(f.device, &fork, false, error));
        assert_ok(f.table->event_create(f.device, &join, false, error));
        assert_ok(f.table->capture_begin(f.device, first, error));
        assert_ok(f.table->call(f.device, first, begin_late, &b, error));
        assert_ok(f.table->event_record(f.device, fork, first, error));
        assert_ok(f.table->stream_wait(f.device, second, fork, error));
        assert_ok(f.table->call(f.device, second, await_open, &b, error));
        assert_ok(f.table->event_record(f.device, join, second, error));
        assert_ok(f.table->call(f.device, first, read_early, &b, error));
        assert_ok(f.table->stream_wait(f.device, first, join, error));
        assert_ok(f.table->call(f.device, first, read_joined, &b, error));
        assert_ok(f.table->capture_end(f.device, first, &recording, error));
        for (uint32_t launch = 0; launch < 5; launch++) {
            assert_ok(f.table->recording_launch(f.device, recording, first, error));
            assert_ok(f.table->stream_synchronize(f.device, first, error));
            assert_false(b.gave_up);
            assert_int_equal(b.early, 40 + launch);
            assert_int_equal(b.joined, 41 + launch);
            assert_int_equal(b.forked, 1 + launch);
        }
        f.table->recording_destroy(f.device, recording);
        f.table->event_destroy(f.device, fork);
        f.table->event_destroy(f.device, join);
        f.table->stream_destroy(f.device, first);
        f.table->stream_destroy(f.device, second);
        ff_device_destroy(&f.device);
    }
}

typedef struct busy {
    atomic_int now;
    bool overlapped;
    uint32_t runs;
} busy;

static void be_busy(void *context) {
    busy *b = context;
    if (atomic_fetch_add(&b->now, 1)) b->overlapped = true;
    nap(100000);
    b->runs++;
    atomic_fetch_sub(&b->now, 1);
}

/* Also in two streams, the launches of a recording run one after another. */
static void launches_never_overlap(void **state) {
    (void)state;
    fixture f = open_simulated(1, 11);
    ff_stream *streams[2];
    ff_recording *recording;
    busy b = {.overlapped = false};
    for (int i = 0; i < 2; i++) assert_ok(f.table->stream_create(f.device, &streams[i], error));
    assert_ok(f.table->capture_begin(f.device, streams[0], error));
    assert_ok(f.table->call(f.device, streams[0], be_busy, &b, error));
    assert_ok(f.table->capture_end(f.device, streams[0], &recording, error));
    for (int i = 0; i < 40; i++)
        assert_ok(f.table->recording_launch(f.device, recording, streams[i % 2], error));
    for (int i = 0; i < 2; i++) assert_ok(f.table->stream_synchronize(f.device, streams[i], error));
    assert_false(b.overlapped);
    assert_int_equal(b.runs, 40);
    f.table->recording_destroy(f.device, recording);
    for (int i = 0; i < 2; i++) f.table->stream_destroy(f.device, streams[i]);
    ff_device_destroy(&f.device);
}

/* What CUDA refuses is refused here too. */
static void capture_rules(void **state) {
    (void)state;
    fixture f = open_simulated(1, 9);
    const ff_device_table *t = f.table;
    ff_stream *first, *second;
    ff_event *event, *outside;
    ff_recording *recording, *good;
    ff_error failure;
    uint8_t bytes[4];
    uint64_t ns;
    assert_ok(t->stream_create(f.device, &first, error));
    assert_ok(t->stream_create(f.device, &second, error));
    assert_ok(t->event_create(f.device, &event, false, error));
    assert_ok(t->event_create(f.device, &outside, false, error));
    assert_ok(t->event_record(f.device, outside, second, error));

    assert_int_equal(t->capture_end(f.device, first, &recording, &failure), FF_FAILED);
    assert_ok(t->capture_begin(f.device, first, error));
    assert_int_equal(t->capture_begin(f.device, first, &failure), FF_FAILED);
    assert_int_equal(t->stream_synchronize(f.device, first, &failure), FF_FAILED);
    assert_ok(t->event_record(f.device, event, first, error));
    assert_int_equal(t->event_synchronize(f.device, event, &failure), FF_FAILED);
    assert_false(t->event_done(f.device, event));
    assert_ok(t->fill(f.device, first, bytes, 1, 4, error));
    assert_ok(t->capture_end(f.device, first, &good, error));
    assert_int_equal(t->elapsed(f.device, event, event, &ns, &failure), FF_FAILED);

    /* An event of a capture that has ended, and one from outside in a capture. */
    assert_int_equal(t->stream_wait(f.device, second, event, &failure), FF_FAILED);
    assert_ok(t->capture_begin(f.device, first, error));
    assert_int_equal(t->stream_wait(f.device, first, outside, &failure), FF_FAILED);
    assert_int_equal(t->capture_end(f.device, first, &recording, &failure), FF_FAILED);
    assert_null(recording);

    /* Forked work without a wait; then work after the wait. */
    for (int late = 0; late < 2; late++) {
        assert_ok(t->capture_begin(f.device, first, error));
        assert_ok(t->event_record(f.device, event, first, error));
        assert_ok(t->stream_wait(f.device, second, event, error));
        if (late) {
            assert_ok(t->event_record(f.device, event, second, error));
            assert_ok(t->stream_wait(f.device, first, event, error));
        }
        assert_ok(t->fill(f.device, second, bytes, 2, 4, error));
        assert_int_equal(t->capture_end(f.device, first, &recording, &failure), FF_FAILED);
        assert_non_null(strstr(failure.message, "did not wait"));
    }

    /* A recording is launched outside of captures only; the streams are as before. */
    assert_ok(t->capture_begin(f.device, first, error));
    assert_int_equal(t->recording_launch(f.device, good, first, &failure), FF_FAILED);
    assert_ok(t->capture_end(f.device, first, &recording, error));
    t->recording_destroy(f.device, recording);
    assert_ok(t->recording_launch(f.device, good, second, error));
    assert_ok(t->stream_synchronize(f.device, second, error));
    assert_int_equal(bytes[3], 1);
    t->recording_destroy(f.device, good);
    t->stream_destroy(f.device, first);
    t->stream_destroy(f.device, second);
    t->event_destroy(f.device, event);
    t->event_destroy(f.device, outside);
    ff_device_destroy(&f.device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring),
        cmocka_unit_test(missing_wait_is_detected),
        cmocka_unit_test(events),
        cmocka_unit_test(recordings),
        cmocka_unit_test(capture_rules),
        cmocka_unit_test(branches_run_beside_each_other),
        cmocka_unit_test(launches_never_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
