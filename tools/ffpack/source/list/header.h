/* The header of a table of images: whether the first row is one, and which columns are not labels.
 *
 * It is one where the first cell is a word for a path (path, file, filename, image, ...); or where
 * another cell is, and the first one is empty, as in pandas' tables with an index, or a word for a
 * label, split or number. Thread rule: pure. */
#ifndef FF_FFPACK_LIST_HEADER_H
#define FF_FFPACK_LIST_HEADER_H

#include "tools/ffpack/source/list/table.h"

typedef struct ff_list_header {
    bool present;
    bool index;   /* the first column has the numbers of pandas' rows */
    size_t path;  /* the column of the images' names */
    size_t split; /* the column of splits; SIZE_MAX = none */
} ff_list_header;

/* `names`: any cell may also be image_id, the first one also another word for names without a path
 * (id, name, key). */
ff_list_header ff_list_header_find(const ff_table_row *row, bool names);
/* Whether column `index` may hold labels: neither paths, splits nor an index. */
bool ff_list_header_is_label(const ff_list_header *header, size_t index);
/* Whether a column of this title holds the images' classes (label, class, target, ...). */
bool ff_list_is_label_title(const char *title);

/* Whether a file that begins with `head` looks like a table: text, whose first line (*line_bytes)
 * has a comma or a tab. */
bool ff_list_looks_like_table(const unsigned char *head, size_t bytes, size_t *line_bytes);

#endif
