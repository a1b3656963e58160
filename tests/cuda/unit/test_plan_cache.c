/* The plan cache: entries are read back as written, and any other file in the folder counts as no
 * entry. */
#include <stdint.h>

#include "format/disk/checksum.h"
#include "tests/unit/check.h"
#include "train/compute/cuda/plan_cache.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/plan-cache-XXXXXX";

static int make_root(void **state) {
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}
static int remove_root(void **state) {
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static const ff_plan_entry example = {
    .engine = {.name = "62 12=1",
               .found = 10,
               .ns = 123456789,
               .tensor_cores = true,
               .deterministic = true},
    .json = "{\"engine\": 62}",
};

static int files_in(const char *folder) {
    int count = 0;
    DIR *open = opendir(folder);
    for (struct dirent *entry; (entry = readdir(open));) count += entry->d_name[0] != '.';
    closedir(open);
    return count;
}

static void entries_are_read_back(void **state) {
    (void)state;
    char folder[64];
    ff_plan_entry entry;
    snprintf(folder, sizeof folder, "%s/a/b", root);
    assert_ok(ff_plan_cache_get(folder, "key", &entry, error));
    assert_null(entry.json);
    for (int i = 0; i < 2; i++) /* the second replaces the first */
        assert_ok(ff_plan_cache_put(folder, "key", &example, error));
    assert_ok(ff_plan_cache_put(folder, "another", &example, error));
    assert_int_equal(files_in(folder), 2);
    assert_ok(ff_plan_cache_get(folder, "key", &entry, error));
    assert_string_equal(entry.json, example.json);
    assert_string_equal(entry.engine.name, "62 12=1");
    assert_int_equal(entry.engine.found, 10);
    assert_int_equal(entry.engine.ns, 123456789);
    assert_true(entry.engine.tensor_cores && entry.engine.deterministic && entry.engine.cached);
    assert_false(entry.engine.runtime_compiled || entry.engine.timed);
    ff_plan_entry_release(&entry);
    assert_ok(ff_plan_cache_get(folder, "third", &entry, error));
    assert_null(entry.json);
}

/* Every file that differs from the written one in one byte, or is cut anywhere, is refused. */
static void broken_entries_are_refused(void **state) {
    (void)state;
    ff_error failure = {0};
    ff_buffer file = {0};
    ff_plan_entry entry;
    assert_ok(ff_plan_entry_write(&file, "key", &example, error));
    assert_ok(ff_plan_entry_parse(file.bytes, file.length, "key", &entry, error));
    ff_plan_entry_release(&entry);
    assert_int_equal(ff_plan_entry_parse(file.bytes, file.length, "kez", &entry, &failure),
                     FF_BAD_DATA);
    assert_null(entry.json);
    for (size_t i = 0; i < file.length; i++) {
        assert_int_equal(ff_plan_entry_parse(file.bytes, i, "key", &entry, &failure), FF_BAD_DATA);
        for (int bit = 0; bit < 8; bit++) {
            file.bytes[i] ^= (char)(1 << bit);
            assert_int_equal(ff_plan_entry_parse(file.bytes, file.length, "key", &entry, &failure),
                             FF_BAD_DATA);
            assert_true(failure.message[0] && !strchr(failure.message, '\n'));
            file.bytes[i] ^= (char)(1 << bit);
        }
    }
    ff_buffer_free(&file);
}

/* The file with `from` replaced by `to`, of `length` bytes, and the matching checksum. */
static void forge(ff_buffer *forged, const ff_buffer *file, const char *from, const char *to,
                  size_t length) {
    const char *body = strchr(strstr(file->bytes, "checksum "), '\n') + 1;
    const char *at = strstr(body, from), *rest = at + strlen(from);
    ff_buffer changed = {0};
    assert_non_null(at);
    assert_ok(ff_buffer_add(&changed, body, (size_t)(at - body), error));
    assert_ok(ff_buffer_add(&changed, to, length, error));
    assert_ok(ff_buffer_add(&changed, rest, file->length - (size_t)(rest - file->bytes), error));
    assert_ok(ff_buffer_printf(forged, error, "ffpack plan 2\nchecksum %016llx\n",
                               (unsigned long long)ff_checksum(changed.bytes, changed.length)));
    assert_ok(ff_buffer_add(forged, changed.bytes, changed.length, error));
    ff_buffer_free(&changed);
}

/* Forged entries are refused even if their checksum matches. */
static void forged_entries_are_refused(void **state) {
    (void)state;
    ff_error failure = {0};
    ff_buffer file = {0};
    ff_plan_entry entry;
    static const struct {
        const char *from, *to;
        size_t length;
        bool taken;
    } changes[] = {
        {"found 10\n", "found 11\n", 9, true},
        {"found 10\n", "found 1001\n", 11, false},
        {"found 10\n", "found 1x\n", 9, false},
        {"flags tensor-cores deterministic\n", "flags none\n", 11, true},
        {"flags tensor-cores deterministic\n", "flags tensor-cores swift\n", 25, false},
        {"engine 62 12=1\n", "engine 62\a12=1\n", 15, false},
        {"engine 62 12=1\n",
         "engine 62\x80"
         "12=1\n",
         15, false},
        {"{\"engine\": 62}",
         "{\"engine\":\0"
         "62}",
         14, false},
        {"{\"engine\": 62}", "{\"engine\": 6}", 13, false},
    };
    assert_ok(ff_plan_entry_write(&file, "key", &example, error));
    assert_ok(ff_buffer_add(&file, "", 1, error)); /* an end for strstr */
    file.length--;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        ff_buffer forged = {0};
        forge(&forged, &file, changes[i].from, changes[i].to, changes[i].length);
        const ff_status status =
            ff_plan_entry_parse(forged.bytes, forged.length, "key", &entry, &failure);
        assert_int_equal(status, changes[i].taken ? FF_OK : FF_BAD_DATA);
        ff_plan_entry_release(&entry);
        ff_buffer_free(&forged);
    }
    ff_buffer_free(&file);
}

static void unusable_folders_are_named(void **state) {
    (void)state;
    char path[128], folder[64];
    ff_error failure = {0};
    ff_plan_entry entry;
    snprintf(folder, sizeof folder, "%s/file", root);
    FILE *file = fopen(folder, "w");
    fclose(file);
    assert_ok(ff_plan_cache_get(folder, "key", &entry, error));
    assert_null(entry.json);
    assert_int_not_equal(ff_plan_cache_put(folder, "key", &example, &failure), FF_OK);
    assert_non_null(strstr(failure.message, folder));

    /* A folder that is a link to itself. */
    snprintf(folder, sizeof folder, "%s/loop", root);
    assert_int_equal(symlink("loop", folder), 0);
    assert_int_equal(ff_plan_cache_get(folder, "key", &entry, &failure), FF_IO);
    assert_non_null(strstr(failure.message, folder));

    /* A folder where the file should be. */
    snprintf(folder, sizeof folder, "%s/c", root);
    assert_ok(ff_plan_cache_put(folder, "key", &example, error));
    DIR *open = opendir(folder);
    struct dirent *found;
    do found = readdir(open);
    while (found && found->d_name[0] == '.');
    snprintf(path, sizeof path, "%s/%.40s", folder, found->d_name);
    closedir(open);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(ff_plan_cache_get(folder, "key", &entry, &failure), FF_BAD_DATA);
    assert_non_null(strstr(failure.message, path));
    assert_int_equal(ff_plan_cache_put(folder, "key", &example, &failure), FF_IO);
    assert_int_equal(files_in(folder), 1); /* no other file is left */
}

static void the_folder_is_the_environments(void **state) {
    (void)state;
    char *folder;
    setenv("HOME", "/home/a", 1);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("FFPACK_PLAN_CACHE");
    assert_ok(ff_plan_cache_folder(&folder, error));
    assert_string_equal(folder, "/home/a/.cache/ffpack/plans");
    free(folder);
    setenv("XDG_CACHE_HOME", "relative", 1);
    assert_ok(ff_plan_cache_folder(&folder, error));
    assert_string_equal(folder, "/home/a/.cache/ffpack/plans");
    free(folder);
    setenv("XDG_CACHE_HOME", "/cache", 1);
    assert_ok(ff_plan_cache_folder(&folder, error));
    assert_string_equal(folder, "/cache/ffpack/plans");
    free(folder);
    setenv("FFPACK_PLAN_CACHE", "here", 1);
    assert_ok(ff_plan_cache_folder(&folder, error));
    assert_string_equal(folder, "here");
    free(folder);
    setenv("FFPACK_PLAN_CACHE", "", 1);
    assert_ok(ff_plan_cache_folder(&folder, error));
    assert_null(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_read_back),
        cmocka_unit_test(broken_entries_are_refused),
        cmocka_unit_test(forged_entries_are_refused),
        cmocka_unit_test(unusable_folders_are_named),
        cmocka_unit_test(the_folder_is_the_environments),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
