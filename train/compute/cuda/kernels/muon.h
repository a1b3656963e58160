/* Muon (K. Jordan 2024) around its matrix products: momentum, norms, scalings (formula:
 * train/compute/optimizers/muon.h). One filter bank W: [rows][columns], rows = output channels,
 * columns = kernel * kernel * padded input channels, pad lanes zero (they do not change norms).
 * Begin and end take all banks of a net, of any shapes. A step:
 * - ff_cuda_muon_begin: m = momentum * m + g; u = g + momentum * m (nesterov) or m;
 *   X = u / (|u| + 1e-7), u rounded to X's dtype before; |W|;
 * - the caller, Newton-Schulz on X: A = X X', B = b A + c A A, X = a X + B X, in X's dtype, by
 *   matrix products with beta, which ff_cuda_muon_copy prepares: B = A, and the next X = X;
 * - ff_cuda_muon_end: W = W * sqrt(rows) / |W| - rate * X, rate = rates[row][step] * multiplier.
 * Nothing changes if control->non_finite.
 * Bytes per element (16-bit gradient and X, f32 momentum, master and working copy): begin reads 10
 * + 2, writes 6 + 4; end reads 6, writes 6. */
#ifndef FF_TRAIN_CUDA_KERNELS_MUON_H
#define FF_TRAIN_CUDA_KERNELS_MUON_H

#include "train/compute/cuda/kernels/update.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ff_cuda_muon {
    int rows;
    size_t columns;          /* rows * columns a multiple of 8 */
    ff_cuda_segment segment; /* its arrays: gradient, master or working, momentum */
    ff_cuda_group group;     /* its learning rate, momentum and nesterov; weight_decay is ignored */
    const float *rates;      /* as in ff_cuda_update */
    uint32_t rate_steps;
    const ff_control *control;
    const float *scale; /* as in ff_cuda_update */
    ff_dtype dtype;     /* of X: FF_BF16, or FF_F32 */
    void *x, *next;     /* [rows][columns]; begin writes X to both */
    const void *last;   /* where end reads X */
    double *norms;      /* [2] device: |u|, |W|, between begin and end */
} ff_cuda_muon;

/* banks: [count] in device memory; most: the elements of the largest. scratch:
 * ff_cuda_muon_scratch() bytes. */
size_t ff_cuda_muon_scratch(int multiprocessors, int count);
int ff_cuda_muon_begin(const ff_cuda_queue *queue, const ff_cuda_muon *banks, int count,
                       uint64_t most, void *scratch);
int ff_cuda_muon_end(const ff_cuda_queue *queue, const ff_cuda_muon *banks, int count,
                     uint64_t most);
/* Copies a to b, and x to next: bytes that are multiples of 16, or 0. */
int ff_cuda_muon_copy(const ff_cuda_queue *queue, const void *a, void *b, uint64_t a_bytes,
                      const void *x, void *next, uint64_t x_bytes);

#ifdef __cplusplus
}
#endif
#endif
