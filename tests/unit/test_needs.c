/* What a run needs and the machine has, counted by the calls that allocate it; and what limits a
 * machine's memory. */
#include "tests/unit/format_set.h"
#include "tests/unit/trainer_options.h"

#include <sys/stat.h>

static char *set_of(uint32_t side) {
    char *folder = new_folder();
    set_spec spec = {.dtype = FF_U8,
                     .layout = FF_CHW,
                     .channels = 3,
                     .height = side,
                     .width = side,
                     .alignment = 64,
                     .items = 60,
                     .labels = LABELS_CLASS,
                     .seed = 5};
    assert_ok(set_write(&spec, folder, NULL, error));
    return folder;
}

static ff_trainer_options options_of(const char *folder, const char *model) {
    ff_trainer_options options = default_options();
    options.data = options.val = folder;
    options.model = model;
    options.batch = 20;
    options.threads = 1;
    return options;
}

/* A counted trainer equals the real one, to the byte, but allocates nothing. */
static void a_counted_trainer_equals_the_real_one(void **state) {
    (void)state;
    char *folder = set_of(32);
    const char *const models[] = {"smallnet", "resnet18", "cifarnet"};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        ff_trainer_options options = options_of(folder, models[m]);
        ff_trainer *counted, *real;
        assert_ok(ff_trainer_create(&real, &options, error));
        options.counts = true;
        assert_ok(ff_trainer_create(&counted, &options, error));
        assert_null(real->counted);
        assert_non_null(counted->counted);
        uint64_t roles = ff_model_compute(real->model)->program_bytes;
        for (int role = 0; role < FF_ROLE_COUNT; role++) {
            assert_int_equal(ff_model_bytes(counted->model, (ff_role)role),
                             ff_model_bytes(real->model, (ff_role)role));
            roles += ff_model_bytes(real->model, (ff_role)role);
        }
        const ff_loader_info train = ff_feed_describe(real->train_feed).loader;
        const ff_loader_info val = ff_feed_describe(real->val_feed).loader;
        assert_int_equal(ff_feed_describe(counted->train_feed).loader.slots, train.slots);
        const uint64_t slots = train.slots * train.slot_bytes + val.slots * val.slot_bytes;
        assert_int_equal(counted->needs.host_bytes, real->needs.host_bytes);
        assert_in_range(real->needs.host_bytes, roles + slots, roles + slots + roles / 4 + 65536);
        assert_int_equal(real->needs.device_bytes, 0);
        assert_true(real->needs.mapped_bytes > 2 * 60 * 32 * 32 * 3);
        ff_trainer_destroy(&counted);
        ff_trainer_destroy(&real);
    }
    remove_folder(folder);
}

/* A set larger than memory is read ahead of its use, into memory that is needed, too. */
static void what_is_read_ahead_is_counted(void **state) {
    (void)state;
    char *folder = set_of(32);
    ff_trainer_options options = options_of(folder, "smallnet");
    ff_trainer *mapped, *ahead;
    options.counts = true;
    options.workers = 2;
    assert_ok(ff_trainer_create(&mapped, &options, error));
    setenv("FFLOAD_MEMORY", "64K", 1);
    assert_ok(ff_trainer_create(&ahead, &options, error));
    unsetenv("FFLOAD_MEMORY");
    const uint64_t train = ff_feed_describe(ahead->train_feed).loader.ahead_bytes;
    const uint64_t val = ff_feed_describe(ahead->val_feed).loader.ahead_bytes;
    assert_int_equal(ff_feed_describe(mapped->train_feed).loader.ahead_bytes, 0);
    assert_true(train > 0 && val > 0);
    assert_int_equal(ahead->needs.host_bytes - mapped->needs.host_bytes, train + val);
    ff_trainer_destroy(&mapped);
    ff_trainer_destroy(&ahead);
    remove_folder(folder);
}

/* 90 epochs of ImageNet are 450,000 steps: 7 MB a group. */
static void rates_are_counted(void **state) {
    (void)state;
    char *folder = set_of(12);
    ff_trainer_options options = options_of(folder, "smallnet");
    ff_trainer *few, *many;
    options.counts = true;
    options.epochs = 10;
    assert_ok(ff_trainer_create(&few, &options, error));
    options.epochs = 10010;
    assert_ok(ff_trainer_create(&many, &options, error));
    assert_int_equal(many->needs.host_bytes - few->needs.host_bytes,
                     2 * 8 * 10000 * few->batches * (uint64_t)few->group_count);
    ff_trainer_destroy(&few);
    ff_trainer_destroy(&many);
    remove_folder(folder);
}

/* The message names a batch that fits; no much larger one fits. */
static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    char *folder = set_of(32);
    ff_trainer_options options = options_of(folder, "resnet18");
    ff_trainer *trainer, *other;
    ff_error failure = {0};
    options.counts = true;
    options.batch = 60;
    assert_ok(ff_trainer_create(&trainer, &options, error));
    assert_ok(ff_needs_check(trainer, error));
    trainer->needs.host.bytes = trainer->needs.host_bytes;
    assert_ok(ff_needs_check(trainer, error));
    trainer->needs.host.bytes = (trainer->needs.host_bytes + (52u << 20)) / 2;
    assert_int_equal(ff_needs_check(trainer, &failure), FF_NO_MEMORY);
    const char *said = strstr(failure.message, "--batch ");
    assert_non_null(said);
    options.batch = atoi(said + strlen("--batch "));
    assert_in_range(options.batch, 5, 40);
    assert_ok(ff_trainer_create(&other, &options, error));
    assert_true(other->needs.host_bytes <= trainer->needs.host.bytes);
    assert_true(other->needs.host_bytes > trainer->needs.host.bytes / 10 * 9);
    ff_trainer_destroy(&other);
    said = strstr(failure.message, "--accumulate ");
    assert_non_null(said);
    options.batch = 60;
    options.accumulate = atoi(said + strlen("--accumulate "));
    assert_int_equal(options.batch % options.accumulate, 0);
    assert_ok(ff_trainer_create(&other, &options, error));
    assert_true(other->needs.host_bytes <= trainer->needs.host.bytes);
    ff_trainer_destroy(&other);

    trainer->needs.host.bytes = 1 << 20; /* less than the parameters */
    assert_int_equal(ff_needs_check(trainer, &failure), FF_NO_MEMORY);
    assert_non_null(strstr(failure.message, "use a smaller model"));
    assert_null(strstr(failure.message, "--batch "));
    assert_null(strstr(failure.message, "--accumulate "));
    ff_trainer_destroy(&trainer);
    remove_folder(folder);
}

static void put(const char *root, const char *path, const char *text) {
    char full[4096];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        (void)mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void mappings_that_are_left(void **state) {
    (void)state;
    char *root = new_folder();
    assert_true(ff_host_maps_left(root).mappings == UINT64_MAX);
    put(root, "proc/sys/vm/max_map_count", "65530\n");
    put(root, "proc/self/maps", "00-01 r--p a\n01-02 r-xp b\n02-03 rw-p c\n");
    assert_int_equal(ff_host_maps_left(root).mappings, 65530 - 3 - 1024);
    put(root, "proc/sys/vm/max_map_count", "1000\n");
    assert_int_equal(ff_host_maps_left(root).mappings, 0);
    remove_folder(root);
}

static void the_least_limit_counts(void **state) {
    (void)state;
    char *root = new_folder();
    assert_true(ff_host_memory_left(root).bytes == UINT64_MAX);
    put(root, "proc/meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    5000 kB\n");
    assert_int_equal(ff_host_memory_left(root).bytes, 5000 * 1024);
    assert_string_equal(ff_host_memory_left(root).limit, "available");

    put(root, "proc/self/cgroup", "0::/a/b\n");
    put(root, "sys/fs/cgroup/a/b/memory.max", "max\n");
    put(root, "sys/fs/cgroup/a/b/memory.current", "3000\n");
    assert_int_equal(ff_host_memory_left(root).bytes, 5000 * 1024);
    put(root, "sys/fs/cgroup/a/memory.max", "1000000\n");
    put(root, "sys/fs/cgroup/a/memory.current", "700000\n");
    put(root, "sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 200000\n");
    assert_int_equal(ff_host_memory_left(root).bytes, 500000);
    assert_string_equal(ff_host_memory_left(root).limit, "left of its cgroup's limit");
    put(root, "sys/fs/cgroup/a/b/memory.max", "2000\n");
    assert_int_equal(ff_host_memory_left(root).bytes, 0);

    /* version 1; in a container the path is the host's */
    put(root, "proc/self/cgroup", "3:cpu:/x\n9:hugetlb,memory:/docker/1\n");
    put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "400000\n");
    put(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "100000\n");
    assert_int_equal(ff_host_memory_left(root).bytes, 300000);
    put(root, "sys/fs/cgroup/memory/memory.stat", "total_inactive_file 50000\n");
    assert_int_equal(ff_host_memory_left(root).bytes, 350000);

    /* for files, all cached files count as free, and FFLOAD_MEMORY is a limit */
    ff_host_memory memory;
    put(root, "sys/fs/cgroup/memory/memory.stat",
        "total_inactive_file 50000\ntotal_active_file 20000\n");
    assert_int_equal(ff_host_memory_left(root).bytes, 350000);
    assert_ok(ff_host_memory_for_files(root, 0, 0, &memory, error));
    assert_int_equal(memory.bytes, 370000);
    /* what will be allocated leaves less; the option's and the variable's bytes are for files alone
     */
    assert_ok(ff_host_memory_for_files(root, 0, 70000, &memory, error));
    assert_int_equal(memory.bytes, 300000);
    assert_ok(ff_host_memory_for_files(root, 2048, 70000, &memory, error));
    assert_int_equal(memory.bytes, 2048);
    assert_ok(ff_host_memory_for_files(root, 0, 400000, &memory, error));
    assert_int_equal(memory.bytes, 0);
    setenv("FFLOAD_MEMORY", "1K", 1);
    assert_ok(ff_host_memory_for_files(root, 0, 0, &memory, error));
    assert_int_equal(memory.bytes, 1024);
    /* the option comes before it, and the machine's limit before both */
    assert_ok(ff_host_memory_for_files(root, 2048, 0, &memory, error));
    assert_int_equal(memory.bytes, 2048);
    assert_string_equal(memory.limit, "by the option memory");
    assert_ok(ff_host_memory_for_files(root, 1 << 30, 0, &memory, error));
    assert_int_equal(memory.bytes, 370000);
    unsetenv("FFLOAD_MEMORY");
    remove_folder(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_counted_trainer_equals_the_real_one),
        cmocka_unit_test(what_is_read_ahead_is_counted),
        cmocka_unit_test(rates_are_counted),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(the_least_limit_counts),
        cmocka_unit_test(mappings_that_are_left),
    };
    return cmocka_run_group_tests_name("needs", tests, NULL, NULL);
}
