/* Items in archives that can only be read from front to back: a pass over a split reads each
 * archive once, and hands the items' bytes to threads in the order of reading, which is the order
 * the samples are stored in. Nothing is unpacked to disk. */
#ifndef FF_FFPACK_SOURCE_STREAM_H
#define FF_FFPACK_SOURCE_STREAM_H

#include "tools/ffpack/source/source.h"

/* Gives a listed split its order of reading where some of its items lie in streams: by part, then
 * by offset. */
FF_MUST_USE ff_status ff_stream_order(const ff_source *source, ff_source_split *split,
                                      ff_error *error);

/* One pass. Any number of threads take from it. `source` outlives it. */
typedef struct ff_stream ff_stream;

/* A pass from storage position `first` on. *stream = NULL where the split needs none. */
FF_MUST_USE ff_status ff_stream_create(ff_stream **stream, const ff_source *source,
                                       const ff_source_split *split, uint64_t first,
                                       ff_error *error);

/* The bytes of a run of items, one after the other. Zero-initialised `{0}`; a thread's own. */
typedef struct ff_stream_items {
    struct ff_stream_place {
        uint32_t part;
        uint64_t offset; /* the item's, and of its bytes in `bytes` */
        size_t start;
    } * place;
    size_t count, capacity;
    unsigned char *bytes;
    size_t used, bytes_capacity;
} ff_stream_items;

/* Reads the items at positions first .. end - 1 when their turn has come: positions are taken in
 * order, each by one thread, so whoever waits waits for lower ones only. Items of other parts than
 * streams are left out. After a failure all higher positions fail too. */
FF_MUST_USE ff_status ff_stream_take(ff_stream *stream, uint64_t first, uint64_t end,
                                     ff_stream_items *items, ff_error *error);

/* Says that nobody will take position `first`: who waits for its turn after it fails. */
void ff_stream_stop(ff_stream *stream, uint64_t first);

void ff_stream_destroy(ff_stream **stream);
void ff_stream_items_free(ff_stream_items *items);

#endif
