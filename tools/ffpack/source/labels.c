/* Changes the labels of items that are already listed. */
#include "tools/ffpack/source/source.h"

#include <stdlib.h>
#include <string.h>

typedef ff_status change_labels(void *context, const void *labels, void *changed, ff_error *error);

static ff_status copy_items(ff_listing *from, ff_listing *to, void *changed, change_labels *change,
                            void *context, ff_error *error) {
    ff_listing_cursor *cursor;
    FF_TRY(ff_listing_finish(from, error));
    FF_TRY(ff_listing_cursor_create(&cursor, from, error));
    ff_status status = FF_OK;
    for (uint64_t i = 0; i < ff_listing_count(from); i++) {
        ff_item item;
        FF_TRY_DONE(ff_listing_item(cursor, i, &item, error));
        FF_TRY_DONE(change(context, item.labels, changed, error));
        item.labels = changed;
        FF_TRY_DONE(ff_listing_add(to, &item, error));
    }
done:
    ff_listing_cursor_destroy(&cursor);
    return status;
}

ff_status ff_source_relabel(ff_source *source, size_t label_bytes, change_labels *change,
                            void *context, ff_error *error) {
    char *changed;
    FF_TRY(ff_alloc(&changed, label_bytes, 1, "labels", error));
    ff_status status = FF_OK;
    for (size_t i = 0; i < source->split_count && status == FF_OK; i++) {
        ff_listing **listing = &source->split[i].listing, *copy = NULL;
        status = ff_listing_create(&copy, source->temporary, label_bytes, error);
        if (status == FF_OK) status = copy_items(*listing, copy, changed, change, context, error);
        if (status == FF_OK) {
            ff_listing_destroy(listing);
            *listing = copy;
        } else {
            ff_listing_destroy(&copy);
        }
    }
    free(changed);
    return status;
}

/* ---- numbers of known classes -------------------------------------------------------------- */

typedef struct numbered_items {
    ff_class_numbers *numbers;
    uint64_t count;
} numbered_items;

static ff_status see_number(void *context, const ff_item *item, ff_error *error) {
    numbered_items *items = context;
    int32_t label;
    (void)error;
    memcpy(&label, item->labels, sizeof label);
    ff_class_numbers_see(items->numbers, label, ++items->count);
    return FF_OK;
}

static ff_status change_number(void *context, const void *labels, void *changed, ff_error *error) {
    (void)error;
    int32_t label;
    memcpy(&label, labels, sizeof label);
    label = ff_class_numbers_label(context, label);
    memcpy(changed, &label, sizeof label);
    return FF_OK;
}

ff_status ff_source_read_numbers(ff_source *source, ff_error *error) {
    const ff_field *field = &source->labels.field[0];
    if (field->kind != FF_FIELD_CLASS) return FF_OK;
    if (!source->classes) {
        if (source->label_kind != FF_LABEL_NAMES && source->label_kind != FF_LABEL_NUMBERS)
            return FF_OK;
        return ff_fail(error, FF_USAGE,
                       "--label-kind: %s has numbers and no names of classes; the option decides "
                       "which classes of --classes or --classes-from numbers mean",
                       source->path);
    }
    ff_class_numbers numbers;
    char *text = NULL;
    ff_status status;
    FF_TRY_DONE(
        ff_class_numbers_begin(&numbers, field, source->classes, source->label_kind, error));
    numbered_items items = {.numbers = &numbers};
    for (size_t i = 0; i < source->split_count; i++) {
        FF_TRY_DONE(ff_listing_finish(source->split[i].listing, error));
        FF_TRY_DONE(ff_listing_visit(source->split[i].listing, see_number, &items, error));
    }
    status = ff_class_numbers_decide(&numbers, "item", error);
    if (status != FF_OK) FF_TRY_DONE(ff_fail_within(error, status, "%s", source->path));
    if (numbers.names)
        FF_TRY_DONE(ff_source_relabel(source, sizeof(int32_t), change_number, &numbers, error));
    FF_TRY_DONE(ff_class_numbers_say(&numbers, &text, error));
    FF_TRY_DONE(ff_source_note(source, text, error));
done:
    ff_class_numbers_free(&numbers);
    return status;
}

/* Labels in files are of the requested kind, or refused; others are classes. */
ff_status ff_source_check_kind(const ff_source *source, ff_error *error) {
    const ff_field_kind wanted = source->label_kind == FF_LABEL_VALUE       ? FF_FIELD_VECTOR
                                 : source->label_kind == FF_LABEL_MULTI_HOT ? FF_FIELD_MULTI_HOT
                                                                            : FF_FIELD_NONE;
    if (wanted == FF_FIELD_NONE) return FF_OK;
    for (size_t i = 0; i < source->labels.field_count; i++)
        if (source->labels.field[i].kind == wanted) return FF_OK;
    return ff_fail(error, FF_USAGE, "--label-kind: %s has no labels of this kind", source->path);
}

/* ---- --label ------------------------------------------------------------------------------- */

/* The kept field's bytes among the bytes of all fields. */
typedef struct kept {
    size_t offset, bytes;
} kept;

static ff_status keep(void *context, const void *labels, void *changed, ff_error *error) {
    (void)error;
    const kept *field = context;
    memcpy(changed, (const char *)labels + field->offset, field->bytes);
    return FF_OK;
}

static ff_status no_such_field(const ff_source *source, ff_error *error) {
    ff_buffer names = {0};
    ff_status status = FF_OK;
    for (size_t i = 0; i < source->labels.field_count && status == FF_OK; i++)
        status =
            ff_buffer_printf(&names, error, "%s%s", i ? ", " : "", source->labels.field[i].name);
    if (status == FF_OK)
        status = ff_fail(error, FF_USAGE, "--label: %s has no label field '%s', only %s",
                         source->path, source->label, names.length ? names.bytes : "none");
    ff_buffer_free(&names);
    return status;
}

ff_status ff_source_keep_label(ff_source *source, ff_error *error) {
    ff_metadata *labels = &source->labels;
    kept found = {0};
    size_t number = 0;
    for (; number < labels->field_count; number++) {
        found.bytes = ff_field_bytes(&labels->field[number]);
        if (!strcmp(labels->field[number].name, source->label)) break;
        found.offset += found.bytes;
    }
    if (number == labels->field_count) return no_such_field(source, error);
    if (labels->field_count == 1) return FF_OK;
    FF_TRY(ff_source_relabel(source, found.bytes, keep, &found, error));
    ff_metadata_keep_field(labels, number);
    return FF_OK;
}
