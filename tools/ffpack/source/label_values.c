#include "tools/ffpack/source/label_values.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

ff_status ff_label_values_begin(ff_label_values *values, ff_source *source, ff_error *error) {
    const char *name = source->label ? source->label : "label";
    *values = (ff_label_values){.source = source, .named_by = source->classes};
    FF_TRY(ff_metadata_add_field(&source->labels, name, FF_FIELD_CLASS, FF_I32, 1, error));
    if (source->classes) FF_TRY(ff_source_read_classes(source, 0, source->classes, error));
    values->fixed = source->classes != NULL;
    values->counted = ff_class_numbers_limit(&source->labels.field[0]);
    return FF_OK;
}

void ff_label_values_named(ff_label_values *values, uint32_t count, const char *by) {
    values->fixed = true;
    values->counted = count;
    values->named_by = by;
}

ff_status ff_label_number(ff_label_values *values, int64_t number, int32_t *label,
                          ff_error *error) {
    const int64_t most = values->counted ? (int64_t)values->counted - 1 : INT32_MAX;
    if (values->values == FF_LABELS_NAMES)
        return ff_fail(error, FF_BAD_DATA, "has a number as its label, others have names");
    values->values = FF_LABELS_NUMBERS;
    if (number < -1 || number > most)
        return ff_fail(error, FF_BAD_DATA, "has label %" PRId64 ", wanted -1 to %" PRId64 "%s%s",
                       number, most, values->counted ? " as in " : "",
                       values->counted ? values->named_by : "");
    *label = (int32_t)number;
    return FF_OK;
}

ff_status ff_label_name(ff_label_values *values, const char *name, size_t bytes, int32_t *label,
                        ff_error *error) {
    uint32_t number;
    if (values->values == FF_LABELS_NUMBERS || values->source->label_kind == FF_LABEL_NUMBERS)
        return ff_fail(error, FF_BAD_DATA, "has a name as its label, wanted a number");
    values->values = FF_LABELS_NAMES;
    if (values->fixed) {
        if (!values->classes.count)
            FF_TRY(ff_class_set_take(&values->classes, &values->source->labels.field[0], error));
        number = ff_class_set_find(&values->classes, name, bytes);
        if (number == UINT32_MAX)
            return ff_fail(error, FF_BAD_DATA, "has label '%.*s', which is not in %s", (int)bytes,
                           name, values->named_by);
    } else {
        FF_TRY(ff_class_set_add(&values->classes, name, bytes, &number, error));
    }
    *label = (int32_t)number;
    return FF_OK;
}

static ff_status change_to_rank(void *context, const void *labels, void *changed, ff_error *error) {
    (void)error;
    const uint32_t *rank = context;
    int32_t label;
    memcpy(&label, labels, sizeof label);
    if (label >= 0) label = (int32_t)rank[label];
    memcpy(changed, &label, sizeof label);
    return FF_OK;
}

static ff_status change_to_nothing(void *context, const void *labels, void *changed,
                                   ff_error *error) {
    (void)context;
    (void)labels;
    (void)changed;
    (void)error;
    return FF_OK;
}

ff_status ff_label_values_finish(ff_label_values *values, bool labeled, ff_error *error) {
    ff_source *source = values->source;
    ff_field *field = &source->labels.field[0];
    if (!labeled) {
        field->kind = FF_FIELD_NONE;
        field->width = 0;
        return ff_source_relabel(source, 0, change_to_nothing, NULL, error);
    }
    if (values->values != FF_LABELS_NAMES) return ff_source_read_numbers(source, error);
    if (values->fixed) return FF_OK;
    uint32_t *rank;
    FF_TRY(ff_class_set_finish(&values->classes, &source->labels, 0, &rank, error));
    ff_status status = ff_source_relabel(source, sizeof(int32_t), change_to_rank, rank, error);
    free(rank);
    return status;
}

void ff_label_values_free(ff_label_values *values) {
    ff_class_set_free(&values->classes);
}
