/* The list of items left out: what a continued run keeps of it, and what a kill may leave. */
#include "tests/unit/check.h"
#include "tools/ffpack/split/skipped.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TITLES "split\tposition\titem\tname\treason\n"

static char folder[] = "/tmp/test-skipped-XXXXXX";

static void write_list(const char *name, const char *text) {
    char path[100];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* The list's text; "-" if there is none. */
static void assert_list(const char *wanted) {
    char path[100], text[1000] = "-";
    snprintf(path, sizeof path, "%s/out.skipped.tsv", folder);
    FILE *file = fopen(path, "r");
    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        fclose(file);
    }
    assert_string_equal(text, wanted);
}

static ff_skipped *open_list(bool continues) {
    char output[100];
    ff_skipped *skipped;
    snprintf(output, sizeof output, "%s/out//", folder);
    assert_ok(ff_skipped_open(&skipped, output, continues, error));
    return skipped;
}

static void test_lines(void **state) {
    (void)state;
    ff_skipped *skipped = open_list(false);
    assert_list("-");
    assert_ok(ff_skipped_add(skipped, "train", 5, 7, "50% \xc3\xa9/a\tb", "two  words\n", error));
    assert_list(TITLES "train\t5\t7\t50% \xc3\xa9/a\\tb\ttwo  words\\n\n");
    assert_ok(ff_skipped_add(skipped, "", 6, 0, "", "", error));
    ff_skipped_close(&skipped);
    skipped = open_list(true);
    assert_ok(ff_skipped_add(skipped, "split", 0, 0, "x", "y", error));
    assert_list(TITLES
                "train\t5\t7\t50% \xc3\xa9/a\\tb\ttwo  words\\n\n\t6\t0\t\t\nsplit\t0\t0\tx\ty\n");
    ff_skipped_close(&skipped);
    skipped = open_list(false);
    assert_list("-");
    ff_skipped_close(&skipped);
}

static void rewound(const char *list, const char *split, uint64_t position, const char *wanted) {
    write_list("out.skipped.tsv", list);
    ff_skipped *skipped = open_list(true);
    uint64_t kept;
    assert_ok(ff_skipped_rewind(skipped, split, 0, position, &kept, error));
    assert_list(wanted);
    /* What is found later follows what was kept. */
    assert_ok(ff_skipped_add(skipped, split, position, 1, "k", "r", error));
    char all[1000], line[100];
    snprintf(line, sizeof line, "%s\t%u\t1\tk\tr\n", split, (unsigned)position);
    snprintf(all, sizeof all, "%s%s", *wanted == '-' ? TITLES : wanted, line);
    assert_list(all);
    ff_skipped_close(&skipped);
}

static void test_rewind(void **state) {
    (void)state;
    static const char list[] = TITLES "train\t3\t3\ta\tx\n"
                                      "train\t11\t11\tb\tx\n"
                                      "train2\t50\t50\tc\tx\n"
                                      "split\t12\t12\td\tx\n";
    rewound(list, "train", 12, list);
    rewound(list, "train", 11,
            TITLES "train\t3\t3\ta\tx\ntrain2\t50\t50\tc\tx\nsplit\t12\t12\td\tx\n");
    rewound(list, "train", 0, TITLES "train2\t50\t50\tc\tx\nsplit\t12\t12\td\tx\n");
    rewound(list, "split", 13, list);
    rewound(TITLES "train\t3\t3\ta\tx\n", "train", 3, "-"); /* nothing is left: no list */
    /* A line cut off by a kill, whatever it says, belongs to items that will be read again. */
    rewound(TITLES "train\t3\t3\ta\tx\ntrain\t5\t5\tb\thalf of a rea", "train", 100,
            TITLES "train\t3\t3\ta\tx\n");
    rewound(TITLES "train\t3\t3\ta\tx\ntra", "train", 100, TITLES "train\t3\t3\ta\tx\n");
    rewound(TITLES "train\t3", "train", 100, "-");
    rewound("split\tposi", "split", 100, "-");
}

/* A list of earlier versions: no titles, %XX. */
static void test_earlier(void **state) {
    (void)state;
    static const char list[] = "train\t3\t3\t%C3%A9/50%25%20%09\\.png\ta b: %C3%A9%0A\n"
                               "split\t4\t4\tb\tx%\ntrain\t5";
    rewound(list, "train", 4,
            TITLES "train\t3\t3\t\xc3\xa9/50% \\t\\\\.png\ta b: \xc3\xa9\\n\nsplit\t4\t4\tb\tx%\n");
    rewound(list, "train", 0, TITLES "split\t4\t4\tb\tx%\n");
}

static void test_take(void **state) {
    (void)state;
    char path[100];
    uint64_t lines = 9;
    ff_skipped *skipped = open_list(false);
    snprintf(path, sizeof path, "%s/none", folder);
    assert_ok(ff_skipped_take(skipped, path, "train", &lines, error));
    assert_int_equal(lines, 0);
    assert_list("-");
    write_list("part.skipped.tsv",
               TITLES "train\t3\t3\ta\tx\ntest\t1\t1\tb\tx\ntrain\t0\t9\tc\tx\n");
    snprintf(path, sizeof path, "%s/part.skipped.tsv", folder);
    assert_ok(ff_skipped_take(skipped, path, "train", &lines, error));
    assert_int_equal(lines, 2);
    assert_list(TITLES "train\t3\t3\ta\tx\ntrain\t0\t9\tc\tx\n");
    assert_ok(ff_skipped_take(skipped, path, "test", &lines, error));
    assert_int_equal(lines, 1);
    assert_list(TITLES "train\t3\t3\ta\tx\ntrain\t0\t9\tc\tx\ntest\t1\t1\tb\tx\n");
    write_list("part.skipped.tsv", "last\t3\t3\ta%20b\tx\n"); /* of an earlier version */
    assert_ok(ff_skipped_take(skipped, path, "last", &lines, error));
    assert_int_equal(lines, 1);
    assert_list(TITLES
                "train\t3\t3\ta\tx\ntrain\t0\t9\tc\tx\ntest\t1\t1\tb\tx\nlast\t3\t3\ta b\tx\n");
    ff_skipped_close(&skipped);
    unlink(path);
}

static int set_up(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    char path[100];
    snprintf(path, sizeof path, "%s/out.skipped.tsv", folder);
    unlink(path);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_rewind),
        cmocka_unit_test(test_earlier),
        cmocka_unit_test(test_take),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
