/* Checks of packed sets for the tests of format/, and files and folders of tests. Failures end the
 * test (cmocka). */
#ifndef FF_TESTS_FORMAT_SET_H
#define FF_TESTS_FORMAT_SET_H

#include "format/disk/filter.h"
#include "format/disk/layout.h"
#include "format/reader/dataset.h"
#include "format/reader/reader.h"
#include "format/reader/verify.h"
#include "format/writer/index.h"
#include "tests/unit/check.h"
#include "tests/unit/packed_set.h"

#include <sys/stat.h>

static const set_spec small_set = {.dtype = FF_F16,
                                   .layout = FF_CHW,
                                   .channels = 3,
                                   .height = 5,
                                   .width = 7,
                                   .alignment = 64,
                                   .items = 20,
                                   .per_block = 4,
                                   .per_shard = 8,
                                   .labels = LABELS_CLASS,
                                   .level = 3,
                                   .seed = 1};

/* `path` of a new empty folder; removed by remove_folder. */
static inline char *new_folder(void) {
    char *path;
    assert_ok(packed_new_folder(&path, error));
    return path;
}

static inline void remove_folder(char *path) {
    assert_int_equal(packed_remove_folder(path), 0);
    free(path);
}

/* Opens what set_make has written. */
static inline ff_dataset *open_set(const set_spec *set) {
    ff_dataset *dataset;
    assert_ok(ff_dataset_open(&dataset, set->folder, FF_VERIFY_FIRST, error));
    return dataset;
}

static inline ff_dataset *open_new_set(set_spec *set) {
    assert_ok(set_make(set, error));
    return open_set(set);
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

/* Everything of sample `number`, which must be `item`. */
static inline void set_check_sample(const set_spec *spec, ff_dataset *dataset, ff_reader *reader,
                                    uint64_t number, uint64_t item) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    ff_view view;
    ff_entry entry;
    uint8_t key[FF_KEY_LIMIT_BYTES], wanted_key[FF_KEY_LIMIT_BYTES];
    size_t key_bytes;
    uint32_t height = set_height(spec, item), width = set_width(spec, item);
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
    set_tensor(spec, item, tensor);
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
    assert_ok(set_metadata(spec, &wanted, error));
    assert_ok(ff_metadata_write(&wanted, &text[0], error));
    assert_ok(ff_metadata_write(ff_dataset_metadata(dataset), &text[1], error));
    assert_string_equal(text[0].bytes, text[1].bytes);
    ff_metadata_free(&wanted);
    ff_buffer_free(&text[0]);
    ff_buffer_free(&text[1]);
    ff_reader_close(&reader);
    ff_dataset_close(&dataset);
    assert_ok(ff_verify_split(folder, NULL, 2, NULL, NULL, error));
    free(present);
}

#endif
