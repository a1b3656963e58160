#include "format/reader/verify.h"

#include "format/base/thread.h"
#include "format/disk/checksum.h"
#include "format/disk/generation.h"
#include "format/disk/ids.h"
#include "format/reader/dataset.h"
#include "format/reader/shard_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* How every byte is covered. Index: the header by its checksum; everything up to the table of
 * checksums by 64 KiB blocks; the table by the header; the padding after it must be zero. Shard:
 * header and footer by their checksums; sections and seek table by the footer; slots or frames by
 * their records; all bytes between must be zero. */

typedef struct verification {
    ff_dataset *dataset;
    ff_verify_report report;
    void *context;
    uint64_t done, total;
    bool stopped;        /* `report` asked to stop */
    ff_error first;      /* the first problem */
    uint64_t *key_bytes; /* [shard_count] */
    pthread_mutex_t mutex;
} verification;

/* False if the verification must stop: later problems are not counted. */
static bool note(verification *v, const ff_error *problem, uint64_t bytes) {
    pthread_mutex_lock(&v->mutex);
    v->done += bytes;
    if (problem && !v->stopped && v->first.status == FF_OK) v->first = *problem;
    if (v->report && !v->stopped)
        v->stopped = !v->report(v->context, problem ? problem->message : NULL, v->done, v->total);
    const bool goes_on = !v->stopped;
    pthread_mutex_unlock(&v->mutex);
    return goes_on;
}

static void note_broken(void *context, uint64_t first, uint64_t count, const ff_error *problem) {
    (void)first;
    (void)count;
    note(context, problem, 0);
}

static bool tick(void *context) {
    return note(context, NULL, 0);
}

static ff_status check_opened(verification *v, const ff_shard *shard, ff_error *error) {
    const ff_shard_row *row = &v->dataset->row[shard->header.number];
    if (row->footer_offset != shard->footer_offset)
        return ff_fail(error, FF_BAD_DATA, "%s: the index's row disagrees with its header",
                       shard->path);
    ff_shard_check check = {
        .metadata = &v->dataset->metadata, .broken = note_broken, .tick = tick, .context = v};
    memcpy(check.metadata_id, v->dataset->metadata_id, 16);
    return ff_shard_check_run(&check, shard, error);
}

static ff_status check_shard(verification *v, uint32_t number, ff_error *error) {
    ff_shard shard;
    FF_TRY(ff_dataset_own_shard(v->dataset, number, true, &shard, error));
    v->key_bytes[number] = shard.footer.section[FF_SHARD_KEYS].bytes;
    const ff_status status = check_opened(v, &shard, error);
    ff_shard_close(&shard);
    /* A set may be larger than the cache. */
    if (v->dataset->remote) ff_cache_unpin(ff_remote_cache(v->dataset->remote), number);
    return status;
}

static void shard_body(void *context, size_t number) {
    verification *v = context;
    ff_error error = {0};
    if (!note(v, NULL, 0)) return;
    bool failed = check_shard(v, (uint32_t)number, &error) != FF_OK;
    note(v, failed ? &error : NULL, v->dataset->row[number].file_bytes);
}

/* ---- the index against the shards ------------------------------------------------------------ */

/* Shards that are kept open, by their number modulo this; fewer if the process cannot map this
 * number. */
enum { OPEN_SHARDS = 1024 };

typedef struct sample_check {
    ff_dataset *dataset;
    ff_shard *open;     /* [OPEN_SHARDS] */
    uint64_t *key_base; /* [shard_count]: where a shard's keys begin in the index's keys */
    uint64_t item;      /* of the previous sample */
    ff_ids *ids;
} sample_check;

static ff_status open_shard(const sample_check *check, uint32_t number, const ff_shard **out,
                            ff_error *error) {
    ff_shard *shard = &check->open[number % OPEN_SHARDS];
    *out = shard;
    if (shard->mapped.map && shard->header.number == number) return FF_OK;
    ff_shard_close(shard);
    ff_status status = ff_dataset_own_tables(check->dataset, number, shard, error);
    if (status != FF_NO_MEMORY) return status;
    for (int i = 0; i < OPEN_SHARDS; i++) ff_shard_close(&check->open[i]);
    return ff_dataset_own_tables(check->dataset, number, shard, error);
}

/* Finds the record whose slot lies at this offset: records are in the order of their offsets. */
static ff_status find_record(const ff_shard *shard, uint64_t offset, uint64_t *slot,
                             ff_entry *record, ff_error *error) {
    uint64_t low = 0, high = shard->footer.sample_count;
    *record = (ff_entry){.offset = UINT64_MAX};
    while (low < high) {
        *slot = low + (high - low) / 2;
        FF_TRY(ff_shard_record(shard, *slot, record, error));
        if (record->offset == offset) return FF_OK;
        if (record->offset < offset)
            low = *slot + 1;
        else
            high = *slot;
    }
    return ff_fail(error, FF_BAD_DATA, "%s: no slot begins at %" PRIu64 ", which the index names",
                   shard->path, offset);
}

/* Checks that the index entry of sample `number` equals its record in the shard, except for the
 * key's offset, and that key and label row equal the shard's. */
static ff_status check_record(const sample_check *check, uint64_t number, const ff_entry *entry,
                              const uint8_t *key, const uint8_t *row, ff_error *error) {
    ff_dataset *dataset = check->dataset;
    const ff_shard *shard;
    ff_entry record;
    uint64_t slot = 0;
    uint8_t own_key[FF_KEY_LIMIT_BYTES], own_row[FF_FIELDS_LIMIT * FF_SMALL_LABEL_BYTES];
    FF_TRY(open_shard(check, entry->shard, &shard, error));
    FF_TRY(find_record(shard, entry->offset, &slot, &record, error));
    const ff_section *section = shard->footer.section;
    bool same = record.key_bytes == entry->key_bytes &&
                record.key_offset + check->key_base[entry->shard] == entry->key_offset &&
                record.item == entry->item && record.bytes == entry->bytes &&
                record.checksum == entry->checksum && record.height == entry->height &&
                record.source_checksum == entry->source_checksum && record.width == entry->width &&
                record.shard == entry->shard && record.key_offset <= section[FF_SHARD_KEYS].bytes &&
                record.key_bytes <= section[FF_SHARD_KEYS].bytes - record.key_offset &&
                section[FF_SHARD_LABELS].bytes == shard->footer.sample_count * dataset->row_bytes;
    if (same) {
        FF_TRY(ff_mapped_copy(own_key, &shard->mapped,
                              section[FF_SHARD_KEYS].offset + record.key_offset, record.key_bytes,
                              error));
        FF_TRY(ff_mapped_copy(own_row, &shard->mapped,
                              section[FF_SHARD_LABELS].offset + slot * dataset->row_bytes,
                              dataset->row_bytes, error));
        same = !memcmp(own_key, key, record.key_bytes) && !memcmp(own_row, row, dataset->row_bytes);
    }
    return same ? FF_OK
                : ff_fail(error, FF_BAD_DATA,
                          "%s: sample %" PRIu64 " differs from slot %" PRIu64 " of %s",
                          dataset->index_path, number, slot, shard->path);
}

static ff_status check_sample(sample_check *check, uint64_t number, ff_error *error) {
    ff_dataset *dataset = check->dataset;
    const ff_metadata *metadata = &dataset->metadata;
    uint8_t key[FF_KEY_LIMIT_BYTES];
    uint8_t row[FF_FIELDS_LIMIT * FF_SMALL_LABEL_BYTES];
    size_t key_bytes;
    ff_entry entry;
    FF_TRY(ff_dataset_entry(dataset, number, &entry, error));
    if (number && entry.item <= check->item)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: sample %" PRIu64 " is item %" PRIu64 ", out of order",
                       dataset->index_path, number, entry.item);
    ff_shard_place place = ff_metadata_shard_place(metadata, entry.shard);
    if (entry.item < place.first_item || entry.item >= place.end_item)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: sample %" PRIu64 " is item %" PRIu64 ", of another generation than its "
                       "shard",
                       dataset->index_path, number, entry.item);
    check->item = entry.item;
    FF_TRY(ff_dataset_key(dataset, number, key, &key_bytes, error));
    FF_TRY(ff_dataset_small_label(dataset, number, 0, row, dataset->row_bytes, error));
    for (size_t i = 0; i < metadata->field_count; i++) {
        int64_t value;
        if (metadata->field[i].kind == FF_FIELD_CLASS)
            FF_TRY(ff_dataset_class(dataset, number, i, &value, error));
    }
    FF_TRY(check_record(check, number, &entry, key, row, error));
    ff_ids_add(check->ids, &entry, row, dataset->row_bytes, key);
    return FF_OK;
}

static ff_status check_ids(const sample_check *check, ff_error *error) {
    const ff_dataset *dataset = check->dataset;
    const ff_dataset_ids *wanted = &dataset->header.id;
    ff_dataset_ids id;
    const struct {
        const char *name;
        const uint8_t *found, *wanted;
    } ids[] = {{"content_id", id.content, wanted->content},
               {"source_id", id.source, wanted->source},
               {"transform_id", id.transform, wanted->transform}};
    ff_ids_finish(check->ids, &id);
    FF_TRY(ff_metadata_transform_id(&dataset->metadata, id.transform, error));
    for (int i = 0; i < 3; i++)
        if (memcmp(ids[i].found, ids[i].wanted, 16))
            return ff_fail(error, FF_BAD_DATA, "%s: %s is not that of its samples",
                           dataset->index_path, ids[i].name);
    return FF_OK;
}

/* Every shard was checked before this. */
static ff_status check_samples(verification *v, ff_error *error) {
    ff_dataset *dataset = v->dataset;
    sample_check check = {.dataset = dataset};
    ff_status status;
    FF_TRY_DONE(ff_ids_create(&check.ids, error));
    FF_TRY_DONE(ff_alloc(&check.key_base, dataset->header.shard_count, sizeof *check.key_base,
                         "shards", error));
    FF_TRY_DONE(ff_alloc(&check.open, OPEN_SHARDS, sizeof *check.open, "shards", error));
    for (uint32_t i = 1; i < dataset->header.shard_count; i++)
        check.key_base[i] = check.key_base[i - 1] + v->key_bytes[i - 1];
    for (uint64_t number = 0; number < dataset->header.sample_count; number++) {
        ff_dataset_scan(dataset, number, FF_SCAN_ENTRIES | FF_SCAN_LABELS);
        FF_TRY_DONE(check_sample(&check, number, error));
        if (number % 1024 == 0 && !tick(v)) goto done;
    }
    FF_TRY_DONE(check_ids(&check, error));
done:
    for (int i = 0; check.open && i < OPEN_SHARDS; i++) ff_shard_close(&check.open[i]);
    free(check.open);
    free(check.key_base);
    ff_ids_destroy(&check.ids);
    return status;
}

ff_status ff_verify_split(const char *path, const ff_storage_options *storage, int thread_count,
                          ff_verify_report report, void *context, ff_error *error) {
    verification v = {.report = report, .context = context};
    FF_TRY(ff_dataset_open_at(&v.dataset, path, FF_VERIFY_FIRST, storage, error));
    pthread_mutex_init(&v.mutex, NULL);
    uint32_t shards = v.dataset->header.shard_count;
    v.total = v.dataset->bytes;
    for (uint32_t i = 0; i < shards; i++) v.total += v.dataset->row[i].file_bytes;
    ff_status status = ff_alloc(&v.key_bytes, shards, sizeof *v.key_bytes, "shards", error);
    if (status == FF_OK) status = ff_parallel_for(thread_count, shards, shard_body, &v, error);
    ff_error problem = {0};
    if (status == FF_OK && v.first.status == FF_OK && check_samples(&v, &problem) != FF_OK)
        note(&v, &problem, 0);
    note(&v, NULL, v.dataset->bytes);
    if (status == FF_OK && v.stopped)
        status = ff_fail(error, FF_INTERRUPTED, "%s: the verification was stopped", path);
    if (status == FF_OK && v.first.status != FF_OK) {
        status = v.first.status;
        if (error) *error = v.first;
    }
    pthread_mutex_destroy(&v.mutex);
    free(v.key_bytes);
    ff_dataset_close(&v.dataset);
    return status;
}
