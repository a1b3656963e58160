#include "format/base/readable.h"

#include <iconv.h>
#include <locale.h>
#include <stdint.h>
#include <string.h>

size_t ff_utf8_bytes(const unsigned char *byte, size_t length) {
    if (length == 0) return 0;
    if (byte[0] < 0x80) return 1;
    size_t need = byte[0] >= 0xf0 ? 4 : byte[0] >= 0xe0 ? 3 : byte[0] >= 0xc2 ? 2 : 0;
    if (need == 0 || byte[0] > 0xf4 || length < need) return 0;
    for (size_t i = 1; i < need; i++)
        if ((byte[i] & 0xc0) != 0x80) return 0;
    /* Overlong forms, surrogates, and code points beyond U+10FFFF. */
    if ((byte[0] == 0xe0 && byte[1] < 0xa0) || (byte[0] == 0xed && byte[1] >= 0xa0) ||
        (byte[0] == 0xf0 && byte[1] < 0x90) || (byte[0] == 0xf4 && byte[1] >= 0x90))
        return 0;
    return need;
}

/* Characters that would move the cursor or hide text. */
static bool is_control(const unsigned char *byte, size_t length) {
    if (length == 1) return byte[0] < 0x20 || byte[0] == 0x7f;
    if (length == 2) return byte[0] == 0xc2 && byte[1] < 0xa0; /* C1 */
    /* U+200B..200F, U+2028..202F, U+2060..206F: marks of direction and width, line ends. */
    return length == 3 && byte[0] == 0xe2 &&
           ((byte[1] == 0x80 && (byte[2] >= 0xa8 || (byte[2] >= 0x8b && byte[2] <= 0x8f))) ||
            (byte[1] == 0x81 && byte[2] >= 0xa0 && byte[2] <= 0xaf));
}

ff_status ff_readable(ff_buffer *out, const void *bytes, size_t length, size_t limit,
                      ff_error *error) {
    const unsigned char *byte = bytes;
    if (length == 0) return ff_buffer_printf(out, error, "(empty)");
    for (size_t i = 0; i < length;) {
        if (i >= limit) return ff_buffer_printf(out, error, "...");
        size_t step = ff_utf8_bytes(byte + i, length - i);
        if (step && !is_control(byte + i, step)) {
            FF_TRY(ff_buffer_add(out, byte + i, step, error));
            i += step;
        } else {
            FF_TRY(ff_buffer_printf(out, error, "%%%02X", byte[i]));
            i++;
        }
    }
    return FF_OK;
}

/* The place after the first `count` characters. */
static size_t after(const char *text, size_t count) {
    size_t at = 0;
    for (; text[at]; at++)
        if (((unsigned char)text[at] & 0xc0) != 0x80 && count-- == 0) break;
    return at;
}

ff_status ff_shortened(ff_buffer *out, const char *text, size_t most, ff_error *error) {
    size_t characters = 0;
    for (const char *at = text; *at; at++) characters += ((unsigned char)*at & 0xc0) != 0x80;
    if (characters <= most) return ff_buffer_printf(out, error, "%s", text);
    const size_t kept = most - 3, last = kept / 3;
    return ff_buffer_printf(out, error, "%.*s...%s", (int)after(text, kept - last), text,
                            text + after(text, characters - last));
}

ff_status ff_key_text(ff_buffer *out, const void *key, size_t length, bool on_a_line,
                      ff_error *error) {
    const unsigned char *byte = key;
    FF_TRY(ff_buffer_printf(out, error, "%s", ""));
    for (size_t i = 0, step; i < length; i += step) {
        step = ff_utf8_bytes(byte + i, length - i);
        const bool control = step && is_control(byte + i, step);
        if (step && byte[i] != '%' && byte[i] && !(control && on_a_line)) {
            FF_TRY(ff_buffer_add(out, byte + i, step, error));
        } else {
            step = 1;
            FF_TRY(ff_buffer_printf(out, error, "%%%02X", byte[i]));
        }
    }
    return FF_OK;
}

/* Transliterates the character to ASCII by the named locale; returns 0 bytes if it cannot. */
static size_t transliterated(const char *locale_name, const char *character, size_t length,
                             char ascii[32]) {
    locale_t locale = newlocale(LC_CTYPE_MASK, locale_name, (locale_t)0);
    if (!locale) return 0;
    locale_t before = uselocale(locale);
    char *from = (char *)(uintptr_t)character, *to = ascii;
    size_t room = 32, failed = (size_t)-1;
    iconv_t converter = iconv_open("ASCII//TRANSLIT", "UTF-8");
    if (converter != (iconv_t)-1) {
        failed = iconv(converter, &from, &length, &to, &room);
        iconv_close(converter);
    }
    uselocale(before);
    freelocale(locale);
    return failed == (size_t)-1 || ascii[0] == '?' ? 0 : 32 - room;
}

ff_status ff_readable_ascii(ff_buffer *out, const char *text, ff_error *error) {
    size_t left = strlen(text);
    FF_TRY(ff_buffer_printf(out, error, "%s", ""));
    for (const unsigned char *at = (const unsigned char *)text; left;) {
        char ascii[32] = "";
        size_t length = ff_utf8_bytes(at, left), found = 0;
        if (length == 0) length = 1;
        /* C.UTF-8 removes accents; only C transliterates Greek and Cyrillic. */
        if (*at >= 0x80) found = transliterated("C.UTF-8", (const char *)at, length, ascii);
        if (*at >= 0x80 && !found) found = transliterated("C", (const char *)at, length, ascii);
        if (found) {
            FF_TRY(ff_buffer_add(out, ascii, found, error));
        } else if (length == 1) {
            FF_TRY(ff_buffer_add(out, at, 1, error));
        } else {
            uint32_t point = at[0] & (0xffu >> (length + 1));
            for (size_t i = 1; i < length; i++) point = point << 6 | (at[i] & 0x3f);
            FF_TRY(ff_buffer_printf(out, error, "U+%04X", point));
        }
        at += length;
        left -= length;
    }
    return FF_OK;
}
