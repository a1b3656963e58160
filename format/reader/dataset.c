#include "format/reader/dataset.h"

#include "format/disk/checksum.h"
#include "format/disk/generation.h"
#include "format/disk/set.h"
#include "format/reader/index.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIZES_AT_OPENING = 1024 };

/* ---- opening -------------------------------------------------------------------------------- */

/* What the cache has of an index may be wrong, as after a power cut: it is fetched at the next
 * opening. */
static bool drop_index(const ff_dataset *dataset) {
    if (!dataset->remote || !dataset->index_path) return false;
    (void)unlink(dataset->index_path);
    return true;
}

static ff_status read_metadata(ff_dataset *dataset, ff_error *error) {
    const ff_section *section = dataset->header.section;
    uint64_t bytes = section[FF_INDEX_METADATA].bytes;
    char *text;
    if (bytes > FF_METADATA_LIMIT_BYTES)
        return ff_fail(error, FF_BAD_DATA, "%s: %" PRIu64 " bytes of metadata, more than %" PRIu64,
                       dataset->index_path, bytes, (uint64_t)FF_METADATA_LIMIT_BYTES);
    FF_TRY(ff_alloc(&text, bytes, 1, "metadata", error));
    ff_status status =
        ff_index_read(dataset, section[FF_INDEX_METADATA].offset, text, bytes, error);
    if (status == FF_OK) {
        status = ff_metadata_read(&dataset->metadata, text, bytes, error);
        if (status == FF_BAD_DATA)
            status = ff_fail_within(error, status, "%s", dataset->index_path);
        ff_id_of(dataset->metadata_id, text, bytes);
    }
    free(text);
    FF_TRY(status);
    const ff_metadata *metadata = &dataset->metadata;
    dataset->row_bytes = ff_metadata_label_row_bytes(metadata);
    if (dataset->header.version != metadata->version ||
        dataset->header.generation != metadata->generation_count)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: generation %u of format version %u, but its metadata is generation %zu "
                       "of version %u",
                       dataset->index_path, dataset->header.generation, dataset->header.version,
                       metadata->generation_count, metadata->version);
    if (dataset->header.sample_count > metadata->items ||
        ff_metadata_shard_count(metadata) != dataset->header.shard_count ||
        section[FF_INDEX_LABELS].bytes != dataset->header.sample_count * dataset->row_bytes)
        return ff_fail(
            error, FF_BAD_DATA, "%s: the metadata does not fit %" PRIu64 " samples in %u shards",
            dataset->index_path, dataset->header.sample_count, dataset->header.shard_count);
    return FF_OK;
}

static ff_status check_size(const ff_dataset *dataset, int folder, uint32_t number,
                            ff_error *error) {
    char name[32];
    struct stat info;
    ff_shard_name(name, number);
    if (fstatat(folder, name, &info, 0))
        return ff_fail_errno(error, "%s/%s: cannot stat", dataset->path, name);
    if ((uint64_t)info.st_size != dataset->row[number].file_bytes)
        return ff_fail(error, FF_BAD_DATA, "%s/%s: %" PRIu64 " bytes long, wanted %" PRIu64,
                       dataset->path, name, (uint64_t)info.st_size,
                       dataset->row[number].file_bytes);
    return FF_OK;
}

/* Reads the rows of the shard table, and the files' sizes. With very many shards only some sizes
 * are checked, so that opening stays fast; the others are checked on first touch. */
static ff_status read_shard_rows(ff_dataset *dataset, ff_error *error) {
    uint32_t count = dataset->header.shard_count, step = count / SIZES_AT_OPENING + 1;
    FF_TRY(ff_alloc(&dataset->row, count, sizeof *dataset->row, "shards", error));
    FF_TRY(ff_alloc(&dataset->shard, count, sizeof *dataset->shard, "shards", error));
    FF_TRY(ff_alloc(&dataset->shard_ready, count, sizeof *dataset->shard_ready, "shards", error));
    uint64_t samples = 0;
    int folder = open(dataset->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return ff_fail_errno(error, "%s: cannot open the folder", dataset->path);
    ff_status status = FF_OK;
    for (uint32_t i = 0; i < count && status == FF_OK; i++) {
        uint8_t bytes[FF_SHARD_ROW_BYTES];
        ff_shard_row *row = &dataset->row[i];
        status = ff_index_read(dataset,
                               dataset->header.section[FF_INDEX_SHARDS].offset +
                                   (uint64_t)i * FF_SHARD_ROW_BYTES,
                               bytes, sizeof bytes, error);
        if (status != FF_OK) break;
        ff_shard_place place = ff_metadata_shard_place(&dataset->metadata, i);
        bool sound =
            ff_shard_row_decode(row, bytes) && row->first_position == place.first_position &&
            row->position_count == place.position_count && row->generation == place.generation &&
            row->sample_count <= place.position_count &&
            row->sample_count <= dataset->header.sample_count - samples;
        if (!sound)
            status = ff_fail(error, FF_BAD_DATA, "%s: row %u of the shard table is out of range",
                             dataset->index_path, i);
        else if (!dataset->remote && (i % step == 0 || i + 1 == count))
            status = check_size(dataset, folder, i, error);
        samples += row->sample_count;
    }
    close(folder);
    if (status == FF_OK && samples != dataset->header.sample_count)
        status = ff_fail(error, FF_BAD_DATA, "%s: shards hold %" PRIu64 " samples, wanted %" PRIu64,
                         dataset->index_path, samples, dataset->header.sample_count);
    return status;
}

static ff_status open_all(ff_dataset *dataset, const char *path, const ff_storage_options *storage,
                          ff_error *error) {
    FF_TRY(ff_storage_is_url(path)
               ? ff_remote_open(&dataset->remote, path, storage, &dataset->path, error)
               : ff_copy_string(&dataset->path, path, error));
    path = dataset->path;
    FF_TRY(ff_format(&dataset->index_path, error, "%s/%s", path, FF_INDEX_NAME));
    bool none;
    const ff_status status = ff_index_open(dataset, &none, error);
    if (none) return ff_set_refuse(path, error);
    FF_TRY(status);
    FF_TRY(read_metadata(dataset, error));
    FF_TRY(read_shard_rows(dataset, error));
    if (dataset->remote)
        FF_TRY(ff_remote_shards(dataset->remote, dataset->row, dataset->header.shard_count, error));
    dataset->removals = ff_dataset_removals(dataset);
    return ff_alloc(&dataset->sample_ok, dataset->header.sample_count / 8 + 1, 1,
                    "verification marks", error);
}

static ff_status open_once(ff_dataset **out, const char *path, ff_verify verify,
                           const ff_storage_options *storage, bool *dropped, ff_error *error) {
    ff_dataset *dataset;
    *out = NULL;
    *dropped = false;
    FF_TRY(ff_alloc(&dataset, 1, sizeof *dataset, "a dataset", error));
    pthread_mutex_init(&dataset->mutex, NULL);
    dataset->verify = verify;
    ff_status status = ff_files_create(&dataset->files, error);
    if (status == FF_OK) status = open_all(dataset, path, storage, error);
    *dropped = status == FF_BAD_DATA && drop_index(dataset);
    if (status != FF_OK) ff_dataset_close(&dataset);
    *out = dataset;
    return status;
}

ff_status ff_dataset_open_at(ff_dataset **dataset, const char *path, ff_verify verify,
                             const ff_storage_options *storage, ff_error *error) {
    bool dropped;
    const ff_status status = open_once(dataset, path, verify, storage, &dropped, error);
    return dropped ? open_once(dataset, path, verify, storage, &dropped, error) : status;
}

ff_status ff_dataset_open(ff_dataset **out, const char *path, ff_verify verify, ff_error *error) {
    return ff_dataset_open_at(out, path, verify, NULL, error);
}

void ff_dataset_forget(ff_dataset *dataset) {
    for (uint32_t i = 0; dataset->shard && i < dataset->header.shard_count; i++)
        ff_shard_close(&dataset->shard[i]);
    ff_metadata_free(&dataset->metadata);
    free(dataset->path);
    free(dataset->index_path);
    free(dataset->row);
    free(dataset->shard);
    free(dataset->shard_ready);
    free(dataset->block_ok);
    free(dataset->sample_ok);
    dataset->path = dataset->index_path = NULL;
    dataset->row = NULL, dataset->shard = NULL;
    dataset->shard_ready = dataset->block_ok = dataset->sample_ok = NULL;
}

void ff_dataset_close(ff_dataset **out) {
    ff_dataset *dataset = *out;
    if (!dataset) return;
    ff_dataset_forget(dataset);
    ff_index_close(dataset);
    ff_files_destroy(&dataset->files);
    ff_remote_close(&dataset->remote);
    pthread_mutex_destroy(&dataset->mutex);
    ff_united_free(dataset);
    free(dataset);
    *out = NULL;
}

/* ---- facts ---------------------------------------------------------------------------------- */

const char *ff_dataset_path(const ff_dataset *dataset) {
    return dataset->remote ? ff_remote_url(dataset->remote) : dataset->path;
}
const char *ff_dataset_folder(const ff_dataset *dataset) {
    return dataset->path;
}
const ff_metadata *ff_dataset_metadata(const ff_dataset *dataset) {
    return &dataset->metadata;
}
const ff_dataset_ids *ff_dataset_id(const ff_dataset *dataset) {
    return &dataset->header.id;
}
const uint8_t *ff_dataset_metadata_id(const ff_dataset *dataset) {
    return dataset->metadata_id;
}
bool ff_dataset_is_remote(const ff_dataset *dataset) {
    for (size_t i = 0; i < dataset->united_count; i++)
        if (dataset->united[i].set->remote) return true;
    return dataset->remote != NULL;
}
bool ff_dataset_cache(const ff_dataset *dataset, const char **place, uint64_t *limit,
                      uint64_t *set_bytes, uint64_t *there) {
    bool any = false;
    *set_bytes = *there = 0;
    for (size_t i = 0; i < ff_dataset_set_count(dataset); i++) {
        const ff_dataset *own = ff_dataset_set(dataset, i);
        if (!own->remote) continue;
        const ff_cache_space space = ff_cache_space_of(ff_remote_cache(own->remote));
        *place = space.place;
        *limit = space.limit;
        *there += space.there;
        *set_bytes += space.all;
        any = true;
    }
    return any;
}
const ff_storage_options *ff_dataset_storage(const ff_dataset *dataset) {
    return dataset->remote ? ff_remote_options(dataset->remote) : NULL;
}
uint64_t ff_dataset_count(const ff_dataset *dataset) {
    return dataset->header.sample_count;
}
uint32_t ff_dataset_shard_count(const ff_dataset *dataset) {
    return dataset->header.shard_count;
}
uint64_t ff_dataset_index_bytes(const ff_dataset *dataset) {
    return dataset->bytes;
}

ff_status ff_dataset_shard(ff_dataset *dataset, uint32_t shard, ff_shard_info *info,
                           ff_error *error) {
    if (shard >= dataset->header.shard_count)
        return ff_fail(error, FF_USAGE, "shard %u of %u", shard, dataset->header.shard_count);
    const ff_shard_row *row = &dataset->row[shard];
    *info =
        (ff_shard_info){.file_bytes = row->file_bytes,
                        .sample_count = row->sample_count,
                        .first_position = row->first_position,
                        .position_count = row->position_count,
                        .mapped = atomic_load_explicit(&dataset->shard_ready[shard],
                                                       memory_order_relaxed) == FF_SHARD_MAPPED};
    if (dataset->united) shard -= dataset->united[ff_united_at_shard(dataset, shard)].first_shard;
    ff_shard_name(info->name, shard);
    return FF_OK;
}

static ff_status check_number(const ff_dataset *dataset, uint64_t number, ff_error *error) {
    if (number < dataset->header.sample_count) return FF_OK;
    return ff_fail(error, FF_USAGE, "%s: sample %" PRIu64 " does not exist; there are %" PRIu64,
                   dataset->path, number, dataset->header.sample_count);
}

static ff_status united_entry(ff_dataset *dataset, uint64_t number, ff_entry *entry,
                              ff_error *error) {
    const ff_united *own = &dataset->united[ff_united_at(dataset, number)];
    FF_TRY(ff_dataset_entry(own->set, number - own->first_sample, entry, error));
    entry->shard += own->first_shard;
    return FF_OK;
}

ff_status ff_dataset_entry(ff_dataset *dataset, uint64_t number, ff_entry *entry, ff_error *error) {
    uint8_t bytes[FF_ENTRY_BYTES];
    FF_TRY(check_number(dataset, number, error));
    if (dataset->united) return united_entry(dataset, number, entry, error);
    const ff_section *section = dataset->header.section;
    uint64_t offset = section[FF_INDEX_ENTRIES].offset + number * FF_ENTRY_BYTES;
    FF_TRY(ff_index_read(dataset, offset, bytes, sizeof bytes, error));
    uint64_t keys = section[FF_INDEX_KEYS].bytes;
    if (!ff_entry_decode(entry, bytes) || entry->shard >= dataset->header.shard_count ||
        entry->item >= dataset->metadata.items || entry->key_bytes > FF_KEY_LIMIT_BYTES ||
        entry->key_offset > keys || entry->key_bytes > keys - entry->key_offset)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: offset %" PRIu64 ": the entry of sample %" PRIu64 " is out of range",
                       dataset->index_path, offset, number);
    return FF_OK;
}

ff_status ff_dataset_key(ff_dataset *dataset, uint64_t number, void *key, size_t *key_bytes,
                         ff_error *error) {
    ff_entry entry;
    FF_TRY(check_number(dataset, number, error));
    dataset = ff_united_with(dataset, &number);
    FF_TRY(ff_dataset_entry(dataset, number, &entry, error));
    *key_bytes = entry.key_bytes;
    return ff_index_read(dataset, dataset->header.section[FF_INDEX_KEYS].offset + entry.key_offset,
                         key, entry.key_bytes, error);
}

ff_status ff_dataset_small_label(ff_dataset *dataset, uint64_t number, uint64_t offset, void *to,
                                 uint64_t bytes, ff_error *error) {
    FF_TRY(check_number(dataset, number, error));
    dataset = ff_united_with(dataset, &number);
    return ff_index_read(dataset,
                         dataset->header.section[FF_INDEX_LABELS].offset +
                             number * dataset->row_bytes + offset,
                         to, bytes, error);
}

ff_status ff_dataset_class(ff_dataset *dataset, uint64_t number, size_t field, int64_t *value,
                           ff_error *error) {
    FF_TRY(check_number(dataset, number, error));
    if (dataset->united) {
        const size_t set = ff_united_at(dataset, number);
        const ff_united *own = &dataset->united[set];
        FF_TRY(ff_dataset_class(own->set, number - own->first_sample, field, value, error));
        *value = ff_united_class(dataset, set, field, *value);
        return FF_OK;
    }
    const ff_field *at = &dataset->metadata.field[field];
    uint8_t bytes[8];
    bool wide;
    if (at->kind != FF_FIELD_CLASS)
        return ff_fail(error, FF_USAGE, "%s: label field %s is %s, wanted class", dataset->path,
                       at->name, ff_field_kind_name(at->kind));
    uint64_t offset = ff_metadata_field_offset(&dataset->metadata, field, 1, 1, &wide);
    FF_TRY(ff_dataset_small_label(dataset, number, offset, bytes, ff_field_bytes(at), error));
    *value = ff_field_class(at, bytes);
    if (*value < -1 || (at->class_count && *value >= (int64_t)at->class_count))
        return ff_fail(error, FF_BAD_DATA,
                       "%s: sample %" PRIu64 " has class %" PRId64 " in field %s, wanted -1 to %u",
                       dataset->index_path, number, *value, at->name, at->class_count - 1);
    return FF_OK;
}

ff_status ff_dataset_field(const ff_dataset *dataset, const char *name, size_t *field,
                           ff_error *error) {
    const ff_metadata *metadata = &dataset->metadata;
    ff_buffer names = {0};
    for (*field = 0; *field < metadata->field_count; ++*field)
        if (!name || !strcmp(name, metadata->field[*field].name)) return FF_OK;
    ff_status status = FF_OK;
    for (size_t i = 0; i < metadata->field_count && status == FF_OK; i++)
        status = ff_buffer_printf(&names, error, "%s%s", i ? ", " : "", metadata->field[i].name);
    if (status == FF_OK)
        status = ff_fail(error, FF_USAGE, "%s: has no label field %s; it has %s", dataset->path,
                         name ? name : "at all", names.length ? names.bytes : "none");
    ff_buffer_free(&names);
    return status;
}
