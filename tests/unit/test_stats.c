/* Statistics: known values, and that neither order nor grouping matters. */
#include <stdint.h>

#include "format/base/bytes.h"
#include "tests/unit/check.h"
#include "tools/ffpack/image/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ff_stats *make(uint32_t channels) {
    ff_stats *stats;
    assert_ok(ff_stats_create(&stats, channels, error));
    return stats;
}

static uint64_t pixels_of(const ff_stats *stats) {
    ff_buffer bytes = {0};
    assert_ok(ff_stats_encode(stats, &bytes, error));
    uint64_t pixels = ff_load_u64(bytes.bytes);
    ff_buffer_free(&bytes);
    return pixels;
}

static void test_known_values(void **unused) {
    (void)unused;
    /* Channel 0: 0 and 255, half each: mean 0.5, std 0.5. Channel 1: 51 and 102 (0.2 and 0.4). */
    static const uint8_t pixels[] = {0, 51, 255, 102, 0, 51, 255, 102, 0, 51, 255, 102};
    ff_stats *stats = make(2);
    float mean[2], std[2];
    ff_stats_add_interleaved(stats, pixels, 6);
    assert_int_equal(pixels_of(stats), 6);
    assert_ok(ff_stats_finish(stats, mean, std, error));
    assert_true(mean[0] == 0.5f && std[0] == 0.5f);
    assert_true(fabsf(mean[1] - 0.3f) < 1e-7f && fabsf(std[1] - 0.1f) < 1e-7f);
    ff_stats_destroy(&stats);
    assert_null(stats);
    ff_stats_destroy(&stats);
    ff_stats_destroy(NULL);
}

/* Long double two-pass sums over all values, as NumPy's mean and std. */
static void test_against_sums(void **unused) {
    (void)unused;
    enum { COUNT = 54321 };
    uint8_t *values = malloc(COUNT);
    uint32_t state = 1;
    for (size_t i = 0; i < COUNT; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (uint8_t)((state >> 24) * (state >> 12 & 255) / 255);
    }
    long double sum = 0, squares = 0;
    for (size_t i = 0; i < COUNT; i++) sum += values[i] / 255.0L;
    long double middle = sum / COUNT;
    for (size_t i = 0; i < COUNT; i++)
        squares += (values[i] / 255.0L - middle) * (values[i] / 255.0L - middle);
    ff_stats *stats = make(1);
    float mean, std;
    ff_stats_add_planar(stats, values, COUNT);
    assert_ok(ff_stats_finish(stats, &mean, &std, error));
    assert_true(mean == (float)middle);
    assert_true(std == (float)sqrtl(squares / COUNT));
    ff_stats_destroy(&stats);
    free(values);
}

/* The largest values, so many that their squares would overflow a lane of 32 bits twice, and every
 * remainder after whole blocks. */
static void test_largest_sums(void **unused) {
    (void)unused;
    enum { LANES = 16, OVERFLOW = 66052, COUNT = 3 * OVERFLOW * LANES + 100 };
    uint8_t *values = malloc(3 * (size_t)COUNT);
    memset(values, 255, 3 * (size_t)COUNT);
    for (size_t count = COUNT - 20; count < COUNT; count++) {
        ff_stats *planar = make(1), *interleaved = make(3);
        float mean[3], std[3];
        values[0] = values[1] = values[2] = 0;
        ff_stats_add_interleaved(interleaved, values, count);
        values[1] = values[2] = 255;
        ff_stats_add_planar(planar, values, count);
        double wanted = (double)(count - 1) / (double)count;
        assert_ok(ff_stats_finish(planar, mean, std, error));
        assert_true(mean[0] == (float)wanted);
        assert_true(fabs(std[0] - sqrt(wanted * (1 - wanted))) < 1e-7);
        /* One black pixel. */
        assert_ok(ff_stats_finish(interleaved, mean, std, error));
        for (int c = 0; c < 3; c++) {
            assert_true(mean[c] == (float)wanted);
            assert_true(fabs(std[c] - sqrt(wanted * (1 - wanted))) < 1e-7);
        }
        ff_stats_destroy(&planar);
        ff_stats_destroy(&interleaved);
    }
    free(values);
}

/* The same of u16, planar and interleaved; and of channels beyond three. */
static void test_largest_words(void **unused) {
    (void)unused;
    enum { COUNT = 70000, CHANNELS = 4 };
    static uint16_t words[COUNT * CHANNELS];
    static uint8_t bytes[COUNT * CHANNELS];
    memset(words, 0xff, sizeof words);
    memset(bytes, 0xff, sizeof bytes);
    double wanted = (double)(COUNT - 1) / COUNT;
    for (int planar = 0; planar < 2; planar++) {
        ff_stats *of_words = make(CHANNELS), *of_bytes = make(CHANNELS);
        float mean[CHANNELS], std[CHANNELS];
        size_t step = planar ? COUNT : 1, last = planar ? COUNT - 1 : CHANNELS * (COUNT - 1);
        for (size_t c = 0; c < CHANNELS; c++) words[last + c * step] = bytes[last + c * step] = 0;
        ff_stats_add_u16(of_words, words, planar, COUNT);
        if (planar)
            ff_stats_add_planar(of_bytes, bytes, COUNT);
        else
            ff_stats_add_interleaved(of_bytes, bytes, COUNT);
        for (int words_too = 0; words_too < 2; words_too++) {
            assert_ok(ff_stats_finish_range(words_too ? of_words : of_bytes, 0,
                                            words_too ? 65535 : 255, mean, std, error));
            for (size_t c = 0; c < CHANNELS; c++) {
                assert_true(mean[c] == (float)wanted);
                assert_true(fabs(std[c] - sqrt(wanted * (1 - wanted))) < 1e-7);
            }
        }
        for (size_t c = 0; c < CHANNELS; c++) {
            words[last + c * step] = 65535;
            bytes[last + c * step] = 255;
        }
        ff_stats_destroy(&of_words);
        ff_stats_destroy(&of_bytes);
    }
}

static void test_order_and_grouping_do_not_matter(void **unused) {
    (void)unused;
    enum { COUNT = 1009, CHANNELS = 3 };
    static uint8_t interleaved[COUNT * CHANNELS], planar[COUNT * CHANNELS];
    for (size_t i = 0; i < COUNT; i++)
        for (size_t c = 0; c < CHANNELS; c++)
            interleaved[i * CHANNELS + c] = planar[c * COUNT + i] = (uint8_t)(i * i + 11 * c);
    static uint16_t words[2][COUNT * CHANNELS];
    float mean[3][CHANNELS], std[3][CHANNELS];
    ff_stats *whole = make(CHANNELS), *first = make(CHANNELS), *second = make(CHANNELS);
    ff_stats *planes = make(CHANNELS);
    ff_stats_add_interleaved(whole, interleaved, COUNT);
    ff_stats_add_planar(planes, planar, COUNT);
    /* In pieces of every small length, the later ones first. */
    size_t at = COUNT, piece = 0;
    while (at > 0) {
        size_t count = ++piece % 17 < at ? piece % 17 : at;
        at -= count;
        ff_stats_add_interleaved(piece % 2 ? first : second, interleaved + at * CHANNELS, count);
    }
    ff_stats_merge(first, second);
    const ff_stats *all[] = {whole, planes, first};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pixels_of(all[i]), COUNT);
        assert_ok(ff_stats_finish(all[i], mean[i], std[i], error));
        assert_memory_equal(mean[i], mean[0], sizeof mean[0]);
        assert_memory_equal(std[i], std[0], sizeof std[0]);
    }
    /* 257 times the values with 257 times the range. */
    for (size_t i = 0; i < COUNT * CHANNELS; i++) {
        words[0][i] = (uint16_t)(257u * interleaved[i]);
        words[1][i] = (uint16_t)(257u * planar[i]);
    }
    for (int is_planar = 0; is_planar < 2; is_planar++) {
        ff_stats *of_words = make(CHANNELS);
        float wide[CHANNELS], deviation[CHANNELS];
        ff_stats_add_u16(of_words, words[is_planar], is_planar, COUNT);
        assert_ok(ff_stats_finish_range(of_words, 0, 65535, wide, deviation, error));
        for (size_t c = 0; c < CHANNELS; c++)
            assert_true(fabsf(wide[c] - mean[0][c]) < 1e-6f &&
                        fabsf(deviation[c] - std[0][c]) < 1e-6f);
        /* A range that does not begin at 0 moves the mean. */
        assert_ok(ff_stats_finish_range(of_words, -65535, 65535, wide, deviation, error));
        for (size_t c = 0; c < CHANNELS; c++)
            assert_true(fabsf(wide[c] - (mean[0][c] + 1) / 2) < 1e-6f &&
                        fabsf(deviation[c] - std[0][c] / 2) < 1e-6f);
        ff_stats_destroy(&of_words);
    }
    ff_stats_destroy(&whole);
    ff_stats_destroy(&planes);
    ff_stats_destroy(&first);
    ff_stats_destroy(&second);
}

/* Sums beyond 64 bits: doubling by merging 2^40 times the pixels changes nothing. */
static void test_huge_counts(void **unused) {
    (void)unused;
    static const uint8_t values[] = {250, 255, 3, 255};
    ff_stats *stats = make(1), *copy = make(1);
    float mean[2], std[2];
    ff_stats_add_planar(stats, values, 4);
    assert_ok(ff_stats_finish(stats, &mean[0], &std[0], error));
    for (int i = 0; i < 40; i++) {
        ff_stats_destroy(&copy);
        copy = make(1);
        ff_stats_merge(copy, stats);
        ff_stats_merge(stats, copy);
    }
    assert_true(pixels_of(stats) == UINT64_C(4) << 40);
    assert_ok(ff_stats_finish(stats, &mean[1], &std[1], error));
    assert_true(mean[0] == mean[1] && std[0] == std[1]);
    ff_stats_destroy(&stats);
    ff_stats_destroy(&copy);
}

static void test_refused(void **unused) {
    (void)unused;
    static const uint8_t flat[] = {1, 7, 2, 7, 3, 7};
    ff_stats *stats = make(2);
    float mean[2], std[2];
    ff_error error;
    assert_int_equal(ff_stats_finish(stats, mean, std, &error), FF_BAD_DATA);
    assert_non_null(strstr(error.message, "no pixel"));
    ff_stats_add_interleaved(stats, flat, 3);
    assert_int_equal(ff_stats_finish(stats, mean, std, &error), FF_BAD_DATA);
    assert_non_null(strstr(error.message, "channel 1 has the value 7"));
    ff_stats_destroy(&stats);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_against_sums),
        cmocka_unit_test(test_largest_sums),
        cmocka_unit_test(test_largest_words),
        cmocka_unit_test(test_order_and_grouping_do_not_matter),
        cmocka_unit_test(test_huge_counts),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
