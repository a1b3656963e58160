/* Loads and stores of eight elements of any floating dtype as floats, for kernels with arrays of
 * several dtypes: one or two 16-byte accesses, aligned to 16 bytes. Other loads and stores take
 * eight elements, or one, of arrays whose dtype is known only when a kernel runs. */
#ifndef FF_TRAIN_CUDA_KERNELS_EIGHTS_CUH
#define FF_TRAIN_CUDA_KERNELS_EIGHTS_CUH

#include "train/compute/cuda/kernels/vectors.cuh"

template <typename T>
static __device__ __forceinline__ void ff_load_eight(const T *from, float (&to)[8]) {
    ff_vector<T>::unpack(*(const uint4 *)from, to);
}
template <>
__device__ __forceinline__ void ff_load_eight<float>(const float *from, float (&to)[8]) {
    ff_load_floats(from, to);
}
template <typename T>
static __device__ __forceinline__ void ff_store_eight(T *to, const float (&from)[8]) {
    *(uint4 *)to = ff_vector<T>::pack(from);
}
template <>
__device__ __forceinline__ void ff_store_eight<float>(float *to, const float (&from)[8]) {
    ff_store_floats(to, from);
}

static __device__ __forceinline__ void ff_load_any(uint32_t dtype, const void *from, uint64_t at,
                                                   float (&to)[8]) {
    ff_with_dtype(dtype,
                  [&](auto example) { ff_load_eight((const decltype(example) *)from + at, to); });
}
static __device__ __forceinline__ void ff_store_any(uint32_t dtype, void *to, uint64_t at,
                                                    const float (&from)[8]) {
    ff_with_dtype(dtype, [&](auto example) { ff_store_eight((decltype(example) *)to + at, from); });
}
static __device__ __forceinline__ float ff_load_one(uint32_t dtype, const void *from, uint64_t at) {
    float value;
    ff_with_dtype(
        dtype, [&](auto example) { value = ff_to_float(((const decltype(example) *)from)[at]); });
    return value;
}
static __device__ __forceinline__ void ff_store_one(uint32_t dtype, void *to, uint64_t at,
                                                    float value) {
    ff_with_dtype(dtype, [&](auto example) {
        typedef decltype(example) T;
        ((T *)to)[at] = ff_from_float<T>(value);
    });
}

#endif
