#include "loader/library/pool.h"

#include "format/base/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { UNUSED_MOST = 8, USERS_FIRST = 4 };

/* CUDA's handles of the legacy default stream and of the calling thread's default stream. */
#define LEGACY     ((ff_stream *)(uintptr_t)1)
#define PER_THREAD ((ff_stream *)(uintptr_t)2)

struct ff_library_pool {
    pthread_mutex_t mutex;
    ff_cuda_module *module;
    ff_device *device;
    uint64_t bytes, record_bytes, allocated;
    uint64_t taken;                       /* blocks and calls for which the pool must stay */
    ff_library_block *first, **last_next; /* without an owner, in the order of their return */
    uint32_t unused;
    bool closed;
};

/* ---- the pool ------------------------------------------------------------------------------- */

static void destroy(ff_library_pool *pool) {
    pthread_mutex_destroy(&pool->mutex);
    ff_device_destroy(&pool->device);
    ff_cuda_module_close(&pool->module);
    free(pool);
}

ff_status ff_library_pool_create(ff_library_pool **out, ff_cuda_module *module, ff_device *device,
                                 ff_error *error) {
    ff_library_pool *pool;
    const ff_status status = ff_alloc(&pool, 1, sizeof *pool, "a loader's batches", error);
    *out = pool;
    if (status != FF_OK) {
        ff_device_destroy(&device);
        ff_cuda_module_close(&module);
        return status;
    }
    pthread_mutex_init(&pool->mutex, NULL);
    pool->module = module;
    pool->device = device;
    pool->last_next = &pool->first;
    return FF_OK;
}

void ff_library_pool_set(ff_library_pool *pool, uint64_t bytes, uint64_t record_bytes) {
    pool->bytes = bytes;
    pool->record_bytes = record_bytes;
}

/* Records the event of each stream in which the block was used, except streams in a capture: there
 * the event would be part of the capture. False after a failure: the stream was destroyed. Another
 * thread may have used its default stream, which the calling thread cannot name; the legacy stream
 * waits for the default streams of all threads ("CUDA Runtime API", "Stream synchronization
 * behavior"). */
static bool record_users(const ff_library_block *block) {
    ff_device *device = block->pool->device;
    bool all = true;
    for (size_t i = 0; i < block->users; i++) {
        ff_library_user *user = &block->user[i];
        ff_stream *stream = user->stream == PER_THREAD ? LEGACY : user->stream;
        if (user->recorded || device->table->capturing(device, stream)) continue;
        user->recorded = device->table->event_record(device, user->event, stream, NULL) == FF_OK;
        all &= user->recorded;
    }
    return all;
}

/* Waits for all work that uses it; a failure cannot be reported to anybody. CUDA waits for the work
 * of destroyed streams when the memory is freed. */
static void free_block(ff_library_pool *pool, ff_library_block *block) {
    const ff_device_table *table = pool->device->table;
    (void)record_users(block);
    for (size_t i = 0; i < block->users; i++)
        if (block->user[i].recorded)
            (void)table->event_synchronize(pool->device, block->user[i].event, NULL);
    for (size_t i = 0; i < block->room; i++)
        table->event_destroy(pool->device, block->user[i].event);
    table->release(pool->device, block->memory);
    free(block->user);
    free(block->record);
    free(block);
}

/* The last user of a closed pool ends it. */
static void leave(ff_library_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    const bool last = !--pool->taken && pool->closed;
    pthread_mutex_unlock(&pool->mutex);
    if (last) destroy(pool);
}

void ff_library_pool_close(ff_library_pool **out) {
    ff_library_pool *pool = *out;
    if (!pool) return;
    ff_device *device = pool->device;
    const int current = device->table->current(device);
    pthread_mutex_lock(&pool->mutex);
    pool->closed = true;
    pool->taken++;
    ff_library_block *block = pool->first;
    pthread_mutex_unlock(&pool->mutex);
    for (ff_library_block *next; block; block = next) {
        next = block->next;
        free_block(pool, block);
    }
    device->table->restore(device, current);
    leave(pool);
    *out = NULL;
}

uint64_t ff_library_pool_allocated(ff_library_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    const uint64_t allocated = pool->allocated;
    pthread_mutex_unlock(&pool->mutex);
    return allocated;
}

/* ---- blocks --------------------------------------------------------------------------------- */

static ff_status allocate(ff_library_pool *pool, ff_library_block **out, ff_error *error) {
    const ff_device_table *table = pool->device->table;
    ff_library_block *block;
    ff_status status;
    FF_TRY(ff_alloc(&block, 1, sizeof *block, "a batch", error));
    block->pool = pool;
    FF_TRY_DONE(ff_alloc(&block->record, pool->record_bytes, 1, "a batch", error));
    FF_TRY_DONE(
        ff_alloc(&block->user, USERS_FIRST, sizeof *block->user, "a batch's streams", error));
    block->room = USERS_FIRST;
    FF_TRY_DONE(table->event_create(pool->device, &block->user[0].event, false, error));
    status = table->allocate(pool->device, &block->memory, pool->bytes, "a batch", error);
done:
    if (status == FF_OK)
        *out = block;
    else
        free_block(pool, block);
    return status;
}

/* Whether a stream can wait for all enqueued work that uses the block: not if that work is in a
 * capture. */
static bool can_wait(const ff_library_block *block) {
    (void)record_users(block);
    for (size_t i = 0; i < block->users; i++)
        if (!block->user[i].recorded) return false;
    return true;
}

/* The first block without an owner: the one whose return is the longest ago. */
static ff_library_block *pick(ff_library_pool *pool) {
    ff_library_block **at = &pool->first, *block;
    while (*at && !can_wait(*at)) at = &(*at)->next;
    block = *at;
    if (!block) return NULL;
    *at = block->next;
    if (!*at) pool->last_next = at;
    pool->unused--;
    return block;
}

static ff_status wait_for_users(const ff_library_block *block, ff_stream *stream, ff_error *error) {
    ff_device *device = block->pool->device;
    for (size_t i = 0; i < block->users; i++)
        FF_TRY(device->table->stream_wait(device, stream, block->user[i].event, error));
    return FF_OK;
}

ff_status ff_library_pool_take(ff_library_pool *pool, ff_stream *stream, ff_library_block **out,
                               ff_error *error) {
    *out = NULL;
    pthread_mutex_lock(&pool->mutex);
    ff_library_block *block = pick(pool);
    pool->taken++;
    pool->allocated += !block;
    pthread_mutex_unlock(&pool->mutex);
    const bool fresh = !block;
    ff_status status = fresh ? allocate(pool, &block, error) : wait_for_users(block, stream, error);
    if (status != FF_OK) {
        if (fresh)
            leave(pool);
        else
            ff_library_pool_give(block);
        return status;
    }
    block->user[0].stream = stream;
    block->user[0].recorded = false;
    block->users = 1;
    *out = block;
    return FF_OK;
}

ff_status ff_library_block_written(ff_library_block *block, ff_error *error) {
    ff_device *device = block->pool->device;
    return device->table->event_record(device, block->user[0].event, block->user[0].stream, error);
}

static ff_status make_room(ff_library_block *block, ff_error *error) {
    if (block->users < block->room) return FF_OK;
    ff_library_user *more = realloc(block->user, 2 * block->room * sizeof *more);
    if (!more) return ff_fail(error, FF_NO_MEMORY, "not enough memory for a batch's streams");
    memset(more + block->room, 0, block->room * sizeof *more);
    block->user = more;
    block->room *= 2;
    return FF_OK;
}

/* With the lock held. */
static ff_status use(ff_library_block *block, ff_stream *stream, ff_error *error) {
    ff_device *device = block->pool->device;
    bool known = false;
    for (size_t i = 0; i < block->users; i++) known |= block->user[i].stream == stream;
    if (known && stream != PER_THREAD) return FF_OK; /* those of two threads are two streams */
    if (device->table->capturing(device, stream))
        return ff_fail(error, FF_USAGE, "the stream is in a capture, and cannot wait for a batch");
    FF_TRY(device->table->stream_wait(device, stream, block->user[0].event, error));
    if (known) return FF_OK;
    FF_TRY(make_room(block, error));
    ff_library_user *user = &block->user[block->users];
    if (!user->event) FF_TRY(device->table->event_create(device, &user->event, false, error));
    user->stream = stream;
    user->recorded = false;
    block->users++;
    return FF_OK;
}

ff_status ff_library_block_use(ff_library_block *block, ff_stream *stream, ff_error *error) {
    ff_device *device = block->pool->device;
    const int current = device->table->current(device);
    pthread_mutex_lock(&block->pool->mutex);
    const ff_status status = use(block, stream, error);
    pthread_mutex_unlock(&block->pool->mutex);
    device->table->restore(device, current);
    return status;
}

void ff_library_pool_give(ff_library_block *block) {
    ff_library_pool *pool = block->pool;
    ff_device *device = pool->device;
    const int current = device->table->current(device);
    const bool recorded = record_users(block);
    pthread_mutex_lock(&pool->mutex);
    const bool keeps = recorded && !pool->closed && pool->unused < UNUSED_MOST;
    if (keeps) {
        block->next = NULL;
        *pool->last_next = block;
        pool->last_next = &block->next;
        pool->unused++;
    }
    pthread_mutex_unlock(&pool->mutex);
    if (!keeps) free_block(pool, block);
    device->table->restore(device, current);
    leave(pool);
}
