#include "format/index.h"

#include "format/checksum.h"
#include "format/file.h"
#include "format/shard.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { RELEASE_EVERY = 1 << 16 };

typedef struct builder {
    const char *directory;
    ff_metadata metadata;
    ff_buffer text;
    uint32_t shard_count;
    ff_shard *shard;    /* [shard_count] */
    uint64_t *key_base; /* [shard_count]: where the shard's keys begin in the index's */
    uint64_t sample_count, file_bytes;
    /* item -> (shard << 32 | slot) + 1, 0 = skipped; NULL where storage order is number order. */
    uint64_t *place;
    uint64_t place_bytes;
    ff_file *file;
    /* Checksums of 64 KiB blocks, made while the bytes pass. */
    XXH3_state_t *block_state, *content_state, *source_state;
    uint64_t block_bytes;
    ff_buffer checksums;
    ff_index_header header;
} builder;

static ff_status end_block(builder *b, ff_error *error) {
    uint8_t bytes[8];
    ff_store_u64(bytes, XXH3_64bits_digest(b->block_state));
    XXH3_64bits_reset(b->block_state);
    b->block_bytes = 0;
    return ff_buffer_add(&b->checksums, bytes, sizeof bytes, error);
}

/* Writes bytes that the block checksums cover. */
static ff_status emit(builder *b, const void *bytes, uint64_t length, ff_error *error) {
    FF_TRY(ff_file_write(b->file, bytes, length, error));
    for (const uint8_t *at = bytes; length;) {
        uint64_t room = FF_INDEX_BLOCK_BYTES - b->block_bytes;
        uint64_t part = length < room ? length : room;
        XXH3_64bits_update(b->block_state, at, part);
        b->block_bytes += part;
        at += part;
        length -= part;
        if (b->block_bytes == FF_INDEX_BLOCK_BYTES) FF_TRY(end_block(b, error));
    }
    return FF_OK;
}

static ff_status begin_section(builder *b, int section, ff_error *error) {
    static const uint8_t zeros[FF_SECTION_ALIGNMENT];
    uint64_t offset = ff_file_offset(b->file);
    uint64_t aligned = ff_align_u64(offset, FF_SECTION_ALIGNMENT);
    b->header.section[section].offset = aligned;
    return emit(b, zeros, aligned - offset, error);
}

static void end_section(builder *b, int section) {
    ff_section *at = &b->header.section[section];
    at->bytes = ff_file_offset(b->file) - at->offset;
}

/* ---- the shards ----------------------------------------------------------------------------- */

static ff_status read_metadata(builder *b, ff_error *error) {
    ff_shard first;
    FF_TRY(ff_shard_open(&first, b->directory, 0, error));
    ff_status status = ff_shard_metadata_text(&first, &b->text, error);
    if (status == FF_OK)
        status = ff_metadata_read(&b->metadata, b->text.bytes, b->text.length, error);
    if (status == FF_BAD_DATA) status = ff_fail_within(error, status, "%s", first.path);
    ff_shard_close(&first);
    return status;
}

/* One shard: of this dataset, at its place, with sound records. *rising stays true while items come
 * in rising order. */
static ff_status check_shard(builder *b, uint32_t number, uint64_t *next_item, bool *rising,
                             ff_error *error) {
    ff_shard *shard = &b->shard[number];
    const ff_metadata *metadata = &b->metadata;
    uint8_t id[16];
    const uint8_t *bytes;
    FF_TRY(ff_shard_open(shard, b->directory, number, error));
    ff_id_of(id, b->text.bytes, b->text.length);
    uint64_t first = number * metadata->items_per_shard;
    uint64_t left = metadata->items - first;
    uint64_t count = left < metadata->items_per_shard ? left : metadata->items_per_shard;
    if (memcmp(id, shard->header.metadata_id, 16) || shard->header.first_position != first ||
        shard->header.position_count != count ||
        shard->header.compressed != (metadata->compression == FF_COMPRESSION_ZSTD))
        return ff_fail(error, FF_BAD_DATA, "%s: belongs to another dataset than shard 0",
                       shard->path);
    uint64_t row = ff_metadata_label_row_bytes(metadata);
    const ff_section *section = shard->footer.section;
    if (section[FF_SHARD_LABELS].bytes != shard->footer.sample_count * row)
        return ff_fail(error, FF_BAD_DATA, "%s: %" PRIu64 " bytes of labels, wanted %" PRIu64,
                       shard->path, section[FF_SHARD_LABELS].bytes,
                       shard->footer.sample_count * row);
    for (int i = 0; i < FF_SHARD_SECTIONS; i++) FF_TRY(ff_shard_section(shard, i, &bytes, error));
    for (uint64_t slot = 0; slot < shard->footer.sample_count; slot++) {
        uint8_t record[FF_ENTRY_BYTES];
        ff_entry entry;
        FF_TRY(ff_mapped_copy(record, shard->map, shard->path,
                              section[FF_SHARD_RECORDS].offset + slot * FF_ENTRY_BYTES,
                              FF_ENTRY_BYTES, error));
        if (!ff_entry_decode(&entry, record) || entry.item >= metadata->items ||
            entry.shard != number || entry.key_bytes > FF_KEY_LIMIT_BYTES ||
            entry.key_offset > section[FF_SHARD_KEYS].bytes ||
            entry.key_bytes > section[FF_SHARD_KEYS].bytes - entry.key_offset)
            return ff_fail(error, FF_BAD_DATA, "%s: record %" PRIu64 " is out of range",
                           shard->path, slot);
        FF_TRY(ff_entry_check(&entry, metadata, &shard->footer, shard->path, slot, error));
        *rising &= entry.item >= *next_item;
        *next_item = entry.item + 1;
    }
    b->key_base[number] =
        number ? b->key_base[number - 1] + b->shard[number - 1].footer.section[FF_SHARD_KEYS].bytes
               : 0;
    b->sample_count += shard->footer.sample_count;
    b->file_bytes += shard->bytes;
    madvise((void *)(uintptr_t)shard->map, shard->bytes, MADV_DONTNEED);
    return FF_OK;
}

static ff_status read_record(const builder *b, uint32_t shard, uint64_t slot, ff_entry *entry,
                             ff_error *error) {
    uint8_t record[FF_ENTRY_BYTES];
    const ff_shard *from = &b->shard[shard];
    FF_TRY(ff_mapped_copy(record, from->map, from->path,
                          from->footer.section[FF_SHARD_RECORDS].offset + slot * FF_ENTRY_BYTES,
                          FF_ENTRY_BYTES, error));
    ff_entry_decode(entry, record);
    return FF_OK;
}

static ff_status fill_places(builder *b, ff_error *error) {
    /* The table has a place for skipped items too; a file must not make it huge by its say-so. */
    if (b->metadata.items >> 20 > b->sample_count)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: %" PRIu64 " samples of %" PRIu64 " items: too few to order them",
                       b->directory, b->sample_count, b->metadata.items);
    if (!ff_mul_u64(b->metadata.items, sizeof *b->place, &b->place_bytes))
        return ff_fail(error, FF_NO_MEMORY, "too many items");
    void *table = mmap(NULL, b->place_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED)
        return ff_fail_errno(error, "%s: cannot map %" PRIu64 " bytes", b->directory,
                             b->place_bytes);
    b->place = table;
    for (uint32_t number = 0; number < b->shard_count; number++) {
        for (uint64_t slot = 0; slot < b->shard[number].footer.sample_count; slot++) {
            ff_entry entry;
            FF_TRY(read_record(b, number, slot, &entry, error));
            if (b->place[entry.item])
                return ff_fail(error, FF_BAD_DATA, "%s: item %" PRIu64 " is there twice",
                               b->shard[number].path, entry.item);
            b->place[entry.item] = ((uint64_t)number << 32 | slot) + 1;
        }
    }
    return FF_OK;
}

/* ---- walking in number order ------------------------------------------------------------------
 */

typedef struct walk {
    uint64_t item; /* with places */
    uint32_t shard;
    uint64_t slot; /* without */
} walk;

/* The next sample's shard and slot; false at the end. */
static bool next_sample(builder *b, walk *w, uint32_t *shard, uint64_t *slot) {
    if (b->place) {
        while (w->item < b->metadata.items && !b->place[w->item]) w->item++;
        if (w->item == b->metadata.items) return false;
        uint64_t place = b->place[w->item++] - 1;
        *shard = (uint32_t)(place >> 32);
        *slot = place & UINT32_MAX;
        return true;
    }
    while (w->shard < b->shard_count && w->slot == b->shard[w->shard].footer.sample_count) {
        ff_shard *done = &b->shard[w->shard];
        madvise((void *)(uintptr_t)done->map, done->bytes, MADV_DONTNEED);
        w->shard++;
        w->slot = 0;
    }
    if (w->shard == b->shard_count) return false;
    *shard = w->shard;
    *slot = w->slot++;
    return true;
}

/* Keeps the resident set small in the order that touches all shards at once. */
static void release_pages(builder *b, uint64_t number) {
    if (!b->place || number % RELEASE_EVERY) return;
    for (uint32_t i = 0; i < b->shard_count; i++)
        madvise((void *)(uintptr_t)b->shard[i].map, b->shard[i].bytes, MADV_DONTNEED);
}

/* content_id: of each sample its checksum, shape, label row, key length and key; source_id: of each
 * sample its key length, key and source checksum. In number order, integers little-endian. */
static ff_status add_to_ids(builder *b, const ff_entry *entry, const uint8_t *row,
                            ff_error *error) {
    const ff_shard *shard = &b->shard[entry->shard];
    uint8_t head[16], key[4 + FF_KEY_LIMIT_BYTES], source[8];
    ff_store_u64(head, entry->checksum);
    ff_store_u32(head + 8, entry->height);
    ff_store_u32(head + 12, entry->width);
    ff_store_u32(key, entry->key_bytes);
    FF_TRY(ff_mapped_copy(key + 4, shard->map, shard->path,
                          shard->footer.section[FF_SHARD_KEYS].offset + entry->key_offset,
                          entry->key_bytes, error));
    ff_store_u64(source, entry->source_checksum);
    XXH3_128bits_update(b->content_state, head, sizeof head);
    XXH3_128bits_update(b->content_state, row, ff_metadata_label_row_bytes(&b->metadata));
    XXH3_128bits_update(b->content_state, key, 4 + entry->key_bytes);
    XXH3_128bits_update(b->source_state, key, 4 + entry->key_bytes);
    XXH3_128bits_update(b->source_state, source, sizeof source);
    return FF_OK;
}

static ff_status read_row(const builder *b, uint32_t shard, uint64_t slot, uint8_t *row,
                          uint64_t bytes, ff_error *error) {
    const ff_shard *from = &b->shard[shard];
    return ff_mapped_copy(row, from->map, from->path,
                          from->footer.section[FF_SHARD_LABELS].offset + slot * bytes, bytes,
                          error);
}

static ff_status emit_samples(builder *b, ff_error *error) {
    uint32_t shard;
    uint64_t slot, number = 0;
    uint8_t row[FF_FIELDS_LIMIT * FF_SMALL_LABEL_BYTES];
    uint64_t row_bytes = ff_metadata_label_row_bytes(&b->metadata);
    FF_TRY(begin_section(b, FF_INDEX_ENTRIES, error));
    for (walk w = {0}; next_sample(b, &w, &shard, &slot); release_pages(b, ++number)) {
        ff_entry entry;
        uint8_t bytes[FF_ENTRY_BYTES];
        FF_TRY(read_record(b, shard, slot, &entry, error));
        FF_TRY(read_row(b, shard, slot, row, row_bytes, error));
        FF_TRY(add_to_ids(b, &entry, row, error));
        entry.key_offset += b->key_base[shard];
        ff_entry_encode(&entry, bytes);
        FF_TRY(emit(b, bytes, sizeof bytes, error));
    }
    end_section(b, FF_INDEX_ENTRIES);
    FF_TRY(begin_section(b, FF_INDEX_LABELS, error));
    for (walk w = {0}; next_sample(b, &w, &shard, &slot); release_pages(b, ++number)) {
        FF_TRY(read_row(b, shard, slot, row, row_bytes, error));
        FF_TRY(emit(b, row, row_bytes, error));
    }
    end_section(b, FF_INDEX_LABELS);
    return FF_OK;
}

/* Keys lie in storage order: the shards' key sections, one behind the other. */
static ff_status emit_keys(builder *b, ff_error *error) {
    FF_TRY(begin_section(b, FF_INDEX_KEYS, error));
    for (uint32_t i = 0; i < b->shard_count; i++) {
        const ff_section *section = &b->shard[i].footer.section[FF_SHARD_KEYS];
        for (uint64_t done = 0; done < section->bytes;) {
            uint8_t part[16384];
            uint64_t length =
                section->bytes - done < sizeof part ? section->bytes - done : sizeof part;
            FF_TRY(ff_mapped_copy(part, b->shard[i].map, b->shard[i].path, section->offset + done,
                                  length, error));
            FF_TRY(emit(b, part, length, error));
            done += length;
        }
    }
    end_section(b, FF_INDEX_KEYS);
    return FF_OK;
}

static ff_status emit_shard_rows(builder *b, ff_error *error) {
    FF_TRY(begin_section(b, FF_INDEX_SHARDS, error));
    for (uint32_t i = 0; i < b->shard_count; i++) {
        const ff_shard *shard = &b->shard[i];
        ff_shard_row row = {.file_bytes = shard->bytes,
                            .footer_offset = shard->footer_offset,
                            .footer_checksum = shard->footer.checksum,
                            .first_position = shard->header.first_position,
                            .position_count = shard->header.position_count,
                            .sample_count = shard->footer.sample_count,
                            .generation = shard->header.generation};
        uint8_t bytes[FF_SHARD_ROW_BYTES];
        ff_shard_row_encode(&row, bytes);
        FF_TRY(emit(b, bytes, sizeof bytes, error));
    }
    end_section(b, FF_INDEX_SHARDS);
    return FF_OK;
}

static ff_status write_index(builder *b, ff_error *error) {
    uint8_t header[FF_HEADER_BYTES] = {0};
    XXH128_hash_t id;
    FF_TRY(ff_file_create(&b->file, b->directory, FF_INDEX_NAME, error));
    FF_TRY(ff_file_write(b->file, header, sizeof header, error));
    FF_TRY(begin_section(b, FF_INDEX_METADATA, error));
    FF_TRY(emit(b, b->text.bytes, b->text.length, error));
    end_section(b, FF_INDEX_METADATA);
    FF_TRY(emit_shard_rows(b, error));
    FF_TRY(emit_samples(b, error));
    FF_TRY(emit_keys(b, error));
    FF_TRY(begin_section(b, FF_INDEX_CHECKSUMS, error));
    if (b->block_bytes) FF_TRY(end_block(b, error));
    FF_TRY(ff_file_write(b->file, b->checksums.bytes, b->checksums.length, error));
    end_section(b, FF_INDEX_CHECKSUMS);
    b->header.section[FF_INDEX_CHECKSUMS].checksum =
        ff_checksum(b->checksums.bytes, b->checksums.length);
    FF_TRY(ff_file_pad(b->file, FF_SECTION_ALIGNMENT, error));
    b->header.file_bytes = ff_file_offset(b->file);
    b->header.sample_count = b->sample_count;
    b->header.shard_count = b->shard_count;
    id = XXH3_128bits_digest(b->content_state);
    ff_id_store(b->header.id.content, id);
    id = XXH3_128bits_digest(b->source_state);
    ff_id_store(b->header.id.source, id);
    FF_TRY(ff_metadata_transform_id(&b->metadata, b->header.id.transform, error));
    ff_index_header_encode(&b->header, header);
    FF_TRY(ff_file_rewrite(b->file, 0, header, sizeof header, error));
    return ff_file_commit(&b->file, error);
}

static ff_status build(builder *b, ff_error *error) {
    FF_TRY(read_metadata(b, error));
    b->shard_count = (uint32_t)((b->metadata.items - 1) / b->metadata.items_per_shard + 1);
    FF_TRY(ff_alloc(&b->shard, b->shard_count, sizeof *b->shard, "shards", error));
    FF_TRY(ff_alloc(&b->key_base, b->shard_count, sizeof *b->key_base, "shards", error));
    bool rising = true;
    uint64_t next_item = 0;
    for (uint32_t i = 0; i < b->shard_count; i++)
        FF_TRY(check_shard(b, i, &next_item, &rising, error));
    if (!b->sample_count)
        return ff_fail(error, FF_BAD_DATA, "%s: not one sample could be packed", b->directory);
    if (!rising) FF_TRY(fill_places(b, error));
    b->block_state = XXH3_createState();
    b->content_state = XXH3_createState();
    b->source_state = XXH3_createState();
    if (!b->block_state || !b->content_state || !b->source_state)
        return ff_fail(error, FF_NO_MEMORY, "not enough memory for checksums");
    XXH3_64bits_reset(b->block_state);
    XXH3_128bits_reset(b->content_state);
    XXH3_128bits_reset(b->source_state);
    return write_index(b, error);
}

ff_status ff_index_build(const char *directory, ff_writer_result *result, ff_error *error) {
    builder b = {.directory = directory};
    ff_status status = build(&b, error);
    if (status == FF_OK) {
        *result = (ff_writer_result){.sample_count = b.sample_count,
                                     .shard_count = b.shard_count,
                                     .file_bytes = b.file_bytes + b.header.file_bytes};
        memcpy(result->content_id, b.header.id.content, 16);
        memcpy(result->transform_id, b.header.id.transform, 16);
        memcpy(result->source_id, b.header.id.source, 16);
    }
    ff_file_discard(&b.file);
    if (b.place) munmap(b.place, b.place_bytes);
    for (uint32_t i = 0; b.shard && i < b.shard_count; i++) ff_shard_close(&b.shard[i]);
    free(b.shard);
    free(b.key_base);
    XXH3_freeState(b.block_state);
    XXH3_freeState(b.content_state);
    XXH3_freeState(b.source_state);
    ff_buffer_free(&b.checksums);
    ff_buffer_free(&b.text);
    ff_metadata_free(&b.metadata);
    return status;
}
