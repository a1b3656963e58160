/* HTML in memory. The first failure (no memory) is kept, and later calls do nothing, so that a page
 * is written without a check after each piece. */
#ifndef FF_TRAIN_REPORT_PAGE_HTML_H
#define FF_TRAIN_REPORT_PAGE_HTML_H

#include "format/base/memory.h"

/* Zero-initialised; the owner frees `text`. */
typedef struct ff_html {
    ff_buffer text;
    ff_error failure; /* failure.status FF_OK = none */
} ff_html;

/* Adds markup unchanged. */
void ff_html_add(ff_html *html, const char *format, ...) FF_PRINTF(2, 3);
/* Any text: escaped, and readable (format/base/readable.h). */
void ff_html_text(ff_html *html, const char *text);
/* The same with at most `most` characters (ff_shortened); the whole text is shown under the
 * mouse. */
void ff_html_short(ff_html *html, const char *text, size_t most);
/* "data:image/png;base64,...". */
void ff_html_png(ff_html *html, const ff_buffer *png);

/* Adds a number of a quantity, "-" if it is not finite: shares in percent, durations in readable
 * units. */
typedef enum ff_unit { FF_UNIT_PLAIN, FF_UNIT_PERCENT, FF_UNIT_SECONDS, FF_UNIT_COUNT } ff_unit;
void ff_html_number(ff_html *html, double value, ff_unit unit);

#endif
