#include "tools/ffpack/source/tree/label_list.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines --------------------------------------------------------------------------------- */

static ff_status take_row(ff_label_list *list, const ff_table_row *row, ff_error *error) {
    const char *name = ff_table_cell(row, 0);
    if (row->count < 2)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: line %" PRIu64 " is '%.60s', wanted an image's name and its class with "
                       "a tab or a comma between",
                       list->path, row->line, name);
    while (name[0] == '.' && name[1] == '/') name += 2;
    FF_TRY(ff_reserve(&list->line, &list->line_capacity, list->name.count + 1, sizeof *list->line,
                      "labels", error));
    list->line[list->name.count] = row->line;
    const char *class_name = ff_table_cell(row, 1);
    FF_TRY(ff_names_add(&list->name, name, strlen(name), error));
    return ff_names_add(&list->klass, class_name, strlen(class_name), error);
}

/* By name, then by line. */
static int compare_lines(const void *a, const void *b, void *names) {
    size_t first = *(const size_t *)a, second = *(const size_t *)b;
    int order = strcmp(ff_names_at(names, first), ff_names_at(names, second));
    return order ? order : (first > second) - (first < second);
}

/* An image may have several lines with the same class, for example one per box. */
static ff_status check_same(const ff_label_list *list, ff_error *error) {
    for (size_t i = 1; i < list->name.count; i++) {
        size_t a = list->sorted[i - 1], b = list->sorted[i];
        if (strcmp(ff_names_at(&list->name, a), ff_names_at(&list->name, b)) != 0 ||
            !strcmp(ff_names_at(&list->klass, a), ff_names_at(&list->klass, b)))
            continue;
        return ff_fail(error, FF_BAD_DATA,
                       "%s: lines %" PRIu64 " and %" PRIu64
                       " give %.200s two classes, '%.60s' and '%.60s'",
                       list->path, list->line[a], list->line[b], ff_names_at(&list->name, a),
                       ff_names_at(&list->klass, a), ff_names_at(&list->klass, b));
    }
    return FF_OK;
}

ff_status ff_label_list_read(ff_label_list *list, const char *path, ff_table *table,
                             ff_error *error) {
    ff_status status = ff_copy_string(&list->path, path, error);
    while (status == FF_OK) {
        ff_table_row row;
        status = ff_table_next(table, &row, error);
        if (status != FF_OK || !row.count) break;
        status = take_row(list, &row, error);
    }
    ff_table_close(&table);
    FF_TRY(status);
    size_t count = list->name.count;
    if (!count) return ff_fail(error, FF_BAD_DATA, "%s: has no lines", path);
    FF_TRY(ff_alloc(&list->sorted, count, sizeof *list->sorted, "labels", error));
    FF_TRY(ff_alloc(&list->used, count, sizeof *list->used, "labels", error));
    for (size_t i = 0; i < count; i++) list->sorted[i] = i;
    qsort_r(list->sorted, count, sizeof *list->sorted, compare_lines, &list->name);
    return check_same(list, error);
}

/* The first line of this name, or SIZE_MAX. */
static size_t find_name(const ff_label_list *list, const char *name, size_t bytes) {
    size_t low = 0, high = list->name.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *here = ff_names_at(&list->name, list->sorted[middle]);
        if (strncmp(here, name, bytes) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == list->name.count) return SIZE_MAX;
    const char *here = ff_names_at(&list->name, list->sorted[low]);
    return !strncmp(here, name, bytes) && !here[bytes] ? list->sorted[low] : SIZE_MAX;
}

/* The line of an image: by its path, by its name, then by each without its ending. */
static size_t find_line(const ff_label_list *list, const char *key, size_t bytes) {
    const char *slash = memrchr(key, '/', bytes);
    const char *base = slash ? slash + 1 : key;
    size_t base_bytes = bytes - (size_t)(base - key);
    const char *dot = memrchr(base, '.', base_bytes);
    size_t ending = dot && dot > base ? (size_t)(key + bytes - dot) : 0;
    size_t line = find_name(list, key, bytes);
    if (line == SIZE_MAX) line = find_name(list, base, base_bytes);
    if (line == SIZE_MAX && ending) line = find_name(list, key, bytes - ending);
    if (line == SIZE_MAX && ending) line = find_name(list, base, base_bytes - ending);
    return line;
}

bool ff_label_list_holds(const ff_label_list *list, const char *key, size_t bytes) {
    return find_line(list, key, bytes) != SIZE_MAX;
}

ff_status ff_label_list_mark(ff_label_list *list, const char *key, size_t bytes, ff_error *error) {
    size_t line = find_line(list, key, bytes);
    if (line == SIZE_MAX) {
        if (!list->missing++) FF_TRY(ff_copy_bytes(&list->first_missing, key, bytes, error));
        return FF_OK;
    }
    if (list->used[line])
        return ff_fail(error, FF_BAD_DATA,
                       "%s: line %" PRIu64 " ('%.200s') stands for %.*s and another image; wanted "
                       "their paths",
                       list->path, list->line[line], ff_names_at(&list->name, line), (int)bytes,
                       key);
    list->used[line] = true;
    list->marked++;
    return FF_OK;
}

/* ---- classes ------------------------------------------------------------------------------- */

/* 1 if the first line names no image (a header), else 0. */
static size_t header_lines(const ff_label_list *list) {
    return list->used[0] ? 0 : 1;
}

static ff_status take_known(ff_label_list *list, const ff_field *field, const char *known_by,
                            ff_error *error) {
    ff_list_column *column = &list->column;
    column->fixed = true;
    column->fixed_by = known_by;
    column->class_count = field->class_count;
    FF_TRY(ff_class_set_take(&column->names, field, error));
    /* Classes may be called 0, 1, ..., 10: then numbers are names, too, whatever their order. */
    bool names = true;
    for (size_t i = header_lines(list); i < list->klass.count && names; i++) {
        const char *name = ff_names_at(&list->klass, i);
        names = ff_class_set_find(&column->names, name, strlen(name)) != UINT32_MAX;
    }
    column->named = column->named || names;
    return FF_OK;
}

static ff_status decide(ff_label_list *list, ff_metadata *labels, size_t field,
                        const char *known_by, ff_error *error) {
    ff_list_column *column = &list->column;
    const ff_names *klass = &list->klass;
    column->kind = FF_LIST_CLASS;
    column->explicit_kind = true;
    for (size_t i = header_lines(list); i < klass->count; i++)
        FF_TRY(ff_list_column_survey(column, list->line[i], ff_names_at(klass, i), error));
    FF_TRY(ff_list_column_decide(column, error));
    if (labels->field[field].class_count)
        return take_known(list, &labels->field[field], known_by, error);
    for (size_t i = header_lines(list); i < klass->count; i++)
        FF_TRY(ff_list_column_collect(column, list->line[i], ff_names_at(klass, i), error));
    if (column->named)
        return ff_class_set_finish(&column->names, labels, field, &column->rank, error);
    if (ff_list_column_dtype(column) == FF_I32) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "has the class %" PRId64 ", wanted at most %d", column->most,
                   INT32_MAX);
}

ff_status ff_label_list_decide(ff_label_list *list, ff_metadata *labels, size_t field,
                               const char *known_by, ff_error *error) {
    if (list->decided) return FF_OK;
    list->decided = true;
    ff_status status = decide(list, labels, field, known_by, error);
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "%s", list->path);
}

ff_status ff_label_list_label(const ff_label_list *list, const char *key, size_t bytes,
                              int32_t *label, bool *found, ff_error *error) {
    size_t line = find_line(list, key, bytes);
    *found = line != SIZE_MAX;
    if (!*found) return FF_OK;
    ff_status status = ff_list_column_value(&list->column, list->line[line],
                                            ff_names_at(&list->klass, line), label, error);
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "%s", list->path);
}

uint64_t ff_label_list_unused(const ff_label_list *list, const char **example) {
    uint64_t count = 0;
    for (size_t i = header_lines(list); i < list->name.count; i++) {
        const char *name = ff_names_at(&list->name, i);
        if (list->used[i] || list->used[find_name(list, name, strlen(name))]) continue;
        if (!count++) *example = name;
    }
    return count;
}

void ff_label_list_free(ff_label_list *list) {
    free(list->path);
    ff_names_free(&list->name);
    ff_names_free(&list->klass);
    free(list->line);
    free(list->sorted);
    free(list->used);
    free(list->first_missing);
    ff_list_column_free(&list->column);
    *list = (ff_label_list){0};
}
