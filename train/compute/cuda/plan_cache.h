/* The plan cache: the engine chosen for a convolution and the plan's text, in one file per key.
 *
 * A key is text that names everything a plan depends on (engine_cache.c writes it). The key's file
 * is FOLDER/XXH3-128 of the key, in hexadecimal, + ".plan":
 *   ffpack plan 2
 *   checksum 16 hexadecimal digits: XXH3-64 of all that follows this line
 *   key BYTES
 *   json BYTES
 *   found NUMBER
 *   ns NUMBER: of a run, 0 if it was not timed
 *   flags none | those of tensor-cores runtime-compiled deterministic timed
 *   engine NAME
 *   the key, a line end, the plan's text, a line end
 * Files are not trusted: a file that is broken, of another format or for another key is treated as
 * missing. Files are replaced atomically. The folder may be copied to another machine. Thread rule:
 * any thread, any process. */
#ifndef FF_TRAIN_CUDA_PLAN_CACHE_H
#define FF_TRAIN_CUDA_PLAN_CACHE_H

#include "format/base/memory.h"
#include "train/compute/cuda/library.h"

typedef struct ff_plan_entry {
    ff_library_engine engine; /* cached is true */
    char *json;               /* owned; NULL = no plan */
} ff_plan_entry;

void ff_plan_entry_release(ff_plan_entry *entry);

/* Writes and parses the bytes of a file. FF_BAD_DATA: the message states what is wrong. */
FF_MUST_USE ff_status ff_plan_entry_write(ff_buffer *file, const char *key,
                                          const ff_plan_entry *entry, ff_error *error);
FF_MUST_USE ff_status ff_plan_entry_parse(const void *bytes, size_t length, const char *key,
                                          ff_plan_entry *entry, ff_error *error);

/* FF_OK with entry->json NULL: not in the cache. FF_BAD_DATA or FF_IO: not usable; the error
 * message names the file. */
FF_MUST_USE ff_status ff_plan_cache_get(const char *folder, const char *key, ff_plan_entry *entry,
                                        ff_error *error);
/* Creates the folder, and its parents, if missing. */
FF_MUST_USE ff_status ff_plan_cache_put(const char *folder, const char *key,
                                        const ff_plan_entry *entry, ff_error *error);

/* $FFPACK_PLAN_CACHE, or $XDG_CACHE_HOME/ffpack/plans, or ~/.cache/ffpack/plans. NULL = no cache:
 * the first is empty, or none of the variables is set. The caller frees it. */
FF_MUST_USE ff_status ff_plan_cache_folder(char **folder, ff_error *error);

#endif
