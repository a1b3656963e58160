/* A small font of 5 x 7 dots (an eighth row for descenders) for contact sheets: printable ASCII, an
 * ellipsis, and a box for every other character. Proportional. Text is UTF-8 that ends with a zero
 * byte. Thread rule: pure. */
#ifndef FF_LOADER_DRAW_FONT_H
#define FF_LOADER_DRAW_FONT_H

#include "format/base/memory.h"

#define FF_FONT_HEIGHT 8u

/* Whether all of `text` is printable ASCII. */
bool ff_font_knows(const char *text);

/* Dots from the first to the last column of `text`. */
unsigned ff_font_width(const char *text);

/* Bytes of the longest prefix of `text` that is at most `width` dots wide. */
size_t ff_font_prefix(const char *text, unsigned width);

/* Appends `text`, shortened with an ellipsis if it is more than `width` dots wide. */
FF_MUST_USE ff_status ff_font_fit(ff_buffer *out, const char *text, unsigned width,
                                  ff_error *error);

/* Calls `dot` for every dot of `text`; x from 0, y from 0 = top to FF_FONT_HEIGHT - 1. */
void ff_font_draw(const char *text, void (*dot)(void *context, unsigned x, unsigned y),
                  void *context);

#endif
