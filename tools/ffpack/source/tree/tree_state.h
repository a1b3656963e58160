/* A tree's state, private to this folder: tree.c collects it, splits.c makes splits of it. */
#ifndef FF_FFPACK_SOURCE_TREE_STATE_H
#define FF_FFPACK_SOURCE_TREE_STATE_H

#include "tools/ffpack/source/sorter.h"
#include "tools/ffpack/source/tree/layout.h"
#include "tools/ffpack/source/tree/tree.h"

struct ff_tree {
    ff_source *source;
    const char *path;
    const ff_tree_options *options;
    ff_chosen chosen;
    ff_listing *images; /* in the order of adding; an ff_tree_place as labels */
    ff_sorter *sorter;  /* the folders', then the images' */
    ff_names folders;   /* all, sorted */
    bool *has_images;   /* [folders.count] in the folder itself */
    bool root_images;   /* next to the topmost folders */
    ff_names tables;    /* files that may be lists of labels; not yet counted as left out */
    bool *table_used;   /* [tables.count] */
    ff_buffer last;     /* the folder added last */
    char *root;         /* "" or "a/b/" */
};

/* "SOURCE/ROOT/inside" or "ARCHIVE: ROOT/inside", without a '/' at its end; allocated. */
FF_MUST_USE ff_status ff_tree_where(const ff_tree *tree, const char *inside, char **where,
                                    ff_error *error);
/* The folders directly in folder `inside` of the tree ("" or "a/b/"), by their base names, sorted;
 * *only (may be NULL) = the index of the last one in tree->folders. */
FF_MUST_USE ff_status ff_tree_folders(const ff_tree *tree, const char *inside, ff_names *names,
                                      size_t *only, ff_error *error);
/* Whether there are images directly in folder `inside`. */
bool ff_tree_has_images(const ff_tree *tree, const char *inside);

/* ---- splits.c: the splits, and the origin of their labels -------------------------------- */

/* A list of labels: of --labels, or found in the tree. */
typedef struct ff_tree_list {
    char *split; /* "" = of every split without class folders */
    char *path;  /* as in the option */
    ff_label_list list;
} ff_tree_list;

typedef struct ff_tree_splits {
    ff_tree_layout layout;
    ff_tree_list *list;
    size_t list_count;
} ff_tree_splits; /* zero-initialised {0} */

/* Finds the splits, and the origin of each one's labels. */
FF_MUST_USE ff_status ff_tree_splits_find(ff_tree_splits *splits, ff_tree *tree, ff_error *error);
/* The split of an image, by its key in the tree, or NULL; *within = its key inside the split. */
const ff_tree_split *ff_tree_splits_of(const ff_tree_splits *splits, const ff_tree *tree,
                                       const ff_item *item, size_t *within);
/* Notes which lines name no image. */
FF_MUST_USE ff_status ff_tree_splits_finish(const ff_tree_splits *splits, ff_tree *tree,
                                            ff_error *error);
void ff_tree_splits_free(ff_tree_splits *splits);

/* ---- lists.c: the lists of labels ---------------------------------------------------------- */

/* `split` "": of every split without class folders. */
FF_MUST_USE ff_status ff_tree_lists_add(ff_tree_splits *splits, const char *split,
                                        size_t split_bytes, const char *path, size_t path_bytes,
                                        ff_error *error);
/* Adds the lists of --labels: FILE, or SPLIT=FILE,...... */
FF_MUST_USE ff_status ff_tree_lists_parse(ff_tree_splits *splits, const char *wanted,
                                          ff_error *error);
/* Reads a file of --labels, which may also be one of the tree, by its name in the root. */
FF_MUST_USE ff_status ff_tree_lists_read(ff_tree_list *from, ff_tree *tree,
                                         const ff_tree_layout *layout, ff_error *error);
/* Reads a file of the tree; `columns`: --columns, or NULL. */
FF_MUST_USE ff_status ff_tree_lists_read_own(ff_label_list *list, const ff_tree *tree,
                                             const char *name, const char *columns,
                                             ff_error *error);
/* The table in `inside` (with `deep` also in its folders) that names images of the split: *found =
 * its index in tree->tables, SIZE_MAX if there is none. Two are refused. */
FF_MUST_USE ff_status ff_tree_lists_find(const ff_tree_splits *splits, const ff_tree *tree,
                                         const ff_tree_split *split, const char *inside, bool deep,
                                         size_t *found, ff_error *error);

/* Called for every image of a split, by its key in the split. */
typedef ff_status ff_tree_image_taker(ff_label_list *list, const char *key, size_t bytes,
                                      ff_error *error);
FF_MUST_USE ff_status ff_tree_splits_images(const ff_tree_splits *splits, const ff_tree *tree,
                                            const ff_tree_split *split, ff_tree_image_taker *take,
                                            ff_label_list *list, ff_error *error);

/* ---- fill.c ---------------------------------------------------------------------------------- */

/* Sorts the images and lists them as the items of the source's splits. */
FF_MUST_USE ff_status ff_tree_fill_splits(ff_tree *tree, ff_tree_splits *splits, uint32_t part,
                                          bool plain, ff_error *error);

#endif
