/* Points within an epoch: outcomes that arrive alone, many at once, and after a checkpoint. */
#include "tests/unit/train_helpers.h"

#include "train/report/events/step_points.h"

/* The outcome of a step of 4 labelled samples, each with this loss. */
static ff_outcome outcome_of(uint64_t step, double loss) {
    return (ff_outcome){.step = step, .loss_sum = 4 * loss, .weight = 4, .count = 4};
}

static void expect(const ff_step_point *point, uint64_t steps, double loss, double rate,
                   double waited) {
    assert_int_equal(point->steps, steps);
    assert_float_equal(point->loss, loss, 1e-12);
    assert_float_equal(point->samples_per_second, rate, 1e-6 * rate);
    assert_float_equal(point->data_wait_percent, waited, 1e-9);
}

/* Ten steps an epoch, a point every three: the first four arrive together, after 8 seconds of which
 * 2 were waiting; the others alone, a second each. */
static void test_arrivals(void **state) {
    (void)state;
    ff_step_points points;
    ff_step_point point;
    ff_step_points_begin(&points, 3, 10);
    ff_step_points_begin_epoch(&points, (ff_step_clock){0});
    ff_step_points_arrive(&points, 4, (ff_step_clock){8e9, 2e9});
    for (uint64_t step = 0; step < 10; step++) {
        const ff_outcome one = outcome_of(step, (double)step);
        if (step >= 4)
            ff_step_points_arrive(&points, 1, (ff_step_clock){8e9 + (double)(step - 3) * 1e9, 2e9});
        const bool due = ff_step_points_add(&points, &one, 4, &point);
        assert_int_equal(due, step == 2 || step == 5 || step == 8);
        if (step == 2) expect(&point, 3, 1, 12 / 6.0, 25);
        if (step == 5) expect(&point, 6, 4, 12 / 4.0, 12.5);
        if (step == 8) expect(&point, 9, 7, 12 / 3.0, 0);
    }
    assert_true(ff_step_points_rest(&points, 10, &point));
    expect(&point, 10, 9, 4, 0);
    assert_false(ff_step_points_rest(&points, 10, &point));
}

/* A run that is resumed after 5 steps, which took 50 seconds: they are not part of its points. */
static void test_resumed(void **state) {
    (void)state;
    ff_step_points points;
    ff_step_point point;
    ff_step_points_begin(&points, 3, 10);
    ff_step_points_begin_epoch(&points, (ff_step_clock){50e9, 20e9});
    ff_step_points_arrive(&points, 1, (ff_step_clock){52e9, 21e9});
    assert_true(ff_step_points_add(&points, &(ff_outcome){.step = 5, .loss_sum = 8, .count = 4}, 4,
                                   &point));
    expect(&point, 6, 2, 2, 50);
    /* A wait that was measured after it had been counted as longer. */
    ff_step_points_arrive(&points, 3, (ff_step_clock){55e9, 19e9});
    for (uint64_t step = 6; step < 9; step++)
        assert_int_equal(ff_step_points_add(&points, &(ff_outcome){.step = step}, 4, &point),
                         step == 8);
    assert_true(isnan(point.loss));
    assert_float_equal(point.data_wait_percent, 0, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_arrivals),
                                       cmocka_unit_test(test_resumed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
