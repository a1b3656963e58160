/* Launchers of what loader/wide.h and loader/resample.h do, on the device: samples are moved or
 * resampled into wide rows (f32, normalised, in planes), jittered there, and finished: cutout,
 * mixing, rounding, pixels with padded channels. Same bits as the host versions (a NaN may have
 * others): the same text makes the parameters, weights and pixels, the sums run in the same order,
 * and these files are compiled without fused multiply-adds.
 *
 *     move or resample, jitter where wanted, finish
 *
 * All memory is the device's, aligned to 16 bytes; everything only enqueues. Returns: 0, or the
 * number of a cudaError_t (1 = arguments that no kernel takes). Thread rule: any thread. */
#ifndef FF_LOADER_CUDA_WIDE_H
#define FF_LOADER_CUDA_WIDE_H

#include "format/dtype.h"
#include "loader/augment.h"
#include "loader/cuda/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Samples as stored: sample i begins at data + (offset ? offset[i] : i * stride). Of a row it is
 * the i-th that its parameters name, or, by_row, its own number. */
typedef struct ff_cuda_samples {
    const void *data;
    uint64_t stride;        /* bytes */
    const uint64_t *offset; /* [samples] bytes; NULL: stride */
    const uint32_t *size;   /* [samples][2]: height and width; NULL: all are height x width */
    uint32_t height, width, channels;
    ff_dtype dtype; /* u8, u16, f16, bf16 or f32; its elements are aligned */
    ff_layout layout;
    int by_row;
} ff_cuda_samples;

/* Rows of a batch. */
typedef struct ff_cuda_wide {
    float *values;                   /* [rows][channels][height][width] */
    const ff_augment_params *params; /* [rows] */
    const float *weight;             /* [rows]: rows of 0 are padding and left alone; NULL: none */
    uint32_t rows, channels, height, width;
} ff_cuda_wide;

/* Rows that only move pixels. black: [channels], of the padding. table: [channels][256], what u8
 * values become, NULL for other dtypes. Both as ff_augment_host has them for f32. */
int ff_cuda_wide_move(const ff_cuda_samples *samples, const ff_cuda_wide *wide, ff_pad_mode pad,
                      const float *black, const float *table, ff_cuda_stream stream);

/* Rows with FF_AUGMENT_BOX or FF_AUGMENT_RESIZE. multiply, add: [channels], what a resampled u8
 * value becomes, v * multiply + add; NULL for other dtypes. */
int ff_cuda_wide_resample(const ff_cuda_samples *samples, const ff_cuda_wide *wide,
                          const float *multiply, const float *add, ff_cuda_stream stream);

/* Colour jitter by amount[4] (ff_jitter_at) of rows of 1 or 3 channels. epoch: one, in device
 * memory. mean, std: [channels]. normalised: whether rows are, so that it is undone first. */
int ff_cuda_wide_jitter(const ff_cuda_wide *wide, const double amount[4], uint64_t seed,
                        const uint32_t *epoch, const float *mean, const float *std, int normalised,
                        ff_cuda_stream stream);

/* out: [rows][height][width][out_channels] of dtype (f32, f16, bf16), channels behind the rows' own
 * are 0, and so are rows of padding. */
int ff_cuda_wide_finish(const ff_cuda_wide *wide, void *out, ff_dtype dtype, uint32_t out_channels,
                        ff_cuda_stream stream);

#ifdef __cplusplus
}
#endif

#endif
