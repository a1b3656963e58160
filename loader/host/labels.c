#include "loader/host/labels.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

ff_status ff_labels_init(ff_labels *labels, const ff_loader_settings *settings, ff_reader *reader,
                         ff_error *error) {
    labels->settings = settings;
    labels->reader = reader;
    return ff_alloc(&labels->values, settings->label_values_limit, 1, "labels", error);
}

void ff_labels_free(ff_labels *labels) {
    free(labels->values);
}

ff_status ff_labels_gather(ff_labels *labels, size_t which, uint64_t number, uint32_t row,
                           uint8_t *memory, ff_error *error) {
    const ff_loader_settings *settings = labels->settings;
    size_t index = settings->field[which];
    const ff_field *field = &settings->metadata->field[index];
    uint8_t *values = memory + settings->label_offset[which];
    if (field->kind == FF_FIELD_CLASS) {
        int64_t value;
        FF_TRY(ff_dataset_class(settings->dataset, number, index, &value, error));
        if (settings->class_numbers && value >= 0 && value < settings->class_count)
            value = settings->class_numbers[value];
        if (settings->classes_i64) {
            ((int64_t *)(void *)values)[row] = value;
            return FF_OK;
        }
        if (value < INT32_MIN || value > INT32_MAX)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: sample %" PRIu64 ": class %" PRId64
                           " of field %s does not fit 32 bits",
                           ff_dataset_path(settings->dataset), number, value, field->name);
        ((int32_t *)(void *)values)[row] = (int32_t)value;
        return FF_OK;
    }
    FF_TRY(ff_reader_label(labels->reader, number, index, labels->values, error));
    ff_convert((float *)(void *)values + (uint64_t)row * field->width, FF_F32, labels->values,
               field->dtype, field->width);
    return FF_OK;
}

void ff_labels_pad(const ff_loader_settings *settings, uint32_t row, uint8_t *memory) {
    for (size_t i = 0; i < settings->label_count; i++) {
        const ff_slot_label label =
            ff_loader_settings_label(settings, i, memory + settings->label_offset[i]);
        const uint64_t bytes = ff_slot_label_bytes(&label);
        memset((uint8_t *)label.values + row * bytes, label.dtype == FF_F32 ? 0 : 0xff, bytes);
    }
}
