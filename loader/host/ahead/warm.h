/* Warming: reading a mapped set into memory ahead of the faults of its first epoch. Private to
 * loader/.
 *
 * If memory keeps a set, samples are mapped, and each page is read from the disk once, in the first
 * epoch. In random order every fault waits for one small read, the slowest kind: a disk with seeks
 * then reads 120 samples a second, and takes hours for a set of 10 GB. One thread reads the shards
 * meanwhile, in the order of storage and in large requests, into the page cache; the faults then
 * find their pages there. Pages that are already in memory cost next to nothing. The thread is at
 * most LEAD_BYTES and LEAD_TIMES ahead of what the loader has used, so a few batches of a large set
 * do not cause all of the set to be read. Each share of a job begins at another place, so that
 * ranks of one machine read different parts first. Each machine reads all pages, because it needs
 * its own.
 *
 * Nothing here fails: a shard that cannot be read is left to its readers, who report it.
 *
 * Thread rule: create and destroy are called by one thread, ff_warm_used by any. */
#ifndef FF_LOADER_AHEAD_WARM_H
#define FF_LOADER_AHEAD_WARM_H

#include "loader/host/settings.h"

typedef struct ff_warm ff_warm;

/* *warm = NULL if the set is not mapped, the settings have no threads, or there is no memory for
 * the thread. If some probed places show that the set is in memory, the thread ends at once. The
 * dataset must outlive it. */
void ff_warm_create(ff_warm **warm, const ff_loader_settings *settings);
/* Stops; waits at most for the request at the disk. NULL is accepted. */
void ff_warm_destroy(ff_warm **warm);

/* The loader has used `rows` more rows. NULL is accepted. */
void ff_warm_used(ff_warm *warm, uint64_t rows);

#endif
