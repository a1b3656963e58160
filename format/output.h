/* The output folder of a packing run: OUT.partial under a lock, then one rename into place.
 *
 * OUT is one split's folder, or a folder of splits. Everything is built in `OUT.partial` next to
 * it; a second writer is refused. ff_output_commit renames it to OUT or, where OUT exists and
 * `force` is set, to OUT.replaced, exchanges that with OUT and removes the old set. So OUT.partial
 * never holds an old set, whenever the process is killed (FORMAT.md, "Committing"). Where the file
 * system cannot exchange folders, OUT is renamed to OUT.replaced.old
 * in between. Thread rule:
 * one thread at a time. */
#ifndef FF_FORMAT_OUTPUT_H
#define FF_FORMAT_OUTPUT_H

#include "format/metadata.h"

typedef struct ff_output ff_output;

typedef enum ff_output_mode {
    FF_OUTPUT_NEW_OR_CONTINUE, /* the default: continue an OUT.partial if there is one */
    FF_OUTPUT_CONTINUE,        /* --resume: refuse where there is none */
} ff_output_mode;

/* *resolved: where the symlink `path` leads, allocated, so that a set is replaced where it is and
 * the link stays; NULL where `path` is not a symlink to a folder. */
FF_MUST_USE ff_status ff_output_resolve(char **resolved, const char *path, ff_error *error);

/* Refuses (FF_USAGE) where OUT exists and not `force`, where another writer holds the lock, where
 * OUT.partial holds files that ffpack did not write. FF_IO where the parent is missing or not
 * writable. Creates OUT.partial and takes its lock. */
FF_MUST_USE ff_status ff_output_open(ff_output **output, const char *path, ff_output_mode mode,
                                     bool force, ff_error *error);

/* The folder to build a split in, created where missing: OUT.partial itself for split "", else
 * OUT.partial/SPLIT. Valid until close. */
FF_MUST_USE ff_status ff_output_split(ff_output *output, const char *split, const char **directory,
                                      ff_error *error);

/* Whether OUT.partial held whole shards when it was opened: the run is a continuation. */
bool ff_output_continues(const ff_output *output);

/* Whether the file system has no locks, so that nothing keeps a second writer out. */
bool ff_output_unlocked(const ff_output *output);

/* Bytes of the files that OUT.partial held when it was opened. */
uint64_t ff_output_bytes(const ff_output *output);

/* Puts the finished set into place. All splits' indexes must be committed before. */
FF_MUST_USE ff_status ff_output_commit(ff_output *output, ff_error *error);

/* Releases the lock; an OUT.partial without whole shards and measured statistics is removed, any
 * other is kept. NULL is accepted. */
void ff_output_close(ff_output **output);

#endif
