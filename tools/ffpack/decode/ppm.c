/* PPM, PGM and PBM (Netpbm's formats P1 to P6), own code, read as Pillow reads them
 * (PpmImagePlugin.py, version 11):
 *   P1 P4  black and white        1 is black
 *   P2 P5  grey                   up to 255: round(v / maxval * 255), halves to even;
 *                                 beyond: round(v / maxval * 65535), clipped to 255 (mode I), or
 *                                 as it is with options->deep
 *   P3 P6  red, green, blue       round(v / maxval * 255), halves to even
 * A value above maxval is an error in a plain file (P1 to P3) and clipped in a raw one.
 *
 * A truncated plain file is refused even with allow_truncated. (Pillow 9.4 prefixes a number cut by
 * the end of a 1 MiB block to every later block, and repeats it up to the last pixel.)
 *
 * Stricter than Pillow: numbers are digits only (Python's int() takes "+1" and "1_0"). */
#include "tools/ffpack/decode/kinds.h"

#include "format/base/memory.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { MOST_DIGITS = 10, PLAIN_BLOCK_BYTES = 1 << 20 };

typedef struct header {
    int magic; /* 1 to 6: P1 to P6 */
    uint64_t width, height, most;
    size_t data; /* where the pixels begin */
    bool deep;   /* pixels are u16 */
} header;

static bool is_space(int byte) {
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static bool is_plain(const header *of) {
    return of->magic <= 3;
}

static uint32_t channels_of(const header *of) {
    return of->magic % 3 == 0 ? 3 : 1;
}

static bool is_deep(const header *of) {
    return channels_of(of) == 1 && of->most > 255;
}

static uint32_t pixel_bytes(const header *of) {
    return of->deep ? 2 : channels_of(of);
}

static bool matches(const uint8_t *bytes, size_t length) {
    return length >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
           is_space(bytes[2]);
}

/* A number of the header and the one byte after it. Comments run from # to the end of the line,
 * and do not end a number. */
static ff_status read_number(const uint8_t *bytes, size_t length, size_t *at, uint64_t *number,
                             ff_error *error) {
    unsigned digits = 0;
    *number = 0;
    for (;;) {
        if (*at == length) {
            if (digits) return FF_OK;
            return ff_fail(error, FF_BAD_DATA,
                           "truncated PPM: its %zu bytes end before the header is complete",
                           length);
        }
        int byte = bytes[(*at)++];
        if (is_space(byte)) {
            if (digits) return FF_OK;
        } else if (byte == '#') {
            while (*at < length && bytes[*at] != '\n' && bytes[*at] != '\r') (*at)++;
            if (*at < length) (*at)++;
        } else if (!isdigit(byte) || ++digits > MOST_DIGITS) {
            return ff_fail(error, FF_BAD_DATA,
                           "broken PPM: byte %zu of the header is %02x, wanted a number of at most "
                           "%d digits",
                           *at - 1, (unsigned)byte, MOST_DIGITS);
        } else {
            *number = *number * 10 + (uint64_t)(byte - '0');
        }
    }
}

static ff_status read_header(const uint8_t *bytes, size_t length, header *out, ff_error *error) {
    *out = (header){.magic = bytes[1] - '0', .most = 1, .data = 3};
    FF_TRY(read_number(bytes, length, &out->data, &out->width, error));
    FF_TRY(read_number(bytes, length, &out->data, &out->height, error));
    if (out->width == 0 || out->height == 0 || out->width > INT32_MAX || out->height > INT32_MAX)
        return ff_fail(error, FF_BAD_DATA, "broken PPM: the header declares %llu x %llu pixels",
                       (unsigned long long)out->width, (unsigned long long)out->height);
    if (out->magic % 3 == 1) return FF_OK;
    FF_TRY(read_number(bytes, length, &out->data, &out->most, error));
    if (out->most == 0 || out->most > UINT16_MAX)
        return ff_fail(error, FF_BAD_DATA,
                       "broken PPM: the header declares values up to %llu, wanted 1 to 65535",
                       (unsigned long long)out->most);
    return FF_OK;
}

static ff_status probe(const uint8_t *bytes, size_t length, ff_image_info *info, ff_error *error) {
    header found;
    FF_TRY(read_header(bytes, length, &found, error));
    info->width = (uint32_t)found.width;
    info->height = (uint32_t)found.height;
    info->channels = channels_of(&found);
    info->deep = is_deep(&found);
    return FF_OK;
}

/* A value as Pillow scales it (in double, halves to even) and clips it. */
static unsigned scale(const header *of, unsigned value) {
    double most = is_deep(of) ? 65535 : 255, limit = of->deep ? 65535 : 255;
    double scaled = rint((double)value / (double)of->most * most);
    return (unsigned)(scaled > limit ? limit : scaled);
}

/* The place of the next value. */
static uint8_t *put(const header *of, unsigned value, uint8_t *out) {
    const uint16_t scaled = (uint16_t)scale(of, value);
    if (of->deep)
        memcpy(out, &scaled, 2);
    else
        *out = (uint8_t)scaled;
    return out + 1 + of->deep;
}

static ff_status cut_off(size_t length, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA,
                   "truncated PPM: its %zu bytes end before the image is complete", length);
}

/* P4, P5, P6. Pillow fills missing values only if it does not scale values. */
static ff_status read_raw(const uint8_t *bytes, size_t length, const header *of, bool fill,
                          ff_image *image, char *warning, ff_error *error) {
    unsigned value_bytes = of->most > 255 ? 2 : 1;
    uint64_t row_values = of->width * channels_of(of);
    uint64_t row_bytes = of->magic == 4 ? (of->width + 7) / 8 : row_values * value_bytes;
    bool as_it_is = of->magic == 4 || of->most == 255 || (of->most == UINT16_MAX && of->magic == 5);
    uint64_t rows = (length - of->data) / row_bytes;
    if (rows > of->height) rows = of->height;
    if (rows < of->height && !(fill && as_it_is)) return cut_off(length, error);
    FF_TRY(
        ff_image_reshape(image, (uint32_t)of->width, (uint32_t)of->height, pixel_bytes(of), error));
    const uint8_t *in = bytes + of->data;
    uint8_t *out = image->pixels;
    size_t count = (size_t)(rows * row_values);
    if (of->magic == 4) {
        for (uint64_t y = 0; y < rows; y++, in += row_bytes)
            for (uint64_t x = 0; x < of->width; x++)
                *out++ = in[x / 8] >> (7 - x % 8) & 1 ? 0 : 255;
    } else if (of->most == 255) {
        memcpy(out, in, count);
    } else if (value_bytes == 1) {
        uint8_t table[256];
        for (unsigned i = 0; i < 256; i++) table[i] = (uint8_t)scale(of, i);
        for (size_t i = 0; i < count; i++) out[i] = table[in[i]];
    } else {
        for (size_t i = 0; i < count; i++)
            out = put(of, (unsigned)in[2 * i] << 8 | in[2 * i + 1], out);
    }
    const size_t value_room = of->deep ? 2 : 1;
    memset(image->pixels + count * value_room, 0,
           (size_t)((of->height - rows) * row_values) * value_room);
    if (rows < of->height) ff_decode_warn_filled(warning, "PPM");
    return FF_OK;
}

/* ---- plain values -------------------------------------------------------------------------- */

typedef struct plain {
    const header *of;
    const uint8_t *at, *end;
    bool in_comment;
    uint8_t *out, *out_end;
} plain;

/* The block's next byte outside of comments; -1 at the block's end. */
static int next_byte(plain *from, const uint8_t *block_end) {
    while (from->at < block_end) {
        int byte = *from->at++;
        if (from->in_comment)
            from->in_comment = byte != '\n' && byte != '\r';
        else if (byte == '#')
            from->in_comment = true;
        else
            return byte;
    }
    return -1;
}

static const uint8_t *block_end(const plain *from) {
    return from->end - from->at > PLAIN_BLOCK_BYTES ? from->at + PLAIN_BLOCK_BYTES : from->end;
}

static ff_status bad_byte(const plain *from, int byte, const char *wanted, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA, "broken PPM: byte %02x %td bytes before the end, wanted %s",
                   (unsigned)byte, from->end - from->at + 1, wanted);
}

/* P1: every digit is a pixel. Bytes after the last one in its block are checked, too. */
static ff_status read_bits(plain *from, ff_error *error) {
    while (from->out < from->out_end && from->at < from->end) {
        const uint8_t *end = block_end(from);
        for (int byte; (byte = next_byte(from, end)) >= 0;) {
            if (is_space(byte)) continue;
            if (byte != '0' && byte != '1') return bad_byte(from, byte, "0 or 1", error);
            if (from->out < from->out_end) *from->out++ = byte == '0' ? 255 : 0;
        }
    }
    return FF_OK;
}

/* A number being parsed. */
typedef struct number {
    unsigned digits;
    uint64_t value;
} number;

static ff_status take_byte(const plain *from, number *now, int byte, ff_error *error) {
    if (!isdigit(byte) || now->digits == MOST_DIGITS)
        return bad_byte(from, byte, "numbers of at most 10 digits", error);
    now->digits++;
    now->value = now->value * 10 + (uint64_t)(byte - '0');
    return FF_OK;
}

static ff_status take_number(plain *from, number *now, ff_error *error) {
    if (now->digits == 0) return FF_OK;
    if (now->value > from->of->most)
        return ff_fail(error, FF_BAD_DATA, "broken PPM: a value of %llu, at most %llu wanted",
                       (unsigned long long)now->value, (unsigned long long)from->of->most);
    if (from->out < from->out_end) from->out = put(from->of, (unsigned)now->value, from->out);
    *now = (number){0};
    return FF_OK;
}

/* P2, P3. */
static ff_status read_numbers(plain *from, ff_error *error) {
    number now = {0};
    while (from->out < from->out_end) {
        int byte = next_byte(from, from->end);
        if (byte < 0) return take_number(from, &now, error);
        if (is_space(byte))
            FF_TRY(take_number(from, &now, error));
        else
            FF_TRY(take_byte(from, &now, byte, error));
    }
    return FF_OK;
}

static ff_status read_plain(const uint8_t *bytes, size_t length, const header *of, ff_image *image,
                            ff_error *error) {
    uint64_t values = of->width * of->height * channels_of(of);
    /* Every value takes at least a byte, and numbers a separator. */
    uint64_t least = of->magic == 1 ? values : 2 * values - 1;
    if (least > length - of->data) return cut_off(length, error);
    FF_TRY(
        ff_image_reshape(image, (uint32_t)of->width, (uint32_t)of->height, pixel_bytes(of), error));
    plain from = {of,    bytes + of->data, bytes + length,
                  false, image->pixels,    image->pixels + values * (of->deep ? 2 : 1)};
    if (of->magic == 1)
        FF_TRY(read_bits(&from, error));
    else
        FF_TRY(read_numbers(&from, error));
    return from.out == from.out_end ? FF_OK : cut_off(length, error);
}

static ff_status decode(const ff_decode_job *job, ff_image *image, ff_error *error) {
    const uint8_t *bytes = job->bytes;
    const size_t length = job->length;
    header found;
    FF_TRY(read_header(bytes, length, &found, error));
    found.deep = job->options->deep;
    if (is_plain(&found))
        FF_TRY(read_plain(bytes, length, &found, image, error));
    else
        FF_TRY(read_raw(bytes, length, &found, job->options->allow_truncated, image, job->warning,
                        error));
    if (found.deep) return FF_OK;
    image->clips = is_deep(&found);
    return ff_image_to_mode(image, job->options->mode, error);
}

const ff_decode_kind ff_decode_ppm = {
    .name = "PPM",
    .matches = matches,
    .probe = probe,
    .decode = decode,
};
