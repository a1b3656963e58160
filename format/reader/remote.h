/* A set behind a URL: its index is fetched, and its shards by pieces, into a folder of the cache
 * (format/storage/cache.h) that looks like the set's own. Of an index of more than 1 MiB first only
 * header and table of checksums are fetched; index.h fetches the blocks that are needed. dataset.c
 * opens that folder; the functions here fetch what the reader is about to read. Private to format/.
 *
 * Thread rule: any thread, except for opening and closing. */
#ifndef FF_FORMAT_REMOTE_H
#define FF_FORMAT_REMOTE_H

#include "format/disk/shard.h"
#include "format/reader/reader.h"
#include "format/storage/cache.h"

typedef struct ff_remote ff_remote;

/* Fetches the index of the split at `url`, unless the cache has it, and checks what was fetched:
 * FF_BAD_DATA with the URL if it is wrong, also when it was fetched again. *folder = the split's
 * folder in the cache, allocated. `options` are copied; NULL: the process's defaults. */
FF_MUST_USE ff_status ff_remote_open(ff_remote **remote, const char *url,
                                     const ff_storage_options *options, char **folder,
                                     ff_error *error);
/* Reads bytes of the index from behind the URL. FF_IO if it was replaced since it was opened. */
FF_MUST_USE ff_status ff_remote_read_index(const ff_remote *remote, uint64_t offset, uint64_t bytes,
                                           void *to, ff_error *error);
/* Then, once the index is read: the shards, by number. */
FF_MUST_USE ff_status ff_remote_shards(ff_remote *remote, const ff_shard_row *row, uint32_t count,
                                       ff_error *error);
void ff_remote_close(ff_remote **remote); /* NULL is accepted */

/* Fetches what opening a shard reads: header and footer; with `tables` all that follows the
 * samples; with `whole` everything, for a mapping, which the cache then keeps. */
FF_MUST_USE ff_status ff_remote_shard(ff_remote *remote, uint32_t number, bool tables, bool whole,
                                      ff_error *error);
/* Fetches what ff_remote_shard fetched of header, footer and tables once more: it is wrong. */
FF_MUST_USE ff_status ff_remote_shard_again(ff_remote *remote, uint32_t number, ff_error *error);
const char *ff_remote_url(const ff_remote *remote);
const ff_storage_options *ff_remote_options(const ff_remote *remote);
ff_cache *ff_remote_cache(const ff_remote *remote);
/* ff_dataset_foresee for a set whose first shard has the number `first_shard` there. */
void ff_remote_foresee(ff_remote *remote, ff_dataset_next *next, void *context,
                       uint32_t first_shard);

#endif
