#include "loader/augment/resample.h"

#include "format/base/compiler.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = FF_RESAMPLE_LANES };

/* A 64-byte aligned array that grows; its content is then lost. */
typedef struct array {
    void *memory;
    uint64_t bytes;
} array;

struct ff_resampler {
    const ff_augment_host *host;
    const ff_resample_kernels *kernels;
    /* [channels]: a raw value v, u8 or u16, becomes v * multiply + add. */
    float *multiply, *add;
    uint32_t blocks;          /* of an output row */
    size_t padded;            /* blocks * lanes */
    ff_resample_block *block; /* [blocks]; their weights and indexes are in the next two */
    array weight, index;      /* [blocks][taps][lanes] */
    array axis;               /* [2][taps]: the weights of one output of either axis */
    array source;             /* [channels][box width + beyond]: one row, as f32 planes */
    array pixels;             /* [box width * channels]: the same of interleaved samples, as read */
    /* Rows between the passes: source row r is in slot r % ring_rows.
     *   [ring_rows][channels][padded] */
    array ring;
    array ring_row; /* [taps] the rows of one output */
    float *row;     /* [channels][padded]: one row of the output */
    float *whole;   /* [out_width][channels]: the same, interleaved */
};

/* The resolved parameters: `height` x `width` pixels of the source at (y, x) are resampled to
 * to_height x to_width, of which the output shows the window at (top, left). */
typedef struct job {
    uint32_t y, x, height, width;
    uint32_t to_height, to_width, top, left;
    bool flip;
} job;

static job job_of(const ff_augment_host *host, const ff_augment_params *params, uint32_t height,
                  uint32_t width) {
    job j = {.flip = params->flags & FF_AUGMENT_FLIP};
    if (params->flags & FF_AUGMENT_BOX) {
        j.y = (uint32_t)params->y, j.x = (uint32_t)params->x;
        j.height = params->height, j.width = params->width;
        j.to_height = host->out_height, j.to_width = host->out_width;
        assert(j.y <= height && j.height <= height - j.y && j.x <= width && j.width <= width - j.x);
    } else {
        j.height = height, j.width = width;
        j.to_height = params->height, j.to_width = params->width;
        j.top = (uint32_t)params->y, j.left = (uint32_t)params->x;
        assert(j.top + host->out_height <= j.to_height && j.left + host->out_width <= j.to_width);
    }
    return j;
}

/* ---- memory --------------------------------------------------------------------------------- */

static ff_status reserve(array *r, uint64_t count, uint64_t size, ff_error *error) {
    uint64_t bytes;
    if (ff_mul_u64(count, size, &bytes) && bytes <= r->bytes) return FF_OK;
    free(r->memory);
    *r = (array){0};
    FF_TRY(ff_alloc_aligned(&r->memory, count, size, 0, "resampling", error));
    r->bytes = bytes;
    return FF_OK;
}

void ff_resample_scale(const ff_metadata *metadata, uint32_t channel, float *multiply, float *add) {
    const bool known = metadata->statistics_count != 0;
    const double mean = known ? (double)metadata->mean[channel] : 0;
    const double std = known ? (double)metadata->std[channel] : 1;
    double low, high;
    ff_augment_range(metadata, &low, &high);
    *multiply = (float)(1 / ((high - low) * std));
    *add = (float)((-low / (high - low) - mean) / std);
}

ff_status ff_resampler_create(ff_resampler **out, const ff_augment_host *host,
                              const ff_metadata *metadata, ff_error *error) {
    ff_resampler *r;
    ff_status status;
    *out = NULL;
    FF_TRY(ff_alloc(&r, 1, sizeof *r, "a resampler", error));
    uint32_t channels = host->channels;
    r->host = host;
    const ff_resample_kernels *version[] = {&ff_resample_rows, ff_resample_avx2(),
                                            ff_resample_avx512()};
    for (size_t i = 0; i < sizeof version / sizeof version[0]; i++)
        if (version[i]) r->kernels = version[i];
    r->blocks = (host->out_width + LANES - 1) / LANES;
    r->padded = (size_t)r->blocks * LANES;
    FF_TRY_DONE(ff_alloc(&r->multiply, channels, sizeof(float), "resampling", error));
    FF_TRY_DONE(ff_alloc(&r->add, channels, sizeof(float), "resampling", error));
    FF_TRY_DONE(ff_alloc(&r->block, r->blocks, sizeof *r->block, "resampling", error));
    FF_TRY_DONE(
        ff_alloc_aligned(&r->row, channels, r->padded * sizeof(float), 0, "resampling", error));
    FF_TRY_DONE(
        ff_alloc_aligned(&r->whole, channels, r->padded * sizeof(float), 0, "resampling", error));
    for (uint32_t c = 0; c < channels; c++)
        ff_resample_scale(metadata, c, &r->multiply[c], &r->add[c]);
done:
    if (status != FF_OK) ff_resampler_destroy(&r);
    *out = r;
    return status;
}

void ff_resampler_destroy(ff_resampler **out) {
    ff_resampler *r = *out;
    if (!r) return;
    array *arrays[] = {&r->weight, &r->index, &r->axis,    &r->source,
                       &r->pixels, &r->ring,  &r->ring_row};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) free(arrays[i]->memory);
    free(r->multiply);
    free(r->add);
    free(r->block);
    free(r->row);
    free(r->whole);
    free(r);
    *out = NULL;
}

void ff_resampler_use(ff_resampler *resampler, const ff_resample_kernels *kernels) {
    resampler->kernels = kernels;
}

ff_status ff_resampler_reserve(ff_resampler *r, const ff_augment_params *params, uint32_t height,
                               uint32_t width, ff_error *error) {
    job j = job_of(r->host, params, height, width);
    uint64_t channels = r->host->channels;
    uint64_t taps = ff_resample_taps(j.width, j.to_width);
    uint64_t rows = ff_resample_taps(j.height, j.to_height);
    FF_TRY(reserve(&r->weight, r->padded, taps * sizeof(float), error));
    FF_TRY(reserve(&r->index, r->padded, taps * sizeof(int32_t), error));
    FF_TRY(reserve(&r->axis, taps + rows, sizeof(float), error));
    FF_TRY(reserve(&r->source, channels, (j.width + FF_RESAMPLE_BEYOND) * sizeof(float), error));
    if (r->host->from_layout == FF_HWC)
        FF_TRY(reserve(&r->pixels, channels, j.width * sizeof(float), error));
    FF_TRY(reserve(&r->ring, rows, channels * r->padded * sizeof(float), error));
    return reserve(&r->ring_row, rows, sizeof(const float *), error);
}

/* ---- the separable version ------------------------------------------------------------------ */

/* The weights of an output row, mirrored if the row is. Lanes after the last column repeat it. */
static void plan_across(ff_resampler *r, const job *j) {
    uint32_t stride_taps = ff_resample_taps(j->width, j->to_width), last = r->host->out_width - 1;
    float *one = r->axis.memory;
    for (uint32_t b = 0; b < r->blocks; b++) {
        ff_resample_block *block = &r->block[b];
        uint32_t first[LANES], taps[LANES], end = 0;
        *block = (ff_resample_block){
            .base = UINT32_MAX,
            .weight = (float *)r->weight.memory + (size_t)b * stride_taps * LANES,
            .index = (int32_t *)r->index.memory + (size_t)b * stride_taps * LANES,
        };
        for (uint32_t i = 0; i < LANES; i++) {
            uint32_t column = b * LANES + i < last ? b * LANES + i : last;
            uint32_t at = j->left + (j->flip ? last - column : column);
            taps[i] = ff_resample_weights(j->width, j->to_width, at, one, &first[i]);
            for (uint32_t k = 0; k < stride_taps; k++)
                block->weight[k * LANES + i] = k < taps[i] ? one[k] : 0;
            if (first[i] < block->base) block->base = first[i];
            if (first[i] + taps[i] > end) end = first[i] + taps[i];
            if (taps[i] > block->taps) block->taps = taps[i];
        }
        block->span = end - block->base;
        for (uint32_t k = 0; k < block->taps; k++)
            for (uint32_t i = 0; i < LANES; i++)
                block->index[k * LANES + i] =
                    (int32_t)(first[i] + (k < taps[i] ? k : taps[i] - 1) - block->base);
    }
}

/* Loops over a constant number of channels vectorize. */
FF_CLONES static void split_3(float *restrict to, size_t stride, const float *restrict from,
                              size_t pixels) {
    for (size_t x = 0; x < pixels; x++) {
        to[x] = from[3 * x];
        to[stride + x] = from[3 * x + 1];
        to[2 * stride + x] = from[3 * x + 2];
    }
}
FF_CLONES static void join_3(float *restrict to, const float *restrict from, size_t stride,
                             size_t pixels) {
    for (size_t x = 0; x < pixels; x++) {
        to[3 * x] = from[x];
        to[3 * x + 1] = from[stride + x];
        to[3 * x + 2] = from[2 * stride + x];
    }
}
FF_CLONES static void scale_row(float *to, const float *from, float multiply, float add,
                                size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = from[i] * multiply + add;
}
FF_CLONES static void scale_and_join_3(float *restrict to, const float *restrict from,
                                       size_t stride, const float multiply[3], const float add[3],
                                       size_t pixels) {
    const float m0 = multiply[0], m1 = multiply[1], m2 = multiply[2];
    const float a0 = add[0], a1 = add[1], a2 = add[2];
    for (size_t x = 0; x < pixels; x++) {
        to[3 * x] = from[x] * m0 + a0;
        to[3 * x + 1] = from[stride + x] * m1 + a1;
        to[3 * x + 2] = from[2 * stride + x] * m2 + a2;
    }
}

/* Converts row `y` of the box to f32 planes, and resamples it horizontally into its slot of the
 * ring. */
static void pass_across(ff_resampler *r, const job *j, const uint8_t *source, uint32_t height,
                        uint32_t width, uint32_t y, uint32_t ring_rows) {
    const ff_augment_host *host = r->host;
    const uint32_t channels = host->channels;
    float *planes = r->source.memory;
    size_t stride = j->width + FF_RESAMPLE_BEYOND, row = j->y + y;
    if (host->from_layout == FF_CHW || channels == 1) {
        for (uint32_t c = 0; c < channels; c++)
            r->kernels->read(planes + c * stride,
                             source +
                                 (((size_t)c * height + row) * width + j->x) * host->from_bytes,
                             host->from, j->width);
    } else {
        float *pixels = r->pixels.memory;
        r->kernels->read(pixels, source + (row * width + j->x) * channels * host->from_bytes,
                         host->from, (size_t)j->width * channels);
        if (channels == 3)
            split_3(planes, stride, pixels, j->width);
        else
            for (size_t x = 0; x < j->width; x++)
                for (uint32_t c = 0; c < channels; c++)
                    planes[c * stride + x] = pixels[x * channels + c];
    }
    float *slot = (float *)r->ring.memory + (size_t)(y % ring_rows) * channels * r->padded;
    r->kernels->across(r->block, r->blocks, planes, stride, channels, slot, r->padded);
}

/* To u8, for planes only. */
FF_CLONES static void round_row(uint8_t *restrict to, const float *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = ff_change_nearest(from[i]);
}

/* Stores r->row in row `y` of an f32 output in one pass; false for layouts that need two. */
static bool write_scaled(const ff_resampler *r, uint32_t y, void *to) {
    float *out = to;
    const ff_augment_host *host = r->host;
    const uint32_t channels = host->channels;
    const size_t width = host->out_width;
    if (host->to_layout == FF_CHW || channels == 1)
        for (uint32_t c = 0; c < channels; c++)
            scale_row(out + ((size_t)c * host->out_height + y) * width, r->row + c * r->padded,
                      r->multiply[c], r->add[c], width);
    else if (channels == 3)
        scale_and_join_3(out + y * width * 3, r->row, r->padded, r->multiply, r->add, width);
    else
        return false;
    return true;
}

/* Stores r->row in the output's row `y`, dtype and layout. */
static void write_row(ff_resampler *r, uint32_t y, uint8_t *out) {
    const ff_augment_host *host = r->host;
    const uint32_t channels = host->channels;
    const size_t width = host->out_width;
    if (host->to == FF_U8) {
        for (uint32_t c = 0; c < channels; c++)
            round_row(out + ((size_t)c * host->out_height + y) * width, r->row + c * r->padded,
                      width);
        return;
    }
    if (!ff_dtype_is_float(host->from)) {
        if (host->to == FF_F32 && write_scaled(r, y, out)) return;
        for (uint32_t c = 0; c < channels; c++) {
            float *row = r->row + c * r->padded;
            scale_row(row, row, r->multiply[c], r->add[c], width);
        }
    }
    if (host->to_layout == FF_CHW || channels == 1) {
        for (uint32_t c = 0; c < channels; c++)
            r->kernels->write(out + (((size_t)c * host->out_height + y) * width) * host->to_bytes,
                              host->to, r->row + c * r->padded, width);
        return;
    }
    if (channels == 3)
        join_3(r->whole, r->row, r->padded, width);
    else
        for (size_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < channels; c++)
                r->whole[x * channels + c] = r->row[c * r->padded + x];
    r->kernels->write(out + (size_t)y * width * channels * host->to_bytes, host->to, r->whole,
                      width * channels);
}

void ff_resample(ff_resampler *r, const ff_augment_params *params, const void *source,
                 uint32_t height, uint32_t width, void *out) {
    const ff_augment_host *host = r->host;
    const job j = job_of(host, params, height, width);
    const uint32_t ring_rows = ff_resample_taps(j.height, j.to_height);
    const size_t row_values = host->channels * r->padded;
    float *weight = r->axis.memory;
    const float **row = r->ring_row.memory;
    plan_across(r, &j);
    uint32_t ready = 0; /* rows before this one have been in the ring */
    for (uint32_t y = 0; y < host->out_height; y++) {
        uint32_t first;
        uint32_t taps = ff_resample_weights(j.height, j.to_height, j.top + y, weight, &first);
        if (ready < first) ready = first;
        for (; ready < first + taps; ready++)
            pass_across(r, &j, source, height, width, ready, ring_rows);
        for (uint32_t k = 0; k < taps; k++)
            row[k] = (float *)r->ring.memory + (size_t)((first + k) % ring_rows) * row_values;
        r->kernels->down(r->row, row, weight, taps, row_values);
        write_row(r, ff_augment_line(params, y, host->out_height), out);
    }
    ff_augment_cut(host, params, out);
}

/* ---- the plain version ---------------------------------------------------------------------- */

static float source_value(const ff_augment_host *host, const uint8_t *source, uint32_t height,
                          uint32_t width, uint32_t channel, uint32_t y, uint32_t x) {
    size_t at = host->from_layout == FF_CHW ? ((size_t)channel * height + y) * width + x
                                            : ((size_t)y * width + x) * host->channels + channel;
    return (float)ff_element(source, host->from, at);
}

void ff_resample_plain(ff_resampler *r, const ff_augment_params *params, const void *source,
                       uint32_t height, uint32_t width, void *out) {
    const ff_augment_host *host = r->host;
    const job j = job_of(host, params, height, width);
    float *across = r->axis.memory, *down = across + ff_resample_taps(j.width, j.to_width);
    for (uint32_t y = 0; y < host->out_height; y++) {
        const uint32_t line = ff_augment_line(params, y, host->out_height);
        uint32_t top, rows = ff_resample_weights(j.height, j.to_height, j.top + line, down, &top);
        for (uint32_t x = 0; x < host->out_width; x++) {
            uint32_t at = j.left + (j.flip ? host->out_width - 1 - x : x), left;
            uint32_t columns = ff_resample_weights(j.width, j.to_width, at, across, &left);
            for (uint32_t c = 0; c < host->channels; c++) {
                float value = 0;
                for (uint32_t k = 0; k < rows; k++) {
                    float sum = 0;
                    for (uint32_t i = 0; i < columns; i++) {
                        float product = across[i] * source_value(host, source, height, width, c,
                                                                 j.y + top + k, j.x + left + i);
                        sum = i ? sum + product : product;
                    }
                    value = k ? value + down[k] * sum : down[k] * sum;
                }
                const bool rounds = host->to == FF_U8;
                if (!ff_dtype_is_float(host->from) && !rounds)
                    value = value * r->multiply[c] + r->add[c];
                size_t to = host->to_layout == FF_CHW
                                ? ((size_t)c * host->out_height + y) * host->out_width + x
                                : ((size_t)y * host->out_width + x) * host->channels + c;
                if (rounds)
                    ((uint8_t *)out)[to] = ff_change_nearest(value);
                else
                    ff_convert((uint8_t *)out + to * host->to_bytes, host->to, &value, FF_F32, 1);
            }
        }
    }
    ff_augment_cut(host, params, out);
}
