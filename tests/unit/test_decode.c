/* Decoders: detecting the kind, headers, limits, damage and its messages, reuse. (tests/exact
 * compares pixels with Pillow's.) */
#include <stdint.h>

#include "format/base/bytes.h"
#include "tests/unit/check.h"
#include "tests/unit/make_jpeg.h"
#include "tools/ffpack/decode/exif.h"
#include "tools/ffpack/decode/png_exif.h"
#include "tools/ffpack/decode/upright.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void free_file(file *of) {
    free(of->bytes);
    *of = (file){0};
}

static file copy_file(const file *of, size_t length) {
    file copy = {malloc(length ? length : 1), length};
    assert_non_null(copy.bytes);
    memcpy(copy.bytes, of->bytes, length);
    return copy;
}

/* How the tests' JPEGs are encoded. */
static const way as_420 = {2, 2, 3, .restarts = false};
static const way as_444 = {1, 1, 3, .restarts = false};
static const way as_grey = {1, 1, 1, .restarts = false};

static void add_chunk(file *png, const char *name, const uint8_t *data, uint32_t size) {
    uint8_t *grown = realloc(png->bytes, png->length + size + 12);
    assert_non_null(grown);
    uint8_t *at = grown + png->length;
    ff_store_be32(at, size);
    memcpy(at + 4, name, 4);
    if (size) memcpy(at + 8, data, size);
    ff_store_be32(at + 8 + size, (uint32_t)crc32(0, at + 4, size + 4));
    *png = (file){grown, png->length + size + 12};
}

/* A PNG of the given rows (each starts with filter byte 0), of `raw_length` bytes in all. */
static file make_png(uint32_t width, uint32_t height, uint8_t depth, uint8_t color,
                     const uint8_t *palette, uint32_t palette_size, const uint8_t *raw,
                     size_t raw_length) {
    static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    uint8_t header[13] = {0}, packed[1024];
    uLongf packed_length = sizeof packed;
    file png = copy_file(&(file){(uint8_t *)(size_t)signature, 8}, 8);
    ff_store_be32(header, width);
    ff_store_be32(header + 4, height);
    header[8] = depth;
    header[9] = color;
    add_chunk(&png, "IHDR", header, 13);
    if (palette_size) add_chunk(&png, "PLTE", palette, palette_size);
    assert_int_equal(compress(packed, &packed_length, raw, raw_length), Z_OK);
    add_chunk(&png, "IDAT", packed, (uint32_t)packed_length);
    add_chunk(&png, "IEND", NULL, 0);
    return png;
}

static ff_decoder *make_decoder(void) {
    ff_decoder *decoder;
    assert_ok(ff_decoder_create(&decoder, error));
    return decoder;
}

static void assert_refused(const file *of, uint64_t limit, const char *part) {
    ff_decoder *decoder = make_decoder();
    ff_image image = {0};
    ff_error error = {0};
    assert_int_equal(ff_decode(decoder, of->bytes, of->length,
                               &(ff_decode_options){.mode = FF_MODE_RGB, .pixel_limit = limit},
                               NULL, &image, &error),
                     FF_BAD_DATA);
    if (!strstr(error.message, part)) fail_msg("'%s' wanted in '%s'", part, error.message);
    ff_image_free(&image);
    ff_decoder_destroy(&decoder);
}

static void test_kinds_by_content(void **unused) {
    (void)unused;
    static const struct {
        const char *bytes;
        size_t length;
        const char *part;
    } cases[] = {
        {"", 0, "the file is empty"},
        {"x", 1, "starts with 78;"},
        {"PK\3\4....", 8, "starts with 50 4b 03 04 2e 2e 2e 2e (a zip file)"},
        {"GIF89a..", 8, "truncated GIF"},
        {"RIFF\1\2\3\4WEBPVP8 ", 16, "truncated WebP"},
        {"BM\0\0", 4, "truncated BMP"},
        {"P5 ", 3, "truncated PPM"},
        {"P7\n", 3, "not an image"},
        {"II*\0\0\0", 6, "not an image"},
        {"II*\0\x08\0\0\0", 8, "broken TIFF"},
        {"\x1f\x8b\x08", 3, "(a gzip file)"},
        {"\xff\xd8", 2, "not an image"},
        {"\x89PNG\r\n\x1a", 7, "not an image"},
        {"\xff\xd8\xff", 3, "truncated JPEG"},
        {"\x89PNG\r\n\x1a\n", 8, "truncated PNG"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        file given =
            copy_file(&(file){(uint8_t *)(size_t)cases[i].bytes, cases[i].length}, cases[i].length);
        assert_refused(&given, FF_PIXEL_LIMIT, cases[i].part);
        free_file(&given);
    }
}

static void test_probe(void **unused) {
    (void)unused;
    ff_image_info info;
    file jpeg = make_jpeg(31, 17, &as_420);
    assert_ok(ff_decode_probe(jpeg.bytes, jpeg.length,
                              &(ff_decode_options){.pixel_limit = FF_PIXEL_LIMIT}, &info, error));
    assert_string_equal(info.kind, "JPEG");
    assert_true(info.width == 31 && info.height == 17 && info.channels == 3);
    free_file(&jpeg);
    jpeg = make_jpeg(5, 9, &as_grey);
    assert_ok(ff_decode_probe(jpeg.bytes, jpeg.length,
                              &(ff_decode_options){.pixel_limit = FF_PIXEL_LIMIT}, &info, error));
    assert_true(info.width == 5 && info.height == 9 && info.channels == 1);
    free_file(&jpeg);
    static const uint8_t raw[] = {0, 0x80};
    file png = make_png(1, 1, 1, 0, NULL, 0, raw, 2);
    assert_ok(ff_decode_probe(png.bytes, png.length,
                              &(ff_decode_options){.pixel_limit = FF_PIXEL_LIMIT}, &info, error));
    assert_string_equal(info.kind, "PNG");
    assert_true(info.width == 1 && info.height == 1 && info.channels == 1);
    free_file(&png);
}

static void test_pixel_limit(void **unused) {
    (void)unused;
    file jpeg = make_jpeg(20, 10, &as_444);
    ff_image_info info;
    assert_ok(ff_decode_probe(jpeg.bytes, jpeg.length, &(ff_decode_options){.pixel_limit = 200},
                              &info, error));
    assert_refused(&jpeg, 199, "20 x 10 pixels, more than the limit of 199");
    free_file(&jpeg);
    /* 100,000 x 100,000 pixels (for GIF and WebP the maximum), stated in a few bytes. */
    static const struct {
        const char *bytes;
        size_t length;
    } headers[] = {
        {"P6 100000 100000 255\n", 21},
        {"P1 100000 100000 ", 17},
        {"BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\xa0\x86\1\0\xa0\x86\1\0\1\0\x18\0"
         "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
         54},
        {"GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\1\0\1\0\0\2\2\x4c\1\0;", 29},
        {"II*\0\x08\0\0\0\3\0\0\1\4\0\1\0\0\0\xa0\x86\1\0\1\1\4\0\1\0\0\0\xa0\x86\1\0"
         "\x11\1\4\0\1\0\0\0\x08\0\0\0",
         46},
        {"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\2\0\0\0\x9f\x86\1\x9f\x86\0", 30},
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        const file given = {(uint8_t *)(size_t)headers[i].bytes, headers[i].length};
        file copy = copy_file(&given, given.length);
        assert_refused(&copy, FF_PIXEL_LIMIT, "more than the limit of 178956970");
        free_file(&copy);
    }
    static const uint8_t raw[] = {0, 0x80};
    file huge = make_png(100000, 100000, 8, 2, NULL, 0, raw, 2);
    assert_refused(&huge, FF_PIXEL_LIMIT, "more than the limit of 178956970");
    free_file(&huge);
    /* 65536 x 65536 pixels: 0 in 32 bits. */
    static const struct {
        const char *bytes;
        size_t length;
    } wrapped[] = {
        {"P6 65536 65536 255\n", 19},
        {"P5 65536 65537 255\n", 19},
        {"BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\0\0\1\0\0\0\1\0\1\0\x18\0"
         "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
         54},
        {"II*\0\x08\0\0\0\3\0\0\1\4\0\1\0\0\0\0\0\1\0\1\1\4\0\1\0\0\0\0\0\1\0"
         "\x11\1\4\0\1\0\0\0\x08\0\0\0",
         46},
    };
    for (size_t i = 0; i < sizeof wrapped / sizeof wrapped[0]; i++) {
        const file given = {(uint8_t *)(size_t)wrapped[i].bytes, wrapped[i].length};
        file copy = copy_file(&given, given.length);
        assert_refused(&copy, FF_PIXEL_LIMIT, "more than the limit of 178956970");
        free_file(&copy);
    }
    file square = make_png(65536, 65536, 8, 2, NULL, 0, raw, 2);
    assert_refused(&square, FF_PIXEL_LIMIT, "more than the limit of 178956970");
    free_file(&square);
    /* Within the limit, but no compression reaches that ratio: refused before the pixels are
     * allocated. */
    static const struct {
        const char *bytes, *part;
        size_t length;
    } small[] = {
        {"P6 13000 13000 255\n", "truncated PPM", 19},
        {"P3 13000 13000 255\n1 2", "truncated PPM", 22},
        {"BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\xc8\x32\0\0\xc8\x32\0\0\1\0\x18\0"
         "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
         "truncated BMP", 54},
        {"GIF89a\xc8\x32\xc8\x32\0\0\0,\0\0\0\0\xc8\x32\xc8\x32\0\2\2\x4c\1\0;", "truncated GIF",
         29},
        {"II*\0\x08\0\0\0\4\0\0\1\4\0\1\0\0\0\xc8\x32\0\0\1\1\4\0\1\0\0\0\xc8\x32\0\0"
         "\2\1\3\0\1\0\0\0\x08\0\0\0\3\1\3\0\1\0\0\0\5\0\0\0",
         "truncated TIFF", 58},
    };
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++) {
        const file given = {(uint8_t *)(size_t)small[i].bytes, small[i].length};
        file copy = copy_file(&given, given.length);
        assert_refused(&copy, FF_PIXEL_LIMIT, small[i].part);
        free_file(&copy);
    }
    file bomb = make_png(13000, 13000, 8, 2, NULL, 0, raw, 2);
    assert_refused(&bomb, FF_PIXEL_LIMIT, "truncated PNG");
    free_file(&bomb);
}

static void test_headers_refused(void **unused) {
    (void)unused;
    static const uint8_t raw[] = {0, 0x80};
    static const struct {
        uint32_t width, height;
        uint8_t depth, color;
        const char *part;
    } cases[] = {
        {0, 1, 8, 0, "0 x 1 pixels"},
        {1, 0, 8, 0, "1 x 0 pixels"},
        {0x80000000u, 1, 8, 0, "2147483648 x 1 pixels"},
        {1, 1, 3, 0, "colour type 0 with 3 bits"},
        {1, 1, 16, 3, "colour type 3 with 16 bits"},
        {1, 1, 8, 5, "colour type 5 with 8 bits"},
        {1, 1, 8, 3, "broken PNG"}, /* no palette */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        file png = make_png(cases[i].width, cases[i].height, cases[i].depth, cases[i].color, NULL,
                            0, raw, 2);
        assert_refused(&png, FF_PIXEL_LIMIT, cases[i].part);
        free_file(&png);
    }
}

/* Every beginning of a JPEG is refused as truncated, even the one that lacks only its end
 * marker. */
static void test_cut_jpeg(void **unused) {
    (void)unused;
    file jpeg = make_jpeg(33, 21, &as_420);
    for (size_t length = 3; length < jpeg.length; length++) {
        file cut = copy_file(&jpeg, length);
        assert_refused(&cut, FF_PIXEL_LIMIT, "truncated JPEG");
        free_file(&cut);
    }
    free_file(&jpeg);
}

static void test_damaged_png(void **unused) {
    (void)unused;
    static const uint8_t raw[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    file png = make_png(3, 2, 8, 2, NULL, 0, raw, 20);
    /* Flips a bit of the pixels' chunk or its checksum; the end chunk may be missing. */
    for (size_t at = 33 + 8; at < png.length - 12; at++) {
        file flipped = copy_file(&png, png.length);
        flipped.bytes[at] ^= 4;
        assert_refused(&flipped, FF_PIXEL_LIMIT, "broken PNG");
        free_file(&flipped);
    }
    for (size_t length = 8; length < png.length - 24; length++) {
        file cut = copy_file(&png, length);
        assert_refused(&cut, FF_PIXEL_LIMIT, "truncated PNG");
        free_file(&cut);
    }
    free_file(&png);
}

static void test_modes(void **unused) {
    (void)unused;
    static const uint8_t palette[] = {10, 20, 30, 200, 100, 50};
    static const uint8_t raw[] = {0, 0x50}; /* 0 1 0 1 */
    static const uint8_t rgb[] = {10, 20, 30, 200, 100, 50, 10, 20, 30, 200, 100, 50};
    static const uint8_t gray[] = {18, 124, 18, 124}; /* Pillow's convert('L') */
    static const uint8_t black_white[] = {0, 255, 0, 255};
    ff_decoder *decoder = make_decoder();
    ff_image image = {0};
    file png = make_png(4, 1, 1, 3, palette, sizeof palette, raw, sizeof raw);
    const uint64_t limit = FF_PIXEL_LIMIT;
    assert_ok(ff_decode(decoder, png.bytes, png.length,
                        &(ff_decode_options){.mode = FF_MODE_RGB, .pixel_limit = limit}, NULL,
                        &image, error));
    assert_int_equal(image.channels, 3);
    assert_memory_equal(image.pixels, rgb, 12);
    assert_ok(ff_decode(decoder, png.bytes, png.length,
                        &(ff_decode_options){.mode = FF_MODE_NATIVE, .pixel_limit = limit}, NULL,
                        &image, error));
    assert_int_equal(image.channels, 3);
    assert_ok(ff_decode(decoder, png.bytes, png.length,
                        &(ff_decode_options){.mode = FF_MODE_GRAY, .pixel_limit = limit}, NULL,
                        &image, error));
    assert_int_equal(image.channels, 1);
    assert_memory_equal(image.pixels, gray, 4);
    free_file(&png);
    png = make_png(4, 1, 1, 0, NULL, 0, raw, sizeof raw);
    assert_ok(ff_decode(decoder, png.bytes, png.length,
                        &(ff_decode_options){.mode = FF_MODE_NATIVE, .pixel_limit = limit}, NULL,
                        &image, error));
    assert_int_equal(image.channels, 1);
    assert_memory_equal(image.pixels, black_white, 4);
    free_file(&png);
    for (int mode = 0; mode < FF_MODE_COUNT; mode++)
        for (uint32_t native = 1; native <= 3; native += 2)
            assert_int_equal(ff_image_mode_channels((ff_image_mode)mode, native),
                             mode == FF_MODE_RGB    ? 3
                             : mode == FF_MODE_GRAY ? 1
                                                    : native);
    assert_string_equal(ff_image_mode_name(FF_MODE_NATIVE), "native");
    ff_image_free(&image);
    ff_decoder_destroy(&decoder);
}

/* A JPEG that lacks its own tables must not be decoded with those of the previous image. */
static void test_nothing_stays_from_image_to_image(void **unused) {
    (void)unused;
    file jpeg = make_jpeg(16, 16, &as_444);
    file broken = copy_file(&jpeg, jpeg.length);
    uint8_t *table = memmem(broken.bytes, broken.length, "\xff\xdb", 2);
    assert_non_null(table);
    table[1] = 0xec; /* turns the quantization table into an application marker */
    ff_decoder *decoder = make_decoder();
    ff_image image = {0};
    ff_error failure;
    assert_ok(ff_decode(decoder, jpeg.bytes, jpeg.length,
                        &(ff_decode_options){.mode = FF_MODE_RGB, .pixel_limit = FF_PIXEL_LIMIT},
                        NULL, &image, error));
    assert_int_equal(
        ff_decode(decoder, broken.bytes, broken.length,
                  &(ff_decode_options){.mode = FF_MODE_RGB, .pixel_limit = FF_PIXEL_LIMIT}, NULL,
                  &image, &failure),
        FF_BAD_DATA);
    assert_non_null(strstr(failure.message, "broken JPEG"));
    free_file(&jpeg);
    free_file(&broken);
    ff_image_free(&image);
    ff_decoder_destroy(&decoder);
}

/* Stray bytes between markers: decoded as Pillow does, and reported. */
static void test_warning(void **unused) {
    (void)unused;
    file jpeg = make_jpeg(16, 16, &as_444);
    file odd = copy_file(&jpeg, jpeg.length);
    odd.bytes = realloc(odd.bytes, odd.length + 3);
    assert_non_null(odd.bytes);
    memmove(odd.bytes + 2 + 18 + 3, odd.bytes + 2 + 18, odd.length - 20);
    memcpy(odd.bytes + 20, "abc", 3);
    odd.length += 3;
    ff_decoder *decoder = make_decoder();
    ff_image image = {0}, odd_image = {0};
    assert_ok(ff_decode(decoder, odd.bytes, odd.length,
                        &(ff_decode_options){.mode = FF_MODE_RGB, .pixel_limit = FF_PIXEL_LIMIT},
                        NULL, &odd_image, error));
    assert_non_null(ff_decoder_warning(decoder));
    assert_non_null(strstr(ff_decoder_warning(decoder), "3 extraneous bytes"));
    assert_ok(ff_decode(decoder, jpeg.bytes, jpeg.length,
                        &(ff_decode_options){.mode = FF_MODE_RGB, .pixel_limit = FF_PIXEL_LIMIT},
                        NULL, &image, error));
    assert_null(ff_decoder_warning(decoder));
    assert_memory_equal(image.pixels, odd_image.pixels, 16 * 16 * 3);
    free_file(&jpeg);
    free_file(&odd);
    ff_image_free(&image);
    ff_image_free(&odd_image);
    ff_decoder_destroy(&decoder);
}

/* Every pixel of a region of the upright image is where the stored region says. */
/* With allow_truncated a truncated image of every kind is filled, and reported. */
static void test_filled(void **unused) {
    (void)unused;
    static const struct {
        const char *bytes;
        size_t length;
        uint8_t first, last; /* values */
    } cases[] = {
        {"P5 2 2 255\nab", 13, 'a', 0},
        {"BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\1\0\0\0\2\0\0\0\1\0\x18\0\0\0\0\0\0\0\0\0\0\0"
         "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\7\7\7\0",
         58, 0, 7},
        {"GIF87a\2\0\2\0\0\0\0,\0\0\0\0\2\0\2\0\0\2\1\x0c", 26, 1, 0},
        {"II*\0\x08\0\0\0\5\0\0\1\4\0\1\0\0\0\1\0\0\0\1\1\4\0\1\0\0\0\2\0\0\0\2\1\3\0\1\0\0\0"
         "\x08\0\0\0\6\1\3\0\1\0\0\0\1\0\0\0\x11\1\4\0\1\0\0\0\x46\0\0\0\x05",
         71, 5, 0},
    };
    ff_decoder *decoder = make_decoder();
    ff_image image = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const file given = {(uint8_t *)(size_t)cases[i].bytes, cases[i].length};
        file copy = copy_file(&given, given.length);
        assert_refused(&copy, FF_PIXEL_LIMIT, "truncated");
        ff_error error = {0};
        const ff_decode_options options = {
            .mode = FF_MODE_GRAY, .pixel_limit = FF_PIXEL_LIMIT, .allow_truncated = true};
        if (ff_decode(decoder, copy.bytes, copy.length, &options, NULL, &image, &error) != FF_OK)
            fail_msg("case %zu: %s", i, error.message);
        assert_non_null(ff_decoder_warning(decoder));
        assert_int_equal(image.pixels[0], cases[i].first);
        assert_int_equal(image.pixels[image.width * image.height - 1], cases[i].last);
        free_file(&copy);
    }
    /* Except for a plain PPM, which Pillow cannot fill. */
    ff_error error = {0};
    const ff_decode_options options = {
        .mode = FF_MODE_GRAY, .pixel_limit = FF_PIXEL_LIMIT, .allow_truncated = true};
    assert_int_equal(
        ff_decode(decoder, (const uint8_t *)"P2 2 2 255\n1 2", 14, &options, NULL, &image, &error),
        FF_BAD_DATA);
    assert_non_null(strstr(error.message, "truncated PPM"));
    ff_image_free(&image);
    ff_decoder_destroy(&decoder);
}

/* Filters are 0 to 4: a damaged PNG ends at a row with any other. */
static void test_png_without_filter(void **unused) {
    (void)unused;
    ff_decoder *decoder = make_decoder();
    ff_image image = {0};
    for (uint8_t filter = 4; filter <= 6; filter++) {
        const uint8_t rows[] = {0, 10, filter, 20, 0, 30};
        file png = make_png(1, 3, 8, 0, NULL, 0, rows, sizeof rows);
        ff_error failure = {0};
        ff_decode_options options = {.mode = FF_MODE_GRAY, .pixel_limit = FF_PIXEL_LIMIT};
        const ff_status status =
            ff_decode(decoder, png.bytes, png.length, &options, NULL, &image, &failure);
        assert_int_equal(status, filter > 4 ? FF_BAD_DATA : FF_OK);
        options.allow_truncated = true;
        assert_ok(ff_decode(decoder, png.bytes, png.length, &options, NULL, &image, error));
        assert_int_equal(image.pixels[0], 10);
        assert_int_equal(image.pixels[1], filter > 4 ? 0 : 30);
        assert_int_equal(image.pixels[2], filter > 4 ? 0 : 30);
        free_file(&png);
    }
    ff_image_free(&image);
    ff_decoder_destroy(&decoder);
}

static void test_upright_regions(void **unused) {
    (void)unused;
    enum { WIDTH = 7, HEIGHT = 5 };
    uint8_t pixels[WIDTH * HEIGHT];
    for (int i = 0; i < WIDTH * HEIGHT; i++) pixels[i] = (uint8_t)i;
    const ff_image stored = {.pixels = pixels, .width = WIDTH, .height = HEIGHT, .channels = 1};
    ff_image upright = {0};
    for (unsigned orientation = 1; orientation <= 8; orientation++) {
        assert_ok(ff_upright_turn(&stored, orientation, &upright, error));
        bool swaps = ff_upright_swaps(orientation);
        assert_int_equal(upright.width, swaps ? HEIGHT : WIDTH);
        assert_int_equal(upright.height, swaps ? WIDTH : HEIGHT);
        const ff_region region = {1, 2, 3, 2};
        ff_region from = ff_upright_stored_region(orientation, &region, WIDTH, HEIGHT);
        assert_true(from.width == (swaps ? 2 : 3) && from.height == (swaps ? 3 : 2));
        for (uint32_t y = region.top; y < region.top + region.height; y++) {
            for (uint32_t x = region.left; x < region.left + region.width; x++) {
                unsigned place = upright.pixels[y * upright.width + x];
                assert_in_range(place % WIDTH, from.left, from.left + from.width - 1);
                assert_in_range(place / WIDTH, from.top, from.top + from.height - 1);
            }
        }
    }
    ff_image_free(&upright);
}

/* A JPEG with an orientation. */
static file make_turned_jpeg(int width, int height, uint8_t orientation) {
    const uint8_t exif[] = {0xff, 0xe1, 0, 34, 'E',         'x', 'i', 'f', 0,    0, 'I', 'I',
                            42,   0,    8, 0,  0,           0,   1,   0,   0x12, 1, 3,   0,
                            1,    0,    0, 0,  orientation, 0,   0,   0,   0,    0, 0,   0};
    file jpeg = make_jpeg(width, height, &as_420);
    jpeg.bytes = realloc(jpeg.bytes, jpeg.length + sizeof exif);
    assert_non_null(jpeg.bytes);
    memmove(jpeg.bytes + 2 + sizeof exif, jpeg.bytes + 2, jpeg.length - 2);
    memcpy(jpeg.bytes + 2, exif, sizeof exif);
    jpeg.length += sizeof exif;
    return jpeg;
}

/* A region of a turned image, too, has the same values as in the whole image. */
static void test_turned_parts(void **unused) {
    (void)unused;
    const ff_region needed = {100, 21, 30, 11};
    const ff_decode_options options = {
        .mode = FF_MODE_RGB, .pixel_limit = FF_PIXEL_LIMIT, .exif = true};
    ff_decoder *decoder = make_decoder();
    ff_image whole = {0}, part = {0};
    for (uint8_t orientation = 1; orientation <= 8; orientation++) {
        bool swaps = ff_upright_swaps(orientation);
        file jpeg = make_turned_jpeg(swaps ? 90 : 200, swaps ? 200 : 90, orientation);
        assert_ok(ff_decode(decoder, jpeg.bytes, jpeg.length, &options, NULL, &whole, error));
        assert_true(whole.width == 200 && whole.height == 90);
        assert_ok(ff_image_reshape(&part, 200, 90, 3, error));
        memset(part.pixels, 0x55, 200 * 90 * 3);
        ff_decoder_destroy(&decoder); /* it holds the whole image, as stored */
        decoder = make_decoder();
        assert_ok(ff_decode(decoder, jpeg.bytes, jpeg.length, &options, &needed, &part, error));
        assert_true(part.width == 200 && part.height == 90);
        for (uint32_t y = needed.top; y < needed.top + needed.height; y++) {
            size_t at = (y * (size_t)200 + needed.left) * 3;
            assert_memory_equal(part.pixels + at, whole.pixels + at, needed.width * 3);
        }
        free_file(&jpeg);
    }
    ff_image_free(&whole);
    ff_image_free(&part);
    ff_decoder_destroy(&decoder);
}

/* probe gives the upright image's size where requested. */
static void test_probe_upright(void **unused) {
    (void)unused;
    file jpeg = make_turned_jpeg(31, 17, 6);
    ff_decode_options options = {.pixel_limit = FF_PIXEL_LIMIT};
    ff_image_info info;
    assert_ok(ff_decode_probe(jpeg.bytes, jpeg.length, &options, &info, error));
    assert_true(info.width == 31 && info.height == 17);
    options.exif = true;
    assert_ok(ff_decode_probe(jpeg.bytes, jpeg.length, &options, &info, error));
    assert_true(info.width == 17 && info.height == 31);
    free_file(&jpeg);
}

/* Every pixel, the first and the last too; grey is rounded as Pillow rounds it. */
/* The orientation of a PNG with one text chunk. */
static unsigned orientation_of(const char *chunk, const char *key, const char *text) {
    uint8_t data[600];
    size_t key_bytes = strlen(key) + 1, bytes = key_bytes;
    memcpy(data, key, key_bytes);
    if (!strcmp(chunk, "iTXt")) {
        memset(data + bytes, 0, 4); /* not compressed, no language, no translated keyword */
        bytes += 4;
    }
    memcpy(data + bytes, text, strlen(text));
    file png = make_png(1, 1, 8, 0, NULL, 0, (const uint8_t[2]){0, 7}, 2);
    png.length -= 12; /* the end */
    add_chunk(&png, chunk, data, (uint32_t)(bytes + strlen(text)));
    add_chunk(&png, "IEND", NULL, 0);
    unsigned orientation = ff_png_orientation(png.bytes, png.length);
    free_file(&png);
    return orientation;
}

/* XMP, and EXIF in hexadecimal digits after a line with their count. */
static void test_png_orientation(void **unused) {
    (void)unused;
    for (unsigned want = 0; want <= 9; want++) {
        unsigned valid = want >= 1 && want <= 8 ? want : FF_EXIF_UPRIGHT;
        char text[300];
        snprintf(text, sizeof text, "<x tiff:Orientation=\"%u\"/>", want);
        assert_int_equal(orientation_of("iTXt", "XML:com.adobe.xmp", text), valid);
        snprintf(text, sizeof text, "<tiff:Orientation>%u</tiff:Orientation>", want);
        assert_int_equal(orientation_of("iTXt", "XML:com.adobe.xmp", text), valid);
        /* A big-endian TIFF with one entry, with and without the "Exif" prefix. */
        char digits[200];
        snprintf(digits, sizeof digits, "4d4d002a0000000800010112000300000001000%u0000\n00000000\n",
                 want);
        snprintf(text, sizeof text, "\nexif\n      26\n%s", digits);
        assert_int_equal(orientation_of("tEXt", "Raw profile type exif", text), valid);
        snprintf(text, sizeof text, "\nexif\n      32\n457869660000%s", digits);
        assert_int_equal(orientation_of("tEXt", "Raw profile type exif", text), valid);
    }
    assert_int_equal(orientation_of("tEXt", "Raw profile type exif", "\nexif\n"), FF_EXIF_NONE);
    assert_int_equal(orientation_of("tEXt", "Title", "tiff:Orientation=\"6\""), FF_EXIF_NONE);
}

static void test_colours_and_greys(void **unused) {
    (void)unused;
    enum { COUNT = 256 };
    ff_image image = {0};
    assert_ok(ff_image_reshape(&image, COUNT, 1, 1, error));
    for (int i = 0; i < COUNT; i++) image.pixels[i] = (uint8_t)(255 - i);
    assert_ok(ff_image_to_rgb(&image, error));
    for (int i = 0; i < 3 * COUNT; i++) assert_int_equal(image.pixels[i], 255 - i / 3);
    /* A sample of all colours, and all whose weighted sum ends in exactly a half. */
    uint32_t at_half = 0;
    for (uint32_t r = 0; r < 256; r++)
        for (uint32_t g = 0; g < 256; g++)
            for (uint32_t b = 0; b < 256; b++) {
                uint32_t sum = r * 19595 + g * 38470 + b * 7471;
                if (sum % 65536 != 0x8000 && (r + g + b) % 97) continue;
                at_half += sum % 65536 == 0x8000;
                image.channels = 3;
                image.width = 1;
                image.pixels[0] = (uint8_t)r;
                image.pixels[1] = (uint8_t)g;
                image.pixels[2] = (uint8_t)b;
                ff_image_to_gray(&image);
                assert_int_equal(image.pixels[0], (sum + 0x8000) >> 16);
            }
    assert_true(at_half > 0);
    ff_image_free(&image);
}

static void test_image_grows_only(void **unused) {
    (void)unused;
    ff_decoder *decoder = make_decoder();
    ff_image image = {0};
    file large = make_jpeg(64, 64, &as_420), small = make_jpeg(8, 8, &as_grey);
    assert_ok(ff_decode(decoder, large.bytes, large.length,
                        &(ff_decode_options){.mode = FF_MODE_RGB, .pixel_limit = FF_PIXEL_LIMIT},
                        NULL, &image, error));
    const uint8_t *pixels = image.pixels;
    for (int i = 0; i < 3; i++) {
        const file *of = i % 2 ? &large : &small;
        assert_ok(
            ff_decode(decoder, of->bytes, of->length,
                      &(ff_decode_options){.mode = FF_MODE_RGB, .pixel_limit = FF_PIXEL_LIMIT},
                      NULL, &image, error));
        assert_ptr_equal(image.pixels, pixels);
    }
    free_file(&large);
    free_file(&small);
    ff_image_free(&image);
    ff_image_free(NULL);
    ff_decoder_destroy(&decoder);
    assert_null(decoder);
    ff_decoder_destroy(&decoder);
    ff_decoder_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_by_content),
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_pixel_limit),
        cmocka_unit_test(test_headers_refused),
        cmocka_unit_test(test_cut_jpeg),
        cmocka_unit_test(test_damaged_png),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_nothing_stays_from_image_to_image),
        cmocka_unit_test(test_warning),
        cmocka_unit_test(test_filled),
        cmocka_unit_test(test_upright_regions),
        cmocka_unit_test(test_turned_parts),
        cmocka_unit_test(test_probe_upright),
        cmocka_unit_test(test_png_without_filter),
        cmocka_unit_test(test_png_orientation),
        cmocka_unit_test(test_colours_and_greys),
        cmocka_unit_test(test_image_grows_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
