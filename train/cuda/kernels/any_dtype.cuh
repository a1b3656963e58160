/* Elements of arrays whose dtype is known only when a kernel runs, eight or one at a time. */
#ifndef FF_TRAIN_CUDA_KERNELS_ANY_DTYPE_CUH
#define FF_TRAIN_CUDA_KERNELS_ANY_DTYPE_CUH

#include "train/cuda/kernels/eights.cuh"

static __device__ __forceinline__ void ff_load_any(uint32_t dtype, const void *from, uint64_t at,
                                                   float (&to)[8]) {
    switch (dtype) {
    case FF_F32: ff_load_eight((const float *)from + at, to); break;
    case FF_F16: ff_load_eight((const __half *)from + at, to); break;
    default: ff_load_eight((const __nv_bfloat16 *)from + at, to); break;
    }
}
static __device__ __forceinline__ void ff_store_any(uint32_t dtype, void *to, uint64_t at,
                                                    const float (&from)[8]) {
    switch (dtype) {
    case FF_F32: ff_store_eight((float *)to + at, from); break;
    case FF_F16: ff_store_eight((__half *)to + at, from); break;
    default: ff_store_eight((__nv_bfloat16 *)to + at, from); break;
    }
}
static __device__ __forceinline__ float ff_load_one(uint32_t dtype, const void *from, uint64_t at) {
    switch (dtype) {
    case FF_F32: return ((const float *)from)[at];
    case FF_F16: return ff_to_float(((const __half *)from)[at]);
    default: return ff_to_float(((const __nv_bfloat16 *)from)[at]);
    }
}
static __device__ __forceinline__ void ff_store_one(uint32_t dtype, void *to, uint64_t at,
                                                    float value) {
    switch (dtype) {
    case FF_F32: ((float *)to)[at] = value; break;
    case FF_F16: ((__half *)to)[at] = ff_from_float<__half>(value); break;
    default: ((__nv_bfloat16 *)to)[at] = ff_from_float<__nv_bfloat16>(value); break;
    }
}

#endif
