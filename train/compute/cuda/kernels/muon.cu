/* Muon's kernels around its matrix products. Norms pass from thread to block to partial sums in
 * scratch; every block of the next launch adds these partial sums in the same order. */
#include "train/compute/cuda/kernels/eights.cuh"
#include "train/compute/cuda/kernels/muon.h"
#include "train/compute/cuda/kernels/update.cuh"

enum { THREADS = 256, BLOCKS = 2 /* per multiprocessor */ };

/* Partial sums of squares, [BLOCKS * multiprocessors][2] f64: of u and of W. */
extern "C" size_t ff_cuda_muon_scratch(int multiprocessors) {
    return (size_t)multiprocessors * BLOCKS * 2 * sizeof(double);
}

static unsigned blocks_of(const ff_cuda_queue *queue, uint64_t eights) {
    uint64_t most = (uint64_t)queue->multiprocessors * BLOCKS;
    uint64_t blocks = (eights + THREADS - 1) / THREADS;
    return (unsigned)(blocks < most ? blocks : most);
}

static __device__ __forceinline__ void load_weights(const ff_cuda_segment &s, uint64_t at,
                                                    float (&to)[8]) {
    if (s.master)
        ff_load_eight(s.master + at, to);
    else
        ff_load_any(s.working_dtype, s.working, at, to);
}

static __global__ void __launch_bounds__(THREADS)
    momentum_kernel(ff_cuda_muon muon, uint64_t eights, double *parts) {
    __shared__ double shared[THREADS];
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
        parts[2 * blockIdx.x] = of_updates;
        parts[2 * blockIdx.x + 1] = of_weights;
    }
}

/* parts_count: blocks of the previous launch. */
static __global__ void __launch_bounds__(THREADS)
    normalise_kernel(ff_cuda_muon muon, uint64_t eights, const double *parts, int parts_count) {
    __shared__ double shared[THREADS];
    if (muon.control->non_finite) return; /* the whole grid */
    double updates = 0, weights = 0;
    for (int part = (int)threadIdx.x; part < parts_count; part += THREADS) {
        updates += parts[2 * part];
        weights += parts[2 * part + 1];
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

static __global__ void __launch_bounds__(THREADS) end_kernel(ff_cuda_muon muon, uint64_t eights) {
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
        ff_load_any((uint32_t)muon.dtype, muon.x, at, x);
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

static bool sound(const ff_cuda_muon *muon, uint64_t *eights) {
    const uint64_t count = (uint64_t)muon->rows * muon->columns;
    *eights = count / 8;
    return count && count % 8 == 0 && muon->segment.count == count && muon->segment.state[0] &&
           muon->rate_steps && (muon->dtype == FF_BF16 || muon->dtype == FF_F32);
}

extern "C" int ff_cuda_muon_begin(const ff_cuda_queue *queue, const ff_cuda_muon *muon,
                                  void *scratch) {
    uint64_t eights;
    if (!sound(muon, &eights)) return FF_CUDA_INVALID_VALUE;
    const unsigned blocks = blocks_of(queue, eights);
    int status = FF_LAUNCH(momentum_kernel, dim3(blocks), dim3(THREADS), 0, queue->stream, *muon,
                           eights, (double *)scratch);
    if (status) return status;
    return FF_LAUNCH(normalise_kernel, dim3(blocks), dim3(THREADS), 0, queue->stream, *muon, eights,
                     (const double *)scratch, (int)blocks);
}

extern "C" int ff_cuda_muon_copy(const ff_cuda_queue *queue, const ff_cuda_muon *muon,
                                 const void *a, void *b, const void *x, void *next) {
    uint64_t eights;
    if (!sound(muon, &eights)) return FF_CUDA_INVALID_VALUE;
    const uint64_t rows = (uint64_t)muon->rows, columns = muon->columns;
    const uint64_t least = rows < columns ? rows : columns;
    const uint64_t element = muon->dtype == FF_F32 ? 4 : 2;
    const uint64_t squares = (least * least * element + 15) / 16, elements = eights * element / 2;
    const uint64_t vectors = squares + (next ? elements : 0);
    return FF_LAUNCH(copy_kernel, dim3(blocks_of(queue, vectors)), dim3(THREADS), 0, queue->stream,
                     (const uint4 *)a, (uint4 *)b, squares, (const uint4 *)x, (uint4 *)next,
                     vectors - squares);
}

extern "C" int ff_cuda_muon_end(const ff_cuda_queue *queue, const ff_cuda_muon *muon) {
    uint64_t eights;
    if (!sound(muon, &eights)) return FF_CUDA_INVALID_VALUE;
    return FF_LAUNCH(end_kernel, dim3(blocks_of(queue, eights)), dim3(THREADS), 0, queue->stream,
                     *muon, eights);
}
