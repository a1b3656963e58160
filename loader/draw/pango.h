/* Pango and cairo, loaded at run time: shaping, text direction, and fonts from fontconfig. */
#ifndef FF_LOADER_DRAW_PANGO_H
#define FF_LOADER_DRAW_PANGO_H

#include "loader/draw/letters.h"

typedef struct ff_pango ff_pango;

/* *pango = NULL, and FF_OK, if the library is missing or finds no font. FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_pango_open(ff_pango **pango, ff_error *error);
void ff_pango_close(ff_pango **pango);

/* The same as the functions of letters.h. */
bool ff_pango_knows(ff_pango *pango, const char *text);
FF_MUST_USE ff_status ff_pango_measure(ff_pango *pango, const ff_paragraph *paragraph,
                                       ff_paragraph_size *size, ff_error *error);
FF_MUST_USE ff_status ff_pango_draw(ff_pango *pango, const ff_paragraph *paragraph,
                                    ff_canvas *canvas, unsigned x, unsigned y, ff_color color,
                                    ff_error *error);

#endif
