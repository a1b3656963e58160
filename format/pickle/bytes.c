/* Access to a pickle's file: a window for opcodes and lines, and strings written as text, which are
 * decoded into temporary space. */
#include "format/base/file.h"
#include "format/base/read.h"
#include "format/pickle/machine.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_BYTES = 64 * 1024, TAKE_LIMIT = 256 };

/* Makes the window hold `size` bytes from pickle->at, or all bytes up to the end. *left = the
 * number of bytes in the window, 0 at the end. */
static ff_status look(ff_pickle *pickle, size_t size, size_t *left, ff_error *error) {
    uint64_t window_end = pickle->window_at + pickle->window_bytes;
    if (pickle->at < pickle->window_at || pickle->at + size > window_end) {
        uint64_t rest = pickle->end - pickle->at;
        pickle->window_bytes = rest < WINDOW_BYTES ? (size_t)rest : WINDOW_BYTES;
        pickle->window_at = pickle->at;
        FF_TRY(ff_read_at(pickle->fd, pickle->path, pickle->window, pickle->window_bytes,
                          pickle->at, error));
    }
    *left = (size_t)(pickle->window_at + pickle->window_bytes - pickle->at);
    return FF_OK;
}

static ff_status cut_off(const ff_pickle *pickle, ff_error *error) {
    return ff_pickle_fail(pickle, error, "ends at byte %" PRIu64 " within it",
                          pickle->end - pickle->begin);
}

static const unsigned char *window_here(const ff_pickle *pickle) {
    return pickle->window + (pickle->at - pickle->window_at);
}

ff_status ff_pickle_take(ff_pickle *pickle, size_t size, const unsigned char **bytes,
                         ff_error *error) {
    size_t left;
    FF_TRY(look(pickle, size, &left, error));
    if (left < size) return cut_off(pickle, error);
    *bytes = window_here(pickle);
    pickle->at += size;
    return FF_OK;
}

ff_status ff_pickle_skip(ff_pickle *pickle, uint64_t bytes, ff_pickle_place *place,
                         ff_error *error) {
    if (bytes > pickle->end - pickle->at)
        return ff_pickle_fail(pickle, error,
                              "a string of %" PRIu64 " bytes, but %" PRIu64 " follow", bytes,
                              pickle->end - pickle->at);
    *place = (ff_pickle_place){.offset = pickle->at, .bytes = bytes};
    pickle->at += bytes;
    return FF_OK;
}

ff_status ff_pickle_line(ff_pickle *pickle, char text[256], ff_error *error) {
    size_t left;
    FF_TRY(look(pickle, TAKE_LIMIT, &left, error));
    if (left > TAKE_LIMIT) left = TAKE_LIMIT;
    const unsigned char *line = window_here(pickle), *end = memchr(line, '\n', left);
    if (!end && left < TAKE_LIMIT) return cut_off(pickle, error);
    if (!end || memchr(line, 0, (size_t)(end - line)))
        return ff_pickle_fail(pickle, error, "wanted a line of text of at most 255 bytes");
    memcpy(text, line, (size_t)(end - line));
    text[end - line] = 0;
    pickle->at += (size_t)(end - line) + 1;
    return FF_OK;
}

ff_status ff_pickle_fetch(ff_pickle *pickle, ff_pickle_place place, void *to, size_t size,
                          ff_error *error) {
    return ff_read_at(place.decoded ? pickle->decoded_fd : pickle->fd, pickle->path, to, size,
                      place.offset, error);
}

/* ---- decoded strings ----------------------------------------------------------------------- */

/* A pickle may encode a string any number of times, which would fill the disk. Each string encoded
 * once, as UTF-8 and as latin-1, takes at most three times the file's size. */
static ff_status flush(ff_pickle *pickle, ff_error *error) {
    uint64_t limit = 4 * (pickle->end - pickle->begin) + WINDOW_BYTES;
    size_t bytes = pickle->decoding.length;
    if (pickle->decoded_bytes + bytes > limit)
        return ff_pickle_fail(pickle, error, "strings of more than %" PRIu64 " bytes when decoded",
                              limit);
    if (pickle->decoded_fd < 0)
        FF_TRY(ff_open_temporary(pickle->temporary, &pickle->decoded_fd, error));
    FF_TRY(ff_write_temporary(pickle->decoded_fd, pickle->temporary, pickle->decoding.bytes, bytes,
                              pickle->decoded_bytes, error));
    pickle->decoded_bytes += bytes;
    pickle->decoding.length = 0;
    return FF_OK;
}

static void begin_string(ff_pickle *pickle, ff_pickle_place *place) {
    pickle->decoding.length = 0;
    *place = (ff_pickle_place){.offset = pickle->decoded_bytes, .decoded = 1};
}

static ff_status add_byte(ff_pickle *pickle, unsigned char byte, ff_error *error) {
    FF_TRY(ff_buffer_add(&pickle->decoding, &byte, 1, error));
    return pickle->decoding.length >= WINDOW_BYTES ? flush(pickle, error) : FF_OK;
}

static ff_status end_string(ff_pickle *pickle, ff_pickle_place *place, ff_error *error) {
    if (pickle->decoding.length) FF_TRY(flush(pickle, error));
    place->bytes = pickle->decoded_bytes - place->offset;
    return FF_OK;
}

static ff_status add_utf8(ff_pickle *pickle, uint32_t code, ff_error *error) {
    if (code < 0x80) return add_byte(pickle, (unsigned char)code, error);
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    FF_TRY(add_byte(pickle, (unsigned char)(lead[more] | code >> 6 * more), error));
    while (more--)
        FF_TRY(add_byte(pickle, (unsigned char)(0x80 | (code >> 6 * more & 0x3f)), error));
    return FF_OK;
}

/* Reads `digits` hexadecimal digits. */
static ff_status take_hex(ff_pickle *pickle, int digits, uint32_t *code, ff_error *error) {
    const unsigned char *text = NULL;
    FF_TRY(ff_pickle_take(pickle, (size_t)digits, &text, error));
    *code = 0;
    for (int i = 0; i < digits; i++) {
        if (!isxdigit(text[i])) return ff_pickle_fail(pickle, error, "a broken escape in a string");
        *code =
            *code << 4 | (uint32_t)(isdigit(text[i]) ? text[i] - '0' : (text[i] | 32) - 'a' + 10);
    }
    return FF_OK;
}

/* The escape after a backslash in repr(). */
static ff_status take_escape(ff_pickle *pickle, ff_error *error) {
    static const char plain[] = "\\'\"abfnrtv", meant[] = "\\'\"\a\b\f\n\r\t\v";
    const unsigned char *byte = NULL;
    uint32_t code;
    FF_TRY(ff_pickle_take(pickle, 1, &byte, error));
    const char *known = *byte ? strchr(plain, *byte) : NULL;
    if (known) return add_byte(pickle, (unsigned char)meant[known - plain], error);
    if (*byte != 'x') return ff_pickle_fail(pickle, error, "a broken escape in a string");
    FF_TRY(take_hex(pickle, 2, &code, error));
    return add_byte(pickle, (unsigned char)code, error);
}

ff_status ff_pickle_quoted(ff_pickle *pickle, ff_pickle_place *place, ff_error *error) {
    const unsigned char *byte = NULL;
    begin_string(pickle, place);
    FF_TRY(ff_pickle_take(pickle, 1, &byte, error));
    unsigned char quote = *byte;
    if (quote != '\'' && quote != '"')
        return ff_pickle_fail(pickle, error, "a string without quotes");
    for (;;) {
        FF_TRY(ff_pickle_take(pickle, 1, &byte, error));
        if (*byte == quote) break;
        if (*byte == '\n') return ff_pickle_fail(pickle, error, "a string without its last quote");
        FF_TRY(*byte == '\\' ? take_escape(pickle, error) : add_byte(pickle, *byte, error));
    }
    FF_TRY(ff_pickle_take(pickle, 1, &byte, error));
    if (*byte != '\n')
        return ff_pickle_fail(pickle, error, "something after a string's last quote");
    return end_string(pickle, place, error);
}

ff_status ff_pickle_unicode(ff_pickle *pickle, ff_pickle_place *place, ff_error *error) {
    const unsigned char *byte = NULL;
    begin_string(pickle, place);
    for (;;) {
        FF_TRY(ff_pickle_take(pickle, 1, &byte, error));
        uint32_t code = *byte;
        if (code == '\n') return end_string(pickle, place, error);
        size_t left;
        if (code == '\\') {
            FF_TRY(look(pickle, 1, &left, error));
            unsigned char next = left ? *window_here(pickle) : 0;
            if (next == 'u' || next == 'U') {
                pickle->at++;
                FF_TRY(take_hex(pickle, next == 'u' ? 4 : 8, &code, error));
                if (code > 0x10ffff)
                    return ff_pickle_fail(pickle, error, "a broken escape in a string");
            }
        }
        FF_TRY(add_utf8(pickle, code, error));
    }
}

ff_status ff_pickle_latin1(ff_pickle *pickle, ff_pickle_place text, ff_pickle_place *place,
                           ff_error *error) {
    unsigned char chunk[8192], lead = 0;
    begin_string(pickle, place);
    for (uint64_t done = 0; done < text.bytes;) {
        size_t part = text.bytes - done < sizeof chunk ? (size_t)(text.bytes - done) : sizeof chunk;
        ff_pickle_place piece = text;
        piece.offset = text.offset + done;
        FF_TRY(ff_pickle_fetch(pickle, piece, chunk, part, error));
        done += part;
        for (size_t i = 0; i < part; i++) {
            unsigned char byte = chunk[i];
            if (lead ? (byte & 0xc0) != 0x80 : byte >= 0x80 && byte != 0xc2 && byte != 0xc3)
                return ff_pickle_fail(pickle, error, "text that is not latin-1, wanted bytes");
            if (!lead && byte >= 0x80) {
                lead = byte;
                continue;
            }
            if (lead) byte = (unsigned char)((lead & 3) << 6 | (byte & 0x3f));
            lead = 0;
            FF_TRY(add_byte(pickle, byte, error));
        }
    }
    if (lead) return ff_pickle_fail(pickle, error, "text that is not latin-1, wanted bytes");
    return end_string(pickle, place, error);
}
