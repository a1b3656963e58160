/* What a bucket has where a set is written. Private to tools/ffpack/bucket. Thread rule: one thread
 * at a time. */
#ifndef FF_FFPACK_TARGET_H
#define FF_FFPACK_TARGET_H

#include "format/storage/storage.h"

typedef struct ff_target_entry {
    char *name; /* below the URL */
    ff_object object;
    bool is_index;
} ff_target_entry;

/* Zero-initialised except for the storage, which is the caller's. */
typedef struct ff_target {
    ff_storage *storage;
    const char *const *split; /* names of the splits that are written; "" = the URL itself */
    size_t splits;
    ff_target_entry *entry; /* in the order of names */
    size_t count, capacity;
} ff_target;

/* Finds the files of sets that readers would find together with these splits: those at the URL, in
 * the splits' folders, and in the folders where readers look for splits. */
FF_MUST_USE ff_status ff_target_look(ff_target *target, ff_error *error);
void ff_target_free(ff_target *target);

/* NULL = there is no such object. */
const ff_object *ff_target_find(const ff_target *target, const char *name);

/* *other = the name of an index that is there, and is neither the one in `folder` nor of an earlier
 * generation of that set (format/disk/generation.h). NULL = there is none, so all that is there is
 * of an unfinished set, of this one, or of what was appended to. */
FF_MUST_USE ff_status ff_target_compare(const ff_target *target, const char *folder,
                                        const char **other, ff_error *error);
/* FF_USAGE that names it. */
FF_MUST_USE ff_status ff_target_refuse(const ff_target *target, const char *other, ff_error *error);
/* Removes the indexes, so that no reader finds the set, and then the other files except those for
 * which `keep` is true (NULL: none). Counts in *removed. */
FF_MUST_USE ff_status ff_target_remove(ff_target *target, ff_storage_names *keep, void *context,
                                       uint64_t *removed, ff_error *error);

#endif
