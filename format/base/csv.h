/* Cells of text files: CSV, and lines whose cells are separated by tabs (TSV). Thread rule:
 * pure. */
#ifndef FF_BASE_CSV_H
#define FF_BASE_CSV_H

#include "format/base/memory.h"

/* Appends a cell in the form of RFC 4180: a cell with a comma, a quote or a line end is enclosed in
 * quotes, and each quote in it is doubled. The caller writes the separator. */
FF_MUST_USE ff_status ff_csv_cell(ff_buffer *line, const void *text, size_t length,
                                  ff_error *error);

/* Appends a cell of TSV: the bytes unchanged, except for backslash, tab, line feed and carriage
 * return, which become \\, \t, \n and \r, and other control characters, which become \0 and three
 * octal digits. The shell's `printf %b` decodes the cell. The caller writes the separator. */
FF_MUST_USE ff_status ff_tsv_cell(ff_buffer *line, const void *text, size_t length,
                                  ff_error *error);

/* Undoes ff_tsv_cell, in place. */
void ff_tsv_text(char *cell);

#endif
