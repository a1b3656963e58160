#include "tools/ffinspect/json.h"

#include "format/base/json.h"
#include "tools/ffinspect/facts.h"
#include "tools/ffinspect/summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static ff_status no_memory(ff_error *error) {
    return ff_fail(error, FF_NO_MEMORY, "not enough memory for the JSON document");
}

json_t *ff_inspect_json_hex(uint64_t value, int digits) {
    char text[24];
    snprintf(text, sizeof text, "%0*" PRIx64, digits, value);
    return json_string(text);
}

static json_t *string_bytes(const char *text) {
    return ff_json_bytes(text, strlen(text));
}

static json_t *integer(uint64_t value) {
    return json_integer((json_int_t)value);
}

/* Arrays fail as a whole: json_array_append_new takes NULL as a failure and frees its value. */
static json_t *float_array(const float *value, uint32_t count, bool bits) {
    json_t *array = json_array();
    for (uint32_t i = 0; array && i < count; i++) {
        json_t *item = bits ? ff_inspect_json_hex(ff_float_bits(value[i]), 8)
                            : ff_json_number((double)value[i]);
        if (json_array_append_new(array, item)) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static json_t *string_array(char *const *text, size_t count, json_t *(*make)(const char *)) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < count; i++)
        if (json_array_append_new(array, make(text[i]))) {
            json_decref(array);
            array = NULL;
        }
    return array;
}

static json_t *count_array(const ff_class_counts *counts) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < counts->length; i++)
        if (json_array_append_new(array, integer(counts->count[i]))) {
            json_decref(array);
            array = NULL;
        }
    return array;
}

/* Counts of a field without names: {"class": count}, those that occur. */
static json_t *count_object(const ff_class_counts *counts) {
    json_t *object = json_object();
    for (size_t i = 0; object && i < counts->length; i++) {
        char name[24];
        if (!counts->count[i]) continue;
        snprintf(name, sizeof name, "%zu", i);
        if (json_object_set_new(object, name, integer(counts->count[i]))) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}

static json_t *field_object(const ff_field *field, const ff_class_counts *counts) {
    json_t *object = json_pack("{s:o, s:s, s:s, s:I, s:b}", "name", string_bytes(field->name),
                               "kind", ff_field_kind_name(field->kind), "dtype",
                               ff_dtype_name(field->dtype), "width", (json_int_t)field->width,
                               "in_index", ff_field_bytes(field) <= FF_SMALL_LABEL_BYTES);
    bool failed = !object;
    if (!failed && field->class_count)
        failed = json_object_set_new(
            object, "classes", string_array(field->class_name, field->class_count, string_bytes));
    if (!failed && counts->counted) {
        bool listed = field->class_count || field->kind == FF_FIELD_MULTI_HOT;
        failed = json_object_set_new(object, "counts",
                                     listed ? count_array(counts) : count_object(counts)) ||
                 json_object_set_new(object, "unlabeled", integer(counts->unlabeled));
    }
    if (!failed && counts->counted && !field->class_count && counts->maximum >= counts->minimum)
        failed = json_object_set_new(object, "smallest", json_integer(counts->minimum)) ||
                 json_object_set_new(object, "largest", json_integer(counts->maximum)) ||
                 json_object_set_new(object, "uncounted", integer(counts->other));
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

static json_t *fields_array(const ff_metadata *metadata, const ff_facts *facts) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < metadata->field_count; i++)
        if (json_array_append_new(array, field_object(&metadata->field[i], &facts->field[i]))) {
            json_decref(array);
            array = NULL;
        }
    return array;
}

static json_t *provenance_array(const ff_metadata *metadata) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < metadata->provenance_count; i++) {
        json_t *item = json_pack("{s:o, s:o}", "key", string_bytes(metadata->provenance[i].key),
                                 "value", string_bytes(metadata->provenance[i].value));
        if (json_array_append_new(array, item)) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static json_t *shards_array(ff_dataset *dataset) {
    json_t *array = json_array();
    for (uint32_t i = 0; array && i < ff_dataset_shard_count(dataset); i++) {
        ff_shard_info info;
        json_t *item = NULL;
        if (ff_dataset_shard(dataset, i, &info, NULL) == FF_OK)
            item = json_pack("{s:s, s:I, s:I, s:I, s:I}", "name", info.name, "bytes",
                             (json_int_t)info.file_bytes, "samples", (json_int_t)info.sample_count,
                             "first_position", (json_int_t)info.first_position, "positions",
                             (json_int_t)info.position_count);
        if (json_array_append_new(array, item)) {
            json_decref(array);
            array = NULL;
        }
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
    return json_pack("{s:s, s:o, s:o, s:o, s:o}", "state", ff_inspect_normalize_state(metadata),
                     "mean", float_array(metadata->mean, count, false), "std",
                     float_array(metadata->std, count, false), "mean_bits",
                     float_array(metadata->mean, count, true), "std_bits",
                     float_array(metadata->std, count, true));
}

static json_t *summary_object(ff_dataset *dataset, const ff_facts *facts) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    const ff_dataset_ids *id = ff_dataset_id(dataset);
    return json_pack(
        "{s:o, s:I, s:I, s:s, s:s, s:o, s:b, s:I, s:I, s:I, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:o, s:o, s:o}",
        "split", string_bytes(metadata->split ? metadata->split : ""), "samples",
        (json_int_t)ff_dataset_count(dataset), "items", (json_int_t)metadata->items, "dtype",
        ff_dtype_name(metadata->dtype), "layout", ff_layout_name(metadata->layout), "shape",
        shape_array(metadata), "variable_size", metadata->variable_size, "channels",
        (json_int_t)metadata->channels, "height", (json_int_t)metadata->height, "width",
        (json_int_t)metadata->width, "compression", compression_object(metadata),
        "stored_in_number_order", facts->in_number_order, "bytes",
        json_pack("{s:I, s:I, s:I, s:I}", "total", (json_int_t)facts->file_bytes, "index",
                  (json_int_t)ff_dataset_index_bytes(dataset), "tensors",
                  (json_int_t)facts->tensor_bytes, "alignment", (json_int_t)metadata->alignment),
        "shards", shards_array(dataset), "normalize", normalize_object(metadata), "transforms",
        string_array(metadata->transform, metadata->transform_count, ff_json_text), "fields",
        fields_array(metadata, facts), "provenance", provenance_array(metadata), "required",
        string_array(metadata->required, metadata->required_count, ff_json_text), "optional",
        string_array(metadata->optional, metadata->optional_count, ff_json_text), "ids",
        json_pack("{s:o, s:o, s:o}", "content", ff_json_id(id->content), "transform",
                  ff_json_id(id->transform), "source", ff_json_id(id->source)));
}

ff_status ff_inspect_json_summary(json_t **out, ff_dataset *dataset, ff_error *error) {
    ff_facts facts;
    *out = NULL;
    ff_status status = ff_inspect_facts(&facts, dataset, error);
    if (status == FF_OK) {
        *out = summary_object(dataset, &facts);
        if (!*out) status = no_memory(error);
    }
    ff_inspect_free_facts(&facts);
    return status;
}

static json_t *channel_object(const ff_channel_stats *stats) {
    return json_pack("{s:o, s:o, s:o, s:o, s:I, s:I, s:I}", "mean", ff_json_number(stats->mean),
                     "std", ff_json_number(ff_inspect_std(stats)), "min",
                     ff_json_number(stats->minimum), "max", ff_json_number(stats->maximum),
                     "finite", (json_int_t)stats->count, "nan", (json_int_t)stats->nan_count,
                     "infinite", (json_int_t)stats->infinity_count);
}

ff_status ff_inspect_json_stats(json_t **out, const ff_channel_stats *stats, uint32_t channels,
                                ff_error *error) {
    *out = json_array();
    for (uint32_t c = 0; *out && c < channels; c++)
        if (json_array_append_new(*out, channel_object(&stats[c]))) {
            json_decref(*out);
            *out = NULL;
        }
    return *out ? FF_OK : no_memory(error);
}

ff_status ff_inspect_json_verification(json_t **out, const ff_verification *verification,
                                       ff_error *error) {
    uint64_t problems = verification->problem_count + verification->problems_left_out;
    *out = json_pack("{s:b, s:I, s:I, s:I, s:o}", "good", problems == 0, "bytes",
                     (json_int_t)verification->bytes, "files", (json_int_t)verification->files,
                     "problem_count", (json_int_t)problems, "problems", json_array());
    json_t *list = json_object_get(*out, "problems");
    for (size_t i = 0; *out && i < verification->problem_count; i++) {
        const char *text = verification->problem[i];
        if (json_array_append_new(list, ff_json_text(text))) { /* paths in it may be any bytes */
            json_decref(*out);
            *out = NULL;
        }
    }
    return *out ? FF_OK : no_memory(error);
}

static json_t *bench_row(const ff_bench_row *row) {
    return json_pack(
        "{s:s, s:I, s:o, s:o, s:o, s:o}", "order", row->random ? "random" : "sequential", "threads",
        (json_int_t)row->threads, "first_pass_samples_per_second", ff_json_number(row->first_rate),
        "samples_per_second", ff_json_number(row->rate), "memcpy_samples_per_second",
        ff_json_number(row->copy_rate), "ratio", ff_json_number(row->rate / row->copy_rate));
}

ff_status ff_inspect_json_bench(json_t **out, const ff_bench *bench, ff_error *error) {
    *out = json_pack("{s:I, s:I, s:o}", "samples", (json_int_t)bench->samples, "bytes",
                     (json_int_t)bench->bytes, "rows", json_array());
    json_t *rows = json_object_get(*out, "rows");
    for (size_t i = 0; *out && i < bench->row_count; i++)
        if (json_array_append_new(rows, bench_row(&bench->row[i]))) {
            json_decref(*out);
            *out = NULL;
        }
    return *out ? FF_OK : no_memory(error);
}
