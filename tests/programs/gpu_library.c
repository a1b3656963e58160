/* cuDNN and cuBLAS on a GPU against the plain loops: random convolutions, fused graphs and matrix
 * products of odd shapes in every precision. Prints TAP; skips without a GPU.
 *
 *   gpu_library [SEED [TRIALS]]     trials of each group; another seed at every run without one
 *
 * The last line of a failure is the command that repeats it: gpu_library SEED fails at the same
 * trial. */
#include "loader/cuda/module.h"
#include "tests/cuda/sim/library_agree.h"
#include "train/compute/cuda/exports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int number, failures;

static void group(ff_agreement *a, const char *what, ff_precision precision, int trials) {
    ff_error error = {0};
    ff_status status = FF_OK;
    int trial = 0;
    a->agreed = a->missing = 0;
    for (; trial < trials && status == FF_OK; trial++)
        status = !strcmp(what, "products") ? ff_agree_gemm(a, (uint64_t)trial, precision, &error)
                                           : ff_agree_conv(a, (uint64_t)trial, precision,
                                                           !strcmp(what, "fused graphs"), &error);
    number++;
    failures += status != FF_OK;
    printf("%sok %d - %s in %s: %d agree, %d have no engine\n", status == FF_OK ? "" : "not ",
           number, what, ff_precision_name(precision), a->agreed, a->missing);
    if (status != FF_OK)
        printf("# seed %llu, trial %d: %s\n", (unsigned long long)a->seed, trial - 1,
               error.message);
    fflush(stdout);
}

int main(int argc, char **argv) {
    static const char *const groups[] = {"convolutions", "fused graphs", "products"};
    ff_error error = {0};
    ff_cuda_module *module = NULL;
    ff_agreement a = {.seed = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)time(NULL)};
    int trials = argc > 2 ? atoi(argv[2]) : 50, major = 0;
    ff_cuda_properties properties;
    if (ff_cuda_module_open(&module, 0, &error) != FF_OK) {
        printf("ok 1 - cuDNN and cuBLAS on a card # SKIP %s\n1..1\n", error.message);
        return 0;
    }
    const ff_cuda_table *table = ff_cuda_module_table(module);
    ff_status status = table->properties(0, &properties, &error);
    if (status == FF_OK) status = table->device_create(&a.device, 0, &error);
    if (status == FF_OK)
        status = table->train->library->open(&a.library, &(ff_library_options){.device = a.device},
                                             &error);
    if (status == FF_OK) {
        major = properties.major;
        printf("# %s, seed %llu\n", properties.name, (unsigned long long)a.seed);
        for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
            for (int p = 0; p < FF_PRECISION_COUNT; p++)
                if (p != FF_PRECISION_BF16 || major >= 8)
                    group(&a, groups[g], (ff_precision)p, trials);
    } else {
        printf("not ok 1 - cuDNN and cuBLAS on a card\n# %s\n", error.message);
        failures++;
    }
    printf("1..%d\n", number > 0 ? number : 1);
    ff_library_close(&a.library);
    ff_device_destroy(&a.device);
    ff_cuda_module_close(&module);
    return failures != 0;
}
