/* Objects fetched ahead of their use, by threads that mostly wait for a server: a pass over a split
 * whose items are objects. Private to stream.c and read.c.
 *
 * Each reader has announced a range of positions that it reads in their order. Threads fetch the
 * items that readers need first, then those after the last announced range, which some reader will
 * announce. So any number of readers work at the same time, however many items a range has, and
 * what is fetched and not yet read is bounded in number and bytes. */
#ifndef FF_FFPACK_SOURCE_OBJECT_QUEUE_H
#define FF_FFPACK_SOURCE_OBJECT_QUEUE_H

#include "tools/ffpack/source/stream.h"

typedef struct ff_object_queue ff_object_queue;

/* The source, and what `range` points to, must outlive it. */
FF_MUST_USE ff_status ff_object_queue_create(ff_object_queue **queue, const ff_source_split *split,
                                             const ff_stream_range *range, ff_error *error);
/* As ff_stream_stop. */
void ff_object_queue_stop(ff_object_queue *queue, uint64_t first);
void ff_object_queue_destroy(ff_object_queue **queue);

/* One thread's; zeroed at first. */
typedef struct ff_object_queue_reader {
    ff_object_queue *queue;               /* NULL: nothing was announced */
    uint64_t at, end;                     /* the positions that are announced and not yet read */
    uint64_t next;                        /* the next of them to be fetched */
    struct ff_object_queue_reader *other; /* of the same pass */
} ff_object_queue_reader;

/* Announces positions first .. end - 1. */
void ff_object_queue_begin(ff_object_queue *queue, ff_object_queue_reader *reader, uint64_t first,
                           uint64_t end);
/* Takes the next announced item, which must be `item`: *bytes = its bytes, which replace what
 * *bytes pointed to. *announced = false, and nothing is done: all that was announced has been read.
 * A failure is the item's alone if it is gone or has another size; else it ends the pass. */
FF_MUST_USE ff_status ff_object_queue_take(ff_object_queue_reader *reader, const ff_item *item,
                                           unsigned char **bytes, size_t *capacity, bool *announced,
                                           ff_error *error);
/* Before the pass is destroyed. */
void ff_object_queue_leave(ff_object_queue_reader *reader);

/* Reads the whole object of an item into *bytes, which has room for *capacity and grows. *own: a
 * failure is the item's alone. `path` is the caller's for its name. */
FF_MUST_USE ff_status ff_object_read(const ff_source_split *split, const ff_item *item,
                                     ff_buffer *path, unsigned char **bytes, size_t *capacity,
                                     bool *own, ff_error *error);

#endif
