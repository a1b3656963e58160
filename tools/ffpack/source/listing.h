/* The listing of a split: its items in the order of their numbers, kept on disk in unnamed files,
 * so that memory does not grow with the dataset.
 *
 * Thread rule: one thread adds; after ff_listing_finish any number of threads read, each with its
 * own cursor. */
#ifndef FF_FFPACK_LISTING_H
#define FF_FFPACK_LISTING_H

#include "format/base/memory.h"

/* The place of an item's bytes: part `part` of the source, or, with FF_PART_FILE, the file named by
 * the split's folder and the key. */
#define FF_PART_FILE UINT32_MAX

typedef struct ff_item {
    uint32_t part;
    uint64_t offset, bytes;
    const void *key; /* not zero-terminated */
    size_t key_bytes;
    const void *labels; /* label_bytes: the fields' values in order, packed */
} ff_item;

/* "NAME:NUMBER", the key of a record of a file; returns its length. A longer name is cut. */
enum { FF_RECORD_NAME_BYTES = 480, FF_RECORD_KEY_BYTES = FF_RECORD_NAME_BYTES + 21 };
size_t ff_record_key(char key[FF_RECORD_KEY_BYTES], const char *name, uint64_t number);

typedef struct ff_listing ff_listing;

/* `directory` holds the temporary space. */
FF_MUST_USE ff_status ff_listing_create(ff_listing **listing, const char *directory,
                                        size_t label_bytes, ff_error *error);
FF_MUST_USE ff_status ff_listing_add(ff_listing *listing, const ff_item *item, ff_error *error);

/* Nothing may be added after it. */
FF_MUST_USE ff_status ff_listing_finish(ff_listing *listing, ff_error *error);

uint64_t ff_listing_count(const ff_listing *listing);
uint64_t ff_listing_key_bytes(const ff_listing *listing); /* sum of the keys' */

/* After ff_listing_finish: lets bytes of an item count for the hash, too. */
void ff_listing_add_content(ff_listing *listing, const void *bytes, size_t length);

/* XXH3-128 of keys, sizes and labels in order, and of the bytes added by ff_listing_add_content. It
 * detects a changed source. */
void ff_listing_hash(const ff_listing *listing, uint8_t hash[16]);

void ff_listing_destroy(ff_listing **listing);

/* A thread's view. Memory: at most 1024 items. `listing` must outlive it. */
typedef struct ff_listing_cursor ff_listing_cursor;
FF_MUST_USE ff_status ff_listing_cursor_create(ff_listing_cursor **cursor, ff_listing *listing,
                                               ff_error *error);
/* Item `number` < count; its pointers are valid until the next call on this cursor. */
FF_MUST_USE ff_status ff_listing_item(ff_listing_cursor *cursor, uint64_t number, ff_item *item,
                                      ff_error *error);
void ff_listing_cursor_destroy(ff_listing_cursor **cursor);

/* Calls visit with each item, in order, until a call fails; returns that call's status. The item is
 * valid during the call. */
typedef ff_status ff_item_visitor(void *context, const ff_item *item, ff_error *error);
FF_MUST_USE ff_status ff_listing_visit(ff_listing *listing, ff_item_visitor *visit, void *context,
                                       ff_error *error);

#endif
