#include "loader/gpu/batches.h"

#include "format/base/thread.h"
#include "format/cli/say.h"
#include "loader/gpu/batch_buffers.h"
#include "loader/gpu/batch_jobs.h"
#include "loader/gpu/placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TUNE_NS 40000000u

struct ff_batches {
    ff_device *device;
    ff_loader_settings settings; /* the sequence and the shape of batches */
    ff_placement placement;
    char reason[512];

    ff_resident resident; /* if resident */

    /* Streaming: the ring, the slot between prepare and finish, and per slot an event for the end
     * of its use. */
    ff_loader *loader;
    ff_slot *slot;
    uint32_t slots;
    ff_event **consumed;

    uint32_t channels; /* per pixel of a batch */
    void *values;      /* device: scratch of the jobs */
    uint64_t memory_bytes;
    ff_batch_buffers buffers;
    ff_batch_jobs *jobs; /* [sizes], or [views] */
    size_t size;         /* index of the prepared batch's size */
    int given_size;      /* for all batches; -1 = each epoch's own */

    bool places;
    uint64_t sequence; /* of the next batch */
    ff_batch_info batch;
    ff_loader_stats stats; /* if resident */
};

/* ---- the choice ----------------------------------------------------------------------------- */

/* Bytes on the device for the whole set and the chunks through which it is uploaded. */
static ff_status set_bytes(const ff_loader_settings *settings, const ff_selection *selection,
                           uint64_t *bytes, ff_error *error) {
    FF_TRY(ff_resident_bytes(settings->dataset, selection, bytes, error));
    uint64_t row = 0, rest, each = sizeof(uint32_t); /* row_of */
    if (settings->metadata->variable_size) row += sizeof(uint64_t), each += 2 * sizeof(uint32_t);
    for (size_t i = 0; i < settings->label_count; i++) {
        const ff_slot_label label = ff_loader_settings_label(settings, i, NULL);
        row += ff_slot_label_bytes(&label);
    }
    if (!ff_mul_u64(settings->count, row, &rest) || !ff_add_u64(*bytes, rest, bytes) ||
        !ff_mul_u64(settings->stored, each, &rest) || !ff_add_u64(*bytes, rest, bytes) ||
        !ff_add_u64(*bytes, FF_RESIDENT_EXTRA, bytes))
        *bytes = UINT64_MAX;
    return FF_OK;
}

/* Sizes of epochs, or views: a loader has several of one kind only. */
static size_t job_count(const ff_batches *batches) {
    return batches->settings.later_count + batches->settings.views;
}

static const ff_loader_settings *settings_of(const ff_batches *batches, size_t job) {
    return batches->settings.views > 1
               ? ff_loader_settings_of_view(&batches->settings, (uint32_t)job)
               : ff_loader_settings_of(&batches->settings, job);
}

/* The maximum of a byte count over all sizes and views. */
static uint64_t most_of(const ff_batches *batches,
                        uint64_t (*bytes)(const ff_loader_settings *settings)) {
    uint64_t most = 0;
    for (size_t i = 0; i < job_count(batches); i++) {
        const uint64_t here = bytes(settings_of(batches, i));
        if (here > most) most = here;
    }
    return most;
}

static ff_status choose(ff_batches *batches, const ff_batches_options *options, ff_error *error) {
    uint64_t total;
    ff_placement_facts facts = {.reserve_bytes = options->reserve_bytes +
                                                 most_of(batches, ff_batch_values_bytes)};
    for (size_t i = 0; i < job_count(batches); i++) {
        const ff_loader_settings *settings = settings_of(batches, i);
        facts.reserve_bytes += ff_batch_augment_bytes(settings);
        if (!facts.unable) facts.unable = ff_batch_jobs_unable(settings, options->kernels);
    }
    FF_TRY(set_bytes(&batches->settings, options->loader.selection, &facts.set_bytes, error));
    FF_TRY(batches->device->table->memory(batches->device, &facts.free_bytes, &total, error));
    return ff_placement_choose(options->placement, &facts, &batches->placement, batches->reason,
                               sizeof batches->reason, error);
}

/* ---- creating and destroying ---------------------------------------------------------------- */

/* Chooses the numbers of threads and slots that the caller left open, from the rate of one thread's
 * gather and the rate of the device's copies; adds the result to the reason. */
static ff_status tune_ring(ff_batches *batches, ff_dataset *dataset, ff_loader_options *options,
                           ff_error *error) {
    const ff_loader_settings *settings = &batches->settings;
    if (options->threads >= 0 || batches->device->table->unified || settings->rows == 0)
        return FF_OK;
    ff_stage stage = batches->placement == FF_PLACEMENT_STREAM ? FF_STAGE_GATHER : FF_STAGE_AUGMENT;
    const ff_metadata *metadata = settings->metadata;
    uint64_t row = stage == FF_STAGE_GATHER
                       ? ff_metadata_tensor_bytes(metadata, metadata->height, metadata->width)
                       : settings->row_bytes;
    for (uint32_t v = 1; stage == FF_STAGE_AUGMENT && v < settings->views; v++)
        row += settings->view[v].row_bytes;
    ff_loader_options one = *options;
    ff_rates rates = {0};
    double copies;
    one.threads = 1;
    FF_TRY(ff_rates_of_stage(dataset, &one, stage, TUNE_NS, &rates, error));
    FF_TRY(ff_rates_of_copies(batches->device, settings->rows * row, TUNE_NS, &copies, error));
    double copied = copies * settings->rows, gathered = rates.rate[stage];
    ff_tuned tuned = ff_tune(gathered, copied, settings->rows, ff_cpu_count());
    options->threads = tuned.threads;
    if (options->slots == 0) options->slots = tuned.slots;
    size_t length = strlen(batches->reason);
    snprintf(batches->reason + length, sizeof batches->reason - length,
             " %s and %u slots: one thread %s %s, and %s are copied.",
             ff_say_count((uint64_t)tuned.threads, "thread", "threads").text, options->slots,
             stage == FF_STAGE_GATHER ? "gathers" : "augments",
             ff_say_rate(gathered, "samples").text, ff_say_rate(copied, "samples").text);
    return FF_OK;
}

static ff_status create_ring(ff_batches *batches, ff_dataset *dataset,
                             const ff_loader_options *given, ff_error *error) {
    ff_loader_options options = *given;
    options.feed = (ff_loader_feed){.raw = batches->placement == FF_PLACEMENT_STREAM,
                                    .cyclic = true,
                                    .row_align = FF_RESIDENT_ALIGN};
    FF_TRY(tune_ring(batches, dataset, &options, error));
    FF_TRY(ff_loader_create(&batches->loader, dataset, &options, error));
    batches->slots = ff_loader_describe(batches->loader).slots;
    FF_TRY(ff_alloc(&batches->consumed, batches->slots, sizeof(ff_event *), "slots", error));
    for (uint32_t i = 0; i < batches->slots; i++)
        FF_TRY(batches->device->table->event_create(batches->device, &batches->consumed[i], false,
                                                    error));
    return FF_OK;
}

static ff_status create_jobs(ff_batches *batches, const ff_loader_kernels *kernels,
                             ff_error *error) {
    const bool moves =
        batches->placement == FF_PLACEMENT_HOST && batches->settings.host.to != FF_U8;
    const uint64_t values = moves ? 0 : most_of(batches, ff_batch_values_bytes);
    ff_batch_parts parts = {.kernels = kernels,
                            .device = batches->device,
                            .resident = &batches->resident,
                            .loader = batches->loader,
                            .buffers = &batches->buffers,
                            .channels = batches->channels};
    FF_TRY(ff_alloc(&batches->jobs, job_count(batches), sizeof *batches->jobs, "sizes", error));
    if (values)
        FF_TRY(batches->device->table->allocate(batches->device, &batches->values, values,
                                                "samples between kernels", error));
    batches->memory_bytes += values;
    parts.values = batches->values;
    for (size_t i = 0; i < job_count(batches); i++) {
        ff_batch_jobs *jobs = &batches->jobs[i];
        parts.view = batches->settings.views > 1 ? (uint32_t)i : 0;
        FF_TRY(ff_batch_jobs_create(jobs, settings_of(batches, i), &parts, error));
        parts.before = jobs;
        batches->memory_bytes += jobs->memory_bytes;
    }
    return FF_OK;
}

static ff_status create_all(ff_batches *batches, ff_dataset *dataset,
                            const ff_batches_options *options, ff_error *error) {
    ff_loader_options given = options->loader;
    if (!given.device || !options->kernels)
        return ff_fail(error, FF_USAGE, "batches are made by a device and its kernels");
    batches->device = given.device;
    given.layout = FF_HWC;
    if (given.dtype >= FF_DTYPE_COUNT) given.dtype = FF_F32;
    if (!ff_dtype_is_float(given.dtype) && (given.dtype != FF_U8 || !options->kernels->augment))
        return ff_fail(error, FF_USAGE, "batches on a device are f32, f16, bf16 or u8, not %s",
                       ff_dtype_name(given.dtype));
    FF_TRY(ff_loader_settings_init(&batches->settings, dataset, &given, error));
    /* Kernels have the order, too. */
    FF_TRY(ff_storage_order_settle(&batches->settings.storage, error));
    given.block = batches->settings.order.block; /* also for the ring */
    given.group = batches->settings.order.group;
    uint32_t stored = batches->settings.metadata->channels;
    batches->channels = options->channels ? options->channels : stored;
    if (batches->channels < stored)
        return ff_fail(error, FF_USAGE, "%s: a pixel has %u channels, more than the %u of a batch",
                       ff_dataset_path(dataset), stored, batches->channels);
    FF_TRY(choose(batches, options, error));
    FF_TRY(ff_batch_buffers_create(&batches->buffers, batches->device, &batches->settings,
                                   batches->channels, &batches->memory_bytes, error));
    if (batches->placement == FF_PLACEMENT_RESIDENT)
        FF_TRY(ff_resident_upload(&batches->resident, dataset, &given, options->quiet, error));
    else
        FF_TRY(create_ring(batches, dataset, &given, error));
    return create_jobs(batches, options->kernels, error);
}

ff_status ff_batches_create(ff_batches **out, ff_dataset *dataset,
                            const ff_batches_options *options, ff_error *error) {
    ff_batches *batches;
    *out = NULL;
    FF_TRY(ff_alloc(&batches, 1, sizeof *batches, "batches", error));
    batches->given_size = -1;
    batches->places = options->places;
    ff_status status = create_all(batches, dataset, options, error);
    if (status != FF_OK) ff_batches_destroy(&batches);
    *out = batches;
    return status;
}

void ff_batches_destroy(ff_batches **out) {
    ff_batches *batches = *out;
    if (!batches) return;
    /* The ring waits for the consumer's events, and so for the kernels enqueued before them. */
    ff_loader_destroy(&batches->loader);
    if (batches->device) {
        const ff_device_table *table = batches->device->table;
        for (uint32_t i = 0; batches->consumed && i < batches->slots; i++)
            table->event_destroy(batches->device, batches->consumed[i]);
        for (size_t i = 0; batches->jobs && i < job_count(batches); i++)
            ff_batch_jobs_destroy(&batches->jobs[i]);
        table->release(batches->device, batches->values);
        ff_resident_release(&batches->resident);
        ff_batch_buffers_release(&batches->buffers, batches->device);
    }
    free(batches->consumed);
    free(batches->jobs);
    ff_loader_settings_free(&batches->settings);
    free(batches);
    *out = NULL;
}

/* ---- steps ---------------------------------------------------------------------------------- */

ff_status ff_batches_prepare(ff_batches *batches, ff_stream *stream, const ff_batch_info **out,
                             ff_error *error) {
    const ff_loader_settings *settings = &batches->settings;
    *out = NULL;
    if (batches->sequence >= settings->sequence.total_batches) return FF_OK;
    if (batches->loader) {
        if (!batches->slot) FF_TRY(ff_loader_acquire(batches->loader, &batches->slot, error));
        FF_TRY(batches->device->table->stream_wait(batches->device, stream, batches->slot->ready,
                                                   error));
    }
    ff_sequence_batch at = ff_sequence_at(&settings->sequence, batches->sequence);
    batches->batch = (ff_batch_info){
        .count = at.count,
        .epoch = at.epoch,
        .batch = at.global_position / settings->sequence.batch,
        .position = at.position,
        .global_count = at.global_count,
        .last = at.last,
        .next = ff_loader_settings_next(settings, &at),
    };
    batches->size = batches->given_size >= 0 ? (size_t)batches->given_size
                                             : ff_loader_settings_in(settings, at.epoch);
    if (batches->places)
        FF_TRY(
            ff_batch_jobs_place(&batches->jobs[batches->size], batches->sequence, stream, error));
    *out = &batches->batch;
    return FF_OK;
}

void ff_batches_seek(ff_batches *batches, const ff_sequence *sequence) {
    batches->settings.sequence = *sequence;
    batches->sequence = 0;
    for (size_t i = 0; i < job_count(batches); i++) batches->jobs[i].next.sequence = *sequence;
    if (batches->slot) ff_loader_release(batches->loader, batches->slot, NULL);
    batches->slot = NULL;
    if (batches->loader) ff_loader_seek(batches->loader, sequence);
}

bool ff_batches_await(ff_batches *batches, uint64_t ns) {
    return !batches->loader || batches->slot || ff_loader_await(batches->loader, ns);
}

void ff_batches_set_size(ff_batches *batches, int size) {
    batches->given_size = size;
}

/* The views after the first. */
static ff_status enqueue_further(ff_batches *batches, ff_stream *stream, ff_error *error) {
    for (uint32_t v = 1; v < batches->settings.views; v++)
        FF_TRY(ff_batch_jobs_repeat(&batches->jobs[v], stream, error));
    return FF_OK;
}

ff_status ff_batches_enqueue(ff_batches *batches, ff_stream *stream, ff_error *error) {
    const ff_batch_jobs *jobs = &batches->jobs[batches->size];
    FF_TRY(batches->places ? ff_batch_jobs_repeat(jobs, stream, error)
                           : ff_batch_jobs_enqueue(jobs, stream, error));
    return enqueue_further(batches, stream, error);
}

ff_status ff_batches_skip(ff_batches *batches, ff_stream *stream, ff_error *error) {
    return ff_batch_jobs_place(&batches->jobs[batches->size], batches->sequence, stream, error);
}

ff_status ff_batches_give(ff_batches *batches, const ff_batch_output *output, size_t count,
                          ff_stream *stream, ff_error *error) {
    return ff_batch_jobs_give(&batches->jobs[batches->size], output, count, stream, error);
}

ff_status ff_batches_finish(ff_batches *batches, ff_stream *stream, ff_error *error) {
    batches->sequence++;
    batches->stats.batches++;
    batches->stats.samples += batches->batch.count;
    if (!batches->slot) return FF_OK;
    ff_slot *slot = batches->slot;
    ff_event *consumed = batches->consumed[slot->index];
    FF_TRY(batches->device->table->event_record(batches->device, consumed, stream, error));
    batches->slot = NULL;
    ff_loader_release(batches->loader, slot, consumed);
    return FF_OK;
}

ff_status ff_batches_enqueue_again(ff_batches *batches, ff_stream *stream, ff_error *error) {
    FF_TRY(ff_batch_jobs_repeat(&batches->jobs[batches->size], stream, error));
    return enqueue_further(batches, stream, error);
}

ff_status ff_batches_rewind(ff_batches *batches, ff_stream *stream, ff_error *error) {
    return ff_batch_jobs_seek(&batches->jobs[0], batches->sequence, stream, error);
}

const ff_batch_buffers *ff_batches_buffers(const ff_batches *batches) {
    return &batches->buffers;
}

ff_loader_stats ff_batches_measure(ff_batches *batches) {
    return batches->loader ? ff_loader_measure(batches->loader) : batches->stats;
}

ff_batches_info ff_batches_describe(const ff_batches *batches) {
    ff_batches_info info = {
        .loader = ff_loader_settings_describe(&batches->settings),
        .dtype = batches->settings.host.to,
        .channels = batches->channels,
        .placement = batches->placement,
        .reason = batches->reason,
        .device_bytes = batches->memory_bytes + batches->resident.device_bytes,
    };
    info.loader.slots = 0;
    info.loader.threads = 0;
    info.loader.ahead_bytes = 0;
    if (!batches->loader) return info;
    ff_loader_info ring = ff_loader_describe(batches->loader);
    info.loader.slots = ring.slots;
    info.loader.threads = ring.threads;
    info.loader.direct = ring.direct;
    info.loader.beyond_memory_bytes = ring.beyond_memory_bytes;
    info.loader.memory = ring.memory;
    info.loader.read_again = ring.read_again;
    info.loader.ahead_bytes = ring.ahead_bytes;
    info.loader.ahead_blocks = ring.ahead_blocks;
    info.loader.cache_bytes = ring.cache_bytes;
    info.loader.cache_wanted = ring.cache_wanted;
    info.loader.slot_bytes = ring.slot_bytes;
    info.loader.row_bytes = ring.row_bytes;
    info.device_bytes += ring.slots * ring.slot_bytes;
    info.pinned_bytes = batches->device->table->unified ? 0 : ring.slots * ring.slot_bytes;
    return info;
}
