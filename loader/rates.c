#include "loader/rates.h"

#include "format/base/guard.h"
#include "format/base/thread.h"
#include "loader/ahead/measure.h"
#include "loader/gather.h"
#include "loader/rows.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#define PAGE_BYTES 4096u
/* Of samples as stored, handled together: they fit a core's cache. */
#define RUN_BYTES (256u << 10)
#define RUN_ROWS  64u

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
    bool repeats; /* the same samples, which stay in the cache */
    uint64_t until_ns;
    atomic_uint_fast64_t next, samples;
    atomic_uint_fast64_t pages; /* that were awaited */
    int count;
    worker *worker; /* [count] */
} bench;

/* Reads a byte of each page of a mapped sample, under the guard. */
static void touch(void *context) {
    const ff_view *view = context;
    const volatile uint8_t *bytes = view->tensor;
    for (uint64_t at = 0; at < view->tensor_bytes; at += PAGE_BYTES) (void)bytes[at];
    (void)bytes[view->tensor_bytes - 1];
}

static ff_status read_run(bench *job, worker *self, const ff_sequence_batch *batch,
                          ff_error *error) {
    ff_rows rows = {.settings = &job->settings};
    ff_rows_begin(&rows, batch);
    for (uint32_t row = 0; row < batch->count; row++) {
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
    const uint64_t pages = ff_pages_awaited();
    do {
        uint64_t number = atomic_fetch_add(&job->next, 1);
        if (job->repeats) number = index % job->settings.sequence.epoch_batches;
        ff_sequence_batch batch = ff_sequence_at(&job->settings.sequence, number);
        uint32_t failed_row;
        if (job->stage == FF_STAGE_STORAGE)
            self->status = read_run(job, self, &batch, &self->error);
        else
            self->status = ff_gather(self->gatherer, number, &batch, self->memory, self->source,
                                     self->params, 0, batch.count, &failed_row, &self->error);
        atomic_fetch_add(&job->samples, batch.count);
    } while (self->status == FF_OK && ff_now_ns() < job->until_ns);
    atomic_fetch_add(&job->pages, ff_pages_awaited() - pages);
}

static ff_status create_worker(bench *job, worker *self, ff_error *error) {
    const ff_loader_settings *settings = &job->settings;
    FF_TRY(settings->direct ? ff_reader_open_direct(&self->reader, settings->dataset, error)
                            : ff_reader_open(&self->reader, settings->dataset, error));
    FF_TRY(ff_gatherer_create(&self->gatherer, settings, NULL, error));
    FF_TRY(ff_alloc_aligned(&self->memory, settings->slot_bytes, 1, 0, "a batch", error));
    FF_TRY(ff_alloc(&self->source, settings->rows, sizeof *self->source, "a batch's rows", error));
    return ff_alloc(&self->params, settings->rows, sizeof *self->params, "a batch's rows", error);
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

/* For short batches of the whole set, from its start. */
static ff_loader_options short_batches(ff_dataset *dataset, const ff_loader_options *given) {
    ff_loader_options options = *given;
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    uint64_t bytes = ff_metadata_tensor_bytes(metadata, metadata->height, metadata->width);
    options.batch = bytes < RUN_BYTES / RUN_ROWS ? RUN_ROWS
                    : bytes < RUN_BYTES          ? RUN_BYTES / bytes
                                                 : 1;
    options.batch += options.batch % 2; /* partners of a mixup */
    options.last_batch = FF_LAST_BATCH_KEEP;
    options.epoch = 0, options.epochs = 0, options.position = 0;
    options.share_total = 0;
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
    bench job = {.stage = reads ? FF_STAGE_STORAGE : stage,
                 .repeats = stage == FF_STAGE_AUGMENT || rates->cold};
    ff_disk_rate disk = {0};
    FF_TRY(ff_loader_settings_init(&job.settings, dataset, &options, error));
    const bool ahead = job.settings.ahead.bytes && metadata->compression == FF_COMPRESSION_NONE;
    if (ahead && job.stage != FF_STAGE_STORAGE && !job.settings.unmappable) {
        /* The disk's part is the storage's: these samples stay in memory. */
        ff_loader_settings_free(&job.settings);
        options.access = FF_ACCESS_MAPPED;
        job.repeats = true;
        FF_TRY(ff_loader_settings_init(&job.settings, dataset, &options, error));
    }
    job.count = rates->threads = job.settings.threads ? job.settings.threads : 1;
    if (stage == FF_STAGE_AUGMENT) rates->host_augments = true;
    const bool measures = ahead && job.stage == FF_STAGE_STORAGE;
    const ff_status status = measures ? ff_ahead_measure(&job.settings, budget_ns, &disk, error)
                                      : run(&job, budget_ns, &rates->rate[stage], error);
    if (measures) rates->rate[stage] = disk.samples;
    if (stage == FF_STAGE_STORAGE && !job.settings.direct) rates->cold = atomic_load(&job.pages);
    ff_loader_settings_free(&job.settings);
    return status;
}

ff_status ff_rates_of_mapping(ff_dataset *dataset, const ff_loader_options *given,
                              uint64_t budget_ns, ff_disk_rate *disk, ff_error *error) {
    enum { LOOK_PARTS = 16 };
    *disk = (ff_disk_rate){0};
    ff_loader_options options = short_batches(dataset, given);
    ff_status status = FF_OK;
    if (ff_dataset_metadata(dataset)->compression != FF_COMPRESSION_NONE) return FF_OK;
    options.order = FF_ORDER_SEQUENTIAL;
    options.block = options.group = 0;
    options.access = FF_ACCESS_MAPPED;
    bench job = {.stage = FF_STAGE_STORAGE};
    FF_TRY(ff_loader_settings_init(&job.settings, dataset, &options, error));
    job.count = job.settings.threads ? job.settings.threads : 1;
    atomic_store(&job.next, ff_now_ns() / 1000 % job.settings.sequence.epoch_batches);
    /* First a short look whether there is anything to read. */
    for (int i = 0; i < 2 && status == FF_OK && (!i || atomic_load(&job.pages)); i++) {
        atomic_store(&job.samples, 0);
        status = run(&job, i ? budget_ns : budget_ns / LOOK_PARTS, &disk->samples, error);
    }
    if (!atomic_load(&job.pages)) disk->samples = 0;
    disk->read = 1;
    disk->once = !job.settings.beyond_memory_bytes;
    ff_loader_settings_free(&job.settings);
    return status;
}

ff_status ff_rates_of_stage(ff_dataset *dataset, const ff_loader_options *options, ff_stage stage,
                            uint64_t budget_ns, ff_rates *rates, ff_error *error) {
    return stage_rate(dataset, options, stage, false, budget_ns, rates, error);
}

/* A stage without the decompression, which is part of the storage's: less the time of reading the
 * same samples. What is left of less than a twentieth is noise. */
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

ff_status ff_rates_of_orders(ff_dataset *dataset, const ff_loader_options *given,
                             uint64_t budget_ns, ff_disk_rate rate[FF_ORDER_KIND_COUNT],
                             ff_error *error) {
    for (int kind = 0; kind < FF_ORDER_KIND_COUNT; kind++) {
        ff_loader_options options = *given;
        ff_loader_settings settings;
        options.order = (ff_order_kind)kind;
        if (given->order != options.order) options.block = options.group = 0;
        FF_TRY(ff_loader_settings_init(&settings, dataset, &options, error));
        rate[kind] = (ff_disk_rate){0};
        const ff_status status = settings.ahead.bytes
                                     ? ff_ahead_measure(&settings, budget_ns, &rate[kind], error)
                                     : FF_OK;
        ff_loader_settings_free(&settings);
        FF_TRY(status);
    }
    return FF_OK;
}

/* ---- the device's --------------------------------------------------------------------------- */

/* Doubles the number of runs until they take half the budget. */
ff_status ff_rates_of_steps(ff_device *device, ff_stream *stream, uint64_t budget_ns,
                            ff_status (*step)(void *context, ff_stream *stream, ff_error *error),
                            void *context, double *rate, ff_error *error) {
    const ff_device_table *table = device->table;
    uint64_t took = 0;
    FF_TRY(step(context, stream, error)); /* whatever the first time costs */
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
