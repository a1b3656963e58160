/* The dataset's metadata: everything about a packed split except its samples, as a struct and as
 * the canonical text that every shard and the index carry (FORMAT.md, "Metadata").
 *
 * The text has one line `word value...` per fact, so two datasets are compared line by line, and
 * the first different line is reported. Equal structs have equal texts, byte for byte. The text
 * holds no time, path, host, user or job count. Thread rule: a metadata is read-only once
 * filled. */
#ifndef FF_FORMAT_METADATA_H
#define FF_FORMAT_METADATA_H

#include "format/base/memory.h"
#include "format/disk/dtype.h"

/* The newest version of the format; versions 0 to this one can be read. */
#define FF_FORMAT_VERSION 1u

#define FF_METADATA_WORD        "ffpack-metadata"    /* first word of the text */
#define FF_METADATA_LIMIT_BYTES (UINT64_C(64) << 20) /* of the text */
#define FF_CHANNELS_LIMIT       4096u
#define FF_SIDE_LIMIT           1048576u /* of height and width */
#define FF_FIELDS_LIMIT         256u
#define FF_CLASSES_LIMIT        16777216u
#define FF_KEY_LIMIT_BYTES      4096u
#define FF_SAMPLE_LIMIT_BYTES   (UINT64_C(1) << 36)
#define FF_SMALL_LABEL_BYTES    16u /* per sample; larger fields are not stored in the index */

typedef enum ff_field_kind {
    FF_FIELD_CLASS,     /* one integer, -1 = unlabeled; dtype i32 or i64 */
    FF_FIELD_MULTI_HOT, /* `width` values 0 or 1; dtype u8 */
    FF_FIELD_SOFT,      /* `width` class probabilities; dtype f32 */
    FF_FIELD_VECTOR,    /* `width` numbers of any dtype: regression targets, boxes */
    FF_FIELD_NONE,      /* without label; width 0 */
    FF_FIELD_KIND_COUNT,
} ff_field_kind;

/* A named label field. Owned strings. */
typedef struct ff_field {
    char *name;
    ff_field_kind kind;
    ff_dtype dtype;
    uint32_t width;       /* values per sample: 1 for class, 0 for none */
    uint32_t class_count; /* 0 = the classes have no names */
    char **class_name;    /* [class_count], bytes as the source had them, no zero byte inside */
} ff_field;

typedef enum ff_compression { FF_COMPRESSION_NONE, FF_COMPRESSION_ZSTD } ff_compression;

/* The reversible transform of a frame's bytes before zstd (format/disk/filter.h). */
typedef enum ff_filter {
    FF_FILTER_NONE,
    FF_FILTER_SHUFFLE, /* groups byte k of all elements */
    FF_FILTER_TABLE,   /* elements -> index into the channel's 256 values, then row delta */
    FF_FILTER_DELTA,   /* row delta of bytes, for u8 */
    FF_FILTER_COUNT,
} ff_filter;

/* An ordered fact of origin: "source" "cifar-10-binary", "ffpack" "0.1.0", "option" "--seed 1". */
typedef struct ff_provenance {
    char *key;
    char *value;
} ff_provenance;

/* An earlier generation of a set (format/disk/generation.h). */
typedef struct ff_generation {
    uint64_t items;
    uint32_t shards;
    uint8_t id[16]; /* XXH3-128 of its metadata's text */
} ff_generation;

typedef struct ff_metadata {
    uint32_t version; /* format version, as in the files that carry the text */
    char *split;      /* "train", "test", ...; "" if the source has only one split */

    /* Samples. */
    ff_dtype dtype; /* u8, u16, f16, bf16, f32 */
    ff_layout layout;
    uint32_t channels;
    uint32_t height, width; /* of every sample; upper bounds if variable_size */
    bool variable_size;
    uint32_t alignment; /* alignment of every sample in its shard: 64 or 4096 bytes */

    /* How storage positions are divided. Position p of a generation is in its shard p /
     * items_per_shard and its block p / items_per_block; items_per_shard is a multiple of
     * items_per_block. `items` counts the items of all generations. */
    uint64_t items;
    uint64_t items_per_shard;
    uint64_t items_per_block;

    /* The earlier generations, oldest first. Owned. */
    size_t generation_count;
    ff_generation *generation;

    ff_compression compression;
    int level; /* zstd's level */
    ff_filter filter;
    /* With FF_FILTER_TABLE: channels x 256 elements of dtype, little-endian. Owned. */
    uint8_t *table;

    /* Statistics of Normalize: already applied if dtype is a float; for u8 the reader applies them
     * (with /255). Count is 0 or channels. Owned. */
    uint32_t statistics_count;
    float *mean, *std;

    /* Ordered transforms with every parameter, one text line each, "resize size=256 ...". */
    size_t transform_count;
    char **transform;

    size_t field_count;
    ff_field *field;

    size_t provenance_count;
    ff_provenance *provenance;

    size_t required_count; /* features that a reader must know; it refuses an unknown one by name */
    char **required;
    size_t optional_count;
    char **optional;
} ff_metadata;

/* Releases what the metadata owns and zeroes it. A zeroed metadata is accepted. */
void ff_metadata_free(ff_metadata *metadata);

/* A deep copy. On failure *copy is zeroed. */
FF_MUST_USE ff_status ff_metadata_copy(ff_metadata *copy, const ff_metadata *metadata,
                                       ff_error *error);

/* Each appends one; strings are copied. On failure the metadata is unchanged and must still be
 * freed. */
FF_MUST_USE ff_status ff_metadata_add_transform(ff_metadata *metadata, const char *line,
                                                ff_error *error);
FF_MUST_USE ff_status ff_metadata_add_provenance(ff_metadata *metadata, const char *key,
                                                 const char *value, ff_error *error);
FF_MUST_USE ff_status ff_metadata_add_required(ff_metadata *metadata, const char *feature,
                                               ff_error *error);
FF_MUST_USE ff_status ff_metadata_add_optional(ff_metadata *metadata, const char *feature,
                                               ff_error *error);
FF_MUST_USE ff_status ff_metadata_add_field(ff_metadata *metadata, const char *name,
                                            ff_field_kind kind, ff_dtype dtype, uint32_t width,
                                            ff_error *error);
FF_MUST_USE ff_status ff_metadata_add_class(ff_metadata *metadata, size_t field, const char *name,
                                            ff_error *error);
/* Frees all fields except this one. */
void ff_metadata_keep_field(ff_metadata *metadata, size_t field);
FF_MUST_USE ff_status ff_metadata_set_statistics(ff_metadata *metadata, const float *mean,
                                                 const float *std, uint32_t count, ff_error *error);

/* Fills version, items_per_block and items_per_shard from dtype, shape, fields, compression and the
 * wanted size of a shard in bytes; sets the `required` features. Call it after everything else is
 * filled. */
FF_MUST_USE ff_status ff_metadata_plan(ff_metadata *metadata, uint64_t shard_bytes,
                                       ff_error *error);

/* Checks every limit and relation; the error message names the line of the text. */
FF_MUST_USE ff_status ff_metadata_check(const ff_metadata *metadata, ff_error *error);

/* The canonical text, appended to `text`. */
FF_MUST_USE ff_status ff_metadata_write(const ff_metadata *metadata, ff_buffer *text,
                                        ff_error *error);

/* Parses and checks. On failure *metadata is zeroed. */
FF_MUST_USE ff_status ff_metadata_read(ff_metadata *metadata, const char *text, size_t length,
                                       ff_error *error);

/* Names the first line in which two texts differ: FF_USAGE "`what`: has '...', wanted '...'". */
FF_MUST_USE ff_status ff_metadata_compare(const char *what, const ff_buffer *found,
                                          const ff_buffer *wanted, ff_error *error);

/* transform_id: XXH3-128 (canonical, 16 bytes) of the text's lines mean, std, transform and class.
 * So it does not depend on dtype, layout or compression. */
FF_MUST_USE ff_status ff_metadata_transform_id(const ff_metadata *metadata, uint8_t id[16],
                                               ff_error *error);

/* Derived sizes in bytes: a tensor of this shape (ff_metadata_check has checked the largest one
 * against overflow); the label row that the index keeps for each sample; a slot's payload = the
 * tensor, then the wide labels, each at a multiple of 16; a slot = the payload rounded up. */
uint64_t ff_metadata_tensor_bytes(const ff_metadata *metadata, uint32_t height, uint32_t width);
uint64_t ff_metadata_payload_bytes(const ff_metadata *metadata, uint32_t height, uint32_t width);
uint64_t ff_metadata_slot_bytes(const ff_metadata *metadata, uint32_t height, uint32_t width);
uint64_t ff_metadata_label_row_bytes(const ff_metadata *metadata);

/* Bytes of one sample's values of a field, and their offset: in the label row if `*wide` is false,
 * else from the start of the tensor. */
uint64_t ff_field_bytes(const ff_field *field);
/* The class in a sample's bytes of a field of kind class, as stored; -1 = no label. */
int64_t ff_field_class(const ff_field *field, const void *bytes);
uint64_t ff_metadata_field_offset(const ff_metadata *metadata, size_t field, uint32_t height,
                                  uint32_t width, bool *wide);

const char *ff_field_kind_name(ff_field_kind kind);
const char *ff_filter_name(ff_filter filter);

#endif
