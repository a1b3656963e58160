/* The passes of every kind of CPU against the plain ones: equal bytes on random odd shapes. Inputs
 * and outputs are in memory of exactly their size, so that a sanitizer detects accesses outside. */
#include <stdint.h>

#include "tests/unit/check.h"
#include "tests/unit/dice.h"
#include "tools/ffpack/image/resize_passes.h"

#include <stdlib.h>
#include <string.h>

static dice luck;

static uint8_t *noise(size_t bytes) {
    uint8_t *made = malloc(bytes);
    assert_non_null(made);
    /* Runs of the extremes, where sums are largest and clipping happens, between random values. */
    for (size_t i = 0; i < bytes; i++)
        made[i] = roll(&luck, 4) ? (uint8_t)roll(&luck, 256) : roll(&luck, 2) ? 255 : 0;
    return made;
}

/* 0xcc where nothing was written. */
static uint8_t *blank(size_t bytes) {
    uint8_t *made = malloc(bytes);
    assert_non_null(made);
    memset(made, 0xcc, bytes);
    return made;
}

static const ff_resize_passes *passes; /* under test */
static int fitted, outputs;

static void check_horizontal(ff_resize_axis *axis, uint32_t channels, size_t rows) {
    size_t row_values = (size_t)axis->input * channels, stride = row_values + roll(&luck, 3);
    size_t wanted = rows * axis->count * channels;
    uint8_t *input = noise((rows - 1) * stride + row_values);
    uint8_t *plain = blank(wanted), *fast = blank(wanted);
    assert_ok(passes->prepare(axis, channels, error));
    if (axis->table.fits) {
        ff_resize_plain.horizontal(axis, channels, input, stride, rows, plain);
        passes->horizontal(axis, channels, input, stride, rows, fast);
        assert_memory_equal(fast, plain, wanted);
        fitted++;
    }
    outputs++;
    free(input);
    free(plain);
    free(fast);
}

static void check_vertical(const ff_resize_axis *axis, size_t row_values) {
    uint32_t first_row = axis->first[0], last = axis->count - 1;
    size_t rows = axis->first[last] + axis->taps[last] - first_row;
    size_t stride = row_values + roll(&luck, 3), apart = row_values + roll(&luck, 3);
    size_t wanted = (axis->count - 1) * apart + row_values;
    uint8_t *input = noise((rows - 1) * stride + row_values);
    uint8_t *plain = blank(wanted), *fast = blank(wanted);
    ff_resize_plain.vertical(axis, input, stride, first_row, row_values, plain, apart);
    passes->vertical(axis, input, stride, first_row, row_values, fast, apart);
    assert_memory_equal(fast, plain, wanted);
    free(input);
    free(plain);
    free(fast);
}

static uint32_t side(void) {
    static const uint32_t most[] = {3, 20, 100, 400, 3000};
    return 1 + roll(&luck, most[roll(&luck, 5)]);
}

static void check_many(void) {
    ff_resize_axis axis = {0};
    fitted = outputs = 0;
    for (int i = 0; i < 1500; i++) {
        uint32_t in = side(), out = side(), first = roll(&luck, out),
                 count = 1 + roll(&luck, out - first);
        if (roll(&luck, 2)) first = 0, count = out;
        if (count > 300) count = 300;
        assert_ok(ff_resize_axis_plan(&axis, in, out, first, count,
                                      (ff_interpolation)roll(&luck, 2), error));
        check_horizontal(&axis, roll(&luck, 8) ? 1 + roll(&luck, 5) : 1 + roll(&luck, 40),
                         1 + roll(&luck, 7));
        check_vertical(&axis, 1 + roll(&luck, roll(&luck, 3) ? 300 : 40));
    }
    ff_resize_axis_free(&axis);
    assert_true(fitted > outputs / 2);
}

static void test_equal(void **table) {
    passes = *table;
    if (!passes->runs()) skip();
    check_many();
}

/* Whole resizes and windows of them, in both orders of the passes. */
static void test_resizes(void **table) {
    passes = *table;
    if (!passes->runs()) skip();
    ff_resize_scratch scratch = {0}, plain_scratch = {0};
    ff_image input = {0}, fast = {0}, plain = {0};
    for (int i = 0; i < 400; i++) {
        uint32_t width = 1 + roll(&luck, 90), height = 1 + roll(&luck, 90);
        uint32_t channels = 1 + roll(&luck, 4);
        assert_ok(
            ff_image_reshape(&input, 1 + roll(&luck, 120), 1 + roll(&luck, 200), channels, error));
        size_t bytes = (size_t)input.width * input.height * channels;
        for (size_t at = 0; at < bytes; at++) input.pixels[at] = (uint8_t)roll(&luck, 256);
        ff_region window = {roll(&luck, width), roll(&luck, height), 0, 0};
        window.width = 1 + roll(&luck, width - window.left);
        window.height = 1 + roll(&luck, height - window.top);
        ff_interpolation interpolation = (ff_interpolation)roll(&luck, 2);
        for (int order = 0; order < 2; order++) {
            assert_ok(ff_resize_by(passes, &input, width, height, interpolation,
                                   (ff_pass_order)order, &window, &scratch, &fast, error));
            assert_ok(ff_resize_by(&ff_resize_plain, &input, width, height, interpolation,
                                   (ff_pass_order)order, &window, &plain_scratch, &plain, error));
            assert_memory_equal(fast.pixels, plain.pixels,
                                (size_t)window.width * window.height * channels);
        }
    }
    ff_image_free(&input);
    ff_image_free(&fast);
    ff_image_free(&plain);
    ff_resize_scratch_free(&scratch);
    ff_resize_scratch_free(&plain_scratch);
}

/* A downscale by more than the fast passes keep weights for. */
static void test_many_taps(void **table) {
    passes = *table;
    if (!passes->runs()) skip();
    ff_resize_axis axis = {0};
    for (uint32_t in = 120; in < 4000; in += 37) {
        uint32_t out = 1 + roll(&luck, 5);
        assert_ok(
            ff_resize_axis_plan(&axis, in, out, 0, out, (ff_interpolation)roll(&luck, 2), error));
        check_horizontal(&axis, 1 + roll(&luck, 4), 2);
        check_vertical(&axis, 65);
    }
    ff_resize_axis_free(&axis);
}

/* The table follows the axis and the number of channels. */
static void test_table_is_renewed(void **unused) {
    (void)unused;
    ff_resize_scratch kept = {0};
    ff_image input = {0}, again = {0}, once = {0};
    for (int i = 0; i < 300; i++) {
        uint32_t channels = 1 + roll(&luck, 4), out = 1 + roll(&luck, 3);
        assert_ok(ff_image_reshape(&input, 20 + roll(&luck, 2), 20, channels, error));
        for (size_t at = 0; at < (size_t)input.width * 20 * channels; at++)
            input.pixels[at] = (uint8_t)roll(&luck, 256);
        ff_resize_scratch fresh = {0};
        ff_region window = {0, 0, 8 + out, 15};
        for (int twice = 0; twice < 2; twice++)
            assert_ok(ff_resize(&input, 8 + out, 15, FF_BILINEAR, FF_CHEAPER_FIRST, &window,
                                twice ? &kept : &fresh, twice ? &again : &once, error));
        assert_memory_equal(again.pixels, once.pixels, (size_t)(8 + out) * 15 * channels);
        ff_resize_scratch_free(&fresh);
    }
    ff_image_free(&input);
    ff_image_free(&again);
    ff_image_free(&once);
    ff_resize_scratch_free(&kept);
}

static void test_best_runs(void **unused) {
    (void)unused;
    const ff_resize_passes *best = ff_resize_best();
    assert_true(!best->runs || best->runs());
    for (size_t i = 0; ff_resize_all[i] != best; i++) assert_false(ff_resize_all[i]->runs());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        {"avx512", test_equal, NULL, NULL, (void *)(size_t)&ff_resize_avx512},
        {"avx2", test_equal, NULL, NULL, (void *)(size_t)&ff_resize_avx2},
        {"avx512, both orders", test_resizes, NULL, NULL, (void *)(size_t)&ff_resize_avx512},
        {"avx2, both orders", test_resizes, NULL, NULL, (void *)(size_t)&ff_resize_avx2},
        {"avx512, many taps", test_many_taps, NULL, NULL, (void *)(size_t)&ff_resize_avx512},
        {"avx2, many taps", test_many_taps, NULL, NULL, (void *)(size_t)&ff_resize_avx2},
        cmocka_unit_test(test_table_is_renewed),
        cmocka_unit_test(test_best_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
