/* Text tables: a row per line, cells separated by tabs, commas or semicolons, read sequentially.
 *
 * The first line decides, without its quoted cells: with a tab in it cells are separated by tabs;
 * else with a comma by commas; else with a semicolon by these; else a line is one cell. Cells may
 * be quoted as in RFC 4180 ("a ""b"", c", also over several lines); between tabs only if, in the
 * first 64 KiB, every cell that begins with a quote ends with one. Lines end with \n, \r\n or \r;
 * empty ones and a UTF-8 byte order mark are skipped. gzip is decompressed. Memory: one row. Thread
 * rule: one thread at a time. */
#ifndef FF_FFPACK_TABLE_H
#define FF_FFPACK_TABLE_H

#include "format/base/memory.h"

#define FF_TABLE_ROW_LIMIT_BYTES (1u << 20)
#define FF_TABLE_CELLS_LIMIT     65536u

typedef struct ff_table ff_table;

typedef struct ff_table_row {
    uint64_t line; /* its first line, from 1 */
    size_t count;  /* cells; 0 = the table has ended */
    const size_t
        *offset; /* [count] of the cells in bytes; each is zero-terminated, without zeros inside */
    const char *bytes;
} ff_table_row;

static inline const char *ff_table_cell(const ff_table_row *row, size_t index) {
    return row->bytes + row->offset[index];
}

FF_MUST_USE ff_status ff_table_open(ff_table **table, const char *path, ff_error *error);
/* The same from a text; `path` is for messages; without `whole` the text is the beginning of the
 * table. It takes ownership of the text, also after a failure. */
FF_MUST_USE ff_status ff_table_open_text(ff_table **table, const char *path, char *text,
                                         size_t bytes, bool whole, ff_error *error);
/* The next row, valid until the next call. FF_BAD_DATA naming the line if it has a zero byte,
 * another number of cells than the first row, a quote that does not end, or is too long. */
FF_MUST_USE ff_status ff_table_next(ff_table *table, ff_table_row *row, ff_error *error);
void ff_table_close(ff_table **table);

/* The first cell of a text that begins with `head`, if the cell ends within `bytes` or the text
 * does (`whole`). Otherwise false, and also if the text has a zero byte. */
FF_MUST_USE bool ff_table_first_cell(const char *head, size_t bytes, bool whole, char *cell,
                                     size_t size);

#endif
