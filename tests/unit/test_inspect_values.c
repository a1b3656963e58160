/* ffinspect's arithmetic and texts: statistics against plain sums, ranges, names, NumPy headers,
 * and what happens when a shard shrinks while it is read. */
#include "format/base/readable.h"
#include "tests/unit/address_space.h"
#include "tests/unit/format_set.h"
#include "tools/ffinspect/checks/stats.h"
#include "tools/ffinspect/facts/label.h"
#include "tools/ffinspect/facts/text.h"
#include "tools/ffinspect/npy.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

static bool close_to(double found, double wanted) {
    return fabs(found - wanted) <= 1e-12 * (1 + fabs(wanted));
}

/* Against a long double sum, in pieces of random length, merged in two ways. */
static void statistics_agree_with_plain_sums(void **state) {
    (void)state;
    for (unsigned round = 0; round < 50; round++) {
        enum { COUNT = 3000 };
        float value[COUNT];
        long double sum = 0, squares = 0;
        size_t finite = 0, nan_count = 0, infinity_count = 0;
        float low = INFINITY, high = -INFINITY;
        for (size_t i = 0; i < COUNT; i++) {
            uint64_t random = set_mix(round, i);
            value[i] = (float)(random % 100000) / 100 + (float)(round * 1000);
            if (round % 2 && random % 7 == 0) value[i] = random % 2 ? (float)NAN : -(float)INFINITY;
            if (isnan(value[i])) nan_count++;
            if (isinf(value[i])) infinity_count++;
            if (!isfinite(value[i])) continue;
            sum += (long double)value[i];
            finite++;
            low = fminf(low, value[i]);
            high = fmaxf(high, value[i]);
        }
        long double mean = sum / (long double)finite;
        for (size_t i = 0; i < COUNT; i++)
            if (isfinite(value[i]))
                squares += ((long double)value[i] - mean) * ((long double)value[i] - mean);
        ff_channel_stats whole = {0}, left = {0}, right = {0};
        for (size_t i = 0; i < COUNT;) {
            size_t piece = 1 + set_mix(i, round) % 700;
            if (piece > COUNT - i) piece = COUNT - i;
            ff_inspect_add_stats(&whole, value + i, piece);
            ff_inspect_add_stats(i < COUNT / 2 ? &left : &right, value + i, piece);
            i += piece;
        }
        ff_inspect_merge_stats(&left, &right);
        const ff_channel_stats *both[] = {&whole, &left};
        for (int k = 0; k < 2; k++) {
            assert_int_equal(both[k]->count, finite);
            assert_int_equal(both[k]->nan_count, nan_count);
            assert_int_equal(both[k]->infinity_count, infinity_count);
            assert_true(both[k]->minimum == (double)low && both[k]->maximum == (double)high);
            assert_true(close_to(both[k]->mean, (double)mean));
            assert_true(
                close_to(ff_inspect_std(both[k]), sqrt((double)(squares / (long double)finite))));
        }
    }
    ff_channel_stats none = {0};
    float only_nan[3] = {(float)NAN, (float)NAN, (float)INFINITY};
    ff_inspect_add_stats(&none, only_nan, 3);
    assert_int_equal(none.count, 0);
    assert_int_equal(none.nan_count, 2);
    assert_true(isnan(ff_inspect_std(&none)));
}

static set_spec some_set(void) {
    return (set_spec){.dtype = FF_F16,
                      .layout = FF_CHW,
                      .channels = 3,
                      .height = 40,
                      .width = 40,
                      .alignment = 64,
                      .items = 90,
                      .per_block = 10,
                      .per_shard = 30,
                      .labels = LABELS_CLASS,
                      .shuffled = true,
                      .seed = 5};
}

static void statistics_do_not_depend_on_threads(void **state) {
    (void)state;
    char *folder = new_folder();
    set_spec spec = some_set();
    assert_ok(set_write(&spec, folder, NULL, error));
    ff_channel_stats *stats[3];
    for (int i = 0; i < 3; i++) {
        ff_dataset *dataset;
        assert_ok(ff_dataset_open(&dataset, folder, FF_VERIFY_FIRST, error));
        assert_ok(ff_inspect_stats(&stats[i], dataset, 1 + 2 * i, error));
        ff_dataset_close(&dataset);
    }
    for (int c = 0; c < 3; c++) {
        assert_int_equal(stats[0][c].count + stats[0][c].nan_count + stats[0][c].infinity_count,
                         90 * 40 * 40);
        assert_true(stats[0][c].nan_count > 0); /* random bits hold some */
        for (int i = 1; i < 3; i++)
            assert_memory_equal(&stats[0][c], &stats[i][c], sizeof stats[0][c]);
    }
    for (int i = 0; i < 3; i++) free(stats[i]);
    remove_folder(folder);
}

/* Images larger than one chunk, in both layouts. */
static void statistics_of_large_images(void **state) {
    (void)state;
    for (int layout = FF_CHW; layout <= FF_HWC; layout++) {
        enum { SIDE = 75, CHANNELS = 3, AREA = SIDE * SIDE };
        set_spec spec = some_set();
        spec.dtype = FF_U8;
        spec.layout = (ff_layout)layout;
        spec.height = spec.width = SIDE;
        spec.items = 40;
        static uint8_t tensor[AREA * CHANNELS];
        double sum[CHANNELS] = {0};
        for (uint64_t item = 0; item < spec.items; item++) {
            set_tensor(&spec, item, tensor);
            for (size_t i = 0; i < AREA; i++)
                for (size_t c = 0; c < CHANNELS; c++)
                    sum[c] += tensor[layout == FF_CHW ? c * AREA + i : i * CHANNELS + c];
        }
        char *folder = new_folder();
        ff_dataset *dataset;
        ff_channel_stats *stats;
        assert_ok(set_write(&spec, folder, NULL, error));
        assert_ok(ff_dataset_open(&dataset, folder, FF_VERIFY_FIRST, error));
        assert_ok(ff_inspect_stats(&stats, dataset, 2, error));
        for (size_t c = 0; c < CHANNELS; c++) {
            assert_int_equal(stats[c].count, spec.items * AREA);
            assert_true(close_to(stats[c].mean, sum[c] / (double)(spec.items * AREA)));
            assert_true(stats[c].minimum == 0 && stats[c].maximum == 255);
        }
        free(stats);
        ff_dataset_close(&dataset);
        remove_folder(folder);
    }
}

/* Only NaN: there is no mean, minimum or maximum. */
static void statistics_of_no_value(void **state) {
    (void)state;
    char *folder = new_folder(), *path = join(folder, "shard-000000.ffs");
    set_spec spec = some_set();
    spec.per_shard = spec.items;
    ff_dataset *dataset;
    ff_channel_stats *stats;
    assert_ok(set_write(&spec, folder, NULL, error));
    size_t length, samples = spec.items * ff_align_u64(40 * 40 * 3 * 2, 64);
    uint8_t *bytes = read_whole(path, &length);
    memset(bytes + FF_HEADER_BYTES, 0xff, samples);
    write_whole(path, bytes, length);
    assert_ok(ff_dataset_open(&dataset, folder, FF_VERIFY_OFF, error));
    assert_ok(ff_inspect_stats(&stats, dataset, 1, error));
    for (size_t c = 0; c < 3; c++) {
        assert_int_equal(stats[c].nan_count, spec.items * 40 * 40);
        assert_true(stats[c].count == 0 && isnan(ff_inspect_std(&stats[c])));
        assert_true(isnan(stats[c].mean) && isnan(stats[c].minimum) && isnan(stats[c].maximum));
    }
    free(stats);
    free(bytes);
    free(path);
    ff_dataset_close(&dataset);
    remove_folder(folder);
}

static void storage_order_is_sorted(void **state) {
    (void)state;
    char *folder = new_folder();
    set_spec spec = some_set();
    ff_dataset *dataset;
    ff_storage_order order;
    assert_ok(set_write(&spec, folder, NULL, error));
    assert_ok(ff_dataset_open(&dataset, folder, FF_VERIFY_OFF, error));
    for (int wide = 0; wide < 2; wide++) {
        assert_ok(wide ? ff_storage_order_make(dataset, true, &order, error)
                       : ff_dataset_storage_order(dataset, &order, error));
        assert_true(ff_storage_order_differs(&order));
        assert_int_equal(order.bytes, spec.items * (wide ? 8 : 4));
        for (uint64_t p = 0; p < spec.items; p++) /* nothing is skipped */
            assert_int_equal(ff_storage_order_at(&order, p), set_item_at(&spec, p));
        ff_storage_order_free(&order);
    }
    ff_dataset_close(&dataset);
    remove_folder(folder);
}

static void storage_order_of_numbers_takes_no_memory(void **state) {
    (void)state;
    char *folder = new_folder();
    set_spec spec = some_set();
    spec.shuffled = false;
    ff_dataset *dataset;
    ff_storage_order order;
    assert_ok(set_write(&spec, folder, NULL, error));
    assert_ok(ff_dataset_open(&dataset, folder, FF_VERIFY_OFF, error));
    assert_ok(ff_dataset_storage_order(dataset, &order, error));
    assert_false(ff_storage_order_differs(&order));
    assert_int_equal(order.bytes, 0);
    for (uint64_t p = 0; p < spec.items; p++) assert_int_equal(ff_storage_order_at(&order, p), p);
    ff_dataset_close(&dataset);
    remove_folder(folder);
}

/* Of a process with less address space than the order takes. */
static int order_in_little_memory(ff_dataset *dataset) {
    ff_storage_order order;
    ff_error failure = {0};
    if (!limit_address_space(8 * ff_dataset_count(dataset))) return 2;
    if (ff_dataset_storage_order(dataset, &order, &failure) != FF_NO_MEMORY) return 3;
    return !strstr(failure.message, "left of its address space (ulimit -v); a set packed");
}

static void storage_order_without_memory_is_refused(void **state) {
    (void)state;
    if (!address_space_is_own()) skip();
    char *folder = new_folder();
    set_spec spec = some_set();
    spec.height = spec.width = 1;
    spec.items = 50000;
    spec.per_shard = 25000;
    ff_dataset *dataset;
    int result;
    assert_ok(set_write(&spec, folder, NULL, error));
    assert_ok(ff_dataset_open(&dataset, folder, FF_VERIFY_OFF, error));
    const pid_t child = fork();
    if (!child) _exit(order_in_little_memory(dataset));
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    ff_dataset_close(&dataset);
    remove_folder(folder);
}

/* The mapping is larger than the file now is. */
static void a_shard_that_shrinks_is_an_error(void **state) {
    (void)state;
    char *folder = new_folder(), *shard = join(folder, "shard-000000.ffs");
    set_spec spec = some_set();
    spec.per_shard = spec.items;
    spec.shuffled = false;
    ff_dataset *dataset;
    ff_reader *reader;
    ff_view view;
    ff_channel_stats *stats;
    assert_ok(set_write(&spec, folder, NULL, error));
    assert_ok(ff_dataset_open(&dataset, folder, FF_VERIFY_OFF, error));
    assert_ok(ff_reader_open(&reader, dataset, error));
    assert_ok(ff_reader_sample(reader, 80, &view, error));
    char *copy = malloc(view.tensor_bytes);
    assert_non_null(copy);
    assert_ok(ff_view_copy(dataset, &view, copy, error));
    assert_int_equal(truncate(shard, 8192), 0);
    assert_fails(ff_view_copy(dataset, &view, copy, error), FF_IO, "shard-000000.ffs");
    assert_fails(ff_inspect_stats(&stats, dataset, 2, error), FF_IO, "shard-000000.ffs");
    assert_null(stats);
    free(copy);
    ff_reader_close(&reader);
    ff_dataset_close(&dataset);
    free(shard);
    remove_folder(folder);
}

static void ranges(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t begin, end;
    } good[] = {{"0", 0, 1}, {"9", 9, 10}, {"2:5", 2, 5}, {"3:", 3, 10}, {":4", 0, 4}};
    static const char *const bad[] = {"",    ":",    "10",    "x",  "-1", "3:2",
                                      "5:5", "0:11", "1:2:3", "1 ", "+1", "99999999999999999999",
                                      "1:x"};
    uint64_t begin, end;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_ok(ff_inspect_range(good[i].text, 10, &begin, &end, error));
        assert_int_equal(begin, good[i].begin);
        assert_int_equal(end, good[i].end);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(ff_inspect_range(bad[i], 10, &begin, &end, error), FF_USAGE, "--sample");
    unsigned rows, columns;
    assert_ok(ff_inspect_grid_size("1000X1000", &rows, &columns, error));
    assert_true(rows == 1000 && columns == 1000);
    assert_ok(ff_inspect_grid_size("4x8", &rows, &columns, error));
    assert_int_equal(rows, 4);
    assert_int_equal(columns, 8);
    static const char *const no_grid[] = {"", "4", "x8", "4x", "0x1", "1x1001", "4x8x", "-1x2"};
    for (size_t i = 0; i < sizeof no_grid / sizeof no_grid[0]; i++)
        assert_fails(ff_inspect_grid_size(no_grid[i], &rows, &columns, error), FF_USAGE, "--grid");
}

static void assert_readable(const char *bytes, size_t length, const char *wanted) {
    ff_buffer text = {0};
    assert_ok(ff_readable(&text, bytes, length, 20, error));
    assert_string_equal(text.bytes, wanted);
    ff_buffer_free(&text);
}

/* No output may move a terminal's cursor or be invalid UTF-8. */
static void names_are_safe_to_print(void **state) {
    (void)state;
    assert_readable("", 0, "(empty)");
    assert_readable("two words 100%", 14, "two words 100%");
    assert_readable("caf\xc3\xa9 \xe7\x8c\xab", 9, "caf\xc3\xa9 \xe7\x8c\xab");
    assert_readable("\x1b[2J\n\x7f", 6, "%1B[2J%0A%7F");
    assert_readable("\xc2\x9b"
                    "x\xe2\x80\xae"
                    "a",
                    7, "%C2%9Bx%E2%80%AEa");
    assert_readable("\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80", 9, "%C0%80%ED%A0%80%F4%90%80%80");
    assert_readable("\xe7\x8c", 2, "%E7%8C");
    /* The ends of the ranges: of UTF-8, of surrogates, of marks that are not shown. */
    assert_readable("\xf4\x8f\xbf\xbf\xf5\x80\x80\x80", 8, "\xf4\x8f\xbf\xbf%F5%80%80%80");
    assert_readable("\xed\x9f\xbf\xee\x80\x80", 6, "\xed\x9f\xbf\xee\x80\x80");
    assert_readable("\xe2\x81\x9f\xe2\x81\xa0\xe2\x81\xaf", 9, "\xe2\x81\x9f%E2%81%A0%E2%81%AF");
    assert_readable("\xe2\x81\xb0\xe2\x80\x8b", 6, "\xe2\x81\xb0%E2%80%8B");
    assert_readable("\xe2\x80\x8a\xe2\x80\x8f", 6, "\xe2\x80\x8a%E2%80%8F");
    assert_readable("\xe2\x80\x90\xe2\x80\xa8", 6, "\xe2\x80\x90%E2%80%A8");
    assert_readable("\xc2\xa0\xc2\x80", 4, "\xc2\xa0%C2%80");
    assert_readable("0123456789012345678901234", 25, "01234567890123456789...");
    for (uint64_t round = 0; round < 20000; round++) {
        char bytes[8];
        ff_buffer text = {0};
        for (size_t i = 0; i < 8; i++)
            bytes[i] = (char)(set_mix(round, i) >> 8 | (i % 3 ? 0x80 : 0));
        assert_ok(ff_readable(&text, bytes, 8, 100, error));
        for (size_t i = 0, step; i < text.length; i += step) {
            step = ff_utf8_bytes((const unsigned char *)text.bytes + i, text.length - i);
            assert_int_not_equal(step, 0);
            assert_true((unsigned char)text.bytes[i] >= 0x20 && text.bytes[i] != 0x7f);
        }
        ff_buffer_free(&text);
    }
}

static void floats(void **state) {
    (void)state;
    char text[32];
    for (uint64_t i = 0; i < 100000; i++) {
        float value = ff_bits_float((uint32_t)set_mix(1, i));
        if (isfinite(value))
            assert_int_equal(ff_float_bits(strtof(ff_inspect_float(text, value), NULL)),
                             ff_float_bits(value));
    }
}

static void numpy_headers(void **state) {
    (void)state;
    static const struct {
        ff_dtype dtype;
        const char *name;
    } type[] = {{FF_U8, "'|u1'"},  {FF_U16, "'<u2'"}, {FF_F16, "'<f2'"}, {FF_BF16, "'<u2'"},
                {FF_F32, "'<f4'"}, {FF_I32, "'<i4'"}, {FF_I64, "'<i8'"}};
    static const char *const text[] = {"", "(1099511627776,)", "(1099511627776, 20)",
                                       "(1099511627776, 20, 1000000)"};
    for (size_t i = 0; i < 7; i++) {
        const uint64_t shape[] = {UINT64_C(1) << 40, 20, 1000000};
        ff_buffer header = {0};
        assert_ok(ff_inspect_npy_header(&header, type[i].dtype, shape, i % 3 + 1, error));
        assert_memory_equal(header.bytes, "\x93NUMPY\x01\x00", 8);
        assert_int_equal(header.length % 64, 0);
        assert_int_equal(ff_load_u16(header.bytes + 8), header.length - 10);
        assert_int_equal(header.bytes[header.length - 1], '\n');
        assert_non_null(strstr(header.bytes + 10, type[i].name));
        assert_non_null(strstr(header.bytes + 10, text[i % 3 + 1]));
        ff_buffer_free(&header);
        /* Texts of every length. */
        uint64_t wide[] = {1, 1};
        for (; wide[0] < UINT64_C(1) << 62; wide[0] *= 2) {
            if (wide[1] < 1000000) wide[1] *= 10;
            assert_ok(ff_inspect_npy_header(&header, type[i].dtype, wide, 2, error));
            assert_int_equal(header.length % 64, 0);
            assert_int_equal(header.bytes[header.length - 1], '\n');
            ff_buffer_free(&header);
        }
    }
}

int main(void) {
    /* This one comes first: cmocka installs its SIGBUS handler before every test, and the guard
     * installs its own only once. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shard_that_shrinks_is_an_error),
        cmocka_unit_test(statistics_agree_with_plain_sums),
        cmocka_unit_test(statistics_do_not_depend_on_threads),
        cmocka_unit_test(statistics_of_large_images),
        cmocka_unit_test(statistics_of_no_value),
        cmocka_unit_test(storage_order_is_sorted),
        cmocka_unit_test(storage_order_of_numbers_takes_no_memory),
        cmocka_unit_test(storage_order_without_memory_is_refused),
        cmocka_unit_test(ranges),
        cmocka_unit_test(names_are_safe_to_print),
        cmocka_unit_test(floats),
        cmocka_unit_test(numpy_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
