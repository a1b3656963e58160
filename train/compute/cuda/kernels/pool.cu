/* Pooling forward, alone or with the batch statistics of its output. */
#include "train/compute/cuda/kernels/norm_channels.cuh"
#include "train/compute/cuda/kernels/pool_place.cuh"

/* A row of output as floats, and the positions of the maxima. size: the side of a square window
 * known at compile time, so that all its loads are in flight at once; 0 = any window. */
template <typename T, bool max, int size>
static __device__ __forceinline__ void
pool_row(const ff_pool_shape &shape, const ff_columns &columns, const uint4 *x, size_t row,
         float (&value)[ff_lanes<T>::count], unsigned char (&place)[ff_lanes<T>::count]) {
    enum { lanes = ff_lanes<T>::count, known = size ? size * size : 1 };
    const ff_pool &pool = shape.pool;
    const ff_pixel at = ff_pixel_of(row, shape.by_out_w, shape.by_out_h);
    int top = at.y * pool.stride - pool.pad, left = at.x * pool.stride - pool.pad;
    int down = pool.kernel_h, across = pool.kernel_w;
    if (!max && pool.adaptive) {
        const ff_range h = ff_overlapping(at.y, pool.output.h, pool.input.h);
        const ff_range w = ff_overlapping(at.x, pool.output.w, pool.input.w);
        top = h.first, left = w.first, down = h.end - h.first, across = w.end - w.first;
    }
    const uint4 *image = x + (size_t)at.n * pool.input.h * pool.input.w * columns.vectors;
    bool first = true;
#pragma unroll
    for (int i = 0; i < lanes; i++) value[i] = max ? -INFINITY : 0.0f;
#pragma unroll
    for (int i = 0; i < lanes; i++) place[i] = 0;

    auto take = [&](uint4 raw, int number) {
        float one[lanes];
        ff_vector<T>::unpack(raw, one);
#pragma unroll
        for (int i = 0; i < lanes; i++) {
            if (!max) {
                value[i] += one[i];
            } else if (first || one[i] > value[i] || one[i] != one[i]) {
                value[i] = one[i];
                place[i] = (unsigned char)number;
            }
        }
        first = false;
    };
    if (size) {
        uint4 raw[known];
        bool in[known];
#pragma unroll
        for (int k = 0; k < known; k++) {
            int h = top + k / (size ? size : 1), w = left + k % (size ? size : 1);
            in[k] = h >= 0 && h < pool.input.h && w >= 0 && w < pool.input.w;
            if (in[k]) raw[k] = image[((size_t)h * pool.input.w + w) * columns.vectors];
        }
#pragma unroll
        for (int k = 0; k < known; k++)
            if (in[k]) take(raw[k], k);
    } else {
        for (int r = 0; r < down; r++)
            for (int s = 0; s < across; s++) {
                int h = top + r, w = left + s;
                if (h < 0 || h >= pool.input.h || w < 0 || w >= pool.input.w) continue;
                take(image[((size_t)h * pool.input.w + w) * columns.vectors],
                     r * pool.kernel_w + s);
            }
    }
    if (max) return;
    const float share = pool.adaptive ? 1.0f / (float)(down * across) : shape.share;
#pragma unroll
    for (int i = 0; i < lanes; i++) value[i] *= share;
}

template <int lanes>
static __device__ __forceinline__ void store_places(uint8_t *to,
                                                    const unsigned char (&place)[lanes]) {
    unsigned packed[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < lanes; i++) packed[i / 4] |= (unsigned)place[i] << i % 4 * 8;
    if (lanes == 8)
        *(uint2 *)to = make_uint2(packed[0], packed[1]);
    else
        *(unsigned *)to = packed[0];
}

/* Resident blocks per multiprocessor, with statistics. */
enum { RESIDENT = 2 };

template <typename T, bool max, int size, bool statistics>
static __global__ void __launch_bounds__(FF_COLUMN_THREADS, RESIDENT)
    forward_kernel(ff_columns columns, ff_pool_shape shape, const T *x, T *y, uint8_t *index,
                   ff_moment_parts parts) {
    enum { lanes = ff_lanes<T>::count };
    const ff_tile tile = ff_tile_of(columns);
    ff_moments<lanes> own;
    if (statistics) own.clear();
    if (tile.active) {
        const uint4 *from = (const uint4 *)x + tile.vector;
        for (size_t row = tile.row; row < tile.end; row += tile.stride) {
            float value[lanes];
            unsigned char place[lanes];
            pool_row<T, max, size>(shape, columns, from, row, value, place);
            const size_t at = row * columns.vectors + tile.vector;
            uint4 packed = ff_vector<T>::pack(value);
            ((uint4 *)y)[at] = packed;
            if (max && index) store_places(index + at * lanes, place);
            if (statistics) {
                ff_vector<T>::unpack(packed, value); /* as rounded */
                own.add(value);
            }
        }
    }
    if (statistics) {
        __shared__ ff_moment_tree<lanes> tree;
        ff_moments_write(columns, tile, own, &tree, parts);
    }
}

template <bool statistics>
static int forward(const ff_cuda_queue *queue, const ff_pool *pool, const void *x, void *y,
                   uint8_t *index, const ff_norm *norm, void *scratch) {
    return ff_by_dtype(queue->dtype, [&](auto example) {
        typedef decltype(example) T;
        ff_pool_shape shape;
        ff_columns columns;
        const int lanes = ff_lanes<T>::count;
        if (!ff_pool_shape_make(pool, &shape) ||
            !(statistics ? ff_columns_plan(queue, &pool->output, lanes, RESIDENT, &columns)
                         : ff_columns_map(queue, &pool->output, lanes, &columns)))
            return FF_CUDA_INVALID_VALUE;
        ff_moment_parts parts = {NULL, NULL};
        if (statistics) parts = ff_moment_parts_in(scratch, &columns);
        auto sized_forward_kernel = forward_kernel<T, false, 0, statistics>;
        if (pool->max) {
            const int size = pool->kernel_h == pool->kernel_w ? pool->kernel_h : 0;
            sized_forward_kernel = size == 2   ? forward_kernel<T, true, 2, statistics>
                                   : size == 3 ? forward_kernel<T, true, 3, statistics>
                                               : forward_kernel<T, true, 0, statistics>;
        }
        int status =
            FF_LAUNCH(sized_forward_kernel, ff_columns_grid(&columns), dim3(FF_COLUMN_THREADS), 0,
                      queue->stream, columns, shape, (const T *)x, (T *)y, index, parts);
        if (status || !statistics) return status;
        return ff_norm_finish_parts(queue, norm, &columns, parts);
    });
}

extern "C" int ff_cuda_pool_forward(const ff_cuda_queue *queue, const ff_pool *pool, const void *x,
                                    void *y, uint8_t *index) {
    return forward<false>(queue, pool, x, y, index, NULL, NULL);
}

extern "C" int ff_cuda_pool_statistics(const ff_cuda_queue *queue, const ff_pool *pool,
                                       const void *x, void *y, uint8_t *index, const ff_norm *norm,
                                       void *scratch) {
    return forward<true>(queue, pool, x, y, index, norm, scratch);
}
