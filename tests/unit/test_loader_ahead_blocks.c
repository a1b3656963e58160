/* Block order of a set that memory cannot keep: blocks and groups follow the memory, each block is
 * one request, each byte is read once. What a disk takes is counted: its requests, and their bytes.
 */
#include "tests/unit/ahead_case.h"

enum { BATCH = 256 };

/* What a disk with one arm takes for what was read, in seconds: 8 ms a request, and 150 MB/s. */
static double disk_seconds(void) {
    return (double)disk.calls * 8e-3 + (double)disk.bytes / 150e6;
}

static set_spec set_of(uint32_t side, uint64_t samples) {
    set_spec set = plain_set(samples);
    set.dtype = FF_U8;
    set.height = set.width = side;
    set.shard_bytes = 16 << 20;
    return set;
}

/* An epoch, by all shares of a batch in turn: seconds of a sample; *read: bytes for each of the
 * shards'. */
static double read_epoch(ff_dataset *dataset, const ff_loader_options *given, uint32_t shares,
                         double *read) {
    uint64_t stored = 0, samples = 0;
    for (uint32_t i = 0; i < ff_dataset_shard_count(dataset); i++) {
        ff_shard_info shard;
        assert_ok(ff_dataset_shard(dataset, i, &shard, error));
        stored += shard.file_bytes;
    }
    disk.bytes = disk.calls = 0;
    for (uint32_t i = 0; i < shares; i++) {
        ff_loader *loader;
        ff_slot *slot;
        ff_loader_options options = *given;
        options.dtype = FF_U8, options.batch = BATCH, options.threads = 2, options.epochs = 1;
        options.last_batch = FF_LAST_BATCH_KEEP, options.access = FF_ACCESS_READ;
        options.share_begin = i, options.share_end = i + 1, options.share_total = shares;
        options.memory_ranks = shares;
        assert_ok(ff_loader_create(&loader, dataset, &options, error));
        assert_int_equal(ff_loader_describe(loader).ahead_blocks, 0);
        for (;;) {
            assert_ok(ff_loader_acquire(loader, &slot, error));
            if (!slot) break;
            samples += slot->count;
            ff_loader_release(loader, slot, NULL);
        }
        ff_loader_destroy(&loader);
    }
    assert_int_equal(samples, ff_dataset_count(dataset));
    *read = (double)disk.bytes / (double)stored;
    return disk_seconds() / (double)samples;
}

static ff_loader_options order_of(ff_order_kind kind) {
    ff_loader_options options = ff_loader_defaults();
    options.order = kind;
    options.memory_bytes = 1 << 20; /* less than the set */
    options.ahead_bytes = 46 << 20;
    return options;
}

/* The least blocks that come by default, of 12 KiB samples: 20 times random's rate. The memory is
 * that of a tenth of a set of 1.9 GB. */
static void seeks(void **state) {
    (void)state;
    set_spec set = set_of(64, 6000);
    ff_dataset *dataset = open_new_set(&set);
    ff_loader_options options = order_of(FF_ORDER_RANDOM);
    double read;
    const double random = read_epoch(dataset, &options, 1, &read);
    options.order = FF_ORDER_BLOCK;
    ff_loader *loader = open_loader(dataset, &options, FF_ACCESS_READ);
    const ff_loader_info info = ff_loader_describe(loader);
    ff_loader_destroy(&loader);
    assert_int_equal(info.block, 26);
    assert_in_range(info.group, 60, 70);
    const double block = read_epoch(dataset, &options, 1, &read);
    if (random < 20 * block || read > 1.05)
        fail_msg("%.3f ms a sample at random, %.3f in blocks; read %.3f", random * 1e3, block * 1e3,
                 read);
    options.order = FF_ORDER_SEQUENTIAL;
    const double sequential = read_epoch(dataset, &options, 1, &read);
    if (random < 50 * sequential || read > 1.05)
        fail_msg("%.3f ms a sample at random, %.3f in sequence; read %.3f", random * 1e3,
                 sequential * 1e3, read);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

/* Blocks of large samples are larger than other requests: still one request each. */
static void large_samples(void **state) {
    (void)state;
    set_spec set = set_of(224, 240);
    set.shard_bytes = UINT64_C(1) << 30;
    ff_dataset *dataset = open_new_set(&set);
    ff_loader_options options = order_of(FF_ORDER_BLOCK);
    double read;
    options.block = 24, options.group = 4;
    read_epoch(dataset, &options, 1, &read);
    assert_int_equal(disk.calls, 240 / 24 + 1); /* the shard's header */
    assert_true(read < 1.05);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

/* Blocks of a compressed set are whole frames. */
static void frames(void **state) {
    (void)state;
    set_spec set = set_of(64, 6000);
    set.zstd = true;
    set.filter = FF_FILTER_TABLE;
    ff_dataset *dataset = open_new_set(&set);
    ff_loader_options options = order_of(FF_ORDER_BLOCK);
    double read;
    options.ahead_bytes = 80 << 20;
    read_epoch(dataset, &options, 1, &read);
    if (read > 1.05) fail_msg("read %.3f", read);
    options.order = FF_ORDER_SEQUENTIAL;
    read_epoch(dataset, &options, 1, &read);
    if (read > 1.05) fail_msg("read %.3f", read);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

/* The rows of a rank are in all blocks of a group. It reads what is between them where that is
 * little: all of a block of small samples. */
static void shares(void **state) {
    (void)state;
    for (uint32_t side = 32; side <= 64; side += 32) {
        set_spec set = set_of(side, side == 32 ? 16000 : 6000);
        ff_dataset *dataset = open_new_set(&set);
        for (uint32_t ranks = 1; ranks <= 4; ranks *= 2) {
            ff_loader_options options = order_of(FF_ORDER_BLOCK);
            double read;
            const double each = read_epoch(dataset, &options, ranks, &read);
            print_message("%u x %u, %u ranks: %.3f ms a sample, read %.3f\n", side, side, ranks,
                          each * 1e3, read);
            assert_true(read < 1.05 * ranks);
        }
        ff_dataset_close(&dataset);
        set_remove(&set);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seeks),
        cmocka_unit_test(large_samples),
        cmocka_unit_test(frames),
        cmocka_unit_test(shares),
    };
    return cmocka_run_group_tests_name("loader_ahead_blocks", tests, NULL, NULL);
}
