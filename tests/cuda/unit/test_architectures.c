/* Which devices run the code of which architectures: NVIDIA's compatibility rules. */
#include "loader/cuda/architectures.h"
#include "tests/unit/check.h"

#include <stdint.h>

static void machine_code_runs_within_its_major_number(void **state) {
    (void)state;
    assert_true(ff_cuda_architecture_runs("80 90", 8, 0));
    assert_true(ff_cuda_architecture_runs("80 90", 8, 6));
    assert_true(ff_cuda_architecture_runs("80 90", 9, 0));
    assert_true(ff_cuda_architecture_runs("75 86 90", 8, 9));
    assert_false(ff_cuda_architecture_runs("86 90", 8, 0));
    assert_false(ff_cuda_architecture_runs("80 90", 7, 5));
    assert_false(ff_cuda_architecture_runs("75 90", 8, 0));
}

static void ptx_of_the_newest_runs_on_newer_ones(void **state) {
    (void)state;
    assert_true(ff_cuda_architecture_runs("80 90", 10, 0));
    assert_true(ff_cuda_architecture_runs("75", 8, 9));
    assert_true(ff_cuda_architecture_runs("75 80 86 89 90 100 103 120", 12, 1));
    assert_false(ff_cuda_architecture_runs("90", 8, 9));
}

static void a_letter_means_just_that_one(void **state) {
    (void)state;
    assert_true(ff_cuda_architecture_runs("90a", 9, 0));
    assert_false(ff_cuda_architecture_runs("90a", 10, 0));
    assert_true(ff_cuda_architecture_runs("80 90a", 8, 9));
    assert_false(ff_cuda_architecture_runs("100a", 10, 3));
}

static void nothing_runs_nothing(void **state) {
    (void)state;
    assert_false(ff_cuda_architecture_runs("", 9, 0));
    assert_false(ff_cuda_architecture_runs("none", 9, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machine_code_runs_within_its_major_number),
        cmocka_unit_test(ptx_of_the_newest_runs_on_newer_ones),
        cmocka_unit_test(a_letter_means_just_that_one),
        cmocka_unit_test(nothing_runs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
