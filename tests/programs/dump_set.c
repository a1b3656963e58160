/* Prints all that a packed split holds as JSON lines, for comparison with tests/second_reader.py:
 * one line for the set, one per shard, one per sample. Byte strings are in hexadecimal. With
 * --verify it checks every byte instead (ff_verify_split) and prints nothing. */
#include "format/disk/checksum.h"
#include "format/reader/reader.h"
#include "format/reader/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void print_hex(const void *bytes, size_t length) {
    const uint8_t *byte = bytes;
    putchar('"');
    for (size_t i = 0; i < length; i++) printf("%02x", byte[i]);
    putchar('"');
}

static void print_string(const char *name, const char *text, const char *after) {
    printf("\"%s\":", name);
    print_hex(text, strlen(text));
    printf("%s", after);
}

static void print_strings(const char *name, char *const *text, size_t count) {
    printf("\"%s\":[", name);
    for (size_t i = 0; i < count; i++) {
        if (i) putchar(',');
        print_hex(text[i], strlen(text[i]));
    }
    printf("],");
}

static void print_floats(const char *name, const float *value, uint32_t count) {
    printf("\"%s\":[", name);
    for (uint32_t i = 0; i < count; i++)
        printf("%s\"%08" PRIx32 "\"", i ? "," : "", ff_float_bits(value[i]));
    printf("],");
}

static void print_set(ff_dataset *dataset) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    const ff_dataset_ids *id = ff_dataset_id(dataset);
    printf("{\"line\":\"set\",\"samples\":%" PRIu64 ",\"shards\":%u,\"index_bytes\":%" PRIu64
           ",\"content_id\":",
           ff_dataset_count(dataset), ff_dataset_shard_count(dataset),
           ff_dataset_index_bytes(dataset));
    print_hex(id->content, 16);
    printf(",\"transform_id\":");
    print_hex(id->transform, 16);
    printf(",\"source_id\":");
    print_hex(id->source, 16);
    putchar(',');
    print_string("split", metadata->split, ",");
    printf("\"dtype\":\"%s\",\"layout\":\"%s\",\"channels\":%u,\"height\":%u,\"width\":%u,"
           "\"variable\":%d,\"alignment\":%u,\"items\":%" PRIu64 ",\"per_shard\":%" PRIu64
           ",\"per_block\":%" PRIu64 ",",
           ff_dtype_name(metadata->dtype), ff_layout_name(metadata->layout), metadata->channels,
           metadata->height, metadata->width, metadata->variable_size, metadata->alignment,
           metadata->items, metadata->items_per_shard, metadata->items_per_block);
    if (metadata->compression == FF_COMPRESSION_ZSTD)
        printf("\"level\":%d,\"filter\":\"%s\",", metadata->level,
               ff_filter_name(metadata->filter));
    if (metadata->table)
        printf("\"table_crc32\":%lu,",
               crc32(0, metadata->table,
                     (uInt)(metadata->channels * 256 * ff_dtype_bytes(metadata->dtype))));
    print_floats("mean", metadata->mean, metadata->statistics_count);
    print_floats("std", metadata->std, metadata->statistics_count);
    print_strings("transforms", metadata->transform, metadata->transform_count);
    print_strings("required", metadata->required, metadata->required_count);
    print_strings("optional", metadata->optional, metadata->optional_count);
    printf("\"provenance\":[");
    for (size_t i = 0; i < metadata->provenance_count; i++) {
        printf("%s[", i ? "," : "");
        print_hex(metadata->provenance[i].key, strlen(metadata->provenance[i].key));
        putchar(',');
        print_hex(metadata->provenance[i].value, strlen(metadata->provenance[i].value));
        putchar(']');
    }
    printf("],\"fields\":[");
    for (size_t i = 0; i < metadata->field_count; i++) {
        const ff_field *field = &metadata->field[i];
        printf("%s{", i ? "," : "");
        print_string("name", field->name, ",");
        print_strings("classes", field->class_name, field->class_count);
        printf("\"kind\":\"%s\",\"dtype\":\"%s\",\"width\":%u}", ff_field_kind_name(field->kind),
               ff_dtype_name(field->dtype), field->width);
    }
    printf("]}\n");
}

static ff_status print_shards(ff_dataset *dataset, ff_error *error) {
    for (uint32_t i = 0; i < ff_dataset_shard_count(dataset); i++) {
        ff_shard_info info;
        FF_TRY(ff_dataset_shard(dataset, i, &info, error));
        printf("{\"line\":\"shard\",\"name\":\"%s\",\"bytes\":%" PRIu64 ",\"samples\":%" PRIu64
               ",\"first\":%" PRIu64 ",\"positions\":%" PRIu64 "}\n",
               info.name, info.file_bytes, info.sample_count, info.first_position,
               info.position_count);
    }
    return FF_OK;
}

static ff_status print_sample(ff_dataset *dataset, ff_reader *reader, uint64_t number,
                              ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    ff_view view;
    char key[FF_KEY_LIMIT_BYTES];
    size_t key_bytes;
    FF_TRY(ff_reader_sample(reader, number, &view, error));
    FF_TRY(ff_dataset_key(dataset, number, key, &key_bytes, error));
    const ff_entry *entry = &view.entry;
    printf("{\"line\":\"sample\",\"number\":%" PRIu64 ",\"item\":%" PRIu64
           ",\"shard\":%u,\"offset\":%" PRIu64 ",\"bytes\":%" PRIu64
           ",\"height\":%u,\"width\":%u,\"checksum\":\"%016" PRIx64 "\",\"source\":\"%016" PRIx64
           "\",\"key\":",
           number, entry->item, entry->shard, entry->offset, entry->bytes, entry->height,
           entry->width, entry->checksum, entry->source_checksum);
    print_hex(key, key_bytes);
    printf(",\"tensor_crc32\":%lu,\"labels\":[",
           crc32_z(0, view.tensor, (size_t)view.tensor_bytes));
    for (size_t i = 0; i < metadata->field_count; i++) {
        void *label;
        uint64_t bytes = ff_field_bytes(&metadata->field[i]);
        FF_TRY(ff_alloc(&label, bytes, 1, "a label", error));
        ff_status status = ff_reader_label(reader, number, i, label, error);
        if (i) putchar(',');
        if (status == FF_OK) print_hex(label, bytes);
        free(label);
        FF_TRY(status);
    }
    printf("]}\n");
    return FF_OK;
}

static ff_status dump(const char *path, ff_error *error) {
    ff_dataset *dataset;
    ff_reader *reader = NULL;
    FF_TRY(ff_dataset_open(&dataset, path, FF_VERIFY_ALWAYS, error));
    print_set(dataset);
    ff_status status = print_shards(dataset, error);
    if (status == FF_OK) status = ff_reader_open(&reader, dataset, error);
    for (uint64_t i = 0; status == FF_OK && i < ff_dataset_count(dataset); i++)
        status = print_sample(dataset, reader, i, error);
    ff_reader_close(&reader);
    ff_dataset_close(&dataset);
    return status;
}

int main(int argc, char **argv) {
    ff_error error = {0};
    ff_status status;
    if (argc == 3 && !strcmp(argv[2], "--verify"))
        status = ff_verify_split(argv[1], NULL, 1, NULL, NULL, &error);
    else if (argc == 2)
        status = dump(argv[1], &error);
    else
        status = ff_fail(&error, FF_USAGE, "usage: dump_set SPLIT-FOLDER [--verify]");
    if (status == FF_OK) return 0;
    fprintf(stderr, "dump_set: %s\n", error.message);
    return ff_exit_code(&error);
}
