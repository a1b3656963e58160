/* Blocks of a GPU's memory for batches. Private to loader/library/.
 *
 * Life of a block: ff_library_pool_take -> its owner -> ff_library_pool_give. A returned block is
 * used again, although enqueued work may still read it: on return an event is recorded in each
 * stream in which the block was used, and the stream for which it is taken next waits for these
 * events; the host never waits. So the streams must live until the return, and a stream in a
 * capture until the capture has ended and the block was taken again. The blocks outlive their
 * creator, with the module and the device: after ff_library_pool_close the last block to be
 * returned ends all. Thread rule: any thread, in the process that created it; the calling thread's
 * current device stays. */
#ifndef FF_LOADER_LIBRARY_POOL_H
#define FF_LOADER_LIBRARY_POOL_H

#include "loader/cuda/module.h"
#include "loader/device/device.h"

typedef struct ff_library_pool ff_library_pool;

/* A stream in which a block is used, and an event for the work in it. Each stream has its own
 * event: the records of one event in several streams may be reached in any order. */
typedef struct ff_library_user {
    ff_stream *stream;
    ff_event *event; /* NULL: not made yet */
    bool recorded;   /* since the return: the stream is not needed any more */
} ff_library_user;

typedef struct ff_library_block {
    void *memory; /* the device's */
    void *record; /* host memory for the owner's use, zeroed once */
    ff_library_pool *pool;
    struct ff_library_block *next; /* of blocks without an owner */
    ff_library_user *user;         /* [users], the owner first; [room] */
    size_t users, room;
} ff_library_block;

/* Takes over both, also on failure. */
FF_MUST_USE ff_status ff_library_pool_create(ff_library_pool **pool, ff_cuda_module *module,
                                             ff_device *device, ff_error *error);
/* Sets the sizes of future blocks: bytes of the device's memory, and of the record. Called once,
 * before the first block. */
void ff_library_pool_set(ff_library_pool *pool, uint64_t bytes, uint64_t record_bytes);
/* No more are taken. NULL is accepted; *pool = NULL. */
void ff_library_pool_close(ff_library_pool **pool);

/* A block whose content is undefined, for work in `stream`, which is in no capture. FF_NO_MEMORY.
 */
FF_MUST_USE ff_status ff_library_pool_take(ff_library_pool *pool, ff_stream *stream,
                                           ff_library_block **block, ff_error *error);
/* Later users wait for the work that is now enqueued in the block's stream. */
FF_MUST_USE ff_status ff_library_block_written(ff_library_block *block, ff_error *error);
/* `stream` waits for that work, and the next taker of the block waits for `stream`. FF_USAGE in a
 * capture. */
FF_MUST_USE ff_status ff_library_block_use(ff_library_block *block, ff_stream *stream,
                                           ff_error *error);
/* Ends the pool if it is closed and this was its last block. */
void ff_library_pool_give(ff_library_block *block);

/* The number of blocks allocated since the creation. */
uint64_t ff_library_pool_allocated(ff_library_pool *pool);

#endif
