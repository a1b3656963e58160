#include "loader/host/ahead/ahead.h"

#include "format/base/huge.h"
#include "format/base/thread.h"
#include "format/storage/cache.h"
#include "loader/host/ahead/future.h"
#include "loader/host/ahead/stage.h"

#include <stdlib.h>

enum { STAGES = FF_ENGINE_QUEUE };

/* In a smaller stage a thread that waits for one request waits for all: one wake-up instead of one
 * per request. In random order that was 3 % faster on two busy cores. */
#define TOGETHER_BYTES (2u << 20)

#define TOUCHED_AT_ONCE (8 * FF_HUGE_PAGE)

struct ff_ahead {
    pthread_mutex_t mutex;
    pthread_cond_t room;    /* for the planner */
    pthread_cond_t planned; /* a stage is there, or rows were abandoned */
    pthread_cond_t read;    /* what a thread waits for is done, or everything stops */
    ff_engine *engine;
    ff_threads *planner;
    uint8_t *arena; /* NULL: what is read ahead stays in the cache */
    uint64_t arena_bytes;
    uint64_t touched; /* bytes of the arena whose pages are there; the planner's */
    bool packed;      /* shards are compressed */

    /* A ring: the stages [oldest, oldest + stages) are there, in the order of their rows; the one
     * after them is the planner's. */
    ff_ahead_stage stage[STAGES];
    unsigned oldest, stages;
    uint64_t next;      /* row of the planner's stage */
    uint64_t abandoned; /* and all rows after it; UINT64_MAX = none */
    bool planning;      /* the planner is at its stage, without the lock */
    bool stop;          /* for good */
    atomic_bool halt;   /* the planner's work is not wanted */
    ff_ahead_plan plan;
    ff_future *future; /* of a set behind a URL; else NULL */
    uint8_t *memory;   /* of the first stage, if there is no arena and it needs some */
};

/* ---- the arena ------------------------------------------------------------------------------ */

/* Whether the arena has room for the stage after the last one; if so, sets its begin. With the lock
 * held. */
static bool find_room(ff_ahead *ahead, ff_ahead_stage *stage) {
    const ff_ahead_stage *oldest = &ahead->stage[ahead->oldest];
    const ff_ahead_stage *newest = &ahead->stage[(ahead->oldest + ahead->stages - 1) % STAGES];
    if (!ahead->stages) {
        stage->begin = 0;
        return true;
    }
    const uint64_t end = newest->begin + newest->bytes;
    const bool wraps = newest->begin < oldest->begin;
    stage->begin = end;
    if (stage->bytes <= (wraps ? oldest->begin : ahead->arena_bytes) - end) return true;
    stage->begin = 0;
    return !wraps && stage->bytes <= oldest->begin;
}

/* Gets the pages of the arena up to `end`, unless the planner's work is not wanted any more. Only
 * the planner does so, for the reason in huge.h, and stage by stage: the first one does not wait
 * for the whole arena. */
static void touch_arena(ff_ahead *ahead, uint64_t end) {
    while (ahead->touched < end && !ahead->halt) {
        const uint64_t left = ahead->arena_bytes - ahead->touched;
        const uint64_t bytes = left < TOUCHED_AT_ONCE ? left : TOUCHED_AT_ONCE;
        ff_use_huge_pages(ahead->arena + ahead->touched, bytes);
        ff_touch_pages(ahead->arena + ahead->touched, bytes);
        ahead->touched += bytes;
    }
}

/* Frees the stages that nobody needs any more; with the lock held. */
static void retire(ff_ahead *ahead) {
    while (ahead->stages) {
        const ff_ahead_stage *stage = &ahead->stage[ahead->oldest];
        if (stage->left || stage->pending) return;
        ahead->oldest = (ahead->oldest + 1) % STAGES;
        ahead->stages--;
        pthread_cond_signal(&ahead->room);
    }
    if (ahead->plan.first_end && ahead->next >= ahead->plan.first_end) ahead->plan.first_end = 0;
}

/* ---- the planner ---------------------------------------------------------------------------- */

static bool may_plan(const ff_ahead *ahead) {
    const ff_sequence *sequence = &ahead->plan.sequence;
    const bool after_first = ahead->plan.first_end && ahead->next >= ahead->plan.first_end;
    return !ahead->halt && !after_first && ahead->stages < STAGES &&
           ahead->next < ahead->abandoned && sequence->rows &&
           ahead->next / sequence->rows < sequence->total_batches;
}

/* The first row that still needs the cache, about: one that waits for its request or, if what was
 * fetched stays in the cache, has not been gathered. With the lock held. */
static uint64_t first_in_cache(ff_ahead *ahead) {
    for (unsigned i = 0; i < ahead->stages; i++) {
        ff_ahead_stage *stage = &ahead->stage[(ahead->oldest + i) % STAGES];
        if (!ahead->arena && stage->left) return stage->end - stage->left;
        for (; ahead->arena && stage->front < stage->request_count; stage->front++) {
            const ff_request *request = &stage->request[stage->order[stage->front]];
            if (atomic_load(&request->state) == FF_REQUEST_WAITS) return request->row;
        }
    }
    return ahead->next;
}

/* Tells the cache how far the rows are; with the lock held. */
static void move_future(ff_ahead *ahead) {
    if (!ahead->future) return;
    const ff_sequence *sequence = &ahead->plan.sequence;
    ff_future_move(ahead->future, sequence, first_in_cache(ahead) / sequence->rows);
}

/* The memory of a planned stage that has room in the arena. */
static uint8_t *memory_of(ff_ahead *ahead, const ff_ahead_stage *stage) {
    if (ahead->arena) return ahead->arena + stage->begin;
    if (!stage->alone || ahead->memory) return NULL;
    return ff_alloc_for_disk(&ahead->memory, stage->bytes, "a batch", NULL) == FF_OK ? ahead->memory
                                                                                     : NULL;
}

/* Plans a stage and submits its requests; called with the lock held, which is released
 * meanwhile. */
static void plan_one(ff_ahead *ahead) {
    ff_ahead_stage *stage = &ahead->stage[(ahead->oldest + ahead->stages) % STAGES];
    ahead->planning = true;
    move_future(ahead);
    pthread_mutex_unlock(&ahead->mutex);
    ff_ahead_plan_bring(&ahead->plan, ahead->next);
    ff_ahead_plan_stage(&ahead->plan, stage, ahead->next);
    pthread_mutex_lock(&ahead->mutex);
    while (!ahead->halt && !find_room(ahead, stage)) pthread_cond_wait(&ahead->room, &ahead->mutex);
    if (ahead->arena) {
        pthread_mutex_unlock(&ahead->mutex);
        touch_arena(ahead, stage->begin + stage->bytes);
        pthread_mutex_lock(&ahead->mutex);
    }
    ahead->planning = false;
    if (ahead->halt) {
        pthread_cond_broadcast(&ahead->planned);
        return;
    }
    ff_ahead_stage_place(stage, memory_of(ahead, stage));
    ahead->stages++;
    ahead->next = stage->end;
    ff_engine_submit(ahead->engine, stage->request, stage->order, stage->request_count);
    pthread_cond_broadcast(&ahead->planned);
}

static void plan_all(void *context, int index) {
    ff_ahead *ahead = context;
    (void)index;
    pthread_mutex_lock(&ahead->mutex);
    while (!ahead->stop) {
        if (may_plan(ahead))
            plan_one(ahead);
        else
            pthread_cond_wait(&ahead->room, &ahead->mutex);
    }
    pthread_mutex_unlock(&ahead->mutex);
}

/* Ends what the planner does; with the lock held. */
static void halt(ff_ahead *ahead) {
    atomic_store(&ahead->halt, true);
    pthread_cond_signal(&ahead->room);
    while (ahead->planning) pthread_cond_wait(&ahead->planned, &ahead->mutex);
}

/* ---- creating and destroying ---------------------------------------------------------------- */

/* Takes the lock only if a thread waits, and for the last request of a stage: then the stage's
 * place may be used for another stage. */
static void request_done(void *context, ff_request *request) {
    ff_ahead *ahead = context;
    ff_ahead_stage *stage = request->owner;
    if (stage->bytes > TOGETHER_BYTES && atomic_load(&request->awaited)) {
        pthread_mutex_lock(&ahead->mutex);
        pthread_cond_broadcast(&ahead->read);
        pthread_mutex_unlock(&ahead->mutex);
    }
    if (ahead->future && ahead->arena && !request->alone) {
        const ff_sequence *sequence = &ahead->plan.sequence;
        pthread_mutex_lock(&ahead->mutex);
        ff_future_done(ahead->future, sequence, request->shard,
                       (uint32_t)(request->offset / FF_PIECE_BYTES), request->row / sequence->rows);
        move_future(ahead);
        pthread_mutex_unlock(&ahead->mutex);
    }
    if (atomic_fetch_sub(&stage->pending, 1) > 1) return;
    pthread_mutex_lock(&ahead->mutex);
    if (atomic_load(&stage->awaited)) pthread_cond_broadcast(&ahead->read);
    retire(ahead);
    pthread_mutex_unlock(&ahead->mutex);
}

ff_status ff_ahead_create(ff_ahead **out, const ff_loader_settings *settings, uint64_t first,
                          ff_error *error) {
    ff_ahead *ahead;
    ff_status status;
    *out = NULL;
    FF_TRY(ff_alloc(&ahead, 1, sizeof *ahead, "reading ahead", error));
    pthread_mutex_init(&ahead->mutex, NULL);
    pthread_cond_init(&ahead->room, NULL);
    pthread_cond_init(&ahead->planned, NULL);
    pthread_cond_init(&ahead->read, NULL);
    ahead->abandoned = UINT64_MAX;
    ahead->next = first * settings->rows;
    ahead->packed = settings->metadata->compression == FF_COMPRESSION_ZSTD;
    ahead->arena_bytes = settings->ahead.bytes;
    ahead->plan = (ff_ahead_plan){
        .rows.settings = settings,
        .sequence = settings->sequence,
        .limits = {.rows = settings->ahead.rows, .bytes = settings->ahead.bytes / 2},
        .rows_now = settings->ahead.rows,
        .stop = &ahead->halt};
    if (!settings->ahead.in_cache) {
        FF_TRY_DONE(ff_alloc_aligned(&ahead->arena, ahead->arena_bytes, 1, FF_HUGE_PAGE,
                                     "what is read ahead", error));
    }
    if (ff_dataset_is_remote(settings->dataset)) {
        FF_TRY_DONE(ff_future_create(&ahead->future, settings, error));
        ff_ahead_plan_first(&ahead->plan, ahead->next);
    }
    FF_TRY_DONE(ff_engine_create(&ahead->engine, settings->dataset, request_done, ahead, error));
    FF_TRY_DONE(ff_threads_start(&ahead->planner, 1, "plan", plan_all, ahead, error));
done:
    if (status != FF_OK) ff_ahead_destroy(&ahead);
    *out = ahead;
    return status;
}

void ff_ahead_destroy(ff_ahead **out) {
    ff_ahead *ahead = *out;
    if (!ahead) return;
    pthread_mutex_lock(&ahead->mutex);
    ahead->stop = true;
    halt(ahead);
    pthread_mutex_unlock(&ahead->mutex);
    ff_threads_join(&ahead->planner);
    if (ahead->engine) ff_engine_drop(ahead->engine);
    ff_engine_destroy(&ahead->engine);
    ff_future_destroy(&ahead->future);
    for (unsigned i = 0; i < STAGES; i++) ff_ahead_stage_free(&ahead->stage[i]);
    free(ahead->plan.need);
    free(ahead->memory);
    free(ahead->arena);
    pthread_cond_destroy(&ahead->read);
    pthread_cond_destroy(&ahead->planned);
    pthread_cond_destroy(&ahead->room);
    pthread_mutex_destroy(&ahead->mutex);
    free(ahead);
    *out = NULL;
}

void ff_ahead_restart(ff_ahead *ahead, const ff_sequence *sequence) {
    pthread_mutex_lock(&ahead->mutex);
    halt(ahead);
    pthread_mutex_unlock(&ahead->mutex);
    ff_engine_drop(ahead->engine);
    pthread_mutex_lock(&ahead->mutex);
    ahead->stages = 0;
    ahead->next = 0;
    ahead->abandoned = UINT64_MAX;
    ahead->plan.sequence = *sequence;
    if (ahead->plan.first_end) ff_ahead_plan_first(&ahead->plan, ahead->next);
    atomic_store(&ahead->halt, false);
    pthread_cond_signal(&ahead->room);
    pthread_mutex_unlock(&ahead->mutex);
}

void ff_ahead_abandon(ff_ahead *ahead, uint64_t serial) {
    pthread_mutex_lock(&ahead->mutex);
    if (serial < ahead->abandoned) ahead->abandoned = serial;
    pthread_cond_broadcast(&ahead->planned);
    pthread_cond_broadcast(&ahead->read);
    pthread_mutex_unlock(&ahead->mutex);
}

double ff_ahead_queued(ff_ahead *ahead) {
    return ff_engine_queued(ahead->engine);
}

/* ---- cursors -------------------------------------------------------------------------------- */

/* With the lock held. */
static void leave(ff_ahead_cursor *cursor) {
    if (!cursor->stage) return;
    cursor->stage->left -= cursor->rows;
    cursor->stage = NULL;
    if (!cursor->ahead->arena) move_future(cursor->ahead);
    retire(cursor->ahead);
}

void ff_ahead_leave(ff_ahead_cursor *cursor) {
    if (!cursor->stage) return;
    pthread_mutex_lock(&cursor->ahead->mutex);
    leave(cursor);
    pthread_mutex_unlock(&cursor->ahead->mutex);
}

static ff_ahead_stage *stage_of(ff_ahead *ahead, uint64_t serial) {
    for (unsigned i = 0; i < ahead->stages; i++) {
        ff_ahead_stage *stage = &ahead->stage[(ahead->oldest + i) % STAGES];
        if (serial >= stage->first && serial < stage->end) return stage;
    }
    return NULL;
}

ff_status ff_ahead_row(ff_ahead_cursor *cursor, uint64_t serial, ff_error *error) {
    ff_ahead *ahead = cursor->ahead;
    if (cursor->stage && serial >= cursor->stage->first && serial < cursor->stage->end) {
        cursor->rows++;
        return FF_OK;
    }
    pthread_mutex_lock(&ahead->mutex);
    leave(cursor);
    while (serial < ahead->abandoned && !(cursor->stage = stage_of(ahead, serial)))
        pthread_cond_wait(&ahead->planned, &ahead->mutex);
    pthread_mutex_unlock(&ahead->mutex);
    cursor->rows = 1;
    if (cursor->stage) return FF_OK;
    return ff_fail(error, FF_INTERRUPTED, "a batch before this one failed, or the loader ends");
}

/* Whether the request's bytes are there; false if they could not be read, or are no longer needed.
 */
static bool await(ff_ahead *ahead, ff_request *request) {
    int state = atomic_load(&request->state);
    if (state == FF_REQUEST_WAITS) {
        ff_ahead_stage *stage = request->owner;
        pthread_mutex_lock(&ahead->mutex);
        /* Set before the state is read: either this thread sees that the request is done, or
         * request_done sees that a thread waits. */
        atomic_store(&request->awaited, true);
        atomic_store(&stage->awaited, true);
        while ((state = atomic_load(&request->state)) == FF_REQUEST_WAITS && ahead->abandoned)
            pthread_cond_wait(&ahead->read, &ahead->mutex);
        pthread_mutex_unlock(&ahead->mutex);
    }
    return state == FF_REQUEST_READ;
}

/* The bytes of a part of a shard's file, once all of its requests are done; NULL if they could not
 * be read, are not in the stage, or stay in the cache. */
static const uint8_t *await_bytes(ff_ahead *ahead, const ff_ahead_stage *stage, uint32_t shard,
                                  uint64_t offset, uint64_t bytes) {
    size_t count;
    ff_request *request = ff_ahead_stage_requests(stage, shard, offset, bytes, &count);
    bool there = request != NULL;
    for (size_t i = 0; there && i < count; i++) there = await(ahead, &request[i]);
    return there && request->to ? request->to + (offset - request->offset) : NULL;
}

/* Decompresses a frame, or waits for the thread that does; *ready = false if its bytes could not be
 * read. */
static ff_status unpack(ff_ahead *ahead, ff_ahead_stage *stage, ff_ahead_frame *frame,
                        ff_reader *reader, bool *ready, ff_error *error) {
    const ff_extent *extent = &frame->extent;
    pthread_mutex_lock(&ahead->mutex);
    while (atomic_load(&frame->state) == FF_FRAME_IN_WORK)
        pthread_cond_wait(&ahead->read, &ahead->mutex);
    *ready = atomic_load(&frame->state) == FF_FRAME_READY;
    if (!*ready) atomic_store(&frame->state, FF_FRAME_IN_WORK);
    pthread_mutex_unlock(&ahead->mutex);
    if (*ready) return FF_OK;
    const uint8_t *bytes = await_bytes(ahead, stage, extent->shard, extent->offset, extent->bytes);
    ff_status status = FF_OK;
    if (bytes) {
        status = ff_reader_unpack(reader, extent, bytes, stage->memory + frame->place, error);
        *ready = status == FF_OK;
    }
    pthread_mutex_lock(&ahead->mutex);
    atomic_store(&frame->state, *ready ? FF_FRAME_READY : FF_FRAME_PACKED);
    pthread_cond_broadcast(&ahead->read);
    pthread_mutex_unlock(&ahead->mutex);
    return status;
}

ff_status ff_ahead_find(void *context, ff_reader *reader, const ff_entry *entry,
                        const uint8_t **slot, ff_error *error) {
    ff_ahead_cursor *cursor = context;
    ff_ahead_stage *stage = cursor->stage;
    if (!stage) return FF_OK;
    if (cursor->ahead->packed) {
        ff_ahead_frame *frame =
            ff_ahead_stage_frame(stage, entry->shard, entry->offset, entry->bytes);
        if (!frame) return FF_OK;
        bool ready = atomic_load(&frame->state) == FF_FRAME_READY;
        if (!ready) FF_TRY(unpack(cursor->ahead, stage, frame, reader, &ready, error));
        if (ready) *slot = stage->memory + frame->place + (entry->offset - frame->extent.slots);
        return FF_OK;
    }
    const uint8_t *bytes =
        await_bytes(cursor->ahead, stage, entry->shard, entry->offset, entry->bytes);
    if (bytes) *slot = bytes;
    return FF_OK;
}
