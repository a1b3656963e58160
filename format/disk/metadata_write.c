/* Writes, hashes and compares the canonical text of a metadata (FORMAT.md, "Metadata"). */
#include "format/disk/checksum.h"
#include "format/disk/generation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ff_status write_word(ff_buffer *text, const char *before, const char *value,
                            const char *after, ff_error *error) {
    FF_TRY(ff_buffer_printf(text, error, "%s", before));
    FF_TRY(ff_escape(text, value, strlen(value), error));
    return ff_buffer_printf(text, error, "%s", after);
}

static ff_status write_floats(ff_buffer *text, const char *word, const float *value, uint32_t count,
                              ff_error *error) {
    FF_TRY(ff_buffer_printf(text, error, "%s", word));
    for (uint32_t i = 0; i < count; i++)
        FF_TRY(ff_buffer_printf(text, error, " %08" PRIx32, ff_float_bits(value[i])));
    return ff_buffer_printf(text, error, "\n");
}

/* The lines that transform_id hashes, in this order. */
static ff_status write_transforms(const ff_metadata *metadata, ff_buffer *text, ff_error *error) {
    if (metadata->statistics_count) {
        FF_TRY(write_floats(text, "mean", metadata->mean, metadata->statistics_count, error));
        FF_TRY(write_floats(text, "std", metadata->std, metadata->statistics_count, error));
    }
    for (size_t i = 0; i < metadata->transform_count; i++)
        FF_TRY(write_word(text, "transform ", metadata->transform[i], "\n", error));
    return FF_OK;
}

static ff_status write_classes(const ff_field *field, ff_buffer *text, ff_error *error) {
    for (uint32_t i = 0; i < field->class_count; i++)
        FF_TRY(write_word(text, "class ", field->class_name[i], "\n", error));
    return FF_OK;
}

static ff_status write_hex(ff_buffer *text, const uint8_t *bytes, size_t count, ff_error *error) {
    static const char digit[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        char pair[2] = {digit[bytes[i] >> 4], digit[bytes[i] & 15]};
        FF_TRY(ff_buffer_add(text, pair, 2, error));
    }
    return FF_OK;
}

static ff_status write_table(const ff_metadata *metadata, ff_buffer *text, ff_error *error) {
    size_t bytes = 256 * ff_dtype_bytes(metadata->dtype);
    for (uint32_t channel = 0; channel < metadata->channels; channel++) {
        const uint8_t *row = metadata->table + channel * bytes;
        FF_TRY(ff_buffer_printf(text, error, "table "));
        FF_TRY(write_hex(text, row, bytes, error));
        FF_TRY(ff_buffer_printf(text, error, "\n"));
    }
    return FF_OK;
}

ff_status ff_metadata_write(const ff_metadata *metadata, ff_buffer *text, ff_error *error) {
    FF_TRY(ff_buffer_printf(text, error, "%s %u\n", FF_METADATA_WORD, metadata->version));
    for (size_t i = 0; i < metadata->required_count; i++)
        FF_TRY(write_word(text, "required ", metadata->required[i], "\n", error));
    for (size_t i = 0; i < metadata->optional_count; i++)
        FF_TRY(write_word(text, "optional ", metadata->optional[i], "\n", error));
    FF_TRY(write_word(text, "split ", metadata->split ? metadata->split : "", "\n", error));
    FF_TRY(ff_buffer_printf(text, error,
                            "sample dtype=%s layout=%s channels=%u height=%u width=%u variable=%d "
                            "alignment=%u\n",
                            ff_dtype_name(metadata->dtype), ff_layout_name(metadata->layout),
                            metadata->channels, metadata->height, metadata->width,
                            metadata->variable_size, metadata->alignment));
    FF_TRY(ff_buffer_printf(
        text, error, "shards items=%" PRIu64 " per_shard=%" PRIu64 " per_block=%" PRIu64 "\n",
        metadata->items, metadata->items_per_shard, metadata->items_per_block));
    for (size_t i = 0; i < metadata->generation_count; i++) {
        const ff_generation *at = &metadata->generation[i];
        FF_TRY(ff_buffer_printf(
            text, error, "generation items=%" PRIu64 " shards=%u id=", at->items, at->shards));
        FF_TRY(write_hex(text, at->id, sizeof at->id, error));
        FF_TRY(ff_buffer_printf(text, error, "\n"));
    }
    if (metadata->compression == FF_COMPRESSION_ZSTD)
        FF_TRY(ff_buffer_printf(text, error, "compression zstd level=%d filter=%s\n",
                                metadata->level, ff_filter_name(metadata->filter)));
    if (metadata->table) FF_TRY(write_table(metadata, text, error));
    FF_TRY(write_transforms(metadata, text, error));
    for (size_t i = 0; i < metadata->field_count; i++) {
        const ff_field *field = &metadata->field[i];
        FF_TRY(write_word(text, "field name=", field->name, "", error));
        FF_TRY(ff_buffer_printf(text, error, " kind=%s dtype=%s width=%u classes=%u\n",
                                ff_field_kind_name(field->kind), ff_dtype_name(field->dtype),
                                field->width, field->class_count));
        FF_TRY(write_classes(field, text, error));
    }
    for (size_t i = 0; i < metadata->provenance_count; i++) {
        FF_TRY(write_word(text, "provenance ", metadata->provenance[i].key, " ", error));
        FF_TRY(write_word(text, "", metadata->provenance[i].value, "\n", error));
    }
    return FF_OK;
}

ff_status ff_metadata_transform_id(const ff_metadata *metadata, uint8_t id[16], ff_error *error) {
    ff_buffer text = {0};
    ff_status status = write_transforms(metadata, &text, error);
    for (size_t i = 0; i < metadata->field_count && status == FF_OK; i++)
        status = write_classes(&metadata->field[i], &text, error);
    if (status == FF_OK) ff_id_of(id, text.bytes ? text.bytes : "", text.length);
    ff_buffer_free(&text);
    return status;
}

ff_status ff_metadata_compare(const char *what, const ff_buffer *found, const ff_buffer *wanted,
                              ff_error *error) {
    size_t i = 0, line = 0;
    while (i < found->length && i < wanted->length && found->bytes[i] == wanted->bytes[i])
        if (found->bytes[i++] == '\n') line = i;
    if (i == found->length && i == wanted->length) return FF_OK;
    int found_bytes = (int)strcspn(found->bytes + line, "\n");
    int wanted_bytes = (int)strcspn(wanted->bytes + line, "\n");
    return ff_fail(error, FF_USAGE, "%s: has '%.*s', wanted '%.*s'", what,
                   found_bytes < 200 ? found_bytes : 200, found->bytes + line,
                   wanted_bytes < 200 ? wanted_bytes : 200, wanted->bytes + line);
}
