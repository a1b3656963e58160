/* The width of a text in a terminal. */
#ifndef FF_BASE_COLUMNS_H
#define FF_BASE_COLUMNS_H

#include <stddef.h>

/* Columns of `text` (UTF-8): two for a wide character, none for a combining one, one for a byte
 * that is not valid UTF-8. Does not depend on the program's locale. */
int ff_columns(const char *text);

/* The bytes of `text` that fit into `columns` columns, whole characters only. */
size_t ff_columns_fit(const char *text, int columns);

#endif
