#include "loader/gather.h"

#include "format/base/guard.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Rows handled together: their samples are found first, so that the addresses are known ahead of
 * the reading, and small enough that what a first touch verified is still in the cache. */
#define CHUNK_ROWS  32
#define CHUNK_BYTES (512u << 10)

struct ff_gatherer {
    const ff_plan *plan;
    ff_reader *reader;
    ff_order order; /* of order_epoch */
    uint32_t order_epoch;
    bool order_ready;
    uint32_t chunk_rows;
    void *values; /* a label as stored */
};

ff_status ff_gatherer_create(ff_gatherer **out, const ff_plan *plan, ff_error *error) {
    ff_gatherer *gatherer;
    *out = NULL;
    FF_TRY(ff_alloc(&gatherer, 1, sizeof *gatherer, "a gatherer", error));
    gatherer->plan = plan;
    uint64_t sample =
        ff_metadata_slot_bytes(plan->metadata, plan->metadata->height, plan->metadata->width);
    uint64_t rows = CHUNK_BYTES / (sample + plan->row_bytes + 1);
    gatherer->chunk_rows = rows < 1 ? 1 : rows > CHUNK_ROWS ? CHUNK_ROWS : (uint32_t)rows;
    ff_status status = ff_alloc(&gatherer->values, plan->label_values_limit, 1, "labels", error);
    if (status == FF_OK) status = ff_reader_open(&gatherer->reader, plan->dataset, error);
    if (status != FF_OK) ff_gatherer_destroy(&gatherer);
    *out = gatherer;
    return status;
}

void ff_gatherer_destroy(ff_gatherer **out) {
    if (!*out) return;
    ff_reader_close(&(*out)->reader);
    free((*out)->values);
    free(*out);
    *out = NULL;
}

/* A sample that lies in a mapping, to be read under the guard. */
typedef struct mapped_sample {
    const uint8_t *tensor;
    uint32_t row, height, width;
} mapped_sample;

typedef struct mapped_chunk {
    const ff_augment_host *host;
    const ff_augment_params *params; /* by row */
    uint8_t *data;
    uint64_t row_bytes, tensor_bytes;
    uint32_t count;
    volatile uint32_t at; /* the sample being read, for the error */
    mapped_sample sample[CHUNK_ROWS];
} mapped_chunk;

static void apply_mapped(void *context) {
    mapped_chunk *chunk = context;
    const ff_augment_host *host = chunk->host;
    for (uint32_t i = 0; i < chunk->count; i++) {
        const mapped_sample *sample = &chunk->sample[i];
        chunk->at = i;
        host->apply(host, &chunk->params[sample->row], sample->tensor, sample->height,
                    sample->width, chunk->data + sample->row * chunk->row_bytes);
    }
}

/* Label `which` of `number` into row `row`. */
static ff_status gather_label(ff_gatherer *gatherer, size_t which, uint64_t number, uint32_t row,
                              uint8_t *memory, ff_error *error) {
    const ff_plan *plan = gatherer->plan;
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

/* Everything about one row but the reading of a mapped tensor, which is put off. */
static ff_status gather_row(ff_gatherer *gatherer, const ff_plan_place *place, uint32_t row,
                            uint8_t *memory, ff_slot_source *source, ff_augment_params *params,
                            mapped_chunk *chunk, ff_error *error) {
    const ff_plan *plan = gatherer->plan;
    uint64_t number = ff_order_at(&gatherer->order, place->position + row);
    if (plan->sample_of_place) number = plan->sample_of_place[number];
    ff_view view;
    FF_TRY(ff_reader_sample(gatherer->reader, number, &view, error));
    if (plan->metadata->variable_size) {
        ff_status status = ff_augment_check(&plan->augment, view.height, view.width, plan->height,
                                            plan->width, error);
        if (status != FF_OK)
            return ff_fail_within(error, status, "%s: sample %" PRIu64,
                                  ff_dataset_path(plan->dataset), number);
    }
    params[row] = ff_augment_at(&plan->augment, plan->seed, place->epoch, number, view.height,
                                view.width, plan->height, plan->width);
    source[row] = (ff_slot_source){.sample = {number, number}, .weight = {1, 0}};
    ((float *)(void *)(memory + plan->weight_offset))[row] = 1;
    if (view.mapped)
        chunk->sample[chunk->count++] = (mapped_sample){view.tensor, row, view.height, view.width};
    else
        plan->host.apply(&plan->host, &params[row], view.tensor, view.height, view.width,
                         memory + row * plan->row_bytes);
    for (size_t i = 0; i < plan->label_count; i++)
        FF_TRY(gather_label(gatherer, i, number, row, memory, error));
    return FF_OK;
}

static void pad_row(const ff_plan *plan, uint32_t row, uint8_t *memory, ff_slot_source *source,
                    ff_augment_params *params) {
    memset(memory + row * plan->row_bytes, 0, plan->row_bytes);
    ((float *)(void *)(memory + plan->weight_offset))[row] = 0;
    source[row] = (ff_slot_source){.padding = true};
    params[row] = (ff_augment_params){0};
    for (size_t i = 0; i < plan->label_count; i++) {
        const ff_field *field = &plan->metadata->field[plan->field[i]];
        uint8_t *values = memory + plan->label_offset[i];
        if (field->kind == FF_FIELD_CLASS)
            ((int32_t *)(void *)values)[row] = -1;
        else
            memset(values + (uint64_t)row * field->width * 4, 0, (uint64_t)field->width * 4);
    }
}

ff_status ff_gather(ff_gatherer *gatherer, const ff_plan_place *place, uint8_t *memory,
                    ff_slot_source *source, ff_augment_params *params, uint32_t begin, uint32_t end,
                    uint32_t *failed_row, ff_error *error) {
    const ff_plan *plan = gatherer->plan;
    if (!gatherer->order_ready || gatherer->order_epoch != place->epoch) {
        ff_order_init(&gatherer->order, &plan->order, place->epoch);
        gatherer->order_epoch = place->epoch;
        gatherer->order_ready = true;
    }
    mapped_chunk chunk = {
        .host = &plan->host, .params = params, .data = memory, .row_bytes = plan->row_bytes};
    uint32_t filled = end < place->count ? end : place->count;
    for (uint32_t row = begin; row < filled;) {
        uint32_t behind = filled - row < gatherer->chunk_rows ? filled : row + gatherer->chunk_rows;
        ff_status status = FF_OK;
        chunk.count = 0;
        for (; row < behind && status == FF_OK; row++) {
            *failed_row = row;
            status = gather_row(gatherer, place, row, memory, source, params, &chunk, error);
        }
        /* One guard for the whole chunk: it costs nothing, and the fault names its sample. */
        const void *fault = chunk.count ? ff_guard_run(apply_mapped, &chunk) : NULL;
        if (fault) {
            *failed_row = chunk.sample[chunk.at].row;
            if (fault == &chunk) fault = chunk.sample[chunk.at].tensor; /* address unknown */
            return ff_dataset_fault(plan->dataset, fault, error);
        }
        FF_TRY(status);
    }
    for (uint32_t row = begin > place->count ? begin : place->count; row < end; row++)
        pad_row(plan, row, memory, source, params);
    return FF_OK;
}
