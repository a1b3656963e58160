#include "format/cli/columns.h"

#include <limits.h>
#include <locale.h>
#include <string.h>
#include <wchar.h>

/* Bytes of the character at `text` (not empty); *columns = its width. */
static size_t step(const char *text, int *columns) {
    wchar_t character;
    mbstate_t state = {0};
    size_t bytes = mbrtowc(&character, text, strlen(text), &state);
    *columns = 1;
    if (bytes == 0 || bytes > strlen(text)) return 1; /* an error is (size_t)-1 or -2 */
    int width = wcwidth(character);
    if (width >= 0) *columns = width;
    return bytes;
}

static size_t fit(const char *text, int limit, int *used) {
    /* Only this lookup uses a UTF-8 locale: the program itself stays in the C locale, so that
     * numbers are printed with a decimal point. */
    locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0), before = (locale_t)0;
    if (locale) before = uselocale(locale);
    size_t at = 0;
    *used = 0;
    while (text[at]) {
        int columns;
        size_t bytes = step(text + at, &columns);
        if (columns > limit - *used) break;
        *used += columns;
        at += bytes;
    }
    if (locale) {
        uselocale(before);
        freelocale(locale);
    }
    return at;
}

int ff_columns(const char *text) {
    int used;
    fit(text, INT_MAX, &used);
    return used;
}

size_t ff_columns_fit(const char *text, int columns) {
    int used;
    return fit(text, columns, &used);
}
