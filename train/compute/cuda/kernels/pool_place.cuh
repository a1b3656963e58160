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

/* Whether positions along an axis fit the 31 bits that kernels compute them with. */
static inline bool ff_pool_axis_fits(const ff_pool *pool, int in, int out, int kernel) {
    const int64_t most = pool->adaptive
                             ? ((int64_t)in + 1) * ((int64_t)out + 1)
                             : (int64_t)(out - 1) * pool->stride + in + kernel + pool->pad;
    return most <= INT32_MAX;
}

static inline bool ff_pool_shape_make(const ff_pool *pool, ff_pool_shape *shape) {
    const ff_tensor *in = &pool->input, *out = &pool->output;
    if (in->n < 1 || in->h < 1 || in->w < 1 || out->h < 1 || out->w < 1) return false;
    if (!pool->adaptive &&
        (pool->kernel_h < 1 || pool->kernel_w < 1 || pool->stride < 1 || pool->pad < 0))
        return false;
    if ((int64_t)pool->kernel_h * pool->kernel_w > (pool->max ? 256 : INT32_MAX)) return false;
    if (ff_cuda_rows(in) >> 31 || !ff_pool_axis_fits(pool, in->h, out->h, pool->kernel_h) ||
        !ff_pool_axis_fits(pool, in->w, out->w, pool->kernel_w))
        return false;
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

/* The positions of the maxima of a vector of channels, a byte each; ff_place_at: one of them. */
template <int lanes>
static __device__ __forceinline__ void ff_load_places(const uint8_t *from, unsigned (&packed)[2]) {
    if (lanes == 8) {
        uint2 both = *(const uint2 *)from;
        packed[0] = both.x;
        packed[1] = both.y;
    } else {
        packed[0] = *(const unsigned *)from;
        packed[1] = 0;
    }
}

static __device__ __forceinline__ unsigned ff_place_at(const unsigned (&packed)[2], int lane) {
    return packed[lane / 4] >> lane % 4 * 8 & 255;
}

#endif
