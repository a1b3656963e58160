/* The loader when something is wrong: options, broken samples, shards that shrink while mapped,
 * early ends. Each error is one message at acquire, after the batches before it. */
#include "format/cli/interrupt.h"
#include "loader/gpu/batches.h"
#include "tests/cuda/sim/device.h"
#include "tests/cuda/sim/loader_plain.h"
#include "tests/unit/dice.h"
#include "tests/unit/format_set.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

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
    set_spec set = plain_set(50);
    ff_dataset *dataset = open_new_set(&set);
    ff_loader_options options = options_of(0);
    refused(dataset, &options, "a batch has 1 to");
    options = options_of(8), options.position = 51;
    refused(dataset, &options, "after the end");
    options = options_of(8), options.height = 33;
    refused(dataset, &options, "33x32");
    options = options_of(8), options.dtype = FF_U8;
    refused(dataset, &options, "u8");
    options = options_of(8), options.dtype = FF_I64;
    refused(dataset, &options, "i64");
    options = options_of(8), options.share_end = 3, options.share_total = 2;
    refused(dataset, &options, "not a share");
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
    set_remove(&set);
}

/* Changes bit `bit` of byte `at`, from the end if negative, of sample `number` in its shard. */
static void damage_at(set_spec *set, uint64_t number, int at, int bit) {
    ff_dataset *dataset = open_set(set);
    ff_entry entry;
    ff_shard_info info;
    assert_ok(ff_dataset_entry(dataset, number, &entry, error));
    assert_ok(ff_dataset_shard(dataset, entry.shard, &info, error));
    char path[200];
    snprintf(path, sizeof path, "%s/%s", set->folder, info.name);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, (long)entry.offset + (at < 0 ? (long)entry.bytes : 0) + at % (long)entry.bytes,
          SEEK_SET);
    int byte = fgetc(file);
    fseek(file, -1, SEEK_CUR);
    fputc(byte ^ 1 << bit, file);
    fclose(file);
    ff_dataset_close(&dataset);
}

static void damage(set_spec *set, uint64_t number) {
    damage_at(set, number, 100, 0);
}

/* Batches before the broken one are delivered; then every call returns the same message, for any
 * number of threads. */
static void broken_sample(void **state) {
    (void)state;
    set_spec set = plain_set(300);
    assert_ok(set_make(&set, error));
    damage(&set, 150);
    /* In the same batch of 64, and the first that another of three or four threads reads, so it is
     * found earlier: the lower one is named. */
    damage(&set, 152);
    char first[sizeof((ff_error *)0)->message] = "";
    for (int trial = 0; trial < 20; trial++) {
        const int threads = trial % 5;
        ff_dataset *dataset = open_set(&set);
        ff_loader *loader;
        ff_slot *slot;
        ff_error failure = {0};
        ff_loader_options options = options_of(64);
        options.threads = threads;
        options.access = trial % 2 ? FF_ACCESS_READ : FF_ACCESS_MAPPED;
        assert_ok(ff_loader_create(&loader, dataset, &options, error));
        for (int i = 0; i < 2; i++) {
            assert_ok(ff_loader_acquire(loader, &slot, error));
            ff_loader_release(loader, slot, NULL);
        }
        for (int i = 0; i < 3; i++) {
            failure.message[0] = 0;
            assert_int_equal(ff_loader_acquire(loader, &slot, &failure), FF_BAD_DATA);
            assert_null(slot);
            assert_non_null(strstr(failure.message, "sample 150"));
            assert_int_equal(ff_loader_acquire(loader, &slot, NULL), FF_BAD_DATA);
        }
        if (trial == 0) strcpy(first, failure.message);
        assert_string_equal(failure.message, first);
        ff_loader_destroy(&loader);
        ff_dataset_close(&dataset);
    }
    set_remove(&set);
}

/* A flipped bit at any place of any sample is found, with its sample's number; sound samples are
 * delivered. Each sample is verified by its first read alone, in "always" by each. */
static void flipped_bits(void **state) {
    (void)state;
    enum { SAMPLES = 130 };
    dice luck = {.seed = 7};
    for (int trial = 0; trial < 60; trial++) {
        set_spec set = plain_set(SAMPLES);
        set.height = set.width = 1 + (uint32_t)roll(&luck, 40);
        const uint64_t number = (uint64_t)roll(&luck, SAMPLES);
        const bool late = trial % 3 == 0, always = trial % 2;
        assert_ok(set_make(&set, error));
        const int at = trial % 4 ? (int)roll(&luck, 100000) : -1;
        if (!late) damage_at(&set, number, at, (int)roll(&luck, 8));
        ff_dataset *dataset;
        ff_loader *loader;
        ff_slot *slot;
        ff_error failure = {0};
        ff_loader_options options = options_of(SAMPLES);
        options.threads = trial % 4;
        options.access = FF_ACCESS_MAPPED;
        options.order = trial % 5 ? FF_ORDER_RANDOM : FF_ORDER_SEQUENTIAL;
        options.slots = 2;
        assert_ok(ff_dataset_open(&dataset, set.folder, always ? FF_VERIFY_ALWAYS : FF_VERIFY_FIRST,
                                  error));
        for (int epoch = 0; epoch < 2; epoch++) {
            char name[40];
            snprintf(name, sizeof name, "sample %llu has", (unsigned long long)number);
            const bool fails = late ? epoch && always : true;
            assert_ok(ff_loader_create(&loader, dataset, &options, error));
            const ff_status status = ff_loader_acquire(loader, &slot, &failure);
            assert_int_equal(status, fails ? FF_BAD_DATA : FF_OK);
            if (fails && !strstr(failure.message, name)) fail_msg("%s", failure.message);
            if (!fails) ff_loader_release(loader, slot, NULL);
            ff_loader_destroy(&loader);
            if (late && !epoch) damage_at(&set, number, at, 3);
        }
        ff_dataset_close(&dataset);
        set_remove(&set);
    }
}

/* A shard cut short while it is mapped and read: FF_IO with path and offset, no SIGBUS. */
static void shrinking_shard(void **state) {
    (void)state;
    for (int trial = 0; trial < 6; trial++) {
        set_spec set = plain_set(2000);
        ff_dataset *dataset = open_new_set(&set);
        ff_loader *loader;
        ff_slot *slot;
        ff_error failure = {0};
        ff_status status = FF_OK;
        ff_loader_options options = options_of(100);
        options.threads = trial % 3, options.access = trial < 3 ? FF_ACCESS_MAPPED : FF_ACCESS_READ;
        options.order = FF_ORDER_RANDOM;
        assert_ok(ff_loader_create(&loader, dataset, &options, error));
        /* An epoch first, so that every sample has been verified and mapped. */
        for (int i = 0; i < 20; i++) {
            assert_ok(ff_loader_acquire(loader, &slot, error));
            ff_loader_release(loader, slot, NULL);
        }
        char path[200];
        snprintf(path, sizeof path, "%s/shard-000000.ffs", set.folder);
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
        set_remove(&set);
    }
}

/* Classes are 32 bits in a batch where it does not ask for 64, and may be more in a set. */
static void too_large_class(void **state) {
    (void)state;
    for (int beyond = 0; beyond < 2; beyond++) {
        set_spec set = plain_set(90);
        set.first_class = INT64_C(0x7fffffff) - set.classes + 1 + beyond;
        ff_dataset *dataset = open_new_set(&set);
        ff_loader *loader;
        ff_slot *slot;
        ff_error failure = {0};
        ff_loader_options options = options_of(90);
        assert_ok(ff_loader_create(&loader, dataset, &options, error));
        ff_status status = ff_loader_acquire(loader, &slot, &failure);
        assert_int_equal(status, beyond ? FF_BAD_DATA : FF_OK);
        /* The first sample of the last of ten classes: 81. */
        if (beyond)
            assert_non_null(strstr(failure.message, "sample 81: class 2147483648 of field label "
                                                    "does not fit 32 bits"));
        for (uint32_t row = 0; !beyond && row < slot->count; row++)
            assert_int_equal(((const int32_t *)slot->label[0].values)[row],
                             set.first_class + set_class(&set, row));
        if (!beyond) ff_loader_release(loader, slot, NULL);
        ff_loader_destroy(&loader);
        options.classes_i64 = true;
        assert_ok(ff_loader_create(&loader, dataset, &options, error));
        assert_ok(ff_loader_acquire(loader, &slot, error));
        assert_int_equal(slot->label[0].dtype, FF_I64);
        for (uint32_t row = 0; row < slot->count; row++)
            assert_int_equal(((const int64_t *)slot->label[0].values)[row],
                             set.first_class + set_class(&set, row));
        ff_loader_release(loader, slot, NULL);
        ff_loader_destroy(&loader);
        ff_dataset_close(&dataset);
        set_remove(&set);
    }
}

/* A sample of a variable-sized dataset that is smaller than the output. */
static void too_small_sample(void **state) {
    (void)state;
    set_spec set = plain_set(64);
    set.variable = true;
    ff_dataset *dataset = open_new_set(&set);
    ff_loader *loader;
    ff_slot *slot;
    ff_error failure = {0};
    ff_loader_options options = options_of(64);
    options.height = options.width = 32;
    assert_ok(ff_loader_create(&loader, dataset, &options, error));
    assert_int_equal(ff_loader_acquire(loader, &slot, &failure), FF_USAGE);
    assert_non_null(strstr(failure.message, "sample "));
    ff_loader_destroy(&loader);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

static void early_ends(void **state) {
    (void)state;
    set_spec set = plain_set(600);
    ff_dataset *dataset = open_new_set(&set);
    for (unsigned trial = 0; trial < 120; trial++) {
        ff_loader *loader;
        ff_slot *slot[8];
        ff_loader_options options = options_of(16 + trial % 40);
        options.threads = (int)(trial % 4), options.slots = 1 + trial % 6;
        options.order = FF_ORDER_RANDOM;
        assert_ok(ff_loader_create(&loader, dataset, &options, error));
        uint32_t held = 0;
        for (unsigned i = 0; i < trial % 11; i++) {
            if (held == options.slots) {
                /* Newest first: no order of releases may block the ring. */
                ff_loader_release(loader, slot[--held], NULL);
                if (held && trial % 3) ff_loader_release(loader, slot[--held], NULL);
            }
            assert_ok(ff_loader_acquire(loader, &slot[held++], error));
        }
        if (trial % 5 == 0) {
            struct timespec pause = {0, (long)(trial * 10000)};
            nanosleep(&pause, NULL);
        }
        ff_loader_destroy(&loader); /* with slots held and threads at work */
    }
    ff_dataset_close(&dataset);
    set_remove(&set);
}

static void all_slots_held(void **state) {
    (void)state;
    set_spec set = plain_set(100);
    ff_dataset *dataset = open_new_set(&set);
    for (int threads = 0; threads < 2; threads++) {
        ff_loader *loader;
        ff_slot *slot[3], *other;
        ff_loader_options options = options_of(10);
        options.threads = threads, options.slots = 3;
        assert_ok(ff_loader_create(&loader, dataset, &options, error));
        for (int i = 0; i < 3; i++) assert_ok(ff_loader_acquire(loader, &slot[i], error));
        assert_int_equal(ff_loader_acquire(loader, &other, NULL), FF_USAGE);
        ff_loader_release(loader, slot[1], NULL);
        assert_ok(ff_loader_acquire(loader, &other, error));
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
    set_remove(&set);
}

/* ---- placements on a device ----------------------------------------------------------------- */

/* A host device with one failing call, of any kind that can fail. */
static const ff_device_table *whole;
static atomic_int calls_left; /* calls before that one; below 0: it has failed */

static bool fails(ff_error *error, const char *call) {
    if (atomic_fetch_sub(&calls_left, 1) != 0) return false;
    ff_status status = ff_fail(error, FF_NO_MEMORY, "injected: %s", call);
    return status != FF_OK;
}

#define FAILING(name, parameters, arguments)                                                       \
    static ff_status failing_##name parameters {                                                   \
        return fails(error, #name) ? FF_NO_MEMORY : whole->name arguments;                         \
    }
FAILING(allocate,
        (ff_device * device, void **memory, uint64_t bytes, const char *what, ff_error *error),
        (device, memory, bytes, what, error))
FAILING(allocate_pinned,
        (ff_device * device, void **memory, uint64_t bytes, const char *what, ff_error *error),
        (device, memory, bytes, what, error))
FAILING(stream_create, (ff_device * device, ff_stream **stream, ff_error *error),
        (device, stream, error))
FAILING(stream_synchronize, (ff_device * device, ff_stream *stream, ff_error *error),
        (device, stream, error))
FAILING(event_create, (ff_device * device, ff_event **event, bool timed, ff_error *error),
        (device, event, timed, error))
FAILING(event_record, (ff_device * device, ff_event *event, ff_stream *stream, ff_error *error),
        (device, event, stream, error))
FAILING(stream_wait, (ff_device * device, ff_stream *stream, ff_event *event, ff_error *error),
        (device, stream, event, error))
FAILING(copy,
        (ff_device * device, ff_stream *stream, void *to, const void *from, uint64_t bytes,
         ff_error *error),
        (device, stream, to, from, bytes, error))
FAILING(memory, (ff_device * device, uint64_t *free_bytes, uint64_t *total_bytes, ff_error *error),
        (device, free_bytes, total_bytes, error))

static ff_status run_steps(ff_batches *batches, ff_stream *stream, ff_error *error) {
    for (int step = 0; step < 12; step++) {
        const ff_batch_info *batch;
        FF_TRY(ff_batches_prepare(batches, stream, &batch, error));
        FF_TRY(ff_batches_enqueue(batches, stream, error));
        FF_TRY(ff_batches_finish(batches, stream, error));
    }
    return FF_OK;
}

/* The device's calls fail in turn: each failure's message is reported, nothing hangs, and nothing
 * leaks (AddressSanitizer). */
static void failing_device(void **state) {
    (void)state;
    set_spec set = plain_set(200);
    set.backwards = true;
    ff_dataset *dataset = open_new_set(&set);
    for (int placement = FF_PLACEMENT_RESIDENT; placement <= FF_PLACEMENT_HOST; placement++) {
        bool reached = true;
        for (int call = 0; reached; call++) {
            ff_device *device;
            ff_stream *stream;
            ff_batches *batches;
            ff_error failure = {0};
            assert_ok(ff_device_sim_create(&device, FF_HOST_STREAMS_THREADS, 0, 1, error));
            whole = device->table;
            assert_ok(whole->stream_create(device, &stream, error));
            ff_device_table table = *whole;
            table.allocate = failing_allocate;
            table.allocate_pinned = failing_allocate_pinned;
            table.stream_create = failing_stream_create;
            table.stream_synchronize = failing_stream_synchronize;
            table.event_create = failing_event_create;
            table.event_record = failing_event_record;
            table.stream_wait = failing_stream_wait;
            table.copy = failing_copy;
            table.memory = failing_memory;
            device->table = &table;
            ff_batches_options options = {.loader = options_of(16),
                                          .kernels = &ff_loader_plain_kernels,
                                          .placement = (ff_placement)placement,
                                          .channels = 8,
                                          .quiet = true};
            options.loader.device = device;
            atomic_store(&calls_left, call);
            ff_status status = ff_batches_create(&batches, dataset, &options, &failure);
            assert_int_equal(status == FF_OK, batches != NULL);
            if (batches) status = run_steps(batches, stream, &failure);
            /* Threads work ahead: one of their calls may fail for a batch that is never
             * acquired. */
            reached = atomic_load(&calls_left) < 0;
            if (status != FF_OK) {
                assert_int_equal(status, FF_NO_MEMORY);
                assert_non_null(strstr(failure.message, "injected"));
                assert_true(reached);
            }
            atomic_store(&calls_left, -1);
            assert_ok(whole->stream_synchronize(device, stream, error));
            ff_batches_destroy(&batches);
            whole->stream_destroy(device, stream);
            ff_device_destroy(&device);
            assert_true(call < 400);
        }
    }
    ff_dataset_close(&dataset);
    set_remove(&set);
}

/* A shard cut short while it is mapped, before its samples are uploaded. */
static void shrinking_upload(void **state) {
    (void)state;
    for (int threads = 0; threads < 3; threads++) {
        set_spec set = plain_set(2000);
        ff_dataset *dataset = open_new_set(&set);
        ff_reader *reader;
        ff_view view;
        ff_device *device;
        ff_batches *batches;
        ff_error failure = {0};
        assert_ok(ff_reader_open(&reader, dataset, error));
        assert_ok(ff_reader_sample(reader, 0, &view, error)); /* maps it */
        ff_reader_close(&reader);
        char path[200];
        snprintf(path, sizeof path, "%s/shard-000000.ffs", set.folder);
        assert_int_equal(truncate(path, 1 << 20), 0);
        assert_ok(ff_device_sim_create(&device, FF_HOST_STREAMS_THREADS, 0, 1, error));
        ff_batches_options options = {.loader = options_of(16),
                                      .kernels = &ff_loader_plain_kernels,
                                      .placement = FF_PLACEMENT_RESIDENT,
                                      .quiet = true};
        options.loader.device = device, options.loader.threads = threads;
        assert_int_equal(ff_batches_create(&batches, dataset, &options, &failure), FF_IO);
        assert_null(batches);
        assert_non_null(strstr(failure.message, path));
        assert_non_null(strstr(failure.message, "offset"));
        ff_device_destroy(&device);
        ff_dataset_close(&dataset);
        set_remove(&set);
    }
}

/* Damage is found at the upload, as --verify-data says, and names the lowest sample; a signal ends
 * an upload. In a separate process, because a signal cannot be undone. */
static void stopped_upload(void **state) {
    (void)state;
    set_spec set = plain_set(300);
    assert_ok(set_make(&set, error));
    damage(&set, 150);
    damage(&set, 171);
    for (int stop = 0; stop < 2; stop++) {
        pid_t child = fork();
        if (child == 0) {
            ff_dataset *dataset = open_set(&set);
            ff_device *device;
            ff_batches *batches;
            ff_error failure = {0};
            assert_ok(ff_device_sim_create(&device, FF_HOST_STREAMS_THREADS, 0, 1, error));
            if (stop) {
                ff_interrupt_install(0);
                kill(getpid(), SIGINT);
                while (!ff_interrupt_signal()) usleep(1000);
            }
            ff_batches_options options = {.loader = options_of(16),
                                          .kernels = &ff_loader_plain_kernels,
                                          .placement = FF_PLACEMENT_RESIDENT,
                                          .quiet = true};
            options.loader.device = device;
            ff_status status = ff_batches_create(&batches, dataset, &options, &failure);
            ff_device_destroy(&device);
            ff_dataset_close(&dataset);
            const char *wanted = stop ? "stopped by SIGINT" : "sample 150";
            bool good = status == (stop ? FF_INTERRUPTED : FF_BAD_DATA) && !batches &&
                        strstr(failure.message, wanted);
            exit(good ? 0 : 1);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    set_remove(&set);
}

/* First, and as one test: cmocka installs its own SIGBUS handler at every test, and the guard
 * installs its own only once, in the first test that reads a mapping. */
static void shrinking(void **state) {
    shrinking_shard(state);
    shrinking_upload(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shrinking),        cmocka_unit_test(bad_options),
        cmocka_unit_test(broken_sample),    cmocka_unit_test(flipped_bits),
        cmocka_unit_test(too_small_sample), cmocka_unit_test(early_ends),
        cmocka_unit_test(all_slots_held),   cmocka_unit_test(failing_device),
        cmocka_unit_test(stopped_upload),   cmocka_unit_test(too_large_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
