/* Which rows of a batch a thread fills: its own share of each batch, and what is left of others'.
 */
#include "loader/host/ring.h"
#include "tests/unit/check.h"
#include "tests/unit/dice.h"

#include <string.h>

enum { MOST = 40 };

/* Each ticket once, whoever comes; a thread's own share first, in order, then the first of all. */
static void each_once(void **state) {
    (void)state;
    dice luck = {.seed = 1};
    for (int trial = 0; trial < 3000; trial++) {
        const uint32_t runs = 1 + roll(&luck, MOST);
        const int threads = (int)(1 + roll(&luck, MOST));
        bool taken[MOST] = {false}, wanted[MOST] = {false};
        for (uint32_t done = 0; done < runs; done++) {
            const int thread = (int)roll(&luck, (uint32_t)threads);
            const uint32_t run = ff_ring_ticket(taken, runs, thread, threads);
            uint32_t want = MOST;
            for (uint32_t k = runs; k-- > 0;)
                if (!wanted[k]) want = k;
            for (uint32_t k = runs; k-- > 0;)
                if (!wanted[k] && k >= runs * (unsigned)thread / (unsigned)threads &&
                    k < runs * (unsigned)(thread + 1) / (unsigned)threads)
                    want = k;
            assert_int_equal(run, want);
            taken[run] = wanted[run] = true;
        }
    }
}

/* Threads that take turns write the same rows of every batch: two, four and three of four each. */
static void the_same_rows(void **state) {
    (void)state;
    static const int threads[] = {2, 4, 3};
    for (int i = 0; i < 3; i++) {
        const uint32_t runs = i == 2 ? 12 : 2 * (uint32_t)threads[i];
        int owner[MOST];
        for (int batch = 0; batch < 5; batch++) {
            bool taken[MOST] = {false};
            for (uint32_t k = 0; k < runs; k++) {
                const int thread = (int)(k + (uint32_t)batch) % threads[i];
                const uint32_t run = ff_ring_ticket(taken, runs, thread, threads[i]);
                assert_false(taken[run]);
                taken[run] = true;
                if (batch) assert_int_equal(owner[run], thread);
                owner[run] = thread;
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_once),
        cmocka_unit_test(the_same_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
