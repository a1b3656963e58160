#include "train/report/page/html.h"

#include "format/base/readable.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool fails(ff_html *html, ff_status status) {
    html->failure.status = status;
    return status != FF_OK;
}

static void add_bytes(ff_html *html, const char *bytes, size_t length) {
    if (html->failure.status != FF_OK) return;
    fails(html, ff_buffer_add(&html->text, bytes, length, &html->failure));
}

void ff_html_add(ff_html *html, const char *format, ...) {
    char *text;
    va_list arguments;
    va_start(arguments, format);
    const int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0) {
        fails(html, ff_fail(&html->failure, FF_NO_MEMORY, "not enough memory for the page"));
        return;
    }
    add_bytes(html, text, (size_t)length);
    free(text);
}

static void add_escaped(ff_html *html, const char *text) {
    for (const char *at = text; *at; at++) switch (*at) {
        case '&': ff_html_add(html, "&amp;"); break;
        case '<': ff_html_add(html, "&lt;"); break;
        case '>': ff_html_add(html, "&gt;"); break;
        case '"': ff_html_add(html, "&quot;"); break;
        default: add_bytes(html, at, 1);
        }
}

void ff_html_text(ff_html *html, const char *text) {
    ff_buffer plain = {0};
    if (!*text || html->failure.status != FF_OK) return;
    if (!fails(html, ff_readable(&plain, text, strlen(text), SIZE_MAX, &html->failure)))
        add_escaped(html, plain.bytes);
    ff_buffer_free(&plain);
}

void ff_html_short(ff_html *html, const char *text, size_t most) {
    ff_buffer plain = {0}, part = {0};
    if (!*text || html->failure.status != FF_OK) return;
    if (!fails(html, ff_readable(&plain, text, strlen(text), SIZE_MAX, &html->failure)) &&
        !fails(html, ff_shortened(&part, plain.bytes, most, &html->failure))) {
        const bool whole = strcmp(plain.bytes, part.bytes) == 0;
        ff_html_add(html, whole ? "<span>" : "<span title=\"");
        if (!whole) {
            add_escaped(html, plain.bytes);
            ff_html_add(html, "\">");
        }
        add_escaped(html, part.bytes);
        ff_html_add(html, "</span>");
    }
    ff_buffer_free(&plain);
    ff_buffer_free(&part);
}

void ff_html_png(ff_html *html, const ff_buffer *png) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *byte = (const uint8_t *)png->bytes;
    ff_html_add(html, "data:image/png;base64,");
    for (size_t i = 0; i < png->length; i += 3) {
        const size_t left = png->length - i;
        const uint32_t three = (uint32_t)byte[i] << 16 |
                               (left > 1 ? (uint32_t)byte[i + 1] << 8 : 0) |
                               (left > 2 ? byte[i + 2] : 0u);
        char four[4];
        for (size_t k = 0; k < 4; k++)
            four[k] = k <= left ? digits[three >> (18 - 6 * k) & 63] : '=';
        add_bytes(html, four, 4);
    }
}

static void add_duration(ff_html *html, double seconds) {
    const double minutes = floor(seconds / 60 + 1e-9), hours = floor(minutes / 60);
    if (seconds < 1)
        ff_html_add(html, "%.3f s", seconds);
    else if (minutes < 1)
        ff_html_add(html, "%.1f s", seconds);
    else if (hours < 1)
        ff_html_add(html, "%.0f min %02.0f s", minutes, floor(seconds - 60 * minutes));
    else
        ff_html_add(html, "%.0f h %02.0f min", hours, minutes - 60 * hours);
}

void ff_html_number(ff_html *html, double value, ff_unit unit) {
    if (!isfinite(value))
        ff_html_add(html, "-");
    else if (unit == FF_UNIT_PERCENT)
        ff_html_add(html, "%.2f %%", 100 * value);
    else if (unit == FF_UNIT_SECONDS)
        add_duration(html, value);
    else if (unit == FF_UNIT_COUNT)
        ff_html_add(html, "%.0f", value);
    else
        ff_html_add(html, "%.4g", value);
}
