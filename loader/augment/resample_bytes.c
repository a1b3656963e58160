#include "loader/augment/resample_bytes.h"

#include "format/base/compiler.h"
#include "loader/augment/resample_fixed.h"

#include <string.h>

enum { LANES = FF_RESAMPLE_LANES, TOGETHER = FF_RESAMPLE_BYTES };

/* The windows and weights of an axis' outputs, in blocks of LANES. */
typedef struct plan {
    ff_fixed_axis axis;
    uint32_t precision, blocks;
    uint32_t (*first)[LANES]; /* [blocks] */
    uint32_t *taps;           /* [blocks]: the most inputs of an output */
    ff_resample_array share;  /* [blocks][axis.most][lanes] f64 */
} plan;

struct ff_resample_bytes {
    const ff_augment_host *host;
    plan across, down;
    ff_resample_byte_block *block; /* [across.blocks]; their weights are in the next */
    ff_resample_array weight;      /* [blocks][pairs][lanes][2] i16 */
    size_t padded;                 /* the blocks of an output row, rounded up to TOGETHER */
    size_t row_bytes;              /* channels * padded */
    ff_resample_array source;      /* [channels][box width + beyond]: one row in planes */
    ff_resample_array ring; /* [ring_rows][row_bytes]: source row r is in slot r % ring_rows */
    ff_resample_array rows; /* [pairs][2] the rows of one output */
    ff_resample_array pair; /* [pairs][2] i16: their weights */
    uint8_t *row;           /* [row_bytes]: one row of the output, in planes */
};

/* Pairs of inputs of an axis, with a place for an input after its end if their number is odd. */
static uint32_t pairs_of(const ff_fixed_axis *axis) {
    return (axis->most + 1) / 2;
}

/* ---- memory --------------------------------------------------------------------------------- */

static ff_status create_plan(plan *p, uint32_t outputs, ff_error *error) {
    p->blocks = (outputs + LANES - 1) / LANES;
    FF_TRY(ff_alloc(&p->first, p->blocks, sizeof *p->first, "resampling", error));
    return ff_alloc(&p->taps, p->blocks, sizeof *p->taps, "resampling", error);
}

static void free_plan(plan *p) {
    free(p->first);
    free(p->taps);
    free(p->share.memory);
}

static ff_status reserve_plan(plan *p, const ff_fixed_axis *axis, ff_error *error) {
    return ff_resample_grow(&p->share, (uint64_t)p->blocks * LANES, axis->most * sizeof(double),
                            error);
}

ff_status ff_resample_bytes_create(ff_resample_bytes **out, const ff_augment_host *host,
                                   ff_error *error) {
    ff_resample_bytes *b;
    ff_status status;
    FF_TRY(ff_alloc(&b, 1, sizeof *b, "a resampler", error));
    b->host = host;
    b->padded = ff_align_u64(host->out_width, TOGETHER);
    b->row_bytes = host->channels * b->padded;
    FF_TRY_DONE(create_plan(&b->across, host->out_width, error));
    FF_TRY_DONE(create_plan(&b->down, host->out_height, error));
    FF_TRY_DONE(ff_alloc(&b->block, b->across.blocks, sizeof *b->block, "resampling", error));
    FF_TRY_DONE(ff_alloc_aligned(&b->row, b->row_bytes, 1, 0, "resampling", error));
done:
    if (status != FF_OK) ff_resample_bytes_destroy(&b);
    *out = b;
    return status;
}

void ff_resample_bytes_destroy(ff_resample_bytes **bytes) {
    ff_resample_bytes *b = *bytes;
    if (!b) return;
    free_plan(&b->across);
    free_plan(&b->down);
    free(b->block);
    free(b->weight.memory);
    free(b->source.memory);
    free(b->ring.memory);
    free(b->rows.memory);
    free(b->pair.memory);
    free(b->row);
    free(b);
    *bytes = NULL;
}

ff_status ff_resample_bytes_reserve(ff_resample_bytes *b, const ff_resample_job *job,
                                    ff_error *error) {
    const ff_fixed_axis across = ff_fixed_axis_of(job->width, job->to_width);
    const ff_fixed_axis down = ff_fixed_axis_of(job->height, job->to_height);
    const uint64_t rows = 2ul * pairs_of(&down), columns = 2ul * pairs_of(&across);
    FF_TRY(reserve_plan(&b->across, &across, error));
    FF_TRY(reserve_plan(&b->down, &down, error));
    FF_TRY(ff_resample_grow(&b->weight, (uint64_t)b->across.blocks * LANES,
                            columns * sizeof(int16_t), error));
    FF_TRY(ff_resample_grow(&b->source, b->host->channels, job->width + FF_RESAMPLE_BEYOND, error));
    FF_TRY(ff_resample_grow(&b->ring, rows, b->row_bytes, error));
    FF_TRY(ff_resample_grow(&b->rows, rows, sizeof(const uint8_t *), error));
    return ff_resample_grow(&b->pair, rows, sizeof(int16_t), error);
}

/* ---- weights -------------------------------------------------------------------------------- */

/* The windows and weights of LANES outputs, as resample_fixed.h has them; share: [most][lanes].
 * Returns the most inputs of one. */
FF_CLONES static uint32_t weigh_lanes(const ff_fixed_axis *axis, const uint32_t at[LANES],
                                      double *restrict share, uint32_t first[LANES]) {
    double center[LANES], sum[LANES] = {0};
    int32_t begin[LANES], end[LANES], most = 1;
    const int32_t in = (int32_t)axis->in;
    for (int i = 0; i < LANES; i++) {
        center[i] = axis->scale * (at[i] + 0.5);
        begin[i] = (int32_t)(center[i] - axis->support + 0.5);
        end[i] = (int32_t)(center[i] + axis->support + 0.5);
        begin[i] = begin[i] < 0 ? 0 : begin[i];
        end[i] = end[i] > in ? in : end[i];
        first[i] = (uint32_t)begin[i];
    }
    for (int i = 0; i < LANES; i++) most = end[i] - begin[i] > most ? end[i] - begin[i] : most;
    for (int32_t k = 0; k < most; k++) {
        double *restrict raw = share + (size_t)k * LANES;
        for (int i = 0; i < LANES; i++) {
            const double away = ((double)(begin[i] + k) - center[i] + 0.5) * axis->shrink;
            const double value = 1 - (away < 0 ? -away : away);
            raw[i] = value > 0 && k < end[i] - begin[i] ? value : 0;
            sum[i] += raw[i];
        }
    }
    for (int32_t k = 0; k < most; k++)
        for (int i = 0; i < LANES; i++) share[(size_t)k * LANES + (size_t)i] /= sum[i];
    return (uint32_t)most;
}

FF_CLONES static double largest_of(const double *share, size_t count) {
    double largest[LANES] = {0};
    for (size_t k = 0; k < count; k += LANES)
        for (size_t i = 0; i < LANES; i++)
            largest[i] = share[k + i] > largest[i] ? share[k + i] : largest[i];
    for (int i = 1; i < LANES; i++) largest[0] = largest[i] > largest[0] ? largest[i] : largest[0];
    return largest[0];
}

/* Also of outputs that are not shown. */
static double largest_of_axis(const plan *p) {
    double largest = 0;
    for (uint32_t at = 0; at < p->axis.out; at++) {
        const double one = ff_fixed_largest(&p->axis, at);
        largest = one > largest ? one : largest;
    }
    return largest;
}

/* The windows and shares of the outputs at[0] on, of which the last is repeated. step: from one
 * output to the next, 1 or -1. */
static void make_plan(plan *p, uint32_t at, int32_t step, uint32_t outputs) {
    const bool reduced = p->axis.scale > 1, whole = p->axis.out == outputs;
    double largest = reduced && !whole ? largest_of_axis(p) : 1;
    if (reduced && whole) largest = 0;
    for (uint32_t b = 0; b < p->blocks; b++) {
        double *share = (double *)p->share.memory + (size_t)b * p->axis.most * LANES;
        uint32_t lane[LANES];
        for (uint32_t i = 0; i < LANES; i++) {
            const uint32_t line = b * LANES + i < outputs ? b * LANES + i : outputs - 1;
            lane[i] = at + (uint32_t)step * line;
        }
        p->taps[b] = weigh_lanes(&p->axis, lane, share, p->first[b]);
        if (reduced && whole) {
            const double own = largest_of(share, (size_t)p->taps[b] * LANES);
            largest = own > largest ? own : largest;
        }
    }
    p->precision = ff_fixed_precision(largest);
}

/* Weights in pairs of inputs, all of which are within the axis, except one after its end if the
 * axis has fewer: windows that would end later begin earlier, with weights of 0. */
FF_CLONES static void pair_block(const plan *p, uint32_t b, ff_resample_byte_block *block) {
    const double *share = (const double *)p->share.memory + (size_t)b * p->axis.most * LANES;
    const double unit = 1 << p->precision;
    const uint32_t *first = p->first[b], taps = p->taps[b], whole = (taps + 1) / 2 * 2;
    const uint32_t latest = p->axis.in > whole ? p->axis.in - whole : 0;
    uint32_t base = UINT32_MAX, end = 0;
    block->pairs = whole / 2;
    memset(block->weight, 0, (size_t)whole * LANES * sizeof *block->weight);
    for (uint32_t i = 0; i < LANES; i++) {
        const uint32_t early = first[i] > latest ? first[i] - latest : 0, at = first[i] - early;
        for (uint32_t k = 0; k < taps && k + early < whole; k++)
            block->weight[((k + early) / 2 * LANES + i) * 2 + (k + early) % 2] =
                (int16_t)(0.5 + share[k * LANES + i] * unit);
        block->index[i] = at;
        base = at < base ? at : base;
        end = at + whole > end ? at + whole : end;
    }
    for (uint32_t i = 0; i < LANES; i++) block->index[i] -= base;
    block->base = base;
    block->span = end - base;
}

/* Whether the block's outputs are blends, and how. A sum of 2^14 is that of the precision 14 alone.
 * Outputs of two inputs are of an axis that is not reduced, or hardly: eight of them read no more
 * than 16 bytes. */
static ff_resample_blend blend_of(const ff_resample_byte_block *block) {
    const uint32_t *place = block->fours.place;
    ff_resample_blend blend = {.whole = block->pairs == 1};
    for (uint32_t i = 0; i < LANES && blend.whole; i++) {
        const int32_t first = block->weight[2 * i], second = block->weight[2 * i + 1];
        blend.whole = first + second == FF_FIXED_WHOLE;
        blend.a[2 * i] = (uint8_t)(place[i] + (second == FF_FIXED_WHOLE));
        blend.b[2 * i] = (uint8_t)(place[i] + 1);
        blend.a[2 * i + 1] = blend.b[2 * i + 1] = 0x80; /* the high byte of a word: 0 */
        blend.share[i] = (int16_t)(2 * second);
    }
    return blend;
}

static void make_plans(ff_resample_bytes *b, const ff_resample_kernels *kernels,
                       const ff_resample_job *job) {
    const ff_augment_host *host = b->host;
    b->across.axis = ff_fixed_axis_of(job->width, job->to_width);
    b->down.axis = ff_fixed_axis_of(job->height, job->to_height);

    const size_t stride = pairs_of(&b->across.axis) * 2ul * LANES;
    make_plan(&b->across, ff_resample_job_column(job, host, 0), job->flip ? -1 : 1,
              host->out_width);
    make_plan(&b->down, job->top, 1, host->out_height);
    for (uint32_t i = 0; i < b->across.blocks; i++) {
        b->block[i].weight = (int16_t *)b->weight.memory + i * stride;
        pair_block(&b->across, i, &b->block[i]);
        if (!kernels->by_fours) continue;
        b->block[i].fours = ff_resample_fours_of(b->block[i].index);
        b->block[i].blend = blend_of(&b->block[i]);
    }
}

/* ---- rows ----------------------------------------------------------------------------------- */

FF_FMA_CLONES static void split_3(uint8_t *restrict to, size_t stride, const uint8_t *restrict from,
                                  size_t pixels) {
    uint8_t *restrict second = to + stride, *restrict third = second + stride;
    for (size_t x = 0; x < pixels; x++) {
        to[x] = from[3 * x];
        second[x] = from[3 * x + 1];
        third[x] = from[3 * x + 2];
    }
}
FF_FMA_CLONES static void join_3(uint8_t *restrict to, const uint8_t *restrict from, size_t stride,
                                 size_t pixels) {
    const uint8_t *restrict second = from + stride, *restrict third = second + stride;
    for (size_t x = 0; x < pixels; x++) {
        to[3 * x] = from[x];
        to[3 * x + 1] = second[x];
        to[3 * x + 2] = third[x];
    }
}

const uint8_t *ff_resample_planes_u8(const ff_augment_host *host, const ff_resample_job *job,
                                     const uint8_t *source, uint32_t height, uint32_t width,
                                     uint32_t y, uint8_t *planes, size_t *stride) {
    const uint32_t channels = host->channels;
    const size_t plane = (size_t)height * width, at = (size_t)(job->y + y) * width + job->x;
    const bool planar = host->from_layout == FF_CHW || channels == 1;
    for (uint32_t c = 0; c < channels && planar; c++)
        ff_augment_ask(source + c * plane + at, job->width);
    if (!planar) ff_augment_ask(source + at * channels, job->width * (size_t)channels);
    *stride = plane;
    if (planar && at + job->width + FF_RESAMPLE_BEYOND <= plane) return source + at;
    *stride = job->width + FF_RESAMPLE_BEYOND;
    if (!planar && channels == 3) {
        split_3(planes, *stride, source + at * 3, job->width);
        return planes;
    }
    for (uint32_t c = 0; c < channels; c++) {
        uint8_t *to = planes + c * *stride;
        if (planar)
            memcpy(to, source + c * plane + at, job->width);
        else
            for (size_t x = 0; x < job->width; x++) to[x] = source[(at + x) * channels + c];
    }
    return planes;
}

/* Interleaves the planes of b->row into row `y` of the output. */
static void join_row(const ff_resample_bytes *b, uint32_t y, uint8_t *out) {
    const size_t width = b->host->out_width, channels = b->host->channels;
    out += y * width * channels;
    if (channels == 3) {
        join_3(out, b->row, b->padded, width);
        return;
    }
    for (size_t x = 0; x < width; x++)
        for (size_t c = 0; c < channels; c++) out[x * channels + c] = b->row[c * b->padded + x];
}

/* Row `y` of the output, from the rows in b->rows. */
static void write_row(const ff_resample_bytes *b, const ff_resample_kernels *kernels, uint32_t taps,
                      uint32_t y, uint8_t *out) {
    const ff_augment_host *host = b->host;
    const bool planar = host->to_layout == FF_CHW || host->channels == 1;
    const size_t width = host->out_width;
    for (size_t c = 0; c < host->channels; c++)
        kernels->down_bytes(planar ? out + (c * host->out_height + y) * width
                                   : b->row + c * b->padded,
                            b->rows.memory, c * b->padded, b->pair.memory, (taps + 1) / 2,
                            b->down.precision, width);
    if (!planar) join_row(b, y, out);
}

/* The rows that output `line` reads: *first and their number. Their weights are in b->pair. */
static uint32_t weigh_line(ff_resample_bytes *b, uint32_t line, uint32_t *first) {
    const plan *p = &b->down;
    const uint32_t block = line / LANES, lane = line % LANES;
    const double *share =
        (const double *)p->share.memory + (size_t)block * p->axis.most * LANES + lane;
    const double unit = 1 << p->precision;
    int16_t *weight = b->pair.memory;
    uint32_t taps = 0;
    for (uint32_t k = 0; k < p->taps[block]; k++) {
        weight[k] = (int16_t)(0.5 + share[k * LANES] * unit);
        if (weight[k]) taps = k + 1;
    }
    *first = p->first[block][lane];
    if (taps % 2) weight[taps] = 0;
    return taps;
}

void ff_resample_bytes_run(ff_resample_bytes *b, const ff_resample_kernels *kernels,
                           const ff_resample_job *job, const ff_augment_params *params,
                           const uint8_t *source, uint32_t height, uint32_t width, uint8_t *out) {
    const ff_augment_host *host = b->host;
    make_plans(b, kernels, job);
    const uint32_t ring_rows = 2 * pairs_of(&b->down.axis);
    const uint8_t **row = b->rows.memory;
    uint32_t ready = 0; /* rows before this one have been in the ring */
    for (uint32_t y = 0; y < host->out_height; y++) {
        uint32_t first;
        const uint32_t taps = weigh_line(b, y, &first);
        if (ready < first) ready = first;
        for (; ready < first + taps; ready++) {
            size_t stride;
            const uint8_t *from = ff_resample_planes_u8(host, job, source, height, width, ready,
                                                        b->source.memory, &stride);
            kernels->across_bytes(
                b->block, b->across.blocks, b->across.precision, from, stride, host->channels,
                (uint8_t *)b->ring.memory + ready % ring_rows * b->row_bytes, b->padded);
        }
        for (uint32_t k = 0; k < taps + taps % 2; k++) {
            const uint32_t line = first + (k < taps ? k : taps - 1);
            row[k] = (const uint8_t *)b->ring.memory + line % ring_rows * b->row_bytes;
        }
        write_row(b, kernels, taps, ff_augment_line(params, y, host->out_height), out);
    }
}

/* ---- the plain version ---------------------------------------------------------------------- */

/* A value between the axes: row y of the box, resampled across. */
static uint8_t plain_across(const ff_resample_bytes *b, const ff_resample_job *job,
                            const uint8_t *source, const size_t size[2], const size_t place[2],
                            uint32_t precision, const ff_fixed_window *window) {
    const bool planar = b->host->from_layout == FF_CHW;
    const size_t y = job->y + place[0], channel = place[1];
    int32_t sum = 0;
    for (uint32_t k = 0; k < window->count; k++) {
        const size_t x = job->x + window->first + k;
        const size_t at = planar ? (channel * size[0] + y) * size[1] + x
                                 : (y * size[1] + x) * b->host->channels + channel;
        const double share = ff_fixed_share(&b->across.axis, window, k);
        sum += ff_fixed_weight(share, precision) * source[at];
    }
    return ff_fixed_value(sum, precision);
}

void ff_resample_bytes_plain(ff_resample_bytes *b, const ff_resample_job *job,
                             const ff_augment_params *params, const uint8_t *source,
                             uint32_t height, uint32_t width, uint8_t *out) {
    const ff_augment_host *host = b->host;
    b->across.axis = ff_fixed_axis_of(job->width, job->to_width);
    b->down.axis = ff_fixed_axis_of(job->height, job->to_height);
    const uint32_t across = ff_fixed_precision(largest_of_axis(&b->across));
    const uint32_t down = ff_fixed_precision(largest_of_axis(&b->down));
    for (uint32_t y = 0; y < host->out_height; y++) {
        const uint32_t line = ff_augment_line(params, y, host->out_height);
        const ff_fixed_window rows = ff_fixed_window_of(&b->down.axis, job->top + line);
        for (uint32_t x = 0; x < host->out_width; x++) {
            const ff_fixed_window columns =
                ff_fixed_window_of(&b->across.axis, ff_resample_job_column(job, host, x));
            for (uint32_t c = 0; c < host->channels; c++) {
                int32_t sum = 0;
                for (uint32_t k = 0; k < rows.count; k++) {
                    const uint8_t value =
                        plain_across(b, job, source, (size_t[]){height, width},
                                     (size_t[]){rows.first + k, c}, across, &columns);
                    sum += ff_fixed_weight(ff_fixed_share(&b->down.axis, &rows, k), down) * value;
                }
                const size_t to = host->to_layout == FF_CHW
                                      ? ((size_t)c * host->out_height + y) * host->out_width + x
                                      : ((size_t)y * host->out_width + x) * host->channels + c;
                out[to] = ff_fixed_value(sum, down);
            }
        }
    }
}
