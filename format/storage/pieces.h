/* The state of a cached set, as all processes see it, and the space of the whole cache. Private to
 * format/storage: cache.c fetches, room.c removes.
 *
 * CACHE/ID/pieces, mapped: a header of 4096 bytes, a row for each object, a counter for each piece,
 * and when it was fetched. CACHE/usage, mapped: the bytes that all sets have. Counters are changed
 * by atomic operations. A killed process leaves sums that are off by what it was doing; whoever
 * opens the cache alone counts again. */
#ifndef FF_STORAGE_PIECES_H
#define FF_STORAGE_PIECES_H

#include "format/storage/cache.h"

#include <pthread.h>
#include <stdatomic.h>

#define FF_PIECES_NAME "pieces"
#define FF_USAGE_NAME  "usage"

typedef struct ff_pieces_header {
    char magic[8];
    uint64_t piece_bytes, object_count, piece_count;
    atomic_uint_least64_t bytes; /* of the pieces and ends that are there */
    atomic_uint_least32_t fetches;
    atomic_uint_least32_t removals; /* counted before the piece's counter moves */
} ff_pieces_header;

enum { FF_NAME_BYTES = 40 }; /* of an object's name, with the final zero */

typedef struct ff_pieces_row {
    uint64_t bytes;
    atomic_uint_least64_t head, tail; /* bytes that are kept at the begin and at the end */
    char name[FF_NAME_BYTES];
} ff_pieces_row;

/* header | rows | counters | numbers of fetches */
#define FF_PIECES_HEADER_BYTES UINT64_C(4096)
/* Whether the mapped state of a set is whole. */
bool ff_pieces_fit(const void *map, uint64_t bytes);

/* Bytes of CACHE/ID/pieces and CACHE/usage that are locked. */
enum {
    FF_LOCK_MAKING = 0, /* while the file is made or counted again */
    FF_LOCK_OPEN = 1,   /* shared by each process that has it open */
    FF_LOCK_OBJECTS =
        1 << 12 /* + object: shared while it is mapped, alone while a piece is removed */
};
#define FF_LOCK_ENDS   (UINT64_C(1) << 36) /* + object: while its ends are fetched */
#define FF_LOCK_PIECES (UINT64_C(1) << 40) /* + piece: while it is fetched or removed */

/* A piece that may be removed. */
typedef struct ff_victim {
    uint64_t next;
    uint32_t object, piece, number; /* number: among all of the set */
    uint32_t counter;
} ff_victim;
enum { FF_VICTIMS = 64 };

struct ff_cache {
    ff_storage *storage;
    char *place, *folder; /* CACHE; CACHE/ID */
    uint64_t limit;
    uint32_t count;
    struct ff_cache_file {
        char *name;
        uint64_t bytes;
        uint32_t first_piece; /* among all of the set */
        ff_object known;      /* what the server said first */
        bool busy;            /* a thread fetches its ends, removes a piece or maps it */
        bool pinned;
    } * file;       /* [count + 1]; the last has only first_piece */
    int descriptor; /* of `pieces` */
    uint64_t map_bytes;
    ff_pieces_header *header;
    ff_pieces_row *row;             /* [count] */
    atomic_uint_least32_t *counter; /* [pieces] */
    atomic_uint_least32_t *fetched; /* [pieces]: the number of the fetch */
    int usage_descriptor;
    atomic_uint_least64_t *usage; /* bytes of the whole cache */
    pthread_mutex_t mutex;        /* of `busy`, `known` and `writing` */
    pthread_cond_t done;
    uint32_t writing, writing_most; /* files that are open while their bytes arrive */
    atomic_ushort *wanted;    /* [pieces]: callers that read them, or wait for all of a range */
    bool *busy;               /* [pieces]: a thread of this process fetches or removes it */
    pthread_mutex_t removing; /* of all below: one thread at a time removes */
    ff_victim victim[FF_VICTIMS];
    int victims;
    bool spared;        /* find_victims left pieces out that are being read */
    uint64_t others_ns; /* when sets that nobody has open are looked for again */
    ff_cache_next *next;
    void *context;
};

/* A lock of the kernel on `bytes` bytes of a file, which ends with the descriptor. *got = false:
 * another process has it. */
FF_MUST_USE ff_status ff_pieces_lock(int descriptor, const char *path, uint64_t at, uint64_t bytes,
                                     bool shared, bool *got, ff_error *error);
void ff_pieces_unlock(int descriptor, uint64_t at, uint64_t bytes);

/* Opens and maps both files: makes and counts them if need be. */
FF_MUST_USE ff_status ff_pieces_open(ff_cache *cache, ff_error *error);
void ff_pieces_close(ff_cache *cache);

/* Adds `bytes` to the usage, after removing pieces until they fit: FF_IO if nothing can be removed.
 */
FF_MUST_USE ff_status ff_room_take(ff_cache *cache, uint64_t bytes, ff_error *error);
/* Bytes that were taken and are not there. */
void ff_room_give(ff_cache *cache, uint64_t bytes);
/* Before the cache is closed: a state that was removed has nothing. */
void ff_room_leave(ff_cache *cache);
/* Frees the space of a piece in its object's file. The caller has the locks of both. */
void ff_piece_free(const ff_pieces_row *row, uint32_t piece, int file);
/* Removes one piece, unless it is busy, locked or mapped; true if it was removed. The caller has
 * `removing`. */
bool ff_piece_remove(ff_cache *cache, uint32_t object, uint32_t piece);
/* Removes a piece that is wrong, unless others do. Whoever reads other pieces of its object or its
 * ends has it for a moment, here and in other processes: this is awaited. */
void ff_piece_refuse(ff_cache *cache, uint32_t object, uint32_t piece);

/* FF_IO if the state was removed: another process may have made a new one since, for which the
 * files of the same names are. */
FF_MUST_USE ff_status ff_cache_check(const ff_cache *cache, ff_error *error);

/* Opens an object's file for writing; the caller closes the descriptor. FF_IO also if it was
 * removed, or the state. */
FF_MUST_USE ff_status ff_cache_file_open(const ff_cache *cache, uint32_t object, int *descriptor,
                                         ff_error *error);

/* Whether there is no such file, after ff_cache_file_open has failed. */
bool ff_cache_file_is_lost(const ff_cache *cache, uint32_t object);

#endif
