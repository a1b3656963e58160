#include "loader/gpu/batch_jobs.h"

#include "loader/augment/affine.h"

#include <inttypes.h>
#include <string.h>

const char *ff_batch_jobs_unable(const ff_loader_settings *settings,
                                 const ff_loader_kernels *kernels) {
    const ff_metadata *metadata = settings->metadata;
    if (settings->host.words && settings->host.scaled) return "samples are u16";
    if (kernels->augment) return NULL;
    if (metadata->variable_size) return "samples have different sizes";
    if (metadata->dtype == FF_U16) return "samples are u16";
    if (ff_augment_resamples(&settings->augment)) return "samples are resampled";
    if (ff_augment_jitters(&settings->augment)) return "colours are jittered";
    if (ff_change_any(&settings->augment.change)) return "values of u8 are changed";
    if (ff_augment_mixes(&settings->augment)) return "samples are mixed";
    return NULL;
}

/* ---- constants in device memory ------------------------------------------------------------- */

typedef struct constants {
    uint64_t black, table, map, sampling, size, bytes; /* offsets; the batch is at 0 */
    uint64_t black_bytes, table_bytes, map_bytes, sampling_bytes, size_bytes;
} constants;

/* Sizes are needed only if the kernels augment. Jobs of further views have the places of the
 * first's, and those of a group's further views also its sizes. */
static constants lay_out(const ff_loader_settings *settings, uint32_t view, bool augmented) {
    constants at = {.black_bytes = settings->host.channels * sizeof(uint32_t)};
    if (settings->host.table)
        at.table_bytes = settings->host.channels * 256u * settings->host.to_bytes;
    if (!view && ff_storage_order_differs(&settings->storage))
        at.map_bytes = settings->count * sizeof(uint64_t);
    at.black = ff_align_u64(sizeof(ff_cuda_batch), 256);
    at.table = ff_align_u64(at.black + at.black_bytes, 256);
    at.map = ff_align_u64(at.table + at.table_bytes, 256);
    if (!view && settings->sampling.table)
        at.sampling_bytes =
            ff_sampling_table_count(&settings->sampling) * sizeof *settings->sampling.table;
    at.sampling = ff_align_u64(at.map + at.map_bytes, 256);
    at.size = ff_align_u64(at.sampling + at.sampling_bytes, 256);
    if (settings->metadata->variable_size && !augmented && view == settings->first_view)
        at.size_bytes = settings->stored * 2 * sizeof(uint32_t);
    at.bytes = at.size + at.size_bytes;
    return at;
}

/* Reads heights and widths of an epoch's samples and checks that the augmentation can use them. */
static ff_status read_sizes(const ff_loader_settings *settings, uint32_t *size, ff_error *error) {
    for (uint64_t i = 0; i < settings->count; i++) {
        const uint64_t number = ff_storage_order_at(&settings->storage, i);
        ff_entry entry;
        ff_dataset_scan(settings->dataset, i, FF_SCAN_ENTRIES);
        FF_TRY(ff_dataset_entry(settings->dataset, number, &entry, error));
        ff_status status = ff_augment_check(&settings->augment, entry.height, entry.width,
                                            settings->height, settings->width, error);
        if (status != FF_OK)
            return ff_fail_within(error, status, "%s: sample %" PRIu64,
                                  ff_dataset_path(settings->dataset), number);
        size[2 * number] = entry.height;
        size[2 * number + 1] = entry.width;
    }
    return FF_OK;
}

static ff_status create_constants(ff_batch_jobs *jobs, const constants *at,
                                  const ff_loader_settings *settings, ff_error *error) {
    const ff_device_table *table = jobs->device->table;
    void *memory;
    FF_TRY(table->allocate(jobs->device, &jobs->memory, at->bytes, "a batch's constants", error));
    jobs->memory_bytes = at->bytes;
    FF_TRY(table->allocate_pinned(jobs->device, &memory, at->bytes, "a batch's constants", error));
    uint8_t *pinned = memory;
    memset(pinned, 0, at->map);
    memcpy(pinned + at->black, settings->host.black, at->black_bytes);
    if (at->table_bytes) memcpy(pinned + at->table, settings->host.table, at->table_bytes);
    uint64_t *map = (uint64_t *)(void *)(pinned + at->map);
    for (uint64_t i = 0; i < at->map_bytes / sizeof *map; i++)
        map[i] = ff_storage_order_at(&settings->storage, i);
    if (at->sampling_bytes)
        memcpy(pinned + at->sampling, settings->sampling.table, at->sampling_bytes);
    ff_status status;
    if (at->size_bytes)
        FF_TRY_DONE(read_sizes(settings, (uint32_t *)(void *)(pinned + at->size), error));
    FF_TRY_DONE(ff_batch_upload(jobs->device, jobs->memory, pinned, at->bytes, error));
done:
    table->release_pinned(jobs->device, pinned);
    return status;
}

/* ---- the jobs ------------------------------------------------------------------------------- */

static ff_status add_column(ff_cuda_move *move, const void *from, void *to, uint32_t width,
                            uint32_t padding, ff_error *error) {
    if (move->columns == FF_CUDA_COLUMNS)
        return ff_fail(error, FF_USAGE, "a batch on a device takes at most %d label fields",
                       FF_CUDA_COLUMNS - 1);
    move->column[move->columns++] =
        (ff_cuda_column){.from = from, .to = to, .width = width, .padding = padding};
    return FF_OK;
}

static ff_status add_columns(ff_cuda_move *move, const ff_resident *resident, const ff_slot *slot,
                             const ff_batch_buffers *buffers, ff_error *error) {
    const float one = 1;
    uint32_t unmixed;
    memcpy(&unmixed, &one, sizeof unmixed);
    for (size_t i = 0; i < buffers->label_count; i++) {
        const ff_slot_label *label = &buffers->label[i];
        const void *from = slot ? slot->label[i].values : resident->label[i];
        uint32_t words = (uint32_t)(ff_slot_label_bytes(label) / sizeof(uint32_t));
        uint32_t padding = label->dtype == FF_F32 ? 0 : UINT32_MAX; /* class -1, of both widths */
        FF_TRY(add_column(move, from, label->values, words, padding, error));
    }
    if (slot && slot->mix) FF_TRY(add_column(move, slot->mix, buffers->mix, 1, unmixed, error));
    return FF_OK;
}

/* `slot` NULL: the job reads from the resident set. */
static ff_cuda_move make_move(const ff_loader_settings *settings, const ff_resident *resident,
                              const ff_slot *slot, uint64_t slot_bytes,
                              const ff_batch_buffers *buffers, const ff_batch_parts *parts) {
    const ff_augment_host *host = &settings->host;
    return (ff_cuda_move){
        .params = buffers->params,
        .samples = slot ? slot->data : resident->samples,
        .row_bytes = slot ? slot->row_bytes : resident->row_bytes,
        .slot_bytes = slot_bytes,
        .gather = !slot,
        .row_of = resident->row_of,
        .from = slot ? slot->dtype : host->from,
        .from_layout = slot ? slot->layout : host->from_layout,
        .channels = host->channels,
        .height = slot ? slot->height : settings->metadata->height,
        .width = slot ? slot->width : settings->metadata->width,
        .data = (uint8_t *)buffers->data + buffers->view[parts->view].offset,
        .to = host->to,
        .rows = settings->rows,
        .out_height = settings->height,
        .out_width = settings->width,
        .out_channels = parts->channels,
        .pad_mode = host->pad_mode,
    };
}

static void set_table(ff_cuda_move *move, const ff_loader_settings *settings, const void *table) {
    move->table = table;
    if (move->channels <= FF_CUDA_AFFINE)
        move->affine = ff_affine_find(&settings->host, settings->metadata, move->scale, move->bias);
}

/* The slot whose images are those of this view, unless they are raw. */
static ff_slot slot_of_view(ff_slot slot, uint32_t view) {
    if (!view || !slot.params) return slot;
    const ff_slot_view *own = &slot.view[view];
    slot.data = (uint8_t *)slot.data + own->offset;
    slot.row_bytes = own->row_bytes;
    slot.height = own->height;
    slot.width = own->width;
    return slot;
}

/* Points at the samples' places and sizes, in the jobs' own memory or that of the jobs before. */
static void find_samples(ff_batch_jobs *jobs, const constants *at, const ff_batch_jobs *before) {
    uint8_t *memory = jobs->memory;
    ff_cuda_params *params = &jobs->params;
    if (before) {
        params->sampling.table = before->params.sampling.table;
        params->sample_of_place = before->params.sample_of_place;
        params->size = before->params.size;
    }
    if (at->sampling_bytes)
        params->sampling.table = (const uint64_t *)(void *)(memory + at->sampling);
    if (at->map_bytes) params->sample_of_place = (const uint64_t *)(void *)(memory + at->map);
    if (at->size_bytes) params->size = (const uint32_t *)(void *)(memory + at->size);
}

ff_status ff_batch_jobs_create(ff_batch_jobs *jobs, const ff_loader_settings *settings,
                               const ff_batch_parts *parts, ff_error *error) {
    const ff_resident *resident = parts->resident;
    ff_loader *loader = parts->loader;
    const ff_batch_buffers *buffers = parts->buffers;
    const ff_batch_jobs *before = parts->before;
    ff_loader_info info = {.slots = 1};
    ff_slot first = {0}, *slot = loader ? &first : NULL;
    if (loader)
        first = slot_of_view(ff_loader_first_slot(loader, settings->from_epoch), parts->view);
    if (loader) info = ff_loader_describe(loader);
    *jobs = (ff_batch_jobs){.device = parts->device, .kernels = parts->kernels};
    bool augmented = slot && slot->params; /* the rows are already augmented */
    constants at = lay_out(settings, parts->view, augmented);
    FF_TRY(create_constants(jobs, &at, settings, error));
    uint8_t *memory = jobs->memory;
    jobs->next = (ff_cuda_next){
        .sequence = settings->sequence,
        .order = settings->order,
        .slots = info.slots,
        .batch = before ? before->next.batch : (ff_cuda_batch *)jobs->memory,
    };
    jobs->sets.count = (uint32_t)ff_dataset_set_count(settings->dataset);
    for (uint32_t i = 0; i < jobs->sets.count; i++)
        jobs->sets.begin[i] = ff_dataset_set_begin(settings->dataset, i);
    jobs->move = make_move(settings, resident, slot, loader ? info.slot_bytes : 0, buffers, parts);
    jobs->params = (ff_cuda_params){
        .batch = jobs->next.batch,
        .spec = settings->augment,
        .seed = settings->seed,
        .height = jobs->move.height,
        .width = jobs->move.width,
        .out_height = settings->height,
        .out_width = settings->width,
        .rows = settings->rows,
        .view = parts->view,
        .sampling = settings->sampling,
        .params = buffers->params,
        .weight = buffers->weight,
    };
    find_samples(jobs, &at, parts->view ? before : NULL);
    jobs->move.batch = jobs->next.batch;
    jobs->move.black = (const uint32_t *)(void *)(memory + at.black);
    if (augmented)
        jobs->params.spec = (ff_augment_spec){0};
    else if (at.table_bytes)
        set_table(&jobs->move, settings, memory + at.table);
    if (!parts->view) FF_TRY(add_columns(&jobs->move, resident, slot, buffers, error));
    /* Rows of u8 are moved as they are. */
    if (!ff_batch_augment_needed(settings) || (augmented && settings->host.to != FF_U8))
        return FF_OK;
    jobs->augments = true;
    jobs->params.mix = buffers->mix;
    jobs->memory_bytes += ff_batch_augment_bytes(settings);
    FF_TRY(ff_batch_augment_create(&jobs->augment, settings, parts->view, parts->device,
                                   &jobs->move, parts->values, error));
    if (augmented) {
        jobs->augment.job.resampled = jobs->augment.job.changed = 0;
        return FF_OK;
    }
    jobs->augment.job.size = jobs->params.size;
    if (jobs->params.size) jobs->augment.job.offset = resident->offset;
    return FF_OK;
}

void ff_batch_jobs_destroy(ff_batch_jobs *jobs) {
    ff_batch_augment_destroy(&jobs->augment);
    if (jobs->device) jobs->device->table->release(jobs->device, jobs->memory);
    *jobs = (ff_batch_jobs){0};
}

ff_status ff_batch_jobs_launched(const ff_device *device, int code, const char *what,
                                 ff_error *error) {
    if (code == FF_CUDA_OK) return FF_OK;
    const ff_device_table *table = device->table;
    const char *name = table->error_name ? table->error_name(code) : NULL;
    return ff_fail(
        error, FF_FAILED, "the kernel that %s could not be launched: %s (CUDA error %d)%s", what,
        name ? name : "unknown", code, table->error_advice ? table->error_advice(code) : "");
}

ff_status ff_batch_jobs_repeat(const ff_batch_jobs *jobs, ff_stream *stream, ff_error *error) {
    ff_device *device = jobs->device;
    ff_cuda_stream native = device->table->native_stream(device, stream);
    FF_TRY(device->table->make_current(device, error));
    FF_TRY(ff_batch_jobs_launched(device, jobs->kernels->params(&jobs->params, native),
                                  "draws parameters", error));
    if (jobs->augments)
        return ff_batch_jobs_launched(device, jobs->kernels->augment(&jobs->augment.job, native),
                                      "augments samples", error);
    return ff_batch_jobs_launched(device, jobs->kernels->move(&jobs->move, native), "moves samples",
                                  error);
}

static ff_status find_place(const ff_batch_jobs *jobs, const ff_cuda_next *next, ff_stream *stream,
                            ff_error *error) {
    ff_device *device = jobs->device;
    FF_TRY(device->table->make_current(device, error));
    return ff_batch_jobs_launched(
        device, jobs->kernels->next(next, device->table->native_stream(device, stream)),
        "finds a batch's place", error);
}

ff_status ff_batch_jobs_place(const ff_batch_jobs *jobs, uint64_t number, ff_stream *stream,
                              ff_error *error) {
    ff_cuda_next next = jobs->next;
    next.given = 1;
    next.number = number;
    return find_place(jobs, &next, stream, error);
}

ff_status ff_batch_jobs_seek(const ff_batch_jobs *jobs, uint64_t number, ff_stream *stream,
                             ff_error *error) {
    ff_cuda_next next = jobs->next;
    next.given = 2;
    next.number = number;
    return find_place(jobs, &next, stream, error);
}

ff_status ff_batch_jobs_enqueue(const ff_batch_jobs *jobs, ff_stream *stream, ff_error *error) {
    FF_TRY(find_place(jobs, &jobs->next, stream, error));
    return ff_batch_jobs_repeat(jobs, stream, error);
}
