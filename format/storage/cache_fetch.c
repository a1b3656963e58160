/* What a cache fetches, and what callers are promised about it. */
#include "format/base/path.h"
#include "format/storage/pieces.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Pieces that one request fetches. */
enum { RUN_PIECES = 16 };

/* ---- fetching ------------------------------------------------------------------------------- */

/* Fetches bytes into an open file of the cache. The space is taken first, so a full disk is noticed
 * before anything is asked for. */
static ff_status fetch_into(ff_cache *cache, uint32_t object, ff_object *known, int descriptor,
                            uint64_t offset, uint64_t bytes, ff_error *error) {
    const char *name = cache->file[object].name;
    char *path;
    if (fallocate(descriptor, 0, (off_t)offset, (off_t)bytes))
        return ff_fail_errno(error, "%s/%s: cannot take space in the cache", cache->folder, name);
    FF_TRY(ff_path_join(&path, cache->folder, name, error));
    const ff_status status = ff_storage_read_to_file(cache->storage, name, known, offset, bytes,
                                                     descriptor, path, error);
    free(path);
    return status;
}

/* Opens an object's file once fewer than writing_most are open: connections need descriptors, too.
 */
static ff_status begin_writing(ff_cache *cache, uint32_t object, ff_object *known, int *descriptor,
                               ff_error *error) {
    ff_status status = FF_OK;
    pthread_mutex_lock(&cache->mutex);
    for (;;) {
        while (cache->writing >= cache->writing_most)
            pthread_cond_wait(&cache->done, &cache->mutex);
        errno = 0;
        status = ff_cache_file_open(cache, object, descriptor, error);
        if (status == FF_OK || errno != EMFILE || !cache->writing) break;
        pthread_cond_wait(&cache->done, &cache->mutex);
    }
    if (status == FF_OK) cache->writing++;
    *known = cache->file[object].known;
    pthread_mutex_unlock(&cache->mutex);
    return status;
}

static ff_status check_bytes(const ff_cache *cache, const struct ff_cache_file *file,
                             const ff_object *known, ff_error *error) {
    if (known->bytes == file->bytes) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "%s/%s: %" PRIu64 " bytes long, wanted %" PRIu64,
                   ff_storage_url(cache->storage), file->name, known->bytes, file->bytes);
}

/* Fetches bytes of an object into its file. They are written, not copied into a mapping: threads
 * that map, touch and unmap memory at the same time wait for one another. */
static ff_status fetch(ff_cache *cache, uint32_t object, uint64_t offset, uint64_t bytes,
                       ff_error *error) {
    struct ff_cache_file *file = &cache->file[object];
    ff_object known;
    int descriptor;
    if (!bytes) return FF_OK;
    FF_TRY(begin_writing(cache, object, &known, &descriptor, error));
    known.bytes = file->bytes;
    ff_status status = fetch_into(cache, object, &known, descriptor, offset, bytes, error);
    close(descriptor);
    if (status == FF_OK) status = check_bytes(cache, file, &known, error);
    pthread_mutex_lock(&cache->mutex);
    if (status == FF_OK && !*file->known.version) file->known = known;
    cache->writing--;
    pthread_cond_broadcast(&cache->done);
    pthread_mutex_unlock(&cache->mutex);
    return status;
}

ff_status ff_cache_read_past(ff_cache *cache, uint32_t object, uint64_t offset, uint64_t bytes,
                             uint8_t *to, ff_error *error) {
    struct ff_cache_file *file = &cache->file[object];
    pthread_mutex_lock(&cache->mutex);
    ff_object known = file->known;
    pthread_mutex_unlock(&cache->mutex);
    known.bytes = file->bytes;
    FF_TRY(ff_storage_read(cache->storage, file->name, &known, offset, bytes, to, error));
    FF_TRY(check_bytes(cache, file, &known, error));
    pthread_mutex_lock(&cache->mutex);
    if (!*file->known.version) file->known = known;
    pthread_mutex_unlock(&cache->mutex);
    return FF_OK;
}

/* Gives the disk space of pieces back that could not be fetched. */
static void free_space(ff_cache *cache, uint32_t object, uint32_t first, uint32_t count) {
    int descriptor;
    if (ff_cache_file_open(cache, object, &descriptor, NULL) != FF_OK) return;
    for (uint32_t i = 0; i < count; i++) ff_piece_free(&cache->row[object], first + i, descriptor);
    close(descriptor);
}

/* Fetches pieces of which this thread is the only one, here and in other processes. */
static ff_status fetch_pieces(ff_cache *cache, uint32_t object, uint32_t first, uint32_t count,
                              ff_error *error) {
    const uint32_t number = cache->file[object].first_piece + first;
    const ff_pieces_row *row = &cache->row[object];
    const uint64_t all = count * FF_PIECE_BYTES;
    /* The kept ends are there, and verified. */
    uint64_t begin = first * FF_PIECE_BYTES, end = begin + all;
    if (begin < atomic_load(&row->head)) begin = atomic_load(&row->head);
    if (end > row->bytes - atomic_load(&row->tail)) end = row->bytes - atomic_load(&row->tail);
    FF_TRY(ff_room_take(cache, all, error));
    const ff_status status = end > begin ? fetch(cache, object, begin, end - begin, error) : FF_OK;
    if (status != FF_OK) {
        free_space(cache, object, first, count);
        ff_room_give(cache, all);
        return status;
    }
    for (uint32_t i = 0; i < count; i++) {
        atomic_store(&cache->fetched[number + i], atomic_fetch_add(&cache->header->fetches, 1));
        atomic_fetch_add(&cache->counter[number + i], 1);
    }
    return FF_OK;
}

/* Waits for the kernel's lock, while other processes fetch, remove or map. */
static ff_status await_lock(ff_cache *cache, uint64_t at, uint64_t bytes, bool shared,
                            ff_error *error) {
    for (bool got;;) {
        FF_TRY(ff_pieces_lock(cache->descriptor, cache->folder, at, bytes, shared, &got, error));
        if (got) return FF_OK;
        FF_TRY(ff_storage_check(cache->storage, error));
        const struct timespec slice = {.tv_nsec = 1000 * 1000};
        nanosleep(&slice, NULL);
    }
}

static bool is_there(const ff_cache *cache, uint32_t number) {
    return atomic_load_explicit(&cache->counter[number], memory_order_acquire) % 2;
}

/* Takes the first of `limit` pieces that is not there, with its neighbours, for this thread; waits
 * while other threads have it. Returns their number; 0 = it is there now. */
static uint32_t take_run(ff_cache *cache, uint32_t number, uint32_t limit) {
    uint32_t count = 0;
    pthread_mutex_lock(&cache->mutex);
    while (cache->busy[number]) pthread_cond_wait(&cache->done, &cache->mutex);
    while (count < limit && !cache->busy[number + count] && !is_there(cache, number + count))
        cache->busy[number + count++] = true;
    pthread_mutex_unlock(&cache->mutex);
    return count;
}

static void give_run(ff_cache *cache, uint32_t number, uint32_t count) {
    pthread_mutex_lock(&cache->mutex);
    for (uint32_t i = 0; i < count; i++) cache->busy[number + i] = false;
    pthread_cond_broadcast(&cache->done);
    pthread_mutex_unlock(&cache->mutex);
}

/* Fetches the pieces of [first, end) that are missing. */
static ff_status fetch_missing(ff_cache *cache, uint32_t object, uint32_t first, uint32_t end,
                               ff_error *error) {
    const uint32_t own = cache->file[object].first_piece;
    ff_status status = FF_OK;
    for (uint32_t p = first; p < end && status == FF_OK;) {
        if (is_there(cache, own + p)) {
            p++;
            continue;
        }
        const uint32_t limit = end - p < RUN_PIECES ? end - p : RUN_PIECES;
        const uint32_t count = take_run(cache, own + p, limit);
        if (!count) continue;
        status = await_lock(cache, FF_LOCK_PIECES + own + p, count, false, error);
        if (status == FF_OK) {
            /* Another process may have fetched some of them meanwhile. */
            for (uint32_t at = 0, run; at < count && status == FF_OK; at += run) {
                for (run = 1; at + run < count &&
                              is_there(cache, own + p + at) == is_there(cache, own + p + at + run);)
                    run++;
                if (!is_there(cache, own + p + at))
                    status = fetch_pieces(cache, object, p + at, run, error);
            }
            ff_pieces_unlock(cache->descriptor, FF_LOCK_PIECES + own + p, count);
        }
        give_run(cache, own + p, count);
    }
    return status;
}

/* ---- what others ask for -------------------------------------------------------------------- */

/* Whether a range lies in an end that is kept. */
static bool is_kept(const ff_cache *cache, uint32_t object, uint64_t offset, uint64_t bytes) {
    const ff_pieces_row *row = &cache->row[object];
    return offset + bytes <= atomic_load(&row->head) ||
           offset >= row->bytes - atomic_load(&row->tail);
}

static void pieces_of(uint64_t offset, uint64_t bytes, uint32_t *first, uint32_t *end) {
    *first = (uint32_t)(offset / FF_PIECE_BYTES);
    *end = (uint32_t)((offset + bytes + FF_PIECE_BYTES - 1) / FF_PIECE_BYTES);
}

/* The counters of a range; false if a piece is not there. */
static bool look(const ff_cache *cache, uint32_t object, uint64_t offset, uint64_t bytes,
                 ff_cache_mark *mark) {
    uint32_t first, end;
    *mark = 0;
    if (is_kept(cache, object, offset, bytes)) return true;
    pieces_of(offset, bytes, &first, &end);
    for (uint32_t p = first; p < end; p++) {
        const uint32_t counter = atomic_load(&cache->counter[cache->file[object].first_piece + p]);
        if (counter % 2 == 0) return false;
        *mark = *mark * 31 + counter;
    }
    return true;
}

/* The part of a range that lies in the object. */
static void clip(const ff_cache *cache, uint32_t object, uint64_t *offset, uint64_t *bytes) {
    const uint64_t whole = cache->file[object].bytes;
    if (*offset > whole) *offset = whole;
    if (*bytes > whole - *offset) *bytes = whole - *offset;
}

bool ff_cache_has(const ff_cache *cache, uint32_t object, uint64_t offset, uint64_t bytes) {
    ff_cache_mark mark;
    clip(cache, object, &offset, &bytes);
    return look(cache, object, offset, bytes, &mark);
}

static void want(ff_cache *cache, uint32_t object, uint64_t offset, uint64_t bytes, int more) {
    uint32_t first, end;
    pieces_of(offset, bytes, &first, &end);
    for (uint32_t p = first; p < end; p++)
        atomic_fetch_add(&cache->wanted[cache->file[object].first_piece + p], (unsigned short)more);
}

ff_status ff_cache_need(ff_cache *cache, uint32_t object, uint64_t offset, uint64_t bytes,
                        ff_cache_mark *mark, ff_error *error) {
    uint32_t first, end;
    ff_status status = FF_OK;
    FF_TRY(ff_cache_check(cache, error));
    clip(cache, object, &offset, &bytes);
    pieces_of(offset, bytes, &first, &end);
    want(cache, object, offset, bytes, 1);
    while (status == FF_OK && !look(cache, object, offset, bytes, mark))
        status = fetch_missing(cache, object, first, end, error);
    if (status != FF_OK) want(cache, object, offset, bytes, -1);
    return status;
}

bool ff_cache_done(ff_cache *cache, uint32_t object, uint64_t offset, uint64_t bytes,
                   ff_cache_mark mark) {
    ff_cache_mark now;
    clip(cache, object, &offset, &bytes);
    atomic_thread_fence(memory_order_acquire);
    const bool still = look(cache, object, offset, bytes, &now) && now == mark &&
                       ff_cache_check(cache, NULL) == FF_OK;
    want(cache, object, offset, bytes, -1);
    return still;
}

static void take_file(ff_cache *cache, struct ff_cache_file *file) {
    pthread_mutex_lock(&cache->mutex);
    while (file->busy) pthread_cond_wait(&cache->done, &cache->mutex);
    file->busy = true;
    pthread_mutex_unlock(&cache->mutex);
}

static void give_file(ff_cache *cache, struct ff_cache_file *file) {
    pthread_mutex_lock(&cache->mutex);
    file->busy = false;
    pthread_cond_broadcast(&cache->done);
    pthread_mutex_unlock(&cache->mutex);
}

static ff_status keep(ff_cache *cache, uint32_t object, uint64_t head, uint64_t tail,
                      ff_error *error) {
    ff_pieces_row *row = &cache->row[object];
    const uint64_t had_head = atomic_load(&row->head), had_tail = atomic_load(&row->tail);
    const uint64_t more_head = head > had_head ? head - had_head : 0,
                   more_tail = tail > had_tail ? tail - had_tail : 0;
    if (!more_head && !more_tail) return FF_OK;
    FF_TRY(ff_room_take(cache, more_head + more_tail, error));
    ff_status status = fetch(cache, object, had_head, more_head, error);
    if (status == FF_OK) status = fetch(cache, object, row->bytes - tail, more_tail, error);
    if (status != FF_OK) {
        ff_room_give(cache, more_head + more_tail);
        return status;
    }
    if (more_head) atomic_store(&row->head, head);
    if (more_tail) atomic_store(&row->tail, tail);
    return FF_OK;
}

/* Shared with other processes: while a process has it, no piece of the object is removed. The
 * caller has the file. */
static ff_status lock_object(ff_cache *cache, uint32_t object, ff_error *error) {
    if (cache->file[object].pinned) return FF_OK;
    return await_lock(cache, FF_LOCK_OBJECTS + object, 1, true, error);
}

/* One thread of all processes fetches the ends of an object. No piece is removed meanwhile: its
 * range ends where the kept end begins, which moves. */
static ff_status lock_ends(ff_cache *cache, uint32_t object, ff_error *error) {
    FF_TRY(await_lock(cache, FF_LOCK_ENDS + object, 1, false, error));
    return lock_object(cache, object, error);
}

static void unlock_ends(ff_cache *cache, uint32_t object) {
    ff_pieces_unlock(cache->descriptor, FF_LOCK_ENDS + object, 1);
    if (!cache->file[object].pinned)
        ff_pieces_unlock(cache->descriptor, FF_LOCK_OBJECTS + object, 1);
}

ff_status ff_cache_keep(ff_cache *cache, uint32_t object, uint64_t head, uint64_t tail,
                        ff_error *error) {
    struct ff_cache_file *file = &cache->file[object];
    if (head > file->bytes) head = file->bytes;
    if (tail > file->bytes) tail = file->bytes;
    if (head <= atomic_load(&cache->row[object].head) &&
        tail <= atomic_load(&cache->row[object].tail))
        return FF_OK;
    take_file(cache, file);
    ff_status status = lock_ends(cache, object, error);
    if (status == FF_OK) status = keep(cache, object, head, tail, error);
    unlock_ends(cache, object);
    give_file(cache, file);
    return status;
}

ff_status ff_cache_keep_again(ff_cache *cache, uint32_t object, ff_error *error) {
    struct ff_cache_file *file = &cache->file[object];
    const ff_pieces_row *row = &cache->row[object];
    uint64_t tail;
    ff_status status;
    take_file(cache, file);
    FF_TRY_DONE(lock_ends(cache, object, error));
    FF_TRY_DONE(fetch(cache, object, 0, atomic_load(&row->head), error));
    tail = atomic_load(&row->tail);
    status = fetch(cache, object, row->bytes - tail, tail, error);
done:
    unlock_ends(cache, object);
    give_file(cache, file);
    return status;
}

void ff_cache_refuse(ff_cache *cache, uint32_t object, uint64_t offset, uint64_t bytes) {
    uint32_t first, end;
    pieces_of(offset, bytes, &first, &end);
    for (uint32_t p = first; p < end; p++) ff_piece_refuse(cache, object, p);
    const ff_pieces_row *row = &cache->row[object];
    if (offset < atomic_load(&row->head) || offset + bytes > row->bytes - atomic_load(&row->tail))
        (void)!ff_cache_keep_again(cache, object, NULL);
}

ff_status ff_cache_pin(ff_cache *cache, uint32_t object, ff_error *error) {
    struct ff_cache_file *file = &cache->file[object];
    ff_cache_mark mark;
    take_file(cache, file);
    const ff_status status = lock_object(cache, object, error);
    if (status == FF_OK) file->pinned = true;
    give_file(cache, file);
    FF_TRY(status);
    FF_TRY(ff_cache_need(cache, object, 0, file->bytes, &mark, error));
    (void)ff_cache_done(cache, object, 0, file->bytes, mark);
    return FF_OK;
}

void ff_cache_unpin(ff_cache *cache, uint32_t object) {
    struct ff_cache_file *file = &cache->file[object];
    take_file(cache, file);
    if (file->pinned) ff_pieces_unlock(cache->descriptor, FF_LOCK_OBJECTS + object, 1);
    file->pinned = false;
    give_file(cache, file);
}

void ff_cache_foresee(ff_cache *cache, ff_cache_next *next, void *context) {
    pthread_mutex_lock(&cache->removing);
    cache->next = next;
    cache->context = context;
    cache->victims = 0;
    pthread_mutex_unlock(&cache->removing);
}
