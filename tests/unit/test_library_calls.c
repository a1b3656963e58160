/* Random calls of the public library for some seconds (CALLS_SECONDS, default 3; CALLS_SEED, else
 * the same calls in every run): datasets and loaders come and go, batches and tensors are kept and
 * dropped in any order, by this thread, another one, or a child. What is in each batch follows from
 * its loader's options and place, whatever was called before. */
#include "format/base/thread.h"
#include "tests/unit/dice.h"
#include "tests/unit/library_case.h"

#include <pthread.h>

enum { SAMPLES = 200, SETS = 3, LOADERS = 3, KEPT = 12, KINDS = 5, EPOCHS = 3, BATCHES_MOST = 40 };

static const char *const kinds[KINDS] = {
    "batch_size 16 augment crop=2,flip seed 5", "batch_size 32 last_batch keep order sequential",
    "batch_size 8 augment mixup world 2 rank 1", "batch_size 8 augment rrc=6,flip views 3",
    "batch_size 7 dtype f16 layout channels_last label_dtype i64"};

typedef struct in_use {
    ffload_loader *loader;
    int kind;
    bool ended;
} in_use;

typedef struct thing { /* that is kept: one of these */
    ffload_batch *batch;
    DLManagedTensorVersioned *tensor;
    DLManagedTensor *old;
    uint64_t hash; /* of the batch, or of the tensor's bytes */
} thing;

static set_spec set;
static uint64_t wanted[KINDS][EPOCHS][BATCHES_MOST];
static ffload_dataset *dataset[SETS];
static in_use loaders[LOADERS];
static thing things[KEPT];
static dice calls;

static uint64_t hash_tensor(const DLTensor *tensor) {
    uint64_t hash = 1;
    const size_t bytes = bytes_of(tensor);
    for (size_t i = 0; i < bytes; i++) hash = hash * 31 + ((const uint8_t *)tensor->data)[i];
    return hash;
}

/* What each kind of loader gives. */
static void learn(void) {
    ffload_dataset *own = open_library(set.folder);
    for (int kind = 0; kind < KINDS; kind++) {
        char words[128];
        snprintf(words, sizeof words, "%s epochs %d", kinds[kind], EPOCHS);
        ffload_loader *loader = load(own, words);
        for (ffload_batch *batch; (batch = next(loader)) != NULL; ffload_batch_release(&batch)) {
            const ffload_batch_info *info = ffload_batch_info_of(batch);
            wanted[kind][info->epoch][info->index] = hash_of(batch);
        }
        ffload_loader_destroy(&loader);
    }
    ffload_dataset_close(&own);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static void drop(thing *one, bool checks) {
    if (checks && one->batch) assert_int_equal(hash_of(one->batch), one->hash);
    if (checks && one->tensor) assert_int_equal(hash_tensor(&one->tensor->dl_tensor), one->hash);
    if (checks && one->old) assert_int_equal(hash_tensor(&one->old->dl_tensor), one->hash);
    ffload_batch_release(&one->batch);
    if (one->tensor) one->tensor->deleter(one->tensor);
    if (one->old) one->old->deleter(one->old);
    *one = (thing){0};
}

static void *drop_thread(void *one) {
    drop(one, true);
    return NULL;
}

static thing *free_place(void) {
    thing *one = &things[roll(&calls, KEPT)];
    drop(one, true);
    return one;
}

static void keep_sample(ffload_dataset *from) {
    thing *one = free_place();
    const uint64_t number = roll(&calls, SAMPLES + 2);
    const int status = roll(&calls, 2) ? ffload_dataset_sample(from, number, &one->tensor, NULL)
                                       : ffload_dataset_view(from, number, &one->tensor, NULL);
    assert_int_equal(status, number < SAMPLES ? FFLOAD_OK : FFLOAD_USAGE);
    if (one->tensor) one->hash = hash_tensor(&one->tensor->dl_tensor);
}

static void use_dataset(void) {
    ffload_dataset **one = &dataset[roll(&calls, SETS)];
    const char *text;
    if (!*one) *one = open_library(set.folder);
    switch (roll(&calls, 4)) {
    case 0: ffload_dataset_close(one); break;
    case 1: assert_did(ffload_dataset_describe(*one, &text, error)); break;
    default: keep_sample(*one);
    }
}

static void create(in_use *one) {
    char words[256];
    ffload_dataset **from = &dataset[roll(&calls, SETS)];
    if (!*from) *from = open_library(set.folder);
    one->kind = (int)roll(&calls, KINDS);
    one->ended = false;
    snprintf(words, sizeof words, "%s epochs %u workers %u prefetch %u", kinds[one->kind], EPOCHS,
             roll(&calls, 4), 1 + roll(&calls, 4));
    one->loader = load(*from, words);
}

/* Keeps the batch, or a tensor of it, or nothing. */
static void keep_batch(ffload_batch *batch, uint64_t hash) {
    const char *name = roll(&calls, 2) ? "images" : "labels";
    thing *one = roll(&calls, 4) ? free_place() : NULL;
    if (one && roll(&calls, 2)) {
        assert_did(ffload_batch_export(batch, name, &one->tensor, error));
        one->hash = hash_tensor(&one->tensor->dl_tensor);
        if (roll(&calls, 2)) assert_did(ffload_unversioned(&one->tensor, &one->old, error));
    } else if (one) {
        one->batch = batch;
        one->hash = hash;
        return;
    }
    ffload_batch_release(&batch);
}

static void take(in_use *one) {
    ffload_batch *batch;
    ffload_error why;
    const int status = ffload_loader_next(one->loader, &batch, &why);
    if (status == FFLOAD_INTERRUPTED) return;
    if (status != FFLOAD_OK) fail_msg("%s", why.message);
    one->ended = !batch;
    if (!batch) return;
    const ffload_batch_info *info = ffload_batch_info_of(batch);
    const uint64_t hash = hash_of(batch);
    if (info->epoch < EPOCHS) assert_int_equal(hash, wanted[one->kind][info->epoch][info->index]);
    keep_batch(batch, hash);
}

static void move(in_use *one) {
    static const uint64_t size[KINDS] = {16, 32, 8, 8, 7};
    const char *text;
    ffload_loader *other = loaders[roll(&calls, LOADERS)].loader;
    if (roll(&calls, 2)) {
        const uint64_t position = size[one->kind] * roll(&calls, SAMPLES / 32);
        assert_did(ffload_loader_seek(one->loader, roll(&calls, EPOCHS), position, error));
    } else if (other && ffload_loader_state(other, &text, NULL) == FFLOAD_OK) {
        const int status = ffload_loader_restore(one->loader, text, NULL);
        assert_true(status == FFLOAD_OK || status == FFLOAD_USAGE);
    }
}

static void use_loader(void) {
    in_use *one = &loaders[roll(&calls, LOADERS)];
    const char *text;
    if (!one->loader) create(one);
    switch (roll(&calls, 24)) {
    case 0: ffload_loader_destroy(&one->loader); break;
    case 1: ffload_loader_interrupt(one->loader); break;
    case 2: move(one); break;
    case 3: assert_did(ffload_loader_describe(one->loader, &text, error)); break;
    default:
        if (one->ended)
            move(one);
        else
            take(one);
    }
}

/* Ends everything in a child, in any order. */
static void end_inherited(void *context) {
    (void)context;
    for (int i = 0; i < 40; i++) {
        ffload_batch *none;
        in_use *one = &loaders[roll(&calls, LOADERS)];
        if (one->loader)
            assert_int_equal(ffload_loader_next(one->loader, &none, NULL), FFLOAD_USAGE);
        if (roll(&calls, 2)) ffload_loader_destroy(&one->loader);
        drop(&things[roll(&calls, KEPT)], true);
        ffload_dataset_close(&dataset[roll(&calls, SETS)]);
    }
}

static void call(void) {
    pthread_t thread;
    switch (roll(&calls, 200)) {
    case 0: in_child(end_inherited, NULL); break;
    case 1:
    case 2:
    case 3:
        assert_int_equal(pthread_create(&thread, NULL, drop_thread, &things[roll(&calls, KEPT)]),
                         0);
        pthread_join(thread, NULL);
        break;
    default:
        if (roll(&calls, 4))
            use_loader();
        else
            use_dataset();
    }
}

static void end_all(void) {
    for (int i = 0; i < KEPT; i++) drop(&things[i], true);
    for (int i = 0; i < LOADERS; i++) ffload_loader_destroy(&loaders[i].loader);
    for (int i = 0; i < SETS; i++) ffload_dataset_close(&dataset[i]);
}

static void random_calls(void **state) {
    (void)state;
    const char *seconds = getenv("CALLS_SECONDS"), *seed = getenv("CALLS_SEED");
    const uint64_t end = ff_now_ns() + (uint64_t)(seconds ? atoi(seconds) : 3) * 1000000000;
    set = plain_set(SAMPLES);
    set.height = set.width = 12;
    assert_ok(set_make(&set, error));
    learn();
    calls = (dice){.seed = seed ? strtoull(seed, NULL, 10) : 1};
    while (ff_now_ns() < end) call();
    end_all();
    set_remove(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_calls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
