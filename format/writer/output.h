/* The output folder of a packing run: OUT.partial under a lock, then one rename into place.
 *
 * OUT is one split's folder, or a folder of splits. Everything is built in `OUT.partial` next to
 * it; a second writer is refused. ff_output_commit renames OUT.partial to OUT. If OUT exists and
 * `force` is set, it renames OUT.partial to OUT.replaced, exchanges OUT.replaced with OUT and
 * removes the old set. So OUT.partial never holds an old set, whenever the process is killed
 * (FORMAT.md, "Committing"). If the file system cannot exchange folders, OUT is renamed to
 * OUT.replaced.old in between. Thread rule: one thread at a time. */
#ifndef FF_FORMAT_OUTPUT_H
#define FF_FORMAT_OUTPUT_H

#include "format/disk/metadata.h"

typedef struct ff_output ff_output;

typedef enum ff_output_mode {
    FF_OUTPUT_NEW_OR_CONTINUE, /* the default: continue an existing OUT.partial */
    FF_OUTPUT_CONTINUE,        /* --resume: refuse if there is no OUT.partial */
} ff_output_mode;

/* *resolved: the target of the symlink `path`, allocated, so that a set is replaced where it is and
 * the symlink stays; NULL if `path` is not a symlink to a folder. */
FF_MUST_USE ff_status ff_output_resolve(char **resolved, const char *path, ff_error *error);

/* Refuses (FF_USAGE) if OUT exists and `force` is not set, if another writer holds the lock, or if
 * OUT.partial holds files that ffpack did not write. FF_IO if the parent is missing or not
 * writable. Creates OUT.partial and locks it. */
FF_MUST_USE ff_status ff_output_open(ff_output **output, const char *path, ff_output_mode mode,
                                     bool force, ff_error *error);

/* The folder to build a split in, created if missing: OUT.partial itself for split "", else
 * OUT.partial/SPLIT. Valid until close. */
FF_MUST_USE ff_status ff_output_split(ff_output *output, const char *split, const char **directory,
                                      ff_error *error);

/* Whether OUT.partial held whole shards when it was opened: the run is a continuation. */
bool ff_output_continues(const ff_output *output);

/* Whether the file system has no locks, so that a second writer is not prevented. */
bool ff_output_unlocked(const ff_output *output);

/* Total size of the files in OUT.partial when it was opened. */
uint64_t ff_output_bytes(const ff_output *output);

/* Puts the finished set into place. The indexes of all splits must be committed before. */
FF_MUST_USE ff_status ff_output_commit(ff_output *output, ff_error *error);

/* Removes OUT.partial, whose set is elsewhere now. */
FF_MUST_USE ff_status ff_output_remove(ff_output *output, ff_error *error);

/* Releases the lock. Removes OUT.partial if it has neither whole shards nor measured statistics,
 * else keeps it. NULL is accepted. */
void ff_output_close(ff_output **output);

#endif
