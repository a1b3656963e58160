/* Parts of a batch norm's passes, for kernels that have a norm folded in (fused_depthwise.c).
 *
 * Thread rule: the thread that calls the table's entries. */
#ifndef FF_TRAIN_CPU_FUSED_NORM_H
#define FF_TRAIN_CPU_FUSED_NORM_H

#include "train/compute/cpu/fused.h"

/* In ff_fused_norm_scratch floats, for blocked activations of `channels` padded channels. */
typedef struct ff_norm_work {
    double *sums; /* [threads][2][channels]: of g, and of g * (x - mean) */
    /* [channels]: y = x * scale + shift before the activation; in the backward pass
     * dx = scale * g + slope * (x - mean) + base */
    float *scale, *shift, *slope, *base;
} ff_norm_work;
ff_norm_work ff_norm_work_of(const ff_compute *compute, size_t channels, float *scratch);

/* scale and shift, from the norm's mean and inv_std. */
void ff_norm_set_scale(const ff_norm *norm, const ff_norm_work *work);
/* dgamma, dbeta, slope and base, from the sums and the scale. */
void ff_norm_finish_backward(ff_compute *compute, const ff_norm_backward *norm,
                             const ff_norm_work *work);

#endif
