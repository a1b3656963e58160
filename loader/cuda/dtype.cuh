/* The dtypes of the kernels and their traits: a new dtype is added here, and for the host in
 * format/disk/dtype.c. Arithmetic is f32. */
#ifndef FF_LOADER_CUDA_DTYPE_CUH
#define FF_LOADER_CUDA_DTYPE_CUH

#include "loader/cuda/kernel.h"

#include "format/disk/dtype.h"

template <typename To, typename From> static __device__ __forceinline__ To ff_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    memcpy((void *)&to, (const void *)&from, sizeof to);
    return to;
}

/* Dtype and type. Each type has widen and narrow (rounded to nearest even); 16-bit types also have
 * both for pairs in 32 bits, the first in the lower half. read and write are widen and narrow on an
 * element's bits, with the host's NaN bits (the hardware makes all NaNs equal). */
#define FF_FLOAT_DTYPES(each) each(FF_F32, float) each(FF_F16, __half) each(FF_BF16, __nv_bfloat16)
/* Further dtypes of stored samples; these have only widen, and u8 narrow. */
#define FF_INTEGER_DTYPES(each) each(FF_U8, uint8_t) each(FF_U16, uint16_t)

template <typename T> struct ff_real;

template <> struct ff_real<float> {
    static __device__ __forceinline__ float widen(float value) {
        return value;
    }
    static __device__ __forceinline__ float narrow(float value) {
        return value;
    }
    typedef uint32_t bits;
    static __device__ __forceinline__ float read(bits value) {
        return __uint_as_float(value);
    }
    static __device__ __forceinline__ bits write(float value) {
        return __float_as_uint(value);
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
    typedef uint16_t bits;
    static __device__ __forceinline__ float read(bits value) {
        if ((value & 0x7fff) > 0x7c00)
            return __uint_as_float((uint32_t)(value & 0x8000) << 16 | 0x7f800000u |
                                   (uint32_t)(value & 0x3ff) << 13);
        return __half2float(__ushort_as_half(value));
    }
    static __device__ __forceinline__ bits write(float value) {
        uint32_t word = __float_as_uint(value);
        if ((word & 0x7fffffffu) > 0x7f800000u)
            return (uint16_t)((word >> 16 & 0x8000u) | 0x7e00u | (word >> 13 & 0x1ffu));
        return __half_as_ushort(__float2half_rn(value));
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
    typedef uint16_t bits;
    static __device__ __forceinline__ float read(bits value) {
        return __uint_as_float((uint32_t)value << 16);
    }
    static __device__ __forceinline__ bits write(float value) {
        uint32_t word = __float_as_uint(value);
        if ((word & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(word >> 16 | 0x40u);
        return __bfloat16_as_ushort(__float2bfloat16_rn(value));
    }
};

template <> struct ff_real<uint8_t> {
    static __device__ __forceinline__ float widen(uint8_t value) {
        return (float)value;
    }
    static __device__ __forceinline__ uint8_t narrow(float value) { /* a whole one */
        return (uint8_t)value;
    }
};

template <> struct ff_real<uint16_t> {
    static __device__ __forceinline__ float widen(uint16_t value) {
        return (float)value;
    }
};

template <typename T> static __device__ __forceinline__ float ff_to_float(T value) {
    return ff_real<T>::widen(value);
}
template <typename T> static __device__ __forceinline__ T ff_from_float(float value) {
    return ff_real<T>::narrow(value);
}

/* Calls launch(T()) with the type of a dtype, to choose a kernel. */
template <typename Launch> static inline int ff_by_dtype(ff_dtype dtype, Launch launch) {
    switch (dtype) {
#define FF_CASE(number, type)                                                                      \
    case number: return launch(type());
        FF_FLOAT_DTYPES(FF_CASE)
#undef FF_CASE
    default: return FF_CUDA_INVALID_VALUE;
    }
}

/* The same for the dtype of stored samples. */
template <typename Launch> static inline int ff_by_stored(ff_dtype dtype, Launch launch) {
    switch (dtype) {
#define FF_CASE(number, type)                                                                      \
    case number: return launch(type());
        FF_INTEGER_DTYPES(FF_CASE)
#undef FF_CASE
    default: return ff_by_dtype(dtype, launch);
    }
}
static inline bool ff_is_floating(ff_dtype dtype) {
    return ff_by_dtype(dtype, [](auto) { return FF_CUDA_OK; }) == FF_CUDA_OK;
}
/* Bytes of a stored element; 0 = a dtype that kernels do not support. */
static inline uint32_t ff_stored_bytes(ff_dtype dtype) {
    uint32_t bytes = 0;
    auto measure = [&](auto element) {
        bytes = sizeof element;
        return FF_CUDA_OK;
    };
    return ff_by_stored(dtype, measure) == FF_CUDA_OK ? bytes : 0;
}

/* Calls use(T()) for arrays whose dtype is known only when a kernel runs. */
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

/* narrow_pair of a dtype of 16 bits that is known only when the kernel runs. */
static __device__ __forceinline__ unsigned ff_narrow_pair(ff_dtype dtype, float a, float b) {
    return dtype == FF_F16 ? ff_real<__half>::narrow_pair(a, b)
                           : ff_real<__nv_bfloat16>::narrow_pair(a, b);
}

/* The bits of element `index` of `from` as one of `to`, with the host's NaNs. */
static __device__ __forceinline__ uint32_t ff_cuda_convert(const void *array, size_t index,
                                                           ff_dtype from, ff_dtype to) {
    uint32_t bits = 0;
    float value = 0;
    ff_with_dtype(from, [&](auto element) {
        typedef ff_real<decltype(element)> real;
        bits = ((const typename real::bits *)array)[index];
        value = real::read((typename real::bits)bits);
    });
    if (from == to) return bits;
    ff_with_dtype(to, [&](auto element) { bits = ff_real<decltype(element)>::write(value); });
    return bits;
}

#endif
