/* Shared by fuzz_index and fuzz_shard: a folder to write sets into, correcting checksums after a
 * mutation, and reading everything in a set. */
#ifndef FF_FUZZ_SET_H
#define FF_FUZZ_SET_H

#include "format/base/guard.h"
#include "format/disk/checksum.h"
#include "format/disk/layout.h"
#include "format/reader/reader.h"
#include "format/reader/verify.h"
#include "format/writer/index.h"
#include "tests/fuzz/driver.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s: line %d: %s\n", __FILE__, __LINE__, #condition);                  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

enum { FF_FUZZ_SAMPLES = 40 };

static char fuzz_folder[64];

static void fuzz_remove_folder(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", fuzz_folder);
    if (system(command)) perror(fuzz_folder);
}

static void fuzz_make_folder(void) {
    if (fuzz_folder[0]) return;
    snprintf(fuzz_folder, sizeof fuzz_folder, "%s/ff_fuzz_XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    CHECK(mkdtemp(fuzz_folder));
    atexit(fuzz_remove_folder);
}

static void fuzz_write(const char *name, const uint8_t *bytes, size_t length) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder, name);
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(bytes, 1, length, file) == length && fclose(file) == 0);
}

/* FNV-1a: the use of an input depends on all its bytes. */
static unsigned fuzz_hash(const uint8_t *bytes, size_t length) {
    uint32_t value = 2166136261u;
    for (size_t i = 0; i < length; i++) value = (value ^ bytes[i]) * 16777619u;
    return value >> 8;
}

static void fuzz_seal(uint8_t *bytes, size_t length) {
    ff_store_u64(bytes + length - 8, ff_checksum(bytes, length - 8));
}

static bool fuzz_fits(uint64_t offset, uint64_t bytes, uint64_t length) {
    return offset <= length && bytes <= length - offset;
}

static void fuzz_check_error(ff_status status, const ff_error *error) {
    if (status == FF_OK) return;
    CHECK(status == FF_BAD_DATA || status == FF_IO || status == FF_NO_MEMORY);
    CHECK(error->status == status && error->message[0]);
    CHECK(!strchr(error->message, '\n') || strlen(error->message) == sizeof error->message - 1);
}

static void fuzz_sum(void *context) {
    ff_view *view = context;
    volatile unsigned sum = 0;
    for (uint64_t i = 0; i < view->tensor_bytes; i++) sum += ((const uint8_t *)view->tensor)[i];
}

/* Opens the folder and reads everything in it. */
static void fuzz_read(ff_verify verify) {
    ff_dataset *dataset;
    ff_reader *reader;
    ff_error error = {0};
    ff_status status = ff_dataset_open(&dataset, fuzz_folder, verify, &error);
    fuzz_check_error(status, &error);
    if (status != FF_OK) return;
    CHECK(ff_reader_open(&reader, dataset, &error) == FF_OK);
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    for (uint64_t i = 0; i < ff_dataset_count(dataset) && i < FF_FUZZ_SAMPLES; i++) {
        ff_view view;
        uint8_t key[FF_KEY_LIMIT_BYTES];
        size_t key_bytes;
        status = ff_reader_sample(reader, i, &view, &error);
        fuzz_check_error(status, &error);
        if (status == FF_OK) CHECK(!ff_guard_run(fuzz_sum, &view));
        status = ff_dataset_key(dataset, i, key, &key_bytes, &error);
        fuzz_check_error(status, &error);
        for (size_t f = 0; f < metadata->field_count && f < 20; f++) {
            int64_t value;
            uint64_t bytes = ff_field_bytes(&metadata->field[f]);
            uint8_t *label = malloc(bytes ? bytes : 1);
            if (!label) continue;
            status = ff_reader_label(reader, i, f, label, &error);
            fuzz_check_error(status, &error);
            free(label);
            if (metadata->field[f].kind != FF_FIELD_CLASS) continue;
            status = ff_dataset_class(dataset, i, f, &value, &error);
            fuzz_check_error(status, &error);
        }
    }
    ff_reader_close(&reader);
    ff_dataset_close(&dataset);
}

static ff_status fuzz_verify(void) {
    ff_error error = {0};
    ff_status status = ff_verify_split(fuzz_folder, NULL, 1, NULL, NULL, &error);
    fuzz_check_error(status, &error);
    return status;
}

/* Corrects an index's checksums, if its header declares their places. */
__attribute__((unused)) static void fuzz_repair_index(uint8_t *bytes, size_t length) {
    if (length < FF_HEADER_BYTES) return;
    ff_store_u64(bytes + 16, length);
    uint8_t *table = bytes + 84 + 24 * FF_INDEX_CHECKSUMS;
    uint64_t offset = ff_load_u64(table), size = ff_load_u64(table + 8);
    if (fuzz_fits(offset, size, length) && offset >= FF_HEADER_BYTES) {
        for (uint64_t i = 0; i < size / 8; i++) {
            uint64_t begin = FF_HEADER_BYTES + i * FF_INDEX_BLOCK_BYTES;
            if (begin >= offset) break;
            uint64_t part =
                offset - begin < FF_INDEX_BLOCK_BYTES ? offset - begin : FF_INDEX_BLOCK_BYTES;
            ff_store_u64(bytes + offset + 8 * i, ff_checksum(bytes + begin, part));
        }
        ff_store_u64(table + 16, ff_checksum(bytes + offset, size));
    }
    fuzz_seal(bytes, FF_HEADER_BYTES);
}

/* Corrects a shard's checksums, if its footer declares their places. */
__attribute__((unused)) static void fuzz_repair_shard(uint8_t *bytes, size_t length) {
    if (length < FF_HEADER_BYTES + FF_FOOTER_BYTES) return;
    uint64_t after = 0;
    bool compressed = ff_load_u32(bytes) == FF_SKIPPABLE_MAGIC;
    if (compressed) after = 8 + 8 * (uint64_t)ff_load_u32(bytes + length - 9) + 9;
    if (after > length - FF_HEADER_BYTES - FF_FOOTER_BYTES) return;
    uint8_t *footer = bytes + length - after - FF_FOOTER_BYTES;
    const uint8_t *records = NULL, *frames = NULL;
    uint64_t record_count = 0, frame_count = 0;
    for (int i = 0; i < FF_SHARD_SECTIONS; i++) {
        uint8_t *row = footer + 64 + 24 * i;
        uint64_t offset = ff_load_u64(row), size = ff_load_u64(row + 8);
        if (!fuzz_fits(offset, size, length)) continue;
        if (i == FF_SHARD_RECORDS) records = bytes + offset, record_count = size / FF_ENTRY_BYTES;
        if (i == FF_SHARD_FRAMES) frames = bytes + offset, frame_count = size / FF_FRAME_BYTES;
        if (i == FF_SHARD_METADATA) ff_id_of(bytes + 48, bytes + offset, size);
    }
    for (uint64_t i = 0; !compressed && i < record_count; i++) {
        uint8_t *record = bytes + (records - bytes) + i * FF_ENTRY_BYTES;
        uint64_t offset = ff_load_u64(record + 8), size = ff_load_u64(record + 16);
        if (fuzz_fits(offset, size, length) && size < 1 << 16)
            ff_store_u64(record + 24, ff_checksum(bytes + offset, size));
    }
    for (uint64_t i = 0; compressed && i < frame_count; i++) {
        uint8_t *frame = bytes + (frames - bytes) + i * FF_FRAME_BYTES;
        uint64_t offset = ff_load_u64(frame), size = ff_load_u64(frame + 8);
        if (fuzz_fits(offset, size, length) && size < 1 << 16)
            ff_store_u64(frame + 40, ff_checksum(bytes + offset, size));
    }
    fuzz_seal(bytes, FF_HEADER_BYTES);
    for (int i = 0; i < FF_SHARD_SECTIONS; i++) {
        uint8_t *row = footer + 64 + 24 * i;
        uint64_t offset = ff_load_u64(row), size = ff_load_u64(row + 8);
        if (fuzz_fits(offset, size, length))
            ff_store_u64(row + 16, ff_checksum(bytes + offset, size));
    }
    memcpy(footer + 40, bytes + FF_HEADER_BYTES - 8, 8);
    if (compressed) {
        ff_store_u64(footer + 48, after);
        ff_store_u64(footer + 56, ff_checksum(footer + FF_FOOTER_BYTES, after));
    }
    fuzz_seal(footer, FF_FOOTER_BYTES);
}

#endif
