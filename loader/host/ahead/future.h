/* When each piece of a set behind a URL is used next: the order of an epoch is known before it
 * begins, and so is that of the epoch after it. The cache of the set asks, when it needs space.
 * Private to loader/host/ahead/.
 *
 * The time of a use is EPOCH * POSITIONS + POSITION: of the rows of all ranks of this machine,
 * which share the cache (uses.h). The tables of an epoch are made when they are first asked for: 4
 * bytes per sample, and 4 per piece.
 *
 * Thread rule: any thread. */
#ifndef FF_LOADER_AHEAD_FUTURE_H
#define FF_LOADER_AHEAD_FUTURE_H

#include "loader/host/settings.h"

typedef struct ff_future ff_future;

/* Tells the dataset's caches. The settings must outlive it. */
FF_MUST_USE ff_status ff_future_create(ff_future **future, const ff_loader_settings *settings,
                                       ff_error *error);
void ff_future_destroy(ff_future **future); /* NULL is accepted */

/* The piece was copied for the rows of its group, the first of which is in batch `number`: the next
 * use is that of a later group. */
void ff_future_done(ff_future *future, const ff_sequence *sequence, uint32_t shard, uint32_t piece,
                    uint64_t number);

/* The rows from batch `number` of the sequence on still need the cache, no row before it does. */
void ff_future_move(ff_future *future, const ff_sequence *sequence, uint64_t number);

#endif
