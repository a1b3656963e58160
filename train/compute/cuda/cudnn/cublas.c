#include "train/compute/cuda/cudnn/cublas.h"

#include "format/base/memory.h"
#include "loader/cuda/advice.h"

#include <cublas_v2.h>

#include <stdlib.h>

struct ff_cublas {
    cublasHandle_t handle;
    void *stream, *workspace; /* as last set */
    bool bound;               /* stream and workspace are set */
};

static const char *advice(cublasStatus_t status) {
    switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED: return FF_CUDA_ADVICE_START;
    case CUBLAS_STATUS_ALLOC_FAILED: return FF_CUDA_ADVICE_MEMORY;
    case CUBLAS_STATUS_ARCH_MISMATCH: return FF_CUDA_ADVICE_ARCHITECTURE;
    case CUBLAS_STATUS_MAPPING_ERROR:
    case CUBLAS_STATUS_EXECUTION_FAILED: return FF_CUDA_ADVICE_GONE;
    default: return "";
    }
}

static ff_status check(cublasStatus_t status, const char *call, ff_error *error) {
    if (status == CUBLAS_STATUS_SUCCESS) return FF_OK;
    return ff_fail(error, FF_FAILED, "%s: %s%s", call, cublasGetStatusString(status),
                   advice(status));
}

ff_status ff_cublas_create(ff_cublas **cublas, ff_error *error) {
    FF_TRY(ff_alloc(cublas, 1, sizeof **cublas, "cuBLAS", error));
    ff_status status;
    FF_TRY_DONE(check(cublasCreate(&(*cublas)->handle), "cublasCreate", error));
    FF_TRY_DONE(check(cublasSetPointerMode((*cublas)->handle, CUBLAS_POINTER_MODE_HOST),
                      "cublasSetPointerMode", error));
    /* Split sums are added in a fixed order: the same bits in every run (also with several streams,
     * because the workspace is the caller's). */
    FF_TRY_DONE(check(cublasSetAtomicsMode((*cublas)->handle, CUBLAS_ATOMICS_NOT_ALLOWED),
                      "cublasSetAtomicsMode", error));
    FF_TRY_DONE(check(
        cublasSetMathMode((*cublas)->handle, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
        "cublasSetMathMode", error));
done:
    if (status != FF_OK) ff_cublas_destroy(cublas);
    return status;
}

void ff_cublas_destroy(ff_cublas **cublas) {
    if (*cublas && (*cublas)->handle) cublasDestroy((*cublas)->handle);
    free(*cublas);
    *cublas = NULL;
}

/* cublasSetStream resets the workspace, so the workspace is set after it. */
static ff_status bind(ff_cublas *cublas, void *stream, void *workspace, ff_error *error) {
    if (cublas->bound && cublas->stream == stream && cublas->workspace == workspace) return FF_OK;
    cublas->bound = false;
    FF_TRY(check(cublasSetStream(cublas->handle, stream), "cublasSetStream", error));
    FF_TRY(check(cublasSetWorkspace(cublas->handle, workspace, FF_CUBLAS_WORKSPACE),
                 "cublasSetWorkspace", error));
    cublas->stream = stream;
    cublas->workspace = workspace;
    cublas->bound = true;
    return FF_OK;
}

static cudaDataType_t type_of(ff_dtype dtype) {
    return dtype == FF_F16 ? CUDA_R_16F : dtype == FF_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

ff_status ff_cublas_run(ff_cublas *cublas, void *stream, const ff_library_gemm *g, void *workspace,
                        ff_error *error) {
    FF_TRY(bind(cublas, stream, workspace, error));
    cudaDataType_t type = type_of(ff_precision_dtype(g->precision)), c_type = type_of(g->c_type);
    /* Plain 32F does not round f32 factors; products of 16-bit factors are exact in either mode. */
    cublasComputeType_t compute =
        g->precision == FF_PRECISION_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    int64_t row_a = g->row_a ? g->row_a : g->transpose_a ? g->m : g->k;
    int64_t row_b = g->row_b ? g->row_b : g->transpose_b ? g->k : g->n;
    int64_t row_c = g->row_c ? g->row_c : g->n;
    /* cuBLAS is column-major, so it computes c' = b' a'. */
    cublasOperation_t op_a = g->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t op_b = g->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    return check(cublasGemmStridedBatchedEx(cublas->handle, op_b, op_a, g->n, g->m, g->k, &g->alpha,
                                            g->b, type, (int)row_b, g->stride_b, g->a, type,
                                            (int)row_a, g->stride_a, &g->beta, g->c, c_type,
                                            (int)row_c, g->stride_c, g->batch ? g->batch : 1,
                                            compute, CUBLAS_GEMM_DEFAULT),
                 "cublasGemmStridedBatchedEx", error);
}
