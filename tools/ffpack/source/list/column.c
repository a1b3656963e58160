#include "tools/ffpack/source/list/column.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- cells --------------------------------------------------------------------------------- */

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

/* Without blanks around. */
static const char *trim(const char *text, size_t *bytes) {
    while (*bytes && is_blank(*text)) text++, --*bytes;
    while (*bytes && is_blank(text[*bytes - 1])) --*bytes;
    return text;
}

/* -1 = no whole number, 0 = one of more than 63 bits, 1 = *value */
static int parse_whole(const char *text, size_t bytes, int64_t *value) {
    bool negative = bytes && *text == '-', fits = true;
    size_t at = bytes && (*text == '-' || *text == '+');
    if (at == bytes) return -1;
    int64_t number = 0; /* negative, which reaches further */
    for (; at < bytes; at++) {
        if (text[at] < '0' || text[at] > '9') return -1;
        fits = fits && !__builtin_mul_overflow(number, 10, &number) &&
               !__builtin_sub_overflow(number, text[at] - '0', &number);
    }
    fits = fits && (negative || !__builtin_mul_overflow(number, -1, &number));
    *value = number;
    return fits;
}

static size_t digits(const char *text, size_t *at) {
    size_t begin = *at;
    while (text[*at] >= '0' && text[*at] <= '9') ++*at;
    return *at - begin;
}

/* A decimal number at `text`, which ends with a zero; *bytes = its length. No hexadecimal, no
 * infinity, no nan, and nothing that is infinite in f32. */
static bool parse_number(const char *text, size_t *bytes, float *value) {
    size_t at = *text == '-' || *text == '+';
    size_t whole = digits(text, &at), fraction = 0;
    if (text[at] == '.') {
        at++;
        fraction = digits(text, &at);
    }
    if (!whole && !fraction) return false;
    if (text[at] == 'e' || text[at] == 'E') {
        at++;
        at += text[at] == '-' || text[at] == '+';
        if (!digits(text, &at)) return false;
    }
    *bytes = at;
    *value = (float)strtod(text, NULL);
    return isfinite(*value);
}

/* Parses the numbers of a cell, separated by blanks or ';', up to `room` of them as f32 into
 * *values (unaligned). 0 = not numbers. */
static uint32_t parse_numbers(const char *cell, char *values, uint32_t room) {
    uint32_t count = 0;
    for (const char *at = cell;;) {
        size_t bytes;
        float value;
        while (is_blank(*at)) at++;
        if (!*at) return count;
        if (!parse_number(at, &bytes, &value) || count == FF_LIST_WIDTH_LIMIT) return 0;
        if (count < room) memcpy(values + count * sizeof value, &value, sizeof value);
        count++;
        at += bytes;
        if (*at && *at != ';' && !is_blank(*at)) return 0;
        while (is_blank(*at)) at++;
        if (*at == ';') {
            at++;
            while (is_blank(*at)) at++;
            if (!*at) return 0;
        }
    }
}

/* The next name of a cell, separated by ';' or '|'; NULL at its end. Empty ones are skipped. */
static const char *next_name(const char **cursor, size_t *bytes) {
    while (**cursor) {
        const char *name = *cursor;
        *bytes = strcspn(name, ";|");
        *cursor = name + *bytes + (name[*bytes] != 0);
        name = trim(name, bytes);
        if (*bytes) return name;
    }
    return NULL;
}

/* ---- kinds of columns ---------------------------------------------------------------------- */

static void first_line(uint64_t *line, uint64_t now) {
    if (!*line) *line = now;
}

ff_status ff_list_column_survey(ff_list_column *column, uint64_t line, const char *cell,
                                ff_error *error) {
    size_t bytes = strlen(cell);
    const char *text = trim(cell, &bytes);
    int64_t value;
    if (!bytes) {
        first_line(&column->empty_line, line);
        return FF_OK;
    }
    int whole = parse_whole(text, bytes, &value);
    if (!whole && (!column->explicit_kind || column->kind == FF_LIST_CLASS))
        return ff_fail(error, FF_BAD_DATA,
                       "line %" PRIu64 ": '%.60s' is a whole number beyond 64 bits", line, cell);
    if (whole > 0) {
        if (!column->whole_line || value < column->least) column->least = value;
        if (!column->whole_line || value > column->most) column->most = value;
        first_line(&column->whole_line, line);
    }
    uint32_t count = parse_numbers(text, NULL, 0);
    if (count) {
        if (whole < 0) first_line(&column->number_line, line);
        if (!column->width) column->width = count;
        if (count != column->width && !column->uneven_line) {
            column->uneven_line = line;
            column->uneven_width = count;
        }
        return FF_OK;
    }
    first_line(&column->name_line, line);
    if (strcspn(cell, ";|") < strlen(cell)) first_line(&column->joined_line, line);
    return FF_OK;
}

static ff_status mixed(const ff_list_column *column, ff_error *error) {
    uint64_t number = column->whole_line ? column->whole_line : column->number_line;
    return ff_fail(error, FF_BAD_DATA,
                   "line %" PRIu64 " has a number and line %" PRIu64
                   " a name; wanted one kind, or a header that says it, like NAME:class",
                   number, column->name_line);
}

static ff_status uneven(const ff_list_column *column, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA,
                   "line %" PRIu64 " has %u numbers, others have %u; wanted as many in each, or a "
                   "header like NAME:multi where these are names",
                   column->uneven_line, column->uneven_width, column->width);
}

ff_status ff_list_column_decide(ff_list_column *column, ff_error *error) {
    bool numbers = column->whole_line || column->number_line, names = column->name_line != 0;
    if (!column->explicit_kind) {
        if (numbers && names) return mixed(column, error);
        column->kind = names && column->joined_line ? FF_LIST_MULTI
                       : column->number_line        ? FF_LIST_VECTOR
                                                    : FF_LIST_CLASS;
    }
    if (column->kind == FF_LIST_VECTOR && names)
        return ff_fail(error, FF_BAD_DATA, "line %" PRIu64 " is no number", column->name_line);
    if (column->kind == FF_LIST_VECTOR && column->uneven_line) return uneven(column, error);
    column->named = column->kind == FF_LIST_MULTI ||
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
                       ", wanted -1 or above, or a header like NAME:vector",
                       column->least);
    return FF_OK;
}

/* ---- values -------------------------------------------------------------------------------- */

static ff_status in_line(ff_status status, uint64_t line, ff_error *error) {
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "line %" PRIu64, line);
}

ff_status ff_list_column_collect(ff_list_column *column, uint64_t line, const char *cell,
                                 ff_error *error) {
    if (!column->named || column->fixed) return FF_OK;
    uint32_t number;
    size_t bytes = strlen(cell);
    if (column->kind == FF_LIST_CLASS) {
        cell = trim(cell, &bytes);
        return in_line(ff_class_set_add(&column->names, cell, bytes, &number, error), line, error);
    }
    for (const char *name; (name = next_name(&cell, &bytes));)
        FF_TRY(in_line(ff_class_set_add(&column->names, name, bytes, &number, error), line, error));
    return FF_OK;
}

ff_dtype ff_list_column_dtype(const ff_list_column *column) {
    if (column->kind == FF_LIST_VECTOR) return FF_F32;
    if (column->kind == FF_LIST_MULTI) return FF_U8;
    return column->named || column->most <= INT32_MAX ? FF_I32 : FF_I64;
}

uint32_t ff_list_column_width(const ff_list_column *column) {
    if (column->kind == FF_LIST_CLASS) return 1;
    return column->kind == FF_LIST_MULTI ? column->names.count : column->width;
}

static ff_status find_name(const ff_list_column *column, uint64_t line, const char *name,
                           size_t bytes, uint32_t *number, ff_error *error) {
    *number = ff_class_set_find(&column->names, name, bytes);
    if (*number == UINT32_MAX)
        return ff_fail(error, FF_BAD_DATA, "line %" PRIu64 ": '%.*s' is no class of %s", line,
                       (int)(bytes < 60 ? bytes : 60), name,
                       !column->fixed     ? "the list any more: it changed"
                       : column->fixed_by ? column->fixed_by
                                          : "--classes");
    if (column->rank) *number = column->rank[*number];
    return FF_OK;
}

static ff_status changed(uint64_t line, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA, "line %" PRIu64 " changed while it was read", line);
}

static ff_status class_value(const ff_list_column *column, uint64_t line, const char *cell,
                             void *value, ff_error *error) {
    size_t bytes = strlen(cell);
    int64_t number;
    cell = trim(cell, &bytes);
    if (column->named) {
        uint32_t found;
        FF_TRY(find_name(column, line, cell, bytes, &found, error));
        number = found;
    } else if (parse_whole(cell, bytes, &number) <= 0 || number < column->least ||
               number > column->most) {
        return changed(line, error);
    }
    if (column->class_count && number >= column->class_count)
        return ff_fail(error, FF_BAD_DATA,
                       "line %" PRIu64 " has the class %" PRId64 ", wanted -1 to %u as in %s", line,
                       number, column->class_count - 1,
                       column->fixed_by ? column->fixed_by : "--classes");
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
        return parse_numbers(cell, value, column->width) == column->width ? FF_OK
                                                                          : changed(line, error);
    uint8_t *hot = value;
    size_t bytes;
    memset(hot, 0, column->names.count);
    for (const char *name; (name = next_name(&cell, &bytes));) {
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
    *column = (ff_list_column){0};
}
