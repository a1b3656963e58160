#include "format/disk/layout.h"

#include "format/disk/checksum.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Offsets inside the structures. Every structure ends with the XXH3-64 of all bytes before it. */
static const char raw_prefix[8] = {'f', 'f', 'p', 'a', 'c', 'k', '\r', '\n'};
static const char shard_magic[8] = {'F', 'F', 'S', 'H', 'A', 'R', 'D', '\n'};
static const char footer_magic[8] = {'F', 'F', 'S', 'F', 'O', 'O', 'T', '\n'};
static const char index_magic[8] = {'F', 'F', 'I', 'N', 'D', 'E', 'X', '\n'};

enum { SHARD_HEADER_USED = 64, ENTRY_USED = 62 };

static void seal(uint8_t *bytes, size_t length) {
    ff_store_u64(bytes + length - 8, ff_checksum(bytes, length - 8));
}

static bool is_zero(const uint8_t *bytes, size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        if (bytes[i]) return false;
    return true;
}

/* Checks checksum, magic and version of a structure; bytes from `used` on are reserved. */
static ff_status check_structure(const uint8_t *bytes, size_t length, size_t used,
                                 const char magic[8], size_t magic_offset, const char *what,
                                 const char *path, uint64_t offset, uint32_t *found_version,
                                 ff_error *error) {
    if (memcmp(bytes + magic_offset, magic, 8))
        return ff_fail(error, FF_BAD_DATA, "%s: offset %" PRIu64 ": no %s is here (wrong magic)",
                       path, offset, what);
    uint32_t version = ff_load_u32(bytes + magic_offset + 8);
    *found_version = version;
    if (version > FF_FORMAT_VERSION)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: offset %" PRIu64
                       ": %s of format version %u; this program reads 0 to %u",
                       path, offset, what, version, FF_FORMAT_VERSION);
    uint64_t found = ff_checksum(bytes, length - 8), wanted = ff_load_u64(bytes + length - 8);
    if (found != wanted)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: offset %" PRIu64 ": %s has checksum %016" PRIx64 ", wanted %016" PRIx64,
                       path, offset, what, found, wanted);
    if (!is_zero(bytes, used, length - 8))
        return ff_fail(error, FF_BAD_DATA,
                       "%s: offset %" PRIu64 ": %s has reserved bytes that are not zero", path,
                       offset, what);
    return FF_OK;
}

void ff_shard_header_encode(const ff_shard_header *header, uint8_t bytes[FF_HEADER_BYTES]) {
    memset(bytes, 0, FF_HEADER_BYTES);
    if (header->compressed) {
        ff_store_u32(bytes, FF_SKIPPABLE_MAGIC);
        ff_store_u32(bytes + 4, FF_HEADER_BYTES - FF_FRAME_HEADER_BYTES);
    } else {
        memcpy(bytes, raw_prefix, 8);
    }
    memcpy(bytes + 8, shard_magic, 8);
    ff_store_u32(bytes + 16, header->version);
    ff_store_u32(bytes + 20, header->number);
    ff_store_u32(bytes + 24, header->generation);
    ff_store_u64(bytes + 32, header->first_position);
    ff_store_u64(bytes + 40, header->position_count);
    memcpy(bytes + 48, header->metadata_id, 16);
    seal(bytes, FF_HEADER_BYTES);
}

ff_status ff_shard_header_decode(ff_shard_header *header, const uint8_t *bytes, const char *path,
                                 ff_error *error) {
    uint32_t version = 0;
    FF_TRY(check_structure(bytes, FF_HEADER_BYTES, SHARD_HEADER_USED, shard_magic, 8,
                           "shard header", path, 0, &version, error));
    *header = (ff_shard_header){.version = version,
                                .compressed = ff_load_u32(bytes) == FF_SKIPPABLE_MAGIC,
                                .number = ff_load_u32(bytes + 20),
                                .generation = ff_load_u32(bytes + 24),
                                .first_position = ff_load_u64(bytes + 32),
                                .position_count = ff_load_u64(bytes + 40)};
    memcpy(header->metadata_id, bytes + 48, 16);
    bool prefix = header->compressed ? ff_load_u32(bytes + 4) == FF_HEADER_BYTES - 8
                                     : !memcmp(bytes, raw_prefix, 8);
    if (!prefix || ff_load_u32(bytes + 28) || !header->position_count ||
        (!version && header->generation) || header->first_position > UINT64_C(1) << 40 ||
        header->position_count > UINT64_C(1) << 40)
        return ff_fail(error, FF_BAD_DATA, "%s: shard header: bad prefix or positions", path);
    return FF_OK;
}

static void encode_sections(const ff_section *section, int count, uint8_t *bytes) {
    for (int i = 0; i < count; i++, bytes += 24) {
        ff_store_u64(bytes, section[i].offset);
        ff_store_u64(bytes + 8, section[i].bytes);
        ff_store_u64(bytes + 16, section[i].checksum);
    }
}

/* Sections follow one another, each at the next multiple of 64, up to `end`. */
static ff_status decode_sections(ff_section *section, int count, const uint8_t *bytes,
                                 uint64_t begin, uint64_t end, const char *path, ff_error *error) {
    for (int i = 0; i < count; i++, bytes += 24) {
        section[i] =
            (ff_section){ff_load_u64(bytes), ff_load_u64(bytes + 8), ff_load_u64(bytes + 16)};
        uint64_t stop;
        if (section[i].offset != begin || !ff_add_u64(begin, section[i].bytes, &stop) || stop > end)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: section %d at offset %" PRIu64 " with %" PRIu64
                           " bytes, wanted it at %" PRIu64 " and to end by %" PRIu64,
                           path, i, section[i].offset, section[i].bytes, begin, end);
        begin = ff_align_u64(stop, FF_SECTION_ALIGNMENT);
    }
    if (begin != end)
        return ff_fail(error, FF_BAD_DATA, "%s: sections end at %" PRIu64 ", wanted %" PRIu64, path,
                       begin, end);
    return FF_OK;
}

void ff_shard_footer_encode(ff_shard_footer *footer, uint8_t bytes[FF_FOOTER_BYTES]) {
    memset(bytes, 0, FF_FOOTER_BYTES);
    memcpy(bytes, footer_magic, 8);
    ff_store_u32(bytes + 8, footer->version);
    ff_store_u32(bytes + 12, footer->number);
    ff_store_u64(bytes + 16, footer->sample_count);
    ff_store_u64(bytes + 24, footer->samples_end);
    ff_store_u64(bytes + 32, footer->payload_bytes);
    ff_store_u64(bytes + 40, footer->header_checksum);
    ff_store_u64(bytes + 48, footer->seek_table_bytes);
    ff_store_u64(bytes + 56, footer->seek_table_checksum);
    encode_sections(footer->section, FF_SHARD_SECTIONS, bytes + 64);
    seal(bytes, FF_FOOTER_BYTES);
    footer->checksum = ff_load_u64(bytes + FF_FOOTER_BYTES - 8);
}

ff_status ff_shard_footer_decode(ff_shard_footer *footer, const uint8_t *bytes,
                                 uint64_t footer_offset, const char *path, ff_error *error) {
    uint32_t version = 0;
    FF_TRY(check_structure(bytes, FF_FOOTER_BYTES, 64 + 24 * FF_SHARD_SECTIONS, footer_magic, 0,
                           "shard footer", path, footer_offset, &version, error));
    *footer = (ff_shard_footer){.version = version,
                                .number = ff_load_u32(bytes + 12),
                                .sample_count = ff_load_u64(bytes + 16),
                                .samples_end = ff_load_u64(bytes + 24),
                                .payload_bytes = ff_load_u64(bytes + 32),
                                .header_checksum = ff_load_u64(bytes + 40),
                                .seek_table_bytes = ff_load_u64(bytes + 48),
                                .seek_table_checksum = ff_load_u64(bytes + 56),
                                .checksum = ff_load_u64(bytes + FF_FOOTER_BYTES - 8)};
    if (footer->samples_end < FF_HEADER_BYTES || footer->samples_end > footer_offset)
        return ff_fail(error, FF_BAD_DATA, "%s: samples end at %" PRIu64 ", outside of the file",
                       path, footer->samples_end);
    bool compressed = footer->seek_table_bytes != 0;
    uint64_t tail = ff_align_u64(footer->samples_end + (compressed ? FF_FRAME_HEADER_BYTES : 0),
                                 FF_SECTION_ALIGNMENT);
    FF_TRY(decode_sections(footer->section, FF_SHARD_SECTIONS, bytes + 64, tail, footer_offset,
                           path, error));
    if (footer->sample_count > UINT32_MAX ||
        footer->section[FF_SHARD_RECORDS].bytes != footer->sample_count * FF_ENTRY_BYTES)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: %" PRIu64 " samples and %" PRIu64
                       " bytes of records, wanted 64 a sample",
                       path, footer->sample_count, footer->section[FF_SHARD_RECORDS].bytes);
    return FF_OK;
}

void ff_index_header_encode(const ff_index_header *header, uint8_t bytes[FF_HEADER_BYTES]) {
    memset(bytes, 0, FF_HEADER_BYTES);
    memcpy(bytes, index_magic, 8);
    ff_store_u32(bytes + 8, header->version);
    ff_store_u32(bytes + 12, header->shard_count);
    ff_store_u64(bytes + 16, header->file_bytes);
    ff_store_u64(bytes + 24, header->sample_count);
    ff_store_u32(bytes + 32, header->generation);
    memcpy(bytes + 36, header->id.content, 16);
    memcpy(bytes + 52, header->id.transform, 16);
    memcpy(bytes + 68, header->id.source, 16);
    encode_sections(header->section, FF_INDEX_SECTIONS, bytes + 84);
    seal(bytes, FF_HEADER_BYTES);
}

ff_status ff_index_header_decode(ff_index_header *header, const uint8_t *bytes, uint64_t file_bytes,
                                 const char *path, ff_error *error) {
    uint32_t version = 0;
    FF_TRY(check_structure(bytes, FF_HEADER_BYTES, 84 + 24 * FF_INDEX_SECTIONS, index_magic, 0,
                           "index header", path, 0, &version, error));
    *header = (ff_index_header){.version = version,
                                .shard_count = ff_load_u32(bytes + 12),
                                .file_bytes = ff_load_u64(bytes + 16),
                                .sample_count = ff_load_u64(bytes + 24),
                                .generation = ff_load_u32(bytes + 32)};
    memcpy(header->id.content, bytes + 36, 16);
    memcpy(header->id.transform, bytes + 52, 16);
    memcpy(header->id.source, bytes + 68, 16);
    if (header->file_bytes != file_bytes)
        return ff_fail(error, FF_BAD_DATA, "%s: %" PRIu64 " bytes long, wanted %" PRIu64, path,
                       file_bytes, header->file_bytes);
    FF_TRY(decode_sections(header->section, FF_INDEX_SECTIONS, bytes + 84, FF_HEADER_BYTES,
                           file_bytes, path, error));
    const ff_section *section = header->section;
    uint64_t covered = section[FF_INDEX_CHECKSUMS].offset - FF_HEADER_BYTES;
    uint64_t blocks = (covered + FF_INDEX_BLOCK_BYTES - 1) / FF_INDEX_BLOCK_BYTES;
    if (header->sample_count < 1 || header->sample_count > UINT64_C(1) << 40 ||
        section[FF_INDEX_ENTRIES].bytes != header->sample_count * FF_ENTRY_BYTES ||
        section[FF_INDEX_SHARDS].bytes != (uint64_t)header->shard_count * FF_SHARD_ROW_BYTES ||
        section[FF_INDEX_CHECKSUMS].bytes != blocks * 8 || header->shard_count < 1 ||
        (!version && header->generation))
        return ff_fail(error, FF_BAD_DATA,
                       "%s: section sizes do not fit %" PRIu64 " samples in %u shards", path,
                       header->sample_count, header->shard_count);
    return FF_OK;
}

void ff_entry_encode(const ff_entry *entry, uint8_t bytes[FF_ENTRY_BYTES]) {
    memset(bytes, 0, FF_ENTRY_BYTES);
    ff_store_u64(bytes, entry->item);
    ff_store_u64(bytes + 8, entry->offset);
    ff_store_u64(bytes + 16, entry->bytes);
    ff_store_u64(bytes + 24, entry->checksum);
    ff_store_u64(bytes + 32, entry->source_checksum);
    ff_store_u64(bytes + 40, entry->key_offset);
    ff_store_u32(bytes + 48, entry->height);
    ff_store_u32(bytes + 52, entry->width);
    ff_store_u32(bytes + 56, entry->shard);
    ff_store_u16(bytes + 60, (uint16_t)entry->key_bytes);
}

bool ff_entry_decode(ff_entry *entry, const uint8_t bytes[FF_ENTRY_BYTES]) {
    *entry = (ff_entry){.item = ff_load_u64(bytes),
                        .offset = ff_load_u64(bytes + 8),
                        .bytes = ff_load_u64(bytes + 16),
                        .checksum = ff_load_u64(bytes + 24),
                        .source_checksum = ff_load_u64(bytes + 32),
                        .key_offset = ff_load_u64(bytes + 40),
                        .height = ff_load_u32(bytes + 48),
                        .width = ff_load_u32(bytes + 52),
                        .shard = ff_load_u32(bytes + 56),
                        .key_bytes = ff_load_u16(bytes + 60)};
    return is_zero(bytes, ENTRY_USED, FF_ENTRY_BYTES);
}

void ff_frame_encode(const ff_frame *frame, uint8_t bytes[FF_FRAME_BYTES]) {
    memset(bytes, 0, FF_FRAME_BYTES);
    ff_store_u64(bytes, frame->file_offset);
    ff_store_u64(bytes + 8, frame->compressed_bytes);
    ff_store_u64(bytes + 16, frame->payload_offset);
    ff_store_u64(bytes + 24, frame->payload_bytes);
    ff_store_u64(bytes + 32, frame->filtered_bytes);
    ff_store_u64(bytes + 40, frame->checksum);
    ff_store_u32(bytes + 48, frame->first_slot);
    ff_store_u32(bytes + 52, frame->slot_count);
    ff_store_u32(bytes + 56, (uint32_t)frame->filter);
}

bool ff_frame_decode(ff_frame *frame, const uint8_t bytes[FF_FRAME_BYTES]) {
    *frame = (ff_frame){.file_offset = ff_load_u64(bytes),
                        .compressed_bytes = ff_load_u64(bytes + 8),
                        .payload_offset = ff_load_u64(bytes + 16),
                        .payload_bytes = ff_load_u64(bytes + 24),
                        .filtered_bytes = ff_load_u64(bytes + 32),
                        .checksum = ff_load_u64(bytes + 40),
                        .first_slot = ff_load_u32(bytes + 48),
                        .slot_count = ff_load_u32(bytes + 52),
                        .filter = (ff_filter)ff_load_u32(bytes + 56)};
    return ff_load_u32(bytes + 56) < FF_FILTER_COUNT && is_zero(bytes, 60, FF_FRAME_BYTES);
}

void ff_shard_row_encode(const ff_shard_row *row, uint8_t bytes[FF_SHARD_ROW_BYTES]) {
    memset(bytes, 0, FF_SHARD_ROW_BYTES);
    ff_store_u64(bytes, row->file_bytes);
    ff_store_u64(bytes + 8, row->footer_offset);
    ff_store_u64(bytes + 16, row->footer_checksum);
    ff_store_u64(bytes + 24, row->first_position);
    ff_store_u64(bytes + 32, row->position_count);
    ff_store_u64(bytes + 40, row->sample_count);
    ff_store_u32(bytes + 48, row->generation);
}

bool ff_shard_row_decode(ff_shard_row *row, const uint8_t bytes[FF_SHARD_ROW_BYTES]) {
    *row = (ff_shard_row){.file_bytes = ff_load_u64(bytes),
                          .footer_offset = ff_load_u64(bytes + 8),
                          .footer_checksum = ff_load_u64(bytes + 16),
                          .first_position = ff_load_u64(bytes + 24),
                          .position_count = ff_load_u64(bytes + 32),
                          .sample_count = ff_load_u64(bytes + 40),
                          .generation = ff_load_u32(bytes + 48)};
    return is_zero(bytes, 52, FF_SHARD_ROW_BYTES);
}

void ff_shard_name(char name[32], uint32_t number) {
    snprintf(name, 32, "shard-%06u.ffs", number);
}

bool ff_shard_name_parse(const char *name, uint32_t *number) {
    char *end, again[32];
    if (strncmp(name, "shard-", 6)) return false;
    *number = (uint32_t)strtoul(name + 6, &end, 10);
    ff_shard_name(again, *number);
    return !strcmp(again, name);
}
