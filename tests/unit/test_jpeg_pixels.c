/* Parts of JPEGs: the pixels of random regions are those of the whole decode, for every sampling,
 * size and encoding; for odd data the whole image is decoded. (tests/exact compares reduced ones
 * with Pillow's.) */
#include <stdint.h>
#include <stdio.h>

#include "tests/unit/check.h"
#include "tests/unit/make_jpeg.h"
#include "tools/ffpack/decode/jpeg_pixels.h"

static const ff_decode_options as_is = {.mode = FF_MODE_NATIVE, .pixel_limit = FF_PIXEL_LIMIT};

static ff_region draw_region(uint32_t width, uint32_t height) {
    ff_region region = {.left = roll(&luck, width), .top = roll(&luck, height)};
    region.width = 1 + roll(&luck, width - region.left);
    region.height = 1 + roll(&luck, height - region.top);
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
    assert_ok(ff_decode(decoder, jpeg->bytes, jpeg->length, &as_is, NULL, &whole, error));
    for (int i = 0; i < 12; i++) {
        ff_region needed = draw_region(whole.width, whole.height);
        ff_jpeg_frame frame = {whole.width, whole.height, components, !read_in_part};
        assert_ok(ff_image_reshape(&part, whole.width, whole.height, whole.channels, error));
        memset(part.pixels, 0x5a, part.capacity_bytes);
        bool read = ff_jpeg_read_part(jpeg->bytes, jpeg->length, &frame, &needed, part.pixels);
        assert_int_equal(read, read_in_part);
        if (read) assert_region(&part, &whole, &needed);
        assert_ok(ff_decode(decoder, jpeg->bytes, jpeg->length, &as_is, &needed, &part, error));
        assert_region(&part, &whole, &needed);
    }
    ff_image_free(&whole);
    ff_image_free(&part);
}

static void test_regions(void **unused) {
    (void)unused;
    static const int sampling[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}, {4, 2}};
    ff_decoder *decoder;
    assert_ok(ff_decoder_create(&decoder, error));
    for (size_t s = 0; s < sizeof sampling / sizeof sampling[0]; s++) {
        for (int i = 0; i < 48; i++) {
            way how = {
                sampling[s][0],           sampling[s][1],        3, .progressive = i % 8 == 7,
                .arithmetic = i % 8 == 6, .restarts = i % 4 == 1};
            if (i % 8 == 5) how = (way){1, 1, 1, .restarts = roll(&luck, 2)};
            uint32_t most = roll(&luck, 2) ? 40 : 200;
            file jpeg = make_jpeg(1 + roll(&luck, most), 1 + roll(&luck, most), &how);
            check(decoder, &jpeg, (uint32_t)how.components, !how.progressive);
            free(jpeg.bytes);
        }
    }
    ff_decoder_destroy(&decoder);
}

/* Cut at every byte: refused for any region, except for the end marker, which Pillow does not need
 * if the last row is already decoded: that is reported. */
static void test_cut_off(void **unused) {
    (void)unused;
    static const ff_region top = {0, 0, 20, 4};
    ff_decoder *decoder;
    assert_ok(ff_decoder_create(&decoder, error));
    unsigned without_marker = 0;
    for (int i = 0; i < 24; i++) {
        file jpeg =
            make_jpeg(60, 70, &(way){2, 2, 3, .progressive = i % 4 == 3, .restarts = i % 2});
        ff_image whole = {0}, image = {0};
        ff_error failure;
        assert_ok(ff_decode(decoder, jpeg.bytes, jpeg.length, &as_is, NULL, &whole, error));
        assert_null(ff_decoder_warning(decoder));
        for (size_t length = i < 4 ? 0 : jpeg.length - 40; length < jpeg.length; length++) {
            ff_status status =
                ff_decode(decoder, jpeg.bytes, length, &as_is, NULL, &image, &failure);
            if (status == FF_OK) {
                without_marker++;
                assert_in_range(length, jpeg.length - 2, jpeg.length - 1);
                assert_non_null(strstr(ff_decoder_warning(decoder), "lack the end marker"));
                assert_region(&image, &whole, &(ff_region){0, 0, 60, 70});
            } else {
                assert_int_equal(status, FF_BAD_DATA);
                if (length >= 3) assert_non_null(strstr(failure.message, "truncated JPEG: its "));
            }
            assert_int_equal(ff_decode(decoder, jpeg.bytes, length, &as_is, &top, &image, &failure),
                             status);
            if (status == FF_OK) assert_region(&image, &whole, &top);
        }
        assert_ok(ff_decode(decoder, jpeg.bytes, jpeg.length, &as_is, &top, &image, error));
        assert_null(ff_decoder_warning(decoder));
        free(jpeg.bytes);
        ff_image_free(&image);
        ff_image_free(&whole);
    }
    assert_in_range(without_marker, 1, 24);
    ff_decoder_destroy(&decoder);
}

/* Changed bytes: the same messages and pixels as the whole decode. */
static void test_damage(void **unused) {
    (void)unused;
    ff_decoder *decoder;
    assert_ok(ff_decoder_create(&decoder, error));
    ff_image whole = {0}, part = {0};
    for (int i = 0; i < 60; i++) {
        file jpeg = make_jpeg(40 + roll(&luck, 30), 40 + roll(&luck, 30),
                              &(way){2, 1 + i % 2, 3, .restarts = i % 3});
        for (int k = 0; k < 30; k++) {
            size_t at = 2 + roll(&luck, (uint32_t)jpeg.length - 2);
            uint8_t was = jpeg.bytes[at];
            jpeg.bytes[at] = (uint8_t)roll(&luck, 256);
            ff_error failure;
            ff_status status =
                ff_decode(decoder, jpeg.bytes, jpeg.length, &as_is, NULL, &whole, &failure);
            uint32_t width = status == FF_OK ? whole.width : 10;
            uint32_t height = status == FF_OK ? whole.height : 10;
            ff_region needed = draw_region(width, height);
            assert_int_equal(
                ff_decode(decoder, jpeg.bytes, jpeg.length, &as_is, &needed, &part, &failure),
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
    assert_ok(ff_decoder_create(&decoder, error));
    ff_image image = {0};
    for (int i = 0; i < 40; i++) {
        uint32_t width = 1 + roll(&luck, 60), height = 1 + roll(&luck, 60);
        file jpeg = make_jpeg(width, height, &(way){2, 2, 3, .progressive = i % 2});
        ff_decode_options options = as_is;
        for (options.reduction = 1; options.reduction <= 8; options.reduction *= 2) {
            ff_region needed = draw_region(width, height);
            assert_ok(
                ff_decode(decoder, jpeg.bytes, jpeg.length, &options, &needed, &image, error));
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
