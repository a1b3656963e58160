/* Items that are not read one by one: a pass over a split hands their bytes to threads.
 *
 * A pass reads each archive that allows only sequential reading once. The order of reading is also
 * the storage order; nothing is unpacked to disk. Objects of a bucket are fetched
 * ahead, in the order in which they are taken (remote/object_queue.h). */
#ifndef FF_FFPACK_SOURCE_STREAM_H
#define FF_FFPACK_SOURCE_STREAM_H

#include "tools/ffpack/source/source.h"

/* Sets the storage order of a listed split if some of its items are in streams: by part, then by
 * offset. */
FF_MUST_USE ff_status ff_stream_order(const ff_source *source, ff_source_split *split,
                                      ff_error *error);

/* One pass. Any number of threads take from it. `source` must outlive it. */
typedef struct ff_stream ff_stream;

/* The positions of a pass, first .. end - 1, and the items there. */
typedef struct ff_stream_range {
    uint64_t first, end;
    /* The item at a position, UINT64_MAX = none is read there; called by any thread. NULL: that of
     * ff_source_item_at, as always for archives. */
    uint64_t (*item)(const void *context, uint64_t position);
    const void *context; /* must outlive the pass */
} ff_stream_range;

/* *stream = NULL if the split needs no pass. */
FF_MUST_USE ff_status ff_stream_create(ff_stream **stream, const ff_source *source,
                                       const ff_source_split *split, const ff_stream_range *range,
                                       ff_error *error);

/* The bytes of consecutive items. Zero-initialised `{0}`; belongs to one thread. */
typedef struct ff_stream_items {
    struct ff_stream_place {
        uint32_t part;
        uint64_t offset; /* the item's offset, and its bytes' offset in `bytes` */
        size_t start;
    } * place;
    size_t count, capacity;
    unsigned char *bytes;
    size_t used, bytes_capacity;
} ff_stream_items;

/* Reads the items at positions first .. end - 1 when it is their turn: positions are taken in
 * order, each by one thread, so a thread only waits for lower ones. Items outside streams are
 * skipped. After a failure all higher positions fail too. */
FF_MUST_USE ff_status ff_stream_take(ff_stream *stream, uint64_t first, uint64_t end,
                                     ff_stream_items *items, ff_error *error);

/* Declares that position `first` will not be taken: threads that wait for higher ones fail. */
void ff_stream_stop(ff_stream *stream, uint64_t first);

/* What fetches the objects of the pass, if its items are objects; else NULL. */
struct ff_object_queue;
struct ff_object_queue *ff_stream_queue(const ff_stream *stream);

void ff_stream_destroy(ff_stream **stream);
void ff_stream_items_free(ff_stream_items *items);

#endif
