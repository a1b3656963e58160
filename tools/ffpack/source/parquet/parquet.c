/* Parquet files of images, as Hugging Face's datasets write them. SOURCE is a file, a folder of
 * files, or a brace pattern (shards.h).
 *
 * An image is a column of bytes, or a struct of `bytes` and `path`, of which the bytes are used. If
 * the footer's "huggingface" (JSON) calls the label a ClassLabel, its names are the classes, and
 * numbers beyond them are refused. All pages of both columns are read when the source is listed,
 * and again when it is packed. */
#include "format/base/path.h"
#include "format/cli/interrupt.h"
#include "tools/ffpack/source/parquet/reader.h"
#include "tools/ffpack/source/records.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static bool is_parquet_name(const char *name) {
    return !fnmatch("*.parquet", name, FNM_CASEFOLD);
}

static const ff_shard_kind parquet_files = {
    .one = "parquet file", .many = "parquet files", .is_name = is_parquet_name};

static bool parquet_detect(const char *path, const unsigned char *head, size_t head_bytes,
                           ff_error *error) {
    ff_shards files;
    if (head) return ff_parquet_looks_like(head, head_bytes);
    if (ff_shards_find(&files, path, &parquet_files, NULL, error) != FF_OK) return false;
    ff_shards_free(&files);
    return true;
}

typedef struct reading {
    ff_records records;
    /* The file that is being read: */
    ff_parquet parquet;
    ff_columns columns; /* as its leaves */
    ff_parquet_values *image, *label;
    uint32_t part;
} reading;

/* ---- columns -------------------------------------------------------------------------------- */

/* A struct's leaf `bytes`, next to a leaf `path`, is called by the struct; the path is not a column
 * that could be a label. */
static bool ends_with(const char *path, const char *end, size_t *before) {
    const size_t bytes = strlen(path), end_bytes = strlen(end);
    *before = bytes - end_bytes;
    return bytes > end_bytes && !strcmp(path + bytes - end_bytes, end);
}

static ff_status add_columns(reading *state, ff_error *error) {
    for (size_t i = 0; i < state->parquet.leaf_count; i++) {
        const ff_parquet_leaf *leaf = &state->parquet.leaf[i];
        size_t bytes = strlen(leaf->path), before;
        ff_column_kind kind = FF_COLUMN_OTHER;
        if (leaf->repeats)
            ;
        else if (leaf->type == FF_PARQUET_BYTES && ends_with(leaf->path, ".bytes", &before))
            kind = FF_COLUMN_IMAGE, bytes = before;
        else if (leaf->type == FF_PARQUET_BYTES && !ends_with(leaf->path, ".path", &before))
            kind = leaf->text ? FF_COLUMN_TEXT : FF_COLUMN_BYTES;
        else if (leaf->type == FF_PARQUET_INT32 || leaf->type == FF_PARQUET_INT64)
            kind = FF_COLUMN_NUMBER;
        ff_status status = ff_columns_add(&state->columns, leaf->path, bytes, kind, error);
        if (status != FF_OK) return ff_fail_within(error, status, "%s", state->records.path);
    }
    return FF_OK;
}

/* The names of a ClassLabel: info.features.COLUMN.names; NULL = none. A new reference. */
static json_t *read_names(const reading *state, const char *column) {
    const ff_thrift_text text = ff_parquet_metadata(&state->parquet, "huggingface");
    if (!text.bytes) return NULL;
    json_t *root = json_loadb(text.bytes, text.length, 0, NULL);
    const json_t *features = json_object_get(json_object_get(root, "info"), "features");
    const json_t *feature = json_object_get(features, column);
    const char *type = json_string_value(json_object_get(feature, "_type"));
    json_t *names = NULL;
    if (type && !strcmp(type, "ClassLabel")) names = json_incref(json_object_get(feature, "names"));
    json_decref(root);
    return names;
}

static ff_status add_names(ff_source *source, const char *path, const json_t *names,
                           ff_error *error) {
    ff_class_set known = {0};
    ff_status status = FF_OK;
    uint32_t number;
    for (size_t i = 0; i < json_array_size(names) && status == FF_OK; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (!name) {
            status = ff_fail(error, FF_BAD_DATA, "%s: class %zu has no name", path, i);
            break;
        }
        status = ff_class_set_add(&known, name, strlen(name), &number, error);
        if (status == FF_OK) status = ff_metadata_add_class(&source->labels, 0, name, error);
        if (status != FF_OK)
            status = ff_fail_within(error, status, "%s: class %zu", path, i);
        else if (number != i)
            status = ff_fail(error, FF_BAD_DATA, "%s: class %zu is called '%s', as one before",
                             path, i, name);
    }
    ff_class_set_free(&known);
    return status;
}

/* The first file's names are the classes; later files must have the same. */
static ff_status take_names(reading *state, const json_t *names, ff_error *error) {
    ff_records *records = &state->records;
    ff_source *source = records->source;
    const ff_field *field = &source->labels.field[0];
    const size_t count = json_array_size(names);
    if (count && source->classes)
        return ff_fail(error, FF_USAGE, "--classes: %s names the classes already", records->path);
    if (source->classes || (!count && !records->any)) return FF_OK;
    if (!records->any) {
        ff_label_values_named(&records->values, (uint32_t)count, "its ClassLabel");
        return add_names(source, records->path, names, error);
    }
    bool same = count == field->class_count;
    for (size_t i = 0; i < count && same; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        same = name && !strcmp(field->class_name[i], name);
    }
    if (same) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "%s: has other classes than the files before",
                   records->path);
}

static ff_status choose_columns(reading *state, ff_error *error) {
    ff_records *records = &state->records;
    ff_columns *columns = &state->columns;
    FF_TRY(add_columns(state, error));
    FF_TRY(ff_columns_choose(columns, records->source, records->path, error));
    const bool labeled = columns->label != SIZE_MAX;
    if (records->any && labeled != records->labeled)
        return ff_fail(error, FF_BAD_DATA, "%s: has %s label, as the files before have %s",
                       records->path, labeled ? "a" : "no", labeled ? "none" : "one");
    records->labeled = labeled;
    FF_TRY(ff_parquet_values_open(&state->image, &state->parquet, columns->image, error));
    if (labeled) {
        FF_TRY(ff_parquet_values_open(&state->label, &state->parquet, columns->label, error));
        json_t *names = read_names(state, columns->column[columns->label].name);
        const ff_status status = take_names(state, names, error);
        json_decref(names);
        FF_TRY(status);
    }
    return records->any ? FF_OK : ff_columns_note(columns, records->source, error);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static ff_status take_label(reading *state, const ff_parquet_value *value, int32_t *label,
                            ff_error *error) {
    ff_label_values *values = &state->records.values;
    const char *column = state->columns.column[state->columns.label].name;
    if (value->null)
        return ff_fail(error, FF_BAD_DATA, "its %s is null, wanted a label (-1 for none)", column);
    if (!value->bytes) return ff_label_number(values, value->number, label, error);
    if (value->length > FF_RECORD_LABEL_BYTES)
        return ff_fail(error, FF_BAD_DATA,
                       "its label '%s' has %" PRIu64 " bytes, at most %u are allowed", column,
                       value->length, FF_RECORD_LABEL_BYTES);
    return ff_label_name(values, (const char *)value->bytes, value->length, label, error);
}

static ff_status list_rows(reading *state, ff_error *error) {
    ff_records *records = &state->records;
    for (uint64_t row = 0; row < state->parquet.rows; row++) {
        ff_parquet_value image, value;
        int32_t label = -1;
        ff_status status = FF_OK;
        FF_TRY(ff_interrupt_check(error));
        FF_TRY(ff_parquet_values_next(state->image, &image, error));
        if (image.null)
            status = ff_fail(error, FF_BAD_DATA,
                             "its %s is null, or a path alone; wanted the bytes of an image file",
                             state->columns.column[state->columns.image].name);
        if (records->labeled && status == FF_OK) {
            FF_TRY(ff_parquet_values_next(state->label, &value, error));
            status = take_label(state, &value, &label, error);
        }
        if (status != FF_OK) return ff_records_within(records, status, error);
        records->any = true;
        FF_TRY(ff_records_add(records, state->part, row, image.length, label, error));
    }
    return FF_OK;
}

static ff_status list_file(void *context, ff_source_split *split, const char *path,
                           ff_error *error) {
    reading *state = context;
    ff_records *records = &state->records;
    ff_records_file(records, split, path, ff_path_base(path), false);
    records->rows = true;
    ff_status status;
    FF_TRY_DONE(ff_parquet_open(&state->parquet, path, error));
    FF_TRY_DONE(choose_columns(state, error));
    FF_TRY_DONE(ff_source_add_column(records->source, path,
                                     state->parquet.leaf[state->columns.image].path, &state->part,
                                     error));
    records->source->part[state->part].records = true;
    FF_TRY_DONE(list_rows(state, error));
done:
    ff_parquet_values_close(&state->image);
    ff_parquet_values_close(&state->label);
    ff_columns_free(&state->columns);
    ff_parquet_close(&state->parquet);
    return status;
}

static ff_status parquet_list(ff_source *source, ff_error *error) {
    reading state = {0};
    ff_status status;
    FF_TRY_DONE(ff_records_begin(&state.records, source, "parquet", error));
    FF_TRY_DONE(ff_records_list(&state.records, &parquet_files, list_file, &state, error));
done:
    ff_records_free(&state.records);
    return status;
}

extern const ff_source_format ff_source_parquet;
const ff_source_format ff_source_parquet = {
    .name = "parquet",
    .wanted = "parquet files of images, as Hugging Face's datasets write them: a file, or a folder "
              "or a pattern like train-{00000..00005}-of-00006.parquet",
    .endings = "parquet /",
    .detect = parquet_detect,
    .list = parquet_list,
    .patterns = true,
    .labels = "in the files, as a column",
    .uses = FF_USES_CLASSES | FF_USES_LABEL_KIND | FF_USES_SPLITS,
};
