#include "format/disk/generation.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_BYTES_RAW = 1 << 20,  /* large, for few handoffs between threads */
    BLOCK_BYTES_ZSTD = 1 << 18, /* small, because reading one sample decompresses a whole frame */
    SHARD_ITEMS_LIMIT = 1 << 18
};

static void free_strings(char **string, size_t count) {
    for (size_t i = 0; i < count; i++) free(string[i]);
    free(string);
}

static void free_field(ff_field *field) {
    free(field->name);
    free_strings(field->class_name, field->class_count);
}

void ff_metadata_free(ff_metadata *metadata) {
    free(metadata->split);
    free(metadata->generation);
    free(metadata->table);
    free(metadata->mean);
    free(metadata->std);
    free_strings(metadata->transform, metadata->transform_count);
    for (size_t i = 0; i < metadata->field_count; i++) free_field(&metadata->field[i]);
    free(metadata->field);
    for (size_t i = 0; i < metadata->provenance_count; i++) {
        free(metadata->provenance[i].key);
        free(metadata->provenance[i].value);
    }
    free(metadata->provenance);
    free_strings(metadata->required, metadata->required_count);
    free_strings(metadata->optional, metadata->optional_count);
    *metadata = (ff_metadata){0};
}

ff_status ff_metadata_copy(ff_metadata *copy, const ff_metadata *metadata, ff_error *error) {
    *copy = (ff_metadata){0};
    ff_buffer text = {0};
    ff_status status;
    FF_TRY_DONE(ff_metadata_write(metadata, &text, error));
    FF_TRY_DONE(ff_metadata_read(copy, text.bytes, text.length, error));
done:
    ff_buffer_free(&text);
    return status;
}

static ff_status add_string(char ***array, size_t *count, const char *text, const char *what,
                            ff_error *error) {
    FF_TRY(ff_grow(array, *count, sizeof **array, what, error));
    FF_TRY(ff_copy_string(&(*array)[*count], text, error));
    ++*count;
    return FF_OK;
}

ff_status ff_metadata_add_transform(ff_metadata *metadata, const char *line, ff_error *error) {
    return add_string(&metadata->transform, &metadata->transform_count, line, "transforms", error);
}

ff_status ff_metadata_add_required(ff_metadata *metadata, const char *feature, ff_error *error) {
    return add_string(&metadata->required, &metadata->required_count, feature, "features", error);
}

ff_status ff_metadata_add_optional(ff_metadata *metadata, const char *feature, ff_error *error) {
    return add_string(&metadata->optional, &metadata->optional_count, feature, "features", error);
}

ff_status ff_metadata_add_provenance(ff_metadata *metadata, const char *key, const char *value,
                                     ff_error *error) {
    ff_provenance entry = {0};
    FF_TRY(ff_grow(&metadata->provenance, metadata->provenance_count, sizeof entry, "provenance",
                   error));
    ff_status status;
    FF_TRY_DONE(ff_copy_string(&entry.key, key, error));
    FF_TRY_DONE(ff_copy_string(&entry.value, value, error));
done:
    if (status == FF_OK)
        metadata->provenance[metadata->provenance_count++] = entry;
    else
        free(entry.key);
    return status;
}

ff_status ff_metadata_add_field(ff_metadata *metadata, const char *name, ff_field_kind kind,
                                ff_dtype dtype, uint32_t width, ff_error *error) {
    ff_field field = {.kind = kind, .dtype = dtype, .width = width};
    FF_TRY(ff_grow(&metadata->field, metadata->field_count, sizeof field, "label fields", error));
    FF_TRY(ff_copy_string(&field.name, name, error));
    metadata->field[metadata->field_count++] = field;
    return FF_OK;
}

void ff_metadata_keep_field(ff_metadata *metadata, size_t index) {
    ff_field kept = metadata->field[index];
    for (size_t i = 0; i < metadata->field_count; i++)
        if (i != index) free_field(&metadata->field[i]);
    metadata->field[0] = kept;
    metadata->field_count = 1;
}

ff_status ff_metadata_add_class(ff_metadata *metadata, size_t index, const char *name,
                                ff_error *error) {
    ff_field *field = &metadata->field[index];
    size_t count = field->class_count;
    if (count >= FF_CLASSES_LIMIT)
        return ff_fail(error, FF_BAD_DATA, "field %s: more than %u classes", field->name,
                       FF_CLASSES_LIMIT);
    FF_TRY(add_string(&field->class_name, &count, name, "class names", error));
    field->class_count = (uint32_t)count;
    return FF_OK;
}

ff_status ff_metadata_set_statistics(ff_metadata *metadata, const float *mean, const float *std,
                                     uint32_t count, ff_error *error) {
    float *copies[2] = {0};
    ff_status status = ff_alloc(&copies[0], count, sizeof *mean, "statistics", error);
    if (status == FF_OK) status = ff_alloc(&copies[1], count, sizeof *std, "statistics", error);
    if (status != FF_OK) {
        free(copies[0]);
        return status;
    }
    memcpy(copies[0], mean, count * sizeof *mean);
    memcpy(copies[1], std, count * sizeof *std);
    free(metadata->mean);
    free(metadata->std);
    metadata->mean = copies[0];
    metadata->std = copies[1];
    metadata->statistics_count = count;
    return FF_OK;
}

static bool has_wide_fields(const ff_metadata *metadata) {
    for (size_t i = 0; i < metadata->field_count; i++)
        if (ff_field_bytes(&metadata->field[i]) > FF_SMALL_LABEL_BYTES) return true;
    return false;
}

ff_status ff_metadata_plan(ff_metadata *metadata, uint64_t shard_bytes, ff_error *error) {
    metadata->version = FF_FORMAT_VERSION;
    if (!metadata->split) FF_TRY(ff_copy_string(&metadata->split, "", error));
    if (!metadata->alignment) metadata->alignment = 64;
    uint64_t slot = ff_metadata_slot_bytes(metadata, metadata->height, metadata->width);
    bool compressed = metadata->compression != FF_COMPRESSION_NONE;
    uint64_t block_bytes = compressed ? BLOCK_BYTES_ZSTD : BLOCK_BYTES_RAW;
    uint64_t per_block = slot ? block_bytes / slot : 1;
    /* From 64 KiB up a compressed frame holds one sample, so that reading a sample decompresses no
     * other. */
    if (compressed && slot >= 65536) per_block = 1;
    if (per_block == 0) per_block = 1;
    uint64_t per_shard = slot ? shard_bytes / slot : 1;
    /* A writer keeps its shard's records in memory: about 100 bytes per sample. */
    if (per_shard > SHARD_ITEMS_LIMIT) per_shard = SHARD_ITEMS_LIMIT;
    if (per_shard == 0) per_shard = 1;
    if (per_block > per_shard) per_block = per_shard;
    per_shard -= per_shard % per_block;
    metadata->items_per_block = per_block;
    metadata->items_per_shard = per_shard;
    if (compressed) FF_TRY(ff_metadata_add_required(metadata, "zstd", error));
    if (metadata->variable_size) FF_TRY(ff_metadata_add_required(metadata, "variable-size", error));
    if (has_wide_fields(metadata)) FF_TRY(ff_metadata_add_required(metadata, "wide-labels", error));
    return ff_metadata_check(metadata, error);
}

static ff_status check_field(const ff_field *field, ff_error *error) {
    if (field->kind >= FF_FIELD_KIND_COUNT || field->dtype >= FF_DTYPE_COUNT)
        return ff_fail(error, FF_BAD_DATA, "field %s: unknown kind or dtype", field->name);
    bool class_like = field->kind == FF_FIELD_CLASS;
    if (class_like && field->dtype != FF_I32 && field->dtype != FF_I64)
        return ff_fail(error, FF_BAD_DATA,
                       "field %s: a class field has dtype %s, wanted i32 or i64", field->name,
                       ff_dtype_name(field->dtype));
    if (class_like && field->width != 1)
        return ff_fail(error, FF_BAD_DATA, "field %s: a class field has width %u, wanted 1",
                       field->name, field->width);
    if (field->kind == FF_FIELD_MULTI_HOT && field->dtype != FF_U8)
        return ff_fail(error, FF_BAD_DATA, "field %s: multi-hot has dtype %s, wanted u8",
                       field->name, ff_dtype_name(field->dtype));
    if (field->kind == FF_FIELD_SOFT && field->dtype != FF_F32)
        return ff_fail(error, FF_BAD_DATA, "field %s: soft has dtype %s, wanted f32", field->name,
                       ff_dtype_name(field->dtype));
    if ((field->kind == FF_FIELD_NONE) != (field->width == 0) || field->width > FF_CLASSES_LIMIT)
        return ff_fail(error, FF_BAD_DATA, "field %s: width %u does not fit kind %s", field->name,
                       field->width, ff_field_kind_name(field->kind));
    if (field->class_count > FF_CLASSES_LIMIT)
        return ff_fail(error, FF_BAD_DATA, "field %s: %u classes, more than %u", field->name,
                       field->class_count, FF_CLASSES_LIMIT);
    if ((field->kind == FF_FIELD_MULTI_HOT || field->kind == FF_FIELD_SOFT) && field->class_count &&
        field->class_count != field->width)
        return ff_fail(error, FF_BAD_DATA, "field %s: %u class names for width %u", field->name,
                       field->class_count, field->width);
    return FF_OK;
}

static ff_status check_shape(const ff_metadata *metadata, ff_error *error) {
    if (metadata->dtype > FF_F32)
        return ff_fail(error, FF_BAD_DATA, "sample: dtype %s, wanted u8, u16, f16, bf16 or f32",
                       metadata->dtype < FF_DTYPE_COUNT ? ff_dtype_name(metadata->dtype) : "?");
    if (metadata->channels < 1 || metadata->channels > FF_CHANNELS_LIMIT)
        return ff_fail(error, FF_BAD_DATA, "sample: %u channels, wanted 1 to %u",
                       metadata->channels, FF_CHANNELS_LIMIT);
    if (metadata->height < 1 || metadata->height > FF_SIDE_LIMIT || metadata->width < 1 ||
        metadata->width > FF_SIDE_LIMIT)
        return ff_fail(error, FF_BAD_DATA, "sample: %u x %u pixels, wanted sides from 1 to %u",
                       metadata->height, metadata->width, FF_SIDE_LIMIT);
    if (metadata->alignment != 64 && metadata->alignment != 4096)
        return ff_fail(error, FF_BAD_DATA, "sample: alignment %u, wanted 64 or 4096",
                       metadata->alignment);
    /* At most 2^12 channels x 2^20 x 2^20 x 8: no overflow before this comparison; the labels add
     * at most FIELDS x CLASSES x 8 = 2^35. */
    if (ff_metadata_payload_bytes(metadata, metadata->height, metadata->width) >
        FF_SAMPLE_LIMIT_BYTES)
        return ff_fail(error, FF_BAD_DATA, "sample: %ux%ux%u %s is larger than %" PRIu64 " bytes",
                       metadata->channels, metadata->height, metadata->width,
                       ff_dtype_name(metadata->dtype), (uint64_t)FF_SAMPLE_LIMIT_BYTES);
    return FF_OK;
}

/* A reader that lacks a feature must be able to name it. */
static ff_status check_required(const ff_metadata *metadata, const char *feature, bool used,
                                ff_error *error) {
    bool named = !used;
    for (size_t i = 0; i < metadata->required_count; i++)
        named |= !strcmp(metadata->required[i], feature);
    return named ? FF_OK
                 : ff_fail(error, FF_BAD_DATA, "required: the feature %s is used but not named",
                           feature);
}

ff_status ff_metadata_check(const ff_metadata *metadata, ff_error *error) {
    if (metadata->field_count > FF_FIELDS_LIMIT)
        return ff_fail(error, FF_BAD_DATA, "field: %zu fields, more than %u", metadata->field_count,
                       FF_FIELDS_LIMIT);
    for (size_t i = 0; i < metadata->field_count; i++) {
        FF_TRY(check_field(&metadata->field[i], error));
        for (size_t k = 0; k < i; k++)
            if (!strcmp(metadata->field[i].name, metadata->field[k].name))
                return ff_fail(error, FF_BAD_DATA, "field %s: there are two of this name",
                               metadata->field[i].name);
    }
    FF_TRY(check_shape(metadata, error));
    if (metadata->items < 1 || metadata->items > UINT64_C(1) << 40)
        return ff_fail(error, FF_BAD_DATA, "shards: %" PRIu64 " items, wanted 1 to 2^40",
                       metadata->items);
    if (metadata->items_per_block < 1 || metadata->items_per_shard < 1 ||
        metadata->items_per_shard > UINT64_C(1) << 40 ||
        metadata->items_per_shard % metadata->items_per_block)
        return ff_fail(error, FF_BAD_DATA,
                       "shards: %" PRIu64 " items a shard is not a multiple of %" PRIu64 " a block",
                       metadata->items_per_shard, metadata->items_per_block);
    FF_TRY(ff_generations_check(metadata, error));
    bool compressed = metadata->compression == FF_COMPRESSION_ZSTD;
    if (compressed && (metadata->level < 0 || metadata->level > 22))
        return ff_fail(error, FF_BAD_DATA, "compression: level %d, wanted 0 to 22",
                       metadata->level);
    if (!compressed && metadata->filter != FF_FILTER_NONE)
        return ff_fail(error, FF_BAD_DATA, "compression: a filter without compression");
    FF_TRY(check_required(metadata, "zstd", compressed, error));
    FF_TRY(check_required(metadata, "variable-size", metadata->variable_size, error));
    FF_TRY(check_required(metadata, "wide-labels", has_wide_fields(metadata), error));
    if ((metadata->filter == FF_FILTER_TABLE) != (metadata->table != NULL))
        return ff_fail(error, FF_BAD_DATA, "table: filter=%s and %s table",
                       ff_filter_name(metadata->filter), metadata->table ? "a" : "no");
    if (metadata->statistics_count && metadata->statistics_count != metadata->channels)
        return ff_fail(error, FF_BAD_DATA, "mean: %u values for %u channels",
                       metadata->statistics_count, metadata->channels);
    for (uint32_t i = 0; i < metadata->statistics_count; i++)
        if (!isfinite(metadata->mean[i]) || !isfinite(metadata->std[i]) || metadata->std[i] <= 0)
            return ff_fail(error, FF_BAD_DATA, "std: channel %u has mean %g and std %g", i,
                           (double)metadata->mean[i], (double)metadata->std[i]);
    return FF_OK;
}

uint64_t ff_field_bytes(const ff_field *field) {
    return (uint64_t)field->width * ff_dtype_bytes(field->dtype);
}

int64_t ff_field_class(const ff_field *field, const void *bytes) {
    return field->dtype == FF_I64 ? (int64_t)ff_load_u64(bytes) : (int32_t)ff_load_u32(bytes);
}

uint64_t ff_metadata_tensor_bytes(const ff_metadata *metadata, uint32_t height, uint32_t width) {
    return (uint64_t)metadata->channels * height * width * ff_dtype_bytes(metadata->dtype);
}

/* One walk over the fields computes row, payload and offsets: small fields advance `row` (each to a
 * multiple of 8), wide ones `payload` (each to a multiple of 16). Stops before field `until`. */
static void walk_fields(const ff_metadata *metadata, size_t until, uint64_t *row,
                        uint64_t *payload) {
    for (size_t i = 0; i < until; i++) {
        uint64_t bytes = ff_field_bytes(&metadata->field[i]);
        if (bytes <= FF_SMALL_LABEL_BYTES)
            *row += ff_align_u64(bytes, 8);
        else
            *payload = ff_align_u64(*payload, 16) + bytes;
    }
}

uint64_t ff_metadata_payload_bytes(const ff_metadata *metadata, uint32_t height, uint32_t width) {
    uint64_t row = 0, payload = ff_metadata_tensor_bytes(metadata, height, width);
    walk_fields(metadata, metadata->field_count, &row, &payload);
    return payload;
}

uint64_t ff_metadata_slot_bytes(const ff_metadata *metadata, uint32_t height, uint32_t width) {
    return ff_align_u64(ff_metadata_payload_bytes(metadata, height, width), metadata->alignment);
}

uint64_t ff_metadata_label_row_bytes(const ff_metadata *metadata) {
    uint64_t row = 0, payload = 0;
    walk_fields(metadata, metadata->field_count, &row, &payload);
    return row;
}

uint64_t ff_metadata_field_offset(const ff_metadata *metadata, size_t field, uint32_t height,
                                  uint32_t width, bool *wide) {
    uint64_t row = 0, payload = ff_metadata_tensor_bytes(metadata, height, width);
    walk_fields(metadata, field, &row, &payload);
    *wide = ff_field_bytes(&metadata->field[field]) > FF_SMALL_LABEL_BYTES;
    return *wide ? ff_align_u64(payload, 16) : row;
}

const char *ff_field_kind_name(ff_field_kind kind) {
    static const char *const name[] = {[FF_FIELD_CLASS] = "class",
                                       [FF_FIELD_MULTI_HOT] = "multi-hot",
                                       [FF_FIELD_SOFT] = "soft",
                                       [FF_FIELD_VECTOR] = "vector",
                                       [FF_FIELD_NONE] = "none"};
    return kind < FF_FIELD_KIND_COUNT ? name[kind] : "?";
}

const char *ff_filter_name(ff_filter filter) {
    static const char *const name[] = {[FF_FILTER_NONE] = "none",
                                       [FF_FILTER_SHUFFLE] = "shuffle",
                                       [FF_FILTER_TABLE] = "table",
                                       [FF_FILTER_DELTA] = "delta"};
    return filter < FF_FILTER_COUNT ? name[filter] : "?";
}
