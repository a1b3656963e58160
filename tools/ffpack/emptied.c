#include "tools/ffpack/emptied.h"

#include "format/reader.h"

#include <inttypes.h>
#include <stdlib.h>

/* How many items have each class of a field. */
typedef struct class_counts {
    const ff_field *field;
    size_t offset; /* of the field's bytes among an item's labels */
    uint64_t *count;
} class_counts;

static ff_status count_item(void *context, const ff_item *item, ff_error *error) {
    const class_counts *counts = context;
    int64_t value = ff_field_class(counts->field, (const char *)item->labels + counts->offset);
    (void)error;
    if (value >= 0 && value < counts->field->class_count) counts->count[value]++;
    return FF_OK;
}

/* Clears the counts of classes that the set has samples of. */
static ff_status clear_packed(ff_dataset *dataset, size_t index, uint64_t *count, ff_error *error) {
    for (uint64_t i = 0; i < ff_dataset_count(dataset); i++) {
        int64_t value;
        ff_dataset_scan(dataset, i, FF_SCAN_LABELS);
        FF_TRY(ff_dataset_class(dataset, i, index, &value, error));
        if (value >= 0) count[value] = 0;
    }
    return FF_OK;
}

static ff_status check_field(const ff_source_split *split, ff_dataset *dataset, size_t index,
                             ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    const ff_field *field = &metadata->field[index];
    uint64_t *count, lost = 0;
    size_t offset = 0;
    uint32_t first = 0;
    if (field->kind != FF_FIELD_CLASS || !field->class_count) return FF_OK;
    for (size_t i = 0; i < index; i++) offset += ff_field_bytes(&metadata->field[i]);
    FF_TRY(ff_alloc(&count, field->class_count, sizeof *count, "classes", error));
    ff_status status;
    class_counts listed = {.field = field, .offset = offset, .count = count};
    FF_TRY_DONE(ff_listing_visit(split->listing, count_item, &listed, error));
    FF_TRY_DONE(clear_packed(dataset, index, count, error));
    for (uint32_t i = 0; i < field->class_count; i++)
        if (count[i] && !lost++) first = i;
    if (lost)
        status = ff_fail(error, FF_BAD_DATA,
                         "%s%sall %" PRIu64 " images of class %s had to be left out%s",
                         metadata->split, *metadata->split ? ": " : "", count[first],
                         field->class_name[first], lost > 1 ? ", and those of others" : "");
done:
    free(count);
    return status;
}

ff_status ff_emptied_check(const ff_source_split *split, const char *folder, ff_error *error) {
    ff_dataset *dataset;
    FF_TRY(ff_dataset_open(&dataset, folder, FF_VERIFY_FIRST, error));
    ff_status status = FF_OK;
    for (size_t i = 0; status == FF_OK && i < ff_dataset_metadata(dataset)->field_count; i++)
        status = check_field(split, dataset, i, error);
    ff_dataset_close(&dataset);
    return status;
}
