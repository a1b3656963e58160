/* Records of other loaders from any bytes: listed and read, they give image files within their
 * bytes, or a message of one sentence; the same twice. The first byte chooses the kind: 't' a file
 * of TFRecords, 'e' a tf.train.Example, which gets the right checksums, 'b' a .beton, 'p' parquet,
 * 'm' and 'l' the index.json of MDS or LitData up to an empty line and then the bytes of each
 * chunk. */
#include "format/base/bytes.h"
#include "format/base/crc32c.h"
#include "tests/fuzz/driver.h"
#include "tools/ffpack/source/records.h"
#include "tools/ffpack/source/stream.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_records: line %d: %s\n", __LINE__, #condition);                  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static char folder[] = "/tmp/fuzz-records-XXXXXX";

static void clean(void) {
    static const char *const names[] = {"index.json", "shard.00000.mds", "shard.00000.mds.zstd",
                                        "chunk-0-0.bin", "one"};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void put(const char *name, const uint8_t *bytes, size_t length) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, length, file) != length || fclose(file) != 0) abort();
}

/* A checksum of the items and their files. */
static uint64_t read_split(ff_source *source, const ff_source_split *split) {
    ff_listing_cursor *cursor;
    ff_source_reader *reader;
    ff_stream *stream;
    uint64_t sum = 0;
    const uint64_t count = ff_listing_count(split->listing);
    CHECK(ff_listing_cursor_create(&cursor, split->listing, NULL) == FF_OK);
    CHECK(ff_stream_create(&stream, source, split, &(ff_stream_range){.end = count}, NULL) ==
          FF_OK);
    CHECK(ff_source_reader_create(&reader, source, stream, NULL) == FF_OK);
    for (uint64_t i = 0; i < count && i < 64; i++) {
        ff_item item;
        ff_image_file file;
        ff_error error = {0};
        CHECK(ff_listing_item(cursor, ff_source_item_at(split, i), &item, NULL) == FF_OK);
        ff_status status = ff_source_begin(reader, i, i + 1, &error);
        if (status == FF_OK) status = ff_source_read(reader, split, &item, &file, &error);
        sum = sum * 31 + (uint64_t)status;
        CHECK(status == FF_OK || (error.message[0] && !strchr(error.message, '\n')));
        if (status != FF_OK) break;
        for (uint64_t k = 0; k < file.length; k++) sum = sum * 31 + file.bytes[k];
    }
    ff_source_reader_destroy(&reader);
    ff_stream_destroy(&stream);
    ff_listing_cursor_destroy(&cursor);
    return sum;
}

static uint64_t walk(const char *path, const char *format, bool skip) {
    const ff_source_options options = {
        .format = format, .temporary = "/tmp", .jobs = 1, .skip = skip};
    ff_source *source;
    ff_error error = {0};
    uint64_t sum = 0;
    ff_status status = ff_source_open(&source, path, &options, &error);
    if (status == FF_OK) status = ff_source_list(source, &error);
    for (size_t i = 0; status == FF_OK && i < source->split_count; i++)
        sum = sum * 31 + read_split(source, &source->split[i]);
    CHECK(status == FF_OK || status == FF_BAD_DATA || status == FF_USAGE || status == FF_IO ||
          status == FF_NO_MEMORY);
    CHECK(status == FF_OK || (error.message[0] && !strchr(error.message, '\n')));
    ff_source_close(&source);
    return sum + (uint64_t)status;
}

static void both(const char *path, const char *format) {
    for (int skip = 0; skip < 2; skip++)
        CHECK(walk(path, format, skip) == walk(path, format, skip));
}

static void frame(const uint8_t *bytes, size_t length) {
    uint8_t *record = malloc(length + 16);
    if (!record) abort();
    ff_store_u64(record, length);
    ff_store_u32(record + 8, ff_crc32c_masked(record, 8));
    memcpy(record + 12, bytes, length);
    ff_store_u32(record + 12 + length, ff_crc32c_masked(bytes, length));
    put("one", record, length + 16);
    free(record);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    static bool made;
    char path[128];
    if (!made && (!mkdtemp(folder) || atexit(clean) != 0)) abort();
    made = true;
    if (!length) return 0;
    const uint8_t kind = *bytes++;
    length--;
    snprintf(path, sizeof path, "%s/one", folder);
    if (kind == 't' || kind == 'b' || kind == 'p') {
        put("one", bytes, length);
        both(path, kind == 't' ? "tfrecord" : kind == 'b' ? "beton" : "parquet");
    } else if (kind == 'e') {
        frame(bytes, length);
        both(path, "tfrecord");
    } else if (kind == 'm' || kind == 'l') {
        size_t index = 0;
        while (index + 1 < length && memcmp(bytes + index, "\n\n", 2) != 0) index++;
        const size_t begin = index + 2 < length ? index + 2 : length;
        put("index.json", bytes, index);
        put("shard.00000.mds", bytes + begin, length - begin);
        put("shard.00000.mds.zstd", bytes + begin, length - begin);
        put("chunk-0-0.bin", bytes + begin, length - begin);
        both(folder, kind == 'm' ? "mds" : "litdata");
    }
    return 0;
}

FF_FUZZ_MAIN(LLVMFuzzerTestOneInput)
