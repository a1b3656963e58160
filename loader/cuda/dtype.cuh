/* The kernels' table of dtypes: all that kernels and their launchers know of one. The host's is
 * format/dtype.c. */
#ifndef FF_LOADER_CUDA_DTYPE_CUH
#define FF_LOADER_CUDA_DTYPE_CUH

#include "loader/cuda/kernel.h"

#include "format/dtype.h"

/* ---- choosing a kernel ---------------------------------------------------------------------- */

/* launch(T()) for the type of a floating dtype. */
template <typename Launch> static inline int ff_by_dtype(ff_dtype dtype, Launch launch) {
    switch (dtype) {
    case FF_F32: return launch(float());
    case FF_F16: return launch(__half());
    case FF_BF16: return launch(__nv_bfloat16());
    default: return FF_CUDA_INVALID_VALUE;
    }
}
/* The same for the dtype of stored samples. */
template <typename Launch> static inline int ff_by_stored(ff_dtype dtype, Launch launch) {
    switch (dtype) {
    case FF_U8: return launch(uint8_t());
    case FF_U16: return launch(uint16_t());
    default: return ff_by_dtype(dtype, launch);
    }
}
static inline bool ff_is_floating(ff_dtype dtype) {
    return ff_by_dtype(dtype, [](auto) { return FF_CUDA_OK; }) == FF_CUDA_OK;
}
/* Bytes of a stored element; 0 = kernels know no such dtype. */
static inline uint32_t ff_stored_bytes(ff_dtype dtype) {
    uint32_t bytes = 0;
    auto measure = [&](auto element) {
        bytes = sizeof element;
        return FF_CUDA_OK;
    };
    return ff_by_stored(dtype, measure) == FF_CUDA_OK ? bytes : 0;
}

/* ---- elements as floats --------------------------------------------------------------------- */

static __device__ __forceinline__ float ff_to_float(float value) {
    return value;
}
static __device__ __forceinline__ float ff_to_float(uint8_t value) {
    return (float)value;
}
static __device__ __forceinline__ float ff_to_float(uint16_t value) {
    return (float)value;
}
static __device__ __forceinline__ float ff_to_float(__half value) {
    return __half2float(value);
}
static __device__ __forceinline__ float ff_to_float(__nv_bfloat16 value) {
    return __bfloat162float(value);
}
template <typename T> static __device__ __forceinline__ T ff_from_float(float value);
template <> __device__ __forceinline__ float ff_from_float<float>(float value) {
    return value;
}
template <> __device__ __forceinline__ __half ff_from_float<__half>(float value) {
    return __float2half_rn(value);
}
template <> __device__ __forceinline__ __nv_bfloat16 ff_from_float<__nv_bfloat16>(float value) {
    return __float2bfloat16_rn(value);
}

/* ---- pairs of 16 bits in a word, the first one in its low half ------------------------------ */

template <typename To, typename From> static __device__ __forceinline__ To ff_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    memcpy((void *)&to, (const void *)&from, sizeof to);
    return to;
}

template <typename T>
static __device__ __forceinline__ void ff_unpack_pair(unsigned bits, float *to);
template <> __device__ __forceinline__ void ff_unpack_pair<__half>(unsigned bits, float *to) {
    float2 pair = __half22float2(ff_bits<__half2>(bits));
    to[0] = pair.x;
    to[1] = pair.y;
}
template <>
__device__ __forceinline__ void ff_unpack_pair<__nv_bfloat16>(unsigned bits, float *to) {
    to[0] = __uint_as_float(bits << 16); /* bf16 is the upper half of an f32 */
    to[1] = __uint_as_float(bits & 0xffff0000u);
}
template <typename T> static __device__ __forceinline__ unsigned ff_pack_pair(float a, float b);
template <> __device__ __forceinline__ unsigned ff_pack_pair<__half>(float a, float b) {
    return ff_bits<unsigned>(__floats2half2_rn(a, b));
}
template <> __device__ __forceinline__ unsigned ff_pack_pair<__nv_bfloat16>(float a, float b) {
    return ff_bits<unsigned>(__floats2bfloat162_rn(a, b));
}

/* Of a dtype of 16 bits that is known only when the kernel runs. */
static __device__ __forceinline__ unsigned ff_pack_pair(ff_dtype dtype, float a, float b) {
    return dtype == FF_F16 ? ff_pack_pair<__half>(a, b) : ff_pack_pair<__nv_bfloat16>(a, b);
}

/* ---- the host's conversions, NaNs included, which the hardware makes all alike --------------- */

static __device__ __forceinline__ float ff_cuda_f32_of_f16(uint16_t bits) {
    if ((bits & 0x7fff) > 0x7c00)
        return __uint_as_float((uint32_t)(bits & 0x8000) << 16 | 0x7f800000u |
                               (uint32_t)(bits & 0x3ff) << 13);
    return __half2float(__ushort_as_half(bits));
}

static __device__ __forceinline__ uint16_t ff_cuda_f16_of_f32(float value) {
    uint32_t bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16 & 0x8000u) | 0x7e00u | (bits >> 13 & 0x1ffu));
    return __half_as_ushort(__float2half_rn(value));
}

static __device__ __forceinline__ uint16_t ff_cuda_bf16_of_f32(float value) {
    uint32_t bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

/* The bits of element `index` of `from` as one of `to`, a float type. */
static __device__ __forceinline__ uint32_t ff_cuda_convert(const void *array, size_t index,
                                                           ff_dtype from, ff_dtype to) {
    if (from == to && from != FF_F32) return ((const uint16_t *)array)[index];
    float value;
    if (from == FF_F32)
        value = ((const float *)array)[index];
    else if (from == FF_F16)
        value = ff_cuda_f32_of_f16(((const uint16_t *)array)[index]);
    else
        value = __uint_as_float((uint32_t)((const uint16_t *)array)[index] << 16);
    if (to == FF_F32) return __float_as_uint(value);
    return to == FF_F16 ? ff_cuda_f16_of_f32(value) : ff_cuda_bf16_of_f32(value);
}

#endif
