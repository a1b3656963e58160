/* Calls of the library in tests: public functions take an ffload_error. The call passes `error`. */
#ifndef FF_TESTS_LIBRARY_CASE_H
#define FF_TESTS_LIBRARY_CASE_H

#include "loader/host/loader.h"
#include "tests/unit/format_set.h"

#include <ffload/ffload.h>
#include <sys/wait.h>

#define assert_did(call)                                                                           \
    do {                                                                                           \
        ffload_error error_ = {0}, *error = &error_;                                               \
        if ((call) != FFLOAD_OK) fail_msg("%s: %s", #call, error->message);                        \
    } while (0)

/* A call that must be refused with this status and a message that has `part`. */
#define assert_refused(call, wanted, part)                                                         \
    do {                                                                                           \
        ffload_error error_ = {0}, *error = &error_;                                               \
        const int status_ = (call);                                                                \
        if (status_ != (wanted) || error->status != (wanted) || !strstr(error->message, (part)))   \
            fail_msg("%s: status %d, '%s'; wanted %d, '%s'", #call, status_, error->message,       \
                     (int)(wanted), part);                                                         \
    } while (0)

/* Options from "name value name value ..", blanks between. */
static inline ffload_options *options_from(const char *words) {
    ffload_options *options;
    char text[512], *rest = NULL;
    snprintf(text, sizeof text, "%s", words);
    assert_did(ffload_options_create(&options, error));
    for (char *name = strtok_r(text, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
        assert_did(ffload_options_set(options, name, strtok_r(NULL, " ", &rest), error));
    return options;
}

static inline ffload_dataset *open_library(const char *folder) {
    ffload_dataset *dataset;
    assert_did(ffload_dataset_open(&dataset, folder, NULL, error));
    return dataset;
}

static inline ffload_loader *load(ffload_dataset *dataset, const char *words) {
    ffload_options *options = options_from(words);
    ffload_loader *loader;
    assert_did(ffload_loader_create(&loader, dataset, options, error));
    ffload_options_destroy(&options);
    return loader;
}

static inline ffload_batch *next(ffload_loader *loader) {
    ffload_batch *batch;
    assert_did(ffload_loader_next(loader, &batch, error));
    return batch;
}

static inline const DLTensor *tensor_of(const ffload_batch *batch, const char *name) {
    const DLTensor *tensor;
    assert_did(ffload_batch_tensor(batch, name, &tensor, error));
    return tensor;
}

static inline size_t bytes_of(const DLTensor *tensor) {
    size_t bytes = tensor->dtype.bits / 8;
    for (int i = 0; i < tensor->ndim; i++) bytes *= (size_t)tensor->shape[i];
    return bytes;
}

/* A hash of everything in a batch. */
static inline uint64_t hash_of(const ffload_batch *batch) {
    static const char *const names[] = {"images", "labels", "weight", "samples"};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < 4; i++) {
        const DLTensor *tensor = tensor_of(batch, names[i]);
        for (size_t k = 0; k < bytes_of(tensor); k++)
            hash = (hash ^ ((const uint8_t *)tensor->data)[k]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

enum { EPOCH = 15 };

/* A set of 15 batches of 16, and what is in them. */
static inline ffload_dataset *known_set(set_spec *set, uint64_t hash[EPOCH]) {
    *set = plain_set(EPOCH * 16);
    assert_ok(set_make(set, error));
    ffload_dataset *dataset = open_library(set->folder);
    ffload_loader *loader = load(dataset, "batch_size 16 workers 0");
    for (int i = 0; i < EPOCH; i++) {
        ffload_batch *batch = next(loader);
        hash[i] = hash_of(batch);
        ffload_batch_release(&batch);
    }
    ffload_loader_destroy(&loader);
    return dataset;
}

static inline ffload_stats stats_of(ffload_loader *loader) {
    ffload_stats stats;
    assert_did(ffload_loader_stats(loader, &stats, error));
    return stats;
}

/* Runs a test's body in a child; fails if it does not exit with 0 within a minute. */
static inline void in_child(void (*body)(void *context), void *context) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        alarm(60);
        body(context);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

#endif
