/* The same cases as test_loader_placements with the CUDA kernels themselves, on the simulator, in
 * the streams of the host device. */
#include "tests/cudasim/cudasim.h"
#include "tests/unit/placement_cases.h"

/* Simulated kernels are slow under ThreadSanitizer; the placements themselves have their own test.
 */
#ifdef __SANITIZE_THREAD__
enum { TRIALS = 9 };
#else
enum { TRIALS = 60 };
#endif

static void placements(void **state) {
    (void)state;
    ff_cudasim_enqueue = ff_device_host_enqueue;
    ff_cudasim_use_threads(0); /* real ones race within kernels in their own tests */
    placement_cases(&ff_loader_cuda_kernels, TRIALS);
    assert_true(ff_cudasim_launches() > TRIALS * 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(placements)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
