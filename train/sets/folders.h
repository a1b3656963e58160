/* The folders of --data: one, or several whose sets a run trains on as one set
 * (ff_dataset_open_several). Thread-safe. */
#ifndef FF_TRAIN_FOLDERS_H
#define FF_TRAIN_FOLDERS_H

#include "format/reader/reader.h"

typedef struct ff_folders {
    char *text; /* what `path` points to */
    const char *path[FF_SETS_LIMIT];
    size_t count;
} ff_folders;

/* Cuts `data` at its commas, except at those in the name of a folder that exists. FF_USAGE: more
 * than FF_SETS_LIMIT, or an empty one. Release with ff_folders_free; zeroed on failure. */
FF_MUST_USE ff_status ff_folders_read(ff_folders *folders, const char *data, ff_error *error);
void ff_folders_free(ff_folders *folders);

/* The same list with each path from the root, which the caller frees; NULL if a path cannot be
 * found, or without memory. */
char *ff_folders_absolute(const char *data);

#endif
