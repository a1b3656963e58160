/* Which pieces of a set behind a URL (format/storage/cache.h) the ranks of this machine use in an
 * epoch, and when: the order of an epoch is known before it begins. Private to loader/host/.
 *
 * A piece has a number among all of the set: those of shard s begin at first[s].
 *
 * Thread rule: pure. */
#ifndef FF_LOADER_AHEAD_USES_H
#define FF_LOADER_AHEAD_USES_H

#include "loader/host/settings.h"

/* *first: [shards + 1], the caller's to free. FF_USAGE for more than 2^32 pieces. */
FF_MUST_USE ff_status ff_uses_number(uint32_t **first, ff_dataset *dataset, ff_error *error);

/* Calls `take` for each use of a piece in an epoch, in the order of positions. by_group: the loader
 * keeps a group of blocks in memory, so a piece is used once in a group. Rows of other machines'
 * ranks are left out. */
typedef void ff_uses_take(void *context, uint32_t piece, uint32_t position);
FF_MUST_USE ff_status ff_uses_walk(const ff_loader_settings *settings, const uint32_t *first,
                                   uint32_t epoch, bool by_group, ff_uses_take *take, void *context,
                                   ff_error *error);

/* Whether the memory for reading ahead keeps groups of blocks. */
bool ff_uses_groups(const ff_loader_settings *settings);

#endif
