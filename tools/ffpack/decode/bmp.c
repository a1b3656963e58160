/* BMP (and DIB, the same without the file header), own code, read as Pillow reads it
 * (BmpImagePlugin.py and RawDecode.c, version 13.0; with `pillow_12` as 12.1):
 *   1, 4, 8 bits  the palette's colour, black beyond its end; a palette that is a grey ramp (or
 * black and white, of two colours, or black, of one) is dropped, and the pixels are then read as 8
 *                 (or 1) bits each, whatever depth the header has
 *   16 bits       5 bits a colour, or 5, 6, 5 by masks: v * 255 / 31
 *   24, 32 bits   blue, green, red, or by the masks that Pillow knows; alpha is dropped
 *   RLE8, RLE4    of paletted images
 * Rows from the bottom up, or from the top down if the height is negative.
 *
 * Known gaps: what Pillow refuses: 2 and 64 bits, other masks, JPEG and PNG inside. */
#include "tools/ffpack/decode/kinds.h"

#include "format/base/bytes.h"
#include "format/base/memory.h"
#include "tools/ffpack/decode/bmp_runs.h"

#include <stdlib.h>
#include <string.h>

enum { RAW, RLE8, RLE4, BITFIELDS }; /* compressions */
enum { FILE_HEADER_BYTES = 14 };

/* How pixels become values. */
typedef enum form {
    BITS,     /* 1 bit: black or white */
    GREY,     /* 8 bits */
    INDEXES,  /* 1, 4 or 8 bits into the palette */
    RGB_555,  /* 16 bits */
    RGB_565,  /* 16 bits */
    RGB_BYTES /* 3 or 4 bytes */
} form;

typedef struct header {
    uint32_t width, height, compression, bits;
    bool down; /* rows from the top */
    form form;
    unsigned form_bits;        /* bits per pixel as read by `form` */
    unsigned red, green, blue; /* RGB_BYTES: offsets in a pixel */
    uint8_t palette[256][3];
    uint64_t data; /* where the pixels begin */
} header;

static bool is_dib(const uint8_t *bytes) {
    uint32_t size = ff_load_u32(bytes); /* versions 3 to 5: 40, 52, 56, 108, 124 */
    return size == 12 || size == 40 || size == 52 || size == 56 || size == 64 || size == 108 ||
           size == 124;
}

static bool matches(const uint8_t *bytes, size_t length) {
    return (length >= 2 && bytes[0] == 'B' && bytes[1] == 'M') || (length >= 16 && is_dib(bytes));
}

static ff_status cut_off(size_t length, const char *before, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA, "truncated BMP: its %zu bytes end before %s", length,
                   before);
}

/* Converts the masks that Pillow knows to the offset of each colour's byte. */
static bool find_masks(header *out, const uint8_t *masks, bool has_alpha) {
    static const struct {
        uint32_t bits, red, green, blue, alpha;
        form form;
        uint8_t place[3];
    } known[] = {
        {32, 0xff0000, 0xff00, 0xff, 0, RGB_BYTES, {2, 1, 0}},
        {32, 0xff000000, 0xff0000, 0xff00, 0, RGB_BYTES, {3, 2, 1}},
        {32, 0xff000000, 0xff0000, 0xff00, 0xff, RGB_BYTES, {3, 2, 1}},
        {32, 0xff000000, 0xff00, 0xff, 0, RGB_BYTES, {3, 1, 0}},
        {32, 0xff000000, 0xff00, 0xff, 0xff0000, RGB_BYTES, {3, 1, 0}},
        {32, 0xff, 0xff00, 0xff0000, 0xff000000, RGB_BYTES, {0, 1, 2}},
        {32, 0xff0000, 0xff00, 0xff, 0xff000000, RGB_BYTES, {2, 1, 0}},
        {32, 0, 0, 0, 0, RGB_BYTES, {2, 1, 0}},
        {24, 0xff0000, 0xff00, 0xff, 0, RGB_BYTES, {2, 1, 0}},
        {16, 0xf800, 0x7e0, 0x1f, 0, RGB_565, {0, 0, 0}},
        {16, 0x7c00, 0x3e0, 0x1f, 0, RGB_555, {0, 0, 0}},
    };
    uint32_t red = ff_load_u32(masks), green = ff_load_u32(masks + 4);
    uint32_t blue = ff_load_u32(masks + 8);
    uint32_t alpha = has_alpha && out->bits == 32 ? ff_load_u32(masks + 12) : 0;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].bits != out->bits || known[i].red != red || known[i].green != green ||
            known[i].blue != blue || known[i].alpha != alpha)
            continue;
        out->form = known[i].form;
        out->red = known[i].place[0];
        out->green = known[i].place[1];
        out->blue = known[i].place[2];
        return true;
    }
    return false;
}

/* Reads the palette of `colors` entries, and notes whether it is a ramp, which Pillow drops. */
static ff_status read_palette(header *out, const uint8_t *bytes, size_t left, uint64_t colors,
                              unsigned entry_bytes, bool *ramp, ff_error *error) {
    *ramp = true;
    memset(out->palette, 0, sizeof out->palette);
    for (uint64_t i = 0; i < colors; i++) {
        const uint8_t *entry = bytes + i * entry_bytes;
        uint8_t grey = colors == 2 ? (uint8_t)(255 * i) : (uint8_t)i;
        /* For this check the last entry may lack its fourth byte. */
        if (i * entry_bytes + 3 > left) {
            *ramp = false;
            break;
        }
        if (entry[0] != grey || entry[1] != grey || entry[2] != grey) *ramp = false;
        if (i < 256 && (i + 1) * entry_bytes <= left)
            for (unsigned c = 0; c < 3; c++) out->palette[i][c] = entry[2 - c];
    }
    uint64_t entries = left / entry_bytes < colors ? left / entry_bytes : colors;
    if (!*ramp && entries > 256)
        return ff_fail(error, FF_BAD_DATA,
                       "broken BMP: a palette of %llu colours, at most 256 wanted",
                       (unsigned long long)entries);
    return FF_OK;
}

/* The form of pixels without a palette. */
static ff_status find_form(header *out, const uint8_t *bytes, size_t length, size_t *at,
                           uint32_t header_bytes, ff_error *error) {
    out->red = 2;
    out->green = 1;
    out->blue = 0;
    out->form_bits = out->bits;
    out->form = out->bits == 16 ? RGB_555 : out->bits > 16 ? RGB_BYTES : INDEXES;
    if (out->compression == RLE8 || out->compression == RLE4) {
        if (out->bits <= 8) return FF_OK;
        return ff_fail(error, FF_BAD_DATA, "a BMP of run lengths and %u bits a pixel is not read",
                       out->bits);
    }
    if (out->compression != BITFIELDS) return FF_OK;
    const uint8_t *masks = bytes + *at;
    bool inside = header_bytes >= 52; /* the header itself holds them */
    if (inside) {
        masks = bytes + *at - header_bytes + 40;
    } else {
        if (length - *at < 12) return cut_off(length, "the header is complete", error);
        *at += 12;
    }
    if (find_masks(out, masks, header_bytes >= 56)) return FF_OK;
    return ff_fail(error, FF_BAD_DATA,
                   "a BMP of %u bits a pixel with masks %08x %08x %08x is not read", out->bits,
                   ff_load_u32(masks), ff_load_u32(masks + 4), ff_load_u32(masks + 8));
}

/* The number of colours in the palette: the header's, or else 2^bits. */
static uint64_t read_sizes(header *out, const uint8_t *info, uint32_t header_bytes) {
    uint32_t used = 0;
    if (header_bytes == 12) {
        out->width = ff_load_u16(info + 4);
        out->height = ff_load_u16(info + 6);
        out->bits = ff_load_u16(info + 10);
    } else {
        out->down = info[11] == 0xff;
        out->width = ff_load_u32(info + 4);
        out->height = out->down ? -ff_load_u32(info + 8) : ff_load_u32(info + 8);
        out->bits = ff_load_u16(info + 14);
        out->compression = ff_load_u32(info + 16);
        used = ff_load_u32(info + 32);
    }
    return used ? used : UINT64_C(1) << (out->bits & 63);
}

static ff_status read_header(const uint8_t *bytes, size_t length, bool pillow_12, header *out,
                             ff_error *error) {
    *out = (header){0};
    size_t at = 0;
    if (bytes[0] == 'B') {
        if (length < FILE_HEADER_BYTES + 4) return cut_off(length, "the header is complete", error);
        out->data = ff_load_u32(bytes + 10);
        at = FILE_HEADER_BYTES;
    }
    const uint8_t *info = bytes + at;
    if (!is_dib(info))
        return ff_fail(error, FF_BAD_DATA, "a BMP whose header has %u bytes is not read",
                       ff_load_u32(info));
    uint32_t header_bytes = ff_load_u32(info);
    if (length - at < header_bytes) return cut_off(length, "the header is complete", error);
    uint64_t colors = read_sizes(out, info, header_bytes);
    if (out->width == 0 || out->height == 0 || out->width > INT32_MAX || out->height > INT32_MAX)
        return ff_fail(error, FF_BAD_DATA,
                       "broken BMP: the header declares %u x %u "
                       "pixels",
                       out->width, out->height);
    if (out->bits != 1 && out->bits != 4 && out->bits != 8 && out->bits != 16 && out->bits != 24 &&
        out->bits != 32)
        return ff_fail(error, FF_BAD_DATA,
                       "a BMP of %u bits a pixel; 1, 4, 8, 16, 24 and 32 are read", out->bits);
    if (out->compression > BITFIELDS)
        return ff_fail(error, FF_BAD_DATA, "a BMP of compression %u; 0 to 3 are read",
                       out->compression);
    at += header_bytes;
    unsigned entry_bytes = header_bytes == 12 ? 3 : 4;
    if (at == out->data && out->bits <= 8) out->data += (pillow_12 ? 4 : entry_bytes) * colors;
    FF_TRY(find_form(out, bytes, length, &at, header_bytes, error));
    if (out->form == INDEXES) {
        bool ramp;
        if (colors > 65536)
            return ff_fail(error, FF_BAD_DATA,
                           "broken BMP: a palette of %llu colours, at most 65536 wanted",
                           (unsigned long long)colors);
        FF_TRY(read_palette(out, bytes + at, length - at, colors, entry_bytes, &ramp, error));
        if (ramp) {
            bool two = colors == 2 || (colors == 1 && !pillow_12);
            out->form = two ? BITS : GREY;
            out->form_bits = two ? 1 : 8;
        }
        at += colors * entry_bytes < length - at ? (size_t)(colors * entry_bytes) : length - at;
    }
    if (out->form == BITS && out->compression != RAW && pillow_12)
        return ff_fail(error, FF_BAD_DATA, "a BMP of run lengths in black and white is not read");
    if (out->data == 0) out->data = at;
    return FF_OK;
}

static ff_status probe(const uint8_t *bytes, size_t length, ff_image_info *info, ff_error *error) {
    header found;
    FF_TRY(read_header(bytes, length, false, &found, error));
    info->width = found.width;
    info->height = found.height;
    info->channels = found.form == BITS || found.form == GREY ? 1 : 3;
    return FF_OK;
}

/* Converts a row of pixels to values. */
static void unpack_row(const header *of, const uint8_t *in, uint8_t *out) {
    uint32_t width = of->width;
    switch (of->form) {
    case BITS:
        for (uint32_t x = 0; x < width; x++)
            out[x] = (of->form_bits == 8 ? in[x] : in[x / 8] >> (7 - x % 8) & 1) ? 255 : 0;
        break;
    case GREY: memcpy(out, in, width); break;
    case INDEXES:
        for (uint32_t x = 0; x < width; x++, out += 3) {
            uint32_t bit = x * of->form_bits, shift = 8 - of->form_bits - bit % 8;
            unsigned index = in[bit / 8] >> shift & ((1u << of->form_bits) - 1);
            memcpy(out, of->palette[index], 3);
        }
        break;
    case RGB_555:
    case RGB_565:
        for (uint32_t x = 0; x < width; x++, out += 3, in += 2) {
            unsigned pixel = ff_load_u16(in);
            bool wide = of->form == RGB_565;
            out[0] = (uint8_t)((pixel >> (wide ? 11 : 10) & 31) * 255 / 31);
            out[1] = (uint8_t)(wide ? (pixel >> 5 & 63) * 255 / 63 : (pixel >> 5 & 31) * 255 / 31);
            out[2] = (uint8_t)((pixel & 31) * 255 / 31);
        }
        break;
    case RGB_BYTES:
        for (uint32_t x = 0; x < width; x++, out += 3, in += of->form_bits / 8) {
            out[0] = in[of->red];
            out[1] = in[of->green];
            out[2] = in[of->blue];
        }
        break;
    }
}

/* Pixel 0 everywhere, for rows that are missing: the palette's first colour, or black. */
static void clear(const header *of, ff_image *image) {
    size_t count = (size_t)of->width * of->height;
    memset(image->pixels, 0, count * image->channels);
    if (of->form != INDEXES) return;
    for (size_t i = 0; i < count; i++) memcpy(image->pixels + 3 * i, of->palette[0], 3);
}

static uint8_t *row_of(const header *of, ff_image *image, uint32_t row) {
    size_t row_bytes = (size_t)of->width * image->channels;
    return image->pixels + (of->down ? row : of->height - 1 - row) * row_bytes;
}

static ff_status read_rows(const uint8_t *bytes, size_t length, const header *of, bool fill,
                           ff_image *image, char *warning, ff_error *error) {
    uint64_t stride = ((uint64_t)of->width * of->bits + 31) / 32 * 4;
    uint64_t row_bytes = ((uint64_t)of->width * of->form_bits + 7) / 8;
    if (row_bytes > stride && !fill)
        return ff_fail(error, FF_BAD_DATA,
                       "a BMP of %u bits a pixel with the palette of 8 bits is not read", of->bits);
    uint64_t left = of->data < length ? length - of->data : 0;
    uint64_t rows = left / stride + (left % stride >= row_bytes);
    if (rows > of->height) rows = of->height;
    if (row_bytes > stride) rows = 0;
    if (rows < of->height && !fill) return cut_off(length, "the image is complete", error);
    FF_TRY(ff_image_reshape(image, of->width, of->height, of->form <= GREY ? 1 : 3, error));
    if (rows < of->height) {
        clear(of, image);
        ff_decode_warn_filled(warning, "BMP");
    }
    for (uint32_t y = 0; y < rows; y++)
        unpack_row(of, bytes + of->data + y * stride, row_of(of, image, y));
    return FF_OK;
}

static ff_status decode_runs(const uint8_t *bytes, size_t length, const header *of, ff_image *image,
                             bool pillow_12, ff_error *error) {
    /* Two bytes make at most 255 pixels, and a jump of four bytes at most 255 rows. */
    uint64_t count = (uint64_t)of->width * of->height;
    uint64_t left = of->data < length ? length - of->data : 0;
    if (count / 255 > left * ((uint64_t)of->width + 1))
        return cut_off(length, "the image is complete", error);
    FF_TRY(ff_image_reshape(image, of->width, of->height, of->form <= GREY ? 1 : 3, error));
    /* Runs continue across rows, so all runs are decoded before rows are converted. */
    uint8_t *indexes;
    FF_TRY(ff_alloc(&indexes, count, 1, "the indexes of a BMP", error));
    bool whole = ff_bmp_runs(bytes, length, left ? of->data : length, of->width,
                             of->compression == RLE4, pillow_12, indexes, count);
    header row = *of;
    row.form_bits = 8;
    for (uint32_t y = 0; y < of->height && whole; y++)
        unpack_row(&row, indexes + (size_t)y * of->width, row_of(of, image, y));
    free(indexes);
    return whole ? FF_OK : cut_off(length, "the image is complete", error);
}

static ff_status decode(const ff_decode_job *job, ff_image *image, ff_error *error) {
    const uint8_t *bytes = job->bytes;
    const size_t length = job->length;
    header found;
    FF_TRY(read_header(bytes, length, job->options->pillow_12, &found, error));
    if (found.compression == RLE8 || found.compression == RLE4)
        FF_TRY(decode_runs(bytes, length, &found, image, job->options->pillow_12, error));
    else
        FF_TRY(read_rows(bytes, length, &found, job->options->allow_truncated, image, job->warning,
                         error));
    return ff_image_to_mode(image, job->options->mode, error);
}

const ff_decode_kind ff_decode_bmp = {
    .name = "BMP",
    .matches = matches,
    .probe = probe,
    .decode = decode,
};
