/* The control channel of replicas that are threads. */
#include "tests/unit/check.h"
#include "train/comm/channel.h"

#include "format/base/thread.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 8, ROUNDS = 300 };

typedef struct fixture {
    ff_channel *channels[MOST];
    int count, ends_early, reports;
    atomic_int failures;
    char messages[MOST][200];
} fixture;

static void on_failure(void *context, const char *why) {
    fixture *f = context;
    atomic_fetch_add(&f->failures, 1);
    assert_non_null(strstr(why, "replica"));
}

static void open_all(fixture *f, int count) {
    const ff_channel_options options = {1000000000, on_failure, f};
    f->count = count;
    assert_ok(ff_channel_open_threads(f->channels, count, &options, error));
}

/* Parts of other lengths at every rank and round, none among them. */
static size_t length_of(int rank, int round) {
    return (size_t)((rank * 7 + round * 13) % 40);
}

static void gather_body(void *context, int rank) {
    fixture *f = context;
    ff_buffer parts[MOST];
    ff_error error = {0};
    for (int round = 0; round < ROUNDS; round++) {
        char bytes[64];
        memset(bytes, rank * 16 + round % 16, sizeof bytes);
        if (round == ROUNDS / 2 && rank == f->ends_early) break;
        if (round == ROUNDS / 2 && rank == f->reports)
            ff_channel_report(f->channels[rank], "out of memory");
        if (ff_channel_gather(f->channels[rank], bytes, length_of(rank, round), parts, &error) !=
            FF_OK) {
            snprintf(f->messages[rank], sizeof f->messages[rank], "%d: %.150s", round,
                     error.message);
            for (int i = 0; i < f->count; i++) assert_null(parts[i].bytes);
            break;
        }
        for (int i = 0; i < f->count; i++) {
            assert_int_equal(parts[i].length, length_of(i, round));
            for (size_t k = 0; k < parts[i].length; k++)
                assert_int_equal((unsigned char)parts[i].bytes[k], i * 16 + round % 16);
            ff_buffer_free(&parts[i]);
        }
    }
    ff_channel_close(&f->channels[rank]);
}

static void run(fixture *f, int count) {
    ff_threads *threads;
    open_all(f, count);
    assert_ok(ff_threads_start(&threads, count, "replica", gather_body, f, error));
    ff_threads_join(&threads);
}

static void test_gathers(void **state) {
    (void)state;
    for (int count = 1; count <= MOST; count++) {
        fixture f = {.ends_early = -1, .reports = -1};
        run(&f, count);
        assert_int_equal(f.failures, 0);
        for (int i = 0; i < count; i++) assert_string_equal(f.messages[i], "");
    }
}

static void test_reports(void **state) {
    (void)state;
    for (int count = 2; count <= MOST; count++) {
        fixture f = {.ends_early = -1, .reports = count - 1};
        char wanted[100];
        run(&f, count);
        assert_int_equal(f.failures, 1);
        snprintf(wanted, sizeof wanted, "%d: replica %d failed: out of memory", ROUNDS / 2,
                 count - 1);
        for (int i = 0; i < count; i++) assert_string_equal(f.messages[i], wanted);
    }
}

static void test_ends_early(void **state) {
    (void)state;
    for (int count = 2; count <= MOST; count++) {
        fixture f = {.ends_early = 1, .reports = -1};
        char wanted[100];
        run(&f, count);
        assert_int_equal(f.failures, 1);
        snprintf(wanted, sizeof wanted, "%d: replica 1 ended before the others", ROUNDS / 2);
        for (int i = 0; i < count; i++) assert_string_equal(f.messages[i], i == 1 ? "" : wanted);
    }
}

static void test_first_reason_stays(void **state) {
    (void)state;
    fixture f = {0};
    open_all(&f, 2);
    assert_ok(ff_channel_check(f.channels[0], error));
    const uint64_t before = ff_now_ns();
    assert_ok(ff_channel_await_failure(f.channels[0], 50000000, error));
    assert_in_range(ff_now_ns() - before, 50000000, 10000000000);
    ff_channel_report(f.channels[1], "first");
    ff_channel_report(f.channels[0], "second");
    for (int i = 0; i < 2; i++) {
        assert_fails(ff_channel_check(f.channels[i], error), FF_FAILED, "replica 1 failed: first");
        assert_fails(ff_channel_await_failure(f.channels[i], UINT64_C(1) << 40, error), FF_FAILED,
                     "replica 1 failed: first");
        ff_channel_close(&f.channels[i]);
    }
    assert_int_equal(f.failures, 1);
    ff_channel_close(&f.channels[0]);
}

static void report_body(void *context, int rank) {
    const fixture *f = context;
    const struct timespec moment = {0, 50000000};
    (void)rank;
    nanosleep(&moment, NULL);
    ff_channel_report(f->channels[2], "a bus error");
}

/* The cause of a failed communicator is named though it is known only a moment later; other errors
 * are a rank's own, at once. */
static void test_conclusions(void **state) {
    (void)state;
    fixture f = {0};
    ff_threads *threads;
    open_all(&f, 3);
    assert_int_equal(ff_channel_conclude(f.channels[0], FF_OK, NULL), FF_OK);
    assert_int_equal(ff_channel_conclude(f.channels[0], FF_PREEMPTED, NULL), FF_PREEMPTED);
    assert_ok(ff_channel_check(f.channels[0], error));
    assert_ok(ff_threads_start(&threads, 1, "replica", report_body, &f, error));
    for (int i = 0; i < 2; i++) {
        ff_error error = {0};
        const ff_status own = ff_fail(&error, i ? FF_INTERRUPTED : FF_FAILED, "a connection broke");
        assert_int_equal(ff_channel_conclude(f.channels[i], own, &error), FF_FAILED);
        assert_string_equal(error.message, "replica 2 failed: a bus error");
    }
    ff_threads_join(&threads);
    ff_error late = {0};
    ff_fail(&late, FF_IO, "a disk is full");
    assert_int_equal(ff_channel_conclude(f.channels[0], FF_IO, &late), FF_IO);
    assert_string_equal(late.message, "a disk is full");
    for (int i = 0; i < 3; i++) ff_channel_close(&f.channels[i]);
    open_all(&f, 2);
    const uint64_t before = ff_now_ns();
    ff_fail(&late, FF_NO_MEMORY, "no memory");
    assert_int_equal(ff_channel_conclude(f.channels[1], FF_NO_MEMORY, &late), FF_NO_MEMORY);
    assert_in_range(ff_now_ns() - before, 0, 900000000);
    assert_fails(ff_channel_check(f.channels[0], error), FF_FAILED, "replica 1 failed: no memory");
    for (int i = 0; i < 2; i++) ff_channel_close(&f.channels[i]);
}

static void wait_body(void *context, int rank) {
    fixture *f = context;
    ff_buffer parts[2];
    ff_error error = {0};
    (void)rank;
    (void)!ff_channel_gather(f->channels[0], "x", 1, parts, &error);
    snprintf(f->messages[0], sizeof f->messages[0], "%.150s", error.message);
}

static void test_report_wakes(void **state) {
    (void)state;
    fixture f = {0};
    ff_threads *threads;
    open_all(&f, 2);
    assert_ok(ff_threads_start(&threads, 1, "replica", wait_body, &f, error));
    assert_ok(ff_channel_await_failure(f.channels[1], 20000000, error));
    ff_channel_report(f.channels[1], "out of memory");
    ff_threads_join(&threads);
    assert_string_equal(f.messages[0], "replica 1 failed: out of memory");
    for (int i = 0; i < 2; i++) ff_channel_close(&f.channels[i]);
}

static void test_too_much(void **state) {
    (void)state;
    fixture f = {0};
    ff_buffer part;
    char *bytes = calloc(1, (16 << 20) + 1);
    assert_non_null(bytes);
    open_all(&f, 1);
    assert_fails(ff_channel_gather(f.channels[0], bytes, (16 << 20) + 1, &part, error), FF_FAILED,
                 "too many");
    assert_ok(ff_channel_gather(f.channels[0], bytes, 16 << 20, &part, error));
    assert_int_equal(part.length, 16 << 20);
    ff_buffer_free(&part);
    ff_channel_close(&f.channels[0]);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gathers),     cmocka_unit_test(test_reports),
        cmocka_unit_test(test_ends_early),  cmocka_unit_test(test_first_reason_stays),
        cmocka_unit_test(test_conclusions), cmocka_unit_test(test_report_wakes),
        cmocka_unit_test(test_too_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
