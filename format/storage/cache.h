/* A folder on a local disk with parts of a storage's objects, shared by all processes of a machine.
 *
 * One set has one folder in the cache, CACHE/ID. Each of its objects has a sparse file there, of
 * the object's size. Its ends are kept: ranges at its begin and at its end that are fetched once
 * and stay (headers, tables). What lies between is cut into PIECES of 1 MiB at multiples of 1 MiB,
 * which are fetched when they are needed, several neighbours by one request, and removed when
 * others need their space.
 *
 * The file CACHE/ID/pieces, mapped by every process, has a counter for each piece: odd while the
 * piece is there. A reader looks at the counters, reads, and looks again (ff_cache_done): if a
 * counter has moved, the piece was removed meanwhile, and the reader asks for it again. So nobody
 * holds a lock while reading, and a process that is killed leaves nothing locked. Whoever fetches
 * or removes a piece holds the kernel's lock on byte PIECE of that file; whoever maps an object
 * holds a shared lock, so that none of its pieces is removed.
 *
 * Which piece is removed: the one whose next use is the furthest in the future (L. A. Belady, "A
 * study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966),
 * by the order of reading that ff_cache_foresee was told; without one, the one that was fetched
 * first. Pieces of sets that no process has open go before all others.
 *
 * Thread rule: any thread. */
#ifndef FF_STORAGE_CACHE_H
#define FF_STORAGE_CACHE_H

#include "format/storage/storage.h"

#define FF_PIECE_BYTES (UINT64_C(1) << 20)

typedef struct ff_cache ff_cache;

typedef struct ff_cache_options {
    const char *folder; /* NULL: FFPACK_CACHE, $XDG_CACHE_HOME/ffpack or ~/.cache/ffpack */
    uint64_t bytes;     /* the most of the whole folder; 0: FFPACK_CACHE_SIZE, or half of the space
                         * that is free or that the cache has */
} ff_cache_options;

typedef struct ff_cached_object {
    const char *name; /* without / */
    uint64_t bytes;
} ff_cached_object;

/* The folder for a set, allocated, made if it does not exist. */
FF_MUST_USE ff_status ff_cache_place(char **folder, const ff_cache_options *options, const char *id,
                                     ff_error *error);

/* Opens the cache of a set's objects: `folder` comes from ff_cache_place. The storage must outlive
 * the cache; the objects are copied. FF_BAD_DATA if the folder has objects of other sizes. */
FF_MUST_USE ff_status ff_cache_open(ff_cache **cache, const ff_cache_options *options,
                                    const char *folder, ff_storage *storage,
                                    const ff_cached_object *object, uint32_t count,
                                    ff_error *error);
void ff_cache_close(ff_cache **cache); /* NULL is accepted */

typedef struct ff_cache_space {
    const char *place;   /* the folder of all sets, owned by the cache */
    uint64_t limit;      /* the most of the whole folder */
    uint64_t all, there; /* bytes of this set's pieces and ends, about, and of those there */
} ff_cache_space;
ff_cache_space ff_cache_space_of(const ff_cache *cache);

/* Fetches the first `head` and the last `tail` bytes of an object, unless they are there; they
 * stay. */
FF_MUST_USE ff_status ff_cache_keep(ff_cache *cache, uint32_t object, uint64_t head, uint64_t tail,
                                    ff_error *error);

/* Fetches the kept ends of an object once more: they are wrong. */
FF_MUST_USE ff_status ff_cache_keep_again(ff_cache *cache, uint32_t object, ff_error *error);

/* What the pieces of a range were when they were there. */
typedef uint64_t ff_cache_mark;

/* Fetches what is missing of a range. The caller then reads the file, and calls ff_cache_done with
 * the same range: if that is true, it has read the object's bytes, else it does both again.
 * Meanwhile other pieces are removed first. */
FF_MUST_USE ff_status ff_cache_need(ff_cache *cache, uint32_t object, uint64_t offset,
                                    uint64_t bytes, ff_cache_mark *mark, ff_error *error);
bool ff_cache_done(ff_cache *cache, uint32_t object, uint64_t offset, uint64_t bytes,
                   ff_cache_mark mark);

/* Fetches a range into memory, past the cache. */
FF_MUST_USE ff_status ff_cache_read_past(ff_cache *cache, uint32_t object, uint64_t offset,
                                         uint64_t bytes, uint8_t *to, ff_error *error);

/* The pieces of a range are wrong: they are fetched again when they are needed. */
void ff_cache_refuse(ff_cache *cache, uint32_t object, uint64_t offset, uint64_t bytes);

/* Whether a range is there, for a caller that maps the file and locks nothing: what was read from
 * it is right if ff_cache_removals is after it what it was before this call. */
bool ff_cache_has(const ff_cache *cache, uint32_t object, uint64_t offset, uint64_t bytes);
uint32_t ff_cache_removals(const ff_cache *cache);

/* Fetches a whole object, which stays until ff_cache_unpin, or until the cache is closed: for
 * callers that map its file. */
FF_MUST_USE ff_status ff_cache_pin(ff_cache *cache, uint32_t object, ff_error *error);
void ff_cache_unpin(ff_cache *cache, uint32_t object);

/* `next` returns when a piece is used next, in any unit of time that grows; UINT64_MAX: never.
 * Piece p of an object holds its bytes from p * FF_PIECE_BYTES on. Called by any thread, also at
 * the same time. NULL: nothing is known. */
typedef uint64_t ff_cache_next(void *context, uint32_t object, uint32_t piece);
void ff_cache_foresee(ff_cache *cache, ff_cache_next *next, void *context);

#endif
