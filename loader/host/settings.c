#include "loader/host/settings.h"

#include "format/base/thread.h"
#include "loader/host/reading.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_LIMIT  4096u
#define THREADS_MOST 1024
/* Batches of this size have left the caches when they are used, after those that were made before.
 */
#define STREAMED_BYTES (8u << 20)

ff_loader_options ff_loader_defaults(void) {
    return (ff_loader_options){
        .words = {"augment", "weights", "shares", "repeats", "samples_per_epoch"},
        .batch = 256,
        .order = FF_ORDER_RANDOM,
        .dtype = FF_F32,
        .layout = FF_CHW,
        .threads = -1,
    };
}

/* ---- order ---------------------------------------------------------------------------------- */

static void choose_machines(ff_order_spec *order, const ff_loader_options *options) {
    const uint32_t ranks = options->memory_ranks ? options->memory_ranks : 1;
    order->batch = options->node_batch ? options->node_batch : options->batch;
    order->pairs = ff_augment_mixes(&options->augment);
    order->machines = options->machines      ? options->machines
                      : options->share_total ? (options->share_total - 1) / ranks + 1
                                             : 1;
}

static ff_status resolve_order(ff_loader_settings *settings, const ff_loader_options *options,
                               ff_error *error) {
    settings->order = (ff_order_spec){.count = settings->count,
                                      .seed = options->seed,
                                      .block = options->block,
                                      .group = options->group,
                                      .kind = options->order};
    if (options->order == FF_ORDER_NODE_BLOCK) choose_machines(&settings->order, options);
    if (ff_order_has_blocks(options->order)) ff_reading_choose_blocks(settings, options);
    FF_TRY(ff_order_check(&settings->order, error));
    return FF_OK;
}

static ff_sampling_kind kind_of(const ff_weights *weights, uint32_t per_class) {
    if (per_class) return FF_SAMPLING_CLASSES;
    if (!weights) return FF_SAMPLING_ORDER;
    return weights->distinct ? FF_SAMPLING_DISTINCT : FF_SAMPLING_WEIGHTS;
}

/* An epoch's draws, of which repeats show each several times, and their units (sampling.h). */
static ff_status share_draws(ff_loader_settings *settings, const ff_loader_options *options,
                             ff_error *error) {
    const ff_shares *shares = options->shares;
    ff_sampling *sampling = &settings->sampling;
    const uint64_t repeats = options->repeats ? options->repeats : 1;
    const uint64_t batch = options->drawn_batch ? options->drawn_batch : options->batch;
    const uint64_t each = (batch - 1) / repeats + 1;
    const uint64_t batches = settings->sequence.count / batch;
    const uint64_t rest = settings->sequence.count % batch;
    sampling->batch = batch;
    sampling->kind = FF_SAMPLING_SHARES;
    sampling->count = shares->count;
    sampling->stages = shares->stages;
    sampling->unit = shares->by_batch ? each : 1;
    sampling->units =
        shares->by_batch ? batches + (rest != 0) : batches * each + (rest < each ? rest : each);
    FF_TRY(
        ff_shares_table(shares, sampling->units, sampling->unit, &settings->shares_table, error));
    sampling->table = settings->shares_table;
    return FF_OK;
}

/* The samples of the order's places; NULL = all. */
static const ff_selection *ordered(const ff_loader_options *options) {
    if (options->per_class) return &options->classes->order;
    if (options->shares && options->selection) return &options->shares->order;
    return options->selection;
}

/* Block order needs neighbours on disk. */
static ff_status find_places(ff_loader_settings *settings, const ff_loader_options *options,
                             ff_error *error) {
    const ff_weights *weights = options->per_class ? options->classes : options->weights;
    const ff_selection *selection = ordered(options);
    settings->count = selection ? selection->count : settings->stored;
    settings->sampling = (ff_sampling){
        .table = weights ? weights->table : NULL,
        .count = weights ? weights->count : 0,
        .seed = options->seed,
        .batch = options->drawn_batch ? options->drawn_batch : options->batch,
        .distinct = weights ? weights->distinct : 0,
        .repeats = options->repeats,
        .per_class = options->per_class,
        .listed = selection && selection->repeats && options->augment.flip != FF_FLIP_ALTERNATE,
        .kind = kind_of(weights, options->per_class)};
    if (options->shares) FF_TRY(share_draws(settings, options, error));
    return ff_selection_places(selection, settings->dataset,
                               ff_order_has_blocks(options->order) || options->feed.storage_order,
                               &settings->storage, error);
}

/* ---- shapes and memory ---------------------------------------------------------------------- */

/* The output's size: the options', else the augmentation's, else the samples'. */
static ff_status choose_size(ff_loader_settings *settings, const ff_loader_options *options,
                             ff_error *error) {
    const ff_metadata *metadata = settings->metadata;
    bool given = options->height && options->width;
    uint32_t height = metadata->height, width = metadata->width;
    if (settings->augment.rrc) {
        height = width = settings->augment.rrc;
    } else if (metadata->variable_size && !given) {
        return ff_fail(error, FF_USAGE,
                       "its samples have different sizes, up to %ux%u: they become one by a random "
                       "resized crop (rrc=SIZE), or by a resize (resize=SIZE) or crop to an output "
                       "size",
                       height, width);
    } else if (settings->augment.resize) {
        ff_augment_resized(settings->augment.resize, &height, &width);
    }
    settings->height = options->height ? options->height : height;
    settings->width = options->width ? options->width : width;
    if (settings->height > FF_SIDE_LIMIT || settings->width > FF_SIDE_LIMIT)
        return ff_fail(error, FF_USAGE, "an output of %ux%u is too large; a side has at most %u",
                       settings->height, settings->width, FF_SIDE_LIMIT);
    /* The smallest size that a sample of any shape is resized to. */
    height = metadata->height, width = metadata->width;
    if (metadata->variable_size && settings->augment.resize)
        height = width = settings->augment.resize;
    return ff_augment_check(&settings->augment, height, width, settings->height, settings->width,
                            error);
}

/* Bytes of the largest sample as stored: if sizes differ, often less than their bounds imply. */
static ff_status largest_sample(const ff_loader_settings *settings, uint64_t *bytes,
                                ff_error *error) {
    const ff_metadata *metadata = settings->metadata;
    *bytes = ff_metadata_tensor_bytes(metadata, metadata->height, metadata->width);
    if (!metadata->variable_size) return FF_OK;
    uint64_t largest = 1;
    for (uint64_t i = 0; i < settings->count; i++) {
        ff_entry entry;
        ff_dataset_scan(settings->dataset, i, FF_SCAN_ENTRIES);
        FF_TRY(ff_dataset_entry(settings->dataset, ff_storage_order_at(&settings->storage, i),
                                &entry, error));
        uint64_t here = ff_metadata_tensor_bytes(metadata, entry.height, entry.width);
        if (here > largest) largest = here;
    }
    if (largest < *bytes) *bytes = largest;
    return FF_OK;
}

static ff_status resolve_feed(ff_loader_settings *settings, const ff_loader_feed *feed,
                              ff_error *error) {
    settings->raw = feed->raw;
    settings->cyclic = feed->cyclic;
    if (settings->raw) {
        ff_finish_free(&settings->finish); /* jitter, changes and mixing come later */
        FF_TRY(largest_sample(settings, &settings->row_bytes, error));
    }
    if (feed->row_align) settings->row_bytes = ff_align_u64(settings->row_bytes, feed->row_align);
    return FF_OK;
}

ff_status ff_loader_settings_shape(ff_loader_settings *settings, const ff_loader_options *options,
                                   ff_error *error) {
    const ff_metadata *metadata = settings->metadata;
    settings->augment = options->augment;
    if (!settings->augment.crop)
        settings->augment.pad = 0, settings->augment.pad_mode = FF_PAD_BLACK;
    FF_TRY(choose_size(settings, options, error));
    ff_dtype dtype = options->dtype >= FF_DTYPE_COUNT ? FF_F32 : options->dtype;
    FF_TRY(ff_augment_host_init(&settings->host, metadata, &settings->augment, dtype,
                                options->layout, settings->height, settings->width, error));
    FF_TRY(ff_finish_init(&settings->finish, metadata, &settings->augment, &settings->host, error));
    uint64_t pixels;
    if (!ff_mul_u64(settings->height, settings->width, &pixels) ||
        !ff_mul_u64(pixels, metadata->channels * (uint64_t)settings->host.to_bytes,
                    &settings->row_bytes) ||
        settings->row_bytes > UINT64_MAX / 2)
        return ff_fail(error, FF_USAGE, "an output of %ux%u is too large", settings->height,
                       settings->width);
    return resolve_feed(settings, &options->feed, error);
}

static ff_status resolve_labels(ff_loader_settings *settings, const ff_loader_options *options,
                                ff_error *error) {
    const ff_metadata *metadata = settings->metadata;
    bool first = options->label_count == 0;
    size_t count = first ? 1 : options->label_count;
    if (first && (metadata->field_count == 0 || metadata->field[0].kind == FF_FIELD_NONE))
        return FF_OK;
    FF_TRY(ff_alloc(&settings->field, count, sizeof *settings->field, "labels", error));
    FF_TRY(
        ff_alloc(&settings->label_offset, count, sizeof *settings->label_offset, "labels", error));
    settings->label_count = count;
    for (size_t i = 0; i < count; i++) {
        FF_TRY(ff_dataset_field(settings->dataset, first ? NULL : options->label[i],
                                &settings->field[i], error));
        const ff_field *field = &metadata->field[settings->field[i]];
        if (field->kind == FF_FIELD_NONE)
            return ff_fail(error, FF_USAGE, "%s: field %s holds no labels",
                           ff_dataset_path(settings->dataset), field->name);
        if (ff_field_bytes(field) > settings->label_values_limit)
            settings->label_values_limit = ff_field_bytes(field);
    }
    return FF_OK;
}

/* Places the views' images, the first's of the largest size, one after another; *end: their end. */
static bool place_views(ff_loader_settings *settings, uint64_t row_bytes, uint64_t *end) {
    uint64_t bytes;
    bool fits = ff_mul_u64(settings->rows, row_bytes, end) && *end < UINT64_MAX / 4;
    for (uint32_t v = 1; fits && v < settings->views; v++) {
        settings->view[v].offset = ff_align_u64(*end, 64);
        fits = ff_mul_u64(settings->rows, settings->view[v].row_bytes, &bytes) &&
               ff_add_u64(settings->view[v].offset, bytes, end) && *end < UINT64_MAX / 4;
    }
    return fits;
}

/* row_bytes: of the largest size. */
static ff_status resolve_memory(ff_loader_settings *settings, uint64_t row_bytes, ff_error *error) {
    uint64_t end, bytes;
    bool fits = place_views(settings, row_bytes, &end);
    for (size_t i = 0; fits && i < settings->label_count; i++) {
        const ff_slot_label label = ff_loader_settings_label(settings, i, NULL);
        end = ff_align_u64(end, 64);
        settings->label_offset[i] = end;
        fits = ff_mul_u64(settings->rows, ff_slot_label_bytes(&label), &bytes) &&
               ff_add_u64(end, bytes, &end) && end < UINT64_MAX / 4;
    }
    if (!fits)
        return ff_fail(error, FF_USAGE, "a batch of %u samples of %" PRIu64 " bytes is too large",
                       settings->rows, row_bytes);
    settings->weight_offset = ff_align_u64(end, 64);
    end = settings->weight_offset + settings->rows * sizeof(float);
    if (settings->finish.mixes) {
        settings->mix_offset = ff_align_u64(end, 64);
        end = settings->mix_offset + settings->rows * sizeof(float);
    }
    settings->slot_bytes = ff_align_u64(end, 256);
    settings->host.streams = settings->slot_bytes >= STREAMED_BYTES;
    ff_finish_stream(&settings->finish, settings->host.streams);
    return FF_OK;
}

static ff_status resolve_threads(ff_loader_settings *settings, const ff_loader_options *options,
                                 ff_error *error) {
    settings->threads = options->threads;
    if (settings->threads < 0) {
        settings->threads = ff_cpu_count();
        if (settings->threads > 8) settings->threads = 8;
    }
    settings->slots = options->slots ? options->slots : settings->threads ? 4 : 2;
    if (settings->threads > THREADS_MOST || settings->slots > SLOTS_LIMIT)
        return ff_fail(error, FF_USAGE, "%d threads and %u slots; at most %d and %u are possible",
                       settings->threads, settings->slots, THREADS_MOST, SLOTS_LIMIT);
    return FF_OK;
}

/* The settings from later epochs on, and room for the largest rows of all epochs. */
static ff_status resolve_later(ff_loader_settings *settings, const ff_loader_options *options,
                               ff_error *error) {
    uint64_t row_bytes = settings->row_bytes;
    FF_TRY(
        ff_alloc(&settings->later, options->size_count, sizeof *settings->later, "sizes", error));
    for (size_t i = 0; i < options->size_count; i++) {
        const ff_loader_size *size = &options->sizes[i];
        ff_loader_settings *one = &settings->later[i];
        ff_loader_options own = *options;
        own.size_count = 0;
        own.access = settings->direct ? FF_ACCESS_READ : FF_ACCESS_MAPPED;
        own.block = settings->order.block;
        own.group = settings->order.group;
        own.height = size->height;
        own.width = size->width;
        own.augment = size->augment;
        FF_TRY(ff_loader_settings_init(one, settings->dataset, &own, error));
        settings->later_count++;
        one->from_epoch = size->epoch;
        if (one->row_bytes > row_bytes) row_bytes = one->row_bytes;
        if (size->epoch <= (i ? one[-1].from_epoch : 0) ||
            one->finish.mixes != settings->finish.mixes)
            return ff_fail(error, FF_USAGE,
                           "sizes by epoch are in the order of their epochs, from 1 on, and mixup "
                           "and cutmix stay as they are");
    }
    FF_TRY(resolve_memory(settings, row_bytes, error));
    for (size_t i = 0; i < settings->later_count; i++)
        FF_TRY(resolve_memory(&settings->later[i], row_bytes, error));
    return FF_OK;
}

ff_status ff_loader_settings_init(ff_loader_settings *settings, ff_dataset *dataset,
                                  const ff_loader_options *options, ff_error *error) {
    *settings = (ff_loader_settings){.dataset = dataset,
                                     .metadata = ff_dataset_metadata(dataset),
                                     .stored = ff_dataset_count(dataset),
                                     .seed = options->seed,
                                     .classes_i64 = options->classes_i64,
                                     .class_numbers = options->class_numbers,
                                     .class_count = options->class_count,
                                     .kept_bytes = options->kept_bytes,
                                     .given = *options};
    ff_status status;
    settings->given.selection = NULL;
    settings->given.weights = settings->given.classes = NULL;
    settings->given.shares = NULL;
    settings->given.label = NULL;
    settings->given.class_numbers = NULL;
    settings->given.sizes = NULL;
    settings->given.groups = NULL;
    FF_TRY_DONE(ff_sequence_init(&settings->sequence, dataset, options, error));
    settings->rows = settings->sequence.rows;
    FF_TRY_DONE(find_places(settings, options, error));
    FF_TRY_DONE(ff_loader_settings_shape(settings, options, error));
    FF_TRY_DONE(resolve_labels(settings, options, error));
    FF_TRY_DONE(ff_loader_settings_views(settings, options, error));
    FF_TRY_DONE(resolve_memory(settings, settings->row_bytes, error));
    FF_TRY_DONE(resolve_threads(settings, options, error));
    FF_TRY_DONE(ff_reading_measure(settings, options, error));
    FF_TRY_DONE(resolve_order(settings, options, error));
    ff_reading_choose_access(settings);
    settings->ahead = ff_ahead_budget_of(settings, ff_reading_ahead_bytes(settings, options));
    if (options->size_count) FF_TRY_DONE(resolve_later(settings, options, error));
done:
    if (status != FF_OK) ff_loader_settings_free(settings);
    return status;
}

size_t ff_loader_settings_in(const ff_loader_settings *settings, uint32_t epoch) {
    size_t which = 0;
    while (which < settings->later_count && epoch >= settings->later[which].from_epoch) which++;
    return which;
}

void ff_loader_settings_free(ff_loader_settings *settings) {
    for (size_t i = 0; i < settings->later_count; i++) ff_loader_settings_free(&settings->later[i]);
    free(settings->later);
    ff_loader_settings_free_views(settings);
    ff_finish_free(&settings->finish);
    ff_augment_host_free(&settings->host);
    ff_storage_order_free(&settings->storage);
    free(settings->shares_table);
    free(settings->field);
    free(settings->label_offset);
    *settings = (ff_loader_settings){0};
}

ff_loader_position ff_loader_settings_next(const ff_loader_settings *settings,
                                           const ff_sequence_batch *batch) {
    ff_loader_position next = {.seed = settings->seed,
                               .batch = settings->sequence.batch,
                               .position = batch->global_position + batch->global_count,
                               .epoch = batch->epoch};
    if (batch->last) {
        next.position = 0, next.epoch++;
    } else if (batch->cut + 1 < settings->sequence.cuts) {
        next.position = batch->global_position, next.cut = batch->cut + 1;
    }
    return next;
}

ff_loader_info ff_loader_settings_describe(const ff_loader_settings *settings) {
    ff_loader_info info = {
        .samples = settings->sequence.count,
        .batches_per_epoch = settings->sequence.epoch_batches,
        .slot_bytes = settings->slot_bytes,
        .row_bytes = settings->row_bytes,
        .rows = settings->rows,
        .channels = settings->metadata->channels,
        .height = settings->raw ? settings->metadata->height : settings->height,
        .width = settings->raw ? settings->metadata->width : settings->width,
        .slots = settings->slots,
        .threads = settings->threads,
        .block = settings->order.block,
        .group = settings->order.group,
        .machines = settings->order.machines,
        .order_bytes = settings->storage.bytes,
        .direct = settings->direct,
        .shard_bytes = settings->shard_bytes,
        .beyond_memory_bytes = settings->beyond_memory_bytes,
        .memory = settings->memory,
        .unmappable = settings->unmappable,
        .read_again = settings->read_again,
        .ahead_bytes =
            (settings->ahead.in_cache ? 0 : settings->ahead.bytes) + settings->ahead.plan_bytes,
        .ahead_blocks = settings->ahead.blocks,
    };
    ff_reading_look_at_cache(settings, &info);
    return info;
}

ff_dtype ff_loader_label_dtype(const ff_field *field, bool classes_i64) {
    if (field->kind != FF_FIELD_CLASS) return FF_F32;
    return classes_i64 ? FF_I64 : FF_I32;
}

ff_slot_label ff_loader_settings_label(const ff_loader_settings *settings, size_t i, void *values) {
    const ff_field *field = &settings->metadata->field[settings->field[i]];
    return (ff_slot_label){
        .values = values,
        .dtype = ff_loader_label_dtype(field, settings->classes_i64),
        .width = field->width,
        .field = settings->field[i],
    };
}
