/* Slots whose memory the consumer keeps: the blocks, that they hold the batches of a loader that
 * reuses its slots, and waits for a batch that end. */
#include "format/base/thread.h"
#include "loader/host/blocks.h"
#include "loader/host/loader.h"
#include "tests/unit/format_set.h"

enum { BATCH = 96, BATCHES = 20, KEPT_BYTES = 100 };

static void blocks_are_used_again(void **state) {
    (void)state;
    ff_blocks *blocks;
    void *a, *b, *c;
    assert_ok(ff_blocks_create(&blocks, 1000, 2, error));
    assert_ok(ff_blocks_take(blocks, &a, error));
    assert_ok(ff_blocks_take(blocks, &b, error));
    assert_ok(ff_blocks_take(blocks, &c, error));
    assert_int_equal(((uintptr_t)a | (uintptr_t)b | (uintptr_t)c) % 256, 0);
    assert_true(a != b && b != c && a != c);
    memset(a, 1, 1000);
    ff_blocks *same = blocks;
    ff_blocks_give(blocks, a);
    ff_blocks_give(blocks, b);
    assert_int_equal(ff_blocks_allocated(blocks), 3);
    ff_blocks_give(blocks, c); /* more than may stay unused */
    for (int i = 0; i < 5; i++) {
        void *again;
        assert_ok(ff_blocks_take(blocks, &again, error));
        assert_ptr_equal(again, b);
        ff_blocks_give(blocks, again);
    }
    assert_int_equal(ff_blocks_allocated(blocks), 3);
    assert_ok(ff_blocks_take(blocks, &a, error));
    ff_blocks_close(&blocks);
    assert_null(blocks);
    memset(a, 2, 1000); /* still its owner's */
    ff_blocks_give(same, a);
    ff_blocks_close(&blocks);
}

typedef struct kept {
    ff_blocks *blocks;
    void *block;
} kept;

static ff_loader_options options_of(int threads) {
    ff_loader_options options = ff_loader_defaults();
    options.batch = BATCH, options.slots = 3, options.threads = threads, options.seed = 5;
    assert_ok(ff_augment_parse(&options.augment, "crop=2,flip,mixup", error));
    return options;
}

/* Every block that was kept holds what another loader's slot held, also at the end. */
static void check_kept(set_spec *set, ff_dataset *dataset, int threads) {
    ff_loader_options options = options_of(threads);
    ff_loader *keeping, *plain;
    ff_slot *slot;
    kept all[BATCHES];
    (void)set;
    assert_ok(ff_loader_create(&plain, dataset, &options, error));
    options.kept_bytes = KEPT_BYTES;
    assert_ok(ff_loader_create(&keeping, dataset, &options, error));
    const ff_loader_info info = ff_loader_describe(keeping);
    const ff_slot first = ff_loader_first_slot(plain, 0);
    const size_t weight = (size_t)((uint8_t *)first.weight - (uint8_t *)first.data);
    const size_t mix = (size_t)((uint8_t *)first.mix - (uint8_t *)first.data);
    for (int i = 0; i < BATCHES; i++) {
        assert_ok(ff_loader_acquire(keeping, &slot, error));
        void *data = slot->data;
        assert_ok(ff_loader_keep(keeping, slot, &all[i].blocks, &all[i].block, error));
        assert_ptr_equal(all[i].block, data);
        assert_ptr_not_equal(slot->data, data);
        assert_int_equal((uint8_t *)slot->label[0].values - (uint8_t *)slot->data,
                         (uint8_t *)first.label[0].values - (uint8_t *)first.data);
        memset((uint8_t *)data + info.slot_bytes, i, KEPT_BYTES);
        ff_loader_release(keeping, slot, NULL);
    }
    assert_int_equal(ff_loader_measure(keeping).blocks, BATCHES + 3);
    ff_loader_destroy(&keeping);
    for (int i = 0; i < BATCHES; i++) {
        const uint8_t *block = all[i].block;
        assert_ok(ff_loader_acquire(plain, &slot, error));
        assert_memory_equal(block, slot->data, BATCH * slot->row_bytes);
        assert_memory_equal(block + weight, slot->weight, BATCH * sizeof(float));
        assert_memory_equal(block + mix, slot->mix, BATCH * sizeof(float));
        for (int k = 0; k < KEPT_BYTES; k++) assert_int_equal(block[info.slot_bytes + k], i);
        ff_loader_release(plain, slot, NULL);
        ff_blocks_give(all[i].blocks, all[i].block);
    }
    ff_loader_destroy(&plain);
}

static void kept_blocks_stay(void **state) {
    (void)state;
    set_spec set = plain_set(700);
    ff_dataset *dataset = open_new_set(&set);
    check_kept(&set, dataset, 0);
    check_kept(&set, dataset, 3);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

/* Blocks that are given back at once suffice. */
static void nothing_is_allocated(void **state) {
    (void)state;
    set_spec set = plain_set(700);
    ff_dataset *dataset = open_new_set(&set);
    ff_loader_options options = options_of(2);
    ff_loader *loader;
    options.kept_bytes = KEPT_BYTES;
    assert_ok(ff_loader_create(&loader, dataset, &options, error));
    for (int i = 0; i < BATCHES; i++) {
        ff_slot *slot;
        kept one;
        assert_ok(ff_loader_acquire(loader, &slot, error));
        assert_ok(ff_loader_keep(loader, slot, &one.blocks, &one.block, error));
        ff_loader_release(loader, slot, NULL);
        ff_blocks_give(one.blocks, one.block);
    }
    assert_int_equal(ff_loader_measure(loader).blocks, 4);
    ff_loader_destroy(&loader);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

/* Without threads each call does a part of the batch; with them it only waits. */
static void waits_end(void **state) {
    (void)state;
    set_spec set = plain_set(700);
    ff_dataset *dataset = open_new_set(&set);
    for (int threads = 0; threads < 3; threads++) {
        ff_loader_options options = options_of(threads);
        ff_loader *loader;
        ff_slot *slot;
        options.epochs = 1;
        assert_ok(ff_loader_create(&loader, dataset, &options, error));
        for (int batch = 0; batch < 700 / BATCH; batch++) {
            int calls = 0;
            while (!ff_loader_await(loader, 0) && ++calls) {
            }
            if (!threads) assert_int_equal(calls, BATCH / 32);
            assert_ok(ff_loader_acquire(loader, &slot, error));
            assert_non_null(slot);
            assert_int_equal(slot->batch, batch);
            ff_loader_release(loader, slot, NULL);
        }
        assert_true(ff_loader_await(loader, 0)); /* the end */
        assert_ok(ff_loader_acquire(loader, &slot, error));
        assert_null(slot);
        ff_loader_destroy(&loader);
    }
    ff_dataset_close(&dataset);
    set_remove(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_used_again),
        cmocka_unit_test(kept_blocks_stay),
        cmocka_unit_test(nothing_is_allocated),
        cmocka_unit_test(waits_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
