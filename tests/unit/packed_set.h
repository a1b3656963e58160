/* Synthetic packed sets, for tests and benchmarks of everything that reads sets. Everything in a
 * set follows from its spec, so that a test knows what it must read. */
#ifndef FF_TESTS_PACKED_SET_H
#define FF_TESTS_PACKED_SET_H

#include "format/disk/generation.h"
#include "format/writer/block.h"
#include "format/writer/writer.h"

#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Writing sets, whatever is in them ------------------------------------------------------ */

/* Adds the sample at a storage position of the generation to the block, unless it is skipped. */
typedef ff_status packed_add(const void *context, const ff_metadata *metadata, uint64_t position,
                             ff_block *block, ff_error *error);

static inline ff_status packed_fill(ff_block *block, const ff_metadata *metadata, uint64_t number,
                                    packed_add *add, const void *context, ff_error *error) {
    uint64_t items = metadata->items - ff_metadata_first_item(metadata);
    uint64_t begin = number * metadata->items_per_block, end = begin + metadata->items_per_block;
    ff_block_reset(block, number);
    for (uint64_t p = begin; p < end && p < items; p++)
        FF_TRY(add(context, metadata, p, block, error));
    return ff_block_seal(block, error);
}

/* Appends blocks until `stop` of them are in the set, or all. */
static inline ff_status packed_append(ff_writer *writer, const ff_metadata *metadata, uint64_t stop,
                                      packed_add *add, const void *context, ff_error *error) {
    ff_block *block;
    ff_status status = FF_OK;
    FF_TRY(ff_block_create(&block, metadata, error));
    for (uint64_t number;
         (number = ff_writer_next_block(writer)) < ff_writer_end_block(writer) && number < stop;) {
        FF_TRY_DONE(packed_fill(block, metadata, number, add, context, error));
        FF_TRY_DONE(ff_writer_append(writer, block, error));
    }
done:
    ff_block_destroy(&block);
    return status;
}

/* The generation that the metadata describes, or a part of it; part and result may be NULL. */
static inline ff_status packed_write(const char *folder, const ff_metadata *metadata,
                                     const ff_part *part, packed_add *add, const void *context,
                                     ff_writer_result *result, ff_error *error) {
    ff_writer *writer;
    ff_writer_result own;
    ff_status status;
    FF_TRY(ff_writer_open(&writer, folder, metadata, part, error));
    FF_TRY_DONE(packed_append(writer, metadata, UINT64_MAX, add, context, error));
    status = ff_writer_commit(writer, result ? result : &own, error);
done:
    ff_writer_close(&writer);
    return status;
}

/* A new folder below $TMPDIR or /tmp; the caller frees its path. */
static inline ff_status packed_new_folder(char **path, ff_error *error) {
    const char *root = getenv("TMPDIR");
    FF_TRY(ff_format(path, error, "%s/ff_test_XXXXXX", root ? root : "/tmp"));
    if (mkdtemp(*path)) return FF_OK;
    ff_status status = ff_fail_errno(error, "%s: cannot create", *path);
    free(*path);
    *path = NULL;
    return status;
}

static inline int packed_remove_one(const char *path, const struct stat *info, int flag,
                                    struct FTW *place) {
    (void)info, (void)flag, (void)place;
    return remove(path);
}

static inline int packed_remove_folder(const char *path) {
    return nftw(path, packed_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- What is in a set ----------------------------------------------------------------------- */

enum { LABELS_NONE, LABELS_CLASS, LABELS_ALL };
enum { SKIP_NONE, SKIP_SOME, SKIP_SHARD_1 };

typedef struct set_spec {
    ff_dtype dtype;
    ff_layout layout;
    uint32_t channels, height, width; /* the largest ones if variable */
    bool variable;
    uint32_t alignment;
    uint64_t items;
    uint64_t per_block, per_shard, shard_bytes; /* 0: as planned, for shards of 1 MiB */
    bool zstd;
    int level;
    ff_filter filter;
    bool misfit; /* some values are outside of the table */
    int labels, skip;
    bool shuffled, backwards; /* storage order is not number order */
    uint64_t seed;
    /* For tests of loaders: finite values, sides from half of the largest up, keys that are decimal
     * numbers, sorted classes. Otherwise values, keys and texts are arbitrary bytes. */
    bool plain;
    bool no_statistics;
    bool images;         /* a plain set's values are those of images of u8, the same in any dtype */
    uint32_t classes;    /* of a plain set */
    int64_t first_class; /* added to a plain set's classes, which are i64 then; 0: none, i32 */
    char *folder;        /* the folder to which set_make wrote it */
} set_spec;

/* CIFAR-like samples of f16. */
static inline set_spec plain_set(uint64_t items) {
    return (set_spec){.dtype = FF_F16,
                      .layout = FF_CHW,
                      .channels = 3,
                      .height = 32,
                      .width = 32,
                      .items = items,
                      .shard_bytes = UINT64_C(1) << 30,
                      .level = 1,
                      .labels = LABELS_CLASS,
                      .plain = true,
                      .classes = 10};
}

static inline uint64_t set_mix(uint64_t a, uint64_t b) {
    uint64_t x = a * 0x9E3779B97F4A7C15u ^ (b + 0xD1B54A32D192ED03u) * 0xBF58476D1CE4E5B9u;
    x ^= x >> 31;
    x *= 0x94D049BB133111EBu;
    return x ^ x >> 29;
}

/* Entry i of a channel's table. */
static inline void set_table_element(const set_spec *spec, uint32_t channel, unsigned i, void *to) {
    float value =
        ((float)i / 255.0f - 0.4f - 0.05f * (float)channel) / (0.2f + 0.01f * (float)channel);
    switch (spec->dtype) {
    case FF_U8: *(uint8_t *)to = (uint8_t)(i ^ (channel * 7 & 255)); break;
    case FF_U16: ff_store_u16(to, (uint16_t)(i * 257 + channel)); break;
    default: ff_convert(to, spec->dtype, &value, FF_F32, 1);
    }
}

typedef struct set_field {
    const char *name;
    ff_field_kind kind;
    ff_dtype dtype;
    uint32_t width;
} set_field;

static inline ff_status set_add_fields(const set_spec *spec, ff_metadata *metadata,
                                       ff_error *error) {
    static const set_field plain[] = {{"label", FF_FIELD_CLASS, FF_I32, 1},
                                      {"vector", FF_FIELD_VECTOR, FF_F32, 5},
                                      {"tags", FF_FIELD_MULTI_HOT, FF_U8, 3}};
    static const set_field odd[] = {
        {"class", FF_FIELD_CLASS, FF_I32, 1},   {"big class", FF_FIELD_CLASS, FF_I64, 1},
        {"tags", FF_FIELD_MULTI_HOT, FF_U8, 5}, {"wide tags", FF_FIELD_MULTI_HOT, FF_U8, 17},
        {"soft", FF_FIELD_SOFT, FF_F32, 3},     {"wide soft", FF_FIELD_SOFT, FF_F32, 10},
        {"nothing", FF_FIELD_NONE, FF_U8, 0},   {"point", FF_FIELD_VECTOR, FF_F16, 3},
        {"box", FF_FIELD_VECTOR, FF_I64, 4}};
    static const char *const odd_class[] = {"plain", "", "two words", "\xff\xfe%41\n\r\t\x01",
                                            "\xe7\x8c\xab"};
    const set_field *field = spec->plain ? plain : odd;
    size_t all = spec->plain ? sizeof plain / sizeof *plain : sizeof odd / sizeof *odd;
    size_t count = spec->labels == LABELS_ALL ? all : spec->labels == LABELS_CLASS ? 1 : 0;
    for (size_t i = 0; i < count; i++)
        FF_TRY(ff_metadata_add_field(metadata, field[i].name, field[i].kind,
                                     i == 0 && spec->first_class ? FF_I64 : field[i].dtype,
                                     field[i].width, error));
    for (size_t i = 0; count && !spec->plain && i < sizeof odd_class / sizeof *odd_class; i++)
        FF_TRY(ff_metadata_add_class(metadata, 0, odd_class[i], error));
    return FF_OK;
}

/* Lines that every reader must keep and none needs. */
static inline ff_status set_add_lines(ff_metadata *metadata, ff_error *error) {
    FF_TRY(ff_copy_string(&metadata->split, "train", error));
    FF_TRY(ff_metadata_add_transform(metadata, "resize size=256 interpolation=bilinear", error));
    FF_TRY(ff_metadata_add_transform(metadata, "", error));
    FF_TRY(ff_metadata_add_transform(metadata, "normalize 100%\n", error));
    FF_TRY(ff_metadata_add_provenance(metadata, "source", "synthetic", error));
    FF_TRY(ff_metadata_add_provenance(metadata, "option", "--seed 1", error));
    FF_TRY(ff_metadata_add_provenance(metadata, "", "", error));
    return ff_metadata_add_optional(metadata, "a feature of tomorrow", error);
}

static inline ff_status set_describe(const set_spec *spec, ff_metadata *metadata, ff_error *error) {
    if (spec->filter == FF_FILTER_TABLE) {
        size_t bytes = ff_dtype_bytes(spec->dtype);
        FF_TRY(ff_alloc(&metadata->table, spec->channels, 256 * bytes, "a table", error));
        for (uint32_t c = 0; c < spec->channels; c++)
            for (unsigned i = 0; i < 256; i++)
                set_table_element(spec, c, i, metadata->table + (c * 256 + i) * bytes);
    }
    float mean[64], std[64];
    if (spec->channels <= 64 && !spec->no_statistics) {
        for (uint32_t c = 0; c < spec->channels; c++) {
            mean[c] = 0.4f + 0.05f * (float)c;
            std[c] = 0.2f + 0.01f * (float)c;
        }
        FF_TRY(ff_metadata_set_statistics(metadata, mean, std, spec->channels, error));
    }
    if (!spec->plain) FF_TRY(set_add_lines(metadata, error));
    if (spec->images) FF_TRY(ff_metadata_add_transform(metadata, "to_tensor scale=1/255", error));
    FF_TRY(set_add_fields(spec, metadata, error));
    FF_TRY(ff_metadata_plan(metadata, spec->shard_bytes ? spec->shard_bytes : 1 << 20, error));
    if (spec->per_block) metadata->items_per_block = spec->per_block;
    if (spec->per_shard) metadata->items_per_shard = spec->per_shard;
    return ff_metadata_check(metadata, error);
}

/* The caller frees it; after a failure there is nothing to free. */
static inline ff_status set_metadata(const set_spec *spec, ff_metadata *metadata, ff_error *error) {
    *metadata = (ff_metadata){.dtype = spec->dtype,
                              .layout = spec->layout,
                              .channels = spec->channels,
                              .height = spec->height,
                              .width = spec->width,
                              .variable_size = spec->variable,
                              .alignment = spec->alignment,
                              .items = spec->items,
                              .compression = spec->zstd ? FF_COMPRESSION_ZSTD : FF_COMPRESSION_NONE,
                              .level = spec->zstd ? spec->level : 0,
                              .filter = spec->filter};
    ff_status status = set_describe(spec, metadata, error);
    if (status != FF_OK) ff_metadata_free(metadata);
    return status;
}

/* The item at a storage position: a permutation, by steps of a number without a common divisor. */
static inline uint64_t set_item_at(const set_spec *spec, uint64_t position) {
    if (spec->backwards) return spec->items - 1 - position;
    if (!spec->shuffled) return position;
    uint64_t step = 7919;
    while (spec->items % step == 0) step += 2;
    uint64_t a = step, b = spec->items;
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    if (a != 1) step = 1;
    return (position * step + spec->seed + 3) % spec->items;
}

static inline bool set_skipped(const set_spec *spec, uint64_t position) {
    if (spec->skip == SKIP_SOME) return set_mix(spec->seed, position) % 3 == 0;
    if (spec->skip == SKIP_SHARD_1) return position / spec->per_shard == 1;
    return false;
}

static inline uint32_t set_side(const set_spec *spec, uint32_t largest, uint64_t random) {
    uint32_t least = spec->plain ? largest - largest / 2 : 1;
    return spec->variable ? least + (uint32_t)(random % (largest - least + 1)) : largest;
}
static inline uint32_t set_height(const set_spec *spec, uint64_t item) {
    return set_side(spec, spec->height, set_mix(item, 11));
}
static inline uint32_t set_width(const set_spec *spec, uint64_t item) {
    return set_side(spec, spec->width, set_mix(item, 12));
}

/* An element that no table holds. */
static inline void set_misfit(uint8_t *to, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) to[i] = (uint8_t)(0x5a + 37 * i);
}

/* An element of an image: u8, or normalized. */
static inline void set_image_element(const set_spec *spec, uint32_t channel, uint8_t value,
                                     void *to) {
    const float mean = 0.4f + 0.05f * (float)channel, std = 0.2f + 0.01f * (float)channel;
    const float x = ((float)value / 255.0f - mean) / std;
    if (spec->dtype == FF_U8)
        *(uint8_t *)to = value;
    else
        ff_convert(to, spec->dtype, &x, FF_F32, 1);
}

/* Fills an item's tensor; returns its bytes. */
static inline size_t set_tensor(const set_spec *spec, uint64_t item, void *tensor) {
    size_t bytes = ff_dtype_bytes(spec->dtype);
    size_t pixels = (size_t)set_height(spec, item) * set_width(spec, item);
    uint64_t kept = UINT64_MAX; /* without an exponent's highest bit every value is finite */
    if (spec->plain && ff_dtype_is_float(spec->dtype)) kept ^= UINT64_C(1) << (8 * bytes - 2);
    uint8_t *to = tensor;
    for (size_t i = 0; i < pixels * spec->channels; i++) {
        uint32_t channel = (uint32_t)(spec->layout == FF_CHW ? i / pixels : i % spec->channels);
        uint64_t noise = set_mix(spec->seed + item, i) & kept;
        if (spec->images)
            set_image_element(spec, channel, (uint8_t)set_mix(spec->seed + item, i),
                              to + i * bytes);
        else if (spec->filter == FF_FILTER_TABLE)
            set_table_element(spec, channel, (unsigned)(i + noise % 5) & 255, to + i * bytes);
        else
            memcpy(to + i * bytes, &noise, bytes);
    }
    if (spec->misfit && item % 4 == 1) set_misfit(to, bytes);
    return pixels * spec->channels * bytes;
}

/* -1: unlabeled. */
static inline int64_t set_class(const set_spec *spec, uint64_t item) {
    if (!spec->plain) return (int64_t)(item % 6) - 1;
    return item % 97 == 96 ? -1 : (int64_t)(item * spec->classes / spec->items);
}

static inline void set_label(const set_spec *spec, const ff_metadata *metadata, size_t field,
                             uint64_t item, uint8_t *to) {
    const ff_field *at = &metadata->field[field];
    uint64_t bytes = ff_field_bytes(at);
    for (uint64_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)set_mix(spec->seed + item, 100 * field + i);
    if (at->kind == FF_FIELD_CLASS) {
        int64_t value = set_class(spec, item);
        if (at->dtype == FF_I64) {
            if (value >= 0) value += spec->plain ? spec->first_class : INT64_C(1) << 40;
            ff_store_u64(to, (uint64_t)value);
        } else {
            ff_store_u32(to, (uint32_t)(int32_t)value);
        }
    }
    if (at->kind == FF_FIELD_MULTI_HOT)
        for (uint64_t i = 0; i < bytes; i++)
            to[i] = (uint8_t)((spec->plain ? item >> i : to[i]) & 1);
    if (at->kind == FF_FIELD_VECTOR && spec->plain)
        for (uint32_t i = 0; i < at->width; i++)
            ff_store_u32(to + 4 * i, ff_float_bits((float)item + (float)i));
}

/* Keys hold every byte value, zero among them; some are empty, one is as long as allowed. */
static inline size_t set_key(const set_spec *spec, uint64_t item, uint8_t *to) {
    if (spec->plain) return (size_t)snprintf((char *)to, FF_KEY_LIMIT_BYTES, "%" PRIu64, item);
    size_t length = item == 2 ? FF_KEY_LIMIT_BYTES : item % 7 == 3 ? 0 : 1 + item * 13 % 60;
    for (size_t i = 0; i < length; i++) to[i] = (uint8_t)(item * 31 + i + spec->seed);
    return length;
}

static inline uint64_t set_source_checksum(const set_spec *spec, uint64_t item) {
    return set_mix(spec->seed ^ 77, item);
}

/* A packed_add for a set_spec. */
static inline ff_status set_add(const void *context, const ff_metadata *metadata, uint64_t position,
                                ff_block *block, ff_error *error) {
    const set_spec *spec = context;
    uint8_t key[FF_KEY_LIMIT_BYTES], labels[16][256];
    const void *label[16];
    uint64_t item = ff_metadata_first_item(metadata) + set_item_at(spec, position);
    void *tensor;
    if (set_skipped(spec, position)) return FF_OK;
    for (size_t i = 0; i < metadata->field_count; i++) {
        set_label(spec, metadata, i, item, labels[i]);
        label[i] = metadata->field[i].kind == FF_FIELD_NONE ? NULL : labels[i];
    }
    ff_block_sample sample = {.item = item,
                              .height = set_height(spec, item),
                              .width = set_width(spec, item),
                              .key = key,
                              .key_bytes = set_key(spec, item, key),
                              .source_checksum = set_source_checksum(spec, item),
                              .label = label};
    FF_TRY(ff_block_add(block, &sample, &tensor, error));
    set_tensor(spec, item, tensor);
    return FF_OK;
}

/* result may be NULL. */
static inline ff_status set_write(const set_spec *spec, const char *folder,
                                  ff_writer_result *result, ff_error *error) {
    ff_metadata metadata;
    FF_TRY(set_metadata(spec, &metadata, error));
    ff_status status = packed_write(folder, &metadata, NULL, set_add, spec, result, error);
    ff_metadata_free(&metadata);
    return status;
}

/* Writes it into a new folder; set_remove removes it. */
static inline ff_status set_make(set_spec *spec, ff_error *error) {
    FF_TRY(packed_new_folder(&spec->folder, error));
    return set_write(spec, spec->folder, NULL, error);
}

static inline void set_remove(set_spec *spec) {
    if (spec->folder) (void)packed_remove_folder(spec->folder);
    free(spec->folder);
    spec->folder = NULL;
}

#endif
