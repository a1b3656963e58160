#include "tools/ffpack/split/emptied.h"

#include "format/disk/class_name.h"
#include "format/reader/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* The classes of a field that the listing names: one element per item, then one per class. */
typedef struct listed {
    const ff_field *field;
    size_t offset; /* where the field's bytes begin in an item's labels */
    struct listed_class {
        int64_t value;
        uint64_t items; /* 0 if the set has a sample of the class */
    } * of;
    size_t count;
} listed;

static ff_status add_item(void *context, const ff_item *item, ff_error *error) {
    listed *classes = context;
    const int64_t value =
        ff_field_class(classes->field, (const char *)item->labels + classes->offset);
    (void)error;
    if (value >= 0) classes->of[classes->count++] = (struct listed_class){value, 1};
    return FF_OK;
}

static int compare_values(const void *a, const void *b) {
    const struct listed_class *left = a, *right = b;
    return (left->value > right->value) - (left->value < right->value);
}

static void join_items(listed *classes) {
    size_t joined = 0;
    qsort(classes->of, classes->count, sizeof *classes->of, compare_values);
    for (size_t i = 0; i < classes->count; i++) {
        if (joined && classes->of[joined - 1].value == classes->of[i].value)
            classes->of[joined - 1].items++;
        else
            classes->of[joined++] = classes->of[i];
    }
    classes->count = joined;
}

/* Pairs of a class and its items; an empty array for fields of other kinds. */
static ff_status count_field(json_t **counts, const ff_source_split *split,
                             const ff_metadata *metadata, size_t index, ff_error *error) {
    listed classes = {.field = &metadata->field[index]};
    *counts = json_array();
    if (classes.field->kind != FF_FIELD_CLASS) return FF_OK;
    for (size_t i = 0; i < index; i++) classes.offset += ff_field_bytes(&metadata->field[i]);
    FF_TRY(ff_alloc(&classes.of, ff_listing_count(split->listing), sizeof *classes.of, "classes",
                    error));
    const ff_status status = ff_listing_visit(split->listing, add_item, &classes, error);
    join_items(&classes);
    for (size_t i = 0; i < classes.count; i++)
        ff_json_append(counts, json_pack("[I, I]", (json_int_t)classes.of[i].value,
                                         (json_int_t)classes.of[i].items));
    free(classes.of);
    return status;
}

ff_status ff_emptied_count(json_t **counts, const ff_source_split *split,
                           const ff_metadata *metadata, ff_error *error) {
    ff_status status = FF_OK;
    *counts = json_array();
    for (size_t i = 0; status == FF_OK && i < metadata->field_count; i++) {
        json_t *field;
        status = count_field(&field, split, metadata, i, error);
        ff_json_append(counts, field);
    }
    if (status == FF_OK && !*counts)
        status = ff_fail(error, FF_NO_MEMORY, "not enough memory for the classes");
    return status;
}

static ff_status clear_packed(listed *classes, ff_dataset *dataset, size_t index, ff_error *error) {
    for (uint64_t i = 0; i < ff_dataset_count(dataset); i++) {
        struct listed_class wanted = {0}, *found;
        ff_dataset_scan(dataset, i, FF_SCAN_LABELS);
        FF_TRY(ff_dataset_class(dataset, i, index, &wanted.value, error));
        found = bsearch(&wanted, classes->of, classes->count, sizeof wanted, compare_values);
        if (found) found->items = 0;
    }
    return FF_OK;
}

static ff_status say_lost(const ff_metadata *metadata, const ff_field *field,
                          const struct listed_class *first, bool others, ff_error *error) {
    ff_buffer name = {0};
    char images[40];
    FF_TRY(ff_class_name(&name, field, first->value, 0, error));
    if (first->items == 1)
        snprintf(images, sizeof images, "the only image");
    else
        snprintf(images, sizeof images, "all %" PRIu64 " images", first->items);
    ff_status status = ff_fail(error, FF_BAD_DATA, "%s%s%s of class %s had to be left out%s",
                               metadata->split, *metadata->split ? ": " : "", images, name.bytes,
                               others ? ", and those of others" : "");
    ff_buffer_free(&name);
    return status;
}

static ff_status check_field(const json_t *counts, ff_dataset *dataset, size_t index,
                             ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    const ff_field *field = &metadata->field[index];
    const struct listed_class *first = NULL;
    listed classes = {.field = field, .count = json_array_size(counts)};
    size_t lost = 0;
    if (field->kind != FF_FIELD_CLASS || !classes.count) return FF_OK;
    FF_TRY(ff_alloc(&classes.of, classes.count, sizeof *classes.of, "classes", error));
    for (size_t i = 0; i < classes.count; i++) {
        const json_t *pair = json_array_get(counts, i);
        classes.of[i] =
            (struct listed_class){json_integer_value(json_array_get(pair, 0)),
                                  (uint64_t)json_integer_value(json_array_get(pair, 1))};
    }
    ff_status status = clear_packed(&classes, dataset, index, error);
    for (size_t i = 0; status == FF_OK && i < classes.count; i++)
        if (classes.of[i].items && !lost++) first = &classes.of[i];
    if (lost) status = say_lost(metadata, field, first, lost > 1, error);
    free(classes.of);
    return status;
}

ff_status ff_emptied_check(const json_t *counts, const char *folder, ff_error *error) {
    ff_dataset *dataset;
    FF_TRY(ff_dataset_open(&dataset, folder, FF_VERIFY_FIRST, error));
    ff_status status = FF_OK;
    for (size_t i = 0; status == FF_OK && i < ff_dataset_metadata(dataset)->field_count; i++)
        status = check_field(json_array_get(counts, i), dataset, i, error);
    ff_dataset_close(&dataset);
    return status;
}
