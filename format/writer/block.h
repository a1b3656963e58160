/* A block: the samples of a run of consecutive storage positions, encoded by one thread. Workers
 * fill and seal blocks concurrently; the writer appends the blocks in order.
 *
 * In a compressed dataset a block becomes one zstd frame. Thread rule: one thread at a time uses a
 * block. Ownership: the caller owns the block, and may reset and fill it again after it was
 * appended. */
#ifndef FF_FORMAT_BLOCK_H
#define FF_FORMAT_BLOCK_H

#include "format/disk/layout.h"

typedef struct ff_block ff_block;

/* A sample to be added. Labels: one pointer per field, [field_count], to ff_field_bytes bytes each
 * (NULL for kind none). The block keeps no pointer after the call. */
typedef struct ff_block_sample {
    uint64_t item;          /* the item's number before skipping */
    uint32_t height, width; /* the sample's own size; ignored unless variable_size */
    const void *key;        /* the source's name for it, up to FF_KEY_LIMIT_BYTES */
    size_t key_bytes;
    uint64_t source_checksum; /* XXH3-64 of the source's bytes (encoded image, or raw record) */
    uint64_t checksum; /* XXH3-64 of the payload if the sample has one; 0 = sealing computes it */
    const void *const *label;
} ff_block_sample;

/* `metadata` must outlive the block. Memory grows to the size of one block's samples. */
FF_MUST_USE ff_status ff_block_create(ff_block **block, const ff_metadata *metadata,
                                      ff_error *error);
void ff_block_destroy(ff_block **block);

/* Empties the block for number `number`, whose positions begin at number * items_per_block. */
void ff_block_reset(ff_block *block, uint64_t number);

/* Adds a sample; *tensor = where to write its ff_metadata_tensor_bytes, valid until the next call
 * on this block. Samples are added in storage order; a skipped item is not added. */
FF_MUST_USE ff_status ff_block_add(ff_block *block, const ff_block_sample *sample, void **tensor,
                                   ff_error *error);

/* Checksums every sample that has no checksum yet, filters the samples and compresses them. The
 * block is then read-only until the next reset. */
FF_MUST_USE ff_status ff_block_seal(ff_block *block, ff_error *error);

/* A sealed block's content for the writer, valid until the next reset. Offsets in the entries are
 * relative to the block's first slot, key offsets to its first key. */
typedef struct ff_block_content {
    uint64_t sample_count;
    const ff_entry *entry; /* [sample_count] */
    const void *labels;    /* [sample_count][ff_metadata_label_row_bytes] */
    const void *keys;
    uint64_t keys_bytes;
    const void *bytes; /* the slots, or the compressed frame */
    uint64_t length;
    uint64_t payload_bytes; /* sum of the slots' sizes */
    /* Content size of the frame. */
    uint64_t filtered_bytes;
    uint64_t checksum;
    ff_filter filter;
} ff_block_content;

ff_block_content ff_block_contents(const ff_block *block);

uint64_t ff_block_number(const ff_block *block);
uint64_t ff_block_count(const ff_block *block); /* number of samples */

#endif
