/* Reading ahead of a set that memory cannot keep: batches are those of the mapped set, bit for bit;
 * each byte is read once, and each frame decompressed once, where the order allows it. */
#include "loader/host/ahead/engine.h"
#include "loader/rates/measure.h"
#include "tests/unit/ahead_case.h"
#include "tests/unit/dice.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <zstd.h>

static atomic_uint_fast64_t huge; /* bytes that are asked for in huge pages */

int madvise(void *memory, size_t length, int advice) {
    if (advice == MADV_HUGEPAGE) huge += length;
    return (int)syscall(SYS_madvise, memory, length, advice);
}

static atomic_uint_fast64_t frames; /* decompressed */

size_t ZSTD_decompressDCtx(ZSTD_DCtx *zstd, void *to, size_t capacity, const void *from,
                           size_t length) {
    static size_t (*real)(ZSTD_DCtx *, void *, size_t, const void *, size_t);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "ZSTD_decompressDCtx");
    frames++;
    return real(zstd, to, capacity, from, length);
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
        disk.bytes = disk.calls = frames = 0;
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
                assert_in_range(frames, 4000 * 6144 / (320 << 10), 4000 * 6144 / (192 << 10));
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
    char said[64];
    snprintf(said, sizeof said, "; from a group's blocks %d fit into the ", (int)info.ahead_blocks);
    assert_non_null(strstr(ff_loader_say_reading(&info).text, said));
    ff_loader_destroy(&loader);
    compare(dataset, &options);
    options.group = 5000; /* of which there are 100 */
    loader = open_loader(dataset, &options, FF_ACCESS_READ);
    assert_in_range(ff_loader_describe(loader).ahead_blocks, 10, 17);
    ff_loader_destroy(&loader);
    options.group = info.ahead_blocks * 9 / 10;
    loader = open_loader(dataset, &options, FF_ACCESS_READ);
    const ff_loader_info fits = ff_loader_describe(loader);
    assert_int_equal(fits.ahead_blocks, 0);
    assert_null(strstr(ff_loader_say_reading(&fits).text, "blocks"));
    ff_loader_destroy(&loader);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

/* The slots of a loader lie in huge pages, in one block or in blocks that the consumer may keep. */
static void huge_slots(ff_dataset *dataset) {
    ff_loader_options options = ff_loader_defaults();
    options.batch = 700, options.threads = 1, options.slots = 2;
    for (options.kept_bytes = 0; options.kept_bytes < 200; options.kept_bytes += 100) {
        ff_loader *loader;
        huge = 0;
        assert_ok(ff_loader_create(&loader, dataset, &options, error));
        const uint64_t bytes = 2 * ff_loader_describe(loader).slot_bytes;
        assert_in_range(huge, bytes - (4 << 20), bytes);
        if (!options.kept_bytes) assert_int_equal(huge, bytes & ~((UINT64_C(2) << 20) - 1));
        ff_loader_destroy(&loader);
    }
}

/* What a disk writes into lies in huge pages: the arena, and the memory of a measurement. */
static void huge_pages(void **state) {
    (void)state;
    set_spec set = plain_set(4000);
    ff_dataset *dataset = open_new_set(&set);
    ff_loader_options options = ff_loader_defaults();
    options.batch = 50, options.threads = 1, options.epochs = 1;
    options.access = FF_ACCESS_READ, options.ahead_bytes = 8 << 20;
    options.slots = 2; /* which together have less than a huge page */
    ff_loader *loader = open_loader(dataset, &options, FF_ACCESS_READ);
    const uint64_t bytes = ff_loader_describe(loader).ahead_bytes;
    assert_in_range(bytes, 4 << 20, 8 << 20);
    ff_loader_destroy(&loader);
    huge = 0; /* of the arena: once its stages were there */
    compare(dataset, &options);
    assert_in_range(huge, bytes - (2 << 20) + 1, bytes);
    huge = 0;
    ff_loader_settings settings;
    ff_disk_rate rate;
    assert_ok(ff_loader_settings_init(&settings, dataset, &options, error));
    assert_ok(ff_ahead_measure(&settings, 1000000000, &rate, error));
    assert_true(huge >= 2 << 20);
    ff_loader_settings_free(&settings);
    huge_slots(dataset);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

/* ---- threads that read ----------------------------------------------------------------------- */

/* Of the threads with this name: how often they have waited. */
static uint64_t waits_of(const char *name) {
    uint64_t waits = 0;
    DIR *threads = opendir("/proc/self/task");
    assert_non_null(threads);
    for (const struct dirent *thread; (thread = readdir(threads)) != NULL;) {
        char path[300], line[100], word[20];
        bool found = false;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", thread->d_name);
        FILE *file = fopen(path, "r");
        while (file && fgets(line, sizeof line, file)) {
            unsigned long long number;
            if (sscanf(line, "Name: %19s", word) == 1) found = !strncmp(word, name, strlen(name));
            if (found && sscanf(line, "voluntary_ctxt_switches: %llu", &number) == 1)
                waits += number;
        }
        if (file) fclose(file);
    }
    closedir(threads);
    return waits;
}

static void count_request(void *context, ff_request *request) {
    (void)request;
    atomic_fetch_add((atomic_int *)context, 1);
}

/* A request wakes one of the threads, not all 64. */
static void one_wakes(void **state) {
    (void)state;
    enum { REQUESTS = 60 };
    set_spec set = plain_set(10);
    ff_dataset *dataset = open_new_set(&set);
    ff_engine *engine;
    atomic_int done = 0;
    _Alignas(4096) static uint8_t memory[4096];
    assert_ok(ff_engine_create(&engine, dataset, count_request, &done, error));
    usleep(100000); /* all wait */
    const uint64_t before = waits_of("read-");
    for (int i = 0; i < REQUESTS; i++) {
        ff_request request = {.bytes = sizeof memory, .to = memory};
        ff_engine_submit(engine, &request, NULL, 1);
        for (int wait = 0; done <= i && wait < 10000; wait++) usleep(1000);
        ff_engine_drop(engine);
        usleep(5000);
    }
    assert_int_equal(done, REQUESTS);
    assert_in_range(waits_of("read-") - before, REQUESTS / 2, 16 * REQUESTS);
    ff_engine_destroy(&engine);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

/* ---- address space -------------------------------------------------------------------------- */

static void not_asked(void *context, ff_request *request) {
    (void)context;
    (void)request;
}

/* Pages of address space, which ulimit -v counts. */
static uint64_t address_pages(void) {
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu", &pages), 1);
    fclose(file);
    return pages;
}

/* The threads that read take less than 1 MiB of addresses each, where the default is 8 MiB. */
static void small_stacks(void **state) {
    (void)state;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    skip();
#endif
    ff_engine *engine;
    const uint64_t before = address_pages();
    assert_ok(ff_engine_create(&engine, NULL, not_asked, NULL, error));
    const uint64_t bytes = (address_pages() - before) * (uint64_t)sysconf(_SC_PAGESIZE);
    assert_in_range(bytes, 1, 64 << 20);
    ff_engine_destroy(&engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_stacks), /* first: the C library keeps stacks of earlier threads */
        cmocka_unit_test(same_batches),    cmocka_unit_test(sizes),
        cmocka_unit_test(few_samples),     cmocka_unit_test(seek),
        cmocka_unit_test(every_byte_once), cmocka_unit_test(a_group_that_is_too_large),
        cmocka_unit_test(huge_pages),      cmocka_unit_test(one_wakes),
    };
    return cmocka_run_group_tests_name("loader_ahead", tests, NULL, NULL);
}
