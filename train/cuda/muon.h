/* Muon (K. Jordan 2024) round its matrix products: momentum, norms, scalings; one filter bank W:
 * [rows][columns], rows = output channels, columns = kernel * kernel * padded input channels, pad
 * lanes zero (they change no norm). A step:
 *   ff_cuda_muon_begin   m = momentum * m + g;  u = g + momentum * m (nesterov) or m;
 *                        X = bf16(u) / (|bf16(u)| + 1e-7);  factor = sqrt(rows) / |W|
 *   the caller           Newton-Schulz on X: A = X X', B = b A + c A A, X = a X + B X, in bf16, by
 *                        matrix products whose beta adds, or ff_cuda_combine (pointwise.h)
 *   ff_cuda_muon_end     W = factor * W - rate * X, rate = rates[row][step] * multiplier
 * Nothing moves where control->non_finite. */
#ifndef FF_TRAIN_CUDA_MUON_H
#define FF_TRAIN_CUDA_MUON_H

#include "train/cuda/update.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ff_cuda_muon {
    int rows;
    size_t columns;          /* rows * columns a multiple of 8 */
    ff_cuda_segment segment; /* its arrays: gradient, master or working, momentum */
    ff_cuda_group group;     /* its learning rate, momentum and nesterov; its decay is not used */
    const float *rates;      /* as in ff_cuda_update */
    uint32_t rate_steps;
    const ff_cuda_control *control;
    void *update;  /* bf16 [rows][columns]: X */
    double *norms; /* [2] device: |bf16(u)|, |W|, between begin and end */
} ff_cuda_muon;

/* scratch: ff_cuda_muon_scratch() bytes. */
size_t ff_cuda_muon_scratch(int multiprocessors);
int ff_cuda_muon_begin(const ff_cuda_place *place, const ff_cuda_muon *muon, void *scratch);
int ff_cuda_muon_end(const ff_cuda_place *place, const ff_cuda_muon *muon);

#ifdef __cplusplus
}
#endif
#endif
