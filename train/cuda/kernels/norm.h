/* Batch norm on the device: statistics, then an elementwise pass with the add and the activation;
 * backward the same way: sums, then an elementwise pass. Formulas: ff_norm and ff_norm_backward in
 * train/arguments.h. Per-channel arrays are zero past the true channels; gamma may be NULL, 1
 * everywhere: a frozen scale; running_mean NULL: running statistics are not kept.
 *
 * Statistics are merged from per-thread shifted sums by Chan's formula (Chan, Golub, LeVeque 1979),
 * in f32 within a block and f64 between blocks. Bytes below are of one array of rows * channels
 * elements: A. */
#ifndef FF_TRAIN_CUDA_KERNELS_NORM_H
#define FF_TRAIN_CUDA_KERNELS_NORM_H

#include "train/cuda/kernels/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a mask, which apply writes with ReLU and the backward pass reads in place of y, eight or
 * sixteen times as much: bit i of byte v is 1 where element i of the array's 16-byte vector v had
 * z > 0 before the ReLU. NULL = none: z again from x, or y. A / 16 where the dtype has 16 bits. */
static inline size_t ff_cuda_norm_mask(ff_dtype dtype, const ff_tensor *shape) {
    return ff_tensor_count(shape) / (dtype == FF_F32 ? 4 : 8);
}

/* x -> mean, inv_std; the running statistics move as torch's. Reads A. */
int ff_cuda_norm_statistics(const ff_cuda_queue *queue, const ff_norm *norm, void *scratch);

/* The same from norm->sums, which another kernel has made (a convolution with statistics). Reads
 * and writes next to nothing. */
int ff_cuda_norm_finish(const ff_cuda_queue *queue, const ff_norm *norm);

/* y by mean and inv_std (training), or by the running statistics. Reads A (2 A with a residual),
 * writes A. In the backward pass it also makes an activation again that was not kept. */
int ff_cuda_norm_apply(const ff_cuda_queue *queue, const ff_norm *norm, bool training);

/* scale = gamma * inv_std and shift = beta - mean * scale of the batch (training), or of the
 * running statistics, of the queue's dtype, [channels]: what a convolution that normalises its
 * input itself is given. */
int ff_cuda_norm_scale_shift(const ff_cuda_queue *queue, const ff_norm *norm, bool training,
                             void *scale, void *shift);

/* Both passes. The first reads x and dy (and dy2, and y) and writes dresidual where wanted; the
 * second reads x and dresidual, or else what the first has read, and writes dx. Bytes:
 *   no activation, or one that x alone tells    2 A, 3 A            = 5 A
 *   ReLU with a residual                        4 A, 3 A            = 7 A
 *   ReLU with a residual and a mask             3 A, 3 A            = 6 A (and A / 16)
 * and A more for dy2 where dresidual is written, else 2 A. */
int ff_cuda_norm_backward_run(const ff_cuda_queue *queue, const ff_norm_backward *norm,
                              void *scratch);

/* The second pass alone, where a convolution has made g and the factors (library.h,
 * FF_EPILOGUE_RELU_NORM_BACKWARD): dx = factors[0][c] * g + factors[1][c] * x + factors[2][c], each
 * [channels]; dx may be g. 3 A. */
int ff_cuda_norm_backward_apply(const ff_cuda_queue *queue, const ff_tensor *shape, const void *g,
                                const void *x, const float *factors, void *dx);

#ifdef __cplusplus
}
#endif
#endif
