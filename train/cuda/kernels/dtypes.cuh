/* The floating dtypes of the kernels, and all that these know of each: what another one is added
 * to. Arithmetic is f32. */
#ifndef FF_TRAIN_CUDA_KERNELS_DTYPES_CUH
#define FF_TRAIN_CUDA_KERNELS_DTYPES_CUH

#include "loader/cuda/kernel.h"

#include "format/dtype.h"
#include "train/cuda/kernels/launch.h"

template <typename To, typename From> static __device__ __forceinline__ To ff_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    memcpy((void *)&to, (const void *)&from, sizeof to);
    return to;
}

/* Dtype and type. Each type has widen and narrow (rounded to nearest even); those of 16 bits have
 * both for the two that lie in 32, the first in the lower half. */
#define FF_FLOAT_DTYPES(each) each(FF_F32, float) each(FF_F16, __half) each(FF_BF16, __nv_bfloat16)

template <typename T> struct ff_real;

template <> struct ff_real<float> {
    static __device__ __forceinline__ float widen(float value) {
        return value;
    }
    static __device__ __forceinline__ float narrow(float value) {
        return value;
    }
};

template <> struct ff_real<__half> {
    static __device__ __forceinline__ float widen(__half value) {
        return __half2float(value);
    }
    static __device__ __forceinline__ __half narrow(float value) {
        return __float2half_rn(value);
    }
    static __device__ __forceinline__ void widen_pair(unsigned bits, float *to) {
        float2 pair = __half22float2(ff_bits<__half2>(bits));
        to[0] = pair.x;
        to[1] = pair.y;
    }
    static __device__ __forceinline__ unsigned narrow_pair(float a, float b) {
        return ff_bits<unsigned>(__floats2half2_rn(a, b));
    }
};

template <> struct ff_real<__nv_bfloat16> {
    static __device__ __forceinline__ float widen(__nv_bfloat16 value) {
        return __bfloat162float(value);
    }
    static __device__ __forceinline__ __nv_bfloat16 narrow(float value) {
        return __float2bfloat16_rn(value);
    }
    static __device__ __forceinline__ void widen_pair(unsigned bits, float *to) {
        to[0] = __uint_as_float(bits << 16); /* the upper half of an f32 */
        to[1] = __uint_as_float(bits & 0xffff0000u);
    }
    static __device__ __forceinline__ unsigned narrow_pair(float a, float b) {
        return ff_bits<unsigned>(__floats2bfloat162_rn(a, b));
    }
};

template <typename T> static __device__ __forceinline__ float ff_to_float(T value) {
    return ff_real<T>::widen(value);
}
template <typename T> static __device__ __forceinline__ T ff_from_float(float value) {
    return ff_real<T>::narrow(value);
}

/* launch(T()) for the type of a dtype: the choice of a kernel. */
template <typename Launch> static inline int ff_by_dtype(ff_dtype dtype, Launch launch) {
    switch (dtype) {
#define FF_CASE(number, type)                                                                      \
    case number: return launch(type());
        FF_FLOAT_DTYPES(FF_CASE)
#undef FF_CASE
    default: return FF_CUDA_INVALID_VALUE;
    }
}

/* use(T()) for arrays whose dtype is known only when a kernel runs. */
template <typename Use>
static __device__ __forceinline__ void ff_with_dtype(uint32_t dtype, Use use) {
    switch (dtype) {
#define FF_CASE(number, type)                                                                      \
    case number: use(type()); break;
        FF_FLOAT_DTYPES(FF_CASE)
#undef FF_CASE
    default: __builtin_unreachable();
    }
}

#endif
