#include "tools/ffinspect/json.h"

#include "format/base/json.h"
#include "format/reader/dataset_json.h"
#include "tools/ffinspect/facts/facts.h"
#include "tools/ffinspect/facts/history.h"

#include <stdio.h>

static ff_status no_memory(ff_error *error) {
    return ff_fail(error, FF_NO_MEMORY, "not enough memory for the JSON document");
}

static json_t *integer(uint64_t value) {
    return json_integer((json_int_t)value);
}

/* The number of classes that are listed: all if they have names; else up to the last class that
 * occurs. */
static size_t listed(const ff_field *field, const ff_class_counts *counts) {
    size_t length = counts->length;
    if (field->class_count || field->kind == FF_FIELD_MULTI_HOT) return length;
    while (length && !counts->count[length - 1]) length--;
    return length;
}

static json_t *count_array(const ff_field *field, const ff_class_counts *counts) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < listed(field, counts); i++)
        ff_json_append(&array, integer(counts->count[i]));
    return array;
}

/* Adds to a field's object the number of samples of each class, by the class's number. */
static bool add_counts(json_t *object, const ff_field *field, const ff_class_counts *counts) {
    if (!counts->counted) return true;
    bool failed = json_object_set_new(object, "counts", count_array(field, counts)) ||
                  json_object_set_new(object, "unlabeled", integer(counts->unlabeled));
    if (!failed && !field->class_count && counts->maximum >= counts->minimum)
        failed = json_object_set_new(object, "smallest", json_integer(counts->minimum)) ||
                 json_object_set_new(object, "largest", json_integer(counts->maximum)) ||
                 json_object_set_new(object, "uncounted", integer(counts->other));
    return !failed;
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
        ff_json_append(&array, item);
    }
    return array;
}

/* Adds the facts of a pass over the index to the set's object. */
static bool add_facts(json_t *object, ff_dataset *dataset, const ff_facts *facts) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    bool failed = json_object_set_new(object, "stored_in_number_order",
                                      json_boolean(facts->in_number_order)) ||
                  json_object_set_new(object, "bytes",
                                      json_pack("{s:I, s:I, s:I, s:I}", "total",
                                                (json_int_t)facts->file_bytes, "index",
                                                (json_int_t)ff_dataset_index_bytes(dataset),
                                                "tensors", (json_int_t)facts->tensor_bytes,
                                                "alignment", (json_int_t)metadata->alignment)) ||
                  json_object_set_new(object, "shards", shards_array(dataset));
    json_t *fields = json_object_get(object, "fields");
    for (size_t i = 0; i < metadata->field_count && !failed; i++)
        failed = !add_counts(json_array_get(fields, i), &metadata->field[i], &facts->field[i]);
    return !failed;
}

ff_status ff_inspect_json_summary(json_t **out, ff_dataset *dataset, ff_error *error) {
    ff_facts facts;
    ff_status status;
    *out = NULL;
    FF_TRY_DONE(ff_inspect_facts(&facts, dataset, error));
    FF_TRY_DONE(ff_dataset_json(out, dataset, true, error));
    if (add_facts(*out, dataset, &facts)) {
        status = ff_inspect_json_history(*out, dataset, error);
        goto done;
    }
    json_decref(*out);
    *out = NULL;
    status = no_memory(error);
done:
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
    for (uint32_t c = 0; *out && c < channels; c++) ff_json_append(out, channel_object(&stats[c]));
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
        "{s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "order", row->random ? "random" : "sequential",
        "threads", (json_int_t)row->threads, "first_passes", (json_int_t)row->first_passes,
        "first_pass_samples_per_second", ff_json_number(row->first_rate), "samples_per_second",
        ff_json_number(row->rate), "memcpy_samples_per_second", ff_json_number(row->copy_rate),
        "ratio", ff_json_number(row->rate / row->copy_rate));
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
