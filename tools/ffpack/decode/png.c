/* PNG, by libspng, with every colour type read as by Pillow (PngImagePlugin.py, Convert.c):
 *   grey, 1 to 8 bits   scaled to 0..255
 *   grey, 16 bits       clipped to 255 (Pillow's mode I; libspng would return the high byte), or
 *                       as they are with options->deep
 *   grey + alpha, RGB, RGBA: alpha dropped, of 16 bits the high byte
 *   palette             its colour, whatever tRNS holds; an index beyond the palette is a grey of
 *                       that value (Pillow's palettes start as a grey ramp)
 * Gamma, colour profiles, background and transparency are ignored.
 *
 * libspng only gets the chunks that hold the picture (IHDR, PLTE of palette images, IDAT, IEND): a
 * broken text, profile or time chunk cannot fail an image or unpack to gigabytes.
 *
 * Stricter than Pillow: the checksums of those chunks must be right. */
#include "tools/ffpack/decode/kinds.h"

#include "format/base/bytes.h"
#include "format/base/memory.h"
#include "tools/ffpack/decode/png_exif.h"
#include "tools/ffpack/decode/png_repair.h"

#include <spng.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIGNATURE_BYTES = 8,
    HEADER_BYTES = 33,   /* signature, and IHDR with its length, name and checksum */
    CHUNK_EXTRA = 12,    /* length, name and checksum of a chunk */
    DEFLATE_RATIO = 1040 /* above deflate's maximum: 258 bytes from 2 bits */
};
enum { GREY = 0, RGB = 2, PALETTE = 3, GREY_ALPHA = 4, RGB_ALPHA = 6 }; /* colour types */

typedef struct header {
    uint32_t width, height;
    int depth, color;
} header;

static const uint8_t signature[SIGNATURE_BYTES] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

static bool matches(const uint8_t *bytes, size_t length) {
    return length >= SIGNATURE_BYTES && memcmp(bytes, signature, SIGNATURE_BYTES) == 0;
}

static bool is_depth(int color, int depth) {
    switch (color) {
    case GREY: return depth == 1 || depth == 2 || depth == 4 || depth == 8 || depth == 16;
    case PALETTE: return depth == 1 || depth == 2 || depth == 4 || depth == 8;
    case RGB:
    case GREY_ALPHA:
    case RGB_ALPHA: return depth == 8 || depth == 16;
    default: return false;
    }
}

/* Samples of a pixel. */
static uint32_t values_of(int color) {
    return color == GREY || color == PALETTE ? 1 : color == GREY_ALPHA ? 2 : color == RGB ? 3 : 4;
}

static ff_status read_header(const uint8_t *bytes, size_t length, header *out, ff_error *error) {
    if (length < HEADER_BYTES)
        return ff_fail(error, FF_BAD_DATA, "truncated PNG: %zu bytes, its header alone has %d",
                       length, HEADER_BYTES);
    if (ff_load_be32(bytes + 8) != 13 || memcmp(bytes + 12, "IHDR", 4) != 0)
        return ff_fail(error, FF_BAD_DATA, "broken PNG: its first chunk is not a header (IHDR)");
    out->width = ff_load_be32(bytes + 16);
    out->height = ff_load_be32(bytes + 20);
    out->depth = bytes[24];
    out->color = bytes[25];
    if (out->width == 0 || out->height == 0 || out->width > INT32_MAX || out->height > INT32_MAX)
        return ff_fail(error, FF_BAD_DATA,
                       "broken PNG: the header declares %u x %u "
                       "pixels",
                       out->width, out->height);
    if (!is_depth(out->color, out->depth))
        return ff_fail(error, FF_BAD_DATA,
                       "broken PNG: the header declares colour type %d with %d bits a value, which "
                       "PNG does not have",
                       out->color, out->depth);
    return FF_OK;
}

static ff_status probe(const uint8_t *bytes, size_t length, ff_image_info *info, ff_error *error) {
    header found = {0};
    FF_TRY(read_header(bytes, length, &found, error));
    info->width = found.width;
    info->height = found.height;
    info->channels = found.color == GREY || found.color == GREY_ALPHA ? 1 : 3;
    info->deep = found.color == GREY && found.depth == 16;
    return FF_OK;
}

/* The chunks that libspng may see, one after the other. */
typedef struct stream {
    const uint8_t *bytes;
    size_t length, position;
    size_t open; /* bytes of the current chunk (or the signature) still to be passed */
    bool has_palette;
} stream;

static bool is_wanted(const stream *from, const uint8_t *name) {
    return memcmp(name, "IDAT", 4) == 0 || memcmp(name, "IHDR", 4) == 0 ||
           memcmp(name, "IEND", 4) == 0 || (memcmp(name, "PLTE", 4) == 0 && from->has_palette);
}

/* Moves to the next wanted chunk; false if the data ends before it. */
static bool next_chunk(stream *from) {
    while (from->length - from->position >= CHUNK_EXTRA - 4) {
        const uint8_t *chunk = from->bytes + from->position;
        uint64_t size = (uint64_t)ff_load_be32(chunk) + CHUNK_EXTRA;
        if (is_wanted(from, chunk + 4)) {
            from->open = (size_t)size;
            return true;
        }
        if (size > from->length - from->position) break;
        from->position += (size_t)size;
    }
    from->position = from->length;
    return false;
}

/* libspng's read callback. */
static int read_stream(spng_ctx *context, void *user, void *to, size_t count) {
    (void)context;
    stream *from = user;
    uint8_t *out = to;
    while (count > 0) {
        if (from->open == 0 && !next_chunk(from)) return SPNG_IO_EOF;
        size_t left = from->length - from->position;
        size_t part = count < from->open ? count : from->open;
        if (part > left) return SPNG_IO_EOF;
        memcpy(out, from->bytes + from->position, part);
        from->position += part;
        from->open -= part;
        out += part;
        count -= part;
    }
    return 0;
}

static ff_status fail_png(int code, size_t length, ff_error *error) {
    if (code == SPNG_EMEM) return ff_fail(error, FF_NO_MEMORY, "no memory to decode a PNG");
    if (code == SPNG_IO_EOF)
        return ff_fail(error, FF_BAD_DATA,
                       "truncated PNG: its %zu bytes end before the image is complete", length);
    return ff_fail(error, FF_BAD_DATA, "broken PNG: %s", spng_strerror(code));
}

/* 16-bit grey in the machine's byte order, in place: clipped, as Pillow's I -> RGB and I -> L. */
static void clip_u16(uint8_t *pixels, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint16_t value;
        memcpy(&value, pixels + 2 * i, 2);
        pixels[i] = value > 255 ? 255 : (uint8_t)value;
    }
}

/* Grey + alpha of 8 or 16 bits in the machine's byte order, in place: grey, its high byte. */
static void drop_alpha(uint8_t *pixels, size_t count, int depth) {
    for (size_t i = 0; i < count; i++) {
        if (depth == 8) {
            pixels[i] = pixels[2 * i];
        } else {
            uint16_t value;
            memcpy(&value, pixels + 4 * i, 2);
            pixels[i] = (uint8_t)(value >> 8);
        }
    }
}

/* Rows of packed indexes at the start of `pixels`, in place to RGB: from the last pixel on, whose
 * three bytes are after every index not read yet. */
static void look_up_palette(uint8_t *pixels, uint32_t width, uint32_t height, int depth,
                            const struct spng_plte *palette) {
    uint8_t colors[256][3];
    for (uint32_t i = 0; i < 256; i++) {
        bool known = i < palette->n_entries;
        colors[i][0] = known ? palette->entries[i].red : 0;
        colors[i][1] = known ? palette->entries[i].green : 0;
        colors[i][2] = known ? palette->entries[i].blue : 0;
    }
    size_t row_bytes = ((size_t)width * (size_t)depth + 7) / 8;
    unsigned mask = (1u << depth) - 1;
    for (size_t y = height; y-- > 0;) {
        for (size_t x = width; x-- > 0;) {
            size_t bit = x * (size_t)depth;
            unsigned shift = 8 - (unsigned)depth - (unsigned)(bit & 7);
            unsigned index = (pixels[y * row_bytes + bit / 8] >> shift) & mask;
            memcpy(pixels + (y * width + x) * 3, colors[index], 3);
        }
    }
}

/* Decodes into image->pixels in the form `format`, `bytes_wanted` long. */
static int run_spng(spng_ctx *context, stream *from, int format, ff_image *image,
                    uint64_t bytes_wanted, struct spng_plte *palette) {
    size_t size;
    int code = spng_set_png_stream(context, read_stream, from);
    if (!code) code = spng_decoded_image_size(context, format, &size);
    if (!code && size != bytes_wanted) code = SPNG_EBUFSIZ;
    if (!code && from->has_palette) code = spng_get_plte(context, palette);
    if (!code) code = spng_decode_image(context, image->pixels, size, format, 0);
    /* After the last pixel a wrong checksum is an error, a missing one is not, as in Pillow. */
    if (!code) {
        code = spng_decode_chunks(context);
        if (code == SPNG_IO_EOF) code = 0;
    }
    return code;
}

static ff_status decode_whole(const uint8_t *bytes, size_t length, const ff_image_info *info,
                              const ff_decode_options *options, ff_image *image, ff_error *error) {
    header found = {0};
    FF_TRY(read_header(bytes, length, &found, error));
    size_t count = (size_t)info->width * info->height;
    bool as_stored = found.color == PALETTE || found.color == GREY_ALPHA || found.depth == 16;
    int format = info->channels == 3 && found.color != PALETTE ? SPNG_FMT_RGB8
                 : as_stored                                   ? SPNG_FMT_PNG
                                                               : SPNG_FMT_G8;
    uint32_t values = values_of(found.color);
    uint64_t row_bytes = ((uint64_t)info->width * (uint64_t)found.depth * values + 7) / 8;
    /* Refused before the pixels are allocated. */
    if (row_bytes * info->height / DEFLATE_RATIO > length)
        return fail_png(SPNG_IO_EOF, length, error);
    uint64_t decoded_bytes = format == SPNG_FMT_RGB8 ? (uint64_t)count * 3
                             : format == SPNG_FMT_G8 ? (uint64_t)count
                                                     : row_bytes * info->height;
    FF_TRY(ff_image_reserve(image, decoded_bytes, error));
    FF_TRY(ff_image_reshape(image, info->width, info->height, options->deep ? 2 : info->channels,
                            error));

    spng_ctx *context = spng_ctx_new(0);
    if (!context) return fail_png(SPNG_EMEM, length, error);
    stream from = {.bytes = bytes,
                   .length = length,
                   .open = SIGNATURE_BYTES,
                   .has_palette = found.color == PALETTE};
    /* libspng adds the pixels of packed interlaced rows to the buffer. */
    if (found.color == PALETTE) memset(image->pixels, 0, (size_t)decoded_bytes);
    struct spng_plte palette = {0};
    int code = run_spng(context, &from, format, image, decoded_bytes, &palette);
    spng_ctx_free(context);
    if (code) return fail_png(code, length, error);
    if (options->deep) return FF_OK;

    if (found.color == PALETTE)
        look_up_palette(image->pixels, info->width, info->height, found.depth, &palette);
    else if (found.color == GREY_ALPHA)
        drop_alpha(image->pixels, count, found.depth);
    else if (info->deep)
        clip_u16(image->pixels, count);
    image->clips = info->deep;
    return ff_image_to_mode(image, options->mode, error);
}

static ff_status decode(const ff_decode_job *job, ff_image *image, ff_error *error) {
    const uint8_t *bytes = job->bytes;
    const size_t length = job->length;
    ff_status status = decode_whole(bytes, length, job->info, job->options, image, error);
    if (status != FF_BAD_DATA || !job->options->allow_truncated) return status;
    header found = {0};
    uint8_t *repaired;
    size_t repaired_length;
    FF_TRY(read_header(bytes, length, &found, error));
    FF_TRY(ff_png_repair(bytes, length, found.width, found.height,
                         values_of(found.color) * (unsigned)found.depth, bytes[28] == 1, &repaired,
                         &repaired_length, error));
    status = decode_whole(repaired, repaired_length, job->info, job->options, image, error);
    free(repaired);
    if (status == FF_OK) ff_decode_warn_filled(job->warning, "PNG");
    return status;
}

const ff_decode_kind ff_decode_png = {
    .name = "PNG",
    .matches = matches,
    .probe = probe,
    .orientation = ff_png_orientation,
    .decode = decode,
};
