/* Reading samples as stored, for kernels that turn them into f32. */
#ifndef FF_LOADER_CUDA_STORED_CUH
#define FF_LOADER_CUDA_STORED_CUH

#include "loader/cuda/kernel.h"
#include "loader/cuda/wide.h"

/* Elements by dtype: what lies in memory, and its value. */
template <int DTYPE> struct ff_stored;
template <> struct ff_stored<FF_U8> {
    typedef uint8_t type;
    static __device__ __forceinline__ float value(type bits) {
        return (float)bits;
    }
};
template <> struct ff_stored<FF_U16> {
    typedef uint16_t type;
    static __device__ __forceinline__ float value(type bits) {
        return (float)bits;
    }
};
template <> struct ff_stored<FF_F16> {
    typedef __half type;
    static __device__ __forceinline__ float value(type bits) {
        return __half2float(bits);
    }
};
template <> struct ff_stored<FF_BF16> {
    typedef __nv_bfloat16 type;
    static __device__ __forceinline__ float value(type bits) {
        return __bfloat162float(bits);
    }
};
template <> struct ff_stored<FF_F32> {
    typedef float type;
    static __device__ __forceinline__ float value(type bits) {
        return bits;
    }
};

/* The sample of a row. */
struct ff_stored_sample {
    const unsigned char *data;
    uint32_t height, width;
    size_t plane, pixel; /* elements from one channel, and from one pixel of a row, to the next */
};

static __device__ __forceinline__ ff_stored_sample ff_stored_at(const ff_cuda_samples &samples,
                                                                const ff_augment_params &params,
                                                                uint32_t row) {
    const uint64_t number = samples.by_row ? row : params.sample;
    ff_stored_sample sample;
    sample.data = (const unsigned char *)samples.data +
                  (samples.offset ? samples.offset[number] : number * samples.stride);
    sample.height = samples.size ? samples.size[2 * number] : samples.height;
    sample.width = samples.size ? samples.size[2 * number + 1] : samples.width;
    const bool planar = samples.layout == FF_CHW;
    sample.plane = planar ? (size_t)sample.height * sample.width : 1;
    sample.pixel = planar ? 1 : samples.channels;
    return sample;
}

/* NAME<DTYPE, OTHERS>(ARGUMENTS) for the samples' dtype. */
#define FF_STORED_LAUNCH(dtype, kernel, ...)                                                       \
    switch (dtype) {                                                                               \
    case FF_U8: return FF_LAUNCH(kernel<FF_U8>, __VA_ARGS__);                                      \
    case FF_U16: return FF_LAUNCH(kernel<FF_U16>, __VA_ARGS__);                                    \
    case FF_F16: return FF_LAUNCH(kernel<FF_F16>, __VA_ARGS__);                                    \
    case FF_BF16: return FF_LAUNCH(kernel<FF_BF16>, __VA_ARGS__);                                  \
    case FF_F32: return FF_LAUNCH(kernel<FF_F32>, __VA_ARGS__);                                    \
    default: return FF_CUDA_INVALID_VALUE;                                                         \
    }

#endif
