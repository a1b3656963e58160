/* Sets that memory cannot keep: which way of reading is chosen, and that batches are the same in
 * every way. */
#include "loader/host/loader.h"
#include "tests/unit/address_space.h"
#include "tests/unit/format_set.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 32, SAMPLES = 300 };

static ff_loader *open_loader(ff_dataset *dataset, ff_order_kind order, ff_loader_access access) {
    ff_loader *loader;
    ff_loader_options options = ff_loader_defaults();
    options.batch = BATCH, options.order = order, options.access = access;
    options.height = options.width = 8;
    options.block = 10, options.group = 3, options.threads = 2, options.epochs = 2;
    assert_ok(ff_augment_parse(&options.augment, "crop=1,flip", error));
    assert_ok(ff_loader_create(&loader, dataset, &options, error));
    return loader;
}

static void compare(ff_dataset *dataset, ff_order_kind order, ff_loader_access access) {
    ff_loader *mapped = open_loader(dataset, order, FF_ACCESS_MAPPED);
    ff_loader *other = open_loader(dataset, order, access);
    for (int i = 0; i < 2 * (SAMPLES / BATCH); i++) {
        ff_slot *a, *b;
        assert_ok(ff_loader_acquire(mapped, &a, error));
        assert_ok(ff_loader_acquire(other, &b, error));
        assert_memory_equal(a->data, b->data, BATCH * a->row_bytes);
        ff_loader_release(mapped, a, NULL);
        ff_loader_release(other, b, NULL);
    }
    ff_loader_destroy(&mapped);
    ff_loader_destroy(&other);
}

static void the_way_follows_memory(void **state) {
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        set_spec set = plain_set(SAMPLES);
        set.height = set.width = 12;
        set.variable = kind & 1;
        set.zstd = kind & 2;
        ff_dataset *dataset = open_new_set(&set);
        for (ff_order_kind order = 0; order < FF_ORDER_KIND_COUNT; order++) {
            ff_loader *loader = open_loader(dataset, order, FF_ACCESS_AUTO);
            ff_loader_info info = ff_loader_describe(loader);
            assert_false(info.direct);
            assert_int_equal(info.beyond_memory_bytes, 0);
            ff_loader_destroy(&loader);

            setenv("FFLOAD_MEMORY", "16K", 1);
            loader = open_loader(dataset, order, FF_ACCESS_AUTO);
            info = ff_loader_describe(loader);
            assert_true(info.direct);
            assert_true(info.ahead_bytes > 0);
            assert_true(info.beyond_memory_bytes > 16 << 10);
            assert_int_equal(info.memory.bytes, 16 << 10);
            assert_string_equal(info.memory.limit, "by FFLOAD_MEMORY");
            ff_loader_destroy(&loader);
            compare(dataset, order, FF_ACCESS_AUTO);
            setenv("FFLOAD_MEMORY", "1G", 1);
            loader = open_loader(dataset, order, FF_ACCESS_AUTO);
            assert_false(ff_loader_describe(loader).direct);
            ff_loader_destroy(&loader);
            unsetenv("FFLOAD_MEMORY");
            compare(dataset, order, FF_ACCESS_READ);
        }
        ff_dataset_close(&dataset);
        set_remove(&set);
    }
}

/* Without a group of its own, block order has one that the memory can keep, of which each of the
 * ranks on a machine has a part. */
static void groups_follow_memory(void **state) {
    (void)state;
    set_spec set = plain_set(36000);
    set.height = set.width = 16; /* 1536 bytes; a block of 20 is read in 36 to 40 KiB */
    ff_dataset *dataset = open_new_set(&set);
    const uint64_t block = 20, memory = 2 * 2 * 150 * (40 << 10);
    const struct {
        uint64_t memory, least, most;
        uint32_t ranks;
    } cases[] = {{0, 2048, 2048, 1}, {1, 64, 64, 0}, {memory, 130, 165, 1}, {memory, 65, 82, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ff_loader *loader;
        ff_loader_options options = ff_loader_defaults();
        options.order = FF_ORDER_BLOCK;
        options.block = block;
        options.memory_bytes = cases[i].memory;
        options.memory_ranks = cases[i].ranks;
        assert_ok(ff_loader_create(&loader, dataset, &options, error));
        const ff_loader_info info = ff_loader_describe(loader);
        assert_int_equal(info.direct, cases[i].memory != 0);
        assert_int_equal(info.block, block);
        assert_in_range(info.group, cases[i].least, cases[i].most);
        assert_int_equal(info.ahead_blocks != 0, cases[i].memory == 1);
        const char *text = ff_loader_say_reading(&info).text;
        assert_true(strncmp(text, info.direct ? "read directly: the set has " : "mapped: the set ",
                            12) == 0);
        if (cases[i].memory) assert_non_null(strstr(text, ", by the option memory"));
        ff_loader_destroy(&loader);
    }
    ff_dataset_close(&dataset);
    set_remove(&set);
}

/* An epoch of a process that has less address space than the set. */
static int load_in_little(const set_spec *set, ff_order_kind order) {
    ff_error failure = {0}, *error = &failure;
    ff_dataset *dataset;
    ff_loader *loader;
    ff_slot *slot;
    ff_loader_options options = ff_loader_defaults();
    options.batch = 8, options.order = order, options.threads = 0, options.epochs = 1;
    if (!limit_address_space(32u << 20)) return 2;
    if (ff_dataset_open(&dataset, set->folder, FF_VERIFY_FIRST, error) != FF_OK) return 3;
    const ff_status status = ff_loader_create(&loader, dataset, &options, error);
    if (set->zstd)
        return status == FF_NO_MEMORY && strstr(failure.message, "is left (ulimit -v)") ? 0 : 4;
    if (status != FF_OK || !ff_loader_describe(loader).direct) return 5;
    for (uint64_t i = 0; i < set->items / options.batch; i++) {
        if (ff_loader_acquire(loader, &slot, error) != FF_OK) return 6;
        ff_loader_release(loader, slot, NULL);
    }
    return 0;
}

static void sets_beyond_the_address_space(void **state) {
    (void)state;
    if (!address_space_is_own()) skip();
    for (int zstd = 0; zstd < 2; zstd++) {
        set_spec set = plain_set(160);
        set.height = set.width = 256;
        set.per_shard = 4;
        set.zstd = zstd;
        assert_ok(set_make(&set, error));
        for (ff_order_kind order = 0; order < FF_ORDER_KIND_COUNT; order++) {
            int result;
            const pid_t child = fork();
            if (!child) _exit(load_in_little(&set, order));
            assert_int_equal(waitpid(child, &result, 0), child);
            assert_int_equal(result, 0);
        }
        set_remove(&set);
    }
}

/* The memory for files that a loader with `slots` finds, in a process with so much address space
 * more than it has now. */
static uint64_t memory_beside_slots(const set_spec *set, uint32_t slots) {
    ff_error failure = {0}, *error = &failure;
    ff_dataset *dataset;
    ff_loader *loader;
    ff_loader_options options = ff_loader_defaults();
    options.batch = 16, options.threads = 0, options.slots = slots;
    if (!limit_address_space(512u << 20)) return 2;
    if (ff_dataset_open(&dataset, set->folder, FF_VERIFY_FIRST, error) != FF_OK) return 3;
    if (ff_loader_create(&loader, dataset, &options, error) != FF_OK) return 4;
    return ff_loader_describe(loader).memory.bytes;
}

/* Batches that will be allocated are no memory for files. */
static void slots_take_memory(void **state) {
    (void)state;
    if (!address_space_is_own()) skip();
    set_spec set = plain_set(32);
    uint64_t *left =
        mmap(NULL, 2 * sizeof *left, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(left != MAP_FAILED);
    set.height = set.width = 256; /* a batch in f32 has 12 MiB */
    assert_ok(set_make(&set, error));
    for (int i = 0; i < 2; i++) {
        int result;
        const pid_t child = fork();
        if (!child) _exit((left[i] = memory_beside_slots(&set, i ? 12 : 2)) < 5);
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_int_equal(result, 0);
    }
    assert_in_range(left[0] - left[1], 10 * (12 << 20), 10 * (13 << 20));
    munmap(left, 2 * sizeof *left);
    set_remove(&set);
}

static void a_size_that_is_none(void **state) {
    (void)state;
    set_spec set = plain_set(SAMPLES);
    ff_dataset *dataset = open_new_set(&set);
    ff_loader *loader;
    ff_loader_options options = ff_loader_defaults();
    ff_error failure = {0};
    setenv("FFLOAD_MEMORY", "1 GB", 1);
    assert_int_equal(ff_loader_create(&loader, dataset, &options, &failure), FF_USAGE);
    assert_string_equal(failure.message,
                        "FFLOAD_MEMORY: '1 GB' is not a size like 4096, 64K, 128M or 1G");
    unsetenv("FFLOAD_MEMORY");
    ff_dataset_close(&dataset);
    set_remove(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_way_follows_memory),        cmocka_unit_test(groups_follow_memory),
        cmocka_unit_test(sets_beyond_the_address_space), cmocka_unit_test(slots_take_memory),
        cmocka_unit_test(a_size_that_is_none),
    };
    return cmocka_run_group_tests_name("loader_access", tests, NULL, NULL);
}
