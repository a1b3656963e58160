/* Files that are written once: calls that do less than requested, are interrupted or fail, and the
 * order of a commit's steps, through the test's own write, pread, pwrite, fsync and rename. */
#include "format/base/file.h"
#include "tests/unit/format_set.h"
#include "tests/unit/short_calls.h"

#include <fcntl.h>
#include <sys/stat.h>

static struct {
    const char *failing; /* "fsync", "fsync folder" or "rename" fails with EIO */
    char log[100];       /* the order of fsync and rename */
} fake;

ssize_t pread(int file, void *to, size_t length, off_t offset) {
    return interrupts() ? -1 : syscall(SYS_pread64, file, to, least(length), offset);
}

static int done_as(const char *what) {
    strcat(strcat(fake.log, fake.log[0] ? ", " : ""), what);
    errno = EIO;
    return fake.failing && !strcmp(fake.failing, what) ? -1 : 0;
}

int fsync(int file) {
    struct stat info;
    assert_int_equal(fstat(file, &info), 0);
    return done_as(S_ISDIR(info.st_mode) ? "fsync folder" : "fsync");
}

int rename(const char *from, const char *to) {
    if (done_as("rename")) return -1;
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

enum { LENGTH = 700000, SMALL = 1000 };
static uint8_t wanted[LENGTH];

static int set_up(void **state) {
    for (size_t i = 0; i < LENGTH; i++) wanted[i] = (uint8_t)(i * 31 + i / 251);
    *state = new_folder();
    return 0;
}

static int tear_down(void **state) {
    remove_folder(*state);
    return 0;
}

/* Appends in pieces small and large, then rewrites and reads back some of it. */
static void check_bytes(const char *folder) {
    ff_file *file;
    uint8_t back[SMALL];
    fake.log[0] = 0;
    assert_ok(ff_file_create(&file, folder, "file", error));
    assert_ok(ff_file_write(file, wanted, SMALL, error));
    assert_ok(ff_file_skip(file, SMALL, error));
    assert_ok(ff_file_write(file, wanted + 2 * SMALL, LENGTH - 3 * SMALL, error));
    assert_ok(ff_file_write(file, wanted + LENGTH - SMALL, SMALL, error));
    assert_int_equal(ff_file_offset(file), LENGTH);
    assert_ok(ff_file_rewrite(file, SMALL, wanted + SMALL, SMALL, error));
    for (size_t at = 0; at <= 3 * SMALL; at += SMALL / 2) {
        assert_ok(ff_file_read_back(file, at, back, SMALL, error));
        assert_memory_equal(back, wanted + at, SMALL);
    }
    assert_fails(ff_file_read_back(file, LENGTH - 10, back, SMALL, error), FF_BAD_DATA,
                 "ends at offset 700000, where 990 more bytes are wanted");
    assert_ok(ff_file_commit(&file, error));
    size_t length;
    char *path = join(folder, "file");
    uint8_t *bytes = read_whole(path, &length);
    assert_int_equal(length, LENGTH);
    assert_memory_equal(bytes, wanted, LENGTH);
    free(bytes);
    free(path);
}

static void calls_that_do_less(void **state) {
    static const size_t most[] = {0, 1 << 20, 300000, 999, 100};
    for (size_t i = 0; i < sizeof most / sizeof most[0]; i++) {
        short_calls.most = most[i];
        short_calls.interrupted = i % 2;
        check_bytes(*state);
    }
    short_calls.most = 0;
    short_calls.interrupted = false;
}

/* Writes a file that ends by `end`; checks whether it has its final or its temporary name. */
static ff_status make(const char *folder, ff_status (*end)(ff_file **, ff_error *), bool *named,
                      bool *temporary, ff_error *failure) {
    char *path = join(folder, "made"), *made = join(folder, "made.tmp");
    ff_file *file;
    fake.log[0] = 0;
    assert_ok(ff_file_create(&file, folder, "made", error));
    assert_ok(ff_file_write(file, wanted, SMALL, error));
    ff_status status = end(&file, failure);
    assert_null(file);
    *named = !unlink(path);
    *temporary = !unlink(made);
    free(path);
    free(made);
    return status;
}

/* The bytes are on the disk before the name, and the name before the call returns. */
static void order_of_a_commit(void **state) {
    bool named, temporary;
    assert_ok(make(*state, ff_file_commit, &named, &temporary, error));
    assert_string_equal(fake.log, "fsync, rename, fsync folder");
    assert_true(named && !temporary);
    assert_ok(make(*state, ff_file_keep, &named, &temporary, error));
    assert_string_equal(fake.log, "fsync");
    assert_true(!named && temporary);
}

/* What could not be synced or renamed is removed; what already has its final name stays. */
static void calls_that_fail(void **state) {
    static const struct {
        const char *failing, *log, *message;
        bool named;
    } cases[] = {
        {"fsync", "fsync", "made.tmp: cannot sync", false},
        {"rename", "fsync, rename", "made.tmp: cannot rename to", false},
        {"fsync folder", "fsync, rename, fsync folder", "cannot sync the folder", true},
    };
    bool named, temporary;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fake.failing = cases[i].failing;
        assert_fails(make(*state, ff_file_commit, &named, &temporary, error), FF_IO,
                     cases[i].message);
        assert_string_equal(fake.log, cases[i].log);
        assert_true(named == cases[i].named && !temporary);
    }
    fake.failing = "fsync";
    assert_fails(make(*state, ff_file_keep, &named, &temporary, error), FF_IO,
                 "made.tmp: cannot sync");
    assert_true(!named && !temporary);
    fake.failing = NULL;
}

/* A large file's blocks are allocated ahead, where the file system can do so, and none are left
 * behind its end. */
static void blocks_behind_the_end(void **state) {
    char *path = join(*state, "large.tmp");
    ff_file *file;
    struct stat info;
    int probe = open(path, O_RDWR | O_CREAT, 0600);
    bool can = !fallocate(probe, FALLOC_FL_KEEP_SIZE, 0, 1 << 20);
    close(probe);
    assert_ok(ff_file_create(&file, *state, "large", error));
    while (ff_file_offset(file) < 20 << 20) assert_ok(ff_file_write(file, wanted, LENGTH, error));
    const int64_t length = (int64_t)ff_file_offset(file);
    assert_int_equal(stat(path, &info), 0);
    if (can) assert_true(info.st_blocks * 512 > length + (16 << 20));
    assert_ok(ff_file_keep(&file, error));
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, length);
    assert_true(info.st_blocks * 512 < length + (1 << 20));
    unlink(path);
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_that_do_less),
        cmocka_unit_test(order_of_a_commit),
        cmocka_unit_test(calls_that_fail),
        cmocka_unit_test(blocks_behind_the_end),
    };
    return cmocka_run_group_tests_name("file", tests, set_up, tear_down);
}
