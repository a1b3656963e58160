#include "format/base/csv.h"

#include <stdbool.h>
#include <string.h>

/* ---- CSV ---- */

static bool is_quoted(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (text[i] && strchr(",\"\r\n", text[i])) return true;
    return false;
}

ff_status ff_csv_cell(ff_buffer *line, const void *text, size_t length, ff_error *error) {
    const char *at = text;
    if (!is_quoted(at, length)) return ff_buffer_add(line, at, length, error);
    FF_TRY(ff_buffer_add(line, "\"", 1, error));
    for (; length--; at++)
        FF_TRY(ff_buffer_add(line, *at == '"' ? "\"\"" : at, 1 + (*at == '"'), error));
    return ff_buffer_add(line, "\"", 1, error);
}

/* ---- TSV ---- */

static const char letters[] = "\\tnr", meant[] = "\\\t\n\r";

ff_status ff_tsv_cell(ff_buffer *line, const void *text, size_t length, ff_error *error) {
    const unsigned char *at = text;
    for (; length--; at++) {
        const char *special = *at ? strchr(meant, *at) : NULL;
        if (special)
            FF_TRY(ff_buffer_printf(line, error, "\\%c", letters[special - meant]));
        else if (*at < ' ' || *at == 0x7f)
            FF_TRY(ff_buffer_printf(line, error, "\\0%03o", *at));
        else
            FF_TRY(ff_buffer_add(line, at, 1, error));
    }
    return FF_OK;
}

static bool is_octal(char c) {
    return c >= '0' && c <= '7';
}

void ff_tsv_text(char *cell) {
    char *to = cell;
    for (const char *at = cell; *at; at++) {
        const char *letter = *at == '\\' && at[1] ? strchr(letters, at[1]) : NULL;
        if (letter) {
            *to++ = meant[letter - letters];
            at++;
        } else if (*at == '\\' && at[1] == '0' && is_octal(at[2]) && is_octal(at[3]) &&
                   is_octal(at[4])) {
            *to++ = (char)((at[2] - '0') * 64 + (at[3] - '0') * 8 + (at[4] - '0'));
            at += 4;
        } else {
            *to++ = *at;
        }
    }
    *to = 0;
}
