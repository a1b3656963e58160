#include "format/reader/shard_check.h"

#include "format/base/guard.h"
#include "format/disk/checksum.h"
#include "format/disk/generation.h"
#include "format/reader/frames.h"

#include <inttypes.h>
#include <string.h>

typedef struct zero_job {
    const uint8_t *from;
    uint64_t bytes;
    uint64_t first_other; /* = bytes if all are zero */
} zero_job;

static void zero_body(void *context) {
    zero_job *job = context;
    job->first_other = 0;
    while (job->first_other < job->bytes && !job->from[job->first_other]) job->first_other++;
}

static ff_status tick(const ff_shard_check *check, ff_error *error) {
    if (!check->tick || check->tick(check->context)) return FF_OK;
    return ff_fail(error, FF_INTERRUPTED, "the check was stopped");
}

/* Checks that [from, to) of the shard is zero. */
static ff_status check_zero(const ff_shard *shard, uint64_t from, uint64_t to, ff_error *error) {
    if (to < from)
        return ff_fail(error, FF_BAD_DATA, "%s: offset %" PRIu64 ": parts overlap", shard->path,
                       to);
    zero_job job = {.from = shard->mapped.map + from, .bytes = to - from};
    if (ff_guard_run(zero_body, &job))
        return ff_fail(error, FF_IO, "%s: offset %" PRIu64 ": the file shrank while it was read",
                       shard->path, from);
    if (job.first_other < job.bytes)
        return ff_fail(error, FF_BAD_DATA, "%s: offset %" PRIu64 ": padding is not zero",
                       shard->path, from + job.first_other);
    return FF_OK;
}

ff_status ff_shard_record(const ff_shard *shard, uint64_t slot, ff_entry *entry, ff_error *error) {
    uint8_t bytes[FF_ENTRY_BYTES];
    FF_TRY(ff_mapped_copy(bytes, &shard->mapped,
                          shard->footer.section[FF_SHARD_RECORDS].offset + slot * FF_ENTRY_BYTES,
                          FF_ENTRY_BYTES, error));
    if (!ff_entry_decode(entry, bytes))
        return ff_fail(error, FF_BAD_DATA,
                       "%s: record %" PRIu64 " has reserved bytes that are not zero", shard->path,
                       slot);
    return FF_OK;
}

/* Checks raw slots against their records, in storage order, and the padding between slots. */
static ff_status check_slots(const ff_shard_check *check, const ff_shard *shard, ff_error *error) {
    const ff_metadata *metadata = check->metadata;
    uint64_t end = FF_HEADER_BYTES;
    for (uint64_t slot = 0; slot < shard->footer.sample_count; slot++) {
        ff_entry entry;
        uint64_t found;
        FF_TRY(ff_shard_record(shard, slot, &entry, error));
        FF_TRY(ff_entry_check(&entry, metadata, &shard->footer, shard->path, slot, error));
        uint64_t wanted = ff_align_u64(end, metadata->alignment);
        if (entry.offset != wanted)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: slot %" PRIu64 " lies at %" PRIu64 ", wanted %" PRIu64, shard->path,
                           slot, entry.offset, wanted);
        FF_TRY(check_zero(shard, end, entry.offset, error));
        FF_TRY(ff_mapped_checksum(&shard->mapped, entry.offset, entry.bytes, &found, error));
        if (found != entry.checksum) {
            ff_error problem = {0};
            (void)ff_fail(&problem, FF_BAD_DATA,
                          "%s: offset %" PRIu64 ": slot %" PRIu64 " has checksum %016" PRIx64
                          ", wanted %016" PRIx64,
                          shard->path, entry.offset, slot, found, entry.checksum);
            check->broken(check->context, slot, 1, &problem); /* and continue: report every slot */
        }
        end = entry.offset + entry.bytes;
        if (slot % 64 == 0) FF_TRY(tick(check, error));
    }
    uint64_t stop = ff_align_u64(end, metadata->alignment);
    if (shard->footer.samples_end != stop || shard->footer.payload_bytes != stop - FF_HEADER_BYTES)
        return ff_fail(error, FF_BAD_DATA, "%s: the slots do not add up", shard->path);
    return check_zero(shard, end, stop, error);
}

/* Checks the samples of decompressed frames against their records, in storage order. */
static ff_status check_frame_slots(const ff_shard_check *check, const ff_shard *shard,
                                   ff_frames *frames, ff_error *error) {
    for (uint64_t slot = 0; slot < shard->footer.sample_count; slot++) {
        ff_entry entry;
        const uint8_t *bytes = NULL;
        ff_error problem = {0};
        FF_TRY(ff_shard_record(shard, slot, &entry, error));
        FF_TRY(ff_entry_check(&entry, check->metadata, &shard->footer, shard->path, slot, error));
        ff_status status = ff_frames_slot(frames, shard, &entry, &bytes, &problem);
        uint64_t found = status == FF_OK ? ff_checksum(bytes, entry.bytes) : 0;
        if (status == FF_OK && found != entry.checksum)
            status = ff_fail(&problem, FF_BAD_DATA,
                             "%s: offset %" PRIu64 " of the payload: slot %" PRIu64
                             " has checksum %016" PRIx64 ", wanted %016" PRIx64,
                             shard->path, entry.offset, slot, found, entry.checksum);
        if (status == FF_BAD_DATA) {
            check->broken(check->context, slot, 1, &problem);
        } else if (status != FF_OK) {
            if (error) *error = problem;
            return status;
        }
        if (slot % 64 == 0) FF_TRY(tick(check, error));
    }
    return FF_OK;
}

/* Checks that frames follow each other without gaps. Checks each frame against its checksum, then
 * its content. */
static ff_status check_frames(const ff_shard_check *check, const ff_shard *shard, ff_error *error) {
    const ff_section *section = &shard->footer.section[FF_SHARD_FRAMES];
    uint64_t end = FF_HEADER_BYTES, payload = 0, slots = 0;
    bool broken = false;
    for (uint64_t i = 0; i < section->bytes / FF_FRAME_BYTES; i++) {
        uint8_t bytes[FF_FRAME_BYTES];
        ff_frame frame;
        uint64_t found;
        FF_TRY(ff_mapped_copy(bytes, &shard->mapped, section->offset + i * FF_FRAME_BYTES,
                              FF_FRAME_BYTES, error));
        if (!ff_frame_decode(&frame, bytes) || frame.file_offset != end ||
            frame.payload_offset != payload || frame.first_slot != slots)
            return ff_fail(error, FF_BAD_DATA, "%s: frame %" PRIu64 " is not where it should be",
                           shard->path, i);
        FF_TRY(ff_frame_check(&frame, shard, error));
        FF_TRY(ff_mapped_checksum(&shard->mapped, frame.file_offset, frame.compressed_bytes, &found,
                                  error));
        if (found != frame.checksum) {
            ff_error problem = {0};
            (void)ff_fail(&problem, FF_BAD_DATA,
                          "%s: offset %" PRIu64 ": frame %" PRIu64 " has checksum %016" PRIx64
                          ", wanted %016" PRIx64,
                          shard->path, frame.file_offset, i, found, frame.checksum);
            check->broken(check->context, frame.first_slot, frame.slot_count, &problem);
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
    FF_TRY(ff_mapped_copy(header, &shard->mapped, end, sizeof header, error));
    if (ff_load_u32(header) != FF_SKIPPABLE_MAGIC || ff_load_u32(header + 4) != size)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: offset %" PRIu64 ": the tail's skippable frame has a wrong header",
                       shard->path, end);
    uint64_t found, table = shard->footer_offset + FF_FOOTER_BYTES;
    FF_TRY(
        ff_mapped_checksum(&shard->mapped, table, shard->footer.seek_table_bytes, &found, error));
    if (found != shard->footer.seek_table_checksum)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: offset %" PRIu64 ": the seek table has checksum %016" PRIx64
                       ", wanted %016" PRIx64,
                       shard->path, table, found, shard->footer.seek_table_checksum);
    if (broken) return FF_OK; /* reported already */
    ff_frames *frames;
    FF_TRY(ff_frames_open(&frames, check->metadata, true, NULL, error));
    ff_status status = check_frame_slots(check, shard, frames, error);
    ff_frames_close(&frames);
    return status;
}

/* Checks that the metadata is that of the shard's generation, and that the header names this
 * metadata. */
static ff_status check_metadata(const ff_shard_check *check, const ff_shard *shard,
                                ff_error *error) {
    const ff_metadata *metadata = check->metadata;
    ff_shard_place place = ff_metadata_shard_place(metadata, shard->header.number);
    bool earlier = place.generation < metadata->generation_count;
    const uint8_t *wanted =
        earlier ? metadata->generation[place.generation].id : check->metadata_id;
    ff_buffer text = {0};
    uint8_t id[16] = {0};
    ff_status status = ff_shard_metadata_text(shard, &text, error);
    if (status == FF_OK) ff_id_of(id, text.bytes, text.length);
    if (status == FF_OK && memcmp(id, wanted, 16))
        status = ff_fail(error, FF_BAD_DATA, "%s: its metadata is not the index's", shard->path);
    if (status == FF_OK && memcmp(id, shard->header.metadata_id, 16))
        status = ff_fail(error, FF_BAD_DATA, "%s: the header names other metadata", shard->path);
    if (status == FF_OK && earlier) status = ff_shard_check_earlier(shard, metadata, &text, error);
    if (status == FF_OK) status = ff_shard_belongs(shard, metadata, check->metadata_id, error);
    ff_buffer_free(&text);
    return status;
}

static ff_status check_tail(const ff_shard *shard, ff_error *error) {
    bool compressed = shard->header.compressed;
    uint64_t end = shard->footer.samples_end + (compressed ? FF_FRAME_HEADER_BYTES : 0);
    for (int i = 0; i < FF_SHARD_SECTIONS; i++) {
        const ff_section *section = &shard->footer.section[i];
        FF_TRY(check_zero(shard, end, section->offset, error));
        FF_TRY(ff_shard_check_section(shard, i, error));
        end = section->offset + section->bytes;
    }
    FF_TRY(check_zero(shard, end, shard->footer_offset, error));
    return FF_OK;
}

ff_status ff_shard_check_run(const ff_shard_check *check, const ff_shard *shard, ff_error *error) {
    FF_TRY(check_tail(shard, error));
    FF_TRY(check_metadata(check, shard, error));
    return shard->header.compressed ? check_frames(check, shard, error)
                                    : check_slots(check, shard, error);
}
