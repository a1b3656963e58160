#include "loader/gpu/resident.h"

#include "format/cli/interrupt.h"
#include "format/cli/progress.h"
#include "loader/device/absent.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Size of a pinned chunk: large enough for the full copy rate, small enough to start early. */
#define CHUNK_BYTES (8u << 20)
#define CHUNKS      4u

/* The loader reads the set in storage order, one chunk per batch, into its own device memory; from
 * there each chunk is copied into place. The second copy runs at the speed of device memory, tens
 * of times the bus's, and avoids a second implementation of gathering, verifying and reporting. */
typedef struct upload {
    ff_resident *resident;
    ff_device *device;
    ff_loader *loader;
    ff_stream *stream;
    ff_event *consumed[CHUNKS];
    uint32_t *row_of; /* pinned */
    uint64_t *offset; /* pinned; NULL if all samples have one size */
    uint64_t end;     /* of the rows so far */
    bool mapped;      /* some sample's row is not its number */
} upload;

static ff_status allocate(ff_resident *resident, void *memory, uint64_t count, uint64_t size,
                          const char *what, ff_error *error) {
    const ff_device_table *table = resident->device->table;
    uint64_t bytes;
    if (!ff_mul_u64(count, size, &bytes))
        return ff_fail(error, FF_NO_MEMORY, "%s: too large for memory", what);
    FF_TRY(table->allocate(resident->device, memory, bytes, what, error));
    resident->device_bytes += bytes;
    return FF_OK;
}

static ff_status row_bytes(ff_dataset *dataset, uint64_t number, uint64_t *bytes, ff_error *error) {
    ff_entry entry;
    FF_TRY(ff_dataset_entry(dataset, number, &entry, error));
    *bytes = ff_align_u64(
        ff_metadata_tensor_bytes(ff_dataset_metadata(dataset), entry.height, entry.width),
        FF_RESIDENT_ALIGN);
    return FF_OK;
}

static uint64_t row_count(ff_dataset *dataset, const ff_selection *selection) {
    return selection ? selection->count : ff_dataset_count(dataset);
}

ff_status ff_resident_bytes(ff_dataset *dataset, const ff_selection *selection, uint64_t *bytes,
                            ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    uint64_t count = row_count(dataset, selection), row;
    if (!metadata->variable_size) {
        row = ff_align_u64(ff_metadata_tensor_bytes(metadata, metadata->height, metadata->width),
                           FF_RESIDENT_ALIGN);
        if (!ff_mul_u64(count, row, bytes)) *bytes = UINT64_MAX;
        return FF_OK;
    }
    *bytes = 0;
    for (uint64_t i = 0; i < count; i++) {
        ff_dataset_scan(dataset, i, FF_SCAN_ENTRIES);
        FF_TRY(row_bytes(dataset, selection ? ff_storage_order_at(&selection->numbers, i) : i, &row,
                         error));
        if (!ff_add_u64(*bytes, row, bytes)) *bytes = UINT64_MAX;
    }
    return FF_OK;
}

static ff_status prepare(upload *job, ff_dataset *dataset, const ff_loader_options *options,
                         ff_error *error) {
    ff_loader_options chunks = *options;
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    uint64_t tensor = ff_metadata_tensor_bytes(metadata, metadata->height, metadata->width);
    chunks.batch = tensor < CHUNK_BYTES ? CHUNK_BYTES / tensor : 1;
    if (chunks.batch > job->resident->count) chunks.batch = job->resident->count;
    chunks.last_batch = FF_LAST_BATCH_KEEP;
    chunks.order = FF_ORDER_SEQUENTIAL;
    chunks.epoch = 0, chunks.epochs = 1, chunks.position = 0;
    chunks.weights = chunks.classes = NULL;
    chunks.shares = NULL;
    chunks.per_class = chunks.repeats = 0, chunks.samples_per_epoch = 0;
    chunks.augment = (ff_augment_spec){0};
    chunks.size_count = 0;
    chunks.dtype = metadata->dtype;
    chunks.layout = metadata->layout;
    /* The output's size is not used here, but samples of several sizes need one. */
    chunks.height = chunks.width = metadata->variable_size;
    chunks.share_total = chunks.cuts = chunks.first_cut = 0;
    chunks.slots = CHUNKS;
    chunks.feed =
        (ff_loader_feed){.raw = true, .storage_order = true, .row_align = FF_RESIDENT_ALIGN};
    FF_TRY(ff_loader_create(&job->loader, dataset, &chunks, error));
    const ff_device_table *table = job->device->table;
    FF_TRY(table->stream_create(job->device, &job->stream, error));
    for (uint32_t i = 0; i < CHUNKS; i++)
        FF_TRY(table->event_create(job->device, &job->consumed[i], false, error));
    ff_resident *resident = job->resident;
    resident->row_bytes = ff_loader_describe(job->loader).row_bytes;
    uint64_t bytes;
    FF_TRY(ff_resident_bytes(dataset, options->selection, &bytes, error));
    FF_TRY(allocate(resident, &resident->samples, bytes, 1, "the dataset on the device", error));
    void *pinned;
    if (metadata->variable_size) {
        FF_TRY(allocate(resident, &resident->offset, resident->count, sizeof *resident->offset,
                        "where samples lie", error));
        FF_TRY(table->allocate_pinned(job->device, &pinned, resident->count * sizeof *job->offset,
                                      "where samples lie", error));
        job->offset = pinned;
    }
    const uint64_t rows_bytes = ff_dataset_count(dataset) * sizeof *job->row_of;
    FF_TRY(table->allocate_pinned(job->device, &pinned, rows_bytes, "where samples lie", error));
    job->row_of = memset(pinned, 0, rows_bytes);
    return FF_OK;
}

static ff_status prepare_labels(ff_resident *resident, const ff_slot *slot, ff_error *error) {
    FF_TRY(ff_alloc(&resident->label, slot->label_count, sizeof *resident->label, "labels", error));
    resident->label_count = slot->label_count;
    for (size_t i = 0; i < slot->label_count; i++)
        FF_TRY(allocate(resident, &resident->label[i], resident->count,
                        ff_slot_label_bytes(&slot->label[i]), "labels on the device", error));
    return FF_OK;
}

/* Places rows of several sizes one after another. */
static ff_status place_rows(upload *job, ff_dataset *dataset, const ff_slot *slot,
                            ff_error *error) {
    const ff_device_table *table = job->device->table;
    for (uint64_t row = 0; row < slot->count; row++) {
        uint64_t bytes;
        FF_TRY(row_bytes(dataset, slot->source[row].sample[0], &bytes, error));
        FF_TRY(table->copy(job->device, job->stream, job->resident->samples + job->end,
                           (const uint8_t *)slot->data + row * slot->row_bytes, bytes, error));
        job->offset[slot->position + row] = job->end;
        job->end += bytes;
    }
    return FF_OK;
}

static ff_status place_chunk(upload *job, ff_dataset *dataset, ff_slot *slot, ff_error *error) {
    ff_device *device = job->device;
    const ff_device_table *table = device->table;
    ff_resident *resident = job->resident;
    uint64_t first = slot->position, count = slot->count;
    FF_TRY(table->stream_wait(device, job->stream, slot->ready, error));
    if (job->offset)
        FF_TRY(place_rows(job, dataset, slot, error));
    else
        FF_TRY(table->copy(device, job->stream, resident->samples + first * resident->row_bytes,
                           slot->data, count * resident->row_bytes, error));
    for (size_t i = 0; i < slot->label_count; i++) {
        uint64_t bytes = ff_slot_label_bytes(&slot->label[i]);
        FF_TRY(table->copy(device, job->stream, (uint8_t *)resident->label[i] + first * bytes,
                           slot->label[i].values, count * bytes, error));
    }
    for (uint64_t row = 0; row < count; row++) {
        uint64_t number = slot->source[row].sample[0];
        job->row_of[number] = (uint32_t)(first + row);
        if (number != first + row) job->mapped = true;
    }
    ff_event *consumed = job->consumed[slot->index];
    FF_TRY(table->event_record(device, consumed, job->stream, error));
    ff_loader_release(job->loader, slot, consumed);
    return FF_OK;
}

static ff_status place_all(upload *job, ff_dataset *dataset, const ff_loader_options *options,
                           ff_progress *progress, ff_error *error) {
    ff_resident *resident = job->resident;
    for (uint64_t done = 0; done < resident->count;) {
        ff_slot *slot;
        FF_TRY(ff_interrupt_check(error));
        if (options->stop && options->stop(options->stop_context))
            return ff_fail(error, FF_INTERRUPTED, "stopped while the set was uploaded");
        FF_TRY(ff_loader_acquire(job->loader, &slot, error));
        if (done == 0) FF_TRY(prepare_labels(resident, slot, error));
        done += slot->count;
        FF_TRY(place_chunk(job, dataset, slot, error));
        ff_progress_update(progress, done, NULL);
    }
    if (job->offset)
        FF_TRY(job->device->table->copy(job->device, job->stream, resident->offset, job->offset,
                                        resident->count * sizeof *job->offset, error));
    if (job->mapped) {
        const uint64_t count = ff_dataset_count(dataset);
        FF_TRY(allocate(resident, &resident->row_of, count, sizeof *resident->row_of,
                        "where samples lie", error));
        FF_TRY(job->device->table->copy(job->device, job->stream, resident->row_of, job->row_of,
                                        count * sizeof *resident->row_of, error));
    }
    return job->device->table->stream_synchronize(job->device, job->stream, error);
}

ff_status ff_resident_upload(ff_resident *resident, ff_dataset *dataset,
                             const ff_loader_options *options, bool quiet, ff_error *error) {
    upload job = {.resident = resident, .device = options->device};
    const ff_device_table *table = job.device->table;
    *resident =
        (ff_resident){.device = job.device, .count = row_count(dataset, options->selection)};
    if (resident->count > UINT32_MAX)
        return ff_fail(error, FF_USAGE, "%s: %" PRIu64 " samples are too many to be resident",
                       ff_dataset_path(dataset), resident->count);
    ff_progress progress;
    ff_progress_begin(&progress, "uploading", "samples", resident->count, quiet);
    ff_status status = prepare(&job, dataset, options, error);
    ff_slot first = {0};
    if (status == FF_OK) first = ff_loader_first_slot(job.loader, 0);
    if (status == FF_OK && ff_device_is_absent(job.device))
        status = prepare_labels(resident, &first, error);
    else if (status == FF_OK)
        status = place_all(&job, dataset, options, &progress, error);
    ff_progress_end(&progress);
    /* Waits for the copies, which read the loader's slots. */
    table->stream_destroy(job.device, job.stream);
    ff_loader_destroy(&job.loader);
    for (uint32_t i = 0; i < CHUNKS; i++) table->event_destroy(job.device, job.consumed[i]);
    table->release_pinned(job.device, job.row_of);
    table->release_pinned(job.device, job.offset);
    if (status != FF_OK) ff_resident_release(resident);
    return status;
}

void ff_resident_release(ff_resident *resident) {
    if (!resident->device) return;
    const ff_device_table *table = resident->device->table;
    table->release(resident->device, resident->samples);
    table->release(resident->device, resident->offset);
    table->release(resident->device, resident->row_of);
    for (size_t i = 0; i < resident->label_count; i++)
        table->release(resident->device, resident->label[i]);
    free(resident->label);
    *resident = (ff_resident){0};
}
