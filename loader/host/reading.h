/* How a loader reads its set, and in which blocks: by the set's size and the memory available for
 * files. Private to loader/. Thread rule: called while the settings are made. */
#ifndef FF_LOADER_READING_H
#define FF_LOADER_READING_H

#include "loader/host/settings.h"

/* Fills settings->memory, shard_bytes, beyond_memory_bytes and unmappable. Fails as
 * ff_host_memory_for_files does; FF_NO_MEMORY if the set must be mapped and cannot be. */
FF_MUST_USE ff_status ff_reading_measure(ff_loader_settings *settings,
                                         const ff_loader_options *options, ff_error *error);

/* The memory for this rank's reading ahead; after ff_reading_measure. */
uint64_t ff_reading_ahead_bytes(const ff_loader_settings *settings,
                                const ff_loader_options *options);

/* Chooses the block and the group, unless they are set; after ff_reading_measure. */
void ff_reading_choose_blocks(ff_loader_settings *settings, const ff_loader_options *options);

/* Sets settings->direct; after the order is resolved. */
void ff_reading_choose_access(ff_loader_settings *settings);
/* Whether a set behind a URL that is read has come into the cache, and would be mapped now. */
bool ff_reading_may_map(const ff_loader_settings *settings);

/* Sets cache_bytes and cache_wanted. */
void ff_reading_look_at_cache(const ff_loader_settings *settings, ff_loader_info *info);

/* The bytes of a mapped set that a loader's threads made the disk read, and the bytes that they
 * used. While memory keeps the set, each page is read once. If something else takes the memory,
 * pages are read again, each time with the device's whole read-ahead. */
typedef struct ff_reading_watch {
    uint64_t read, used; /* bytes, until the whole set's are used */
    bool again;          /* and in the turn before, more was read than used */
} ff_reading_watch;

/* Adds `rows` rows, for which a thread made the disk read `read` bytes. True if more than 1.25
 * bytes were read for each byte used, in two successive turns of a set's bytes each; or earlier, if
 * the excess is twice the set's bytes. Bypassing the page cache reads about 1 byte for each byte
 * used. A set that leaves memory once and comes back does not count. */
bool ff_reading_is_evicted(ff_reading_watch *watch, const ff_loader_settings *settings,
                           uint64_t rows, uint64_t read);

/* From now on samples are read, not mapped, or the other way round: sets settings->direct, ahead
 * and read_again, and reads how much memory there is now. evicted: the watch that found the set
 * evicted; NULL = another reason. */
void ff_reading_turn(ff_loader_settings *settings, const ff_reading_watch *evicted);
/* The other way could not be begun: all is as before ff_reading_turn. */
void ff_reading_turn_back(ff_loader_settings *settings);

#endif
