/* Shared device code of this folder's kernels: 16-byte vectors of any floating dtype as floats,
 * division by launch-time constants, and selecting a kernel by activation.
 *
 * Vectors are loaded as raw bits (uint4), several before the first is unpacked, so that many loads
 * are in flight. */
#ifndef FF_TRAIN_CUDA_KERNELS_VECTORS_CUH
#define FF_TRAIN_CUDA_KERNELS_VECTORS_CUH

#include "loader/cuda/dtype.cuh"
#include "train/compute/cuda/kernels/launch.h"

/* ---- vectors -------------------------------------------------------------------------------- */

/* Elements of T in 16 bytes. */
template <typename T> struct ff_lanes {
    enum { count = 16 / sizeof(T) };
};

template <typename T> struct ff_vector {
    static __device__ __forceinline__ void unpack(uint4 raw, float (&to)[8]) {
        ff_real<T>::widen_pair(raw.x, to);
        ff_real<T>::widen_pair(raw.y, to + 2);
        ff_real<T>::widen_pair(raw.z, to + 4);
        ff_real<T>::widen_pair(raw.w, to + 6);
    }
    static __device__ __forceinline__ uint4 pack(const float (&from)[8]) {
        return make_uint4(
            ff_real<T>::narrow_pair(from[0], from[1]), ff_real<T>::narrow_pair(from[2], from[3]),
            ff_real<T>::narrow_pair(from[4], from[5]), ff_real<T>::narrow_pair(from[6], from[7]));
    }
};
template <> struct ff_vector<float> {
    static __device__ __forceinline__ void unpack(uint4 raw, float (&to)[4]) {
        to[0] = __uint_as_float(raw.x);
        to[1] = __uint_as_float(raw.y);
        to[2] = __uint_as_float(raw.z);
        to[3] = __uint_as_float(raw.w);
    }
    static __device__ __forceinline__ uint4 pack(const float (&from)[4]) {
        return make_uint4(__float_as_uint(from[0]), __float_as_uint(from[1]),
                          __float_as_uint(from[2]), __float_as_uint(from[3]));
    }
};

/* `count` floats (a multiple of 4) from or to a 16-byte aligned array. */
template <int count>
static __device__ __forceinline__ void ff_load_floats(const float *from, float (&to)[count]) {
#pragma unroll
    for (int i = 0; i < count; i += 4) {
        float4 four = *(const float4 *)(from + i);
        to[i] = four.x;
        to[i + 1] = four.y;
        to[i + 2] = four.z;
        to[i + 3] = four.w;
    }
}
template <int count>
static __device__ __forceinline__ void ff_store_floats(float *to, const float (&from)[count]) {
#pragma unroll
    for (int i = 0; i < count; i += 4)
        *(float4 *)(to + i) = make_float4(from[i], from[i + 1], from[i + 2], from[i + 3]);
}

/* ---- division ------------------------------------------------------------------------------- */

/* Division of numbers below 2^31 by a divisor known at launch: a multiplication, an addition and a
 * shift (Granlund & Montgomery 1994). */
struct ff_divider {
    unsigned divisor, factor, shift;
};

static inline ff_divider ff_divider_make(int divisor) {
    ff_divider by = {(unsigned)divisor, 0, 0};
    while ((1ull << by.shift) < by.divisor) by.shift++;
    by.factor = (unsigned)(((1ull << 32) * ((1ull << by.shift) - by.divisor)) / by.divisor + 1);
    return by;
}
static __device__ __forceinline__ unsigned ff_divide(unsigned value, ff_divider by,
                                                     unsigned *rest) {
    unsigned quotient = (__umulhi(value, by.factor) + value) >> by.shift;
    *rest = value - quotient * by.divisor;
    return quotient;
}

/* ---- grids ---------------------------------------------------------------------------------- */

/* Blocks for `count` > 0 elements, `each` per block; none, which every launch refuses, if that is
 * more than a grid has. */
static inline dim3 ff_grid_over(uint64_t count, uint64_t each) {
    const uint64_t blocks = (count - 1) / each + 1;
    return dim3(blocks <= INT32_MAX ? (unsigned)blocks : 0);
}

/* ---- choosing a kernel ---------------------------------------------------------------------- */

template <int number> struct ff_constant { static constexpr int value = number; };

/* launch(ff_constant<activation>()). */
template <typename Launch>
static inline int ff_by_activation(ff_activation activation, Launch launch) {
    switch (activation) {
    case FF_ACTIVATION_NONE: return launch(ff_constant<FF_ACTIVATION_NONE>());
    case FF_ACTIVATION_RELU: return launch(ff_constant<FF_ACTIVATION_RELU>());
    case FF_ACTIVATION_RELU6: return launch(ff_constant<FF_ACTIVATION_RELU6>());
    case FF_ACTIVATION_GELU: return launch(ff_constant<FF_ACTIVATION_GELU>());
    default: return FF_CUDA_INVALID_VALUE;
    }
}

#endif
