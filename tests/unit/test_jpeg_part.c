/* Parts of JPEGs: the pixels of random regions are those of the whole decode, for every sampling,
 * size and way to store; parts of odd data are left to the whole decode. (tests/exact compares
 * reduced ones with Pillow's.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tools/ffpack/decode/decode.h"
#include "tools/ffpack/decode/jpeg_part.h"

#include <jpeglib.h>
#include <stdlib.h>
#include <string.h>

static uint32_t state = 99;
static uint32_t draw(uint32_t bound) {
    state = state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)state * bound) >> 32);
}

typedef struct way {
    int across, down; /* of the first component's sampling */
    int components;
    bool progressive, arithmetic, restarts;
} way;

typedef struct file {
    uint8_t *bytes;
    size_t length;
} file;

/* Noise over waves: neighbouring blocks differ, so that a wrong neighbour shows. */
static file make_jpeg(uint32_t width, uint32_t height, const way *how) {
    struct jpeg_compress_struct library;
    struct jpeg_error_mgr messages;
    unsigned char *made = NULL;
    unsigned long length = 0;
    library.err = jpeg_std_error(&messages);
    jpeg_create_compress(&library);
    jpeg_mem_dest(&library, &made, &length);
    library.image_width = width;
    library.image_height = height;
    library.input_components = how->components;
    library.in_color_space = how->components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&library);
    jpeg_set_quality(&library, 60 + (int)draw(40), TRUE);
    library.comp_info[0].h_samp_factor = how->across;
    library.comp_info[0].v_samp_factor = how->down;
    if (how->progressive) jpeg_simple_progression(&library);
    library.arith_code = how->arithmetic;
    library.restart_interval = how->restarts ? 1 + draw(9) : 0;
    jpeg_start_compress(&library, TRUE);
    size_t values = (size_t)width * (size_t)how->components;
    uint8_t *row = malloc(values);
    assert_non_null(row);
    while (library.next_scanline < height) {
        for (size_t i = 0; i < values; i++)
            row[i] = (uint8_t)(i * 7 + library.next_scanline * 11 + draw(60));
        jpeg_write_scanlines(&library, &row, 1);
    }
    free(row);
    jpeg_finish_compress(&library);
    jpeg_destroy_compress(&library);
    file jpeg = {malloc(length), length};
    assert_non_null(jpeg.bytes);
    memcpy(jpeg.bytes, made, length);
    free(made);
    return jpeg;
}

static const ff_decode_options as_is = {.mode = FF_MODE_NATIVE, .pixel_limit = FF_PIXEL_LIMIT};

static ff_region draw_region(uint32_t width, uint32_t height) {
    ff_region region = {.left = draw(width), .top = draw(height)};
    region.width = 1 + draw(width - region.left);
    region.height = 1 + draw(height - region.top);
    return region;
}

static void assert_region(const ff_image *part, const ff_image *whole, const ff_region *region) {
    assert_int_equal(part->width, whole->width);
    assert_int_equal(part->height, whole->height);
    assert_int_equal(part->channels, whole->channels);
    for (uint32_t y = 0; y < region->height; y++) {
        size_t at = ((size_t)(region->top + y) * whole->width + region->left) * whole->channels;
        assert_memory_equal(part->pixels + at, whole->pixels + at,
                            (size_t)region->width * whole->channels);
    }
}

static void check(ff_decoder *decoder, const file *jpeg, uint32_t components, bool read_in_part) {
    ff_image whole = {0}, part = {0};
    ff_error error;
    assert_int_equal(ff_decode(decoder, jpeg->bytes, jpeg->length, &as_is, NULL, &whole, &error),
                     FF_OK);
    for (int i = 0; i < 12; i++) {
        ff_region needed = draw_region(whole.width, whole.height);
        ff_jpeg_part asked = {whole.width, whole.height, components, &needed, 1};
        assert_int_equal(ff_image_reshape(&part, whole.width, whole.height, whole.channels, NULL),
                         FF_OK);
        memset(part.pixels, 0x5a, part.capacity_bytes);
        bool read = ff_jpeg_read_part(jpeg->bytes, jpeg->length, &asked, part.pixels);
        assert_int_equal(read, read_in_part);
        if (read) assert_region(&part, &whole, &needed);
        assert_int_equal(
            ff_decode(decoder, jpeg->bytes, jpeg->length, &as_is, &needed, &part, &error), FF_OK);
        assert_region(&part, &whole, &needed);
    }
    ff_image_free(&whole);
    ff_image_free(&part);
}

static void test_regions(void **unused) {
    (void)unused;
    static const int sampling[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}, {4, 2}};
    ff_decoder *decoder;
    assert_int_equal(ff_decoder_create(&decoder, NULL), FF_OK);
    for (size_t s = 0; s < sizeof sampling / sizeof sampling[0]; s++) {
        for (int i = 0; i < 48; i++) {
            way how = {sampling[s][0], sampling[s][1], 3, i % 8 == 7, i % 8 == 6, i % 4 == 1};
            if (i % 8 == 5) how = (way){1, 1, 1, false, false, draw(2)};
            uint32_t most = draw(2) ? 40 : 200;
            file jpeg = make_jpeg(1 + draw(most), 1 + draw(most), &how);
            check(decoder, &jpeg, (uint32_t)how.components, !how.progressive);
            free(jpeg.bytes);
        }
    }
    ff_decoder_destroy(&decoder);
}

/* Cut at every byte: the whole decode refuses, whatever the region. */
static void test_cut_off(void **unused) {
    (void)unused;
    ff_decoder *decoder;
    assert_int_equal(ff_decoder_create(&decoder, NULL), FF_OK);
    for (int restarts = 0; restarts < 2; restarts++) {
        file jpeg = make_jpeg(60, 70, &(way){2, 2, 3, false, false, restarts});
        ff_image image = {0};
        ff_region top = {0, 0, 20, 4};
        ff_error error;
        for (size_t length = 0; length < jpeg.length; length++)
            assert_int_equal(ff_decode(decoder, jpeg.bytes, length, &as_is, &top, &image, &error),
                             FF_BAD_DATA);
        assert_int_equal(ff_decode(decoder, jpeg.bytes, jpeg.length, &as_is, &top, &image, &error),
                         FF_OK);
        assert_null(ff_decoder_warning(decoder));
        free(jpeg.bytes);
        ff_image_free(&image);
    }
    ff_decoder_destroy(&decoder);
}

/* Changed bytes: what the whole decode says, and its pixels. */
static void test_damage(void **unused) {
    (void)unused;
    ff_decoder *decoder;
    assert_int_equal(ff_decoder_create(&decoder, NULL), FF_OK);
    ff_image whole = {0}, part = {0};
    for (int i = 0; i < 60; i++) {
        file jpeg = make_jpeg(40 + draw(30), 40 + draw(30), &(way){2, 1 + i % 2, 3, 0, 0, i % 3});
        for (int k = 0; k < 30; k++) {
            size_t at = 2 + draw((uint32_t)jpeg.length - 2);
            uint8_t was = jpeg.bytes[at];
            jpeg.bytes[at] = (uint8_t)draw(256);
            ff_error error;
            ff_status status =
                ff_decode(decoder, jpeg.bytes, jpeg.length, &as_is, NULL, &whole, &error);
            uint32_t width = status == FF_OK ? whole.width : 10;
            uint32_t height = status == FF_OK ? whole.height : 10;
            ff_region needed = draw_region(width, height);
            assert_int_equal(
                ff_decode(decoder, jpeg.bytes, jpeg.length, &as_is, &needed, &part, &error),
                status);
            if (status == FF_OK) assert_region(&part, &whole, &needed);
            jpeg.bytes[at] = was;
        }
        free(jpeg.bytes);
    }
    ff_image_free(&whole);
    ff_image_free(&part);
    ff_decoder_destroy(&decoder);
}

static void test_reduced_sizes(void **unused) {
    (void)unused;
    ff_decoder *decoder;
    assert_int_equal(ff_decoder_create(&decoder, NULL), FF_OK);
    ff_image image = {0};
    for (int i = 0; i < 40; i++) {
        uint32_t width = 1 + draw(60), height = 1 + draw(60);
        file jpeg = make_jpeg(width, height, &(way){2, 2, 3, i % 2, false, false});
        ff_decode_options options = as_is;
        for (options.reduction = 1; options.reduction <= 8; options.reduction *= 2) {
            ff_region needed = draw_region(width, height);
            assert_int_equal(
                ff_decode(decoder, jpeg.bytes, jpeg.length, &options, &needed, &image, NULL),
                FF_OK);
            assert_int_equal(image.width, (width + options.reduction - 1) / options.reduction);
            assert_int_equal(image.height, (height + options.reduction - 1) / options.reduction);
        }
        free(jpeg.bytes);
    }
    ff_image_free(&image);
    ff_decoder_destroy(&decoder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regions),
        cmocka_unit_test(test_cut_off),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_reduced_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
