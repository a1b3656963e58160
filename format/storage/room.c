/* Space in the cache: which pieces are removed for others. */
#include "format/base/thread.h"
#include "format/storage/pieces.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* How long a call waits for pieces that others fetch, map or remove, since the last was fetched. */
#define WAIT_NS (UINT64_C(30) * 1000 * 1000 * 1000)
/* Pieces that threads of this process are reading are removed only if this long nothing was
 * fetched: their readers then wait for other pieces, for which the cache has no room. */
#define SPARE_NS (UINT64_C(1000) * 1000 * 1000)
/* How often other sets are looked at. */
#define LOOK_NS (UINT64_C(1000) * 1000 * 1000)
/* How often the removal of a wrong piece is tried, 1 ms apart. */
enum { REFUSE_TURNS = 2000 };

/* ---- one piece ------------------------------------------------------------------------------ */

/* Locks piece `number` of a set, and its object: false if a process maps, fetches or removes it. */
static bool lock_both(int descriptor, uint32_t object, uint32_t number) {
    bool got;
    const uint64_t mapped = FF_LOCK_OBJECTS + object, piece = FF_LOCK_PIECES + number;
    if (ff_pieces_lock(descriptor, "", mapped, 1, false, &got, NULL) != FF_OK || !got) return false;
    if (ff_pieces_lock(descriptor, "", piece, 1, false, &got, NULL) == FF_OK && got) return true;
    ff_pieces_unlock(descriptor, mapped, 1);
    return false;
}

/* Without the kept ends, whole blocks of 4096 bytes. */
void ff_piece_free(const ff_pieces_row *row, uint32_t piece, int file) {
    const uint64_t block = 4096;
    const uint64_t head = ff_align_u64(atomic_load(&row->head), block);
    const uint64_t tail = (row->bytes - atomic_load(&row->tail)) & ~(block - 1);
    uint64_t begin = piece * FF_PIECE_BYTES, end = begin + FF_PIECE_BYTES;
    if (begin < head) begin = head;
    if (end > tail) end = tail;
    if (end > begin)
        (void)!fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)begin,
                         (off_t)(end - begin));
}

/* Removes a piece that is there. From the counters' move on, no reader believes what it reads. The
 * caller has both locks. file: -1 if it was removed. */
static void drop(ff_pieces_header *header, const ff_pieces_row *row, atomic_uint_least32_t *counter,
                 uint32_t piece, int file) {
    atomic_fetch_add(&header->removals, 1);
    atomic_fetch_add(counter, 1);
    if (file >= 0) ff_piece_free(row, piece, file);
}

bool ff_piece_remove(ff_cache *cache, uint32_t object, uint32_t piece) {
    const uint32_t number = cache->file[object].first_piece + piece;
    int descriptor;
    pthread_mutex_lock(&cache->mutex);
    struct ff_cache_file *file = &cache->file[object];
    const bool mine = !cache->busy[number] && !file->busy;
    if (mine) cache->busy[number] = file->busy = true;
    pthread_mutex_unlock(&cache->mutex);
    if (!mine) return false;
    bool removed = false;
    if (!file->pinned && lock_both(cache->descriptor, object, number)) {
        const bool there = atomic_load(&cache->counter[number]) % 2;
        const bool opened = there && ff_cache_file_open(cache, object, &descriptor, NULL) == FF_OK;
        removed = opened || (there && ff_cache_file_is_lost(cache, object));
        if (removed) {
            drop(cache->header, &cache->row[object], &cache->counter[number], piece,
                 opened ? descriptor : -1);
            if (opened) close(descriptor);
            ff_room_give(cache, FF_PIECE_BYTES);
        }
        ff_pieces_unlock(cache->descriptor, FF_LOCK_PIECES + number, 1);
        ff_pieces_unlock(cache->descriptor, FF_LOCK_OBJECTS + object, 1);
    }
    pthread_mutex_lock(&cache->mutex);
    cache->busy[number] = file->busy = false;
    pthread_cond_broadcast(&cache->done);
    pthread_mutex_unlock(&cache->mutex);
    return removed;
}

void ff_piece_refuse(ff_cache *cache, uint32_t object, uint32_t piece) {
    const struct ff_cache_file *file = &cache->file[object];
    const struct timespec slice = {.tv_nsec = 1000 * 1000};
    atomic_uint_least32_t *counter = &cache->counter[file->first_piece + piece];
    const uint32_t wrong = atomic_load(counter);
    for (int turn = 0; turn < REFUSE_TURNS && wrong % 2 && atomic_load(counter) == wrong; turn++) {
        if (turn) nanosleep(&slice, NULL);
        pthread_mutex_lock(&cache->removing);
        const bool mine = atomic_load(counter) == wrong;
        const bool done = !mine || file->pinned || ff_piece_remove(cache, object, piece);
        pthread_mutex_unlock(&cache->removing);
        if (done) return;
    }
}

/* ---- which pieces --------------------------------------------------------------------------- */

/* Puts a victim among the furthest, of which the first in the array is the nearest: a heap. */
static void sift(ff_victim *heap, int count, int at) {
    for (;;) {
        int least = at, child = 2 * at + 1;
        for (int i = child; i < child + 2 && i < count; i++)
            if (heap[i].next < heap[least].next) least = i;
        if (least == at) return;
        const ff_victim moved = heap[at];
        heap[at] = heap[least];
        heap[least] = moved;
        at = least;
    }
}

static void offer(ff_cache *cache, const ff_victim *one, int most) {
    if (cache->victims < most) {
        cache->victim[cache->victims++] = *one;
        if (cache->victims == most)
            for (int i = most / 2 - 1; i >= 0; i--) sift(cache->victim, most, i);
    } else if (one->next > cache->victim[0].next) {
        cache->victim[0] = *one;
        sift(cache->victim, most, 0);
    }
}

static int by_next(const void *a, const void *b) {
    const ff_victim *one = a, *other = b;
    return one->next < other->next ? -1 : one->next > other->next;
}

static bool is_wanted(const ff_cache *cache, uint32_t number) {
    return atomic_load(&cache->wanted[number]);
}

/* When a piece is used next: 0 while it is read; without a known order, those fetched first are the
 * furthest. */
static uint64_t next_of(const ff_cache *cache, uint32_t object, uint32_t piece) {
    if (is_wanted(cache, cache->file[object].first_piece + piece)) return 0;
    if (cache->next) return cache->next(cache->context, object, piece);
    return UINT64_MAX - atomic_load(&cache->fetched[cache->file[object].first_piece + piece]);
}

/* The pieces whose next use is the furthest, the furthest last. Only a small part of those that are
 * there: while they are removed, pieces that were used meanwhile become further than they. */
static void find_victims(ff_cache *cache, bool spares) {
    const uint64_t part = atomic_load(&cache->header->bytes) / FF_PIECE_BYTES / 32 + 1;
    const int most = part < FF_VICTIMS ? (int)part : FF_VICTIMS;
    cache->victims = 0;
    cache->spared = false;
    for (uint32_t i = 0; i < cache->count; i++) {
        const struct ff_cache_file *file = &cache->file[i];
        pthread_mutex_lock(&cache->mutex);
        const bool busy = file->busy; /* whoever takes room for an object's ends has its file */
        pthread_mutex_unlock(&cache->mutex);
        if (busy) continue;
        for (uint32_t p = 0; p < file[1].first_piece - file->first_piece; p++) {
            const uint32_t number = file->first_piece + p,
                           counter = atomic_load(&cache->counter[number]);
            if (counter % 2 == 0 || file->pinned) continue;
            const bool spared = spares && is_wanted(cache, number);
            cache->spared |= spared;
            if (spared) continue;
            offer(cache, &(ff_victim){next_of(cache, i, p), i, p, number, counter}, most);
        }
    }
    qsort(cache->victim, (size_t)cache->victims, sizeof *cache->victim, by_next);
}

/* Whether a piece that was found before is still one to remove. */
static bool is_current(const ff_cache *cache, const ff_victim *one) {
    return atomic_load(&cache->counter[one->number]) == one->counter &&
           next_of(cache, one->object, one->piece) >= one->next;
}

/* spares: not what is read now. */
static bool remove_one(ff_cache *cache, bool spares) {
    for (int round = 0; round < 2; round++) {
        while (cache->victims) {
            const ff_victim *one = &cache->victim[--cache->victims];
            if (is_current(cache, one) && ff_piece_remove(cache, one->object, one->piece))
                return true;
        }
        if (round == 0) find_victims(cache, spares);
    }
    return false;
}

/* ---- other sets ----------------------------------------------------------------------------- */

static void remove_folder(int place, const char *name) {
    const int folder = openat(place, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *files = folder < 0 ? NULL : fdopendir(folder);
    if (!files) return;
    /* The state goes last: without it nobody would count the rest. */
    for (struct dirent *entry; (entry = readdir(files));)
        if (strcmp(entry->d_name, FF_PIECES_NAME) != 0) (void)unlinkat(folder, entry->d_name, 0);
    (void)unlinkat(folder, FF_PIECES_NAME, 0);
    closedir(files);
    (void)unlinkat(place, name, AT_REMOVEDIR);
}

/* Removes a set unless a process has it open; its bytes, or 0. */
static uint64_t remove_set(int place, const char *name) {
    char path[300];
    bool alone = false;
    ff_pieces_header header;
    snprintf(path, sizeof path, "%s/" FF_PIECES_NAME, name);
    const int descriptor = openat(place, path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return 0;
    uint64_t bytes = 0;
    if (ff_pieces_lock(descriptor, path, FF_LOCK_MAKING, 2, false, &alone, NULL) == FF_OK &&
        alone && read(descriptor, &header, sizeof header) == (ssize_t)sizeof header) {
        bytes = atomic_load(&header.bytes);
        remove_folder(place, name);
    }
    close(descriptor);
    return bytes;
}

/* Removes the set that nobody has open and that was opened last the longest ago. */
static bool remove_other_set(ff_cache *cache) {
    if (ff_now_ns() < cache->others_ns) return false;
    cache->others_ns = ff_now_ns() + LOOK_NS;
    DIR *sets = opendir(cache->place);
    if (!sets) return false;
    char oldest[256] = "";
    struct timespec when = {0};
    for (struct dirent *entry; (entry = readdir(sets));) {
        char path[300];
        struct stat info, own;
        if (*entry->d_name == '.' || strlen(entry->d_name) >= sizeof oldest) continue;
        snprintf(path, sizeof path, "%s/" FF_PIECES_NAME, entry->d_name);
        if (fstatat(dirfd(sets), path, &info, AT_SYMLINK_NOFOLLOW) ||
            fstat(cache->descriptor, &own) || info.st_ino == own.st_ino)
            continue;
        const int probe = openat(dirfd(sets), path, O_RDWR | O_CLOEXEC);
        bool alone = false;
        if (probe >= 0) (void)!ff_pieces_lock(probe, path, FF_LOCK_MAKING, 2, false, &alone, NULL);
        if (probe >= 0) close(probe);
        if (!alone || (*oldest && (info.st_atim.tv_sec > when.tv_sec ||
                                   (info.st_atim.tv_sec == when.tv_sec &&
                                    info.st_atim.tv_nsec >= when.tv_nsec))))
            continue;
        when = info.st_atim;
        snprintf(oldest, sizeof oldest, "%s", entry->d_name);
    }
    const uint64_t bytes = *oldest ? remove_set(dirfd(sets), oldest) : 0;
    closedir(sets);
    if (!bytes) return false;
    atomic_fetch_sub(cache->usage, bytes);
    cache->others_ns = 0;
    return true;
}

/* ---- sets that others have open ------------------------------------------------------------- */

/* The piece of a set that was fetched first, of an object that nobody maps: locked; -1 = none. */
static int64_t lock_first(int descriptor, const ff_pieces_header *header, const ff_pieces_row *row,
                          const atomic_uint_least32_t *counter, uint32_t *object, uint32_t *piece) {
    const atomic_uint_least32_t *fetched = counter + header->piece_count;
    int64_t best = -1;
    uint32_t number = 0;
    for (uint32_t i = 0; i < header->object_count; i++)
        for (uint32_t p = 0; p * FF_PIECE_BYTES < row[i].bytes; p++, number++) {
            if (atomic_load(&counter[number]) % 2 == 0 ||
                (best >= 0 && atomic_load(&fetched[number]) >= atomic_load(&fetched[best])))
                continue;
            best = number;
            *object = i;
            *piece = p;
        }
    const bool got = best >= 0 && lock_both(descriptor, *object, (uint32_t)best);
    return got && atomic_load(&counter[best]) % 2 ? best : -1;
}

/* Removes a piece of another set, whose state is mapped. Its owner sees the counter move, and
 * fetches the piece again. */
static bool remove_there(ff_cache *cache, int folder, int descriptor, char *map) {
    ff_pieces_header *header = (void *)map;
    ff_pieces_row *row = (void *)(map + FF_PIECES_HEADER_BYTES);
    atomic_uint_least32_t *counter = (void *)(row + header->object_count);
    uint32_t object = 0, piece = 0;
    const int64_t number = lock_first(descriptor, header, row, counter, &object, &piece);
    const int file = number < 0 ? -1 : openat(folder, row[object].name, O_RDWR | O_CLOEXEC);
    if (file < 0) return false;
    drop(header, &row[object], &counter[number], piece, file);
    close(file);
    atomic_fetch_sub(&header->bytes, FF_PIECE_BYTES);
    atomic_fetch_sub(cache->usage, FF_PIECE_BYTES);
    return true;
}

static bool remove_in(ff_cache *cache, int place, const char *name) {
    struct stat info, own;
    bool removed = false;
    const int folder = openat(place, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const int descriptor = folder < 0 ? -1 : openat(folder, FF_PIECES_NAME, O_RDWR | O_CLOEXEC);
    const bool other = descriptor >= 0 && !fstat(descriptor, &info) &&
                       !fstat(cache->descriptor, &own) && info.st_ino != own.st_ino;
    if (other && (uint64_t)info.st_size > FF_PIECES_HEADER_BYTES) {
        char *map =
            mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        if (map != MAP_FAILED && ff_pieces_fit(map, (uint64_t)info.st_size))
            removed = remove_there(cache, folder, descriptor, map);
        if (map != MAP_FAILED) munmap(map, (size_t)info.st_size);
    }
    if (descriptor >= 0) close(descriptor); /* and the locks are gone */
    if (folder >= 0) close(folder);
    return removed;
}

/* Another run's sets have all of the cache, and this one's have nothing to remove. */
static bool remove_of_others(ff_cache *cache) {
    DIR *sets = opendir(cache->place);
    bool removed = false;
    if (!sets) return false;
    for (struct dirent *entry; !removed && (entry = readdir(sets));)
        if (*entry->d_name != '.') removed = remove_in(cache, dirfd(sets), entry->d_name);
    closedir(sets);
    return removed;
}

/* ---- space ---------------------------------------------------------------------------------- */

/* A state that was removed may have given all of its bytes back (ff_room_leave). */
void ff_room_give(ff_cache *cache, uint64_t bytes) {
    uint_least64_t had = atomic_load(&cache->header->bytes);
    while (
        !atomic_compare_exchange_weak(&cache->header->bytes, &had, had > bytes ? had - bytes : 0))
        continue;
    atomic_fetch_sub(cache->usage, had > bytes ? bytes : had);
}

void ff_room_leave(ff_cache *cache) {
    if (!cache->usage || ff_cache_check(cache, NULL) == FF_OK) return;
    atomic_fetch_sub(cache->usage, atomic_exchange(&cache->header->bytes, 0));
}

/* Takes the bytes if they fit. */
static bool take(ff_cache *cache, uint64_t bytes) {
    uint_least64_t now = atomic_load(cache->usage);
    while (now + bytes <= cache->limit)
        if (atomic_compare_exchange_weak(cache->usage, &now, now + bytes)) {
            atomic_fetch_add(&cache->header->bytes, bytes);
            return true;
        }
    return false;
}

ff_status ff_room_take(ff_cache *cache, uint64_t bytes, ff_error *error) {
    uint64_t since = ff_now_ns();
    uint32_t fetches = atomic_load(&cache->header->fetches);
    while (!take(cache, bytes)) {
        if (fetches != atomic_load(&cache->header->fetches)) {
            fetches = atomic_load(&cache->header->fetches);
            since = ff_now_ns();
        }
        FF_TRY(ff_storage_check(cache->storage, error));
        FF_TRY(ff_cache_check(cache, error));
        pthread_mutex_lock(&cache->removing);
        const bool removed = remove_other_set(cache) ||
                             remove_one(cache, ff_now_ns() - since < SPARE_NS) ||
                             (!cache->spared && remove_of_others(cache));
        pthread_mutex_unlock(&cache->removing);
        if (removed) continue;
        if (bytes > cache->limit || ff_now_ns() - since > WAIT_NS)
            return ff_fail(
                error, FF_IO,
                "%s: the cache may have %" PRIu64
                " MiB, and all of it is in use; --cache-size or FFPACK_CACHE_SIZE allows more",
                cache->place, cache->limit >> 20);
        const struct timespec slice = {.tv_nsec = 2 * 1000 * 1000};
        nanosleep(&slice, NULL);
    }
    return FF_OK;
}
