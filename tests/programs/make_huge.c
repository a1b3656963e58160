/* Writes a set of many samples quickly: a complete index, and sparse shards with only a header and
 * a footer. For tests of opening: every sample's entry, label and zeros can be read, but the
 * shards' records are zeros too.
 *
 * make_huge DIR --count 10000000 */
#include "format/base/file.h"
#include "format/cli/options.h"
#include "format/disk/checksum.h"
#include "format/disk/generation.h"
#include "format/disk/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_BYTES = 10 };

typedef struct huge {
    const char *directory;
    ff_metadata metadata;
    ff_buffer text;
    uint8_t metadata_id[16];
    uint64_t count, slot_bytes, payload_checksum;
    ff_file *file;
    ff_index_header header;
    XXH3_state_t *sum; /* of the current block */
    uint64_t summed;   /* its bytes so far */
    ff_buffer sums;
} huge;

/* Writes everything after the header, and computes the blocks' checksums on the way. */
static ff_status emit(huge *make, const void *bytes, size_t length, ff_error *error) {
    const uint8_t *at = bytes;
    for (size_t left = length; left;) {
        size_t part = FF_INDEX_BLOCK_BYTES - make->summed;
        if (part > left) part = left;
        XXH3_64bits_update(make->sum, at, part);
        at += part;
        left -= part;
        make->summed += part;
        if (make->summed < FF_INDEX_BLOCK_BYTES) continue;
        uint8_t sum[8];
        ff_store_u64(sum, XXH3_64bits_digest(make->sum));
        FF_TRY(ff_buffer_add(&make->sums, sum, sizeof sum, error));
        XXH3_64bits_reset(make->sum);
        make->summed = 0;
    }
    return ff_file_write(make->file, bytes, length, error);
}

static ff_status begin(huge *make, int section, uint64_t bytes, ff_error *error) {
    static const uint8_t zeros[FF_SECTION_ALIGNMENT];
    uint64_t at = ff_file_offset(make->file);
    FF_TRY(emit(make, zeros, (size_t)(ff_align_u64(at, FF_SECTION_ALIGNMENT) - at), error));
    make->header.section[section] = (ff_section){ff_file_offset(make->file), bytes, 0};
    return FF_OK;
}

/* A sparse file with a header and a footer. */
static ff_status write_shard(const huge *make, uint32_t number, ff_shard_row *row,
                             ff_error *error) {
    uint8_t bytes[FF_HEADER_BYTES];
    char name[32], path[4096];
    ff_shard_place place = ff_metadata_shard_place(&make->metadata, number);
    ff_shard_header header = {.version = make->metadata.version,
                              .number = number,
                              .first_position = place.first_position,
                              .position_count = place.position_count};
    memcpy(header.metadata_id, make->metadata_id, 16);
    ff_shard_header_encode(&header, bytes);
    uint64_t payload = place.position_count * make->slot_bytes;
    ff_shard_footer footer = {.version = make->metadata.version,
                              .number = number,
                              .sample_count = place.position_count,
                              .samples_end = FF_HEADER_BYTES + payload,
                              .payload_bytes = payload,
                              .header_checksum = ff_load_u64(bytes + FF_HEADER_BYTES - 8)};
    const uint64_t sizes[FF_SHARD_SECTIONS] = {
        place.position_count * FF_ENTRY_BYTES, place.position_count * 8,
        place.position_count * KEY_BYTES, 0, make->text.length};
    uint64_t offset = footer.samples_end;
    for (int i = 0; i < FF_SHARD_SECTIONS; i++) {
        offset = ff_align_u64(offset, FF_SECTION_ALIGNMENT);
        footer.section[i] = (ff_section){offset, sizes[i], 0};
        offset += sizes[i];
    }
    offset = ff_align_u64(offset, FF_SECTION_ALIGNMENT);
    uint8_t foot[FF_FOOTER_BYTES];
    ff_shard_footer_encode(&footer, foot);
    ff_shard_name(name, number);
    snprintf(path, sizeof path, "%s/%s", make->directory, name);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool written = file >= 0 && pwrite(file, bytes, sizeof bytes, 0) == sizeof bytes &&
                   pwrite(file, foot, sizeof foot, (off_t)offset) == sizeof foot;
    if (file >= 0) close(file);
    if (!written) return ff_fail_errno(error, "%s: cannot write", path);
    *row = (ff_shard_row){.file_bytes = offset + FF_FOOTER_BYTES,
                          .footer_offset = offset,
                          .footer_checksum = footer.checksum,
                          .first_position = place.first_position,
                          .position_count = place.position_count,
                          .sample_count = place.position_count};
    return FF_OK;
}

static ff_status write_rows(huge *make, ff_error *error) {
    make->header.shard_count = ff_metadata_shard_count(&make->metadata);
    FF_TRY(begin(make, FF_INDEX_SHARDS, (uint64_t)make->header.shard_count * FF_SHARD_ROW_BYTES,
                 error));
    for (uint32_t i = 0; i < make->header.shard_count; i++) {
        ff_shard_row row;
        uint8_t bytes[FF_SHARD_ROW_BYTES];
        FF_TRY(write_shard(make, i, &row, error));
        ff_shard_row_encode(&row, bytes);
        FF_TRY(emit(make, bytes, sizeof bytes, error));
    }
    return FF_OK;
}

static ff_status write_samples(huge *make, ff_error *error) {
    const ff_metadata *metadata = &make->metadata;
    FF_TRY(begin(make, FF_INDEX_ENTRIES, make->count * FF_ENTRY_BYTES, error));
    for (uint64_t i = 0; i < make->count; i++) {
        uint8_t bytes[FF_ENTRY_BYTES];
        ff_entry entry = {
            .item = i,
            .offset = FF_HEADER_BYTES + i % metadata->items_per_shard * make->slot_bytes,
            .bytes = ff_metadata_payload_bytes(metadata, metadata->height, metadata->width),
            .checksum = make->payload_checksum,
            .key_offset = i * KEY_BYTES,
            .key_bytes = KEY_BYTES,
            .height = metadata->height,
            .width = metadata->width,
            .shard = (uint32_t)(i / metadata->items_per_shard)};
        ff_entry_encode(&entry, bytes);
        FF_TRY(emit(make, bytes, sizeof bytes, error));
    }
    FF_TRY(begin(make, FF_INDEX_LABELS, make->count * 8, error));
    for (uint64_t i = 0; i < make->count; i++) {
        uint8_t row[8] = {0};
        ff_store_u32(row, (uint32_t)(i % 1000));
        FF_TRY(emit(make, row, sizeof row, error));
    }
    FF_TRY(begin(make, FF_INDEX_KEYS, make->count * KEY_BYTES, error));
    for (uint64_t i = 0; i < make->count; i++) {
        char key[KEY_BYTES + 1];
        snprintf(key, sizeof key, "%010" PRIu64, i % UINT64_C(10000000000));
        FF_TRY(emit(make, key, KEY_BYTES, error));
    }
    return FF_OK;
}

static ff_status write_all(huge *make, ff_error *error) {
    uint8_t header[FF_HEADER_BYTES] = {0}, sum[8];
    FF_TRY(ff_file_create(&make->file, make->directory, FF_INDEX_NAME, error));
    FF_TRY(ff_file_write(make->file, header, sizeof header, error));
    FF_TRY(begin(make, FF_INDEX_METADATA, make->text.length, error));
    FF_TRY(emit(make, make->text.bytes, make->text.length, error));
    FF_TRY(write_rows(make, error));
    FF_TRY(write_samples(make, error));
    FF_TRY(begin(make, FF_INDEX_CHECKSUMS, 0, error));
    ff_store_u64(sum, XXH3_64bits_digest(make->sum));
    if (make->summed) FF_TRY(ff_buffer_add(&make->sums, sum, sizeof sum, error));
    make->header.section[FF_INDEX_CHECKSUMS].bytes = make->sums.length;
    make->header.section[FF_INDEX_CHECKSUMS].checksum =
        ff_checksum(make->sums.bytes, make->sums.length);
    FF_TRY(ff_file_write(make->file, make->sums.bytes, make->sums.length, error));
    FF_TRY(ff_file_pad(make->file, FF_SECTION_ALIGNMENT, error));
    make->header.version = make->metadata.version;
    make->header.sample_count = make->count;
    make->header.file_bytes = ff_file_offset(make->file);
    ff_index_header_encode(&make->header, header);
    FF_TRY(ff_file_rewrite(make->file, 0, header, sizeof header, error));
    return ff_file_commit(&make->file, error);
}

static ff_status describe(huge *make, uint32_t side, uint64_t shard_bytes, ff_error *error) {
    ff_metadata *metadata = &make->metadata;
    *metadata = (ff_metadata){
        .dtype = FF_F16, .channels = 3, .height = side, .width = side, .items = make->count};
    FF_TRY(ff_metadata_add_field(metadata, "label", FF_FIELD_CLASS, FF_I32, 1, error));
    FF_TRY(ff_metadata_plan(metadata, shard_bytes, error));
    FF_TRY(ff_metadata_write(metadata, &make->text, error));
    ff_id_of(make->metadata_id, make->text.bytes, make->text.length);
    make->slot_bytes = ff_metadata_slot_bytes(metadata, side, side);
    uint8_t *zeros;
    uint64_t bytes = ff_metadata_payload_bytes(metadata, side, side);
    FF_TRY(ff_alloc(&zeros, bytes, 1, "a sample", error));
    make->payload_checksum = ff_checksum(zeros, bytes);
    free(zeros);
    return FF_OK;
}

int main(int argc, char **argv) {
    int64_t count = 10000000, side = 224;
    uint64_t shard_bytes = UINT64_C(256) << 20;
    const ff_option table[] = {
        {"count", 0, FF_OPTION_INTEGER, "N", &count, NULL, 1, 1e9, "samples; 10000000"},
        {"side", 0, FF_OPTION_INTEGER, "N", &side, NULL, 1, 4096, "of 3 x N x N f16; 224"},
        {"shard-size", 0, FF_OPTION_BYTES, "BYTES", &shard_bytes, NULL, 1, 1e15, "256M"},
        {0}};
    const ff_command command = {.program = "make_huge",
                                .usage = "make_huge DIR [options]",
                                .summary = "Writes a set of many samples that are zeros.",
                                .options = table};
    ff_error error = {0};
    ff_positionals words;
    ff_status status = ff_options_parse(&command, argc, argv, &words, &error);
    if (status == FF_OK && !words.done) {
        huge make = {.directory = words.count == 1 ? words.operand[0] : ".",
                     .count = (uint64_t)count,
                     .sum = XXH3_createState()};
        if (!make.sum || words.count != 1) status = ff_fail(&error, FF_USAGE, "wanted one folder");
        if (status == FF_OK && mkdir(make.directory, 0777) && errno != EEXIST)
            status = ff_fail_errno(&error, "%s: cannot create", make.directory);
        if (make.sum) XXH3_64bits_reset(make.sum);
        if (status == FF_OK) status = describe(&make, (uint32_t)side, shard_bytes, &error);
        if (status == FF_OK) status = write_all(&make, &error);
        ff_file_discard(&make.file);
        ff_buffer_free(&make.sums);
        ff_buffer_free(&make.text);
        ff_metadata_free(&make.metadata);
        XXH3_freeState(make.sum);
    }
    ff_positionals_free(&words);
    if (status == FF_OK) return 0;
    fprintf(stderr, "make_huge: %s\n", error.message);
    return ff_exit_code(&error);
}
