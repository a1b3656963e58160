/* How a batch is shared among ranks: against trying all ways. */
#include "tests/unit/check.h"
#include "tests/unit/dice.h"

#include "train/comm/job/shares.h"

enum { RANKS = 3 };

static double time_of(const double *speed, const int64_t *rows, int count) {
    double longest = 0;
    for (int r = 0; r < count; r++)
        if ((double)rows[r] / speed[r] > longest) longest = (double)rows[r] / speed[r];
    return longest;
}

/* The shortest time of all shares; negative: there are none. */
static double best_of(const double *speed, const int64_t *most, int64_t total, int64_t unit) {
    double best = -1;
    for (int64_t a = unit; a <= most[0]; a += unit)
        for (int64_t b = unit; b <= most[1]; b += unit) {
            const int64_t rows[RANKS] = {a, b, total - a - b};
            if (rows[2] < unit || rows[2] > most[2]) continue;
            const double time = time_of(speed, rows, RANKS);
            if (best < 0 || time < best) best = time;
        }
    return best;
}

static void shares_are_the_best(void **state) {
    (void)state;
    dice d = {.seed = 7};
    int none = 0;
    for (int i = 0; i < 3000; i++) {
        const bool pairs = i % 2;
        const int64_t unit = pairs ? 2 : 1;
        const int64_t total = 3 + (int64_t)roll(&d, 40);
        double speed[RANKS];
        int64_t most[RANKS], rows[RANKS], sum = 0;
        for (int r = 0; r < RANKS; r++) {
            speed[r] = 1 + (double)roll(&d, 1000) / 100;
            most[r] = (int64_t)roll(&d, 40);
        }
        const double best = best_of(speed, most, total, unit);
        const bool there = ff_shares_choose(speed, most, RANKS, total, pairs, rows);
        assert_int_equal(there, best >= 0);
        none += !there;
        if (!there) continue;
        for (int r = 0; r < RANKS; r++) {
            sum += rows[r];
            assert_in_range(rows[r], unit, most[r]);
            if (r + 1 < RANKS) assert_int_equal(rows[r] % unit, 0);
        }
        assert_int_equal(sum, total);
        /* The last one of pairs may have an odd sample more, which is given at the end. */
        const double odd = pairs && total % 2 ? 1 / speed[RANKS - 1] : 0;
        assert_true(time_of(speed, rows, RANKS) <= best + odd + 1e-9);
    }
    assert_in_range(none, 100, 2000);
}

static void lists_are_read(void **state) {
    (void)state;
    uint32_t cuts[4];
    assert_true(ff_shares_parse("2,3,3", 3, cuts));
    assert_int_equal(cuts[0] + 10 * cuts[1] + 100 * cuts[2] + 1000 * cuts[3], 20 + 500 + 8000);
    const char *const bad[] = {"",       "2,3",    "2,3,3,1", "2,3,0", "2,3,x",
                               "2,-3,3", "2,3,3,", "2, 3,3",  "2,,3",  "2,3,1048577"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(ff_shares_parse(bad[i], 3, cuts));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_the_best),
        cmocka_unit_test(lists_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
