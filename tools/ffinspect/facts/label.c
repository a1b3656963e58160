#include "tools/ffinspect/facts/label.h"

#include "tools/ffinspect/facts/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static ff_status add_number(ff_buffer *out, const ff_field *field, const void *values, size_t i,
                            ff_error *error) {
    char text[32];
    if (field->dtype == FF_I64) /* beyond what a double holds */
        return ff_buffer_printf(out, error, "%" PRId64,
                                (int64_t)ff_load_u64((const char *)values + 8 * i));
    double value = ff_element(values, field->dtype, i);
    return ff_buffer_printf(out, error, "%s", ff_inspect_float(text, (float)value));
}

static ff_status add_set_values(ff_buffer *out, const ff_field *field, const uint8_t *values,
                                size_t limit, unsigned how, ff_error *error) {
    size_t shown = 0;
    for (uint32_t i = 0; i < field->width; i++) {
        if (!values[i]) continue;
        if (shown == limit) return ff_buffer_printf(out, error, ", ...");
        if (shown++) FF_TRY(ff_buffer_printf(out, error, ", "));
        FF_TRY(ff_class_name(out, field, i, how, error));
    }
    return shown ? FF_OK : ff_buffer_printf(out, error, "(no class)");
}

static ff_status add_probabilities(ff_buffer *out, const ff_field *field, const void *values,
                                   size_t limit, ff_error *error) {
    size_t shown = 0;
    for (uint32_t i = 0; i < field->width; i++) {
        if (ff_element(values, field->dtype, i) == 0) continue;
        if (shown == limit) return ff_buffer_printf(out, error, ", ...");
        if (shown++) FF_TRY(ff_buffer_printf(out, error, ", "));
        FF_TRY(ff_class_name(out, field, i, 0, error));
        FF_TRY(ff_buffer_printf(out, error, field->class_count ? " " : ": "));
        FF_TRY(add_number(out, field, values, i, error));
    }
    return shown ? FF_OK : ff_buffer_printf(out, error, "(all 0)");
}

static ff_status add_numbers(ff_buffer *out, const ff_field *field, const void *values,
                             size_t limit, ff_error *error) {
    for (uint32_t i = 0; i < field->width; i++) {
        if (i == limit) return ff_buffer_printf(out, error, " ...");
        if (i) FF_TRY(ff_buffer_printf(out, error, " "));
        FF_TRY(add_number(out, field, values, i, error));
    }
    return FF_OK;
}

/* `*values` = the field's values of the sample, freed by the caller. Class values are
 * range-checked. */
static ff_status read_values(ff_reader *reader, ff_dataset *dataset, uint64_t number, size_t index,
                             void **values, ff_error *error) {
    const ff_field *field = &ff_dataset_metadata(dataset)->field[index];
    int64_t checked;
    *values = NULL;
    if (field->kind == FF_FIELD_CLASS)
        FF_TRY(ff_dataset_class(dataset, number, index, &checked, error));
    FF_TRY(ff_alloc_aligned(values, ff_field_bytes(field) + 1, 1, 0, "a label", error));
    ff_status status =
        field->width ? ff_reader_label(reader, number, index, *values, error) : FF_OK;
    if (status != FF_OK) {
        free(*values);
        *values = NULL;
    }
    return status;
}

ff_status ff_inspect_label(ff_buffer *out, ff_reader *reader, ff_dataset *dataset, uint64_t number,
                           size_t index, size_t limit, ff_error *error) {
    const ff_field *field = &ff_dataset_metadata(dataset)->field[index];
    void *values;
    FF_TRY(read_values(reader, dataset, number, index, &values, error));
    ff_status status = FF_OK;
    switch (field->kind) {
    case FF_FIELD_CLASS:
        status = ff_class_name(out, field, ff_field_class(field, values), FF_NAME_NUMBERED, error);
        break;
    case FF_FIELD_MULTI_HOT: status = add_set_values(out, field, values, limit, 0, error); break;
    case FF_FIELD_SOFT: status = add_probabilities(out, field, values, limit, error); break;
    case FF_FIELD_VECTOR: status = add_numbers(out, field, values, limit, error); break;
    default: status = ff_buffer_printf(out, error, "(none)");
    }
    free(values);
    return status;
}

static ff_status add_likeliest(ff_buffer *out, const ff_field *field, const void *values,
                               unsigned how, ff_error *error) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < field->width; i++)
        if (ff_element(values, FF_F32, i) > ff_element(values, FF_F32, best)) best = i;
    FF_TRY(ff_class_name(out, field, best, how, error));
    return ff_buffer_printf(out, error, " %.0f%%", 100 * ff_element(values, FF_F32, best));
}

ff_status ff_inspect_caption(ff_buffer *out, ff_reader *reader, ff_dataset *dataset,
                             uint64_t number, size_t index, unsigned how, ff_error *error) {
    enum { VALUES = 16 };
    const ff_field *field = &ff_dataset_metadata(dataset)->field[index];
    if (field->kind == FF_FIELD_VECTOR || field->kind == FF_FIELD_NONE)
        return ff_inspect_label(out, reader, dataset, number, index, VALUES, error);
    void *values;
    FF_TRY(read_values(reader, dataset, number, index, &values, error));
    ff_status status;
    if (field->kind == FF_FIELD_CLASS)
        status = ff_class_name(out, field, ff_field_class(field, values), how, error);
    else if (field->kind == FF_FIELD_SOFT)
        status = add_likeliest(out, field, values, how, error);
    else
        status = add_set_values(out, field, values, VALUES, how, error);
    free(values);
    return status;
}
