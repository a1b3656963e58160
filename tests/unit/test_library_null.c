/* Every function of the public library with each of its pointers NULL: FFLOAD_USAGE with the names
 * of the function and the argument, results that are NULL, and what continues as if nothing was.
 * The header declares which may be NULL. tests/build/test_library.sh checks that none is left out.
 */
#include "tests/unit/library_case.h"

static set_spec set;
static ffload_dataset *dataset;
static ffload_options *options;
static ffload_loader *loader;
static ffload_batch *batch;
static void *const dirty = &set; /* what a result was before */

/* A call, and the same without an ffload_error: refused, with the argument's name. */
#define refused(function, argument, ...)                                                           \
    do {                                                                                           \
        assert_refused(function(__VA_ARGS__, error), FFLOAD_USAGE, #function ": " argument);       \
        assert_int_equal(function(__VA_ARGS__, NULL), FFLOAD_USAGE);                               \
    } while (0)

/* The same of a call that returns a pointer by `result`, which it sets to NULL. */
#define refused_result(result, function, argument, ...)                                            \
    do {                                                                                           \
        (result) = dirty;                                                                          \
        refused(function, argument, __VA_ARGS__);                                                  \
        assert_null(result);                                                                       \
    } while (0)

static void of_options(void **state) {
    (void)state;
    const char *json;
    assert_refused(ffload_options_create(NULL, error), FFLOAD_USAGE,
                   "ffload_options_create: options is NULL");
    ffload_options_destroy(NULL);
    refused(ffload_options_set, "options is NULL", NULL, "seed", "1");
    refused(ffload_options_set, "name is NULL", options, NULL, "1");
    refused(ffload_options_set, "value is NULL", options, "seed", NULL);
    refused_result(json, ffload_options_describe, "options is NULL", NULL, &json);
    refused(ffload_options_describe, "json is NULL", options, NULL);
    refused(ffload_options_set_check, "options is NULL", NULL, NULL, NULL);
    assert_did(ffload_options_set_check(options, NULL, NULL, error));
    refused(ffload_options_set_indices, "options is NULL", NULL, NULL, 0);
    assert_did(ffload_options_set_indices(options, NULL, 3, error));
    refused(ffload_options_set_weights, "options is NULL", NULL, NULL, 0);
    assert_did(ffload_options_set_weights(options, NULL, 3, error));
    assert_non_null(ffload_version());
}

static void of_datasets(void **state) {
    (void)state;
    ffload_dataset *other;
    DLManagedTensorVersioned *tensor;
    const char *json;
    char key[FFLOAD_KEY_MOST];
    size_t bytes = 7;
    refused(ffload_dataset_open, "dataset is NULL", NULL, set.folder, NULL);
    refused_result(other, ffload_dataset_open, "path is NULL", &other, NULL, NULL);
    const char *const none[] = {set.folder, NULL};
    refused(ffload_dataset_open_several, "dataset is NULL", NULL, none, 1, NULL);
    refused_result(other, ffload_dataset_open_several, "paths is NULL", &other, NULL, 1, NULL);
    other = dirty;
    assert_refused(ffload_dataset_open_several(&other, none, 2, NULL, error), FFLOAD_USAGE,
                   "paths[1] is NULL");
    assert_null(other);
    assert_refused(ffload_dataset_open_several(&other, none, 0, NULL, error), FFLOAD_USAGE,
                   "0 sets");
    ffload_dataset_close(NULL);
    assert_int_equal(ffload_dataset_count(NULL), 0);
    refused_result(json, ffload_dataset_describe, "dataset is NULL", NULL, &json);
    refused(ffload_dataset_describe, "json is NULL", dataset, NULL);
    refused_result(tensor, ffload_dataset_sample, "dataset is NULL", NULL, 0, &tensor);
    refused(ffload_dataset_sample, "tensor is NULL", dataset, 0, NULL);
    refused_result(tensor, ffload_dataset_view, "dataset is NULL", NULL, 0, &tensor);
    refused(ffload_dataset_view, "tensor is NULL", dataset, 0, NULL);
    refused_result(tensor, ffload_dataset_label, "dataset is NULL", NULL, 0, "label", &tensor);
    refused(ffload_dataset_label, "tensor is NULL", dataset, 0, "label", NULL);
    assert_did(ffload_dataset_label(dataset, 0, NULL, &tensor, error));
    tensor->deleter(tensor);
    refused_result(tensor, ffload_dataset_labels, "dataset is NULL", NULL, 0, 1, "label", &tensor);
    refused(ffload_dataset_labels, "tensor is NULL", dataset, 0, 1, "label", NULL);
    assert_did(ffload_dataset_labels(dataset, 0, 1, NULL, &tensor, error));
    tensor->deleter(tensor);
    refused(ffload_dataset_key, "dataset is NULL", NULL, 0, key, &bytes);
    assert_int_equal(bytes, 0);
    refused(ffload_dataset_key, "key is NULL", dataset, 0, NULL, &bytes);
    refused(ffload_dataset_key, "bytes is NULL", dataset, 0, key, NULL);
    refused(ffload_dataset_verify, "dataset is NULL", NULL, 1, NULL, NULL);
    assert_did(ffload_dataset_verify(dataset, 1, NULL, NULL, error));
}

static void of_loaders(void **state) {
    (void)state;
    ffload_loader *other;
    ffload_batch *none;
    ffload_stats stats;
    const char *json;
    refused(ffload_loader_create, "loader is NULL", NULL, dataset, NULL);
    refused_result(other, ffload_loader_create, "dataset is NULL", &other, NULL, options);
    assert_did(ffload_loader_create(&other, dataset, NULL, error));
    ffload_loader_destroy(&other);
    ffload_loader_destroy(NULL);
    refused_result(json, ffload_loader_describe, "loader is NULL", NULL, &json);
    refused(ffload_loader_describe, "json is NULL", loader, NULL);
    assert_int_equal(ffload_loader_length(NULL), 0);
    refused_result(none, ffload_loader_next, "loader is NULL", NULL, &none);
    refused(ffload_loader_next, "batch is NULL", loader, NULL);
    ffload_loader_interrupt(NULL);
    refused(ffload_loader_seek, "loader is NULL", NULL, 0, 0);
    refused_result(json, ffload_loader_state, "loader is NULL", NULL, &json);
    refused(ffload_loader_state, "json is NULL", loader, NULL);
    refused(ffload_loader_restore, "loader is NULL", NULL, "{}");
    refused(ffload_loader_restore, "json is NULL", loader, NULL);
    refused(ffload_loader_stats, "loader is NULL", NULL, &stats);
    refused(ffload_loader_stats, "stats is NULL", loader, NULL);
}

static void of_batches(void **state) {
    (void)state;
    const DLTensor *tensor;
    DLManagedTensorVersioned *managed;
    DLManagedTensor *old;
    ffload_batch_release(NULL);
    assert_null(ffload_batch_info_of(NULL));
    refused_result(tensor, ffload_batch_tensor, "batch is NULL", NULL, "images", &tensor);
    refused_result(tensor, ffload_batch_tensor, "name is NULL", batch, NULL, &tensor);
    refused(ffload_batch_tensor, "tensor is NULL", batch, "images", NULL);
    refused_result(managed, ffload_batch_export, "batch is NULL", NULL, "images", &managed);
    refused_result(managed, ffload_batch_export, "name is NULL", batch, NULL, &managed);
    refused(ffload_batch_export, "tensor is NULL", batch, "images", NULL);
    refused_result(old, ffload_unversioned, "tensor is NULL", NULL, &old);
    managed = NULL;
    old = dirty;
    assert_refused(ffload_unversioned(&managed, &old, error), FFLOAD_USAGE, "*tensor is NULL");
    assert_null(old);
    assert_did(ffload_batch_export(batch, "images", &managed, error));
    refused(ffload_unversioned, "old is NULL", &managed, NULL);
    managed->deleter(managed);
    refused(ffload_batch_use_on, "batch is NULL", NULL, NULL);
}

/* Those of a GPU: what is NULL is found before the loader turns out to be on the CPU. */
static void of_gpus(void **state) {
    (void)state;
    const char *const names[] = {"images"};
    const DLTensor *const to[] = {NULL};
    const ffload_batch_info *info;
    ffload_batch *none;
    refused_result(info, ffload_loader_enqueue_into, "loader is NULL", NULL, names, to, 1, NULL,
                   &info);
    refused_result(info, ffload_loader_enqueue_into, "names is NULL", loader, NULL, to, 1, NULL,
                   &info);
    refused_result(info, ffload_loader_enqueue_into, "to is NULL", loader, names, NULL, 1, NULL,
                   &info);
    refused(ffload_loader_enqueue_into, "info is NULL", loader, names, to, 1, NULL, NULL);
    refused_result(info, ffload_loader_begin, "loader is NULL", NULL, NULL, &info);
    refused(ffload_loader_begin, "info is NULL", loader, NULL, NULL);
    refused(ffload_loader_write, "loader is NULL", NULL, names, to, 1, NULL);
    refused(ffload_loader_write, "names is NULL", loader, NULL, to, 1, NULL);
    refused(ffload_loader_write, "to is NULL", loader, names, NULL, 1, NULL);
    refused(ffload_loader_end, "loader is NULL", NULL, NULL);
    refused_result(none, ffload_loader_next_on, "loader is NULL", NULL, NULL, &none);
    refused(ffload_loader_next_on, "batch is NULL", loader, NULL, NULL);
}

static int open_all(void **state) {
    (void)state;
    set = plain_set(40);
    assert_ok(set_make(&set, error));
    dataset = open_library(set.folder);
    assert_did(ffload_options_create(&options, error));
    loader = load(dataset, "batch_size 8 workers 0");
    batch = next(loader);
    return 0;
}

/* All continues: the next batch is the one that it would have been. */
static int close_all(void **state) {
    (void)state;
    ffload_batch *second = next(loader);
    assert_int_equal(ffload_batch_info_of(second)->position, 8);
    ffload_batch_release(&second);
    ffload_batch_release(&batch);
    ffload_loader_destroy(&loader);
    ffload_options_destroy(&options);
    ffload_dataset_close(&dataset);
    set_remove(&set);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_options), cmocka_unit_test(of_datasets),
                                       cmocka_unit_test(of_loaders), cmocka_unit_test(of_batches),
                                       cmocka_unit_test(of_gpus)};
    return cmocka_run_group_tests(tests, open_all, close_all);
}
