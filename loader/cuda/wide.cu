/* Wide rows but for resampling: moved pixels, colour jitter, and the finish. */
#include "loader/cuda/stored.cuh"
#include "loader/jitter.h"

enum { TILE_X = 32, TILE_Y = 8 };

/* grid: (rows, tiles down, tiles across); block: (32, 8); a thread a pixel. */
template <int DTYPE>
static __global__ void __launch_bounds__(TILE_X *TILE_Y)
    move_kernel(ff_cuda_samples samples, ff_cuda_wide wide, ff_pad_mode pad,
                const float *__restrict__ black, const float *__restrict__ table) {
    typedef typename ff_stored<DTYPE>::type element;
    const uint32_t row = blockIdx.x, line = blockIdx.y * TILE_Y + threadIdx.y;
    const uint32_t column = blockIdx.z * TILE_X + threadIdx.x;
    if (line >= wide.height || column >= wide.width) return;
    if (wide.weight && wide.weight[row] == 0.0f) return;
    const ff_augment_params params = wide.params[row];
    const ff_stored_sample sample = ff_stored_at(samples, params, row);
    const int32_t height = (int32_t)sample.height, width = (int32_t)sample.width;
    int32_t y = params.y + (int32_t)line;
    int32_t x =
        params.x + (int32_t)(params.flags & FF_AUGMENT_FLIP ? wide.width - 1 - column : column);
    if (pad == FF_PAD_REFLECT) {
        y = ff_augment_reflect(y, height);
        x = ff_augment_reflect(x, width);
    }
    const bool inside = y >= 0 && y < height && x >= 0 && x < width;
    const element *from = (const element *)sample.data;
    if (inside) from += ((size_t)y * sample.width + (size_t)x) * sample.pixel;
    for (uint32_t c = 0; c < wide.channels; c++) {
        float value = black[c];
        if (inside) {
            value = ff_stored<DTYPE>::value(from[c * sample.plane]);
            if (DTYPE == FF_U8) value = table[c * 256 + (uint32_t)value];
        }
        wide.values[(((size_t)row * wide.channels + c) * wide.height + line) * wide.width +
                    column] = value;
    }
}

/* ---- jitter --------------------------------------------------------------------------------- */

enum { JITTER_THREADS = 256 };

/* ff_jitter_at's amounts, as a kernel's argument. */
struct jitter_amount {
    double value[4];
};

/* The sum over the block, for all of its threads; whole numbers, so in any order. */
static __device__ uint64_t block_sum(uint64_t sum) {
    __shared__ unsigned long long part[JITTER_THREADS / 32];
    for (int change = 16; change; change /= 2)
        sum += __shfl_xor_sync(0xffffffffu, (unsigned long long)sum, change);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < JITTER_THREADS / 32; i++) sum += part[i];
    return sum;
}

/* Changes number [from, to) of a pixel. mean: of contrast, among them only where it is known. */
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

/* grid: rows; twice over the image: the changes before contrast, of which it needs the mean, and
 * then all of them. */
template <int CHANNELS>
static __global__ void __launch_bounds__(JITTER_THREADS)
    jitter_kernel(ff_cuda_wide wide, jitter_amount amount, uint64_t seed,
                  const uint32_t *__restrict__ epoch, const float *__restrict__ mean,
                  const float *__restrict__ std, int normalised) {
    __shared__ ff_jitter jitter;
    const uint32_t row = blockIdx.x;
    if (wide.weight && wide.weight[row] == 0.0f) return;
    if (threadIdx.x == 0)
        jitter = ff_jitter_at(amount.value, seed, *epoch, wide.params[row].sample);
    __syncthreads();
    const size_t pixels = (size_t)wide.height * wide.width;
    float *image = wide.values + (size_t)row * CHANNELS * pixels;
    float m[CHANNELS], s[CHANNELS];
#pragma unroll
    for (int c = 0; c < CHANNELS; c++) m[c] = mean[c], s[c] = std[c];
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
                p[c] = ff_jitter_clamp(normalised ? v * s[c] + m[c] : v);
            }
            change_pixel<CHANNELS>(&jitter, 0, pass ? jitter.count : contrast, grey_mean, p);
            if (pass == 0) {
                const float grey =
                    CHANNELS == 3 ? ff_jitter_grey(p[0], p[CHANNELS / 2], p[CHANNELS - 1]) : p[0];
                sum += (uint64_t)ff_jitter_fixed(grey);
            } else {
#pragma unroll
                for (int c = 0; c < CHANNELS; c++) image[c * pixels + i] = (p[c] - m[c]) / s[c];
            }
        }
        if (pass == 0) grey_mean = ff_jitter_mean(block_sum(sum), pixels);
    }
}

/* ---- the finish ----------------------------------------------------------------------------- */

/* Values of the batch's dtype. */
template <typename T> static __device__ __forceinline__ T narrow(float value);
template <> __device__ __forceinline__ float narrow<float>(float value) {
    return value;
}
template <> __device__ __forceinline__ __half narrow<__half>(float value) {
    return __float2half_rn(value);
}
template <> __device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16>(float value) {
    return __float2bfloat16_rn(value);
}

static __device__ __forceinline__ bool in_box(uint32_t line, uint32_t column, int32_t y, int32_t x,
                                              uint32_t height, uint32_t width) {
    const int64_t down = (int64_t)line - y, across = (int64_t)column - x;
    return down >= 0 && down < (int64_t)height && across >= 0 && across < (int64_t)width;
}

/* grid: (rows, tiles down, tiles across); block: (32, 8); a thread a pixel, GROUP channels a store
 * of up to 16 bytes. */
template <typename T, int GROUP>
static __global__ void __launch_bounds__(TILE_X *TILE_Y)
    finish_kernel(ff_cuda_wide wide, T *__restrict__ out, uint32_t out_channels) {
    const uint32_t row = blockIdx.x, line = blockIdx.y * TILE_Y + threadIdx.y;
    const uint32_t column = blockIdx.z * TILE_X + threadIdx.x;
    if (line >= wide.height || column >= wide.width) return;
    const bool filled = !wide.weight || wide.weight[row] != 0.0f;
    const size_t plane = (size_t)wide.height * wide.width;
    const size_t at = (size_t)line * wide.width + column;
    const float *own = wide.values + (size_t)row * wide.channels * plane + at, *partner = own;
    float weight = 1;
    bool shows = filled, blends = false, partner_shows = false;
    if (filled) {
        const ff_augment_params params = wide.params[row];
        shows =
            !in_box(line, column, params.cut_y, params.cut_x, params.cut_height, params.cut_width);
        blends = (params.flags & FF_AUGMENT_MIXUP) != 0;
        const bool swaps = params.flags & FF_AUGMENT_CUTMIX &&
                           in_box(line, column, params.mix_y, params.mix_x,
                                  (uint32_t)params.mix_height, (uint32_t)params.mix_width);
        if (blends || swaps) {
            const ff_augment_params other = wide.params[row ^ 1];
            partner = wide.values + (size_t)(row ^ 1) * wide.channels * plane + at;
            partner_shows =
                !in_box(line, column, other.cut_y, other.cut_x, other.cut_height, other.cut_width);
            if (swaps) own = partner, shows = partner_shows;
            weight = params.weight;
        }
    }
    T *to = out + ((size_t)row * plane + at) * out_channels;
    for (uint32_t first = 0; first < out_channels; first += GROUP) {
        struct __align__(GROUP * sizeof(T)) group {
            T value[GROUP];
        }
        all;
#pragma unroll
        for (int g = 0; g < GROUP; g++) {
            const uint32_t c = first + g;
            float v = 0;
            if (c < wide.channels) {
                if (shows) v = own[c * plane];
                if (blends)
                    v = v * weight + (partner_shows ? partner[c * plane] : 0.0f) * (1.0f - weight);
            }
            all.value[g] = narrow<T>(v);
        }
        *(group *)(to + first) = all;
    }
}

/* ---- launchers ------------------------------------------------------------------------------ */

static bool tiles(const ff_cuda_wide *wide, dim3 *grid) {
    const uint32_t down = (wide->height + TILE_Y - 1) / TILE_Y;
    const uint32_t across = (wide->width + TILE_X - 1) / TILE_X;
    *grid = dim3(wide->rows, down, across);
    return down > 0 && across > 0 && down <= 65535 && across <= 65535;
}

extern "C" int ff_cuda_wide_move(const ff_cuda_samples *samples, const ff_cuda_wide *wide,
                                 ff_pad_mode pad, const float *black, const float *table,
                                 ff_cuda_stream stream) {
    dim3 grid;
    if (wide->rows == 0) return FF_CUDA_OK;
    if (!tiles(wide, &grid) || (samples->dtype == FF_U8 && !table)) return FF_CUDA_INVALID_VALUE;
    FF_STORED_LAUNCH(samples->dtype, move_kernel, grid, dim3(TILE_X, TILE_Y), 0, stream, *samples,
                     *wide, pad, black, table);
}

extern "C" int ff_cuda_wide_jitter(const ff_cuda_wide *wide, const double amount[4], uint64_t seed,
                                   const uint32_t *epoch, const float *mean, const float *std,
                                   int normalised, ff_cuda_stream stream) {
    jitter_amount amounts;
    for (int k = 0; k < 4; k++) amounts.value[k] = amount[k];
    if (wide->rows == 0) return FF_CUDA_OK;
    if (wide->channels == 3)
        return FF_LAUNCH(jitter_kernel<3>, wide->rows, JITTER_THREADS, 0, stream, *wide, amounts,
                         seed, epoch, mean, std, normalised);
    if (wide->channels == 1)
        return FF_LAUNCH(jitter_kernel<1>, wide->rows, JITTER_THREADS, 0, stream, *wide, amounts,
                         seed, epoch, mean, std, normalised);
    return FF_CUDA_INVALID_VALUE;
}

template <typename T>
static int finish(const ff_cuda_wide *wide, void *out, uint32_t out_channels, dim3 grid,
                  ff_cuda_stream stream) {
    const dim3 block(TILE_X, TILE_Y);
    if (out_channels % 8 == 0 && sizeof(T) == 2)
        return FF_LAUNCH((finish_kernel<T, 16 / sizeof(T)>), grid, block, 0, stream, *wide,
                         (T *)out, out_channels);
    if (out_channels % 4 == 0)
        return FF_LAUNCH((finish_kernel<T, 4>), grid, block, 0, stream, *wide, (T *)out,
                         out_channels);
    return FF_LAUNCH((finish_kernel<T, 1>), grid, block, 0, stream, *wide, (T *)out, out_channels);
}

extern "C" int ff_cuda_wide_finish(const ff_cuda_wide *wide, void *out, ff_dtype dtype,
                                   uint32_t out_channels, ff_cuda_stream stream) {
    dim3 grid;
    if (wide->rows == 0) return FF_CUDA_OK;
    if (!tiles(wide, &grid) || out_channels < wide->channels) return FF_CUDA_INVALID_VALUE;
    switch (dtype) {
    case FF_F32: return finish<float>(wide, out, out_channels, grid, stream);
    case FF_F16: return finish<__half>(wide, out, out_channels, grid, stream);
    case FF_BF16: return finish<__nv_bfloat16>(wide, out, out_channels, grid, stream);
    default: return FF_CUDA_INVALID_VALUE;
    }
}
