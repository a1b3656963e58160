/* Elements of samples on the device: the conversions of format/dtype.h, NaNs included, which the
 * hardware's own instructions make all alike. */
#ifndef FF_LOADER_CUDA_ELEMENT_CUH
#define FF_LOADER_CUDA_ELEMENT_CUH

#include "loader/cuda/kernel.h"

#include "format/dtype.h"

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
