/* Mapped sets whose pages memory does not keep, though it seemed to: the loader reads them from
 * then on, with the same batches. The counts of what threads have read are this test's. */
#include "tests/unit/ahead_case.h"

#include "loader/host/reading.h"

#include <dlfcn.h>
#include <sys/resource.h>

#define MIB (UINT64_C(1) << 20)

static atomic_uint_fast64_t read_bytes; /* that each look at a thread's counts adds */
static atomic_bool no_threads;          /* can be started */

int getrusage(__rusage_who_t who, struct rusage *usage) {
    static _Thread_local uint64_t read;
    const int result = (int)syscall(SYS_getrusage, who, usage);
    read += atomic_load(&read_bytes);
    usage->ru_inblock = (long)(read / 512);
    return result;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *),
                   void *context) {
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return no_threads ? EAGAIN : real(thread, attributes, body, context);
}

static ff_loader *create(ff_dataset *dataset, const ff_loader_options *given,
                         ff_loader_access access) {
    ff_loader *loader;
    ff_loader_options options = *given;
    options.access = access;
    assert_ok(ff_loader_create(&loader, dataset, &options, error));
    assert_false(ff_loader_describe(loader).direct);
    return loader;
}

/* Both loaders' batches to the end, the first `calm` of them while nothing is read again. */
static void check_turn(ff_dataset *dataset, const ff_loader_options *options, int calm,
                       bool turns) {
    read_bytes = 0;
    ff_loader *mapped = create(dataset, options, FF_ACCESS_MAPPED);
    ff_loader *other = create(dataset, options, FF_ACCESS_AUTO);
    check_batches(mapped, other, calm);
    assert_false(ff_loader_describe(other).direct);
    read_bytes = 4 * MIB;
    check_batches(mapped, other, 1000);
    assert_false(ff_loader_describe(mapped).direct);
    const ff_loader_info info = ff_loader_describe(other);
    const char *text = ff_loader_say_reading(&info).text;
    assert_int_equal(info.direct, turns);
    assert_int_equal(info.ahead_bytes != 0, turns && options->threads);
    assert_int_equal(info.read_again > 1.25, turns);
    assert_int_equal(strncmp(text, "read directly since its mapping read ", 37) == 0, turns);
    assert_int_equal(strncmp(text, "mapped: the set has ", 20) == 0, !turns);
    ff_loader_destroy(&mapped);
    ff_loader_destroy(&other);
    read_bytes = 0;
}

static void the_same_batches(void **state) {
    (void)state;
    for (int kind = 0; kind < 24; kind++) {
        set_spec set = plain_set(700);
        set.variable = kind & 1;
        set.zstd = kind & 2;
        ff_loader_size size = {.epoch = 1, .height = 12, .width = 16};
        ff_dataset *dataset = open_new_set(&set);
        ff_loader_options options = ff_loader_defaults();
        options.order = (ff_order_kind)(kind / 4 % 3);
        options.batch = 32, options.epochs = 3, options.block = 10, options.group = 3;
        options.last_batch = FF_LAST_BATCH_KEEP;
        options.height = options.width = 8;
        options.threads = kind / 12 ? 3 : kind % 3;
        options.slots = kind % 5 ? 3 : 0;
        if (kind % 5 == 2) options.position = 100;
        if (kind % 5 == 3) options.share_begin = 1, options.share_end = options.share_total = 3;
        if (kind % 5 == 4) options.cuts = 4;
        assert_ok(ff_augment_parse(&options.augment, "crop=1,flip,mixup=0.4", error));
        size.augment = options.augment;
        if (!set.variable) options.sizes = &size, options.size_count = 1;
        check_turn(dataset, &options, kind % 4 * 7,
                   options.threads || options.order != FF_ORDER_SEQUENTIAL);
        ff_dataset_close(&dataset);
        set_remove(&set);
    }
}

/* Between batches that are held, and sought. */
static void turns_while_slots_are_held(void **state) {
    (void)state;
    set_spec set = plain_set(900);
    ff_dataset *dataset = open_new_set(&set);
    ff_loader_options options = ff_loader_defaults();
    options.batch = 16, options.threads = 2, options.slots = 4;
    ff_loader *mapped = create(dataset, &options, FF_ACCESS_MAPPED);
    ff_loader *other = create(dataset, &options, FF_ACCESS_AUTO);
    ff_slot *held[2][3];
    for (int i = 0; i < 3; i++) {
        assert_ok(ff_loader_acquire(mapped, &held[0][i], error));
        assert_ok(ff_loader_acquire(other, &held[1][i], error));
    }
    read_bytes = 8 * MIB;
    check_batches(mapped, other, 60);
    assert_true(ff_loader_describe(other).direct);
    for (int i = 0; i < 3; i++) {
        check_slots(held[0][i], held[1][i]);
        ff_loader_release(mapped, held[0][i], NULL);
        ff_loader_release(other, held[1][i], NULL);
    }
    for (options.position = 0; options.position < 800; options.position += 160) {
        ff_sequence sequence;
        assert_ok(ff_sequence_init(&sequence, dataset, &options, error));
        ff_loader_seek(mapped, &sequence);
        ff_loader_seek(other, &sequence);
        check_batches(mapped, other, 20);
    }
    read_bytes = 0;
    ff_loader_destroy(&mapped);
    ff_loader_destroy(&other);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

/* Without memory for reading ahead the set stays mapped, and is tried again. */
static void stays_mapped_without_memory(void **state) {
    (void)state;
    set_spec set = plain_set(700);
    ff_dataset *dataset = open_new_set(&set);
    ff_loader_options options = ff_loader_defaults();
    options.batch = 32, options.threads = 2;
    ff_loader *mapped = create(dataset, &options, FF_ACCESS_MAPPED);
    ff_loader *other = create(dataset, &options, FF_ACCESS_AUTO);
    no_threads = true;
    read_bytes = 8 * MIB;
    check_batches(mapped, other, 50);
    const ff_loader_info info = ff_loader_describe(other);
    assert_false(info.direct);
    assert_true(info.read_again == 0 && info.ahead_bytes == 0);
    no_threads = false;
    check_batches(mapped, other, 50);
    assert_true(ff_loader_describe(other).direct);
    read_bytes = 0;
    ff_loader_destroy(&mapped);
    ff_loader_destroy(&other);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

/* Epochs in which `again` bytes are read for each one used; those after which a loader turns. */
static double epochs_until(ff_reading_watch *watch, const ff_loader_settings *settings,
                           double first, double again, int epochs) {
    const uint64_t part = settings->count / 100;
    const double bytes = (double)settings->shard_bytes / 100;
    for (int i = 0; i < 100 * epochs; i++) {
        const double read = i < 100 ? first : again;
        if (ff_reading_is_evicted(watch, settings, part, (uint64_t)(read * bytes)))
            return (i + 1) / 100.;
    }
    return 0;
}

/* What is read once, or once an epoch, is as it should be; more, at any time, is not. */
static void what_is_read_again(void **state) {
    (void)state;
    set_spec set = plain_set(100);
    ff_dataset *dataset = open_new_set(&set);
    ff_loader_options options = ff_loader_defaults();
    ff_loader_settings settings;
    options.threads = 1;
    assert_ok(ff_loader_settings_init(&settings, dataset, &options, error));
    settings.shard_bytes = 1000 * MIB;
    const struct {
        double first, again, least, most; /* epochs */
    } cases[] = {{1, 0, 0, 0},     {1, 1.2, 0, 0}, {0, 0, 0, 0},
                 {1.9, 0, 0, 0},   {1, 0.9, 0, 0}, {600, 0, 0, 0.1},
                 {1, 600, 1, 1.1}, {1, 3, 3, 3.1}, {0, 1.5, 3, 3.1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ff_reading_watch watch = {0};
        const double found = epochs_until(&watch, &settings, cases[i].first, cases[i].again, 100);
        if (!(found >= cases[i].least && found <= cases[i].most))
            fail_msg("case %zu: turns after %g epochs", i, found);
        /* And long after a set was in memory. */
        watch = (ff_reading_watch){0};
        assert_true(epochs_until(&watch, &settings, 1, 0, 100) == 0);
        assert_true(epochs_until(&watch, &settings, 600, 600, 2) < 0.1);
    }
    settings.given.access = FF_ACCESS_MAPPED;
    ff_reading_watch watch = {0};
    assert_true(epochs_until(&watch, &settings, 600, 600, 3) == 0);
    ff_loader_settings_free(&settings);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_batches),
        cmocka_unit_test(turns_while_slots_are_held),
        cmocka_unit_test(stays_mapped_without_memory),
        cmocka_unit_test(what_is_read_again),
    };
    return cmocka_run_group_tests_name("loader_evicted", tests, NULL, NULL);
}
