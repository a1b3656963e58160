/* The loader when something is wrong: options, broken samples, shards that shrink while mapped,
 * early ends. Each error is one sentence at acquire, after the batches before it. */
#include "loader/loader.h"
#include "tests/unit/make_dataset.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#define OK(call)                                                                                   \
    do {                                                                                           \
        ff_error ok_error = {0}, *error = &ok_error;                                               \
        if ((call) != FF_OK) fail_msg("%s", ok_error.message);                                     \
    } while (0)

static ff_dataset *open_made(made_dataset *made) {
    ff_dataset *dataset;
    OK(ff_dataset_open(&dataset, made->folder, FF_VERIFY_FIRST, error));
    return dataset;
}

static ff_loader_options options_of(uint64_t batch) {
    ff_loader_options options = ff_loader_defaults();
    options.batch = batch;
    options.order = FF_ORDER_SEQUENTIAL;
    options.threads = 2;
    return options;
}

static void refused(ff_dataset *dataset, const ff_loader_options *options, const char *part) {
    ff_loader *loader = (ff_loader *)options;
    ff_error error = {0};
    assert_int_equal(ff_loader_create(&loader, dataset, options, &error), FF_USAGE);
    assert_null(loader);
    if (!strstr(error.message, part)) fail_msg("'%s' lacks '%s'", error.message, part);
}

static void bad_options(void **state) {
    (void)state;
    made_dataset made = made_defaults(50);
    OK(made_write(&made, error));
    ff_dataset *dataset = open_made(&made);
    ff_loader_options options = options_of(0);
    refused(dataset, &options, "a batch has 1 to");
    options = options_of(8), options.position = 51;
    refused(dataset, &options, "behind the end");
    options = options_of(8), options.height = 33;
    refused(dataset, &options, "33x32");
    options = options_of(8), options.dtype = FF_U8;
    refused(dataset, &options, "u8");
    options = options_of(8), options.dtype = FF_I64;
    refused(dataset, &options, "i64");
    options = options_of(8), options.share_end = 3, options.share_total = 2;
    refused(dataset, &options, "no share");
    const char *label = "colour";
    options = options_of(8), options.label = &label, options.label_count = 1;
    refused(dataset, &options, "colour");
    options = options_of(8), options.threads = 5000;
    refused(dataset, &options, "threads");
    ff_dataset_prefetch(dataset, 7); /* a hint only: any number will do */
    ff_dataset_prefetch(dataset, UINT64_MAX);
    ff_loader *none = NULL;
    ff_loader_destroy(&none);
    ff_dataset_close(&dataset);
    made_remove(&made);
}

/* Changes a byte of sample `number` in its shard. */
static void damage(made_dataset *made, uint64_t number) {
    ff_dataset *dataset = open_made(made);
    ff_entry entry;
    ff_shard_info info;
    OK(ff_dataset_entry(dataset, number, &entry, error));
    OK(ff_dataset_shard(dataset, entry.shard, &info, error));
    char path[200];
    snprintf(path, sizeof path, "%s/%s", made->folder, info.name);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, (long)entry.offset + 100, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, (long)entry.offset + 100, SEEK_SET);
    fputc(byte ^ 1, file);
    fclose(file);
    ff_dataset_close(&dataset);
}

/* Batches before the broken one come; then the same sentence, again and again, whatever the number
 * of threads. */
static void broken_sample(void **state) {
    (void)state;
    made_dataset made = made_defaults(300);
    OK(made_write(&made, error));
    damage(&made, 150);
    damage(&made, 171); /* in the same batch of 64: the lower one is named */
    char first[sizeof((ff_error *)0)->message] = "";
    for (int threads = 0; threads < 5; threads++) {
        ff_dataset *dataset = open_made(&made);
        ff_loader *loader;
        ff_slot *slot;
        ff_error failure = {0};
        ff_loader_options options = options_of(64);
        options.threads = threads;
        OK(ff_loader_create(&loader, dataset, &options, error));
        for (int i = 0; i < 2; i++) {
            OK(ff_loader_acquire(loader, &slot, error));
            ff_loader_release(loader, slot, NULL);
        }
        for (int i = 0; i < 3; i++) {
            failure.message[0] = 0;
            assert_int_equal(ff_loader_acquire(loader, &slot, &failure), FF_BAD_DATA);
            assert_null(slot);
            assert_non_null(strstr(failure.message, "sample 150"));
            assert_int_equal(ff_loader_acquire(loader, &slot, NULL), FF_BAD_DATA);
        }
        if (!threads) strcpy(first, failure.message);
        assert_string_equal(failure.message, first);
        ff_loader_destroy(&loader);
        ff_dataset_close(&dataset);
    }
    made_remove(&made);
}

/* A shard cut short while it is mapped and read: FF_IO with path and offset, no SIGBUS. */
static void shrinking_shard(void **state) {
    (void)state;
    for (int threads = 0; threads < 3; threads++) {
        made_dataset made = made_defaults(2000);
        OK(made_write(&made, error));
        ff_dataset *dataset = open_made(&made);
        ff_loader *loader;
        ff_slot *slot;
        ff_error failure = {0};
        ff_status status = FF_OK;
        ff_loader_options options = options_of(100);
        options.threads = threads, options.order = FF_ORDER_RANDOM;
        OK(ff_loader_create(&loader, dataset, &options, error));
        /* An epoch first, so that every sample has been verified and mapped. */
        for (int i = 0; i < 20; i++) {
            OK(ff_loader_acquire(loader, &slot, error));
            ff_loader_release(loader, slot, NULL);
        }
        char path[200];
        snprintf(path, sizeof path, "%s/shard-000000.ffs", made.folder);
        assert_int_equal(truncate(path, 1 << 20), 0);
        for (int i = 0; i < 30 && status == FF_OK; i++) {
            status = ff_loader_acquire(loader, &slot, &failure);
            if (status == FF_OK) ff_loader_release(loader, slot, NULL);
        }
        assert_int_equal(status, FF_IO);
        assert_non_null(strstr(failure.message, path));
        assert_non_null(strstr(failure.message, "offset"));
        ff_loader_destroy(&loader);
        ff_dataset_close(&dataset);
        made_remove(&made);
    }
}

/* A sample of a variable-sized dataset that is smaller than the output. */
static void too_small_sample(void **state) {
    (void)state;
    made_dataset made = made_defaults(64);
    made.variable_size = true;
    OK(made_write(&made, error));
    ff_dataset *dataset = open_made(&made);
    ff_loader *loader;
    ff_slot *slot;
    ff_error failure = {0};
    ff_loader_options options = options_of(64);
    options.height = options.width = 32;
    OK(ff_loader_create(&loader, dataset, &options, error));
    assert_int_equal(ff_loader_acquire(loader, &slot, &failure), FF_USAGE);
    assert_non_null(strstr(failure.message, "sample "));
    ff_loader_destroy(&loader);
    ff_dataset_close(&dataset);
    made_remove(&made);
}

static void early_ends(void **state) {
    (void)state;
    made_dataset made = made_defaults(600);
    OK(made_write(&made, error));
    ff_dataset *dataset = open_made(&made);
    for (unsigned trial = 0; trial < 120; trial++) {
        ff_loader *loader;
        ff_slot *slot[8];
        ff_loader_options options = options_of(16 + trial % 40);
        options.threads = (int)(trial % 4), options.slots = 1 + trial % 6;
        options.order = FF_ORDER_RANDOM;
        OK(ff_loader_create(&loader, dataset, &options, error));
        uint32_t held = 0;
        for (unsigned i = 0; i < trial % 11; i++) {
            if (held == options.slots) {
                /* Newest first: no order of releases may lock the ring up. */
                ff_loader_release(loader, slot[--held], NULL);
                if (held && trial % 3) ff_loader_release(loader, slot[--held], NULL);
            }
            OK(ff_loader_acquire(loader, &slot[held++], error));
        }
        if (trial % 5 == 0) {
            struct timespec pause = {0, (long)(trial * 10000)};
            nanosleep(&pause, NULL);
        }
        ff_loader_destroy(&loader); /* with slots held and threads at work */
    }
    ff_dataset_close(&dataset);
    made_remove(&made);
}

static void all_slots_held(void **state) {
    (void)state;
    made_dataset made = made_defaults(100);
    OK(made_write(&made, error));
    ff_dataset *dataset = open_made(&made);
    for (int threads = 0; threads < 2; threads++) {
        ff_loader *loader;
        ff_slot *slot[3], *other;
        ff_loader_options options = options_of(10);
        options.threads = threads, options.slots = 3;
        OK(ff_loader_create(&loader, dataset, &options, error));
        for (int i = 0; i < 3; i++) OK(ff_loader_acquire(loader, &slot[i], error));
        assert_int_equal(ff_loader_acquire(loader, &other, NULL), FF_USAGE);
        ff_loader_release(loader, slot[1], NULL);
        OK(ff_loader_acquire(loader, &other, error));
        assert_int_equal(other->batch, 3);
        assert_int_equal(slot[0]->batch, 0);
        assert_int_equal(slot[2]->batch, 2);
        ff_loader_stats stats = ff_loader_measure(loader);
        assert_int_equal(stats.batches, 4);
        assert_int_equal(stats.samples, 40);
        assert_true(stats.wait_ns > 0 && stats.fill_ns > 0);
        ff_loader_destroy(&loader);
    }
    ff_dataset_close(&dataset);
    made_remove(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        /* First: cmocka sets its own SIGBUS handler at every test, and the guard installs its own
         * only once, in the first test that reads a mapping. */
        cmocka_unit_test(shrinking_shard), cmocka_unit_test(bad_options),
        cmocka_unit_test(broken_sample),   cmocka_unit_test(too_small_sample),
        cmocka_unit_test(early_ends),      cmocka_unit_test(all_slots_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
