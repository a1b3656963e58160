/* How much of a terminal's line a text takes. */
#ifndef FF_BASE_COLUMNS_H
#define FF_BASE_COLUMNS_H

#include <stddef.h>

/* The columns that `text` (UTF-8) takes: two of a wide character, none of a combining one, one of a
 * byte that is no character. Does not depend on the program's locale. */
int ff_columns(const char *text);

/* The bytes of `text` that fit into `columns` columns, whole characters only. */
size_t ff_columns_fit(const char *text, int columns);

#endif
