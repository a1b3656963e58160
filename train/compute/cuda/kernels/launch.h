/* Common to all launchers of train/compute/cuda: the queue, and the scratch of column sums.
 *
 * kernels.h lists the own kernels of the training step. Tensors of activations and their gradients
 * are NHWC: x: [rows][channels], rows = N * H * W, channels padded to a multiple of 8, pad lanes
 * zero and kept zero; dtype f32, f16 or bf16 (loader/cuda/dtype.cuh). Arithmetic is f32. Sums over
 * rows are merged in a fixed order (no atomics on floats), so that the same shapes on the same GPU
 * produce the same bits. All pointers are device memory, aligned to 16 bytes, and must not overlap
 * unless a declaration allows it.
 *
 * A launcher only enqueues its kernels into the stream: it neither allocates nor waits, so every
 * launcher may be captured. It returns 0, or the cudaError_t of a failed launch (for shapes that a
 * declaration excludes: FF_CUDA_INVALID_VALUE). Thread rule: pure, except for the memory passed to
 * a launcher. */
#ifndef FF_TRAIN_CUDA_KERNELS_LAUNCH_H
#define FF_TRAIN_CUDA_KERNELS_LAUNCH_H

#include "loader/cuda/types.h"
#include "train/compute/arguments.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The target of launches. The number of multiprocessors determines how many blocks share a sum, and
 * so the bits of the result. */
typedef struct ff_cuda_queue {
    ff_cuda_stream stream;
    int multiprocessors; /* of the device; at least 1 */
    ff_dtype dtype;      /* of tensors described by an ff_tensor */
} ff_cuda_queue;

static inline size_t ff_cuda_rows(const ff_tensor *t) {
    return (size_t)t->n * (size_t)t->h * (size_t)t->w;
}

/* Bytes of scratch that any entry summing over rows needs for arrays of at most `channels` channels
 * (norm, pool with statistics, bias gradient, depthwise weight gradient). All entries in one stream
 * can share one scratch. */
size_t ff_cuda_scratch(int multiprocessors, int channels);

#ifdef __cplusplus
}
#endif
#endif
