/* A folder of images as items: the same classes, splits, numbers and keys whether the folder is on
 * disk (folder.c), in an archive (archive_tree.c) or in a bucket (objects.c); these add folders and
 * files one by one in any order.
 *
 * The order is as in torchvision's ImageFolder (torchvision/datasets/folder.py, 0.14): every folder
 * in the root is a class, numbered in the order of the names' bytes (Python sorts by code point,
 * which is the same for UTF-8). A class has the images of all folders below it: folders sorted by
 * their whole path, the files of each folder by name.
 *
 * Differences from ImageFolder, which change the numbers if there are such files:
 * - names that begin with a dot, and __MACOSX, are left out (chosen.h); in ImageFolder a hidden
 *   folder is a class;
 * - images with an unknown ending are taken by their content; ImageFolder leaves .jfif and .gif
 *   out;
 * - folders named as splits are splits (layout.h), each numbered on its own, all with the classes
 * of the first; a split without class folders has its labels from a list (label_list.h). As in
 * ImageFolder, a class without an image is an error, unless --allow-empty-classes. */
#ifndef FF_FFPACK_SOURCE_TREE_H
#define FF_FFPACK_SOURCE_TREE_H

#include "tools/ffpack/source/list/table.h"
#include "tools/ffpack/source/source.h"
#include "tools/ffpack/source/tree/chosen.h"

typedef struct ff_tree ff_tree;

/* A file's bytes: at `offset` of its archive, or its member `ordinal`. */
typedef struct ff_tree_place {
    uint64_t ordinal, offset, bytes;
} ff_tree_place;

/* Up to `size` first bytes of the file that is being added. */
typedef ff_status ff_tree_look(void *context, unsigned char *head, size_t size, size_t *got,
                               ff_error *error);

typedef struct ff_tree_options {
    bool files;        /* items are files in the folder `path`; else members of an archive */
    bool rooted;       /* the top is the root; else folders that hold but one are entered */
    const char *split; /* the name of the only split; NULL: found by layout.h */
    void *context;     /* for look and open */
    ff_tree_look *look;
    /* Opens a file of the tree as a table. */
    ff_status (*open)(void *context, const char *name, ff_table **table, ff_error *error);
} ff_tree_options;

/* `path` is the folder or archive; it and `options` must outlive the tree. */
FF_MUST_USE ff_status ff_tree_create(ff_tree **tree, ff_source *source, const char *path,
                                     const ff_tree_options *options, ff_error *error);
/* Names have no '/' in front or after. *taken = whether the folder's content is used. */
FF_MUST_USE ff_status ff_tree_add_folder(ff_tree *tree, const char *name, bool *taken,
                                         ff_error *error);
/* *image (may be NULL) = whether it is taken as an image. */
FF_MUST_USE ff_status ff_tree_add_file(ff_tree *tree, const char *name, const ff_tree_place *place,
                                       bool *image, ff_error *error);
/* After all were added: fills the source's splits with items of part `part`, FF_PART_FILE for
 * files. `plain`: by offset, else by ordinal. Field 0 of source->labels exists. */
FF_MUST_USE ff_status ff_tree_fill(ff_tree *tree, uint32_t part, bool plain, ff_error *error);
void ff_tree_destroy(ff_tree **tree);

/* Lists the archive `path` in one pass: adds a part and its splits. `nested` as ff_archive_open's;
 * `split` as above, with `rooted`. */
FF_MUST_USE ff_status ff_tree_list_archive(ff_source *source, const char *path, bool nested,
                                           const char *split, ff_error *error);
/* Lists the objects of ff_elsewhere_folder. */
FF_MUST_USE ff_status ff_tree_list_objects(ff_source *source, ff_error *error);

#endif
