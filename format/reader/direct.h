/* Reads parts of shards into its own buffer, each in one request, while the caller waits. For sets
 * larger than memory: a mapping would fetch one page at a time and evict pages that others need.
 * loader/host/ahead/ reads many parts at a time, before they are used. Private to format/.
 *
 * Thread rule: one thread at a time uses an ff_direct. */
#ifndef FF_FORMAT_DIRECT_H
#define FF_FORMAT_DIRECT_H

#include "format/reader/files.h"

typedef struct ff_direct ff_direct;
/* The files must outlive the ff_direct. */
FF_MUST_USE ff_status ff_direct_open(ff_direct **direct, ff_files *files, ff_error *error);
void ff_direct_close(ff_direct **direct); /* NULL is accepted */

/* *out = `bytes` of the shard at `offset`, valid until the next call; `number` is the shard's.
 * Errors as in ff_files_read. */
FF_MUST_USE ff_status ff_direct_read(ff_direct *direct, const ff_shard *shard, uint32_t number,
                                     uint64_t offset, uint64_t bytes, const uint8_t **out,
                                     ff_error *error);

#endif
