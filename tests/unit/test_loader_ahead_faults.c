/* What goes wrong while samples are read ahead: it is the error of the first row that needs what
 * could not be read, with path and offset, after the batches before it. */
#include "tests/unit/ahead_case.h"

#include <sys/resource.h>

typedef void harm(const char *path, uint64_t offset);

static void shrink(const char *path, uint64_t offset) {
    assert_int_equal(truncate(path, (off_t)offset), 0);
}

static void replace(const char *path, uint64_t offset) {
    char *other;
    (void)offset;
    assert_ok(ff_format(&other, error, "%s.new", path));
    size_t length;
    uint8_t *bytes = read_whole(path, &length);
    memset(bytes + 4096, 1, length - 4096);
    write_whole(other, bytes, length);
    assert_int_equal(rename(other, path), 0);
    free(bytes);
    free(other);
}

static void fail_reads(const char *path, uint64_t offset) {
    snprintf(disk.name, sizeof disk.name, "%s", strrchr(path, '/') + 1);
    disk.at = offset;
    disk.fails = true;
}

/* Shards are harmed while an epoch is read: batches before the first sample that cannot be read are
 * right, then every call fails with path and offset. */
static void harmed_while_read(harm *harms, const char *part) {
    for (int kind = 0; kind < 6; kind++) {
        set_spec set = plain_set(3000);
        set.per_block = 10, set.per_shard = 40; /* 75 shards, more than are open at a time */
        set.zstd = kind / 3;
        ff_dataset *dataset = open_new_set(&set);
        ff_loader_options options = ff_loader_defaults();
        options.order = (ff_order_kind)(kind % 3), options.batch = 50, options.threads = 2;
        options.block = 40, options.group = 4, options.ahead_bytes = 1 << 20;
        ff_loader *mapped = open_loader(dataset, &options, FF_ACCESS_MAPPED);
        ff_loader *ahead = open_loader(dataset, &options, FF_ACCESS_READ);
        check_batches(mapped, ahead, 70); /* every shard was mapped, and verified */
        for (uint32_t i = 0; i < ff_dataset_shard_count(dataset); i += harms == replace ? 1 : 60) {
            char path[4096];
            ff_shard_info shard;
            assert_ok(ff_dataset_shard(dataset, i, &shard, error));
            snprintf(path, sizeof path, "%s/%s", set.folder, shard.name);
            harms(path, shard.file_bytes / 4);
        }
        ff_slot *a, *b;
        ff_error failure = {0};
        ff_status status = FF_OK;
        for (int i = 0; i < 200 && status == FF_OK; i++) {
            status = ff_loader_acquire(ahead, &b, &failure);
            if (status != FF_OK) break;
            if (harms != shrink) { /* a mapped read of it would fail, too */
                assert_ok(ff_loader_acquire(mapped, &a, error));
                check_slots(a, b);
                ff_loader_release(mapped, a, NULL);
            }
            ff_loader_release(ahead, b, NULL);
        }
        assert_int_equal(status, FF_IO);
        if (!strstr(failure.message, part) || !strstr(failure.message, "/shard-"))
            fail_msg("kind %d: '%s' lacks '%s'", kind, failure.message, part);
        ff_error again = {0};
        assert_int_equal(ff_loader_acquire(ahead, &b, &again), FF_IO);
        assert_string_equal(failure.message, again.message);
        disk.fails = false;
        ff_loader_destroy(&mapped);
        ff_loader_destroy(&ahead);
        ff_dataset_close(&dataset);
        set_remove(&set);
    }
}

static void shards_that_shrink(void **state) {
    (void)state;
    harmed_while_read(shrink, "the file shrank");
}
static void shards_that_are_replaced(void **state) {
    (void)state;
    harmed_while_read(replace, "was replaced while the set was read");
}
static void a_disk_that_fails(void **state) {
    (void)state;
    harmed_while_read(fail_reads, "cannot read: Input/output error");
}

/* The disk fails for a sample: the message names it, whatever the order; the loader continues after
 * a seek. */
static void one_broken_place(void **state) {
    (void)state;
    set_spec set = plain_set(300);
    set.shard_bytes = 1 << 20;
    ff_dataset *dataset = open_new_set(&set);
    for (ff_order_kind order = 0; order < FF_ORDER_KIND_COUNT; order++) {
        ff_loader_options options = ff_loader_defaults();
        options.order = order, options.batch = 10, options.threads = 3;
        options.block = 10, options.group = 10;
        fail_reads("/shard-000001.ffs", 400000);
        ff_loader *ahead = open_loader(dataset, &options, FF_ACCESS_READ);
        ff_slot *slot;
        ff_error failure = {0};
        int batches = 0;
        while (ff_loader_acquire(ahead, &slot, &failure) == FF_OK && ++batches < 31)
            ff_loader_release(ahead, slot, NULL);
        assert_in_range(batches, 0, 30);
        assert_non_null(strstr(failure.message, "shard-000001.ffs: offset 397312: cannot read"));
        disk.fails = false;
        ff_sequence sequence;
        assert_ok(ff_sequence_init(&sequence, dataset, &options, error));
        ff_loader_seek(ahead, &sequence);
        ff_loader *mapped = open_loader(dataset, &options, FF_ACCESS_MAPPED);
        check_batches(mapped, ahead, 60);
        ff_loader_destroy(&mapped);
        ff_loader_destroy(&ahead);
    }
    ff_dataset_close(&dataset);
    set_remove(&set);
}

static void destroyed_at_any_time(void **state) {
    (void)state;
    set_spec set = plain_set(1000);
    ff_dataset *dataset = open_new_set(&set);
    for (int i = 0; i < 60; i++) {
        ff_loader_options options = ff_loader_defaults();
        options.order = (ff_order_kind)(i % 3), options.batch = 20, options.threads = 1 + i % 3;
        options.ahead_bytes = i % 2 ? 0 : 100000;
        ff_loader *loader = open_loader(dataset, &options, FF_ACCESS_READ);
        ff_slot *slot = NULL;
        for (int batch = 0; batch < i % 7; batch++) {
            if (slot) ff_loader_release(loader, slot, NULL);
            assert_ok(ff_loader_acquire(loader, &slot, error));
        }
        ff_loader_destroy(&loader);
    }
    ff_dataset_close(&dataset);
    set_remove(&set);
}

/* More shards than files may be open at a time, and a process that has no descriptor left but a
 * few. */
static void few_descriptors(void **state) {
    (void)state;
    struct rlimit limit, before;
    set_spec set = plain_set(300);
    set.per_block = 2, set.per_shard = 2;
    ff_dataset *dataset = open_new_set(&set);
    ff_loader_options options = ff_loader_defaults();
    options.batch = 20, options.threads = 3, options.epochs = 2;
    compare(dataset, &options);
    ff_dataset_close(&dataset);
    const int next = dup(0);
    assert_true(next > 0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = before;
    for (rlim_t left = 3; left < 10; left++) {
        limit.rlim_cur = (rlim_t)next + left;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        dataset = open_set(&set);
        compare(dataset, &options);
        ff_dataset_close(&dataset);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    set_remove(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        /* First: cmocka installs its own SIGBUS handler at every test, and the guard only once. */
        cmocka_unit_test(shards_that_shrink), cmocka_unit_test(shards_that_are_replaced),
        cmocka_unit_test(a_disk_that_fails),  cmocka_unit_test(one_broken_place),
        cmocka_unit_test(few_descriptors),    cmocka_unit_test(destroyed_at_any_time),
    };
    return cmocka_run_group_tests_name("loader_ahead_faults", tests, NULL, NULL);
}
