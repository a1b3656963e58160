/* Quoting for a shell. Thread rule: pure. */
#ifndef FF_BASE_QUOTE_H
#define FF_BASE_QUOTE_H

#include "format/base/memory.h"

/* One argument as a shell reads it: in '' where it holds more than letters, digits and what has no
 * meaning for a shell. Appended. */
FF_MUST_USE ff_status ff_shell_quote(ff_buffer *out, const char *text, ff_error *error);

#endif
