/* TFRecords of images (tensorflow.org/tutorials/load_data/tfrecord). SOURCE is a file, a folder of
 * files, or a brace pattern (shards.h), plain or gzip.
 *
 * A file is records, one after another:
 *
 *     u64 length; u32 masked CRC32C of the length; length bytes; u32 masked CRC32C of the bytes
 *
 * The bytes are a tf.train.Example (example.h), whose features are the columns (records.h) of the
 * first record: an image file, and one whole number or text as label. Every checksum is checked
 * when the source is listed, and when a record is read. With --on-error skip a record whose bytes
 * have the wrong checksum is left out; one whose length has ends the reading, since the next
 * record's place is unknown. */
#include "format/base/bytes.h"
#include "format/base/crc32c.h"
#include "format/base/path.h"
#include "format/cli/interrupt.h"
#include "tools/ffpack/decode/decode.h"
#include "tools/ffpack/source/input.h"
#include "tools/ffpack/source/records.h"
#include "tools/ffpack/source/tfrecord/example.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { HEAD_BYTES = 12, CRC_BYTES = 4 };

/* ---- detection ------------------------------------------------------------------------------ */

/* "train.tfrecord", "train.tfrec.gz", "train-00000-of-01024", "x.tfrecord-00000-of-00010" */
static bool is_tfrecord_name(const char *name) {
    static const char digits[] = "[0-9][0-9][0-9][0-9][0-9]";
    char sharded[128];
    snprintf(sharded, sizeof sharded, "*-%s-of-%s", digits, digits);
    return !fnmatch("*.tfrec*", name, FNM_CASEFOLD) || !fnmatch("*.tfr", name, FNM_CASEFOLD) ||
           !fnmatch(sharded, name, 0);
}

static const ff_shard_kind tfrecord_files = {
    .one = "TFRecord file", .many = "TFRecord files", .is_name = is_tfrecord_name};

static bool is_head(const unsigned char *head, size_t bytes) {
    return bytes >= HEAD_BYTES && ff_load_u32(head + 8) == ff_crc32c_masked(head, 8);
}

static bool tfrecord_detect(const char *path, const unsigned char *head, size_t head_bytes,
                            ff_error *error) {
    unsigned char first[HEAD_BYTES];
    size_t got = 0;
    ff_input *input = NULL;
    ff_shards files;
    if (head) return is_head(head, head_bytes);
    if (ff_shards_find(&files, path, &tfrecord_files, NULL, error) != FF_OK) return false;
    bool found = ff_input_open(&input, ff_names_at(&files.path, 0), error) == FF_OK &&
                 ff_input_read(input, first, sizeof first, &got, error) == FF_OK &&
                 is_head(first, got);
    ff_input_close(&input);
    ff_shards_free(&files);
    return found;
}

/* ---- records -------------------------------------------------------------------------------- */

static bool is_whole(const unsigned char *data, uint64_t length) {
    return ff_load_u32(data + length) == ff_crc32c_masked(data, length);
}

static ff_status wrong_data(ff_error *error) {
    return ff_fail(error, FF_BAD_DATA, "the CRC32C of its data is wrong: the file is damaged");
}

static ff_status wrong_count(const char *column, const ff_feature *feature, const char *wanted,
                             ff_error *error) {
    static const char *const kinds[] = {"values", "byte strings", "floats", "whole numbers"};
    if (feature->kind == FF_FEATURE_NONE)
        return ff_fail(error, FF_BAD_DATA, "has no feature '%s', wanted %s", column, wanted);
    return ff_fail(error, FF_BAD_DATA, "its feature '%s' has %" PRIu64 " %s, wanted %s", column,
                   feature->count, kinds[feature->kind], wanted);
}

static ff_status find_image(const unsigned char *bytes, uint64_t length, const char *column,
                            ff_feature *image, ff_error *error) {
    FF_TRY(ff_example_find(bytes, length, column, image, error));
    if (image->kind == FF_FEATURE_BYTES && image->count == 1) return FF_OK;
    return wrong_count(column, image, "one image file", error);
}

/* From a whole record to its image. */
static ff_status unwrap(const ff_source_part *part, int fd, ff_buffer *made, ff_image_file *file,
                        ff_error *error) {
    (void)fd;
    (void)made;
    ff_feature image;
    const unsigned char *data = file->bytes + HEAD_BYTES;
    const uint64_t length = file->length - HEAD_BYTES - CRC_BYTES;
    if (!is_head(file->bytes, file->length) || ff_load_u64(file->bytes) != length)
        return ff_fail(error, FF_BAD_DATA, "changed since it was listed");
    if (!is_whole(data, length)) return wrong_data(error);
    FF_TRY(find_image(data, length, part->column, &image, error));
    *file = (ff_image_file){image.bytes, image.length};
    return FF_OK;
}

/* ---- listing -------------------------------------------------------------------------------- */

typedef struct reading {
    ff_records records;
    ff_columns columns; /* of the first record */
    ff_input *input;
    uint32_t part;
    unsigned char *data; /* the record's, and the checksum after it */
    size_t capacity;
} reading;

static ff_status add_column(void *context, const ff_feature *feature, ff_error *error) {
    ff_column_kind kind = FF_COLUMN_OTHER;
    const char *unread;
    if (feature->kind == FF_FEATURE_INTEGERS && feature->count == 1) kind = FF_COLUMN_NUMBER;
    if (feature->kind == FF_FEATURE_BYTES && feature->count == 1)
        kind = ff_decode_guess_kind(feature->bytes, feature->length, &unread) != FF_DECODE_OTHER
                   ? FF_COLUMN_IMAGE
               : feature->length <= FF_RECORD_LABEL_BYTES ? FF_COLUMN_TEXT
                                                          : FF_COLUMN_BYTES;
    return ff_columns_add(context, feature->key, feature->key_bytes, kind, error);
}

static ff_status choose_columns(reading *state, uint64_t length, ff_columns *columns,
                                ff_error *error) {
    FF_TRY(ff_example_visit(state->data, length, add_column, columns, error));
    return ff_columns_choose(columns, state->records.source, "its features", error);
}

/* If the first record has no label, the set has no labels, and a later label would be lost. */
static ff_status check_unlabeled(reading *state, uint64_t length, ff_error *error) {
    ff_columns columns = {0};
    ff_status status = choose_columns(state, length, &columns, error);
    if (status == FF_OK && columns.label != SIZE_MAX)
        status = ff_fail(error, FF_BAD_DATA, "has a label '%s', which the first record lacks",
                         columns.column[columns.label].name);
    ff_columns_free(&columns);
    return status;
}

static ff_status take_label(reading *state, uint64_t length, int32_t *label, ff_error *error) {
    ff_label_values *values = &state->records.values;
    const char *column = state->columns.column[state->columns.label].name;
    ff_feature feature;
    FF_TRY(ff_example_find(state->data, length, column, &feature, error));
    const bool number = feature.kind == FF_FEATURE_INTEGERS;
    if ((!number && feature.kind != FF_FEATURE_BYTES) || feature.count != 1)
        return wrong_count(column, &feature, "one whole number or text, the label", error);
    state->records.labeled = true;
    if (number) return ff_label_number(values, feature.number, label, error);
    if (feature.length > FF_RECORD_LABEL_BYTES)
        return ff_fail(error, FF_BAD_DATA,
                       "its label '%s' has %" PRIu64 " bytes, at most %u are allowed", column,
                       feature.length, FF_RECORD_LABEL_BYTES);
    return ff_label_name(values, (const char *)feature.bytes, feature.length, label, error);
}

/* Names the image's column to the part's unwrap, which needs none for a damaged record. */
static ff_status name_image(reading *state, ff_error *error) {
    ff_source_part *part = &state->records.source->part[state->part];
    if (part->column || !state->records.any) return FF_OK;
    return ff_copy_string(&part->column, state->columns.column[state->columns.image].name, error);
}

/* The record's label, and with the first record the columns. */
static ff_status take_record(reading *state, uint64_t length, int32_t *label, ff_error *error) {
    ff_feature image;
    ff_records *records = &state->records;
    if (!records->any) {
        FF_TRY(choose_columns(state, length, &state->columns, error));
        FF_TRY(ff_columns_note(&state->columns, records->source, error));
    }
    records->any = true;
    if (state->columns.label == SIZE_MAX)
        FF_TRY(check_unlabeled(state, length, error));
    else
        FF_TRY(take_label(state, length, label, error));
    return find_image(state->data, length, state->columns.column[state->columns.image].name, &image,
                      error);
}

/* *more = false at the end of the file. */
static ff_status read_record(reading *state, uint64_t *length, bool *more, ff_error *error) {
    unsigned char head[HEAD_BYTES];
    size_t got;
    FF_TRY(ff_input_read(state->input, head, sizeof head, &got, error));
    *more = got > 0;
    if (!got) return FF_OK;
    if (got < sizeof head)
        return ff_fail(error, FF_BAD_DATA, "ends after %zu of the %d bytes of its header", got,
                       HEAD_BYTES);
    if (!is_head(head, got))
        return ff_fail(error, FF_BAD_DATA,
                       "the CRC32C of its length is wrong: the file is damaged, or is not of "
                       "TFRecords");
    *length = ff_load_u64(head);
    if (*length > FF_ENCODED_LIMIT_BYTES)
        return ff_fail(error, FF_BAD_DATA, "has %" PRIu64 " bytes, more than %" PRIu64, *length,
                       FF_ENCODED_LIMIT_BYTES);
    FF_TRY(ff_reserve(&state->data, &state->capacity, *length + CRC_BYTES, 1, "a record", error));
    FF_TRY(ff_input_read(state->input, state->data, *length + CRC_BYTES, &got, error));
    if (got == *length + CRC_BYTES) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "ends after %zu of its %" PRIu64 " bytes", got,
                   *length + CRC_BYTES);
}

static ff_status list_records(reading *state, ff_error *error) {
    ff_records *records = &state->records;
    for (bool added = false;;) {
        uint64_t length = 0;
        bool more;
        int32_t label = -1;
        FF_TRY(ff_interrupt_check(error));
        records->offset = ff_input_at(state->input);
        ff_status status = read_record(state, &length, &more, error);
        if (status != FF_OK) return ff_records_within(records, status, error);
        if (!more) return FF_OK;
        if (!is_whole(state->data, length))
            /* With --on-error skip the record is listed, and left out when it is read. */
            status = records->source->skip ? FF_OK : wrong_data(error);
        else
            status = take_record(state, length, &label, error);
        if (status != FF_OK) return ff_records_within(records, status, error);
        if (!added) FF_TRY(ff_records_add_part(records, unwrap, &state->part, error));
        added = true;
        FF_TRY(name_image(state, error));
        FF_TRY(ff_records_add(records, state->part, records->offset,
                              HEAD_BYTES + length + CRC_BYTES, label, error));
    }
}

static ff_status list_file(void *context, ff_source_split *split, const char *path,
                           ff_error *error) {
    reading *state = context;
    FF_TRY(ff_input_open(&state->input, path, error));
    ff_records_file(&state->records, split, path, ff_path_base(path),
                    ff_input_is_packed(state->input));
    ff_status status = list_records(state, error);
    ff_input_close(&state->input);
    return status;
}

static ff_status tfrecord_list(ff_source *source, ff_error *error) {
    reading state = {0};
    ff_status status;
    FF_TRY_DONE(ff_records_begin(&state.records, source, "tfrecord", error));
    FF_TRY_DONE(ff_records_list(&state.records, &tfrecord_files, list_file, &state, error));
done:
    ff_records_free(&state.records);
    ff_columns_free(&state.columns);
    free(state.data);
    return status;
}

extern const ff_source_format ff_source_tfrecord;
const ff_source_format ff_source_tfrecord = {
    .name = "tfrecord",
    .wanted = "TFRecords of images: a file of tf.train.Examples, or a folder or a pattern like "
              "train-{00000..01023}-of-01024 of such files",
    .endings = "tfrecord tfrecords tfrec tfr /",
    .detect = tfrecord_detect,
    .list = tfrecord_list,
    .patterns = true,
    .labels = "in the records, as a feature",
    .uses = FF_USES_CLASSES | FF_USES_LABEL_KIND | FF_USES_SPLITS,
};
