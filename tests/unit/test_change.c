/* Changes of u8 values: golden draws, sets that hold the same pixels in several dtypes, any number
 * of threads, and refusals. Their values: tests/exact/test_change.py. */
#include "loader/augment/augment.h"
#include "loader/augment/change/apply.h"
#include "loader/augment/change/table.h"
#include "loader/host/loader.h"
#include "tests/unit/dice.h"
#include "tests/unit/format_set.h"

static ff_augment_spec parse(const char *text) {
    ff_augment_spec spec;
    assert_ok(ff_augment_parse(&spec, text, error));
    return spec;
}

static ff_changes draw(const char *words, uint64_t sample) {
    const ff_augment_spec spec = parse(words);
    ff_changes changes;
    ff_changes_at(&changes, &spec.change, 5, 2, sample, 160, 224);
    return changes;
}

/* The numbers of each change, hashed as they are. */
static uint64_t hash_of(const ff_changes *changes) {
    uint64_t hash = changes->count;
    for (uint32_t k = 0; k < changes->count; k++) {
        hash = set_mix(hash, changes->change[k].kind);
        for (int i = 0; i < 6; i++)
            hash = set_mix(hash, ff_float_bits(changes->change[k].value[i]));
    }
    return hash;
}

static void golden_draws(void **state) {
    (void)state;
    static const struct {
        const char *words;
        uint64_t hash; /* of samples 0 to 99 */
    } wanted[] = {
        {"grayscale,solarize=128,posterize=4,invert,equalize,autocontrast,sharpness=2",
         0x5c7ed78656d98eaf},
        {"grayscale=0.5,blur=23:0.1-2:0.5,solarize=128:0.2", 0xc36e6d79194ed55b},
        {"affine=30:0.1:0.5-2:10", 0xd7fb9ea7be759021},
        {"affine=180:1:0.01-100:80:bilinear", 0xa15ffa04b7cc0865},
        {"trivialaugment", 0xa2e6bc7f99bf7aff},
        {"randaugment=8:17", 0xe6489f6d11e03ee8},
        {"autoaugment", 0x1b2073fbcded5c8a},
        {"autoaugment=cifar10", 0xa807d46053e3b9b3},
        {"autoaugment=svhn:bilinear", 0x5d31f4e418015ca1},
        {"augmix", 0x3faec5af7da4d7b6},
        {"augmix=10:8:8:0.3:basic:nearest,affine=9,grayscale=1,solarize=9:1", 0x4a574ac8343debd9},
    };
    int wrong = 0;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        uint64_t hash = 0;
        for (uint64_t sample = 0; sample < 100; sample++) {
            const ff_changes changes = draw(wanted[i].words, sample);
            hash = set_mix(hash, hash_of(&changes));
        }
        if (hash == wanted[i].hash) continue;
        print_error("%s: 0x%016llx\n", wanted[i].words, (unsigned long long)hash);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

/* Between grayscale and the others; sigma is uniform, whatever else is drawn. */
static void blurs(void **state) {
    (void)state;
    enum { SAMPLES = 20000, PARTS = 10 };
    int count = 0, part[PARTS] = {0};
    for (uint64_t sample = 0; sample < SAMPLES; sample++) {
        const ff_changes changes = draw("solarize=9:1,blur=5:0.5-4.5:0.3,grayscale=1", sample);
        const ff_changes alone = draw("blur=5:0.5-4.5:0.3", sample);
        assert_int_equal(changes.change[0].kind, FF_CHANGE_GRAYSCALE);
        assert_int_equal(changes.change[changes.count - 1].kind, FF_CHANGE_SOLARIZE);
        assert_int_equal(changes.count, 2 + alone.count);
        if (!alone.count) continue;
        const ff_change *blur = &changes.change[1];
        assert_int_equal(blur->kind, FF_CHANGE_BLUR);
        assert_memory_equal(blur, &alone.change[0], sizeof *blur);
        assert_true(blur->value[0] == 5 && blur->value[1] >= 0.5f && blur->value[1] < 4.5f);
        part[(int)((double)(blur->value[1] - 0.5f) / 4 * PARTS)]++;
        count++;
    }
    assert_in_range(count, 5700, 6300);
    for (int k = 0; k < PARTS; k++) assert_in_range(part[k], 480, 720);
    assert_int_equal(draw("blur=3", 7).count, 1);
}

/* Each with its own probability, in one order, whatever the others do. */
static void probabilities(void **state) {
    (void)state;
    const char *const all = "grayscale=0.2,solarize=9:0.5,posterize=1:1,invert=0.9,equalize=0.01,"
                            "autocontrast=0.3,sharpness=2:0.6";
    static const double wanted[] = {0.2, 0.5, 1, 0.9, 0.01, 0.3, 0.6};
    static const ff_change_kind order[] = {
        FF_CHANGE_GRAYSCALE, FF_CHANGE_SOLARIZE,     FF_CHANGE_POSTERIZE, FF_CHANGE_INVERT,
        FF_CHANGE_EQUALIZE,  FF_CHANGE_AUTOCONTRAST, FF_CHANGE_SHARPNESS};
    enum { SAMPLES = 20000 };
    int count[7] = {0}, both = 0;
    for (uint64_t sample = 0; sample < SAMPLES; sample++) {
        const ff_changes changes = draw(all, sample), alone = draw("invert=0.9", sample);
        int next = 0, inverted = 0, solarized = 0;
        for (uint32_t k = 0; k < changes.count; k++, next++) {
            while (next < 7 && order[next] != (ff_change_kind)changes.change[k].kind) next++;
            assert_true(next < 7);
            count[next]++;
            inverted |= order[next] == FF_CHANGE_INVERT;
            solarized |= order[next] == FF_CHANGE_SOLARIZE;
        }
        assert_int_equal(alone.count, inverted);
        both += inverted && solarized;
    }
    for (int k = 0; k < 7; k++) {
        const double expected = SAMPLES * wanted[k];
        const double off = count[k] - expected;
        assert_true(off * off <= 25 * expected * (1 - wanted[k]));
    }
    assert_in_range(both, 8700, 9300); /* of 9000: independent */
}

/* ---- tables on the host --------------------------------------------------------------------- */

/* By vectors as one by one, also in place; nothing after the end is written. */
static void tables(void **state) {
    (void)state;
    enum { MOST = 300 };
    dice luck = {.seed = 4};
    for (int trial = 0; trial < 2000; trial++) {
        uint8_t table[256], from[MOST], to[MOST + 1], plain[MOST];
        const size_t at = roll(&luck, 3), count = 1 + roll(&luck, MOST - 3);
        uint32_t counts[256], total = 0;
        uint8_t low = 255, high = 0, found[2];
        for (int v = 0; v < 256; v++) table[v] = (uint8_t)roll(&luck, 256);
        for (size_t i = 0; i < MOST; i++) from[i] = (uint8_t)(60 + roll(&luck, 1 + trial % 196));
        to[count] = 77;
        ff_change_look_up(to, from + at, count, table);
        ff_change_look_up_plain(plain, from + at, count, table);
        ff_change_count(from + at, count, counts);
        ff_change_extremes(from + at, count, &found[0], &found[1]);
        for (size_t i = 0; i < count; i++) {
            const uint8_t value = from[at + i];
            assert_int_equal(to[i], table[value]);
            assert_int_equal(plain[i], table[value]);
            low = value < low ? value : low, high = value > high ? value : high;
            counts[value]--;
        }
        assert_int_equal(to[count], 77);
        assert_true(found[0] == low && found[1] == high);
        for (int v = 0; v < 256; v++) total += counts[v];
        assert_int_equal(total, 0);
        ff_change_look_up(from + at, from + at, count, table);
        assert_memory_equal(from + at, plain, count);
    }
}

/* ---- affine changes on the host ------------------------------------------------------------- */

static uint8_t value_at(const uint8_t *plane, int64_t y, int64_t x, uint32_t height,
                        uint32_t width) {
    const bool inside = y >= 0 && x >= 0 && y < height && x < width;
    return inside ? plane[(size_t)y * width + (size_t)x] : 0;
}

/* Pixel by pixel. */
static void plain_affine(const ff_change *change, const uint8_t *plane, uint8_t *to,
                         uint32_t height, uint32_t width) {
    const float *m = change->value;
    for (uint32_t i = 0; i < height * width; i++) {
        const float x = ff_matrix_base(i % width, width), y = ff_matrix_base(i / width, height);
        const float column = ff_matrix_place(x * m[0], y * m[1], m[2], width);
        const float line = ff_matrix_place(x * m[3], y * m[4], m[5], height);
        const int32_t from = ff_matrix_nearest(column, line, height, width);
        const ff_matrix_corners at = ff_matrix_around(column, line, height, width);
        to[i] = from < 0 ? 0 : plane[from];
        if (change->kind == FF_CHANGE_BILINEAR)
            to[i] = ff_matrix_blend(at.weight, value_at(plane, at.y, at.x, height, width),
                                    value_at(plane, at.y, at.x + 1, height, width),
                                    value_at(plane, at.y + 1, at.x, height, width),
                                    value_at(plane, at.y + 1, at.x + 1, height, width));
    }
}

/* Small images, rows longer than are changed at a time, and sides around that up to which shifts
 * copy pixels. */
static void affine_changes(void **state) {
    (void)state;
    enum { LONG = 2049 };
    static const uint32_t sides[][2] = {
        {1, 1},   {1, 2},   {2, 1},    {3, 5},    {17, 255},     {9, 256},      {30, 257},
        {5, 513}, {40, 40}, {3, LONG}, {LONG, 3}, {LONG - 1, 2}, {4, LONG - 1}, {224, 31}};
    static uint8_t image[3 * 40 * LONG], images[10 * 40 * LONG], wanted[40 * LONG];
    dice luck = {.seed = 3};
    for (int trial = 0; trial < 600; trial++) {
        const uint32_t *side = sides[trial % 14], height = side[0], width = side[1];
        const int bilinear = (int)roll(&luck, 2), kind = (int)roll(&luck, 4);
        const double right = (double)roll(&luck, 2 * width + 3) - width - 1;
        const double down = (double)roll(&luck, 2 * height + 3) - height - 1;
        const double degrees = kind ? 0 : 0.001 * roll(&luck, 360000) - 180;
        const size_t pixels = (size_t)height * width;
        ff_changes changes = {0};
        if (kind == 1)
            ff_changes_add_shear(&changes, bilinear, roll(&luck, 9) * 0.1 - 0.4, 0, height, width);
        else
            ff_changes_add_affine(&changes, bilinear, degrees, kind == 2 ? 0 : right,
                                  kind == 2 ? 0 : down, kind ? 1 : 0.1 * (1 + roll(&luck, 30)), 0,
                                  height, width);
        for (size_t i = 0; i < 3 * pixels; i++)
            image[i] = roll(&luck, 3) ? (uint8_t)roll(&luck, 256) : 255;
        memcpy(images, image, 3 * pixels);
        const uint8_t *changed = ff_change_apply(&changes, images, 3, height, width);
        for (int c = 0; c < 3; c++) {
            plain_affine(&changes.change[0], image + c * pixels, wanted, height, width);
            assert_memory_equal(changed + c * pixels, wanted, pixels);
        }
    }
}

/* ---- loaders -------------------------------------------------------------------------------- */

/* A plain set of images of u8 in `dtype`. */
static ff_dataset *open_images(set_spec *set, ff_dtype dtype, uint32_t channels) {
    *set = plain_set(40);
    set->dtype = dtype;
    set->channels = channels;
    set->height = 20, set->width = 23;
    set->images = true;
    return open_new_set(set);
}

/* All values of an epoch's batches. */
static float *epoch_values(ff_dataset *dataset, const char *words, int threads, size_t *count) {
    ff_loader_options options = ff_loader_defaults();
    ff_loader *loader;
    options.augment = parse(words);
    options.batch = 8, options.threads = threads;
    assert_ok(ff_loader_create(&loader, dataset, &options, error));
    const ff_loader_info info = ff_loader_describe(loader);
    const size_t row = (size_t)info.channels * info.height * info.width;
    float *values = malloc(info.batches_per_epoch * 8 * row * sizeof *values);
    assert_non_null(values);
    *count = 0;
    for (uint64_t batch = 0; batch < info.batches_per_epoch; batch++) {
        ff_slot *slot;
        assert_ok(ff_loader_acquire(loader, &slot, error));
        for (uint32_t i = 0; i < slot->count; i++, *count += row)
            memcpy(values + *count, (const uint8_t *)slot->data + i * slot->row_bytes,
                   row * sizeof *values);
        ff_loader_release(loader, slot, NULL);
    }
    ff_loader_destroy(&loader);
    return values;
}

static const char *const WORDS[] = {"trivialaugment",
                                    "crop=3,flip,vflip,randaugment=4:20:bilinear,cutout=5",
                                    "jitter=0.4:0.4:0.4:0.1,grayscale=0.5,solarize=100,mixup",
                                    "autoaugment=svhn,equalize,erase=0.5,cutmix",
                                    "grayscale=0.5,blur=9:0.1-3:0.7,solarize=100",
                                    "affine=20,augmix=8,grayscale=0.5",
                                    "crop=1,flip,augmix=10:5:4:0.5:nearest,mixup"};

/* Packed as u8 or as floats, the same pixels give the same values, with any number of threads. */
static void same_of_u8_and_floats(void **state) {
    (void)state;
    static const ff_dtype dtypes[] = {FF_U8, FF_F16, FF_BF16, FF_F32};
    for (size_t w = 0; w < sizeof WORDS / sizeof *WORDS; w++) {
        for (uint32_t channels = 1; channels <= 3; channels += 2) {
            float *wanted = NULL, *plain = NULL;
            size_t count, again;
            for (int d = 0; d < 4; d++) {
                set_spec set;
                ff_dataset *dataset = open_images(&set, dtypes[d], channels);
                /* Jitter reads floats as they are. */
                if (strstr(WORDS[w], "jitter")) free(wanted), wanted = NULL;
                for (int threads = 0; threads <= 3; threads += 3) {
                    float *found = epoch_values(dataset, WORDS[w], threads, &again);
                    if (!wanted)
                        wanted = found, count = again;
                    else
                        assert_memory_equal(found, wanted, count * sizeof *found);
                    assert_int_equal(again, count);
                    if (found != wanted) free(found);
                }
                if (d == 0) plain = epoch_values(dataset, "none", 0, &again);
                ff_dataset_close(&dataset);
                set_remove(&set);
            }
            assert_memory_not_equal(plain, wanted, count * sizeof *wanted);
            free(plain);
            free(wanted);
        }
    }
}

/* The u8 that a value of f32 was made from. */
static uint8_t value_of_u8(const ff_metadata *metadata, size_t channel, float value) {
    const double x = (double)value * metadata->std[channel] + metadata->mean[channel];
    return (uint8_t)(x * 255 + 0.5);
}

/* Rows of a batch in any dtype and order of axes are those of f32 planes, rounded, or of u8 if
 * nothing is resampled, mixed or cut out; also of batches that pass the caches by. */
static void compare_batches(const char *words, uint32_t channels, uint32_t width, uint32_t batch) {
    set_spec set = plain_set(batch);
    set.dtype = FF_U8, set.channels = channels, set.height = 165, set.width = width;
    ff_dataset *dataset = open_new_set(&set);
    const size_t pixels = 160ul * (width - 3), values = channels * pixels;
    float *plane = NULL, *row = malloc(values * sizeof *row);
    uint8_t *wanted = malloc(values * sizeof(float));
    const ff_augment_spec spec = parse(words);
    const bool bytes = !ff_augment_resamples(&spec) && !ff_augment_mixes(&spec) && !spec.cutout;
    for (int k = 0; k < 8; k++) {
        ff_loader_options options = ff_loader_defaults();
        ff_loader *loader;
        ff_slot *slot;
        options.dtype = (ff_dtype[]){FF_F32, FF_F16, FF_BF16, FF_U8}[k % 4];
        options.layout = k < 4 ? FF_CHW : FF_HWC;
        options.augment = spec;
        if (options.dtype == FF_U8 && !bytes) continue;
        options.batch = batch, options.threads = k % 2;
        options.height = 160, options.width = width - 3;
        assert_ok(ff_loader_create(&loader, dataset, &options, error));
        assert_ok(ff_loader_acquire(loader, &slot, error));
        if (!plane) {
            plane = malloc(batch * values * sizeof *plane);
            memcpy(plane, slot->data, batch * values * sizeof *plane);
        }
        for (uint32_t i = 0; i < batch; i++) {
            for (size_t at = 0; at < values; at++)
                row[at] = plane[i * values + (k < 4 ? at : at % channels * pixels + at / channels)];
            if (options.dtype != FF_U8) ff_convert(wanted, options.dtype, row, FF_F32, values);
            for (size_t at = 0; options.dtype == FF_U8 && at < values; at++)
                wanted[at] = value_of_u8(ff_dataset_metadata(dataset),
                                         k < 4 ? at / pixels : at % channels, row[at]);
            assert_memory_equal((const uint8_t *)slot->data + i * slot->row_bytes, wanted,
                                values * ff_dtype_bytes(options.dtype));
        }
        ff_loader_release(loader, slot, NULL);
        ff_loader_destroy(&loader);
    }
    free(plane);
    free(row);
    free(wanted);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

static void batches(void **state) {
    (void)state;
    const char *const all = "crop=0,flip,vflip,trivialaugment=bilinear,cutout=9";
    compare_batches(all, 3, 163, 36);
    compare_batches(all, 1, 80, 5);
    compare_batches("crop=0,flip,randaugment=2:9,cutmix", 3, 40, 6);
    compare_batches("rrc=160,augmix", 3, 163, 4);
    compare_batches("crop=0,flip,solarize=100:0.5", 3, 67, 7);
    compare_batches("crop=2,flip,trivialaugment,equalize=0.5,sharpness=2", 3, 163, 36);
    compare_batches("crop=0,vflip,augmix,grayscale,blur=5", 3, 50, 5);
    compare_batches("affine=20,autoaugment,posterize=3,autocontrast=0.5", 1, 44, 3);
}

static void refuses(const char *words, ff_dtype from, ff_dtype to, uint32_t channels, bool images,
                    const char *part) {
    ff_loader *loader;
    ff_error failure = {0};
    set_spec set = plain_set(20);
    set.dtype = from, set.channels = channels, set.images = images;
    if (from == FF_U16) set.no_statistics = true;
    ff_dataset *dataset = open_new_set(&set);
    ff_loader_options options = ff_loader_defaults();
    options.dtype = to;
    options.augment = parse(words);
    assert_int_equal(ff_loader_create(&loader, dataset, &options, &failure), FF_USAGE);
    if (!strstr(failure.message, part)) fail_msg("'%s' has no '%s'", failure.message, part);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

static void refusals(void **state) {
    (void)state;
    refuses("invert,jitter=0.4", FF_U8, FF_U8, 3, true,
            "jitter, mixup and cutmix need batches of f32");
    refuses("invert,cutmix", FF_U8, FF_U8, 3, true, "f32, f16 or bf16, not u8 as stored");
    refuses("invert,cutout=3", FF_U8, FF_U8, 3, true,
            "cutout or random erasing needs batches of f32");
    refuses("invert", FF_U16, FF_U16, 3, false, "not u16");
    refuses("invert", FF_F16, FF_U8, 3, true, "batches of u8 cannot be made from samples of f16");
    refuses("invert", FF_U8, FF_F32, 4, true, "1 or 3 channels, not 4");
    refuses("invert", FF_U16, FF_F32, 3, false, "not u16");
    refuses("invert", FF_F16, FF_F32, 3, false, "pack them with --dtype u8");
    refuses("trivialaugment", FF_F32, FF_F32, 3, false, "pack them with --dtype u8");
    refuses("blur=63,rrc=31", FF_U8, FF_F32, 3, true, "needs more than 31 pixels a side");
    refuses("invert,rrc=46341", FF_U8, FF_F32, 3, true, "too large for");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_draws),
        cmocka_unit_test(blurs),
        cmocka_unit_test(probabilities),
        cmocka_unit_test(tables),
        cmocka_unit_test(batches),
        cmocka_unit_test(affine_changes),
        cmocka_unit_test(same_of_u8_and_floats),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
