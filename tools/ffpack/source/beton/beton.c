/* FFCV's .beton, version 2 (github.com/libffcv/ffcv: ffcv/types.py, writer.py, fields/). SOURCE is
 * a file, a folder of files, or a brace pattern (shards.h).
 *
 *     header: u16 version, u16 fields, u32 page size, u64 samples, u64 place of the allocation
 * table fields: u8 type, u8[16] name, u8[1024] arguments rows:   for each sample the metadata of
 * its fields, aligned as a C struct of them pages:  what rows point to; the allocation table: u64
 * sample, u64 place, u64 bytes, in any order
 *
 * all little-endian. Images are of RGBImageField: u8 mode, u16 width, u16 height, u64 place,
 * without padding; mode 0 is a JPEG, whose size only the allocation table has, mode 1 width x
 * height RGB pixels. So a file that was written with "smart" or "proportion" holds both. Labels are
 * of IntField: i64. Memory: the table is sorted on disk. */
#include "format/base/bytes.h"
#include "format/base/path.h"
#include "format/base/read.h"
#include "format/cli/interrupt.h"
#include "tools/ffpack/source/records.h"
#include "tools/ffpack/source/sorter.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    VERSION = 2,
    HEADER_BYTES = 24,
    FIELD_BYTES = 1 + 16 + 1024,
    NAME_BYTES = 16,
    IMAGE_BYTES = 13,
    ENTRY_BYTES = 24,
    KEY_BYTES = 16,
    FIELDS_MOST = 1024,
    PIECE_BYTES = 256 * 1024,
    PAGE_LEAST = 1 << 21,
};

/* What the metadata of a field has in a row, by its type. */
typedef struct field_type {
    ff_column_kind kind;
    unsigned bytes, alignment;
} field_type;

enum { TYPES = 7 };
static const field_type types[TYPES] = {
    {FF_COLUMN_OTHER, 8, 8},           /* FloatField */
    {FF_COLUMN_NUMBER, 8, 8},          /* IntField */
    {FF_COLUMN_IMAGE, IMAGE_BYTES, 1}, /* RGBImageField */
    {FF_COLUMN_OTHER, 16, 1},          /* BytesField: place, bytes */
    {FF_COLUMN_OTHER, 8, 8},           /* NDArrayField: place */
    {FF_COLUMN_OTHER, 16, 1},          /* JSONField, as BytesField */
    {FF_COLUMN_OTHER, 8, 8},           /* TorchTensorField, as NDArrayField */
};

/* ---- detection ------------------------------------------------------------------------------ */

static bool is_beton_name(const char *name) {
    return !fnmatch("*.beton", name, FNM_CASEFOLD) || !fnmatch("*.ffcv", name, FNM_CASEFOLD);
}

static const ff_shard_kind beton_files = {
    .one = ".beton file", .many = ".beton files", .is_name = is_beton_name};

/* There is no magic number: a header whose values are possible, and a known type of field. */
static bool looks_like(const char *path, const unsigned char *head, size_t bytes) {
    struct stat info;
    if (bytes <= HEADER_BYTES || ff_load_u16(head) != VERSION || stat(path, &info) < 0)
        return false;
    const uint32_t fields = ff_load_u16(head + 2), page = ff_load_u32(head + 4);
    return fields && fields <= FIELDS_MOST && page >= PAGE_LEAST && !(page & (page - 1)) &&
           ff_load_u64(head + 16) <= (uint64_t)info.st_size && head[HEADER_BYTES] < TYPES;
}

static bool beton_detect(const char *path, const unsigned char *head, size_t head_bytes,
                         ff_error *error) {
    unsigned char first[HEADER_BYTES + 1];
    ff_shards files;
    int fd = -1;
    if (head) return looks_like(path, head, head_bytes);
    if (ff_shards_find(&files, path, &beton_files, NULL, error) != FF_OK) return false;
    const char *file = ff_names_at(&files.path, 0);
    const bool found = ff_open_file(file, &fd, NULL, error) == FF_OK &&
                       ff_read_at(fd, file, first, sizeof first, 0, error) == FF_OK &&
                       looks_like(file, first, sizeof first);
    ff_close_file(&fd);
    ff_shards_free(&files);
    return found;
}

/* ---- images --------------------------------------------------------------------------------- */

typedef struct image {
    unsigned mode; /* 0 JPEG, 1 pixels */
    uint32_t width, height;
    uint64_t place;
} image;

static image load_image(const unsigned char *from) {
    return (image){.mode = from[0],
                   .width = ff_load_u16(from + 1),
                   .height = ff_load_u16(from + 3),
                   .place = ff_load_u64(from + 5)};
}

static uint64_t pixel_bytes(const image *of) {
    return (uint64_t)of->width * of->height * 3;
}

static ff_status too_large(uint64_t bytes, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA, "its image has %" PRIu64 " bytes, more than %" PRIu64, bytes,
                   FF_ENCODED_LIMIT_BYTES);
}

/* From the metadata of an image of pixels to a PPM. */
static ff_status unwrap_pixels(const ff_source_part *part, int fd, ff_buffer *made,
                               ff_image_file *file, ff_error *error) {
    const image found = load_image(file->bytes);
    const uint64_t bytes = pixel_bytes(&found);
    if (bytes > FF_ENCODED_LIMIT_BYTES) return too_large(bytes, error);
    FF_TRY(ff_records_pixels(made, found.width, found.height, 3, error));
    FF_TRY(ff_reserve(&made->bytes, &made->capacity, made->length + bytes, 1, "an image", error));
    FF_TRY(ff_read_at(fd, part->path, made->bytes + made->length, bytes, found.place, error));
    *file = (ff_image_file){(const unsigned char *)made->bytes, made->length + bytes};
    return FF_OK;
}

/* ---- listing -------------------------------------------------------------------------------- */

typedef struct beton {
    ff_records records; /* first: the context of ff_records_list is this struct */
    /* The file that is being read: */
    ff_columns columns;
    int fd;
    uint64_t bytes, samples, table, rows; /* places of the table and of the rows */
    uint32_t row_bytes, image_at, label_at;
    uint32_t files, pixels; /* parts of JPEGs and of pixels */
    ff_sorter *sorter;      /* the allocations, by sample and place */
    ff_sorter_record next;
    bool more;
} beton;

/* The fields' names and places in a row. */
static ff_status read_fields(beton *state, unsigned count, ff_error *error) {
    const char *path = state->records.path;
    unsigned char field[1 + NAME_BYTES];
    uint32_t place[FIELDS_MOST], at = 0, alignment = 1;
    ff_columns_free(&state->columns);
    for (unsigned i = 0; i < count; i++) {
        FF_TRY(ff_read_at(state->fd, path, field, sizeof field,
                          HEADER_BYTES + (uint64_t)i * FIELD_BYTES, error));
        const char *name = (const char *)field + 1;
        const size_t name_bytes = strnlen(name, NAME_BYTES);
        if (field[0] >= TYPES)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: field %u ('%.*s') is of type %u, wanted FFCV's own fields, 0 to %d",
                           path, i, (int)name_bytes, name, field[0], TYPES - 1);
        const field_type *type = &types[field[0]];
        at = (uint32_t)ff_align_u64(at, type->alignment);
        place[i] = at;
        at += type->bytes;
        if (type->alignment > alignment) alignment = type->alignment;
        FF_TRY(ff_columns_add(&state->columns, name, name_bytes, type->kind, error));
    }
    state->row_bytes = (uint32_t)ff_align_u64(at, alignment);
    FF_TRY(ff_columns_choose(&state->columns, state->records.source, path, error));
    state->image_at = place[state->columns.image];
    const bool labeled = state->columns.label != SIZE_MAX;
    if (labeled) state->label_at = place[state->columns.label];
    if (state->records.any && labeled != state->records.labeled)
        return ff_fail(error, FF_BAD_DATA, "%s: has %s label, as the files before have %s", path,
                       labeled ? "a" : "no", labeled ? "none" : "one");
    state->records.labeled = labeled;
    return state->records.any ? FF_OK
                              : ff_columns_note(&state->columns, state->records.source, error);
}

static ff_status read_header(beton *state, ff_error *error) {
    const char *path = state->records.path;
    unsigned char header[HEADER_BYTES];
    FF_TRY(ff_read_at(state->fd, path, header, sizeof header, 0, error));
    const unsigned version = ff_load_u16(header), fields = ff_load_u16(header + 2);
    if (version != VERSION || !fields || fields > FIELDS_MOST)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: is of version %u with %u fields, wanted a .beton of version %d", path,
                       version, fields, VERSION);
    FF_TRY(read_fields(state, fields, error));
    state->samples = ff_load_u64(header + 8);
    state->table = ff_load_u64(header + 16);
    state->rows = HEADER_BYTES + (uint64_t)fields * FIELD_BYTES;
    const uint64_t most =
        state->bytes > state->rows ? (state->bytes - state->rows) / state->row_bytes : 0;
    if (state->samples > most)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: has %" PRIu64 " bytes, too few for the %" PRIu64
                       " samples of its header",
                       path, state->bytes, state->samples);
    if (state->table < state->rows || state->table > state->bytes ||
        (state->bytes - state->table) % ENTRY_BYTES)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: its allocation table begins at byte %" PRIu64 " of %" PRIu64
                       ": the file was cut off, or not written to its end",
                       path, state->table, state->bytes);
    return FF_OK;
}

static void make_key(unsigned char key[KEY_BYTES], uint64_t sample, uint64_t place) {
    for (int i = 0; i < 8; i++) {
        key[i] = (unsigned char)(sample >> (56 - 8 * i));
        key[8 + i] = (unsigned char)(place >> (56 - 8 * i));
    }
}

static ff_status sort_table(beton *state, ff_error *error) {
    unsigned char *piece;
    unsigned char key[KEY_BYTES];
    const uint64_t piece_bytes = PIECE_BYTES / ENTRY_BYTES * ENTRY_BYTES;
    FF_TRY(ff_alloc(&piece, piece_bytes, 1, "the allocation table", error));
    ff_status status;
    FF_TRY_DONE(ff_sorter_create(&state->sorter, state->records.source->temporary, error));
    for (uint64_t at = state->table; at < state->bytes; at += piece_bytes) {
        const uint64_t left = state->bytes - at, bytes = left < piece_bytes ? left : piece_bytes;
        FF_TRY_DONE(ff_interrupt_check(error));
        FF_TRY_DONE(ff_read_at(state->fd, state->records.path, piece, bytes, at, error));
        for (const unsigned char *entry = piece; entry < piece + bytes; entry += ENTRY_BYTES) {
            make_key(key, ff_load_u64(entry), ff_load_u64(entry + 8));
            FF_TRY_DONE(ff_sorter_add(
                state->sorter,
                &(ff_sorter_record){
                    .key = key, .key_bytes = sizeof key, .payload = entry + 16, .payload_bytes = 8},
                error));
        }
    }
    FF_TRY_DONE(ff_sorter_next(state->sorter, &state->next, &state->more, error));
done:
    free(piece);
    return status;
}

/* *bytes = the size of what the record being read has at `place`. Records come in order. */
static ff_status find_size(beton *state, uint64_t place, uint64_t *bytes, ff_error *error) {
    unsigned char key[KEY_BYTES];
    make_key(key, state->records.number, place);
    while (state->more && memcmp(state->next.key, key, sizeof key) < 0)
        FF_TRY(ff_sorter_next(state->sorter, &state->next, &state->more, error));
    if (!state->more || memcmp(state->next.key, key, sizeof key) != 0)
        return ff_fail(error, FF_BAD_DATA,
                       "its image at byte %" PRIu64 " is not in the allocation table", place);
    *bytes = ff_load_u64(state->next.payload);
    return FF_OK;
}

static ff_status check_image(beton *state, const image *found, uint64_t *bytes, ff_error *error) {
    FF_TRY(find_size(state, found->place, bytes, error));
    if (found->mode > 1)
        return ff_fail(error, FF_BAD_DATA, "its image is of mode %u, wanted 0 (JPEG) or 1 (pixels)",
                       found->mode);
    if (found->mode == 1 && *bytes != pixel_bytes(found))
        return ff_fail(error, FF_BAD_DATA,
                       "its image has %" PRIu64 " bytes, wanted those of %" PRIu32 " x %" PRIu32
                       " pixels",
                       *bytes, found->width, found->height);
    if (*bytes > FF_ENCODED_LIMIT_BYTES) return too_large(*bytes, error);
    if (found->place <= state->bytes && *bytes <= state->bytes - found->place) return FF_OK;
    return ff_fail(error, FF_BAD_DATA,
                   "its image is at bytes %" PRIu64 " to %" PRIu64 ", the file has %" PRIu64,
                   found->place, found->place + *bytes, state->bytes);
}

static ff_status list_row(beton *state, const unsigned char *row, ff_error *error) {
    ff_records *records = &state->records;
    const image found = load_image(row + state->image_at);
    int32_t label = -1;
    uint64_t bytes = 0;
    ff_status status = check_image(state, &found, &bytes, error);
    if (status == FF_OK && records->labeled)
        status = ff_label_number(&records->values, (int64_t)ff_load_u64(row + state->label_at),
                                 &label, error);
    if (status != FF_OK) return ff_records_within(records, status, error);
    records->any = true;
    return found.mode ? ff_records_add(records, state->pixels, records->offset + state->image_at,
                                       IMAGE_BYTES, label, error)
                      : ff_records_add(records, state->files, found.place, bytes, label, error);
}

static ff_status list_rows(beton *state, ff_error *error) {
    unsigned char *piece;
    const uint64_t rows = 1 + PIECE_BYTES / state->row_bytes;
    FF_TRY(ff_alloc(&piece, rows, state->row_bytes, "rows", error));
    ff_status status = FF_OK;
    for (uint64_t i = 0; i < state->samples; i++) {
        const uint64_t left = state->samples - i, count = left < rows ? left : rows;
        const uint64_t at = state->rows + i * state->row_bytes;
        if (i % rows == 0) {
            FF_TRY_DONE(ff_interrupt_check(error));
            FF_TRY_DONE(ff_read_at(state->fd, state->records.path, piece, count * state->row_bytes,
                                   at, error));
        }
        state->records.offset = at;
        FF_TRY_DONE(list_row(state, piece + i % rows * state->row_bytes, error));
    }
done:
    free(piece);
    return status;
}

static ff_status list_file(void *context, ff_source_split *split, const char *path,
                           ff_error *error) {
    beton *state = context;
    ff_records_file(&state->records, split, path, ff_path_base(path), false);
    FF_TRY(ff_open_file(path, &state->fd, &state->bytes, error));
    ff_status status;
    FF_TRY_DONE(read_header(state, error));
    FF_TRY_DONE(sort_table(state, error));
    FF_TRY_DONE(ff_records_add_part(&state->records, NULL, &state->files, error));
    FF_TRY_DONE(ff_records_add_part(&state->records, unwrap_pixels, &state->pixels, error));
    FF_TRY_DONE(list_rows(state, error));
done:
    ff_sorter_destroy(&state->sorter);
    ff_close_file(&state->fd);
    return status;
}

static ff_status beton_list(ff_source *source, ff_error *error) {
    beton state = {.fd = -1};
    ff_status status;
    FF_TRY_DONE(ff_records_begin(&state.records, source, "beton", error));
    FF_TRY_DONE(ff_records_list(&state.records, &beton_files, list_file, &state, error));
done:
    ff_records_free(&state.records);
    ff_columns_free(&state.columns);
    return status;
}

extern const ff_source_format ff_source_beton;
const ff_source_format ff_source_beton = {
    .name = "beton",
    .wanted = "FFCV's .beton: a file, or a folder or a pattern of such files",
    .endings = "beton ffcv /",
    .detect = beton_detect,
    .list = beton_list,
    .patterns = true,
    .labels = "in the file, as an IntField",
    .uses = FF_USES_CLASSES | FF_USES_LABEL_KIND | FF_USES_SPLITS,
};
