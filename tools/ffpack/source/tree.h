/* An archive's members as the image folder that they would be where they were unpacked: the same
 * classes, splits, numbers and keys as tools/ffpack/source/folder.c gives that folder. */
#ifndef FF_FFPACK_SOURCE_TREE_H
#define FF_FFPACK_SOURCE_TREE_H

#include "tools/ffpack/source/source.h"

typedef struct ff_tree_options {
    bool nested; /* as ff_archive_open's */
    bool rooted; /* the archive's top is the root; else folders that hold but one are entered */
    const char *split; /* the split's name; NULL: of the folders, where they are splits, else "" */
} ff_tree_options;

/* Lists the archive `path` in one pass: adds a part and its splits. Field 0 of source->labels
 * exists. */
FF_MUST_USE ff_status ff_tree_list(ff_source *source, const char *path,
                                   const ff_tree_options *options, ff_error *error);

#endif
