#include "format/reader/frames.h"

#include "format/disk/checksum.h"
#include "format/disk/filter.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

struct ff_frames {
    const ff_metadata *metadata;
    bool check; /* compare compressed bytes with their checksum */
    ff_direct *direct;
    ZSTD_DCtx *zstd;
    const ff_shard *shard; /* the shard whose frame is decompressed; NULL = none */
    ff_frame frame;
    uint8_t *compressed, *filtered, *slots;
    size_t compressed_capacity, filtered_capacity, slots_capacity;
};

ff_status ff_frames_open(ff_frames **out, const ff_metadata *metadata, bool check,
                         ff_direct *direct, ff_error *error) {
    ff_frames *frames;
    *out = NULL;
    FF_TRY(ff_alloc(&frames, 1, sizeof *frames, "a reader of frames", error));
    frames->metadata = metadata;
    frames->check = check;
    frames->direct = direct;
    frames->zstd = ZSTD_createDCtx();
    if (!frames->zstd) {
        free(frames);
        return ff_fail(error, FF_NO_MEMORY, "not enough memory for a zstd decompressor");
    }
    *out = frames;
    return FF_OK;
}

void ff_frames_close(ff_frames **out) {
    ff_frames *frames = *out;
    if (!frames) return;
    ZSTD_freeDCtx(frames->zstd);
    free(frames->compressed);
    free(frames->filtered);
    free(frames->slots);
    free(frames);
    *out = NULL;
}

static ff_status read_frame_row(const ff_shard *shard, uint64_t row, ff_frame *frame,
                                ff_error *error) {
    uint8_t bytes[FF_FRAME_BYTES];
    FF_TRY(ff_mapped_copy(bytes, &shard->mapped,
                          shard->footer.section[FF_SHARD_FRAMES].offset + row * FF_FRAME_BYTES,
                          FF_FRAME_BYTES, error));
    if (!ff_frame_decode(frame, bytes))
        return ff_fail(error, FF_BAD_DATA, "%s: frame %" PRIu64 " is out of range", shard->path,
                       row);
    return ff_frame_check(frame, shard, error);
}

ff_status ff_frame_at(const ff_shard *shard, uint64_t offset, ff_frame *frame, ff_error *error) {
    uint64_t low = 0, high = shard->footer.section[FF_SHARD_FRAMES].bytes / FF_FRAME_BYTES;
    if (!high) return ff_fail(error, FF_BAD_DATA, "%s: has no frames", shard->path);
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        FF_TRY(read_frame_row(shard, middle, frame, error));
        if (frame->payload_offset <= offset)
            low = middle;
        else
            high = middle;
    }
    return read_frame_row(shard, low, frame, error);
}

/* Grows a buffer for a frame's bytes; the old content is lost, and the new is not zeroed. */
static ff_status make_room(uint8_t **bytes, size_t *capacity, uint64_t wanted, ff_error *error) {
    if (wanted <= *capacity) return FF_OK;
    free(*bytes);
    *capacity = 0;
    FF_TRY(ff_alloc_aligned(bytes, wanted, 1, 64, "a frame", error));
    *capacity = (size_t)wanted;
    return FF_OK;
}

/* One slot of a frame: its sizes, from its record and the filter. */
typedef struct frame_slot {
    ff_entry entry;
    uint64_t tensor_bytes, filtered_bytes; /* of the tensor, before and after the filter */
    uint64_t label_bytes;                  /* of the wide labels after the tensor */
    uint64_t slot_bytes;
} frame_slot;

/* Reads slot `i` of the frame. The record must agree that `filled` bytes of slots and `used`
 * filtered bytes come before the slot. */
static ff_status read_frame_slot(const ff_metadata *metadata, const ff_shard *shard,
                                 const ff_frame *frame, uint32_t i, uint64_t filled, uint64_t used,
                                 frame_slot *out, ff_error *error) {
    uint8_t record[FF_ENTRY_BYTES];
    uint64_t slot = (uint64_t)frame->first_slot + i;
    ff_entry *entry = &out->entry;
    FF_TRY(ff_mapped_copy(record, &shard->mapped,
                          shard->footer.section[FF_SHARD_RECORDS].offset + slot * FF_ENTRY_BYTES,
                          FF_ENTRY_BYTES, error));
    if (!ff_entry_decode(entry, record))
        return ff_fail(error, FF_BAD_DATA, "%s: record %" PRIu64 " is out of range", shard->path,
                       slot);
    FF_TRY(ff_entry_check(entry, metadata, &shard->footer, shard->path, slot, error));
    out->tensor_bytes = ff_metadata_tensor_bytes(metadata, entry->height, entry->width);
    out->filtered_bytes = ff_filtered_bytes(metadata, frame->filter, out->tensor_bytes);
    out->label_bytes = entry->bytes - out->tensor_bytes;
    out->slot_bytes = ff_align_u64(entry->bytes, metadata->alignment);
    if (entry->offset != frame->payload_offset + filled ||
        out->slot_bytes > frame->payload_bytes - filled ||
        out->filtered_bytes + out->label_bytes > frame->filtered_bytes - used)
        return ff_fail(error, FF_BAD_DATA, "%s: record %" PRIu64 " does not fit its frame",
                       shard->path, slot);
    return FF_OK;
}

/* Checks the frame's sizes against the sums of its records, before anything is allocated from
 * them. */
static ff_status check_frame_sizes(const ff_metadata *metadata, const ff_shard *shard,
                                   const ff_frame *frame, ff_error *error) {
    uint64_t filled = 0, used = 0;
    if (frame->filter == FF_FILTER_TABLE && !metadata->table)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: a frame's filter is table; the metadata has no "
                       "table",
                       shard->path);
    for (uint32_t i = 0; i < frame->slot_count; i++) {
        frame_slot slot;
        FF_TRY(read_frame_slot(metadata, shard, frame, i, filled, used, &slot, error));
        filled += slot.slot_bytes;
        used += slot.filtered_bytes + slot.label_bytes;
    }
    if (used != frame->filtered_bytes || filled != frame->payload_bytes)
        return ff_fail(
            error, FF_BAD_DATA,
            "%s: offset %" PRIu64 ": the frame has %" PRIu64 " bytes for %u slots, wanted %" PRIu64,
            shard->path, frame->file_offset, frame->filtered_bytes, frame->slot_count, used);
    return FF_OK;
}

/* The frame's compressed bytes; valid until the next call. */
static ff_status read_frame(ff_frames *frames, const ff_shard *shard, uint32_t number,
                            const ff_frame *frame, const uint8_t **compressed, ff_error *error) {
    const uint64_t bytes = frame->compressed_bytes;
    if (frames->direct)
        return ff_direct_read(frames->direct, shard, number, frame->file_offset, bytes, compressed,
                              error);
    FF_TRY(make_room(&frames->compressed, &frames->compressed_capacity, bytes, error));
    *compressed = frames->compressed;
    return ff_mapped_copy(frames->compressed, &shard->mapped, frame->file_offset, bytes, error);
}

static ff_status decompress(ff_frames *frames, const ff_shard *shard, const ff_frame *frame,
                            const uint8_t *compressed, ff_error *error) {
    const uint64_t bytes = frame->compressed_bytes;
    if (frames->check) {
        uint64_t found = ff_checksum(compressed, bytes);
        if (found != frame->checksum)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: offset %" PRIu64 ": the frame has checksum %016" PRIx64
                           ", wanted %016" PRIx64,
                           shard->path, frame->file_offset, found, frame->checksum);
    }
    /* It must be one zstd frame that states its content size, so that a small file cannot demand
     * much memory. */
    unsigned long long length = ZSTD_getFrameContentSize(compressed, bytes);
    if (length != frame->filtered_bytes || ZSTD_findFrameCompressedSize(compressed, bytes) != bytes)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: offset %" PRIu64 ": no zstd frame of %" PRIu64 " bytes is here",
                       shard->path, frame->file_offset, frame->filtered_bytes);
    FF_TRY(make_room(&frames->filtered, &frames->filtered_capacity, length, error));
    size_t result = ZSTD_decompressDCtx(frames->zstd, frames->filtered, length, compressed, bytes);
    if (ZSTD_isError(result) || result != length)
        return ff_fail(error, FF_BAD_DATA, "%s: offset %" PRIu64 ": zstd: %s", shard->path,
                       frame->file_offset,
                       ZSTD_isError(result) ? ZSTD_getErrorName(result) : "the frame is shorter");
    return FF_OK;
}

/* Reverses the filter of every slot of the decompressed frame. */
static ff_status unfilter(const ff_frames *frames, const ff_shard *shard, const ff_frame *frame,
                          uint8_t *slots, ff_error *error) {
    const ff_metadata *metadata = frames->metadata;
    uint64_t used = 0, filled = 0;
    for (uint32_t i = 0; i < frame->slot_count; i++) {
        frame_slot slot;
        FF_TRY(read_frame_slot(metadata, shard, frame, i, filled, used, &slot, error));
        uint8_t *to = slots + filled, *from = frames->filtered + used;
        ff_filter_undo(metadata, frame->filter, slot.entry.height, slot.entry.width, from, to);
        if (slot.label_bytes)
            memcpy(to + slot.tensor_bytes, from + slot.filtered_bytes, slot.label_bytes);
        memset(to + slot.entry.bytes, 0, slot.slot_bytes - slot.entry.bytes);
        filled += slot.slot_bytes;
        used += slot.filtered_bytes + slot.label_bytes;
    }
    return FF_OK;
}

/* Decompresses the bytes of a checked frame to its slots. */
static ff_status unpack(ff_frames *frames, const ff_shard *shard, const ff_frame *frame,
                        const uint8_t *compressed, uint8_t *slots, ff_error *error) {
    FF_TRY(decompress(frames, shard, frame, compressed, error));
    return unfilter(frames, shard, frame, slots, error);
}

ff_status ff_frames_unpack(ff_frames *frames, const ff_shard *shard, uint64_t offset,
                           const uint8_t *compressed, uint8_t *slots, ff_error *error) {
    ff_frame frame;
    FF_TRY(ff_frame_at(shard, offset, &frame, error));
    FF_TRY(check_frame_sizes(frames->metadata, shard, &frame, error));
    return unpack(frames, shard, &frame, compressed, slots, error);
}

ff_status ff_frames_slot(ff_frames *frames, const ff_shard *shard, const ff_entry *entry,
                         const uint8_t **slot, ff_error *error) {
    ff_frame *frame = &frames->frame;
    bool at_hand = frames->shard == shard && entry->offset >= frame->payload_offset &&
                   entry->offset - frame->payload_offset < frame->payload_bytes;
    if (!at_hand) {
        frames->shard = NULL;
        const uint8_t *compressed;
        FF_TRY(ff_frame_at(shard, entry->offset, frame, error));
        FF_TRY(check_frame_sizes(frames->metadata, shard, frame, error));
        FF_TRY(make_room(&frames->slots, &frames->slots_capacity, frame->payload_bytes, error));
        FF_TRY(read_frame(frames, shard, entry->shard, frame, &compressed, error));
        FF_TRY(unpack(frames, shard, frame, compressed, frames->slots, error));
        frames->shard = shard;
    }
    uint64_t within = entry->offset - frame->payload_offset;
    if (within > frame->payload_bytes || entry->bytes > frame->payload_bytes - within)
        return ff_fail(error, FF_BAD_DATA, "%s: a sample at %" PRIu64 " crosses its frame",
                       shard->path, entry->offset);
    *slot = frames->slots + within;
    return FF_OK;
}
