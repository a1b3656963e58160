/* Packed sets on the disk: what a folder is, and which splits it holds. A set is a split's folder
 * or a folder of splits (FORMAT.md). Thread rule: pure. */
#ifndef FF_FORMAT_SET_H
#define FF_FORMAT_SET_H

#include "format/base/memory.h"

typedef enum ff_folder {
    FF_FOLDER_OTHER,  /* not a packed split */
    FF_FOLDER_SHARDS, /* shards without an index: broken */
    FF_FOLDER_PART,   /* a part of a split's shards (format/disk/part.h) */
    FF_FOLDER_SPLIT,  /* has an index */
} ff_folder;

typedef struct ff_split {
    char *path;
    char *name; /* name of its folder in the set; "" if the set is the split itself */
    ff_folder kind;
} ff_split;

/* The splits, sorted by name. Zero-initialised; owns its strings. */
typedef struct ff_set {
    size_t count, capacity;
    ff_split *split;
} ff_set;

/* Finds what kind of folder `path` is. FF_IO if it cannot be listed. */
FF_MUST_USE ff_status ff_folder_look(const char *path, ff_folder *kind, ff_error *error);

/* Finds the splits of `path`: `path` itself, or else the folders in it that are splits. Skips
 * hidden folders and folders that cannot be listed. count is 0 if there are no splits. FF_IO if
 * `path` cannot be listed. The caller frees the set, after a failure too. */
FF_MUST_USE ff_status ff_set_find(ff_set *set, const char *path, ff_error *error);
void ff_set_free(ff_set *set);

/* Appends the paths of the set's splits, "a, b, c". */
FF_MUST_USE ff_status ff_set_list(const ff_set *set, ff_buffer *text, ff_error *error);

/* The usual names of splits, in the order in which they are shown: train, val, valid, test; others
 * follow. */
typedef enum ff_set_rank {
    FF_SPLIT_TRAIN,
    FF_SPLIT_VAL,
    FF_SPLIT_VALID,
    FF_SPLIT_TEST,
    FF_SPLIT_OTHER
} ff_set_rank;
ff_set_rank ff_set_rank_of(const char *name);

/* *folder = `path` if it has an index, else the first folder of these ranks in it that has one, or
 * NULL. Freed by the caller. */
FF_MUST_USE ff_status ff_set_choose(char **folder, const char *path, ff_set_rank from,
                                    ff_set_rank to, ff_error *error);

/* Whether `path` is a split, or a folder whose folders are all splits. */
bool ff_set_is_whole(const char *path);

/* FF_OK if `path` is a folder. FF_IO if nothing exists there; the error names the sets next to it.
 * FF_BAD_DATA if it is a file. */
FF_MUST_USE ff_status ff_set_check_folder(const char *path, ff_error *error);

/* FF_BAD_DATA if the folder `path` is a part of a set (it has no index). */
FF_MUST_USE ff_status ff_set_refuse_part(const char *path, ff_error *error);

/* Fails with the reason why `path`, which has no index, cannot be read. Never FF_OK. */
FF_MUST_USE ff_status ff_set_refuse(const char *path, ff_error *error);

#endif
