/* Reading ahead of a set that memory cannot keep: batches are those of the mapped set, bit for bit;
 * each byte is read once, and each frame decompressed once, where the order allows it; and what
 * goes wrong on the way is the error of the row that needs it. The test's own pread counts and
 * fails. */
#include "loader/loader.h"
#include "loader/sequence.h"
#include "tests/unit/dice.h"
#include "tests/unit/format_set.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <zstd.h>

static struct {
    atomic_uint_fast64_t bytes, calls, frames;
    atomic_bool fails; /* reads of what holds this byte of a shard, with EIO */
    uint64_t at;
    char name[32];
} disk;

static bool is_shard(int file, const char *name) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    return strstr(path, name);
}

ssize_t pread(int file, void *to, size_t length, off_t offset) {
    if (disk.fails && disk.at >= (uint64_t)offset && disk.at < (uint64_t)offset + length &&
        is_shard(file, disk.name)) {
        errno = EIO;
        return -1;
    }
    const ssize_t got = syscall(SYS_pread64, file, to, length, offset);
    if (got > 0 && length >= 4096) {
        disk.calls++;
        disk.bytes += (uint64_t)got;
    }
    return got;
}

size_t ZSTD_decompressDCtx(ZSTD_DCtx *zstd, void *to, size_t capacity, const void *from,
                           size_t length) {
    static size_t (*real)(ZSTD_DCtx *, void *, size_t, const void *, size_t);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "ZSTD_decompressDCtx");
    disk.frames++;
    return real(zstd, to, capacity, from, length);
}

/* ---- sameness ------------------------------------------------------------------------------- */

static void check_slots(const ff_slot *a, const ff_slot *b) {
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->position, b->position);
    assert_int_equal(a->row_bytes, b->row_bytes);
    assert_int_equal(a->last, b->last);
    if (!a->rows) return;
    assert_memory_equal(a->data, b->data, a->rows * a->row_bytes);
    assert_memory_equal(a->weight, b->weight, a->rows * sizeof *a->weight);
    assert_memory_equal(a->source, b->source, a->rows * sizeof *a->source);
    for (size_t i = 0; i < a->label_count; i++)
        assert_memory_equal(a->label[i].values, b->label[i].values,
                            a->rows * ff_slot_label_bytes(&a->label[i]));
}

/* Up to `batches` batches of both. */
static void check_batches(ff_loader *a, ff_loader *b, int batches) {
    for (int i = 0; i < batches; i++) {
        ff_slot *left, *right;
        assert_ok(ff_loader_acquire(a, &left, error));
        assert_ok(ff_loader_acquire(b, &right, error));
        assert_int_equal(!left, !right);
        if (!left) return;
        check_slots(left, right);
        ff_loader_release(a, left, NULL);
        ff_loader_release(b, right, NULL);
    }
}

static ff_loader *open_loader(ff_dataset *dataset, const ff_loader_options *given,
                              ff_loader_access access) {
    ff_loader *loader;
    ff_loader_options options = *given;
    options.access = access;
    assert_ok(ff_loader_create(&loader, dataset, &options, error));
    const ff_loader_info info = ff_loader_describe(loader);
    assert_int_equal(info.ahead_bytes != 0, access == FF_ACCESS_READ && info.rows);
    return loader;
}

static void compare(ff_dataset *dataset, const ff_loader_options *options) {
    ff_loader *mapped = open_loader(dataset, options, FF_ACCESS_MAPPED);
    ff_loader *ahead = open_loader(dataset, options, FF_ACCESS_READ);
    check_batches(mapped, ahead, 1000);
    ff_loader_destroy(&mapped);
    ff_loader_destroy(&ahead);
}

static ff_loader_options draw_options(dice *d, uint64_t samples) {
    static const char *const labels[] = {"class", "wide tags", "wide soft", "box", "point"};
    ff_loader_options options = ff_loader_defaults();
    options.order = (ff_order_kind)roll(d, FF_ORDER_KIND_COUNT);
    options.block = 1 + roll(d, 40), options.group = 1 + roll(d, 12);
    options.batch = 2 + 2 * roll(d, 40);
    options.last_batch = (ff_last_batch)roll(d, 2);
    options.threads = 1 + (int)roll(d, 3);
    options.slots = 2 + (uint32_t)roll(d, 3);
    options.seed = roll(d, 1000);
    options.epochs = 1 + (uint32_t)roll(d, 3);
    if (roll(d, 2)) options.position = roll(d, (uint32_t)samples);
    if (roll(d, 2)) {
        options.share_total = 1 + (uint32_t)roll(d, 4);
        options.share_begin = (uint32_t)roll(d, options.share_total + 1);
        options.share_end =
            options.share_begin + (uint32_t)roll(d, options.share_total - options.share_begin + 1);
    } else if (roll(d, 2)) {
        options.cuts = 2, options.batch = 4 * (options.batch / 4 + 1);
    }
    if (roll(d, 2)) options.label = labels, options.label_count = sizeof labels / sizeof *labels;
    /* As little as can be, some rows, or enough. */
    options.ahead_bytes = roll(d, 3) ? 1 + roll(d, 4) * 40000 : 4 << 20;
    return options;
}

static set_spec draw_set(dice *d) {
    set_spec set = {.dtype = FF_F16,
                    .layout = roll(d, 2) ? FF_CHW : FF_HWC,
                    .channels = 1 + (uint32_t)roll(d, 3),
                    .height = 9 + (uint32_t)roll(d, 30),
                    .width = 9 + (uint32_t)roll(d, 30),
                    .alignment = roll(d, 4) ? 64 : 4096,
                    .items = 50 + roll(d, 300),
                    .per_block = 1 + roll(d, 9),
                    .labels = LABELS_ALL,
                    .level = 1,
                    .zstd = roll(d, 2),
                    .shuffled = roll(d, 2),
                    .skip = roll(d, 3) ? SKIP_NONE : SKIP_SOME,
                    .seed = roll(d, 1000)};
    set.per_shard = set.per_block * (1 + roll(d, 20));
    return set;
}

static void same_batches(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        dice d = {.seed = seed};
        set_spec set = draw_set(&d);
        ff_dataset *dataset = open_new_set(&set);
        for (int i = 0; i < 6; i++) {
            const ff_loader_options options = draw_options(&d, ff_dataset_count(dataset));
            compare(dataset, &options);
        }
        ff_dataset_close(&dataset);
        set_remove(&set);
    }
}

/* Samples of different sizes, resized in later epochs to others, moved and mixed. */
static void sizes(void **state) {
    (void)state;
    for (int kind = 0; kind < 12; kind++) {
        set_spec set = plain_set(200);
        set.variable = kind & 1;
        set.zstd = kind & 2;
        set.shuffled = true;
        ff_loader_size size[2] = {{.epoch = 1, .height = 24, .width = 24},
                                  {.epoch = 2, .height = 12, .width = 16}};
        ff_dataset *dataset = open_new_set(&set);
        ff_loader_options options = ff_loader_defaults();
        options.order = (ff_order_kind)(kind / 4);
        options.batch = 32, options.epochs = 3, options.threads = 2;
        options.block = 10, options.group = 3;
        options.height = options.width = 16;
        assert_ok(ff_augment_parse(&options.augment, "crop=1,flip,mixup=0.4", error));
        if (!set.variable) {
            for (int i = 0; i < 2; i++) size[i].augment = options.augment;
            options.sizes = size, options.size_count = 2;
        }
        compare(dataset, &options);
        ff_dataset_close(&dataset);
        set_remove(&set);
    }
}

/* Every row of endless epochs is of the same sample, or frame. */
static void few_samples(void **state) {
    (void)state;
    for (int kind = 0; kind < 12; kind++) {
        set_spec set = plain_set(kind & 1 ? 1 : 5);
        set.zstd = kind & 2;
        ff_dataset *dataset = open_new_set(&set);
        ff_loader_options options = ff_loader_defaults();
        options.order = (ff_order_kind)(kind / 4), options.batch = 3, options.threads = 2;
        options.last_batch = FF_LAST_BATCH_KEEP;
        ff_loader *mapped = open_loader(dataset, &options, FF_ACCESS_MAPPED);
        ff_loader *ahead = open_loader(dataset, &options, FF_ACCESS_READ);
        check_batches(mapped, ahead, 300);
        ff_loader_destroy(&mapped);
        ff_loader_destroy(&ahead);
        ff_dataset_close(&dataset);
        set_remove(&set);
    }
}

static void seek(void **state) {
    (void)state;
    set_spec set = plain_set(500);
    ff_dataset *dataset = open_new_set(&set);
    for (ff_order_kind order = 0; order < FF_ORDER_KIND_COUNT; order++) {
        ff_loader_options options = ff_loader_defaults();
        options.order = order, options.batch = 16, options.threads = 2;
        options.block = 16, options.group = 4;
        ff_loader *ahead = open_loader(dataset, &options, FF_ACCESS_READ);
        for (int i = 0; i < 20; i++) {
            ff_sequence sequence;
            options.position = (uint64_t)i * 23;
            ff_loader *mapped = open_loader(dataset, &options, FF_ACCESS_MAPPED);
            assert_ok(ff_sequence_init(&sequence, dataset, &options, error));
            ff_loader_seek(ahead, &sequence);
            check_batches(mapped, ahead, i % 5 * 9);
            ff_loader_destroy(&mapped);
        }
        ff_loader_destroy(&ahead);
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

/* ---- how often ------------------------------------------------------------------------------ */

static uint64_t shard_bytes(ff_dataset *dataset) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < ff_dataset_shard_count(dataset); i++) {
        ff_shard_info shard;
        assert_ok(ff_dataset_shard(dataset, i, &shard, error));
        bytes += shard.file_bytes;
    }
    return bytes;
}

/* An epoch reads each byte once, in large requests, and decompresses each frame once; with random
 * order it reads little more than it uses. */
static void every_byte_once(void **state) {
    (void)state;
    for (int kind = 0; kind < 6; kind++) {
        set_spec set = plain_set(4000);
        set.shard_bytes = 6 << 20, set.zstd = kind / 3, set.level = 1;
        ff_dataset *dataset = open_new_set(&set);
        ff_loader_options options = ff_loader_defaults();
        options.order = (ff_order_kind)(kind % 3), options.batch = 50, options.threads = 2;
        options.group = 5, options.epochs = 1; /* of blocks of 1 MiB, of whole frames */
        options.ahead_bytes = 32 << 20;
        ff_loader *loader = open_loader(dataset, &options, FF_ACCESS_READ);
        assert_int_equal(ff_loader_describe(loader).ahead_blocks, 0);
        disk.bytes = disk.calls = disk.frames = 0;
        ff_slot *slot;
        for (int i = 0; i < 80; i++) {
            assert_ok(ff_loader_acquire(loader, &slot, error));
            assert_non_null(slot);
            ff_loader_release(loader, slot, NULL);
        }
        const double bytes = (double)disk.bytes / (double)shard_bytes(dataset);
        const uint64_t each = disk.calls ? disk.bytes / disk.calls : 0;
        if (options.order != FF_ORDER_RANDOM) {
            if (bytes > 1.05 || each < 256 << 10) /* the last one of a shard or group is smaller */
                fail_msg("kind %d: read %.3f of the set, %d bytes in a request", kind, bytes,
                         (int)each);
            /* 4000 samples of 6 KiB in frames of about 256 KiB. */
            if (set.zstd)
                assert_in_range(disk.frames, 4000 * 6144 / (320 << 10), 4000 * 6144 / (192 << 10));
        } else if (!set.zstd) {
            assert_true(bytes < (6144.0 + 2 * 4096) / 6144);
        }
        ff_loader_destroy(&loader);
        ff_dataset_close(&dataset);
        set_remove(&set);
    }
}

/* A group that the memory cannot hold twice: it is said, and the batches are the same. */
static void a_group_that_is_too_large(void **state) {
    (void)state;
    set_spec set = plain_set(2000);
    ff_dataset *dataset = open_new_set(&set);
    ff_loader_options options = ff_loader_defaults();
    options.order = FF_ORDER_BLOCK, options.batch = 50, options.threads = 2, options.epochs = 1;
    options.block = 20, options.group = 50; /* 6 MB */
    options.ahead_bytes = 4 << 20;
    ff_loader *loader = open_loader(dataset, &options, FF_ACCESS_READ);
    const ff_loader_info info = ff_loader_describe(loader);
    assert_true(info.ahead_bytes <= options.ahead_bytes);
    assert_in_range(info.ahead_blocks, 10, 17);
    ff_loader_destroy(&loader);
    compare(dataset, &options);
    options.group = info.ahead_blocks * 9 / 10;
    loader = open_loader(dataset, &options, FF_ACCESS_READ);
    assert_int_equal(ff_loader_describe(loader).ahead_blocks, 0);
    ff_loader_destroy(&loader);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

/* ---- what goes wrong ------------------------------------------------------------------------ */

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

int main(void) {
    const struct CMUnitTest tests[] = {
        /* First: cmocka installs its own SIGBUS handler at every test, and the guard only once. */
        cmocka_unit_test(shards_that_shrink),
        cmocka_unit_test(same_batches),
        cmocka_unit_test(sizes),
        cmocka_unit_test(few_samples),
        cmocka_unit_test(seek),
        cmocka_unit_test(few_descriptors),
        cmocka_unit_test(every_byte_once),
        cmocka_unit_test(a_group_that_is_too_large),
        cmocka_unit_test(shards_that_are_replaced),
        cmocka_unit_test(a_disk_that_fails),
        cmocka_unit_test(one_broken_place),
        cmocka_unit_test(destroyed_at_any_time),
    };
    return cmocka_run_group_tests_name("loader_ahead", tests, NULL, NULL);
}
