/* The geometry of a pool's windows. */
#ifndef FF_TRAIN_CUDA_KERNELS_POOL_PLACE_CUH
#define FF_TRAIN_CUDA_KERNELS_POOL_PLACE_CUH

#include "train/compute/cuda/kernels/columns.cuh"
#include "train/compute/cuda/kernels/pool.h"

/* A pool with the dividers of its kernels; share: weight of an element in its window's average. */
struct ff_pool_shape {
    ff_pool pool;
    float share;
    ff_divider by_in_w, by_in_h, by_out_w, by_out_h, by_stride;
};

static inline bool ff_pool_shape_make(const ff_pool *pool, ff_pool_shape *shape) {
    const ff_tensor *in = &pool->input, *out = &pool->output;
    if (in->n < 1 || in->h < 1 || in->w < 1 || out->h < 1 || out->w < 1) return false;
    if (!pool->adaptive &&
        (pool->kernel_h < 1 || pool->kernel_w < 1 || pool->stride < 1 || pool->pad < 0))
        return false;
    if (pool->max && pool->kernel_h * pool->kernel_w > 256) return false;
    if (ff_cuda_rows(in) >> 31) return false;
    shape->pool = *pool;
    shape->share = 1.0f / (float)(pool->kernel_h * pool->kernel_w);
    shape->by_in_w = ff_divider_make(in->w);
    shape->by_in_h = ff_divider_make(in->h);
    shape->by_out_w = ff_divider_make(out->w);
    shape->by_out_h = ff_divider_make(out->h);
    shape->by_stride = ff_divider_make(pool->adaptive ? 1 : pool->stride);
    return true;
}

/* Positions [first, end) along an axis. */
struct ff_range {
    int first, end;
};
/* An axis is cut into `parts` equal parts, and also into `others` equal parts: the range of the
 * `others` that overlap part `at` of `parts`. This yields the positions in an adaptive window, and
 * the windows that contain a position. */
static __device__ __forceinline__ ff_range ff_overlapping(int at, int parts, int others) {
    return ff_range{at * others / parts, ((at + 1) * others + parts - 1) / parts};
}

/* The pixel of row `row` of [n][height][width]. */
struct ff_pixel {
    int n, y, x;
};
static __device__ __forceinline__ ff_pixel ff_pixel_of(size_t row, ff_divider by_width,
                                                       ff_divider by_height) {
    unsigned x, y;
    unsigned rest = ff_divide((unsigned)row, by_width, &x);
    unsigned n = ff_divide(rest, by_height, &y);
    return ff_pixel{(int)n, (int)y, (int)x};
}

#endif
