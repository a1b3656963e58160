/* Changes of u8 values of rows of f32, bit for bit as loader/augment/change/apply.c: a block for
 * each row, one change at a time, between two images in global memory, or three while chains are
 * mixed. Changes that are tables are joined in shared memory, and applied with the next change that
 * is not a table, or at the end. */
#include "loader/augment/change/blur.h"
#include "loader/augment/jitter.h"
#include "loader/cuda/augment.cuh"

enum { THREADS = 256 };

/* An image between changes. */
struct change_image {
    uint8_t *pixels, *spare, *third;
    uint8_t *begun; /* while chains are mixed: the image with which each begins; else NULL */
    float *sum;     /* of a mixture */
    uint32_t height, width;
    uint8_t (*table)[256]; /* shared: value v of channel c is table[c][v] */
};

template <int CHANNELS> static __device__ void reset_table(const change_image &image) {
    for (int c = 0; c < CHANNELS; c++) image.table[c][threadIdx.x] = (uint8_t)threadIdx.x;
    __syncthreads();
}

static __device__ void exchange(change_image &image) {
    uint8_t *made = image.spare;
    image.spare = image.pixels == image.begun ? image.third : image.pixels;
    image.pixels = made;
}

/* Applies the table. */
template <int CHANNELS> static __device__ void settle(change_image &image) {
    const size_t pixels = (size_t)image.height * image.width;
    const uint8_t *from = image.pixels;
    __syncthreads();
    if (image.pixels == image.begun) exchange(image);
    for (size_t i = threadIdx.x; i < pixels; i += THREADS)
        for (int c = 0; c < CHANNELS; c++)
            image.pixels[c * pixels + i] = image.table[c][from[c * pixels + i]];
    __syncthreads();
    reset_table<CHANNELS>(image);
}

template <int CHANNELS>
static __device__ __forceinline__ uint8_t grey_of(const uint8_t *at, size_t pixels) {
    return CHANNELS == 3 ? ff_change_grey(at[0], at[pixels], at[2 * pixels]) : at[0];
}

/* The mean of grey values, for contrast. */
template <int CHANNELS> static __device__ float mean_of(const change_image &image) {
    const size_t pixels = (size_t)image.height * image.width;
    uint64_t sum = 0;
    for (size_t i = threadIdx.x; i < pixels; i += THREADS)
        sum += grey_of<CHANNELS>(image.pixels + i, pixels);
    return ff_change_mean(ff_block_sum<THREADS>(sum), pixels);
}

/* The tables of equalize and autocontrast. */
template <int CHANNELS>
static __device__ void count_table(const ff_change &change, const change_image &image,
                                   uint8_t (*own)[256]) {
    __shared__ uint32_t count[CHANNELS][256];
    const size_t pixels = (size_t)image.height * image.width;
    for (int c = 0; c < CHANNELS; c++) count[c][threadIdx.x] = 0;
    __syncthreads();
    for (size_t i = threadIdx.x; i < pixels; i += THREADS)
        for (int c = 0; c < CHANNELS; c++)
            atomicAdd(&count[c][image.table[c][image.pixels[c * pixels + i]]], 1u);
    __syncthreads();
    if (threadIdx.x < CHANNELS) {
        if (change.kind == FF_CHANGE_EQUALIZE)
            ff_change_equalize(count[threadIdx.x], (uint32_t)pixels, own[threadIdx.x]);
        else
            ff_change_stretch(count[threadIdx.x], own[threadIdx.x]);
    }
    __syncthreads();
}

/* Adds a change to the table. */
template <int CHANNELS>
static __device__ void change_table(const ff_change &change, change_image &image) {
    __shared__ uint8_t own[CHANNELS][256];
    const bool counts = change.kind == FF_CHANGE_EQUALIZE || change.kind == FF_CHANGE_AUTOCONTRAST;
    float mean = 0;
    if (change.kind == FF_CHANGE_CONTRAST) {
        settle<CHANNELS>(image);
        mean = mean_of<CHANNELS>(image);
    }
    __syncthreads();
    if (counts) count_table<CHANNELS>(change, image, own);
    for (int c = 0; c < CHANNELS; c++) {
        const uint8_t before = image.table[c][threadIdx.x];
        image.table[c][threadIdx.x] =
            counts ? own[c][before] : ff_change_entry(&change, mean, before);
    }
    __syncthreads();
}

/* An affine change, from the image into the spare one. */
template <int CHANNELS>
static __device__ void transform(const ff_change &change, const change_image &image) {
    const uint32_t width = image.width, height = image.height;
    const size_t pixels = (size_t)height * width;
    const float *m = change.value;
    for (size_t i = threadIdx.x; i < pixels; i += THREADS) {
        const uint32_t y = (uint32_t)(i / width), x = (uint32_t)(i - (size_t)y * width);
        const float along = ff_matrix_base(x, width), down = ff_matrix_base(y, height);
        const float column = ff_matrix_place(along * m[0], down * m[1], m[2], width);
        const float line = ff_matrix_place(along * m[3], down * m[4], m[5], height);
        if (change.kind == FF_CHANGE_NEAREST) {
            const int32_t from = ff_matrix_nearest(column, line, height, width);
            for (int c = 0; c < CHANNELS; c++)
                image.spare[c * pixels + i] = from < 0 ? 0 : image.pixels[c * pixels + from];
            continue;
        }
        const ff_matrix_corners at = ff_matrix_around(column, line, height, width);
        for (int c = 0; c < CHANNELS; c++) {
            const uint8_t *plane = image.pixels + c * pixels;
            float corner[4];
            for (int k = 0; k < 4; k++)
                corner[k] = at.weight[k] != 0.0f
                                ? (float)plane[(int64_t)(at.y + (k >> 1)) * width + at.x + (k & 1)]
                                : 0.0f;
            image.spare[c * pixels + i] =
                ff_matrix_blend(at.weight, corner[0], corner[1], corner[2], corner[3]);
        }
    }
    __syncthreads();
}

/* Gaussian blur, from the image into the spare one. */
template <int CHANNELS>
static __device__ void blur(const ff_change &change, const change_image &image) {
    __shared__ float kernel[FF_BLUR_MOST];
    const uint32_t size = (uint32_t)change.value[0], width = image.width, height = image.height;
    const size_t pixels = (size_t)height * width;
    __syncthreads();
    if (threadIdx.x == 0) ff_blur_kernel(kernel, size, change.value[1]);
    __syncthreads();
    for (size_t i = threadIdx.x; i < CHANNELS * pixels; i += THREADS) {
        const uint8_t *plane = image.pixels + i / pixels * pixels;
        const int32_t y = (int32_t)(i % pixels / width), x = (int32_t)(i % pixels % width);
        const int32_t half = (int32_t)size / 2;
        float sum = 0;
        for (int32_t k = -half; k <= half; k++) {
            const uint8_t *line = plane + (size_t)ff_blur_reflect(y + k, height) * width;
            for (int32_t j = -half; j <= half; j++)
                sum = fmaf((float)line[ff_blur_reflect(x + j, width)],
                           kernel[half + k] * kernel[half + j], sum);
        }
        image.spare[i] = ff_change_nearest(sum);
    }
    __syncthreads();
}

/* A change of whole pixels, from the image into the spare one, from a table that is settled. */
template <int CHANNELS>
static __device__ void change_pixels(const ff_change &change, const change_image &image) {
    const size_t pixels = (size_t)image.height * image.width;
    const uint32_t width = image.width, height = image.height;
    for (size_t i = threadIdx.x; i < pixels; i += THREADS) {
        const uint8_t *at = image.pixels + i;
        const uint32_t y = (uint32_t)(i / width), x = (uint32_t)(i - (size_t)y * width);
        const uint8_t grey = grey_of<CHANNELS>(at, pixels);
        for (int c = 0; c < CHANNELS; c++, at += pixels) {
            uint8_t value = *at;
            if (change.kind == FF_CHANGE_GRAYSCALE) {
                value = grey;
            } else if (change.kind == FF_CHANGE_COLOR) {
                if (CHANNELS == 3) value = ff_change_blend(change.value, (float)value, (float)grey);
            } else if (change.kind == FF_CHANGE_SHARPNESS && y > 0 && x > 0 && y + 1 < height &&
                       x + 1 < width) {
                const uint8_t *above = at - width, *below = at + width;
                const uint16_t nine = (uint16_t)(above[-1] + above[0] + above[1] + at[-1] + at[0] +
                                                 at[1] + below[-1] + below[0] + below[1]);
                value = ff_change_sharpen(change.value, value, ff_change_smooth(nine, value));
            }
            image.spare[c * pixels + i] = value;
        }
    }
    __syncthreads();
}

/* A change of the sum of a mixture. */
template <int CHANNELS>
static __device__ void change_sum(const ff_change &change, change_image &image) {
    const size_t pixels = (size_t)image.height * image.width;
    const float weight = change.value[0];
    if (change.kind == FF_CHANGE_MIX) {
        settle<CHANNELS>(image);
        image.begun = image.pixels;
    }
    __syncthreads();
    for (size_t i = threadIdx.x; i < pixels; i += THREADS)
        for (int c = 0; c < CHANNELS; c++) {
            const size_t at = c * pixels + i;
            const float part = weight * (float)image.table[c][image.pixels[at]];
            if (change.kind == FF_CHANGE_MIX)
                image.sum[at] = part;
            else if (change.kind == FF_CHANGE_CHAIN)
                image.sum[at] += part;
            else
                image.begun[at] = ff_change_u8(image.sum[at]);
        }
    __syncthreads();
    reset_table<CHANNELS>(image);
    if (image.pixels != image.begun) image.third = image.pixels;
    image.pixels = image.begun;
    if (change.kind == FF_CHANGE_MIXED) image.begun = nullptr;
}

/* The row's values as u8. */
template <int CHANNELS>
static __device__ void round_values(const ff_cuda_augment &job, const float *row,
                                    const change_image &image) {
    const size_t pixels = (size_t)image.height * image.width;
    const bool normalised = job.normalised && !job.jittered;
    for (size_t i = threadIdx.x; i < pixels; i += THREADS)
        for (int c = 0; c < CHANNELS; c++) {
            float value = row[c * pixels + i];
            if (normalised) value = value * job.std[c] + job.mean[c];
            if (job.level != 1.0f) value = ff_jitter_clamp(value) * job.level;
            image.pixels[c * pixels + i] = ff_change_nearest(value);
        }
    __syncthreads();
}

/* grid: rows. */
template <int CHANNELS>
static __global__ void __launch_bounds__(THREADS) change_kernel(ff_cuda_augment job) {
    __shared__ ff_changes changes;
    __shared__ uint8_t table[CHANNELS][256];
    const uint32_t row = blockIdx.x;
    if (row >= job.move.batch->at.count) return;
    const size_t pixels = (size_t)job.move.out_height * job.move.out_width;
    const size_t values = CHANNELS * pixels;
    const size_t images = ff_change_images(&job.change);
    uint8_t *first = job.images + row * images * values;
    float *to = (float *)job.values + row * values;
    change_image image = {first,
                          first + values,
                          first + (images - 1) * values,
                          nullptr,
                          to,
                          job.move.out_height,
                          job.move.out_width,
                          table};
    if (threadIdx.x == 0)
        ff_changes_at(&changes, &job.change, job.seed, job.move.batch->at.epoch,
                      ff_draw_index(job, row), image.height, image.width);
    reset_table<CHANNELS>(image);
    round_values<CHANNELS>(job, to, image);
    for (uint32_t k = 0; k < changes.count; k++) {
        const ff_change change = changes.change[k];
        if (change.kind < FF_CHANGE_TABLES) {
            change_table<CHANNELS>(change, image);
            continue;
        }
        if (change.kind >= FF_CHANGE_MIX) {
            change_sum<CHANNELS>(change, image);
            continue;
        }
        settle<CHANNELS>(image);
        if (change.kind == FF_CHANGE_NEAREST || change.kind == FF_CHANGE_BILINEAR)
            transform<CHANNELS>(change, image);
        else if (change.kind == FF_CHANGE_BLUR)
            blur<CHANNELS>(change, image);
        else
            change_pixels<CHANNELS>(change, image);
        exchange(image);
    }
    for (size_t i = threadIdx.x; i < pixels; i += THREADS)
        for (int c = 0; c < CHANNELS; c++)
            to[c * pixels + i] = job.shown[c * 256 + table[c][image.pixels[c * pixels + i]]];
}

int ff_cuda_augment_change(const ff_cuda_augment *job, ff_cuda_stream stream) {
    if (!job->shown || !job->images || !job->mean || !job->std) return FF_CUDA_INVALID_VALUE;
    if (job->move.channels == 3)
        return FF_LAUNCH(change_kernel<3>, job->move.rows, THREADS, 0, stream, *job);
    if (job->move.channels == 1)
        return FF_LAUNCH(change_kernel<1>, job->move.rows, THREADS, 0, stream, *job);
    return FF_CUDA_INVALID_VALUE;
}
