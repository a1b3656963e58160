/* Batch statistics: from data (read once), from partial moments, from given sums. */
#include "train/compute/cuda/kernels/norm_channels.cuh"

/* Rows that a thread loads before it uses them. */
enum { AHEAD = 4 };

template <typename T>
static __global__ void __launch_bounds__(FF_COLUMN_THREADS)
    statistics_kernel(ff_columns columns, const T *x, ff_moment_parts parts) {
    enum { lanes = ff_lanes<T>::count };
    __shared__ ff_moment_tree<lanes> tree;
    const ff_tile tile = ff_tile_of(columns);
    ff_moments<lanes> own;
    own.clear();
    if (tile.active) {
        const uint4 *from = (const uint4 *)x + tile.vector;
        for (size_t row = tile.row; row < tile.end; row += AHEAD * tile.stride) {
            uint4 raw[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
                if (row + k * tile.stride < tile.end)
                    raw[k] = __ldg(from + (row + k * tile.stride) * columns.vectors);
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
                if (row + k * tile.stride < tile.end) {
                    float value[lanes];
                    ff_vector<T>::unpack(raw[k], value);
                    own.add(value);
                }
        }
    }
    ff_moments_write(columns, tile, own, &tree, parts);
}

/* Writes a channel's statistics from its mean and squared deviations. m: values of the channel. */
static __device__ __forceinline__ void finish_channel(const ff_norm &norm, int channel, double m,
                                                      double mean, double squares) {
    double variance = squares / m;
    norm.mean[channel] = (float)mean;
    norm.inv_std[channel] = (float)(1.0 / sqrt(variance + (double)norm.epsilon));
    if (!norm.running_mean) return;
    double keep = 1.0 - (double)norm.momentum, take = (double)norm.momentum;
    double unbiased = m > 1 ? squares / (m - 1) : variance;
    norm.running_mean[channel] = (float)(keep * (double)norm.running_mean[channel] + take * mean);
    norm.running_var[channel] = (float)(keep * (double)norm.running_var[channel] + take * unbiased);
}

/* Writes a channel's statistics, or sends them to the other ranks. */
static __device__ __forceinline__ void write_channel(const ff_norm &norm, int channel, double m,
                                                     double mean, double squares) {
    if (norm.ranks.count)
        ff_norm_tell(&norm, channel, mean, squares);
    else
        finish_channel(norm, channel, m, mean, squares);
}

static __global__ void __launch_bounds__(256) join_kernel(ff_norm norm, int channels) {
    const int channel = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (channel >= channels) return;
    const ff_norm_moments all = ff_norm_join_moments(&norm, channel);
    finish_channel(norm, channel, all.m, all.mean, all.squares);
}

extern "C" int ff_cuda_norm_join(const ff_cuda_queue *queue, const ff_norm *norm) {
    const int channels = ff_tensor_padded_channels(&norm->shape);
    if (channels < 1 || norm->ranks.count < 1) return FF_CUDA_INVALID_VALUE;
    return FF_LAUNCH(join_kernel, dim3((unsigned)(channels + 255) / 256), dim3(256), 0,
                     queue->stream, *norm, channels);
}

static __global__ void __launch_bounds__(FF_FINISH_ACROSS *FF_FINISH_DOWN)
    parts_kernel(ff_columns columns, ff_norm norm, ff_moment_parts parts) {
    __shared__ double shared[FF_FINISH_ACROSS * FF_FINISH_DOWN];
    const int channel = (int)blockIdx.x * FF_FINISH_ACROSS + (int)threadIdx.x;
    const double m = (double)columns.rows;
    /* Relative to the first part's mean, in f64, nothing cancels. channels is a multiple of 8. */
    const double shift = (double)parts.mean[channel];
    double sum = 0, squares = 0;
    for (int part = (int)threadIdx.y; part < columns.parts; part += FF_FINISH_DOWN) {
        size_t at = (size_t)part * columns.channels + channel;
        double count = ff_rows_of_part(columns, part), apart = (double)parts.mean[at] - shift;
        sum += count * apart;
        squares += (double)parts.squares[at] + count * apart * apart;
    }
    sum = ff_finish_sum(shared, sum);
    squares = ff_finish_sum(shared, squares);
    if (threadIdx.y == 0) write_channel(norm, channel, m, shift + sum / m, squares - sum * sum / m);
}

extern "C" int ff_norm_finish_parts(const ff_cuda_queue *queue, const ff_norm *norm,
                                    const ff_columns *columns, ff_moment_parts parts) {
    return FF_LAUNCH(parts_kernel, dim3((unsigned)columns->channels / FF_FINISH_ACROSS),
                     dim3(FF_FINISH_ACROSS, FF_FINISH_DOWN), 0, queue->stream, *columns, *norm,
                     parts);
}

extern "C" int ff_cuda_norm_statistics(const ff_cuda_queue *queue, const ff_norm *norm,
                                       void *scratch) {
    return ff_by_dtype(queue->dtype, [&](auto example) {
        typedef decltype(example) T;
        ff_columns columns;
        if (!ff_columns_plan(queue, &norm->shape, ff_lanes<T>::count, FF_COLUMN_BLOCKS, &columns))
            return FF_CUDA_INVALID_VALUE;
        ff_moment_parts parts = ff_moment_parts_in(scratch, &columns);
        int status =
            FF_LAUNCH(statistics_kernel<T>, ff_columns_grid(&columns), dim3(FF_COLUMN_THREADS), 0,
                      queue->stream, columns, (const T *)norm->x, parts);
        return status ? status : ff_norm_finish_parts(queue, norm, &columns, parts);
    });
}

static __global__ void __launch_bounds__(256) sums_kernel(ff_norm norm, size_t rows, int channels) {
    const int channel = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (channel >= channels) return;
    if (norm.held) {
        norm.mean[channel] = norm.running_mean[channel];
        norm.inv_std[channel] =
            __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(norm.running_var[channel], norm.epsilon)));
        return;
    }
    const float *sum = norm.sums, *squares = norm.sums + channels;
    double m = (double)rows, mean = (double)sum[channel] / m;
    double deviations = (double)squares[channel] - (double)sum[channel] * mean;
    if (deviations < 0) deviations = 0; /* NaN passes */
    write_channel(norm, channel, m, mean, deviations);
}

extern "C" int ff_cuda_norm_finish(const ff_cuda_queue *queue, const ff_norm *norm) {
    const size_t rows = ff_cuda_rows(&norm->shape);
    const int channels = ff_tensor_padded_channels(&norm->shape);
    if (rows < 1 || channels < 1) return FF_CUDA_INVALID_VALUE;
    return FF_LAUNCH(sums_kernel, dim3((unsigned)(channels + 255) / 256), dim3(256), 0,
                     queue->stream, *norm, rows, channels);
}
