/* Which folders of a tree are splits: the folders of the root, if all have names of splits
 * (ff_split_rank), one folder for each split. --splits NAME=FOLDER,...: only these folders;
 * --splits none: no folder. A mixture of split names and other names is refused. */
#ifndef FF_FFPACK_SOURCE_LAYOUT_H
#define FF_FFPACK_SOURCE_LAYOUT_H

#include "tools/ffpack/source/names.h"
#include "tools/ffpack/source/tree/label_list.h"

typedef enum ff_tree_split_kind {
    FF_SPLIT_CLASSES,  /* a folder for each class */
    FF_SPLIT_LISTED,   /* labels from `list` */
    FF_SPLIT_UNLABELED /* class -1 */
} ff_tree_split_kind;

typedef struct ff_tree_split {
    char *name;   /* "" without splits */
    char *folder; /* in the root, "train/"; "" = the root itself */
    ff_tree_split_kind kind;
    ff_label_list *list; /* not owned */
} ff_tree_split;

typedef struct ff_tree_layout {
    ff_tree_split *split; /* [count] train first */
    size_t count;
} ff_tree_layout; /* zero-initialised {0} */

/* `top`: the folders of the root, sorted; `where`: the root in messages; `wanted`: --splits, or
 * NULL. FF_USAGE naming the choices. Must be freed also after a failure. */
FF_MUST_USE ff_status ff_tree_layout_find(ff_tree_layout *layout, const char *where,
                                          const ff_names *top, const char *wanted, ff_error *error);
/* One split, which is the root. */
FF_MUST_USE ff_status ff_tree_layout_single(ff_tree_layout *layout, const char *name,
                                            ff_error *error);
void ff_tree_layout_free(ff_tree_layout *layout);

#endif
