/* Augmentation parameters and their text. */
#include "loader/augment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static ff_augment_spec parse(const char *text) {
    ff_augment_spec spec;
    ff_error error;
    assert_int_equal(ff_augment_parse(&spec, text, &error), FF_OK);
    return spec;
}

static void golden_values(void **state) {
    (void)state;
    ff_augment_spec spec = parse("crop=4,flip,cutout=8");
    static const struct {
        uint64_t seed, sample;
        uint32_t epoch;
        int32_t y, x, cut_y, cut_x;
        uint32_t flags;
    } wanted[] = {
        {UINT64_C(0), UINT64_C(0), 0, 0, -2, 25, 20, 1},
        {UINT64_C(0x1), UINT64_C(0), 0, 0, 4, 9, 14, 1},
        {UINT64_C(0x1), UINT64_C(49999), 7, 0, -3, 19, -3, 1},
        {UINT64_C(0x123456789abcdef), UINT64_C(1099511627777), 100000, 0, -4, 4, 2, 1},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        ff_augment_params found =
            ff_augment_at(&spec, wanted[i].seed, wanted[i].epoch, wanted[i].sample, 32, 32, 32, 32);
        assert_int_equal(found.sample, wanted[i].sample);
        assert_int_equal(found.y, wanted[i].y);
        assert_int_equal(found.x, wanted[i].x);
        assert_int_equal(found.cut_y, wanted[i].cut_y);
        assert_int_equal(found.cut_x, wanted[i].cut_x);
        assert_int_equal(found.flags, wanted[i].flags);
        assert_true(found.weight == 1.0f);
    }
    assert_int_equal(sizeof(ff_augment_params), 32);
}

/* All places of the crop about equally often, both flips, independent of each other. */
static void uniform(void **state) {
    (void)state;
    ff_augment_spec spec = parse("crop=4,flip");
    enum { TRIALS = 81 * 2 * 200 };
    static unsigned count[9][9][2];
    memset(count, 0, sizeof count);
    for (uint64_t i = 0; i < TRIALS; i++) {
        ff_augment_params params = ff_augment_at(&spec, 5, (uint32_t)(i % 7), i, 32, 32, 32, 32);
        assert_in_range(params.y + 4, 0, 8);
        assert_in_range(params.x + 4, 0, 8);
        count[params.y + 4][params.x + 4][params.flags]++;
    }
    double chi = 0, each = TRIALS / 162.0;
    for (int i = 0; i < 162; i++) {
        double off = count[i / 18][i / 2 % 9][i % 2] - each;
        chi += off * off / each;
    }
    assert_true(chi > 80 && chi < 260); /* 161 +- 5 * 18 */
}

static void alternating_flips(void **state) {
    (void)state;
    ff_augment_spec spec = parse("flip=alternate");
    unsigned flipped = 0;
    for (uint64_t sample = 0; sample < 2000; sample++) {
        uint32_t first = ff_augment_at(&spec, 1, 0, sample, 8, 8, 8, 8).flags;
        flipped += first;
        for (uint32_t epoch = 1; epoch < 6; epoch++)
            assert_int_equal(ff_augment_at(&spec, 1, epoch, sample, 8, 8, 8, 8).flags,
                             first ^ (epoch & 1));
    }
    assert_in_range(flipped, 880, 1120);
}

static void without_crop(void **state) {
    (void)state;
    /* CenterCrop: round((h - th) / 2.0), half to even. */
    assert_int_equal(ff_augment_center(10, 10), 0);
    assert_int_equal(ff_augment_center(11, 10), 0);
    assert_int_equal(ff_augment_center(13, 10), 2);
    assert_int_equal(ff_augment_center(15, 10), 2);
    assert_int_equal(ff_augment_center(14, 10), 2);
    assert_int_equal(ff_augment_center(256, 224), 16);
    ff_augment_spec none = parse("none");
    ff_augment_params params = ff_augment_at(&none, 1, 2, 3, 256, 341, 224, 224);
    assert_int_equal(params.y, 16);
    assert_int_equal(params.x, 58); /* 58.5 */
    assert_int_equal(params.flags, 0);
}

static void reflection(void **state) {
    (void)state;
    static const int32_t wanted[] = {3, 2, 1, 0, 1, 2, 3, 2, 1, 0};
    for (int32_t at = -3; at < 7; at++) assert_int_equal(ff_augment_reflect(at, 4), wanted[at + 3]);
}

static void text_both_ways(void **state) {
    (void)state;
    static const char *const same[] = {
        "none", "crop=4,flip,cutout=8", "crop=4:reflect,flip=alternate", "cutout=16", "crop=0",
        "flip"};
    char text[FF_AUGMENT_TEXT_BYTES];
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        ff_augment_spec spec = parse(same[i]);
        ff_augment_text(&spec, text);
        assert_string_equal(text, same[i]);
    }
    ff_augment_spec spec = parse("flip=random,crop");
    ff_augment_text(&spec, text);
    assert_string_equal(text, "crop=0,flip");
    spec = parse("crop=1048576:reflect,flip=alternate,cutout=1048576");
    ff_augment_text(&spec, text);
    assert_string_equal(text, "crop=1048576:reflect,flip=alternate,cutout=1048576");
}

static void bad_text(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",          "crop=",     "crop=-1",         "crop=4:wrap",  "crop=4x",
        "flip=both", "cutout",    "cutout=0",        "mixup",        "flip,flip",
        "crop=4,",   "none,flip", "crop=4294967300", "crop=4,crop=4"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ff_augment_spec spec;
        ff_error error = {0};
        assert_int_equal(ff_augment_parse(&spec, bad[i], &error), FF_USAGE);
        assert_true(strlen(error.message) > 10);
    }
}

static void checks(void **state) {
    (void)state;
    ff_augment_spec spec = parse("crop=4");
    assert_int_equal(ff_augment_check(&spec, 32, 32, 40, 40, NULL), FF_OK);
    assert_int_equal(ff_augment_check(&spec, 32, 32, 41, 40, NULL), FF_USAGE);
    assert_int_equal(ff_augment_check(&spec, 32, 32, 32, 0, NULL), FF_USAGE);
    spec = parse("crop=4:reflect");
    assert_int_equal(ff_augment_check(&spec, 5, 5, 5, 5, NULL), FF_OK);
    assert_int_equal(ff_augment_check(&spec, 4, 5, 4, 4, NULL), FF_USAGE);
    spec = parse("none");
    assert_int_equal(ff_augment_check(&spec, 32, 32, 33, 32, NULL), FF_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_values),     cmocka_unit_test(uniform),
        cmocka_unit_test(alternating_flips), cmocka_unit_test(without_crop),
        cmocka_unit_test(reflection),        cmocka_unit_test(text_both_ways),
        cmocka_unit_test(bad_text),          cmocka_unit_test(checks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
