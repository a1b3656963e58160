#include "tools/ffpack/source/list/fields.h"

#include "format/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the header ---------------------------------------------------------------------------- */

static ff_status in_column(const ff_list_fields *fields, size_t index, ff_status status,
                           ff_error *error) {
    if (status == FF_OK) return FF_OK;
    const char *name = fields->column[index].name;
    size_t used = 0;
    for (size_t i = 0; i < fields->column_count; i++) used += fields->used[i];
    const size_t length = error ? strlen(error->message) : 0;
    if (length && used > 1 && fields->header.present && !fields->header.label_count)
        snprintf(error->message + length, sizeof error->message - length,
                 "; --columns label=NAME takes only the columns that it names");
    return name ? ff_fail_within(error, status, "%s: column %s", fields->source->path, name)
                : ff_fail_within(error, status, "%s: column %zu", fields->source->path, index + 1);
}

/* "NAME" or "NAME:KIND" */
static ff_status take_title(ff_list_column *column, const char *cell, ff_error *error) {
    static const struct {
        const char *word;
        ff_label_kind kind;
    } kinds[] = {{"class", FF_LABEL_CLASS},     {"names", FF_LABEL_NAMES},
                 {"numbers", FF_LABEL_NUMBERS}, {"multi-hot", FF_LABEL_MULTI_HOT},
                 {"multi", FF_LABEL_MULTI_HOT}, {"value", FF_LABEL_VALUE},
                 {"vector", FF_LABEL_VALUE}};
    size_t bytes = strlen(cell);
    const char *title = ff_text_trim(cell, &bytes), *colon = memrchr(title, ':', bytes);
    size_t kind_bytes = colon ? (size_t)(title + bytes - colon - 1) : 0;
    column->asked = FF_LABEL_GUESS;
    for (size_t i = 0; colon && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strlen(kinds[i].word) == kind_bytes && !memcmp(colon + 1, kinds[i].word, kind_bytes))
            column->asked = kinds[i].kind;
    if (colon && column->asked == FF_LABEL_GUESS)
        return ff_fail(error, FF_BAD_DATA,
                       "the header has '%.200s', wanted class, names, numbers, multi-hot or "
                       "value after ':'",
                       cell);
    if (colon) bytes = (size_t)(colon - title);
    if (!bytes) return ff_fail(error, FF_BAD_DATA, "the header has no name");
    return ff_copy_bytes(&column->name, title, bytes, error);
}

static ff_status too_many(const ff_list_fields *fields, size_t count, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA, "%s: has %zu label columns, at most %u are allowed",
                   fields->source->path, count, FF_FIELDS_LIMIT);
}

static ff_status take_header(ff_list_fields *fields, const ff_table_row *row, ff_error *error) {
    const char *wanted = fields->source->label;
    bool found = !wanted;
    /* The path and the split in addition to the fields. */
    if (!wanted && row->count > FF_FIELDS_LIMIT + 2) return too_many(fields, row->count - 1, error);
    for (size_t i = 0; i < row->count; i++) {
        ff_list_column *column = &fields->column[i];
        if (!ff_list_header_is_label(&fields->header, row, i, wanted)) continue;
        FF_TRY(in_column(fields, i, take_title(column, ff_table_cell(row, i), error), error));
        fields->used[i] = !wanted || !strcmp(column->name, wanted);
        found = found || fields->used[i];
        for (size_t k = 0; k < i && fields->used[i]; k++)
            if (fields->used[k] && !strcmp(column->name, fields->column[k].name))
                return ff_fail(error, FF_BAD_DATA, "%s: columns %zu and %zu are both called %s",
                               fields->source->path, k + 1, i + 1, column->name);
    }
    return found ? FF_OK
                 : ff_fail(error, FF_USAGE, "--label: the header of %s names no column '%s'",
                           fields->source->path, wanted);
}

/* The titles of the columns that are labels, or that have no role. */
static ff_status list_titles(const ff_list_fields *fields, const ff_table_row *row, bool labels,
                             ff_buffer *text, ff_error *error) {
    const ff_list_header *header = &fields->header;
    for (size_t i = 0; i < row->count; i++) {
        if (i == header->path || i == header->split || fields->used[i] != labels) continue;
        if (text->length) FF_TRY(ff_buffer_add(text, ", ", 2, error));
        FF_TRY(ff_list_header_title(text, header, row, i, error));
    }
    return FF_OK;
}

static ff_status say_columns(const ff_list_fields *fields, const ff_table_row *row, ff_buffer *text,
                             ff_error *error) {
    const ff_list_header *header = &fields->header;
    ff_buffer labels = {0}, rest = {0};
    ff_status status;
    FF_TRY_DONE(list_titles(fields, row, true, &labels, error));
    FF_TRY_DONE(list_titles(fields, row, false, &rest, error));
    FF_TRY_DONE(ff_buffer_printf(text, error, "%s: paths from column ", fields->source->path));
    FF_TRY_DONE(ff_list_header_title(text, header, row, header->path, error));
    if (labels.length) FF_TRY_DONE(ff_buffer_printf(text, error, "; labels from %s", labels.bytes));
    if (header->split != SIZE_MAX) {
        FF_TRY_DONE(ff_buffer_printf(text, error, "; splits from "));
        FF_TRY_DONE(ff_list_header_title(text, header, row, header->split, error));
    }
    if (rest.length)
        FF_TRY_DONE(ff_buffer_printf(text, error, "; not used: column %s", rest.bytes));
done:
    ff_buffer_free(&labels);
    ff_buffer_free(&rest);
    return status;
}

/* Notes in the summary what each column is used for, if a header or --columns decides it. */
static ff_status note_columns(const ff_list_fields *fields, const ff_table_row *row,
                              ff_error *error) {
    ff_buffer text = {0};
    if (!fields->header.present && !fields->source->columns) return FF_OK;
    const ff_status status = say_columns(fields, row, &text, error);
    if (status == FF_OK) return ff_source_note(fields->source, text.bytes, error);
    ff_buffer_free(&text);
    return status;
}

ff_status ff_list_fields_begin(ff_list_fields *fields, ff_source *source, const ff_table_row *row,
                               ff_error *error) {
    *fields = (ff_list_fields){.source = source};
    fields->column_count = row->count;
    FF_TRY(ff_alloc(&fields->column, row->count, sizeof *fields->column, "columns", error));
    FF_TRY(ff_alloc(&fields->used, row->count, sizeof *fields->used, "columns", error));
    FF_TRY(
        ff_list_header_choose(&fields->header, row, false, source->columns, source->path, error));
    if (fields->header.label_count && source->label)
        return ff_fail(error, FF_USAGE, "--label and label= of --columns exclude each other");
    if (fields->header.present) FF_TRY(take_header(fields, row, error));
    for (size_t i = 0; i < row->count; i++) {
        if (!fields->header.present)
            fields->used[i] = ff_list_header_is_label(&fields->header, row, i, source->label);
        if (fields->column[i].asked == FF_LABEL_GUESS) fields->column[i].asked = source->label_kind;
    }
    return note_columns(fields, row, error);
}

/* ---- the cells ----------------------------------------------------------------------------- */

ff_status ff_list_fields_survey(ff_list_fields *fields, const ff_table_row *row, ff_error *error) {
    for (size_t i = 0; i < row->count; i++) {
        if (!fields->used[i]) continue;
        FF_TRY(in_column(
            fields, i,
            ff_list_column_survey(&fields->column[i], row->line, ff_table_cell(row, i), error),
            error));
    }
    return FF_OK;
}

ff_status ff_list_fields_collect(ff_list_fields *fields, const ff_table_row *row, ff_error *error) {
    for (size_t i = 0; i < row->count; i++) {
        if (!fields->used[i]) continue;
        FF_TRY(in_column(
            fields, i,
            ff_list_column_collect(&fields->column[i], row->line, ff_table_cell(row, i), error),
            error));
    }
    return FF_OK;
}

/* ---- fields -------------------------------------------------------------------------------- */

/* The number of columns of one field: one, or adjacent vectors if there is no header. */
static size_t joined_columns(const ff_list_fields *fields, size_t first) {
    size_t end = first + 1;
    if (fields->header.present || fields->column[first].kind != FF_LIST_VECTOR) return 1;
    while (end < fields->column_count && fields->column[end].kind == FF_LIST_VECTOR) end++;
    return end - first;
}

/* Whether a column has numbers with a point only. */
static bool has_points(const ff_list_fields *fields, size_t index) {
    if (index >= fields->column_count || !fields->used[index]) return false;
    const ff_list_column *column = &fields->column[index];
    return column->kind == FF_LIST_VECTOR || (column->kind == FF_LIST_CLASS && !column->named &&
                                              column->point_line && !column->whole_line);
}

/* Without a header, classes like 2.0 next to each other or to a vector are its numbers. */
static void join_points(ff_list_fields *fields) {
    for (size_t i = 0; i < fields->column_count; i++) {
        ff_list_column *column = &fields->column[i];
        if (column->asked == FF_LABEL_GUESS && has_points(fields, i) &&
            ((i && has_points(fields, i - 1)) || has_points(fields, i + 1)))
            column->kind = FF_LIST_VECTOR;
    }
}

static ff_status find_fields(ff_list_fields *fields, ff_error *error) {
    FF_TRY(ff_alloc(&fields->field, fields->column_count, sizeof *fields->field, "fields", error));
    for (size_t i = 0; i < fields->column_count; i++)
        if (fields->used[i])
            FF_TRY(in_column(fields, i, ff_list_column_decide(&fields->column[i], error), error));
    if (!fields->header.present) join_points(fields);
    for (size_t i = 0; i < fields->column_count;) {
        size_t count = fields->used[i] ? joined_columns(fields, i) : 1;
        if (fields->used[i]) fields->field[fields->field_count++] = (ff_list_field){i, count};
        i += count;
    }
    return fields->field_count > FF_FIELDS_LIMIT ? too_many(fields, fields->field_count, error)
                                                 : FF_OK;
}

/* --classes FILE is for the one field whose labels are classes. */
static ff_status take_classes(ff_list_fields *fields, ff_error *error) {
    ff_source *source = fields->source;
    ff_list_column *only = NULL;
    size_t number = 0;
    for (size_t i = 0; i < fields->field_count; i++) {
        ff_list_column *column = &fields->column[fields->field[i].first];
        if (column->kind == FF_LIST_VECTOR) continue;
        if (only)
            return ff_fail(error, FF_USAGE,
                           "--classes: %s has several columns of classes; wanted --label to choose "
                           "one",
                           source->path);
        only = column;
        number = i;
    }
    if (!only)
        return ff_fail(error, FF_USAGE, "--classes: %s has no column of classes", source->path);
    FF_TRY(ff_source_read_classes(source, number, source->classes, error));
    const ff_field *field = &source->labels.field[number];
    return ff_list_column_fix(only, field, source->classes, error);
}

/* "label", "label2", ... and "target", "target2", ... */
static ff_status name_field(const ff_list_fields *fields, size_t number, char **name,
                            ff_error *error) {
    const ff_list_column *column = &fields->column[fields->field[number].first];
    if (column->name) return ff_copy_string(name, column->name, error);
    bool vector = column->kind == FF_LIST_VECTOR;
    size_t same = 1;
    for (size_t i = 0; i < number; i++)
        same += (fields->column[fields->field[i].first].kind == FF_LIST_VECTOR) == vector;
    const char *word = vector ? "target" : "label";
    return same == 1 ? ff_copy_string(name, word, error)
                     : ff_format(name, error, "%s%zu", word, same);
}

static ff_status add_field(ff_list_fields *fields, size_t number, ff_error *error) {
    static const ff_field_kind kinds[] = {FF_FIELD_NONE, FF_FIELD_CLASS, FF_FIELD_MULTI_HOT,
                                          FF_FIELD_VECTOR};
    const ff_list_field *field = &fields->field[number];
    const ff_list_column *column = &fields->column[field->first];
    uint64_t width = 0;
    for (size_t i = 0; i < field->count; i++) width += ff_list_column_width(column + i);
    /* For names not yet collected: known later. */
    if (column->kind == FF_LIST_MULTI) width = 1;
    if (width > FF_LIST_WIDTH_LIMIT)
        return in_column(fields, field->first,
                         ff_fail(error, FF_BAD_DATA,
                                 "has %" PRIu64 " values, at most %u are allowed", width,
                                 FF_LIST_WIDTH_LIMIT),
                         error);
    char *name;
    FF_TRY(name_field(fields, number, &name, error));
    ff_status status = ff_metadata_add_field(&fields->source->labels, name, kinds[column->kind],
                                             ff_list_column_dtype(column), (uint32_t)width, error);
    free(name);
    return status;
}

/* The names of a column become classes of its field. */
static ff_status finish_names(ff_list_fields *fields, size_t number, ff_error *error) {
    size_t index = fields->field[number].first;
    ff_list_column *column = &fields->column[index];
    ff_metadata *labels = &fields->source->labels;
    char *text;
    FF_TRY(in_column(fields, index, ff_list_column_settle(column, error), error));
    FF_TRY(ff_list_column_say(column, &text, error));
    if (text) FF_TRY(ff_source_note(fields->source, text, error));
    if (!column->named) return FF_OK;
    if (!column->names.count ||
        (column->kind == FF_LIST_MULTI && column->names.count > FF_LIST_WIDTH_LIMIT))
        return in_column(fields, index,
                         ff_fail(error, FF_BAD_DATA, "has %u names, wanted 1 to %u",
                                 column->names.count, FF_LIST_WIDTH_LIMIT),
                         error);
    if (!column->fixed)
        FF_TRY(ff_class_set_finish(&column->names, labels, number, &column->rank, error));
    labels->field[number].width = ff_list_column_width(column);
    return FF_OK;
}

ff_status ff_list_fields_make(ff_list_fields *fields, bool *collect, ff_error *error) {
    FF_TRY(find_fields(fields, error));
    for (size_t i = 0; i < fields->field_count; i++) FF_TRY(add_field(fields, i, error));
    if (fields->source->classes) FF_TRY(take_classes(fields, error));
    *collect = false;
    for (size_t i = 0; i < fields->column_count; i++)
        *collect = *collect || (fields->used[i] && ff_list_column_collects(&fields->column[i]));
    return FF_OK;
}

ff_status ff_list_fields_finish(ff_list_fields *fields, ff_error *error) {
    ff_metadata *labels = &fields->source->labels;
    for (size_t i = 0; i < fields->field_count; i++) FF_TRY(finish_names(fields, i, error));
    if (!fields->field_count)
        FF_TRY(ff_metadata_add_field(labels, "label", FF_FIELD_NONE, FF_I32, 0, error));
    for (size_t i = 0; i < labels->field_count; i++)
        fields->label_bytes += ff_field_bytes(&labels->field[i]);
    return FF_OK;
}

/* ---- values -------------------------------------------------------------------------------- */

ff_status ff_list_fields_values(const ff_list_fields *fields, const ff_table_row *row, void *labels,
                                ff_error *error) {
    char *value = labels;
    for (size_t i = 0; i < fields->column_count; i++) {
        const ff_list_column *column = &fields->column[i];
        if (!fields->used[i]) continue;
        FF_TRY(in_column(
            fields, i, ff_list_column_value(column, row->line, ff_table_cell(row, i), value, error),
            error));
        value +=
            (size_t)ff_list_column_width(column) * ff_dtype_bytes(ff_list_column_dtype(column));
    }
    return FF_OK;
}

void ff_list_fields_free(ff_list_fields *fields) {
    for (size_t i = 0; fields->column && i < fields->column_count; i++)
        ff_list_column_free(&fields->column[i]);
    free(fields->column);
    free(fields->used);
    free(fields->field);
    *fields = (ff_list_fields){0};
}
