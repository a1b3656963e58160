#include "loader/gather.h"

#include "format/base/guard.h"
#include "loader/augment/resample.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Rows handled together: their index lines are asked for first, then their samples are found, then
 * read under one guard, each asking for the next one's lines meanwhile: random reads are bound by
 * the latency of memory, and the processor's own prefetcher knows neither where the next sample
 * begins nor the page behind. Few enough that what a first touch verified is still in the cache. */
#define CHUNK_ROWS  64
#define CHUNK_BYTES (512u << 10)
/* Larger samples the processor's prefetcher follows well enough. */
#define AHEAD_BYTES (16u << 10)

struct ff_gatherer {
    const ff_loader_plan *plan;
    ff_reader *reader;
    ff_resampler *resampler; /* NULL where samples keep their size */
    ff_order order;          /* of order_epoch */
    uint32_t order_epoch;
    bool order_ready;
    uint32_t chunk_rows;
    uint8_t *wide; /* [chunk_rows] rows that lie apart; else NULL */
    void *values;  /* a label as stored */
};

ff_status ff_gatherer_create(ff_gatherer **out, const ff_loader_plan *plan, ff_error *error) {
    ff_gatherer *gatherer;
    *out = NULL;
    FF_TRY(ff_alloc(&gatherer, 1, sizeof *gatherer, "a gatherer", error));
    gatherer->plan = plan;
    uint64_t rows =
        CHUNK_BYTES /
        (ff_metadata_slot_bytes(plan->metadata, plan->metadata->height, plan->metadata->width) + 1);
    /* Even: partners of a mixup stay together. */
    gatherer->chunk_rows = rows < 2 ? 2 : rows > CHUNK_ROWS ? CHUNK_ROWS : (uint32_t)(rows & ~1ul);
    ff_status status = ff_alloc(&gatherer->values, plan->label_values_limit, 1, "labels", error);
    if (status == FF_OK)
        status = plan->direct ? ff_reader_open_direct(&gatherer->reader, plan->dataset, error)
                              : ff_reader_open(&gatherer->reader, plan->dataset, error);
    if (status == FF_OK && plan->wide.apart)
        status = ff_alloc_aligned(&gatherer->wide, gatherer->chunk_rows, plan->wide.row_bytes, 0,
                                  "rows", error);
    if (status == FF_OK && !plan->raw && ff_augment_resamples(&plan->augment))
        status = ff_resampler_create(
            &gatherer->resampler, plan->wide.used ? &plan->wide.host : &plan->host,
            plan->wide.used ? &plan->wide.metadata : plan->metadata, error);
    if (status != FF_OK) ff_gatherer_destroy(&gatherer);
    *out = gatherer;
    return status;
}

void ff_gatherer_destroy(ff_gatherer **out) {
    if (!*out) return;
    ff_reader_close(&(*out)->reader);
    ff_resampler_destroy(&(*out)->resampler);
    free((*out)->wide);
    free((*out)->values);
    free(*out);
    *out = NULL;
}

/* Label `which` of `number` into row `row`. */
static ff_status gather_label(ff_gatherer *gatherer, size_t which, uint64_t number, uint32_t row,
                              uint8_t *memory, ff_error *error) {
    const ff_loader_plan *plan = gatherer->plan;
    size_t index = plan->field[which];
    const ff_field *field = &plan->metadata->field[index];
    uint8_t *values = memory + plan->label_offset[which];
    if (field->kind == FF_FIELD_CLASS) {
        int64_t value;
        FF_TRY(ff_dataset_class(plan->dataset, number, index, &value, error));
        if (value < INT32_MIN || value > INT32_MAX)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: sample %" PRIu64 ": class %" PRId64
                           " of field %s does not fit 32 bits",
                           ff_dataset_path(plan->dataset), number, value, field->name);
        ((int32_t *)(void *)values)[row] = (int32_t)value;
        return FF_OK;
    }
    FF_TRY(ff_reader_label(gatherer->reader, number, index, gatherer->values, error));
    ff_convert((float *)(void *)values + (uint64_t)row * field->width, FF_F32, gatherer->values,
               field->dtype, field->width);
    return FF_OK;
}

/* A sample that lies in a mapping, still to be read. */
typedef struct mapped_sample {
    const uint8_t *tensor; /* NULL: applied already */
    uint32_t height, width;
} mapped_sample;

/* Rows [first, first + count) of a slot. */
typedef struct chunk {
    ff_gatherer *gatherer;
    const ff_loader_place *place;
    uint8_t *memory;
    ff_slot_source *source;    /* by row */
    ff_augment_params *params; /* by row */
    uint32_t first, count;
    uint64_t number[CHUNK_ROWS];
    mapped_sample sample[CHUNK_ROWS];
    uint32_t found;            /* samples to read */
    volatile uint32_t reading; /* the one being read, for the error */
} chunk;

/* Where a row is made: in its place in the batch, or apart from it. */
static uint8_t *wide_row(const chunk *c, uint32_t i) {
    const ff_loader_plan *plan = c->gatherer->plan;
    return plan->wide.apart ? c->gatherer->wide + i * plan->wide.row_bytes
                            : c->memory + (c->first + i) * plan->row_bytes;
}

static void apply(const chunk *c, uint32_t i, const void *tensor, uint32_t height, uint32_t width,
                  const void *ahead) {
    const ff_loader_plan *plan = c->gatherer->plan;
    const uint32_t row = c->first + i;
    const ff_wide *wide = &plan->wide;
    const ff_augment_host *host = wide->used ? &wide->host : &plan->host;
    const ff_augment_params *params = &c->params[row];
    ff_augment_params uncut;
    if (wide->jitters) uncut = ff_wide_params(params), params = &uncut;
    uint8_t *out = wide_row(c, i);
    if (plan->raw)
        /* Stores past the cache were tried, of samples in random order (two Xeon cores, GB/s
         * against memcpy's): 3 KiB 6.4 of 9.0, 12 KiB 7.5 of 9.5, 64 KiB 15 of 15, 300 KiB 20.7 of
         * 18.1 with 32-byte stores, none with 16. memcpy decides for itself, and well enough. */
        memcpy(out, tensor, ff_metadata_tensor_bytes(plan->metadata, height, width));
    else if (c->gatherer->resampler)
        ff_resample(c->gatherer->resampler, params, tensor, height, width, out);
    else
        host->apply(host, params, tensor, height, width, out, ahead);
    if (wide->jitters) ff_wide_jitter(wide, &c->params[row], plan->seed, c->place->epoch, out);
}

/* Mixes the rows of a chunk, whose samples are all there, and stores what lies apart. */
static void finish(const chunk *c) {
    const ff_loader_plan *plan = c->gatherer->plan;
    const ff_wide *wide = &plan->wide;
    for (uint32_t i = 0; wide->mixes && i + 1 < c->count; i += 2)
        ff_wide_mix(wide, &c->params[c->first + i], wide_row(c, i), wide_row(c, i + 1));
    for (uint32_t i = 0; wide->apart && i < c->count; i++)
        ff_wide_store(wide, wide_row(c, i), c->memory + (c->first + i) * plan->row_bytes);
}

/* What becomes of a row: its parameters, weights, and its partner's number where it is mixed. */
static void set_row(chunk *c, uint32_t i, uint32_t height, uint32_t width) {
    const ff_loader_plan *plan = c->gatherer->plan;
    const uint32_t row = c->first + i;
    const uint64_t number = c->number[i];
    ff_slot_source *source = &c->source[row];
    *source = (ff_slot_source){.sample = {number, number}, .weight = {1, 0}};
    ((float *)(void *)(c->memory + plan->weight_offset))[row] = 1;
    if (plan->raw) return;
    ff_augment_params *params = &c->params[row];
    *params = ff_augment_at(&plan->augment, plan->seed, c->place->epoch, number, height, width,
                            plan->height, plan->width);
    if (!plan->wide.mixes) return;
    if ((row ^ 1) < c->place->count)
        ff_augment_mix(&plan->augment, params, plan->seed, c->place->epoch,
                       (c->place->position + (row & ~1u)) / 2, plan->height, plan->width);
    ((float *)(void *)(c->memory + plan->mix_offset))[row] = params->weight;
    if (params->weight == 1) return;
    source->sample[1] = c->number[i ^ 1]; /* chunks begin at even rows */
    source->weight[0] = params->weight;
    source->weight[1] = 1 - params->weight;
}

/* Everything about one row but the reading of a mapped tensor. */
static ff_status find_sample(chunk *c, uint32_t i, ff_error *error) {
    const ff_loader_plan *plan = c->gatherer->plan;
    uint32_t row = c->first + i;
    uint64_t number = c->number[i];
    ff_view view;
    FF_TRY(ff_reader_sample(c->gatherer->reader, number, &view, error));
    if (plan->metadata->variable_size) {
        ff_status status = ff_augment_check(&plan->augment, view.height, view.width, plan->height,
                                            plan->width, error);
        if (status != FF_OK)
            return ff_fail_within(error, status, "%s: sample %" PRIu64,
                                  ff_dataset_path(plan->dataset), number);
    }
    set_row(c, i, view.height, view.width);
    if (c->gatherer->resampler)
        FF_TRY(ff_resampler_reserve(c->gatherer->resampler, &c->params[row], view.height,
                                    view.width, error));
    c->sample[i] = (mapped_sample){view.mapped ? view.tensor : NULL, view.height, view.width};
    if (!view.mapped) apply(c, i, view.tensor, view.height, view.width, NULL);
    for (size_t k = 0; k < plan->label_count; k++)
        FF_TRY(gather_label(c->gatherer, k, number, row, c->memory, error));
    return FF_OK;
}

/* Runs under the guard. */
static void read_samples(void *context) {
    chunk *c = context;
    const ff_metadata *metadata = c->gatherer->plan->metadata;
    bool ask = !metadata->variable_size &&
               ff_metadata_tensor_bytes(metadata, metadata->height, metadata->width) <= AHEAD_BYTES;
    for (uint32_t i = 0; i < c->found; i++) {
        const mapped_sample *sample = &c->sample[i];
        c->reading = i;
        if (sample->tensor)
            apply(c, i, sample->tensor, sample->height, sample->width,
                  ask && i + 1 < c->found ? sample[1].tensor : NULL);
    }
}

static void pad_row(const ff_loader_plan *plan, uint32_t row, uint8_t *memory,
                    ff_slot_source *source, ff_augment_params *params) {
    if (!plan->raw) memset(memory + row * plan->row_bytes, 0, plan->row_bytes);
    ((float *)(void *)(memory + plan->weight_offset))[row] = 0;
    if (plan->wide.mixes) ((float *)(void *)(memory + plan->mix_offset))[row] = 1;
    source[row] = (ff_slot_source){.padding = true};
    if (!plan->raw) params[row] = (ff_augment_params){0};
    for (size_t i = 0; i < plan->label_count; i++) {
        const ff_field *field = &plan->metadata->field[plan->field[i]];
        uint8_t *values = memory + plan->label_offset[i];
        if (field->kind == FF_FIELD_CLASS)
            ((int32_t *)(void *)values)[row] = -1;
        else
            memset(values + (uint64_t)row * field->width * 4, 0, (uint64_t)field->width * 4);
    }
}

ff_status ff_gather(ff_gatherer *gatherer, const ff_loader_place *place, uint8_t *memory,
                    ff_slot_source *source, ff_augment_params *params, uint32_t begin, uint32_t end,
                    uint32_t *failed_row, ff_error *error) {
    const ff_loader_plan *plan = gatherer->plan;
    if (!gatherer->order_ready || gatherer->order_epoch != place->epoch) {
        ff_order_init(&gatherer->order, &plan->order, place->epoch);
        gatherer->order_epoch = place->epoch;
        gatherer->order_ready = true;
    }
    uint32_t filled = end < place->count ? end : place->count;
    for (uint32_t row = begin; row < filled; row += gatherer->chunk_rows) {
        chunk c = {.gatherer = gatherer,
                   .place = place,
                   .memory = memory,
                   .source = source,
                   .params = params,
                   .first = row};
        c.count = filled - row < gatherer->chunk_rows ? filled - row : gatherer->chunk_rows;
        for (uint32_t i = 0; i < c.count; i++) {
            uint64_t number = ff_order_at(&gatherer->order, place->position + row + i);
            if (plan->sample_of_place) number = plan->sample_of_place[number];
            ff_dataset_prefetch(plan->dataset, number);
            c.number[i] = number;
        }
        ff_status status = FF_OK;
        while (c.found < c.count && status == FF_OK) {
            *failed_row = row + c.found;
            status = find_sample(&c, c.found, error);
            if (status == FF_OK) c.found++;
        }
        const void *fault = ff_guard_run(read_samples, &c);
        if (fault) { /* of a lower row than the one that was not found */
            *failed_row = row + c.reading;
            if (fault == &c) fault = c.sample[c.reading].tensor; /* address unknown */
            return ff_dataset_fault(plan->dataset, fault, error);
        }
        FF_TRY(status);
        if (plan->wide.used) finish(&c);
    }
    for (uint32_t row = begin > place->count ? begin : place->count; row < end; row++)
        pad_row(plan, row, memory, source, params);
    return FF_OK;
}
