/* Names and keys, which may be any bytes, as text for people and programs. */
#include "format/base/readable.h"
#include "format/disk/class_name.h"
#include "tests/unit/check.h"

#include <string.h>

/* Releases `out`. */
static void same_text(ff_buffer *out, const char *wanted) {
    assert_string_equal(out->bytes, wanted);
    ff_buffer_free(out);
}

/* Characters that glibc cannot transliterate are shown as code points, so that different names stay
 * different. */
static void names_in_ascii(void **state) {
    (void)state;
    static const struct {
        const char *text, *ascii;
    } cases[] = {{"", ""},
                 {"two words 100%", "two words 100%"},
                 {"\u00dcbergr\u00f6\u00dfe", "Ubergrosse"},
                 {"\u0141\u00f3d\u017a", "Lodz"},
                 {"\u0391\u03b8\u03ae\u03bd\u03b1", "Athina"},
                 {"\u0416\u0430\u0431\u0430", "ZHaba"},
                 {"\u732b", "U+732B"},
                 {"a \u72ac", "a U+72AC"},
                 {"\u0642\u0637", "U+0642U+0637"},
                 {"\u092c", "U+092C"},
                 {"\U0001f408", "U+1F408"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ff_buffer out = {0};
        assert_ok(ff_readable_ascii(&out, cases[i].text, error));
        same_text(&out, cases[i].ascii);
    }
}

/* Decoding gives the key back, and no two keys have one text. */
static void keys_as_text(void **state) {
    (void)state;
    static const struct {
        const char *key;
        bool on_a_line;
        const char *text;
    } cases[] = {{"im/a b\u00e9\u732b.png", true, "im/a b\u00e9\u732b.png"},
                 {"odd/%41.png", true, "odd/%2541.png"},
                 {"odd/%41.png", false, "odd/%2541.png"},
                 {"odd/\xff\xfe.png", false, "odd/%FF%FE.png"},
                 {"odd/%FF%FE.png", false, "odd/%25FF%25FE.png"},
                 {"a\nb\x7f", true, "a%0Ab%7F"},
                 {"a\nb\x7f", false, "a\nb\x7f"},
                 {"\u202ex", true, "%E2%80%AEx"},
                 {"", false, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ff_buffer out = {0};
        assert_ok(ff_key_text(&out, cases[i].key, strlen(cases[i].key), cases[i].on_a_line, error));
        same_text(&out, cases[i].text);
    }
}

/* Beside ten plain lines. */
static void middles_are_left_out(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t most;
        const char *wanted;
    } cases[] = {{"abcdefghij", 10, "abcdefghij"},
                 {"abcdefghijk", 10, "abcde...jk"},
                 {"abcdefghijk", 3, "..."},
                 {"abcdefghijk", 4, "a..."},
                 {"abcdefghijk", 6, "ab...k"},
                 {"", 3, ""},
                 {"\u732b\u732b\u732b\u732b\u732b\u732b\u00e9", 6, "\u732b\u732b...\u00e9"},
                 {"\u732b\u732b\u732b", 3, "\u732b\u732b\u732b"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ff_buffer out = {0};
        assert_ok(ff_shortened(&out, cases[i].text, cases[i].most, error));
        same_text(&out, cases[i].wanted);
    }
}

/* A changed name is marked and has its number; others have it on request. */
static void names_of_classes(void **state) {
    (void)state;
    static char *names[] = {(char *)"ete", (char *)"\u00e9t\u00e9", (char *)""};
    ff_field field = {.kind = FF_FIELD_CLASS, .class_count = 3, .class_name = names};
    static const struct {
        int64_t value;
        unsigned how;
        const char *name;
    } cases[] = {{0, 0, "ete"},
                 {0, FF_NAME_ASCII, "ete"},
                 {0, FF_NAME_NUMBERED, "0 ete"},
                 {1, 0, "\u00e9t\u00e9"},
                 {1, FF_NAME_NUMBERED, "1 \u00e9t\u00e9"},
                 {1, FF_NAME_ASCII, "1 ~ete"},
                 {1, FF_NAME_ASCII | FF_NAME_NUMBERED, "1 ~ete"},
                 {2, FF_NAME_ASCII, "(empty)"},
                 {0, FF_NAME_NUMBERED | FF_NAME_AT_MOST(3), "0 ete"},
                 {1, FF_NAME_ASCII | FF_NAME_AT_MOST(255), "1 ~ete"},
                 {3, FF_NAME_NUMBERED, "3"},
                 {-1, FF_NAME_NUMBERED, "unlabeled"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ff_buffer out = {0};
        assert_ok(ff_class_name(&out, &field, cases[i].value, cases[i].how, error));
        same_text(&out, cases[i].name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_in_ascii),
        cmocka_unit_test(keys_as_text),
        cmocka_unit_test(middles_are_left_out),
        cmocka_unit_test(names_of_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
