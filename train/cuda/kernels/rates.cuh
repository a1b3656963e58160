/* The learning rate of a group at a step. */
#ifndef FF_TRAIN_CUDA_KERNELS_RATES_CUH
#define FF_TRAIN_CUDA_KERNELS_RATES_CUH

#include "loader/cuda/kernel.h"

#include "train/cuda/kernels/update.h"

static __device__ __forceinline__ float ff_rate_of(const float *rates, uint32_t rate_steps,
                                                   const ff_cuda_group &group, uint64_t step) {
    uint64_t at = step < rate_steps ? step : rate_steps - 1;
    return rates[(uint64_t)group.rate_row * rate_steps + at] * group.multiplier;
}

#endif
