/* The splits of a tree, and the origin of each one's labels. */
#include "tools/ffpack/source/tree/tree_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- what a split is ----------------------------------------------------------------------- */

/* Its images are in no folders, or all in one named images that is not a class of the first
 * split. */
static bool is_flat(const ff_tree_splits *splits, const ff_tree *tree, const ff_tree_split *split,
                    const char *inside, const ff_names *folders) {
    static const char *const words[] = {"images", "image", "imgs", "img"};
    if (!folders->count) return ff_tree_has_images(tree, inside);
    if (folders->count > 1 || split == splits->layout.split) return false;
    const char *folder = ff_names_at(folders, 0), *first = splits->layout.split->folder;
    size_t root_bytes = strlen(tree->root), first_bytes = strlen(first);
    for (size_t i = 0; i < tree->folders.count; i++) {
        const char *at = ff_names_at(&tree->folders, i); /* is one next to it in the first split? */
        if (!strncmp(at, tree->root, root_bytes) && !strncmp(at + root_bytes, first, first_bytes) &&
            !strcmp(at + root_bytes + first_bytes, folder))
            return false;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strcasecmp(folder, words[i])) return true;
    return false;
}

/* --labels has a list for a split that the source does not have. */
static ff_status refuse_list(const ff_tree_splits *splits, const ff_tree *tree, ff_error *error) {
    const ff_tree_list *list = &splits->list[0];
    const char *path = tree->source->path;
    return ff_fail(
        error, FF_USAGE,
        "--labels: %s has no split '%s', but images without splits; wanted --labels FILE "
        "alone%s",
        path, list->split, tree->source->rule ? ", whose images --split divides" : "");
}

/* Names the command that would accept it, as far as its list can be found. */
static ff_status without_labels(const ff_tree_splits *splits, const ff_tree *tree,
                                const ff_tree_split *split, const char *inside, ff_error *error) {
    char *where;
    size_t found = SIZE_MAX;
    if (!*split->name && splits->list_count) return refuse_list(splits, tree, error);
    FF_TRY(ff_tree_lists_find(splits, tree, split, inside, true, &found, error));
    if (found == SIZE_MAX && *split->folder)
        FF_TRY(ff_tree_lists_find(splits, tree, split, tree->root, false, &found, error));
    const char *file =
        found == SIZE_MAX ? "FILE" : ff_names_at(&tree->tables, found) + strlen(tree->root);
    const char *wanted = tree->source->splits, *exclude = tree->source->exclude;
    FF_TRY(ff_tree_where(tree, split->folder, &where, error));
    ff_status status = ff_fail(
        error, FF_BAD_DATA,
        "%s: its images are not in class folders; wanted %s of them and their classes, a name and a class per line: ffpack %s -o OUT --labels %s%s%s%s%s%s%s",
        where, found == SIZE_MAX ? "a list" : "the list", tree->source->path, split->name,
        *split->name ? "=" : "", file, wanted ? " --splits " : "", wanted ? wanted : "",
        exclude ? " --exclude " : "", exclude ? exclude : "");
    free(where);
    return status;
}

static ff_tree_list *list_of(ff_tree_splits *splits, const char *split) {
    for (size_t i = 0; i < splits->list_count; i++)
        if (!strcmp(splits->list[i].split, split)) return &splits->list[i];
    return NULL;
}

/* A split without class folders and without --labels. */
static ff_status find_own_labels(ff_tree_splits *splits, ff_tree *tree, ff_tree_split *split,
                                 const char *inside, ff_error *error) {
    size_t found = SIZE_MAX;
    char *text;
    if (split != splits->layout.split)
        FF_TRY(ff_tree_lists_find(splits, tree, split, inside, true, &found, error));
    if (found != SIZE_MAX) {
        const char *name = ff_names_at(&tree->tables, found);
        tree->table_used[found] = true;
        FF_TRY(
            ff_tree_lists_add(splits, split->name, strlen(split->name), name, strlen(name), error));
        split->kind = FF_SPLIT_LISTED;
        FF_TRY(ff_tree_lists_read_own(&splits->list[splits->list_count - 1].list, tree, name, NULL,
                                      error));
        FF_TRY(ff_format(&text, error, "%s: labels from %s", split->name, name));
        return ff_source_note(tree->source, text, error);
    }
    if (strcmp(split->name, "test") != 0 || split == splits->layout.split)
        return without_labels(splits, tree, split, inside, error);
    split->kind = FF_SPLIT_UNLABELED;
    return FF_OK;
}

static ff_status find_kind(ff_tree_splits *splits, ff_tree *tree, ff_tree_split *split,
                           ff_error *error) {
    char *inside;
    ff_names folders;
    FF_TRY(ff_format(&inside, error, "%s%s", tree->root, split->folder));
    ff_status status = ff_tree_folders(tree, inside, &folders, NULL, error);
    if (status == FF_OK) {
        bool flat = is_flat(splits, tree, split, inside, &folders);
        const ff_tree_list *every = list_of(splits, "");
        if (list_of(splits, split->name) || (every && (flat || splits->layout.count == 1)))
            split->kind = FF_SPLIT_LISTED;
        else if (flat)
            status = find_own_labels(splits, tree, split, inside, error);
    }
    ff_names_free(&folders);
    free(inside);
    return status;
}

static ff_status check_lists(const ff_tree_splits *splits, const ff_tree *tree, ff_error *error) {
    size_t listed = 0;
    for (size_t i = 0; i < splits->layout.count; i++)
        listed += splits->layout.split[i].kind == FF_SPLIT_LISTED;
    if (!listed && tree->source->label_kind != FF_LABEL_GUESS)
        return ff_fail(error, FF_USAGE,
                       "--label-kind: no split of %s has its labels from a list; class folders "
                       "are names",
                       tree->path);
    for (size_t i = 0; i < splits->list_count; i++) {
        const char *name = splits->list[i].split;
        bool used = false;
        for (size_t k = 0; k < splits->layout.count && !used; k++)
            used = !strcmp(splits->layout.split[k].name, name) ||
                   (!*name && splits->layout.split[k].kind == FF_SPLIT_LISTED);
        if (!used && *name)
            return ff_fail(error, FF_USAGE, "--labels: %s has no split '%s'", tree->path, name);
        if (!used)
            return ff_fail(error, FF_USAGE,
                           "--labels: all splits of %s have class folders; wanted SPLIT=FILE if a "
                           "split should take its labels from the list",
                           tree->path);
    }
    return FF_OK;
}

/* ---- names of images and of lines ---------------------------------------------------------- */

static ff_status unlabeled(ff_tree *tree, ff_tree_split *split, ff_error *error) {
    char *text;
    split->kind = FF_SPLIT_UNLABELED;
    FF_TRY(ff_format(&text, error, "%s: without labels (class -1)", split->name));
    return ff_source_note(tree->source, text, error);
}

/* Every image of a listed split must have a line. */
static ff_status mark(ff_tree_splits *splits, ff_tree *tree, ff_tree_split *split,
                      ff_error *error) {
    ff_tree_list *from = list_of(splits, split->name);
    if (!from) from = list_of(splits, "");
    ff_label_list *list = split->list = &from->list;
    uint64_t marked = list->marked;
    FF_TRY(ff_tree_splits_images(splits, tree, split, ff_label_list_mark, list, error));
    if (!*from->split && !strcmp(split->name, "test") && list->marked == marked &&
        split != splits->layout.split) {
        list->missing = 0;
        return unlabeled(tree, split, error);
    }
    if (!list->missing || tree->source->skip) return FF_OK;
    char *where;
    FF_TRY(ff_tree_where(tree, split->folder, &where, error));
    ff_status status = ff_fail(
        error, FF_BAD_DATA,
        "%s: %s has no line for %.200s%s%s%.200s%s; wanted one for each image, or --on-error "
        "skip to leave out images without one",
        where, list->path, list->first_missing, list->missing > 1 ? " and others" : "",
        list->marked ? "" : "; its lines name other files, such as '",
        list->marked ? "" : ff_names_at(&list->name, 0), list->marked ? "" : "'");
    free(where);
    return status;
}

/* --splits names folders that are there, in the root or, in an archive, from its top on. */
static ff_status check_folders(const ff_tree_splits *splits, ff_tree *tree, ff_error *error) {
    for (size_t i = 0; i < splits->layout.count; i++) {
        const char *folder = splits->layout.split[i].folder;
        bool there = false;
        for (int top = 0; top < 2 && !there; top++) {
            if (top && !i) *tree->root = 0;
            char *inside;
            FF_TRY(ff_format(&inside, error, "%s%s", tree->root, folder));
            inside[strlen(inside) - 1] = 0;
            for (size_t k = 0; k < tree->folders.count && !there; k++)
                there = !strcmp(ff_names_at(&tree->folders, k), inside);
            free(inside);
        }
        if (!there)
            return ff_fail(error, FF_USAGE, "--splits: %s has no folder %.*s", tree->path,
                           (int)strlen(folder) - 1, folder);
    }
    return FF_OK;
}

static ff_status find(ff_tree_splits *splits, ff_tree *tree, ff_error *error) {
    ff_tree_layout *layout = &splits->layout;
    const char *wanted = tree->source->splits;
    if (tree->source->columns && !tree->source->label_list)
        return ff_fail(error, FF_USAGE,
                       "--columns: is for a list as SOURCE, or for a list of --labels FILE");
    if (tree->source->label_list)
        FF_TRY(ff_tree_lists_parse(splits, tree->source->label_list, error));
    if (tree->options->split) {
        FF_TRY(ff_tree_layout_single(layout, tree->options->split, error));
    } else {
        ff_names top;
        char *where;
        FF_TRY(ff_tree_where(tree, "", &where, error));
        ff_status status = ff_tree_folders(tree, tree->root, &top, NULL, error);
        if (status == FF_OK) status = ff_tree_layout_find(layout, where, &top, wanted, error);
        ff_names_free(&top);
        free(where);
        FF_TRY(status);
        if (wanted && strcmp(wanted, "none") != 0) FF_TRY(check_folders(splits, tree, error));
    }
    for (size_t i = 0; i < splits->list_count; i++)
        FF_TRY(ff_tree_lists_read(&splits->list[i], tree, layout, error));
    for (size_t i = 0; i < layout->count; i++)
        FF_TRY(find_kind(splits, tree, &layout->split[i], error));
    FF_TRY(check_lists(splits, tree, error));
    for (size_t i = 0; i < layout->count; i++) {
        ff_tree_split *split = &layout->split[i];
        if (split->kind == FF_SPLIT_UNLABELED) FF_TRY(unlabeled(tree, split, error));
        if (split->kind == FF_SPLIT_LISTED) FF_TRY(mark(splits, tree, split, error));
    }
    return FF_OK;
}

ff_status ff_tree_splits_find(ff_tree_splits *splits, ff_tree *tree, ff_error *error) {
    return find(splits, tree, error);
}

ff_status ff_tree_splits_finish(const ff_tree_splits *splits, ff_tree *tree, ff_error *error) {
    for (size_t i = 0; i < splits->list_count; i++) {
        const ff_label_list *list = &splits->list[i].list;
        const char *example = "";
        char *text;
        uint64_t unused = ff_label_list_unused(list, &example);
        if (!unused) continue;
        FF_TRY(ff_format(&text, error, "%s: %" PRIu64 " line%s no image (%s%s)", list->path, unused,
                         unused == 1 ? " names" : "s name", example, unused == 1 ? "" : ", ..."));
        FF_TRY(ff_source_note(tree->source, text, error));
    }
    return FF_OK;
}

void ff_tree_splits_free(ff_tree_splits *splits) {
    ff_tree_layout_free(&splits->layout);
    for (size_t i = 0; i < splits->list_count; i++) {
        free(splits->list[i].split);
        free(splits->list[i].path);
        ff_label_list_free(&splits->list[i].list);
    }
    free(splits->list);
    *splits = (ff_tree_splits){0};
}
