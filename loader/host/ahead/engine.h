/* Requests to the disk, many at a time: a pool of threads, each of which reads one request after
 * another. Private to loader/host/ahead/.
 *
 * Life of a request: its owner fills it in -> ff_engine_submit -> a thread of the engine reads and
 * calls done -> it is the owner's again. */
#ifndef FF_LOADER_AHEAD_ENGINE_H
#define FF_LOADER_AHEAD_ENGINE_H

#include "format/reader/reader.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { FF_REQUEST_WAITS, FF_REQUEST_READ, FF_REQUEST_FAILED };

typedef struct ff_request {
    uint64_t offset, bytes; /* in the shard's file; offset a multiple of FF_READ_BLOCK */
    uint8_t
        *to; /* as for ff_dataset_read; NULL: the bytes are brought into the cache, no further */
    void *owner;
    uint64_t row; /* the owner's */
    uint32_t shard;
    atomic_int state;
    atomic_bool awaited; /* the owner's */
    bool alone; /* into `to`, past the cache of a set behind a URL (ff_dataset_read_alone) */
} ff_request;

/* Called by a thread of the engine once state is READ or FAILED. */
typedef void ff_engine_done(void *context, ff_request *request);

typedef struct ff_engine ff_engine;
FF_MUST_USE ff_status ff_engine_create(ff_engine **engine, ff_dataset *dataset,
                                       ff_engine_done *done, void *context, ff_error *error);
/* After ff_engine_drop. NULL is accepted. */
void ff_engine_destroy(ff_engine **engine);

/* Reads request[order[0]], request[order[1]], ..., or the requests as they stand if order is NULL.
 * Both arrays must stay where they are until all requests are done or dropped. At most
 * FF_ENGINE_QUEUE calls' requests at a time. */
#define FF_ENGINE_QUEUE 16u
void ff_engine_submit(ff_engine *engine, ff_request *request, const uint32_t *order, size_t count);

/* The share of the requests' time that the threads waited for a processor. */
double ff_engine_queued(ff_engine *engine);

/* Forgets the requests that no thread has begun, without calling their done, and waits for the
 * others. */
void ff_engine_drop(ff_engine *engine);

#endif
