#include "tools/ffinspect/text.h"

#include "format/base/bytes.h"

#include <iconv.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *ff_inspect_short_id(char text[16], const uint8_t id[16]) {
    ff_hex(text, id, 6);
    return text;
}

size_t ff_inspect_utf8(const unsigned char *byte, size_t length) {
    if (length == 0) return 0;
    if (byte[0] < 0x80) return 1;
    size_t need = byte[0] >= 0xf0 ? 4 : byte[0] >= 0xe0 ? 3 : byte[0] >= 0xc2 ? 2 : 0;
    if (need == 0 || byte[0] > 0xf4 || length < need) return 0;
    for (size_t i = 1; i < need; i++)
        if ((byte[i] & 0xc0) != 0x80) return 0;
    /* Overlong forms, surrogates, and beyond U+10FFFF. */
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

ff_status ff_inspect_readable(ff_buffer *out, const void *bytes, size_t length, size_t limit,
                              ff_error *error) {
    const unsigned char *byte = bytes;
    if (length == 0) return ff_buffer_printf(out, error, "(empty)");
    for (size_t i = 0; i < length;) {
        if (i >= limit) return ff_buffer_printf(out, error, "...");
        size_t step = ff_inspect_utf8(byte + i, length - i);
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

/* The character transliterated to ASCII by the named locale; 0 bytes where it cannot. */
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

ff_status ff_inspect_ascii(ff_buffer *out, const char *text, ff_error *error) {
    size_t left = strlen(text);
    FF_TRY(ff_buffer_printf(out, error, "%s", ""));
    for (const unsigned char *at = (const unsigned char *)text; left;) {
        char ascii[32] = "";
        size_t length = ff_inspect_utf8(at, left), found = 0;
        if (length == 0) length = 1;
        /* C.UTF-8 removes accents; only C has Greek and Cyrillic. */
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

const char *ff_inspect_float(char text[32], float value) {
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, 32, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) break;
    }
    return text;
}

/* Digits only; false where `text` does not start with one or the number is too large. */
static bool parse_whole(const char **text, uint64_t *value) {
    *value = 0;
    if (**text < '0' || **text > '9') return false;
    for (; **text >= '0' && **text <= '9'; ++*text)
        if (!ff_mul_u64(*value, 10, value) || !ff_add_u64(*value, (uint64_t)(**text - '0'), value))
            return false;
    return true;
}

ff_status ff_inspect_range(const char *text, uint64_t count, uint64_t *begin, uint64_t *end,
                           ff_error *error) {
    const char *at = text;
    *begin = 0;
    *end = count;
    bool sound = *at == ':' ? at[1] != 0 : parse_whole(&at, begin);
    bool single = sound && *at == 0;
    if (sound && *at == ':') {
        at++;
        if (*at) sound = parse_whole(&at, end);
    }
    if (!sound || *at)
        return ff_fail(error, FF_USAGE, "--sample: '%s' is neither a number nor a range A:B", text);
    if (single) *end = *begin + 1;
    if (*begin >= count || *end > count)
        return ff_fail(error, FF_USAGE,
                       "--sample: %s is out of range: there are %" PRIu64
                       " samples, numbered 0 to %" PRIu64,
                       text, count, count - 1);
    if (*begin >= *end)
        return ff_fail(error, FF_USAGE, "--sample: %s is empty: A:B needs A < B", text);
    return FF_OK;
}

ff_status ff_inspect_grid_size(const char *text, unsigned *rows, unsigned *columns,
                               ff_error *error) {
    const char *at = text;
    uint64_t r = 0, c = 0;
    bool sound = parse_whole(&at, &r) && (*at == 'x' || *at == 'X');
    if (sound) {
        at++;
        sound = parse_whole(&at, &c) && !*at;
    }
    if (!sound)
        return ff_fail(error, FF_USAGE, "--grid: '%s' is not rows x columns, like 4x8", text);
    if (r < 1 || r > 1000 || c < 1 || c > 1000)
        return ff_fail(error, FF_USAGE,
                       "--grid: %s is out of range; rows and columns go from 1 to 1000", text);
    *rows = (unsigned)r;
    *columns = (unsigned)c;
    return FF_OK;
}
