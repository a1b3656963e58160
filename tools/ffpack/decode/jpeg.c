/* JPEG, by libjpeg-turbo (jpeg_pixels.h), whose default decode (slow DCT, fancy upsampling) is
 * Pillow's, since Pillow uses the same library. This file parses the header's markers. CMYK is read
 * as in Pillow: always inverted, as Adobe writes it.
 *
 * Known gaps: lossless and 12-bit JPEG (refused, as by Pillow). */
#include "tools/ffpack/decode/kinds.h"

#include "tools/ffpack/decode/exif.h"
#include "tools/ffpack/decode/jpeg_pixels.h"

#include <string.h>

enum {
    MARKER_TEM = 0x01,
    MARKER_RST0 = 0xd0,
    MARKER_SOI = 0xd8,
    MARKER_EOI = 0xd9,
    MARKER_SOS = 0xda,
    MARKER_DQT = 0xdb,
    MARKER_APP1 = 0xe1,
};

static bool matches(const uint8_t *bytes, size_t length) {
    return length >= 3 && bytes[0] == 0xff && bytes[1] == MARKER_SOI && bytes[2] == 0xff;
}

/* The next marker from *position on, as libjpeg's next_marker finds it (jdmarker.c): bytes before
 * an FF are skipped, FF may be repeated, and FF 00 is data. Leaves *position after the marker; -1
 * at the end of the data. */
static int next_marker(const uint8_t *bytes, size_t length, size_t *position) {
    size_t at = *position;
    while (at < length) {
        const uint8_t *found = memchr(bytes + at, 0xff, length - at);
        if (!found) break;
        at = (size_t)(found - bytes);
        while (at < length && bytes[at] == 0xff) at++;
        if (at < length && bytes[at++] != 0) {
            *position = at;
            return bytes[at - 1];
        }
    }
    *position = length;
    return -1;
}

/* Whether a marker stands alone, without a length and parameters. */
static bool is_bare(int marker) {
    return marker == MARKER_TEM || (marker >= MARKER_RST0 && marker <= MARKER_EOI);
}

/* C0..CF except the Huffman tables, the reserved one and the arithmetic conditioning. */
static bool is_frame(int marker) {
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

/* Moves *position after a marker's parameters; false if they are cut off. A length below 2, which
 * is wrong, skips nothing, as in libjpeg. */
static bool skip_parameters(const uint8_t *bytes, size_t length, size_t *position) {
    if (length - *position < 2) return false;
    size_t size = (size_t)bytes[*position] << 8 | bytes[*position + 1];
    if (size < 2) size = 2;
    if (size > length - *position) return false;
    *position += size;
    return true;
}

static ff_status cut_off(size_t length, const char *before, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA, "truncated JPEG: its %zu bytes end before %s", length,
                   before);
}

/* A frame header's parameters, bytes `body` to `end`, as Pillow's SOF checks them. */
static ff_status read_frame(const uint8_t *bytes, size_t body, size_t end, int marker,
                            ff_jpeg_frame *out, ff_error *error) {
    size_t size = end - body;
    if (size < 8 || size % 3 != 2)
        return ff_fail(error, FF_BAD_DATA,
                       "broken JPEG: the frame header at byte %zu has %zu bytes, 8 and 3 a "
                       "component wanted",
                       body - 2, size);
    const uint8_t *header = bytes + body;
    out->height = (uint32_t)header[3] << 8 | header[4];
    out->width = (uint32_t)header[5] << 8 | header[6];
    out->components = header[7];
    out->progressive = (marker & 3) == 2;
    if (header[2] != 8)
        return ff_fail(error, FF_BAD_DATA, "a JPEG of %u bits a value; only 8 are read", header[2]);
    if (out->components != 1 && out->components != 3 && out->components != 4)
        return ff_fail(error, FF_BAD_DATA,
                       "a JPEG of %u components; 1 (grey), 3 (colour) and 4 (CMYK) are read",
                       out->components);
    return FF_OK;
}

/* Finds the frame header, which libjpeg will find too, so that nothing is allocated for a size
 * that has not been checked. */
static ff_status find_frame(const uint8_t *bytes, size_t length, ff_jpeg_frame *out,
                            ff_error *error) {
    size_t at = 2, body;
    int marker;
    do {
        do {
            marker = next_marker(bytes, length, &at);
            if (marker < 0) return cut_off(length, "the frame header", error);
        } while (is_bare(marker) && marker != MARKER_EOI);
        if (marker == MARKER_EOI || marker == MARKER_SOS)
            return ff_fail(error, FF_BAD_DATA,
                           "broken JPEG: marker ff%02x at byte %zu, a frame header wanted before",
                           (unsigned)marker, at - 2);
        body = at;
        if (!skip_parameters(bytes, length, &at))
            return cut_off(length, "the header is complete", error);
    } while (!is_frame(marker));
    FF_TRY(read_frame(bytes, body, at, marker, out, error));
    if (out->width == 0 || out->height == 0)
        return ff_fail(error, FF_BAD_DATA, "broken JPEG: the header declares %u x %u pixels",
                       out->width, out->height);
    return FF_OK;
}

static ff_status probe(const uint8_t *bytes, size_t length, ff_image_info *info, ff_error *error) {
    ff_jpeg_frame found = {0};
    FF_TRY(find_frame(bytes, length, &found, error));
    info->width = found.width;
    info->height = found.height;
    info->channels = found.components == 1 ? 1 : 3;
    return FF_OK;
}

/* The orientation in the first EXIF segment before the pixels. */
static unsigned orientation(const uint8_t *bytes, size_t length) {
    size_t at = 2;
    for (;;) {
        int marker = next_marker(bytes, length, &at);
        size_t body = at;
        if (marker < 0 || marker == MARKER_SOS || marker == MARKER_EOI) return FF_EXIF_NONE;
        if (is_bare(marker)) continue;
        if (!skip_parameters(bytes, length, &at)) return FF_EXIF_NONE;
        if (marker == MARKER_APP1 && at - body >= 7 && memcmp(bytes + body + 2, "Exif", 5) == 0)
            return ff_exif_orientation(bytes + body + 2, at - body - 2);
    }
}

/* Whether the quantization tables in a marker's parameters are complete. */
static bool has_whole_tables(const uint8_t *body, size_t size) {
    for (size_t at = 2; at < size;) {
        size_t table = body[at] >> 4 ? 1 + 2 * 64 : 1 + 64;
        if (table > size - at) return false;
        at += table;
    }
    return true;
}

/* Refuses what Pillow's own parser refuses before the first scan (JpegImagePlugin.py, _open), even
 * if libjpeg would decode it. */
static ff_status check_header(const uint8_t *bytes, size_t length, ff_error *error) {
    size_t at = 2, body = 2;
    int marker;
    ff_jpeg_frame other = {0};
    do {
        marker = next_marker(bytes, length, &at);
        body = at;
        if (marker < 0) return cut_off(length, "the first scan", error);
        if (marker < 0xc0)
            return ff_fail(error, FF_BAD_DATA, "broken JPEG: ff%02x at byte %zu is not a marker",
                           (unsigned)marker, at - 2);
        if (!is_bare(marker) && !skip_parameters(bytes, length, &at))
            return cut_off(length, "the first scan", error);
        if (marker == MARKER_DQT && !has_whole_tables(bytes + body, at - body))
            return ff_fail(error, FF_BAD_DATA,
                           "broken JPEG: the quantization tables at byte %zu are cut off",
                           body - 2);
        if (is_frame(marker)) FF_TRY(read_frame(bytes, body, at, marker, &other, error));
    } while (marker != MARKER_SOS);
    return FF_OK;
}

/* Pillow's CMYK -> RGB (libImaging/Convert.c, cmyk2rgb) of inverted values, in place: with
 * k = 255 - K, each colour is clip8(k - MULDIV255(C, k)). */
static void rgb_from_cmyk(uint8_t *pixels, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint8_t *cmyk = pixels + 4 * i;
        int k = cmyk[3]; /* stored inverted: 255 - K */
        uint8_t rgb[3];
        for (int c = 0; c < 3; c++) {
            int product = (255 - cmyk[c]) * k + 128;
            int value = k - (((product >> 8) + product) >> 8);
            rgb[c] = (uint8_t)(value < 0 ? 0 : value);
        }
        memcpy(pixels + 3 * i, rgb, 3);
    }
}

static uint32_t reduced(uint32_t side, uint32_t reduction) {
    return (side + reduction - 1) / reduction;
}

static ff_status decode(const ff_decode_job *job, ff_image *image, ff_error *error) {
    const uint8_t *bytes = job->bytes;
    const size_t length = job->length;
    ff_jpeg_frame found = {0};
    FF_TRY(find_frame(bytes, length, &found, error));
    FF_TRY(check_header(bytes, length, error));
    uint32_t reduction = job->options->reduction > 1 ? job->options->reduction : 1;
    uint32_t width = reduced(found.width, reduction), height = reduced(found.height, reduction);
    size_t count = (size_t)width * height;
    FF_TRY(ff_image_reserve(image, (uint64_t)count * found.components, error));
    FF_TRY(ff_image_reshape(image, width, height, job->info->channels, error));
    bool fill = job->options->allow_truncated;
    bool part = job->needed && (job->needed->width < width || job->needed->height < height) &&
                reduction == 1 && !fill && !found.progressive && found.components != 4;
    /* Rows that are missing are black, in Pillow's CMYK white. */
    if (fill) memset(image->pixels, found.components == 4 ? 0xff : 0, count * found.components);
    if (!part || !ff_jpeg_read_part(bytes, length, &found, job->needed, image->pixels))
        FF_TRY(ff_jpeg_read(bytes, length, &found, reduction, fill, image->pixels, job->warning,
                            error));
    if (found.components == 4) rgb_from_cmyk(image->pixels, count);
    return ff_image_to_mode(image, job->options->mode, error);
}

const ff_decode_kind ff_decode_jpeg = {
    .name = "JPEG",
    .matches = matches,
    .probe = probe,
    .orientation = orientation,
    .decode = decode,
};
