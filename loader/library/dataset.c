#include "loader/library/dataset.h"

#include "format/base/guard.h"
#include "format/base/memory.h"
#include "format/base/thread.h"
#include "format/reader/dataset_json.h"
#include "format/reader/verify.h"
#include "loader/library/options.h"
#include "loader/library/status.h"
#include "loader/library/tensor.h"
#include "loader/library/text.h"

#include <stdlib.h>

/* ---- opening and closing -------------------------------------------------------------------- */

static ff_status open_dataset(ffload_dataset **out, const char *const *paths, size_t count,
                              const ffload_options *options, ff_error *error) {
    ffload_dataset *dataset;
    ff_storage_options storage;
    FF_TRY(ff_library_options_storage(options, paths, count, &storage, error));
    FF_TRY(ff_alloc(&dataset, 1, sizeof *dataset, "a dataset", error));
    const ff_status status = ff_dataset_open_several(
        &dataset->inner, paths, count, ff_library_options_verify(options), &storage, error);
    if (status != FF_OK) {
        free(dataset);
        return status;
    }
    pthread_mutex_init(&dataset->mutex, NULL);
    atomic_init(&dataset->users, 1);
    dataset->process = ff_library_process();
    *out = dataset;
    return FF_OK;
}

int ffload_dataset_open(ffload_dataset **dataset, const char *path, const ffload_options *options,
                        ffload_error *error) {
    ff_error inner;
    if (dataset) *dataset = NULL;
    ff_status status = FF_LIBRARY_GIVEN(&inner, dataset, path);
    if (status == FF_OK) status = open_dataset(dataset, &path, 1, options, &inner);
    return ff_library_end(status, &inner, error);
}

int ffload_dataset_open_several(ffload_dataset **dataset, const char *const *paths, size_t count,
                                const ffload_options *options, ffload_error *error) {
    ff_error inner;
    if (dataset) *dataset = NULL;
    ff_status status = FF_LIBRARY_GIVEN(&inner, dataset, paths);
    for (size_t i = 0; i < count && status == FF_OK; i++)
        if (!paths[i]) status = ff_fail(&inner, FF_USAGE, "paths[%zu] is NULL", i);
    if (status == FF_OK) status = open_dataset(dataset, paths, count, options, &inner);
    return ff_library_end(status, &inner, error);
}

void ff_library_dataset_retain(ffload_dataset *dataset) {
    atomic_fetch_add(&dataset->users, 1);
}

/* Also called in a child of the process that opened it: nothing here waits for a lock. */
void ff_library_dataset_release(ffload_dataset *dataset) {
    if (atomic_fetch_sub(&dataset->users, 1) != 1) return;
    ff_reader_close(&dataset->reader);
    ff_dataset_close(&dataset->inner);
    free(dataset->json);
    if (dataset->process == ff_library_process()) pthread_mutex_destroy(&dataset->mutex);
    free(dataset);
}

void ffload_dataset_close(ffload_dataset **dataset) {
    if (!dataset) return;
    if (*dataset) ff_library_dataset_release(*dataset);
    *dataset = NULL;
}

/* ---- facts ---------------------------------------------------------------------------------- */

uint64_t ffload_dataset_count(const ffload_dataset *dataset) {
    return dataset ? ff_dataset_count(dataset->inner) : 0;
}

static ff_status check_process(const ffload_dataset *dataset, ff_error *error) {
    return ff_library_check_process(dataset->process, ff_dataset_path(dataset->inner), error);
}

static ff_status describe(ffload_dataset *dataset, const char **out, ff_error *error) {
    json_t *json;
    FF_TRY(check_process(dataset, error));
    pthread_mutex_lock(&dataset->mutex);
    ff_status status = FF_OK;
    *out = dataset->json;
    if (!*out && (status = ff_dataset_json(&json, dataset->inner, false, error)) == FF_OK)
        status = ff_library_keep_text(&dataset->json, json, out, error);
    pthread_mutex_unlock(&dataset->mutex);
    return status;
}

int ffload_dataset_describe(ffload_dataset *dataset, const char **json, ffload_error *error) {
    ff_error inner;
    if (json) *json = NULL;
    ff_status status = FF_LIBRARY_GIVEN(&inner, dataset, json);
    if (status == FF_OK) status = describe(dataset, json, &inner);
    return ff_library_end(status, &inner, error);
}

/* ---- samples -------------------------------------------------------------------------------- */

/* A reader that no other thread uses. Python and its libraries install handlers of SIGBUS between
 * two calls: PyTorch in the workers of a DataLoader, pytest at its start. */
static ff_status take_reader(ffload_dataset *dataset, ff_reader **reader, ff_error *error) {
    *reader = NULL;
    FF_TRY(check_process(dataset, error));
    ff_guard_check();
    pthread_mutex_lock(&dataset->mutex);
    *reader = dataset->reader;
    dataset->reader = NULL;
    pthread_mutex_unlock(&dataset->mutex);
    return *reader ? FF_OK : ff_reader_open(reader, dataset->inner, error);
}

static void give_reader(ffload_dataset *dataset, ff_reader *reader) {
    if (!reader) return;
    pthread_mutex_lock(&dataset->mutex);
    ff_reader *other = dataset->reader;
    dataset->reader = reader;
    pthread_mutex_unlock(&dataset->mutex);
    ff_reader_close(&other);
}

static void describe_view(const ffload_dataset *dataset, const ff_view *view, void *data,
                          ff_library_tensor *tensor) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset->inner);
    const int64_t channels = metadata->channels, height = view->height, width = view->width;
    const int64_t chw[] = {channels, height, width}, hwc[] = {height, width, channels};
    ff_library_tensor_init(tensor, data, metadata->dtype, metadata->layout == FF_CHW ? chw : hwc,
                           3);
}

static ff_status copy_sample(ffload_dataset *dataset, uint64_t number,
                             DLManagedTensorVersioned **out, ff_error *error) {
    ff_reader *reader;
    ff_view view;
    ff_library_tensor tensor;
    void *data = NULL;
    ff_status status;
    FF_TRY_DONE(take_reader(dataset, &reader, error));
    FF_TRY_DONE(ff_reader_sample(reader, number, &view, error));
    FF_TRY_DONE(ff_alloc_aligned(&data, view.tensor_bytes, 1, 0, "a sample", error));
    FF_TRY_DONE(ff_view_copy(dataset->inner, &view, data, error));
    describe_view(dataset, &view, data, &tensor);
    status = ff_library_tensor_export(out, &tensor, 0, free, data, error);
done:
    if (status != FF_OK) free(data);
    give_reader(dataset, reader);
    return status;
}

int ffload_dataset_sample(ffload_dataset *dataset, uint64_t number,
                          DLManagedTensorVersioned **tensor, ffload_error *error) {
    ff_error inner;
    if (tensor) *tensor = NULL;
    ff_status status = FF_LIBRARY_GIVEN(&inner, dataset, tensor);
    if (status == FF_OK) status = copy_sample(dataset, number, tensor, &inner);
    return ff_library_end(status, &inner, error);
}

static void end_view(void *dataset) {
    ff_library_dataset_release(dataset);
}

static ff_status view_sample(ffload_dataset *dataset, uint64_t number,
                             DLManagedTensorVersioned **out, ff_error *error) {
    ff_reader *reader;
    ff_view view;
    ff_library_tensor tensor;
    ff_status status;
    FF_TRY_DONE(take_reader(dataset, &reader, error));
    FF_TRY_DONE(ff_reader_sample(reader, number, &view, error));
    if (!view.mapped) {
        status = ff_fail(error, FF_USAGE,
                         "%s: its samples are compressed, so they cannot be viewed in place; take "
                         "a copy",
                         ff_dataset_path(dataset->inner));
        goto done;
    }
    describe_view(dataset, &view, (void *)(uintptr_t)view.tensor, &tensor);
    ff_library_dataset_retain(dataset);
    status = ff_library_tensor_export(out, &tensor, DLPACK_FLAG_BITMASK_READ_ONLY, end_view,
                                      dataset, error);
    if (status != FF_OK) ff_library_dataset_release(dataset);
done:
    give_reader(dataset, reader);
    return status;
}

int ffload_dataset_view(ffload_dataset *dataset, uint64_t number, DLManagedTensorVersioned **tensor,
                        ffload_error *error) {
    ff_error inner;
    if (tensor) *tensor = NULL;
    ff_status status = FF_LIBRARY_GIVEN(&inner, dataset, tensor);
    if (status == FF_OK) status = view_sample(dataset, number, tensor, &inner);
    return ff_library_end(status, &inner, error);
}

/* ---- labels and keys ------------------------------------------------------------------------ */

static ff_status read_label(ffload_dataset *dataset, uint64_t number, const char *name,
                            DLManagedTensorVersioned **out, ff_error *error) {
    ff_reader *reader = NULL;
    ff_library_tensor tensor;
    void *values = NULL;
    size_t index;
    int64_t class;
    ff_status status;
    FF_TRY_DONE(ff_dataset_field(dataset->inner, name, &index, error));
    const ff_field *field = &ff_dataset_metadata(dataset->inner)->field[index];
    const int64_t width = field->width;
    FF_TRY_DONE(take_reader(dataset, &reader, error));
    if (field->kind == FF_FIELD_NONE) {
        status = ff_fail(error, FF_USAGE, "%s: field %s holds no labels",
                         ff_dataset_path(dataset->inner), field->name);
        goto done;
    }
    FF_TRY_DONE(ff_alloc_aligned(&values, ff_field_bytes(field), 1, 0, "a label", error));
    if (field->kind == FF_FIELD_CLASS) /* its range is checked, too */
        FF_TRY_DONE(ff_dataset_class(dataset->inner, number, index, &class, error));
    FF_TRY_DONE(ff_reader_label(reader, number, index, values, error));
    ff_library_tensor_init(&tensor, values, field->dtype, &width,
                           field->kind == FF_FIELD_CLASS ? 0 : 1);
    status = ff_library_tensor_export(out, &tensor, 0, free, values, error);
done:
    if (status != FF_OK) free(values);
    give_reader(dataset, reader);
    return status;
}

int ffload_dataset_label(ffload_dataset *dataset, uint64_t number, const char *field,
                         DLManagedTensorVersioned **tensor, ffload_error *error) {
    ff_error inner;
    if (tensor) *tensor = NULL;
    ff_status status = FF_LIBRARY_GIVEN(&inner, dataset, tensor);
    if (status == FF_OK) status = read_label(dataset, number, field, tensor, &inner);
    return ff_library_end(status, &inner, error);
}

/* The labels of samples number first .. first + count - 1, one after another. */
static ff_status fill_labels(ffload_dataset *dataset, uint64_t first, uint64_t count, size_t index,
                             uint8_t *values, ff_error *error) {
    const ff_field *field = &ff_dataset_metadata(dataset->inner)->field[index];
    const uint64_t bytes = ff_field_bytes(field);
    ff_reader *reader = NULL;
    ff_status status = FF_OK;
    if (field->kind == FF_FIELD_CLASS) {
        int64_t *class = (int64_t *)(void *)values;
        for (uint64_t i = 0; i < count; i++)
            FF_TRY_DONE(ff_dataset_class(dataset->inner, first + i, index, &class[i], error));
        goto done;
    }
    FF_TRY_DONE(take_reader(dataset, &reader, error));
    for (uint64_t i = 0; i < count; i++)
        FF_TRY_DONE(ff_reader_label(reader, first + i, index, values + i * bytes, error));
done:
    give_reader(dataset, reader);
    return status;
}

static ff_status read_labels(ffload_dataset *dataset, uint64_t first, uint64_t count,
                             const char *name, DLManagedTensorVersioned **out, ff_error *error) {
    const uint64_t samples = ff_dataset_count(dataset->inner);
    ff_library_tensor tensor;
    void *values = NULL;
    size_t index;
    ff_status status;
    FF_TRY_DONE(check_process(dataset, error));
    FF_TRY_DONE(ff_dataset_field(dataset->inner, name, &index, error));
    const ff_field *field = &ff_dataset_metadata(dataset->inner)->field[index];
    const bool is_class = field->kind == FF_FIELD_CLASS;
    const int64_t shape[] = {(int64_t)count, field->width};
    if (field->kind == FF_FIELD_NONE) {
        status = ff_fail(error, FF_USAGE, "%s: field %s holds no labels",
                         ff_dataset_path(dataset->inner), field->name);
        goto done;
    }
    if (first > samples || count > samples - first) {
        status = ff_fail(
            error, FF_USAGE,
            "%s: it has %llu samples, but the call asks for labels from number %llu on, %llu of them",
            ff_dataset_path(dataset->inner), (unsigned long long)samples, (unsigned long long)first,
            (unsigned long long)count);
        goto done;
    }
    FF_TRY_DONE(ff_alloc_aligned(&values, count, is_class ? sizeof(int64_t) : ff_field_bytes(field),
                                 0, "labels", error));
    FF_TRY_DONE(fill_labels(dataset, first, count, index, values, error));
    ff_library_tensor_init(&tensor, values, is_class ? FF_I64 : field->dtype, shape,
                           is_class ? 1 : 2);
    status = ff_library_tensor_export(out, &tensor, 0, free, values, error);
done:
    if (status != FF_OK) free(values);
    return status;
}

int ffload_dataset_labels(ffload_dataset *dataset, uint64_t first, uint64_t count,
                          const char *field, DLManagedTensorVersioned **tensor,
                          ffload_error *error) {
    ff_error inner;
    if (tensor) *tensor = NULL;
    ff_status status = FF_LIBRARY_GIVEN(&inner, dataset, tensor);
    if (status == FF_OK) status = read_labels(dataset, first, count, field, tensor, &inner);
    return ff_library_end(status, &inner, error);
}

_Static_assert(FFLOAD_KEY_MOST == FF_KEY_LIMIT_BYTES, "the longest key");

static ff_status read_key(const ffload_dataset *dataset, uint64_t number, char *key, size_t *bytes,
                          ff_error *error) {
    FF_TRY(check_process(dataset, error));
    return ff_dataset_key(dataset->inner, number, key, bytes, error);
}

int ffload_dataset_key(ffload_dataset *dataset, uint64_t number, char *key, size_t *bytes,
                       ffload_error *error) {
    ff_error inner;
    if (bytes) *bytes = 0;
    ff_status status = FF_LIBRARY_GIVEN(&inner, dataset, key, bytes);
    if (status == FF_OK) status = read_key(dataset, number, key, bytes, &inner);
    return ff_library_end(status, &inner, error);
}

/* ---- verifying ------------------------------------------------------------------------------ */

typedef struct listener {
    ffload_progress *progress;
    void *context;
    uint64_t before, all; /* bytes of the sets before this one, and of all */
} listener;

static bool on_report(void *context, const char *message, uint64_t done, uint64_t total) {
    const listener *heard = context;
    (void)total;
    return !heard->progress ||
           heard->progress(heard->context, message, heard->before + done, heard->all) == 0;
}

/* What ff_verify_split counts. */
static ff_status count_bytes(const ff_dataset *set, uint64_t *bytes, ff_error *error) {
    *bytes = ff_dataset_index_bytes(set);
    for (uint32_t i = 0; i < ff_dataset_shard_count(set); i++) {
        ff_shard_info shard;
        FF_TRY(ff_dataset_shard((ff_dataset *)(uintptr_t)set, i, &shard, error));
        *bytes += shard.file_bytes;
    }
    return FF_OK;
}

static ff_status verify(const ffload_dataset *dataset, int threads, listener *heard,
                        ff_error *error) {
    FF_TRY(check_process(dataset, error));
    FF_TRY(count_bytes(dataset->inner, &heard->all, error));
    for (size_t i = 0; i < ff_dataset_set_count(dataset->inner); i++) {
        const ff_dataset *set = ff_dataset_set(dataset->inner, i);
        uint64_t bytes;
        FF_TRY(count_bytes(set, &bytes, error));
        FF_TRY(ff_verify_split(ff_dataset_path(set), ff_dataset_storage(set),
                               threads > 0 ? threads : ff_cpu_count(), on_report, heard, error));
        heard->before += bytes;
    }
    return FF_OK;
}

int ffload_dataset_verify(ffload_dataset *dataset, int threads, ffload_progress *progress,
                          void *context, ffload_error *error) {
    ff_error inner;
    listener heard = {.progress = progress, .context = context};
    ff_status status = FF_LIBRARY_GIVEN(&inner, dataset);
    if (status == FF_OK) status = verify(dataset, threads, &heard, &inner);
    return ff_library_end(status, &inner, error);
}
