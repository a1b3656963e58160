/* The real NCCL where this machine has one: its version and symbols, and its header against the
 * prototypes that are declared by hand. */
#include "tests/unit/check.h"

#include "loader/cuda/libraries.h"
#include "train/comm/collective/nccl_library.h"

#include <dlfcn.h>
#include <stdlib.h>

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>

#define SAME_TYPE(function, ...)                                                                   \
    _Static_assert(__builtin_types_compatible_p(__typeof__(function), __VA_ARGS__), #function)
SAME_TYPE(ncclGetVersion, ncclResult_t(int *));
SAME_TYPE(ncclGetErrorString, const char *(ncclResult_t));
SAME_TYPE(ncclGetLastError, const char *(ncclComm_t));
SAME_TYPE(ncclGetUniqueId, ncclResult_t(ncclUniqueId *));
SAME_TYPE(ncclCommInitRankConfig,
          ncclResult_t(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *));
SAME_TYPE(ncclCommGetAsyncError, ncclResult_t(ncclComm_t, ncclResult_t *));
SAME_TYPE(ncclAllReduce, ncclResult_t(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                                      ncclComm_t, cudaStream_t));
SAME_TYPE(ncclBroadcast, ncclResult_t(const void *, void *, size_t, ncclDataType_t, int, ncclComm_t,
                                      cudaStream_t));
SAME_TYPE(ncclAllGather,
          ncclResult_t(const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t));
SAME_TYPE(ncclCommFinalize, ncclResult_t(ncclComm_t));
SAME_TYPE(ncclCommDestroy, ncclResult_t(ncclComm_t));
SAME_TYPE(ncclCommAbort, ncclResult_t(ncclComm_t));

static void test_header(void **state) {
    (void)state;
    const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    assert_int_equal(config.magic, (unsigned)FF_NCCL_MAGIC);
    assert_int_equal(offsetof(ncclConfig_t, magic), offsetof(ff_ncclConfig_t, magic));
    assert_int_equal(offsetof(ncclConfig_t, version), offsetof(ff_ncclConfig_t, version));
    assert_int_equal(offsetof(ncclConfig_t, blocking), offsetof(ff_ncclConfig_t, blocking));
    assert_int_equal(sizeof(ncclUniqueId), sizeof(ff_ncclUniqueId));
    assert_int_equal(sizeof(ncclResult_t), sizeof(int));
    assert_int_equal(ncclSuccess, FF_ncclSuccess);
    assert_int_equal(ncclInProgress, FF_ncclInProgress);
    assert_int_equal(ncclUint8, FF_ncclUint8);
    assert_int_equal(ncclFloat16, FF_ncclFloat16);
    assert_int_equal(ncclFloat32, FF_ncclFloat32);
    assert_int_equal(ncclBfloat16, FF_ncclBfloat16);
    assert_int_equal(ncclSum, FF_ncclSum);
}
#else
static void test_header(void **state) {
    (void)state;
    skip();
}
#endif

static void test_library(void **state) {
    (void)state;
    ff_nccl_library nccl;
    Dl_info from = {0};
    setenv("FFPACK_CUDA_PATH", "/usr/local/cuda/lib64:/usr/local/cuda/lib", 0);
    assert_ok(ff_nccl_library_open(&nccl, error));
    assert_true(dladdr(*(void **)&nccl.init, &from));
    if (strstr(from.dli_fname, "/tests/libnccl.so.2")) skip(); /* only the stand-in is here */
    assert_true(nccl.found >= FF_NCCL_LEAST && nccl.found < 30000);
    assert_string_equal(nccl.error_string(FF_ncclSuccess), "no error");
    assert_non_null(nccl.last_error(NULL));
}

static void test_missing(void **state) {
    (void)state;
    void *handle;
    assert_fails(ff_cuda_library_open(&handle, "NCCL", "libnccl.so.99", "NCCL", error), FF_FAILED,
                 "NCCL (libnccl.so.99) was not found; install ");
    assert_null(handle);
    assert_string_equal(ff_nccl_version_text(21405).text, "2.14.5");
    assert_string_equal(ff_nccl_version_text(2804).text, "2.8.4");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_header),
                                       cmocka_unit_test(test_library),
                                       cmocka_unit_test(test_missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
