/* The control channel, its ranks in threads of one process; how ranks end. */
#include "tests/unit/check.h"
#include "tests/unit/loopback.h"
#include "train/comm/job/channel.h"

#include "format/base/thread.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 8, ROUNDS = 100 };

typedef struct fixture {
    ff_channel *channels[MOST];
    loopback at;
    int count, ends_early, reports, ends_as[MOST];
    atomic_int failures;
    char messages[MOST][200];
} fixture;

static void on_failure(void *context, const char *why) {
    fixture *f = context;
    atomic_fetch_add(&f->failures, 1);
    assert_non_null(strstr(why, "rank"));
}

static void open_body(void *context, int rank) {
    fixture *f = context;
    const ff_ranks ranks = loopback_rank(&f->at, rank);
    const ff_channel_options options = {UINT64_C(60000000000), on_failure, f};
    assert_ok(ff_channel_open(&f->channels[rank], &ranks, &options, error));
}

static void open_all(fixture *f, int count) {
    ff_threads *threads;
    f->count = count;
    f->at = open_loopback(count);
    assert_ok(ff_threads_start(&threads, count, "rank", open_body, f, error));
    ff_threads_join(&threads);
}

/* "rank 1 (host HOST, process 42) failed: ..." as "rank 1 failed: ..." */
static const char *without_place(const char *text, char *to) {
    const char *open = strstr(text, " (host "), *close = open ? strchr(open, ')') : NULL;
    if (!close) return text;
    snprintf(to, 300, "%.*s%s", (int)(open - text), text, close + 1);
    return to;
}

static void assert_says(const char *text, const char *wanted) {
    char short_text[300];
    assert_string_equal(without_place(text, short_text), wanted);
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
    assert_ok(ff_threads_start(&threads, count, "rank", gather_body, f, error));
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
        assert_int_equal(f.failures, count);
        snprintf(wanted, sizeof wanted, "%d: rank %d failed: out of memory", ROUNDS / 2, count - 1);
        for (int i = 0; i < count; i++) assert_says(f.messages[i], wanted);
    }
}

static void test_ends_early(void **state) {
    (void)state;
    for (int count = 2; count <= MOST; count++) {
        fixture f = {.ends_early = 1, .reports = -1};
        char wanted[100];
        run(&f, count);
        assert_in_range(f.failures, count - 1, count); /* rank 1 may have ended before */
        snprintf(wanted, sizeof wanted, "%d: rank 1 ended before the others", ROUNDS / 2);
        for (int i = 0; i < count; i++) assert_says(f.messages[i], i == 1 ? "" : wanted);
    }
}

static void test_first_reason_stays(void **state) {
    (void)state;
    fixture f = {0};
    ff_error why[2] = {0};
    open_all(&f, 2);
    assert_ok(ff_channel_check(f.channels[0], error));
    const uint64_t before = ff_now_ns();
    assert_ok(ff_channel_await_failure(f.channels[0], 50000000, error));
    assert_in_range(ff_now_ns() - before, 50000000, 10000000000);
    ff_channel_report(f.channels[1], "first");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ff_channel_await_failure(f.channels[i], UINT64_C(1) << 40, &why[i]),
                         FF_FAILED);
        assert_says(why[i].message, "rank 1 failed: first");
        ff_channel_report(f.channels[0], "second");
        assert_int_equal(ff_channel_check(f.channels[i], &why[i]), FF_FAILED);
        assert_says(why[i].message, "rank 1 failed: first");
    }
    for (int i = 0; i < 2; i++) {
        ff_channel_close(&f.channels[i]);
        ff_channel_close(&f.channels[i]);
    }
    assert_int_equal(f.failures, 2);
}

/* Three ranks: rank 2 fails a moment after the others have seen what comes of it. */
static void conclude_body(void *context, int rank) {
    fixture *f = context;
    static const ff_status statuses[] = {FF_FAILED, FF_INTERRUPTED, FF_IO};
    static const char *const texts[] = {"a connection broke", "stopped by SIGTERM", "a full disk"};
    const ff_ranks ranks = loopback_rank(&f->at, rank);
    const ff_channel_options options = {.timeout_ns = UINT64_C(20000000000)};
    const struct timespec moment = {0, 50000000};
    ff_error error = {0};
    ff_channel *channel;
    if (ff_channel_open(&channel, &ranks, &options, &error) == FF_OK) {
        if (rank == 2) nanosleep(&moment, NULL);
        ff_fail(&error, statuses[rank], "%s", texts[rank]);
        const ff_status status = ff_channel_conclude(channel, statuses[rank], &error);
        f->ends_as[rank] = (int)status;
        ff_channel_close(&channel);
    }
    snprintf(f->messages[rank], sizeof f->messages[rank], "%.150s", error.message);
}

static void test_cause_is_named(void **state) {
    (void)state;
    fixture f = {0};
    ff_threads *threads;
    f.at = open_loopback(3);
    assert_ok(ff_threads_start(&threads, 3, "rank", conclude_body, &f, error));
    ff_threads_join(&threads);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(f.ends_as[i], FF_FAILED);
        assert_non_null(strstr(f.messages[i], "rank 2 (host "));
        assert_non_null(strstr(f.messages[i], ") failed: a full disk"));
    }
    assert_int_equal(f.ends_as[2], FF_IO);
    assert_string_equal(f.messages[2], "a full disk");
}

static void test_conclusions(void **state) {
    (void)state;
    fixture f = {0};
    ff_error own = {0};
    open_all(&f, 2);
    assert_int_equal(ff_channel_conclude(f.channels[0], FF_OK, NULL), FF_OK);
    assert_int_equal(ff_channel_conclude(f.channels[0], FF_PREEMPTED, NULL), FF_PREEMPTED);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ff_channel_conclude(f.channels[i], FF_INTERRUPTED, &own), FF_INTERRUPTED);
    assert_ok(ff_channel_check(f.channels[0], error));
    ff_fail(&own, FF_NO_MEMORY, "no memory");
    assert_int_equal(ff_channel_conclude(f.channels[1], FF_NO_MEMORY, &own), FF_NO_MEMORY);
    assert_fails(ff_channel_await_failure(f.channels[0], UINT64_C(1) << 40, error), FF_FAILED,
                 "failed: no memory");
    ff_fail(&own, FF_IO, "a full disk");
    assert_int_equal(ff_channel_conclude(f.channels[0], FF_IO, &own), FF_IO);
    assert_string_equal(own.message, "a full disk");
    assert_int_equal(ff_channel_conclude(f.channels[0], FF_INTERRUPTED, &own), FF_FAILED);
    assert_says(own.message, "rank 1 failed: no memory");
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
    assert_ok(ff_threads_start(&threads, 1, "rank", wait_body, &f, error));
    assert_ok(ff_channel_await_failure(f.channels[1], 20000000, error));
    ff_channel_report(f.channels[1], "out of memory");
    ff_threads_join(&threads);
    assert_says(f.messages[0], "rank 1 failed: out of memory");
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
        cmocka_unit_test(test_gathers),      cmocka_unit_test(test_reports),
        cmocka_unit_test(test_ends_early),   cmocka_unit_test(test_first_reason_stays),
        cmocka_unit_test(test_conclusions),  cmocka_unit_test(test_cause_is_named),
        cmocka_unit_test(test_report_wakes), cmocka_unit_test(test_too_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
