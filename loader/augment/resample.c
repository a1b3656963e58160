#include "loader/augment/resample.h"

#include "format/base/compiler.h"
#include "loader/augment/resample_bytes.h"

#include <stdatomic.h>
#include <string.h>

enum { LANES = FF_RESAMPLE_LANES };

struct ff_resampler {
    const ff_augment_host *host;
    ff_resample_kernels kernels;
    ff_resample_bytes *bytes; /* if values stay u8: everything below is unused */
    /* [channels]: a raw value v, u8 or u16, becomes v * scale[0] + scale[1]; NULL for floats and
     * for an output of u8. */
    float (*scale)[2];
    uint32_t blocks;                 /* of an output row */
    uint32_t down_blocks;            /* of an output column */
    size_t padded;                   /* blocks * lanes */
    ff_resample_block *block;        /* [blocks]; their weights and indexes are in the next two */
    ff_resample_array weight, index; /* [blocks][taps][lanes] */
    ff_resample_array down;          /* [down_blocks][taps][lanes]: the weights of columns */
    uint32_t (*first)[LANES];        /* [down_blocks]: the first inputs of columns */
    uint32_t (*taps)[LANES];         /* and their numbers */
    ff_resample_array axis;          /* [2][taps]: the weights of one output of either axis */
    ff_resample_array source;        /* [channels][box width + beyond]: one row, as f32 planes */
    ff_resample_array pixels;        /* [box width * channels]: of interleaved samples, as read */
    /* Rows between the passes: source row r is in slot r % ring_rows.
     *   [ring_rows][channels][padded] */
    ff_resample_array ring;
    ff_resample_array ring_row; /* [taps] the rows of one output */
    float *row;                 /* [channels][padded]: one row of the output */
    float *whole;               /* [out_width][channels]: the same, interleaved */
};

typedef ff_resample_job job;

/* ---- memory --------------------------------------------------------------------------------- */

void ff_resample_scale(const ff_metadata *metadata, uint32_t channel, float *multiply, float *add) {
    const bool known = metadata->statistics_count != 0;
    const double mean = known ? (double)metadata->mean[channel] : 0;
    const double std = known ? (double)metadata->std[channel] : 1;
    double low, high;
    ff_augment_range(metadata, &low, &high);
    *multiply = (float)(1 / ((high - low) * std));
    *add = (float)((-low / (high - low) - mean) / std);
}

static void overlay(ff_resample_kernels *to, const ff_resample_kernels *from) {
    if (!from) return;
    to->name = from->name;
    to->by_fours = from->by_fours;
    to->across_u8 = from->across_u8;
    if (from->read) to->read = from->read;
    if (from->write) to->write = from->write;
    if (from->across) to->across = from->across;
    if (from->down) to->down = from->down;
    if (from->join) to->join = from->join;
    if (from->across_bytes) to->across_bytes = from->across_bytes;
    if (from->down_bytes) to->down_bytes = from->down_bytes;
}

void ff_resampler_use(ff_resampler *resampler, const ff_resample_kernels *kernels) {
    resampler->kernels = ff_resample_rows;
    overlay(&resampler->kernels, kernels);
}

static ff_status create_sums(ff_resampler *r, const ff_metadata *metadata, ff_error *error) {
    const ff_augment_host *host = r->host;
    const uint32_t channels = host->channels;
    r->blocks = (host->out_width + LANES - 1) / LANES;
    r->down_blocks = (host->out_height + LANES - 1) / LANES;
    r->padded = (size_t)r->blocks * LANES;
    FF_TRY(ff_alloc(&r->block, r->blocks, sizeof *r->block, "resampling", error));
    FF_TRY(ff_alloc(&r->first, r->down_blocks, sizeof *r->first, "resampling", error));
    FF_TRY(ff_alloc(&r->taps, r->down_blocks, sizeof *r->taps, "resampling", error));
    const size_t bytes = r->padded * sizeof(float);
    FF_TRY(ff_alloc_aligned(&r->row, channels, bytes, 0, "resampling", error));
    FF_TRY(ff_alloc_aligned(&r->whole, channels, bytes, 0, "resampling", error));
    if (ff_dtype_is_float(host->from) || host->to == FF_U8) return FF_OK;
    FF_TRY(ff_alloc(&r->scale, channels, sizeof *r->scale, "resampling", error));
    for (uint32_t c = 0; c < channels; c++)
        ff_resample_scale(metadata, c, &r->scale[c][0], &r->scale[c][1]);
    return FF_OK;
}

ff_status ff_resampler_create(ff_resampler **out, const ff_augment_host *host,
                              const ff_metadata *metadata, ff_error *error) {
    ff_resampler *r;
    ff_status status;
    *out = NULL;
    FF_TRY(ff_alloc(&r, 1, sizeof *r, "a resampler", error));
    r->host = host;
    r->kernels = ff_resample_rows;
    overlay(&r->kernels, ff_resample_avx2());
    overlay(&r->kernels, ff_resample_avx512());
    if (host->to == FF_U8 && !host->rounds)
        status = ff_resample_bytes_create(&r->bytes, host, error);
    else
        status = create_sums(r, metadata, error);
    if (status != FF_OK) ff_resampler_destroy(&r);
    *out = r;
    return status;
}

void ff_resampler_destroy(ff_resampler **out) {
    ff_resampler *r = *out;
    if (!r) return;
    ff_resample_array *arrays[] = {&r->weight, &r->index,  &r->down, &r->axis,
                                   &r->source, &r->pixels, &r->ring, &r->ring_row};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) free(arrays[i]->memory);
    ff_resample_bytes_destroy(&r->bytes);
    free(r->scale);
    free(r->block);
    free(r->first);
    free(r->taps);
    free(r->row);
    free(r->whole);
    free(r);
    *out = NULL;
}

ff_status ff_resampler_reserve(ff_resampler *r, const ff_augment_params *params, uint32_t height,
                               uint32_t width, ff_error *error) {
    const job j = ff_resample_job_of(r->host, params, height, width);
    if (r->bytes) return ff_resample_bytes_reserve(r->bytes, &j, error);
    const uint64_t channels = r->host->channels, lanes = LANES;
    const uint64_t taps = ff_resample_taps(j.width, j.to_width);
    const uint64_t rows = ff_resample_taps(j.height, j.to_height);
    FF_TRY(ff_resample_grow(&r->weight, r->padded, taps * sizeof(float), error));
    FF_TRY(ff_resample_grow(&r->index, r->padded, taps * sizeof(int32_t), error));
    FF_TRY(ff_resample_grow(&r->down, r->down_blocks * lanes, rows * sizeof(float), error));
    FF_TRY(ff_resample_grow(&r->axis, taps + rows, sizeof(float), error));
    FF_TRY(ff_resample_grow(&r->source, channels, (j.width + FF_RESAMPLE_BEYOND) * sizeof(float),
                            error));
    if (r->host->from_layout == FF_HWC)
        FF_TRY(ff_resample_grow(&r->pixels, channels, j.width * sizeof(float), error));
    FF_TRY(ff_resample_grow(&r->ring, rows, channels * r->padded * sizeof(float), error));
    return ff_resample_grow(&r->ring_row, rows, sizeof(const float *), error);
}

/* ---- the separable version ------------------------------------------------------------------ */

/* The weights of an output row, mirrored if the row is. Lanes after the last column repeat it. */
static void plan_across(ff_resampler *r, const job *j) {
    const ff_resample_axis axis = ff_resample_axis_of(j->width, j->to_width);
    const uint32_t last = r->host->out_width - 1;
    for (uint32_t b = 0; b < r->blocks; b++) {
        ff_resample_block *block = &r->block[b];
        uint32_t lane[LANES], first[LANES], taps[LANES], end = 0;
        const size_t at = (size_t)b * axis.most * LANES;
        *block = (ff_resample_block){.base = UINT32_MAX,
                                     .weight = (float *)r->weight.memory + at,
                                     .index = (int32_t *)r->index.memory + at};
        for (uint32_t i = 0; i < LANES; i++)
            lane[i] =
                ff_resample_job_column(j, r->host, b * LANES + i < last ? b * LANES + i : last);
        block->taps = ff_resample_weigh_lanes(&axis, lane, block->weight, first, taps);
        for (uint32_t i = 0; i < LANES; i++) {
            if (first[i] < block->base) block->base = first[i];
            if (first[i] + taps[i] > end) end = first[i] + taps[i];
        }
        block->span = end - block->base;
        for (uint32_t k = 0; k < block->taps; k++)
            for (uint32_t i = 0; i < LANES; i++)
                block->index[k * LANES + i] =
                    (int32_t)(first[i] + (k < taps[i] ? k : taps[i] - 1) - block->base);
        for (uint32_t i = 0; i < LANES; i++) first[i] -= block->base;
        if (r->kernels.by_fours) block->fours = ff_resample_fours_of(first);
    }
}

/* The weights of the output's columns. */
static void plan_down(ff_resampler *r, const job *j) {
    const ff_resample_axis axis = ff_resample_axis_of(j->height, j->to_height);
    const uint32_t last = r->host->out_height - 1;
    for (uint32_t b = 0; b < r->down_blocks; b++) {
        uint32_t lane[LANES];
        for (uint32_t i = 0; i < LANES; i++)
            lane[i] = j->top + (b * LANES + i < last ? b * LANES + i : last);
        ff_resample_weigh_lanes(&axis, lane,
                                (float *)r->down.memory + (size_t)b * axis.most * LANES,
                                r->first[b], r->taps[b]);
    }
}

/* The weights of output row `y`; returns their number, and the first input in *first. */
static uint32_t weights_down(const ff_resampler *r, const job *j, uint32_t y, float *weight,
                             uint32_t *first) {
    const uint32_t b = y / LANES, i = y % LANES, most = ff_resample_taps(j->height, j->to_height);
    const float *lane = (const float *)r->down.memory + (size_t)b * most * LANES + i;
    for (uint32_t k = 0; k < r->taps[b][i]; k++) weight[k] = lane[k * LANES];
    *first = r->first[b][i];
    return r->taps[b][i];
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
/* Converts row `y` of the box to f32 planes, and resamples it horizontally into its slot of the
 * ring. */
static void pass_across(ff_resampler *r, const job *j, const uint8_t *source, uint32_t height,
                        uint32_t width, uint32_t y, uint32_t ring_rows) {
    const ff_augment_host *host = r->host;
    const uint32_t channels = host->channels;
    float *planes = r->source.memory;
    float *slot = (float *)r->ring.memory + (size_t)(y % ring_rows) * channels * r->padded;
    size_t stride = j->width + FF_RESAMPLE_BEYOND, row = j->y + y;
    if (r->kernels.across_u8 && host->from == FF_U8) {
        const uint8_t *bytes =
            ff_resample_planes_u8(host, j, source, height, width, y, (uint8_t *)planes, &stride);
        r->kernels.across_u8(r->block, r->blocks, bytes, stride, channels, slot, r->padded);
        return;
    }
    if (host->from_layout == FF_CHW || channels == 1) {
        for (uint32_t c = 0; c < channels; c++) {
            const size_t at = ((size_t)c * height + row) * width + j->x;
            const uint8_t *from = source + at * host->from_bytes;
            ff_augment_ask(from, j->width * host->from_bytes);
            r->kernels.read(planes + c * stride, from, host->from, j->width);
        }
    } else {
        float *pixels = r->pixels.memory;
        const uint8_t *from = source + (row * width + j->x) * channels * host->from_bytes;
        ff_augment_ask(from, (size_t)j->width * channels * host->from_bytes);
        r->kernels.read(pixels, from, host->from, (size_t)j->width * channels);
        if (channels == 3)
            split_3(planes, stride, pixels, j->width);
        else
            for (size_t x = 0; x < j->width; x++)
                for (uint32_t c = 0; c < channels; c++)
                    planes[c * stride + x] = pixels[x * channels + c];
    }
    r->kernels.across(r->block, r->blocks, planes, stride, channels, slot, r->padded);
}

/* To u8, for planes only. */
FF_FMA_CLONES static void round_row(uint8_t *restrict to, const float *restrict from,
                                    size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = ff_change_nearest(from[i]);
}

/* Adds `taps` rows into row `y` of the output, in its dtype and layout. */
static void pass_down(ff_resampler *r, const float *weight, uint32_t taps, uint32_t y,
                      uint8_t *out) {
    const ff_augment_host *host = r->host;
    const uint32_t channels = host->channels;
    const size_t width = host->out_width;
    const float *const *row = r->ring_row.memory;
    const bool planar = host->to_layout == FF_CHW || channels == 1;
    const bool direct = planar && host->to == FF_F32;
    for (uint32_t c = 0; c < channels; c++) {
        uint8_t *line = out + ((size_t)c * host->out_height + y) * width * host->to_bytes;
        float *sums = direct ? (float *)(void *)line : r->row + c * r->padded;
        r->kernels.down(sums, row, c * r->padded, weight, taps, width,
                        r->scale ? r->scale[c] : NULL, direct && host->streams);
        if (planar && host->to == FF_U8)
            round_row(line, sums, width);
        else if (planar && !direct)
            r->kernels.write(line, host->to, sums, width);
    }
    if (planar) return;
    uint8_t *line = out + y * width * channels * host->to_bytes;
    float *pixels = host->to == FF_F32 ? (float *)(void *)line : r->whole;
    if (channels == 3)
        r->kernels.join(pixels, r->row, r->padded, width, host->to == FF_F32 && host->streams);
    else
        for (size_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < channels; c++)
                pixels[x * channels + c] = r->row[c * r->padded + x];
    if (host->to != FF_F32) r->kernels.write(line, host->to, pixels, width * channels);
}

void ff_resample(ff_resampler *r, const ff_augment_params *params, const void *source,
                 uint32_t height, uint32_t width, void *out) {
    const ff_augment_host *host = r->host;
    const job j = ff_resample_job_of(host, params, height, width);
    const uint32_t ring_rows = ff_resample_taps(j.height, j.to_height);
    const size_t row_values = host->channels * r->padded;
    float *weight = r->axis.memory;
    const float **row = r->ring_row.memory;
    if (r->bytes) {
        ff_resample_bytes_run(r->bytes, &r->kernels, &j, params, source, height, width, out);
        return;
    }
    plan_across(r, &j);
    plan_down(r, &j);
    uint32_t ready = 0; /* rows before this one have been in the ring */
    for (uint32_t y = 0; y < host->out_height; y++) {
        uint32_t first;
        const uint32_t taps = weights_down(r, &j, y, weight, &first);
        if (ready < first) ready = first;
        for (; ready < first + taps; ready++)
            pass_across(r, &j, source, height, width, ready, ring_rows);
        for (uint32_t k = 0; k < taps; k++)
            row[k] = (float *)r->ring.memory + (size_t)((first + k) % ring_rows) * row_values;
        pass_down(r, weight, taps, ff_augment_line(params, y, host->out_height), out);
    }
    if (host->streams) atomic_thread_fence(memory_order_seq_cst);
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
    const job j = ff_resample_job_of(host, params, height, width);
    if (r->bytes) {
        ff_resample_bytes_plain(r->bytes, &j, params, source, height, width, out);
        return;
    }
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
                if (r->scale) value = value * r->scale[c][0] + r->scale[c][1];
                size_t to = host->to_layout == FF_CHW
                                ? ((size_t)c * host->out_height + y) * host->out_width + x
                                : ((size_t)y * host->out_width + x) * host->channels + c;
                if (host->to == FF_U8)
                    ((uint8_t *)out)[to] = ff_change_nearest(value);
                else
                    ff_convert((uint8_t *)out + to * host->to_bytes, host->to, &value, FF_F32, 1);
            }
        }
    }
    ff_augment_cut(host, params, out);
}
