#include "tools/ffpack/emptied.h"

#include "format/base/bytes.h"
#include "format/reader.h"

#include <inttypes.h>
#include <stdlib.h>

/* Counts the listed items of each class. */
static ff_status count_listed(const ff_source_split *split, const ff_metadata *metadata,
                              size_t index, uint64_t *count, ff_error *error) {
    const ff_field *field = &metadata->field[index];
    size_t offset = 0;
    for (size_t i = 0; i < index; i++) offset += ff_field_bytes(&metadata->field[i]);
    ff_listing_cursor *cursor;
    FF_TRY(ff_listing_cursor_create(&cursor, split->listing, error));
    ff_status status = FF_OK;
    for (uint64_t i = 0; i < ff_listing_count(split->listing) && status == FF_OK; i++) {
        ff_item item;
        status = ff_listing_item(cursor, i, &item, error);
        if (status != FF_OK) break;
        const char *at = (const char *)item.labels + offset;
        int64_t value =
            field->dtype == FF_I64 ? (int64_t)ff_load_u64(at) : (int32_t)ff_load_u32(at);
        if (value >= 0 && value < field->class_count) count[value]++;
    }
    ff_listing_cursor_destroy(&cursor);
    return status;
}

/* Clears the counts of classes that the set has samples of. */
static ff_status clear_packed(ff_dataset *dataset, size_t index, uint64_t *count, ff_error *error) {
    for (uint64_t i = 0; i < ff_dataset_count(dataset); i++) {
        int64_t value;
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
    uint32_t first = 0;
    if (field->kind != FF_FIELD_CLASS || !field->class_count) return FF_OK;
    FF_TRY(ff_alloc(&count, field->class_count, sizeof *count, "classes", error));
    ff_status status;
    FF_TRY_DONE(count_listed(split, metadata, index, count, error));
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
