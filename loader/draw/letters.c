#include "loader/draw/letters.h"

#include "loader/draw/font.h"
#include "loader/draw/pango.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_SPACE = 3 }; /* dots between the lines of the small font */

struct ff_letters {
    ff_pango *pango; /* NULL = the small font */
};

ff_status ff_letters_open(ff_letters **letters, ff_error *error) {
    const char *choice = getenv("FFPACK_PANGO");
    FF_TRY(ff_alloc(letters, 1, sizeof **letters, "letters", error));
    if (choice && !strcmp(choice, "0")) return FF_OK;
    ff_status status = ff_pango_open(&(*letters)->pango, error);
    if (status != FF_OK) ff_letters_close(letters);
    return status;
}

void ff_letters_close(ff_letters **letters) {
    if (!*letters) return;
    ff_pango_close(&(*letters)->pango);
    free(*letters);
    *letters = NULL;
}

bool ff_letters_has_library(const ff_letters *letters) {
    return letters->pango != NULL;
}

bool ff_letters_know(ff_letters *letters, const char *text) {
    return letters->pango ? ff_pango_knows(letters->pango, text) : ff_font_knows(text);
}

/* ---- the small font -------------------------------------------------------------------------- */

/* Bytes of the next line of `text`, at most `width` dots wide; *blanks = bytes of the blanks after
 * it. */
static size_t next_line(const char *text, unsigned width, size_t *blanks) {
    size_t whole = ff_font_prefix(text, width), end = whole;
    if (text[whole]) {
        while (end && text[end] != ' ') end--;
        if (!end) end = whole; /* one long word */
    }
    while (end && text[end - 1] == ' ') end--;
    if (!end) end = whole ? whole : 1; /* a letter wider than a line */
    *blanks = strspn(text + end, " ");
    return end;
}

static void draw_line(const ff_paragraph *paragraph, const char *text, ff_canvas *canvas,
                      unsigned x, unsigned y, ff_color color) {
    unsigned width = ff_font_width(text) * paragraph->scale;
    if (paragraph->centred && width < paragraph->width) x += (paragraph->width - width) / 2;
    ff_canvas_text(canvas, x, y, paragraph->scale, text, color);
}

/* Measures the lines, and draws them if there is a canvas. */
static ff_status set_lines(const ff_paragraph *paragraph, ff_paragraph_size *size,
                           ff_canvas *canvas, unsigned x, unsigned y, ff_color color,
                           ff_error *error) {
    const unsigned room = paragraph->width / paragraph->scale;
    const char *text = paragraph->text;
    *size = (ff_paragraph_size){0};
    while (*text) {
        ff_buffer line = {0};
        size_t blanks = 0, length = next_line(text, room, &blanks);
        ff_status status;
        if (paragraph->lines && size->lines + 1 == paragraph->lines && text[length + blanks]) {
            status = ff_font_fit(&line, text, room, error);
            size->cut = true;
            length = strlen(text);
            blanks = 0;
        } else {
            status = ff_buffer_add(&line, text, length, error);
        }
        unsigned top = size->lines * (FF_FONT_HEIGHT + LINE_SPACE) * paragraph->scale;
        if (status == FF_OK && canvas) draw_line(paragraph, line.bytes, canvas, x, y + top, color);
        ff_buffer_free(&line);
        FF_TRY(status);
        size->height = top + FF_FONT_HEIGHT * paragraph->scale;
        size->lines++;
        text += length + blanks;
    }
    return FF_OK;
}

/* ---- either ---------------------------------------------------------------------------------- */

ff_status ff_letters_measure(ff_letters *letters, const ff_paragraph *paragraph,
                             ff_paragraph_size *size, ff_error *error) {
    if (letters->pango) return ff_pango_measure(letters->pango, paragraph, size, error);
    return set_lines(paragraph, size, NULL, 0, 0, (ff_color){0}, error);
}

ff_status ff_letters_draw(ff_letters *letters, const ff_paragraph *paragraph, ff_canvas *canvas,
                          unsigned x, unsigned y, ff_color color, ff_error *error) {
    ff_paragraph_size size;
    if (letters->pango) return ff_pango_draw(letters->pango, paragraph, canvas, x, y, color, error);
    return set_lines(paragraph, &size, canvas, x, y, color, error);
}
