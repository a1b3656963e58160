/* Resize and geometry: against sums in double, against Pillow's values, and windows against whole
 * images. (tests/exact compares with Pillow itself.) */
#include <stdint.h>

#include "format/disk/metadata.h"
#include "tests/unit/check.h"
#include "tests/unit/dice.h"
#include "tools/ffpack/image/geometry.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static dice luck;

static void make_image(ff_image *image, uint32_t width, uint32_t height, uint32_t channels) {
    assert_ok(ff_image_reshape(image, width, height, channels, error));
    for (size_t i = 0; i < (size_t)width * height * channels; i++)
        image->pixels[i] = (uint8_t)roll(&luck, 256);
}

static void assert_same(const ff_image *a, const ff_image *b) {
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->height, b->height);
    assert_int_equal(a->channels, b->channels);
    assert_memory_equal(a->pixels, b->pixels, (size_t)a->width * a->height * a->channels);
}

static void resize_whole(const ff_image *input, uint32_t width, uint32_t height,
                         ff_interpolation interpolation, ff_pass_order order, ff_image *output) {
    ff_resize_scratch scratch = {0};
    ff_region window = {0, 0, width, height};
    assert_ok(
        ff_resize(input, width, height, interpolation, order, &window, &scratch, output, error));
    ff_resize_scratch_free(&scratch);
}

/* Values from Pillow 9.4: Image.resize of the grey row 0 10 200 255 3 77 90. */
static void test_rows_of_pillow(void **unused) {
    (void)unused;
    static const uint8_t row[] = {0, 10, 200, 255, 3, 77, 90};
    static const struct {
        uint32_t size;
        ff_interpolation interpolation;
        uint8_t want[12];
    } cases[] = {
        {1, FF_BILINEAR, {103}},
        {2, FF_BILINEAR, {96, 98}},
        {3, FF_BILINEAR, {47, 158, 66}},
        {5, FF_BILINEAR, {3, 116, 199, 36, 86}},
        {7, FF_BILINEAR, {0, 10, 200, 255, 3, 77, 90}},
        {12, FF_BILINEAR, {0, 4, 10, 113, 207, 239, 181, 35, 37, 78, 85, 90}},
        {1, FF_BICUBIC, {99}},
        {2, FF_BICUBIC, {99, 99}},
        {3, FF_BICUBIC, {47, 164, 62}},
        {5, FF_BICUBIC, {0, 123, 217, 30, 90}},
        {7, FF_BICUBIC, {0, 10, 200, 255, 3, 77, 90}},
        {12, FF_BICUBIC, {0, 0, 6, 112, 215, 255, 194, 21, 18, 79, 89, 91}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ff_image input = {0}, across = {0}, down = {0};
        make_image(&input, 7, 1, 1);
        memcpy(input.pixels, row, 7);
        resize_whole(&input, cases[i].size, 1, cases[i].interpolation, FF_HORIZONTAL_FIRST,
                     &across);
        assert_memory_equal(across.pixels, cases[i].want, cases[i].size);
        input.width = 1;
        input.height = 7;
        resize_whole(&input, 1, cases[i].size, cases[i].interpolation, FF_HORIZONTAL_FIRST, &down);
        assert_memory_equal(down.pixels, cases[i].want, cases[i].size);
        ff_image_free(&input);
        ff_image_free(&across);
        ff_image_free(&down);
    }
}

/* The weights of every output sum to one, up to the rounding of each. */
static void test_weights_sum_to_one(void **unused) {
    (void)unused;
    ff_resize_axis axis = {0};
    ff_resize_scratch scratch = {0};
    for (int i = 0; i < 300; i++) {
        uint32_t in = 1 + roll(&luck, 200), out = 1 + roll(&luck, 200);
        uint32_t first = roll(&luck, out), count = 1 + roll(&luck, out - first);
        ff_interpolation interpolation = (ff_interpolation)roll(&luck, 2);
        assert_ok(ff_resize_axis_plan(&axis, in, out, first, count, interpolation, error));
        assert_int_equal(axis.count, count);
        for (uint32_t o = 0; o < count; o++) {
            int64_t sum = 0;
            assert_true(axis.taps[o] >= 1 && axis.taps[o] <= axis.stride);
            assert_true(axis.first[o] + axis.taps[o] <= in);
            for (uint32_t k = 0; k < axis.stride; k++) sum += axis.weight[o * axis.stride + k];
            assert_true(llabs(sum - (1 << 22)) <= axis.taps[o]);
        }
    }
    scratch.horizontal = axis;
    ff_resize_scratch_free(&scratch);
}

/* The filters, by their definitions; Keys' cubic with a = -0.5. */
static double filter_at(ff_interpolation interpolation, double x) {
    x = fabs(x);
    if (interpolation == FF_BILINEAR) return fmax(1 - x, 0);
    return x < 1   ? 1.5 * x * x * x - 2.5 * x * x + 1
           : x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2
                   : 0;
}

/* Every weight is the filter's value, as a share of their sum, rounded to the nearest. */
static void test_weights_are_rounded(void **unused) {
    (void)unused;
    ff_resize_axis axis = {0};
    int negative = 0;
    for (int i = 0; i < 200; i++) {
        uint32_t in = 1 + roll(&luck, 100), out = 1 + roll(&luck, 100);
        ff_interpolation interpolation = (ff_interpolation)roll(&luck, 2);
        double scale = (double)in / out, stretch = fmax(scale, 1);
        assert_ok(ff_resize_axis_plan(&axis, in, out, 0, out, interpolation, error));
        for (uint32_t o = 0; o < out; o++) {
            double sum = 0, center = (o + 0.5) * scale;
            for (uint32_t k = 0; k < axis.taps[o]; k++)
                sum += filter_at(interpolation, (axis.first[o] + k + 0.5 - center) / stretch);
            for (uint32_t k = 0; k < axis.taps[o]; k++) {
                double exact =
                    filter_at(interpolation, (axis.first[o] + k + 0.5 - center) / stretch) / sum;
                int32_t weight = axis.weight[(size_t)o * axis.stride + k];
                assert_true(fabs(weight - exact * (1 << 22)) < 0.5001);
                negative += weight < 0;
            }
        }
    }
    assert_true(negative > 100);
    ff_resize_axis_free(&axis);
}

/* One axis is reused by plan after plan: it always holds what was requested last. */
static void test_plans_are_kept_apart(void **unused) {
    (void)unused;
    static const uint32_t plans[][5] = {
        {40, 20, 0, 20, FF_BILINEAR}, {40, 20, 0, 20, FF_BICUBIC},  {40, 20, 5, 15, FF_BICUBIC},
        {40, 20, 5, 10, FF_BICUBIC},  {41, 20, 5, 10, FF_BICUBIC},  {41, 21, 5, 10, FF_BICUBIC},
        {41, 21, 5, 10, FF_BILINEAR}, {41, 21, 5, 10, FF_BILINEAR},
    };
    ff_resize_axis axis = {0};
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        const uint32_t *p = plans[i];
        ff_resize_axis fresh = {0};
        ff_interpolation interpolation = (ff_interpolation)p[4];
        assert_ok(ff_resize_axis_plan(&axis, p[0], p[1], p[2], p[3], interpolation, error));
        assert_ok(ff_resize_axis_plan(&fresh, p[0], p[1], p[2], p[3], interpolation, error));
        assert_int_equal(axis.stride, fresh.stride);
        assert_memory_equal(axis.first, fresh.first, p[3] * sizeof *fresh.first);
        assert_memory_equal(axis.taps, fresh.taps, p[3] * sizeof *fresh.taps);
        assert_memory_equal(axis.weight, fresh.weight,
                            (size_t)p[3] * fresh.stride * sizeof *fresh.weight);
        ff_resize_axis_free(&fresh);
    }
    ff_resize_axis_free(&axis);
}

static void test_window_is_a_crop_of_the_whole(void **unused) {
    (void)unused;
    ff_image input = {0}, whole = {0}, part = {0};
    ff_resize_scratch scratch = {0};
    for (int i = 0; i < 400; i++) {
        make_image(&input, 1 + roll(&luck, 60), 1 + roll(&luck, 60), 1 + roll(&luck, 4));
        /* One in four keeps an axis. */
        uint32_t width = roll(&luck, 4) ? 1 + roll(&luck, 80) : input.width;
        uint32_t height = roll(&luck, 4) ? 1 + roll(&luck, 80) : input.height;
        ff_interpolation interpolation = (ff_interpolation)roll(&luck, 2);
        ff_region window = {.left = roll(&luck, width), .top = roll(&luck, height)};
        window.width = 1 + roll(&luck, width - window.left);
        window.height = 1 + roll(&luck, height - window.top);
        ff_pass_order order = roll(&luck, 2) ? FF_CHEAPER_FIRST : FF_HORIZONTAL_FIRST;
        resize_whole(&input, width, height, interpolation, order, &whole);
        assert_ok(ff_resize(&input, width, height, interpolation, order, &window, &scratch, &part,
                            error));
        assert_int_equal(part.width, window.width);
        assert_int_equal(part.height, window.height);
        size_t row = (size_t)window.width * input.channels;
        for (uint32_t y = 0; y < window.height; y++)
            assert_memory_equal(part.pixels + y * row,
                                whole.pixels + ((size_t)(window.top + y) * width + window.left) *
                                                   input.channels,
                                row);
    }
    ff_image_free(&input);
    ff_image_free(&whole);
    ff_image_free(&part);
    ff_resize_scratch_free(&scratch);
}

/* Both passes as resizes of one axis each, in the order that Resample.c of Pillow 13.0 has. Sizes
 * beside the border between the orders, and far from it. */
static void test_order_of_the_passes(void **unused) {
    (void)unused;
    ff_image input = {0}, between = {0}, want = {0}, got = {0};
    int told_apart = 0;
    for (int i = 0; i < 600; i++) {
        make_image(&input, 1 + roll(&luck, 60), 1 + roll(&luck, 60), 1 + roll(&luck, 4));
        uint32_t width = 1 + roll(&luck, 80), height = 1 + roll(&luck, 80);
        int border = (int)input.height - 2 * ((int)input.width - (int)width) - 1 + roll(&luck, 3);
        if (roll(&luck, 2) && border > 0) height = (uint32_t)border;
        ff_interpolation interpolation = (ff_interpolation)roll(&luck, 2);
        bool first = input.height > height &&
                     (int)input.height - (int)height > 2 * ((int)input.width - (int)width);
        for (int order = 0; order < 2; order++) {
            bool down_first = order == FF_CHEAPER_FIRST && first;
            uint32_t then_width = down_first ? input.width : width;
            uint32_t then_height = down_first ? height : input.height;
            resize_whole(&input, then_width, then_height, interpolation, 0, &between);
            resize_whole(&between, width, height, interpolation, 0, &want);
            told_apart += order && memcmp(got.pixels, want.pixels,
                                          (size_t)width * height * input.channels) != 0;
            resize_whole(&input, width, height, interpolation, (ff_pass_order)order, &got);
            assert_same(&got, &want);
        }
    }
    assert_true(told_apart > 50);
    ff_image_free(&input);
    ff_image_free(&between);
    ff_image_free(&want);
    ff_image_free(&got);
}

/* Each channel of an image comes out as it would alone. */
static void test_channels_are_independent(void **unused) {
    (void)unused;
    ff_image input = {0}, output = {0}, one = {0}, one_output = {0};
    for (uint32_t channels = 2; channels <= 5; channels++) {
        make_image(&input, 31, 22, channels);
        resize_whole(&input, 13, 40, FF_BICUBIC, FF_HORIZONTAL_FIRST, &output);
        for (uint32_t c = 0; c < channels; c++) {
            make_image(&one, 31, 22, 1);
            for (size_t i = 0; i < 31 * 22; i++) one.pixels[i] = input.pixels[i * channels + c];
            resize_whole(&one, 13, 40, FF_BICUBIC, FF_HORIZONTAL_FIRST, &one_output);
            for (size_t i = 0; i < 13 * 40; i++)
                assert_int_equal(output.pixels[i * channels + c], one_output.pixels[i]);
        }
    }
    ff_image_free(&input);
    ff_image_free(&output);
    ff_image_free(&one);
    ff_image_free(&one_output);
}

static void test_flat_stays_flat(void **unused) {
    (void)unused;
    ff_image input = {0}, output = {0};
    for (int value = 0; value < 256; value += 5) {
        make_image(&input, 50, 37, 3);
        memset(input.pixels, value, 50 * 37 * 3);
        resize_whole(&input, 1 + roll(&luck, 90), 1 + roll(&luck, 90),
                     (ff_interpolation)roll(&luck, 2), FF_HORIZONTAL_FIRST, &output);
        for (size_t i = 0; i < (size_t)output.width * output.height * 3; i++)
            assert_int_equal(output.pixels[i], value);
    }
    ff_image_free(&input);
    ff_image_free(&output);
}

static void assert_size(const ff_geometry *geometry, uint32_t width, uint32_t height,
                        uint32_t want_width, uint32_t want_height) {
    uint32_t w, h;
    assert_ok(ff_geometry_output_size(geometry, width, height, &w, &h, error));
    assert_int_equal(w, want_width);
    assert_int_equal(h, want_height);
}

static void test_sizes(void **unused) {
    (void)unused;
    ff_geometry geometry = {0};
    assert_false(ff_geometry_is_fixed(&geometry));
    assert_size(&geometry, 31, 5, 31, 5);
    assert_ok(ff_geometry_parse_resize(&geometry, "--resize", "256", error));
    assert_false(ff_geometry_is_fixed(&geometry));
    assert_size(&geometry, 500, 375, 341, 256); /* 341.33 is cut */
    assert_size(&geometry, 375, 500, 256, 341);
    assert_size(&geometry, 256, 300, 256, 300);
    assert_size(&geometry, 1, 2, 256, 512);
    assert_ok(ff_geometry_parse_crop(&geometry, "--center-crop", "224", error));
    assert_true(ff_geometry_is_fixed(&geometry));
    assert_size(&geometry, 1, 60000, 224, 224);
    assert_ok(ff_geometry_parse_resize(&geometry, "--resize", "20x30", error));
    assert_ok(ff_geometry_parse_crop(&geometry, "--center-crop", "40x10", error));
    assert_size(&geometry, 9, 9, 10, 40);
}

static void test_sizes_refused(void **unused) {
    (void)unused;
    static const char *const bad[] = {
        "",    "0",   "x",     "12x", "x12", "0x4",     "4x0",
        "-3",  "3.5", "1x2x3", " 3",  "3 ",  "1048577", "99999999999999999999",
        "12X3"};
    ff_geometry geometry = {0};
    ff_error error;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(ff_geometry_parse_resize(&geometry, "--resize", bad[i], &error), FF_USAGE);
        assert_non_null(strstr(error.message, "--resize"));
        assert_int_equal(ff_geometry_parse_crop(&geometry, "--center-crop", bad[i], &error),
                         FF_USAGE);
    }
    uint32_t w, h;
    geometry.resize = FF_RESIZE_SHORT;
    geometry.size = 1000;
    assert_int_equal(ff_geometry_output_size(&geometry, 1, 2000, &w, &h, &error), FF_BAD_DATA);
    geometry.size = FF_SIDE_LIMIT;
    assert_int_equal(ff_geometry_output_size(&geometry, 1, 65535, &w, &h, &error), FF_BAD_DATA);
    geometry = (ff_geometry){0};
    assert_int_equal(ff_geometry_output_size(&geometry, FF_SIDE_LIMIT + 1, 1, &w, &h, &error),
                     FF_BAD_DATA);
}

static const ff_image *apply(const ff_geometry *geometry, const ff_image *input,
                             ff_geometry_scratch *scratch) {
    const ff_image *output;
    assert_ok(
        ff_geometry_apply(geometry, input, input->width, input->height, scratch, &output, error));
    return output;
}

/* Offsets of torchvision's CenterCrop: (size - crop) / 2, a half to the even neighbour. */
static void test_crop_offsets(void **unused) {
    (void)unused;
    static const struct {
        uint32_t size, crop, offset;
    } cases[] = {{5, 4, 0}, {6, 4, 1}, {7, 4, 2}, {8, 4, 2}, {9, 4, 2}, {11, 4, 4}, {4, 4, 0}};
    ff_geometry_scratch scratch = {0};
    ff_image input = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ff_geometry geometry = {.crop_height = 1, .crop_width = cases[i].crop};
        make_image(&input, cases[i].size, 1, 3);
        const ff_image *output = apply(&geometry, &input, &scratch);
        assert_memory_equal(output->pixels, input.pixels + cases[i].offset * 3, cases[i].crop * 3);
    }
    ff_image_free(&input);
    ff_geometry_scratch_free(&scratch);
}

static void test_crop_pads_with_zeros(void **unused) {
    (void)unused;
    ff_geometry_scratch scratch = {0};
    ff_image input = {0};
    make_image(&input, 3, 5, 1);
    for (size_t i = 0; i < 15; i++) input.pixels[i] = (uint8_t)(i + 1);
    ff_geometry geometry = {.crop_height = 4, .crop_width = 6}; /* 3 missing: 1 left, 2 right */
    const ff_image *output = apply(&geometry, &input, &scratch);
    static const uint8_t want[24] = {0, 1, 2, 3, 0, 0, 0, 4,  5,  6,  0, 0,
                                     0, 7, 8, 9, 0, 0, 0, 10, 11, 12, 0, 0};
    assert_int_equal(output->width, 6);
    assert_memory_equal(output->pixels, want, 24);
    ff_image_free(&input);
    ff_geometry_scratch_free(&scratch);
}

/* Values of Pad((d / 2, ..., d - d / 2)), and squares of any image. */
static void test_pad_square(void **unused) {
    (void)unused;
    ff_geometry_scratch scratch = {0};
    ff_image input = {0};
    make_image(&input, 2, 5, 1);
    for (size_t i = 0; i < 10; i++) input.pixels[i] = (uint8_t)(i + 1);
    ff_geometry geometry = {.pad_square = true}; /* 3 missing: 1 left, 2 right */
    const ff_image *output = apply(&geometry, &input, &scratch);
    static const uint8_t want[25] = {0, 1, 2, 0, 0, 0, 3, 4, 0, 0,  0, 5, 6,
                                     0, 0, 0, 7, 8, 0, 0, 0, 9, 10, 0, 0};
    assert_int_equal(output->width, 5);
    assert_memory_equal(output->pixels, want, 25);
    assert_false(ff_geometry_is_fixed(&geometry));
    geometry.resize = FF_RESIZE_SHORT;
    geometry.size = 7;
    assert_true(ff_geometry_is_fixed(&geometry));
    assert_size(&geometry, 3, 1000, 7, 7);
    ff_error error;
    uint32_t w, h;
    assert_int_equal(ff_geometry_output_size(&geometry, 1, 13378, &w, &h, &error), FF_BAD_DATA);
    assert_non_null(strstr(error.message, "padded to a square"));
    ff_image_free(&input);
    ff_geometry_scratch_free(&scratch);
}

static void test_max_side(void **unused) {
    (void)unused;
    ff_geometry geometry = {.max_side = 100};
    assert_true(ff_geometry_is_variable(&geometry));
    assert_size(&geometry, 100, 3, 100, 3);
    assert_size(&geometry, 30, 40, 30, 40);
    assert_size(&geometry, 500, 333, 100, 66); /* 66.6 is cut */
    assert_size(&geometry, 333, 500, 66, 100);
    assert_size(&geometry, 5000, 1, 100, 1);
    /* torchvision's Resize(50, max_size=100) */
    geometry.resize = FF_RESIZE_SHORT;
    geometry.size = 50;
    assert_size(&geometry, 20, 30, 50, 75);
    assert_size(&geometry, 20, 41, 49, 100); /* 102 first; 100 * 50 / 102 is 49.02 */
    geometry.crop_height = geometry.crop_width = 8;
    assert_false(ff_geometry_is_variable(&geometry));
}

static void test_reduction(void **unused) {
    (void)unused;
    static const struct {
        uint32_t width, height, reduction;
    } cases[] = {{64, 64, 2}, {63, 200, 1}, {128, 129, 4}, {255, 300, 4}, {256, 256, 8}, {9, 9, 1}};
    ff_geometry geometry = {.resize = FF_RESIZE_SHORT, .size = 32};
    uint32_t reduction;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_ok(
            ff_geometry_reduction(&geometry, cases[i].width, cases[i].height, &reduction, error));
        assert_int_equal(reduction, cases[i].reduction);
    }
    geometry.resize = FF_RESIZE_NONE;
    assert_ok(ff_geometry_reduction(&geometry, 5000, 5000, &reduction, error));
    assert_int_equal(reduction, 1);
}

/* Pixels outside the needed region have no influence, for any geometry. */
static void test_needed_is_enough(void **unused) {
    (void)unused;
    ff_geometry_scratch scratch = {0}, other = {0};
    ff_image input = {0}, part = {0};
    size_t smaller = 0;
    for (int i = 0; i < 1000; i++) {
        ff_geometry geometry = {.pad_square = roll(&luck, 4) == 0,
                                .resize = (ff_resize_kind)roll(&luck, 3),
                                .size = 1 + roll(&luck, 40),
                                .resize_height = 1 + roll(&luck, 40),
                                .resize_width = 1 + roll(&luck, 40),
                                .interpolation = (ff_interpolation)roll(&luck, 2)};
        if (roll(&luck, 4)) {
            geometry.crop_height = 1 + roll(&luck, 30);
            geometry.crop_width = 1 + roll(&luck, 30);
        }
        make_image(&input, 1 + roll(&luck, 50), 1 + roll(&luck, 50), 1 + roll(&luck, 3));
        make_image(&part, input.width, input.height, input.channels);
        ff_region needed;
        assert_ok(
            ff_geometry_needed(&geometry, input.width, input.height, &scratch, &needed, error));
        assert_true(needed.width >= 1 && needed.left + needed.width <= input.width);
        assert_true(needed.height >= 1 && needed.top + needed.height <= input.height);
        smaller += needed.width < input.width || needed.height < input.height;
        for (uint32_t y = 0; y < needed.height; y++) {
            size_t at = ((size_t)(needed.top + y) * input.width + needed.left) * input.channels;
            memcpy(part.pixels + at, input.pixels + at, (size_t)needed.width * input.channels);
        }
        assert_same(apply(&geometry, &part, &scratch), apply(&geometry, &input, &other));
    }
    assert_true(smaller > 300);
    ff_image_free(&input);
    ff_image_free(&part);
    ff_geometry_scratch_free(&scratch);
    ff_geometry_scratch_free(&other);
}

static void test_nothing_to_do_is_the_input(void **unused) {
    (void)unused;
    ff_geometry_scratch scratch = {0};
    ff_image input = {0};
    make_image(&input, 8, 8, 3);
    ff_geometry none = {0};
    assert_ptr_equal(apply(&none, &input, &scratch), &input);
    ff_geometry same = {.resize = FF_RESIZE_SHORT, .size = 8, .crop_height = 8, .crop_width = 8};
    assert_ptr_equal(apply(&same, &input, &scratch), &input);
    ff_image_free(&input);
    ff_geometry_scratch_free(&scratch);
}

/* The scratch of a worker, used for image after image, gives what a fresh one gives. */
static void test_scratch_is_reused(void **unused) {
    (void)unused;
    ff_geometry_scratch kept = {0};
    ff_image input = {0};
    for (int i = 0; i < 200; i++) {
        ff_geometry geometry = {.resize = (ff_resize_kind)roll(&luck, 3),
                                .size = 1 + roll(&luck, 40),
                                .resize_height = 1 + roll(&luck, 40),
                                .resize_width = 1 + roll(&luck, 40),
                                .interpolation = (ff_interpolation)roll(&luck, 2)};
        if (roll(&luck, 2)) {
            geometry.crop_height = 1 + roll(&luck, 50);
            geometry.crop_width = 1 + roll(&luck, 50);
        }
        make_image(&input, 1 + roll(&luck, 50), 1 + roll(&luck, 50), 3);
        ff_geometry_scratch fresh = {0};
        assert_same(apply(&geometry, &input, &kept), apply(&geometry, &input, &fresh));
        ff_geometry_scratch_free(&fresh);
    }
    ff_image_free(&input);
    ff_geometry_scratch_free(&kept);
}

/* A short side of 1 pixel and a huge long side: only the crop is computed. */
static void test_extreme_shapes(void **unused) {
    (void)unused;
    ff_geometry_scratch scratch = {0};
    ff_image input = {0};
    make_image(&input, 1, 60000, 3);
    ff_geometry geometry = {
        .resize = FF_RESIZE_SHORT, .size = 256, .crop_height = 224, .crop_width = 224};
    const ff_image *output = apply(&geometry, &input, &scratch);
    assert_int_equal(output->width, 224);
    assert_int_equal(output->height, 224);
    ff_geometry tiny = {.resize = FF_RESIZE_EXACT, .resize_height = 1, .resize_width = 1};
    output = apply(&tiny, &input, &scratch);
    assert_int_equal(output->width * output->height, 1);
    ff_image_free(&input);
    ff_geometry_scratch_free(&scratch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_pillow),
        cmocka_unit_test(test_weights_sum_to_one),
        cmocka_unit_test(test_weights_are_rounded),
        cmocka_unit_test(test_plans_are_kept_apart),
        cmocka_unit_test(test_window_is_a_crop_of_the_whole),
        cmocka_unit_test(test_order_of_the_passes),
        cmocka_unit_test(test_channels_are_independent),
        cmocka_unit_test(test_flat_stays_flat),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_sizes_refused),
        cmocka_unit_test(test_crop_offsets),
        cmocka_unit_test(test_crop_pads_with_zeros),
        cmocka_unit_test(test_pad_square),
        cmocka_unit_test(test_max_side),
        cmocka_unit_test(test_reduction),
        cmocka_unit_test(test_needed_is_enough),
        cmocka_unit_test(test_nothing_to_do_is_the_input),
        cmocka_unit_test(test_scratch_is_reused),
        cmocka_unit_test(test_extreme_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
