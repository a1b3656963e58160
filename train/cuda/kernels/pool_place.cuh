/* Where the windows of a pool lie. */
#ifndef FF_TRAIN_CUDA_KERNELS_POOL_PLACE_CUH
#define FF_TRAIN_CUDA_KERNELS_POOL_PLACE_CUH

#include "train/cuda/kernels/columns.cuh"
#include "train/cuda/kernels/pool.h"

/* A pool with what its kernels divide by; share: of an element in its window's average. */
struct ff_pool_shape {
    ff_cuda_pool pool;
    float share;
    ff_divider by_in_w, by_in_h, by_out_w, by_out_h, by_stride;
};

static inline bool ff_pool_shape_make(const ff_cuda_pool *pool, ff_pool_shape *shape) {
    const ff_cuda_pool *p = pool;
    if (p->n < 1 || p->h < 1 || p->w < 1 || p->out_h < 1 || p->out_w < 1) return false;
    if (p->kernel_h < 1 || p->kernel_w < 1 || p->stride < 1 || p->pad < 0) return false;
    if (p->max && p->kernel_h * p->kernel_w > 256) return false;
    if ((size_t)p->n * p->h * p->w >> 31) return false;
    shape->pool = *p;
    shape->share = 1.0f / (float)(p->kernel_h * p->kernel_w);
    shape->by_in_w = ff_divider_make(p->w);
    shape->by_in_h = ff_divider_make(p->h);
    shape->by_out_w = ff_divider_make(p->out_w);
    shape->by_out_h = ff_divider_make(p->out_h);
    shape->by_stride = ff_divider_make(p->stride);
    return true;
}

/* Row `row` of [n][height][width] as its pixel. */
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
