/* Batch norm on the device. Forward: statistics, then an elementwise pass with the add and the
 * activation. Backward: sums, then an elementwise pass. Formulas: ff_norm and ff_norm_backward in
 * train/compute/arguments.h. Per-channel arrays are zero in padding channels. gamma NULL: 1
 * everywhere, a frozen scale. running_mean NULL: no running statistics.
 *
 * Statistics are merged from per-thread shifted sums by Chan's formula (Chan, Golub, LeVeque 1979),
 * in f32 within a block and f64 between blocks. Bytes below: A = one array of rows * channels
 * elements. */
#ifndef FF_TRAIN_CUDA_KERNELS_NORM_H
#define FF_TRAIN_CUDA_KERNELS_NORM_H

#include "train/compute/cuda/kernels/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a mask. apply writes the mask with ReLU, and the backward pass reads the mask instead of
 * y, which has sixteen times the bytes. Bit i of byte v is 1 if element i of the array's
 * 16-byte vector v had z > 0 before the ReLU. NULL = no mask: z is computed again from x, or y is
 * read. */
static inline size_t ff_cuda_norm_mask(ff_dtype dtype, const ff_tensor *shape) {
    return ff_tensor_count(shape) / (dtype == FF_F32 ? 4 : 8);
}

/* x -> mean, inv_std; updates the running statistics as torch does. Reads A. */
int ff_cuda_norm_statistics(const ff_cuda_queue *queue, const ff_norm *norm, void *scratch);

/* The same from norm->sums, computed by another kernel (a convolution with statistics), or from
 * held running statistics. Memory traffic is negligible. */
int ff_cuda_norm_finish(const ff_cuda_queue *queue, const ff_norm *norm);

/* With norm->ranks, both functions above end with what this rank sends; ff_cuda_norm_join computes
 * the rest from what all ranks have sent. */
int ff_cuda_norm_join(const ff_cuda_queue *queue, const ff_norm *norm);

/* y with mean and inv_std (training), or with the running statistics. Reads A (2 A with a
 * residual, of which residual_norm may be applied), writes A. The backward pass also uses it to
 * recompute an activation that was not kept.
 */
int ff_cuda_norm_apply(const ff_cuda_queue *queue, const ff_norm *norm, bool training);

/* scale = gamma * inv_std and shift = beta - mean * scale, [channels], of the queue's dtype, from
 * the statistics of the batch (training) or the running statistics: for a convolution with a folded
 * norm. */
int ff_cuda_norm_scale_shift(const ff_cuda_queue *queue, const ff_norm *norm, bool training,
                             void *scale, void *shift);

/* Both passes. The first reads x and dy (and dy2, and y) and writes dresidual if not NULL; the
 * second reads x and dresidual, or else the same as the first, and writes dx. Bytes:
 *   no activation, or one from x alone          2 A, 3 A            = 5 A
 *   ReLU with a residual                        4 A, 3 A            = 7 A
 *   ReLU with a residual and a mask             3 A, 3 A            = 6 A (and A / 16)
 * and for dy2 another A if dresidual is written, else 2 A. With a pool the second pass also reads
 * the pool's index, and writes its input's gradient instead of A. With forward.ranks, the function
 * is called twice: for the first pass, which ends with what this rank sends, and, when all ranks
 * have sent, for the second pass (joined). The scratch may change between the calls. */
int ff_cuda_norm_backward_run(const ff_cuda_queue *queue, const ff_norm_backward *norm,
                              void *scratch, bool joined);

/* Only the second pass, if a convolution has computed g and the factors (library.h,
 * FF_EPILOGUE_RELU_NORM_BACKWARD): dx = factors[0][c] * g + factors[1][c] * x + factors[2][c], each
 * [channels]; dx may be g. 3 A. */
int ff_cuda_norm_backward_apply(const ff_cuda_queue *queue, const ff_tensor *shape, const void *g,
                                const void *x, const float *factors, void *dx);

#ifdef __cplusplus
}
#endif
#endif
