/* Text on contact sheets. Pango and cairo draw it with the system's fonts, if
 * libpangocairo-1.0.so.0 and a font are found; otherwise, or with FFPACK_PANGO=0 in the
 * environment, a small ASCII font (font.h) is used. Thread rule: one thread at a time. */
#ifndef FF_LOADER_DRAW_LETTERS_H
#define FF_LOADER_DRAW_LETTERS_H

#include "loader/draw/canvas.h"

typedef struct ff_letters ff_letters;

/* A paragraph, broken into lines between words, or inside a word wider than a line. */
typedef struct ff_paragraph {
    const char *text; /* UTF-8 without control characters */
    unsigned scale;   /* 1 = small, 2 = large letters */
    unsigned width;   /* width of a line in pixels */
    unsigned lines;   /* at most this number of lines, then an ellipsis; 0 = any number */
    bool centred;
} ff_paragraph;

typedef struct ff_paragraph_size {
    unsigned height; /* pixels */
    unsigned lines;
    bool cut;
} ff_paragraph_size;

/* FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_letters_open(ff_letters **letters, ff_error *error);
void ff_letters_close(ff_letters **letters);

/* Whether Pango draws. */
bool ff_letters_has_library(const ff_letters *letters);

/* Whether every character of `text` can be drawn. */
bool ff_letters_know(ff_letters *letters, const char *text);

FF_MUST_USE ff_status ff_letters_measure(ff_letters *letters, const ff_paragraph *paragraph,
                                         ff_paragraph_size *size, ff_error *error);

/* Accents may extend this many pixels beyond a paragraph. */
#define FF_LETTERS_OVERHANG 4u

/* Draws the paragraph with the upper left corner of its lines at (x, y), both at least
 * FF_LETTERS_OVERHANG. */
FF_MUST_USE ff_status ff_letters_draw(ff_letters *letters, const ff_paragraph *paragraph,
                                      ff_canvas *canvas, unsigned x, unsigned y, ff_color color,
                                      ff_error *error);

#endif
