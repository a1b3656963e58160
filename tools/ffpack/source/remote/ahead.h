/* Objects fetched ahead of their use, by threads that mostly wait for a server: a pass over a split
 * whose items are objects. Private to stream.c and read.c.
 *
 * Each reader has announced a range of positions that it reads in their order. Threads fetch the
 * items that readers need first, then those after the last announced range, which some reader will
 * announce. So any number of readers work at the same time, however many items a range has, and
 * what is fetched and not yet read is bounded in number and bytes. */
#ifndef FF_FFPACK_SOURCE_AHEAD_H
#define FF_FFPACK_SOURCE_AHEAD_H

#include "tools/ffpack/source/stream.h"

typedef struct ff_ahead ff_ahead;

/* The source, and what `range` points to, must outlive it. */
FF_MUST_USE ff_status ff_ahead_create(ff_ahead **ahead, const ff_source_split *split,
                                      const ff_stream_range *range, ff_error *error);
/* As ff_stream_stop. */
void ff_ahead_stop(ff_ahead *ahead, uint64_t first);
void ff_ahead_destroy(ff_ahead **ahead);

/* One thread's; zeroed at first. */
typedef struct ff_ahead_reader {
    ff_ahead *ahead;               /* NULL: nothing was announced */
    uint64_t at, end;              /* the positions that are announced and not yet read */
    uint64_t next;                 /* the next of them to be fetched */
    struct ff_ahead_reader *other; /* of the same pass */
} ff_ahead_reader;

/* Announces positions first .. end - 1. */
void ff_ahead_begin(ff_ahead *ahead, ff_ahead_reader *reader, uint64_t first, uint64_t end);
/* Takes the next announced item, which must be `item`: *bytes = its bytes, which replace what
 * *bytes pointed to. *announced = false, and nothing is done: all that was announced has been read.
 * A failure is the item's alone if it is gone or has another size; else it ends the pass. */
FF_MUST_USE ff_status ff_ahead_take(ff_ahead_reader *reader, const ff_item *item,
                                    unsigned char **bytes, size_t *capacity, bool *announced,
                                    ff_error *error);
/* Before the pass is destroyed. */
void ff_ahead_leave(ff_ahead_reader *reader);

/* Reads the whole object of an item into *bytes, which has room for *capacity and grows. *own: a
 * failure is the item's alone. `path` is the caller's for its name. */
FF_MUST_USE ff_status ff_object_read(const ff_source_split *split, const ff_item *item,
                                     ff_buffer *path, unsigned char **bytes, size_t *capacity,
                                     bool *own, ff_error *error);

#endif
