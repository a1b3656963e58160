#include "format/select/meant.h"

#include <stdlib.h>

ff_status ff_meant_open(ff_meant *meant, ff_dataset *dataset, ff_where *where, ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    *meant = (ff_meant){.dataset = dataset, .where = where};
    FF_TRY(ff_where_bind(where, metadata, ff_dataset_path(dataset), error));
    FF_TRY(ff_reader_open(&meant->reader, dataset, error));
    return ff_alloc(&meant->field, metadata->field_count, sizeof *meant->field, "labels", error);
}

void ff_meant_close(ff_meant *meant) {
    ff_reader_close(&meant->reader);
    free(meant->field);
    *meant = (ff_meant){0};
}

/* The value of a field of a class or a single number. */
static ff_status take_value(ff_meant *meant, uint64_t number, size_t index, ff_error *error) {
    const ff_field *field = &ff_dataset_metadata(meant->dataset)->field[index];
    uint8_t stored[FF_SMALL_LABEL_BYTES];
    if (field->kind == FF_FIELD_CLASS) {
        int64_t value;
        FF_TRY(ff_dataset_class(meant->dataset, number, index, &value, error));
        meant->field[index] = (double)value;
        return FF_OK;
    }
    FF_TRY(ff_reader_label(meant->reader, number, index, stored, error));
    meant->field[index] = field->dtype == FF_I64 ? (double)(int64_t)ff_load_u64(stored)
                                                 : ff_element(stored, field->dtype, 0);
    return FF_OK;
}

ff_status ff_meant_look(ff_meant *meant, uint64_t number, const char *split, const char *key,
                        size_t key_bytes, bool *is, ff_error *error) {
    const size_t fields = ff_dataset_metadata(meant->dataset)->field_count;
    ff_entry entry;
    FF_TRY(ff_dataset_entry(meant->dataset, number, &entry, error));
    for (size_t i = 0; i < fields; i++)
        if (ff_where_needs(meant->where, i)) FF_TRY(take_value(meant, number, i, error));
    const ff_where_sample sample = {.key = key,
                                    .key_bytes = key_bytes,
                                    .split = split,
                                    .height = entry.height,
                                    .width = entry.width,
                                    .field = meant->field};
    *is = ff_where_holds(meant->where, &sample);
    return FF_OK;
}
