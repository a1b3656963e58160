#include "format/writer/writer.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/disk/checksum.h"
#include "format/disk/generation.h"
#include "format/disk/shard.h"
#include "format/writer/index.h"
#include "format/writer/pending.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ff_writer {
    char *directory;
    ff_metadata metadata;
    ff_buffer text; /* the metadata's text */
    uint8_t metadata_id[16];
    bool is_part;
    ff_part part;
    bool pending;           /* shards stay pending */
    ff_buffer note;         /* the caller's note, for pending shards */
    ff_pending found, next; /* the last pending shard found; the one being written */
    uint32_t first_shard, end_shard;
    uint64_t first_block, next_block, end_block;
    uint64_t part_samples, part_bytes; /* totals of a part's whole shards */
    /* The shard being written; file NULL between shards. */
    ff_file *file;
    uint32_t number;
    uint64_t header_checksum;
    uint64_t payload_bytes;
    uint64_t sample_count;
    ff_buffer records, labels, keys, frames, seek;
};

static uint64_t blocks_per_shard(const ff_writer *writer) {
    return writer->metadata.items_per_shard / writer->metadata.items_per_block;
}

/* Shards that another run or another part left must not end up in this set. */
static ff_status refuse_others(const ff_writer *writer, ff_error *error) {
    uint32_t lowest = writer->is_part ? writer->first_shard : 0;
    DIR *folder = opendir(writer->directory);
    if (!folder) return ff_fail_errno(error, "%s: cannot open the folder", writer->directory);
    ff_status status = FF_OK;
    for (struct dirent *item; status == FF_OK && (item = readdir(folder));) {
        uint32_t number;
        const char *name = item->d_name;
        bool wrong = ff_shard_name_parse(name, &number)
                         ? number < lowest || number >= writer->end_shard || writer->pending
                     : ff_pending_name_parse(name, &number)
                         ? !writer->pending || number < lowest ||
                               number * blocks_per_shard(writer) >= writer->next_block
                     : writer->is_part ? !strcmp(name, FF_INDEX_NAME)
                                       : !strcmp(name, FF_PART_NAME) || !strcmp(name, FF_SUMS_NAME);
        if (wrong)
            status = ff_fail(error, FF_USAGE,
                             "an earlier run with other options or another source left %s/%s",
                             writer->directory, name);
    }
    closedir(folder);
    return status;
}

static ff_status compare_text(const ff_writer *writer, const char *path, const ff_buffer *found,
                              ff_error *error) {
    ff_status status = ff_metadata_compare(path, found, &writer->text, error);
    return status == FF_OK
               ? FF_OK
               : ff_fail_within(error, status,
                                "an earlier run with other options or another source left %s",
                                writer->directory);
}

/* Adds the last pending shard found to the totals. */
static ff_status add_pending(ff_writer *writer, ff_error *error) {
    const ff_pending *found = &writer->found;
    ff_shard_footer footer;
    FF_TRY(
        ff_shard_footer_decode(&footer, found->footer, found->footer_offset, found->path, error));
    writer->part_samples += footer.sample_count;
    writer->part_bytes += found->file_bytes;
    return FF_OK;
}

/* Counts pending shards in the same way. If no pending shards are expected, one that exists has
 * other metadata too. */
static ff_status find_pending_shards(ff_writer *writer, ff_error *error) {
    for (uint32_t number = writer->first_shard; number < writer->end_shard; number++) {
        if (!ff_pending_is(writer->directory, number)) break;
        ff_pending_free(&writer->found);
        FF_TRY(ff_pending_read(&writer->found, writer->directory, number, error));
        FF_TRY(compare_text(writer, writer->found.path, &writer->found.text, error));
        FF_TRY(add_pending(writer, error));
        writer->next_block += blocks_per_shard(writer);
    }
    if (writer->next_block > writer->end_block) writer->next_block = writer->end_block;
    return FF_OK;
}

/* Counts whole shards from the first one on; each must carry the same metadata. */
static ff_status find_whole_shards(ff_writer *writer, ff_error *error) {
    if (writer->pending || ff_pending_is(writer->directory, writer->first_shard))
        return find_pending_shards(writer, error);
    for (uint32_t number = writer->first_shard; number < writer->end_shard; number++) {
        ff_shard shard;
        char name[32];
        ff_shard_name(name, number);
        if (!ff_path_exists("%s/%s", writer->directory, name) && errno == ENOENT) break;
        FF_TRY(ff_shard_open(&shard, writer->directory, number, error));
        ff_buffer found = {0};
        ff_status status = ff_shard_metadata_text(&shard, &found, error);
        if (status == FF_OK) status = compare_text(writer, shard.path, &found, error);
        writer->part_samples += shard.footer.sample_count;
        writer->part_bytes += shard.bytes;
        ff_buffer_free(&found);
        ff_shard_close(&shard);
        FF_TRY(status);
        writer->next_block += blocks_per_shard(writer);
    }
    if (writer->next_block > writer->end_block) writer->next_block = writer->end_block;
    return FF_OK;
}

/* Sets which shards and blocks this writer writes. */
static void set_range(ff_writer *writer, const ff_part *part) {
    const ff_metadata *metadata = &writer->metadata;
    uint64_t items = metadata->items - ff_metadata_first_item(metadata);
    uint64_t blocks = (items - 1) / metadata->items_per_block + 1;
    uint32_t first = ff_metadata_first_shard(metadata);
    writer->first_shard = first;
    writer->end_shard = ff_metadata_shard_count(metadata);
    if (part) {
        writer->is_part = true;
        writer->part = *part;
        ff_part_range(part, writer->end_shard, &writer->first_shard, &writer->end_shard);
    }
    writer->first_block = (writer->first_shard - first) * blocks_per_shard(writer);
    writer->end_block = (writer->end_shard - first) * blocks_per_shard(writer);
    if (writer->end_block > blocks) writer->end_block = blocks;
    writer->next_block = writer->first_block;
}

static ff_status open_writer(ff_writer **out, const char *directory, const ff_metadata *metadata,
                             const ff_part *part, bool pending, ff_error *error) {
    ff_writer *writer;
    *out = NULL;
    FF_TRY(ff_metadata_check(metadata, error));
    FF_TRY(ff_alloc(&writer, 1, sizeof *writer, "a writer", error));
    writer->pending = pending;
    ff_status status;
    FF_TRY_DONE(ff_copy_string(&writer->directory, directory, error));
    FF_TRY_DONE(ff_metadata_copy(&writer->metadata, metadata, error));
    FF_TRY_DONE(ff_metadata_write(metadata, &writer->text, error));
    ff_id_of(writer->metadata_id, writer->text.bytes, writer->text.length);
    set_range(writer, part);
    FF_TRY_DONE(ff_pending_tidy(directory, error));
    FF_TRY_DONE(find_whole_shards(writer, error));
    FF_TRY_DONE(refuse_others(writer, error));
done:
    if (status != FF_OK) ff_writer_close(&writer);
    *out = writer;
    return status;
}

ff_status ff_writer_open(ff_writer **writer, const char *directory, const ff_metadata *metadata,
                         const ff_part *part, ff_error *error) {
    return open_writer(writer, directory, metadata, part, false, error);
}

ff_status ff_writer_open_pending(ff_writer **writer, const char *directory,
                                 const ff_metadata *metadata, const ff_part *part,
                                 ff_error *error) {
    return open_writer(writer, directory, metadata, part, true, error);
}

ff_status ff_writer_set_note(ff_writer *writer, const ff_buffer *note, ff_error *error) {
    writer->note.length = 0;
    return ff_buffer_add(&writer->note, note->bytes, note->length, error);
}

const ff_buffer *ff_writer_note_found(const ff_writer *writer) {
    return &writer->found.note;
}

uint64_t ff_writer_first_block(const ff_writer *writer) {
    return writer->first_block;
}

uint64_t ff_writer_next_block(const ff_writer *writer) {
    return writer->next_block;
}

uint64_t ff_writer_end_block(const ff_writer *writer) {
    return writer->end_block;
}

static ff_status begin_shard(ff_writer *writer, ff_error *error) {
    char name[32];
    writer->number = ff_metadata_first_shard(&writer->metadata) +
                     (uint32_t)(writer->next_block / blocks_per_shard(writer));
    writer->records.length = writer->labels.length = writer->keys.length = 0;
    writer->frames.length = writer->seek.length = 0;
    writer->payload_bytes = writer->sample_count = 0;
    uint8_t bytes[FF_HEADER_BYTES];
    ff_shard_header_make(&writer->metadata, writer->metadata_id, writer->number, bytes);
    writer->header_checksum = ff_load_u64(bytes + FF_HEADER_BYTES - 8);
    ff_shard_name(name, writer->number);
    FF_TRY(ff_file_create(&writer->file, writer->directory, name, error));
    return ff_file_write(writer->file, bytes, sizeof bytes, error);
}

static ff_status add_seek_row(ff_writer *writer, uint64_t compressed, uint64_t decompressed,
                              ff_error *error) {
    uint8_t row[FF_SEEK_ROW_BYTES];
    if (compressed > UINT32_MAX || decompressed > UINT32_MAX)
        return ff_fail(error, FF_BAD_DATA, "a frame of 4 GiB or more does not fit a zstd shard");
    ff_store_u32(row, (uint32_t)compressed);
    ff_store_u32(row + 4, (uint32_t)decompressed);
    return ff_buffer_add(&writer->seek, row, sizeof row, error);
}

static ff_status add_frame(ff_writer *writer, const ff_block_content *content, ff_error *error) {
    ff_frame frame = {.file_offset = ff_file_offset(writer->file),
                      .compressed_bytes = content->length,
                      .payload_offset = writer->payload_bytes,
                      .payload_bytes = content->payload_bytes,
                      .filtered_bytes = content->filtered_bytes,
                      .checksum = content->checksum,
                      .first_slot = (uint32_t)writer->sample_count,
                      .slot_count = (uint32_t)content->sample_count,
                      .filter = content->filter};
    uint8_t bytes[FF_FRAME_BYTES];
    ff_frame_encode(&frame, bytes);
    FF_TRY(ff_buffer_add(&writer->frames, bytes, sizeof bytes, error));
    return add_seek_row(writer, frame.compressed_bytes, frame.filtered_bytes, error);
}

static ff_status add_block(ff_writer *writer, const ff_block_content *content, ff_error *error) {
    bool compressed = writer->metadata.compression == FF_COMPRESSION_ZSTD;
    uint64_t base = compressed ? writer->payload_bytes : ff_file_offset(writer->file);
    for (uint64_t i = 0; i < content->sample_count; i++) {
        ff_entry entry = content->entry[i];
        uint8_t bytes[FF_ENTRY_BYTES];
        entry.offset += base;
        entry.key_offset += writer->keys.length;
        entry.shard = writer->number;
        ff_entry_encode(&entry, bytes);
        FF_TRY(ff_buffer_add(&writer->records, bytes, sizeof bytes, error));
    }
    FF_TRY(ff_buffer_add(&writer->keys, content->keys, content->keys_bytes, error));
    FF_TRY(ff_buffer_add(&writer->labels, content->labels,
                         content->sample_count * ff_metadata_label_row_bytes(&writer->metadata),
                         error));
    if (compressed) FF_TRY(add_frame(writer, content, error));
    FF_TRY(ff_file_write(writer->file, content->bytes, content->length, error));
    writer->payload_bytes += content->payload_bytes;
    writer->sample_count += content->sample_count;
    return FF_OK;
}

/* zstd's seekable format: a skippable frame with one row per frame (including the skippable header
 * and tail, with 0 decompressed bytes), followed by count, descriptor 0 and magic. */
static ff_status finish_seek_table(ff_writer *writer, uint64_t tail_bytes, ff_buffer *table,
                                   ff_error *error) {
    uint8_t bytes[FF_FRAME_HEADER_BYTES + FF_SEEK_ROW_BYTES] = {0};
    uint64_t rows = writer->seek.length / FF_SEEK_ROW_BYTES + 2;
    FF_TRY(add_seek_row(writer, tail_bytes, 0, error));
    ff_store_u32(bytes, FF_SEEK_TABLE_MAGIC);
    ff_store_u32(bytes + 4, (uint32_t)(rows * FF_SEEK_ROW_BYTES + FF_SEEK_FOOTER_BYTES));
    ff_store_u32(bytes + 8, FF_HEADER_BYTES);
    FF_TRY(ff_buffer_add(table, bytes, sizeof bytes, error));
    FF_TRY(ff_buffer_add(table, writer->seek.bytes, writer->seek.length, error));
    uint8_t end[FF_SEEK_FOOTER_BYTES] = {0};
    ff_store_u32(end, (uint32_t)rows);
    ff_store_u32(end + 5, FF_SEEK_FOOTER_MAGIC);
    return ff_buffer_add(table, end, sizeof end, error);
}

/* Sections, footer and seek table after the samples. */
static ff_status write_tail(ff_writer *writer, ff_buffer *table, ff_error *error) {
    const ff_buffer *content[FF_SHARD_SECTIONS] = {&writer->records, &writer->labels, &writer->keys,
                                                   &writer->frames, &writer->text};
    ff_shard_footer footer = {.version = writer->metadata.version,
                              .number = writer->number,
                              .sample_count = writer->sample_count,
                              .samples_end = ff_file_offset(writer->file),
                              .payload_bytes = writer->payload_bytes,
                              .header_checksum = writer->header_checksum};
    bool compressed = writer->metadata.compression == FF_COMPRESSION_ZSTD;
    uint64_t offset = footer.samples_end + (compressed ? FF_FRAME_HEADER_BYTES : 0);
    for (int i = 0; i < FF_SHARD_SECTIONS; i++) {
        offset = ff_align_u64(offset, FF_SECTION_ALIGNMENT);
        footer.section[i] = (ff_section){
            offset, content[i]->length,
            ff_checksum(content[i]->bytes ? content[i]->bytes : "", content[i]->length)};
        offset += content[i]->length;
    }
    offset = ff_align_u64(offset, FF_SECTION_ALIGNMENT) + FF_FOOTER_BYTES;
    if (compressed) {
        uint64_t tail_bytes = offset - footer.samples_end;
        FF_TRY(finish_seek_table(writer, tail_bytes, table, error));
        footer.seek_table_bytes = table->length;
        footer.seek_table_checksum = ff_checksum(table->bytes, table->length);
        uint8_t frame_header[FF_FRAME_HEADER_BYTES];
        ff_store_u32(frame_header, FF_SKIPPABLE_MAGIC);
        ff_store_u32(frame_header + 4, (uint32_t)(tail_bytes - FF_FRAME_HEADER_BYTES));
        FF_TRY(ff_file_write(writer->file, frame_header, sizeof frame_header, error));
    }
    for (int i = 0; i < FF_SHARD_SECTIONS; i++) {
        FF_TRY(ff_file_pad(writer->file, FF_SECTION_ALIGNMENT, error));
        FF_TRY(ff_file_write(writer->file, content[i]->bytes, content[i]->length, error));
    }
    FF_TRY(ff_file_pad(writer->file, FF_SECTION_ALIGNMENT, error));
    writer->next.footer_offset = ff_file_offset(writer->file);
    ff_shard_footer_encode(&footer, writer->next.footer);
    FF_TRY(ff_file_write(writer->file, writer->next.footer, FF_FOOTER_BYTES, error));
    return ff_file_write(writer->file, table->bytes, table->length, error);
}

/* Syncs the shard's bytes first, then commits the file that marks them as written. */
static ff_status leave_pending(ff_writer *writer, ff_error *error) {
    ff_pending *next = &writer->next;
    next->file_bytes = ff_file_offset(writer->file);
    next->text = writer->text; /* borrowed, both */
    next->note = writer->note;
    FF_TRY(ff_file_keep(&writer->file, error));
    return ff_pending_write(next, writer->directory, writer->number, error);
}

static ff_status commit_shard(ff_writer *writer, ff_error *error) {
    ff_buffer table = {0};
    ff_status status = write_tail(writer, &table, error);
    ff_buffer_free(&table);
    if (status != FF_OK) return status;
    writer->part_samples += writer->sample_count;
    writer->part_bytes += ff_file_offset(writer->file);
    return writer->pending ? leave_pending(writer, error) : ff_file_commit(&writer->file, error);
}

ff_status ff_writer_append(ff_writer *writer, const ff_block *block, ff_error *error) {
    if (ff_block_number(block) != writer->next_block)
        return ff_fail(error, FF_FAILED, "block %" PRIu64 " was appended, wanted %" PRIu64,
                       ff_block_number(block), writer->next_block);
    if (!writer->file) FF_TRY(begin_shard(writer, error));
    if (ff_block_count(block)) {
        ff_block_content content = ff_block_contents(block);
        FF_TRY(add_block(writer, &content, error));
    }
    writer->next_block++;
    const bool last = writer->next_block == writer->end_block;
    const bool full = writer->next_block % blocks_per_shard(writer) == 0;
    return full && !last ? commit_shard(writer, error) : FF_OK;
}

ff_status ff_writer_end(ff_writer *writer, ff_error *error) {
    return writer->file ? commit_shard(writer, error) : FF_OK;
}

ff_status ff_writer_commit(ff_writer *writer, ff_writer_result *result, ff_error *error) {
    if (writer->next_block != writer->end_block)
        return ff_fail(error, FF_FAILED, "%s: block %" PRIu64 " of %" PRIu64 " is still missing",
                       writer->directory, writer->next_block, writer->end_block);
    FF_TRY(ff_writer_end(writer, error));
    if (!writer->is_part)
        return ff_index_build(writer->directory, &writer->text, result, NULL, error);
    *result = (ff_writer_result){.sample_count = writer->part_samples,
                                 .shard_count = writer->end_shard - writer->first_shard,
                                 .file_bytes = writer->part_bytes};
    return ff_part_write(&writer->part, writer->directory, &writer->text, error);
}

void ff_writer_close(ff_writer **out) {
    ff_writer *writer = *out;
    if (!writer) return;
    ff_file_discard(&writer->file);
    ff_pending_free(&writer->found);
    ff_buffer_free(&writer->note);
    free(writer->directory);
    ff_metadata_free(&writer->metadata);
    ff_buffer_free(&writer->text);
    ff_buffer_free(&writer->records);
    ff_buffer_free(&writer->labels);
    ff_buffer_free(&writer->keys);
    ff_buffer_free(&writer->frames);
    ff_buffer_free(&writer->seek);
    free(writer);
    *out = NULL;
}
