/* Text files that come with a source: lists of names, labels. Thread rule: pure. */
#ifndef FF_FFPACK_TEXT_H
#define FF_FFPACK_TEXT_H

#include "format/base/status.h"

/* Reads a text file of at most 64 MiB whole. *text is allocated, ends with a zero byte, and holds
 * no other one (FF_BAD_DATA). */
FF_MUST_USE ff_status ff_text_read(const char *path, char **text, ff_error *error);

/* The next line of a text, cut out in place: without its end ("\n" or "\r\n"); NULL after the last.
 * *cursor starts as the text. */
char *ff_text_line(char **cursor);

#endif
