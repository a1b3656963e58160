/* Reading the bytes of items. */
#include "format/base/read.h"
#include "tools/ffpack/source/remote/object_queue.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AHEAD_BYTES = 256 * 1024 };

struct ff_source_reader {
    const ff_source *source;
    ff_stream *stream;
    ff_stream_items items;        /* announced by ff_source_begin */
    ff_object_queue_reader queue; /* the same of objects */
    size_t items_at;              /* index of the last one found */
    uint32_t part;                /* the window's */
    uint64_t offset;
    size_t length;
    unsigned char *window;
    size_t capacity;
    int fd; /* part fd_part's, if the part has no descriptor; else -1 */
    uint32_t fd_part;
    ff_buffer path;
    ff_buffer made; /* by a part's unwrap */
};

ff_status ff_source_reader_create(ff_source_reader **out, const ff_source *source,
                                  struct ff_stream *stream, ff_error *error) {
    *out = NULL;
    ff_source_reader *reader;
    FF_TRY(ff_alloc(&reader, 1, sizeof *reader, "a source reader", error));
    reader->source = source;
    reader->stream = stream;
    reader->part = FF_PART_FILE;
    reader->fd = -1;
    *out = reader;
    return FF_OK;
}

void ff_source_reader_destroy(ff_source_reader **reader) {
    if (!*reader) return;
    ff_object_queue_leave(&(*reader)->queue);
    ff_stream_items_free(&(*reader)->items);
    ff_close_file(&(*reader)->fd);
    free((*reader)->window);
    ff_buffer_free(&(*reader)->path);
    ff_buffer_free(&(*reader)->made);
    free(*reader);
    *reader = NULL;
}

static ff_status changed(const char *path, uint64_t bytes, uint64_t listed, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA,
                   "%s: changed since it was listed: has %" PRIu64 " bytes, had %" PRIu64, path,
                   bytes, listed);
}

ff_status ff_source_item_path(const ff_source_split *split, const ff_item *item, ff_buffer *path,
                              ff_error *error) {
    const char *key = item->key;
    const bool absolute = item->key_bytes && *key == '/';
    path->length = 0;
    return ff_buffer_printf(path, error, "%s%s%.*s", absolute ? "" : split->root,
                            absolute ? "" : "/", (int)item->key_bytes, key);
}

static ff_status read_file(ff_source_reader *reader, const ff_source_split *split,
                           const ff_item *item, ff_error *error) {
    ff_buffer *path = &reader->path;
    reader->length = 0;
    FF_TRY(ff_source_item_path(split, item, path, error));
    int fd;
    uint64_t bytes;
    FF_TRY(ff_open_file(path->bytes, &fd, &bytes, error));
    ff_status status;
    if (bytes != item->bytes) FF_TRY_DONE(changed(path->bytes, bytes, item->bytes, error));
    if (bytes > FF_ENCODED_LIMIT_BYTES)
        FF_TRY_DONE(ff_fail(error, FF_BAD_DATA, "%s: has %" PRIu64 " bytes, more than %" PRIu64,
                            path->bytes, bytes, FF_ENCODED_LIMIT_BYTES));
    FF_TRY_DONE(
        ff_reserve(&reader->window, &reader->capacity, bytes + 1, 1, "an image file", error));
    FF_TRY_DONE(ff_read_at(fd, path->bytes, reader->window, bytes, 0, error));
done:
    ff_close_file(&fd);
    return status;
}

ff_status ff_source_begin(ff_source_reader *reader, uint64_t first, uint64_t end, ff_error *error) {
    if (!reader->stream) return FF_OK;
    ff_object_queue *queue = ff_stream_queue(reader->stream);
    if (queue) {
        ff_object_queue_begin(queue, &reader->queue, first, end);
        return FF_OK;
    }
    reader->items_at = 0;
    return ff_stream_take(reader->stream, first, end, &reader->items, error);
}

/* Items are mostly read in the order in which they were taken. */
static const unsigned char *find_taken(ff_source_reader *reader, const ff_item *item) {
    const ff_stream_items *items = &reader->items;
    for (size_t i = 0; i < items->count; i++) {
        size_t at = (reader->items_at + i) % items->count;
        if (items->place[at].part != item->part || items->place[at].offset != item->offset)
            continue;
        reader->items_at = at;
        return items->bytes + items->place[at].start;
    }
    return NULL;
}

/* *fd = the part's file, opened unless it is already open. */
static ff_status open_part(ff_source_reader *reader, uint32_t number, int *fd, ff_error *error) {
    const ff_source_part *part = &reader->source->part[number];
    *fd = part->fd;
    if (part->fd >= 0) return FF_OK;
    const ff_source_part *parts = reader->source->part;
    if (reader->fd < 0 ||
        (reader->fd_part != number && strcmp(parts[reader->fd_part].path, part->path) != 0)) {
        uint64_t bytes;
        ff_close_file(&reader->fd);
        FF_TRY(ff_source_open_file(part->path, &reader->fd, &bytes, error));
        reader->fd_part = number;
        if (bytes != part->bytes) {
            ff_close_file(&reader->fd);
            return changed(part->path, bytes, part->bytes, error);
        }
    }
    *fd = reader->fd;
    return FF_OK;
}

/* An object that was not announced is fetched now. */
static ff_status read_object(ff_source_reader *reader, const ff_source_split *split,
                             const ff_item *item, ff_error *error) {
    bool taken, own;
    reader->length = 0;
    FF_TRY(ff_object_queue_take(&reader->queue, item, &reader->window, &reader->capacity, &taken,
                                error));
    return taken ? FF_OK
                 : ff_object_read(split, item, &reader->path, &reader->window, &reader->capacity,
                                  &own, error);
}

static ff_status read_bytes(ff_source_reader *reader, const ff_source_split *split,
                            const ff_item *item, const unsigned char **bytes, ff_error *error) {
    if (item->part == FF_PART_FILE) {
        reader->part = FF_PART_FILE;
        FF_TRY(ff_elsewhere_folder() ? read_object(reader, split, item, error)
                                     : read_file(reader, split, item, error));
        *bytes = reader->window;
        return FF_OK;
    }
    if (reader->source->part[item->part].stream) {
        *bytes = find_taken(reader, item);
        assert(*bytes);
        return FF_OK;
    }
    if (reader->source->encoded && item->bytes > FF_ENCODED_LIMIT_BYTES)
        return ff_fail(error, FF_BAD_DATA, "%s: %.*s has %" PRIu64 " bytes, more than %" PRIu64,
                       reader->source->part[item->part].path, (int)item->key_bytes,
                       (const char *)item->key, item->bytes, FF_ENCODED_LIMIT_BYTES);
    uint64_t end = reader->offset + reader->length;
    bool same_part = item->part == reader->part;
    if (!same_part || item->offset < reader->offset || item->offset + item->bytes > end) {
        const ff_source_part *part = &reader->source->part[item->part];
        int fd;
        FF_TRY(open_part(reader, item->part, &fd, error));
        /* Read ahead when items are read in order, up to the end of the part. */
        bool in_order = same_part && item->offset >= reader->offset && item->offset <= end;
        size_t wanted = item->bytes;
        FF_TRY(ff_reserve(&reader->window, &reader->capacity,
                          wanted > AHEAD_BYTES ? wanted : AHEAD_BYTES, 1, "an item", error));
        reader->length = 0;
        FF_TRY(ff_read_some(fd, part->path, reader->window, wanted,
                            in_order && wanted < AHEAD_BYTES ? AHEAD_BYTES : wanted, item->offset,
                            &reader->length, error));
        reader->part = item->part;
        reader->offset = item->offset;
    }
    *bytes = reader->window + (item->offset - reader->offset);
    return FF_OK;
}

ff_status ff_source_read(ff_source_reader *reader, const ff_source_split *split,
                         const ff_item *item, ff_image_file *file, ff_error *error) {
    char name[1024];
    int fd = -1;
    file->length = item->bytes;
    FF_TRY(read_bytes(reader, split, item, &file->bytes, error));
    if (item->part == FF_PART_FILE) return FF_OK;
    const ff_source_part *part = &reader->source->part[item->part];
    if (!part->unwrap) return FF_OK;
    if (!part->stream) FF_TRY(open_part(reader, item->part, &fd, error));
    const ff_status status = part->unwrap(part, fd, &reader->made, file, error);
    if (status == FF_OK) return FF_OK;
    ff_source_item_name(reader->source, split, item, name, sizeof name);
    return ff_fail_within(error, status, "%s", name);
}

/* "PATH: record 3 at byte 4711", "PATH: row 3" */
static void name_record(const ff_source_part *part, const ff_item *item, char *text, size_t size) {
    const char *key = item->key, *colon = memrchr(key, ':', item->key_bytes);
    const char *number = colon ? colon + 1 : key;
    const int digits = (int)(key + item->key_bytes - number);
    if (part->stream == FF_STREAM_COLUMN)
        snprintf(text, size, "%s: row %.*s", part->path, digits, number);
    else
        snprintf(text, size, "%s: record %.*s at %sbyte %" PRIu64, part->path, digits, number,
                 part->stream ? "unpacked " : "", item->offset);
}

const char *ff_source_item_name(const ff_source *source, const ff_source_split *split,
                                const ff_item *item, char *text, size_t size) {
    const char *key = item->key;
    bool absolute = item->key_bytes && *key == '/';
    if (item->part == FF_PART_FILE)
        snprintf(text, size, "%s%s%.*s", absolute ? "" : split->root, absolute ? "" : "/",
                 (int)item->key_bytes, key);
    else if (source->part[item->part].records)
        name_record(&source->part[item->part], item, text, size);
    else
        snprintf(text, size, "%s: %s%.*s", source->part[item->part].path,
                 source->encoded ? "" : "item ", (int)item->key_bytes, (const char *)item->key);
    return text;
}
