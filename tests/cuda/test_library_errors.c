/* What an error of cuDNN or cuBLAS says: the call, the library's own words, and what to do. The
 * libraries are stand-ins that fail with each status in turn; the numbers are those of cuDNN 9's
 * cudnnStatus_t and of cublasStatus_t ("cuBLAS", 2.2.2). */
#include "tests/unit/check.h"
#include "train/compute/cuda/cudnn/cublas.h"
#include "train/compute/cuda/cudnn/descriptor.h"

#include <cublas_v2.h>
#include <cudnn.h>
#include <stdio.h>
#include <string.h>

static int fails; /* the status of the next call */

const char *cudnnGetErrorString(cudnnStatus_t status) {
    return status ? "CUDNN_STATUS" : "";
}
static const char *last = "";
void cudnnGetLastErrorString(char *message, size_t size) {
    snprintf(message, size, "%s", last);
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *descriptor) {
    (void)type, (void)descriptor;
    return (cudnnStatus_t)fails;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
    (void)descriptor;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
    (void)descriptor;
    return (cudnnStatus_t)fails;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values) {
    (void)descriptor, (void)name, (void)type, (void)count, (void)values;
    return (cudnnStatus_t)fails;
}

const char *cublasGetStatusString(cublasStatus_t status) {
    return status ? "CUBLAS_STATUS" : "";
}
cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    *handle = NULL;
    return (cublasStatus_t)fails;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    (void)handle;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
    (void)handle, (void)mode;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
    (void)handle, (void)mode;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
    (void)handle, (void)mode;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    (void)handle, (void)stream;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes) {
    (void)handle, (void)workspace, (void)bytes;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                           int m, int n, int k, const void *alpha, const void *a,
                           cudaDataType_t a_type, int lda, long long stride_a, const void *b,
                           cudaDataType_t b_type, int ldb, long long stride_b, const void *beta,
                           void *c, cudaDataType_t c_type, int ldc, long long stride_c, int batch,
                           cublasComputeType_t compute_type, cublasGemmAlgo_t algorithm) {
    (void)handle, (void)op_a, (void)op_b, (void)m, (void)n, (void)k, (void)alpha, (void)a;
    (void)a_type, (void)lda, (void)stride_a, (void)b, (void)b_type, (void)ldb, (void)stride_b;
    (void)beta, (void)c, (void)c_type, (void)ldc, (void)stride_c, (void)batch, (void)compute_type;
    (void)algorithm;
    return (cublasStatus_t)fails;
}

#define MEMORY                                                                                     \
    "; smaller batches and placement stream need less; nvidia-smi shows what else uses the GPU"
#define START "; the GPU's memory may be used up, or the driver too old: see nvidia-smi"
#define GONE                                                                                       \
    "; the GPU may be gone: the driver's reason is in the kernel's log (sudo dmesg | grep Xid)"
#define ARCHITECTURE                                                                               \
    "; this version has no code for the GPU: a newer GPU needs a newer version, and "              \
    "a GPU older than Turing cannot be used"
#define VERSIONS                                                                                   \
    "; files of several versions may be mixed: install cuDNN again, or name the folder "           \
    "of one version in FFPACK_CUDA_PATH"

static void cudnn_says_what_to_do(void **state) {
    (void)state;
    static const struct {
        int status;
        const char *advice;
    } wanted[] = {{1001, START},
                  {1002, VERSIONS},
                  {1008, VERSIONS},
                  {2000, ""},
                  {3000, ""},
                  {3002, ""},
                  {3005, "; the NVIDIA driver is too old: install a newer one (nvidia-smi shows "
                         "its version)"},
                  {3006, VERSIONS},
                  {3007, ARCHITECTURE},
                  {3009, VERSIONS},
                  {4000, ""},
                  {4003, "; the host's memory is used up: end other programs, or raise the "
                         "container's limit"},
                  {4004, MEMORY},
                  {5000, GONE},
                  {5001, GONE},
                  {5002, GONE},
                  {5003, GONE}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        for (int known = 0; known < 2; known++) {
            char text[512];
            ff_error error = {0};
            ff_cudnn_builder builder = {0};
            last = known ? "no\nroom" : "";
            snprintf(text, sizeof text, "cudnnBackendFinalize of a plan: CUDNN_STATUS%s%s",
                     known ? ": no room" : "", wanted[i].advice);
            fails = wanted[i].status;
            ff_cudnn_finish(&builder, NULL, "a plan");
            assert_int_equal(ff_cudnn_result(&builder, &error), FF_FAILED);
            assert_string_equal(error.message, text);
            ff_cudnn_release(&builder);
        }
}

static void cublas_says_what_to_do(void **state) {
    (void)state;
    static const struct {
        int status;
        const char *advice;
    } wanted[] = {{1, START}, {3, MEMORY}, {7, ""},  {8, ARCHITECTURE}, {11, GONE},
                  {13, GONE}, {14, ""},    {15, ""}, {16, ""}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        char text[512];
        ff_error failure = {0};
        ff_cublas *cublas;
        fails = wanted[i].status;
        assert_int_equal(ff_cublas_create(&cublas, &failure), FF_FAILED);
        snprintf(text, sizeof text, "cublasCreate: CUBLAS_STATUS%s", wanted[i].advice);
        assert_string_equal(failure.message, text);
        assert_null(cublas);

        fails = 0;
        assert_ok(ff_cublas_create(&cublas, error));
        fails = wanted[i].status;
        assert_int_equal(
            ff_cublas_run(cublas, NULL, &(ff_library_gemm){.m = 1, .n = 1, .k = 1}, NULL, &failure),
            FF_FAILED);
        snprintf(text, sizeof text, "cublasGemmStridedBatchedEx: CUBLAS_STATUS%s",
                 wanted[i].advice);
        assert_string_equal(failure.message, text);
        ff_cublas_destroy(&cublas);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cudnn_says_what_to_do),
        cmocka_unit_test(cublas_says_what_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
