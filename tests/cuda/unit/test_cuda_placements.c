/* The same cases as test_loader_placements with the CUDA kernels themselves: on the simulator, in
 * the streams of the host device; or on a real GPU. */
#include "tests/unit/placement_cases.h"

#ifdef FF_TESTS_ON_CARD
#include "loader/cuda/module.h"
#else
#include "tests/cuda/sim/cudasim.h"
#endif

/* Simulated kernels are slow under ThreadSanitizer; the placements themselves have their own
 * test. */
#ifdef __SANITIZE_THREAD__
enum { TRIALS = 9 };
#else
enum { TRIALS = 60 };
#endif

#ifdef FF_TESTS_ON_CARD
static void placements(void **state) {
    (void)state;
    ff_cuda_module *module;
    assert_ok(ff_cuda_module_open(&module, 0, error));
    placement_card = ff_cuda_module_table(module);
    placement_cases(placement_card->loader, TRIALS);
    ff_cuda_module_close(&module);
}
#else
static void placements(void **state) {
    (void)state;
    ff_cudasim_enqueue = ff_device_sim_enqueue;
    placement_cases(&ff_loader_cuda_kernels, TRIALS);
    assert_true(ff_cudasim_launches() > TRIALS * 10);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(placements)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
