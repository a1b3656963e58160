/* What a run fetches from behind a URL, by the order of its epochs and the size of its cache
 * (format/storage/cache.h): counted, before anything is fetched.
 *
 * A cache of n pieces is simulated over the uses of a whole run, in the order of positions; in
 * block order a group's pieces are used together, as they are read, if memory holds a group. The
 * piece that gives way is that whose next use is the furthest (what the cache does; L. A. Belady,
 * "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2),
 * 1966), or that whose last use is the longest ago, for comparison.
 *
 * Thread rule: pure. */
#ifndef FF_LOADER_CACHE_PLAN_H
#define FF_LOADER_CACHE_PLAN_H

#include "loader/host/options.h"

typedef struct ff_cache_plan ff_cache_plan;

/* Of `epochs` epochs of a loader with these options, 4 bytes of memory a use and epoch; with shares
 * of several machines (memory_ranks), of the first rank's. FF_USAGE as for the loader. */
FF_MUST_USE ff_status ff_cache_plan_create(ff_cache_plan **plan, ff_dataset *dataset,
                                           const ff_loader_options *options, uint32_t epochs,
                                           ff_error *error);
void ff_cache_plan_destroy(ff_cache_plan **plan); /* NULL is accepted */

/* Bytes of the pieces that an epoch uses, and the size of a cache that has them all: a piece takes
 * 1 MiB there, also a shorter one. */
uint64_t ff_cache_plan_bytes(const ff_cache_plan *plan);
uint64_t ff_cache_plan_room(const ff_cache_plan *plan);
/* The order's block and group, as the loader chose them. */
void ff_cache_plan_blocks(const ff_cache_plan *plan, uint64_t *block, uint64_t *group);

typedef enum ff_replacement { FF_REPLACES_FURTHEST, FF_REPLACES_OLDEST } ff_replacement;

typedef struct ff_cache_fetches {
    uint64_t first;   /* bytes of the first epoch, with an empty cache */
    uint64_t further; /* of each further epoch, the mean; 0 without any */
} ff_cache_fetches;

/* cache_bytes: at least a piece's. */
FF_MUST_USE ff_status ff_cache_plan_count(const ff_cache_plan *plan, uint64_t cache_bytes,
                                          ff_replacement replacement, ff_cache_fetches *fetches,
                                          ff_error *error);

#endif
