/* Bytes from files as text for people. Thread rule: pure. */
#ifndef FF_BASE_READABLE_H
#define FF_BASE_READABLE_H

#include "format/base/memory.h"

/* Appends bytes as text for a terminal: valid UTF-8 unchanged; control characters and other bytes
 * as %XX; "(empty)" for no bytes; cut with "..." after about `limit` bytes. */
FF_MUST_USE ff_status ff_readable(ff_buffer *out, const void *bytes, size_t length, size_t limit,
                                  ff_error *error);

/* Appends a key, which may be any bytes, as text that identifies it: valid UTF-8 except '%'
 * unchanged; '%' and other bytes as %XX, with `on_a_line` also control characters. Decoding %XX
 * returns the key. */
FF_MUST_USE ff_status ff_key_text(ff_buffer *out, const void *key, size_t length, bool on_a_line,
                                  ff_error *error);

/* Appends text in ASCII: letters of other scripts as transliterated by glibc, other characters as
 * U+ and the code point. */
FF_MUST_USE ff_status ff_readable_ascii(ff_buffer *out, const char *text, ff_error *error);

/* Appends UTF-8 text of at most `most` characters (at least 3). In a longer text "..." replaces the
 * middle; half as much of the rest is kept after it as before it. */
FF_MUST_USE ff_status ff_shortened(ff_buffer *out, const char *text, size_t most, ff_error *error);

/* The length of the valid UTF-8 sequence that starts at `byte`, 1 to 4; 0 if there is none. */
size_t ff_utf8_bytes(const unsigned char *byte, size_t length);

#endif
