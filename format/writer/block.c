#include "format/writer/block.h"

#include "format/disk/checksum.h"
#include "format/disk/filter.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

struct ff_block {
    const ff_metadata *metadata;
    uint64_t number;
    /* Slots, one after another, as in a raw shard. */
    uint8_t *slots;
    uint64_t slots_capacity, slots_used;
    ff_entry *entry;
    size_t entry_capacity, count;
    uint8_t *labels;
    size_t labels_capacity;
    ff_buffer keys;
    /* Compressed datasets only. */
    ZSTD_CCtx *zstd;
    ff_table_lookup *lookup;
    uint8_t *filtered;
    size_t filtered_capacity, filtered_used;
    uint8_t *frame;
    size_t frame_capacity, frame_used;
    ff_filter filter;
};

ff_status ff_block_create(ff_block **out, const ff_metadata *metadata, ff_error *error) {
    ff_block *block;
    *out = NULL;
    FF_TRY(ff_alloc(&block, 1, sizeof *block, "a block", error));
    block->metadata = metadata;
    ff_status status = FF_OK;
    if (metadata->compression == FF_COMPRESSION_ZSTD) {
        block->zstd = ZSTD_createCCtx();
        if (!block->zstd)
            status = ff_fail(error, FF_NO_MEMORY, "not enough memory for a zstd compressor");
        else if (ZSTD_isError(
                     ZSTD_CCtx_setParameter(block->zstd, ZSTD_c_compressionLevel, metadata->level)))
            status = ff_fail(error, FF_USAGE, "zstd refuses level %d", metadata->level);
    }
    if (status == FF_OK && metadata->filter == FF_FILTER_TABLE)
        status = ff_table_lookup_create(&block->lookup, metadata, error);
    if (status != FF_OK) ff_block_destroy(&block);
    *out = block;
    return status;
}

void ff_block_destroy(ff_block **out) {
    ff_block *block = *out;
    if (!block) return;
    free(block->slots);
    free(block->entry);
    free(block->labels);
    ff_buffer_free(&block->keys);
    ZSTD_freeCCtx(block->zstd);
    ff_table_lookup_destroy(&block->lookup);
    free(block->filtered);
    free(block->frame);
    free(block);
    *out = NULL;
}

void ff_block_reset(ff_block *block, uint64_t number) {
    block->number = number;
    block->count = block->slots_used = block->keys.length = 0;
    block->filtered_used = block->frame_used = 0;
}

/* Makes room for a whole block of the sizes seen so far, so that a dataset of one size allocates
 * once. */
static ff_status reserve_slots(ff_block *block, uint64_t bytes, ff_error *error) {
    if (bytes <= block->slots_capacity) return FF_OK;
    const ff_metadata *metadata = block->metadata;
    uint64_t wanted = bytes;
    if (!metadata->variable_size && !ff_mul_u64(bytes, metadata->items_per_block, &wanted))
        wanted = bytes;
    if (metadata->variable_size && wanted < 2 * block->slots_capacity)
        wanted = 2 * block->slots_capacity;
    uint8_t *slots;
    FF_TRY(ff_alloc_aligned(&slots, wanted, 1, 64, "a block of samples", error));
    if (block->slots_used) memcpy(slots, block->slots, block->slots_used);
    free(block->slots);
    block->slots = slots;
    block->slots_capacity = wanted;
    return FF_OK;
}

static ff_status check_sample(const ff_block *block, const ff_block_sample *sample,
                              ff_error *error) {
    const ff_metadata *metadata = block->metadata;
    if (sample->key_bytes > FF_KEY_LIMIT_BYTES)
        return ff_fail(error, FF_BAD_DATA, "item %" PRIu64 ": its name has %zu bytes, more than %u",
                       sample->item, sample->key_bytes, FF_KEY_LIMIT_BYTES);
    if (sample->item >= metadata->items)
        return ff_fail(error, FF_FAILED, "item %" PRIu64 " of %" PRIu64, sample->item,
                       metadata->items);
    if (metadata->variable_size && (sample->height < 1 || sample->height > metadata->height ||
                                    sample->width < 1 || sample->width > metadata->width))
        return ff_fail(error, FF_BAD_DATA, "item %" PRIu64 ": %u x %u, wanted at most %u x %u",
                       sample->item, sample->height, sample->width, metadata->height,
                       metadata->width);
    return FF_OK;
}

ff_status ff_block_add(ff_block *block, const ff_block_sample *sample, void **tensor,
                       ff_error *error) {
    const ff_metadata *metadata = block->metadata;
    FF_TRY(check_sample(block, sample, error));
    uint32_t height = metadata->variable_size ? sample->height : metadata->height;
    uint32_t width = metadata->variable_size ? sample->width : metadata->width;
    uint64_t tensor_bytes = ff_metadata_tensor_bytes(metadata, height, width);
    uint64_t payload_bytes = ff_metadata_payload_bytes(metadata, height, width);
    uint64_t slot_bytes = ff_align_u64(payload_bytes, metadata->alignment);
    size_t row_bytes = (size_t)ff_metadata_label_row_bytes(metadata);
    FF_TRY(reserve_slots(block, block->slots_used + slot_bytes, error));
    FF_TRY(ff_reserve(&block->entry, &block->entry_capacity, block->count + 1, sizeof *block->entry,
                      "a block's entries", error));
    FF_TRY(ff_reserve(&block->labels, &block->labels_capacity, (block->count + 1) * row_bytes, 1,
                      "a block's labels", error));
    ff_entry entry = {.item = sample->item,
                      .offset = block->slots_used,
                      .bytes = payload_bytes,
                      .checksum = sample->checksum,
                      .source_checksum = sample->source_checksum,
                      .key_offset = block->keys.length,
                      .key_bytes = (uint32_t)sample->key_bytes,
                      .height = height,
                      .width = width};
    FF_TRY(ff_buffer_add(&block->keys, sample->key, sample->key_bytes, error));
    uint8_t *slot = block->slots + block->slots_used;
    uint8_t *row = block->labels + block->count * row_bytes;
    memset(slot + tensor_bytes, 0, slot_bytes - tensor_bytes);
    if (row_bytes) memset(row, 0, row_bytes);
    for (size_t i = 0; i < metadata->field_count; i++) {
        bool wide;
        uint64_t bytes = ff_field_bytes(&metadata->field[i]);
        uint64_t offset = ff_metadata_field_offset(metadata, i, height, width, &wide);
        if (bytes) memcpy((wide ? slot : row) + offset, sample->label[i], bytes);
    }
    block->entry[block->count++] = entry;
    block->slots_used += slot_bytes;
    *tensor = slot;
    return FF_OK;
}

/* Filters every sample into `filtered`; false if the filter does not fit one of the samples. */
static bool filter_all(ff_block *block, ff_filter filter) {
    const ff_metadata *metadata = block->metadata;
    uint8_t *to = block->filtered;
    for (size_t i = 0; i < block->count; i++) {
        const ff_entry *entry = &block->entry[i];
        const uint8_t *slot = block->slots + entry->offset;
        uint64_t tensor_bytes = ff_metadata_tensor_bytes(metadata, entry->height, entry->width);
        if (!ff_filter_apply(metadata, filter, block->lookup, entry->height, entry->width, slot,
                             to))
            return false;
        to += ff_filtered_bytes(metadata, filter, tensor_bytes);
        memcpy(to, slot + tensor_bytes, entry->bytes - tensor_bytes); /* wide labels: unchanged */
        to += entry->bytes - tensor_bytes;
    }
    block->filter = filter;
    block->filtered_used = (size_t)(to - block->filtered);
    return true;
}

static ff_status compress(ff_block *block, ff_error *error) {
    FF_TRY(ff_reserve(&block->filtered, &block->filtered_capacity, block->slots_used, 1,
                      "a filtered frame", error));
    if (!filter_all(block, block->metadata->filter)) filter_all(block, FF_FILTER_SHUFFLE);
    size_t bound = ZSTD_compressBound(block->filtered_used);
    FF_TRY(ff_reserve(&block->frame, &block->frame_capacity, bound, 1, "a frame", error));
    size_t length = ZSTD_compress2(block->zstd, block->frame, block->frame_capacity,
                                   block->filtered, block->filtered_used);
    if (ZSTD_isError(length))
        return ff_fail(error, FF_FAILED, "zstd cannot compress: %s", ZSTD_getErrorName(length));
    block->frame_used = length;
    return FF_OK;
}

ff_status ff_block_seal(ff_block *block, ff_error *error) {
    for (size_t i = 0; i < block->count; i++) {
        ff_entry *entry = &block->entry[i];
        if (!entry->checksum)
            entry->checksum = ff_checksum(block->slots + entry->offset, entry->bytes);
    }
    return block->zstd && block->count ? compress(block, error) : FF_OK;
}

ff_block_content ff_block_contents(const ff_block *block) {
    ff_block_content content = {.sample_count = block->count,
                                .entry = block->entry,
                                .labels = block->labels,
                                .keys = block->keys.bytes,
                                .keys_bytes = block->keys.length,
                                .bytes = block->slots,
                                .length = block->slots_used,
                                .payload_bytes = block->slots_used};
    if (block->zstd) {
        content.bytes = block->frame;
        content.length = block->frame_used;
        content.filtered_bytes = block->filtered_used;
        content.checksum = ff_checksum(block->frame, block->frame_used);
        content.filter = block->filter;
    }
    return content;
}

uint64_t ff_block_number(const ff_block *block) {
    return block->number;
}

uint64_t ff_block_count(const ff_block *block) {
    return block->count;
}
