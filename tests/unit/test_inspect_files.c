/* Files that ffinspect writes, where calls transfer fewer bytes than requested or are interrupted,
 * through the test's own write and pwrite; and how numbers and values are described. */
#include "format/base/file.h"
#include "format/base/json.h"
#include "tests/unit/format_set.h"
#include "tests/unit/short_calls.h"
#include "tools/ffinspect/summary.h"

#include <math.h>

static void calls_that_do_less(void **state) {
    (void)state;
    uint8_t wanted[5000];
    char *folder = new_folder(), *path = join(folder, "out");
    for (size_t i = 0; i < sizeof wanted; i++) wanted[i] = (uint8_t)(i * 31 + i / 251);
    static const size_t most[] = {0, 1, 999, 4096};
    for (size_t i = 0; i < sizeof most / sizeof most[0]; i++) {
        ff_file *file;
        size_t length;
        assert_ok(ff_file_replace(&file, path, error));
        assert_true(ff_file_seekable(file));
        short_calls.most = most[i];
        short_calls.interrupted = most[i] > 0;
        assert_ok(ff_file_write(file, wanted, 2000, error));
        assert_ok(ff_file_rewrite(file, 3500, wanted + 3500, 1500, error));
        assert_ok(ff_file_rewrite(file, 2000, wanted + 2000, 1500, error));
        short_calls.most = 0;
        short_calls.interrupted = false;
        assert_ok(ff_file_commit(&file, error));
        uint8_t *bytes = read_whole(path, &length);
        assert_int_equal(length, sizeof wanted);
        assert_memory_equal(bytes, wanted, sizeof wanted);
        free(bytes);
    }
    free(path);
    remove_folder(folder);
}

/* JSON has no such numbers. */
static void numbers_in_json(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{NAN, "NaN"}, {INFINITY, "Infinity"}, {-INFINITY, "-Infinity"}, {-0.5, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *number = ff_json_number(cases[i].value);
        if (cases[i].text)
            assert_string_equal(json_string_value(number), cases[i].text);
        else
            assert_true(json_real_value(number) == cases[i].value);
        json_decref(number);
    }
}

static void assert_told(ff_dtype dtype, const char *transform, uint32_t statistics,
                        const char *wanted) {
    static const float ones[] = {1, 1, 1};
    ff_metadata metadata = {.dtype = dtype, .channels = 3};
    if (transform) assert_ok(ff_metadata_add_transform(&metadata, transform, error));
    if (statistics) assert_ok(ff_metadata_set_statistics(&metadata, ones, ones, 3, error));
    assert_true(!strncmp(ff_inspect_values_sentence(&metadata), wanted, strlen(wanted)));
    ff_metadata_free(&metadata);
}

static void what_the_values_are(void **state) {
    (void)state;
    const char *scaled = "to_tensor scale=1/255";
    assert_told(FF_U8, scaled, 0, "raw; no mean and std are recorded");
    assert_told(FF_U8, scaled, 3, "raw; mean and std are recorded: the reader applies");
    assert_told(FF_U16, "to_tensor range=0,65535", 3,
                "raw; mean and std are recorded: the reader scales the values");
    assert_told(FF_F16, scaled, 3, "already normalized");
    assert_told(FF_F16, scaled, 0, "scaled to 0..1 (ToTensor), not normalized");
    assert_told(FF_F32, "to_tensor range=-1,1", 0, "scaled to 0..1 (ToTensor), not normalized");
    assert_told(FF_F32, "center_crop size=3x3", 0, "as the source had them, not normalized");
    assert_told(FF_F32, NULL, 0, "as the source had them, not normalized");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_that_do_less),
        cmocka_unit_test(numbers_in_json),
        cmocka_unit_test(what_the_values_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
