#include "loader/plan.h"

#include "format/base/thread.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH_LIMIT  (UINT64_C(1) << 30)
#define SLOTS_LIMIT  4096u
#define THREADS_MOST 1024

ff_loader_options ff_loader_defaults(void) {
    return (ff_loader_options){
        .batch = 256,
        .order = FF_ORDER_RANDOM,
        .dtype = FF_F32,
        .layout = FF_CHW,
        .threads = -1,
    };
}

uint64_t ff_loader_share(uint64_t batch, uint32_t part, uint32_t total) {
    if (part >= total) return batch;
    return batch * part / total & ~UINT64_C(1);
}

/* ---- order ---------------------------------------------------------------------------------- */

static ff_status plan_order(ff_loader_plan *plan, const ff_loader_options *options,
                            ff_error *error) {
    plan->order = (ff_order_spec){.count = plan->count,
                                  .seed = options->seed,
                                  .block = options->block,
                                  .group = options->group,
                                  .kind = options->order};
    if (options->order == FF_ORDER_BLOCK) {
        uint64_t block, group;
        ff_order_default_blocks(
            ff_metadata_slot_bytes(plan->metadata, plan->metadata->height, plan->metadata->width),
            &block, &group);
        if (plan->order.block == 0) plan->order.block = block;
        if (plan->order.group == 0) plan->order.group = group;
    }
    FF_TRY(ff_order_check(&plan->order, error));
    /* Block order wants neighbours on the disk. */
    if (options->order != FF_ORDER_BLOCK && !options->feed.storage_order) return FF_OK;
    return ff_dataset_storage_order(plan->dataset, &plan->sample_of_place, error);
}

/* ---- the sequence of batches ---------------------------------------------------------------- */

static uint64_t batches_of(uint64_t samples, uint64_t batch, bool drop) {
    return samples / batch + (!drop && samples % batch != 0);
}

static ff_status plan_sequence(ff_loader_plan *plan, const ff_loader_options *options,
                               ff_error *error) {
    if (options->batch == 0 || options->batch > BATCH_LIMIT)
        return ff_fail(error, FF_USAGE, "a batch has 1 to %" PRIu64 " samples, not %" PRIu64,
                       BATCH_LIMIT, options->batch);
    if (options->position > plan->count)
        return ff_fail(error, FF_USAGE,
                       "position %" PRIu64 " is behind the end of %s with its %" PRIu64 " samples",
                       options->position, ff_dataset_path(plan->dataset), plan->count);
    bool drop = options->last_batch == FF_LAST_BATCH_DROP && plan->count >= options->batch;
    plan->sequence.count = plan->count;
    plan->sequence.batch = options->batch;
    plan->sequence.epoch_batches = batches_of(plan->count, plan->sequence.batch, drop);
    plan->sequence.first_epoch = options->epoch;
    plan->sequence.first_position = options->position;
    plan->sequence.first_batches =
        batches_of(plan->count - options->position, plan->sequence.batch, drop);
    uint64_t epochs = options->epochs;
    if (plan->sequence.first_batches == 0) { /* stored behind the last batch of an epoch */
        plan->sequence.first_epoch++;
        plan->sequence.first_position = 0;
        plan->sequence.first_batches = options->epochs == 1 ? 0 : plan->sequence.epoch_batches;
        if (epochs > 1) epochs--;
    }
    plan->sequence.total_batches = UINT64_MAX;
    if (epochs)
        plan->sequence.total_batches =
            plan->sequence.first_batches + (epochs - 1) * plan->sequence.epoch_batches;
    return FF_OK;
}

ff_loader_position ff_loader_plan_next(const ff_loader_plan *plan, const ff_loader_place *place) {
    ff_loader_position next = {.seed = plan->seed,
                               .batch = plan->sequence.batch,
                               .position = place->global_position + place->global_count,
                               .epoch = place->epoch};
    if (place->last) next.position = 0, next.epoch++;
    return next;
}

/* ---- shapes and memory ---------------------------------------------------------------------- */

static ff_status plan_share(ff_loader_plan *plan, const ff_loader_options *options,
                            ff_error *error) {
    uint32_t begin = options->share_begin, end = options->share_end, total = options->share_total;
    if (total == 0) begin = 0, end = 1, total = 1;
    if (begin > end || end > total)
        return ff_fail(error, FF_USAGE, "parts %u to %u of %u are no share of a batch", begin, end,
                       total);
    plan->sequence.share_begin = ff_loader_share(plan->sequence.batch, begin, total);
    plan->rows = plan->sequence.rows =
        (uint32_t)(ff_loader_share(plan->sequence.batch, end, total) - plan->sequence.share_begin);
    return FF_OK;
}

/* The output's size: as asked for, else as the augmentation makes it, else the samples'. */
static ff_status choose_size(ff_loader_plan *plan, const ff_loader_options *options,
                             ff_error *error) {
    const ff_metadata *metadata = plan->metadata;
    bool given = options->height && options->width;
    uint32_t height = metadata->height, width = metadata->width;
    if (plan->augment.rrc) {
        height = width = plan->augment.rrc;
    } else if (metadata->variable_size && !given) {
        return ff_fail(error, FF_USAGE,
                       "its samples have different sizes, up to %ux%u: they become one by a random "
                       "resized crop (rrc=SIZE), or by a resize (resize=SIZE) or crop to an output "
                       "size",
                       height, width);
    } else if (plan->augment.resize) {
        ff_augment_resized(plan->augment.resize, &height, &width);
    }
    plan->height = options->height ? options->height : height;
    plan->width = options->width ? options->width : width;
    if (plan->height > FF_SIDE_LIMIT || plan->width > FF_SIDE_LIMIT)
        return ff_fail(error, FF_USAGE, "an output of %ux%u is too large; a side has at most %u",
                       plan->height, plan->width, FF_SIDE_LIMIT);
    /* The narrowest that a sample of any shape becomes. */
    height = metadata->height, width = metadata->width;
    if (metadata->variable_size && plan->augment.resize) height = width = plan->augment.resize;
    return ff_augment_check(&plan->augment, height, width, plan->height, plan->width, error);
}

/* Bytes of the largest sample as stored: where sizes differ, often less than their bounds make. */
static ff_status largest_sample(const ff_loader_plan *plan, uint64_t *bytes, ff_error *error) {
    const ff_metadata *metadata = plan->metadata;
    *bytes = ff_metadata_tensor_bytes(metadata, metadata->height, metadata->width);
    if (!metadata->variable_size) return FF_OK;
    uint64_t largest = 1;
    for (uint64_t number = 0; number < plan->count; number++) {
        ff_entry entry;
        FF_TRY(ff_dataset_entry(plan->dataset, number, &entry, error));
        uint64_t here = ff_metadata_tensor_bytes(metadata, entry.height, entry.width);
        if (here > largest) largest = here;
    }
    if (largest < *bytes) *bytes = largest;
    return FF_OK;
}

static ff_status plan_feed(ff_loader_plan *plan, const ff_loader_feed *feed, ff_error *error) {
    plan->raw = feed->raw;
    plan->cyclic = feed->cyclic;
    if (plan->raw) {
        ff_wide_free(&plan->wide); /* jitter and mixing come later */
        FF_TRY(largest_sample(plan, &plan->row_bytes, error));
    }
    if (feed->row_align) plan->row_bytes = ff_align_u64(plan->row_bytes, feed->row_align);
    return FF_OK;
}

static ff_status plan_shape(ff_loader_plan *plan, const ff_loader_options *options,
                            ff_error *error) {
    const ff_metadata *metadata = plan->metadata;
    plan->augment = options->augment;
    if (!plan->augment.crop) plan->augment.pad = 0, plan->augment.pad_mode = FF_PAD_BLACK;
    FF_TRY(choose_size(plan, options, error));
    ff_dtype dtype = options->dtype >= FF_DTYPE_COUNT ? FF_F32 : options->dtype;
    FF_TRY(ff_augment_host_init(&plan->host, metadata, &plan->augment, dtype, options->layout,
                                plan->height, plan->width, error));
    FF_TRY(ff_wide_init(&plan->wide, metadata, &plan->augment, &plan->host, error));
    uint64_t pixels;
    if (!ff_mul_u64(plan->height, plan->width, &pixels) ||
        !ff_mul_u64(pixels, metadata->channels * (uint64_t)plan->host.to_bytes, &plan->row_bytes) ||
        plan->row_bytes > UINT64_MAX / 2)
        return ff_fail(error, FF_USAGE, "an output of %ux%u is too large", plan->height,
                       plan->width);
    return plan_feed(plan, &options->feed, error);
}

static ff_status plan_labels(ff_loader_plan *plan, const ff_loader_options *options,
                             ff_error *error) {
    const ff_metadata *metadata = plan->metadata;
    bool first = options->label_count == 0;
    size_t count = first ? 1 : options->label_count;
    if (first && (metadata->field_count == 0 || metadata->field[0].kind == FF_FIELD_NONE))
        return FF_OK;
    FF_TRY(ff_alloc(&plan->field, count, sizeof *plan->field, "labels", error));
    FF_TRY(ff_alloc(&plan->label_offset, count, sizeof *plan->label_offset, "labels", error));
    plan->label_count = count;
    for (size_t i = 0; i < count; i++) {
        FF_TRY(ff_dataset_field(plan->dataset, first ? NULL : options->label[i], &plan->field[i],
                                error));
        const ff_field *field = &metadata->field[plan->field[i]];
        if (field->kind == FF_FIELD_NONE)
            return ff_fail(error, FF_USAGE, "%s: field %s holds no labels",
                           ff_dataset_path(plan->dataset), field->name);
        if (ff_field_bytes(field) > plan->label_values_limit)
            plan->label_values_limit = ff_field_bytes(field);
    }
    return FF_OK;
}

static ff_status plan_memory(ff_loader_plan *plan, ff_error *error) {
    uint64_t end, bytes;
    bool fits = ff_mul_u64(plan->rows, plan->row_bytes, &end) && end < UINT64_MAX / 4;
    for (size_t i = 0; fits && i < plan->label_count; i++) {
        end = ff_align_u64(end, 64);
        plan->label_offset[i] = end;
        fits = ff_mul_u64(plan->rows, 4 * (uint64_t)plan->metadata->field[plan->field[i]].width,
                          &bytes) &&
               ff_add_u64(end, bytes, &end) && end < UINT64_MAX / 4;
    }
    if (!fits)
        return ff_fail(error, FF_USAGE, "a batch of %u samples of %" PRIu64 " bytes is too large",
                       plan->rows, plan->row_bytes);
    plan->weight_offset = ff_align_u64(end, 64);
    end = plan->weight_offset + plan->rows * sizeof(float);
    if (plan->wide.mixes) {
        plan->mix_offset = ff_align_u64(end, 64);
        end = plan->mix_offset + plan->rows * sizeof(float);
    }
    plan->slot_bytes = ff_align_u64(end, 256);
    return FF_OK;
}

static ff_status plan_threads(ff_loader_plan *plan, const ff_loader_options *options,
                              ff_error *error) {
    plan->threads = options->threads;
    if (plan->threads < 0) {
        plan->threads = ff_cpu_count();
        if (plan->threads > 8) plan->threads = 8;
    }
    plan->slots = options->slots ? options->slots : plan->threads ? 4 : 2;
    if (plan->threads > THREADS_MOST || plan->slots > SLOTS_LIMIT)
        return ff_fail(error, FF_USAGE, "%d threads and %u slots; at most %d and %u are possible",
                       plan->threads, plan->slots, THREADS_MOST, SLOTS_LIMIT);
    return FF_OK;
}

static void plan_access(ff_loader_plan *plan, const ff_loader_options *options) {
    const ff_metadata *metadata = plan->metadata;
    if (metadata->compression != FF_COMPRESSION_NONE || options->access == FF_ACCESS_MAPPED) return;
    plan->direct = options->access == FF_ACCESS_READ;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t bytes, memory = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
    if (plan->direct || metadata->variable_size ||
        !ff_mul_u64(plan->count,
                    ff_metadata_slot_bytes(metadata, metadata->height, metadata->width), &bytes) ||
        bytes <= memory)
        return;
    plan->direct = true;
    plan->beyond_memory_bytes = bytes;
}

ff_status ff_loader_plan_init(ff_loader_plan *plan, ff_dataset *dataset,
                              const ff_loader_options *options, ff_error *error) {
    *plan = (ff_loader_plan){.dataset = dataset,
                             .metadata = ff_dataset_metadata(dataset),
                             .count = ff_dataset_count(dataset),
                             .seed = options->seed};
    ff_status status;
    FF_TRY_DONE(plan_sequence(plan, options, error));
    FF_TRY_DONE(plan_share(plan, options, error));
    FF_TRY_DONE(plan_shape(plan, options, error));
    FF_TRY_DONE(plan_labels(plan, options, error));
    FF_TRY_DONE(plan_memory(plan, error));
    FF_TRY_DONE(plan_threads(plan, options, error));
    FF_TRY_DONE(plan_order(plan, options, error));
    plan_access(plan, options);
done:
    if (status != FF_OK) ff_loader_plan_free(plan);
    return status;
}

void ff_loader_plan_free(ff_loader_plan *plan) {
    ff_wide_free(&plan->wide);
    ff_augment_host_free(&plan->host);
    free(plan->sample_of_place);
    free(plan->field);
    free(plan->label_offset);
    *plan = (ff_loader_plan){0};
}

ff_loader_info ff_loader_plan_describe(const ff_loader_plan *plan) {
    return (ff_loader_info){
        .samples = plan->count,
        .batches_per_epoch = plan->sequence.epoch_batches,
        .slot_bytes = plan->slot_bytes,
        .row_bytes = plan->row_bytes,
        .rows = plan->rows,
        .channels = plan->metadata->channels,
        .height = plan->raw ? plan->metadata->height : plan->height,
        .width = plan->raw ? plan->metadata->width : plan->width,
        .slots = plan->slots,
        .threads = plan->threads,
        .block = plan->order.block,
        .group = plan->order.group,
        .direct = plan->direct,
        .beyond_memory_bytes = plan->beyond_memory_bytes,
    };
}
