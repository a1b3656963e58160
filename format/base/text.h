/* Text files of a source: lists of names, labels. Thread rule: pure. */
#ifndef FF_BASE_TEXT_H
#define FF_BASE_TEXT_H

#include "format/base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Reads a whole text file of at most 64 MiB. *text is allocated and ends with a zero byte; another
 * zero byte is FF_BAD_DATA. */
FF_MUST_USE ff_status ff_text_read(const char *path, char **text, ff_error *error);

/* The next line of a text, terminated in place, without "\n", "\r\n" or "\r"; NULL after the
 * last.
 * *cursor starts as the text. */
char *ff_text_line(char **cursor);

#define FF_BLANKS " \t"

/* The text without FF_BLANKS around; *bytes is adapted. */
const char *ff_text_trim(const char *text, size_t *bytes);

/* A text that is a whole number: -1 = not one, 0 = beyond 64 bits, 1 = *value. */
int ff_text_whole(const char *text, size_t bytes, int64_t *value);

#endif
