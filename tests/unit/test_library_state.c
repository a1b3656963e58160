/* Where a public loader is, and what ends its waits: seeks and resumes, refusals, failures,
 * interruptions, and the use by two threads. */
#include "format/base/thread.h"
#include "tests/unit/dice.h"
#include "tests/unit/library_case.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

/* ---- where it is ---------------------------------------------------------------------------- */

static void expect(ffload_loader *loader, uint64_t hash) {
    ffload_batch *batch = next(loader);
    assert_non_null(batch);
    assert_int_equal(hash_of(batch), hash);
    ffload_batch_release(&batch);
}

static void seeks(void **state) {
    (void)state;
    set_spec set;
    uint64_t hash[EPOCH];
    ffload_dataset *dataset = known_set(&set, hash);
    ffload_loader *loader = load(dataset, "batch_size 16 epochs 0");
    expect(loader, hash[0]);
    assert_did(ffload_loader_seek(loader, 0, 7 * 16, error));
    expect(loader, hash[7]);
    assert_did(ffload_loader_seek(loader, 0, 8 * 16, error)); /* where it is anyway */
    for (int i = 8; i < EPOCH; i++) expect(loader, hash[i]);
    ffload_batch *batch = next(loader);
    assert_int_equal(ffload_batch_info_of(batch)->epoch, 1);
    assert_int_not_equal(hash_of(batch), hash[0]);
    assert_refused(ffload_loader_seek(loader, 0, 10000, error), FFLOAD_USAGE, "position");
    const uint64_t first = hash_of(batch);
    ffload_batch_release(&batch);
    assert_did(ffload_loader_seek(loader, 1, 0, error));
    expect(loader, first);
    assert_int_equal(stats_of(loader).batches, 2 + 7 + 1 + 1);
    ffload_loader_destroy(&loader);
    loader = load(dataset, "batch_size 16"); /* one epoch: from where it is sought */
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < EPOCH; i++) expect(loader, hash[i]);
        assert_null(next(loader));
        if (round == 2) break;
        assert_did(ffload_loader_seek(loader, 0, 0, error));
    }
    assert_did(ffload_loader_seek(loader, 1, 0, error)); /* where it ended: it continues */
    expect(loader, first);
    ffload_loader_destroy(&loader);
    ffload_dataset_close(&dataset);
    set_remove(&set);
}

enum { WIDE = 48, WIDES = EPOCH * 16 / WIDE };

/* Batches of 48 that take long, by some threads; `to`: what is in them, or NULL. */
static ffload_loader *load_slow(ffload_dataset *dataset, const char *threads, uint64_t *to) {
    char words[128];
    snprintf(words, sizeof words, "batch_size %d epochs 0 augment rrc=32,flip workers %s", WIDE,
             threads);
    ffload_loader *loader = load(dataset, words);
    for (int i = 0; to && i < WIDES; i++) {
        ffload_batch *batch = next(loader);
        to[i] = hash_of(batch);
        ffload_batch_release(&batch);
    }
    return loader;
}

/* Seeks to any place at any time, also while batches are made, by threads or half by the consumer
 * who was interrupted, and with batches that are kept. */
static void seeks_anywhere(void **state) {
    (void)state;
    static const char *const threads[] = {"0", "1 prefetch 2", "3 prefetch 5"};
    set_spec set;
    uint64_t hash[EPOCH], wanted[WIDES];
    ffload_dataset *dataset = known_set(&set, hash);
    ffload_loader *loader = load_slow(dataset, "0", wanted);
    ffload_loader_destroy(&loader);
    for (int k = 0; k < 3; k++) {
        dice d = {.seed = 5 + (uint64_t)k};
        ffload_batch *kept[2] = {NULL};
        int number = 0, of_kept[2] = {0};
        loader = load_slow(dataset, threads[k], NULL);
        for (int i = 0; i < 200; i++) {
            if (roll(&d, 2)) {
                ffload_loader_interrupt(loader);
                assert_refused(ffload_loader_next(loader, &kept[1], error), FFLOAD_INTERRUPTED, "");
            }
            for (uint32_t more = number == WIDES ? 1 : roll(&d, 4); more > 0; more--) {
                number = (int)roll(&d, WIDES);
                usleep(roll(&d, 500));
                assert_did(ffload_loader_seek(loader, 0, WIDE * (uint64_t)number, error));
            }
            kept[1] = next(loader);
            if (kept[0]) assert_int_equal(hash_of(kept[0]), wanted[of_kept[0]]);
            of_kept[1] = number++;
            assert_int_equal(hash_of(kept[1]), wanted[of_kept[1]]);
            ffload_batch_release(&kept[0]);
            kept[0] = kept[1], of_kept[0] = of_kept[1];
        }
        assert_true(stats_of(loader).blocks <= 5 + 2); /* a seek allocates none */
        ffload_batch_release(&kept[0]);
        ffload_loader_destroy(&loader);
    }
    ffload_dataset_close(&dataset);
    set_remove(&set);
}

/* A run that continues on two ranks, with other threads: their rows are the batch's. */
static void resumed(void **state) {
    (void)state;
    set_spec set;
    uint64_t hash[EPOCH];
    const char *text;
    ffload_dataset *dataset = known_set(&set, hash);
    ffload_loader *loader = load(dataset, "batch_size 16 epochs 2");
    for (int i = 0; i < 5; i++) expect(loader, hash[i]);
    assert_did(ffload_loader_state(loader, &text, error));
    json_t *json = json_loads(text, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(json, "epoch")), 0);
    assert_int_equal(json_integer_value(json_object_get(json, "position")), 5 * 16);
    assert_int_equal(json_integer_value(json_object_get(json, "batch_size")), 16);
    assert_string_equal(json_string_value(json_object_get(json, "order")), "random");
    json_decref(json);
    ffload_loader *rank[2] = {load(dataset, "batch_size 16 world 2 rank 0 workers 1"),
                              load(dataset, "batch_size 16 world 2 rank 1 workers 0")};
    for (int r = 0; r < 2; r++) assert_did(ffload_loader_restore(rank[r], text, error));
    for (int i = 5; i < EPOCH; i++) {
        ffload_batch *whole = next(loader);
        const DLTensor *images = tensor_of(whole, "images");
        for (int r = 0; r < 2; r++) {
            ffload_batch *half = next(rank[r]);
            const DLTensor *part = tensor_of(half, "images");
            assert_int_equal(part->shape[0], 8);
            assert_memory_equal(part->data, (uint8_t *)images->data + (size_t)r * bytes_of(part),
                                bytes_of(part));
            ffload_batch_release(&half);
        }
        ffload_batch_release(&whole);
    }
    for (int r = 0; r < 2; r++) ffload_loader_destroy(&rank[r]);
    static const char *const others[][2] = {
        {"batch_size 8", "the state has batch_size 16, but this loader has 8"},
        {"batch_size 16 seed 1", "the state has seed 0, but this loader has 1"},
        {"batch_size 16 order sequential",
         "the state has order random, but this loader has sequential"}};
    char *kept = strdup(text);
    for (int i = 0; i < 3; i++) {
        ffload_loader *other = load(dataset, others[i][0]);
        assert_refused(ffload_loader_restore(other, kept, error), FFLOAD_USAGE, others[i][1]);
        ffload_loader_destroy(&other);
    }
    static const char *const broken[] = {
        "", "{", "[]", "null", "{\"order\": 3}", "{\"order\": \"random\", \"seed\": -1}"};
    for (int i = 0; i < 6; i++)
        assert_refused(ffload_loader_restore(loader, broken[i], error), FFLOAD_USAGE, "state");
    ffload_batch *batch = next(loader); /* it was left where it is */
    assert_int_equal(ffload_batch_info_of(batch)->epoch, 1);
    ffload_batch_release(&batch);
    free(kept);
    ffload_loader_destroy(&loader);
    ffload_dataset_close(&dataset);
    set_remove(&set);
}

/* Between the cuts of a batch: the other cuts come first, in a loader with the same cuts and world.
 */
static void between_cuts(void **state) {
    (void)state;
    enum { CUTS = 4, PARTS = EPOCH * CUTS };
    static const char words[] = "batch_size 16 cuts 4 last_batch drop workers 1";
    set_spec set;
    uint64_t hash[EPOCH], part[PARTS];
    char *text[PARTS];
    ffload_dataset *dataset = known_set(&set, hash);
    ffload_loader *loader = load(dataset, words);
    for (int i = 0; i < PARTS; i++) {
        const char *now;
        ffload_batch *batch = next(loader);
        assert_int_equal(ffload_batch_info_of(batch)->index, i / CUTS);
        part[i] = hash_of(batch);
        ffload_batch_release(&batch);
        assert_did(ffload_loader_state(loader, &now, error));
        assert_int_equal(strstr(now, "\"cut\"") != NULL, (i + 1) % CUTS != 0);
        text[i] = strdup(now);
    }
    assert_null(next(loader));
    ffload_loader_destroy(&loader);
    for (int i = 0; i < PARTS - 1; i++) {
        loader = load(dataset, words);
        assert_did(ffload_loader_restore(loader, text[i], error));
        for (int k = i + 1; k < PARTS; k++) expect(loader, part[k]);
        assert_null(next(loader));
        ffload_loader_destroy(&loader);
        loader = load(dataset, "batch_size 16 cuts 2 world 2");
        if ((i + 1) % CUTS)
            assert_refused(
                ffload_loader_restore(loader, text[i], error), FFLOAD_USAGE,
                "a batch with cuts=4 and world=1, but this loader has cuts=2 and world=2");
        else
            assert_did(ffload_loader_restore(loader, text[i], error));
        ffload_loader_destroy(&loader);
    }
    for (int i = 0; i < PARTS; i++) free(text[i]);
    ffload_dataset_close(&dataset);
    set_remove(&set);
}

static void described(void **state) {
    (void)state;
    set_spec set;
    uint64_t hash[EPOCH];
    const char *text;
    ffload_dataset *dataset = known_set(&set, hash);
    ffload_loader *loader = load(dataset, "batch_size 16 layout channels_last dtype f16 workers 1");
    assert_did(ffload_loader_describe(loader, &text, error));
    json_t *json = json_loads(text, 0, NULL);
    const json_t *images = json_array_get(json_object_get(json, "tensors"), 0);
    assert_int_equal(json_integer_value(json_object_get(json, "batches")), EPOCH);
    assert_int_equal(json_integer_value(json_object_get(json, "threads")), 1);
    assert_string_equal(json_string_value(json_object_get(images, "name")), "images");
    assert_string_equal(json_string_value(json_object_get(images, "dtype")), "f16");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(images, "strides"), 1)), 1);
    json_decref(json);
    ffload_loader_destroy(&loader);
    ffload_dataset_close(&dataset);
    set_remove(&set);
}

/* ---- refusals and failures ------------------------------------------------------------------ */

static void refused(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {"rank 2 world 2", "rank: there is no rank 2 in a world of 2"},
        {"label fine", "has no label field fine; it has label"},
        {"augment crop=33", "a padding of 33 is too large for samples of 32x32; it may be 32"},
        {"augment crop=32:reflect", "it may be 31 pixels at most"},
        {"size 64x64", "an output of 64x64 cannot be cropped from a sample of 32x32"},
        {"placement resident", "placement: resident needs a GPU, and device is cpu"},
        {"dtype u8", "u8"},
        {"position 9999", "position"},
        {"batch_size 16 cuts 3", "16"}};
    set_spec set;
    uint64_t hash[EPOCH];
    ffload_dataset *dataset = known_set(&set, hash);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ffload_options *options = options_from(wrong[i][0]);
        ffload_loader *loader;
        assert_refused(ffload_loader_create(&loader, dataset, options, error), FFLOAD_USAGE,
                       wrong[i][1]);
        assert_null(loader);
        ffload_options_destroy(&options);
    }
    ffload_dataset_close(&dataset);
    set_remove(&set);
}

/* A flipped bit, then a shard that is cut short while it is mapped: an error when it is the batch's
 * turn, and from then on. */
static void broken_data(void **state) {
    (void)state;
    for (int cut = 0; cut < 2; cut++) {
        set_spec set;
        uint64_t hash[EPOCH];
        ffload_dataset *dataset = known_set(&set, hash);
        ffload_dataset_close(&dataset);
        dataset = open_library(set.folder);
        ffload_batch *batch;
        char *path = join(set.folder, "shard-000000.ffs");
        FILE *file = fopen(path, "r+b");
        ffload_loader *loader = load(dataset, "batch_size 16 order sequential workers 0");
        batch = next(loader);
        ffload_batch_release(&batch);
        if (cut) assert_int_equal(ftruncate(fileno(file), 48 * 4096), 0);
        assert_int_equal(fseek(file, 48 * 4096, SEEK_SET), 0);
        if (!cut) fputc(fgetc(file) ^ 1, file);
        fclose(file);
        int status = FFLOAD_OK, good = 1;
        ffload_error found;
        for (; status == FFLOAD_OK; good++) {
            status = ffload_loader_next(loader, &batch, &found);
            ffload_batch_release(&batch);
        }
        assert_int_equal(status, cut ? FFLOAD_IO : FFLOAD_BAD_DATA);
        assert_int_equal(found.status, status);
        assert_non_null(strstr(found.message, path));
        assert_true(good < EPOCH);
        assert_int_equal(ffload_loader_next(loader, &batch, NULL), status);
        assert_null(batch);
        assert_did(ffload_loader_seek(loader, 0, 0, error)); /* which forgets it */
        if (cut) { /* no sample of a cut file is returned, not even one before the cut */
            assert_int_equal(ffload_loader_next(loader, &batch, NULL), FFLOAD_IO);
        } else {
            batch = next(loader);
            assert_int_equal(ffload_batch_info_of(batch)->index, 0);
            ffload_batch_release(&batch);
        }
        ffload_loader_destroy(&loader);
        ffload_dataset_close(&dataset);
        free(path);
        set_remove(&set);
    }
}

/* ---- waits ---------------------------------------------------------------------------------- */

typedef struct asked {
    ffload_loader *loader;
    int times, ends_at, refused, seen;
} asked;

/* A check: it ends the wait when asked so often. It may look at the loader, which refuses other
 * calls. */
static int on_check(void *context) {
    asked *told = context;
    ffload_stats stats;
    const char *state, *about;
    ffload_error why;
    told->seen += ffload_loader_stats(told->loader, &stats, &why) == FFLOAD_OK &&
                  ffload_loader_describe(told->loader, &about, &why) == FFLOAD_OK &&
                  ffload_loader_state(told->loader, &state, &why) == FFLOAD_OK &&
                  strstr(state, "\"position\"") != NULL;
    told->refused += ffload_loader_seek(told->loader, 0, 0, &why) == FFLOAD_USAGE &&
                     strstr(why.message, "used from two threads at once") != NULL;
    return ++told->times == told->ends_at;
}

/* A set whose batches take 0.2 s of a fast core, for waits that are asked twice: 40 ms. */
static ffload_loader *slow(set_spec *set, const char *more, asked *told) {
    char words[256];
    *set = plain_set(4096);
    assert_ok(set_make(set, error));
    ffload_dataset *dataset = open_library(set->folder);
    snprintf(
        words, sizeof words,
        "batch_size 2048 augment rrc=96,jitter=0.4:0.4:0.4:0.1 dtype f16 prefetch 2 epochs 0 seed 3 %s",
        more);
    ffload_options *options = options_from(words);
    ffload_loader *loader;
    if (told) assert_did(ffload_options_set_check(options, on_check, told, error));
    assert_did(ffload_loader_create(&loader, dataset, options, error));
    ffload_options_destroy(&options);
    ffload_dataset_close(&dataset);
    return loader;
}

/* The check and interrupt end a wait, and no batch is lost by it. */
static void interrupted(void **state) {
    (void)state;
    static const char *const threads[] = {"workers 0", "workers 1"};
    uint64_t wanted = 0;
    for (int i = 0; i < 2; i++) {
        set_spec set;
        asked told = {.ends_at = 2};
        ffload_loader *loader = told.loader = slow(&set, threads[i], &told);
        ffload_batch *batch;
        assert_refused(ffload_loader_next(loader, &batch, error), FFLOAD_INTERRUPTED,
                       "interrupted while waiting for a batch");
        assert_null(batch);
        assert_true(told.times == 2 && told.refused == 2 && told.seen == 2);
        ffload_loader_interrupt(loader); /* nobody waits: the next one */
        assert_refused(ffload_loader_next(loader, &batch, error), FFLOAD_INTERRUPTED, "waiting");
        batch = next(loader);
        assert_int_equal(ffload_batch_info_of(batch)->index, 0);
        const uint64_t hash = hash_of(batch);
        if (i) assert_int_equal(hash, wanted);
        wanted = hash;
        ffload_batch_release(&batch);
        ffload_loader_destroy(&loader);
        set_remove(&set);
    }
}

static void *interrupt_soon(void *context) {
    const struct timespec soon = {.tv_nsec = 60000000};
    nanosleep(&soon, NULL);
    ffload_loader_interrupt(context);
    return (void *)(uintptr_t)ff_now_ns();
}

/* By another thread: within 0.1 s. A machine that is busy may take longer, but not each time. */
static void interrupted_soon(void **state) {
    (void)state;
    uint64_t shortest = UINT64_MAX;
    for (int i = 0; i < 8 && shortest > 100000000; i++) {
        set_spec set;
        void *told;
        pthread_t thread;
        ffload_batch *batch;
        ffload_loader *loader = slow(&set, i % 2 ? "workers 0" : "workers 1", NULL);
        int status = FFLOAD_OK;
        assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, loader), 0);
        while (status == FFLOAD_OK) {
            status = ffload_loader_next(loader, &batch, NULL);
            ffload_batch_release(&batch);
        }
        const uint64_t ended = ff_now_ns();
        pthread_join(thread, &told);
        assert_int_equal(status, FFLOAD_INTERRUPTED);
        if (ended - (uint64_t)(uintptr_t)told < shortest)
            shortest = ended - (uint64_t)(uintptr_t)told;
        ffload_loader_destroy(&loader);
        set_remove(&set);
    }
    assert_true(shortest <= 100000000);
}

/* ---- two threads ---------------------------------------------------------------------------- */

typedef struct sharing {
    ffload_loader *loader;
    atomic_int given, refused, others;
} sharing;

static void *take_all(void *context) {
    sharing *all = context;
    for (;;) {
        ffload_batch *batch;
        ffload_error why;
        const int status = ffload_loader_next(all->loader, &batch, &why);
        if (status == FFLOAD_USAGE && strstr(why.message, "two threads"))
            all->refused++;
        else if (status != FFLOAD_OK)
            all->others++;
        else if (batch)
            all->given++;
        else
            return NULL;
        ffload_batch_release(&batch);
    }
}

/* Two at once: one is served, the other refused, and together they get every batch once. */
static void two_threads(void **state) {
    (void)state;
    set_spec set;
    uint64_t hash[EPOCH];
    ffload_dataset *dataset = known_set(&set, hash);
    sharing all = {.loader = load(dataset, "batch_size 16 epochs 100 workers 1")};
    pthread_t thread[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, take_all, &all), 0);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    assert_int_equal(all.given, 100 * EPOCH);
    assert_int_equal(all.others, 0);
    ffload_loader_destroy(&all.loader);
    ffload_dataset_close(&dataset);
    set_remove(&set);
}

int main(void) {
    /* This one comes first: cmocka installs its SIGBUS handler before every test, and the guard
     * keeps the one that it found when it was first used. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_data),      cmocka_unit_test(seeks),
        cmocka_unit_test(seeks_anywhere),   cmocka_unit_test(resumed),
        cmocka_unit_test(between_cuts),     cmocka_unit_test(described),
        cmocka_unit_test(refused),          cmocka_unit_test(interrupted),
        cmocka_unit_test(interrupted_soon), cmocka_unit_test(two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
