/* Bytes from files as text for people. Thread rule: pure. */
#ifndef FF_BASE_READABLE_H
#define FF_BASE_READABLE_H

#include "format/base/memory.h"

/* Bytes as text for a terminal: valid UTF-8 unchanged; control characters and other bytes as %XX;
 * "(empty)" for none; truncated with "..." after about `limit` bytes. Appended to `out`. */
FF_MUST_USE ff_status ff_readable(ff_buffer *out, const void *bytes, size_t length, size_t limit,
                                  ff_error *error);

/* A key, which may be any bytes, as text that says which: valid UTF-8 unchanged but '%'; '%' and
 * other bytes as %XX, and `on_a_line` control characters too. Decoding %XX gives the key. Appended.
 */
FF_MUST_USE ff_status ff_key_text(ff_buffer *out, const void *key, size_t length, bool on_a_line,
                                  ff_error *error);

/* Text in ASCII: letters of other scripts as transliterated by glibc, others as U+ and the code
 * point. Appended. */
FF_MUST_USE ff_status ff_readable_ascii(ff_buffer *out, const char *text, ff_error *error);

/* UTF-8 text of at most `most` characters, at least 3: of a longer one the middle is "...", half as
 * much of the rest after it as before it. Appended. */
FF_MUST_USE ff_status ff_shortened(ff_buffer *out, const char *text, size_t most, ff_error *error);

/* The length of the valid UTF-8 sequence that starts at `byte`, 1 to 4; 0 where there is none. */
size_t ff_utf8_bytes(const unsigned char *byte, size_t length);

#endif
