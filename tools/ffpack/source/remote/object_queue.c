#include "tools/ffpack/source/remote/object_queue.h"

#include "format/base/thread.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* Requests at a time. Items ahead of each reader, and after the last announced range. Bytes that
 * are fetched and not yet read; the item that a reader waits for is fetched even if it has more. */
enum { FETCHERS = 32, READER_ITEMS = 16, FRONTIER_ITEMS = 32 };
#define AHEAD_BYTES (UINT64_C(64) << 20)

/* An item that is fetched or being fetched. */
typedef struct fetched {
    struct fetched *next;
    uint64_t position;
    uint64_t number, item_bytes; /* number: the item's offset, different for all items */
    bool ready;
    unsigned char *bytes;
    size_t capacity;
    ff_error failure; /* the item's own; status FF_OK = none */
} fetched;

struct ff_object_queue {
    const ff_source_split *split;
    ff_stream_range range;
    ff_threads *threads;
    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t work, ready;
    ff_object_queue_reader *reader;
    fetched *fetched;
    uint64_t announced,
        frontier;   /* ends: of the announced positions; of those fetched beyond them */
    uint64_t end;   /* no position from this one on is read */
    uint64_t bytes; /* of the items in `fetched` */
    bool stop;
    ff_error failure; /* the pass's; status FF_OK = none */
};

/* ---- one object ----------------------------------------------------------------------------- */

ff_status ff_object_read(const ff_source_split *split, const ff_item *item, ff_buffer *path,
                         unsigned char **bytes, size_t *capacity, bool *own, ff_error *error) {
    ff_storage *storage = ff_elsewhere_folder();
    ff_object object = {0}, now;
    bool there;
    *own = true;
    FF_TRY(ff_source_item_path(split, item, path, error));
    if (item->bytes > FF_ENCODED_LIMIT_BYTES)
        return ff_fail(error, FF_BAD_DATA, "%s: has %" PRIu64 " bytes, more than %" PRIu64,
                       path->bytes, item->bytes, FF_ENCODED_LIMIT_BYTES);
    FF_TRY(ff_reserve(bytes, capacity, item->bytes + 1, 1, "an image file", error));
    const char *name = path->bytes + strlen(ff_storage_url(storage)) + 1;
    ff_status status = FF_OK;
    if (item->bytes)
        status = ff_storage_read(storage, name, &object, 0, item->bytes, *bytes, error);
    if (status == FF_OK && (!item->bytes || object.bytes == item->bytes)) return FF_OK;
    *own = ff_storage_find(storage, name, &now, &there, NULL) == FF_OK &&
           (!there || now.bytes != item->bytes);
    if (*own && !there)
        return ff_fail(error, FF_IO, "%s: was removed since it was listed", path->bytes);
    if (*own)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: changed since it was listed: has %" PRIu64 " bytes, had %" PRIu64,
                       path->bytes, now.bytes, item->bytes);
    return status;
}

/* ---- the threads ---------------------------------------------------------------------------- */

static uint64_t item_at(const ff_object_queue *queue, uint64_t position) {
    const ff_stream_range *range = &queue->range;
    return range->item ? range->item(range->context, position)
                       : ff_source_item_at(queue->split, position);
}

static bool is_read(const ff_object_queue *queue, uint64_t position) {
    return item_at(queue, position) != UINT64_MAX;
}

static fetched **find(ff_object_queue *queue, uint64_t position) {
    fetched **at = &queue->fetched;
    while (*at && (*at)->position != position) at = &(*at)->next;
    return at;
}

/* The position that is needed first and that nobody fetches. False: there is none, or no room. */
static bool choose(ff_object_queue *queue, uint64_t *position) {
    uint64_t nearest = READER_ITEMS;
    ff_object_queue_reader *chosen = NULL;
    for (ff_object_queue_reader *reader = queue->reader; reader; reader = reader->other) {
        while (reader->next < reader->end &&
               (!is_read(queue, reader->next) || *find(queue, reader->next)))
            reader->next++;
        if (reader->next >= reader->end || reader->next >= queue->end ||
            reader->next - reader->at >= nearest)
            continue;
        chosen = reader;
        nearest = reader->next - reader->at;
    }
    const bool awaited = chosen && !nearest;
    if (!awaited && queue->bytes >= AHEAD_BYTES) return false;
    if (chosen) {
        *position = chosen->next++;
        return true;
    }
    while (queue->frontier < queue->end && !is_read(queue, queue->frontier)) queue->frontier++;
    if (queue->frontier >= queue->end || queue->frontier - queue->announced >= FRONTIER_ITEMS)
        return false;
    *position = queue->frontier++;
    return true;
}

/* What a thread that fetches has for itself. */
typedef struct fetcher {
    ff_listing_cursor *cursor;
    ff_buffer path;
} fetcher;

/* Fetches the item. Called without the mutex, takes it to count the bytes. */
static ff_status fetch(ff_object_queue *queue, fetcher *own, fetched *to, ff_error *error) {
    ff_item item;
    bool alone;
    if (!own->cursor) FF_TRY(ff_listing_cursor_create(&own->cursor, queue->split->listing, error));
    FF_TRY(ff_listing_item(own->cursor, item_at(queue, to->position), &item, error));
    pthread_mutex_lock(&queue->mutex);
    to->number = item.offset;
    to->item_bytes = item.bytes;
    queue->bytes += item.bytes;
    pthread_mutex_unlock(&queue->mutex);
    const ff_status status = ff_object_read(queue->split, &item, &own->path, &to->bytes,
                                            &to->capacity, &alone, &to->failure);
    to->failure.status = status;
    if (status == FF_OK || alone) return FF_OK;
    if (error) *error = to->failure;
    return status;
}

/* Holds the mutex at begin and end. */
static ff_status fetch_next(ff_object_queue *queue, fetcher *own, uint64_t position,
                            ff_error *error) {
    fetched *added;
    FF_TRY(ff_alloc(&added, 1, sizeof *added, "an object", error));
    added->position = position;
    added->next = queue->fetched;
    queue->fetched = added;
    pthread_mutex_unlock(&queue->mutex);
    const ff_status status = fetch(queue, own, added, error);
    pthread_mutex_lock(&queue->mutex);
    added->ready = true;
    return status;
}

static void fetch_main(void *context, int index) {
    ff_object_queue *queue = context;
    fetcher own = {0};
    (void)index;
    pthread_mutex_lock(&queue->mutex);
    while (!queue->stop) {
        uint64_t position;
        if (!choose(queue, &position)) {
            pthread_cond_wait(&queue->work, &queue->mutex);
            continue;
        }
        ff_error failure = {0};
        const ff_status status = fetch_next(queue, &own, position, &failure);
        if (status != FF_OK && queue->failure.status == FF_OK) {
            queue->failure = failure;
            queue->failure.status = status;
            queue->stop = true;
            pthread_cond_broadcast(&queue->work);
        }
        pthread_cond_broadcast(&queue->ready);
    }
    pthread_mutex_unlock(&queue->mutex);
    ff_listing_cursor_destroy(&own.cursor);
    ff_buffer_free(&own.path);
}

ff_status ff_object_queue_create(ff_object_queue **out, const ff_source_split *split,
                                 const ff_stream_range *range, ff_error *error) {
    ff_object_queue *queue;
    *out = NULL;
    FF_TRY(ff_alloc(&queue, 1, sizeof *queue, "objects queue", error));
    queue->split = split;
    queue->range = *range;
    queue->announced = queue->frontier = range->first;
    queue->end = range->end;
    pthread_mutex_init(&queue->mutex, NULL);
    pthread_cond_init(&queue->work, NULL);
    pthread_cond_init(&queue->ready, NULL);
    const uint64_t count = range->end - range->first;
    const ff_status status =
        ff_threads_start(&queue->threads, (int)(count < FETCHERS ? count : FETCHERS), "fetch",
                         fetch_main, queue, error);
    if (status == FF_OK)
        *out = queue;
    else
        ff_object_queue_destroy(&queue);
    return status;
}

void ff_object_queue_stop(ff_object_queue *queue, uint64_t first) {
    pthread_mutex_lock(&queue->mutex);
    if (queue->end > first) queue->end = first;
    pthread_cond_broadcast(&queue->ready);
    pthread_mutex_unlock(&queue->mutex);
}

void ff_object_queue_destroy(ff_object_queue **out) {
    ff_object_queue *queue = *out;
    if (!queue) return;
    pthread_mutex_lock(&queue->mutex);
    queue->stop = true;
    pthread_cond_broadcast(&queue->work);
    /* A pass that ends early fails: nothing is read after it. */
    if (queue->fetched) ff_storage_stop(ff_elsewhere_folder());
    pthread_mutex_unlock(&queue->mutex);
    ff_threads_join(&queue->threads);
    for (fetched *next; queue->fetched; queue->fetched = next) {
        next = queue->fetched->next;
        free(queue->fetched->bytes);
        free(queue->fetched);
    }
    pthread_mutex_destroy(&queue->mutex);
    pthread_cond_destroy(&queue->work);
    pthread_cond_destroy(&queue->ready);
    free(queue);
    *out = NULL;
}

/* ---- readers -------------------------------------------------------------------------------- */

void ff_object_queue_begin(ff_object_queue *queue, ff_object_queue_reader *reader, uint64_t first,
                           uint64_t end) {
    pthread_mutex_lock(&queue->mutex);
    if (!reader->queue) {
        reader->queue = queue;
        reader->other = queue->reader;
        queue->reader = reader;
    }
    reader->at = reader->next = first;
    reader->end = end < queue->range.end ? end : queue->range.end;
    if (queue->announced < reader->end) queue->announced = reader->end;
    if (queue->frontier < queue->announced) queue->frontier = queue->announced;
    pthread_cond_broadcast(&queue->work);
    pthread_mutex_unlock(&queue->mutex);
}

/* *taken = what was fetched for the reader's position, no longer in the list. Holds the mutex. */
static ff_status await(ff_object_queue_reader *reader, fetched **taken, ff_error *error) {
    ff_object_queue *queue = reader->queue;
    fetched **at;
    while (reader->at < reader->end && !is_read(queue, reader->at)) reader->at++;
    while (!(*(at = find(queue, reader->at)) && (*at)->ready) && reader->at < queue->end &&
           queue->failure.status == FF_OK)
        pthread_cond_wait(&queue->ready, &queue->mutex);
    if (queue->failure.status != FF_OK) {
        if (error) *error = queue->failure;
        return queue->failure.status;
    }
    if (reader->at >= queue->end)
        return ff_fail(error, FF_INTERRUPTED, "stopped before its turn came");
    *taken = *at;
    *at = (*at)->next;
    queue->bytes -= (*taken)->item_bytes;
    reader->at++;
    if (reader->next < reader->at) reader->next = reader->at;
    pthread_cond_broadcast(&queue->work);
    return FF_OK;
}

ff_status ff_object_queue_take(ff_object_queue_reader *reader, const ff_item *item,
                               unsigned char **bytes, size_t *capacity, bool *announced,
                               ff_error *error) {
    ff_object_queue *queue = reader->queue;
    fetched *taken = NULL;
    *announced = queue && reader->at < reader->end;
    if (!*announced) return FF_OK;
    pthread_mutex_lock(&queue->mutex);
    const ff_status waited = await(reader, &taken, error);
    pthread_mutex_unlock(&queue->mutex);
    FF_TRY(waited);
    assert(taken->number == item->offset);
    free(*bytes);
    *bytes = taken->bytes;
    *capacity = taken->capacity;
    const ff_error failure = taken->failure;
    free(taken);
    if (failure.status != FF_OK && error) *error = failure;
    return failure.status;
}

void ff_object_queue_leave(ff_object_queue_reader *reader) {
    ff_object_queue *queue = reader->queue;
    if (!queue) return;
    pthread_mutex_lock(&queue->mutex);
    ff_object_queue_reader **at = &queue->reader;
    while (*at != reader) at = &(*at)->other;
    *at = reader->other;
    pthread_mutex_unlock(&queue->mutex);
    reader->queue = NULL;
}
