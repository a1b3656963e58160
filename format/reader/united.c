/* Several packed folders opened as one set.
 *
 * The sets follow one another: united set k has the samples from first_sample on and the shards
 * from first_shard on. The dataset owns the state of all shards (mappings, files, marks of verified
 * samples), so that readers work as with one set; entries, keys, labels and the shards' files are
 * those of the united sets, each with its own index. */
#include "format/disk/checksum.h"
#include "format/reader/dataset.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- what has to be equal ------------------------------------------------------------------- */

static ff_status differ(const ff_dataset *a, const ff_dataset *b, const char *what,
                        const char *advice, ff_error *error) {
    return ff_fail(error, FF_USAGE,
                   "%s and %s cannot be used as one set: they differ in their %s; %s", a->path,
                   b->path, what, advice);
}

static bool same_floats(const float *a, const float *b, uint32_t count) {
    return !count || memcmp(a, b, count * sizeof *a) == 0;
}

static bool same_names(const ff_field *a, const ff_field *b) {
    bool same = a->class_count == b->class_count;
    for (uint32_t i = 0; same && i < a->class_count; i++)
        same = !strcmp(a->class_name[i], b->class_name[i]);
    return same;
}

static ff_status compare_field(const ff_dataset *first, const ff_dataset *next, size_t i,
                               ff_error *error) {
    const ff_field *a = &first->metadata.field[i], *b = &next->metadata.field[i];
    const bool classes = a->kind == FF_FIELD_CLASS;
    if (strcmp(a->name, b->name) || a->kind != b->kind || a->dtype != b->dtype ||
        a->width != b->width)
        return ff_fail(error, FF_USAGE,
                       "%s and %s cannot be used as one set: label field %zu is %s (%s %s of width "
                       "%u) in the first and %s (%s %s of width %u) in the second; pack both with "
                       "the same labels",
                       first->path, next->path, i + 1, a->name, ff_field_kind_name(a->kind),
                       ff_dtype_name(a->dtype), a->width, b->name, ff_field_kind_name(b->kind),
                       ff_dtype_name(b->dtype), b->width);
    if ((classes && !a->class_count != !b->class_count) || (!classes && !same_names(a, b)))
        return ff_fail(error, FF_USAGE,
                       "%s and %s cannot be used as one set: label field %s has %s; pack both with "
                       "ffpack --classes",
                       first->path, next->path, a->name,
                       classes ? "names of classes in only one of them" : "other names");
    return FF_OK;
}

static ff_status compare(const ff_dataset *first, const ff_dataset *next, ff_error *error) {
    const ff_metadata *a = &first->metadata, *b = &next->metadata;
    if (a->dtype != b->dtype || a->layout != b->layout)
        return differ(first, next, "dtype or layout",
                      "pack both with the same --dtype and --layout", error);
    if (a->channels != b->channels || a->variable_size != b->variable_size ||
        (!a->variable_size && (a->height != b->height || a->width != b->width)))
        return ff_fail(error, FF_USAGE,
                       "%s and %s cannot be used as one set: samples are %ux%ux%u%s in the first "
                       "and %ux%ux%u%s in the second; pack both to one size",
                       first->path, next->path, a->channels, a->height, a->width,
                       a->variable_size ? " and smaller" : "", b->channels, b->height, b->width,
                       b->variable_size ? " and smaller" : "");
    if (a->statistics_count != b->statistics_count ||
        !same_floats(a->mean, b->mean, a->statistics_count) ||
        !same_floats(a->std, b->std, a->statistics_count))
        return differ(first, next, "normalization", "pack the second with --stats-from the first",
                      error);
    if (a->compression != b->compression)
        return differ(first, next, "compression", "pack both with --compress, or none", error);
    if (a->alignment != b->alignment)
        return differ(first, next, "alignment", "pack both with the same --align", error);
    if (a->field_count != b->field_count)
        return differ(first, next, "label fields", "pack both with the same labels", error);
    for (size_t i = 0; i < a->field_count; i++) FF_TRY(compare_field(first, next, i, error));
    return FF_OK;
}

/* ---- classes -------------------------------------------------------------------------------- */

typedef struct named {
    const char *name;
    int32_t number;
} named;

static int by_name(const void *a, const void *b) {
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

/* Finds a set's classes among those of the field, and appends the others. */
static ff_status number_classes(ff_metadata *metadata, size_t index, const ff_field *own,
                                named *known, int32_t *numbers, ff_error *error) {
    const uint32_t count = metadata->field[index].class_count;
    for (uint32_t i = 0; i < count; i++)
        known[i] = (named){metadata->field[index].class_name[i], (int32_t)i};
    qsort(known, count, sizeof *known, by_name);
    for (uint32_t i = 0; i < own->class_count; i++) {
        const named wanted = {own->class_name[i], 0};
        const named *found = bsearch(&wanted, known, count, sizeof *known, by_name);
        numbers[i] = found ? found->number : (int32_t)metadata->field[index].class_count;
        if (!found) FF_TRY(ff_metadata_add_class(metadata, index, wanted.name, error));
    }
    return FF_OK;
}

static ff_status unite_classes(ff_metadata *metadata, ff_united *united, size_t index,
                               ff_error *error) {
    const ff_field *own = &united->set->metadata.field[index];
    named *known = NULL;
    ff_status status;
    if (own->kind != FF_FIELD_CLASS || same_names(&metadata->field[index], own)) return FF_OK;
    FF_TRY_DONE(ff_alloc(&united->class_numbers[index], own->class_count, sizeof(int32_t),
                         "classes", error));
    FF_TRY_DONE(
        ff_alloc(&known, metadata->field[index].class_count, sizeof *known, "classes", error));
    status = number_classes(metadata, index, own, known, united->class_numbers[index], error);
done:
    free(known);
    return status;
}

/* ---- opening -------------------------------------------------------------------------------- */

static ff_status add_path(ff_dataset *dataset, const char *path, ff_error *error) {
    char *longer;
    FF_TRY(ff_format(&longer, error, "%s%s%s", dataset->path ? dataset->path : "",
                     dataset->path ? " + " : "", path));
    free(dataset->path);
    dataset->path = longer;
    return FF_OK;
}

/* The metadata of all: the first set's without what only that set has. */
static ff_status begin_metadata(ff_dataset *dataset, ff_error *error) {
    ff_metadata *all = &dataset->metadata;
    FF_TRY(ff_metadata_copy(all, &dataset->united[0].set->metadata, error));
    for (size_t i = 0; i < all->provenance_count; i++) {
        free(all->provenance[i].key);
        free(all->provenance[i].value);
    }
    all->provenance_count = all->generation_count = 0;
    all->items = 0;
    return FF_OK;
}

static void add_sizes(ff_metadata *all, const ff_metadata *own) {
    all->items += own->items;
    if (own->height > all->height) all->height = own->height;
    if (own->width > all->width) all->width = own->width;
}

/* Counts samples and shards, and unites classes. */
static ff_status add_set(ff_dataset *dataset, size_t at, ff_error *error) {
    ff_united *united = &dataset->united[at];
    const ff_dataset *own = united->set;
    const size_t fields = own->metadata.field_count;
    if (at) FF_TRY(compare(dataset->united[0].set, own, error));
    if (!at) FF_TRY(begin_metadata(dataset, error));
    FF_TRY(add_path(dataset, own->path, error));
    FF_TRY(
        ff_alloc(&united->class_numbers, fields, sizeof *united->class_numbers, "classes", error));
    for (size_t i = 0; i < fields; i++) FF_TRY(unite_classes(&dataset->metadata, united, i, error));
    add_sizes(&dataset->metadata, &own->metadata);
    if (own->header.shard_count > UINT32_MAX - united->first_shard)
        return ff_fail(error, FF_USAGE, "%s: too many shards", dataset->path);
    united[1].first_sample = united->first_sample + own->header.sample_count;
    united[1].first_shard = united->first_shard + own->header.shard_count;
    dataset->bytes += own->bytes;
    return FF_OK;
}

static ff_status copy_rows(ff_dataset *dataset, ff_error *error) {
    const uint32_t count = dataset->header.shard_count;
    FF_TRY(ff_alloc(&dataset->row, count, sizeof *dataset->row, "shards", error));
    FF_TRY(ff_alloc(&dataset->shard, count, sizeof *dataset->shard, "shards", error));
    FF_TRY(ff_alloc(&dataset->shard_ready, count, sizeof *dataset->shard_ready, "shards", error));
    for (size_t i = 0; i < dataset->united_count; i++) {
        const ff_dataset *own = dataset->united[i].set;
        if (own->header.shard_count)
            memcpy(dataset->row + dataset->united[i].first_shard, own->row,
                   own->header.shard_count * sizeof *own->row);
    }
    return FF_OK;
}

/* Each id is the hash of the sets' ids, one after another. */
static void make_ids(ff_dataset *dataset) {
    uint8_t ids[4][FF_SETS_LIMIT * 16];
    const size_t bytes = dataset->united_count * 16;
    for (size_t i = 0; i < dataset->united_count; i++) {
        const ff_dataset *own = dataset->united[i].set;
        memcpy(ids[0] + 16 * i, own->header.id.content, 16);
        memcpy(ids[1] + 16 * i, own->header.id.transform, 16);
        memcpy(ids[2] + 16 * i, own->header.id.source, 16);
        memcpy(ids[3] + 16 * i, own->metadata_id, 16);
    }
    ff_id_of(dataset->header.id.content, ids[0], bytes);
    ff_id_of(dataset->header.id.transform, ids[1], bytes);
    ff_id_of(dataset->header.id.source, ids[2], bytes);
    ff_id_of(dataset->metadata_id, ids[3], bytes);
}

static ff_status unite(ff_dataset *dataset, ff_error *error) {
    const size_t count = dataset->united_count;
    for (size_t i = 0; i < count; i++) FF_TRY(add_set(dataset, i, error));
    FF_TRY(ff_copy_string(&dataset->index_path, dataset->path, error));
    dataset->row_bytes = ff_metadata_label_row_bytes(&dataset->metadata);
    dataset->header.sample_count = dataset->united[count].first_sample;
    dataset->header.shard_count = dataset->united[count].first_shard;
    make_ids(dataset);
    FF_TRY(copy_rows(dataset, error));
    return ff_alloc(&dataset->sample_ok, dataset->header.sample_count / 8 + 1, 1,
                    "verification marks", error);
}

static ff_status open_all(ff_dataset *dataset, const char *const *paths, size_t count,
                          const ff_storage_options *storage, ff_error *error) {
    FF_TRY(ff_files_create(&dataset->files, error));
    FF_TRY(ff_alloc(&dataset->united, count + 1, sizeof *dataset->united, "sets", error));
    for (; dataset->united_count < count; dataset->united_count++)
        FF_TRY(ff_dataset_open_at(&dataset->united[dataset->united_count].set,
                                  paths[dataset->united_count], dataset->verify, storage, error));
    return unite(dataset, error);
}

ff_status ff_dataset_open_several(ff_dataset **out, const char *const *paths, size_t count,
                                  ff_verify verify, const ff_storage_options *storage,
                                  ff_error *error) {
    ff_dataset *dataset;
    *out = NULL;
    if (count == 0 || count > FF_SETS_LIMIT)
        return ff_fail(error, FF_USAGE, "%zu sets to be used as one; wanted 1 to %d", count,
                       FF_SETS_LIMIT);
    if (count == 1) return ff_dataset_open_at(out, paths[0], verify, storage, error);
    FF_TRY(ff_alloc(&dataset, 1, sizeof *dataset, "a dataset", error));
    pthread_mutex_init(&dataset->mutex, NULL);
    dataset->verify = verify;
    ff_status status = open_all(dataset, paths, count, storage, error);
    if (status != FF_OK) ff_dataset_close(&dataset);
    *out = dataset;
    return status;
}

static void free_class_numbers(ff_united *united) {
    for (size_t k = 0; united->class_numbers && k < united->set->metadata.field_count; k++)
        free(united->class_numbers[k]);
    free(united->class_numbers);
    united->class_numbers = NULL;
}

ff_status ff_united_again(ff_dataset *dataset, ff_error *error) {
    for (size_t i = 0; i < dataset->united_count; i++) free_class_numbers(&dataset->united[i]);
    ff_dataset_forget(dataset);
    dataset->bytes = 0;
    dataset->header.sample_count = dataset->header.shard_count = 0;
    return unite(dataset, error);
}

void ff_united_free(ff_dataset *dataset) {
    for (size_t i = 0; i < dataset->united_count; i++) {
        free_class_numbers(&dataset->united[i]);
        ff_dataset_close(&dataset->united[i].set);
    }
    free(dataset->united);
}

/* ---- facts ---------------------------------------------------------------------------------- */

size_t ff_dataset_set_count(const ff_dataset *dataset) {
    return dataset->united ? dataset->united_count : 1;
}

uint64_t ff_dataset_set_begin(const ff_dataset *dataset, size_t set) {
    if (dataset->united) return dataset->united[set].first_sample;
    return set ? dataset->header.sample_count : 0;
}

const ff_dataset *ff_dataset_set(const ff_dataset *dataset, size_t set) {
    return dataset->united ? dataset->united[set].set : dataset;
}

size_t ff_dataset_set_of(const ff_dataset *dataset, uint64_t number) {
    return ff_united_at(dataset, number);
}
