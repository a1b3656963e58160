#include "format/reader/dataset_json.h"

#include "format/base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *ff_metadata_normalize_state(const ff_metadata *metadata) {
    if (!metadata->statistics_count) return "none";
    return ff_dtype_is_float(metadata->dtype) ? "applied" : "recorded";
}

json_t *ff_json_hex(uint64_t value, int digits) {
    char text[24];
    snprintf(text, sizeof text, "%0*" PRIx64, digits, value);
    return json_string(text);
}

/* How names are written; names may be any bytes. */
typedef json_t *maker(const char *text);

static json_t *escaped(const char *text) {
    return ff_json_bytes(text, strlen(text));
}

static json_t *float_array(const float *value, uint32_t count, bool bits) {
    json_t *array = json_array();
    for (uint32_t i = 0; array && i < count; i++) {
        json_t *item =
            bits ? ff_json_hex(ff_float_bits(value[i]), 8) : ff_json_number((double)value[i]);
        ff_json_append(&array, item);
    }
    return array;
}

static json_t *string_array(char *const *text, size_t count, maker *make) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < count; i++) ff_json_append(&array, make(text[i]));
    return array;
}

static json_t *field_object(const ff_field *field, maker *make) {
    json_t *object = json_pack("{s:o, s:s, s:s, s:I, s:b}", "name", make(field->name), "kind",
                               ff_field_kind_name(field->kind), "dtype",
                               ff_dtype_name(field->dtype), "width", (json_int_t)field->width,
                               "in_index", ff_field_bytes(field) <= FF_SMALL_LABEL_BYTES);
    if (!object || !field->class_count ||
        json_object_set_new(object, "classes",
                            string_array(field->class_name, field->class_count, make)) == 0)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *fields_array(const ff_metadata *metadata, maker *make) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < metadata->field_count; i++)
        ff_json_append(&array, field_object(&metadata->field[i], make));
    return array;
}

static json_t *provenance_array(const ff_metadata *metadata, maker *make) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < metadata->provenance_count; i++) {
        json_t *item = json_pack("{s:o, s:o}", "key", make(metadata->provenance[i].key), "value",
                                 make(metadata->provenance[i].value));
        ff_json_append(&array, item);
    }
    return array;
}

static json_t *shape_array(const ff_metadata *metadata) {
    bool chw = metadata->layout == FF_CHW;
    return json_pack("[I, I, I]", (json_int_t)(chw ? metadata->channels : metadata->height),
                     (json_int_t)(chw ? metadata->height : metadata->width),
                     (json_int_t)(chw ? metadata->width : metadata->channels));
}

static json_t *compression_object(const ff_metadata *metadata) {
    if (metadata->compression == FF_COMPRESSION_NONE) return json_null();
    return json_pack("{s:s, s:i, s:s}", "name", "zstd", "level", metadata->level, "filter",
                     ff_filter_name(metadata->filter));
}

static json_t *normalize_object(const ff_metadata *metadata) {
    uint32_t count = metadata->statistics_count;
    return json_pack("{s:s, s:o, s:o, s:o, s:o}", "state", ff_metadata_normalize_state(metadata),
                     "mean", float_array(metadata->mean, count, false), "std",
                     float_array(metadata->std, count, false), "mean_bits",
                     float_array(metadata->mean, count, true), "std_bits",
                     float_array(metadata->std, count, true));
}

static json_t *sets_array(const ff_dataset *dataset, maker *make) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < ff_dataset_set_count(dataset); i++) {
        const ff_dataset *set = ff_dataset_set(dataset, i);
        json_t *item = json_pack("{s:o, s:I, s:o}", "path", make(ff_dataset_path(set)), "samples",
                                 (json_int_t)ff_dataset_count(set), "content",
                                 ff_json_id(ff_dataset_id(set)->content));
        ff_json_append(&array, item);
    }
    return array;
}

ff_status ff_dataset_json(json_t **out, const ff_dataset *dataset, bool plain, ff_error *error) {
    maker *make = plain ? ff_json_text : escaped;
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    const ff_dataset_ids *id = ff_dataset_id(dataset);
    *out = json_pack(
        "{s:o, s:I, s:I, s:s, s:s, s:o, s:b, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "split", make(metadata->split ? metadata->split : ""), "samples",
        (json_int_t)ff_dataset_count(dataset), "items", (json_int_t)metadata->items, "dtype",
        ff_dtype_name(metadata->dtype), "layout", ff_layout_name(metadata->layout), "shape",
        shape_array(metadata), "variable_size", metadata->variable_size, "channels",
        (json_int_t)metadata->channels, "height", (json_int_t)metadata->height, "width",
        (json_int_t)metadata->width, "compression", compression_object(metadata), "normalize",
        normalize_object(metadata), "transforms",
        string_array(metadata->transform, metadata->transform_count, ff_json_text), "fields",
        fields_array(metadata, make), "provenance", provenance_array(metadata, make), "required",
        string_array(metadata->required, metadata->required_count, ff_json_text), "optional",
        string_array(metadata->optional, metadata->optional_count, ff_json_text), "ids",
        json_pack("{s:o, s:o, s:o}", "content", ff_json_id(id->content), "transform",
                  ff_json_id(id->transform), "source", ff_json_id(id->source)));
    if (*out && ff_dataset_set_count(dataset) > 1 &&
        json_object_set_new(*out, "sets", sets_array(dataset, make))) {
        json_decref(*out);
        *out = NULL;
    }
    return *out ? FF_OK : ff_fail(error, FF_NO_MEMORY, "not enough memory for the JSON document");
}
