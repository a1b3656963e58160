/* Linear layers: matrix products by the library, and own kernels for the bias. */
#include "train/compute/cuda/compute.h"

static void product(ff_cuda_compute *self, const ff_library_gemm *gemm) {
    self->table->gemm(self->library, self->queue.stream, gemm, self->gemm_workspace,
                      ff_compute_error(&self->base));
}

/* A layer's output: one row per sample. */
static ff_tensor output_of(const ff_linear *linear) {
    return (ff_tensor){linear->input.n, linear->outputs, 1, 1, linear->outputs};
}

/* y = scale * x w' + bias: [n][inputs] times the rows of w. */
void ff_cuda_linear_forward(ff_compute *compute, const ff_linear *linear, const void *x,
                            const void *w, const float *bias, void *y) {
    ff_cuda_compute *self = (ff_cuda_compute *)compute;
    const ff_dtype dtype = linear->logits ? FF_F32 : compute->dtype;
    const ff_library_gemm gemm = {
        .m = linear->input.n,
        .n = linear->outputs,
        .k = (int)ff_tensor_sample(&linear->input),
        .precision = compute->precision,
        .c_type = dtype,
        .transpose_b = true,
        .alpha = linear->scale,
        .a = x,
        .b = w,
        .c = y,
    };
    product(self, &gemm);
    if (!bias) return;
    const ff_tensor output = output_of(linear);
    ff_cuda_queue queue = self->queue;
    queue.dtype = dtype;
    ff_cuda_keep(compute, ff_cuda_bias(&queue, &output, y, bias, y), "a linear layer's bias");
}

size_t ff_cuda_linear_scratch(const ff_compute *compute, const ff_linear *linear) {
    const ff_cuda_compute *self = (const ff_cuda_compute *)compute;
    return ff_cuda_scratch(self->queue.multiprocessors, linear->outputs);
}

/* dw = scale * dy' x, dx = scale * dy w, dbias = the sums of dy's columns. */
void ff_cuda_linear_backward(ff_compute *compute, const ff_linear *linear, const void *x,
                             const void *w, const void *dy, void *dx, void *dw, float *dbias,
                             void *scratch) {
    ff_cuda_compute *self = (ff_cuda_compute *)compute;
    const int n = linear->input.n, inputs = (int)ff_tensor_sample(&linear->input);
    ff_library_gemm gemm = {
        .m = linear->outputs,
        .n = inputs,
        .k = n,
        .precision = compute->precision,
        .c_type = compute->dtype,
        .transpose_a = true,
        .alpha = linear->scale,
        .a = dy,
        .b = x,
        .c = dw,
    };
    if (dw) product(self, &gemm);
    gemm.m = n;
    gemm.k = linear->outputs;
    gemm.transpose_a = false;
    gemm.b = w;
    gemm.c = dx;
    if (dx) product(self, &gemm);
    if (!dbias) return;
    const ff_tensor output = output_of(linear);
    ff_cuda_keep(compute, ff_cuda_bias_gradient(&self->queue, &output, dy, dbias, scratch),
                 "the gradient of a linear layer's bias");
}
