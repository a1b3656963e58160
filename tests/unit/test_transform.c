/* ToTensor and Normalize: tables against the two float32 operations, layouts and sources against
 * each other, the recorded lines. (tests/exact compares with torchvision itself.) */
#include <stdint.h>

#include "tests/unit/check.h"
#include "tools/ffpack/image/transform_apply.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const float mean[4] = {0.485f, 0.456f, 0.406f, 0.1f};
static const float std[4] = {0.229f, 0.224f, 0.225f, 3.0f};
static const ff_dtype dtypes[] = {FF_U8, FF_F16, FF_BF16, FF_F32};

static ff_transform *make(ff_value_source source, uint32_t channels, bool normalize, ff_dtype dtype,
                          ff_layout layout) {
    ff_transform_spec spec = {
        source, channels, normalize ? mean : NULL, normalize ? std : NULL, dtype, layout, false,
        0,      0};
    ff_transform *transform;
    assert_ok(ff_transform_create(&transform, &spec, error));
    assert_non_null(transform);
    return transform;
}

static void fill(uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) bytes[i] = (uint8_t)(i * 97 + i / 256 * 13 + 5);
}

/* The definition, element by element; volatile keeps the two operations separate. */
static void expect(ff_dtype dtype, bool normalize, uint32_t channel, uint8_t value, void *to) {
    volatile float x = (float)value;
    x = x / 255.0f;
    if (normalize) {
        x = x - mean[channel];
        x = x / std[channel];
    }
    float y = x;
    if (dtype == FF_U8)
        *(uint8_t *)to = value;
    else
        ff_convert(to, dtype, &y, FF_F32, 1);
}

static void test_every_source_layout_and_dtype(void **unused) {
    (void)unused;
    enum { WIDTH = 37, HEIGHT = 29, COUNT = WIDTH * HEIGHT };
    static uint8_t interleaved[COUNT * 4], planar[COUNT * 4], a[COUNT * 16], b[COUNT * 16];
    for (uint32_t channels = 1; channels <= 4; channels++) {
        fill(interleaved, COUNT * channels);
        for (size_t i = 0; i < COUNT; i++)
            for (uint32_t c = 0; c < channels; c++)
                planar[c * COUNT + i] = interleaved[i * channels + c];
        for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
            for (int layout = FF_CHW; layout <= FF_HWC; layout++) {
                for (int normalize = 0; normalize < 2; normalize++) {
                    ff_transform *transform =
                        make(FF_VALUES_U8, channels, normalize != 0, dtypes[d], (ff_layout)layout);
                    size_t size = ff_dtype_bytes(dtypes[d]);
                    size_t bytes = ff_transform_bytes(transform, WIDTH, HEIGHT);
                    assert_int_equal(bytes, COUNT * channels * size);
                    ff_transform_interleaved(transform, interleaved, WIDTH, HEIGHT, a);
                    ff_transform_planar(transform, planar, WIDTH, HEIGHT, b);
                    assert_memory_equal(a, b, bytes);
                    for (size_t i = 0; i < COUNT; i++) {
                        for (uint32_t c = 0; c < channels; c++) {
                            size_t at = layout == FF_CHW ? c * COUNT + i : i * channels + c;
                            uint8_t want[4];
                            expect(dtypes[d], normalize != 0, c, planar[c * COUNT + i], want);
                            assert_memory_equal(a + at * size, want, size);
                        }
                    }
                    ff_transform_destroy(&transform);
                    assert_null(transform);
                }
            }
        }
    }
}

/* Any number of pixels in memory of exactly the right size: interleaved values become the same as
 * planar ones, with the loops of this CPU and with those of every CPU. */
static void test_any_count(void **unused) {
    (void)unused;
    for (uint32_t count = 1; count < 150; count++) {
        uint8_t *in = malloc(3 * count), *planar = malloc(3 * count);
        assert_true(in && planar);
        fill(in, 3 * count);
        for (uint32_t i = 0; i < 3 * count; i++) planar[i % 3 * count + i / 3] = in[i];
        for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
            for (int layout = FF_CHW; layout <= FF_HWC; layout++) {
                ff_transform *transform = make(FF_VALUES_U8, 3, true, dtypes[d], (ff_layout)layout);
                const size_t bytes = ff_transform_bytes(transform, count, 1);
                uint8_t *a = malloc(bytes), *b = malloc(bytes);
                assert_true(a && b);
                ff_transform_planar(transform, planar, count, 1, b);
                for (int plain = 0; plain < 2; plain++) {
                    if (plain) transform->fast = (ff_transform_fast){0};
                    memset(a, 0, bytes);
                    ff_transform_interleaved(transform, in, count, 1, a);
                    assert_memory_equal(a, b, bytes);
                }
                free(a);
                free(b);
                ff_transform_destroy(&transform);
            }
        }
        free(in);
        free(planar);
    }
}

/* The fast loops on memory of exactly the right size, for any count: the first values are the
 * same. */
static void test_fast_loops(void **unused) {
    (void)unused;
    const ff_transform_fast fast = ff_transform_avx512();
    if (!fast.run_16) skip();
    uint16_t table[256];
    for (uint32_t i = 0; i < 256; i++) table[i] = (uint16_t)(i * 40503u + 1);
    for (size_t count = 1; count < 400; count++) {
        for (size_t step = 1; step <= 3; step += 2) {
            size_t bytes = (count - 1) * step + 1;
            uint8_t *in = malloc(bytes), *same = malloc(count);
            uint16_t *out = malloc(count * sizeof *out);
            assert_true(in && same && out);
            for (size_t i = 0; i < bytes; i++) in[i] = (uint8_t)((i * 167 + count) >> (i % 3));
            size_t done = fast.run_16(table, in, step, count, out);
            assert_true(done <= count && done + 64 >= count);
            for (size_t i = 0; i < done; i++) assert_int_equal(out[i], table[in[i * step]]);
            if (step == 3) {
                done = fast.third_bytes(in, count, same);
                assert_true(done <= count && done + 64 >= count);
                for (size_t i = 0; i < done; i++) assert_int_equal(same[i], in[i * step]);
            }
            free(in);
            free(same);
            free(out);
        }
    }
}

/* Division, not multiplication by the reciprocal: they differ on 126 of 256 values. */
static void test_to_tensor_divides(void **unused) {
    (void)unused;
    ff_transform *transform = make(FF_VALUES_U8, 1, false, FF_F32, FF_CHW);
    int differing = 0;
    for (int v = 0; v < 256; v++) {
        volatile float reciprocal = 1.0f / 255.0f;
        float multiplied = (float)v * reciprocal;
        assert_true(ff_transform_value(transform, 0, (uint8_t)v) == (float)v / 255.0f);
        differing += multiplied != ff_transform_value(transform, 0, (uint8_t)v);
    }
    assert_int_equal(differing, 126);
    ff_transform_destroy(&transform);
}

static void test_floats(void **unused) {
    (void)unused;
    enum { WIDTH = 61, HEIGHT = 43, COUNT = WIDTH * HEIGHT, CHANNELS = 3 };
    static float chw[COUNT * CHANNELS], hwc[COUNT * CHANNELS];
    static uint8_t a[COUNT * CHANNELS * 4], b[COUNT * CHANNELS * 4];
    for (size_t i = 0; i < COUNT; i++)
        for (size_t c = 0; c < CHANNELS; c++)
            chw[c * COUNT + i] = hwc[i * CHANNELS + c] = (float)((i * 31 + c * 7) % 1000) / 77.0f;
    chw[5] = hwc[5 * CHANNELS] = INFINITY;
    chw[6] = hwc[6 * CHANNELS] = 1e30f;
    for (size_t d = 1; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        for (int layout = FF_CHW; layout <= FF_HWC; layout++) {
            for (int normalize = 0; normalize < 2; normalize++) {
                ff_transform *transform =
                    make(FF_VALUES_FLOAT, CHANNELS, normalize != 0, dtypes[d], (ff_layout)layout);
                size_t size = ff_dtype_bytes(dtypes[d]);
                ff_transform_floats(transform, chw, FF_CHW, WIDTH, HEIGHT, a);
                ff_transform_floats(transform, hwc, FF_HWC, WIDTH, HEIGHT, b);
                assert_memory_equal(a, b, COUNT * CHANNELS * size);
                for (size_t i = 0; i < COUNT; i++) {
                    for (size_t c = 0; c < CHANNELS; c++) {
                        volatile float x = chw[c * COUNT + i];
                        if (normalize) {
                            x = x - mean[c];
                            x = x / std[c];
                        }
                        float y = x;
                        uint8_t want[4];
                        ff_convert(want, dtypes[d], &y, FF_F32, 1);
                        size_t at = layout == FF_CHW ? c * COUNT + i : i * CHANNELS + c;
                        assert_memory_equal(a + at * size, want, size);
                    }
                }
                ff_transform_destroy(&transform);
            }
        }
    }
}

static void test_refused(void **unused) {
    (void)unused;
    static const float zero[3] = {1, 0, 1}, negative[3] = {1, 1, -1}, nan_mean[3] = {0, NAN, 0};
    static const float infinite[3] = {INFINITY, 1, 1};
    const ff_transform_spec bad[] = {
        {FF_VALUES_U8, 0, mean, std, FF_F32, FF_CHW, false, 0, 0},
        {FF_VALUES_U8, FF_CHANNELS_LIMIT + 1, NULL, NULL, FF_F32, FF_CHW, false, 0, 0},
        {FF_VALUES_U8, 3, mean, NULL, FF_F32, FF_CHW, false, 0, 0},
        {FF_VALUES_U8, 3, NULL, std, FF_F32, FF_CHW, false, 0, 0},
        {FF_VALUES_U8, 3, mean, zero, FF_F32, FF_CHW, false, 0, 0},
        {FF_VALUES_U8, 3, mean, negative, FF_F32, FF_CHW, false, 0, 0},
        {FF_VALUES_U8, 3, mean, infinite, FF_F32, FF_CHW, false, 0, 0},
        {FF_VALUES_U8, 3, nan_mean, std, FF_F32, FF_CHW, false, 0, 0},
        {FF_VALUES_U8, 3, mean, std, FF_I32, FF_CHW, false, 0, 0},
        {FF_VALUES_FLOAT, 3, mean, std, FF_U8, FF_CHW, false, 0, 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ff_error error = {0};
        ff_transform *transform = (ff_transform *)&error;
        assert_int_equal(ff_transform_create(&transform, &bad[i], &error), FF_USAGE);
        assert_null(transform);
        assert_true(error.message[0] != '\0');
    }
    ff_transform_destroy(NULL);
}

static void assert_lines(const ff_metadata *metadata, size_t count, const char *const *want) {
    assert_int_equal(metadata->transform_count, count);
    for (size_t i = 0; i < count; i++) assert_string_equal(metadata->transform[i], want[i]);
}

static void test_recorded_lines(void **unused) {
    (void)unused;
    ff_geometry geometry = {
        .resize = FF_RESIZE_SHORT, .size = 256, .crop_height = 224, .crop_width = 224};
    ff_transform_spec spec = {FF_VALUES_U8, 3, mean, std, FF_F16, FF_CHW, false, 0, 0};
    ff_metadata metadata = {0};
    assert_ok(ff_transform_record(&metadata, FF_MODE_RGB, &geometry, &spec, error));
    static const char *const usual[] = {
        "resize size=256 interpolation=bilinear passes=cheaper_first", "center_crop size=224x224",
        "to_tensor scale=1/255",
        "normalize mean=3ef851ec,3ee978d5,3ecfdf3b std=3e6a7efa,3e656042,3e666666"};
    assert_lines(&metadata, 4, usual);
    assert_int_equal(metadata.statistics_count, 3);
    assert_memory_equal(metadata.mean, mean, sizeof(float) * 3);
    assert_memory_equal(metadata.std, std, sizeof(float) * 3);
    ff_metadata_free(&metadata);

    /* The same lines for another dtype and layout; others for grey, an exact resize and floats. */
    spec = (ff_transform_spec){FF_VALUES_U8, 3, mean, std, FF_U8, FF_HWC, false, 0, 0};
    assert_ok(ff_transform_record(&metadata, FF_MODE_NATIVE, &geometry, &spec, error));
    assert_lines(&metadata, 4, usual);
    ff_metadata_free(&metadata);
    geometry = (ff_geometry){.resize = FF_RESIZE_EXACT,
                             .resize_height = 20,
                             .resize_width = 30,
                             .interpolation = FF_BICUBIC,
                             .order = FF_HORIZONTAL_FIRST};
    spec = (ff_transform_spec){FF_VALUES_U8, 1, NULL, NULL, FF_F32, FF_CHW, false, 0, 0};
    assert_ok(ff_transform_record(&metadata, FF_MODE_GRAY, &geometry, &spec, error));
    static const char *const gray[] = {"grayscale", "resize size=20x30 interpolation=bicubic",
                                       "to_tensor scale=1/255"};
    assert_lines(&metadata, 3, gray);
    assert_int_equal(metadata.statistics_count, 0);
    ff_metadata_free(&metadata);
    geometry = (ff_geometry){.pad_square = true, .max_side = 500, .interpolation = FF_BICUBIC};
    assert_ok(ff_transform_record(&metadata, FF_MODE_RGB, &geometry, &spec, error));
    static const char *const bounded[] = {
        "pad_square", "max_side size=500 interpolation=bicubic passes=cheaper_first",
        "to_tensor scale=1/255"};
    assert_lines(&metadata, 3, bounded);
    ff_metadata_free(&metadata);
    geometry = (ff_geometry){.resize = FF_RESIZE_SHORT, .size = 256, .max_side = 500};
    assert_ok(ff_transform_record(&metadata, FF_MODE_RGB, &geometry, &spec, error));
    static const char *const both[] = {
        "resize size=256 max_size=500 interpolation=bilinear passes=cheaper_first",
        "to_tensor scale=1/255"};
    assert_lines(&metadata, 2, both);
    ff_metadata_free(&metadata);
    spec = (ff_transform_spec){FF_VALUES_FLOAT, 1, mean, std, FF_F32, FF_CHW, false, 0, 0};
    assert_ok(ff_transform_record(&metadata, FF_MODE_RGB, NULL, &spec, error));
    static const char *const floats[] = {"normalize mean=3ef851ec std=3e6a7efa"};
    assert_lines(&metadata, 1, floats);
    ff_metadata_free(&metadata);
}

/* A range is recorded with enough digits to restore it. */
static void test_recorded_range(void **unused) {
    (void)unused;
    static const struct {
        double low, high;
        const char *want;
    } cases[] = {{0, 65535, "to_tensor range=0,65535"},
                 {-1e14, 1e15, "to_tensor range=-100000000000000,1e+15"},
                 {-0.5, 0.1, "to_tensor range=-0.5,0.1"},
                 {0.1, 0.1 + 0.2, "to_tensor range=0.1,0.30000000000000004"},
                 {1.0 / 3, 123456.789, "to_tensor range=0.3333333333333333,123456.789"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ff_transform_spec spec = {FF_VALUES_U16, 1,    NULL,         NULL,         FF_F32,
                                  FF_CHW,        true, cases[i].low, cases[i].high};
        ff_metadata metadata = {0};
        assert_ok(ff_transform_record(&metadata, FF_MODE_RGB, NULL, &spec, error));
        assert_lines(&metadata, 1, &cases[i].want);
        ff_metadata_free(&metadata);
    }
}

/* The most channels allowed, and the smallest std. */
static void test_limits(void **unused) {
    (void)unused;
    static float zeros[FF_CHANNELS_LIMIT], ones[FF_CHANNELS_LIMIT];
    for (uint32_t c = 0; c < FF_CHANNELS_LIMIT; c++) ones[c] = 1;
    ones[FF_CHANNELS_LIMIT - 1] = 1e-40f;
    ff_transform_spec spec = {
        FF_VALUES_U8, FF_CHANNELS_LIMIT, zeros, ones, FF_F16, FF_CHW, false, 0, 0};
    ff_transform *transform;
    assert_ok(ff_transform_create(&transform, &spec, error));
    assert_true(ff_transform_value(transform, FF_CHANNELS_LIMIT - 2, 255) == 1);
    ff_transform_destroy(&transform);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_source_layout_and_dtype),
        cmocka_unit_test(test_any_count),
        cmocka_unit_test(test_fast_loops),
        cmocka_unit_test(test_to_tensor_divides),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_recorded_lines),
        cmocka_unit_test(test_recorded_range),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
