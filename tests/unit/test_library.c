/* The public library: options by name, datasets, tensors and their owners, and what a child of a
 * process may do. */
#include "tests/unit/library_case.h"

#include <jansson.h>
#include <pthread.h>

/* ---- options -------------------------------------------------------------------------------- */

static void options_by_name(void **state) {
    (void)state;
    ffload_options *options;
    assert_did(ffload_options_create(&options, error));
    static const char *const good[][2] = {
        {"batch_size", "1"},
        {"batch_size", "16777216"},
        {"augment", "crop=4,flip"},
        {"augment", "none"},
        {"size", "32x48"},
        {"dtype", "bf16"},
        {"layout", "contiguous"},
        {"label", "fine,coarse"},
        {"last_batch", "pad"},
        {"order", "block"},
        {"block", "auto"},
        {"group", "16"},
        {"seed", "9007199254740992"},
        {"epoch", "4294967295"},
        {"position", "7"},
        {"epochs", "0"},
        {"rank", "0"},
        {"world", "8"},
        {"cuts", "2"},
        {"workers", "auto"},
        {"workers", "0"},
        {"prefetch", "3"},
        {"verify", "always"},
        {"device", "cuda:1"},
        {"device", "cpu"},
        {"placement", "resident"},
        {"reserve", "100"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_did(ffload_options_set(options, good[i][0], good[i][1], error));
    static const char *const bad[][3] = {
        {"batchsize", "1", "unknown option batchsize; did you mean batch_size?"},
        {"colour", "1", "unknown option colour; there are batch_size, augment, size"},
        {"help", "", "unknown option help; there are"},
        {"batch_size", "0", "batch_size: 0 is out of range; it must be from 1 to 16777216"},
        {"batch_size", "64k", "batch_size: '64k' is not a whole number"},
        {"workers", "many", "workers: 'many' is not a whole number or auto"},
        {"order", "randon",
         "order: 'randon' is not one of random|block|sequential|node-block; did you mean random?"},
        {"augment", "crop=4,flop", "augmentation 'flop' is not known (did you mean flip?)"},
        {"augment", "rrc=8,crop", "exclude each other"},
        {"size", "32", "size: '32' is not HEIGHTxWIDTH"},
        {"size", "0x4", "size: '0x4' is not HEIGHTxWIDTH"},
        {"size", "4x4x4", "size: '4x4x4' is not HEIGHTxWIDTH"},
        {"size", "", "size: '' is not HEIGHTxWIDTH"},
        {"device", "gpu", "device: 'gpu' is not one of cpu|cuda|cuda:NUMBER"},
        {"device", "cpu:", "is not one of"},
        {"device", "cuda:", "is not one of"},
        {"device", "cuda:1x", "is not one of"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(ffload_options_set(options, bad[i][0], bad[i][1], error), FFLOAD_USAGE,
                       bad[i][2]);
    assert_did(ffload_options_set(options, "device", "cpu:0", error));
    assert_int_equal(ffload_options_set(options, "rnak", "1", NULL), FFLOAD_USAGE);
    ffload_options_destroy(&options);
    assert_null(options);
    ffload_options_destroy(&options);
}

/* What the list says of an option is what setting it finds: names, words, limits, values. */
static void options_described(void **state) {
    (void)state;
    ffload_options *options = options_from("batch_size 7 order block label fine,coarse memory 2M");
    const char *text;
    assert_did(ffload_options_describe(options, &text, error));
    json_t *all = json_loads(text, 0, NULL), *one, *word;
    size_t i, k;
    assert_true(json_array_size(all) >= 26);
    json_array_foreach(all, i, one) {
        const char *name = json_string_value(json_object_get(one, "name"));
        const char *kind = json_string_value(json_object_get(one, "kind"));
        char number[32];
        json_array_foreach(json_object_get(one, "words"), k, word)
            assert_did(ffload_options_set(options, name, json_string_value(word), error));
        assert_true(!strcmp(kind, "choice") ? k >= 2 : strcmp(kind, "integer") || k <= 1);
        if (strcmp(kind, "integer") != 0 && strcmp(kind, "bytes") != 0) continue;
        const json_int_t maximum = json_integer_value(json_object_get(one, "maximum"));
        snprintf(number, sizeof number, "%lld", (long long)maximum);
        assert_did(ffload_options_set(options, name, number, error));
        strcat(number, "0");
        assert_refused(ffload_options_set(options, name, number, error), FFLOAD_USAGE, name);
    }
    static const char *const wanted[] = {
        "\"batch_size\", \"kind\": \"integer\", \"value\": 7, \"words\": null, \"minimum\": 1",
        "\"order\", \"kind\": \"choice\", \"value\": \"block\", \"words\": [\"random\", \"block\", ",
        "\"label\", \"kind\": \"text\", \"value\": \"fine,coarse\"",
        "\"augment\", \"kind\": \"text\", \"value\": null",
        "\"workers\", \"kind\": \"integer\", \"value\": \"auto\", \"words\": [\"auto\"], ",
        "\"memory\", \"kind\": \"bytes\", \"value\": 2097152"};
    char *again = json_dumps(all, JSON_ENSURE_ASCII);
    for (i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!strstr(again, wanted[i])) fail_msg("%s is not in %s", wanted[i], again);
    free(again);
    json_decref(all);
    ffload_options_destroy(&options);
}

/* ---- datasets ------------------------------------------------------------------------------- */

static void check_tensor(const DLTensor *tensor, const void *wanted, size_t bytes, int code,
                         int bits) {
    assert_int_equal(bytes_of(tensor), bytes);
    assert_int_equal(tensor->dtype.code, code);
    assert_int_equal(tensor->dtype.bits, bits);
    assert_int_equal(tensor->dtype.lanes, 1);
    assert_int_equal(tensor->device.device_type, kDLCPU);
    assert_int_equal(tensor->byte_offset, 0);
    assert_memory_equal(tensor->data, wanted, bytes);
}

static void check_sample(ffload_dataset *dataset, const set_spec *set, uint64_t number) {
    DLManagedTensorVersioned *copy, *view;
    static uint8_t wanted[1 << 20];
    const size_t bytes = set_tensor(set, number, wanted);
    const int code = set->dtype == FF_BF16 ? kDLBfloat : set->dtype == FF_U8 ? kDLUInt : kDLFloat;
    const int bits = (int)ff_dtype_bytes(set->dtype) * 8;
    const int64_t height = set_height(set, number), width = set_width(set, number);
    assert_did(ffload_dataset_sample(dataset, number, &copy, error));
    assert_int_equal(copy->version.major, 1);
    assert_int_equal(copy->flags, 0);
    check_tensor(&copy->dl_tensor, wanted, bytes, code, bits);
    assert_int_equal(copy->dl_tensor.ndim, 3);
    const int64_t chw[] = {set->channels, height, width}, hwc[] = {height, width, set->channels};
    assert_memory_equal(copy->dl_tensor.shape, set->layout == FF_CHW ? chw : hwc, sizeof chw);
    assert_int_equal(copy->dl_tensor.strides[2], 1);
    assert_int_equal(copy->dl_tensor.strides[0],
                     copy->dl_tensor.shape[1] * copy->dl_tensor.shape[2]);
    memset(copy->dl_tensor.data, 0, bytes); /* the caller's own */
    copy->deleter(copy);
    if (set->zstd) {
        assert_refused(ffload_dataset_view(dataset, number, &view, error), FFLOAD_USAGE,
                       "compressed");
        assert_null(view);
        return;
    }
    assert_did(ffload_dataset_view(dataset, number, &view, error));
    assert_int_equal(view->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
    check_tensor(&view->dl_tensor, wanted, bytes, code, bits);
    view->deleter(view);
}

static void check_labels(ffload_dataset *dataset, const set_spec *set, uint64_t number) {
    DLManagedTensorVersioned *label;
    char key[FFLOAD_KEY_MOST], wanted[32];
    size_t bytes;
    const int32_t class = (int32_t)set_class(set, number);
    assert_did(ffload_dataset_label(dataset, number, NULL, &label, error));
    assert_int_equal(label->dl_tensor.ndim, 0);
    check_tensor(&label->dl_tensor, &class, sizeof class, kDLInt, 32);
    label->deleter(label);
    assert_did(ffload_dataset_key(dataset, number, key, &bytes, error));
    assert_int_equal(bytes, snprintf(wanted, sizeof wanted, "%llu", (unsigned long long)number));
    assert_memory_equal(key, wanted, bytes);
    if (set->labels != LABELS_ALL) return;
    float vector[5];
    for (int i = 0; i < 5; i++) vector[i] = (float)number + (float)i;
    assert_did(ffload_dataset_label(dataset, number, "vector", &label, error));
    assert_int_equal(label->dl_tensor.ndim, 1);
    check_tensor(&label->dl_tensor, vector, sizeof vector, kDLFloat, 32);
    label->deleter(label);
    assert_refused(ffload_dataset_label(dataset, number, "tag", &label, error), FFLOAD_USAGE,
                   "has no label field tag; it has label, vector, tags");
}

static void samples(void **state) {
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        set_spec set = plain_set(60);
        set.dtype = (const ff_dtype[]){FF_F16, FF_U8, FF_BF16, FF_F32}[kind];
        set.layout = kind == 1 ? FF_HWC : FF_CHW;
        set.zstd = kind == 2;
        set.variable = kind == 3;
        set.labels = kind ? LABELS_ALL : LABELS_CLASS;
        assert_ok(set_make(&set, error));
        ffload_dataset *dataset = open_library(set.folder);
        assert_int_equal(ffload_dataset_count(dataset), 60);
        for (uint64_t number = 0; number < 60; number++) {
            check_sample(dataset, &set, number);
            check_labels(dataset, &set, number);
        }
        DLManagedTensorVersioned *none;
        assert_refused(ffload_dataset_sample(dataset, 60, &none, error), FFLOAD_USAGE,
                       "sample 60 does not exist; there are 60");
        assert_null(none);
        ffload_dataset_close(&dataset);
        assert_null(dataset);
        set_remove(&set);
    }
}

/* What was taken of a dataset is valid after it was closed; all of it can be the older struct. */
static void views_keep_it_open(void **state) {
    (void)state;
    set_spec set = plain_set(20);
    static uint8_t wanted[1 << 16];
    assert_ok(set_make(&set, error));
    ffload_dataset *dataset = open_library(set.folder);
    DLManagedTensorVersioned *view, *copy;
    DLManagedTensor *old;
    assert_did(ffload_dataset_view(dataset, 3, &view, error));
    assert_did(ffload_dataset_sample(dataset, 3, &copy, error));
    ffload_dataset_close(&dataset);
    assert_did(ffload_unversioned(&copy, &old, error));
    assert_null(copy);
    const size_t bytes = set_tensor(&set, 3, wanted);
    assert_memory_equal(view->dl_tensor.data, wanted, bytes);
    assert_memory_equal(old->dl_tensor.data, wanted, bytes);
    assert_int_equal(old->dl_tensor.shape[2], 32);
    view->deleter(view);
    old->deleter(old);
    set_remove(&set);
}

static void description(void **state) {
    (void)state;
    set_spec set = plain_set(30);
    set.labels = LABELS_ALL;
    assert_ok(set_make(&set, error));
    ffload_dataset *dataset = open_library(set.folder);
    const char *text, *again;
    assert_did(ffload_dataset_describe(dataset, &text, error));
    assert_did(ffload_dataset_describe(dataset, &again, error));
    assert_ptr_equal(text, again);
    json_t *json = json_loads(text, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(json, "samples")), 30);
    assert_string_equal(json_string_value(json_object_get(json, "dtype")), "f16");
    const json_t *field = json_array_get(json_object_get(json, "fields"), 2);
    assert_string_equal(json_string_value(json_object_get(field, "name")), "tags");
    assert_string_equal(json_string_value(json_object_get(field, "kind")), "multi-hot");
    assert_int_equal(json_array_size(json_object_get(json, "shape")), 3);
    assert_int_equal(
        json_array_size(json_object_get(json_object_get(json, "normalize"), "mean_bits")), 3);
    assert_int_equal(
        strlen(json_string_value(json_object_get(json_object_get(json, "ids"), "content"))), 32);
    json_decref(json);
    ffload_dataset_close(&dataset);
    set_remove(&set);
}

typedef struct heard {
    int problems, stop;
    uint64_t done, total;
} heard;

static int on_progress(void *context, const char *problem, uint64_t done, uint64_t total) {
    heard *seen = context;
    seen->problems += problem != NULL;
    seen->done = done;
    seen->total = total;
    return seen->stop;
}

static void verified(void **state) {
    (void)state;
    set_spec set = plain_set(200);
    set.per_block = 10, set.per_shard = 50;
    assert_ok(set_make(&set, error));
    ffload_dataset *dataset = open_library(set.folder);
    heard seen = {0};
    assert_did(ffload_dataset_verify(dataset, 2, on_progress, &seen, error));
    assert_true(seen.total > 0 && seen.done == seen.total && !seen.problems);
    assert_did(ffload_dataset_verify(dataset, 0, NULL, NULL, error));
    seen.stop = 1;
    assert_refused(ffload_dataset_verify(dataset, 2, on_progress, &seen, error), FFLOAD_INTERRUPTED,
                   "stopped");
    char *path = join(set.folder, "shard-000001.ffs");
    FILE *file = fopen(path, "r+b");
    assert_int_equal(fseek(file, FF_HEADER_BYTES + 5, SEEK_SET), 0);
    fputc(fgetc(file) ^ 1, file);
    fclose(file);
    seen = (heard){0};
    assert_refused(ffload_dataset_verify(dataset, 2, on_progress, &seen, error), FFLOAD_BAD_DATA,
                   "shard-000001.ffs");
    assert_int_equal(seen.problems, 1);
    ffload_dataset_close(&dataset);
    /* The first sample of that shard, by the option verify. */
    static const char *const verify[] = {"verify first", "verify always", "verify off"};
    for (int i = 0; i < 3; i++) {
        ffload_options *options = options_from(verify[i]);
        DLManagedTensorVersioned *sample;
        assert_did(ffload_dataset_open(&dataset, set.folder, options, error));
        ffload_options_destroy(&options);
        if (i < 2)
            assert_refused(ffload_dataset_sample(dataset, 50, &sample, error), FFLOAD_BAD_DATA,
                           "sample 50 has checksum");
        else
            assert_did(ffload_dataset_sample(dataset, 50, &sample, error));
        if (sample) sample->deleter(sample);
        ffload_dataset_close(&dataset);
    }
    free(path);
    ffload_dataset_close(&dataset);
    set_remove(&set);
}

static void no_sets(void **state) {
    (void)state;
    ffload_dataset *dataset;
    char *folder = new_folder();
    assert_refused(ffload_dataset_open(&dataset, folder, NULL, error), FFLOAD_BAD_DATA, folder);
    assert_null(dataset);
    assert_int_not_equal(ffload_dataset_open(&dataset, "/nowhere/at/all", NULL, NULL), FFLOAD_OK);
    assert_null(dataset);
    ffload_dataset_close(&dataset);
    remove_folder(folder);
    assert_true(strchr(ffload_version(), '.') != NULL);
}

/* ---- processes and threads ------------------------------------------------------------------ */

typedef struct inherited {
    ffload_dataset *dataset;
    ffload_loader *loader;
    ffload_batch *batch;
    DLManagedTensorVersioned *view;
    const char *folder;
    uint64_t hash;
} inherited;

/* ThreadSanitizer ends a child that starts threads. */
#ifdef __SANITIZE_THREAD__
#define OWN_WORKERS "workers 0"
#else
#define OWN_WORKERS "workers 2"
#endif

static void use_inherited(void *context) {
    inherited *from = context;
    DLManagedTensorVersioned *none;
    ffload_batch *batch;
    const char *text;
    assert_refused(ffload_dataset_sample(from->dataset, 0, &none, error), FFLOAD_USAGE, "forked");
    assert_refused(ffload_dataset_describe(from->dataset, &text, error), FFLOAD_USAGE, "forked");
    assert_refused(ffload_loader_next(from->loader, &batch, error), FFLOAD_USAGE,
                   "open it again here");
    assert_refused(ffload_loader_seek(from->loader, 0, 0, error), FFLOAD_USAGE, "forked");
    assert_int_equal(hash_of(from->batch), from->hash);
    ffload_dataset *own = open_library(from->folder);
    ffload_loader *loader = load(own, OWN_WORKERS " batch_size 16 seed 3");
    batch = next(loader);
    assert_int_equal(hash_of(batch), from->hash);
    ffload_batch_release(&batch);
    ffload_loader_destroy(&loader);
    ffload_dataset_close(&own);
    ffload_batch_release(&from->batch);
    ffload_loader_destroy(&from->loader);
    from->view->deleter(from->view);
    ffload_dataset_close(&from->dataset);
    assert_null(from->loader);
}

static void forked(void **state) {
    (void)state;
    set_spec set = plain_set(400);
    assert_ok(set_make(&set, error));
    ffload_dataset *dataset = open_library(set.folder);
    for (int i = 0; i < 20; i++) {
        ffload_loader *loader = load(dataset, "batch_size 16 workers 2 seed 3");
        ffload_batch *batch = next(loader);
        inherited all = {.dataset = dataset,
                         .loader = loader,
                         .batch = batch,
                         .folder = set.folder,
                         .hash = hash_of(batch)};
        assert_did(ffload_dataset_view(dataset, 1, &all.view, error));
        in_child(use_inherited, &all);
        assert_int_equal(hash_of(batch), all.hash);
        ffload_batch_release(&batch);
        batch = next(loader); /* the parent's continues */
        ffload_batch_release(&batch);
        ffload_loader_destroy(&loader);
        all.view->deleter(all.view);
    }
    ffload_dataset_close(&dataset);
    set_remove(&set);
}

static void *read_samples(void *context) {
    ffload_dataset *dataset = context;
    for (uint64_t number = 0; number < ffload_dataset_count(dataset); number++) {
        DLManagedTensorVersioned *sample, *label;
        assert_did(ffload_dataset_sample(dataset, number, &sample, error));
        assert_did(ffload_dataset_label(dataset, number, NULL, &label, error));
        sample->deleter(sample);
        label->deleter(label);
    }
    return NULL;
}

static void many_threads_read(void **state) {
    (void)state;
    set_spec set = plain_set(300);
    set.zstd = true;
    assert_ok(set_make(&set, error));
    ffload_dataset *dataset = open_library(set.folder);
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, read_samples, dataset), 0);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    ffload_dataset_close(&dataset);
    set_remove(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_by_name),   cmocka_unit_test(options_described),
        cmocka_unit_test(samples),           cmocka_unit_test(views_keep_it_open),
        cmocka_unit_test(description),       cmocka_unit_test(verified),
        cmocka_unit_test(no_sets),           cmocka_unit_test(forked),
        cmocka_unit_test(many_threads_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
