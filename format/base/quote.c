#include "format/base/quote.h"

#include <string.h>

ff_status ff_shell_quote(ff_buffer *out, const char *text, ff_error *error) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%";
    if (*text && !text[strspn(text, plain)]) return ff_buffer_add(out, text, strlen(text), error);
    FF_TRY(ff_buffer_add(out, "'", 1, error));
    for (; *text; text++)
        FF_TRY(*text == '\'' ? ff_buffer_add(out, "'\\''", 4, error)
                             : ff_buffer_add(out, text, 1, error));
    return ff_buffer_add(out, "'", 1, error);
}
