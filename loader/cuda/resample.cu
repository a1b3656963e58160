/* Antialiased resampling of stored samples into rows of f32, bit for bit as
 * loader/augment/resample.c, or of u8 into rows of u8, as resample_bytes.c.
 *
 * A block computes 32 x 16 pixels of a row's output, up to four channels at once. Source rows are
 * processed in chunks of 16: all threads compute horizontal sums, 32 per row, in shared memory;
 * then each thread adds those for its two pixels, from top to bottom, in registers. So any
 * reduction fits the same shared memory, and every sum is over increasing inputs.
 *   weights  [32 + 16][TAPS + 1] f32 or i16, computed once per block; those of longer windows
 *            (reductions by more than 30) are computed when needed
 *   sums     [4 channels][16 source rows][32 columns] f32 or u8 */
#include "loader/augment/resample_fixed.h"
#include "loader/augment/resample_weights.h"
#include "loader/cuda/augment.cuh"

enum { COLUMNS = 32, LINES = 16, SOURCE = 16, CHANNELS = 4, TAPS = 64, LANES_Y = 8 };
enum { EACH = LINES / LANES_Y }; /* pixels per thread */

/* The resolved parameters: `height` x `width` pixels of the source at (y, x) are resampled to
 * to_height x to_width, of which the output shows the window at (top, left). */
struct resample_box {
    uint32_t y, x, height, width, to_height, to_width, top, left;
};

static __device__ resample_box box_of(const ff_augment_params &params, uint32_t height,
                                      uint32_t width, uint32_t out_height, uint32_t out_width) {
    resample_box box;
    if (params.flags & FF_AUGMENT_BOX) {
        box.y = (uint32_t)params.y, box.x = (uint32_t)params.x;
        box.height = params.height, box.width = params.width;
        box.to_height = out_height, box.to_width = out_width;
        box.top = box.left = 0;
    } else {
        box.y = box.x = 0;
        box.height = height, box.width = width;
        box.to_height = params.height, box.to_width = params.width;
        box.top = (uint32_t)params.y, box.left = (uint32_t)params.x;
    }
    return box;
}

/* How an axis is weighed, and what is kept of a sum. In f32: */
struct float_rule {
    typedef ff_resample_axis axis;
    typedef ff_resample_window window;
    typedef float weight, sum, kept;
    static __device__ axis axis_of(uint32_t in, uint32_t out) {
        return ff_resample_axis_of(in, out);
    }
    /* One window, and its weights if they fit. */
    static __device__ void weigh(const axis &a, uint32_t at, window *w, weight *weights) {
        *w = a.most <= TAPS ? ff_resample_weigh(&a, at, weights) : ff_resample_measure(&a, at);
    }
    static __device__ __forceinline__ weight weight_of(const axis &a, const window &w,
                                                       const weight *weights, uint32_t k) {
        return a.most <= TAPS ? weights[k] : ff_resample_weight(&a, &w, k);
    }
    static __device__ __forceinline__ kept keep(const axis &, sum value) {
        return value;
    }
};

/* In fixed point. */
struct fixed_axis : ff_fixed_axis {
    uint32_t precision;
};
struct fixed_rule {
    typedef fixed_axis axis;
    typedef ff_fixed_window window;
    typedef int16_t weight;
    typedef int32_t sum;
    typedef uint8_t kept;
    /* Called by all threads: the axis' largest weight decides. */
    static __device__ axis axis_of(uint32_t in, uint32_t out) {
        __shared__ double largest[COLUMNS * LANES_Y];
        const uint32_t thread = threadIdx.y * COLUMNS + threadIdx.x;
        axis a;
        *(ff_fixed_axis *)&a = ff_fixed_axis_of(in, out);
        double own = a.scale > 1 ? 0 : 1;
        for (uint32_t at = thread; a.scale > 1 && at < out; at += COLUMNS * LANES_Y) {
            const double one = ff_fixed_largest(&a, at);
            own = one > own ? one : own;
        }
        largest[thread] = own;
        __syncthreads();
        for (int i = 0; i < COLUMNS * LANES_Y; i++) own = largest[i] > own ? largest[i] : own;
        __syncthreads();
        a.precision = ff_fixed_precision(own);
        return a;
    }
    static __device__ void weigh(const axis &a, uint32_t at, window *w, weight *weights) {
        *w = ff_fixed_window_of(&a, at);
        for (uint32_t k = 0; k < w->count && a.most <= TAPS; k++)
            weights[k] = (weight)ff_fixed_weight(ff_fixed_share(&a, w, k), a.precision);
    }
    static __device__ __forceinline__ sum weight_of(const axis &a, const window &w,
                                                    const weight *weights, uint32_t k) {
        return a.most <= TAPS ? weights[k]
                              : ff_fixed_weight(ff_fixed_share(&a, &w, k), a.precision);
    }
    static __device__ __forceinline__ kept keep(const axis &a, sum value) {
        return ff_fixed_value(value, a.precision);
    }
};

/* grid: (rows, tiles down, tiles across); block: (32, 8). */
template <typename T, typename rule>
static __global__ void __launch_bounds__(COLUMNS *LANES_Y, 2) resample_kernel(ff_cuda_augment job) {
    typedef typename rule::sum sum_of;
    __shared__ typename rule::window across_window[COLUMNS], down_window[LINES];
    __shared__ typename rule::weight across_weight[COLUMNS][TAPS + 1], down_weight[LINES][TAPS + 1];
    __shared__ typename rule::kept sums[CHANNELS][SOURCE][COLUMNS];
    const uint32_t row = blockIdx.x, tx = threadIdx.x, ty = threadIdx.y;
    const uint32_t first_line = blockIdx.y * LINES, column = blockIdx.z * COLUMNS + tx;
    if (row >= job.move.batch->at.count) return;
    const ff_augment_params params = job.move.params[row];
    const ff_stored_sample sample = ff_stored_sample_at(job, params.sample, row);
    const uint32_t height = job.move.out_height, width = job.move.out_width;
    const resample_box box = box_of(params, sample.height, sample.width, height, width);
    const typename rule::axis across = rule::axis_of(box.width, box.to_width);
    const typename rule::axis down = rule::axis_of(box.height, box.to_height);
    const uint32_t last_column = width - 1, last_line = height - 1;

    /* Lanes after the output's edges repeat the last one. */
    if (ty == 0) {
        const uint32_t at = column < last_column ? column : last_column;
        rule::weigh(across, box.left + (params.flags & FF_AUGMENT_FLIP ? last_column - at : at),
                    &across_window[tx], across_weight[tx]);
    } else if (ty == 1 && tx < LINES) {
        const uint32_t at = first_line + tx < last_line ? first_line + tx : last_line;
        rule::weigh(down, box.top + at, &down_window[tx], down_weight[tx]);
    }
    __syncthreads();
    const uint32_t begin = down_window[0].first;
    uint32_t end = begin;
    for (int i = 0; i < LINES; i++) {
        const uint32_t after = down_window[i].first + down_window[i].count;
        end = after > end ? after : end;
    }
    const typename rule::window mine = across_window[tx];
    const size_t pixel = sample.pixel;
    const T *source =
        (const T *)sample.data + ((size_t)box.y * sample.width + box.x + mine.first) * pixel;

    for (uint32_t c0 = 0; c0 < job.move.channels; c0 += CHANNELS) {
        const uint32_t channels =
            job.move.channels - c0 < CHANNELS ? job.move.channels - c0 : (uint32_t)CHANNELS;
        sum_of value[EACH][CHANNELS];
        for (int e = 0; e < EACH; e++)
            for (int c = 0; c < CHANNELS; c++) value[e][c] = 0;
        for (uint32_t chunk = begin; chunk < end; chunk += SOURCE) {
            for (uint32_t r = ty; r < SOURCE && chunk + r < end; r += LANES_Y) {
                const T *line =
                    source + c0 * sample.plane + (size_t)(chunk + r) * sample.width * pixel;
                sum_of sum[CHANNELS] = {0, 0, 0, 0};
                for (uint32_t k = 0; k < mine.count; k++, line += pixel) {
                    const sum_of weight = rule::weight_of(across, mine, across_weight[tx], k);
#pragma unroll
                    for (int c = 0; c < CHANNELS; c++) {
                        if (c >= (int)channels) break;
                        const sum_of product = weight * (sum_of)ff_to_float(line[c * sample.plane]);
                        sum[c] = k ? sum[c] + product : product;
                    }
                }
#pragma unroll
                for (int c = 0; c < CHANNELS; c++) sums[c][r][tx] = rule::keep(across, sum[c]);
            }
            __syncthreads();
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                const typename rule::window window = down_window[ty + e * LANES_Y];
                const uint32_t after = window.first + window.count;
                uint32_t y = chunk > window.first ? chunk : window.first;
                for (; y < after && y < chunk + SOURCE; y++) {
                    const uint32_t k = y - window.first;
                    const sum_of weight =
                        rule::weight_of(down, window, down_weight[ty + e * LANES_Y], k);
#pragma unroll
                    for (int c = 0; c < CHANNELS; c++) {
                        const sum_of product = weight * sums[c][y - chunk][tx];
                        value[e][c] = k ? value[e][c] + product : product;
                    }
                }
            }
            __syncthreads();
        }
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const uint32_t line = first_line + ty + e * LANES_Y;
            if (line > last_line || column > last_column) continue;
#pragma unroll
            for (int c = 0; c < CHANNELS; c++) {
                if (c >= (int)channels) break;
                const size_t plane = (size_t)row * job.move.channels + c0 + c;
                float v = rule::keep(down, value[e][c]);
                if (sizeof(T) == 1 && job.move.to != FF_U8)
                    v = v * job.multiply[c0 + c] + job.add[c0 + c];
                const uint32_t shown = ff_augment_line(&params, line, height);
                ff_store_value(job, (plane * height + shown) * width + column, v);
            }
        }
    }
}

extern "C" int ff_cuda_augment_resample(const ff_cuda_augment *job, ff_cuda_stream stream) {
    const uint32_t down = (job->move.out_height + LINES - 1) / LINES;
    const uint32_t across = (job->move.out_width + COLUMNS - 1) / COLUMNS;
    if (down > 65535 || across > 65535 || (job->move.from == FF_U8 && !(job->multiply && job->add)))
        return FF_CUDA_INVALID_VALUE;
    const dim3 grid(job->move.rows, down, across), block(COLUMNS, LANES_Y);
    if (job->move.to == FF_U8)
        return FF_LAUNCH((resample_kernel<uint8_t, fixed_rule>), grid, block, 0, stream, *job);
    return ff_by_stored(job->move.from, [&](auto element) {
        return FF_LAUNCH((resample_kernel<decltype(element), float_rule>), grid, block, 0, stream,
                         *job);
    });
}
