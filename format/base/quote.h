/* Quoting for a shell. Thread rule: pure. */
#ifndef FF_BASE_QUOTE_H
#define FF_BASE_QUOTE_H

#include "format/base/memory.h"

/* Appends one argument as a shell reads it: in '' if it holds characters that may have a meaning
 * for a shell. */
FF_MUST_USE ff_status ff_shell_quote(ff_buffer *out, const char *text, ff_error *error);

#endif
