/* Elementwise passes over flat arrays. A block covers BLOCK vectors of 16 bytes, AHEAD per thread,
 * all loaded before the first is used; the last block processes the tail of less than a vector
 * element by element. */
#include "train/compute/cuda/kernels/activation.cuh"
#include "train/compute/cuda/kernels/pointwise.h"

enum { THREADS = 256, AHEAD = 4, BLOCK = THREADS * AHEAD };

/* to[i] = map(a[i], b[i]); b is read only if `two`. to may be a or b. */
template <typename T, bool two, typename Map>
static __device__ __forceinline__ void map_flat(size_t count, const T *a, const T *b, T *to,
                                                Map map) {
    enum { lanes = ff_lanes<T>::count };
    const size_t vectors = count / lanes, first = (size_t)blockIdx.x * BLOCK + threadIdx.x;
    uint4 raw_a[AHEAD], raw_b[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
        const size_t at = first + k * THREADS;
        if (at < vectors) {
            raw_a[k] = ((const uint4 *)a)[at];
            if (two) raw_b[k] = ((const uint4 *)b)[at];
        }
    }
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
        const size_t at = first + k * THREADS;
        if (at >= vectors) continue;
        float x[lanes], y[lanes];
        ff_vector<T>::unpack(raw_a[k], x);
        if (two) ff_vector<T>::unpack(raw_b[k], y);
#pragma unroll
        for (int i = 0; i < lanes; i++) x[i] = map(x[i], two ? y[i] : 0.0f);
        ((uint4 *)to)[at] = ff_vector<T>::pack(x);
    }
    const size_t rest = vectors * lanes + threadIdx.x;
    if (blockIdx.x == gridDim.x - 1 && rest < count)
        to[rest] = ff_from_float<T>(map(ff_to_float(a[rest]), two ? ff_to_float(b[rest]) : 0.0f));
}

template <typename T, int activation>
static __global__ void __launch_bounds__(THREADS)
    activation_kernel(size_t count, const T *x, T *y) {
    map_flat<T, false>(count, x, x, y,
                       [](float z, float) { return ff_activate<T, activation>(z); });
}
template <typename T, int activation>
static __global__ void __launch_bounds__(THREADS)
    activation_backward_kernel(size_t count, const T *from, const T *dy, T *dx) {
    map_flat<T, true>(count, from, dy, dx,
                      [](float z, float g) { return ff_activate_backward<T, activation>(z, g); });
}
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    add_kernel(size_t count, const T *a, const T *b, T *to) {
    map_flat<T, true>(count, a, b, to, [](float x, float y) { return x + y; });
}

extern "C" int ff_cuda_activation_forward(const ff_cuda_queue *queue, ff_activation activation,
                                          ff_dtype dtype, size_t count, const void *x, void *y) {
    if (!count) return FF_CUDA_OK;
    return ff_by_dtype(dtype, [&](auto example) {
        typedef decltype(example) T;
        return ff_by_activation(activation, [&](auto chosen) {
            return FF_LAUNCH((activation_kernel<T, decltype(chosen)::value>),
                             ff_grid_over(count, ff_lanes<T>::count * BLOCK), dim3(THREADS), 0,
                             queue->stream, count, (const T *)x, (T *)y);
        });
    });
}

extern "C" int ff_cuda_activation_backward(const ff_cuda_queue *queue, ff_activation activation,
                                           ff_dtype dtype, size_t count, const void *from,
                                           const void *dy, void *dx) {
    if (!count) return FF_CUDA_OK;
    return ff_by_dtype(dtype, [&](auto example) {
        typedef decltype(example) T;
        return ff_by_activation(activation, [&](auto chosen) {
            return FF_LAUNCH((activation_backward_kernel<T, decltype(chosen)::value>),
                             ff_grid_over(count, ff_lanes<T>::count * BLOCK), dim3(THREADS), 0,
                             queue->stream, count, (const T *)from, (const T *)dy, (T *)dx);
        });
    });
}

extern "C" int ff_cuda_add(const ff_cuda_queue *queue, ff_dtype dtype, size_t count, const void *a,
                           const void *b, void *to) {
    if (!count) return FF_CUDA_OK;
    return ff_by_dtype(dtype, [&](auto example) {
        typedef decltype(example) T;
        return FF_LAUNCH(add_kernel<T>, ff_grid_over(count, ff_lanes<T>::count * BLOCK),
                         dim3(THREADS), 0, queue->stream, count, (const T *)a, (const T *)b,
                         (T *)to);
    });
}
