#include "format/writer/index.h"

#include "format/disk/checksum.h"
#include "format/disk/generation.h"
#include "format/disk/ids.h"
#include "format/disk/shard.h"
#include "format/writer/buffers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct builder {
    const char *directory;
    ff_metadata metadata;
    const ff_buffer *text; /* the metadata's text */
    uint8_t metadata_id[16];
    uint32_t shard_count;
    ff_shard_row *row; /* [shard_count] */
    uint64_t sample_count, file_bytes;
    /* One bit per stored item, and the count before every 64 items: a sample's number is its item's
     * rank. */
    uint64_t *present, *rank;
    ff_file *file;
    ff_ids *ids;
    ff_buffer checksums;
    ff_shard_rows *records, *labels; /* of the shard that is being read */
    ff_index_header header;
} builder;

static ff_status begin_section(builder *b, int section, ff_error *error) {
    FF_TRY(ff_file_pad(b->file, FF_SECTION_ALIGNMENT, error));
    b->header.section[section].offset = ff_file_offset(b->file);
    return FF_OK;
}

static void end_section(builder *b, int section) {
    ff_section *at = &b->header.section[section];
    at->bytes = ff_file_offset(b->file) - at->offset;
}

/* ---- the shards ----------------------------------------------------------------------------- */

/* A shard is mapped only while it is read: a process has at most vm.max_map_count mappings, 65530
 * by default, and a set may have more shards. The shard is the same when it is opened again. */
static ff_status open_again(builder *b, uint32_t number, ff_shard *shard, ff_error *error) {
    FF_TRY(ff_shard_open(shard, b->directory, number, error));
    const ff_shard_row *row = &b->row[number];
    if (shard->footer.checksum == row->footer_checksum && shard->bytes == row->file_bytes)
        return FF_OK;
    ff_status status =
        ff_fail(error, FF_FAILED, "%s: was replaced while the index was built", shard->path);
    ff_shard_close(shard);
    return status;
}

static ff_status check_place(builder *b, const ff_shard *shard, ff_error *error) {
    const ff_metadata *metadata = &b->metadata;
    FF_TRY(ff_shard_belongs(shard, metadata, b->metadata_id, error));
    ff_shard_place place = ff_metadata_shard_place(metadata, shard->header.number);
    if (place.generation < metadata->generation_count && place.first_position == place.first_item) {
        ff_buffer text = {0};
        ff_status status = ff_shard_metadata_text(shard, &text, error);
        if (status == FF_OK) status = ff_shard_check_earlier(shard, metadata, &text, error);
        ff_buffer_free(&text);
        FF_TRY(status);
    }
    uint64_t row = ff_metadata_label_row_bytes(metadata);
    const ff_section *section = shard->footer.section;
    if (section[FF_SHARD_LABELS].bytes != shard->footer.sample_count * row)
        return ff_fail(error, FF_BAD_DATA, "%s: %" PRIu64 " bytes of labels, wanted %" PRIu64,
                       shard->path, section[FF_SHARD_LABELS].bytes,
                       shard->footer.sample_count * row);
    return FF_OK;
}

/* Checks that a shard belongs to this set, and keeps its row. */
static ff_status look_at_shard(builder *b, uint32_t number, ff_error *error) {
    ff_shard shard;
    FF_TRY(ff_shard_open(&shard, b->directory, number, error));
    ff_status status = check_place(b, &shard, error);
    b->row[number] = (ff_shard_row){.file_bytes = shard.bytes,
                                    .footer_offset = shard.footer_offset,
                                    .footer_checksum = shard.footer.checksum,
                                    .first_position = shard.header.first_position,
                                    .position_count = shard.header.position_count,
                                    .sample_count = shard.footer.sample_count,
                                    .generation = shard.header.generation};
    b->sample_count += shard.footer.sample_count;
    b->file_bytes += shard.bytes;
    ff_shard_close(&shard);
    return status;
}

/* Checks the shard's records and marks their items as present. */
static ff_status check_records(builder *b, const ff_shard *shard, ff_error *error) {
    const uint32_t number = shard->header.number;
    const ff_metadata *metadata = &b->metadata;
    const ff_section *section = shard->footer.section;
    ff_shard_place place = ff_metadata_shard_place(metadata, number);
    for (int i = 0; i < FF_SHARD_SECTIONS; i++) FF_TRY(ff_shard_check_section(shard, i, error));
    ff_shard_rows_begin(b->records, shard, FF_SHARD_RECORDS, FF_ENTRY_BYTES);
    for (uint64_t slot = 0; slot < shard->footer.sample_count; slot++) {
        const uint8_t *record;
        ff_entry entry;
        FF_TRY(ff_shard_rows_get(b->records, slot, &record, error));
        if (!ff_entry_decode(&entry, record) || entry.item < place.first_item ||
            entry.item >= place.end_item || entry.shard != number ||
            entry.key_bytes > FF_KEY_LIMIT_BYTES ||
            entry.key_offset > section[FF_SHARD_KEYS].bytes ||
            entry.key_bytes > section[FF_SHARD_KEYS].bytes - entry.key_offset)
            return ff_fail(error, FF_BAD_DATA, "%s: record %" PRIu64 " is out of range",
                           shard->path, slot);
        FF_TRY(ff_entry_check(&entry, metadata, &shard->footer, shard->path, slot, error));
        uint64_t *word = &b->present[entry.item / 64], bit = UINT64_C(1) << entry.item % 64;
        if (*word & bit)
            return ff_fail(error, FF_BAD_DATA, "%s: item %" PRIu64 " is there twice", shard->path,
                           entry.item);
        *word |= bit;
    }
    return FF_OK;
}

static ff_status mark_items(builder *b, ff_error *error) {
    uint64_t words = b->metadata.items / 64 + 1, before = 0;
    for (uint32_t i = 0; i < b->shard_count; i++) FF_TRY(look_at_shard(b, i, error));
    if (!b->sample_count)
        return ff_fail(error, FF_BAD_DATA, "%s: not one sample could be packed", b->directory);
    /* Skipped items also have a bit; a file must not be able to make the table huge. */
    if (b->metadata.items >> 20 > b->sample_count)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: %" PRIu64 " samples of %" PRIu64 " items: too few to order them",
                       b->directory, b->sample_count, b->metadata.items);
    FF_TRY(ff_alloc(&b->present, words, sizeof *b->present, "the items", error));
    for (uint32_t i = 0; i < b->shard_count; i++) {
        ff_shard shard;
        FF_TRY(open_again(b, i, &shard, error));
        ff_status status = check_records(b, &shard, error);
        ff_shard_close(&shard);
        FF_TRY(status);
    }
    FF_TRY(ff_alloc(&b->rank, words, sizeof *b->rank, "the items", error));
    for (uint64_t i = 0; i < words; i++) {
        b->rank[i] = before;
        before += (uint64_t)__builtin_popcountll(b->present[i]);
    }
    return FF_OK;
}

static uint64_t number_of(const builder *b, uint64_t item) {
    uint64_t below = b->present[item / 64] & ((UINT64_C(1) << item % 64) - 1);
    return b->rank[item / 64] + (uint64_t)__builtin_popcountll(below);
}

/* ---- from storage order to number order --------------------------------------------------------
 */

/* Writes a shard's records and label rows to their samples' places, and appends its keys. */
static ff_status place_shard(builder *b, const ff_shard *shard, ff_scatter *entries,
                             ff_scatter *labels, ff_error *error) {
    const ff_section *section = shard->footer.section;
    uint64_t row_bytes = ff_metadata_label_row_bytes(&b->metadata);
    uint64_t key_base = ff_file_offset(b->file) - b->header.section[FF_INDEX_KEYS].offset;
    ff_shard_rows_begin(b->records, shard, FF_SHARD_RECORDS, FF_ENTRY_BYTES);
    ff_shard_rows_begin(b->labels, shard, FF_SHARD_LABELS, (size_t)row_bytes);
    for (uint64_t slot = 0; slot < shard->footer.sample_count; slot++) {
        const uint8_t *found, *row;
        uint8_t record[FF_ENTRY_BYTES];
        ff_entry entry;
        FF_TRY(ff_shard_rows_get(b->records, slot, &found, error));
        FF_TRY(ff_shard_rows_get(b->labels, slot, &row, error));
        ff_entry_decode(&entry, found);
        uint64_t number = number_of(b, entry.item);
        entry.key_offset += key_base;
        ff_entry_encode(&entry, record);
        FF_TRY(ff_scatter_put(entries,
                              b->header.section[FF_INDEX_ENTRIES].offset + number * FF_ENTRY_BYTES,
                              record, FF_ENTRY_BYTES, error));
        FF_TRY(ff_scatter_put(labels,
                              b->header.section[FF_INDEX_LABELS].offset + number * row_bytes, row,
                              row_bytes, error));
    }
    for (uint64_t done = 0; done < section[FF_SHARD_KEYS].bytes;) {
        uint8_t part[16384];
        uint64_t left = section[FF_SHARD_KEYS].bytes - done;
        uint64_t length = left < sizeof part ? left : sizeof part;
        FF_TRY(ff_mapped_copy(part, &shard->mapped, section[FF_SHARD_KEYS].offset + done, length,
                              error));
        FF_TRY(ff_file_write(b->file, part, length, error));
        done += length;
    }
    return FF_OK;
}

static ff_status emit_samples(builder *b, ff_error *error) {
    uint64_t row_bytes = ff_metadata_label_row_bytes(&b->metadata);
    ff_scatter *s;
    FF_TRY(begin_section(b, FF_INDEX_ENTRIES, error));
    FF_TRY(ff_file_skip(b->file, b->sample_count * FF_ENTRY_BYTES, error));
    end_section(b, FF_INDEX_ENTRIES);
    FF_TRY(begin_section(b, FF_INDEX_LABELS, error));
    FF_TRY(ff_file_skip(b->file, b->sample_count * row_bytes, error));
    end_section(b, FF_INDEX_LABELS);
    FF_TRY(begin_section(b, FF_INDEX_KEYS, error));
    FF_TRY(ff_alloc(&s, 2, sizeof *s, "index buffers", error));
    s[0].file = s[1].file = b->file;
    ff_status status = FF_OK;
    for (uint32_t i = 0; i < b->shard_count && status == FF_OK; i++) {
        ff_shard shard;
        status = open_again(b, i, &shard, error);
        if (status != FF_OK) break;
        status = place_shard(b, &shard, &s[0], &s[1], error);
        ff_shard_close(&shard);
    }
    for (int i = 0; i < 2 && status == FF_OK; i++) status = ff_scatter_flush(&s[i], error);
    free(s);
    FF_TRY(status);
    end_section(b, FF_INDEX_KEYS);
    return FF_OK;
}

/* ---- checksums and ids, of the file as it was written -------------------------------------------
 */

static ff_status sum_blocks(builder *b, uint64_t end, ff_error *error) {
    uint8_t *block;
    FF_TRY(ff_alloc(&block, FF_INDEX_BLOCK_BYTES, 1, "a block of the index", error));
    ff_status status = FF_OK;
    for (uint64_t at = FF_HEADER_BYTES; at < end && status == FF_OK; at += FF_INDEX_BLOCK_BYTES) {
        uint8_t sum[8];
        size_t length = end - at < FF_INDEX_BLOCK_BYTES ? (size_t)(end - at) : FF_INDEX_BLOCK_BYTES;
        status = ff_file_read_back(b->file, at, block, length, error);
        ff_store_u64(sum, ff_checksum(block, length));
        if (status == FF_OK) status = ff_buffer_add(&b->checksums, sum, sizeof sum, error);
    }
    free(block);
    return status;
}

static ff_status sum_samples(builder *b, ff_window w[3], ff_error *error) {
    const ff_section *section = b->header.section;
    uint64_t row_bytes = ff_metadata_label_row_bytes(&b->metadata);
    for (uint64_t number = 0; number < b->sample_count; number++) {
        const uint8_t *record, *row, *key;
        ff_entry entry;
        FF_TRY(ff_window_get(&w[0], section[FF_INDEX_ENTRIES].offset + number * FF_ENTRY_BYTES,
                             FF_ENTRY_BYTES, &record, error));
        ff_entry_decode(&entry, record);
        FF_TRY(ff_window_get(&w[1], section[FF_INDEX_LABELS].offset + number * row_bytes,
                             (size_t)row_bytes, &row, error));
        FF_TRY(ff_window_get(&w[2], section[FF_INDEX_KEYS].offset + entry.key_offset,
                             entry.key_bytes, &key, error));
        ff_ids_add(b->ids, &entry, row, row_bytes, key);
    }
    return FF_OK;
}

static ff_status sum_ids(builder *b, ff_error *error) {
    ff_window *w;
    FF_TRY(ff_ids_create(&b->ids, error));
    FF_TRY(ff_alloc(&w, 3, sizeof *w, "index buffers", error));
    for (int i = 0; i < 3; i++) w[i].file = b->file;
    ff_status status = sum_samples(b, w, error);
    free(w);
    FF_TRY(status);
    ff_ids_finish(b->ids, &b->header.id);
    return ff_metadata_transform_id(&b->metadata, b->header.id.transform, error);
}

static ff_status emit_shard_rows(builder *b, ff_error *error) {
    FF_TRY(begin_section(b, FF_INDEX_SHARDS, error));
    for (uint32_t i = 0; i < b->shard_count; i++) {
        uint8_t bytes[FF_SHARD_ROW_BYTES];
        ff_shard_row_encode(&b->row[i], bytes);
        FF_TRY(ff_file_write(b->file, bytes, sizeof bytes, error));
    }
    end_section(b, FF_INDEX_SHARDS);
    return FF_OK;
}

static ff_status write_index(builder *b, ff_error *error) {
    uint8_t header[FF_HEADER_BYTES] = {0};
    FF_TRY(ff_file_create(&b->file, b->directory, FF_INDEX_NAME, error));
    FF_TRY(ff_file_write(b->file, header, sizeof header, error));
    FF_TRY(begin_section(b, FF_INDEX_METADATA, error));
    FF_TRY(ff_file_write(b->file, b->text->bytes, b->text->length, error));
    end_section(b, FF_INDEX_METADATA);
    FF_TRY(emit_shard_rows(b, error));
    FF_TRY(emit_samples(b, error));
    FF_TRY(sum_ids(b, error));
    FF_TRY(begin_section(b, FF_INDEX_CHECKSUMS, error));
    FF_TRY(sum_blocks(b, ff_file_offset(b->file), error));
    FF_TRY(ff_file_write(b->file, b->checksums.bytes, b->checksums.length, error));
    end_section(b, FF_INDEX_CHECKSUMS);
    b->header.section[FF_INDEX_CHECKSUMS].checksum =
        ff_checksum(b->checksums.bytes, b->checksums.length);
    FF_TRY(ff_file_pad(b->file, FF_SECTION_ALIGNMENT, error));
    b->header.version = b->metadata.version;
    b->header.generation = (uint32_t)b->metadata.generation_count;
    b->header.file_bytes = ff_file_offset(b->file);
    b->header.sample_count = b->sample_count;
    b->header.shard_count = b->shard_count;
    ff_index_header_encode(&b->header, header);
    return ff_file_rewrite(b->file, 0, header, sizeof header, error);
}

static ff_status read_text(builder *b, ff_buffer *text, ff_error *error) {
    ff_shard first;
    FF_TRY(ff_shard_open(&first, b->directory, 0, error));
    ff_status status = ff_shard_metadata_text(&first, text, error);
    ff_shard_close(&first);
    b->text = text;
    return status;
}

static ff_status build(builder *b, bool *written, ff_error *error) {
    FF_TRY(ff_metadata_read(&b->metadata, b->text->bytes, b->text->length, error));
    ff_id_of(b->metadata_id, b->text->bytes, b->text->length);
    b->shard_count = ff_metadata_shard_count(&b->metadata);
    FF_TRY(ff_alloc(&b->row, b->shard_count, sizeof *b->row, "shards", error));
    FF_TRY(ff_alloc(&b->records, 1, sizeof *b->records, "index buffers", error));
    FF_TRY(ff_alloc(&b->labels, 1, sizeof *b->labels, "index buffers", error));
    FF_TRY(mark_items(b, error));
    FF_TRY(write_index(b, error));
    if (written) {
        bool there;
        FF_TRY(ff_file_is_there(b->file, &there, error));
        *written = !there;
        if (there) return FF_OK;
    }
    return ff_file_commit(&b->file, error);
}

ff_status ff_index_build(const char *directory, const ff_buffer *text, ff_writer_result *result,
                         bool *written, ff_error *error) {
    builder b = {.directory = directory, .text = text};
    ff_buffer own = {0};
    ff_status status;
    FF_TRY_DONE(text ? FF_OK : read_text(&b, &own, error));
    FF_TRY_DONE(build(&b, written, error));
done:
    if (status == FF_OK) {
        *result = (ff_writer_result){.sample_count = b.sample_count,
                                     .shard_count = b.shard_count,
                                     .file_bytes = b.file_bytes + b.header.file_bytes};
        memcpy(result->content_id, b.header.id.content, 16);
        memcpy(result->transform_id, b.header.id.transform, 16);
        memcpy(result->source_id, b.header.id.source, 16);
    }
    ff_file_discard(&b.file);
    free(b.row);
    free(b.records);
    free(b.labels);
    free(b.present);
    free(b.rank);
    ff_ids_destroy(&b.ids);
    ff_buffer_free(&b.checksums);
    ff_buffer_free(&own);
    ff_metadata_free(&b.metadata);
    return status;
}
