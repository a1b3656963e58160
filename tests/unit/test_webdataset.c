/* The parts of the source webdataset: brace patterns against bash itself, members' keys, and class
 * names. */
#include "tests/unit/check.h"
#include "tools/ffpack/source/class_set.h"
#include "tools/ffpack/source/shards/braces.h"
#include "tools/ffpack/source/webdataset/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* bash's expansion of the pattern, one name per line. */
static char *ask_bash(const char *pattern) {
    char command[300], *names = calloc(1, 1 << 20);
    snprintf(command, sizeof command, "bash -fc \"printf '%%s\\n' %s\"", pattern);
    FILE *bash = popen(command, "r");
    assert_non_null(bash);
    assert_non_null(names);
    size_t length = fread(names, 1, (1 << 20) - 1, bash);
    assert_true(length > 0);
    assert_int_equal(pclose(bash), 0);
    return names;
}

static void braces_expand_as_in_bash(void **state) {
    (void)state;
    static const char *const pattern[] = {"plain.tar",
                                          "train-{000..146}.tar",
                                          "{0..3}",
                                          "{3..0}",
                                          "{-2..2}",
                                          "{-02..10}",
                                          "{1..010}",
                                          "{0..10..3}",
                                          "{10..0..-3}",
                                          "{10..0..3}",
                                          "{0..10..-3}",
                                          "{0..4..0}",
                                          "{a..e}",
                                          "{e..a..2}",
                                          "{e..b}x",
                                          "{a,b}{0..1}{x,y}",
                                          "{train,val}-{00..02}.tar",
                                          "x{a,b{1,2}c,{d,e}}y",
                                          "{a}",
                                          "{}",
                                          "{a,}x",
                                          "{a..}",
                                          "{..3}",
                                          "{1..2..}",
                                          "{1..a}",
                                          "{aa..b}",
                                          "{a,{b}",
                                          "a}b{c,d}",
                                          "{a}{b,c}",
                                          "{{a,b}",
                                          "{a,b}}",
                                          "x{1..3}y{7..9}z",
                                          "{{1..3},{a..c}}",
                                          "{1..3,a}",
                                          "{1.5..3}",
                                          "{+1..3}",
                                          "{00..-2}",
                                          "{0..0}",
                                          "{07..7}",
                                          "{,a}b"};
    for (size_t i = 0; i < sizeof pattern / sizeof pattern[0]; i++) {
        char *wanted = ask_bash(pattern[i]), *cursor = wanted, *name;
        ff_names names = {0};
        assert_ok(ff_braces_expand(&names, pattern[i], error));
        size_t at = 0;
        while ((name = strsep(&cursor, "\n")) && cursor) {
            if (at == names.count || strcmp(name, ff_names_at(&names, at)) != 0)
                fail_msg("%s: name %zu is %s, wanted %s", pattern[i], at,
                         at < names.count ? ff_names_at(&names, at) : "none", name);
            at++;
        }
        assert_int_equal(at, names.count);
        ff_names_free(&names);
        free(wanted);
    }
}

static void too_many_names_are_refused(void **state) {
    (void)state;
    static const char *const pattern[] = {"{1..2000000}", "{1..2000}{1..2000}",
                                          "{0..900000000000000}",
                                          "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"
                                          "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"};
    for (size_t i = 0; i < sizeof pattern / sizeof pattern[0]; i++) {
        ff_names names = {0};
        ff_error error = {0};
        assert_int_equal(ff_braces_expand(&names, pattern[i], &error), FF_USAGE);
        ff_names_free(&names);
    }
}

static void keys_end_at_the_first_dot_of_the_base(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int key_bytes; /* -1 = left out */
    } wanted[] = {{"a.jpg", 1},     {"a/b.seg.png", 3}, {"a.b/c.d.e", 5}, {"a.b/c", -1},
                  {".a", -1},       {"a/.b", 2},        {"a.b/.c", -1},   {"x.y/a/.b", 6},
                  {"a", -1},        {"a.", 1},          {"__a__", -1},    {"__a__/b.c", -1},
                  {"__a__.jpg", 5}, {"__a/b.c", 5},     {"___", -1},      {"b/__a__.jpg", 7},
                  {"___/a.b", 5},   {"____/a.b", -1},   {"__a_/b.c", 6},  {"a..b", 1}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        size_t bytes = 0;
        bool is = ff_web_split(wanted[i].name, &bytes);
        if ((is ? (int)bytes : -1) != wanted[i].key_bytes)
            fail_msg("%s: %d, wanted %d", wanted[i].name, is ? (int)bytes : -1,
                     wanted[i].key_bytes);
    }
}

/* Names with their numbers in the order of appearance, then of their bytes. */
static void class_sets_number_and_sort(void **state) {
    (void)state;
    enum { NAMES = 5000 };
    ff_class_set set = {0};
    ff_metadata labels = {0};
    ff_error failure = {0};
    uint32_t number, *rank;
    assert_int_equal(ff_class_set_find(&set, "x", 1), UINT32_MAX);
    for (uint32_t i = 0; i < 3 * NAMES; i++) {
        char name[32];
        int bytes = snprintf(name, sizeof name, "%x", (i % NAMES) * 2654435761u);
        if (i < NAMES) assert_int_equal(ff_class_set_find(&set, name, (size_t)bytes), UINT32_MAX);
        assert_ok(ff_class_set_add(&set, name, (size_t)bytes, &number, error));
        assert_int_equal(number, i % NAMES);
        assert_int_equal(ff_class_set_find(&set, name, (size_t)bytes), i % NAMES);
    }
    assert_int_equal(set.count, NAMES);
    assert_int_equal(ff_class_set_add(&set, "", 0, &number, &failure), FF_BAD_DATA);
    assert_int_equal(ff_class_set_add(&set, "a\0b", 3, &number, &failure), FF_BAD_DATA);
    assert_ok(ff_metadata_add_field(&labels, "x", FF_FIELD_CLASS, FF_I32, 1, error));
    assert_ok(ff_class_set_finish(&set, &labels, 0, &rank, error));
    const ff_field *field = &labels.field[0];
    assert_int_equal(field->class_count, NAMES);
    for (uint32_t i = 0; i < NAMES; i++) {
        if (i) assert_true(strcmp(field->class_name[i - 1], field->class_name[i]) < 0);
        assert_string_equal(field->class_name[rank[i]], ff_class_set_name(&set, i));
    }
    free(rank);
    ff_metadata_free(&labels);
    ff_class_set_free(&set);
}

/* A whole extension goes before the last part of one; of two equal ones neither is chosen. */
static void one_image_a_sample(void **state) {
    (void)state;
    static const struct {
        const char *extensions[4];
        size_t image, second; /* among them; second = 0: none */
    } cases[] = {
        {{"cls", "png"}, 1, 0},
        {{"seg.png", "jpg", "json"}, 1, 0},
        {{"jpg", "seg.png"}, 0, 0},
        {{"png", "jpg"}, 0, 1},
        {{"cls", "l.png", "r.png"}, 1, 2},
        {{"l.png", "r.png", "jpg"}, 2, 0},
        {{"jpg", "cls", "png", "l.png"}, 0, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ff_web_sample sample = {0};
        ff_error failure = {0};
        ff_web_member kind;
        assert_ok(ff_web_sample_begin(&sample, "key", 3, error));
        for (size_t k = 0; k < 4 && cases[i].extensions[k]; k++)
            assert_ok(ff_web_sample_add(&sample, cases[i].extensions[k], 512 * k, k, &kind, error));
        assert_int_equal(sample.image, cases[i].image);
        assert_int_equal(sample.image_offset, 512 * cases[i].image);
        assert_int_equal(sample.image_bytes, cases[i].image);
        assert_int_equal(sample.second, cases[i].second);
        assert_int_equal(ff_web_sample_check(&sample, &failure),
                         cases[i].second ? FF_BAD_DATA : FF_OK);
        ff_web_sample_free(&sample);
    }
}

static void labels_are_read(void **state) {
    (void)state;
    ff_error failure = {0};
    int64_t number = 0;
    assert_ok(ff_web_parse_cls(" -999999999999999999\n", 21, &number, error));
    assert_int_equal(number, INT64_C(-999999999999999999));
    assert_int_equal(ff_web_parse_cls("1000000000000000000", 19, &number, &failure), FF_BAD_DATA);
    /* A quote after a backslash does not end a string, so NaN after it is text. */
    static const char *const keys[] = {"label"};
    char json[] = "{\"text\": \"\\\"NaN\", \"mean\": NaN, \"label\": \"NaN\"}";
    ff_web_label label = {0};
    size_t used;
    assert_ok(ff_web_parse_json(json, sizeof json - 1, keys, 1, &label, &used, error));
    assert_int_equal(label.kind, FF_WEB_NAME);
    assert_int_equal(label.name.length, 3);
    assert_memory_equal(label.name.bytes, "NaN", 3);
    ff_buffer_free(&label.name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(braces_expand_as_in_bash),
        cmocka_unit_test(too_many_names_are_refused),
        cmocka_unit_test(keys_end_at_the_first_dot_of_the_base),
        cmocka_unit_test(class_sets_number_and_sort),
        cmocka_unit_test(one_image_a_sample),
        cmocka_unit_test(labels_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
