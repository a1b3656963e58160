/* Pooling backward: every element of dx sums over the windows that contain it, in the order of the
 * windows, so that each element is written once and without atomics. */
#include "train/compute/cuda/kernels/pool_place.cuh"

/* The windows along one axis that contain position `at`. */
static __device__ __forceinline__ ff_range windows_at(int at, int kernel, int pad, int outputs,
                                                      ff_divider by_stride) {
    ff_range range;
    unsigned rest;
    int last = at + pad; /* p * stride <= at + pad */
    range.end = (int)ff_divide((unsigned)last, by_stride, &rest) + 1;
    int before = last - kernel; /* p * stride > at + pad - kernel */
    range.first = before < 0 ? 0 : (int)ff_divide((unsigned)before, by_stride, &rest) + 1;
    if (range.end > outputs) range.end = outputs;
    return range;
}

template <typename T, bool max>
static __global__ void __launch_bounds__(FF_COLUMN_THREADS)
    backward_kernel(ff_columns columns, ff_pool_shape shape, const T *dy, const uint8_t *index,
                    T *dx) {
    enum { lanes = ff_lanes<T>::count };
    const ff_tile tile = ff_tile_of(columns);
    if (!tile.active) return;
    const ff_pool &pool = shape.pool;
    for (size_t row = tile.row; row < tile.end; row += tile.stride) {
        const ff_pixel at = ff_pixel_of(row, shape.by_in_w, shape.by_in_h);
        const bool adaptive = !max && pool.adaptive;
        const ff_range down =
            adaptive ? ff_overlapping(at.y, pool.input.h, pool.output.h)
                     : windows_at(at.y, pool.kernel_h, pool.pad, pool.output.h, shape.by_stride);
        const ff_range right =
            adaptive ? ff_overlapping(at.x, pool.input.w, pool.output.w)
                     : windows_at(at.x, pool.kernel_w, pool.pad, pool.output.w, shape.by_stride);
        float sum[lanes];
#pragma unroll
        for (int i = 0; i < lanes; i++) sum[i] = 0;
        for (int p = down.first; p < down.end; p++)
            for (int q = right.first; q < right.end; q++) {
                const size_t window = ((size_t)at.n * pool.output.h + p) * pool.output.w + q;
                const size_t from = window * columns.vectors + tile.vector;
                unsigned place[2];
                if (max) ff_load_places<lanes>(index + from * lanes, place);
                float gradient[lanes], share = shape.share;
                if (adaptive) {
                    const ff_range h = ff_overlapping(p, pool.output.h, pool.input.h);
                    const ff_range w = ff_overlapping(q, pool.output.w, pool.input.w);
                    share = 1.0f / (float)((h.end - h.first) * (w.end - w.first));
                }
                ff_vector<T>::unpack(__ldg((const uint4 *)dy + from), gradient);
                const unsigned here =
                    (unsigned)((at.y - (p * pool.stride - pool.pad)) * pool.kernel_w + at.x -
                               (q * pool.stride - pool.pad));
#pragma unroll
                for (int i = 0; i < lanes; i++) {
                    if (!max) sum[i] += gradient[i] * share;
                    if (max && ff_place_at(place, i) == here) sum[i] += gradient[i];
                }
            }
        ((uint4 *)dx)[row * columns.vectors + tile.vector] = ff_vector<T>::pack(sum);
    }
}

extern "C" int ff_cuda_pool_backward(const ff_cuda_queue *queue, const ff_pool *pool,
                                     const void *dy, const uint8_t *index, void *dx) {
    return ff_by_dtype(queue->dtype, [&](auto example) {
        typedef decltype(example) T;
        ff_pool_shape shape;
        ff_columns columns;
        if (!ff_pool_shape_make(pool, &shape) ||
            !ff_columns_map(queue, &pool->input, ff_lanes<T>::count, &columns))
            return FF_CUDA_INVALID_VALUE;
        return FF_LAUNCH((pool->max ? backward_kernel<T, true> : backward_kernel<T, false>),
                         ff_columns_grid(&columns), dim3(FF_COLUMN_THREADS), 0, queue->stream,
                         columns, shape, (const T *)dy, index, (T *)dx);
    });
}
