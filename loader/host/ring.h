/* The ring of slots: threads take tickets for runs of rows and fill them; the consumer takes whole
 * batches in order. Private to loader/.
 *
 * Life of a slot: FREE -> OPENING (its last consumer may still be reading: wait for that without
 * the lock) -> FILLING (tickets are handed out) -> READY -> HELD (by the consumer) -> FREE. A batch
 * takes any free slot, and batches open in order; so the next batch can always be filled unless the
 * consumer holds all slots: no order of releases can deadlock. */
#ifndef FF_LOADER_RING_H
#define FF_LOADER_RING_H

#include "format/base/thread.h"
#include "loader/host/ahead/warm.h"
#include "loader/host/blocks.h"
#include "loader/host/gather.h"
#include "loader/host/reading.h"

typedef struct ff_loader ff_loader; /* loader.h */

typedef enum ff_ring_state {
    FF_RING_FREE,
    FF_RING_OPENING,
    FF_RING_FILLING,
    FF_RING_READY,
    FF_RING_HELD
} ff_ring_state;

typedef struct ff_ring_slot {
    ff_slot slot; /* first: the consumer's pointer points to it */
    ff_ring_state state;
    uint64_t sequence; /* its batch's number */
    ff_sequence_batch batch;
    uint32_t runs_left; /* tickets not yet done */
    ff_event *consumed; /* the consumer's; NULL = nothing to wait for */
    uint8_t *memory;    /* device: part of the loader's memory, or a block */
    uint8_t *pinned;    /* what threads write to: memory itself on a unified device */
    ff_slot_source *source;
    ff_augment_params *params;
    ff_slot_label *label;
    ff_status status; /* the lowest failed row's */
    uint32_t failed_row;
    ff_error error;
} ff_ring_slot;

struct ff_loader {
    ff_loader_settings settings;
    ff_device *device, *own_device;
    ff_stream *stream; /* for copies */
    pthread_mutex_t stream_mutex;

    pthread_mutex_t mutex;
    pthread_cond_t work, ready; /* for threads; for the consumer */
    ff_ring_slot *ring;         /* [settings.slots] */
    uint8_t *memory, *pinned;   /* of all slots; the same on a unified device */
    ff_blocks *blocks;          /* the source of the slots' memory, in place of these; else NULL */
    uint32_t run_rows, runs;    /* rows of a ticket; tickets of a batch */

    uint64_t next_open; /* the batch to open next */
    ff_ring_slot *open; /* the slot whose tickets are handed out; NULL = none */
    bool *taken;        /* [runs] its tickets that were handed out */
    uint32_t untaken;   /* the number of the others; without `open` 0 */
    uint64_t next_acquire;
    uint32_t held;
    uint32_t busy; /* threads that work on a slot, without the lock */
    bool seeking;  /* and threads begin nothing */
    bool stop;     /* the loader is being destroyed */
    bool failed;   /* a batch failed: open no other */
    /* The next batch that is opened is read, not mapped: memory did not keep the set, or part of it
     * was removed from the cache of a set behind a URL. `came`: mapped, not read, because all of it
     * has come into the cache, which is looked at when an epoch begins. */
    bool evicted, removed, came;
    uint32_t looked; /* the epoch; UINT32_MAX = none */
    ff_usage *usage; /* [threads]: what each had used after its last ticket */
    ff_reading_watch watch;
    ff_queue_watch queue;
    ff_loader_stats stats;

    ff_status status; /* the error that acquire returned, to be returned again */
    ff_error error;

    /* [threads][sizes], the first row the consumer's without threads. */
    ff_gatherer **gatherer;
    ff_ahead *ahead; /* NULL = samples are mapped, or read as they are needed */
    ff_warm *warm;   /* NULL = the set is not mapped, or the loader has no threads */
    ff_threads *threads;
};

/* From the next batch to open on, samples are read, not mapped, or the other way round, as
 * `evicted`, `removed` and `came` state. Batches stay the same. If memory for reading is missing,
 * the set stays mapped. Called with the lock held, while no thread works on a slot. */
void ff_loader_turn(ff_loader *loader);

/* The ticket that thread number `thread` of `threads` takes, of which at least one is left: the
 * first of the thread's own share, else the first of all. So a row of every batch is mostly written
 * by the same thread: lines that another core wrote last are written at a quarter of the rate (27
 * and 100 GB/s, an AMD EPYC). */
uint32_t ff_ring_ticket(const bool *taken, uint32_t runs, int thread, int threads);

/* The body of thread number `index`, until the loader stops. */
void ff_ring_thread(void *loader, int index);

/* Without threads: the consumer fills the next batch itself, until it is done or the time is past
 * `end_ns` (ff_now_ns); a later call continues. Called with the lock held. */
void ff_ring_fill(ff_loader *loader, uint64_t end_ns);

#endif
