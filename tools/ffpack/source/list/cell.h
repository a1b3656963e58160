/* Reads the text of a label's cell: a whole number, numbers, or names. Thread rule: re-entrant.
 */
#ifndef FF_FFPACK_LIST_CELL_H
#define FF_FFPACK_LIST_CELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FF_LIST_WIDTH_LIMIT 65536u /* values of a vector or multi-hot label */

/* A whole number, also one like 2.0; *point = whether it has a point. Returns as ff_text_whole. */
int ff_cell_whole(const char *text, size_t bytes, int64_t *value, bool *point);
/* Whether it is -1: an item without a label. */
bool ff_cell_unlabeled(const char *text, size_t bytes);
/* Whether it is what pandas and NumPy write for a missing or infinite number. */
bool ff_cell_missing(const char *text, size_t bytes);
/* Parses the numbers of a cell, separated by blanks or ';', up to `room` of them as f32 into
 * *values (unaligned). 0 = not numbers. */
uint32_t ff_cell_numbers(const char *cell, char *values, uint32_t room);
/* The next name of a cell, separated by ';' or '|'; NULL at its end. Empty ones are skipped. */
const char *ff_cell_name(const char **cursor, size_t *bytes);

#endif
