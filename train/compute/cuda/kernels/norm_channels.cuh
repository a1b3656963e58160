/* The per-channel values of a batch norm, a vector of channels at a time. */
#ifndef FF_TRAIN_CUDA_KERNELS_NORM_CHANNELS_CUH
#define FF_TRAIN_CUDA_KERNELS_NORM_CHANNELS_CUH

#include "train/compute/cuda/kernels/columns.cuh"
#include "train/compute/cuda/kernels/norm.h"
#include "train/compute/norm_ranks.h"

/* z = x * scale + shift: the same two roundings in every pass (and on the host), so that a mask
 * computed again from x is the same mask. */
static __device__ __forceinline__ float ff_norm_affine(float x, float scale, float shift) {
    return __fadd_rn(__fmul_rn(x, scale), shift);
}

template <int lanes> struct ff_norm_affines { float scale[lanes], shift[lanes]; };

template <int lanes>
static __device__ __forceinline__ void
ff_norm_affines_load(const ff_norm &norm, bool training, int channel, ff_norm_affines<lanes> *to) {
    float gamma[lanes], mean[lanes];
    ff_load_floats(norm.beta + channel, to->shift);
    ff_load_floats((training ? norm.mean : norm.running_mean) + channel, mean);
    ff_load_floats((training ? norm.inv_std : norm.running_var) + channel, to->scale);
    if (norm.gamma) ff_load_floats(norm.gamma + channel, gamma);
#pragma unroll
    for (int i = 0; i < lanes; i++) {
        float scale = to->scale[i];
        if (!training) scale = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(scale, norm.epsilon)));
        if (norm.gamma) scale = __fmul_rn(gamma[i], scale);
        to->scale[i] = scale;
        to->shift[i] = __fsub_rn(to->shift[i], __fmul_rn(mean[i], scale));
    }
}

/* mean, inv_std and the running statistics from the blocks' partial moments. Defined in
 * norm_statistics.cu. */
extern "C" int ff_norm_finish_parts(const ff_cuda_queue *queue, const ff_norm *norm,
                                    const ff_columns *columns, ff_moment_parts parts);

#endif
