/* Computes a batch's position and the augmentation of its rows with the host's source
 * (loader/sequence/sequence.h, order.h, augment.h). Built without fused multiply-add, so that the
 * boxes of random resized crops, computed in doubles, have the host's bits. */
#include "loader/cuda/kernel.h"

#include "loader/cuda/kernels.h"

/* One thread: the values shared by the batch's rows. */
static __global__ void next_kernel(ff_cuda_next job) {
    ff_cuda_batch *batch = job.batch;
    if (job.given == 2) {
        batch->number = job.number;
        return;
    }
    uint64_t number = job.given ? job.number : batch->number;
    batch->at = ff_sequence_at(&job.sequence, number);
    batch->slot = (uint32_t)(number % job.slots);
    batch->reserved = 0;
    ff_order_init(&batch->order, &job.order, batch->at.epoch);
    batch->number = number + 1;
}

/* One thread per row. */
static __global__ void __launch_bounds__(128) params_kernel(ff_cuda_params job) {
    uint32_t row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= job.rows) return;
    const ff_sequence_batch at = job.batch->at;
    ff_augment_params params = {};
    bool given = row < at.count;
    if (given) {
        uint64_t sample =
            ff_sampling_at(&job.sampling, &job.batch->order, at.epoch, at.position + row);
        if (job.sample_of_place) sample = job.sample_of_place[sample];
        const uint32_t height = job.size ? job.size[2 * sample] : job.height;
        const uint32_t width = job.size ? job.size[2 * sample + 1] : job.width;
        const uint64_t index = ff_sampling_index(ff_sampling_again(&job.sampling), sample,
                                                 at.position + row, job.view);
        params = ff_augment_at(&job.spec, job.seed, at.epoch, index, height, width, job.out_height,
                               job.out_width);
        params.sample = sample;
        if (ff_augment_mixes(&job.spec) && (row ^ 1) < at.count)
            ff_augment_mix(&job.spec, &params, job.seed, at.epoch, (at.position + (row & ~1u)) / 2,
                           job.out_height, job.out_width);
    }
    job.params[row] = params;
    job.weight[row] = given ? 1.0f : 0.0f;
    if (job.mix) job.mix[row] = given ? params.weight : 1.0f;
}

extern "C" int ff_cuda_next_launch(const ff_cuda_next *job, ff_cuda_stream stream) {
    if (job->slots == 0) return FF_CUDA_INVALID_VALUE;
    return FF_LAUNCH(next_kernel, 1, 1, 0, stream, *job);
}

extern "C" int ff_cuda_params_launch(const ff_cuda_params *job, ff_cuda_stream stream) {
    if (job->rows == 0) return FF_CUDA_OK;
    return FF_LAUNCH(params_kernel, (job->rows - 1) / 128 + 1, 128, 0, stream, *job);
}
