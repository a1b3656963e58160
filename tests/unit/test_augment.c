/* Augmentation parameters and their text. */
#include "loader/augment/augment.h"
#include "loader/augment/erase.h"
#include "tests/unit/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static ff_augment_spec parse(const char *text) {
    ff_augment_spec spec;
    assert_ok(ff_augment_parse(&spec, text, error));
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
    assert_int_equal(sizeof(ff_augment_params), 64);
}

static void golden_boxes(void **state) {
    (void)state;
    static const struct {
        const char *augment;
        uint64_t seed, sample;
        uint32_t epoch, height, width;
        int32_t y, x;
        uint32_t box_height, box_width, flags;
    } wanted[] = {
        {"rrc=224", 0, 0, 0, 375, 500, 35, 61, 340, 374, 2},
        {"rrc=224,flip", 1, 0, 0, 375, 500, 38, 47, 326, 257, 3},
        {"rrc=224:0.25-1:0.5-2,flip", 1, 49999, 7, 500, 333, 139, 10, 212, 260, 3},
        {"rrc=224", UINT64_C(0x123456789abcdef), UINT64_C(1099511627777), 100000, 1048576, 3,
         524286, 0, 4, 3, 2},
        {"rrc=224:0.9-1", 1, 2, 3, 40, 1000, 0, 473, 40, 53, 2},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        ff_augment_spec spec = parse(wanted[i].augment);
        ff_augment_params found =
            ff_augment_at(&spec, wanted[i].seed, wanted[i].epoch, wanted[i].sample,
                          wanted[i].height, wanted[i].width, 224, 224);
        assert_int_equal(found.y, wanted[i].y);
        assert_int_equal(found.x, wanted[i].x);
        assert_int_equal(found.height, wanted[i].box_height);
        assert_int_equal(found.width, wanted[i].box_width);
        assert_int_equal(found.flags, wanted[i].flags);
    }
}

/* Units in the last place between a value and the mathematical library's. */
static double units_off(double found, double wanted) {
    return fabs(found - wanted) / (nextafter(fabs(wanted), INFINITY) - fabs(wanted));
}

static void arithmetic(void **state) {
    (void)state;
    double worst_exp = 0, worst_log = 0;
    for (int i = -20000; i <= 20000; i++) {
        double x = i * 0.00173, y = exp(i * 0.0034);
        double off = units_off(ff_exp(x), exp(x));
        if (off > worst_exp) worst_exp = off;
        off =
            fabs(log(y)) < 0.5 ? fabs(ff_log(y) - log(y)) / 0x1p-52 : units_off(ff_log(y), log(y));
        if (off > worst_log) worst_log = off;
    }
    assert_true(worst_exp <= 2 && worst_log <= 2);
    assert_true(ff_exp(0) == 1 && ff_log(1) == 0);
    static const double halves[][2] = {{0, 0},
                                       {0.5, 0},
                                       {0.75, 1},
                                       {1.5, 2},
                                       {2.5, 2},
                                       {3.5, 4},
                                       {0.49999999999999994, 0},
                                       {2.51, 3},
                                       {1e6, 1e6},
                                       {1e6 + 0.5, 1e6}};
    for (size_t i = 0; i < sizeof halves / sizeof halves[0]; i++)
        assert_int_equal(ff_round_even(halves[i][0]), (int64_t)halves[i][1]);
}

static void golden_erasing(void **state) {
    (void)state;
    static const struct {
        const char *augment;
        uint64_t seed, sample;
        uint32_t epoch, height, width;
        int32_t y, x;
        uint32_t cut_height, cut_width;
    } wanted[] = {
        {"erase=1", UINT64_C(0), UINT64_C(0), 0, 32, 32, 9, 7, 14, 10},
        {"erase=1", UINT64_C(0x1), UINT64_C(49999), 7, 224, 160, 135, 72, 71, 68},
        {"erase=0.5:0.1-0.4:0.5-2", UINT64_C(0x123456789abcdef), UINT64_C(1099511627777), 100000,
         224, 224, 0, 0, 0, 0},
        {"erase=0.5", UINT64_C(0x1), UINT64_C(3), 0, 32, 32, 16, 7, 4, 6},
        {"erase=1:0.9-1:1-1", UINT64_C(0x4), UINT64_C(5), 6, 16, 16, 1, 1, 15, 15},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        ff_augment_spec spec = parse(wanted[i].augment);
        ff_augment_params found =
            ff_augment_at(&spec, wanted[i].seed, wanted[i].epoch, wanted[i].sample,
                          wanted[i].height, wanted[i].width, wanted[i].height, wanted[i].width);
        assert_int_equal(found.cut_y, wanted[i].y);
        assert_int_equal(found.cut_x, wanted[i].x);
        assert_int_equal(found.cut_height, wanted[i].cut_height);
        assert_int_equal(found.cut_width, wanted[i].cut_width);
    }
    /* As often as the probability says. */
    ff_augment_spec spec = parse("erase=0.25");
    int erased = 0;
    for (uint64_t i = 0; i < 20000; i++)
        erased += ff_augment_at(&spec, 1, 2, i, 32, 32, 32, 32).cut_height > 0;
    assert_in_range(erased, 4700, 5300);
}

/* A box as high or as wide as the output is drawn again, and nothing is erased if all tries are. */
static void erasing_leaves_whole_sides(void **state) {
    (void)state;
    const double scale[2] = {0.25, 0.25}, ratio[2] = {1, 1};
    for (uint64_t sample = 0; sample < 20; sample++) {
        /* Every try is 8 x 8; the last output is larger. */
        assert_int_equal(ff_erase_at(1, scale, ratio, 1, 2, sample, 8, 32).height, 0);
        assert_int_equal(ff_erase_at(1, scale, ratio, 1, 2, sample, 32, 8).height, 0);
        const ff_crop_box box = ff_erase_at(1, scale, ratio, 1, 2, sample, 9, 28);
        assert_true(box.height == 8 && box.width == 8 && box.y <= 1 && box.x <= 20);
    }
}

/* Ten tries: with a share p of areas that fit, 1 - (1 - p)^10 of the samples have a drawn box. The
 * bound is five standard deviations; one try more or less is eleven. */
static void ten_tries(void **state) {
    (void)state;
    const double square[2] = {1, 1}, erased[2] = {0.989, 1}, cropped[2] = {0.25, 0.3};
    enum { SAMPLES = 20000 };
    int erases = 0, crops = 0;
    for (uint64_t sample = 0; sample < SAMPLES; sample++) {
        /* Less than 100 x 100: a side below 99.5, p = 0.0932. */
        erases += ff_erase_at(1, erased, square, 1, 2, sample, 100, 100).height > 0;
        /* At most 50 x 50: a side of at most 50.5, p = 0.1005; else the central box, and one in 151
         * of the others is central too. */
        const ff_crop_box box = ff_resized_crop_at(cropped, square, 3, 4, sample, 50, 200);
        assert_true(box.height == 50 && box.width == 50 && box.y == 0 && box.x <= 150);
        crops += box.x != 75;
    }
    assert_in_range(erases, SAMPLES * 0.6241 - 345, SAMPLES * 0.6241 + 345);
    assert_in_range(crops, SAMPLES * 0.6490 - 340, SAMPLES * 0.6490 + 340);
}

/* A box may be as high or as wide as the sample; where none fits, it is the central one, its
 * position rounded down and no side 0. */
static void boxes_of_whole_sides(void **state) {
    (void)state;
    const double quarter[2] = {0.25, 0.25}, all[2] = {1, 1}, square[2] = {1, 1};
    const double narrow[2] = {0.01, 0.01}, broad[2] = {100, 100};
    uint32_t least[2] = {24, 24}, most[2] = {0};
    for (uint64_t sample = 0; sample < 200; sample++) {
        const ff_crop_box flat = ff_resized_crop_at(quarter, square, 1, 2, sample, 8, 32);
        const ff_crop_box tall = ff_resized_crop_at(quarter, square, 1, 2, sample, 32, 8);
        assert_true(flat.height == 8 && flat.width == 8 && flat.y == 0);
        assert_true(tall.height == 8 && tall.width == 8 && tall.x == 0);
        const uint32_t place[2] = {flat.x, tall.y};
        for (int i = 0; i < 2; i++) {
            if (place[i] < least[i]) least[i] = place[i];
            if (place[i] > most[i]) most[i] = place[i];
        }
    }
    for (int i = 0; i < 2; i++) assert_true(least[i] <= 1 && most[i] >= 23 && most[i] <= 24);
    static const struct {
        uint32_t height, width, y, x, box_height, box_width;
    } wanted[] = {{8, 33, 0, 12, 8, 8}, {33, 8, 12, 0, 8, 8}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const ff_crop_box box =
            ff_resized_crop_at(all, square, 1, 2, 3, wanted[i].height, wanted[i].width);
        assert_int_equal(box.y, wanted[i].y);
        assert_int_equal(box.x, wanted[i].x);
        assert_int_equal(box.height, wanted[i].box_height);
        assert_int_equal(box.width, wanted[i].box_width);
    }
    ff_crop_box thin = ff_resized_crop_at(all, narrow, 1, 2, 3, 1, 1000);
    assert_true(thin.height == 1 && thin.width == 1 && thin.x == 499);
    thin = ff_resized_crop_at(all, broad, 1, 2, 3, 1000, 1);
    assert_true(thin.height == 1 && thin.width == 1 && thin.y == 499);
}

static void resized(void **state) {
    (void)state;
    /* torchvision's Resize(256): int(256 * long / short). */
    static const uint32_t sizes[][4] = {{375, 500, 256, 341},
                                        {500, 333, 384, 256},
                                        {256, 256, 256, 256},
                                        {1, 1048576, 256, 1u << 28},
                                        {1048576, 1, 1u << 28, 256}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t height = sizes[i][0], width = sizes[i][1];
        ff_augment_resized(256, &height, &width);
        assert_int_equal(height, sizes[i][2]);
        assert_int_equal(width, sizes[i][3]);
    }
    ff_augment_spec spec = parse("resize=256");
    ff_augment_params params = ff_augment_at(&spec, 1, 2, 3, 375, 500, 224, 224);
    assert_int_equal(params.flags, FF_AUGMENT_RESIZE);
    assert_int_equal(params.height, 256);
    assert_int_equal(params.width, 341);
    assert_int_equal(params.y, 16);
    assert_int_equal(params.x, 58);
    spec = parse("resize=256,crop,flip");
    unsigned right = 0;
    for (uint64_t i = 0; i < 2000; i++) {
        params = ff_augment_at(&spec, 1, 2, i, 375, 500, 224, 224);
        assert_in_range(params.y, 0, 32);
        assert_in_range(params.x, 0, 117);
        right += params.x > 58;
    }
    assert_in_range(right, 880, 1120);
}

/* All crop positions are about equally frequent, and both flips; they are independent. */
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
    static const char *const same[] = {"none",
                                       "crop=4,flip,cutout=8",
                                       "crop=4:reflect,flip=alternate",
                                       "cutout=16",
                                       "crop=0",
                                       "flip",
                                       "rrc=224,flip",
                                       "rrc=224:0.25-1,flip,cutout=16",
                                       "rrc=176:0.08-1:0.5-2",
                                       "resize=256,crop=0,flip",
                                       "mixup=0.2",
                                       "cutmix=1",
                                       "crop=4,flip,jitter=0.4:0.4:0.4:0.1,mixup=0.8,cutmix=1",
                                       "rrc=224,jitter=0:0:0.25,cutout=16",
                                       "jitter=0.5",
                                       "erase=0.25",
                                       "rrc=224,flip,jitter=0.4,erase=0.1:0.02-0.2,mixup=0.2",
                                       "erase=1:0.02-0.33:0.5-2,cutmix=1",
                                       "jitter=0:0:0:0.5",
                                       "flip,vflip,solarize=128",
                                       "vflip=0.25,grayscale,posterize=4:0.2,sharpness=2.5:1",
                                       "grayscale=1,invert,equalize=0.1,autocontrast",
                                       "grayscale=0.2,blur=23:0.1-2:0.5,solarize=128:0.2",
                                       "blur=3",
                                       "blur=63:0.5-0.5",
                                       "affine=0,invert=1",
                                       "affine=15:0.1",
                                       "affine=180:0:0.5-2:10:bilinear",
                                       "affine=15:bilinear,trivialaugment",
                                       "trivialaugment=bilinear",
                                       "randaugment,solarize=0.5:0.3",
                                       "randaugment=3",
                                       "randaugment=8:30:bilinear",
                                       "randaugment=bilinear",
                                       "autoaugment=imagenet",
                                       "crop=4,autoaugment=cifar10:bilinear",
                                       "autoaugment=svhn",
                                       "augmix",
                                       "augmix=1",
                                       "augmix=basic",
                                       "augmix=nearest",
                                       "flip,augmix=basic:nearest,cutmix=1",
                                       "augmix=10:8",
                                       "augmix=3:3:2:nearest",
                                       "augmix=3:3:-1:0.5",
                                       "augmix=5:1:8:20:basic:nearest"};
    char text[FF_AUGMENT_TEXT_BYTES];
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        ff_augment_spec spec = parse(same[i]);
        ff_augment_text(&spec, text);
        assert_string_equal(text, same[i]);
    }
    ff_augment_spec spec = parse("flip=random,crop");
    ff_augment_text(&spec, text);
    assert_string_equal(text, "crop=0,flip");
    spec = parse("cutmix,mixup,jitter=0.4:0:0:0");
    ff_augment_text(&spec, text);
    assert_string_equal(text, "jitter=0.4,mixup=1,cutmix=1");
    spec = parse("rrc=224:0.08-1:0.75-1.3333333333333333");
    ff_augment_text(&spec, text);
    assert_string_equal(text, "rrc=224");
    /* The longest there is. */
    spec =
        parse("flip=alternate,rrc=1048576:0.12345678901234567-0.23456789012345678:"
              "12.345678901234567-23.456789012345678,jitter=12.345678901234567:12.345678901234567:"
              "12.345678901234567:0.12345678901234567,mixup=12.345678901234567,"
              "cutmix=0.12345678901234567,erase=0.12345678901234567:0.12345678901234567-"
              "0.23456789012345678:12.345678901234567-23.456789012345678");
    ff_augment_text(&spec, text);
    ff_augment_spec again = parse(text);
    assert_memory_equal(&again, &spec, sizeof spec);
    spec = parse("augmix=3:3:-1:1");
    ff_augment_text(&spec, text);
    assert_string_equal(text, "augmix");
    spec = parse("autoaugment,affine=5:0:1-1:0");
    ff_augment_text(&spec, text);
    assert_string_equal(text, "affine=5,autoaugment=imagenet");
    spec = parse("crop=1048576:reflect,flip=alternate,cutout=1048576");
    ff_augment_text(&spec, text);
    assert_string_equal(text, "crop=1048576:reflect,flip=alternate,cutout=1048576");
}

static void bad_text(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      "crop=",
                                      "crop=-1",
                                      "crop=4:wrap",
                                      "crop=4x",
                                      "flip=both",
                                      "cutout",
                                      "cutout=0",
                                      "cutout=8,cutout=8",
                                      "mix",
                                      "mixup=",
                                      "mixup=0",
                                      "mixup=-1",
                                      "mixup=0.001",
                                      "mixup=1x",
                                      "mixup=nan",
                                      "mixup,mixup=0.2",
                                      "cutmix=101",
                                      "cutmix=1:2",
                                      "cutmix,cutmix",
                                      "erase",
                                      "erase=",
                                      "erase=0",
                                      "erase=1.1",
                                      "erase=0.5:1",
                                      "erase=0.5:0.1-0.2:",
                                      "erase=0.5,erase=0.5",
                                      "erase=0.5,cutout=8",
                                      "jitter",
                                      "jitter=",
                                      "jitter=0",
                                      "jitter=0:0:0:0",
                                      "jitter=0.4:",
                                      "jitter=0.4:0.4:0.4:0.6",
                                      "jitter=0.4:0.4:0.4:0.1:1",
                                      "jitter=-1",
                                      "jitter=0.4,jitter=0:1",
                                      "flip,flip",
                                      "crop=4,",
                                      "none,flip",
                                      "crop=4294967300",
                                      "crop=4,crop=4",
                                      "rrc",
                                      "rrc=",
                                      "rrc=0",
                                      "rrc=224:",
                                      "rrc=224:0.5",
                                      "rrc=224:1-0.5",
                                      "rrc=224:0-1",
                                      "rrc=224:0.1-1.5",
                                      "rrc=224:nan-1",
                                      "rrc=224:0.1-inf",
                                      "rrc=224:0.1-1:",
                                      "rrc=224:0.1-1:0.001-1",
                                      "rrc=224:0.1-1:2-1",
                                      "rrc=224:0.1-1:1-2:3",
                                      "rrc=224:0.1 -1",
                                      "rrc=224:0.1- 1",
                                      "rrc=224:-1-1",
                                      "rrc=224x",
                                      "rrc=8,rrc=8",
                                      "resize",
                                      "resize=0",
                                      "resize=8,resize=9",
                                      "rrc=224,crop",
                                      "rrc=224,resize=256",
                                      "vflip=",
                                      "vflip=0",
                                      "vflip=1.5",
                                      "solarize",
                                      "solarize=256",
                                      "solarize=128:",
                                      "solarize=128:2",
                                      "posterize=9",
                                      "posterize=2.5",
                                      "grayscale=0",
                                      "grayscale=0.5:0.5",
                                      "invert=x",
                                      "sharpness=-1",
                                      "blur",
                                      "blur=0",
                                      "blur=4",
                                      "blur=65",
                                      "blur=3:2-1",
                                      "blur=3:0-1",
                                      "blur=3:1",
                                      "blur=3:1-2:0",
                                      "blur=3:1-2:",
                                      "blur=3:1-2:0.5:1",
                                      "affine",
                                      "affine=181",
                                      "affine=5:2",
                                      "affine=5:0:2-1",
                                      "affine=5:0:0-1",
                                      "affine=5:0:1-1:90",
                                      "affine=5:0:1-1:10:cubic",
                                      "affine=5x",
                                      "affine=5bilinear",
                                      "affine=bilinear",
                                      "trivialaugment=wide",
                                      "trivialaugment=",
                                      "trivialaugment=:bilinear",
                                      "randaugment=0",
                                      "randaugment=9",
                                      "randaugment=2:31",
                                      "randaugment=2:9:1",
                                      "randaugment=2:9:",
                                      "autoaugment=cifar100",
                                      "autoaugment=svhn:nearest",
                                      "trivialaugment,randaugment",
                                      "autoaugment,trivialaugment",
                                      "autoaugment,autoaugment=svhn",
                                      "augmix=0",
                                      "augmix=11",
                                      "augmix=3:0",
                                      "augmix=3:9",
                                      "augmix=3:3:0",
                                      "augmix=3:3:9",
                                      "augmix=3:3:-2",
                                      "augmix=3:3:-1:0",
                                      "augmix=3:3:-1:101",
                                      "augmix=3:3:-1:1:1",
                                      "augmix=3:",
                                      "augmix=",
                                      "augmix=:basic",
                                      "augmix=3basic",
                                      "augmix=nearest:basic",
                                      "augmix=bilinear",
                                      "augmix,randaugment",
                                      "trivialaugment,augmix",
                                      "resize=256,crop=4"};
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
    assert_ok(ff_augment_check(&spec, 32, 32, 40, 40, error));
    assert_int_equal(ff_augment_check(&spec, 32, 32, 41, 40, NULL), FF_USAGE);
    assert_int_equal(ff_augment_check(&spec, 32, 32, 40, 41, NULL), FF_USAGE);
    assert_int_equal(ff_augment_check(&spec, 32, 32, 32, 0, NULL), FF_USAGE);
    assert_ok(ff_augment_check(&spec, 4, 9, 9, 9, error));
    assert_fails(ff_augment_check(&spec, 3, 9, 9, 9, error), FF_USAGE,
                 "a padding of 4 is too large for samples of 3x9; it may be 3 pixels at most");
    assert_int_equal(ff_augment_check(&spec, 9, 3, 9, 9, NULL), FF_USAGE);
    assert_int_equal(ff_augment_usual_pad(3, 2, 0, 0), 2);
    assert_int_equal(ff_augment_usual_pad(8, 80, 0, 0), 8);
    spec = parse("crop=4:reflect");
    assert_ok(ff_augment_check(&spec, 5, 5, 5, 5, error));
    assert_fails(ff_augment_check(&spec, 4, 5, 4, 4, error), FF_USAGE,
                 "a reflected padding of 4 is too large for samples of 4x5; it may be 3 pixels at");
    assert_int_equal(ff_augment_check(&spec, 5, 4, 4, 4, NULL), FF_USAGE);
    spec = parse("none");
    assert_int_equal(ff_augment_check(&spec, 32, 32, 33, 32, NULL), FF_USAGE);
    spec = parse("rrc=224");
    assert_ok(ff_augment_check(&spec, 1, 1, 224, 224, error));
    assert_int_equal(ff_augment_check(&spec, 1, 1, 224, 0, NULL), FF_USAGE);
    spec = parse("resize=256");
    assert_ok(ff_augment_check(&spec, 10, 20, 256, 512, error));
    assert_int_equal(ff_augment_check(&spec, 10, 20, 257, 512, NULL), FF_USAGE);
    assert_int_equal(ff_augment_check(&spec, 10, 20, 256, 513, NULL), FF_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_values),
        cmocka_unit_test(golden_boxes),
        cmocka_unit_test(golden_erasing),
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(resized),
        cmocka_unit_test(uniform),
        cmocka_unit_test(alternating_flips),
        cmocka_unit_test(without_crop),
        cmocka_unit_test(reflection),
        cmocka_unit_test(text_both_ways),
        cmocka_unit_test(bad_text),
        cmocka_unit_test(checks),
        cmocka_unit_test(erasing_leaves_whole_sides),
        cmocka_unit_test(ten_tries),
        cmocka_unit_test(boxes_of_whole_sides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
