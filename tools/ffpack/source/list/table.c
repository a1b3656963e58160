#include "tools/ffpack/source/list/table.h"

#include "tools/ffpack/source/input.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 64 * 1024, END = -1 };

struct ff_table {
    char *path;
    ff_input *input; /* NULL: the text */
    char *text;
    size_t text_at, text_bytes;
    bool cut;       /* the text is only the table's beginning */
    char separator; /* 0 = a line is one cell */
    bool quotes;    /* cells may be quoted */
    uint64_t line;  /* the next character's */
    size_t columns; /* the first row's; 0 before it */
    size_t at, length;
    unsigned char chunk[CHUNK_BYTES];
    ff_buffer bytes; /* the row's */
    size_t *offset;
    size_t offset_capacity, count;
};

static ff_status fill(ff_table *table, ff_error *error) {
    if (table->input)
        return ff_input_read(table->input, table->chunk, CHUNK_BYTES, &table->length, error);
    size_t left = table->text_bytes - table->text_at;
    table->length = left < CHUNK_BYTES ? left : CHUNK_BYTES;
    memcpy(table->chunk, table->text + table->text_at, table->length);
    table->text_at += table->length;
    return FF_OK;
}

static const char mark[] = "\xef\xbb\xbf";

static bool is_end(char c) {
    return c == '\n' || c == '\r';
}

/* The end of the quoted cell that begins at text[at], after its closing quote; SIZE_MAX if the
 * quote is missing. */
static size_t after_quotes(const char *text, size_t at, size_t bytes) {
    for (at++; at < bytes; at++) {
        if (text[at] != '"') continue;
        if (at + 1 == bytes || text[at + 1] != '"') return at + 1;
        at++;
    }
    return SIZE_MAX;
}

/* The separator, by the first line without its quoted cells: a tab, else a comma, else a semicolon.
 * A semicolon counts before a comma if a title ends with it, as in `path;size, in pixels`. */
static char separator_of(const char *text, size_t bytes) {
    size_t first[3] = {bytes, bytes, bytes};
    static const char separators[] = "\t,;";
    bool begins = true;
    for (size_t at = 0; at < bytes && !is_end(text[at]); at++) {
        const size_t behind = begins && text[at] == '"' ? after_quotes(text, at, bytes) : SIZE_MAX;
        if (behind != SIZE_MAX) at = behind;
        if (at == bytes || is_end(text[at])) break;
        const char *found = text[at] ? strchr(separators, text[at]) : NULL;
        begins = found != NULL;
        if (found && first[found - separators] == bytes) first[found - separators] = at;
    }
    const size_t tab = first[0], comma = first[1], semicolon = first[2];
    if (tab < bytes) return '\t';
    const bool title =
        semicolon < comma && !memchr(text, '.', semicolon) && !memchr(text, '/', semicolon);
    if (comma < bytes && !title) return ',';
    return semicolon < bytes ? ';' : 0;
}

/* Whether cells may be quoted. Between tabs a quote may also be a part of a name: there cells are
 * quoted only if every cell in `text` that begins with a quote also ends with one; `whole`: the
 * table ends with the text. */
static bool quotes_in(char separator, const char *text, size_t bytes, bool whole) {
    if (separator != '\t') return separator != 0;
    for (size_t at = 0; at < bytes; at++) {
        const bool begins = !at || text[at - 1] == '\t' || is_end(text[at - 1]);
        if (!begins || text[at] != '"') continue;
        at = after_quotes(text, at, bytes);
        if (at == SIZE_MAX) return !whole;
        if (at < bytes && text[at] != '\t' && !is_end(text[at])) return false;
    }
    return true;
}

/* The next character is at chunk[at], or the table ends: then *c = END. */
static ff_status peek(ff_table *table, int *c, ff_error *error) {
    if (table->at == table->length) {
        table->at = 0;
        FF_TRY(fill(table, error));
    }
    *c = table->at < table->length ? table->chunk[table->at] : END;
    return FF_OK;
}

static ff_status begin(ff_table *table, const char *path, ff_error *error) {
    int c;
    table->line = 1;
    FF_TRY(ff_copy_string(&table->path, path, error));
    if (!table->text) FF_TRY(ff_input_open(&table->input, path, error));
    FF_TRY(peek(table, &c, error));
    if (table->length >= 3 && !memcmp(table->chunk, mark, 3)) table->at = 3;
    const char *text = (const char *)table->chunk + table->at;
    table->separator = separator_of(text, table->length - table->at);
    const bool whole = table->length < CHUNK_BYTES && !table->cut;
    table->quotes = quotes_in(table->separator, text, table->length - table->at, whole);
    return FF_OK;
}

ff_status ff_table_open(ff_table **out, const char *path, ff_error *error) {
    return ff_table_open_text(out, path, NULL, 0, true, error);
}

ff_status ff_table_open_text(ff_table **table, const char *path, char *text, size_t bytes,
                             bool whole, ff_error *error) {
    ff_status status = ff_alloc(table, 1, sizeof **table, "a table", error);
    if (status != FF_OK) {
        free(text);
        return status;
    }
    (*table)->text = text;
    (*table)->text_bytes = bytes;
    (*table)->cut = !whole;
    status = begin(*table, path, error);
    if (status != FF_OK) ff_table_close(table);
    return status;
}

void ff_table_close(ff_table **table) {
    if (!*table) return;
    ff_input_close(&(*table)->input);
    ff_buffer_free(&(*table)->bytes);
    free((*table)->offset);
    free((*table)->path);
    free((*table)->text);
    free(*table);
    *table = NULL;
}

static ff_status put(ff_table *table, char c, ff_error *error) {
    if (!c)
        return ff_fail(error, FF_BAD_DATA, "%s: line %" PRIu64 " has a zero byte, wanted text",
                       table->path, table->line);
    if (table->bytes.length == FF_TABLE_ROW_LIMIT_BYTES)
        return ff_fail(error, FF_BAD_DATA, "%s: line %" PRIu64 " has a row of more than %u bytes",
                       table->path, table->line, FF_TABLE_ROW_LIMIT_BYTES);
    return ff_buffer_add(&table->bytes, &c, 1, error);
}

static ff_status begin_cell(ff_table *table, ff_error *error) {
    if (table->count == FF_TABLE_CELLS_LIMIT)
        return ff_fail(error, FF_BAD_DATA, "%s: line %" PRIu64 " has more than %u cells",
                       table->path, table->line, FF_TABLE_CELLS_LIMIT);
    FF_TRY(ff_reserve(&table->offset, &table->offset_capacity, table->count + 1,
                      sizeof *table->offset, "cells", error));
    table->offset[table->count++] = table->bytes.length;
    return FF_OK;
}

/* After the opening quote. */
static ff_status read_quoted(ff_table *table, ff_error *error) {
    uint64_t first = table->line;
    for (int c;;) {
        FF_TRY(peek(table, &c, error));
        if (c == END)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: the quote that line %" PRIu64 " opens does not end", table->path,
                           first);
        table->at++;
        if (c == '\n') table->line++;
        if (c == '"') {
            FF_TRY(peek(table, &c, error));
            if (c != '"') break;
            table->at++;
        }
        FF_TRY(put(table, (char)c, error));
    }
    return FF_OK;
}

/* Up to the separator or the line's end, which stays. */
static ff_status read_cell(ff_table *table, ff_error *error) {
    int c;
    bool quoted = false;
    size_t begin = table->bytes.length;
    FF_TRY(begin_cell(table, error));
    FF_TRY(peek(table, &c, error));
    if (c == '"' && table->quotes) {
        table->at++;
        quoted = true;
        FF_TRY(read_quoted(table, error));
        begin = table->bytes.length;
    }
    for (;; table->at++) {
        FF_TRY(peek(table, &c, error));
        if (c == END || c == '\n' || c == '\r' || (table->separator && c == table->separator))
            break;
        FF_TRY(put(table, (char)c, error));
    }
    if (quoted && table->bytes.length > begin)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: line %" PRIu64 " has '%c' after a closing quote, wanted a %s",
                       table->path, table->line, table->bytes.bytes[begin],
                       table->separator == ','   ? "comma"
                       : table->separator == ';' ? "semicolon"
                                                 : "tab");
    return ff_buffer_add(&table->bytes, "", 1, error);
}

/* Cells up to the end of the line. */
static ff_status read_row(ff_table *table, ff_error *error) {
    table->bytes.length = 0;
    table->count = 0;
    for (int c, next = END;;) {
        FF_TRY(read_cell(table, error));
        FF_TRY(peek(table, &c, error));
        if (c == END) return FF_OK;
        table->at++;
        if (c != '\n' && c != '\r') continue; /* a separator */
        table->line++;
        if (c == '\r') FF_TRY(peek(table, &next, error));
        if (next == '\n') table->at++;
        return FF_OK;
    }
}

ff_status ff_table_next(ff_table *table, ff_table_row *row, ff_error *error) {
    int c;
    *row = (ff_table_row){0};
    do {
        FF_TRY(peek(table, &c, error));
        if (c == END) return FF_OK;
        row->line = table->line;
        FF_TRY(read_row(table, error));
    } while (table->count == 1 && table->bytes.length == 1); /* an empty line is not a row */
    if (!table->columns) table->columns = table->count;
    if (table->count != table->columns)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: line %" PRIu64 " has %zu cells, the first one has %zu", table->path,
                       row->line, table->count, table->columns);
    row->count = table->count;
    row->offset = table->offset;
    row->bytes = table->bytes.bytes;
    return FF_OK;
}

bool ff_table_first_cell(const char *head, size_t bytes, bool whole, char *cell, size_t size) {
    if (memchr(head, 0, bytes)) return false;
    if (bytes >= 3 && !memcmp(head, mark, 3)) {
        head += 3;
        bytes -= 3;
    }
    char separator = separator_of(head, bytes);
    bool quoted = bytes && *head == '"' && quotes_in(separator, head, bytes, whole);
    size_t used = 0, at = quoted;
    for (; at < bytes; at++) {
        if (quoted && head[at] == '"') {
            if (at + 1 >= bytes || head[at + 1] != '"') break;
            at++;
        } else if (!quoted &&
                   (head[at] == '\n' || head[at] == '\r' || (separator && head[at] == separator))) {
            break;
        }
        if (used + 1 >= size) return false;
        cell[used++] = head[at];
    }
    if (at == bytes && !whole) return false;
    cell[used] = 0;
    return used > 0;
}
