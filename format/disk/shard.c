#include "format/disk/shard.h"

#include "format/base/path.h"
#include "format/base/read.h"
#include "format/disk/checksum.h"
#include "format/disk/generation.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void ff_shard_header_make(const ff_metadata *metadata, const uint8_t metadata_id[16],
                          uint32_t number, uint8_t bytes[FF_HEADER_BYTES]) {
    ff_shard_place place = ff_metadata_shard_place(metadata, number);
    ff_shard_header header = {.version = metadata->version,
                              .generation = place.generation,
                              .compressed = metadata->compression == FF_COMPRESSION_ZSTD,
                              .number = number,
                              .first_position = place.first_position,
                              .position_count = place.position_count};
    memcpy(header.metadata_id, metadata_id, 16);
    ff_shard_header_encode(&header, bytes);
}

/* A raw shard ends with the footer; in a compressed shard zstd's seek table follows the footer. */
static ff_status find_footer(ff_shard *shard, int descriptor, ff_error *error) {
    uint64_t after = 0;
    if (shard->header.compressed) {
        uint8_t end[FF_SEEK_FOOTER_BYTES];
        FF_TRY(
            ff_read_at(descriptor, shard->path, end, sizeof end, shard->bytes - sizeof end, error));
        if (ff_load_u32(end + 5) != FF_SEEK_FOOTER_MAGIC || end[4])
            return ff_fail(error, FF_BAD_DATA, "%s: does not end with a seek table: cut short?",
                           shard->path);
        after = FF_FRAME_HEADER_BYTES + (uint64_t)ff_load_u32(end) * FF_SEEK_ROW_BYTES +
                FF_SEEK_FOOTER_BYTES;
    }
    if (shard->bytes < FF_HEADER_BYTES + FF_FOOTER_BYTES + after)
        return ff_fail(error, FF_BAD_DATA, "%s: %" PRIu64 " bytes long, too short for its tables",
                       shard->path, shard->bytes);
    shard->footer_offset = shard->bytes - after - FF_FOOTER_BYTES;
    uint8_t bytes[FF_FOOTER_BYTES];
    FF_TRY(ff_read_at(descriptor, shard->path, bytes, sizeof bytes, shard->footer_offset, error));
    FF_TRY(ff_shard_footer_decode(&shard->footer, bytes, shard->footer_offset, shard->path, error));
    const ff_shard_footer *footer = &shard->footer;
    if (footer->number != shard->header.number || footer->version != shard->header.version ||
        footer->seek_table_bytes != after || footer->sample_count > shard->header.position_count)
        return ff_fail(error, FF_BAD_DATA, "%s: header and footer disagree", shard->path);
    uint64_t frames = footer->section[FF_SHARD_FRAMES].bytes;
    uint64_t wanted =
        after ? (after - FF_FRAME_HEADER_BYTES - FF_SEEK_FOOTER_BYTES) / FF_SEEK_ROW_BYTES : 0;
    /* The seek table lists the frames and two skippable ones, the header and the tail. */
    if (after ? wanted < 2 || frames != (wanted - 2) * FF_FRAME_BYTES : frames != 0)
        return ff_fail(error, FF_BAD_DATA, "%s: seek table and frame table disagree", shard->path);
    return FF_OK;
}

static ff_status map_file(ff_shard *shard, int descriptor, ff_error *error) {
    void *map = mmap(NULL, shard->bytes, PROT_READ, MAP_SHARED, descriptor, 0);
    if (map == MAP_FAILED && errno == ENOMEM)
        return ff_fail(error, FF_NO_MEMORY,
                       "%s: cannot map: the process has all mappings or all address space that it "
                       "may have (vm.max_map_count, ulimit -v)",
                       shard->path);
    if (map == MAP_FAILED) return ff_fail_errno(error, "%s: cannot map", shard->path);
    const struct ff_file_mark mark = {shard->footer_offset + FF_FOOTER_BYTES - 8,
                                      shard->footer.checksum};
    shard->mapped = (ff_mapped){.path = shard->path, .map = map, .mark = {mark, mark}};
    return FF_OK;
}

static void unmap(ff_shard *shard) {
    if (shard->mapped.map) munmap((void *)(uintptr_t)shard->mapped.map, shard->bytes);
    shard->mapped.map = NULL;
}

static ff_status check_descriptor(ff_shard *shard, int descriptor, uint32_t number,
                                  ff_error *error) {
    if (shard->bytes < FF_HEADER_BYTES + FF_FOOTER_BYTES)
        return ff_fail(error, FF_BAD_DATA, "%s: %" PRIu64 " bytes long, too short for a shard",
                       shard->path, shard->bytes);
    uint8_t header[FF_HEADER_BYTES];
    FF_TRY(ff_read_at(descriptor, shard->path, header, sizeof header, 0, error));
    FF_TRY(ff_shard_header_decode(&shard->header, header, shard->path, error));
    if (shard->header.number != number)
        return ff_fail(error, FF_BAD_DATA, "%s: holds shard %u, wanted %u", shard->path,
                       shard->header.number, number);
    FF_TRY(find_footer(shard, descriptor, error));
    if (shard->footer.header_checksum != ff_load_u64(header + FF_HEADER_BYTES - 8))
        return ff_fail(error, FF_BAD_DATA, "%s: the footer belongs to another header", shard->path);
    return FF_OK;
}

static ff_status open_shard(ff_shard *shard, const char *directory, uint32_t number, bool maps,
                            ff_error *error) {
    *shard = (ff_shard){0};
    char name[32];
    ff_shard_name(name, number);
    FF_TRY(ff_format(&shard->file, error, "%s/%s", directory, name));
    shard->path = shard->file;
    int descriptor;
    ff_status status;
    struct stat info;
    FF_TRY_DONE(ff_open_file(shard->file, &descriptor, &shard->bytes, error));
    if (fstat(descriptor, &info)) FF_TRY_DONE(ff_fail_errno(error, "%s: cannot stat", shard->path));
    shard->device = info.st_dev;
    shard->inode = info.st_ino;
    shard->written = info.st_mtim;
    FF_TRY_DONE(check_descriptor(shard, descriptor, number, error));
    if (maps) FF_TRY_DONE(map_file(shard, descriptor, error));
done:
    ff_close_file(&descriptor);
    if (status != FF_OK) ff_shard_close(shard);
    return status;
}

ff_status ff_shard_open(ff_shard *shard, const char *directory, uint32_t number, ff_error *error) {
    return open_shard(shard, directory, number, true, error);
}

ff_status ff_shard_look(ff_shard *shard, const char *directory, uint32_t number, ff_error *error) {
    return open_shard(shard, directory, number, false, error);
}

ff_status ff_shard_map(ff_shard *shard, ff_error *error) {
    int descriptor;
    uint64_t bytes, mark;
    ff_status status;
    FF_TRY(ff_open_file(shard->file, &descriptor, &bytes, error));
    if (bytes < shard->bytes) goto replaced;
    FF_TRY_DONE(map_file(shard, descriptor, error));
    if (ff_mapped_copy(&mark, &shard->mapped, shard->footer_offset, sizeof mark, NULL) == FF_OK)
        goto done;
    unmap(shard);
replaced: /* in a cache it can be fetched again */
    status = ff_fail(error, shard->cache ? FF_BAD_DATA : FF_IO,
                     "%s: was replaced while it was read", shard->path);
done:
    ff_close_file(&descriptor);
    return status;
}

bool ff_shard_is_unchanged(const ff_shard *shard, const struct stat *now) {
    return now->st_dev == shard->device && now->st_ino == shard->inode &&
           now->st_mtim.tv_sec == shard->written.tv_sec &&
           now->st_mtim.tv_nsec == shard->written.tv_nsec && (uint64_t)now->st_size == shard->bytes;
}

ff_status ff_shard_call(ff_shard *shard, const char *url, ff_error *error) {
    return ff_format(&shard->path, error, "%s/%s", url, ff_path_base(shard->file));
}

void ff_shard_close(ff_shard *shard) {
    unmap(shard);
    if (shard->path != shard->file) free(shard->path);
    free(shard->file);
    *shard = (ff_shard){0};
}

ff_status ff_shard_check_section(const ff_shard *shard, int section, ff_error *error) {
    static const char *const name[] = {"records", "labels", "keys", "frames", "metadata"};
    const ff_section *at = &shard->footer.section[section];
    uint64_t found;
    FF_TRY(ff_mapped_checksum(&shard->mapped, at->offset, at->bytes, &found, error));
    if (found == at->checksum) return FF_OK;
    return ff_fail(error, FF_BAD_DATA,
                   "%s: offset %" PRIu64 ": section %s has checksum %016" PRIx64
                   ", wanted %016" PRIx64,
                   shard->path, at->offset, name[section], found, at->checksum);
}

ff_status ff_shard_metadata_text(const ff_shard *shard, ff_buffer *text, ff_error *error) {
    const ff_section *section = &shard->footer.section[FF_SHARD_METADATA];
    if (section->bytes > FF_METADATA_LIMIT_BYTES)
        return ff_fail(error, FF_BAD_DATA, "%s: %" PRIu64 " bytes of metadata, more than %" PRIu64,
                       shard->path, section->bytes, (uint64_t)FF_METADATA_LIMIT_BYTES);
    FF_TRY(ff_shard_check_section(shard, FF_SHARD_METADATA, error));
    FF_TRY(ff_reserve(&text->bytes, &text->capacity, text->length + section->bytes + 1, 1,
                      "metadata", error));
    FF_TRY(ff_mapped_copy(text->bytes + text->length, &shard->mapped, section->offset,
                          section->bytes, error));
    text->length += section->bytes;
    text->bytes[text->length] = 0;
    return FF_OK;
}

ff_status ff_shard_belongs(const ff_shard *shard, const ff_metadata *metadata, const uint8_t id[16],
                           ff_error *error) {
    const ff_shard_header *header = &shard->header;
    ff_shard_place place = ff_metadata_shard_place(metadata, header->number);
    bool earlier = place.generation < metadata->generation_count;
    if (!memcmp(header->metadata_id, earlier ? metadata->generation[place.generation].id : id,
                16) &&
        header->generation == place.generation && header->first_position == place.first_position &&
        header->position_count == place.position_count &&
        (earlier || header->version == metadata->version) &&
        header->compressed == (metadata->compression == FF_COMPRESSION_ZSTD))
        return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "%s: belongs to another dataset than the others",
                   shard->path);
}

ff_status ff_shard_check_earlier(const ff_shard *shard, const ff_metadata *metadata,
                                 const ff_buffer *text, ff_error *error) {
    ff_metadata older;
    uint8_t id[16];
    ff_status status = ff_metadata_read(&older, text->bytes, text->length, error);
    if (status == FF_BAD_DATA) ff_fail_within(error, status, "%s", shard->path);
    FF_TRY(status);
    ff_id_of(id, text->bytes, text->length);
    if (older.generation_count != shard->header.generation ||
        older.version != shard->header.version)
        status = ff_fail(error, FF_BAD_DATA, "%s: its header and metadata disagree", shard->path);
    else
        status = ff_metadata_continues(&older, id, metadata, shard->path, error);
    ff_metadata_free(&older);
    return status;
}

ff_status ff_entry_check(const ff_entry *entry, const ff_metadata *metadata,
                         const ff_shard_footer *footer, const char *path, uint64_t slot,
                         ff_error *error) {
    bool shape = metadata->variable_size
                     ? entry->height >= 1 && entry->height <= metadata->height &&
                           entry->width >= 1 && entry->width <= metadata->width
                     : entry->height == metadata->height && entry->width == metadata->width;
    if (!shape)
        return ff_fail(error, FF_BAD_DATA, "%s: sample %" PRIu64 " is %u x %u, wanted %s%u x %u",
                       path, slot, entry->height, entry->width,
                       metadata->variable_size ? "at most " : "", metadata->height,
                       metadata->width);
    uint64_t wanted = ff_metadata_payload_bytes(metadata, entry->height, entry->width);
    if (entry->bytes != wanted)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: sample %" PRIu64 " has %" PRIu64 " bytes, wanted %" PRIu64, path, slot,
                       entry->bytes, wanted);
    bool compressed = footer->seek_table_bytes != 0;
    uint64_t begin = compressed ? 0 : FF_HEADER_BYTES;
    uint64_t end = compressed ? footer->payload_bytes : footer->samples_end;
    if (entry->offset % metadata->alignment || entry->offset < begin || entry->offset > end ||
        entry->bytes > end - entry->offset)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: sample %" PRIu64 " lies at %" PRIu64 " + %" PRIu64
                       ", outside of the samples (%" PRIu64 " to %" PRIu64 ")",
                       path, slot, entry->offset, entry->bytes, begin, end);
    return FF_OK;
}

ff_status ff_frame_check(const ff_frame *frame, const ff_shard *shard, ff_error *error) {
    const ff_shard_footer *footer = &shard->footer;
    bool file = frame->file_offset >= FF_HEADER_BYTES &&
                frame->file_offset <= footer->samples_end &&
                frame->compressed_bytes <= footer->samples_end - frame->file_offset;
    bool payload = frame->payload_offset <= footer->payload_bytes &&
                   frame->payload_bytes <= footer->payload_bytes - frame->payload_offset &&
                   frame->filtered_bytes <= frame->payload_bytes;
    bool slots = frame->slot_count >= 1 && frame->slot_count <= footer->sample_count &&
                 frame->first_slot <= footer->sample_count - frame->slot_count;
    if (!file || !payload || !slots || frame->payload_bytes > FF_SAMPLE_LIMIT_BYTES)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: the frame of slot %u lies outside of the shard (offset %" PRIu64 ")",
                       shard->path, frame->first_slot, frame->file_offset);
    return FF_OK;
}
