#include "tools/ffpack/source/records.h"

#include "format/base/bytes.h"
#include "format/base/read.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- columns -------------------------------------------------------------------------------- */

ff_status ff_columns_add(ff_columns *columns, const char *name, size_t bytes, ff_column_kind kind,
                         ff_error *error) {
    ff_column added = {.kind = kind};
    if (columns->count == FF_RECORD_COLUMNS_LIMIT)
        return ff_fail(error, FF_BAD_DATA, "has more than %u columns", FF_RECORD_COLUMNS_LIMIT);
    if (memchr(name, 0, bytes))
        return ff_fail(error, FF_BAD_DATA, "the name of column %zu has a zero byte",
                       columns->count);
    FF_TRY(ff_grow(&columns->column, columns->count, sizeof added, "columns", error));
    FF_TRY(ff_copy_bytes(&added.name, name, bytes, error));
    columns->column[columns->count++] = added;
    return FF_OK;
}

void ff_columns_free(ff_columns *columns) {
    for (size_t i = 0; i < columns->count; i++) free(columns->column[i].name);
    free(columns->column);
    *columns = (ff_columns){0};
}

static const char *const image_names[] = {"image/encoded", "image", "img", "jpg",
                                          "jpeg",          "png",   "x",   NULL};
static const char *const label_names[] = {
    "image/class/label", "label", "labels", "class", "cls", "target", "y", NULL};

/* The column of the first of `names` that there is and whose kind is one of `kinds`; else the only
 * column of the kind `only`; SIZE_MAX if there is none, SIZE_MAX - 1 if there are several. */
static size_t choose(const ff_columns *columns, const char *const *names, unsigned kinds,
                     ff_column_kind only) {
    size_t found = SIZE_MAX;
    for (; *names; names++)
        for (size_t i = 0; i < columns->count; i++)
            if ((kinds >> columns->column[i].kind & 1) && !strcmp(columns->column[i].name, *names))
                return i;
    for (size_t i = 0; i < columns->count; i++)
        if (columns->column[i].kind == only) found = found == SIZE_MAX ? i : SIZE_MAX - 1;
    return found;
}

/* The names of the columns of these kinds, or "none". */
static ff_status list_columns(const ff_columns *columns, unsigned kinds, ff_buffer *text,
                              ff_error *error) {
    for (size_t i = 0; i < columns->count; i++)
        if (kinds >> columns->column[i].kind & 1)
            FF_TRY(ff_buffer_printf(text, error, "%s%.100s", text->length ? ", " : "",
                                    columns->column[i].name));
    return text->length ? FF_OK : ff_buffer_printf(text, error, "none");
}

enum {
    IMAGES = 1 << FF_COLUMN_IMAGE | 1 << FF_COLUMN_BYTES,
    LABELS = 1 << FF_COLUMN_NUMBER | 1 << FF_COLUMN_TEXT,
    ALL = IMAGES | LABELS | 1 << FF_COLUMN_OTHER,
};

static ff_status no_image(const ff_columns *columns, const char *path, bool several,
                          ff_error *error) {
    ff_buffer text = {0};
    ff_status status = list_columns(columns, several ? IMAGES : ALL, &text, error);
    if (status == FF_OK)
        status = several ? ff_fail(error, FF_BAD_DATA,
                                   "%s: several columns may be the image: %s; wanted one, or one "
                                   "called image",
                                   path, text.bytes)
                         : ff_fail(error, FF_BAD_DATA,
                                   "%s: no column holds images; wanted one of image files, or "
                                   "bytes called image; the columns: %s",
                                   path, text.bytes);
    ff_buffer_free(&text);
    return status;
}

/* `asked`: --label named one that is not there; else several may be the label. */
static ff_status no_label(const ff_columns *columns, const char *path, const char *asked,
                          ff_error *error) {
    ff_buffer text = {0};
    ff_status status = list_columns(columns, asked ? LABELS : 1 << FF_COLUMN_NUMBER, &text, error);
    if (status == FF_OK)
        status = asked
                     ? ff_fail(error, FF_USAGE,
                               "--label: %s has no column '%s' of whole numbers or texts, only %s",
                               path, asked, text.bytes)
                     : ff_fail(error, FF_USAGE,
                               "%s: several columns may be the label: %s; wanted --label NAME",
                               path, text.bytes);
    ff_buffer_free(&text);
    return status;
}

/* Whether a column, or the list or group that has it (NAME.list.element), is called as a label. */
static bool is_called_label(const char *column) {
    for (const char *const *name = label_names; *name; name++) {
        const size_t length = strlen(*name);
        if (!strncmp(column, *name, length) && (!column[length] || column[length] == '.'))
            return true;
    }
    return false;
}

/* Refuses a set whose only column that is called as a label is of another kind: the labels would be
 * lost, or those of another column. */
static ff_status check_no_label(const ff_columns *columns, const char *path, ff_error *error) {
    if (choose(columns, label_names, LABELS, FF_COLUMN_KINDS) != SIZE_MAX) return FF_OK;
    for (size_t i = 0; i < columns->count; i++) {
        const ff_column *column = &columns->column[i];
        const bool other = !(LABELS >> column->kind & 1) && i != columns->image;
        if (other && is_called_label(column->name))
            return ff_fail(error, FF_BAD_DATA,
                           "%s: column '%s' is called as a label, but does not hold one whole "
                           "number or one text",
                           path, column->name);
    }
    return FF_OK;
}

ff_status ff_columns_choose(ff_columns *columns, const ff_source *source, const char *path,
                            ff_error *error) {
    static const char *const none[] = {NULL};
    const char *const asked[] = {source->label, NULL};
    columns->image = choose(columns, none, 0, FF_COLUMN_IMAGE);
    if (columns->image >= SIZE_MAX - 1)
        columns->image = choose(columns, image_names, IMAGES,
                                columns->image == SIZE_MAX ? FF_COLUMN_BYTES : FF_COLUMN_IMAGE);
    if (columns->image >= SIZE_MAX - 1)
        return no_image(columns, path, columns->image != SIZE_MAX, error);
    columns->label = source->label ? choose(columns, asked, LABELS, FF_COLUMN_OTHER)
                                   : choose(columns, label_names, LABELS, FF_COLUMN_NUMBER);
    const bool right =
        columns->label < columns->count && (LABELS >> columns->column[columns->label].kind & 1);
    if (source->label && !right) return no_label(columns, path, source->label, error);
    if (!source->label) FF_TRY(check_no_label(columns, path, error));
    return columns->label == SIZE_MAX - 1 ? no_label(columns, path, NULL, error) : FF_OK;
}

ff_status ff_columns_note(const ff_columns *columns, ff_source *source, ff_error *error) {
    ff_buffer text = {0};
    const char *joint = "; not used: ";
    const bool labeled = columns->label != SIZE_MAX;
    ff_status status = ff_buffer_printf(
        &text, error, "images from column %.100s%s%.100s", columns->column[columns->image].name,
        labeled ? "; labels from " : "", labeled ? columns->column[columns->label].name : "");
    for (size_t i = 0; i < columns->count && status == FF_OK; i++) {
        if (i == columns->image || i == columns->label) continue;
        status = ff_buffer_printf(&text, error, "%s%.100s", joint, columns->column[i].name);
        joint = ", ";
    }
    if (status == FF_OK) status = ff_names_add(&source->notes, text.bytes, text.length, error);
    ff_buffer_free(&text);
    return status;
}

/* ---- records -------------------------------------------------------------------------------- */

ff_status ff_records_begin(ff_records *records, ff_source *source, const char *kind,
                           ff_error *error) {
    *records = (ff_records){.source = source};
    source->kind = kind;
    source->encoded = true;
    return ff_label_values_begin(&records->values, source, error);
}

void ff_records_file(ff_records *records, ff_source_split *split, const char *path,
                     const char *name, bool packed) {
    records->listing = split->listing;
    records->path = path;
    records->name = name;
    records->packed = packed;
    records->number = records->offset = 0;
}

ff_status ff_records_add_part(ff_records *records, ff_source_unwrap *unwrap, uint32_t *part,
                              ff_error *error) {
    ff_source *source = records->source;
    if (records->packed) {
        FF_TRY(ff_source_add_packed(source, records->path, part, error));
    } else {
        int fd;
        uint64_t bytes;
        FF_TRY(ff_open_file(records->path, &fd, &bytes, error));
        ff_close_file(&fd);
        FF_TRY(ff_source_add_file(source, records->path, bytes, part, error));
    }
    source->part[*part].records = true;
    source->part[*part].unwrap = unwrap;
    return FF_OK;
}

ff_status ff_records_add(ff_records *records, uint32_t part, uint64_t offset, uint64_t bytes,
                         int32_t label, ff_error *error) {
    records->key.length = 0;
    FF_TRY(ff_buffer_printf(&records->key, error, "%s:%" PRIu64, records->name, records->number));
    const ff_item item = {.part = part,
                          .offset = offset,
                          .bytes = bytes,
                          .key = records->key.bytes,
                          .key_bytes = records->key.length,
                          .labels = &label};
    records->number++;
    return ff_listing_add(records->listing, &item, error);
}

ff_status ff_records_within(const ff_records *records, ff_status status, ff_error *error) {
    if (status == FF_OK) return FF_OK;
    if (records->rows)
        return ff_fail_within(error, status, "%s: row %" PRIu64, records->path, records->number);
    return ff_fail_within(error, status, "%s: record %" PRIu64 " at %sbyte %" PRIu64, records->path,
                          records->number, records->packed ? "unpacked " : "", records->offset);
}

ff_status ff_records_finish(ff_records *records, ff_error *error) {
    const ff_source *source = records->source;
    if (records->any && !records->labeled && source->classes)
        return ff_fail(error, FF_USAGE, "--classes: the records of %s have no labels",
                       source->path);
    return ff_label_values_finish(&records->values, records->labeled, error);
}

void ff_records_free(ff_records *records) {
    ff_label_values_free(&records->values);
    ff_buffer_free(&records->key);
}

ff_status ff_records_list(ff_records *records, const ff_shard_kind *kind, ff_shard_lister *list,
                          void *context, ff_error *error) {
    ff_shards shards;
    FF_TRY(ff_shards_find(&shards, records->source->path, kind, records->source, error));
    ff_status status = ff_shards_list(&shards, records->source, list, context, error);
    ff_shards_free(&shards);
    return status == FF_OK ? ff_records_finish(records, error) : status;
}

/* ---- pixels --------------------------------------------------------------------------------- */

ff_status ff_records_pixels(ff_buffer *made, uint32_t width, uint32_t height, unsigned channels,
                            ff_error *error) {
    made->length = 0;
    return ff_buffer_printf(made, error, "P%c\n%" PRIu32 " %" PRIu32 "\n255\n",
                            channels == 1 ? '5' : '6', width, height);
}

ff_status ff_records_unwrap_pil(const ff_source_part *part, int fd, ff_buffer *made,
                                ff_image_file *file, ff_error *error) {
    (void)part;
    (void)fd;
    enum { HEAD = 12 };
    static const struct {
        const char *mode;
        unsigned stored, kept; /* bytes of a pixel */
    } modes[] = {{"L", 1, 1}, {"RGB", 3, 3}, {"RGBA", 4, 3}, {"RGBX", 4, 3}};
    if (file->length < HEAD)
        return ff_fail(error, FF_BAD_DATA,
                       "has %" PRIu64 " bytes, fewer than the header of an image", file->length);
    const uint64_t width = ff_load_u32(file->bytes), height = ff_load_u32(file->bytes + 4);
    const uint64_t mode_bytes = ff_load_u32(file->bytes + 8);
    const unsigned char *mode = file->bytes + HEAD;
    if (mode_bytes > file->length - HEAD || mode_bytes > 8)
        return ff_fail(error, FF_BAD_DATA,
                       "its image's mode has %" PRIu64 " bytes, wanted L, RGB, RGBA or RGBX",
                       mode_bytes);
    const unsigned char *pixels = mode + mode_bytes;
    const uint64_t bytes = file->length - HEAD - mode_bytes;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strlen(modes[i].mode) != mode_bytes || memcmp(modes[i].mode, mode, mode_bytes) != 0)
            continue;
        /* u32 times u32 fits; so does 4 times what is less than 2 GiB. */
        if (width * height != bytes / modes[i].stored || bytes % modes[i].stored)
            return ff_fail(error, FF_BAD_DATA,
                           "has %" PRIu64 " bytes of pixels, wanted those of %" PRIu64 " x %" PRIu64
                           " pixels of mode %s",
                           bytes, width, height, modes[i].mode);
        FF_TRY(ff_records_pixels(made, (uint32_t)width, (uint32_t)height, modes[i].kept, error));
        if (modes[i].stored == modes[i].kept) {
            FF_TRY(ff_buffer_add(made, pixels, bytes, error));
        } else {
            FF_TRY(ff_reserve(&made->bytes, &made->capacity, made->length + bytes, 1, "an image",
                              error));
            for (uint64_t at = 0; at < bytes; at += 4, made->length += 3)
                memcpy(made->bytes + made->length, pixels + at, 3);
        }
        *file = (ff_image_file){(const unsigned char *)made->bytes, made->length};
        return FF_OK;
    }
    ff_buffer shown = {0};
    ff_status status = ff_escape(&shown, mode, mode_bytes, error);
    if (status == FF_OK)
        status =
            ff_fail(error, FF_BAD_DATA, "its image's mode is '%.*s', wanted L, RGB, RGBA or RGBX",
                    (int)shown.length, shown.length ? shown.bytes : "");
    ff_buffer_free(&shown);
    return status;
}
