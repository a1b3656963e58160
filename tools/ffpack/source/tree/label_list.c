#include "tools/ffpack/source/tree/label_list.h"

#include "format/base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines --------------------------------------------------------------------------------- */

/* Notes for the summary which columns have the names and classes, and which are not used. */
static ff_status note_columns(ff_label_list *list, const ff_list_header *header,
                              const ff_table_row *row, ff_error *error) {
    ff_buffer others = {0}, roles = {0}, title = {0};
    ff_status status;
    FF_TRY_DONE(ff_list_header_title(&title, header, row, list->class_column, error));
    for (size_t i = 0; i < row->count; i++) {
        if (i == list->class_column || i == header->path) continue;
        if (others.length) FF_TRY_DONE(ff_buffer_add(&others, ", ", 2, error));
        FF_TRY_DONE(ff_list_header_title(&others, header, row, i, error));
    }
    if (header->present || header->label_count) {
        FF_TRY_DONE(ff_buffer_printf(&roles, error, "names from column "));
        FF_TRY_DONE(ff_list_header_title(&roles, header, row, header->path, error));
        FF_TRY_DONE(ff_buffer_printf(&roles, error, ", classes from column %s", title.bytes));
    }
    list->columns = others.bytes;
    list->roles = roles.bytes;
    list->class_title = title.bytes;
    return FF_OK;
done:
    ff_buffer_free(&others);
    ff_buffer_free(&roles);
    ff_buffer_free(&title);
    return status;
}

/* Finds the column of the classes, by the first row. */
static ff_status find_columns(ff_label_list *list, const ff_list_header *header, const char *label,
                              const ff_table_row *row, ff_error *error) {
    size_t wanted = SIZE_MAX, titled = SIZE_MAX, only = SIZE_MAX, titles = 0, count = 0;
    if (header->label_count > 1)
        return ff_fail(error, FF_USAGE,
                       "--columns: a list of --labels has one class for each image; wanted one "
                       "label=, or the list itself as SOURCE");
    if (header->label_count && label)
        return ff_fail(error, FF_USAGE, "--label and label= of --columns exclude each other");
    for (size_t i = 0; i < row->count; i++) {
        const char *title = ff_table_cell(row, i);
        if (!ff_list_header_is_label(header, row, i, label)) continue;
        if (!count++) only = i;
        if (header->present && label && !strcmp(title, label)) wanted = i;
        if (header->present && ff_list_is_label_title(title) && !titles++) titled = i;
    }
    if (!count) return FF_OK; /* take_row refuses it */
    list->class_column = wanted != SIZE_MAX ? wanted : titles == 1 ? titled : only;
    list->chosen = wanted != SIZE_MAX;
    list->unclear = count > 1 && wanted == SIZE_MAX && titles != 1;
    list->numbers = !header->present || list->unclear;
    return note_columns(list, header, row, error);
}

/* Whether a row's cells except name and class are numbers. */
static bool are_numbers(const ff_label_list *list, const ff_table_row *row) {
    for (size_t i = 1; i < row->count; i++) {
        const char *cell = ff_table_cell(row, i);
        if (i != list->class_column && (!*cell || cell[strspn(cell, "+-.0123456789eE ")]))
            return false;
    }
    return true;
}

/* A path without its first folder. */
static const char *strip_root(const ff_label_list *list, const char *name) {
    while (name[0] == '.' && name[1] == '/') name += 2;
    for (size_t i = 0; i < list->roots.count; i++) {
        const char *root = ff_names_at(&list->roots, i);
        if (!strncmp(name, root, strlen(root))) return name + strlen(root);
    }
    return name;
}

static ff_status take_row(ff_label_list *list, const ff_list_header *header,
                          const ff_table_row *row, ff_error *error) {
    const char *name = ff_table_cell(row, header->path);
    if (row->count < 2 || list->class_column == header->path)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: line %" PRIu64 " is '%.60s', wanted an image's name and its class with "
                       "a tab or a comma between",
                       list->path, row->line, name);
    FF_TRY(ff_reserve(&list->line, &list->line_capacity, list->name.count + 1, sizeof *list->line,
                      "labels", error));
    list->line[list->name.count] = row->line;
    const char *class_name = ff_table_cell(row, list->class_column);
    size_t bytes = strlen(name), class_bytes = strlen(class_name);
    name = ff_text_trim(name, &bytes);
    const char *inside = strip_root(list, name);
    bytes -= (size_t)(inside - name);
    name = inside;
    class_name = ff_text_trim(class_name, &class_bytes);
    list->numbers = list->numbers && are_numbers(list, row);
    FF_TRY(ff_names_add(&list->name, name, bytes, error));
    return ff_names_add(&list->klass, class_name, class_bytes, error);
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

ff_status ff_label_list_read(ff_label_list *list, const char *path, const char *label,
                             const char *columns, ff_table *table, ff_error *error) {
    ff_list_header header = {0};
    ff_status status = ff_copy_string(&list->path, path, error);
    for (bool first = true; status == FF_OK; first = false) {
        ff_table_row row;
        status = ff_table_next(table, &row, error);
        if (status != FF_OK || !row.count) break;
        if (first) {
            status = ff_list_header_choose(&header, &row, true, columns, path, error);
            if (status == FF_OK) status = find_columns(list, &header, label, &row, error);
        }
        if (status == FF_OK && !(first && header.present))
            status = take_row(list, &header, &row, error);
    }
    ff_table_close(&table);
    FF_TRY(status);
    size_t count = list->name.count;
    if (!count) return ff_fail(error, FF_BAD_DATA, "%s: has no lines", path);
    FF_TRY(ff_alloc(&list->sorted, count, sizeof *list->sorted, "labels", error));
    FF_TRY(ff_alloc(&list->used, count, sizeof *list->used, "labels", error));
    FF_TRY(ff_alloc(&list->whole, count, sizeof *list->whole, "labels", error));
    for (size_t i = 0; i < count; i++) list->sorted[i] = i;
    qsort_r(list->sorted, count, sizeof *list->sorted, compare_lines, &list->name);
    return check_same(list, error);
}

/* The first line of this name, or SIZE_MAX. Blanks around names do not count, as in take_row. */
static size_t find_name(const ff_label_list *list, const char *name, size_t bytes) {
    name = ff_text_trim(name, &bytes);
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
    const char *name = ff_names_at(&list->name, line);
    const bool whole = strlen(name) == bytes && !memcmp(name, key, bytes);
    /* A set may have a key more than once: one line is for all of them. */
    if (list->used[line] && !(whole && list->whole[line]))
        return ff_fail(error, FF_BAD_DATA,
                       "%s: line %" PRIu64 " ('%.200s') stands for %.*s and another image; wanted "
                       "their paths",
                       list->path, list->line[line], name, (int)bytes, key);
    list->used[line] = true;
    list->whole[line] = whole;
    list->marked++;
    return FF_OK;
}

/* ---- classes ------------------------------------------------------------------------------- */

/* Whether an image has this line, or an earlier one of the same name. */
static bool is_used(const ff_label_list *list, size_t line) {
    const char *name = ff_names_at(&list->name, line);
    return list->used[line] || list->used[find_name(list, name, strlen(name))];
}

typedef ff_status cell_taker(ff_list_column *column, uint64_t line, const char *cell,
                             ff_error *error);

static ff_status for_used(ff_label_list *list, cell_taker *take, ff_error *error) {
    for (size_t i = 0; i < list->klass.count; i++)
        if (is_used(list, i))
            FF_TRY(take(&list->column, list->line[i], ff_names_at(&list->klass, i), error));
    return FF_OK;
}

static ff_status decide(ff_label_list *list, ff_label_kind kind, ff_metadata *labels, size_t field,
                        const char *known_by, bool listed, ff_error *error) {
    ff_list_column *column = &list->column;
    column->asked = kind;
    column->classes_only = true;
    if (kind == FF_LABEL_MULTI_HOT || kind == FF_LABEL_VALUE)
        return ff_fail(error, FF_USAGE,
                       "--label-kind: a list of --labels holds one class for each image; wanted "
                       "class, names or numbers, or the list itself as SOURCE");
    if (labels->field[field].class_count) {
        FF_TRY(ff_list_column_fix(column, &labels->field[field], known_by, error));
        column->numbers.listed = listed;
    }
    FF_TRY(for_used(list, ff_list_column_survey, error));
    FF_TRY(ff_list_column_decide(column, error));
    if (list->unclear && (!column->named || !list->numbers))
        return ff_fail(
            error, FF_USAGE,
            "has besides the images' names the columns %s and %s, and one class is "
            "wanted; wanted --label TITLE with a header or --columns label=NAME to choose one, or "
            "the list itself as SOURCE to pack all",
            list->class_title, list->columns);
    FF_TRY(for_used(list, ff_list_column_collect, error));
    FF_TRY(ff_list_column_settle(column, error));
    if (column->named && !column->fixed)
        return ff_class_set_finish(&column->names, labels, field, &column->rank, error);
    if (ff_list_column_dtype(column) == FF_I32) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "has the class %" PRId64 ", wanted at most %d", column->most,
                   INT32_MAX);
}

/* *said = a note on the list for the summary, or NULL; `how` may be NULL. */
static ff_status say(const ff_label_list *list, const char *how, char **said, ff_error *error) {
    ff_buffer text = {0};
    ff_status status;
    FF_TRY_DONE(ff_buffer_printf(&text, error, "%s: ", list->path));
    const size_t begin = text.length;
    if (how) FF_TRY_DONE(ff_buffer_printf(&text, error, "%s", how));
    if (list->roles)
        FF_TRY_DONE(ff_buffer_printf(&text, error, "%s%s", how ? "; " : "", list->roles));
    if (list->columns)
        FF_TRY_DONE(ff_buffer_printf(&text, error, "%snot used: column %s",
                                     text.length > begin ? "; " : "", list->columns));
    if (text.length > begin) *said = text.bytes;
    if (!*said) ff_buffer_free(&text);
    return FF_OK;
done:
    ff_buffer_free(&text);
    return status;
}

ff_status ff_label_list_decide(ff_label_list *list, ff_label_kind kind, ff_metadata *labels,
                               size_t field, const char *known_by, bool listed, char **said,
                               ff_error *error) {
    *said = NULL;
    if (list->decided) return FF_OK;
    list->decided = true;
    ff_status status = decide(list, kind, labels, field, known_by, listed, error);
    if (status != FF_OK) return ff_fail_within(error, status, "%s", list->path);
    char *how;
    FF_TRY(ff_list_column_say(&list->column, &how, error));
    status = say(list, how, said, error);
    free(how);
    return status;
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
    for (size_t i = 0; i < list->name.count; i++)
        if (!is_used(list, i) && !count++) *example = ff_names_at(&list->name, i);
    return count;
}

void ff_label_list_free(ff_label_list *list) {
    free(list->path);
    free(list->columns);
    free(list->roles);
    free(list->class_title);
    ff_names_free(&list->roots);
    ff_names_free(&list->name);
    ff_names_free(&list->klass);
    free(list->line);
    free(list->sorted);
    free(list->used);
    free(list->whole);
    free(list->first_missing);
    ff_list_column_free(&list->column);
    *list = (ff_label_list){0};
}
