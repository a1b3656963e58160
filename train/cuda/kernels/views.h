/* Test-time views of images and the weighted sum of what a network says of them. */
#ifndef FF_TRAIN_CUDA_KERNELS_VIEWS_H
#define FF_TRAIN_CUDA_KERNELS_VIEWS_H

#include "train/cuda/kernels/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[n, i, j] = x[n, i + down, j' + right], j' = mirror ? w - 1 - j : j; what lies outside is
 * reflected (torch's "reflect"). Images: [n][h][w][channels], any number of channels, fewer than
 * 2^31 16-byte words in all; |down| < h, |right| < w. Reads and writes one array. */
typedef struct ff_cuda_view {
    int n, h, w, channels;
    ff_dtype dtype;
    int down, right;
    bool mirror;
} ff_cuda_view;

int ff_cuda_view_make(const ff_cuda_place *place, const ff_cuda_view *view, const void *x, void *y);
/* to = (first ? 0 : to) + weight * x; to: [count] f32, x: [count] of dtype. */
int ff_cuda_weigh(const ff_cuda_place *place, ff_dtype dtype, size_t count, float weight,
                  bool first, const void *x, float *to);

#ifdef __cplusplus
}
#endif
#endif
