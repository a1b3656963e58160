/* Reading samples past the page cache: reads that end early, are interrupted or refused, as by
 * devices and file systems, simulated by the test's own pread. */
#include "format/reader/dataset.h"
#include "tests/unit/format_set.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static struct {
    bool active;
    size_t most;      /* bytes per call; 0 = as many as requested */
    bool interrupted; /* every second call first fails with EINTR */
    bool refuse;      /* direct reads fail with EINVAL */
    bool at_end;      /* reads return 0 bytes */
    int calls, unaligned;
    int opened; /* files for direct reads */
} fake;

ssize_t pread(int file, void *to, size_t length, off_t offset) {
    if (!fake.active) return syscall(SYS_pread64, file, to, length, offset);
    bool direct = fcntl(file, F_GETFL) & O_DIRECT;
    fake.calls++;
    if (fake.interrupted && fake.calls % 2) {
        errno = EINTR;
        return -1;
    }
    if (direct && ((uintptr_t)to % 4096 || length % 4096 || offset % 4096)) fake.unaligned++;
    if (direct && fake.refuse) {
        errno = EINVAL;
        return -1;
    }
    if (fake.at_end) return 0;
    if (fake.most && length > fake.most) {
        /* A device may end early anywhere; the bytes after that are undefined. */
        ssize_t got = syscall(SYS_pread64, file, to, length, offset);
        size_t given = got < (ssize_t)fake.most ? (size_t)got : fake.most;
        memset((uint8_t *)to + given, 0xee, length - given);
        return (ssize_t)given;
    }
    return syscall(SYS_pread64, file, to, length, offset);
}

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const unsigned mode = flags & O_CREAT ? va_arg(arguments, unsigned) : 0;
    va_end(arguments);
    fake.opened += (flags & O_DIRECT) != 0;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static const set_spec base = {.dtype = FF_F16,
                              .layout = FF_CHW,
                              .channels = 3,
                              .height = 50,
                              .width = 61, /* 18,300 bytes: begins and ends within blocks */
                              .alignment = 64,
                              .items = 24,
                              .per_block = 2,
                              .per_shard = 8,
                              .labels = LABELS_ALL,
                              .seed = 1};

static void check_set(const set_spec *spec, const char *folder) {
    ff_dataset *dataset;
    ff_reader *reader;
    assert_ok(ff_dataset_open(&dataset, folder, FF_VERIFY_ALWAYS, error));
    assert_ok(ff_reader_open_direct(&reader, dataset, error));
    fake.active = true;
    fake.calls = fake.unaligned = 0;
    for (uint64_t i = 0; i < spec->items; i++) set_check_sample(spec, dataset, reader, i, i);
    for (uint64_t i = spec->items; i-- > 0;) set_check_sample(spec, dataset, reader, i, i);
    fake.active = false;
    assert_int_equal(fake.unaligned, 0);
    assert_true(fake.calls > 0);
    ff_reader_close(&reader);
    ff_dataset_close(&dataset);
}

static void check_all(const char *folder) {
    check_set(&base, folder);
}

static void compressed_frames(void **state) {
    (void)state;
    set_spec spec = base;
    spec.zstd = true;
    spec.level = 1;
    char *folder = new_folder();
    assert_ok(set_write(&spec, folder, NULL, error));
    check_set(&spec, folder);
    fake.most = 5000;
    check_set(&spec, folder);
    fake.most = 0;
    remove_folder(folder);
}

static void reads_that_end_early(void **state) {
    const char *folder = *state;
    static const size_t most[] = {0,    100,   4095,  4096,  4097,  5000, 8191,
                                  8192, 12287, 12289, 18000, 18299, 18301};
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        fake.most = most[i];
        check_all(folder);
    }
    fake.most = 0;
}

static void interrupted_and_refused(void **state) {
    const char *folder = *state;
    fake.interrupted = true;
    check_all(folder);
    fake.interrupted = false;
    fake.refuse = true;
    check_all(folder);
    fake.refuse = false;
}

/* Shards stay open while others are read. */
static void files_stay_open(void **state) {
    const char *folder = *state;
    ff_dataset *dataset;
    ff_reader *reader;
    assert_ok(ff_dataset_open(&dataset, folder, FF_VERIFY_ALWAYS, error));
    assert_ok(ff_reader_open_direct(&reader, dataset, error));
    fake.opened = 0;
    for (uint64_t i = 0; i < base.per_shard; i++)
        for (uint64_t shard = 0; shard < base.items / base.per_shard; shard++)
            set_check_sample(&base, dataset, reader, i + shard * base.per_shard,
                             i + shard * base.per_shard);
    assert_int_equal(fake.opened, base.items / base.per_shard);
    ff_reader_close(&reader);
    ff_dataset_close(&dataset);
}

/* More shards than files may be open at a time. */
static void many_shards(void **state) {
    (void)state;
    set_spec spec = base;
    spec.channels = 1;
    spec.height = spec.width = 3;
    spec.items = 2 * 70;
    spec.per_shard = spec.per_block = 2;
    spec.labels = LABELS_NONE;
    char *folder = new_folder();
    ff_dataset *dataset;
    ff_reader *reader;
    assert_ok(set_write(&spec, folder, NULL, error));
    assert_ok(ff_dataset_open(&dataset, folder, FF_VERIFY_ALWAYS, error));
    assert_ok(ff_reader_open_direct(&reader, dataset, error));
    for (uint64_t i = 0; i < 12; i++) {
        set_check_sample(&spec, dataset, reader, i, i);
        set_check_sample(&spec, dataset, reader, i + 128, i + 128);
    }
    ff_reader_close(&reader);
    ff_dataset_close(&dataset);
    remove_folder(folder);
}

/* The process has no descriptor left but a few. */
static void few_descriptors(void **state) {
    (void)state;
    struct rlimit limit, before;
    const int next = dup(0);
    assert_true(next > 0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)next + 4;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    many_shards(state);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void a_file_that_is_replaced(void **state) {
    const char *folder = *state;
    char path[4096], other[4096];
    ff_dataset *dataset;
    ff_reader *reader;
    ff_view view;
    assert_ok(ff_dataset_open(&dataset, folder, FF_VERIFY_OFF, error));
    assert_ok(ff_reader_open_direct(&reader, dataset, error));
    const ff_shard *shard;
    assert_ok(ff_dataset_open_shard(dataset, 1, &shard, error));
    snprintf(path, sizeof path, "%s/shard-000001.ffs", folder);
    snprintf(other, sizeof other, "%s/shard-000000.ffs", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(link(other, path), 0);
    ff_error failure = {0};
    assert_int_equal(ff_reader_sample(reader, 8, &view, &failure), FF_IO);
    assert_non_null(
        strstr(failure.message, "shard-000001.ffs: was replaced while the set was read"));
    ff_reader_close(&reader);
    ff_dataset_close(&dataset);
}

static void a_file_that_shrinks(void **state) {
    const char *folder = *state;
    ff_dataset *dataset;
    ff_reader *reader;
    ff_view view;
    assert_ok(ff_dataset_open(&dataset, folder, FF_VERIFY_FIRST, error));
    assert_ok(ff_reader_open_direct(&reader, dataset, error));
    assert_ok(ff_reader_sample(reader, 8, &view, error)); /* opens the shard */
    fake.active = fake.at_end = true;
    ff_error failure = {0};
    ff_status status = ff_reader_sample(reader, 9, &view, &failure);
    fake.active = fake.at_end = false;
    assert_int_equal(status, FF_IO);
    assert_non_null(strstr(failure.message, "shard-000001.ffs: offset"));
    assert_non_null(strstr(failure.message, "the file shrank while it was read"));
    assert_ok(ff_reader_sample(reader, 9, &view, error)); /* the failure has no lasting effect */
    uint8_t tensor[50 * 61 * 3 * 2];
    set_tensor(&base, 9, tensor);
    assert_memory_equal(view.tensor, tensor, sizeof tensor);
    ff_reader_close(&reader);
    ff_dataset_close(&dataset);
}

static int set_up(void **state) {
    char *folder = new_folder();
    assert_ok(set_write(&base, folder, NULL, error));
    *state = folder;
    return 0;
}

static int tear_down(void **state) {
    remove_folder(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_that_end_early),
        cmocka_unit_test(interrupted_and_refused),
        cmocka_unit_test(a_file_that_shrinks),
        cmocka_unit_test(compressed_frames),
        cmocka_unit_test(files_stay_open),
        cmocka_unit_test(many_shards),
        cmocka_unit_test(few_descriptors),
        cmocka_unit_test(a_file_that_is_replaced), /* the last one: the set is broken now */
    };
    return cmocka_run_group_tests_name("direct", tests, set_up, tear_down);
}
