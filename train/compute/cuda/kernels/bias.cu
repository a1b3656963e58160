/* Bias on NHWC: the addition, and its gradient, sums of columns, also through the activation after
 * it. */
#include "train/compute/cuda/kernels/activation.cuh"
#include "train/compute/cuda/kernels/columns.cuh"
#include "train/compute/cuda/kernels/pointwise.h"

/* Rows that a thread loads before it uses them. */
enum { AHEAD = FF_COLUMN_AHEAD };

template <typename T>
static __global__ void __launch_bounds__(FF_COLUMN_THREADS)
    bias_kernel(ff_columns columns, const T *x, const float *bias, T *y) {
    enum { lanes = ff_lanes<T>::count };
    const ff_tile tile = ff_tile_of(columns);
    if (!tile.active) return;
    float add[lanes];
    ff_load_floats(bias + tile.vector * lanes, add);
    for (size_t row = tile.row; row < tile.end; row += AHEAD * tile.stride) {
        uint4 raw[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (row + k * tile.stride < tile.end)
                raw[k] =
                    ((const uint4 *)x)[(row + k * tile.stride) * columns.vectors + tile.vector];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            if (row + k * tile.stride >= tile.end) continue;
            float value[lanes];
            ff_vector<T>::unpack(raw[k], value);
#pragma unroll
            for (int i = 0; i < lanes; i++) value[i] += add[i];
            ((uint4 *)y)[(row + k * tile.stride) * columns.vectors + tile.vector] =
                ff_vector<T>::pack(value);
        }
    }
}

/* Sums of g over the rows, with g = dy times the activation's derivative at z, rounded; writes g to
 * dx, unless dx is NULL. Without an activation g is dy, and z and dx are ignored. No __ldg: dx may
 * be dy or z. */
template <typename T, int activation>
static __global__ void __launch_bounds__(FF_COLUMN_THREADS, FF_COLUMN_BLOCKS)
    bias_gradient_kernel(ff_columns columns, const uint4 *z, const uint4 *dy, uint4 *dx,
                         float *sums) {
    enum { lanes = ff_lanes<T>::count, active = activation != FF_ACTIVATION_NONE };
    enum { ahead = active ? AHEAD / 2 : AHEAD };
    __shared__ ff_tree<lanes> tree;
    const ff_tile tile = ff_tile_of(columns);
    float sum[lanes];
#pragma unroll
    for (int i = 0; i < lanes; i++) sum[i] = 0;
    if (tile.active) {
        for (size_t row = tile.row; row < tile.end; row += ahead * tile.stride) {
            uint4 raw[ahead], raw_z[ahead];
#pragma unroll
            for (int k = 0; k < ahead; k++) {
                if (row + k * tile.stride >= tile.end) continue;
                const size_t at = (row + k * tile.stride) * columns.vectors + tile.vector;
                raw[k] = dy[at];
                if (active) raw_z[k] = z[at];
            }
#pragma unroll
            for (int k = 0; k < ahead; k++) {
                if (row + k * tile.stride >= tile.end) continue;
                float g[lanes], of[lanes];
                ff_vector<T>::unpack(raw[k], g);
                if (active) {
                    ff_vector<T>::unpack(raw_z[k], of);
#pragma unroll
                    for (int i = 0; i < lanes; i++)
                        g[i] = ff_activate_backward<T, activation>(of[i], g[i]);
                    const uint4 packed = ff_vector<T>::pack(g);
                    if (dx) dx[(row + k * tile.stride) * columns.vectors + tile.vector] = packed;
                    ff_vector<T>::unpack(packed, g);
                }
#pragma unroll
                for (int i = 0; i < lanes; i++) sum[i] += g[i];
            }
        }
    }
    ff_tree_sum(columns, tile, &tree, sum);
    if (tile.y == 0 && tile.vector < columns.vectors)
        ff_store_floats(sums + (size_t)blockIdx.x * columns.channels + tile.vector * lanes, sum);
}

extern "C" int ff_cuda_bias(const ff_cuda_queue *queue, const ff_tensor *shape, const void *x,
                            const float *bias, void *y) {
    return ff_by_dtype(queue->dtype, [&](auto example) {
        typedef decltype(example) T;
        ff_columns columns;
        if (!ff_columns_map(queue, shape, ff_lanes<T>::count, &columns))
            return FF_CUDA_INVALID_VALUE;
        return FF_LAUNCH(bias_kernel<T>, ff_columns_grid(&columns), dim3(FF_COLUMN_THREADS), 0,
                         queue->stream, columns, (const T *)x, bias, (T *)y);
    });
}

extern "C" int ff_cuda_activation_bias_gradient(const ff_cuda_queue *queue,
                                                ff_activation activation, const ff_tensor *shape,
                                                const void *from, const void *dy, void *dx,
                                                float *dbias, void *scratch) {
    return ff_by_dtype(queue->dtype, [&](auto example) {
        typedef decltype(example) T;
        return ff_by_activation(activation, [&](auto chosen) {
            ff_columns columns;
            if (!ff_columns_plan(queue, shape, ff_lanes<T>::count, FF_COLUMN_BLOCKS, &columns))
                return FF_CUDA_INVALID_VALUE;
            const int status = FF_LAUNCH((bias_gradient_kernel<T, decltype(chosen)::value>),
                                         ff_columns_grid(&columns), dim3(FF_COLUMN_THREADS), 0,
                                         queue->stream, columns, (const uint4 *)from,
                                         (const uint4 *)dy, (uint4 *)dx, (float *)scratch);
            if (status) return status;
            return ff_columns_finish(queue, (const float *)scratch, columns.parts, columns.channels,
                                     dbias);
        });
    });
}

extern "C" int ff_cuda_bias_gradient(const ff_cuda_queue *queue, const ff_tensor *shape,
                                     const void *dy, float *dbias, void *scratch) {
    return ff_cuda_activation_bias_gradient(queue, FF_ACTIVATION_NONE, shape, NULL, dy, NULL, dbias,
                                            scratch);
}
