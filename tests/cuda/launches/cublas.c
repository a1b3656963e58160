/* The functions of cuBLAS that cublas.c of the module calls, by their documentation ("cuBLAS
 * Library"): its arguments are checked and the product is computed by loops, column by column. */
#include "format/disk/dtype.h"
#include "tests/cuda/launches/launches.h"

#include <cublas_v2.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256, LEAST_WORKSPACE = 32 << 20 }; /* cublasSetWorkspace; on Hopper */
enum { SHAPES = 512 };

/* What decides which kernel a product takes. */
typedef struct shape {
    int m, n, k, batch, op_a, op_b, type, c_type, compute;
} shape;

struct cublasContext {
    ff_launches_user user;
    void *workspace;
    bool host_pointers;
    shape executed[SHAPES];
    int count;
};

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    *handle = calloc(1, sizeof **handle);
    if (!*handle) return CUBLAS_STATUS_ALLOC_FAILED;
    (*handle)->user = ff_launches_user_here();
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}
const char *cublasGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS ? "the operation completed successfully" : "a failure";
}
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
    handle->host_pointers = mode == CUBLAS_POINTER_MODE_HOST;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
    (void)handle;
    if (mode != CUBLAS_ATOMICS_NOT_ALLOWED) ff_launches_break("products' bits may vary");
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
    (void)handle;
    if (!(mode & CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION))
        ff_launches_break("products' sums may be rounded to 16 bits");
    return CUBLAS_STATUS_SUCCESS;
}
/* "Resets the cuBLAS library workspace back to the default workspace pool". */
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    handle->user.stream = stream;
    handle->workspace = NULL;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes) {
    if (!workspace || (uintptr_t)workspace % ALIGNMENT) return CUBLAS_STATUS_INVALID_VALUE;
    if (bytes < LEAST_WORKSPACE) ff_launches_break("a product's workspace is smaller than advised");
    ff_launches_memory(handle->user.stream, "a product's workspace", workspace, bytes, ALIGNMENT);
    handle->workspace = workspace;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- products ---- */

typedef struct matrix {
    char *at;
    ff_dtype dtype;
    int64_t rows, columns, leading, stride; /* as stored: column-major */
    bool transposed;
} matrix;

typedef struct product {
    matrix a, b, c;
    int m, n, k, batch;
    float alpha, beta;
} product;

static double element(const matrix *x, int matrix_number, int64_t row, int64_t column) {
    const int64_t r = x->transposed ? column : row, c = x->transposed ? row : column;
    return ff_element(x->at, x->dtype, (size_t)(matrix_number * x->stride + c * x->leading + r));
}

static void compute(void *context) {
    const product *p = context;
    const size_t bytes = ff_dtype_bytes(p->c.dtype);
    for (int i = 0; i < p->batch; i++)
        for (int column = 0; column < p->n; column++)
            for (int row = 0; row < p->m; row++) {
                double sum = 0;
                for (int k = 0; k < p->k; k++)
                    sum += element(&p->a, i, row, k) * element(&p->b, i, k, column);
                sum *= (double)p->alpha;
                if (p->beta != 0) sum += (double)p->beta * element(&p->c, i, row, column);
                const float value = (float)sum;
                const int64_t at = i * p->c.stride + column * p->c.leading + row;
                ff_convert(p->c.at + (size_t)at * bytes, p->c.dtype, &value, FF_F32, 1);
            }
}

/* Zeros, added to beta times c. */
static void clear(void *context) {
    product *p = context;
    p->k = 0;
    compute(p);
}

/* Whether a product of this shape was executed before. */
static bool is_loaded(cublasHandle_t handle, const shape *wanted) {
    for (int i = 0; i < handle->count; i++)
        if (!memcmp(&handle->executed[i], wanted, sizeof *wanted)) return true;
    if (handle->count < SHAPES) handle->executed[handle->count++] = *wanted;
    return false;
}

static ff_dtype dtype_of(cudaDataType_t type) {
    return type == CUDA_R_16F ? FF_F16 : type == CUDA_R_16BF ? FF_BF16 : FF_F32;
}

/* op(x) is rows by columns. */
static matrix matrix_of(const void *at, cudaDataType_t type, cublasOperation_t op, int rows,
                        int columns, int leading, long long stride) {
    const bool transposed = op != CUBLAS_OP_N;
    return (matrix){.at = (char *)(uintptr_t)at,
                    .dtype = dtype_of(type),
                    .rows = transposed ? columns : rows,
                    .columns = transposed ? rows : columns,
                    .leading = leading,
                    .stride = stride,
                    .transposed = transposed};
}

/* Bytes from the first element to past the last. */
static uint64_t extent(const matrix *x, int batch) {
    const int64_t last = (batch - 1) * x->stride + (x->columns - 1) * x->leading + x->rows;
    return (uint64_t)last * ff_dtype_bytes(x->dtype);
}

static bool overlap(const matrix *a, const matrix *b, int batch) {
    return a->at < b->at + extent(b, batch) && b->at < a->at + extent(a, batch);
}

/* The types of the documentation's table that have float sums and factors alpha and beta. */
static bool supported(cudaDataType_t a, cudaDataType_t b, cudaDataType_t c,
                      cublasComputeType_t compute_type) {
    if (a != b) return false;
    if (compute_type == CUBLAS_COMPUTE_32F_FAST_TF32) return a == CUDA_R_32F && c == CUDA_R_32F;
    if (compute_type != CUBLAS_COMPUTE_32F) return false;
    return c == a || (c == CUDA_R_32F && (a == CUDA_R_16F || a == CUDA_R_16BF));
}

cublasStatus_t
cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                           int m, int n, int k, const void *alpha, const void *a,
                           cudaDataType_t a_type, int lda, long long stride_a, const void *b,
                           cudaDataType_t b_type, int ldb, long long stride_b, const void *beta,
                           void *c, cudaDataType_t c_type, int ldc, long long stride_c, int batch,
                           cublasComputeType_t compute_type, cublasGemmAlgo_t algorithm) {
    (void)algorithm;
    product *p = malloc(sizeof *p);
    if (!p) return CUBLAS_STATUS_ALLOC_FAILED;
    *p = (product){.a = matrix_of(a, a_type, op_a, m, k, lda, stride_a),
                   .b = matrix_of(b, b_type, op_b, k, n, ldb, stride_b),
                   .c = matrix_of(c, c_type, CUBLAS_OP_N, m, n, ldc, stride_c),
                   .m = m,
                   .n = n,
                   .k = k,
                   .batch = batch,
                   .alpha = *(const float *)alpha,
                   .beta = *(const float *)beta};
    if (m <= 0 || n <= 0 || k <= 0 || batch <= 0 || lda < p->a.rows || ldb < p->b.rows || ldc < m ||
        !supported(a_type, b_type, c_type, compute_type)) {
        free(p);
        return m <= 0 || n <= 0 || k <= 0 ? CUBLAS_STATUS_INVALID_VALUE
                                          : CUBLAS_STATUS_NOT_SUPPORTED;
    }
    const void *stream = handle->user.stream;
    if (!handle->host_pointers) ff_launches_break("alpha and beta are read on the device");
    if (!handle->workspace) ff_launches_break("a product uses cuBLAS's own workspace");
    ff_launches_memory(stream, "a", a, extent(&p->a, batch), ff_dtype_bytes(p->a.dtype));
    ff_launches_memory(stream, "b", b, extent(&p->b, batch), ff_dtype_bytes(p->b.dtype));
    ff_launches_memory(stream, "c", c, extent(&p->c, batch), ff_dtype_bytes(p->c.dtype));
    if (overlap(&p->a, &p->c, batch) || overlap(&p->b, &p->c, batch))
        ff_launches_break("a product overlaps one of its factors");
    if (batch > 1 && stride_c < (long long)(n - 1) * ldc + m)
        ff_launches_break("the products of a batch overlap");
    const bool loaded =
        is_loaded(handle, &(shape){m, n, k, batch, op_a, op_b, a_type, c_type, (int)compute_type});
    __atomic_fetch_add(&ff_launched.products, 1, __ATOMIC_RELAXED);
    return ff_launches_enqueue(&handle->user, "a product", loaded,
                               ff_launched.records ? clear : compute, p)
               ? CUBLAS_STATUS_EXECUTION_FAILED
               : CUBLAS_STATUS_SUCCESS;
}
