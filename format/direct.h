/* Reads parts of shards into its own buffer, bypassing the page cache where the file system can
 * (O_DIRECT), in one request each. For sets larger than memory: a mapping would fetch one page at a
 * time and evict pages that others need. Private to format/.
 *
 * Thread rule: an ff_direct belongs to one thread at a time. */
#ifndef FF_FORMAT_DIRECT_H
#define FF_FORMAT_DIRECT_H

#include "format/shard.h"

typedef struct ff_direct ff_direct;
FF_MUST_USE ff_status ff_direct_open(ff_direct **direct, ff_error *error);
void ff_direct_close(ff_direct **direct); /* NULL is accepted */

/* *out = `bytes` of the shard at `offset`, valid until the next call; `number` is the shard's.
 * FF_IO with path and offset where the file cannot be read or ends before, or with its path where
 * another file is there now. */
FF_MUST_USE ff_status ff_direct_read(ff_direct *direct, const ff_shard *shard, uint32_t number,
                                     uint64_t offset, uint64_t bytes, const uint8_t **out,
                                     ff_error *error);

/* Closes one open file, for a process that has no descriptor left; false where none is open. */
bool ff_direct_give_up(ff_direct *direct);

#endif
