#include "tools/ffpack/source/list/header.h"

#include "format/base/text.h"

#include <string.h>
#include <strings.h>

static const char *const path_words[] = {"path",       "file",      "filename",   "file_name",
                                         "filepath",   "file_path", "image_path", "image",
                                         "image_name", "img",       "img_path",   "image_file"};
/* Names of images, if no column has paths. */
static const char *const key_words[] = {"image_id", "imageid", "key"};
/* These words mean an image in any column; "key" may be the name of a class. */
static const char *const image_words[] = {"image_id", "imageid"};
static const char *const name_words[] = {"id", "name"};
static const char *const label_words[] = {"label",      "labels", "class",    "target",
                                          "targets",    "y",      "category", "class_name",
                                          "label_name", "classid"};
static const char *const number_words[] = {"index", "idx", "no", "number"};

/* Whether a title is one of the words, in any case, with blanks around. */
static bool is_word(const char *title, const char *const *words, size_t count) {
    size_t bytes = strlen(title);
    title = ff_text_trim(title, &bytes);
    for (size_t i = 0; i < count; i++)
        if (strlen(words[i]) == bytes && !strncasecmp(title, words[i], bytes)) return true;
    return false;
}

#define IS_WORD(title, words) is_word(title, words, sizeof words / sizeof words[0])

static bool is_split(const char *title) {
    static const char *const words[] = {"split"};
    return IS_WORD(title, words);
}

bool ff_list_is_label_title(const char *title) {
    return IS_WORD(title, label_words);
}

/* ---- by the words --------------------------------------------------------------------------- */

/* How pandas names a column without a title, such as the numbers of rows. */
static bool is_unnamed(const char *title) {
    return !strncmp(title, "Unnamed: ", 9);
}

static bool is_index_title(const char *title) {
    return !*title || is_unnamed(title);
}

/* Whether a column has no known role and does not number the rows. */
static bool has_other(const ff_list_header *header, const ff_table_row *row) {
    for (size_t i = 0; i < row->count; i++) {
        const char *title = ff_table_cell(row, i);
        if (i != header->path && i != header->split && !is_index_title(title) &&
            !IS_WORD(title, number_words))
            return true;
    }
    return false;
}

/* Whether a column numbers the rows: a pandas column without a title, or a column before the paths
 * with such a title, next to other columns. */
static bool counts_rows(const ff_list_header *header, const ff_table_row *row, size_t index) {
    const char *title = ff_table_cell(row, index);
    if (!header->present) return false;
    if (is_unnamed(title) || (!*title && index < header->path)) return true;
    return index < header->path && IS_WORD(title, number_words) && has_other(header, row);
}

static bool is_title(const char *title, const char *name, size_t bytes);

bool ff_list_header_is_label(const ff_list_header *header, const ff_table_row *row, size_t index,
                             const char *label) {
    if (index == header->path || index == header->split) return false;
    for (size_t i = 0; i < header->label_count; i++)
        if (header->label[i] == index) return true;
    if (header->label_count) return false;
    return (header->present && label &&
            is_title(ff_table_cell(row, index), label, strlen(label))) ||
           !counts_rows(header, row, index);
}

bool ff_list_header_may_be(const ff_table_row *row) {
    for (size_t i = 0; i < row->count; i++) {
        const char *cell = ff_table_cell(row, i);
        size_t bytes = strlen(cell);
        cell = ff_text_trim(cell, &bytes);
        if (strcspn(cell, "./") < bytes || (bytes && strspn(cell, "-+0123456789") >= bytes))
            return false;
    }
    return true;
}

/* Whether the cells may be titles, and one other than the paths' names labels or splits. */
static bool are_titles(const ff_table_row *row, size_t path) {
    bool titled = false;
    for (size_t i = 0; i < row->count; i++)
        if (i != path)
            titled |=
                IS_WORD(ff_table_cell(row, i), label_words) || is_split(ff_table_cell(row, i));
    return titled && ff_list_header_may_be(row);
}

/* The first column with one of the words; row->count if there is none. */
#define FIND(row, words) find(row, words, sizeof words / sizeof words[0])
static size_t find(const ff_table_row *row, const char *const *words, size_t count) {
    size_t at = 0;
    while (at < row->count && !is_word(ff_table_cell(row, at), words, count)) at++;
    return at;
}

ff_list_header ff_list_header_find(const ff_table_row *row, bool names) {
    const ff_list_header none = {.split = SIZE_MAX};
    ff_list_header header = none;
    const char *first = ff_table_cell(row, 0);
    size_t path = FIND(row, path_words);
    if (path == row->count) path = FIND(row, key_words);
    if (path == row->count && names && IS_WORD(first, name_words)) path = 0;
    if (path == row->count) return none;
    header.path = path;
    header.present = !path || is_index_title(first) || is_split(first) ||
                     IS_WORD(first, label_words) || IS_WORD(first, number_words) ||
                     IS_WORD(first, name_words) || IS_WORD(ff_table_cell(row, path), image_words) ||
                     are_titles(row, path);
    if (!header.present) return none;
    for (size_t i = 0; i < row->count; i++)
        if (i != path && is_split(ff_table_cell(row, i))) header.split = i;
    return header;
}

/* ---- by --columns --------------------------------------------------------------------------- */

/* Whether the title of a column, also one with a kind behind it ("colour:class"), is this name. */
static bool is_title(const char *title, const char *name, size_t bytes) {
    size_t length = strlen(title);
    title = ff_text_trim(title, &length);
    return length >= bytes && !memcmp(title, name, bytes) &&
           (length == bytes || title[bytes] == ':');
}

static ff_status no_column(const ff_table_row *row, const char *name, size_t bytes,
                           const char *file, ff_error *error) {
    ff_buffer all = {0};
    ff_status status = FF_OK;
    for (size_t i = 0; i < row->count && status == FF_OK && all.length < 300; i++)
        status = ff_buffer_printf(&all, error, "%s%.60s", i ? ", " : "", ff_table_cell(row, i));
    if (status == FF_OK)
        status =
            ff_fail(error, FF_USAGE,
                    "--columns: %s has no column '%.*s'; its first line is: %s; wanted a title, "
                    "or a number from 1 to %zu",
                    file, (int)bytes, name, all.bytes, row->count);
    ff_buffer_free(&all);
    return status;
}

/* *column = the one that a name or number means; a name makes the row a header. */
static ff_status find_column(ff_list_header *header, const ff_table_row *row, const char *name,
                             size_t bytes, const char *file, size_t *column, ff_error *error) {
    int64_t number;
    if (ff_text_whole(name, bytes, &number) > 0) {
        *column = (size_t)number - 1;
        return number >= 1 && (uint64_t)number <= row->count
                   ? FF_OK
                   : no_column(row, name, bytes, file, error);
    }
    for (*column = 0; *column < row->count; ++*column) {
        if (!is_title(ff_table_cell(row, *column), name, bytes)) continue;
        header->present = true;
        return FF_OK;
    }
    return no_column(row, name, bytes, file, error);
}

/* The roles by --columns, in addition to the words'. */
typedef struct choice {
    size_t path, split; /* SIZE_MAX = unset */
    ff_list_header *header;
} choice;

static ff_status choose(choice *chosen, const ff_table_row *row, bool names, const char *item,
                        size_t bytes, const char *file, ff_error *error) {
    static const char *const keys[] = {"path=", "label=", "split="};
    ff_list_header *header = chosen->header;
    size_t key = 0, column;
    while (key < 3 && strncmp(item, keys[key], strlen(keys[key])) != 0) key++;
    const size_t key_bytes = key < 3 ? strlen(keys[key]) : 0;
    if (key == 3 || bytes <= key_bytes || (key == 1 && header->label_count == FF_LIST_CHOSEN_LIMIT))
        return ff_fail(
            error, FF_USAGE,
            "--columns: '%.*s' is neither path=, label= nor split= with a column's title "
            "or number; at most %d labels; wanted path=NAME,label=NAME",
            (int)bytes, item, FF_LIST_CHOSEN_LIMIT);
    if (key == 2 && names)
        return ff_fail(
            error, FF_USAGE,
            "--columns: split= is for a list as SOURCE; a list of --labels has a path and "
            "a label");
    FF_TRY(find_column(header, row, item + key_bytes, bytes - key_bytes, file, &column, error));
    size_t *role = key == 0   ? &chosen->path
                   : key == 2 ? &chosen->split
                              : &header->label[header->label_count++];
    *role = column;
    return FF_OK;
}

static ff_status check_roles(const choice *chosen, const char *columns, ff_error *error) {
    const ff_list_header *header = chosen->header;
    bool twice = chosen->path != SIZE_MAX && chosen->path == header->split;
    for (size_t i = 0; i < header->label_count; i++) {
        twice |= header->label[i] == header->path || header->label[i] == header->split;
        for (size_t k = 0; k < i; k++) twice |= header->label[i] == header->label[k];
    }
    if (!twice) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "--columns %s: one column has two roles; wanted another for each", columns);
}

ff_status ff_list_header_choose(ff_list_header *header, const ff_table_row *row, bool names,
                                const char *columns, const char *file, ff_error *error) {
    *header = ff_list_header_find(row, names);
    if (!columns) return FF_OK;
    const bool found = header->present;
    choice chosen = {.path = SIZE_MAX, .split = SIZE_MAX, .header = header};
    for (const char *at = columns; at;) {
        const size_t bytes = strcspn(at, ",");
        FF_TRY(choose(&chosen, row, names, at, bytes, file, error));
        at = at[bytes] ? at + bytes + 1 : NULL;
    }
    if (header->present && !found && chosen.path == SIZE_MAX)
        return ff_fail(error, FF_USAGE,
                       "--columns %s: no column of %s is called path, file, filename or image; "
                       "wanted path=NAME, too",
                       columns, file);
    if (chosen.path != SIZE_MAX) header->path = chosen.path;
    if (chosen.split != SIZE_MAX) header->split = chosen.split;
    for (size_t i = 0; i < header->label_count; i++) /* a label that is called split */
        if (chosen.split == SIZE_MAX && header->label[i] == header->split) header->split = SIZE_MAX;
    if (chosen.split == SIZE_MAX && header->path == header->split) header->split = SIZE_MAX;
    return check_roles(&chosen, columns, error);
}

/* ---- for messages --------------------------------------------------------------------------- */

ff_status ff_list_header_title(ff_buffer *text, const ff_list_header *header,
                               const ff_table_row *row, size_t index, ff_error *error) {
    const char *title = header->present ? ff_table_cell(row, index) : "";
    return *title ? ff_buffer_printf(text, error, "%s", title)
                  : ff_buffer_printf(text, error, "%zu", index + 1);
}

bool ff_list_looks_like_table(const unsigned char *head, size_t bytes, size_t *line_bytes) {
    size_t end = bytes;
    for (size_t i = bytes; i-- > 0;) {
        if (head[i] == '\n' || head[i] == '\r')
            end = i;
        else if (head[i] < ' ' && head[i] != '\t')
            return false;
    }
    *line_bytes = end;
    return memchr(head, ',', end) || memchr(head, ';', end) || memchr(head, '\t', end);
}
