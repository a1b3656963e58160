#include "format/checksum.h"
#include "format/dataset.h"
#include "format/filter.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

struct ff_reader {
    ff_dataset *dataset;
    /* Compressed shards only: the last frame, undone into slots. */
    ZSTD_DCtx *zstd;
    const ff_shard *shard; /* whose frame it is; NULL = none */
    ff_frame frame;
    uint8_t *compressed, *filtered, *slots;
    size_t compressed_capacity, filtered_capacity, slots_capacity;
};

ff_status ff_reader_open(ff_reader **out, ff_dataset *dataset, ff_error *error) {
    ff_reader *reader;
    *out = NULL;
    FF_TRY(ff_alloc(&reader, 1, sizeof *reader, "a reader", error));
    reader->dataset = dataset;
    if (dataset->metadata.compression == FF_COMPRESSION_ZSTD) {
        reader->zstd = ZSTD_createDCtx();
        if (!reader->zstd) {
            free(reader);
            return ff_fail(error, FF_NO_MEMORY, "not enough memory for a zstd decompressor");
        }
    }
    *out = reader;
    return FF_OK;
}

void ff_reader_close(ff_reader **out) {
    ff_reader *reader = *out;
    if (!reader) return;
    ZSTD_freeDCtx(reader->zstd);
    free(reader->compressed);
    free(reader->filtered);
    free(reader->slots);
    free(reader);
    *out = NULL;
}

/* ---- frames --------------------------------------------------------------------------------- */

static ff_status read_frame_row(const ff_shard *shard, uint64_t row, ff_frame *frame,
                                ff_error *error) {
    uint8_t bytes[FF_FRAME_BYTES];
    FF_TRY(ff_mapped_copy(bytes, shard->map, shard->path,
                          shard->footer.section[FF_SHARD_FRAMES].offset + row * FF_FRAME_BYTES,
                          FF_FRAME_BYTES, error));
    if (!ff_frame_decode(frame, bytes))
        return ff_fail(error, FF_BAD_DATA, "%s: frame %" PRIu64 " is out of range", shard->path,
                       row);
    return ff_frame_check(frame, shard, error);
}

/* The frame that holds this payload offset: the last one that begins at or before it. */
static ff_status find_frame(const ff_shard *shard, uint64_t offset, ff_frame *frame,
                            ff_error *error) {
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

/* Room for a frame's bytes, which are overwritten: nothing is kept, nothing zeroed. */
static ff_status make_room(uint8_t **bytes, size_t *capacity, uint64_t wanted, ff_error *error) {
    if (wanted <= *capacity) return FF_OK;
    free(*bytes);
    *capacity = 0;
    FF_TRY(ff_alloc_aligned(bytes, wanted, 1, 64, "a frame", error));
    *capacity = (size_t)wanted;
    return FF_OK;
}

/* One slot of a frame: its sizes, as its record and the filter give them. */
typedef struct frame_slot {
    ff_entry entry;
    uint64_t tensor_bytes, filtered_bytes; /* of the tensor, before and behind the filter */
    uint64_t label_bytes;                  /* of the wide labels behind it */
    uint64_t slot_bytes;
} frame_slot;

/* Slot `i` of the frame, of which `filled` bytes of slots and `used` filtered bytes come before it:
 * the record must say just that. */
static ff_status read_frame_slot(const ff_metadata *metadata, const ff_shard *shard,
                                 const ff_frame *frame, uint32_t i, uint64_t filled, uint64_t used,
                                 frame_slot *out, ff_error *error) {
    uint8_t record[FF_ENTRY_BYTES];
    uint64_t slot = (uint64_t)frame->first_slot + i;
    ff_entry *entry = &out->entry;
    FF_TRY(ff_mapped_copy(record, shard->map, shard->path,
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

/* What the frame says of its sizes is what its records add up to: before anything is allocated by
 * them. */
static ff_status check_frame_sizes(const ff_metadata *metadata, const ff_shard *shard,
                                   const ff_frame *frame, ff_error *error) {
    uint64_t filled = 0, used = 0;
    if (frame->filter == FF_FILTER_TABLE && !metadata->table)
        return ff_fail(error, FF_BAD_DATA, "%s: a frame's filter is table; the metadata has none",
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

static ff_status decompress(ff_reader *reader, const ff_shard *shard, const ff_frame *frame,
                            ff_error *error) {
    uint64_t bytes = frame->compressed_bytes;
    FF_TRY(make_room(&reader->compressed, &reader->compressed_capacity, bytes, error));
    FF_TRY(ff_mapped_copy(reader->compressed, shard->map, shard->path, frame->file_offset, bytes,
                          error));
    if (reader->dataset->verify != FF_VERIFY_OFF) {
        uint64_t found = ff_checksum(reader->compressed, bytes);
        if (found != frame->checksum)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: offset %" PRIu64 ": the frame has checksum %016" PRIx64
                           ", wanted %016" PRIx64,
                           shard->path, frame->file_offset, found, frame->checksum);
    }
    /* One zstd frame that names its size: so a small file cannot ask for much memory. */
    unsigned long long length = ZSTD_getFrameContentSize(reader->compressed, bytes);
    if (length != frame->filtered_bytes ||
        ZSTD_findFrameCompressedSize(reader->compressed, bytes) != bytes)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: offset %" PRIu64 ": no zstd frame of %" PRIu64 " bytes is here",
                       shard->path, frame->file_offset, frame->filtered_bytes);
    FF_TRY(make_room(&reader->filtered, &reader->filtered_capacity, length, error));
    size_t result =
        ZSTD_decompressDCtx(reader->zstd, reader->filtered, length, reader->compressed, bytes);
    if (ZSTD_isError(result) || result != length)
        return ff_fail(error, FF_BAD_DATA, "%s: offset %" PRIu64 ": zstd: %s", shard->path,
                       frame->file_offset,
                       ZSTD_isError(result) ? ZSTD_getErrorName(result) : "the frame is shorter");
    return FF_OK;
}

/* Undoes the filter of every slot of the decompressed frame. */
static ff_status unfilter(ff_reader *reader, const ff_shard *shard, const ff_frame *frame,
                          ff_error *error) {
    const ff_metadata *metadata = &reader->dataset->metadata;
    uint64_t used = 0, filled = 0;
    FF_TRY(make_room(&reader->slots, &reader->slots_capacity, frame->payload_bytes, error));
    for (uint32_t i = 0; i < frame->slot_count; i++) {
        frame_slot slot;
        FF_TRY(read_frame_slot(metadata, shard, frame, i, filled, used, &slot, error));
        uint8_t *to = reader->slots + filled, *from = reader->filtered + used;
        ff_filter_undo(metadata, frame->filter, slot.entry.height, slot.entry.width, from, to);
        if (slot.label_bytes)
            memcpy(to + slot.tensor_bytes, from + slot.filtered_bytes, slot.label_bytes);
        memset(to + slot.entry.bytes, 0, slot.slot_bytes - slot.entry.bytes);
        filled += slot.slot_bytes;
        used += slot.filtered_bytes + slot.label_bytes;
    }
    return FF_OK;
}

ff_status ff_reader_frame_slot(ff_reader *reader, const ff_shard *shard, const ff_entry *entry,
                               const uint8_t **slot, ff_error *error) {
    ff_frame *frame = &reader->frame;
    bool at_hand = reader->shard == shard && entry->offset >= frame->payload_offset &&
                   entry->offset - frame->payload_offset < frame->payload_bytes;
    if (!at_hand) {
        reader->shard = NULL;
        FF_TRY(find_frame(shard, entry->offset, frame, error));
        FF_TRY(check_frame_sizes(&reader->dataset->metadata, shard, frame, error));
        FF_TRY(decompress(reader, shard, frame, error));
        FF_TRY(unfilter(reader, shard, frame, error));
        reader->shard = shard;
    }
    uint64_t within = entry->offset - frame->payload_offset;
    if (within > frame->payload_bytes || entry->bytes > frame->payload_bytes - within)
        return ff_fail(error, FF_BAD_DATA, "%s: a sample at %" PRIu64 " crosses its frame",
                       shard->path, entry->offset);
    *slot = reader->slots + within;
    return FF_OK;
}

void ff_dataset_prefetch(const ff_dataset *dataset, uint64_t number) {
    if (number >= dataset->header.sample_count) return;
    const ff_section *section = dataset->header.section;
    __builtin_prefetch(dataset->map + section[FF_INDEX_ENTRIES].offset + number * FF_ENTRY_BYTES);
    __builtin_prefetch(dataset->map + section[FF_INDEX_LABELS].offset +
                       number * dataset->row_bytes);
}

/* ---- samples -------------------------------------------------------------------------------- */

static ff_status verify_slot(ff_reader *reader, uint64_t number, const ff_shard *shard,
                             const ff_entry *entry, const uint8_t *slot, bool mapped,
                             ff_error *error) {
    ff_dataset *dataset = reader->dataset;
    unsigned char bit = (unsigned char)(1u << number % 8);
    atomic_uchar *mark = &dataset->sample_ok[number / 8];
    if (dataset->verify == FF_VERIFY_OFF) return FF_OK;
    if (dataset->verify == FF_VERIFY_FIRST &&
        (atomic_load_explicit(mark, memory_order_relaxed) & bit))
        return FF_OK;
    uint64_t found;
    if (mapped)
        FF_TRY(ff_mapped_checksum(shard->map, shard->path, entry->offset, entry->bytes, &found,
                                  error));
    else
        found = ff_checksum(slot, entry->bytes);
    if (found != entry->checksum)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: offset %" PRIu64 ": sample %" PRIu64 " has checksum %016" PRIx64
                       ", wanted %016" PRIx64,
                       shard->path, entry->offset, number, found, entry->checksum);
    atomic_fetch_or_explicit(mark, bit, memory_order_relaxed);
    return FF_OK;
}

ff_status ff_reader_sample(ff_reader *reader, uint64_t number, ff_view *view, ff_error *error) {
    ff_dataset *dataset = reader->dataset;
    const ff_metadata *metadata = &dataset->metadata;
    const ff_shard *shard;
    ff_entry *entry = &view->entry;
    FF_TRY(ff_dataset_entry(dataset, number, entry, error));
    FF_TRY(ff_dataset_open_shard(dataset, entry->shard, &shard, error));
    FF_TRY(ff_entry_check(entry, metadata, &shard->footer, dataset->index_path, number, error));
    const uint8_t *slot = NULL;
    view->mapped = metadata->compression == FF_COMPRESSION_NONE;
    if (view->mapped)
        slot = shard->map + entry->offset;
    else
        FF_TRY(ff_reader_frame_slot(reader, shard, entry, &slot, error));
    FF_TRY(verify_slot(reader, number, shard, entry, slot, view->mapped, error));
    view->tensor = slot;
    view->tensor_bytes = ff_metadata_tensor_bytes(metadata, entry->height, entry->width);
    view->height = entry->height;
    view->width = entry->width;
    return FF_OK;
}

ff_status ff_reader_label(ff_reader *reader, uint64_t number, size_t field, void *values,
                          ff_error *error) {
    ff_dataset *dataset = reader->dataset;
    const ff_metadata *metadata = &dataset->metadata;
    uint64_t bytes = ff_field_bytes(&metadata->field[field]);
    bool wide;
    uint64_t offset = ff_metadata_field_offset(metadata, field, 1, 1, &wide);
    if (!wide) return ff_dataset_small_label(dataset, number, offset, values, bytes, error);
    ff_view view;
    FF_TRY(ff_reader_sample(reader, number, &view, error));
    offset = ff_metadata_field_offset(metadata, field, view.height, view.width, &wide);
    if (!view.mapped) {
        memcpy(values, (const uint8_t *)view.tensor + offset, bytes);
        return FF_OK;
    }
    const ff_shard *shard = &dataset->shard[view.entry.shard];
    return ff_mapped_copy(values, shard->map, shard->path, view.entry.offset + offset, bytes,
                          error);
}
