#include "tools/ffpack/source/stream.h"

#include "format/base/bytes.h"
#include "format/base/file.h"
#include "format/base/read.h"
#include "tools/ffpack/source/archive/archive.h"
#include "tools/ffpack/source/input.h"
#include "tools/ffpack/source/parquet/reader.h"
#include "tools/ffpack/source/remote/object_queue.h"
#include "tools/ffpack/source/sorter.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- the order of reading ------------------------------------------------------------------ */

enum { PLACE_BYTES = 12, FLUSH_ITEMS = 16384 };

static ff_status sort_places(ff_sorter *sorter, ff_listing *listing, bool *streams,
                             const ff_source *source, ff_error *error) {
    ff_listing_cursor *cursor;
    FF_TRY(ff_listing_cursor_create(&cursor, listing, error));
    ff_status status = FF_OK;
    uint64_t count = ff_listing_count(listing);
    for (uint64_t number = 0; number < count && status == FF_OK; number++) {
        ff_item item;
        status = ff_listing_item(cursor, number, &item, error);
        if (status != FF_OK) break;
        if (item.part != FF_PART_FILE && source->part[item.part].stream) *streams = true;
        unsigned char place[PLACE_BYTES]; /* big-endian: compares like numbers */
        for (int i = 0; i < 4; i++) place[i] = (unsigned char)(item.part >> (24 - 8 * i));
        for (int i = 0; i < 8; i++) place[4 + i] = (unsigned char)(item.offset >> (56 - 8 * i));
        status = ff_sorter_add(sorter,
                               &(ff_sorter_record){.key = place,
                                                   .key_bytes = sizeof place,
                                                   .payload = &number,
                                                   .payload_bytes = sizeof number},
                               error);
    }
    ff_listing_cursor_destroy(&cursor);
    return status;
}

/* Writes the sorted numbers to a file and maps it. */
static ff_status write_order(ff_sorter *sorter, const char *directory, ff_source_split *split,
                             ff_error *error) {
    int fd;
    uint64_t written = 0, pending_count = 0;
    uint64_t *pending;
    FF_TRY(ff_open_temporary(directory, &fd, error));
    ff_status status = ff_alloc(&pending, FLUSH_ITEMS, sizeof *pending, "storage order", error);
    bool more = true;
    while (status == FF_OK && more) {
        ff_sorter_record record;
        status = ff_sorter_next(sorter, &record, &more, error);
        if (status == FF_OK && more) memcpy(&pending[pending_count++], record.payload, 8);
        if (status == FF_OK && (!more || pending_count == FLUSH_ITEMS)) {
            size_t bytes = pending_count * sizeof *pending;
            status = ff_write_temporary(fd, directory, pending, bytes, written, error);
            written += bytes;
            pending_count = 0;
        }
    }
    free(pending);
    if (status == FF_OK) {
        void *map = mmap(NULL, written, PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED)
            status = ff_fail_errno(error, "%s: cannot map temporary space", directory);
        else
            split->order = map;
    }
    ff_close_file(&fd);
    return status;
}

ff_status ff_stream_order(const ff_source *source, ff_source_split *split, ff_error *error) {
    bool streams = false;
    for (size_t i = 0; i < source->part_count; i++) streams |= source->part[i].stream;
    if (!streams) return FF_OK;
    streams = false;
    ff_sorter *sorter;
    FF_TRY(ff_sorter_create(&sorter, source->temporary, error));
    ff_status status = sort_places(sorter, split->listing, &streams, source, error);
    if (status == FF_OK && streams) status = write_order(sorter, source->temporary, split, error);
    ff_sorter_destroy(&sorter);
    return status;
}

/* ---- a pass -------------------------------------------------------------------------------- */

struct ff_stream {
    ff_object_queue *queue; /* of objects; then nothing else is used */
    const ff_source *source;
    const ff_source_split *split;
    ff_listing_cursor *cursor;
    pthread_mutex_t mutex;
    pthread_cond_t turn;
    uint64_t next;    /* the next position to be taken */
    uint64_t stop_at; /* positions above it will not be taken */
    ff_archive *archive;
    ff_input *input;           /* of a compressed file */
    ff_parquet_column *column; /* of a parquet file */
    uint32_t part;             /* that one of them reads */
};

ff_status ff_stream_create(ff_stream **out, const ff_source *source, const ff_source_split *split,
                           const ff_stream_range *range, ff_error *error) {
    *out = NULL;
    if (!split->order && !(ff_elsewhere_folder() && split->root)) return FF_OK;
    ff_stream *stream;
    FF_TRY(ff_alloc(&stream, 1, sizeof *stream, "a stream", error));
    stream->source = source;
    stream->split = split;
    stream->next = range->first;
    stream->stop_at = UINT64_MAX;
    pthread_mutex_init(&stream->mutex, NULL);
    pthread_cond_init(&stream->turn, NULL);
    ff_status status = split->order
                           ? ff_listing_cursor_create(&stream->cursor, split->listing, error)
                           : ff_object_queue_create(&stream->queue, split, range, error);
    if (status == FF_OK)
        *out = stream;
    else
        ff_stream_destroy(&stream);
    return status;
}

static ff_status changed(const ff_source_part *part, const ff_item *item, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA, "%s: changed since it was listed: %.*s is not where it was",
                   part->path, (int)item->key_bytes, (const char *)item->key);
}

static void close_part(ff_stream *stream) {
    ff_archive_close(&stream->archive);
    ff_input_close(&stream->input);
    ff_parquet_column_close(&stream->column);
}

/* Advances to the item's member. */
static ff_status find_member(ff_stream *stream, const ff_item *item, ff_error *error) {
    const ff_source_part *part = &stream->source->part[item->part];
    if (!stream->archive || stream->part != item->part) {
        close_part(stream);
        FF_TRY(ff_archive_open(&stream->archive, part->path, part->nested, error));
        stream->part = item->part;
    }
    for (;;) {
        ff_archive_member member;
        FF_TRY(ff_archive_next(stream->archive, &member, error));
        if (!member.name || member.ordinal > item->offset) return changed(part, item, error);
        if (member.ordinal < item->offset) continue;
        return member.kind == FF_ARCHIVE_FILE && member.bytes == item->bytes
                   ? FF_OK
                   : changed(part, item, error);
    }
}

static ff_status read_member(ff_stream *stream, const ff_item *item, void *to, ff_error *error) {
    size_t got;
    FF_TRY(find_member(stream, item, error));
    FF_TRY(ff_archive_read(stream->archive, to, item->bytes, &got, error));
    return got == item->bytes ? FF_OK : changed(&stream->source->part[item->part], item, error);
}

/* The bytes may have been read before, if items share some. */
static ff_status read_packed(ff_stream *stream, const ff_item *item, void *to, ff_error *error) {
    const ff_source_part *part = &stream->source->part[item->part];
    const bool same = stream->input && stream->part == item->part;
    if (!same || ff_input_at(stream->input) > item->offset) {
        close_part(stream);
        FF_TRY(ff_input_open_zstd(&stream->input, part->path, error));
        stream->part = item->part;
    }
    FF_TRY(ff_input_skip_to(stream->input, item->offset, "a record", error));
    return ff_input_exactly(stream->input, to, item->bytes, "a record", error);
}

static ff_status read_row(ff_stream *stream, const ff_item *item, void *to, ff_error *error) {
    const ff_source_part *part = &stream->source->part[item->part];
    ff_parquet_value value;
    if (!stream->column || stream->part != item->part) {
        close_part(stream);
        FF_TRY(ff_parquet_column_open(&stream->column, part->path, part->column, error));
        stream->part = item->part;
    }
    FF_TRY(ff_parquet_column_row(stream->column, item->offset, &value, error));
    if (value.null || value.length != item->bytes) return changed(part, item, error);
    memcpy(to, value.bytes, value.length);
    return FF_OK;
}

static ff_status read_bytes(ff_stream *stream, const ff_item *item, void *to, ff_error *error) {
    switch (stream->source->part[item->part].stream) {
    case FF_STREAM_BYTES: return read_packed(stream, item, to, error);
    case FF_STREAM_COLUMN: return read_row(stream, item, to, error);
    case FF_STREAM_ARCHIVE:
    case FF_STREAM_NONE: break;
    }
    return read_member(stream, item, to, error);
}

static ff_status read_items(ff_stream *stream, uint64_t first, uint64_t end, ff_stream_items *items,
                            ff_error *error) {
    for (uint64_t position = first; position < end; position++) {
        ff_item item;
        FF_TRY(ff_listing_item(stream->cursor, stream->split->order[position], &item, error));
        if (item.part == FF_PART_FILE || !stream->source->part[item.part].stream) continue;
        FF_TRY(ff_reserve(&items->place, &items->capacity, items->count + 1, sizeof *items->place,
                          "items", error));
        FF_TRY(ff_reserve(&items->bytes, &items->bytes_capacity, items->used + item.bytes + 1, 1,
                          "items", error));
        FF_TRY(read_bytes(stream, &item, items->bytes + items->used, error));
        items->place[items->count++] = (struct ff_stream_place){
            .part = item.part, .offset = item.offset, .start = items->used};
        items->used += item.bytes;
    }
    return FF_OK;
}

ff_status ff_stream_take(ff_stream *stream, uint64_t first, uint64_t end, ff_stream_items *items,
                         ff_error *error) {
    items->count = items->used = 0;
    pthread_mutex_lock(&stream->mutex);
    while (stream->next != first && stream->stop_at >= first)
        pthread_cond_wait(&stream->turn, &stream->mutex);
    ff_status status = FF_OK;
    if (stream->next != first)
        status = ff_fail(error, FF_INTERRUPTED, "stopped before its turn came");
    else
        status = read_items(stream, first, end, items, error);
    if (status == FF_OK)
        stream->next = end;
    else if (stream->stop_at > first)
        stream->stop_at = first;
    pthread_cond_broadcast(&stream->turn);
    pthread_mutex_unlock(&stream->mutex);
    return status;
}

void ff_stream_stop(ff_stream *stream, uint64_t first) {
    if (!stream) return;
    if (stream->queue) return ff_object_queue_stop(stream->queue, first);
    pthread_mutex_lock(&stream->mutex);
    if (stream->stop_at > first) stream->stop_at = first;
    pthread_cond_broadcast(&stream->turn);
    pthread_mutex_unlock(&stream->mutex);
}

ff_object_queue *ff_stream_queue(const ff_stream *stream) {
    return stream->queue;
}

void ff_stream_destroy(ff_stream **stream) {
    if (!*stream) return;
    ff_object_queue_destroy(&(*stream)->queue);
    close_part(*stream);
    ff_listing_cursor_destroy(&(*stream)->cursor);
    pthread_cond_destroy(&(*stream)->turn);
    pthread_mutex_destroy(&(*stream)->mutex);
    free(*stream);
    *stream = NULL;
}

void ff_stream_items_free(ff_stream_items *items) {
    free(items->place);
    free(items->bytes);
    *items = (ff_stream_items){0};
}
