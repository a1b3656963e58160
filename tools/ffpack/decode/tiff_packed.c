#include "tools/ffpack/decode/tiff_packed.h"

#include "format/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>

static uint8_t *pixel_of(ff_image *image, uint32_t x, uint32_t y) {
    return image->pixels + ((size_t)y * image->width + x) * image->channels;
}

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* The file in memory, and libtiff's last error: recoverable ones come before the fatal one. */
typedef struct memory {
    const uint8_t *bytes;
    size_t length;
    uint64_t at;
    char message[160];
} memory;

static tmsize_t read_memory(thandle_t handle, void *to, tmsize_t size) {
    memory *from = handle;
    if (size < 0 || from->at >= from->length) return 0;
    size_t left = from->length - (size_t)from->at;
    size_t part = (size_t)size < left ? (size_t)size : left;
    memcpy(to, from->bytes + from->at, part);
    from->at += part;
    return (tmsize_t)part;
}

static tmsize_t write_memory(thandle_t handle, void *from, tmsize_t size) {
    (void)handle;
    (void)from;
    (void)size;
    return 0;
}

static toff_t seek_memory(thandle_t handle, toff_t offset, int whence) {
    memory *in = handle;
    in->at = whence == SEEK_SET ? offset : offset + (whence == SEEK_CUR ? in->at : in->length);
    return in->at;
}

static int close_memory(thandle_t handle) {
    (void)handle;
    return 0;
}

static toff_t size_memory(thandle_t handle) {
    return ((memory *)handle)->length;
}

static int map_memory(thandle_t handle, void **base, toff_t *size) {
    memory *from = handle;
    *base = (void *)(size_t)from->bytes;
    *size = from->length;
    return 1;
}

static void unmap_memory(thandle_t handle, void *base, toff_t size) {
    (void)handle;
    (void)base;
    (void)size;
}

#ifdef TIFFLIB_AT_LEAST
#define HAVE_OPEN_OPTIONS TIFFLIB_AT_LEAST(4, 5, 0)
#else
#define HAVE_OPEN_OPTIONS (TIFFLIB_VERSION >= 20221213)
#endif

#if HAVE_OPEN_OPTIONS
static int keep_message(TIFF *tiff, void *user, const char *module, const char *format,
                        va_list values) {
    (void)tiff;
    (void)module;
    memory *in = user;
    vsnprintf(in->message, sizeof in->message, format, values);
    return 1;
}

static int drop_message(TIFF *tiff, void *user, const char *module, const char *format,
                        va_list values) {
    (void)tiff;
    (void)user;
    (void)module;
    (void)format;
    (void)values;
    return 1;
}
#endif

/* As Pillow opens it ("C": long strips are cut). libtiff may not allocate more than most_bytes at a
 * time. NULL if libtiff refuses the file. */
static TIFF *open_tiff(memory *from, uint64_t most_bytes) {
#if HAVE_OPEN_OPTIONS
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
    if (!options) return NULL;
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, (tmsize_t)most_bytes);
    TIFFOpenOptionsSetErrorHandlerExtR(options, keep_message, from);
    TIFFOpenOptionsSetWarningHandlerExtR(options, drop_message, from);
    TIFF *tiff = TIFFClientOpenExt("image", "rC", from, read_memory, write_memory, seek_memory,
                                   close_memory, size_memory, map_memory, unmap_memory, options);
    TIFFOpenOptionsFree(options);
    return tiff;
#else
    /* Older versions only have process-wide handlers: set none, as Pillow does. */
    (void)most_bytes;
    TIFFSetErrorHandler(NULL);
    TIFFSetWarningHandler(NULL);
    return TIFFClientOpen("image", "rC", from, read_memory, write_memory, seek_memory, close_memory,
                          size_memory, map_memory, unmap_memory);
#endif
}

static ff_status fail_tiff(const memory *from, const char *what, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA, "broken TIFF: %s%s%s", what, from->message[0] ? ": " : "",
                   from->message);
}

/* The blocks of an image as decoded by libtiff, and buffers for one of each plane. */
typedef struct blocks {
    TIFF *tiff;
    const ff_tiff_image *of;
    ff_tiff_layout layout; /* the samples' from libtiff */
    unsigned planes;
    uint32_t width, height;
    uint64_t bytes, row_bytes;
    uint8_t *buffer, *row;
} blocks;

/* Pillow's checks of libtiff's sizes against its own (_decodeTile, _decodeStrip). */
static ff_status measure_blocks(blocks *out, const memory *from, uint64_t pixel_limit,
                                ff_error *error) {
    TIFF *tiff = out->tiff;
    bool tiled = TIFFIsTiled(tiff);
    uint64_t bits = (uint64_t)out->layout.depth * out->layout.samples, room;
    int64_t bytes, row_bytes;
    if (tiled) {
        TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &out->width);
        TIFFGetField(tiff, TIFFTAG_TILELENGTH, &out->height);
        if ((uint64_t)out->width * out->height > pixel_limit)
            return ff_fail(error, FF_BAD_DATA, "a TIFF with tiles of %u x %u pixels is not read",
                           out->width, out->height);
        bytes = TIFFTileSize(tiff);
        row_bytes = TIFFTileRowSize(tiff);
        room = (out->height * bits / out->planes + 7) / 8 * out->width;
        if (bytes <= 0 || row_bytes <= 0 || row_bytes > bytes)
            return fail_tiff(from, "the size of its tiles", error);
    } else {
        out->width = out->of->width;
        if (TIFFGetField(tiff, TIFFTAG_ROWSPERSTRIP, &out->height) != 1 ||
            out->height == UINT32_MAX)
            out->height = out->of->height;
        bytes = TIFFStripSize(tiff);
        row_bytes = TIFFScanlineSize(tiff);
        uint64_t own = (out->width * bits / out->planes + 7) / 8;
        room = own * out->height;
        if (bytes <= 0 || row_bytes <= 0 || own > (uint64_t)row_bytes || out->height == 0 ||
            out->height > INT32_MAX)
            return fail_tiff(from, "the size of its strips", error);
    }
    if ((uint64_t)bytes > room || bytes > INT32_MAX - 1)
        return ff_fail(error, FF_BAD_DATA,
                       "broken TIFF: its %s have %lld bytes, at most %llu wanted",
                       tiled ? "tiles" : "strips", (long long)bytes, (unsigned long long)room);
    out->bytes = (uint64_t)bytes;
    out->row_bytes = (uint64_t)row_bytes;
    return FF_OK;
}

/* Reads the block at x, y of each plane, and copies its visible part to the image. */
static ff_status place_decoded(blocks *in, memory *from, uint32_t x, uint32_t y, ff_image *image,
                               ff_error *error) {
    uint32_t width = least(in->width, in->of->width - x);
    uint32_t height = least(in->height, in->of->height - y);
    for (unsigned plane = 0; plane < in->planes; plane++) {
        uint8_t *to = in->buffer + plane * in->bytes;
        from->message[0] = '\0';
        tmsize_t got =
            TIFFIsTiled(in->tiff)
                ? TIFFReadTile(in->tiff, to, x, y, 0, (uint16_t)plane)
                : TIFFReadEncodedStrip(in->tiff, TIFFComputeStrip(in->tiff, y, (uint16_t)plane), to,
                                       (tmsize_t)in->bytes);
        if (got < 0) {
            char what[80];
            snprintf(what, sizeof what, "the pixels from %u, %u on cannot be read", x, y);
            return fail_tiff(from, what, error);
        }
    }
    for (uint32_t row = 0; row < height; row++) {
        const uint8_t *planes[FF_TIFF_SAMPLES_MOST];
        for (unsigned plane = 0; plane < in->planes; plane++)
            planes[plane] = in->buffer + plane * in->bytes + row * in->row_bytes;
        if (in->planes > 1) ff_tiff_interleave(&in->layout, planes, width, in->row);
        ff_tiff_unpack(&in->layout, in->planes > 1 ? in->row : planes[0], width,
                       pixel_of(image, x, y + row));
    }
    return FF_OK;
}

/* The samples as libtiff returns them: in native byte order (which Pillow ignores for 32 bits),
 * with the first pixel in the highest bits, YCbCr of a JPEG as RGB. */
static ff_status open_blocks(blocks *out, const memory *from, bool jpeg_as_rgb, ff_error *error) {
    ff_tiff_layout *layout = &out->layout;
    *layout = out->of->layout;
    layout->reversed = false;
    if (layout->depth != 32) layout->big_endian = false;
    out->planes = 1;
    uint16_t planar = 0;
    TIFFGetFieldDefaulted(out->tiff, TIFFTAG_PLANARCONFIG, &planar);
    if (layout->color == FF_TIFF_YCBCR && !jpeg_as_rgb)
        return fail_tiff(from, "its colours do not fit its compression", error);
    if (planar != PLANARCONFIG_SEPARATE || layout->samples == 1) return FF_OK;
    if (layout->depth != 8 && layout->depth != 16)
        return fail_tiff(from, "planes of samples that are not bytes", error);
    /* Pillow takes one plane for each band of its mode. */
    out->planes = layout->samples < 4 ? layout->samples : 4;
    if (layout->color == FF_TIFF_RGB && layout->samples >= 4) {
        uint16_t count = 0, *extra = NULL;
        TIFFGetFieldDefaulted(out->tiff, TIFFTAG_EXTRASAMPLES, &count, &extra);
        bool unspecified = count >= 1 && extra[0] == EXTRASAMPLE_UNSPECIFIED;
        /* Pillow's mode is RGBA even if the file does not declare alpha; libtiff reports
         * unspecified. */
        layout->premultiplied |= unspecified && out->of->extra_count == 0;
    }
    return FF_OK;
}

static ff_status read_blocks(blocks *in, memory *from, uint64_t pixel_limit, ff_image *image,
                             ff_error *error) {
    FF_TRY(measure_blocks(in, from, pixel_limit, error));
    in->layout.samples = in->planes > 1 ? in->planes : in->layout.samples;
    FF_TRY(ff_alloc(&in->buffer, in->planes, in->bytes, "a TIFF's block", error));
    FF_TRY(ff_alloc(&in->row, in->width, FF_TIFF_SAMPLES_MOST * 2, "a TIFF's row", error));
    for (uint64_t y = 0; y < in->of->height; y += in->height)
        for (uint64_t x = 0; x < in->of->width; x += in->width)
            FF_TRY(place_decoded(in, from, (uint32_t)x, (uint32_t)y, image, error));
    return FF_OK;
}

/* YCbCr that no JPEG decoder turns to RGB: by libtiff's own conversion, in blocks of rows as
 * Pillow asks for them. */
static ff_status read_as_rgba(TIFF *tiff, const memory *from, ff_image *image, ff_error *error) {
    char message[1024] = "";
    uint32_t rows = 0;
    TIFFRGBAImage rgba;
    int got = TIFFGetFieldDefaulted(
        tiff, TIFFIsTiled(tiff) ? TIFFTAG_TILELENGTH : TIFFTAG_ROWSPERSTRIP, &rows);
    if (got != 1 || rows == 0 || rows > image->height) rows = image->height;
    if (!TIFFRGBAImageOK(tiff, message) || !TIFFRGBAImageBegin(&rgba, tiff, 0, message))
        return ff_fail(error, FF_BAD_DATA, "broken TIFF: %.200s", message);
    rgba.req_orientation = ORIENTATION_TOPLEFT;
    rgba.col_offset = 0;
    uint32_t *pixels;
    ff_status status = ff_alloc(&pixels, (uint64_t)rows * image->width, 4, "a TIFF's rows", error);
    for (uint32_t y = 0; y < image->height && status == FF_OK; y += rows) {
        uint32_t count = least(rows, image->height - y);
        rgba.row_offset = (int)y;
        if (!TIFFRGBAImageGet(&rgba, pixels, image->width, count))
            status = fail_tiff(from, "its pixels cannot be read", error);
        for (size_t i = 0; i < (size_t)count * image->width && status == FF_OK; i++) {
            uint8_t *pixel = image->pixels + ((size_t)y * image->width + i) * 3;
            pixel[0] = (uint8_t)TIFFGetR(pixels[i]);
            pixel[1] = (uint8_t)TIFFGetG(pixels[i]);
            pixel[2] = (uint8_t)TIFFGetB(pixels[i]);
        }
    }
    free(pixels);
    TIFFRGBAImageEnd(&rgba);
    return status;
}

static ff_status read_open(TIFF *tiff, memory *from, const ff_tiff_image *of, uint64_t pixel_limit,
                           ff_image *image, ff_error *error) {
    uint32_t width = 0, height = 0;
    uint16_t photometric = 0, compression = 0, planar = 0;
    TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
    TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
    if (width != of->width || height != of->height)
        return fail_tiff(from, "its directory is read in two ways", error);
    FF_TRY(ff_image_reshape(image, width, height, ff_tiff_channels(&of->layout), error));
    TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &photometric);
    TIFFGetField(tiff, TIFFTAG_COMPRESSION, &compression);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_PLANARCONFIG, &planar);
    bool jpeg_as_rgb = false;
    if (photometric == PHOTOMETRIC_YCBCR) {
        jpeg_as_rgb = compression == COMPRESSION_JPEG && planar == PLANARCONFIG_CONTIG;
        if (of->layout.color != FF_TIFF_YCBCR || jpeg_as_rgb != (compression == COMPRESSION_JPEG))
            return fail_tiff(from, "its colours do not fit its compression", error);
        if (!jpeg_as_rgb) return read_as_rgba(tiff, from, image, error);
        TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    }
    blocks in = {.tiff = tiff, .of = of};
    ff_status status;
    FF_TRY_DONE(open_blocks(&in, from, jpeg_as_rgb, error));
    FF_TRY_DONE(read_blocks(&in, from, pixel_limit, image, error));
done:
    free(in.buffer);
    free(in.row);
    return status;
}

/* Whether the file can hold the image at all, if its compression has a bound. LZW's bound is the
 * highest: a string of 4096 bytes from 12 bits. */
static bool is_plausible(const ff_tiff_image *of) {
    static const uint16_t bounded[] = {COMPRESSION_LZW, COMPRESSION_JPEG, COMPRESSION_ADOBE_DEFLATE,
                                       COMPRESSION_PACKBITS, COMPRESSION_DEFLATE};
    enum { RATIO = 4096 * 8 / 12 + 1 };
    uint64_t bits = (uint64_t)of->width * of->height * of->layout.samples * of->layout.depth;
    for (size_t i = 0; i < sizeof bounded / sizeof bounded[0]; i++)
        if (of->compression == bounded[i] && bits / 8 / RATIO > of->file.length) return false;
    return true;
}

ff_status ff_tiff_read_packed(const ff_tiff_image *of, uint64_t pixel_limit, ff_image *image,
                              ff_error *error) {
    memory from = {.bytes = of->file.bytes, .length = of->file.length};
    if (!is_plausible(of))
        return ff_fail(error, FF_BAD_DATA,
                       "truncated TIFF: its %zu bytes cannot hold %u x %u pixels", from.length,
                       of->width, of->height);
    TIFF *tiff = open_tiff(&from, pixel_limit < INT32_MAX ? pixel_limit * 8 : INT64_MAX);
    if (!tiff) return fail_tiff(&from, "libtiff refuses it", error);
    from.message[0] = '\0'; /* it was opened successfully */
    ff_status status = read_open(tiff, &from, of, pixel_limit, image, error);
    TIFFClose(tiff);
    return status;
}
