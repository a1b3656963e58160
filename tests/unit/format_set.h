/* Synthetic packed sets for the tests of format/: everything about a set follows from its spec, so
 * that what was read back can be compared with what should have been written. Header only, because
 * every tests/unit/test_*.c is a program of its own. Failures end the test (cmocka). */
#ifndef FF_TESTS_FORMAT_SET_H
#define FF_TESTS_FORMAT_SET_H

#include "format/block.h"
#include "format/dataset.h"
#include "format/filter.h"
#include "format/generation.h"
#include "format/index.h"
#include "format/layout.h"
#include "format/reader.h"
#include "format/verify.h"
#include "format/writer.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LABELS_NONE, LABELS_CLASS, LABELS_ALL };
enum { SKIP_NONE, SKIP_SOME, SKIP_SHARD_1 };

typedef struct set_spec {
    ff_dtype dtype;
    ff_layout layout;
    uint32_t channels, height, width;
    bool variable;
    uint32_t alignment;
    uint64_t items, per_block, per_shard;
    bool zstd;
    int level;
    ff_filter filter;
    bool misfit; /* some values are outside of the table */
    int labels, skip;
    bool shuffled; /* storage order is not number order */
    uint64_t seed;
} set_spec;

static inline uint64_t set_mix(uint64_t a, uint64_t b) {
    uint64_t x = a * 0x9E3779B97F4A7C15u ^ (b + 0xD1B54A32D192ED03u) * 0xBF58476D1CE4E5B9u;
    x ^= x >> 31;
    x *= 0x94D049BB133111EBu;
    return x ^ x >> 29;
}

/* `path` of a new empty folder; removed by remove_folder. */
static inline char *new_folder(void) {
    const char *base = getenv("TMPDIR");
    char *path = NULL;
    assert_ok(ff_format(&path, error, "%s/ff_format_XXXXXX", base ? base : "/tmp"));
    assert_non_null(mkdtemp(path));
    return path;
}

static inline void remove_folder(char *path) {
    char *command;
    assert_ok(ff_format(&command, error, "rm -rf '%s'", path));
    assert_int_equal(system(command), 0);
    free(command);
    free(path);
}

static inline char *join(const char *folder, const char *name) {
    char *path;
    assert_ok(ff_format(&path, error, "%s/%s", folder, name));
    return path;
}

static inline uint8_t *read_whole(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s: cannot open", path);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *length = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*length + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *length, file), *length);
    fclose(file);
    return bytes;
}

static inline void write_whole(const char *path, const void *bytes, size_t length) {
    FILE *file = fopen(path, "wb");
    if (!file) fail_msg("%s: cannot create", path);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
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

static inline void set_metadata(const set_spec *spec, ff_metadata *metadata) {
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
    assert_ok(ff_copy_string(&metadata->split, "train", error));
    if (spec->filter == FF_FILTER_TABLE) {
        size_t bytes = ff_dtype_bytes(spec->dtype);
        assert_ok(ff_alloc(&metadata->table, spec->channels, 256 * bytes, "a table", error));
        for (uint32_t c = 0; c < spec->channels; c++)
            for (unsigned i = 0; i < 256; i++)
                set_table_element(spec, c, i, metadata->table + (c * 256 + i) * bytes);
    }
    float mean[64], deviation[64];
    if (spec->channels <= 64) {
        for (uint32_t c = 0; c < spec->channels; c++) {
            mean[c] = 0.4f + 0.05f * (float)c;
            deviation[c] = 0.2f + 0.01f * (float)c;
        }
        assert_ok(ff_metadata_set_statistics(metadata, mean, deviation, spec->channels, error));
    }
    assert_ok(ff_metadata_add_transform(metadata, "resize size=256 interpolation=bilinear", error));
    assert_ok(ff_metadata_add_transform(metadata, "", error));
    assert_ok(ff_metadata_add_transform(metadata, "normalize 100%\n", error));
    assert_ok(ff_metadata_add_provenance(metadata, "source", "synthetic", error));
    assert_ok(ff_metadata_add_provenance(metadata, "option", "--seed 1", error));
    assert_ok(ff_metadata_add_provenance(metadata, "", "", error));
    assert_ok(ff_metadata_add_optional(metadata, "a feature of tomorrow", error));
    if (spec->labels >= LABELS_CLASS) {
        assert_ok(ff_metadata_add_field(metadata, "class", FF_FIELD_CLASS, FF_I32, 1, error));
        assert_ok(ff_metadata_add_class(metadata, 0, "plain", error));
        assert_ok(ff_metadata_add_class(metadata, 0, "", error));
        assert_ok(ff_metadata_add_class(metadata, 0, "two words", error));
        assert_ok(ff_metadata_add_class(metadata, 0, "\xff\xfe%41\n\r\t\x01", error));
        assert_ok(ff_metadata_add_class(metadata, 0, "\xe7\x8c\xab", error));
    }
    if (spec->labels == LABELS_ALL) {
        assert_ok(ff_metadata_add_field(metadata, "big class", FF_FIELD_CLASS, FF_I64, 1, error));
        assert_ok(ff_metadata_add_field(metadata, "tags", FF_FIELD_MULTI_HOT, FF_U8, 5, error));
        assert_ok(
            ff_metadata_add_field(metadata, "wide tags", FF_FIELD_MULTI_HOT, FF_U8, 17, error));
        assert_ok(ff_metadata_add_field(metadata, "soft", FF_FIELD_SOFT, FF_F32, 3, error));
        assert_ok(ff_metadata_add_field(metadata, "wide soft", FF_FIELD_SOFT, FF_F32, 10, error));
        assert_ok(ff_metadata_add_field(metadata, "nothing", FF_FIELD_NONE, FF_U8, 0, error));
        assert_ok(ff_metadata_add_field(metadata, "point", FF_FIELD_VECTOR, FF_F16, 3, error));
        assert_ok(ff_metadata_add_field(metadata, "box", FF_FIELD_VECTOR, FF_I64, 4, error));
    }
    assert_ok(ff_metadata_plan(metadata, 1 << 20, error));
    if (spec->per_block) metadata->items_per_block = spec->per_block;
    if (spec->per_shard) metadata->items_per_shard = spec->per_shard;
    assert_ok(ff_metadata_check(metadata, error));
}

/* The item at a storage position: a permutation, by cycle walking over a small Feistel-free mix. */
static inline uint64_t set_item_at(const set_spec *spec, uint64_t position) {
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

static inline void set_shape(const set_spec *spec, uint64_t item, uint32_t *height,
                             uint32_t *width) {
    *height = spec->height;
    *width = spec->width;
    if (!spec->variable) return;
    *height = 1 + (uint32_t)(set_mix(item, 11) % spec->height);
    *width = 1 + (uint32_t)(set_mix(item, 12) % spec->width);
}

/* An element that no table holds. */
static inline void set_misfit(uint8_t *to, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) to[i] = (uint8_t)(0x5a + 37 * i);
}

static inline void set_tensor(const set_spec *spec, uint64_t item, uint32_t height, uint32_t width,
                              uint8_t *to) {
    size_t bytes = ff_dtype_bytes(spec->dtype), pixels = (size_t)height * width;
    for (size_t i = 0; i < pixels * spec->channels; i++) {
        uint32_t channel = (uint32_t)(spec->layout == FF_CHW ? i / pixels : i % spec->channels);
        uint64_t noise = set_mix(spec->seed + item, i);
        if (spec->filter == FF_FILTER_TABLE)
            set_table_element(spec, channel, (unsigned)(i + noise % 5) & 255, to + i * bytes);
        else
            memcpy(to + i * bytes, &noise, bytes);
    }
    if (spec->misfit && item % 4 == 1) set_misfit(to, bytes);
}

static inline void set_label(const set_spec *spec, const ff_metadata *metadata, size_t field,
                             uint64_t item, uint8_t *to) {
    const ff_field *at = &metadata->field[field];
    uint64_t bytes = ff_field_bytes(at);
    for (uint64_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)set_mix(spec->seed + item, 100 * field + i);
    if (at->kind == FF_FIELD_CLASS) {
        int64_t value = (int64_t)(item % 6) - 1; /* -1 = unlabeled, then the five classes */
        if (at->dtype == FF_I64) {
            if (value >= 0) value += INT64_C(1) << 40;
            ff_store_u64(to, (uint64_t)value);
        } else {
            ff_store_u32(to, (uint32_t)(int32_t)value);
        }
    }
    if (at->kind == FF_FIELD_MULTI_HOT)
        for (uint64_t i = 0; i < bytes; i++) to[i] &= 1;
}

/* Keys hold every byte value, zero among them; some are empty, one is as long as allowed. */
static inline size_t set_key(const set_spec *spec, uint64_t item, uint8_t *to) {
    size_t length = item == 2 ? FF_KEY_LIMIT_BYTES : item % 7 == 3 ? 0 : 1 + item * 13 % 60;
    for (size_t i = 0; i < length; i++) to[i] = (uint8_t)(item * 31 + i + spec->seed);
    return length;
}

static inline uint64_t set_source_checksum(const set_spec *spec, uint64_t item) {
    return set_mix(spec->seed ^ 77, item);
}

static inline void set_fill_block(const set_spec *spec, const ff_metadata *metadata,
                                  uint64_t number, ff_block *block) {
    ff_block_reset(block, number);
    uint64_t first = ff_metadata_first_item(metadata), here = metadata->items - first;
    uint64_t begin = number * metadata->items_per_block;
    for (uint64_t p = begin; p < begin + metadata->items_per_block && p < here; p++) {
        if (set_skipped(spec, p)) continue;
        uint8_t key[FF_KEY_LIMIT_BYTES], labels[16][256];
        const void *label[16];
        uint64_t item = first + set_item_at(spec, p);
        uint32_t height, width;
        void *tensor;
        set_shape(spec, item, &height, &width);
        for (size_t i = 0; i < metadata->field_count; i++) {
            set_label(spec, metadata, i, item, labels[i]);
            label[i] = metadata->field[i].kind == FF_FIELD_NONE ? NULL : labels[i];
        }
        ff_block_sample sample = {.item = item,
                                  .height = height,
                                  .width = width,
                                  .key = key,
                                  .key_bytes = set_key(spec, item, key),
                                  .source_checksum = set_source_checksum(spec, item),
                                  .label = label};
        assert_ok(ff_block_add(block, &sample, &tensor, error));
        set_tensor(spec, item, height, width, tensor);
    }
    assert_ok(ff_block_seal(block, error));
}

/* Appends blocks until `stop` of them are in the set, or all. */
static inline void set_append(const set_spec *spec, const ff_metadata *metadata, ff_writer *writer,
                              uint64_t stop) {
    ff_block *block;
    assert_ok(ff_block_create(&block, metadata, error));
    while (ff_writer_next_block(writer) < ff_writer_end_block(writer) &&
           ff_writer_next_block(writer) < stop) {
        set_fill_block(spec, metadata, ff_writer_next_block(writer), block);
        assert_ok(ff_writer_append(writer, block, error));
    }
    ff_block_destroy(&block);
}

/* The items of a generation, or of a whole set. */
static inline void set_write_as(const set_spec *spec, const ff_metadata *metadata,
                                const char *folder, ff_writer_result *result) {
    ff_writer *writer;
    assert_ok(ff_writer_open(&writer, folder, metadata, NULL, error));
    set_append(spec, metadata, writer, UINT64_MAX);
    assert_ok(ff_writer_commit(writer, result, error));
    ff_writer_close(&writer);
}

static inline void set_write(const set_spec *spec, const char *folder, ff_writer_result *result) {
    ff_metadata metadata;
    set_metadata(spec, &metadata);
    set_write_as(spec, &metadata, folder, result);
    ff_metadata_free(&metadata);
}

/* Everything of sample `number`, which must be `item`. */
static inline void set_check_sample(const set_spec *spec, ff_dataset *dataset, ff_reader *reader,
                                    uint64_t number, uint64_t item) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    ff_view view;
    ff_entry entry;
    uint8_t key[FF_KEY_LIMIT_BYTES], wanted_key[FF_KEY_LIMIT_BYTES];
    size_t key_bytes;
    uint32_t height, width;
    set_shape(spec, item, &height, &width);
    assert_ok(ff_dataset_entry(dataset, number, &entry, error));
    assert_int_equal(entry.item, item);
    assert_int_equal(entry.source_checksum, set_source_checksum(spec, item));
    assert_ok(ff_dataset_key(dataset, number, key, &key_bytes, error));
    assert_int_equal(key_bytes, set_key(spec, item, wanted_key));
    assert_memory_equal(key, wanted_key, key_bytes);
    assert_ok(ff_reader_sample(reader, number, &view, error));
    assert_int_equal(view.height, height);
    assert_int_equal(view.width, width);
    assert_int_equal(view.tensor_bytes, ff_metadata_tensor_bytes(metadata, height, width));
    if (view.mapped) assert_int_equal((uintptr_t)view.tensor % metadata->alignment, 0);
    uint8_t *tensor = malloc(view.tensor_bytes);
    set_tensor(spec, item, height, width, tensor);
    assert_memory_equal(view.tensor, tensor, view.tensor_bytes);
    free(tensor);
    for (size_t i = 0; i < metadata->field_count; i++) {
        uint8_t label[256], wanted[256];
        set_label(spec, metadata, i, item, wanted);
        assert_ok(ff_reader_label(reader, number, i, label, error));
        if (ff_field_bytes(&metadata->field[i]))
            assert_memory_equal(label, wanted, ff_field_bytes(&metadata->field[i]));
        if (metadata->field[i].kind != FF_FIELD_CLASS) continue;
        int64_t value;
        assert_ok(ff_dataset_class(dataset, number, i, &value, error));
        bool wide = metadata->field[i].dtype == FF_I64;
        assert_int_equal(value, wide ? (int64_t)ff_load_u64(wanted) : (int32_t)ff_load_u32(wanted));
    }
}

/* Which items are in the set, by position. Returns their count. */
static inline uint64_t set_present(const set_spec *spec, bool *present) {
    uint64_t count = 0;
    for (uint64_t p = 0; p < spec->items; p++) {
        present[set_item_at(spec, p)] = !set_skipped(spec, p);
        count += !set_skipped(spec, p);
    }
    return count;
}

/* Reads the whole set back, in number order and backwards, and verifies it. */
static inline void set_check(const set_spec *spec, const char *folder, ff_verify verify) {
    ff_dataset *dataset;
    ff_reader *reader;
    bool *present = calloc(spec->items, 1);
    uint64_t count = set_present(spec, present), number = 0;
    assert_ok(ff_dataset_open(&dataset, folder, verify, error));
    assert_int_equal(ff_dataset_count(dataset), count);
    assert_ok(ff_reader_open(&reader, dataset, error));
    uint64_t key_bytes = 0;
    for (uint64_t item = 0; item < spec->items; item++) {
        uint8_t key[FF_KEY_LIMIT_BYTES];
        if (!present[item]) continue;
        set_check_sample(spec, dataset, reader, number++, item);
        key_bytes += set_key(spec, item, key);
    }
    /* Nothing of dropped samples is left. */
    assert_int_equal(dataset->header.section[FF_INDEX_KEYS].bytes, key_bytes);
    for (uint64_t item = spec->items; item-- > 0;)
        if (present[item]) set_check_sample(spec, dataset, reader, --number, item);
    ff_metadata wanted;
    ff_buffer text[2] = {{0}};
    set_metadata(spec, &wanted);
    assert_ok(ff_metadata_write(&wanted, &text[0], error));
    assert_ok(ff_metadata_write(ff_dataset_metadata(dataset), &text[1], error));
    assert_string_equal(text[0].bytes, text[1].bytes);
    ff_metadata_free(&wanted);
    ff_buffer_free(&text[0]);
    ff_buffer_free(&text[1]);
    ff_reader_close(&reader);
    ff_dataset_close(&dataset);
    assert_ok(ff_verify_split(folder, 2, NULL, NULL, error));
    free(present);
}

#endif
