#include "tools/ffpack/source/remote/ahead.h"

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

struct ff_ahead {
    const ff_source_split *split;
    ff_stream_range range;
    ff_threads *threads;
    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t work, ready;
    ff_ahead_reader *reader;
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

static uint64_t item_at(const ff_ahead *ahead, uint64_t position) {
    const ff_stream_range *range = &ahead->range;
    return range->item ? range->item(range->context, position)
                       : ff_source_item_at(ahead->split, position);
}

static bool is_read(const ff_ahead *ahead, uint64_t position) {
    return item_at(ahead, position) != UINT64_MAX;
}

static fetched **find(ff_ahead *ahead, uint64_t position) {
    fetched **at = &ahead->fetched;
    while (*at && (*at)->position != position) at = &(*at)->next;
    return at;
}

/* The position that is needed first and that nobody fetches. False: there is none, or no room. */
static bool choose(ff_ahead *ahead, uint64_t *position) {
    uint64_t nearest = READER_ITEMS;
    ff_ahead_reader *chosen = NULL;
    for (ff_ahead_reader *reader = ahead->reader; reader; reader = reader->other) {
        while (reader->next < reader->end &&
               (!is_read(ahead, reader->next) || *find(ahead, reader->next)))
            reader->next++;
        if (reader->next >= reader->end || reader->next >= ahead->end ||
            reader->next - reader->at >= nearest)
            continue;
        chosen = reader;
        nearest = reader->next - reader->at;
    }
    const bool awaited = chosen && !nearest;
    if (!awaited && ahead->bytes >= AHEAD_BYTES) return false;
    if (chosen) {
        *position = chosen->next++;
        return true;
    }
    while (ahead->frontier < ahead->end && !is_read(ahead, ahead->frontier)) ahead->frontier++;
    if (ahead->frontier >= ahead->end || ahead->frontier - ahead->announced >= FRONTIER_ITEMS)
        return false;
    *position = ahead->frontier++;
    return true;
}

/* What a thread that fetches has for itself. */
typedef struct fetcher {
    ff_listing_cursor *cursor;
    ff_buffer path;
} fetcher;

/* Fetches the item. Called without the mutex, takes it to count the bytes. */
static ff_status fetch(ff_ahead *ahead, fetcher *own, fetched *to, ff_error *error) {
    ff_item item;
    bool alone;
    if (!own->cursor) FF_TRY(ff_listing_cursor_create(&own->cursor, ahead->split->listing, error));
    FF_TRY(ff_listing_item(own->cursor, item_at(ahead, to->position), &item, error));
    pthread_mutex_lock(&ahead->mutex);
    to->number = item.offset;
    to->item_bytes = item.bytes;
    ahead->bytes += item.bytes;
    pthread_mutex_unlock(&ahead->mutex);
    const ff_status status = ff_object_read(ahead->split, &item, &own->path, &to->bytes,
                                            &to->capacity, &alone, &to->failure);
    to->failure.status = status;
    if (status == FF_OK || alone) return FF_OK;
    if (error) *error = to->failure;
    return status;
}

/* Holds the mutex at begin and end. */
static ff_status fetch_next(ff_ahead *ahead, fetcher *own, uint64_t position, ff_error *error) {
    fetched *added;
    FF_TRY(ff_alloc(&added, 1, sizeof *added, "an object", error));
    added->position = position;
    added->next = ahead->fetched;
    ahead->fetched = added;
    pthread_mutex_unlock(&ahead->mutex);
    const ff_status status = fetch(ahead, own, added, error);
    pthread_mutex_lock(&ahead->mutex);
    added->ready = true;
    return status;
}

static void fetch_main(void *context, int index) {
    ff_ahead *ahead = context;
    fetcher own = {0};
    (void)index;
    pthread_mutex_lock(&ahead->mutex);
    while (!ahead->stop) {
        uint64_t position;
        if (!choose(ahead, &position)) {
            pthread_cond_wait(&ahead->work, &ahead->mutex);
            continue;
        }
        ff_error failure = {0};
        const ff_status status = fetch_next(ahead, &own, position, &failure);
        if (status != FF_OK && ahead->failure.status == FF_OK) {
            ahead->failure = failure;
            ahead->failure.status = status;
            ahead->stop = true;
            pthread_cond_broadcast(&ahead->work);
        }
        pthread_cond_broadcast(&ahead->ready);
    }
    pthread_mutex_unlock(&ahead->mutex);
    ff_listing_cursor_destroy(&own.cursor);
    ff_buffer_free(&own.path);
}

ff_status ff_ahead_create(ff_ahead **out, const ff_source_split *split,
                          const ff_stream_range *range, ff_error *error) {
    ff_ahead *ahead;
    *out = NULL;
    FF_TRY(ff_alloc(&ahead, 1, sizeof *ahead, "objects ahead", error));
    ahead->split = split;
    ahead->range = *range;
    ahead->announced = ahead->frontier = range->first;
    ahead->end = range->end;
    pthread_mutex_init(&ahead->mutex, NULL);
    pthread_cond_init(&ahead->work, NULL);
    pthread_cond_init(&ahead->ready, NULL);
    const uint64_t count = range->end - range->first;
    const ff_status status =
        ff_threads_start(&ahead->threads, (int)(count < FETCHERS ? count : FETCHERS), "fetch",
                         fetch_main, ahead, error);
    if (status == FF_OK)
        *out = ahead;
    else
        ff_ahead_destroy(&ahead);
    return status;
}

void ff_ahead_stop(ff_ahead *ahead, uint64_t first) {
    pthread_mutex_lock(&ahead->mutex);
    if (ahead->end > first) ahead->end = first;
    pthread_cond_broadcast(&ahead->ready);
    pthread_mutex_unlock(&ahead->mutex);
}

void ff_ahead_destroy(ff_ahead **out) {
    ff_ahead *ahead = *out;
    if (!ahead) return;
    pthread_mutex_lock(&ahead->mutex);
    ahead->stop = true;
    pthread_cond_broadcast(&ahead->work);
    /* A pass that ends early fails: nothing is read after it. */
    if (ahead->fetched) ff_storage_stop(ff_elsewhere_folder());
    pthread_mutex_unlock(&ahead->mutex);
    ff_threads_join(&ahead->threads);
    for (fetched *next; ahead->fetched; ahead->fetched = next) {
        next = ahead->fetched->next;
        free(ahead->fetched->bytes);
        free(ahead->fetched);
    }
    pthread_mutex_destroy(&ahead->mutex);
    pthread_cond_destroy(&ahead->work);
    pthread_cond_destroy(&ahead->ready);
    free(ahead);
    *out = NULL;
}

/* ---- readers -------------------------------------------------------------------------------- */

void ff_ahead_begin(ff_ahead *ahead, ff_ahead_reader *reader, uint64_t first, uint64_t end) {
    pthread_mutex_lock(&ahead->mutex);
    if (!reader->ahead) {
        reader->ahead = ahead;
        reader->other = ahead->reader;
        ahead->reader = reader;
    }
    reader->at = reader->next = first;
    reader->end = end < ahead->range.end ? end : ahead->range.end;
    if (ahead->announced < reader->end) ahead->announced = reader->end;
    if (ahead->frontier < ahead->announced) ahead->frontier = ahead->announced;
    pthread_cond_broadcast(&ahead->work);
    pthread_mutex_unlock(&ahead->mutex);
}

/* *taken = what was fetched for the reader's position, no longer in the list. Holds the mutex. */
static ff_status await(ff_ahead_reader *reader, fetched **taken, ff_error *error) {
    ff_ahead *ahead = reader->ahead;
    fetched **at;
    while (reader->at < reader->end && !is_read(ahead, reader->at)) reader->at++;
    while (!(*(at = find(ahead, reader->at)) && (*at)->ready) && reader->at < ahead->end &&
           ahead->failure.status == FF_OK)
        pthread_cond_wait(&ahead->ready, &ahead->mutex);
    if (ahead->failure.status != FF_OK) {
        if (error) *error = ahead->failure;
        return ahead->failure.status;
    }
    if (reader->at >= ahead->end)
        return ff_fail(error, FF_INTERRUPTED, "stopped before its turn came");
    *taken = *at;
    *at = (*at)->next;
    ahead->bytes -= (*taken)->item_bytes;
    reader->at++;
    if (reader->next < reader->at) reader->next = reader->at;
    pthread_cond_broadcast(&ahead->work);
    return FF_OK;
}

ff_status ff_ahead_take(ff_ahead_reader *reader, const ff_item *item, unsigned char **bytes,
                        size_t *capacity, bool *announced, ff_error *error) {
    ff_ahead *ahead = reader->ahead;
    fetched *taken = NULL;
    *announced = ahead && reader->at < reader->end;
    if (!*announced) return FF_OK;
    pthread_mutex_lock(&ahead->mutex);
    const ff_status waited = await(reader, &taken, error);
    pthread_mutex_unlock(&ahead->mutex);
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

void ff_ahead_leave(ff_ahead_reader *reader) {
    ff_ahead *ahead = reader->ahead;
    if (!ahead) return;
    pthread_mutex_lock(&ahead->mutex);
    ff_ahead_reader **at = &ahead->reader;
    while (*at != reader) at = &(*at)->other;
    *at = reader->other;
    pthread_mutex_unlock(&ahead->mutex);
    reader->ahead = NULL;
}
