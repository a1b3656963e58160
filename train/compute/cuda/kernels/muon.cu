/* Muon's kernels around its matrix products. Norms pass from thread to block to partial sums in
 * scratch; every block of the next launch adds these partial sums in the same order. */
#include "train/compute/cuda/kernels/eights.cuh"
#include "train/compute/cuda/kernels/muon.h"
#include "train/compute/cuda/kernels/update.cuh"

enum { THREADS = 256, BLOCKS = 2 /* per multiprocessor */ };

/* Partial sums of squares, [count][BLOCKS * multiprocessors][2] f64: of u and of W. */
extern "C" size_t ff_cuda_muon_scratch(int multiprocessors, int count) {
    return (size_t)count * (size_t)multiprocessors * BLOCKS * 2 * sizeof(double);
}

static unsigned blocks_of(const ff_cuda_queue *queue, uint64_t eights) {
    uint64_t most = (uint64_t)queue->multiprocessors * BLOCKS;
    uint64_t blocks = (eights + THREADS - 1) / THREADS;
    return (unsigned)(blocks < most ? blocks : most);
}

/* A row of the grid is a bank; its blocks past a small bank's end add 0. */
static __device__ __forceinline__ uint64_t eights_of(const ff_cuda_muon &muon) {
    return (uint64_t)muon.rows * muon.columns / 8;
}

static __device__ __forceinline__ void load_weights(const ff_cuda_segment &s, uint64_t at,
                                                    float (&to)[8]) {
    if (s.master)
        ff_load_eight(s.master + at, to);
    else
        ff_load_any(s.working_dtype, s.working, at, to);
}

static __global__ void __launch_bounds__(THREADS)
    momentum_kernel(const ff_cuda_muon *banks, double *parts) {
    __shared__ double shared[THREADS];
    const ff_cuda_muon muon = banks[blockIdx.y];
    const uint64_t eights = eights_of(muon);
    const bool moves = !muon.control->non_finite; /* of the whole grid */
    const float scale = ff_scale_of(muon.scale, muon.control);
    const ff_cuda_segment &s = muon.segment;
    const float keep = (float)muon.group.hyper.momentum;
    float updates = 0, weights = 0;
    for (uint64_t k = (uint64_t)blockIdx.x * THREADS + threadIdx.x; moves && k < eights;
         k += (uint64_t)gridDim.x * THREADS) {
        const uint64_t at = k * 8;
        float gradient[8], momentum[8], weight[8];
        ff_load_any(s.gradient_dtype, s.gradient, at, gradient);
        ff_load_eight(s.state[0] + at, momentum);
        load_weights(s, at, weight);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float g = gradient[i] * scale;
            momentum[i] = keep * momentum[i] + g;
            gradient[i] = muon.group.hyper.nesterov ? g + keep * momentum[i] : momentum[i];
            if (muon.dtype == FF_BF16)
                gradient[i] = __bfloat162float(__float2bfloat16_rn(gradient[i]));
            updates += gradient[i] * gradient[i];
            weights += weight[i] * weight[i];
        }
        ff_store_eight(s.state[0] + at, momentum);
        ff_store_any((uint32_t)muon.dtype, muon.x, at, gradient);
    }
    const double of_updates = ff_block_sum(shared, (double)updates);
    const double of_weights = ff_block_sum(shared, (double)weights);
    if (threadIdx.x == 0) {
        double *own = parts + 2 * ((size_t)blockIdx.y * gridDim.x + blockIdx.x);
        own[0] = of_updates;
        own[1] = of_weights;
    }
}

/* Its grid is that of the previous launch. */
static __global__ void __launch_bounds__(THREADS)
    normalise_kernel(const ff_cuda_muon *banks, const double *parts) {
    __shared__ double shared[THREADS];
    const ff_cuda_muon muon = banks[blockIdx.y];
    const uint64_t eights = eights_of(muon);
    const double *own = parts + 2 * (size_t)blockIdx.y * gridDim.x;
    if (muon.control->non_finite) return; /* the whole grid */
    double updates = 0, weights = 0;
    for (unsigned part = threadIdx.x; part < gridDim.x; part += THREADS) {
        updates += own[2 * part];
        weights += own[2 * part + 1];
    }
    updates = sqrt(ff_block_sum(shared, updates));
    weights = sqrt(ff_block_sum(shared, weights));
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        muon.norms[0] = updates;
        muon.norms[1] = weights;
    }
    const float scale = (float)(1.0 / (updates + 1e-7));
    for (uint64_t k = (uint64_t)blockIdx.x * THREADS + threadIdx.x; k < eights;
         k += (uint64_t)gridDim.x * THREADS) {
        float value[8];
        ff_load_any((uint32_t)muon.dtype, muon.x, k * 8, value);
#pragma unroll
        for (int i = 0; i < 8; i++) value[i] *= scale;
        ff_store_any((uint32_t)muon.dtype, muon.x, k * 8, value);
        ff_store_any((uint32_t)muon.dtype, muon.next, k * 8, value);
    }
}

/* Vectors of 16 bytes, of the first array, then of the second one. */
static __global__ void __launch_bounds__(THREADS)
    copy_kernel(const uint4 *from, uint4 *to, uint64_t count, const uint4 *other, uint4 *other_to,
                uint64_t other_count) {
    for (uint64_t k = (uint64_t)blockIdx.x * THREADS + threadIdx.x; k < count + other_count;
         k += (uint64_t)gridDim.x * THREADS) {
        if (k < count)
            to[k] = from[k];
        else
            other_to[k - count] = other[k - count];
    }
}

static __global__ void __launch_bounds__(THREADS) end_kernel(const ff_cuda_muon *banks) {
    const ff_cuda_muon muon = banks[blockIdx.y];
    const uint64_t eights = eights_of(muon);
    if (muon.control->non_finite) return;
    const ff_cuda_segment &s = muon.segment;
    const float rate = ff_rate_of(muon.rates, muon.rate_steps, muon.group, muon.control->step);
    const double norm = muon.norms[1];
    const float factor = norm > 0 ? (float)(sqrt((double)muon.rows) / norm) : 1.0f;
    const float ema_new = 1.0f - muon.group.ema_decay;
    for (uint64_t k = (uint64_t)blockIdx.x * THREADS + threadIdx.x; k < eights;
         k += (uint64_t)gridDim.x * THREADS) {
        const uint64_t at = k * 8;
        float weight[8], x[8], ema[8];
        load_weights(s, at, weight);
        ff_load_any((uint32_t)muon.dtype, muon.last, at, x);
        if (s.ema) ff_load_eight(s.ema + at, ema);
#pragma unroll
        for (int i = 0; i < 8; i++) weight[i] = weight[i] * factor - rate * x[i];
        if (s.master) ff_store_eight(s.master + at, weight);
        if (s.working) ff_store_any(s.working_dtype, s.working, at, weight);
        if (s.ema) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                ema[i] = muon.group.ema_decay * ema[i] + ema_new * weight[i];
            ff_store_eight(s.ema + at, ema);
        }
    }
}

/* Each bank gets as many blocks as the largest bank needs. Beyond the declared limits the grid is
 * empty, and every launch refuses an empty grid. */
static dim3 grid_of(const ff_cuda_queue *queue, int count, uint64_t most) {
    if (count < 1 || count > 65535 || !most || most % 8) return dim3(0);
    return dim3(blocks_of(queue, most / 8), (unsigned)count);
}

extern "C" int ff_cuda_muon_begin(const ff_cuda_queue *queue, const ff_cuda_muon *banks, int count,
                                  uint64_t most, void *scratch) {
    const dim3 grid = grid_of(queue, count, most);
    int status =
        FF_LAUNCH(momentum_kernel, grid, dim3(THREADS), 0, queue->stream, banks, (double *)scratch);
    if (status) return status;
    return FF_LAUNCH(normalise_kernel, grid, dim3(THREADS), 0, queue->stream, banks,
                     (const double *)scratch);
}

extern "C" int ff_cuda_muon_copy(const ff_cuda_queue *queue, const void *a, void *b,
                                 uint64_t a_bytes, const void *x, void *next, uint64_t x_bytes) {
    const uint64_t count = a_bytes / 16, other = x_bytes / 16;
    if (a_bytes % 16 || x_bytes % 16 || !(count + other)) return FF_CUDA_INVALID_VALUE;
    return FF_LAUNCH(copy_kernel, dim3(blocks_of(queue, count + other)), dim3(THREADS), 0,
                     queue->stream, (const uint4 *)a, (uint4 *)b, count, (const uint4 *)x,
                     (uint4 *)next, other);
}

extern "C" int ff_cuda_muon_end(const ff_cuda_queue *queue, const ff_cuda_muon *banks, int count,
                                uint64_t most) {
    return FF_LAUNCH(end_kernel, grid_of(queue, count, most), dim3(THREADS), 0, queue->stream,
                     banks);
}
