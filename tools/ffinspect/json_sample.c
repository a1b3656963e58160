#include "format/base/json.h"
#include "format/reader/dataset_json.h"
#include "tools/ffinspect/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_VALUES = 16 };

static json_t *value_of(ff_dtype dtype, const void *values, size_t i) {
    if (dtype == FF_I64) return json_integer((json_int_t)ff_load_u64((const char *)values + 8 * i));
    double value = ff_element(values, dtype, i);
    return ff_dtype_is_float(dtype) ? ff_json_number(value) : json_integer((json_int_t)value);
}

static json_t *values_array(ff_dtype dtype, const void *values, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < count; i++) ff_json_append(&array, value_of(dtype, values, i));
    return array;
}

/* {"value": 3, "class": "cat"}, {"values": [...]}, or null. */
static json_t *label_object(const ff_field *field, const void *values) {
    if (field->kind == FF_FIELD_NONE) return json_null();
    if (field->kind != FF_FIELD_CLASS)
        return json_pack("{s:o}", "values", values_array(field->dtype, values, field->width));
    json_t *object = json_pack("{s:o}", "value", value_of(field->dtype, values, 0));
    int64_t value = object ? json_integer_value(json_object_get(object, "value")) : -1;
    if (value < 0 || value >= field->class_count) return object;
    const char *name = field->class_name[value];
    if (json_object_set_new(object, "class", ff_json_text(name))) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static ff_status add_labels(json_t *list, ff_dataset *dataset, ff_reader *reader, uint64_t number,
                            ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    for (size_t i = 0; i < metadata->field_count; i++) {
        const ff_field *field = &metadata->field[i];
        void *values;
        int64_t checked;
        if (field->kind == FF_FIELD_CLASS)
            FF_TRY(ff_dataset_class(dataset, number, i, &checked, error));
        FF_TRY(ff_alloc_aligned(&values, ff_field_bytes(field) + 1, 1, 0, "a label", error));
        ff_status status = field->width ? ff_reader_label(reader, number, i, values, error) : FF_OK;
        if (status == FF_OK) {
            json_t *label = json_pack("{s:o, s:o}", "field", ff_json_text(field->name), "label",
                                      label_object(field, values));
            if (json_array_append_new(list, label))
                status = ff_fail(error, FF_NO_MEMORY, "not enough memory for the JSON document");
        }
        free(values);
        FF_TRY(status);
    }
    return FF_OK;
}

static ff_status add_sample(json_t *list, ff_dataset *dataset, ff_reader *reader, uint64_t number,
                            ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    unsigned char key[FF_KEY_LIMIT_BYTES];
    size_t key_bytes, bytes = ff_dtype_bytes(metadata->dtype);
    unsigned char first[FIRST_VALUES * 8];
    ff_view view, head;
    ff_shard_info shard;
    FF_TRY(ff_reader_sample(reader, number, &view, error));
    head = view;
    if (head.tensor_bytes > FIRST_VALUES * bytes) head.tensor_bytes = FIRST_VALUES * bytes;
    FF_TRY(ff_view_copy(dataset, &head, first, error));
    FF_TRY(ff_dataset_shard(dataset, view.entry.shard, &shard, error));
    FF_TRY(ff_dataset_key(dataset, number, key, &key_bytes, error));
    bool chw = metadata->layout == FF_CHW;
    json_int_t c = metadata->channels, h = view.height, w = view.width;
    json_t *sample = json_pack(
        "{s:I, s:I, s:s, s:I, s:I, s:[I, I, I], s:o, s:o, s:o, s:[], s:o}", "number",
        (json_int_t)number, "item", (json_int_t)view.entry.item, "shard", shard.name, "offset",
        (json_int_t)view.entry.offset, "bytes", (json_int_t)view.entry.bytes, "shape", chw ? c : h,
        chw ? h : w, chw ? w : c, "checksum", ff_json_hex(view.entry.checksum, 16),
        "source_checksum", ff_json_hex(view.entry.source_checksum, 16), "key",
        ff_json_key(key, key_bytes), "labels", "first_values",
        values_array(metadata->dtype, first, head.tensor_bytes / bytes));
    if (json_array_append_new(list, sample))
        return ff_fail(error, FF_NO_MEMORY, "not enough memory for the JSON document");
    return add_labels(json_object_get(sample, "labels"), dataset, reader, number, error);
}

ff_status ff_inspect_json_samples(json_t **out, ff_dataset *dataset, uint64_t begin, uint64_t end,
                                  ff_error *error) {
    ff_reader *reader;
    *out = json_array();
    if (!*out) return ff_fail(error, FF_NO_MEMORY, "not enough memory for the JSON document");
    ff_status status = ff_reader_open(&reader, dataset, error);
    for (uint64_t number = begin; number < end && status == FF_OK; number++)
        status = add_sample(*out, dataset, reader, number, error);
    ff_reader_close(&reader);
    if (status != FF_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}
