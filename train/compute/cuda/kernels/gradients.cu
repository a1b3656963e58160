/* The gradients before an update: their sums over micro-batches and ranks, their check, and their
 * scale factor from the norm, one block per chunk. Bytes: update.h. */
#include "train/compute/cuda/kernels/update.cuh"

enum { THREADS = 256, EIGHTS = FF_CUDA_CHUNK / 8 };

/* ---- the check ------------------------------------------------------------------------------ */

static __device__ __forceinline__ double square_sum(const float (&value)[8]) {
    double sum = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) sum += (double)value[i] * (double)value[i];
    return sum;
}

template <bool CLIPS>
static __global__ void __launch_bounds__(THREADS) check_kernel(ff_cuda_update update) {
    const ff_cuda_chunk chunk = update.chunks[blockIdx.x];
    const ff_cuda_segment segment = update.segments[chunk.segment];
    const chunk_range range = range_of(segment, chunk);
    __shared__ double shared[THREADS];
    bool found = false;
    double squares = 0;
#pragma unroll
    for (int k = 0; k < EIGHTS / THREADS; k++) {
        const uint64_t at = range.first + (uint64_t)(k * THREADS + (int)threadIdx.x) * 8;
        if (at + 8 <= range.end) {
            float value[8];
            ff_load_any(segment.gradient_dtype, segment.gradient, at, value);
#pragma unroll
            for (int i = 0; i < 8; i++) found |= !is_finite(value[i]);
            if (CLIPS) squares += square_sum(value);
        } else {
            for (uint64_t one = at; one < range.end; one++) {
                const float value = ff_load_one(segment.gradient_dtype, segment.gradient, one);
                found |= !is_finite(value);
                squares += (double)value * (double)value;
            }
        }
    }
    if (__syncthreads_or(found) && threadIdx.x == 0) atomicOr(&update.control->non_finite, 1u);
    if (!CLIPS) return;
    squares = ff_block_sum(shared, squares);
    if (threadIdx.x == 0) update.sums[2 * blockIdx.x] = squares;
}

/* One block: the factor of the gradients. */
static __global__ void __launch_bounds__(THREADS) scale_kernel(ff_cuda_update update) {
    __shared__ double shared[THREADS];
    const double scale =
        ff_sum_factor(update.total, update.how.summed) / (double)update.control->loss_scale;
    double squares = 0;
    for (uint32_t i = threadIdx.x; update.how.clip_norm > 0 && i < update.chunk_count; i += THREADS)
        squares += update.sums[2 * i];
    squares = ff_block_sum(shared, squares);
    float clip = 1;
    if (update.how.clip_norm > 0)
        clip = ff_clip_factor(update.how.clip_norm, sqrt(squares) * scale);
    if (threadIdx.x == 0) *update.scale = (float)(scale * (double)clip);
}

extern "C" int ff_cuda_check(const ff_cuda_queue *queue, const ff_cuda_update *update) {
    if (!update->chunk_count) return FF_CUDA_OK;
    const dim3 grid(update->chunk_count);
    const int status =
        update->scale && update->how.clip_norm > 0
            ? FF_LAUNCH(check_kernel<true>, grid, dim3(THREADS), 0, queue->stream, *update)
            : FF_LAUNCH(check_kernel<false>, grid, dim3(THREADS), 0, queue->stream, *update);
    if (status || !update->scale) return status;
    return FF_LAUNCH(scale_kernel, dim3(1), dim3(THREADS), 0, queue->stream, *update);
}

/* ---- sums over micro-batches and ranks ------------------------------------------------------- */

static __global__ void __launch_bounds__(THREADS) add_kernel(ff_gradient_sum sum) {
    const ff_outcome *entry = sum.ring + sum.control->step % sum.ring_size;
    const float weight = sum.weight > 0 ? sum.weight : (float)entry->weight;
    const uint64_t stride = (uint64_t)gridDim.x * THREADS * 8;
    for (uint64_t at = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * 8; at < sum.count;
         at += stride) {
        float part[8], all[8];
        ff_load_any(sum.dtype, sum.gradient, at, part);
        if (!sum.first) ff_load_floats(sum.sums + at, all);
#pragma unroll
        for (int i = 0; i < 8; i++) all[i] = (sum.first ? 0.0f : all[i]) + weight * part[i];
        ff_store_floats(sum.sums + at, all);
    }
}

extern "C" int ff_cuda_sum_gradients(const ff_cuda_queue *queue, const ff_gradient_sum *sum) {
    const uint64_t blocks = (sum->count / 8 + THREADS - 1) / THREADS;
    const uint64_t most = (uint64_t)queue->multiprocessors * 8;
    if (!sum->count) return FF_CUDA_OK;
    if (sum->count % 8 || !sum->ring || !sum->ring_size) return FF_CUDA_INVALID_VALUE;
    return FF_LAUNCH(add_kernel, dim3((unsigned)(blocks < most ? blocks : most)), dim3(THREADS), 0,
                     queue->stream, *sum);
}

static __global__ void total_kernel(ff_cuda_update update, bool first, ff_outcome *ring,
                                    uint32_t ring_size) {
    ff_control *control = update.control;
    ff_outcome_add(update.total, ring + control->step % ring_size, first, control->part,
                   update.how.part_samples, update.how.first_sample);
    control->part++;
}

extern "C" int ff_cuda_outcome_add(const ff_cuda_queue *queue, const ff_cuda_update *update,
                                   bool first, ff_outcome *ring, uint32_t ring_size) {
    if (!update->total || !ring || !ring_size) return FF_CUDA_INVALID_VALUE;
    return FF_LAUNCH(total_kernel, dim3(1), dim3(1), 0, queue->stream, *update, first, ring,
                     ring_size);
}

static __global__ void join_kernel(ff_cuda_update update, const ff_outcome *ranks, int count,
                                   ff_outcome *ring, uint32_t ring_size) {
    ff_outcome_join(ranks, count, update.total, ring + update.control->step % ring_size,
                    update.control);
}

extern "C" int ff_cuda_outcome_join(const ff_cuda_queue *queue, const ff_cuda_update *update,
                                    const ff_outcome *ranks, int count, ff_outcome *ring,
                                    uint32_t ring_size) {
    if (!update->total || count < 1 || !ring || !ring_size) return FF_CUDA_INVALID_VALUE;
    return FF_LAUNCH(join_kernel, dim3(1), dim3(1), 0, queue->stream, *update, ranks, count, ring,
                     ring_size);
}
