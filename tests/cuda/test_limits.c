/* Launches that the strict stand-in for CUDA's runtime refuses: by its rules, which are compared
 * with NVIDIA's occupancy calculator, and by its table. */
#include "tests/cuda/sim/self.h"
#include "tests/cuda/strict/limits.h"
#include "tests/cuda/strict/strict.h"
#include "tests/unit/check.h"
#include "tests/unit/dice.h"

#include <cuda_runtime_api.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <cuda_occupancy.h>
#pragma GCC diagnostic pop

enum { T4, A100, H100, CARDS };
enum { KIB = 1024, REGISTERS = 65536, UNASKED = 48 * KIB };
static const strict_card cards[CARDS] = {
    {"t4", 75, 1024, {1024, 1024, 64}, {INT_MAX, 65535, 65535}, REGISTERS, UNASKED, 64 * KIB},
    {"a100", 80, 1024, {1024, 1024, 64}, {INT_MAX, 65535, 65535}, REGISTERS, UNASKED, 163 * KIB},
    {"h100", 90, 1024, {1024, 1024, 64}, {INT_MAX, 65535, 65535}, REGISTERS, UNASKED, 227 * KIB},
};
static const int threads_of[CARDS] = {1024, 2048, 2048}, shared_of[CARDS] = {64, 164, 228};

static ff_cudasim_launch launch_of(unsigned threads, size_t shared, size_t asked) {
    return (ff_cudasim_launch){NULL, {1, 1, 1}, {threads, 1, 1}, shared, asked};
}

/* Blocks of the launch that a multiprocessor has room for. */
static int blocks_of(int card, const strict_kernel *kernel, const ff_cudasim_launch *launch) {
    const cudaOccDeviceProp device = {
        .computeMajor = cards[card].architecture / 10,
        .computeMinor = cards[card].architecture % 10,
        .maxThreadsPerBlock = 1024,
        .maxThreadsPerMultiprocessor = threads_of[card],
        .regsPerBlock = REGISTERS,
        .regsPerMultiprocessor = REGISTERS,
        .warpSize = 32,
        .sharedMemPerBlock = UNASKED,
        .sharedMemPerMultiprocessor = (size_t)shared_of[card] * KIB,
        .numSms = 4,
        .sharedMemPerBlockOptin = (size_t)cards[card].asked_shared,
        .reservedSharedMemPerBlock = card == T4 ? 0 : KIB,
    };
    const cudaOccFuncAttributes function = {
        .maxThreadsPerBlock = kernel->threads,
        .numRegs = kernel->registers,
        .sharedSizeBytes = (size_t)kernel->shared,
        .partitionedGCConfig = PARTITIONED_GC_OFF,
        .shmemLimitConfig = launch->asked ? FUNC_SHMEM_LIMIT_OPTIN : FUNC_SHMEM_LIMIT_DEFAULT,
        .maxDynamicSharedSizeBytes = launch->asked,
        .numBlockBarriers = 1,
    };
    const cudaOccDeviceState state = {.cacheConfig = CACHE_PREFER_SHARED};
    cudaOccResult result = {0};
    assert_int_equal(cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state,
                                                             (int)launch->block[0],
                                                             launch->shared_bytes),
                     CUDA_OCC_SUCCESS);
    return result.activeBlocksPerMultiprocessor;
}

static void refusals_agree_with_the_occupancy_calculator(void **state) {
    (void)state;
    dice d = {.seed = 1};
    int refused = 0;
    for (int i = 0; i < 200000; i++) {
        const int card = (int)roll(&d, CARDS);
        const strict_kernel kernel = {.registers = 16 + (int)roll(&d, 240),
                                      .shared = (int)roll(&d, 2) * (int)roll(&d, UNASKED),
                                      .threads = 1024};
        const size_t most = (size_t)cards[card].asked_shared + 2048;
        const size_t shared = roll(&d, 2) ? roll(&d, (uint32_t)most) : roll(&d, 4096);
        const ff_cudasim_launch one =
            launch_of(1 + (unsigned)roll(&d, 1024), shared, roll(&d, 2) ? shared : 0);
        /* The calculator does not look at launch bounds. */
        const bool no = strict_refusal(&cards[card], &kernel, &one) != NULL;
        if (no != (blocks_of(card, &kernel, &one) == 0))
            fail_msg("%s: %d registers, %d + %zu bytes (%zu asked for), %u threads: %s",
                     cards[card].name, kernel.registers, kernel.shared, one.shared_bytes, one.asked,
                     one.block[0], no ? "refused" : "not refused");
        refused += no;
    }
    assert_true(refused > 20000 && refused < 180000);
}

static void check_refused(const strict_card *card, strict_kernel kernel, ff_cudasim_launch one,
                          const char *wanted) {
    const char *why = strict_refusal(card, &kernel, &one);
    if (wanted ? !why || !strstr(why, wanted) : why != NULL)
        fail_msg("wanted '%s', got '%s'", wanted ? wanted : "", why ? why : "");
}

static void each_limit_is_named(void **state) {
    (void)state;
    const strict_card *card = &cards[H100];
    const strict_kernel small = {.registers = 64, .threads = 1024},
                        large = {.registers = 65, .threads = 1024},
                        bound = {.registers = 32, .threads = 256};
    check_refused(card, small, launch_of(1024, 0, 0), NULL);
    check_refused(card, large, launch_of(1024, 0, 0), "more registers than a block has");
    check_refused(card, large, launch_of(896, 0, 0), NULL);
    check_refused(card, small, launch_of(1025, 0, 0), "a block beyond");
    check_refused(card, bound, launch_of(257, 0, 0), "launch bounds");
    check_refused(card, small, launch_of(64, UNASKED, 0), NULL);
    check_refused(card, small, launch_of(64, UNASKED + 1, 0), "without cudaFuncSetAttribute");
    check_refused(card, small, launch_of(64, UNASKED + 1, UNASKED + 1), NULL);
    check_refused(card, small, launch_of(64, 228 * KIB, 228 * KIB), "more shared memory than");
    check_refused(&cards[T4], small, launch_of(64, 65 * KIB, 65 * KIB), "more shared memory than");
    ff_cudasim_launch one = launch_of(32, 0, 0);
    one.grid[1] = 65536;
    check_refused(card, small, one, "a grid beyond");
    one.grid[1] = 0;
    check_refused(card, small, one, "a grid beyond");
    one = launch_of(1, 0, 0);
    one.block[2] = 65;
    check_refused(card, small, one, "a block beyond");
    one.block[1] = one.block[2] = 33;
    check_refused(card, small, one, "more threads than a block");
}

/* ---- launches over the stand-in ---- */

static const char table[] =
    "card t4 75 1024 1024 1024 64 2147483647 65535 65535 65536 49152 65536\n"
    "card h100 90 1024 1024 1024 64 2147483647 65535 65535 65536 49152 232448\n"
    "kernel _Z10sum_kernelILi0EEvPKfjPf 75 32 128 64\n"
    "kernel _Z10sum_kernelILi0EEvPKfjPf 90 32 128 128\n"
    "kernel _Z14reverse_kernelPKhPhjj 75 32 0 1024\n"
    "kernel _Z14reverse_kernelPKhPhjj 90 32 0 1024\n";

static void write_table(char *path) {
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, table, sizeof table - 1), sizeof table - 1);
    close(file);
    setenv("FF_STRICT_KERNELS", path, 1);
}

static void launches_are_checked(void **state) {
    static char sentence[STRICT_SENTENCE], path[] = "/tmp/ff_limits_XXXXXX";
    cudaStream_t stream;
    unsigned char *from, *to;
    int *others;
    (void)state;
    write_table(path);
    strict_kept = sentence;
    (void)cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    (void)cudaHostAlloc((void **)&from, 128 * KIB, cudaHostAllocPortable);
    (void)cudaMalloc((void **)&to, 128 * KIB);
    (void)cudaMalloc((void **)&others, 64 * sizeof *others);
    assert_int_equal(ff_self_reverse(from, to, 64 * KIB, 64 * KIB, 0, (ff_cuda_stream)stream), 0);
    assert_string_equal(sentence, "");
    assert_int_not_equal(ff_self_reverse(from, to, 80 * KIB, 80 * KIB, 0, (ff_cuda_stream)stream),
                         0);
    assert_non_null(strstr(sentence, "t4: more shared memory than a block has (_Z14reverse"));
    *sentence = 0;
    assert_int_not_equal(
        ff_self_sum(0, (const float *)from, 1, 128, (float *)to, (ff_cuda_stream)stream), 0);
    assert_non_null(strstr(sentence, "t4: more threads than the kernel's launch bounds"));
    *sentence = 0;
    assert_int_not_equal(ff_self_leave(others, (ff_cuda_stream)stream), 0);
    assert_non_null(strstr(sentence, "does not have the kernel"));
    *sentence = 0;
    (void)cudaStreamSynchronize(stream);
    (void)cudaFree(to);
    (void)cudaFree(others);
    (void)cudaFreeHost(from);
    (void)cudaStreamDestroy(stream);
    strict_kept = NULL;
    (void)unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_agree_with_the_occupancy_calculator),
        cmocka_unit_test(each_limit_is_named),
        cmocka_unit_test(launches_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
