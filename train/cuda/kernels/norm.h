/* Batch norm on the device: statistics, then an elementwise pass with the add and the activation;
 * backward the same way: sums, then an elementwise pass. Formulas: train/compute.h (ff_norm,
 * ff_norm_backward), with GELU (arXiv 1606.08415, with erf) beside ReLU.
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

/* y = act(gamma * (x - mean) * inv_std + beta + residual). Per-channel arrays are f32 [channels],
 * zero past the true channels. */
typedef struct ff_cuda_norm {
    size_t rows;
    int channels; /* a multiple of 8 */
    ff_dtype dtype;
    ff_cuda_activation activation;
    float momentum, epsilon;
    const float *gamma; /* NULL = 1 everywhere: a frozen scale */
    const float *beta;
    float *running_mean, *running_var; /* NULL = not kept */
    float *mean, *inv_std;             /* of the batch */
    const void *x, *residual;          /* residual may be NULL; must be for GELU */
    void *y;                           /* may be x or residual */
    /* ReLU: bits that apply writes and the backward pass reads in place of y, which is eight or
     * sixteen times as much; ff_cuda_norm_mask bytes. NULL = none: z again from x, or y. */
    uint8_t *mask;
} ff_cuda_norm;

/* Bytes of a mask: bit i of byte v is 1 where element i of the array's 16-byte vector v had
 * z > 0 before the ReLU. A / 16 where the dtype has 16 bits. */
static inline size_t ff_cuda_norm_mask(ff_dtype dtype, size_t rows, int channels) {
    return rows * (size_t)channels / (dtype == FF_F32 ? 4 : 8);
}

/* x -> mean, inv_std; the running statistics move as torch's. Reads A. */
int ff_cuda_norm_statistics(const ff_cuda_place *place, const ff_cuda_norm *norm, void *scratch);

/* The same from sums over the rows that another kernel has made (a convolution with statistics):
 * sum: [channels] f32 of x, squares: [channels] f32 of x * x. Reads and writes next to nothing. */
int ff_cuda_norm_finish(const ff_cuda_place *place, const ff_cuda_norm *norm, const float *sum,
                        const float *squares);

/* y by mean and inv_std (training), or by the running statistics. Reads A (2 A with a residual),
 * writes A. In the backward pass it also makes an activation again that was not kept. */
int ff_cuda_norm_apply(const ff_cuda_place *place, const ff_cuda_norm *norm, bool training);

/* scale = gamma * inv_std and shift = beta - mean * scale of the batch (training), or of the
 * running statistics, in norm's dtype, [channels]: what a convolution that normalises its input
 * itself is given. */
int ff_cuda_norm_scale_shift(const ff_cuda_place *place, const ff_cuda_norm *norm, bool training,
                             void *scale, void *shift);

/* With g = (dy + dy2) * activation'(.): dbeta = sum g, dgamma = sum g * xhat,
 * dx = gamma * inv_std * (g - dbeta / m - xhat * dgamma / m), dresidual = g. */
typedef struct ff_cuda_norm_backward {
    ff_cuda_norm forward; /* as it was; y is read only for ReLU with a residual
                             and without a mask */
    const void *dy;
    const void *dy2;       /* a second gradient of y, added; NULL = none */
    void *dx;              /* may be dy, dy2 or dresidual */
    void *dresidual;       /* may be dy or dy2; NULL = not wanted */
    float *dgamma, *dbeta; /* [channels]; NULL = not wanted */
} ff_cuda_norm_backward;

/* Both passes. The first reads x and dy (and dy2, and y) and writes dresidual where wanted; the
 * second reads x and dresidual, or else what the first has read, and writes dx. Bytes:
 *   no activation, or one that x alone tells    2 A, 3 A            = 5 A
 *   ReLU with a residual                        4 A, 3 A            = 7 A
 *   ReLU with a residual and a mask             3 A, 3 A            = 6 A (and A / 16)
 * and A more for dy2 where dresidual is written, else 2 A. */
int ff_cuda_norm_backward_run(const ff_cuda_place *place, const ff_cuda_norm_backward *norm,
                              void *scratch);

/* The second pass alone, where a convolution has made g and the factors (library.h,
 * FF_EPILOGUE_RELU_NORM_BACKWARD): dx = gradient_scale[c] * g + input_scale[c] * x + offset[c];
 * dx may be g. 3 A. */
int ff_cuda_norm_backward_apply(const ff_cuda_place *place, ff_dtype dtype, size_t rows,
                                int channels, const void *g, const void *x,
                                const float *gradient_scale, const float *input_scale,
                                const float *offset, void *dx);

#ifdef __cplusplus
}
#endif
#endif
