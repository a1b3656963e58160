/* Shared by the kernels of an ff_cuda_augment: where samples are. */
#ifndef FF_LOADER_CUDA_AUGMENT_CUH
#define FF_LOADER_CUDA_AUGMENT_CUH

#include "loader/cuda/dtype.cuh"
#include "loader/cuda/kernels.h"

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

/* Values are f32, or u8 in batches of u8 that are not changed. */
static __device__ __forceinline__ bool ff_values_are_u8(const ff_cuda_augment &job) {
    return job.move.to == FF_U8 && !job.changed;
}

static __device__ __forceinline__ void ff_store_value(const ff_cuda_augment &job, size_t at,
                                                      float value) {
    if (ff_values_are_u8(job))
        ((uint8_t *)job.values)[at] = (uint8_t)value;
    else
        ((float *)job.values)[at] = value;
}

/* By which the row's augmentation is drawn. */
static __device__ __forceinline__ uint64_t ff_draw_index(const ff_cuda_augment &job, uint32_t row) {
    return ff_sampling_index((int)job.again, job.move.params[row].sample,
                             job.move.batch->at.position + row, job.view);
}

/* change.cu: changes values of rows. */
int ff_cuda_augment_change(const ff_cuda_augment *job, ff_cuda_stream stream);

/* The sum over a block of THREADS, returned to all threads; integers, so the order does not matter.
 */
template <int THREADS> static __device__ uint64_t ff_block_sum(uint64_t sum) {
    __shared__ unsigned long long part[THREADS / 32];
    for (int change = 16; change; change /= 2)
        sum += __shfl_xor_sync(0xffffffffu, (unsigned long long)sum, change);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < THREADS / 32; i++) sum += part[i];
    return sum;
}

/* resample.cu: values of rows with FF_AUGMENT_BOX or FF_AUGMENT_RESIZE. */
extern "C" int ff_cuda_augment_resample(const ff_cuda_augment *job, ff_cuda_stream stream);

#endif
