/* A stage: a run of consecutive rows of a loader's batches, the parts of the shards that these rows
 * need, and the memory into which they are read. Private to loader/host/ahead/.
 *
 * Planning: the rows' samples are located in the index, sorted by shard and offset, and neighbours
 * become one request. Requests to a disk are in that order, those for a set behind a URL in the
 * order in which the rows need them: the first batch then waits for its own samples only. A stage's
 * memory, one range of the arena, holds the requests' bytes, each from a multiple of FF_READ_BLOCK
 * on, and after them the slots of compressed frames:
 *
 *     request 0 | request 1 | ... | slots of frame 0 | slots of frame 1 | ...
 */
#ifndef FF_LOADER_AHEAD_STAGE_H
#define FF_LOADER_AHEAD_STAGE_H

#include "loader/host/ahead/engine.h"
#include "loader/host/rows.h"

enum { FF_FRAME_PACKED, FF_FRAME_IN_WORK, FF_FRAME_READY };

typedef struct ff_ahead_frame {
    ff_extent extent;
    uint64_t place; /* where its slots begin in the stage's memory */
    atomic_int state;
} ff_ahead_frame;

typedef struct ff_ahead_stage {
    uint64_t first, end;   /* rows, by their serial number */
    uint64_t left;         /* rows not yet gathered */
    atomic_size_t pending; /* requests not yet done */
    atomic_bool awaited;   /* somebody waits for requests */
    ff_request *request;   /* [request_count] by shard and offset; no two hold the same sample */
    size_t request_count, request_capacity;
    uint32_t *order; /* [request_count] in which they are read; NULL = as they stand */
    size_t order_capacity;
    size_t front; /* of a set behind a URL: all requests before this one in the order are done */
    ff_ahead_frame *frame; /* [frame_count] by shard and offset; of compressed shards */
    size_t frame_count, frame_capacity;
    uint64_t begin, bytes; /* in the arena; bytes at least 1 block */
    uint8_t *memory;       /* there; NULL: the requests' bytes stay in the cache */
    bool alone;            /* its requests are read past the cache */
} ff_ahead_stage;

/* The largest size of a stage. */
typedef struct ff_ahead_limits {
    uint64_t rows;
    uint64_t bytes; /* of the stage's memory, at least 16 blocks */
} ff_ahead_limits;

typedef struct ff_ahead_need {
    ff_extent extent;
    uint64_t row; /* the first that needs the extent */
} ff_ahead_need;

/* The state that a planner uses for every stage. {.rows.settings = ..., .sequence = ..., .limits =
 * ..., .rows_now = limits.rows, .stop = ...}. */
typedef struct ff_ahead_plan {
    ff_rows rows;
    ff_sequence sequence;
    ff_ahead_limits limits;
    uint64_t rows_now;  /* the most rows of the next stage: less than the limit if rows are large */
    uint64_t first_end; /* the row after the first batch, until that is done with; then 0 */
    bool whole_index;   /* all of the index was fetched */
    ff_ahead_need *need; /* of a stage's rows */
    size_t need_count, need_capacity;
    const atomic_bool *stop; /* set to abandon the stage that is being planned */
} ff_ahead_plan;

/* Plans the stage that begins at row `first`, which exists; its begin and memory are the caller's.
 * A sample that cannot be located or has no room is left out: its row reads the sample. With order
 * block a stage ends with its group at the latest. */
void ff_ahead_plan_stage(ff_ahead_plan *plan, ff_ahead_stage *stage, uint64_t first);

/* For a set behind a URL of which a batch is a small part: the first batch, from this row on, comes
 * before any other row. What it needs is read alone, past the cache, if the pieces have much more
 * bytes; it is fetched again with its pieces. The caller sets first_end to 0 after it. */
void ff_ahead_plan_first(ff_ahead_plan *plan, uint64_t first);

/* Before a stage is planned: fetches what planning reads of a set behind a URL, all at the same
 * time. That is little for the first batch; after it all of the index that is missing, since an
 * epoch needs it. */
void ff_ahead_plan_bring(ff_ahead_plan *plan, uint64_t first);

/* Sets the addresses of the requests' bytes, once the stage has memory; NULL: it needs none. */
void ff_ahead_stage_place(ff_ahead_stage *stage, uint8_t *memory);

/* The first of *count requests, one after another in the stage and in its memory, that hold all
 * these bytes of a shard's file; NULL if there are none. */
ff_request *ff_ahead_stage_requests(const ff_ahead_stage *stage, uint32_t shard, uint64_t offset,
                                    uint64_t bytes, size_t *count);
/* The frame that holds all these bytes of a shard's payload, or NULL. */
ff_ahead_frame *ff_ahead_stage_frame(const ff_ahead_stage *stage, uint32_t shard, uint64_t offset,
                                     uint64_t bytes);

void ff_ahead_stage_free(ff_ahead_stage *stage);

#endif
