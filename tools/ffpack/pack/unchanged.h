/* --if-changed: whether OUT is what this run would make, by a file in OUT that an earlier run with
 * --if-changed left. FF_SOURCE_STATE_NAME (format/disk/layout.h) is not part of the set's ids:
 *
 *     source ID     XXH3-128 of the splits' metadata, as they are before statistics are computed,
 *                   which have the options that decide; of the listing; and of each file's path
 *                   from the root, size and time of change
 *     set ID        of the name, size and time of change of every other file in OUT
 *     skipped 0|1   whether OUT.skipped.tsv is there
 *
 * Thread rule: one thread. */
#ifndef FF_FFPACK_UNCHANGED_H
#define FF_FFPACK_UNCHANGED_H

#include "tools/ffpack/run/run.h"

/* The source ID of a listed run whose splits are described; to be taken before items are read, so
 * that a file that changes meanwhile is packed again. */
FF_MUST_USE ff_status ff_unchanged_source(const ff_run *run, uint8_t id[16], ff_error *error);

/* Whether the folder OUT holds what an earlier run with this source ID left. */
FF_MUST_USE ff_status ff_unchanged_check(const char *output, const uint8_t source[16],
                                         bool *unchanged, ff_error *error);

/* Leaves the file in `partial`, the finished OUT.partial of `output`. */
FF_MUST_USE ff_status ff_unchanged_write(const char *partial, const char *output,
                                         const uint8_t source[16], ff_error *error);

#endif
