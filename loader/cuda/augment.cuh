/* What the kernels of a ff_cuda_augment share: where samples lie, and their elements as f32. */
#ifndef FF_LOADER_CUDA_AUGMENT_CUH
#define FF_LOADER_CUDA_AUGMENT_CUH

#include "loader/cuda/kernel.h"
#include "loader/cuda/kernels.h"

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

/* Its number among the stored rows. */
static __device__ __forceinline__ uint64_t ff_stored_row(const ff_cuda_move &move, uint64_t sample,
                                                         uint32_t row) {
    return !move.gather ? row : move.row_of ? move.row_of[sample] : sample;
}

static __device__ __forceinline__ ff_stored_sample ff_stored_sample_at(const ff_cuda_augment &job,
                                                                       uint64_t number,
                                                                       uint32_t row) {
    const ff_cuda_move &move = job.move;
    const uint64_t i = ff_stored_row(move, number, row);
    ff_stored_sample sample;
    sample.data = move.samples + move.batch->slot * move.slot_bytes +
                  (job.offset ? job.offset[i] : i * move.row_bytes);
    sample.height = job.size ? job.size[2 * number] : move.height;
    sample.width = job.size ? job.size[2 * number + 1] : move.width;
    const bool planar = move.from_layout == FF_CHW;
    sample.plane = planar ? (size_t)sample.height * sample.width : 1;
    sample.pixel = planar ? 1 : move.channels;
    return sample;
}

/* Launches kernel<DTYPE> for the stored dtype, and returns. */
#define FF_STORED_LAUNCH(dtype, kernel, ...)                                                       \
    switch (dtype) {                                                                               \
    case FF_U8: return FF_LAUNCH(kernel<FF_U8>, __VA_ARGS__);                                      \
    case FF_U16: return FF_LAUNCH(kernel<FF_U16>, __VA_ARGS__);                                    \
    case FF_F16: return FF_LAUNCH(kernel<FF_F16>, __VA_ARGS__);                                    \
    case FF_BF16: return FF_LAUNCH(kernel<FF_BF16>, __VA_ARGS__);                                  \
    case FF_F32: return FF_LAUNCH(kernel<FF_F32>, __VA_ARGS__);                                    \
    default: return FF_CUDA_INVALID_VALUE;                                                         \
    }

/* resample.cu: values of rows with FF_AUGMENT_BOX or FF_AUGMENT_RESIZE. */
int ff_cuda_augment_resample(const ff_cuda_augment *job, ff_cuda_stream stream);

#endif
