#include "loader/host/gather.h"

#include "format/base/guard.h"
#include "loader/augment/resample.h"
#include "loader/host/past_caches.h"
#include "loader/host/rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Rows handled together: first their index lines are prefetched, then their samples are located
 * (and those that are verified prefetched), then read under one guard, each read prefetching the
 * next sample. Random reads are bound by
 * memory latency, and the hardware prefetcher knows neither where the next sample begins nor the
 * next page. Few enough that samples verified on first touch are still in the cache. */
#define CHUNK_ROWS  64
#define CHUNK_BYTES (512u << 10)
/* For larger samples the hardware prefetcher is good enough. */
#define AHEAD_BYTES (16u << 10)

/* What makes the rows of a view. Views of one group have the same resampler and images. */
typedef struct row_maker {
    const ff_loader_settings *settings; /* the group's */
    const ff_augment_host *host;
    ff_resampler *resampler; /* NULL if samples keep their size */
    bool alters;             /* rows are altered after they are made (ff_finish_alters) */
    uint8_t *images;         /* images of u8, if samples are changed; else NULL */
    uint8_t *apart;  /* [chunk_rows] rows in a separate buffer (ff_finish.apart); else NULL */
    uint64_t offset; /* of the view's rows in a slot */
} row_maker;

struct ff_gatherer {
    const ff_loader_settings *settings;
    ff_reader *reader;
    ff_rows rows;
    ff_ahead_cursor ahead;
    uint32_t chunk_rows;
    row_maker *maker; /* [settings->views] */
    void *values;     /* a label as stored */
};

static ff_status create_maker(ff_gatherer *gatherer, uint32_t v, ff_error *error) {
    const ff_loader_settings *settings = ff_loader_settings_of_view(gatherer->settings, v);
    const ff_finish *finish = &settings->finish;
    row_maker *maker = &gatherer->maker[v];
    maker->settings = settings;
    maker->host = finish->used ? ff_finish_maker(finish) : &settings->host;
    maker->alters = ff_finish_alters(finish);
    maker->offset = gatherer->settings->view[v].offset;
    if (finish->apart)
        FF_TRY(ff_alloc_aligned(&maker->apart, gatherer->chunk_rows, finish->row_bytes, 0, "rows",
                                error));
    if (v > settings->first_view) {
        maker->resampler = maker[-1].resampler;
        maker->images = maker[-1].images;
        return FF_OK;
    }
    if (finish->changes)
        FF_TRY(ff_alloc_aligned(&maker->images, finish->image_bytes, 1, 0, "images", error));
    if (settings->raw || !ff_augment_resamples(&settings->augment)) return FF_OK;
    return ff_resampler_create(&maker->resampler, maker->host,
                               finish->used ? &finish->metadata : settings->metadata, error);
}

static void destroy_maker(row_maker *maker, uint32_t v) {
    free(maker->apart);
    if (!maker->settings || v > maker->settings->first_view) return;
    ff_resampler_destroy(&maker->resampler);
    free(maker->images);
}

ff_status ff_gatherer_create(ff_gatherer **out, const ff_loader_settings *settings, ff_ahead *ahead,
                             ff_error *error) {
    ff_gatherer *gatherer;
    *out = NULL;
    FF_TRY(ff_alloc(&gatherer, 1, sizeof *gatherer, "a gatherer", error));
    gatherer->settings = settings;
    gatherer->rows.settings = settings;
    gatherer->ahead.ahead = ahead;
    uint64_t rows =
        CHUNK_BYTES / (ff_metadata_slot_bytes(settings->metadata, settings->metadata->height,
                                              settings->metadata->width) +
                       1);
    /* Even: partners of a mixup stay together. */
    gatherer->chunk_rows = rows < 2 ? 2 : rows > CHUNK_ROWS ? CHUNK_ROWS : (uint32_t)(rows & ~1ul);
    ff_status status;
    FF_TRY_DONE(ff_alloc(&gatherer->values, settings->label_values_limit, 1, "labels", error));
    FF_TRY_DONE(settings->direct
                    ? ff_reader_open_direct(&gatherer->reader, settings->dataset, error)
                    : ff_reader_open(&gatherer->reader, settings->dataset, error));
    if (ahead) ff_reader_look_first(gatherer->reader, ff_ahead_find, &gatherer->ahead);
    FF_TRY_DONE(
        ff_alloc(&gatherer->maker, settings->views, sizeof *gatherer->maker, "views", error));
    for (uint32_t v = 0; v < settings->views; v++) FF_TRY_DONE(create_maker(gatherer, v, error));
done:
    if (status != FF_OK) ff_gatherer_destroy(&gatherer);
    *out = gatherer;
    return status;
}

void ff_gatherer_destroy(ff_gatherer **out) {
    ff_gatherer *gatherer = *out;
    if (!gatherer) return;
    ff_reader_close(&gatherer->reader);
    for (uint32_t v = 0; gatherer->maker && v < gatherer->settings->views; v++)
        destroy_maker(&gatherer->maker[v], v);
    free(gatherer->maker);
    free(gatherer->values);
    free(gatherer);
    *out = NULL;
}

/* Label `which` of `number` into row `row`. */
static ff_status gather_label(ff_gatherer *gatherer, size_t which, uint64_t number, uint32_t row,
                              uint8_t *memory, ff_error *error) {
    const ff_loader_settings *settings = gatherer->settings;
    size_t index = settings->field[which];
    const ff_field *field = &settings->metadata->field[index];
    uint8_t *values = memory + settings->label_offset[which];
    if (field->kind == FF_FIELD_CLASS) {
        int64_t value;
        FF_TRY(ff_dataset_class(settings->dataset, number, index, &value, error));
        if (settings->class_numbers && value >= 0 && value < settings->class_count)
            value = settings->class_numbers[value];
        if (settings->classes_i64) {
            ((int64_t *)(void *)values)[row] = value;
            return FF_OK;
        }
        if (value < INT32_MIN || value > INT32_MAX)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: sample %" PRIu64 ": class %" PRId64
                           " of field %s does not fit 32 bits",
                           ff_dataset_path(settings->dataset), number, value, field->name);
        ((int32_t *)(void *)values)[row] = (int32_t)value;
        return FF_OK;
    }
    FF_TRY(ff_reader_label(gatherer->reader, number, index, gatherer->values, error));
    ff_convert((float *)(void *)values + (uint64_t)row * field->width, FF_F32, gatherer->values,
               field->dtype, field->width);
    return FF_OK;
}

/* A sample in a mapping, still to be read. */
typedef struct mapped_sample {
    const uint8_t *tensor; /* NULL: already applied */
    uint32_t height, width, shard;
} mapped_sample;

/* Rows [first, first + count) of a slot. */
typedef struct chunk {
    ff_gatherer *gatherer;
    const ff_sequence_batch *batch;
    uint8_t *memory;
    ff_slot_source *source;    /* by row */
    ff_augment_params *params; /* by view and row */
    uint32_t first, count;
    uint64_t number[CHUNK_ROWS];
    mapped_sample sample[CHUNK_ROWS];
    uint32_t found;            /* samples to read */
    volatile uint32_t reading; /* the one being read, for the error */
    bool whole;                /* the files of those that were read */
} chunk;

/* A row of a view in the batch. */
static uint8_t *batch_row(const chunk *c, uint32_t v, uint32_t i) {
    const row_maker *maker = &c->gatherer->maker[v];
    return c->memory + maker->offset + (c->first + i) * maker->settings->row_bytes;
}

/* The place in which a row is made: the batch, or the separate buffer. */
static uint8_t *made_row(const chunk *c, uint32_t v, uint32_t i) {
    const row_maker *maker = &c->gatherer->maker[v];
    const ff_finish *finish = &maker->settings->finish;
    return finish->apart ? maker->apart + i * finish->row_bytes : batch_row(c, v, i);
}

static ff_augment_params *params_of(const chunk *c, uint32_t v, uint32_t i) {
    return &c->params[(uint64_t)v * c->gatherer->settings->rows + c->first + i];
}

/* By which the row's augmentation is drawn. */
static uint64_t draw_index(const chunk *c, uint32_t v, uint32_t i) {
    return ff_sampling_index(ff_sampling_again(&c->gatherer->settings->sampling), c->number[i],
                             c->batch->position + c->first + i, v);
}

static void copy_raw(const ff_loader_settings *settings, uint8_t *to, const void *from,
                     size_t bytes) {
    if (settings->host.streams && bytes >= FF_PAST_CACHES_BYTES)
        ff_copy_past_caches(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

static void make_view(const chunk *c, uint32_t v, uint32_t i, const void *tensor, uint32_t height,
                      uint32_t width, const void *ahead) {
    const row_maker *maker = &c->gatherer->maker[v];
    const ff_loader_settings *settings = maker->settings;
    const ff_finish *finish = &settings->finish;
    const ff_augment_params *own = settings->raw ? NULL : params_of(c, v, i), *params = own;
    ff_augment_params uncut;
    if (maker->alters) uncut = ff_finish_params(own), params = &uncut;
    uint8_t *out = finish->direct ? maker->images : made_row(c, v, i);
    if (settings->raw)
        copy_raw(settings, out, tensor,
                 ff_metadata_tensor_bytes(settings->metadata, height, width));
    else if (maker->resampler)
        ff_resample(maker->resampler, params, tensor, height, width, out);
    else
        maker->host->apply(maker->host, params, tensor, height, width, out, ahead);
    if (maker->alters)
        ff_finish_alter(finish, own, settings->seed, c->batch->epoch, draw_index(c, v, i),
                        made_row(c, v, i), maker->images);
}

/* All views of a row, while its sample is in the cache. */
static void apply(const chunk *c, uint32_t i, const void *tensor, uint32_t height, uint32_t width,
                  const void *ahead) {
    const uint32_t views = c->gatherer->settings->views;
    for (uint32_t v = 0; v < views; v++)
        make_view(c, v, i, tensor, height, width, v + 1 == views ? ahead : NULL);
}

/* Mixes the rows of a chunk, all of which have been read, and stores those in the separate
 * buffer. */
static void finish_rows(const chunk *c, uint32_t v) {
    const ff_finish *finish = &c->gatherer->maker[v].settings->finish;
    for (uint32_t i = 0; finish->mixes && i + 1 < c->count; i += 2)
        ff_finish_mix(finish, params_of(c, v, i), made_row(c, v, i), made_row(c, v, i + 1));
    for (uint32_t i = 0; finish->apart && i < c->count; i++)
        ff_finish_store(finish, made_row(c, v, i), batch_row(c, v, i));
}

static void draw_view(const chunk *c, uint32_t v, uint32_t i, uint32_t height, uint32_t width) {
    const ff_loader_settings *settings = c->gatherer->maker[v].settings;
    ff_augment_params *params = params_of(c, v, i);
    *params = ff_augment_at(&settings->augment, settings->seed, c->batch->epoch,
                            draw_index(c, v, i), height, width, settings->height, settings->width);
    params->sample = c->number[i];
}

/* Sets a row's parameters, weights, and its partner's number if the row is mixed. */
static void set_row(chunk *c, uint32_t i, uint32_t height, uint32_t width) {
    const ff_loader_settings *settings = c->gatherer->settings;
    const uint32_t row = c->first + i;
    const uint64_t number = c->number[i];
    ff_slot_source *source = &c->source[row];
    *source = (ff_slot_source){.sample = {number, number}, .weight = {1, 0}};
    ((float *)(void *)(c->memory + settings->weight_offset))[row] = 1;
    if (settings->raw) return;
    for (uint32_t v = 0; v < settings->views; v++) draw_view(c, v, i, height, width);
    if (!settings->finish.mixes) return;
    ff_augment_params *params = params_of(c, 0, i);
    if ((row ^ 1) < c->batch->count)
        ff_augment_mix(&settings->augment, params, settings->seed, c->batch->epoch,
                       (c->batch->position + (row & ~1u)) / 2, settings->height, settings->width);
    ((float *)(void *)(c->memory + settings->mix_offset))[row] = params->weight;
    if (params->weight == 1) return;
    source->sample[1] = c->number[i ^ 1]; /* chunks begin at even rows */
    source->weight[0] = params->weight;
    source->weight[1] = 1 - params->weight;
}

/* Prepares the views of a sample of this size. */
static ff_status prepare_views(const chunk *c, uint32_t i, const ff_view *view, ff_error *error) {
    for (uint32_t v = 0; v < c->gatherer->settings->views; v++) {
        const row_maker *maker = &c->gatherer->maker[v];
        if (maker->resampler)
            FF_TRY(ff_resampler_reserve(maker->resampler, params_of(c, v, i), view->height,
                                        view->width, error));
    }
    return FF_OK;
}

static ff_status check_size(const chunk *c, uint32_t i, const ff_view *view, ff_error *error) {
    for (uint32_t v = 0; v < c->gatherer->settings->views; v++) {
        const ff_loader_settings *settings = c->gatherer->maker[v].settings;
        if (!settings->metadata->variable_size) return FF_OK;
        const ff_status status = ff_augment_check(&settings->augment, view->height, view->width,
                                                  settings->height, settings->width, error);
        if (status != FF_OK)
            return ff_fail_within(error, status, "%s: sample %" PRIu64,
                                  ff_dataset_path(settings->dataset), c->number[i]);
    }
    return FF_OK;
}

/* Everything for one row except reading a mapped tensor. */
static ff_status find_sample(chunk *c, uint32_t i, ff_error *error) {
    const ff_loader_settings *settings = c->gatherer->settings;
    uint32_t row = c->first + i;
    uint64_t number = c->number[i];
    ff_view view;
    FF_TRY(ff_reader_sample(c->gatherer->reader, number, &view, error));
    FF_TRY(check_size(c, i, &view, error));
    set_row(c, i, view.height, view.width);
    FF_TRY(prepare_views(c, i, &view, error));
    c->sample[i] = (mapped_sample){view.mapped ? view.tensor : NULL, view.height, view.width,
                                   view.entry.shard};
    if (!view.mapped) apply(c, i, view.tensor, view.height, view.width, NULL);
    for (size_t k = 0; k < settings->label_count; k++)
        FF_TRY(gather_label(c->gatherer, k, number, row, c->memory, error));
    return FF_OK;
}

/* Runs under the guard. */
static void read_samples(void *context) {
    chunk *c = context;
    const ff_metadata *metadata = c->gatherer->settings->metadata;
    bool ask = !metadata->variable_size &&
               ff_metadata_tensor_bytes(metadata, metadata->height, metadata->width) <= AHEAD_BYTES;
    for (uint32_t i = 0; i < c->found; i++) {
        const mapped_sample *sample = &c->sample[i];
        c->reading = i;
        if (sample->tensor)
            apply(c, i, sample->tensor, sample->height, sample->width,
                  ask && i + 1 < c->found ? sample[1].tensor : NULL);
    }
    c->whole = true;
    for (uint32_t i = 0; i < c->found && c->whole; i++) {
        const mapped_sample *sample = &c->sample[i];
        c->reading = i;
        if (sample->tensor && (!i || sample->shard != sample[-1].shard))
            c->whole = ff_dataset_is_whole(c->gatherer->settings->dataset, sample->shard);
    }
}

static void pad_row(const ff_loader_settings *settings, uint32_t row, uint8_t *memory,
                    ff_slot_source *source, ff_augment_params *params) {
    for (uint32_t v = 0; v < settings->views && !settings->raw; v++) {
        const ff_slot_view *view = &settings->view[v];
        memset(memory + view->offset + row * view->row_bytes, 0, view->row_bytes);
        params[(uint64_t)v * settings->rows + row] = (ff_augment_params){0};
    }
    ((float *)(void *)(memory + settings->weight_offset))[row] = 0;
    if (settings->finish.mixes) ((float *)(void *)(memory + settings->mix_offset))[row] = 1;
    source[row] = (ff_slot_source){.padding = true};
    for (size_t i = 0; i < settings->label_count; i++) {
        const ff_slot_label label =
            ff_loader_settings_label(settings, i, memory + settings->label_offset[i]);
        const uint64_t bytes = ff_slot_label_bytes(&label);
        /* Class -1, or zeros. */
        memset((uint8_t *)label.values + row * bytes, label.dtype == FF_F32 ? 0 : 0xff, bytes);
    }
}

/* Fills the rows of a chunk; *failed_row: the row that failed. */
static ff_status fill_chunk(chunk *c, uint64_t serial, uint32_t *failed_row, ff_error *error) {
    ff_gatherer *gatherer = c->gatherer;
    const ff_loader_settings *settings = gatherer->settings;
    for (uint32_t i = 0; i < c->count; i++) {
        c->number[i] = ff_rows_sample(&gatherer->rows, c->batch, c->first + i);
        ff_dataset_prefetch(settings->dataset, c->number[i]);
    }
    ff_status status = FF_OK;
    while (c->found < c->count && status == FF_OK) {
        *failed_row = c->first + c->found;
        if (gatherer->ahead.ahead)
            status = ff_ahead_row(&gatherer->ahead, serial + *failed_row, error);
        if (c->found + 1 < c->count) ff_reader_prefetch(gatherer->reader, c->number[c->found + 1]);
        if (status == FF_OK) status = find_sample(c, c->found, error);
        if (status == FF_OK) c->found++;
    }
    const void *fault = ff_guard_run(read_samples, c);
    if (fault || !c->whole) { /* a lower row than the row whose sample was not found */
        *failed_row = c->first + c->reading;
        /* Its file is not whole, or the address is unknown. */
        if (!fault || fault == c) fault = c->sample[c->reading].tensor;
        return ff_dataset_fault(settings->dataset, fault, error);
    }
    FF_TRY(status);
    for (uint32_t v = 0; v < settings->views; v++)
        if (gatherer->maker[v].settings->finish.used) finish_rows(c, v);
    return FF_OK;
}

ff_status ff_gather(ff_gatherer *gatherer, uint64_t number, const ff_sequence_batch *batch,
                    uint8_t *memory, ff_slot_source *source, ff_augment_params *params,
                    uint32_t begin, uint32_t end, uint32_t *failed_row, ff_error *error) {
    const ff_loader_settings *settings = gatherer->settings;
    const uint64_t serial = number * settings->rows; /* row 0's */
    const uint32_t filled = end < batch->count ? end : batch->count;
    ff_status status = FF_OK;
    if (!gatherer->ahead.ahead) ff_guard_check();
    ff_rows_begin(&gatherer->rows, batch);
    for (uint32_t row = begin; row < filled && status == FF_OK; row += gatherer->chunk_rows) {
        chunk c = {.gatherer = gatherer,
                   .batch = batch,
                   .memory = memory,
                   .source = source,
                   .params = params,
                   .first = row};
        c.count = filled - row < gatherer->chunk_rows ? filled - row : gatherer->chunk_rows;
        status = fill_chunk(&c, serial, failed_row, error);
    }
    for (uint32_t row = begin > filled ? begin : filled; row < end && status == FF_OK; row++) {
        *failed_row = row;
        if (gatherer->ahead.ahead) status = ff_ahead_row(&gatherer->ahead, serial + row, error);
        pad_row(settings, row, memory, source, params);
    }
    if (!gatherer->ahead.ahead) return status;
    ff_ahead_leave(&gatherer->ahead);
    if (status != FF_OK) ff_ahead_abandon(gatherer->ahead.ahead, serial + *failed_row);
    return status;
}
