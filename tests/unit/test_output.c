/* The output folder: lock, continuation, refusals, commit and --force, in every state that a killed
 * run can leave. */
#include "format/base/path.h"
#include "format/disk/set.h"
#include "format/writer/output.h"
#include "tests/unit/format_set.h"

#include <dirent.h>
#include <sys/wait.h>

static const set_spec base = {.dtype = FF_U8,
                              .channels = 1,
                              .height = 2,
                              .width = 3,
                              .alignment = 64,
                              .items = 4,
                              .per_block = 1,
                              .per_shard = 2,
                              .labels = LABELS_CLASS,
                              .seed = 1};

static bool there(const char *path) {
    return access(path, F_OK) == 0;
}

static size_t names_in(const char *path) {
    size_t count = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder)) count++;
    closedir(folder);
    return count - 2;
}

/* Packs `spec` into OUT as ffpack does. */
static void pack(const char *out, const set_spec *spec, bool force, bool *continues) {
    ff_output *output;
    const char *folder;
    assert_ok(ff_output_open(&output, out, FF_OUTPUT_NEW_OR_CONTINUE, force, error));
    if (continues) *continues = ff_output_continues(output);
    assert_ok(ff_output_split(output, "", &folder, error));
    assert_ok(set_write(spec, folder, NULL, error));
    assert_ok(ff_output_commit(output, error));
    ff_output_close(&output);
}

static void commit_leaves_one_folder(void **state) {
    (void)state;
    char *parent = new_folder(), *out = join(parent, "out");
    ff_output *output;
    bool continues = true;
    pack(out, &base, false, &continues);
    assert_false(continues);
    assert_int_equal(names_in(parent), 1);
    set_check(&base, out, FF_VERIFY_FIRST);
    assert_fails(ff_output_open(&output, out, FF_OUTPUT_NEW_OR_CONTINUE, false, error), FF_USAGE,
                 "--force");
    assert_null(output);
    assert_int_equal(names_in(parent), 1);
    free(out);
    remove_folder(parent);
}

static void force_exchanges(void **state) {
    (void)state;
    char *parent = new_folder(), *out = join(parent, "out"), *with_slash = join(parent, "out///");
    set_spec other = base;
    other.seed = 9;
    pack(out, &base, true, NULL); /* --force with nothing to replace */
    set_check(&base, out, FF_VERIFY_FIRST);
    pack(with_slash, &other, true, NULL);
    set_check(&other, out, FF_VERIFY_FIRST);
    assert_int_equal(names_in(parent), 1);
    free(with_slash);
    free(out);
    remove_folder(parent);
}

static void several_splits(void **state) {
    (void)state;
    char *parent = new_folder(), *out = join(parent, "out");
    ff_output *output;
    const char *folder;
    assert_ok(ff_output_open(&output, out, FF_OUTPUT_NEW_OR_CONTINUE, false, error));
    assert_ok(ff_output_split(output, "train", &folder, error));
    assert_ok(set_write(&base, folder, NULL, error));
    assert_ok(ff_output_split(output, "test", &folder, error));
    assert_ok(set_write(&base, folder, NULL, error));
    assert_false(there(out));
    assert_ok(ff_output_commit(output, error));
    ff_output_close(&output);
    char *train = join(out, "train"), *test = join(out, "test");
    set_check(&base, train, FF_VERIFY_FIRST);
    set_check(&base, test, FF_VERIFY_FIRST);
    pack(out, &base, true, NULL); /* a set of one split replaces it */
    set_check(&base, out, FF_VERIFY_FIRST);
    assert_false(there(train));
    free(train);
    free(test);
    free(out);
    remove_folder(parent);
}

/* Opens OUT in another process; its exit code is the status. */
static ff_status open_elsewhere(const char *out) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ff_output *output;
        ff_error error;
        ff_status status = ff_output_open(&output, out, FF_OUTPUT_NEW_OR_CONTINUE, true, &error);
        ff_output_close(&output);
        _exit((int)status);
    }
    int code;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_true(WIFEXITED(code));
    return (ff_status)WEXITSTATUS(code);
}

static void second_writer_is_refused(void **state) {
    (void)state;
    char *parent = new_folder(), *out = join(parent, "out");
    char *partial = join(parent, "out.partial");
    ff_output *output, *second;
    const char *folder;
    assert_ok(ff_output_open(&output, out, FF_OUTPUT_NEW_OR_CONTINUE, false, error));
    assert_int_equal(open_elsewhere(out), FF_USAGE);
    assert_fails(ff_output_open(&second, out, FF_OUTPUT_NEW_OR_CONTINUE, false, error), FF_USAGE,
                 "another ffpack is writing there");
    /* The refused ones have not touched the first one's folder. */
    assert_true(there(partial));
    assert_ok(ff_output_split(output, "", &folder, error));
    assert_ok(set_write(&base, folder, NULL, error));
    assert_int_equal(open_elsewhere(out), FF_USAGE);
    assert_ok(ff_output_commit(output, error));
    ff_output_close(&output);
    set_check(&base, out, FF_VERIFY_FIRST);
    assert_int_equal(open_elsewhere(out), FF_OK); /* the lock is gone */
    assert_int_equal(names_in(parent), 1);
    free(partial);
    free(out);
    remove_folder(parent);
}

/* Stops after `blocks` of the set's 4. */
static void start(const char *out, const set_spec *spec, uint64_t blocks) {
    ff_output *output;
    const char *folder;
    ff_writer *writer;
    ff_metadata metadata;
    assert_ok(ff_output_open(&output, out, FF_OUTPUT_NEW_OR_CONTINUE, false, error));
    assert_ok(ff_output_split(output, "", &folder, error));
    assert_ok(set_metadata(spec, &metadata, error));
    assert_ok(ff_writer_open(&writer, folder, &metadata, NULL, error));
    assert_ok(packed_append(writer, &metadata, blocks, set_add, spec, error));
    ff_writer_close(&writer);
    ff_metadata_free(&metadata);
    ff_output_close(&output);
}

static void continues(void **state) {
    (void)state;
    char *parent = new_folder(), *out = join(parent, "out");
    char *partial = join(parent, "out.partial");
    ff_output *output;
    bool was = false;
    assert_fails(ff_output_open(&output, out, FF_OUTPUT_CONTINUE, false, error), FF_USAGE,
                 "nothing to --resume");
    assert_int_equal(names_in(parent), 0);
    start(out, &base, 1); /* no whole shard: nothing stays */
    assert_int_equal(names_in(parent), 0);
    start(out, &base, 3);
    assert_true(there(partial));
    assert_false(there(out));
    assert_ok(ff_output_open(&output, out, FF_OUTPUT_CONTINUE, false, error));
    assert_true(ff_output_continues(output));
    ff_output_close(&output);
    assert_true(there(partial));
    pack(out, &base, false, &was);
    assert_true(was);
    assert_int_equal(names_in(parent), 1);
    set_check(&base, out, FF_VERIFY_FIRST);
    free(partial);
    free(out);
    remove_folder(parent);
}

static void foreign_files(void **state) {
    (void)state;
    char *parent = new_folder(), *out = join(parent, "out");
    char *partial = join(parent, "out.partial"), *note = join(partial, "notes.txt");
    ff_output *output;
    assert_int_equal(mkdir(partial, 0777), 0);
    write_whole(note, "mine", 4);
    assert_fails(ff_output_open(&output, out, FF_OUTPUT_NEW_OR_CONTINUE, false, error), FF_USAGE,
                 "notes.txt: ffpack did not write this");
    assert_true(there(note));
    assert_int_equal(unlink(note), 0);
    /* --force removes nothing but packed sets. */
    pack(out, &base, false, NULL);
    char *deep = join(out, "train"), *file = join(deep, "photo.jpg");
    assert_int_equal(mkdir(deep, 0777), 0);
    write_whole(file, "jpg", 3);
    assert_fails(ff_output_open(&output, out, FF_OUTPUT_NEW_OR_CONTINUE, true, error), FF_USAGE,
                 "photo.jpg: ffpack did not write this");
    assert_true(there(file));
    /* Nor a folder in a split's folder, even an empty one, even one with a shard's name in it. */
    assert_int_equal(unlink(file), 0);
    char *deeper = join(deep, "deeper"), *shard = join(deeper, "shard-000000.ffs");
    assert_int_equal(mkdir(deeper, 0777), 0);
    for (int with_shard = 0; with_shard < 2; with_shard++) {
        assert_fails(ff_output_open(&output, out, FF_OUTPUT_NEW_OR_CONTINUE, true, error), FF_USAGE,
                     "train/deeper: ffpack did not write this");
        assert_true(there(deeper));
        if (!with_shard) write_whole(shard, "mine", 4);
    }
    assert_true(there(shard));
    char *called_so = join(deep, "shard-000003.ffs");
    assert_int_equal(rename(deeper, called_so), 0);
    assert_fails(ff_output_open(&output, out, FF_OUTPUT_NEW_OR_CONTINUE, true, error), FF_USAGE,
                 "train/shard-000003.ffs: ffpack did not write this");
    assert_true(there(called_so));
    free(called_so);
    set_check(&base, out, FF_VERIFY_FIRST);
    free(deeper);
    free(shard);
    free(deep);
    free(file);
    free(note);
    free(partial);
    free(out);
    remove_folder(parent);
}

static void bad_paths(void **state) {
    (void)state;
    char *parent = new_folder(), *deep = join(parent, "a/b");
    ff_output *output;
    assert_fails(ff_output_open(&output, deep, FF_OUTPUT_NEW_OR_CONTINUE, false, error), FF_IO,
                 "/a: cannot write there");
    const char *const wrong[] = {"", "/", ".", "..", "x/.."};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(ff_output_open(&output, wrong[i], FF_OUTPUT_NEW_OR_CONTINUE, false, error),
                     FF_USAGE, "wanted the name of a new folder");
    char *file = join(parent, "file");
    write_whole(file, "x", 1);
    assert_fails(ff_output_open(&output, file, FF_OUTPUT_NEW_OR_CONTINUE, false, error), FF_USAGE,
                 "exists already");
    assert_fails(ff_output_open(&output, file, FF_OUTPUT_NEW_OR_CONTINUE, true, error), FF_IO,
                 "file");
    assert_int_equal(names_in(parent), 1);
    free(file);
    free(deep);
    remove_folder(parent);
}

/* A run killed between the exchange and the removal of the old set: the next one must neither
 * continue the old set nor be stopped by it. */
static void killed_while_replacing(void **state) {
    (void)state;
    char *parent = new_folder(), *out = join(parent, "out");
    char *replaced = join(parent, "out.replaced");
    set_spec other = base, third = base;
    other.seed = 9;
    third.seed = 10;
    pack(out, &base, false, NULL);
    pack(replaced, &other, false, NULL);
    pack(out, &third, true, NULL);
    assert_int_equal(names_in(parent), 1);
    set_check(&third, out, FF_VERIFY_FIRST);
    free(replaced);
    free(out);
    remove_folder(parent);
}

/* What a folder is, also for a path of more than 600 bytes. */
static void folders_of_sets(void **state) {
    (void)state;
    static const char *const names[] = {"other", "test", "train", "val", "xpart", "yshards"};
    static const ff_folder kinds[] = {FF_FOLDER_SPLIT, FF_FOLDER_SPLIT, FF_FOLDER_SPLIT,
                                      FF_FOLDER_SPLIT, FF_FOLDER_PART,  FF_FOLDER_SHARDS};
    static const char *const inside[] = {"index.ffx", "index.ffx", "index.ffx",
                                         "index.ffx", "part.ffp",  "shard-000007.ffs"};
    char long_name[241], *root = new_folder(), *path = root, *found;
    ff_set set;
    memset(long_name, 'd', 240);
    long_name[240] = 0;
    for (int i = 0; i < 3; i++) {
        char *inner = join(path, long_name);
        assert_int_equal(mkdir(inner, 0777), 0);
        if (path != root) free(path);
        path = inner;
    }
    assert_ok(ff_set_find(&set, path, error));
    assert_int_equal(set.count, 0);
    ff_set_free(&set);
    assert_ok(ff_set_choose(&found, path, FF_SPLIT_TRAIN, FF_SPLIT_TRAIN, error));
    assert_null(found);
    assert_fails(ff_set_refuse(path, error), FF_BAD_DATA,
                 "is not a packed dataset: it has no index");
    assert_false(ff_set_is_whole(path));
    for (size_t i = 0; i < 6; i++) {
        char *folder = join(path, names[i]), *file = join(folder, inside[i]);
        assert_int_equal(mkdir(folder, 0777), 0);
        write_whole(file, "nothing", 7);
        if (i < 4) assert_true(ff_set_is_whole(path));
        free(folder);
        free(file);
    }
    assert_false(ff_set_is_whole(path));
    assert_ok(ff_set_find(&set, path, error));
    assert_int_equal(set.count, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(set.split[i].name, names[i]);
        assert_int_equal(set.split[i].kind, kinds[i]);
    }
    assert_fails(ff_set_refuse_part(set.split[4].path, error), FF_BAD_DATA,
                 "ffpack did not write this");
    assert_ok(ff_set_refuse_part(set.split[5].path, error));
    ff_set_free(&set);
    assert_ok(ff_set_choose(&found, path, FF_SPLIT_VAL, FF_SPLIT_TEST, error));
    assert_string_equal(ff_path_base(found), "val");
    free(found);
    free(path);
    remove_folder(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commit_leaves_one_folder),
        cmocka_unit_test(force_exchanges),
        cmocka_unit_test(several_splits),
        cmocka_unit_test(second_writer_is_refused),
        cmocka_unit_test(continues),
        cmocka_unit_test(foreign_files),
        cmocka_unit_test(bad_paths),
        cmocka_unit_test(killed_while_replacing),
        cmocka_unit_test(folders_of_sets),
    };
    return cmocka_run_group_tests_name("output", tests, NULL, NULL);
}
