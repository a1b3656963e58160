#include "loader/rates/rates.h"

#include "format/base/guard.h"
#include "format/base/thread.h"
#include "loader/host/gather.h"
#include "loader/host/rows.h"
#include "loader/rates/measure.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096u
/* Bytes of stored samples that are handled together: they fit a core's cache. */
#define RUN_BYTES (256u << 10)
#define RUN_ROWS  64u
/* Rows of a batch if samples must be read from the disk first, once. */
#define COLD_ROWS 8u

#define PAUSE_SECONDS 4e-3

static const char *const names[FF_STAGE_COUNT] = {"storage", "gather", "copy", "augment"};

const char *ff_stage_name(ff_stage stage) {
    return names[stage];
}

/* ---- the host's stages ---------------------------------------------------------------------- */

/* Per-thread state. */
typedef struct worker {
    ff_reader *reader;
    ff_gatherer *gatherer;
    uint8_t *memory;
    ff_slot_source *source;
    ff_augment_params *params;
    ff_status status;
    ff_error error;
} worker;

typedef struct bench {
    ff_loader_settings settings; /* of short batches */
    ff_stage stage;
    bool repeats; /* the same samples again, which stay in the cache */
    uint64_t until_ns;
    uint32_t look_rows; /* rows after which the storage's threads check the clock */
    atomic_uint_fast64_t next, samples;
    atomic_uint_fast64_t pages, bytes; /* pages awaited, and bytes read from the disk */
    int count;
    worker *worker; /* [count] */
} bench;

/* Reads one byte of each page of a mapped sample, under the guard. */
static void touch(void *context) {
    const ff_view *view = context;
    const volatile uint8_t *bytes = view->tensor;
    for (uint64_t at = 0; at < view->tensor_bytes; at += PAGE_BYTES) (void)bytes[at];
    (void)bytes[view->tensor_bytes - 1];
}

/* Reads until the time is over: if a device reads some MiB for each fault, a batch can take
 * minutes. *done: number of rows. */
static ff_status read_run(bench *job, worker *self, const ff_sequence_batch *batch, uint32_t *done,
                          ff_error *error) {
    ff_rows rows = {.settings = &job->settings};
    ff_rows_begin(&rows, batch);
    for (uint32_t row = 0; row < batch->count; row++) {
        if (row && row % job->look_rows == 0 && ff_now_ns() >= job->until_ns) return FF_OK;
        *done = row + 1;
        ff_view view;
        const uint64_t number = ff_rows_sample(&rows, batch, row);
        FF_TRY(ff_reader_sample(self->reader, number, &view, error));
        if (view.mapped && ff_guard_run(touch, &view))
            return ff_dataset_fault(job->settings.dataset, view.tensor, error);
    }
    return FF_OK;
}

static void work(void *context, size_t index) {
    bench *job = context;
    worker *self = &job->worker[index];
    const ff_usage before = ff_usage_now();
    do {
        uint64_t number = atomic_fetch_add(&job->next, 1);
        if (job->repeats) number = index % job->settings.sequence.epoch_batches;
        ff_sequence_batch batch = ff_sequence_at(&job->settings.sequence, number);
        uint32_t failed_row, done = batch.count;
        if (job->stage == FF_STAGE_STORAGE)
            self->status = read_run(job, self, &batch, &done, &self->error);
        else
            self->status = ff_gather(self->gatherer, number, &batch, self->memory, self->source,
                                     self->params, 0, batch.count, &failed_row, &self->error);
        atomic_fetch_add(&job->samples, done);
    } while (self->status == FF_OK && ff_now_ns() < job->until_ns);
    const ff_usage after = ff_usage_now();
    atomic_fetch_add(&job->pages, after.pages_awaited - before.pages_awaited);
    atomic_fetch_add(&job->bytes, after.bytes_read - before.bytes_read);
}

static ff_status create_worker(bench *job, worker *self, ff_error *error) {
    const ff_loader_settings *settings = &job->settings;
    FF_TRY(settings->direct ? ff_reader_open_direct(&self->reader, settings->dataset, error)
                            : ff_reader_open(&self->reader, settings->dataset, error));
    FF_TRY(ff_gatherer_create(&self->gatherer, settings, NULL, error));
    FF_TRY(ff_alloc_aligned(&self->memory, settings->slot_bytes, 1, 0, "a batch", error));
    FF_TRY(ff_alloc(&self->source, settings->rows, sizeof *self->source, "a batch's rows", error));
    return ff_alloc(&self->params, (uint64_t)settings->rows * settings->views, sizeof *self->params,
                    "a batch's rows", error);
}

static void destroy_worker(worker *self) {
    ff_reader_close(&self->reader);
    ff_gatherer_destroy(&self->gatherer);
    free(self->memory);
    free(self->source);
    free(self->params);
}

static ff_status run(bench *job, uint64_t budget_ns, double *rate, ff_error *error) {
    FF_TRY(ff_alloc(&job->worker, (uint64_t)job->count, sizeof *job->worker, "threads", error));
    ff_status status = FF_OK;
    for (int i = 0; i < job->count && status == FF_OK; i++)
        status = create_worker(job, &job->worker[i], error);
    if (status == FF_OK) {
        uint64_t began = ff_now_ns();
        job->until_ns = began + budget_ns;
        status = ff_parallel_for(job->count, (size_t)job->count, work, job, error);
        *rate = (double)atomic_load(&job->samples) * 1e9 / (double)(ff_now_ns() - began);
    }
    for (int i = job->count; i-- > 0;) {
        worker *self = &job->worker[i];
        if (status == FF_OK && self->status != FF_OK) {
            status = self->status;
            if (error) *error = self->error;
        }
        destroy_worker(self);
    }
    free(job->worker);
    return status;
}

/* Reads the samples that will be used again and again into memory. */
static ff_status run_once(bench *job, ff_error *error) {
    double rate;
    FF_TRY(run(job, 0, &rate, error));
    atomic_store(&job->samples, 0);
    return FF_OK;
}

/* Options for short batches of the whole set, from its start. */
static ff_loader_options short_batches(ff_dataset *dataset, const ff_loader_options *given) {
    ff_loader_options options = *given;
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    uint64_t bytes = ff_metadata_tensor_bytes(metadata, metadata->height, metadata->width);
    options.batch = bytes < RUN_BYTES / RUN_ROWS ? RUN_ROWS
                    : bytes < RUN_BYTES          ? RUN_BYTES / bytes
                                                 : 1;
    options.batch += options.batch % 2; /* an even number, for the partners of a mixup */
    options.last_batch = FF_LAST_BATCH_KEEP;
    options.epoch = 0, options.epochs = 0, options.position = 0;
    options.share_total = options.cuts = 0;
    options.feed = (ff_loader_feed){0};
    return options;
}

/* Measures one of the host's stages, with as many threads as the loader would use; with `reads`
 * only the reading within that stage. */
static ff_status stage_rate(ff_dataset *dataset, const ff_loader_options *given, ff_stage stage,
                            bool reads, uint64_t budget_ns, ff_rates *rates, ff_error *error) {
    ff_loader_options options = short_batches(dataset, given);
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    options.feed.raw = stage == FF_STAGE_GATHER;
    if (rates->cold && options.batch > COLD_ROWS) options.batch = COLD_ROWS;
    bench job = {.look_rows = 8,
                 .stage = reads ? FF_STAGE_STORAGE : stage,
                 .repeats = stage == FF_STAGE_AUGMENT || rates->cold};
    ff_disk_rate disk = {0};
    FF_TRY(ff_loader_settings_init(&job.settings, dataset, &options, error));
    const bool ahead = job.settings.ahead.bytes && metadata->compression == FF_COMPRESSION_NONE;
    if (ahead && job.stage != FF_STAGE_STORAGE && !job.settings.unmappable) {
        /* The storage stage counts the disk's part: here the samples stay in memory. */
        ff_loader_settings_free(&job.settings);
        options.access = FF_ACCESS_MAPPED;
        job.repeats = true;
        FF_TRY(ff_loader_settings_init(&job.settings, dataset, &options, error));
    }
    job.count = rates->threads = job.settings.threads ? job.settings.threads : 1;
    if (stage == FF_STAGE_AUGMENT) rates->host_augments = true;
    const bool measures = ahead && job.stage == FF_STAGE_STORAGE;
    ff_status status = job.repeats && !measures ? run_once(&job, error) : FF_OK;
    if (status == FF_OK)
        status = measures ? ff_ahead_measure(&job.settings, budget_ns, &disk, error)
                          : run(&job, budget_ns, &rates->rate[stage], error);
    if (measures) rates->rate[stage] = disk.samples;
    if (stage == FF_STAGE_STORAGE && !job.settings.direct) rates->cold = atomic_load(&job.pages);
    ff_loader_settings_free(&job.settings);
    return status;
}

/* ---- the disk's ----------------------------------------------------------------------------- */

/* The options for order `kind`; another order than the given one has its own default blocks. */
static ff_loader_options in_order(const ff_loader_options *given, ff_order_kind kind) {
    ff_loader_options options = *given;
    options.order = kind;
    if (given->order != kind) options.block = options.group = 0;
    return options;
}

static ff_status measure_ahead(ff_dataset *dataset, const ff_loader_options *options,
                               uint64_t budget_ns, ff_disk_rate *rate, ff_error *error) {
    ff_loader_settings settings;
    FF_TRY(ff_loader_settings_init(&settings, dataset, options, error));
    const ff_status status =
        settings.ahead.bytes ? ff_ahead_measure(&settings, budget_ns, rate, error) : FF_OK;
    ff_loader_settings_free(&settings);
    return status;
}

/* With many faults the rate follows from the bytes that the faults caused to be read: an epoch uses
 * all of these bytes. A slow disk that reads some MiB for each fault is measured with requests of
 * that size. So is the reading that a loader's threads do in addition to its faults
 * (ahead/warm.h). */
static ff_status measure_mapped(ff_dataset *dataset, const ff_loader_options *given,
                                uint64_t budget_ns, ff_disk_rate *rate, ff_error *error) {
    enum { MANY = 16, LOOK_PARTS = 16 };
    ff_loader_options options = short_batches(dataset, given);
    bench job = {.stage = FF_STAGE_STORAGE, .look_rows = 1};
    double touched;
    if (ff_dataset_metadata(dataset)->compression != FF_COMPRESSION_NONE) return FF_OK;
    /* Address space mapped here would be missing when the way of reading is chosen. */
    if (ff_host_maps_left("").bytes != UINT64_MAX) return FF_OK;
    FF_TRY(ff_loader_settings_init(&job.settings, dataset, &options, error));
    job.count = job.settings.threads ? job.settings.threads : 1;
    const double sample = (double)job.settings.shard_bytes / (double)job.settings.count;
    const bool once = !job.settings.beyond_memory_bytes;
    uint64_t began = ff_now_ns();
    ff_status status = run(&job, budget_ns / LOOK_PARTS, &touched, error);
    if (status == FF_OK && atomic_load(&job.pages)) { /* part of the set is not in memory */
        atomic_store(&job.pages, 0);
        atomic_store(&job.bytes, 0);
        began = ff_now_ns();
        status = run(&job, budget_ns, &touched, error);
    }
    const double took = (double)(ff_now_ns() - began);
    ff_loader_settings_free(&job.settings);
    FF_TRY(status);
    const double pages = (double)atomic_load(&job.pages), bytes = (double)atomic_load(&job.bytes);
    if (pages == 0) return FF_OK;
    options = in_order(given, FF_ORDER_SEQUENTIAL);
    options.access = FF_ACCESS_READ;
    if (!options.threads) options.threads = 1;
    const double faults = pages >= MANY ? bytes / sample * 1e9 / took : 0;
    if (given->threads || faults <= 0)
        FF_TRY(measure_ahead(dataset, &options, budget_ns, rate, error));
    rate->samples = fmax(rate->samples, faults);
    rate->read = 1;
    rate->once = once;
    return FF_OK;
}

ff_status ff_rates_of_disk(ff_dataset *dataset, const ff_loader_options *given, uint64_t budget_ns,
                           ff_disk_rate rate[FF_ORDER_KIND_COUNT], ff_error *error) {
    /* Block order reads in the same way as random order, which needs no table. */
    const bool blocks = ff_order_has_blocks(given->order);
    ff_loader_options options = in_order(given, blocks ? FF_ORDER_RANDOM : given->order);
    ff_loader_settings settings;
    memset(rate, 0, FF_ORDER_KIND_COUNT * sizeof *rate);
    FF_TRY(ff_loader_settings_init(&settings, dataset, &options, error));
    const bool ahead = settings.ahead.bytes, mapped = !settings.direct;
    ff_loader_settings_free(&settings);
    if (mapped) return measure_mapped(dataset, given, budget_ns, &rate[given->order], error);
    for (int kind = 0; kind < FF_ORDER_KIND_COUNT && ahead; kind++) {
        const bool own = (ff_order_kind)kind == given->order; /* this order matters most */
        if (kind == FF_ORDER_NODE_BLOCK && !own) continue;    /* as order block */
        options = in_order(given, (ff_order_kind)kind);
        FF_TRY(measure_ahead(dataset, &options, (own + 1) * budget_ns, &rate[kind], error));
    }
    return FF_OK;
}

/* ---- a loader's ---------------------------------------------------------------------------- */

ff_status ff_rates_of_stage(ff_dataset *dataset, const ff_loader_options *options, ff_stage stage,
                            uint64_t budget_ns, ff_rates *rates, ff_error *error) {
    ff_disk_rate disk = {0};
    FF_TRY(stage_rate(dataset, options, stage, false, budget_ns, rates, error));
    /* A run also reads ahead of the faults: the faster of both counts. */
    if (stage == FF_STAGE_STORAGE && rates->cold)
        FF_TRY(measure_mapped(dataset, options, budget_ns, &disk, error));
    if (stage == FF_STAGE_STORAGE) rates->rate[stage] = fmax(rates->rate[stage], disk.samples);
    return FF_OK;
}

/* Measures a stage without decompression, which counts as storage: subtracts the time of reading
 * the same samples. A remainder below a twentieth of the whole is noise. */
static ff_status rate_alone(ff_dataset *dataset, const ff_loader_options *options, ff_stage stage,
                            uint64_t budget_ns, ff_rates *rates, ff_error *error) {
    ff_rates reading = {0};
    FF_TRY(ff_rates_of_stage(dataset, options, stage, budget_ns, rates, error));
    if (ff_dataset_metadata(dataset)->compression == FF_COMPRESSION_NONE) return FF_OK;
    FF_TRY(stage_rate(dataset, options, stage, true, budget_ns, &reading, error));
    const double all = 1 / rates->rate[stage];
    rates->rate[stage] = 1 / fmax(all - 1 / reading.rate[stage], all / 20);
    return FF_OK;
}

ff_status ff_rates_of_loader(ff_dataset *dataset, const ff_loader_options *options,
                             uint64_t budget_ns, ff_rates *rates, ff_error *error) {
    *rates = (ff_rates){0};
    FF_TRY(ff_rates_of_stage(dataset, options, FF_STAGE_STORAGE, budget_ns, rates, error));
    FF_TRY(rate_alone(dataset, options, FF_STAGE_GATHER, budget_ns, rates, error));
    return rate_alone(dataset, options, FF_STAGE_AUGMENT, budget_ns, rates, error);
}

/* ---- the device's --------------------------------------------------------------------------- */

/* Doubles the number of runs until they take half the budget. */
ff_status ff_rates_of_steps(ff_device *device, ff_stream *stream, uint64_t budget_ns,
                            ff_status (*step)(void *context, ff_stream *stream, ff_error *error),
                            void *context, double *rate, ff_error *error) {
    const ff_device_table *table = device->table;
    uint64_t took = 0;
    FF_TRY(step(context, stream, error)); /* excludes one-time costs */
    FF_TRY(table->stream_synchronize(device, stream, error));
    for (uint64_t turns = 1; took < budget_ns / 2; turns *= 2) {
        uint64_t began = ff_now_ns();
        for (uint64_t i = 0; i < turns; i++) FF_TRY(step(context, stream, error));
        FF_TRY(table->stream_synchronize(device, stream, error));
        took = ff_now_ns() - began;
        *rate = (double)turns * 1e9 / (double)(took ? took : 1);
    }
    return FF_OK;
}

typedef struct copying {
    ff_device *device;
    void *to, *from;
    uint64_t bytes;
} copying;

static ff_status copy_slot(void *context, ff_stream *stream, ff_error *error) {
    const copying *job = context;
    return job->device->table->copy(job->device, stream, job->to, job->from, job->bytes, error);
}

ff_status ff_rates_of_copies(ff_device *device, uint64_t bytes, uint64_t budget_ns, double *rate,
                             ff_error *error) {
    const ff_device_table *table = device->table;
    copying job = {.device = device, .bytes = bytes};
    ff_stream *stream = NULL;
    ff_status status;
    FF_TRY_DONE(table->allocate(device, &job.to, bytes, "a batch", error));
    FF_TRY_DONE(table->allocate_pinned(device, &job.from, bytes, "a batch", error));
    FF_TRY_DONE(table->stream_create(device, &stream, error));
    FF_TRY_DONE(ff_rates_of_steps(device, stream, budget_ns, copy_slot, &job, rate, error));
done:
    table->stream_destroy(device, stream);
    table->release(device, job.to);
    table->release_pinned(device, job.from);
    return status;
}

/* ---- the ring for them ---------------------------------------------------------------------- */

ff_tuned ff_tune(double thread_rate, double copy_rate, uint32_t rows, int cpus) {
    double threads = ceil(1.25 * copy_rate / thread_rate);
    double waiting = ceil(PAUSE_SECONDS * copy_rate / rows);
    return (ff_tuned){
        .threads = threads < 1      ? 1
                   : threads > cpus ? cpus
                                    : (int)threads,
        .slots = waiting < 1    ? 4
                 : waiting > 13 ? 16
                                : 3 + (uint32_t)waiting,
    };
}
