/* JPEG, by libjpeg-turbo's TurboJPEG API. Its default decode (slow DCT, fancy upsampling) equals
 * Pillow's bit for bit, since Pillow uses the same library; TJFLAG_FASTDCT and
 * TJFLAG_FASTUPSAMPLE would not. Where only a region is needed, or a
 * reduced image is asked for, jpeg_part.c reads that. CMYK is read as Pillow does: always inverted,
 * as Adobe writes it.
 *
 * Known gaps: lossless and 12-bit JPEG (refused, as by Pillow). */
#include "tools/ffpack/decode/kinds.h"

#include "format/base/memory.h"
#include "tools/ffpack/decode/exif.h"
#include "tools/ffpack/decode/jpeg_part.h"

#include <stdio.h>
#include <string.h>
#include <turbojpeg.h>

enum {
    MARKER_TEM = 0x01,
    MARKER_RST0 = 0xd0,
    MARKER_SOI = 0xd8,
    MARKER_EOI = 0xd9,
    MARKER_SOS = 0xda,
    MARKER_DQT = 0xdb,
    MARKER_APP1 = 0xe1,
};

typedef struct frame {
    uint32_t width, height, components;
    bool progressive;
} frame;

static bool matches(const uint8_t *bytes, size_t length) {
    return length >= 3 && bytes[0] == 0xff && bytes[1] == MARKER_SOI && bytes[2] == 0xff;
}

/* The next marker from *position on, as libjpeg's next_marker finds it (jdmarker.c): bytes before
 * an FF are skipped, FF may be repeated, and FF 00 is data. Leaves *position behind the marker; -1
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

/* C0..CF but for the Huffman tables, the reserved one and the arithmetic conditioning. */
static bool is_frame(int marker) {
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

/* Moves *position behind a marker's parameters; false where they are cut off. A length below 2,
 * which is wrong, skips nothing, as in libjpeg. */
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

/* Finds the frame header, which libjpeg will find too, so that nothing is allocated for a size
 * that has not been checked. */
static ff_status read_frame(const uint8_t *bytes, size_t length, frame *out, ff_error *error) {
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
    if (at - body < 8)
        return ff_fail(error, FF_BAD_DATA,
                       "broken JPEG: the frame header at byte %zu has %zu bytes, at least 8 wanted",
                       body - 2, at - body);
    const uint8_t *header = bytes + body;
    out->height = (uint32_t)header[3] << 8 | header[4];
    out->width = (uint32_t)header[5] << 8 | header[6];
    out->components = header[7];
    out->progressive = (marker & 3) == 2;
    if (out->width == 0 || out->height == 0)
        return ff_fail(error, FF_BAD_DATA, "broken JPEG: the header says %u x %u pixels",
                       out->width, out->height);
    if (header[2] != 8)
        return ff_fail(error, FF_BAD_DATA, "a JPEG of %u bits a value; only 8 are read", header[2]);
    if (out->components != 1 && out->components != 3 && out->components != 4)
        return ff_fail(error, FF_BAD_DATA,
                       "a JPEG of %u components; 1 (grey), 3 (colour) and 4 (CMYK) are read",
                       out->components);
    return FF_OK;
}

static ff_status probe(const uint8_t *bytes, size_t length, ff_image_info *info, ff_error *error) {
    frame found = {0};
    FF_TRY(read_frame(bytes, length, &found, error));
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

/* Whether the markers run up to the end of the image; *in_segment where the data ends within a
 * marker's parameters instead. */
static bool has_end_marker(const uint8_t *bytes, size_t length, bool *in_segment) {
    size_t at = 2;
    *in_segment = false;
    for (;;) {
        int marker = next_marker(bytes, length, &at);
        if (marker == MARKER_EOI) return true;
        if (marker < 0) return false;
        if (!is_bare(marker) && !skip_parameters(bytes, length, &at)) {
            *in_segment = true;
            return false;
        }
    }
}

/* Whether the quantization tables in a marker's parameters are whole. */
static bool has_whole_tables(const uint8_t *body, size_t size) {
    for (size_t at = 2; at < size;) {
        size_t table = body[at] >> 4 ? 1 + 2 * 64 : 1 + 64;
        if (table > size - at) return false;
        at += table;
    }
    return true;
}

/* Finds the first scan as Pillow's own parser does (JpegImagePlugin.py, _open), which refuses a
 * broken header also where it then shows whatever libjpeg makes of the rest. *one_scan where the
 * scan holds all components, in full: then rows come out while the data is read. */
static ff_status find_scan(const uint8_t *bytes, size_t length, const frame *of, bool *one_scan,
                           ff_error *error) {
    size_t at = 2, body = 2;
    int marker;
    do {
        marker = next_marker(bytes, length, &at);
        body = at;
        if (marker < 0) return cut_off(length, "the first scan", error);
        if (marker < 0xc0)
            return ff_fail(error, FF_BAD_DATA, "broken JPEG: ff%02x at byte %zu is no marker",
                           (unsigned)marker, at - 2);
        if (!is_bare(marker) && !skip_parameters(bytes, length, &at))
            return cut_off(length, "the first scan", error);
        if (marker == MARKER_DQT && !has_whole_tables(bytes + body, at - body))
            return ff_fail(error, FF_BAD_DATA,
                           "broken JPEG: the quantization tables at byte %zu are cut off",
                           body - 2);
    } while (marker != MARKER_SOS);
    *one_scan = !of->progressive && at - body > 2 && bytes[body + 2] == of->components;
    return FF_OK;
}

/* Whether the library's message is one of the warnings (JWRN_ in libjpeg's jerror.h) after which
 * it goes on to a complete image. tjGetErrorCode cannot tell: it says "warning" also where a fatal
 * error followed one. The message is the fatal error's then, else the first warning's. */
static bool is_warning(const char *message) {
    static const char *const starts[] = {
        "Corrupt JPEG data: ",
        "Inconsistent progression sequence ",
        "Invalid SOS parameters for sequential JPEG",
        "Unknown Adobe color transform code ",
        "Warning: unknown JFIF revision number ",
        "Premature end of JPEG file",
    };
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (strncmp(message, starts[i], strlen(starts[i])) == 0) return true;
    return false;
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

/* Decodes into `pixels`. A handle serves one image only: it keeps quantization and Huffman tables,
 * and a broken image without its own would come out with those of the image before it. (Making one
 * takes a tenth of a microsecond.) */
static ff_status run_turbojpeg(const uint8_t *bytes, size_t length, const ff_image_info *info,
                               int format, bool allow_truncated, uint8_t *pixels, char *warning,
                               ff_error *error) {
    tjhandle handle = tjInitDecompress();
    if (!handle) return ff_fail(error, FF_NO_MEMORY, "no memory to decode a JPEG");
    ff_status status = FF_OK;
    /* Width and height are given, not left to the header, so that nothing is written beyond them.
     * No legitimate image has the 500 scans of LIMITSCANS, which keep a small file from running for
     * hours. */
    int code = tjDecompress2(handle, bytes, (unsigned long)length, pixels, (int)info->width,
                             (int)info->width * tjPixelSize[format], (int)info->height, format,
                             TJFLAG_LIMITSCANS);
    if (code != 0) {
        const char *message = tjGetErrorStr2(handle);
        bool in_segment;
        if (strstr(message, "Insufficient memory") || strstr(message, "Memory allocation failure"))
            status = ff_fail(error, FF_NO_MEMORY, "no memory to decode a JPEG of %u x %u pixels",
                             info->width, info->height);
        /* The library makes up an end where the data has none; Pillow refuses that. */
        else if (!allow_truncated && (strncmp(message, "Premature end", 13) == 0 ||
                                      !has_end_marker(bytes, length, &in_segment)))
            status = cut_off(length, "the end of the image", error);
        else if (!allow_truncated && !is_warning(message))
            status = ff_fail(error, FF_BAD_DATA, "broken JPEG: %s", message);
        else
            snprintf(warning, FF_DECODE_WARNING_BYTES, "odd JPEG, decoded as Pillow does: %s",
                     message);
    }
    tjDestroy(handle);
    return status;
}

/* The pixels before a decode that may end early: black, in Pillow's CMYK white. *given_up where
 * Pillow leaves them all so: an image of several scans comes out once all of them are read, and an
 * end within a segment keeps libjpeg waiting for the rest of it. */
static ff_status prepare_truncated(const uint8_t *bytes, size_t length, const frame *found,
                                   ff_image *image, uint64_t values, bool *given_up,
                                   ff_error *error) {
    bool one_scan = true, in_segment;
    FF_TRY(find_scan(bytes, length, found, &one_scan, error));
    memset(image->pixels, found->components == 4 ? 0xff : 0, (size_t)values);
    *given_up = !one_scan && !has_end_marker(bytes, length, &in_segment) && in_segment;
    return FF_OK;
}

static uint32_t reduced(uint32_t side, uint32_t reduction) {
    return (side + reduction - 1) / reduction;
}

/* A part of a healthy image, where that is enough; true where it was read. The image has its
 * shape for the whole, and gets that of a reduced one. */
static bool read_part(const uint8_t *bytes, size_t length, const frame *found,
                      const ff_decode_options *options, const ff_region *needed, ff_image *image) {
    ff_jpeg_part part = {found->width, found->height, found->components, needed, 1};
    if (options->reduction > 1) {
        part.reduction = options->reduction;
        part.needed = NULL;
    } else if (!needed || (needed->width == found->width && needed->height == found->height) ||
               found->progressive || found->components == 4) {
        return false;
    }
    if (options->allow_truncated || !ff_jpeg_read_part(bytes, length, &part, image->pixels))
        return false;
    image->width = reduced(found->width, part.reduction);
    image->height = reduced(found->height, part.reduction);
    return true;
}

static ff_status decode(void *state, const uint8_t *bytes, size_t length, const ff_image_info *info,
                        const ff_decode_options *options, const ff_region *needed, ff_image *image,
                        char *warning, ff_error *error) {
    (void)state;
    frame found = {0};
    bool given_up = false;
    FF_TRY(read_frame(bytes, length, &found, error));
    size_t count = (size_t)info->width * info->height;
    int format = found.components == 1 ? TJPF_GRAY : found.components == 3 ? TJPF_RGB : TJPF_CMYK;
    FF_TRY(ff_image_reserve(image, (uint64_t)count * found.components, error));
    FF_TRY(ff_image_reshape(image, info->width, info->height, info->channels, error));
    if (options->allow_truncated)
        FF_TRY(prepare_truncated(bytes, length, &found, image, (uint64_t)count * found.components,
                                 &given_up, error));
    if (given_up)
        snprintf(warning, FF_DECODE_WARNING_BYTES,
                 "truncated JPEG: its %zu bytes end between two scans, nothing of it is shown",
                 length);
    else if (!read_part(bytes, length, &found, options, needed, image))
        FF_TRY(run_turbojpeg(bytes, length, info, format, options->allow_truncated, image->pixels,
                             warning, error));
    if (format == TJPF_CMYK) rgb_from_cmyk(image->pixels, (size_t)image->width * image->height);
    return ff_image_to_mode(image, options->mode, error);
}

const ff_decode_kind ff_decode_jpeg = {
    .name = "JPEG",
    .matches = matches,
    .probe = probe,
    .orientation = orientation,
    .decode = decode,
};
