/* What the kernels of an update share: chunks of segments and their elements, the learning rate of
 * a group at a step, the factor of the gradients, sums over a block. */
#ifndef FF_TRAIN_CUDA_KERNELS_UPDATE_CUH
#define FF_TRAIN_CUDA_KERNELS_UPDATE_CUH

#include "train/compute/cuda/kernels/eights.cuh"
#include "train/compute/cuda/kernels/update.h"

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

/* Elements [first, end) of the block's chunk. */
struct chunk_range {
    uint64_t first, end;
};
static __device__ __forceinline__ chunk_range range_of(const ff_cuda_segment &segment,
                                                       ff_cuda_chunk chunk) {
    chunk_range range;
    range.first = (uint64_t)chunk.chunk * FF_CUDA_CHUNK;
    range.end = range.first + FF_CUDA_CHUNK;
    if (range.end > segment.count) range.end = segment.count;
    return range;
}

/* N elements, 8 or 1, of any dtype. */
static __device__ __forceinline__ void get(uint32_t dtype, const void *from, uint64_t at,
                                           float (&to)[8]) {
    ff_load_any(dtype, from, at, to);
}
static __device__ __forceinline__ void get(uint32_t dtype, const void *from, uint64_t at,
                                           float (&to)[1]) {
    to[0] = ff_load_one(dtype, from, at);
}
static __device__ __forceinline__ void put(uint32_t dtype, void *to, uint64_t at,
                                           const float (&from)[8]) {
    ff_store_any(dtype, to, at, from);
}
static __device__ __forceinline__ void put(uint32_t dtype, void *to, uint64_t at,
                                           const float (&from)[1]) {
    ff_store_one(dtype, to, at, from[0]);
}

static __device__ __forceinline__ bool is_finite(float value) {
    return (__float_as_uint(value) & 0x7f800000u) != 0x7f800000u;
}

#endif
