#include "tools/ffpack/source/array/list.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS_LIMIT (UINT64_C(1) << 40)
enum { CHANNELS_GUESS = 4, SHAPE_BYTES = 256 };

/* ---- images -------------------------------------------------------------------------------- */

static ff_status find_layout(const ff_source *source, const ff_array *images, const char *path,
                             ff_source_raw *raw, ff_error *error) {
    char shape[SHAPE_BYTES];
    const uint64_t *size = images->size;
    if (images->dimensions == 3 && source->array_layout)
        return ff_fail(error, FF_USAGE, "--array-layout: %s: %s: has no axis of channels", path,
                       ff_array_shape(images, shape, sizeof shape));
    if (images->dimensions == 3) {
        *raw = (ff_source_raw){.channels = 1, .layout = FF_CHW};
        return FF_OK;
    }
    bool last = size[3] <= CHANNELS_GUESS, second = size[1] <= CHANNELS_GUESS;
    if (!source->array_layout && last == second)
        return ff_fail(error, FF_USAGE,
                       "%s: %s: which axis is the channels? wanted --array-layout chw (the second) "
                       "or hwc (the last)",
                       path, ff_array_shape(images, shape, sizeof shape));
    bool planar = source->array_layout ? source->array_layout == FF_ARRAY_CHW : second;
    uint64_t channels = planar ? size[1] : size[3];
    if (channels > FF_CHANNELS_LIMIT)
        return ff_fail(error, FF_BAD_DATA, "%s: %s: %" PRIu64 " channels, wanted at most %u", path,
                       ff_array_shape(images, shape, sizeof shape), channels, FF_CHANNELS_LIMIT);
    *raw = (ff_source_raw){.channels = (uint32_t)channels, .layout = planar ? FF_CHW : FF_HWC};
    return FF_OK;
}

/* Takes shape and type of the samples, which must be the same in every set. */
static ff_status take_images(ff_source *source, const ff_array_set *set, const ff_array_set *first,
                             ff_error *error) {
    const ff_array *images = &set->images;
    char shape[SHAPE_BYTES], other[SHAPE_BYTES];
    if (images->dimensions != 3 && images->dimensions != 4)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: %s: wanted images of 3 dimensions (N, H, W) or 4 with the channels",
                       set->images_path, ff_array_shape(images, shape, sizeof shape));
    for (unsigned i = 0; i < images->dimensions; i++)
        if (!images->size[i] || images->size[i] > (i ? FF_SIDE_LIMIT : ITEMS_LIMIT))
            return ff_fail(error, FF_BAD_DATA,
                           "%s: %s: dimension %u is %" PRIu64 ", wanted 1 to %" PRIu64,
                           set->images_path, ff_array_shape(images, shape, sizeof shape), i,
                           images->size[i], i ? (uint64_t)FF_SIDE_LIMIT : ITEMS_LIMIT);
    if (set != first && (images->dimensions != first->images.dimensions ||
                         images->element != first->images.element ||
                         images->big_endian != first->images.big_endian ||
                         memcmp(images->size + 1, first->images.size + 1,
                                (images->dimensions - 1) * sizeof *images->size) != 0))
        return ff_fail(error, FF_BAD_DATA, "%s: %s, but %s has %s", set->images_path,
                       ff_array_shape(images, shape, sizeof shape), first->images_path,
                       ff_array_shape(&first->images, other, sizeof other));
    if (set != first) return FF_OK;
    ff_source_raw raw;
    FF_TRY(find_layout(source, images, set->images_path, &raw, error));
    unsigned height = images->dimensions == 4 && raw.layout == FF_CHW ? 2 : 1;
    raw.height = (uint32_t)images->size[height];
    raw.width = (uint32_t)images->size[height + 1];
    raw.element = images->element;
    raw.big_endian = images->big_endian;
    source->raw = raw;
    return FF_OK;
}

/* ---- labels -------------------------------------------------------------------------------- */

/* The labels of all sets. */
typedef struct label_field {
    ff_field_kind kind;
    ff_dtype dtype;
    uint32_t width;
} label_field;

static uint64_t width_of(const ff_array *labels) {
    return labels->dimensions == 2 ? labels->size[1] : 1;
}

static bool is_class(const ff_array *labels) {
    return !ff_element_is_float(labels->element) && width_of(labels) == 1;
}

static ff_status check_labels(const ff_array_set *set, const ff_array_set *first, ff_error *error) {
    const ff_array *labels = &set->labels;
    char shape[SHAPE_BYTES], other[SHAPE_BYTES];
    if ((labels->dimensions != 1 && labels->dimensions != 2) || !width_of(labels) ||
        width_of(labels) > FF_CLASSES_LIMIT)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: %s: wanted labels of 1 dimension, or 2 with several for each image",
                       set->labels_path, ff_array_shape(labels, shape, sizeof shape));
    if (labels->size[0] != set->images.size[0])
        return ff_fail(error, FF_BAD_DATA,
                       "%s: has %" PRIu64 " labels for %" PRIu64 " images in %s", set->labels_path,
                       labels->size[0], set->images.size[0], set->images_path);
    bool same = width_of(labels) == width_of(&first->labels) &&
                ff_element_is_float(labels->element) == ff_element_is_float(first->labels.element);
    if (same) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "%s: %s, but %s has %s", set->labels_path,
                   ff_array_shape(labels, shape, sizeof shape), first->labels_path,
                   ff_array_shape(&first->labels, other, sizeof other));
}

/* Properties of all rows. */
typedef struct row_kinds {
    bool hot, soft, whole; /* only 0 and 1; not below 0 with the sum 1; whole numbers */
} row_kinds;

static ff_status look_at_rows(const ff_source *source, const ff_array_set *set, row_kinds *kinds,
                              ff_error *error) {
    const ff_array *labels = &set->labels;
    ff_array_rows rows = {.source = source, .array = labels, .path = set->labels_path};
    ff_status status = FF_OK;
    for (uint64_t i = 0; i < labels->size[0] && (kinds->hot || kinds->soft || kinds->whole); i++) {
        const unsigned char *row;
        double sum = 0;
        status = ff_array_row(&rows, i, &row, error);
        if (status != FF_OK) break;
        for (uint64_t k = 0; k < width_of(labels); k++) {
            double value = ff_element_value(row, labels->element, labels->big_endian, k);
            sum += value;
            if (!(value == 0 || value == 1)) kinds->hot = false;
            if (!(value >= 0)) kinds->soft = false;
            if (value != floor(value) || isinf(value)) kinds->whole = false;
        }
        if (!(sum >= 0.999 && sum <= 1.001)) kinds->soft = false;
    }
    ff_array_rows_free(&rows);
    return status;
}

static ff_status not_so(const ff_source *source, const char *what, ff_error *error) {
    return ff_fail(error, FF_USAGE, "--label-kind: the labels of %s are %s", source->path, what);
}

/* Chosen by --label-kind, else by the values. */
static ff_status choose_kind(const ff_source *source, const ff_array *labels,
                             const row_kinds *kinds, label_field *field, ff_error *error) {
    const ff_label_kind asked = source->label_kind;
    const bool real = ff_element_is_float(labels->element), guess = asked == FF_LABEL_GUESS;
    const uint32_t width = (uint32_t)width_of(labels);
    *field = (label_field){FF_FIELD_VECTOR, real ? FF_F32 : FF_I64, width};
    if (asked == FF_LABEL_VALUE) return FF_OK;
    if (asked == FF_LABEL_MULTI_HOT && !kinds->hot)
        return not_so(source, width > 1 ? "other numbers than 0 and 1" : "one number each", error);
    if (guess && kinds->soft) {
        *field = (label_field){FF_FIELD_SOFT, FF_F32, width};
    } else if (kinds->hot && (guess || asked == FF_LABEL_MULTI_HOT)) {
        *field = (label_field){FF_FIELD_MULTI_HOT, FF_U8, width};
    } else if (!guess || is_class(labels)) {
        if (width > 1) return not_so(source, "several numbers each", error);
        if (!kinds->whole) return not_so(source, "numbers that are not whole", error);
        *field = (label_field){FF_FIELD_CLASS, FF_I32, 1};
    }
    return FF_OK;
}

static ff_status find_field(const ff_source *source, const ff_array_set *set, size_t count,
                            label_field *field, ff_error *error) {
    const ff_array_set *first = NULL, *bare = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!set[i].labeled) {
            bare = &set[i];
            continue;
        }
        if (!first) first = &set[i];
        FF_TRY(check_labels(&set[i], first, error));
    }
    *field = (label_field){FF_FIELD_NONE, FF_I32, 0};
    if (!first) return FF_OK;
    const bool several = width_of(&first->labels) > 1;
    const bool real = ff_element_is_float(first->labels.element);
    row_kinds kinds = {.hot = several, .soft = several && real, .whole = !several};
    for (size_t i = 0; i < count; i++)
        if (set[i].labeled && (several || real))
            FF_TRY(look_at_rows(source, &set[i], &kinds, error));
    FF_TRY(choose_kind(source, &first->labels, &kinds, field, error));
    if (!bare || field->kind == FF_FIELD_CLASS) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "%s: has no labels, but %s has; only classes may be missing",
                   bare->images_path, first->images_path);
}

static ff_status add_field(ff_source *source, const label_field *field, ff_error *error) {
    FF_TRY(ff_metadata_add_field(&source->labels, "label", field->kind, field->dtype, field->width,
                                 error));
    if (!source->classes) return FF_OK;
    if (field->kind == FF_FIELD_VECTOR || field->kind == FF_FIELD_NONE)
        return ff_fail(error, FF_USAGE, "--classes: the labels of %s are %s, not of classes",
                       source->path, field->width ? "numbers" : "missing");
    FF_TRY(ff_source_read_classes(source, 0, source->classes, error));
    uint32_t named = source->labels.field[0].class_count;
    if (field->kind != FF_FIELD_CLASS && named != field->width)
        return ff_fail(error, FF_BAD_DATA, "%s: names %" PRIu32 " classes, but %s has %" PRIu32,
                       source->classes, named, source->path, field->width);
    return FF_OK;
}

/* `named`: the classes that numbers may count; 0 = any. */
static ff_status class_label(const ff_source *source, const ff_array_set *set, uint64_t index,
                             uint32_t named, const unsigned char *row, int32_t *label,
                             ff_error *error) {
    const ff_array *labels = &set->labels;
    int64_t value;
    const double real = ff_element_value(row, labels->element, labels->big_endian, 0);
    bool fits = ff_element_integer(row, labels->element, labels->big_endian, 0, &value);
    if (ff_element_is_float(labels->element))
        value = real < -2 ? -2 : real < INT32_MAX ? (int64_t)real : INT32_MAX;
    if (fits && value >= -1 && value < INT32_MAX && (!named || value < named)) {
        *label = (int32_t)value;
        return FF_OK;
    }
    uint64_t at = labels->offset + index * ff_element_bytes(labels->element);
    if (named)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: label %" PRId64 " of item %" PRIu64 " at byte %" PRIu64
                       ", wanted 0 to %" PRIu32 " as %s names %" PRIu32 " classes",
                       set->labels_path, value, index, at, named - 1, source->classes, named);
    return ff_fail(error, FF_BAD_DATA,
                   "%s: label %" PRId64 " of item %" PRIu64 " at byte %" PRIu64
                   ", wanted a class from 0 on, or -1 for an unlabelled item",
                   set->labels_path, value, index, at);
}

static ff_status make_label(const ff_source *source, const ff_array_set *set, uint64_t index,
                            uint32_t named, const unsigned char *row, void *label,
                            ff_error *error) {
    const ff_field *field = &source->labels.field[0];
    const ff_array *labels = &set->labels;
    if (field->kind == FF_FIELD_CLASS)
        return class_label(source, set, index, named, row, label, error);
    if (field->dtype == FF_F32)
        ff_elements_to_f32(label, row, labels->element, labels->big_endian, field->width, 0, 1);
    for (uint32_t k = 0; k < field->width && field->dtype != FF_F32; k++) {
        int64_t value = 0;
        if (field->dtype == FF_U8)
            value = (int64_t)ff_element_value(row, labels->element, labels->big_endian, k);
        else if (!ff_element_integer(row, labels->element, labels->big_endian, k, &value))
            return ff_fail(error, FF_BAD_DATA,
                           "%s: label %" PRIu64 " is beyond the integers of 64 bits",
                           set->labels_path, index);
        if (field->dtype == FF_U8)
            ((uint8_t *)label)[k] = (uint8_t)value;
        else
            ((int64_t *)label)[k] = value;
    }
    return FF_OK;
}

/* ---- items --------------------------------------------------------------------------------- */

static ff_status list_set(ff_source *source, const ff_array_set *set, ff_error *error) {
    ff_source_split *split;
    FF_TRY(ff_source_add_split(source, set->split, &split, error));
    uint64_t bytes = ff_array_sample_bytes(&set->images);
    ff_array_rows rows = {.source = source, .array = &set->labels, .path = set->labels_path};
    const uint32_t named = ff_class_numbers_limit(&source->labels.field[0]);
    void *label;
    FF_TRY(ff_alloc(&label, ff_field_bytes(&source->labels.field[0]) + 1, 1, "a label", error));
    if (source->labels.field[0].kind == FF_FIELD_CLASS) *(int32_t *)label = -1;
    ff_status status = FF_OK;
    for (uint64_t i = 0; i < set->images.size[0] && status == FF_OK; i++) {
        const unsigned char *row;
        char key[FF_RECORD_KEY_BYTES];
        ff_item item = {.part = set->images.part,
                        .offset = set->images.offset + i * bytes,
                        .bytes = bytes,
                        .key = key,
                        .key_bytes = ff_record_key(key, set->key, i),
                        .labels = label};
        if (set->labeled) status = ff_array_row(&rows, i, &row, error);
        if (status == FF_OK && set->labeled)
            status = make_label(source, set, i, named, row, label, error);
        if (status == FF_OK) status = ff_listing_add(split->listing, &item, error);
    }
    free(label);
    ff_array_rows_free(&rows);
    return status;
}

ff_status ff_array_list(ff_source *source, ff_array_set *set, size_t count, ff_error *error) {
    label_field field;
    for (size_t i = 0; i < count; i++) {
        FF_TRY(take_images(source, &set[i], &set[0], error));
        FF_TRY(ff_array_straighten(&set[i].images, source, set[i].images_path, error));
        if (set[i].labeled)
            FF_TRY(ff_array_straighten(&set[i].labels, source, set[i].labels_path, error));
    }
    FF_TRY(find_field(source, set, count, &field, error));
    FF_TRY(add_field(source, &field, error));
    for (size_t i = 0; i < count; i++) FF_TRY(list_set(source, &set[i], error));
    return ff_source_read_numbers(source, error);
}

void ff_array_set_free(ff_array_set *set) {
    free(set->key);
    free(set->images_path);
    free(set->labels_path);
    *set = (ff_array_set){0};
}
