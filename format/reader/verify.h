/* Checks every byte of a packed split: what ffinspect --verify does. */
#ifndef FF_FORMAT_VERIFY_H
#define FF_FORMAT_VERIFY_H

#include "format/storage/storage.h"

#include <stdbool.h>
#include <stdint.h>

/* Called for every problem found, with one sentence that names path and place, and for progress
 * (message NULL); by one thread at a time. `done` and `total` count bytes. Return false to stop. */
typedef bool (*ff_verify_report)(void *context, const char *message, uint64_t done, uint64_t total);

/* Reads the index and every shard of the split folder `path` completely: headers, footers, section
 * tables, agreement of metadata, records against index entries, samples and frames against their
 * checksums, recomputed ids, zero padding, no bytes between. Any changed bit of any file is found.
 * FF_OK if all is well; FF_BAD_DATA (with the first problem) if any problem was reported; FF_IO if
 * reading failed; FF_INTERRUPTED if `report` stopped it. `thread_count` threads share the
 * shards. `storage`: as for ff_dataset_open_several. */
FF_MUST_USE ff_status ff_verify_split(const char *path, const ff_storage_options *storage,
                                      int thread_count, ff_verify_report report, void *context,
                                      ff_error *error);

#endif
