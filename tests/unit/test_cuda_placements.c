/* Batches made by the loader's own kernels equal the host loader's, bit for bit, in every
 * placement: as test_loader_placements.c, with the simulated kernels instead of their plain
 * stand-ins. */
#include "tests/cudasim/cudasim.h"
#include "tests/unit/make_dataset.h"
#include "tests/unit/placement_cases.h"

static void placements(void **state) {
    (void)state;
    placement_cases(&ff_loader_cuda_kernels, 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(placements)};
    ff_cudasim_enqueue = ff_device_host_enqueue;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
