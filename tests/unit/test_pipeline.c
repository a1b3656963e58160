/* The ordered pipeline: every unit once, in order, within its slots; the failure of the lowest unit
 * is reported. */
#include "tools/ffpack/split/pipeline.h"

#include "format/base/thread.h"
#include "tests/unit/check.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 7, UNITS = 500 };

typedef struct trial {
    uint64_t in_slot[SLOTS];
    atomic_int occupied;
    atomic_int begun;
    uint64_t next;              /* to take */
    uint64_t fail_make[2];      /* units whose making fails */
    uint64_t fail_take;         /* the unit that fails to take */
    int watches, fail_watch_at; /* the call of watch that fails; 0 = none */
    atomic_int inside;          /* takes and watches at this moment */
    uint64_t slow_make;         /* a unit that takes 150 ms */
    int slow_watch;             /* the call of watch that takes 200 ms */
    atomic_uint slots_used;     /* bits */
    uint32_t random;
} trial;

static ff_status make(void *context, int worker, size_t slot, uint64_t number, ff_error *error) {
    trial *t = context;
    (void)worker;
    assert_true(slot < SLOTS);
    atomic_fetch_or(&t->slots_used, 1u << slot);
    if (number == t->slow_make) nanosleep(&(struct timespec){.tv_nsec = 150000000}, NULL);
    atomic_fetch_add(&t->begun, 1);
    assert_true(atomic_fetch_add(&t->occupied, 1) < SLOTS);
    /* Units take different times, so that they finish out of order. */
    uint32_t wait = (uint32_t)number * 2654435761u >> 16;
    if (wait % 4 == 0) nanosleep(&(struct timespec){.tv_nsec = wait % 200000}, NULL);
    t->in_slot[slot] = number;
    for (int i = 0; i < 2; i++)
        if (number == t->fail_make[i]) return ff_fail(error, FF_BAD_DATA, "unit %d", (int)number);
    return FF_OK;
}

static ff_status take(void *context, size_t slot, uint64_t number, ff_error *error) {
    trial *t = context;
    assert_int_equal(atomic_fetch_add(&t->inside, 1), 0);
    assert_int_equal(number, t->next);
    assert_int_equal(t->in_slot[slot], number);
    t->next++;
    atomic_fetch_sub(&t->occupied, 1);
    atomic_fetch_sub(&t->inside, 1);
    return number == t->fail_take ? ff_fail(error, FF_IO, "taking %d", (int)number) : FF_OK;
}

static ff_status watch(void *context, ff_error *error) {
    trial *t = context;
    assert_int_equal(atomic_fetch_add(&t->inside, 1), 0);
    if (t->watches + 1 == t->slow_watch) nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    atomic_fetch_sub(&t->inside, 1);
    return ++t->watches == t->fail_watch_at ? ff_fail(error, FF_INTERRUPTED, "stopped") : FF_OK;
}

static ff_status run(trial *t, uint64_t first, int jobs, ff_error *error) {
    ff_pipeline pipeline = {.first = first,
                            .end = UNITS,
                            .jobs = jobs,
                            .slot_count = SLOTS,
                            .context = t,
                            .make = make,
                            .take = take,
                            .watch = watch};
    t->next = first;
    return ff_pipeline_run(&pipeline, error);
}

static trial none(void) {
    return (trial){.fail_make = {UNITS, UNITS}, .fail_take = UNITS, .slow_make = UNITS};
}

static void takes_all_in_order(void **state) {
    (void)state;
    for (int jobs = 1; jobs <= 9; jobs += 2) {
        trial t = none();
        assert_ok(run(&t, 3, jobs, error));
        assert_int_equal(t.next, UNITS);
        assert_int_equal(t.begun, UNITS - 3);
    }
}

/* One worker takes what it has made before it makes more, and uses one slot's memory. */
static void uses_warm_slots(void **state) {
    (void)state;
    trial t = none();
    assert_ok(run(&t, 0, 1, error));
    assert_int_equal(t.slots_used, 1);
}

/* Units that became ready while the caller's thread watched are taken after that. */
static void takes_what_was_made_while_it_watched(void **state) {
    (void)state;
    trial t = none();
    t.slow_make = UNITS - 1;
    t.slow_watch = 1;
    assert_ok(run(&t, UNITS - 1, 1, error));
    assert_int_equal(t.next, UNITS);
}

static void nothing_to_do(void **state) {
    (void)state;
    trial t = none();
    assert_ok(run(&t, UNITS, 2, error));
    assert_int_equal(t.begun, 0);
}

static void reports_the_lowest_failure(void **state) {
    (void)state;
    for (int jobs = 1; jobs <= 9; jobs++) {
        trial t = none();
        ff_error error = {0};
        /* Unit 203 is often made before 200; both fail. */
        t.fail_make[0] = 203;
        t.fail_make[1] = 200;
        assert_int_equal(run(&t, 0, jobs, &error), FF_BAD_DATA);
        assert_string_equal(error.message, "unit 200");
        assert_int_equal(t.next, 200);
    }
}

static void ends_when_taking_fails(void **state) {
    (void)state;
    trial t = none();
    ff_error error = {0};
    t.fail_take = 77;
    assert_int_equal(run(&t, 0, 3, &error), FF_IO);
    assert_string_equal(error.message, "taking 77");
    assert_int_equal(t.next, 78);
    assert_true(t.begun <= 78 + SLOTS);
}

static void ends_when_watching_fails(void **state) {
    (void)state;
    trial t = none();
    ff_error error = {0};
    t.fail_watch_at = 50;
    assert_int_equal(run(&t, 0, 3, &error), FF_INTERRUPTED);
    assert_true(t.next < UNITS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_all_in_order),
        cmocka_unit_test(nothing_to_do),
        cmocka_unit_test(uses_warm_slots),
        cmocka_unit_test(takes_what_was_made_while_it_watched),
        cmocka_unit_test(reports_the_lowest_failure),
        cmocka_unit_test(ends_when_taking_fails),
        cmocka_unit_test(ends_when_watching_fails),
    };
    return cmocka_run_group_tests_name("pipeline", tests, NULL, NULL);
}
