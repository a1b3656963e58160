/* What the kernels of an update share: the learning rate of a group at a step, the factor of the
 * gradients, sums over a block. */
#ifndef FF_TRAIN_CUDA_KERNELS_UPDATE_CUH
#define FF_TRAIN_CUDA_KERNELS_UPDATE_CUH

#include "loader/cuda/kernel.h"

#include "train/cuda/kernels/update.h"

static __device__ __forceinline__ float ff_rate_of(const float *rates, uint32_t rate_steps,
                                                   const ff_cuda_group &group, uint64_t step) {
    uint64_t at = step < rate_steps ? step : rate_steps - 1;
    return rates[(uint64_t)group.rate_row * rate_steps + at] * group.multiplier;
}

static __device__ __forceinline__ float ff_scale_of(const float *scale, const ff_control *control) {
    return scale ? *scale : 1.0f / control->loss_scale;
}

/* The sum of a block's values, in all threads. */
template <int THREADS>
static __device__ double ff_block_sum(double (&shared)[THREADS], double value) {
    __syncthreads();
    shared[threadIdx.x] = value;
    for (int reach = THREADS / 2; reach > 0; reach /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < reach) shared[threadIdx.x] += shared[threadIdx.x + reach];
    }
    __syncthreads();
    return shared[0];
}

#endif
