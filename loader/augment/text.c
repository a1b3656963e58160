#include "loader/augment/text.h"
#include "format/base/real.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ff_text_count(const char *text, uint32_t most, uint32_t *count) {
    uint64_t value = 0;
    if (!*text) return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9') return false;
        value = value * 10 + (uint64_t)(*text - '0');
        if (value > most) return false;
    }
    *count = (uint32_t)value;
    return true;
}

bool ff_text_number(const char **text, double least, double most, double *number) {
    char *end;
    if (**text != '.' && (**text < '0' || **text > '9')) return false;
    *number = ff_real_read(*text, &end);
    *text = end;
    return *number >= least && *number <= most;
}

bool ff_text_range(const char *text, double least, double most, double range[2]) {
    return ff_text_number(&text, least, most, &range[0]) && *text++ == '-' &&
           ff_text_number(&text, least, most, &range[1]) && *text == 0 && range[0] <= range[1];
}

void ff_text_add(ff_text text, const char *format, ...) {
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, FF_AUGMENT_TEXT_BYTES - used, format, arguments);
    va_end(arguments);
}

void ff_text_add_number(ff_text text, char mark, double value) {
    char number[FF_REAL_BYTES];
    ff_real_write(value, 1, number);
    /* 100, not 1e+02 */
    if (strchr(number, 'e') && value >= 1 && value < 1e9 && value == (double)(long)value)
        snprintf(number, sizeof number, "%ld", (long)value);
    ff_text_add(text, "%c%s", mark, number);
}

void ff_text_add_range(ff_text text, const double range[2]) {
    ff_text_add_number(text, ':', range[0]);
    ff_text_add_number(text, '-', range[1]);
}
