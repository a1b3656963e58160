#include "tools/ffpack/source/list/header.h"

#include "tools/ffpack/source/text.h"

#include <string.h>
#include <strings.h>

static const char *const path_words[] = {"path",     "file",       "filename",  "file_name",
                                         "filepath", "image_path", "image",     "image_name",
                                         "img",      "img_path",   "image_file"};
static const char *const name_words[] = {"id", "image_id", "imageid", "name", "key"};
/* These words mean an image in any column; "id" and "name" may be those of a class. */
static const char *const image_words[] = {"image_id", "imageid"};
static const char *const label_words[] = {"label", "labels",     "class",      "target", "targets",
                                          "y",     "class_name", "label_name", "classid"};
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

bool ff_list_header_is_label(const ff_list_header *header, size_t index) {
    return index != header->path && index != header->split && !(header->index && !index);
}

bool ff_list_is_label_title(const char *title) {
    return IS_WORD(title, label_words);
}

ff_list_header ff_list_header_find(const ff_table_row *row, bool names) {
    ff_list_header header = {.split = SIZE_MAX};
    const char *first = ff_table_cell(row, 0);
    size_t path = row->count;
    for (size_t i = row->count; i-- > 0;)
        if (IS_WORD(ff_table_cell(row, i), path_words)) path = i;
    for (size_t i = row->count; names && path == row->count && i-- > 0;)
        if (IS_WORD(ff_table_cell(row, i), image_words)) path = i;
    if (path == row->count && names && IS_WORD(first, name_words)) path = 0;
    if (path == row->count) return header;
    header.index = path && (!*first || !strcmp(first, "Unnamed: 0"));
    header.path = path;
    header.present = !path || header.index || is_split(first) || IS_WORD(first, label_words) ||
                     IS_WORD(first, number_words) || IS_WORD(first, name_words) ||
                     (names && IS_WORD(ff_table_cell(row, path), image_words));
    for (size_t i = 0; i < row->count && header.present; i++)
        if (i != path && is_split(ff_table_cell(row, i))) header.split = i;
    return header.present ? header : (ff_list_header){.split = SIZE_MAX};
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
    return memchr(head, ',', end) || memchr(head, '\t', end);
}
