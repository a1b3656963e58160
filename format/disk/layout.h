/* Room format/disk, floor 2: what lies on the disk, structure by structure.
 *
 * FORMAT.md is the specification. metadata.h holds what a set records about itself, generation.h
 * what appends added. This header and dtype.h define the bytes of shards, index and samples,
 * filter.h what compression is helped by. shard.h opens one shard and checks it; set.h finds the
 * splits of a folder. part.h and kept.h are the files of a set that is still being packed.
 *
 * May include format/base, format/cli, format/storage.
 *
 * The on-disk structures of shards and the index, byte for byte (FORMAT.md). Encoders write a whole
 * structure with its checksum; decoders check magic, version, checksum, reserved zeros and every
 * relation that does not need the rest of the file. Thread rule: pure. */
#ifndef FF_FORMAT_LAYOUT_H
#define FF_FORMAT_LAYOUT_H

#include "format/disk/metadata.h"

#define FF_HEADER_BYTES       4096u /* of shards and of the index; samples begin after it */
#define FF_FOOTER_BYTES       256u
#define FF_ENTRY_BYTES        64u
#define FF_FRAME_BYTES        64u
#define FF_SHARD_ROW_BYTES    64u
#define FF_INDEX_BLOCK_BYTES  65536u
#define FF_SECTION_ALIGNMENT  64u
#define FF_FRAME_HEADER_BYTES 8u /* of a zstd skippable frame: magic, size */
#define FF_SKIPPABLE_MAGIC    0x184D2A50u
#define FF_SEEK_TABLE_MAGIC   0x184D2A5Eu
#define FF_SEEK_FOOTER_MAGIC  0x8F92EAB1u
#define FF_SEEK_FOOTER_BYTES  9u
#define FF_SEEK_ROW_BYTES     8u

/* Where a sample is stored, and its properties. */
typedef struct ff_entry {
    uint64_t item;            /* the sample's number at the source, before skipping */
    uint64_t offset;          /* of the slot in the shard's payload; in a raw shard, in the file */
    uint64_t bytes;           /* payload: tensor and wide labels */
    uint64_t checksum;        /* XXH3-64 of the payload */
    uint64_t source_checksum; /* XXH3-64 of the source's bytes */
    uint64_t key_offset;
    uint32_t key_bytes;
    uint32_t height, width;
    uint32_t shard;
} ff_entry;

typedef struct ff_dataset_ids {
    uint8_t content[16], transform[16], source[16];
} ff_dataset_ids;

typedef struct ff_section {
    uint64_t offset, bytes, checksum;
} ff_section;

/* Sections of a shard's tail and of the index. */
enum {
    FF_SHARD_RECORDS,
    FF_SHARD_LABELS,
    FF_SHARD_KEYS,
    FF_SHARD_FRAMES,
    FF_SHARD_METADATA,
    FF_SHARD_SECTIONS
};
enum {
    FF_INDEX_METADATA,
    FF_INDEX_SHARDS,
    FF_INDEX_ENTRIES,
    FF_INDEX_LABELS,
    FF_INDEX_KEYS,
    FF_INDEX_CHECKSUMS,
    FF_INDEX_SECTIONS
};

typedef struct ff_shard_header {
    uint32_t version;
    bool compressed; /* the first 8 bytes are a skippable frame's header, not "ffpack" */
    uint32_t number, generation;
    uint64_t first_position, position_count;
    uint8_t metadata_id[16]; /* XXH3-128 of the metadata's text */
} ff_shard_header;

typedef struct ff_shard_footer {
    uint32_t version; /* the header's version */
    uint32_t number;
    uint64_t sample_count;
    uint64_t samples_end;   /* file offset after the last slot or frame */
    uint64_t payload_bytes; /* sum of the slots, unfiltered */
    uint64_t header_checksum;
    uint64_t seek_table_bytes, seek_table_checksum; /* after the footer; 0 in raw shards */
    uint64_t checksum; /* checksum of this footer; the shard's identity */
    ff_section section[FF_SHARD_SECTIONS];
} ff_shard_footer;

/* One zstd frame. */
typedef struct ff_frame {
    uint64_t file_offset, compressed_bytes;
    uint64_t payload_offset, payload_bytes; /* in the unfiltered payload: whole slots */
    uint64_t filtered_bytes;                /* content size of the zstd frame */
    uint64_t checksum;                      /* XXH3-64 of the compressed bytes */
    uint32_t first_slot, slot_count;
    ff_filter filter; /* the dataset's filter, or shuffle if that does not fit */
} ff_frame;

typedef struct ff_index_header {
    uint32_t version;
    uint64_t file_bytes;
    uint64_t sample_count;
    uint32_t shard_count, generation;
    ff_dataset_ids id;
    ff_section section[FF_INDEX_SECTIONS]; /* checksum only for FF_INDEX_CHECKSUMS */
} ff_index_header;

/* A row of the index's shard table. */
typedef struct ff_shard_row {
    uint64_t file_bytes, footer_offset, footer_checksum;
    uint64_t first_position, position_count, sample_count;
    uint32_t generation;
} ff_shard_row;

void ff_shard_header_encode(const ff_shard_header *header, uint8_t bytes[FF_HEADER_BYTES]);
void ff_shard_footer_encode(ff_shard_footer *footer, uint8_t bytes[FF_FOOTER_BYTES]);
void ff_index_header_encode(const ff_index_header *header, uint8_t bytes[FF_HEADER_BYTES]);
void ff_entry_encode(const ff_entry *entry, uint8_t bytes[FF_ENTRY_BYTES]);
void ff_frame_encode(const ff_frame *frame, uint8_t bytes[FF_FRAME_BYTES]);
void ff_shard_row_encode(const ff_shard_row *row, uint8_t bytes[FF_SHARD_ROW_BYTES]);

/* `path` is only for the error message. */
FF_MUST_USE ff_status ff_shard_header_decode(ff_shard_header *header, const uint8_t *bytes,
                                             const char *path, ff_error *error);
FF_MUST_USE ff_status ff_shard_footer_decode(ff_shard_footer *footer, const uint8_t *bytes,
                                             uint64_t footer_offset, const char *path,
                                             ff_error *error);
FF_MUST_USE ff_status ff_index_header_decode(ff_index_header *header, const uint8_t *bytes,
                                             uint64_t file_bytes, const char *path,
                                             ff_error *error);
/* Only decodes the fields; the caller checks ranges. False if reserved bytes are not zero. */
bool ff_entry_decode(ff_entry *entry, const uint8_t bytes[FF_ENTRY_BYTES]);
bool ff_frame_decode(ff_frame *frame, const uint8_t bytes[FF_FRAME_BYTES]);
bool ff_shard_row_decode(ff_shard_row *row, const uint8_t bytes[FF_SHARD_ROW_BYTES]);

/* "shard-000000.ffs"; and the number of such a name: false if it is not a shard's name. */
void ff_shard_name(char name[32], uint32_t number);
bool ff_shard_name_parse(const char *name, uint32_t *number);
#define FF_INDEX_NAME "index.ffx"
/* These exist only during packing, never in a finished set: the data that completes a pending shard
 * (format/writer/pending.h), and the progress of a statistics pass (tools/ffpack/split/measure.h).
 */
#define FF_PENDING_SUFFIX    ".pending"
#define FF_MEASURED_NAME     "measured.ffp"
#define FF_SENT_SUFFIX       ".sent" /* next to a shard of a set that is packed into a bucket */
#define FF_SOURCE_STATE_NAME "source-state" /* written by ffpack --if-changed, in OUT */

#endif
