/* Conversions between f32, f16 and bf16, with a factor. Eight elements per thread and step: two f32
 * vectors or one 16-bit vector. */
#include "train/compute/cuda/kernels/eights.cuh"
#include "train/compute/cuda/kernels/pointwise.h"

enum { THREADS = 256, AHEAD = 2, BLOCK = THREADS * AHEAD * 8 };

template <typename From, typename To>
static __global__ void __launch_bounds__(THREADS)
    cast_kernel(size_t count, float scale, const From *from, To *to) {
    const size_t eights = count / 8;
    float value[AHEAD][8];
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
        const size_t at = ((size_t)blockIdx.x * AHEAD + k) * THREADS + threadIdx.x;
        if (at < eights) ff_load_eight(from + at * 8, value[k]);
    }
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
        const size_t at = ((size_t)blockIdx.x * AHEAD + k) * THREADS + threadIdx.x;
#pragma unroll
        for (int i = 0; i < 8; i++) value[k][i] *= scale;
        if (at < eights) ff_store_eight(to + at * 8, value[k]);
    }
    const size_t rest = eights * 8 + threadIdx.x;
    if (blockIdx.x == gridDim.x - 1 && rest < count)
        to[rest] = ff_from_float<To>(scale * ff_to_float(from[rest]));
}

extern "C" int ff_cuda_cast(const ff_cuda_queue *queue, size_t count, float scale, const void *from,
                            ff_dtype from_dtype, void *to, ff_dtype to_dtype) {
    if (!count) return FF_CUDA_OK;
    return ff_by_dtype(from_dtype, [&](auto from_example) {
        return ff_by_dtype(to_dtype, [&](auto to_example) {
            typedef decltype(from_example) From;
            typedef decltype(to_example) To;
            return FF_LAUNCH((cast_kernel<From, To>), ff_grid_over(count, BLOCK), dim3(THREADS), 0,
                             queue->stream, count, scale, (const From *)from, (To *)to);
        });
    });
}
