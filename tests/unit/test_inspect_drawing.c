/* The parts of ffinspect's contact sheets: font, canvas, and tensors converted to images. */
#include "format/disk/class_name.h"
#include "loader/draw/canvas.h"
#include "loader/draw/contact.h"
#include "loader/draw/font.h"
#include "loader/draw/letters.h"
#include "loader/draw/picture.h"
#include "tests/unit/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct dots {
    uint8_t set[64][FF_FONT_HEIGHT];
    unsigned count, right;
} dots;

static void dot(void *context, unsigned x, unsigned y) {
    dots *drawn = context;
    assert_true(x < 64 && y < FF_FONT_HEIGHT);
    drawn->set[x][y] = 1;
    drawn->count++;
    if (x + 1 > drawn->right) drawn->right = x + 1;
}

static dots draw(const char *text) {
    dots drawn = {0};
    ff_font_draw(text, dot, &drawn);
    return drawn;
}

/* Every character has dots, has the stated width, and differs from all others. */
static void glyphs_differ(void **state) {
    (void)state;
    for (int a = 0x21; a < 0x7f; a++) {
        char text[2] = {(char)a, 0};
        dots drawn = draw(text);
        assert_true(drawn.count > 0);
        assert_int_equal(drawn.right, ff_font_width(text));
        for (int b = 0x21; b < a; b++) {
            char other[2] = {(char)b, 0};
            dots compared = draw(other);
            if (!memcmp(drawn.set, compared.set, sizeof drawn.set))
                fail_msg("'%c' and '%c' look the same", a, b);
        }
    }
    assert_int_equal(draw(" ").count, 0);
    assert_int_equal(ff_font_width(""), 0);
    /* Anything else is a box. */
    assert_memory_equal(draw("\xe7\x8c\xab").set, draw("\xf0\x9f\x90\x88").set, 64);
    assert_memory_equal(draw("\xff").set, draw("\xe7\x8c\xab").set, 64);
    assert_memory_equal(draw("\xc3\xa9").set, draw("\xe7\x8c\xab").set, 64);
}

static void long_names_are_cut(void **state) {
    (void)state;
    static const char *const names[] = {"automobile",
                                        "T-shirt/top",
                                        "a",
                                        "",
                                        "caf\xc3\xa9 au lait",
                                        "\xe7\x8c\xab\xe7\x8c\xab\xe7\x8c\xab\xe7\x8c\xab",
                                        "\xff\xff\xff\xff"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (unsigned width = 5; width < 80; width++) {
            ff_buffer fitted = {0};
            assert_ok(ff_font_fit(&fitted, names[i], width, error));
            assert_true(ff_font_width(fitted.bytes) <= width);
            bool whole = ff_font_width(names[i]) <= width;
            assert_int_equal(!strcmp(fitted.bytes, names[i]), whole);
            size_t kept = fitted.length - (whole ? 0 : 3);
            assert_memory_equal(fitted.bytes, names[i], kept);
            if (!whole && kept) assert_int_not_equal(names[i][kept - 1], ' ');
            if (!whole) assert_string_equal(fitted.bytes + kept, "\xe2\x80\xa6");
            ff_buffer_free(&fitted);
        }
}

static unsigned ink(const ff_canvas *canvas, unsigned first_row, unsigned end_row) {
    unsigned count = 0;
    for (unsigned i = first_row * canvas->width; i < end_row * canvas->width; i++)
        count += canvas->rgb[3 * (size_t)i] < 128;
    return count;
}

/* However narrow a line is, every dot of a heading is drawn, within the measured height. */
static void headings_are_whole(void **state) {
    (void)state;
    static const char *const texts[] = {"train   16 of 60 samples, up to 64 x 64, 3 channels, u8",
                                        "one-word-that-is-wider-than-a-line", " a  b ", "x"};
    ff_letters *letters;
    setenv("FFPACK_PANGO", "0", 1);
    assert_ok(ff_letters_open(&letters, error));
    assert_false(ff_letters_has_library(letters));
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        for (unsigned width = 6; width < 300; width += 7) {
            ff_paragraph text = {.text = texts[t], .scale = 1, .width = width};
            ff_paragraph_size size;
            assert_ok(ff_letters_measure(letters, &text, &size, error));
            assert_false(size.cut);
            ff_canvas canvas;
            assert_ok(ff_canvas_create(&canvas, width, size.height + 20, (ff_color){255, 255, 255},
                                       error));
            assert_ok(ff_letters_draw(letters, &text, &canvas, 0, 0, (ff_color){0, 0, 0}, error));
            unsigned wanted = 0;
            for (const char *letter = texts[t]; *letter; letter++)
                wanted += draw((char[]){*letter, 0}).count;
            assert_int_equal(ink(&canvas, 0, size.height), wanted);
            assert_int_equal(ink(&canvas, size.height, size.height + 20), 0);
            ff_canvas_free(&canvas);
            /* With a limit it is cut, and marked as cut. */
            text.lines = size.lines > 1 ? size.lines - 1 : 1;
            bool fits = size.lines == 1;
            assert_ok(ff_letters_measure(letters, &text, &size, error));
            assert_int_equal(size.cut, !fits);
            assert_int_equal(size.lines, text.lines);
        }
    ff_letters_close(&letters);
    unsetenv("FFPACK_PANGO");
}

/* The same with Pango, if it is installed. */
static void the_library_draws(void **state) {
    (void)state;
    ff_letters *letters;
    assert_ok(ff_letters_open(&letters, error));
    if (!ff_letters_has_library(letters)) {
        ff_letters_close(&letters);
        skip();
    }
    assert_true(ff_letters_know(letters, "cat"));
    assert_false(ff_letters_know(letters, "\xf4\x8f\xbf\xbd")); /* U+10FFFD: in no font */
    unsigned before = 0;
    for (unsigned width = 400; width >= 50; width /= 2) {
        ff_paragraph text = {
            .text = "train   16 of 60 samples, 64 x 64", .scale = 2, .width = width};
        ff_paragraph_size size;
        assert_ok(ff_letters_measure(letters, &text, &size, error));
        assert_true(!size.cut && size.lines > before && size.height >= 12 * size.lines);
        before = size.lines;
        ff_canvas canvas;
        assert_ok(ff_canvas_create(&canvas, width + 40, size.height + 40, (ff_color){255, 255, 255},
                                   error));
        assert_ok(ff_letters_draw(letters, &text, &canvas, 20, 20, (ff_color){0, 0, 0}, error));
        assert_true(ink(&canvas, 20, 20 + size.height) > 300);
        assert_int_equal(ink(&canvas, 0, 16), 0);
        assert_int_equal(ink(&canvas, 24 + size.height, 40 + size.height), 0);
        ff_canvas_free(&canvas);
        text.lines = 1;
        assert_ok(ff_letters_measure(letters, &text, &size, error));
        assert_true(size.lines == 1 && size.cut == (before > 1));
    }
    ff_letters_close(&letters);
}

static const uint8_t *at(const ff_canvas *canvas, unsigned x, unsigned y) {
    return canvas->rgb + ((size_t)y * canvas->width + x) * 3;
}

static void images_are_enlarged_and_reduced(void **state) {
    (void)state;
    enum { HEIGHT = 5, WIDTH = 7 };
    uint8_t rgb[HEIGHT * WIDTH * 3];
    for (size_t i = 0; i < sizeof rgb; i++) rgb[i] = (uint8_t)(i * 37);
    ff_canvas canvas;
    assert_ok(ff_canvas_create(&canvas, 40, 30, (ff_color){1, 2, 3}, error));
    ff_canvas_picture(&canvas, 2, 1, rgb, HEIGHT, WIDTH, 3, 1);
    for (unsigned y = 0; y < 30; y++)
        for (unsigned x = 0; x < 40; x++) {
            bool inside = x >= 2 && x < 2 + 3 * WIDTH && y >= 1 && y < 1 + 3 * HEIGHT;
            static const uint8_t background[3] = {1, 2, 3};
            const uint8_t *wanted =
                inside ? rgb + ((size_t)((y - 1) / 3) * WIDTH + (x - 2) / 3) * 3 : background;
            assert_memory_equal(at(&canvas, x, y), wanted, 3);
        }
    /* Squares of 2 x 2 averaged; the last column and row are smaller. */
    ff_canvas_picture(&canvas, 0, 0, rgb, HEIGHT, WIDTH, 1, 2);
    for (unsigned y = 0; y < 3; y++)
        for (unsigned x = 0; x < 4; x++)
            for (unsigned c = 0; c < 3; c++) {
                unsigned sum = 0, count = 0;
                for (unsigned i = 2 * y; i < 2 * y + 2 && i < HEIGHT; i++)
                    for (unsigned j = 2 * x; j < 2 * x + 2 && j < WIDTH; j++, count++)
                        sum += rgb[(i * WIDTH + j) * 3 + c];
                assert_int_equal(at(&canvas, x, y)[c], (sum + count / 2) / count);
            }
    /* What is outside is clipped. */
    ff_canvas_picture(&canvas, 38, 29, rgb, HEIGHT, WIDTH, 3, 1);
    ff_canvas_text(&canvas, 30, 25, 3, "much too long", (ff_color){9, 9, 9});
    ff_canvas_fill(&canvas, 0, 10, 1, 2, (ff_color){50, 60, 70});
    ff_canvas_fill(&canvas, 38, 10, 5, 1, (ff_color){9, 9, 9});
    assert_true(at(&canvas, 39, 10)[0] == 9 && at(&canvas, 0, 11)[0] == 50);
    ff_canvas_fill(&canvas, 4000000000u, 4000000000u, 2, 2, (ff_color){9, 9, 9});
    ff_canvas_free(&canvas);
}

/* Every byte survives the conversion through every dtype and layout. */
static void normalisation_is_undone(void **state) {
    (void)state;
    static float mean[4] = {0.4914f, 0.4822f, 0.4465f, 0.1f},
                 std[4] = {0.247f, 0.2435f, 0.2616f, 1};
    static const ff_dtype dtypes[] = {FF_U8, FF_U16, FF_F16, FF_BF16, FF_F32};
    for (int d = 0; d < 5; d++)
        for (int layout = 0; layout < 2; layout++)
            for (uint32_t channels = 1; channels <= 4; channels++) {
                ff_metadata metadata = {.dtype = dtypes[d],
                                        .layout = layout ? FF_HWC : FF_CHW,
                                        .channels = channels,
                                        .height = 16,
                                        .width = 16,
                                        .statistics_count = channels,
                                        .mean = mean,
                                        .std = std};
                uint8_t tensor[256 * 4 * 4] = {0}, rgb[256 * 3];
                size_t bytes = ff_dtype_bytes(dtypes[d]);
                for (size_t i = 0; i < 256; i++)
                    for (size_t c = 0; c < channels; c++) {
                        size_t place = layout ? i * channels + c : c * 256 + i;
                        uint8_t pixel = (uint8_t)(i + 50 * c);
                        float value = ((float)pixel / 255 - mean[c]) / std[c];
                        void *to = tensor + place * bytes;
                        if (dtypes[d] == FF_U8)
                            *(uint8_t *)to = pixel;
                        else if (dtypes[d] == FF_U16)
                            ff_store_u16(to, (uint16_t)(pixel * 257));
                        else
                            ff_convert(to, dtypes[d], &value, FF_F32, 1);
                    }
                double minimum = 1e300, maximum = -1e300;
                ff_picture_range(&metadata, tensor, 16, 16, &minimum, &maximum);
                ff_picture_scale scale = ff_picture_choose_scale(&metadata, minimum, maximum);
                ff_picture_convert(&metadata, &scale, tensor, 16, 16, rgb);
                for (size_t i = 0; i < 256; i++)
                    for (size_t c = 0; c < 3; c++) {
                        size_t shown = channels >= 3 ? c : 0;
                        int found = rgb[3 * i + c], wanted = (uint8_t)(i + 50 * shown);
                        int off = abs(found - wanted);
                        if (off > (dtypes[d] == FF_BF16 ? 2 : 0))
                            fail_msg("%s, %u channels: pixel %zu.%zu is %d, wanted %d",
                                     ff_dtype_name(dtypes[d]), channels, i, c, found, wanted);
                    }
            }
}

static void unusual_ranges(void **state) {
    (void)state;
    ff_metadata metadata = {.dtype = FF_F32, .channels = 1, .height = 1, .width = 4};
    float value[4] = {-10, (float)NAN, 30, (float)INFINITY};
    double minimum = 1e300, maximum = -1e300;
    uint8_t rgb[12];
    ff_picture_range(&metadata, value, 1, 4, &minimum, &maximum);
    assert_true(minimum == -10 && maximum == 30);
    ff_picture_scale scale = ff_picture_choose_scale(&metadata, minimum, maximum);
    ff_picture_convert(&metadata, &scale, value, 1, 4, rgb);
    static const uint8_t wanted[12] = {0, 0, 0, 255, 0, 255, 255, 255, 255, 255, 255, 255};
    assert_memory_equal(rgb, wanted, 12);
    /* A single value, and none. */
    scale = ff_picture_choose_scale(&metadata, 5, 5);
    assert_true(isfinite(scale.gain[0]) && isfinite(scale.offset[0]));
    scale = ff_picture_choose_scale(&metadata, 1e300, -1e300);
    assert_true(isfinite(scale.gain[0]) && isfinite(scale.offset[0]));
    /* 12 bits in 16 are stretched. */
    metadata.dtype = FF_U16;
    scale = ff_picture_choose_scale(&metadata, 0, 4095);
    assert_true(fabs(4095 * scale.gain[0] + scale.offset[0] - 255) < 1e-9);
    scale = ff_picture_choose_scale(&metadata, 0, 32767);
    assert_true(fabs(32767 * scale.gain[0] + scale.offset[0] - 255) < 1e-9);
    scale = ff_picture_choose_scale(&metadata, 1000, 32768);
    assert_true(fabs(65535 * scale.gain[0] + scale.offset[0] - 255) < 1e-9);
    assert_true(fabs(scale.offset[0]) < 1e-9);
    /* Floats from 0 to 1 are shown unscaled, both ends included; halves are rounded up. */
    metadata.dtype = FF_F32;
    scale = ff_picture_choose_scale(&metadata, 0, 1);
    assert_non_null(strstr(scale.sentence, "from 0 to 1"));
    scale = ff_picture_choose_scale(&metadata, -1e-6, 1);
    assert_non_null(strstr(scale.sentence, "stretched"));
    scale = ff_picture_choose_scale(&metadata, 0, 1.000001);
    assert_non_null(strstr(scale.sentence, "stretched"));
    const float fine[4] = {0.4f / 255, 0.6f / 255, 100.4f / 255, 254.6f / 255};
    scale = ff_picture_choose_scale(&metadata, 0, 1);
    ff_picture_convert(&metadata, &scale, fine, 1, 4, rgb);
    assert_true(rgb[0] == 0 && rgb[3] == 1 && rgb[6] == 100 && rgb[9] == 255);
    /* Three channels are colours, two are shown as grey. */
    metadata.channels = 3;
    metadata.width = 1;
    const float color[3] = {0, 0.5f, 1};
    ff_picture_convert(&metadata, &scale, color, 1, 1, rgb);
    assert_true(rgb[0] == 0 && rgb[1] == 128 && rgb[2] == 255);
    metadata.channels = 2;
    ff_picture_convert(&metadata, &scale, color + 1, 1, 1, rgb);
    assert_true(rgb[0] == 128 && rgb[1] == 128 && rgb[2] == 128);
}

/* ---- captions of two names ---- */

typedef struct captions {
    ff_field field;
    char last[4][1024]; /* of each picture, as it was asked for last */
    uint8_t *rgb;
    uint32_t side;
} captions;

static ff_status two_names(void *context, size_t section, uint64_t i, unsigned how, ff_buffer *text,
                           ff_error *failure) {
    captions *c = context;
    (void)section;
    assert_ok(ff_buffer_printf(text, error, "12345: "));
    assert_ok(ff_class_name(text, &c->field, (int64_t)i, how, error));
    assert_ok(ff_buffer_printf(text, error, " taken for "));
    assert_ok(ff_class_name(text, &c->field, (int64_t)(i + 1) % 4, how, error));
    snprintf(c->last[i], sizeof c->last[i], "%s 97%%", text->bytes);
    return ff_buffer_printf(text, failure, " 97%%");
}

static ff_status square(void *context, size_t section, uint64_t i, ff_contact_picture *picture,
                        ff_error *failure) {
    const captions *c = context;
    (void)section, (void)i, (void)failure;
    *picture = (ff_contact_picture){c->rgb, c->side, c->side};
    return FF_OK;
}

/* Neither name hides the other, nor the probability, however long and however small the pictures
 * are; short names are whole. */
static void both_names_are_seen(void **state) {
    (void)state;
    static const uint32_t sides[] = {8, 32, 64, 73, 96, 224};
    char first[151] = "", second[151] = "";
    memset(first, 'w', 150), memset(second, 'm', 150);
    memcpy(first, "first", 5), memcpy(second, "second", 6);
    char *names[] = {first, second, (char *)"cat", (char *)"a\u202eb\u732b"};
    captions c = {.field = {.kind = FF_FIELD_CLASS, .class_count = 4, .class_name = names}};
    setenv("FFPACK_PANGO", "0", 1);
    for (size_t k = 0; k < sizeof sides / sizeof *sides; k++) {
        const ff_contact_section section = {"title", 4};
        const ff_contact contact = {&section, 1,         4,      true, sides[k],
                                    sides[k], two_names, square, &c};
        ff_canvas canvas;
        ff_letters *letters;
        c.side = sides[k];
        c.rgb = calloc((size_t)c.side * c.side, 3);
        assert_ok(ff_contact_draw(&contact, &canvas, NULL, error));
        const unsigned cell = (canvas.width - 2 * 24 + 14) / 4 - 14;
        assert_ok(ff_letters_open(&letters, error));
        for (int i = 0; i < 4; i++) {
            const char *text = c.last[i];
            const ff_paragraph shown = {text, 1, cell, 3, true};
            ff_paragraph_size size;
            assert_ok(ff_letters_measure(letters, &shown, &size, error));
            assert_false(size.cut);
            assert_non_null(strstr(text, " taken for "));
            assert_true(strncmp(text, "12345: ", 7) == 0 && strstr(text, " 97%"));
        }
        assert_non_null(strstr(c.last[0], "for 1 "));
        assert_non_null(strstr(c.last[0], ": 0 "));
        if (c.side == 64) /* both are as long as they may be */
            assert_true(strstr(c.last[0], ": 0 firs") && strstr(c.last[0], "for 1 seco"));
        ff_letters_close(&letters);
        ff_canvas_free(&canvas);
        free(c.rgb);
    }
    unsetenv("FFPACK_PANGO");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(glyphs_differ),
        cmocka_unit_test(long_names_are_cut),
        cmocka_unit_test(headings_are_whole),
        cmocka_unit_test(the_library_draws),
        cmocka_unit_test(images_are_enlarged_and_reduced),
        cmocka_unit_test(normalisation_is_undone),
        cmocka_unit_test(unusual_ranges),
        cmocka_unit_test(both_names_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
