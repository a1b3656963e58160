#include "tools/ffpack/source/chunks/chunks.h"

#include "format/base/bytes.h"
#include "format/base/path.h"
#include "format/base/text.h"
#include "format/cli/interrupt.h"
#include "tools/ffpack/source/chunks/ndarray.h"
#include "tools/ffpack/source/input.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- columns -------------------------------------------------------------------------------- */

void ff_chunks_clear_columns(ff_chunks *chunks) {
    ff_columns_free(&chunks->columns);
    for (size_t i = 0; i < chunks->column_count; i++) free(chunks->column[i].encoding);
    free(chunks->column);
    chunks->column = NULL;
    chunks->column_count = 0;
}

ff_status ff_chunks_add_column(ff_chunks *chunks, const char *name, ff_chunk_form form,
                               uint32_t bytes, const char *encoding, ff_error *error) {
    static const ff_column_kind kinds[] = {
        [FF_CHUNK_OTHER] = FF_COLUMN_OTHER,   [FF_CHUNK_FILE] = FF_COLUMN_IMAGE,
        [FF_CHUNK_PIL] = FF_COLUMN_IMAGE,     [FF_CHUNK_BYTES] = FF_COLUMN_BYTES,
        [FF_CHUNK_IMAGE] = FF_COLUMN_IMAGE,   [FF_CHUNK_ARRAY] = FF_COLUMN_BYTES,
        [FF_CHUNK_SIGNED] = FF_COLUMN_NUMBER, [FF_CHUNK_UNSIGNED] = FF_COLUMN_NUMBER,
        [FF_CHUNK_DIGITS] = FF_COLUMN_NUMBER, [FF_CHUNK_TEXT] = FF_COLUMN_TEXT,
    };
    FF_TRY(
        ff_grow(&chunks->column, chunks->column_count, sizeof *chunks->column, "columns", error));
    FF_TRY(ff_columns_add(&chunks->columns, name, strlen(name), kinds[form], error));
    struct ff_chunk_column *column = &chunks->column[chunks->column_count++];
    *column = (struct ff_chunk_column){form, bytes, NULL};
    return ff_copy_string(&column->encoding, encoding, error);
}

ff_status ff_chunks_choose(ff_chunks *chunks, const char *path, ff_error *error) {
    ff_records *records = &chunks->records;
    FF_TRY(ff_columns_choose(&chunks->columns, records->source, path, error));
    const bool labeled = chunks->columns.label != SIZE_MAX;
    if (records->any && labeled != records->labeled)
        return ff_fail(error, FF_BAD_DATA, "%s: has %s label, as the chunks before have %s", path,
                       labeled ? "a" : "no", labeled ? "none" : "one");
    records->labeled = labeled;
    return records->any ? FF_OK : ff_columns_note(&chunks->columns, records->source, error);
}

/* ---- samples -------------------------------------------------------------------------------- */

/* A chunk that is read. */
typedef struct reading {
    ff_chunks *chunks;
    ff_input *input;
    uint32_t *offset; /* [samples + 1] in the file's byte order, which is little-endian */
    size_t capacity;
    uint64_t samples;
    uint32_t part;
} reading;

enum { PIECE = 16384 }; /* offsets read at once, so that memory grows only with what is there */

static uint64_t offset_at(const reading *state, uint64_t i) {
    return ff_load_u32(&state->offset[i]);
}

static ff_status read_offsets(reading *state, const ff_chunk *chunk, ff_error *error) {
    const ff_records *records = &state->chunks->records;
    unsigned char count[4];
    FF_TRY(ff_input_exactly(state->input, count, sizeof count, "its number of samples", error));
    state->samples = ff_load_u32(count);
    if (state->samples != chunk->samples)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: has %" PRIu64 " samples, its index.json states %" PRIu64, records->path,
                       state->samples, chunk->samples);
    for (uint64_t i = 0; i <= state->samples; i += PIECE) {
        const uint64_t left = state->samples + 1 - i, piece = left < PIECE ? left : PIECE;
        FF_TRY(ff_reserve(&state->offset, &state->capacity, i + piece, sizeof *state->offset,
                          "offsets", error));
        FF_TRY(ff_input_exactly(state->input, &state->offset[i], piece * 4,
                                "the offsets of its samples", error));
    }
    for (uint64_t i = 0; i <= state->samples; i++) {
        const uint64_t least = i ? offset_at(state, i - 1) : ff_input_at(state->input);
        if (offset_at(state, i) < least)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: the offset of record %" PRIu64 " is %" PRIu64
                           ", wanted at least %" PRIu64,
                           records->path, i, offset_at(state, i), least);
    }
    return FF_OK;
}

/* The places of a sample's values in the file; `image` and `label` [2]: offset, bytes. */
static ff_status find_values(const reading *state, uint64_t end, uint64_t image[2],
                             uint64_t label[2], ff_error *error) {
    const ff_chunks *chunks = state->chunks;
    unsigned char head[4 * FF_RECORD_COLUMNS_LIMIT];
    size_t heads = 0;
    for (size_t i = 0; i < chunks->column_count; i++) heads += !chunks->column[i].bytes;
    const uint64_t begin = ff_input_at(state->input), bytes = end - begin;
    if (bytes < 4 * heads)
        return ff_fail(error, FF_BAD_DATA,
                       "has %" PRIu64 " bytes, fewer than the sizes of its %zu columns", bytes,
                       heads);
    FF_TRY(ff_input_exactly(state->input, head, 4 * heads, "a record", error));
    uint64_t at = begin + 4 * heads;
    size_t taken = 0;
    for (size_t i = 0; i < chunks->column_count; i++) {
        const uint64_t fixed = chunks->column[i].bytes;
        const uint64_t size = fixed ? fixed : ff_load_u32(&head[4 * taken++]);
        if (i == chunks->columns.image) memcpy(image, (uint64_t[2]){at, size}, 16);
        if (i == chunks->columns.label) memcpy(label, (uint64_t[2]){at, size}, 16);
        at += size; /* at most 1024 times 4 GiB: no overflow */
    }
    if (at != end)
        return ff_fail(error, FF_BAD_DATA,
                       "its columns have %" PRIu64 " bytes, wanted the %" PRIu64 " that it has",
                       at - begin, bytes);
    return FF_OK;
}

static ff_status parse_number(ff_chunk_form form, const unsigned char *bytes, uint64_t length,
                              int64_t *number, ff_error *error) {
    const bool negative = form == FF_CHUNK_SIGNED && length && bytes[length - 1] >= 0x80;
    unsigned char wide[8];
    if (form == FF_CHUNK_DIGITS) {
        if (ff_text_whole((const char *)bytes, length, number) > 0) return FF_OK;
        return ff_fail(error, FF_BAD_DATA, "its label '%.*s' is not a whole number",
                       (int)(length < 100 ? length : 100), (const char *)bytes);
    }
    if (length != 1 && length != 2 && length != 4 && length != 8)
        return ff_fail(error, FF_BAD_DATA, "its label has %" PRIu64 " bytes, wanted 1, 2, 4 or 8",
                       length);
    memset(wide, negative ? 0xff : 0, sizeof wide);
    memcpy(wide, bytes, length);
    const uint64_t value = ff_load_u64(wide);
    *number = form == FF_CHUNK_UNSIGNED && value > INT64_MAX ? INT64_MAX : (int64_t)value;
    return FF_OK;
}

static ff_status read_label(const reading *state, const uint64_t place[2], int32_t *label,
                            ff_error *error) {
    unsigned char bytes[FF_RECORD_LABEL_BYTES + 1];
    const uint64_t length = place[1];
    ff_label_values *values = &state->chunks->records.values;
    const ff_chunk_form form = state->chunks->column[state->chunks->columns.label].form;
    int64_t number;
    if (length > FF_RECORD_LABEL_BYTES)
        return ff_fail(error, FF_BAD_DATA,
                       "its label has %" PRIu64 " bytes, at most %u are allowed", length,
                       FF_RECORD_LABEL_BYTES);
    FF_TRY(ff_input_skip_to(state->input, place[0], "a record", error));
    FF_TRY(ff_input_exactly(state->input, bytes, length, "a record", error));
    if (form == FF_CHUNK_TEXT)
        return ff_label_name(values, (const char *)bytes, length, label, error);
    FF_TRY(parse_number(form, bytes, length, &number, error));
    return ff_label_number(values, number, label, error);
}

static ff_status list_sample(reading *state, ff_error *error) {
    ff_records *records = &state->chunks->records;
    uint64_t image[2] = {0}, place[2];
    int32_t label = -1;
    const uint64_t end = offset_at(state, records->number + 1);
    ff_status status;
    records->offset = offset_at(state, records->number);
    FF_TRY(ff_input_skip_to(state->input, records->offset, "a record", error));
    status = find_values(state, end, image, place, error);
    if (status == FF_OK && records->labeled) status = read_label(state, place, &label, error);
    if (status != FF_OK) return ff_records_within(records, status, error);
    return ff_records_add(records, state->part, image[0], image[1], label, error);
}

/* Adds the file as a part, which unwraps the image's column. */
static ff_status add_part(reading *state, ff_error *error) {
    static ff_source_unwrap *const unwraps[] = {[FF_CHUNK_PIL] = ff_records_unwrap_pil,
                                                [FF_CHUNK_IMAGE] = ff_ndarray_unwrap,
                                                [FF_CHUNK_ARRAY] = ff_ndarray_unwrap,
                                                [FF_CHUNK_TEXT] = NULL};
    ff_chunks *chunks = state->chunks;
    const struct ff_chunk_column *image = &chunks->column[chunks->columns.image];
    FF_TRY(ff_records_add_part(&chunks->records, unwraps[image->form], &state->part, error));
    return ff_copy_string(&chunks->records.source->part[state->part].column, image->encoding,
                          error);
}

static ff_status list_samples(reading *state, const ff_chunk *chunk, ff_error *error) {
    ff_records *records = &state->chunks->records;
    unsigned char beyond;
    size_t got;
    FF_TRY(read_offsets(state, chunk, error));
    FF_TRY(add_part(state, error));
    for (uint64_t i = 0; i < state->samples; i++) {
        FF_TRY(ff_interrupt_check(error));
        FF_TRY(list_sample(state, error));
        records->any = true;
    }
    const uint64_t end = offset_at(state, state->samples);
    FF_TRY(ff_input_skip_to(state->input, end, "its last record", error));
    FF_TRY(ff_input_read(state->input, &beyond, 1, &got, error));
    if (!got) return FF_OK;
    return ff_fail(error, FF_BAD_DATA,
                   "%s: has bytes after its last record, which ends at byte %" PRIu64,
                   records->path, end);
}

ff_status ff_chunks_list(ff_chunks *chunks, ff_source_split *split, const ff_chunk *chunk,
                         ff_error *error) {
    char *path;
    reading state = {.chunks = chunks};
    FF_TRY(ff_chunks_path(&path, chunk->index, chunk->name, error));
    ff_records_file(&chunks->records, split, path, chunk->name, chunk->packed);
    ff_status status;
    FF_TRY_DONE(ff_input_open_zstd(&state.input, path, error));
    if (ff_input_is_packed(state.input) != chunk->packed)
        FF_TRY_DONE(ff_fail(error, FF_BAD_DATA,
                            "%s: is %scompressed, its index.json states that it is%s", path,
                            chunk->packed ? "not " : "", chunk->packed ? "" : " not"));
    FF_TRY_DONE(list_samples(&state, chunk, error));
done:
    ff_input_close(&state.input);
    free(state.offset);
    free(path);
    return status;
}

ff_status ff_chunks_list_source(ff_source *source, const char *kind, ff_shard_lister *list,
                                ff_error *error) {
    ff_chunks chunks = {0};
    ff_status status = ff_records_begin(&chunks.records, source, kind, error);
    if (status == FF_OK)
        status = ff_records_list(&chunks.records, &ff_chunks_kind, list, &chunks, error);
    ff_records_free(&chunks.records);
    ff_chunks_clear_columns(&chunks);
    return status;
}
