/* Reading the bytes of items. */
#include "tools/ffpack/source/disk.h"
#include "tools/ffpack/source/source.h"
#include "tools/ffpack/source/stream.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AHEAD_BYTES = 256 * 1024 };

struct ff_source_reader {
    const ff_source *source;
    ff_stream *stream;
    ff_stream_items items; /* those that were begun */
    size_t items_at;       /* where the last one was found */
    uint32_t part;         /* of the window */
    uint64_t offset;
    size_t length;
    unsigned char *window;
    size_t capacity;
    ff_buffer path;
};

ff_status ff_source_reader_create(ff_source_reader **out, const ff_source *source,
                                  struct ff_stream *stream, ff_error *error) {
    *out = NULL;
    ff_source_reader *reader;
    FF_TRY(ff_alloc(&reader, 1, sizeof *reader, "a source reader", error));
    reader->source = source;
    reader->stream = stream;
    reader->part = FF_PART_FILE;
    *out = reader;
    return FF_OK;
}

void ff_source_reader_destroy(ff_source_reader **reader) {
    if (!*reader) return;
    ff_stream_items_free(&(*reader)->items);
    free((*reader)->window);
    ff_buffer_free(&(*reader)->path);
    free(*reader);
    *reader = NULL;
}

static ff_status read_file(ff_source_reader *reader, const ff_source_split *split,
                           const ff_item *item, ff_error *error) {
    ff_buffer *path = &reader->path;
    path->length = 0;
    reader->length = 0;
    FF_TRY(ff_buffer_printf(path, error, "%s/%.*s", split->root, (int)item->key_bytes,
                            (const char *)item->key));
    int fd;
    uint64_t bytes;
    FF_TRY(ff_disk_open(path->bytes, &fd, &bytes, error));
    ff_status status = FF_OK;
    if (bytes != item->bytes)
        status = ff_fail(error, FF_BAD_DATA,
                         "%s: changed since it was listed: has %" PRIu64 " bytes, had %" PRIu64,
                         path->bytes, bytes, item->bytes);
    else if (bytes > FF_ENCODED_LIMIT_BYTES)
        status = ff_fail(error, FF_BAD_DATA, "%s: has %" PRIu64 " bytes, more than %" PRIu64,
                         path->bytes, bytes, FF_ENCODED_LIMIT_BYTES);
    if (status == FF_OK)
        status =
            ff_reserve(&reader->window, &reader->capacity, bytes + 1, 1, "an image file", error);
    if (status == FF_OK) status = ff_disk_read_at(fd, path->bytes, reader->window, bytes, 0, error);
    ff_disk_close(&fd);
    return status;
}

ff_status ff_source_begin(ff_source_reader *reader, uint64_t first, uint64_t end, ff_error *error) {
    if (!reader->stream) return FF_OK;
    reader->items_at = 0;
    return ff_stream_take(reader->stream, first, end, &reader->items, error);
}

/* Items are read in the order they were taken in, mostly. */
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

ff_status ff_source_read(ff_source_reader *reader, const ff_source_split *split,
                         const ff_item *item, const unsigned char **bytes, ff_error *error) {
    if (item->part == FF_PART_FILE) {
        reader->part = FF_PART_FILE;
        FF_TRY(read_file(reader, split, item, error));
        *bytes = reader->window;
        return FF_OK;
    }
    if (reader->source->part[item->part].stream) {
        *bytes = find_taken(reader, item);
        assert(*bytes);
        return FF_OK;
    }
    uint64_t end = reader->offset + reader->length;
    bool same_part = item->part == reader->part;
    if (!same_part || item->offset < reader->offset || item->offset + item->bytes > end) {
        const ff_source_part *part = &reader->source->part[item->part];
        /* In order the window runs ahead; at the end of the part it gets what there is. */
        bool in_order = same_part && item->offset >= reader->offset && item->offset <= end;
        size_t wanted = item->bytes;
        FF_TRY(ff_reserve(&reader->window, &reader->capacity,
                          wanted > AHEAD_BYTES ? wanted : AHEAD_BYTES, 1, "an item", error));
        reader->length = 0;
        FF_TRY(ff_disk_read_some(part->fd, part->path, reader->window, wanted,
                                 in_order && wanted < AHEAD_BYTES ? AHEAD_BYTES : wanted,
                                 item->offset, &reader->length, error));
        reader->part = item->part;
        reader->offset = item->offset;
    }
    *bytes = reader->window + (item->offset - reader->offset);
    return FF_OK;
}

const char *ff_source_item_name(const ff_source *source, const ff_source_split *split,
                                const ff_item *item, char *text, size_t size) {
    if (item->part == FF_PART_FILE)
        snprintf(text, size, "%s/%.*s", split->root, (int)item->key_bytes, (const char *)item->key);
    else
        snprintf(text, size, "%s: %s%.*s", source->part[item->part].path,
                 source->encoded ? "" : "item ", (int)item->key_bytes, (const char *)item->key);
    return text;
}
