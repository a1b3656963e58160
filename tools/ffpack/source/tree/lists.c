/* Lists of labels of a tree: from --labels, and inside the tree. */
#include "tools/ffpack/source/tree/tree_state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- lists of labels ----------------------------------------------------------------------- */

ff_status ff_tree_lists_add(ff_tree_splits *splits, const char *split, size_t split_bytes,
                            const char *path, size_t path_bytes, ff_error *error) {
    FF_TRY(
        ff_grow(&splits->list, splits->list_count, sizeof *splits->list, "lists of labels", error));
    ff_tree_list *list = &splits->list[splits->list_count++];
    *list = (ff_tree_list){0};
    FF_TRY(ff_copy_bytes(&list->split, split, split_bytes, error));
    return ff_copy_bytes(&list->path, path, path_bytes, error);
}

ff_status ff_tree_lists_parse(ff_tree_splits *splits, const char *wanted, ff_error *error) {
    const char *equals = strchr(wanted, '=');
    if (!equals || access(wanted, F_OK) == 0)
        return ff_tree_lists_add(splits, "", 0, wanted, strlen(wanted), error);
    for (const char *at = wanted; at;) {
        size_t bytes = strcspn(at, ",");
        equals = memchr(at, '=', bytes);
        if (!equals || equals == at || equals + 1 == at + bytes)
            return ff_fail(error, FF_USAGE,
                           "--labels: '%.*s' in '%s' is not SPLIT=FILE; wanted FILE, or "
                           "SPLIT=FILE,SPLIT=FILE",
                           (int)bytes, at, wanted);
        FF_TRY(ff_tree_lists_add(splits, at, (size_t)(equals - at), equals + 1,
                                 bytes - (size_t)(equals + 1 - at), error));
        at = at[bytes] ? at + bytes + 1 : NULL;
    }
    return FF_OK;
}

static size_t find_table(const ff_tree *tree, const char *name) {
    for (size_t i = 0; i < tree->tables.count; i++)
        if (!strcmp(ff_names_at(&tree->tables, i), name)) return i;
    return SIZE_MAX;
}

ff_status ff_tree_lists_read_own(ff_label_list *list, const ff_tree *tree, const char *name,
                                 const char *columns, ff_error *error) {
    ff_table *table;
    char *path;
    FF_TRY(tree->options->open(tree->options->context, name, &table, error));
    ff_status status =
        ff_format(&path, error, "%s%s%s", tree->path, tree->options->files ? "/" : ": ", name);
    if (status != FF_OK) {
        ff_table_close(&table);
        return status;
    }
    status = ff_label_list_read(list, path, tree->source->label, columns, table, error);
    free(path);
    return status;
}

/* The folders at which a list's paths may begin: the split's folder, also below SOURCE or from '/'
 * on. */
static ff_status find_roots(ff_tree_list *from, const ff_tree *tree, const ff_tree_layout *layout,
                            ff_error *error) {
    const ff_tree_split *split = NULL;
    for (size_t i = 0; i < layout->count; i++)
        if (!strcmp(layout->split[i].name, from->split) || layout->count == 1)
            split = &layout->split[i];
    if (!split) return FF_OK;
    char *whole = tree->options->files ? realpath(tree->path, NULL) : NULL;
    const char *above[] = {whole, tree->options->files ? tree->path : NULL, ""};
    ff_status status = FF_OK;
    for (size_t i = 0; i < sizeof above / sizeof above[0] && status == FF_OK; i++) {
        char *root;
        if (!above[i]) continue;
        status = ff_format(&root, error, "%s%s%s%s", above[i], *above[i] ? "/" : "", tree->root,
                           split->folder);
        if (status != FF_OK) break;
        if (*root) status = ff_names_add(&from->list.roots, root, strlen(root), error);
        free(root);
    }
    free(whole);
    return status;
}

ff_status ff_tree_lists_read(ff_tree_list *from, ff_tree *tree, const ff_tree_layout *layout,
                             ff_error *error) {
    char *name;
    FF_TRY(find_roots(from, tree, layout, error));
    FF_TRY(ff_format(&name, error, "%s%s", tree->root, from->path));
    size_t found = access(from->path, F_OK) ? find_table(tree, name) : SIZE_MAX;
    ff_table *table;
    ff_status status;
    if (found != SIZE_MAX) {
        tree->table_used[found] = true;
        status = ff_tree_lists_read_own(&from->list, tree, name, tree->source->columns, error);
    } else {
        status = ff_table_open(&table, from->path, error);
        if (status == FF_OK)
            status = ff_label_list_read(&from->list, from->path, tree->source->label,
                                        tree->source->columns, table, error);
    }
    free(name);
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "--labels");
}

/* ---- images of a split --------------------------------------------------------------------- */

const ff_tree_split *ff_tree_splits_of(const ff_tree_splits *splits, const ff_tree *tree,
                                       const ff_item *item, size_t *within) {
    size_t root = strlen(tree->root);
    if (item->key_bytes <= root || memcmp(item->key, tree->root, root) != 0) return NULL;
    const char *name = (const char *)item->key + root;
    for (size_t i = 0; i < splits->layout.count; i++) {
        const char *folder = splits->layout.split[i].folder;
        size_t bytes = strlen(folder);
        if (item->key_bytes - root <= bytes || memcmp(name, folder, bytes) != 0) continue;
        *within = root + bytes;
        return &splits->layout.split[i];
    }
    return NULL;
}

ff_status ff_tree_splits_images(const ff_tree_splits *splits, const ff_tree *tree,
                                const ff_tree_split *split, ff_tree_image_taker *take,
                                ff_label_list *list, ff_error *error) {
    ff_listing_cursor *cursor;
    FF_TRY(ff_listing_cursor_create(&cursor, tree->images, error));
    ff_status status = FF_OK;
    for (uint64_t i = 0; i < ff_listing_count(tree->images) && status == FF_OK; i++) {
        ff_item item;
        size_t within = 0;
        status = ff_listing_item(cursor, i, &item, error);
        if (status == FF_OK && ff_tree_splits_of(splits, tree, &item, &within) == split)
            status = take(list, (const char *)item.key + within, item.key_bytes - within, error);
    }
    ff_listing_cursor_destroy(&cursor);
    return status;
}

static ff_status count_held(ff_label_list *list, const char *key, size_t bytes, ff_error *error) {
    (void)error;
    list->marked += ff_label_list_holds(list, key, bytes);
    return FF_OK;
}

ff_status ff_tree_lists_find(const ff_tree_splits *splits, const ff_tree *tree,
                             const ff_tree_split *split, const char *inside, bool deep,
                             size_t *found, ff_error *error) {
    *found = SIZE_MAX;
    size_t bytes = strlen(inside);
    for (size_t i = 0; i < tree->tables.count; i++) {
        const char *name = ff_names_at(&tree->tables, i);
        if (strncmp(name, inside, bytes) != 0) continue;
        const char *slash = strchr(name + bytes, '/');
        if (slash && (!deep || strchr(slash + 1, '/'))) continue;
        ff_label_list list = {0};
        ff_error unread = {0};
        /* A file that is not a list of names and classes is not a list of labels. */
        ff_status status = ff_tree_lists_read_own(&list, tree, name, NULL, &unread);
        uint64_t held = 0;
        if (status == FF_OK) {
            status = ff_tree_splits_images(splits, tree, split, count_held, &list, error);
            held = list.marked;
        } else if (status == FF_BAD_DATA) {
            status = FF_OK;
        } else if (error) {
            *error = unread;
        }
        ff_label_list_free(&list);
        FF_TRY(status);
        if (!held) continue;
        if (*found != SIZE_MAX)
            return ff_fail(error, FF_USAGE,
                           "%s: both %s and %s name images of %s; wanted one list as --labels "
                           "%s=FILE",
                           tree->path, ff_names_at(&tree->tables, *found), name, split->name,
                           split->name);
        *found = i;
    }
    return FF_OK;
}
