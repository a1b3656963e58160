/* Rows of f32 except for resampling: moving pixels, colour jitter, and the finish. */
#include "loader/augment/jitter.h"
#include "loader/cuda/augment.cuh"

enum { TILE_X = 32, TILE_Y = 8 };

/* grid: (rows, tiles down, tiles across); block: (32, 8); one thread per pixel. */ template <
    typename T>
static __global__ void __launch_bounds__(TILE_X *TILE_Y) move_kernel(ff_cuda_augment job) {
    const uint32_t row = blockIdx.x, line = blockIdx.y * TILE_Y + threadIdx.y;
    const uint32_t column = blockIdx.z * TILE_X + threadIdx.x;
    const uint32_t out_height = job.move.out_height, out_width = job.move.out_width;
    if (line >= out_height || column >= out_width) return;
    if (row >= job.move.batch->at.count) return;
    const ff_augment_params params = job.move.params[row];
    const ff_stored_sample sample = ff_stored_sample_at(job, params.sample, row);
    const int32_t height = (int32_t)sample.height, width = (int32_t)sample.width;
    int32_t y = params.y + (int32_t)ff_augment_line(&params, line, out_height);
    int32_t x =
        params.x + (int32_t)(params.flags & FF_AUGMENT_FLIP ? out_width - 1 - column : column);
    if (job.move.pad_mode == FF_PAD_REFLECT) {
        y = ff_augment_reflect(y, height);
        x = ff_augment_reflect(x, width);
    }
    const bool inside = y >= 0 && y < height && x >= 0 && x < width;
    const T *from = (const T *)sample.data;
    if (inside) from += ((size_t)y * sample.width + (size_t)x) * sample.pixel;
    const float *black = (const float *)job.move.black, *table = (const float *)job.move.table;
    for (uint32_t c = 0; c < job.move.channels; c++) {
        float value = job.move.to == FF_U8 ? 0 : black[c];
        if (inside) {
            value = ff_to_float(from[c * sample.plane]);
            if (sizeof(T) == 1 && job.move.to != FF_U8) value = table[c * 256 + (uint32_t)value];
        }
        const size_t plane = (size_t)row * job.move.channels + c;
        ff_store_value(job, (plane * out_height + line) * out_width + column, value);
    }
}

/* ---- jitter --------------------------------------------------------------------------------- */

enum { JITTER_THREADS = 256 };

/* Applies changes [from, to) to a pixel. mean: for contrast, which is only applied once it is
 * known. */
template <int CHANNELS>
static __device__ __forceinline__ void change_pixel(const ff_jitter *jitter, uint32_t from,
                                                    uint32_t to, float mean, float *p) {
    for (uint32_t k = from; k < to; k++) {
        const uint32_t what = jitter->order[k];
        const float factor = jitter->factor[what];
        if (what == FF_JITTER_HUE) {
            if (CHANNELS == 3) ff_jitter_hue(&p[0], &p[1], &p[2], factor);
        } else if (CHANNELS == 3 || what != FF_JITTER_SATURATION) {
            const float other = what == FF_JITTER_CONTRAST     ? mean
                                : what == FF_JITTER_SATURATION ? ff_jitter_grey(p[0], p[1], p[2])
                                                               : 0.0f;
#pragma unroll
            for (int c = 0; c < CHANNELS; c++) p[c] = ff_jitter_blend(p[c], other, factor);
        }
    }
}

/* grid: rows; two passes over the image: the changes before contrast, to compute the mean that
 * contrast needs, then all changes. */
template <int CHANNELS>
static __global__ void __launch_bounds__(JITTER_THREADS) jitter_kernel(ff_cuda_augment job) {
    __shared__ ff_jitter jitter;
    const uint32_t row = blockIdx.x;
    if (row >= job.move.batch->at.count) return;
    if (threadIdx.x == 0)
        jitter =
            ff_jitter_at(job.jitter, job.seed, job.move.batch->at.epoch, ff_draw_index(job, row));
    __syncthreads();
    const size_t pixels = (size_t)job.move.out_height * job.move.out_width;
    float *image = (float *)job.values + (size_t)row * CHANNELS * pixels;
    float m[CHANNELS], s[CHANNELS];
#pragma unroll
    for (int c = 0; c < CHANNELS; c++) m[c] = job.mean[c], s[c] = job.std[c];
    const bool stays = job.changed; /* in [0, 1] */
    uint32_t contrast = 0;
    while (contrast < jitter.count && jitter.order[contrast] != FF_JITTER_CONTRAST) contrast++;
    float grey_mean = 0;
    for (int pass = contrast < jitter.count ? 0 : 1; pass < 2; pass++) {
        uint64_t sum = 0;
        for (size_t i = threadIdx.x; i < pixels; i += JITTER_THREADS) {
            float p[CHANNELS];
#pragma unroll
            for (int c = 0; c < CHANNELS; c++) {
                const float v = image[c * pixels + i];
                p[c] = ff_jitter_clamp(job.normalised ? v * s[c] + m[c] : v);
            }
            change_pixel<CHANNELS>(&jitter, 0, pass ? jitter.count : contrast, grey_mean, p);
            if (pass == 0) {
                const float grey =
                    CHANNELS == 3 ? ff_jitter_grey(p[0], p[CHANNELS / 2], p[CHANNELS - 1]) : p[0];
                sum += (uint64_t)ff_jitter_fixed(grey);
            } else {
#pragma unroll
                for (int c = 0; c < CHANNELS; c++)
                    image[c * pixels + i] = stays ? p[c] : (p[c] - m[c]) / s[c];
            }
        }
        if (pass == 0) grey_mean = ff_jitter_mean(ff_block_sum<JITTER_THREADS>(sum), pixels);
    }
}

/* ---- the finish ----------------------------------------------------------------------------- */

static __device__ __forceinline__ bool in_box(uint32_t line, uint32_t column, int32_t y, int32_t x,
                                              uint32_t height, uint32_t width) {
    const int64_t down = (int64_t)line - y, across = (int64_t)column - x;
    return down >= 0 && down < (int64_t)height && across >= 0 && across < (int64_t)width;
}

/* The labels of a row. */
static __device__ void copy_columns(const ff_cuda_move &move, uint32_t row, bool filled,
                                    uint32_t thread) {
    const uint64_t i = filled ? ff_stored_row(move, move.params[row].sample, row) : 0;
    for (uint32_t k = 0; k < move.columns; k++) {
        const ff_cuda_column &column = move.column[k];
        const uint32_t *from = (const uint32_t *)((const unsigned char *)column.from +
                                                  move.batch->slot * move.slot_bytes) +
                               i * column.width;
        for (uint32_t j = thread; j < column.width; j += TILE_X * TILE_Y)
            column.to[(size_t)row * column.width + j] = filled ? from[j] : column.padding;
    }
}

/* From values of V. grid: (rows, tiles down, tiles across); block: (32, 8); one thread per pixel,
 * GROUP channels per store of up to 16 bytes. */
template <typename T, typename V, int GROUP>
static __global__ void __launch_bounds__(TILE_X *TILE_Y) finish_kernel(ff_cuda_augment job) {
    const uint32_t row = blockIdx.x, line = blockIdx.y * TILE_Y + threadIdx.y;
    const uint32_t column = blockIdx.z * TILE_X + threadIdx.x;
    const uint32_t channels = job.move.channels, out_channels = job.move.out_channels;
    const uint32_t height = job.move.out_height, width = job.move.out_width;
    const bool filled = row < job.move.batch->at.count;
    if (blockIdx.y == 0 && blockIdx.z == 0)
        copy_columns(job.move, row, filled, threadIdx.y * TILE_X + threadIdx.x);
    if (line >= height || column >= width) return;
    const size_t plane = (size_t)height * width, at = (size_t)line * width + column;
    const V *own = (const V *)job.values + (size_t)row * channels * plane + at;
    const V *partner = own;
    float weight = 1;
    bool shows = filled, blends = false, partner_shows = false;
    if (filled) {
        const ff_augment_params params = job.move.params[row];
        shows =
            !in_box(line, column, params.cut_y, params.cut_x, params.cut_height, params.cut_width);
        blends = (params.flags & FF_AUGMENT_MIXUP) != 0;
        const bool swaps = params.flags & FF_AUGMENT_CUTMIX &&
                           in_box(line, column, params.mix_y, params.mix_x,
                                  (uint32_t)params.mix_height, (uint32_t)params.mix_width);
        if (blends || swaps) {
            const ff_augment_params other = job.move.params[row ^ 1];
            partner = (const V *)job.values + (size_t)(row ^ 1) * channels * plane + at;
            partner_shows =
                !in_box(line, column, other.cut_y, other.cut_x, other.cut_height, other.cut_width);
            if (swaps) own = partner, shows = partner_shows;
            weight = params.weight;
        }
    }
    T *to = (T *)job.move.data + ((size_t)row * plane + at) * out_channels;
    for (uint32_t first = 0; first < out_channels; first += GROUP) {
        struct __align__(GROUP * sizeof(T)) group {
            T value[GROUP];
        }
        all;
#pragma unroll
        for (int g = 0; g < GROUP; g++) {
            const uint32_t c = first + g;
            float v = 0;
            if (c < channels) {
                if (shows) v = own[c * plane];
                if (blends)
                    v = v * weight + (partner_shows ? partner[c * plane] : 0.0f) * (1.0f - weight);
            }
            all.value[g] = ff_from_float<T>(v);
        }
        *(group *)(to + first) = all;
    }
}

/* ---- launchers ------------------------------------------------------------------------------ */

static int move_rows(const ff_cuda_augment *job, dim3 grid, ff_cuda_stream stream) {
    if (!job->move.black || (job->move.from == FF_U8 && !job->move.table))
        return FF_CUDA_INVALID_VALUE;
    return ff_by_stored(job->move.from, [&](auto element) {
        return FF_LAUNCH(move_kernel<decltype(element)>, grid, dim3(TILE_X, TILE_Y), 0, stream,
                         *job);
    });
}

static int jitter_rows(const ff_cuda_augment *job, ff_cuda_stream stream) {
    if (!job->mean || !job->std) return FF_CUDA_INVALID_VALUE;
    if (job->move.channels == 3)
        return FF_LAUNCH(jitter_kernel<3>, job->move.rows, JITTER_THREADS, 0, stream, *job);
    if (job->move.channels == 1)
        return FF_LAUNCH(jitter_kernel<1>, job->move.rows, JITTER_THREADS, 0, stream, *job);
    return FF_CUDA_INVALID_VALUE;
}

template <typename T, typename V>
static int finish_rows(const ff_cuda_augment *job, dim3 grid, ff_cuda_stream stream) {
    const dim3 block(TILE_X, TILE_Y);
    if constexpr (sizeof(T) == 2)
        if (job->move.out_channels % 8 == 0)
            return FF_LAUNCH((finish_kernel<T, V, 8>), grid, block, 0, stream, *job);
    if (job->move.out_channels % 4 == 0)
        return FF_LAUNCH((finish_kernel<T, V, 4>), grid, block, 0, stream, *job);
    return FF_LAUNCH((finish_kernel<T, V, 1>), grid, block, 0, stream, *job);
}

extern "C" int ff_cuda_augment_launch(const ff_cuda_augment *job, ff_cuda_stream stream) {
    const ff_cuda_move *move = &job->move;
    const dim3 grid(move->rows, (move->out_height + TILE_Y - 1) / TILE_Y,
                    (move->out_width + TILE_X - 1) / TILE_X);
    if (move->rows == 0) return FF_CUDA_OK;
    if (grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535 ||
        move->out_channels < move->channels ||
        (move->to == FF_U8 && (move->from != FF_U8 || job->jittered)))
        return FF_CUDA_INVALID_VALUE;
    int status =
        job->resampled ? ff_cuda_augment_resample(job, stream) : move_rows(job, grid, stream);
    if (status == FF_CUDA_OK && job->jittered) status = jitter_rows(job, stream);
    if (status == FF_CUDA_OK && job->changed) status = ff_cuda_augment_change(job, stream);
    if (status != FF_CUDA_OK) return status;
    if (move->to == FF_U8)
        return job->changed ? finish_rows<uint8_t, float>(job, grid, stream)
                            : finish_rows<uint8_t, uint8_t>(job, grid, stream);
    return ff_by_dtype(move->to, [&](auto element) {
        return finish_rows<decltype(element), float>(job, grid, stream);
    });
}
