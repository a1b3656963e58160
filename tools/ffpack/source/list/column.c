#include "tools/ffpack/source/list/column.h"

#include "format/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kinds of columns ---------------------------------------------------------------------- */

static void first_line(uint64_t *line, uint64_t now) {
    if (!*line) *line = now;
}

/* Adds a cell with one whole number, or with several numbers. */
static void see_numbers(ff_list_column *column, uint64_t line, uint32_t count) {
    if (!column->width) column->width = count;
    if (count == column->width || column->uneven_line) return;
    column->uneven_line = line;
    column->uneven_width = count;
}

static void see_whole(ff_list_column *column, uint64_t line, int64_t value, bool point) {
    const bool first = !column->whole_line && !column->point_line;
    if (first || value < column->least) column->least = value;
    if (first || value > column->most) column->most = value;
    first_line(point ? &column->point_line : &column->whole_line, line);
}

ff_status ff_list_column_survey(ff_list_column *column, uint64_t line, const char *cell,
                                ff_error *error) {
    size_t bytes = strlen(cell);
    const char *text = ff_text_trim(cell, &bytes);
    int64_t value;
    bool point;
    if (!bytes) {
        first_line(&column->empty_line, line);
        return FF_OK;
    }
    const ff_label_kind asked = column->asked;
    int whole = ff_cell_whole(text, bytes, &value, &point);
    if (!whole && (asked == FF_LABEL_GUESS || asked == FF_LABEL_CLASS || asked == FF_LABEL_NUMBERS))
        return ff_fail(error, FF_BAD_DATA,
                       "line %" PRIu64 ": '%.60s' is a whole number beyond 64 bits", line, cell);
    uint32_t count = ff_cell_numbers(text, NULL, 0);
    if (count) see_numbers(column, line, count);
    if (whole > 0 && value != -1) see_whole(column, line, value, point);
    if (count && whole < 0) first_line(&column->number_line, line);
    if (count) return FF_OK;
    first_line(&column->name_line, line);
    if (ff_cell_missing(text, bytes)) first_line(&column->missing_line, line);
    if (strcspn(cell, ";|") == strlen(cell) || column->joined_line) return FF_OK;
    column->joined_line = line;
    snprintf(column->joined, sizeof column->joined, "%s", text);
    return FF_OK;
}

static ff_status mixed(const ff_list_column *column, ff_error *error) {
    uint64_t number = column->whole_line   ? column->whole_line
                      : column->point_line ? column->point_line
                                           : column->number_line;
    return ff_fail(
        error, FF_BAD_DATA,
        "line %" PRIu64 " has a number and line %" PRIu64
        " a name; wanted one kind, or --label-kind names (a header like NAME:names) where "
        "all are names of classes",
        number, column->name_line);
}

static ff_status uneven(const ff_list_column *column, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA,
                   "line %" PRIu64 " has %u numbers, others have %u; wanted the same number in "
                   "each, or a header like NAME:multi-hot if these are names",
                   column->uneven_line, column->uneven_width, column->width);
}

static ff_status guess(ff_list_column *column, ff_error *error) {
    const bool names = column->name_line != 0;
    const bool whole = column->whole_line || column->point_line;
    if (names && (whole || column->number_line) && !column->fixed) return mixed(column, error);
    if (column->missing_line && !column->fixed)
        return ff_fail(error, FF_BAD_DATA,
                       "line %" PRIu64
                       " has nan or inf among names; wanted -1 for an item without a label, or "
                       "--label-kind names (a header like NAME:names) if a class is called so",
                       column->missing_line);
    column->kind = FF_LIST_CLASS;
    if (column->classes_only && column->number_line && !names)
        return ff_fail(error, FF_BAD_DATA,
                       "line %" PRIu64 " has a number that is not whole, wanted a class; "
                       "--label-kind names if it is the name of a class",
                       column->number_line);
    if (column->classes_only) return FF_OK;
    if (names && column->joined_line) column->kind = FF_LIST_MULTI;
    if (column->number_line || (column->point_line && column->least < -1))
        column->kind = FF_LIST_VECTOR;
    return FF_OK;
}

/* The first line with something else than a whole number. */
static uint64_t no_number(const ff_list_column *column) {
    if (!column->name_line || !column->number_line) return column->name_line + column->number_line;
    return column->name_line < column->number_line ? column->name_line : column->number_line;
}

ff_status ff_list_column_decide(ff_list_column *column, ff_error *error) {
    static const ff_list_kind kinds[FF_LABEL_KIND_COUNT] = {
        [FF_LABEL_CLASS] = FF_LIST_CLASS,   [FF_LABEL_NAMES] = FF_LIST_CLASS,
        [FF_LABEL_NUMBERS] = FF_LIST_CLASS, [FF_LABEL_MULTI_HOT] = FF_LIST_MULTI,
        [FF_LABEL_VALUE] = FF_LIST_VECTOR,
    };
    const bool names = column->name_line != 0;
    column->kind = kinds[column->asked];
    if (column->asked == FF_LABEL_GUESS) FF_TRY(guess(column, error));
    if (column->asked == FF_LABEL_NUMBERS && no_number(column))
        return ff_fail(error, FF_BAD_DATA, "line %" PRIu64 " has no whole number",
                       no_number(column));
    if (column->kind == FF_LIST_VECTOR && names)
        return ff_fail(error, FF_BAD_DATA, "line %" PRIu64 " is not a number", column->name_line);
    if (column->kind == FF_LIST_VECTOR && column->uneven_line) return uneven(column, error);
    column->named = column->kind == FF_LIST_MULTI || column->asked == FF_LABEL_NAMES ||
                    (column->kind == FF_LIST_CLASS && (names || column->number_line));
    const char *wanted = column->kind == FF_LIST_VECTOR ? "numbers"
                         : column->named                ? "a class"
                                                        : "a class, or -1 for unknown";
    if (column->kind != FF_LIST_MULTI && column->empty_line)
        return ff_fail(error, FF_BAD_DATA, "line %" PRIu64 " is empty, wanted %s",
                       column->empty_line, wanted);
    if (column->kind == FF_LIST_CLASS && !column->named && column->least < -1)
        return ff_fail(error, FF_BAD_DATA,
                       "has the class %" PRId64
                       ", wanted -1 or above, or --label-kind value (a header like NAME:value)",
                       column->least);
    return FF_OK;
}

ff_status ff_list_column_fix(ff_list_column *column, const ff_field *field, const char *by,
                             ff_error *error) {
    column->fixed = true;
    column->fixed_by = by;
    FF_TRY(ff_class_set_take(&column->names, field, error));
    return ff_class_numbers_begin(&column->numbers, field, by, column->asked, error);
}

bool ff_list_column_collects(const ff_list_column *column) {
    return column->named ? !column->fixed : column->fixed && column->kind == FF_LIST_CLASS;
}

/* ---- values -------------------------------------------------------------------------------- */

static ff_status in_line(ff_status status, uint64_t line, ff_error *error) {
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "line %" PRIu64, line);
}

static ff_status collect_class(ff_list_column *column, uint64_t line, const char *cell,
                               ff_error *error) {
    uint32_t number;
    int64_t value;
    bool point;
    size_t bytes = strlen(cell);
    cell = ff_text_trim(cell, &bytes);
    if (ff_cell_unlabeled(cell, bytes)) return FF_OK;
    if (!column->fixed)
        return in_line(ff_class_set_add(&column->names, cell, bytes, &number, error), line, error);
    if (ff_cell_whole(cell, bytes, &value, &point) > 0)
        ff_class_numbers_see(&column->numbers, value, line);
    return FF_OK;
}

/* Whether one of the cell's names is in another cell. */
static ff_status look_for_names(ff_list_column *column, const char *cell, ff_error *error) {
    size_t bytes = strlen(cell);
    uint32_t number;
    const char *text = ff_text_trim(cell, &bytes);
    if (!bytes || ff_class_set_find(&column->cells, text, bytes) != UINT32_MAX) return FF_OK;
    FF_TRY(ff_class_set_add(&column->cells, text, bytes, &number, error));
    for (const char *name; (name = ff_cell_name(&cell, &bytes));)
        if (ff_class_set_find(&column->names, name, bytes) != UINT32_MAX) column->recurs = true;
    return FF_OK;
}

ff_status ff_list_column_collect(ff_list_column *column, uint64_t line, const char *cell,
                                 ff_error *error) {
    uint32_t number;
    size_t bytes;
    if (!ff_list_column_collects(column)) return FF_OK;
    if (column->kind == FF_LIST_CLASS) return collect_class(column, line, cell, error);
    if (!column->recurs) FF_TRY(in_line(look_for_names(column, cell, error), line, error));
    for (const char *name; (name = ff_cell_name(&cell, &bytes));)
        FF_TRY(in_line(ff_class_set_add(&column->names, name, bytes, &number, error), line, error));
    return FF_OK;
}

/* *recurs = whether a part between ';' or '|' occurs in several cells, in a list whose cells are
 * single classes. */
static ff_status find_parts(const ff_list_column *column, bool *recurs, ff_error *error) {
    ff_class_set parts = {0};
    ff_status status = FF_OK;
    *recurs = false;
    for (uint32_t i = 0; i < column->names.count && status == FF_OK && !*recurs; i++) {
        const char *cell = ff_class_set_name(&column->names, i);
        size_t bytes;
        for (const char *name; status == FF_OK && (name = ff_cell_name(&cell, &bytes));) {
            uint32_t number, before = parts.count;
            status = ff_class_set_add(&parts, name, bytes, &number, error);
            *recurs = *recurs || (status == FF_OK && number < before);
        }
    }
    ff_class_set_free(&parts);
    return status;
}

/* A list of --labels, in which a cell is one class. */
static ff_status check_one_class(const ff_list_column *column, ff_error *error) {
    bool recurs;
    if (!column->joined_line || column->fixed || column->asked != FF_LABEL_GUESS) return FF_OK;
    FF_TRY(find_parts(column, &recurs, error));
    if (!recurs) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "line %" PRIu64
                   " has '%s', which looks like several classes, and --labels takes one for each "
                   "image; wanted --label-kind class if it is one, or the list itself as SOURCE",
                   column->joined_line, column->joined);
}

ff_status ff_list_column_settle(ff_list_column *column, ff_error *error) {
    if (column->classes_only) FF_TRY(check_one_class(column, error));
    if (column->kind == FF_LIST_MULTI && column->asked == FF_LABEL_GUESS && !column->fixed &&
        !column->recurs)
        return ff_fail(error, FF_USAGE,
                       "line %" PRIu64
                       " has '%s', which may be one class or several; wanted --label-kind class or "
                       "--label-kind multi-hot (a header like NAME:class)",
                       column->joined_line, column->joined);
    if (!column->fixed || column->named || column->kind != FF_LIST_CLASS) return FF_OK;
    return ff_class_numbers_decide(&column->numbers, "line", error);
}

ff_status ff_list_column_say(const ff_list_column *column, char **text, ff_error *error) {
    *text = NULL;
    if (!column->fixed || column->named || column->kind != FF_LIST_CLASS) return FF_OK;
    return ff_class_numbers_say(&column->numbers, text, error);
}

ff_dtype ff_list_column_dtype(const ff_list_column *column) {
    if (column->kind == FF_LIST_VECTOR) return FF_F32;
    if (column->kind == FF_LIST_MULTI) return FF_U8;
    return column->named || column->fixed || column->most <= INT32_MAX ? FF_I32 : FF_I64;
}

uint32_t ff_list_column_width(const ff_list_column *column) {
    if (column->kind == FF_LIST_CLASS) return 1;
    return column->kind == FF_LIST_MULTI ? column->names.count : column->width;
}

static ff_status find_name(const ff_list_column *column, uint64_t line, const char *name,
                           size_t bytes, uint32_t *number, ff_error *error) {
    int64_t value;
    bool point;
    *number = ff_class_set_find(&column->names, name, bytes);
    if (*number == UINT32_MAX && column->fixed && ff_cell_whole(name, bytes, &value, &point) > 0)
        *number = (uint32_t)ff_class_numbers_named(&column->numbers, value);
    if (*number == UINT32_MAX)
        return ff_fail(error, FF_BAD_DATA, "line %" PRIu64 ": '%.*s' is not a class of %s", line,
                       (int)(bytes < 60 ? bytes : 60), name,
                       column->fixed ? column->fixed_by : "the list any more: it changed");
    if (column->rank) *number = column->rank[*number];
    return FF_OK;
}

static ff_status changed(uint64_t line, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA, "line %" PRIu64 " changed while it was read", line);
}

static ff_status class_value(const ff_list_column *column, uint64_t line, const char *cell,
                             void *value, ff_error *error) {
    size_t bytes = strlen(cell);
    int64_t number = -1;
    bool point;
    cell = ff_text_trim(cell, &bytes);
    if (ff_cell_unlabeled(cell, bytes)) {
        ; /* -1 */
    } else if (column->named) {
        uint32_t found;
        FF_TRY(find_name(column, line, cell, bytes, &found, error));
        number = found;
    } else {
        if (ff_cell_whole(cell, bytes, &number, &point) <= 0 || number < column->least ||
            number > column->most)
            return changed(line, error);
        if (column->fixed) number = ff_class_numbers_label(&column->numbers, number);
    }
    int32_t small = (int32_t)number;
    if (ff_list_column_dtype(column) == FF_I32)
        memcpy(value, &small, sizeof small);
    else
        memcpy(value, &number, sizeof number);
    return FF_OK;
}

ff_status ff_list_column_value(const ff_list_column *column, uint64_t line, const char *cell,
                               void *value, ff_error *error) {
    if (column->kind == FF_LIST_CLASS) return class_value(column, line, cell, value, error);
    if (column->kind == FF_LIST_VECTOR)
        return ff_cell_numbers(cell, value, column->width) == column->width ? FF_OK
                                                                            : changed(line, error);
    uint8_t *hot = value;
    size_t bytes;
    memset(hot, 0, column->names.count);
    for (const char *name; (name = ff_cell_name(&cell, &bytes));) {
        uint32_t number;
        FF_TRY(find_name(column, line, name, bytes, &number, error));
        hot[number] = 1;
    }
    return FF_OK;
}

void ff_list_column_free(ff_list_column *column) {
    free(column->name);
    free(column->rank);
    ff_class_set_free(&column->names);
    ff_class_set_free(&column->cells);
    ff_class_numbers_free(&column->numbers);
    *column = (ff_list_column){0};
}
