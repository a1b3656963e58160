/* How a loader reads its set, and in which blocks: by the set's size and the memory that there is
 * for files. Private to loader/. Thread rule: called while the settings are made. */
#ifndef FF_LOADER_READING_H
#define FF_LOADER_READING_H

#include "loader/settings.h"

/* Fills settings->memory, shard_bytes, beyond_memory_bytes and unmappable. FF_USAGE as of
 * ff_host_memory_for_files; FF_NO_MEMORY where the set must be mapped and cannot be. */
FF_MUST_USE ff_status ff_reading_measure(ff_loader_settings *settings,
                                         const ff_loader_options *options, ff_error *error);

/* The bytes into which this rank may read ahead; after ff_reading_measure. */
uint64_t ff_reading_ahead_bytes(const ff_loader_settings *settings,
                                const ff_loader_options *options);

/* The block and the group that are not given; after ff_reading_measure. */
void ff_reading_choose_blocks(ff_loader_settings *settings, const ff_loader_options *options);

/* Sets settings->direct; after the order is resolved. */
void ff_reading_choose_access(ff_loader_settings *settings, const ff_loader_options *options);

#endif
