/* Bytes from files as text for people. Thread rule: pure. */
#ifndef FF_BASE_READABLE_H
#define FF_BASE_READABLE_H

#include "format/base/memory.h"

/* Bytes as text for a terminal: valid UTF-8 unchanged; control characters and other bytes as %XX;
 * "(empty)" for none; truncated with "..." after about `limit` bytes. Appended to `out`. */
FF_MUST_USE ff_status ff_readable(ff_buffer *out, const void *bytes, size_t length, size_t limit,
                                  ff_error *error);

/* Text in ASCII: letters of other scripts as transliterated by glibc, others as U+ and the code
 * point. Appended. */
FF_MUST_USE ff_status ff_readable_ascii(ff_buffer *out, const char *text, ff_error *error);

/* The length of the valid UTF-8 sequence that starts at `byte`, 1 to 4; 0 where there is none. */
size_t ff_utf8_bytes(const unsigned char *byte, size_t length);

#endif
