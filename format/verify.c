#include "format/verify.h"

#include "format/base/guard.h"
#include "format/base/thread.h"
#include "format/checksum.h"
#include "format/dataset.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* How every byte is covered. Index: header by its checksum, everything up to the table of checksums
 * by 64 KiB blocks, the table by the header, the padding behind it by being zero. Shard: header and
 * footer by theirs, sections by the footer, slots or frames by their entries, the seek table by the
 * footer, and whatever lies between any of these by being zero. */

typedef struct verification {
    ff_dataset *dataset;
    ff_verify_report report;
    void *context;
    uint64_t done, total;
    ff_error first; /* the first problem */
    pthread_mutex_t mutex;
} verification;

static void note(verification *v, const ff_error *problem, uint64_t bytes) {
    pthread_mutex_lock(&v->mutex);
    v->done += bytes;
    if (problem && v->first.status == FF_OK) v->first = *problem;
    if (v->report) v->report(v->context, problem ? problem->message : NULL, v->done, v->total);
    pthread_mutex_unlock(&v->mutex);
}

typedef struct zero_job {
    const uint8_t *from;
    uint64_t bytes;
    uint64_t first_other; /* = bytes where all are zero */
} zero_job;

static void zero_body(void *context) {
    zero_job *job = context;
    job->first_other = 0;
    while (job->first_other < job->bytes && !job->from[job->first_other]) job->first_other++;
}

/* [from, to) of the shard is zero. */
static ff_status check_zero(const ff_shard *shard, uint64_t from, uint64_t to, ff_error *error) {
    if (to < from)
        return ff_fail(error, FF_BAD_DATA, "%s: offset %" PRIu64 ": parts overlap", shard->path,
                       to);
    zero_job job = {.from = shard->map + from, .bytes = to - from};
    if (ff_guard_run(zero_body, &job))
        return ff_fail(error, FF_IO, "%s: offset %" PRIu64 ": the file shrank while it was read",
                       shard->path, from);
    if (job.first_other < job.bytes)
        return ff_fail(error, FF_BAD_DATA, "%s: offset %" PRIu64 ": padding is not zero",
                       shard->path, from + job.first_other);
    return FF_OK;
}

static ff_status read_entry(const ff_shard *shard, uint64_t slot, ff_entry *entry,
                            ff_error *error) {
    uint8_t bytes[FF_ENTRY_BYTES];
    FF_TRY(ff_mapped_copy(bytes, shard->map, shard->path,
                          shard->footer.section[FF_SHARD_RECORDS].offset + slot * FF_ENTRY_BYTES,
                          FF_ENTRY_BYTES, error));
    if (!ff_entry_decode(entry, bytes))
        return ff_fail(error, FF_BAD_DATA,
                       "%s: record %" PRIu64 " has reserved bytes that are not zero", shard->path,
                       slot);
    return FF_OK;
}

/* Raw slots against their records, in storage order, with the padding between. */
static ff_status check_slots(verification *v, const ff_shard *shard, ff_error *error) {
    const ff_metadata *metadata = &v->dataset->metadata;
    uint64_t end = FF_HEADER_BYTES;
    for (uint64_t slot = 0; slot < shard->footer.sample_count; slot++) {
        ff_entry entry;
        uint64_t found;
        FF_TRY(read_entry(shard, slot, &entry, error));
        FF_TRY(ff_entry_check(&entry, metadata, &shard->footer, shard->path, slot, error));
        uint64_t wanted = ff_align_u64(end, metadata->alignment);
        if (entry.offset != wanted)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: slot %" PRIu64 " lies at %" PRIu64 ", wanted %" PRIu64, shard->path,
                           slot, entry.offset, wanted);
        FF_TRY(check_zero(shard, end, entry.offset, error));
        FF_TRY(
            ff_mapped_checksum(shard->map, shard->path, entry.offset, entry.bytes, &found, error));
        if (found != entry.checksum) {
            ff_error problem;
            (void)ff_fail(&problem, FF_BAD_DATA,
                          "%s: offset %" PRIu64 ": slot %" PRIu64 " has checksum %016" PRIx64
                          ", wanted %016" PRIx64,
                          shard->path, entry.offset, slot, found, entry.checksum);
            note(v, &problem, 0); /* and go on: name every broken sample */
        }
        end = entry.offset + entry.bytes;
        if (slot % 1024 == 0) note(v, NULL, 0);
    }
    uint64_t stop = ff_align_u64(end, metadata->alignment);
    if (shard->footer.samples_end != stop || shard->footer.payload_bytes != stop - FF_HEADER_BYTES)
        return ff_fail(error, FF_BAD_DATA, "%s: the slots do not add up", shard->path);
    return check_zero(shard, end, stop, error);
}

/* The samples of undone frames against their records, in storage order. */
static ff_status check_frame_slots(verification *v, const ff_shard *shard, ff_reader *reader,
                                   ff_error *error) {
    for (uint64_t slot = 0; slot < shard->footer.sample_count; slot++) {
        ff_entry entry;
        const uint8_t *bytes;
        FF_TRY(read_entry(shard, slot, &entry, error));
        FF_TRY(ff_entry_check(&entry, &v->dataset->metadata, &shard->footer, shard->path, slot,
                              error));
        FF_TRY(ff_reader_frame_slot(reader, shard, &entry, &bytes, error));
        uint64_t found = ff_checksum(bytes, entry.bytes);
        if (found != entry.checksum)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: offset %" PRIu64 " of the payload: slot %" PRIu64
                           " has checksum %016" PRIx64 ", wanted %016" PRIx64,
                           shard->path, entry.offset, slot, found, entry.checksum);
        if (slot % 1024 == 0) note(v, NULL, 0);
    }
    return FF_OK;
}

/* Frames lie without gaps; each against its checksum, then what is in it. */
static ff_status check_frames(verification *v, const ff_shard *shard, ff_error *error) {
    const ff_section *section = &shard->footer.section[FF_SHARD_FRAMES];
    uint64_t end = FF_HEADER_BYTES, payload = 0, slots = 0;
    bool broken = false;
    for (uint64_t i = 0; i < section->bytes / FF_FRAME_BYTES; i++) {
        uint8_t bytes[FF_FRAME_BYTES];
        ff_frame frame;
        uint64_t found;
        FF_TRY(ff_mapped_copy(bytes, shard->map, shard->path, section->offset + i * FF_FRAME_BYTES,
                              FF_FRAME_BYTES, error));
        if (!ff_frame_decode(&frame, bytes) || frame.file_offset != end ||
            frame.payload_offset != payload || frame.first_slot != slots)
            return ff_fail(error, FF_BAD_DATA, "%s: frame %" PRIu64 " is not where it should be",
                           shard->path, i);
        FF_TRY(ff_frame_check(&frame, shard, error));
        FF_TRY(ff_mapped_checksum(shard->map, shard->path, frame.file_offset,
                                  frame.compressed_bytes, &found, error));
        if (found != frame.checksum) {
            ff_error problem;
            (void)ff_fail(&problem, FF_BAD_DATA,
                          "%s: offset %" PRIu64 ": frame %" PRIu64 " has checksum %016" PRIx64
                          ", wanted %016" PRIx64,
                          shard->path, frame.file_offset, i, found, frame.checksum);
            note(v, &problem, 0);
            broken = true;
        }
        end += frame.compressed_bytes;
        payload += frame.payload_bytes;
        slots += frame.slot_count;
    }
    if (end != shard->footer.samples_end || payload != shard->footer.payload_bytes ||
        slots != shard->footer.sample_count)
        return ff_fail(error, FF_BAD_DATA, "%s: the frames do not add up", shard->path);
    uint8_t header[FF_FRAME_HEADER_BYTES];
    uint64_t size = shard->footer_offset + FF_FOOTER_BYTES - end - FF_FRAME_HEADER_BYTES;
    FF_TRY(ff_mapped_copy(header, shard->map, shard->path, end, sizeof header, error));
    if (ff_load_u32(header) != FF_SKIPPABLE_MAGIC || ff_load_u32(header + 4) != size)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: offset %" PRIu64 ": the tail's skippable frame has a wrong header",
                       shard->path, end);
    uint64_t found, table = shard->footer_offset + FF_FOOTER_BYTES;
    FF_TRY(ff_mapped_checksum(shard->map, shard->path, table, shard->footer.seek_table_bytes,
                              &found, error));
    if (found != shard->footer.seek_table_checksum)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: offset %" PRIu64 ": the seek table has checksum %016" PRIx64
                       ", wanted %016" PRIx64,
                       shard->path, table, found, shard->footer.seek_table_checksum);
    if (broken) return FF_OK; /* reported already */
    ff_reader *reader;
    FF_TRY(ff_reader_open(&reader, v->dataset, error));
    ff_status status = check_frame_slots(v, shard, reader, error);
    ff_reader_close(&reader);
    return status;
}

static ff_status check_tail(verification *v, const ff_shard *shard, ff_error *error) {
    const uint8_t *bytes;
    uint8_t id[16];
    bool compressed = shard->header.compressed;
    uint64_t end = shard->footer.samples_end + (compressed ? FF_FRAME_HEADER_BYTES : 0);
    for (int i = 0; i < FF_SHARD_SECTIONS; i++) {
        const ff_section *section = &shard->footer.section[i];
        FF_TRY(check_zero(shard, end, section->offset, error));
        FF_TRY(ff_shard_section(shard, i, &bytes, error));
        end = section->offset + section->bytes;
    }
    FF_TRY(check_zero(shard, end, shard->footer_offset, error));
    /* The metadata is the index's, byte for byte, and the header names it. */
    const ff_section *own = &shard->footer.section[FF_SHARD_METADATA];
    const ff_section *wanted = &v->dataset->header.section[FF_INDEX_METADATA];
    uint64_t found, other;
    FF_TRY(ff_mapped_checksum(shard->map, shard->path, own->offset, own->bytes, &found, error));
    FF_TRY(ff_mapped_checksum(v->dataset->map, v->dataset->index_path, wanted->offset,
                              wanted->bytes, &other, error));
    if (found != other || own->bytes != wanted->bytes)
        return ff_fail(error, FF_BAD_DATA, "%s: its metadata is not the index's", shard->path);
    char *text;
    FF_TRY(ff_alloc(&text, own->bytes, 1, "metadata", error));
    ff_status status =
        ff_mapped_copy(text, shard->map, shard->path, own->offset, own->bytes, error);
    ff_id_of(id, text, own->bytes);
    free(text);
    FF_TRY(status);
    if (memcmp(id, shard->header.metadata_id, 16))
        return ff_fail(error, FF_BAD_DATA, "%s: the header names other metadata", shard->path);
    return FF_OK;
}

static ff_status check_shard(verification *v, uint32_t number, ff_error *error) {
    const ff_shard *shard;
    FF_TRY(ff_dataset_open_shard(v->dataset, number, &shard, error));
    const ff_shard_row *row = &v->dataset->row[number];
    if (row->first_position != shard->header.first_position ||
        row->position_count != shard->header.position_count ||
        row->generation != shard->header.generation || row->footer_offset != shard->footer_offset)
        return ff_fail(error, FF_BAD_DATA, "%s: the index's row disagrees with its header",
                       shard->path);
    FF_TRY(check_tail(v, shard, error));
    return shard->header.compressed ? check_frames(v, shard, error) : check_slots(v, shard, error);
}

static void shard_body(void *context, size_t number) {
    verification *v = context;
    ff_error error = {0};
    bool failed = check_shard(v, (uint32_t)number, &error) != FF_OK;
    note(v, failed ? &error : NULL, v->dataset->row[number].file_bytes);
}

/* ---- the index against the shards ------------------------------------------------------------ */

typedef struct sample_check {
    ff_dataset *dataset;
    uint64_t *key_base; /* [shard_count]: where a shard's keys begin among the index's */
    uint64_t item;      /* of the sample before */
    XXH3_state_t *content, *source;
} sample_check;

/* The record whose slot lies at this offset: records are in the order of their offsets. */
static ff_status find_record(const ff_shard *shard, uint64_t offset, uint64_t *slot,
                             ff_entry *record, ff_error *error) {
    uint64_t low = 0, high = shard->footer.sample_count;
    *record = (ff_entry){.offset = UINT64_MAX};
    while (low < high) {
        *slot = low + (high - low) / 2;
        FF_TRY(read_entry(shard, *slot, record, error));
        if (record->offset == offset) return FF_OK;
        if (record->offset < offset)
            low = *slot + 1;
        else
            high = *slot;
    }
    return ff_fail(error, FF_BAD_DATA, "%s: no slot begins at %" PRIu64 ", as the index says",
                   shard->path, offset);
}

/* Sample `number`'s index entry is its record in the shard, but for the key's place; its key and
 * label row are the shard's. */
static ff_status check_record(const sample_check *check, uint64_t number, const ff_entry *entry,
                              const uint8_t *key, const uint8_t *row, ff_error *error) {
    ff_dataset *dataset = check->dataset;
    const ff_shard *shard;
    ff_entry record;
    uint64_t slot = 0;
    uint8_t own_key[FF_KEY_LIMIT_BYTES], own_row[FF_FIELDS_LIMIT * FF_SMALL_LABEL_BYTES];
    FF_TRY(ff_dataset_open_shard(dataset, entry->shard, &shard, error));
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
        FF_TRY(ff_mapped_copy(own_key, shard->map, shard->path,
                              section[FF_SHARD_KEYS].offset + record.key_offset, record.key_bytes,
                              error));
        FF_TRY(ff_mapped_copy(own_row, shard->map, shard->path,
                              section[FF_SHARD_LABELS].offset + slot * dataset->row_bytes,
                              dataset->row_bytes, error));
        same = !memcmp(own_key, key, record.key_bytes) && !memcmp(own_row, row, dataset->row_bytes);
    }
    return same ? FF_OK
                : ff_fail(error, FF_BAD_DATA,
                          "%s: sample %" PRIu64 " is told otherwise by slot %" PRIu64 " of %s",
                          dataset->index_path, number, slot, shard->path);
}

static ff_status check_sample(sample_check *check, uint64_t number, ff_error *error) {
    ff_dataset *dataset = check->dataset;
    const ff_metadata *metadata = &dataset->metadata;
    uint8_t key[4 + FF_KEY_LIMIT_BYTES], head[16];
    uint8_t row[FF_FIELDS_LIMIT * FF_SMALL_LABEL_BYTES];
    size_t key_bytes;
    ff_entry entry;
    FF_TRY(ff_dataset_entry(dataset, number, &entry, error));
    if (number && entry.item <= check->item)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: sample %" PRIu64 " is item %" PRIu64 ", out of order",
                       dataset->index_path, number, entry.item);
    check->item = entry.item;
    FF_TRY(ff_dataset_key(dataset, number, key + 4, &key_bytes, error));
    FF_TRY(ff_dataset_small_label(dataset, number, 0, row, dataset->row_bytes, error));
    for (size_t i = 0; i < metadata->field_count; i++) {
        int64_t value;
        if (metadata->field[i].kind == FF_FIELD_CLASS)
            FF_TRY(ff_dataset_class(dataset, number, i, &value, error));
    }
    FF_TRY(check_record(check, number, &entry, key + 4, row, error));
    ff_store_u64(head, entry.checksum);
    ff_store_u32(head + 8, entry.height);
    ff_store_u32(head + 12, entry.width);
    ff_store_u32(key, (uint32_t)key_bytes);
    XXH3_128bits_update(check->content, head, sizeof head);
    XXH3_128bits_update(check->content, row, dataset->row_bytes);
    XXH3_128bits_update(check->content, key, 4 + key_bytes);
    XXH3_128bits_update(check->source, key, 4 + key_bytes);
    ff_store_u64(head, entry.source_checksum);
    XXH3_128bits_update(check->source, head, 8);
    return FF_OK;
}

static ff_status check_ids(const sample_check *check, ff_error *error) {
    const ff_dataset *dataset = check->dataset;
    uint8_t id[3][16];
    const uint8_t *wanted[3] = {dataset->header.id.content, dataset->header.id.source,
                                dataset->header.id.transform};
    static const char *const name[3] = {"content_id", "source_id", "transform_id"};
    ff_id_store(id[0], XXH3_128bits_digest(check->content));
    ff_id_store(id[1], XXH3_128bits_digest(check->source));
    FF_TRY(ff_metadata_transform_id(&dataset->metadata, id[2], error));
    for (int i = 0; i < 3; i++)
        if (memcmp(id[i], wanted[i], 16))
            return ff_fail(error, FF_BAD_DATA, "%s: %s is not what its samples give",
                           dataset->index_path, name[i]);
    return FF_OK;
}

/* Every shard was opened and found sound before. */
static ff_status check_samples(verification *v, ff_error *error) {
    ff_dataset *dataset = v->dataset;
    sample_check check = {
        .dataset = dataset, .content = XXH3_createState(), .source = XXH3_createState()};
    ff_status status = FF_OK;
    if (!check.content || !check.source)
        status = ff_fail(error, FF_NO_MEMORY, "not enough memory for checksums");
    if (status == FF_OK)
        status = ff_alloc(&check.key_base, dataset->header.shard_count, sizeof *check.key_base,
                          "shards", error);
    if (status == FF_OK) {
        XXH3_128bits_reset(check.content);
        XXH3_128bits_reset(check.source);
    }
    for (uint32_t i = 1; status == FF_OK && i < dataset->header.shard_count; i++)
        check.key_base[i] =
            check.key_base[i - 1] + dataset->shard[i - 1].footer.section[FF_SHARD_KEYS].bytes;
    for (uint64_t number = 0; status == FF_OK && number < dataset->header.sample_count; number++)
        status = check_sample(&check, number, error);
    if (status == FF_OK) status = check_ids(&check, error);
    free(check.key_base);
    XXH3_freeState(check.content);
    XXH3_freeState(check.source);
    return status;
}

ff_status ff_verify_split(const char *path, int thread_count, ff_verify_report report,
                          void *context, ff_error *error) {
    verification v = {.report = report, .context = context};
    FF_TRY(ff_dataset_open(&v.dataset, path, FF_VERIFY_FIRST, error));
    pthread_mutex_init(&v.mutex, NULL);
    uint32_t shards = v.dataset->header.shard_count;
    v.total = v.dataset->bytes;
    for (uint32_t i = 0; i < shards; i++) v.total += v.dataset->row[i].file_bytes;
    ff_status status = ff_parallel_for(thread_count, shards, shard_body, &v, error);
    ff_error problem = {0};
    if (status == FF_OK && v.first.status == FF_OK && check_samples(&v, &problem) != FF_OK)
        note(&v, &problem, 0);
    note(&v, NULL, v.dataset->bytes);
    if (status == FF_OK && v.first.status != FF_OK) {
        status = v.first.status;
        if (error) *error = v.first;
    }
    pthread_mutex_destroy(&v.mutex);
    ff_dataset_close(&v.dataset);
    return status;
}
