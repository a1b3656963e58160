/* A set behind a URL: its index is fetched whole, its shards by pieces, into a folder of the cache
 * (format/storage/cache.h) that looks like the set's own. dataset.c opens that folder; the
 * functions here fetch what the reader is about to read. Private to format/.
 *
 * Thread rule: any thread, except for opening and closing. */
#ifndef FF_FORMAT_REMOTE_H
#define FF_FORMAT_REMOTE_H

#include "format/disk/shard.h"
#include "format/reader/reader.h"
#include "format/storage/cache.h"

typedef struct ff_remote ff_remote;

/* Fetches the index of the split at `url`, unless the cache has it. *folder = the split's folder in
 * the cache, allocated. `options` are copied; NULL: the process's defaults. */
FF_MUST_USE ff_status ff_remote_open(ff_remote **remote, const char *url,
                                     const ff_storage_options *options, char **folder,
                                     ff_error *error);
/* Then, once the index is read: the shards, by number. */
FF_MUST_USE ff_status ff_remote_shards(ff_remote *remote, const ff_shard_row *row, uint32_t count,
                                       ff_error *error);
void ff_remote_close(ff_remote **remote); /* NULL is accepted */

/* Fetches what opening a shard reads: header and footer; with `tables` all that follows the
 * samples; with `whole` everything, for a mapping, which the cache then keeps. */
FF_MUST_USE ff_status ff_remote_shard(ff_remote *remote, uint32_t number, bool tables, bool whole,
                                      ff_error *error);
const char *ff_remote_url(const ff_remote *remote);
const ff_storage_options *ff_remote_options(const ff_remote *remote);
ff_cache *ff_remote_cache(const ff_remote *remote);
/* ff_dataset_foresee for a set whose first shard has the number `first_shard` there. */
void ff_remote_foresee(ff_remote *remote, ff_dataset_next *next, void *context,
                       uint32_t first_shard);

#endif
