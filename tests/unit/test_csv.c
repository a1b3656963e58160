/* Cells of CSV and TSV, beside texts as RFC 4180 and the header of csv.h say them. */
#include "format/base/csv.h"
#include "tests/unit/check.h"

#include <string.h>

typedef ff_status cell_writer(ff_buffer *line, const void *text, size_t length, ff_error *error);

static void written(cell_writer *write, const char *text, size_t length, const char *wanted) {
    ff_buffer line = {0};
    assert_ok(ff_buffer_add(&line, "x", 1, error));
    assert_ok(write(&line, text, length, error));
    assert_int_equal(line.length, strlen(wanted) + 1);
    assert_memory_equal(line.bytes + 1, wanted, strlen(wanted));
    ff_buffer_free(&line);
}

static void test_csv(void **state) {
    (void)state;
    static const char *const as_they_are[] = {"", "a", " a\tb ", "\xc3\xa9", "'", ";"};
    for (size_t i = 0; i < sizeof as_they_are / sizeof *as_they_are; i++)
        written(ff_csv_cell, as_they_are[i], strlen(as_they_are[i]), as_they_are[i]);
    written(ff_csv_cell, "a,b", 3, "\"a,b\"");
    written(ff_csv_cell, "\"", 1, "\"\"\"\"");
    written(ff_csv_cell, "a \"b\" c", 7, "\"a \"\"b\"\" c\"");
    written(ff_csv_cell, "a\nb", 3, "\"a\nb\"");
    written(ff_csv_cell, "a\rb", 3, "\"a\rb\"");
    written(ff_csv_cell, "ab,c", 2, "ab"); /* the bytes that count, and none after them */
}

static void test_tsv(void **state) {
    (void)state;
    written(ff_tsv_cell, "50% \xc3\xa9 \xff 'x'", 12, "50% \xc3\xa9 \xff 'x'");
    written(ff_tsv_cell, "a\tb\nc\rd\\e", 9, "a\\tb\\nc\\rd\\\\e");
    written(ff_tsv_cell, "\x01\x1b\x7f\0!", 5, "\\0001\\0033\\0177\\0000!");
}

/* Every byte but zero comes back, also next to what looks like an escape. */
static void test_tsv_back(void **state) {
    (void)state;
    char all[2 * 255 + 20];
    size_t length = 0;
    for (int byte = 1; byte < 256; byte++) {
        all[length++] = (char)byte;
        all[length++] = "\\n0t"[byte % 4];
    }
    memcpy(all + length, "\\0123\\\\t\\0\\", 11);
    length = strlen(all);
    ff_buffer line = {0};
    assert_ok(ff_tsv_cell(&line, all, length, error));
    assert_null(memchr(line.bytes, '\t', line.length));
    assert_null(memchr(line.bytes, '\n', line.length));
    assert_ok(ff_buffer_add(&line, "", 1, error));
    ff_tsv_text(line.bytes);
    assert_string_equal(line.bytes, all);
    ff_buffer_free(&line);
    char odd[] = "a\\qb\\09\\";
    ff_tsv_text(odd); /* no escapes: they stay */
    assert_string_equal(odd, "a\\qb\\09\\");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_tsv),
        cmocka_unit_test(test_tsv_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
