/* Two temporary files: entries of a fixed stride (struct entry, then the labels), and the keys. */
#include "tools/ffpack/source/listing.h"

#include "format/base/file.h"
#include "format/base/read.h"
#include "format/cli/interrupt.h"
#include "format/disk/checksum.h"
#include "format/disk/metadata.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FLUSH_BYTES = 1 << 18, WINDOW_ITEMS = 1024, WINDOW_BYTES = 1 << 18 };

typedef struct entry {
    uint64_t offset, bytes, key_offset;
    uint32_t part, key_bytes;
} entry;

/* Bytes added but not yet written to the file. */
typedef struct tail {
    int fd;
    uint64_t written;
    ff_buffer pending;
} tail;

struct ff_listing {
    char *directory;
    size_t label_bytes, stride;
    tail entries, keys;
    uint64_t count;
    XXH3_state_t *hasher;
    uint8_t hash[16];
};

/* By hand: printf would be half of the time to list an array. */
size_t ff_record_key(char key[FF_RECORD_KEY_BYTES], const char *name, uint64_t number) {
    char digits[20];
    size_t length = strnlen(name, FF_RECORD_NAME_BYTES), count = 0;
    memcpy(key, name, length);
    key[length++] = ':';
    do digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    while (count) key[length++] = digits[--count];
    return length;
}

/* A long listing can also be interrupted here. */
static ff_status tail_flush(tail *out, const char *directory, ff_error *error) {
    if (!out->pending.length) return FF_OK;
    FF_TRY(ff_interrupt_check(error));
    FF_TRY(ff_write_temporary(out->fd, directory, out->pending.bytes, out->pending.length,
                              out->written, error));
    out->written += out->pending.length;
    out->pending.length = 0;
    return FF_OK;
}

static ff_status tail_add(tail *out, const char *directory, const void *bytes, size_t length,
                          ff_error *error) {
    FF_TRY(ff_buffer_add(&out->pending, bytes, length, error));
    return out->pending.length >= FLUSH_BYTES ? tail_flush(out, directory, error) : FF_OK;
}

ff_status ff_listing_create(ff_listing **out, const char *directory, size_t label_bytes,
                            ff_error *error) {
    *out = NULL;
    ff_listing *listing;
    FF_TRY(ff_alloc(&listing, 1, sizeof *listing, "a listing", error));
    listing->entries.fd = listing->keys.fd = -1;
    listing->label_bytes = label_bytes;
    listing->stride = sizeof(entry) + ff_align_u64(label_bytes, 8);
    listing->hasher = XXH3_createState();
    ff_status status;
    if (!listing->hasher || XXH3_128bits_reset(listing->hasher) != XXH_OK)
        FF_TRY_DONE(ff_fail(error, FF_NO_MEMORY, "not enough memory for a checksum"));
    FF_TRY_DONE(ff_copy_string(&listing->directory, directory, error));
    FF_TRY_DONE(ff_open_temporary(directory, &listing->entries.fd, error));
    FF_TRY_DONE(ff_open_temporary(directory, &listing->keys.fd, error));
done:
    if (status == FF_OK)
        *out = listing;
    else
        ff_listing_destroy(&listing);
    return status;
}

ff_status ff_listing_add(ff_listing *listing, const ff_item *item, ff_error *error) {
    static const char zero[8];
    if (item->key_bytes > FF_KEY_LIMIT_BYTES)
        return ff_fail(error, FF_BAD_DATA,
                       "item %" PRIu64 ": its name %.60s... has %zu bytes, at most %u are allowed",
                       listing->count, (const char *)item->key, item->key_bytes,
                       FF_KEY_LIMIT_BYTES);
    entry row = {.offset = item->offset,
                 .bytes = item->bytes,
                 .key_offset = listing->keys.written + listing->keys.pending.length,
                 .part = item->part,
                 .key_bytes = (uint32_t)item->key_bytes};
    FF_TRY(tail_add(&listing->keys, listing->directory, item->key, item->key_bytes, error));
    FF_TRY(tail_add(&listing->entries, listing->directory, &row, sizeof row, error));
    size_t labels = listing->label_bytes;
    if (labels)
        FF_TRY(tail_add(&listing->entries, listing->directory, item->labels, labels, error));
    FF_TRY(tail_add(&listing->entries, listing->directory, zero,
                    listing->stride - sizeof row - labels, error));

    unsigned char sizes[12];
    ff_store_u32(sizes, row.key_bytes);
    ff_store_u64(sizes + 4, row.bytes);
    ff_hash_update(listing->hasher, sizes, sizeof sizes);
    ff_hash_update(listing->hasher, item->key, item->key_bytes);
    if (labels) ff_hash_update(listing->hasher, item->labels, labels);

    listing->count++;
    return FF_OK;
}

ff_status ff_listing_finish(ff_listing *listing, ff_error *error) {
    FF_TRY(tail_flush(&listing->entries, listing->directory, error));
    FF_TRY(tail_flush(&listing->keys, listing->directory, error));
    ff_buffer_free(&listing->entries.pending);
    ff_buffer_free(&listing->keys.pending);
    ff_id_store(listing->hash, ff_hash_digest(listing->hasher));
    return FF_OK;
}

void ff_listing_add_content(ff_listing *listing, const void *bytes, size_t length) {
    ff_hash_update(listing->hasher, bytes, length);
    ff_id_store(listing->hash, ff_hash_digest(listing->hasher));
}

uint64_t ff_listing_count(const ff_listing *listing) {
    return listing->count;
}

uint64_t ff_listing_key_bytes(const ff_listing *listing) {
    return listing->keys.written;
}

void ff_listing_hash(const ff_listing *listing, uint8_t hash[16]) {
    memcpy(hash, listing->hash, 16);
}

void ff_listing_destroy(ff_listing **listing) {
    if (!*listing) return;
    ff_close_file(&(*listing)->entries.fd);
    ff_close_file(&(*listing)->keys.fd);
    ff_buffer_free(&(*listing)->entries.pending);
    ff_buffer_free(&(*listing)->keys.pending);
    XXH3_freeState((*listing)->hasher);
    free((*listing)->directory);
    free(*listing);
    *listing = NULL;
}

/* ---- reading ------------------------------------------------------------------------------- */

struct ff_listing_cursor {
    ff_listing *listing;
    uint64_t first;      /* number of the window's first item */
    size_t count, room;  /* items in the window, and its capacity */
    size_t used;         /* how many were used since it was loaded */
    char *rows;          /* [room] of listing->stride */
    uint64_t keys_first; /* offset of the window's keys in their file */
    char *keys;
    size_t keys_capacity;
};

ff_status ff_listing_cursor_create(ff_listing_cursor **out, ff_listing *listing, ff_error *error) {
    *out = NULL;
    ff_listing_cursor *cursor;
    FF_TRY(ff_alloc(&cursor, 1, sizeof *cursor, "a listing cursor", error));
    cursor->listing = listing;
    cursor->room = WINDOW_BYTES / listing->stride;
    if (cursor->room > WINDOW_ITEMS) cursor->room = WINDOW_ITEMS;
    if (cursor->room < 1) cursor->room = 1;
    ff_status status =
        ff_alloc(&cursor->rows, cursor->room, listing->stride, "a listing cursor", error);
    if (status == FF_OK)
        *out = cursor;
    else
        ff_listing_cursor_destroy(&cursor);
    return status;
}

static entry row_of(const ff_listing_cursor *cursor, size_t index) {
    entry row;
    memcpy(&row, cursor->rows + index * cursor->listing->stride, sizeof row);
    return row;
}

/* The window grows while most of it is used, as in any ascending order, and otherwise shrinks to
 * single items. */
static ff_status load(ff_listing_cursor *cursor, uint64_t number, ff_error *error) {
    static const char what[] = "temporary listing";
    ff_listing *listing = cursor->listing;
    size_t count = cursor->used * 2 >= cursor->count ? cursor->count * 4 : 1;
    uint64_t left = listing->count - number;
    if (count < 1) count = 1;
    if (count > cursor->room) count = cursor->room;
    if (count > left) count = left;
    cursor->count = 0;
    FF_TRY(ff_read_at(listing->entries.fd, what, cursor->rows, count * listing->stride,
                      number * listing->stride, error));
    entry first = row_of(cursor, 0), last = row_of(cursor, count - 1);
    uint64_t keys_bytes = last.key_offset + last.key_bytes - first.key_offset;
    FF_TRY(ff_reserve(&cursor->keys, &cursor->keys_capacity, keys_bytes, 1, "item names", error));
    FF_TRY(ff_read_at(listing->keys.fd, what, cursor->keys, keys_bytes, first.key_offset, error));
    cursor->keys_first = first.key_offset;
    cursor->first = number;
    cursor->count = count;
    cursor->used = 0;
    return FF_OK;
}

ff_status ff_listing_item(ff_listing_cursor *cursor, uint64_t number, ff_item *item,
                          ff_error *error) {
    if (number < cursor->first || number >= cursor->first + cursor->count)
        FF_TRY(load(cursor, number, error));
    size_t index = number - cursor->first;
    cursor->used++;
    entry row = row_of(cursor, index);
    *item = (ff_item){.part = row.part,
                      .offset = row.offset,
                      .bytes = row.bytes,
                      .key = cursor->keys + (row.key_offset - cursor->keys_first),
                      .key_bytes = row.key_bytes,
                      .labels = cursor->rows + index * cursor->listing->stride + sizeof row};
    return FF_OK;
}

void ff_listing_cursor_destroy(ff_listing_cursor **cursor) {
    if (!*cursor) return;
    free((*cursor)->rows);
    free((*cursor)->keys);
    free(*cursor);
    *cursor = NULL;
}

ff_status ff_listing_visit(ff_listing *listing, ff_item_visitor *visit, void *context,
                           ff_error *error) {
    ff_listing_cursor *cursor;
    FF_TRY(ff_listing_cursor_create(&cursor, listing, error));
    ff_status status = FF_OK;
    for (uint64_t i = 0; i < ff_listing_count(listing) && status == FF_OK; i++) {
        ff_item item;
        status = ff_listing_item(cursor, i, &item, error);
        if (status == FF_OK) status = visit(context, &item, error);
    }
    ff_listing_cursor_destroy(&cursor);
    return status;
}
