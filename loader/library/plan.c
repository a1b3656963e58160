#include "loader/library/plan.h"

#include "loader/library/batch.h"
#include "loader/sequence/sequence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tensors in addition to the labels: images, weight, samples, sources, mix. */
enum { OTHERS = 5 };

static size_t label_count(const ff_metadata *metadata, const ff_library_settings *settings) {
    if (settings->loader.label_count) return settings->loader.label_count;
    return metadata->field_count && metadata->field[0].kind != FF_FIELD_NONE;
}

/* Each label has the name labels/NAME, the first also `labels`; the other sample's labels and the
 * views are named in the same way. */
static size_t most_tensors(size_t labels, bool mixes, size_t views) {
    return OTHERS + (labels + 1) * (mixes ? 2 : 1) + views;
}

static size_t view_count(const ff_library_settings *settings) {
    size_t views = 0;
    for (size_t i = 0; i < settings->views.count; i++) views += settings->views.group[i].views;
    return views;
}

static uint64_t values_bytes(uint64_t rows, const ff_slot_label *label) {
    return ff_align_u64(rows * ff_slot_label_bytes(label), 64);
}

static uint64_t numbers_bytes(uint64_t rows) {
    return ff_align_u64(sizeof(int64_t) * rows, 64);
}

ff_status ff_library_plan_added_bytes(uint64_t *bytes, ff_dataset *dataset,
                                      const ff_library_settings *settings, ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    const ff_loader_options *options = &settings->loader;
    const size_t labels = label_count(metadata, settings);
    const bool mixes = ff_augment_mixes(&options->augment);
    ff_sequence sequence;
    FF_TRY(ff_sequence_init(&sequence, dataset, options, error));
    const size_t most = most_tensors(labels, mixes, view_count(settings));
    *bytes = ff_align_u64(ff_library_batch_bytes(most), 64) +
             numbers_bytes(sequence.rows) * (ff_dataset_set_count(dataset) > 1 ? 2 : 1);
    for (size_t i = 0; i < labels && mixes; i++) {
        size_t field;
        const char *name = options->label_count ? options->label[i] : NULL;
        FF_TRY(ff_dataset_field(dataset, name, &field, error));
        const ff_slot_label label = {
            .dtype = ff_loader_label_dtype(&metadata->field[field], options->classes_i64),
            .width = metadata->field[field].width};
        *bytes += values_bytes(sequence.rows, &label);
    }
    return FF_OK;
}

/* ---- making --------------------------------------------------------------------------------- */

static ff_status add(ff_library_plan *plan, const char *prefix, const char *name,
                     ff_library_plan_tensor tensor, ff_error *error) {
    FF_TRY(ff_format(&tensor.name, error, "%s%s", prefix, name));
    plan->tensor[plan->count++] = tensor;
    return FF_OK;
}

static uint64_t offset_of(const ff_slot *slot, const void *part) {
    return (uint64_t)((const uint8_t *)part - (const uint8_t *)slot->data);
}

/* A tensor under two names: `prefix` alone for the first of its kind, and `prefix` with `name`. */
static ff_status add_named(ff_library_plan *plan, const char *prefix, const char *name, bool first,
                           ff_library_plan_tensor tensor, ff_error *error) {
    if (first) FF_TRY(add(plan, prefix, "", tensor, error));
    tensor.again = first;
    char with[16];
    snprintf(with, sizeof with, "%s/", prefix);
    return add(plan, with, name, tensor, error);
}

/* A label and, if rows are mixed, the other sample's label. */
static ff_status add_label(ff_library_plan *plan, const ff_slot *slot, size_t i,
                           const ff_field *field, ff_error *error) {
    const ff_slot_label *label = &slot->label[i];
    const ff_library_plan_tensor own = {.kind = field->kind == FF_FIELD_CLASS ? FF_LIBRARY_ROWS
                                                                              : FF_LIBRARY_VALUES,
                                        .dtype = label->dtype,
                                        .width = label->width,
                                        .offset = offset_of(slot, label->values),
                                        .content = FF_BATCH_OWN};
    FF_TRY(add_named(plan, "labels", field->name, i == 0, own, error));
    if (!slot->mix) return FF_OK;
    ff_library_plan_tensor other = own;
    other.content = FF_BATCH_OTHER;
    other.from = own.offset;
    other.offset = plan->bytes;
    plan->bytes += values_bytes(plan->rows, label);
    return add_named(plan, "labels_b", field->name, i == 0, other, error);
}

/* The images of each view. With the option views they are named images/0, images/1, ..., or by
 * groups images/global/0, ...; the first are always `images`, too. */
static ff_status add_images(ff_library_plan *plan, const ff_slot *slot,
                            const ff_library_views *views, ff_error *error) {
    size_t group = 0;
    uint32_t inside = 0;
    for (uint32_t v = 0; v < slot->views; v++, inside++) {
        ff_library_plan_tensor images = {.kind = FF_LIBRARY_IMAGES,
                                         .dtype = slot->dtype,
                                         .height = slot->view[v].height,
                                         .width = slot->view[v].width,
                                         .view = v,
                                         .offset = slot->view[v].offset,
                                         .content = FF_BATCH_IMAGES};
        if (!views->count) return add(plan, "images", "", images, error);
        if (inside == views->group[group].views) group++, inside = 0;
        const char *named = views->name[group];
        char name[FF_LIBRARY_NAME_MOST + 16];
        snprintf(name, sizeof name, "%s%s%u", named ? named : "", named ? "/" : "", inside);
        FF_TRY(add_named(plan, "images", name, v == 0, images, error));
    }
    return FF_OK;
}

static ff_status fill(ff_library_plan *plan, const ff_slot *slot, const ff_metadata *metadata,
                      const ff_library_views *views, ff_error *error) {
    const ff_library_plan_tensor weight = {.kind = FF_LIBRARY_ROWS,
                                           .dtype = FF_F32,
                                           .width = 1,
                                           .offset = offset_of(slot, slot->weight),
                                           .content = FF_BATCH_OWN};
    const ff_library_plan_tensor samples = {.kind = FF_LIBRARY_ROWS,
                                            .dtype = FF_I64,
                                            .width = 1,
                                            .offset = plan->samples_offset,
                                            .content = FF_BATCH_SAMPLES};
    ff_library_plan_tensor sources = samples;
    plan->sources_offset = sources.offset = plan->samples_offset + numbers_bytes(plan->rows);
    sources.content = FF_BATCH_SOURCES;
    plan->bytes = plan->sources_offset + (plan->sets > 1 ? numbers_bytes(plan->rows) : 0);
    FF_TRY(add_images(plan, slot, views, error));
    for (size_t i = 0; i < slot->label_count; i++)
        FF_TRY(add_label(plan, slot, i, &metadata->field[slot->label[i].field], error));
    FF_TRY(add(plan, "weight", "", weight, error));
    FF_TRY(add(plan, "samples", "", samples, error));
    if (plan->sets > 1) FF_TRY(add(plan, "sources", "", sources, error));
    if (!slot->mix) return FF_OK;
    ff_library_plan_tensor mix = weight;
    mix.offset = offset_of(slot, slot->mix);
    return add(plan, "mix", "", mix, error);
}

/* bytes: the ring's part of a block; batch_bytes: the part after it, for ffload_batch. */
static ff_status create(ff_library_plan **out, const ff_slot *slot, uint64_t bytes,
                        uint64_t batch_bytes, ff_dataset *dataset,
                        const ff_library_settings *settings, ff_error *error) {
    ff_library_plan *plan;
    ff_status status;
    *out = NULL;
    FF_TRY(ff_alloc(&plan, 1, sizeof *plan, "a loader's tensors", error));
    atomic_init(&plan->users, 1);
    plan->rows = slot->rows;
    plan->channels = slot->channels;
    plan->height = slot->height;
    plan->width = slot->width;
    plan->layout = slot->layout;
    plan->pads = settings->last == FF_LIBRARY_PAD;
    plan->ordinal = settings->ordinal;
    plan->sets = (uint32_t)ff_dataset_set_count(dataset);
    for (uint32_t i = 0; i <= plan->sets; i++) plan->begin[i] = ff_dataset_set_begin(dataset, i);
    plan->batch_offset = bytes;
    plan->samples_offset = bytes + ff_align_u64(batch_bytes, 64);
    FF_TRY_DONE(ff_alloc(&plan->tensor,
                         most_tensors(slot->label_count, slot->mix != NULL, view_count(settings)),
                         sizeof *plan->tensor, "a loader's tensors", error));
    status = fill(plan, slot, ff_dataset_metadata(dataset), &settings->views, error);
done:
    if (status == FF_OK)
        *out = plan;
    else
        ff_library_plan_release(plan);
    return status;
}

ff_status ff_library_plan_create(ff_library_plan **plan, ff_loader *loader, ff_dataset *dataset,
                                 const ff_library_settings *settings, ff_error *error) {
    const ff_slot slot = ff_loader_first_slot(loader, 0);
    const size_t most = most_tensors(slot.label_count, slot.mix != NULL, view_count(settings));
    return create(plan, &slot, ff_loader_describe(loader).slot_bytes, ff_library_batch_bytes(most),
                  dataset, settings, error);
}

ff_status ff_library_plan_create_device(ff_library_plan **plan, const ff_slot *slot, uint64_t bytes,
                                        ff_dataset *dataset, const ff_library_settings *settings,
                                        ff_error *error) {
    return create(plan, slot, bytes, 0, dataset, settings, error);
}

void ff_library_plan_retain(ff_library_plan *plan) {
    atomic_fetch_add(&plan->users, 1);
}

void ff_library_plan_release(ff_library_plan *plan) {
    if (!plan || atomic_fetch_sub(&plan->users, 1) != 1) return;
    for (size_t i = 0; i < plan->count; i++) free(plan->tensor[i].name);
    free(plan->tensor);
    free(plan);
}

/* ---- using ---------------------------------------------------------------------------------- */

void ff_library_plan_describe(const ff_library_plan *plan, size_t i, uint32_t rows, uint8_t *block,
                              ff_library_tensor *tensor) {
    const ff_library_plan_tensor *at = &plan->tensor[i];
    const int64_t images[] = {rows, plan->channels, at->height, at->width};
    const int64_t values[] = {rows, at->width};
    if (at->kind == FF_LIBRARY_IMAGES)
        ff_library_tensor_init_images(tensor, block + at->offset, at->dtype, plan->layout, images);
    else
        ff_library_tensor_init(tensor, block + at->offset, at->dtype, values,
                               at->kind == FF_LIBRARY_ROWS ? 1 : 2);
    if (plan->ordinal != FF_LIBRARY_CPU)
        tensor->dl.device = (DLDevice){.device_type = kDLCUDA, .device_id = plan->ordinal};
}

ff_status ff_library_plan_find(const ff_library_plan *plan, const char *name, size_t *i,
                               ff_error *error) {
    char known[1024] = "";
    size_t used = 0;
    for (*i = 0; *i < plan->count; ++*i)
        if (strcmp(plan->tensor[*i].name, name) == 0) return FF_OK;
    for (size_t k = 0; k < plan->count && used < sizeof known; k++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "",
                                 plan->tensor[k].name);
    return ff_fail(error, FF_USAGE, "a batch has no tensor '%s'; it has %s", name, known);
}
