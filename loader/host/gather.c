#include "loader/host/gather.h"

#include "format/base/guard.h"
#include "format/disk/checksum.h"
#include "loader/host/labels.h"
#include "loader/host/maker.h"
#include "loader/host/past_caches.h"
#include "loader/host/rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Rows handled together: their samples are located and prefetched, then verified and read under one
 * guard. Random reads are bound by memory latency, and the hardware prefetcher knows neither where
 * the next sample begins nor the next page. Few enough rows that their samples are still in the L2
 * cache when they are read. */
#define CHUNK_ROWS  32
#define CHUNK_BYTES (256u << 10)
/* Rows whose index lines are prefetched. */
#define NUMBERS_AHEAD 8
/* The first bytes of a sample are prefetched; of the rest the hardware prefetcher takes care. */
#define PREFETCH_BYTES (16u << 10)
/* The parts in which a sample is prefetched while the next one is located. A core has 16 to 48
 * buffers for cache misses, and a prefetch that finds all of them taken waits. All at once cost as
 * much time as the reads would; parts between other work cost little: on an AMD EPYC f16 samples of
 * 3x32x32 took 0.77 of the time that they took while each was prefetched by the copy of the one
 * before. */
#define PREFETCH_PARTS 4

struct ff_gatherer {
    const ff_loader_settings *settings;
    ff_reader *reader;
    ff_rows rows;
    ff_ahead_cursor ahead;
    uint32_t chunk_rows;
    ff_row_maker *maker; /* [settings->views] */
    ff_labels labels;
    ff_view view[CHUNK_ROWS]; /* of a chunk */
};

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
    FF_TRY_DONE(settings->direct
                    ? ff_reader_open_direct(&gatherer->reader, settings->dataset, error)
                    : ff_reader_open_mapped(&gatherer->reader, settings->dataset, error));
    FF_TRY_DONE(ff_labels_init(&gatherer->labels, settings, gatherer->reader, error));
    if (ahead) ff_reader_look_first(gatherer->reader, ff_ahead_find, &gatherer->ahead);
    FF_TRY_DONE(
        ff_alloc(&gatherer->maker, settings->views, sizeof *gatherer->maker, "views", error));
    for (uint32_t v = 0; v < settings->views; v++)
        FF_TRY_DONE(ff_row_maker_create(gatherer->maker, settings, v, gatherer->chunk_rows, error));
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
        ff_row_maker_destroy(gatherer->maker, v);
    free(gatherer->maker);
    ff_labels_free(&gatherer->labels);
    free(gatherer);
    *out = NULL;
}

/* Rows [first, first + count) of a slot. */
typedef struct chunk {
    ff_gatherer *gatherer;
    const ff_sequence_batch *batch;
    uint8_t *memory;
    ff_slot_source *source;    /* by row */
    ff_augment_params *params; /* by view and row */
    uint32_t first, count;
    uint64_t number[CHUNK_ROWS];
    ff_view *view;                /* [count], the gatherer's: to be read if mapped, else applied */
    uint32_t found;               /* samples located */
    const uint8_t *ask, *ask_end; /* the rest of the last one, to be prefetched */
    size_t ask_part;
    volatile uint32_t reading; /* the one being read, for the error */
    bool whole;                /* the files of those that were read */
    bool differs;              /* the last one that was read, from its checksum, with this one: */
    uint64_t checksum;
    bool verified[CHUNK_ROWS];
} chunk;

static void ask_for(chunk *c, const ff_view *view) {
    const size_t bytes = view->entry.bytes < PREFETCH_BYTES ? view->entry.bytes : PREFETCH_BYTES;
    c->ask = view->tensor;
    c->ask_end = c->ask + bytes;
    c->ask_part = ff_align_u64(bytes, 64 * PREFETCH_PARTS) / PREFETCH_PARTS;
}

/* Prefetches the next part of a sample, into the L2 cache: a prefetch into L1 takes one of the few
 * buffers with which loads and stores wait for memory. */
static inline void ask(chunk *c) {
    const size_t left = (size_t)(c->ask_end - c->ask);
    const size_t bytes = left < c->ask_part ? left : c->ask_part;
    for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch(c->ask + at, 0, 2);
    c->ask += bytes;
}

/* A row of a view in the batch. */
static uint8_t *batch_row(const chunk *c, uint32_t v, uint32_t i) {
    const ff_row_maker *maker = &c->gatherer->maker[v];
    return c->memory + maker->offset + (c->first + i) * maker->settings->row_bytes;
}

/* The place in which a row is made: the batch, or the separate buffer. */
static uint8_t *made_row(const chunk *c, uint32_t v, uint32_t i) {
    const ff_row_maker *maker = &c->gatherer->maker[v];
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
                      uint32_t width) {
    const ff_row_maker *maker = &c->gatherer->maker[v];
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
        maker->host->apply(maker->host, params, tensor, height, width, out);
    if (maker->alters)
        ff_finish_alter(finish, own, settings->seed, c->batch->epoch, draw_index(c, v, i),
                        made_row(c, v, i), maker->images);
}

/* All views of a row, while its sample is in the cache. */
static void apply(const chunk *c, uint32_t i) {
    const ff_view *view = &c->view[i];
    for (uint32_t v = 0; v < c->gatherer->settings->views; v++)
        make_view(c, v, i, view->tensor, view->height, view->width);
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
        const ff_row_maker *maker = &c->gatherer->maker[v];
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

/* Finds which sample is in the row, if the chunk has the row, and prefetches its index lines. */
static void number_row(chunk *c, uint32_t i) {
    ff_gatherer *gatherer = c->gatherer;
    if (i >= c->count) return;
    c->number[i] = ff_rows_sample(&gatherer->rows, c->batch, c->first + i);
    ff_dataset_prefetch(gatherer->settings->dataset, c->number[i]);
}

/* Once the first row is planned: the entries that prove the rows are fetched, or all are. */
static ff_status number_rows(chunk *c, ff_error *error) {
    FF_TRY(ff_rows_prove(&c->gatherer->rows, c->batch, c->first, c->count, error));
    for (uint32_t i = 0; i < NUMBERS_AHEAD; i++) number_row(c, i);
    return FF_OK;
}

/* Everything for one row except reading a mapped tensor. */
static ff_status find_sample(chunk *c, uint32_t i, ff_error *error) {
    const ff_loader_settings *settings = c->gatherer->settings;
    ff_view *view = &c->view[i];
    number_row(c, i + NUMBERS_AHEAD);
    ask(c);
    FF_TRY(ff_reader_locate(c->gatherer->reader, c->number[i], view, error));
    FF_TRY(check_size(c, i, view, error));
    ask(c);
    set_row(c, i, view->height, view->width);
    FF_TRY(prepare_views(c, i, view, error));
    ask(c);
    if (!view->mapped) apply(c, i);
    for (size_t k = 0; k < settings->label_count; k++)
        FF_TRY(ff_labels_gather(&c->gatherer->labels, k, c->number[i], c->first + i, c->memory,
                                error));
    ask(c);
    if (view->mapped) ask_for(c, view);
    return FF_OK;
}

/* Whether the sample has its checksum, if this read verifies it. */
static bool verify(chunk *c, uint32_t i) {
    const ff_view *view = &c->view[i];
    if (!ff_reader_verifies(c->gatherer->reader, c->number[i])) return true;
    c->verified[i] = true;
    c->checksum = ff_checksum(view->tensor, view->entry.bytes);
    return c->checksum == view->entry.checksum;
}

/* Runs under the guard. */
static void read_samples(void *context) {
    chunk *c = context;
    const ff_dataset *dataset = c->gatherer->settings->dataset;
    uint32_t end = 0;
    for (uint32_t i = 0; i < c->found && !c->differs; i++, end++) {
        c->reading = i;
        if (!c->view[i].mapped) continue;
        c->differs = !verify(c, i);
        if (!c->differs) apply(c, i);
    }
    c->whole = true;
    for (uint32_t i = 0; i < end && c->whole; i++) {
        const ff_view *view = &c->view[i];
        c->reading = i;
        if (view->mapped && (!i || view->entry.shard != view[-1].entry.shard))
            c->whole = ff_dataset_is_whole(dataset, view->entry.shard);
    }
}

/* What became of the samples that were read; *failed_row: the row that failed. */
static ff_status note_read(const chunk *c, const void *fault, uint32_t *failed_row,
                           ff_error *error) {
    ff_reader *reader = c->gatherer->reader;
    const uint32_t at = c->reading;
    if (fault || !c->whole || c->differs) *failed_row = c->first + at;
    if (fault || !c->whole) {
        /* Its file is not whole, or the address is unknown. */
        if (!fault || fault == c) fault = c->view[at].tensor;
        return ff_dataset_fault(c->gatherer->settings->dataset, fault, error);
    }
    if (c->differs) {
        FF_TRY(ff_reader_refuse(reader, c->number[at], error));
        return ff_reader_differs(reader, c->number[at], &c->view[at], c->checksum, error);
    }
    for (uint32_t i = 0; i < c->found; i++)
        if (c->verified[i]) ff_reader_verified(reader, c->number[i]);
    return FF_OK;
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
    ff_labels_pad(settings, row, memory);
}

/* Fills the rows of a chunk; *failed_row: the row that failed. */
static ff_status try_chunk(chunk *c, uint64_t serial, uint32_t *failed_row, ff_error *error) {
    ff_gatherer *gatherer = c->gatherer;
    const ff_loader_settings *settings = gatherer->settings;
    ff_status status = FF_OK;
    while (c->found < c->count && status == FF_OK) {
        *failed_row = c->first + c->found;
        if (gatherer->ahead.ahead)
            status = ff_ahead_row(&gatherer->ahead, serial + *failed_row, error);
        if (status == FF_OK && !c->found) status = number_rows(c, error);
        if (status == FF_OK) status = find_sample(c, c->found, error);
        if (status == FF_OK) c->found++;
    }
    /* A row that cannot be read is lower than the row whose sample was not found. */
    const void *fault = ff_guard_run(read_samples, c);
    FF_TRY(note_read(c, fault, failed_row, error));
    FF_TRY(status);
    for (uint32_t v = 0; v < settings->views; v++)
        if (gatherer->maker[v].settings->finish.used) finish_rows(c, v);
    return FF_OK;
}

static ff_status fill_chunk(chunk *c, uint64_t serial, uint32_t *failed_row, ff_error *error) {
    chunk again = *c;
    bool lost;
    const ff_status status = try_chunk(c, serial, failed_row, error);
    FF_TRY(ff_reader_recheck(c->gatherer->reader, &lost, error));
    return lost ? try_chunk(&again, serial, failed_row, error) : status;
}

bool ff_gatherer_maps(const ff_gatherer *gatherer) {
    return ff_reader_maps(gatherer->reader);
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
                   .view = gatherer->view,
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
