/* Shared by the move kernels: where a row's sample is, and its columns. */
#ifndef FF_LOADER_CUDA_MOVE_CUH
#define FF_LOADER_CUDA_MOVE_CUH

#include "loader/cuda/dtype.cuh"
#include "loader/cuda/kernels.h"

/* Row `row` of the batch. */
typedef struct ff_move_row {
    bool padding;
    uint64_t from; /* its row in the samples and in the columns */
} ff_move_row;

static __device__ __forceinline__ ff_move_row ff_move_find(const ff_cuda_move &job, uint32_t row) {
    ff_move_row found = {row >= job.batch->at.count, row};
    if (job.gather && !found.padding) {
        found.from = job.params[row].sample;
        if (job.row_of) found.from = job.row_of[found.from];
    }
    return found;
}

static __device__ __forceinline__ const uint8_t *ff_move_sample(const ff_cuda_move &job,
                                                                ff_move_row row) {
    return job.samples + (size_t)job.batch->slot * job.slot_bytes + row.from * job.row_bytes;
}

/* Called by all threads of a block. */
static __device__ __forceinline__ void ff_move_columns(const ff_cuda_move &job, uint32_t row,
                                                       ff_move_row found) {
    size_t slot = (size_t)job.batch->slot * (job.slot_bytes / 4);
    for (uint32_t i = 0; i < job.columns; i++) {
        const ff_cuda_column &column = job.column[i];
        const uint32_t *from = column.from + slot + found.from * column.width;
        for (uint32_t k = threadIdx.x; k < column.width; k += blockDim.x)
            column.to[(size_t)row * column.width + k] = found.padding ? column.padding : from[k];
    }
}

/* The part of the cutout inside the output; all zero without a cutout. */
typedef struct ff_move_box {
    int32_t top, bottom, left, right;
} ff_move_box;

static __device__ __forceinline__ ff_move_box ff_move_cutout(const ff_cuda_move &job,
                                                             const ff_augment_params &params) {
    ff_move_box box = {0, 0, 0, 0};
    if (params.cut_height == 0) return box;
    box.top = max(params.cut_y, 0);
    box.left = max(params.cut_x, 0);
    box.bottom = min(params.cut_y + (int32_t)params.cut_height, (int32_t)job.out_height);
    box.right = min(params.cut_x + (int32_t)params.cut_width, (int32_t)job.out_width);
    return box;
}

/* Any shapes and types, one element per thread. */
extern "C" int ff_cuda_move_plain(const ff_cuda_move *job, ff_cuda_stream stream);

#endif
