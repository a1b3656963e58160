/* The header of a table of images: whether the first row is one, and which columns have which role.
 *
 * The row is a header if the first cell is a word for a path (path, file, filename, image, key,
 * ...). It is also a header if another cell is such a word and the first cell is empty, as in
 * pandas' tables with an index, or a word for a label, split or number; or if the row has a word
 * for a label or a split, and no cell looks like a path or a number. --columns overrides this.
 * Thread rule: pure. */
#ifndef FF_FFPACK_LIST_HEADER_H
#define FF_FFPACK_LIST_HEADER_H

#include "tools/ffpack/source/list/table.h"

#define FF_LIST_CHOSEN_LIMIT 16

typedef struct ff_list_header {
    bool present;
    size_t path;                        /* the column of the images' names */
    size_t split;                       /* the column of splits; SIZE_MAX = none */
    size_t label[FF_LIST_CHOSEN_LIMIT]; /* [label_count] the columns of labels, by --columns */
    size_t label_count;                 /* 0 = unset: any other column */
} ff_list_header;

/* `names`: the first cell may also be another word for names without a path (id, name). */
ff_list_header ff_list_header_find(const ff_table_row *row, bool names);
/* The same with --columns, "path=NAME,label=NAME,split=NAME", a column's title or its number from
 * 1; NULL = not given. A title makes the row a header. `names`: a list of --labels, which has no
 * splits. `file` is for messages. FF_USAGE if there is no such column, or one has two roles. */
FF_MUST_USE ff_status ff_list_header_choose(ff_list_header *header, const ff_table_row *row,
                                            bool names, const char *columns, const char *file,
                                            ff_error *error);
/* Whether the row's cells may all be titles: none looks like a path or a number. */
bool ff_list_header_may_be(const ff_table_row *row);
/* Whether column `index` may hold labels: neither paths, splits nor the numbers of the rows, unless
 * it is the one of --label (`label`; NULL = unset). `row` is the first one. */
bool ff_list_header_is_label(const ff_list_header *header, const ff_table_row *row, size_t index,
                             const char *label);
/* Whether a column of this title holds the images' classes (label, class, target, ...). */
bool ff_list_is_label_title(const char *title);
/* Appends the title of column `index`, or its number if it has no title. */
FF_MUST_USE ff_status ff_list_header_title(ff_buffer *text, const ff_list_header *header,
                                           const ff_table_row *row, size_t index, ff_error *error);

/* Whether a file that begins with `head` looks like a table: text, whose first line (*line_bytes)
 * has a comma, a semicolon or a tab. */
bool ff_list_looks_like_table(const unsigned char *head, size_t bytes, size_t *line_bytes);

#endif
