#include "tools/ffpack/source/tree/tree.h"

#include "tools/ffpack/decode/decode.h"
#include "tools/ffpack/source/tree/tree_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FOLDERS_LIMIT_BYTES (UINT64_C(64) << 20)
enum { TABLES_LIMIT = 4096 };

ff_status ff_tree_create(ff_tree **out, ff_source *source, const char *path,
                         const ff_tree_options *options, ff_error *error) {
    ff_tree *tree;
    *out = NULL;
    FF_TRY(ff_alloc(&tree, 1, sizeof *tree, "a tree of folders", error));
    tree->source = source;
    tree->path = path;
    tree->options = options;
    ff_status status;
    FF_TRY_DONE(ff_chosen_open(&tree->chosen, source->exclude, &source->left_out, error));
    FF_TRY_DONE(ff_sorter_create(&tree->sorter, source->temporary, error));
    FF_TRY_DONE(ff_listing_create(&tree->images, source->temporary, sizeof(ff_tree_place), error));
done:
    if (status == FF_OK)
        *out = tree;
    else
        ff_tree_destroy(&tree);
    return status;
}

void ff_tree_destroy(ff_tree **out) {
    ff_tree *tree = *out;
    if (!tree) return;
    ff_chosen_free(&tree->chosen);
    ff_listing_destroy(&tree->images);
    ff_sorter_destroy(&tree->sorter);
    ff_names_free(&tree->folders);
    ff_names_free(&tree->tables);
    ff_buffer_free(&tree->last);
    free(tree->has_images);
    free(tree->table_used);
    free(tree->root);
    free(tree);
    *out = NULL;
}

/* ---- adding -------------------------------------------------------------------------------- */

static ff_status sort_folder(ff_tree *tree, const char *name, size_t bytes, bool images,
                             ff_error *error) {
    unsigned char flag = images;
    return ff_sorter_add(
        tree->sorter,
        &(ff_sorter_record){
            .key = name, .key_bytes = (uint32_t)bytes, .payload = &flag, .payload_bytes = 1},
        error);
}

/* Adds a folder and its parents. */
static ff_status add_folder(ff_tree *tree, const char *name, size_t bytes, bool images,
                            ff_error *error) {
    if (!bytes) {
        tree->root_images = tree->root_images || images;
        return FF_OK;
    }
    ff_buffer *last = &tree->last;
    if (last->length == bytes + 1 && !memcmp(last->bytes, name, bytes) &&
        last->bytes[bytes] >= images)
        return FF_OK;
    last->length = 0;
    FF_TRY(ff_buffer_add(last, name, bytes, error));
    FF_TRY(ff_buffer_add(last, images ? "\1" : "\0", 1, error));
    for (size_t i = 0; i < bytes; i++)
        if (name[i] == '/') FF_TRY(sort_folder(tree, name, i, false, error));
    return sort_folder(tree, name, bytes, images, error);
}

ff_status ff_tree_add_folder(ff_tree *tree, const char *name, bool *taken, ff_error *error) {
    FF_TRY(ff_chosen_path(&tree->chosen, name, true, taken, error));
    return *taken ? add_folder(tree, name, strlen(name), false, error) : FF_OK;
}

static bool is_table_name(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot &&
           (!strcasecmp(dot, ".txt") || !strcasecmp(dot, ".csv") || !strcasecmp(dot, ".tsv"));
}

/* Whether the file that is being added is an image. Other files are counted. */
static ff_status choose(ff_tree *tree, const char *name, bool *image, ff_error *error) {
    ff_choice choice = ff_chosen_name(name);
    *image = choice == FF_CHOICE_TAKE;
    if (choice == FF_CHOICE_LOOK) {
        unsigned char head[FF_DECODE_GUESS_BYTES];
        size_t got = 0;
        FF_TRY(tree->options->look(tree->options->context, head, sizeof head, &got, error));
        return ff_chosen_content(&tree->chosen, name, head, got, image, error);
    }
    if (*image) return FF_OK;
    if (is_table_name(name) && tree->tables.count < TABLES_LIMIT)
        return ff_names_add(&tree->tables, name, strlen(name), error);
    return ff_chosen_leave(&tree->chosen, name, error);
}

ff_status ff_tree_add_file(ff_tree *tree, const char *name, const ff_tree_place *place, bool *image,
                           ff_error *error) {
    bool taken;
    const char *slash = strrchr(name, '/');
    if (image) *image = false;
    FF_TRY(ff_chosen_path(&tree->chosen, name, false, &taken, error));
    if (!taken) return FF_OK;
    FF_TRY(choose(tree, name, &taken, error));
    FF_TRY(add_folder(tree, name, slash ? (size_t)(slash - name) : 0, taken, error));
    if (image) *image = taken;
    if (!taken) return FF_OK;
    ff_item item = {.key = name, .key_bytes = strlen(name), .labels = place};
    return ff_listing_add(tree->images, &item, error);
}

/* ---- what was added ------------------------------------------------------------------------ */

ff_status ff_tree_where(const ff_tree *tree, const char *inside, char **where, ff_error *error) {
    const char *root = tree->root ? tree->root : "";
    const char *between = !*root && !*inside ? "" : tree->options->files ? "/" : ": ";
    FF_TRY(ff_format(where, error, "%s%s%s%s", tree->path, between, root, inside));
    size_t length = strlen(*where);
    if (length > 1 && (*where)[length - 1] == '/' && (*root || *inside)) (*where)[length - 1] = 0;
    return FF_OK;
}

static ff_status take_folders(ff_tree *tree, ff_error *error) {
    size_t capacity = 0;
    for (;;) {
        ff_sorter_record record;
        bool more;
        FF_TRY(ff_sorter_next(tree->sorter, &record, &more, error));
        if (!more) break;
        ff_names *folders = &tree->folders;
        const char *last = folders->count ? ff_names_at(folders, folders->count - 1) : NULL;
        bool again =
            last && strlen(last) == record.key_bytes && !memcmp(last, record.key, record.key_bytes);
        if (!again) {
            if (folders->used > FOLDERS_LIMIT_BYTES)
                return ff_fail(error, FF_BAD_DATA,
                               "%s: its folders' names have more than %" PRIu64 " bytes",
                               tree->path, FOLDERS_LIMIT_BYTES);
            FF_TRY(ff_names_add(folders, record.key, record.key_bytes, error));
            FF_TRY(ff_reserve(&tree->has_images, &capacity, folders->count, 1, "folders", error));
        }
        if (*(const unsigned char *)record.payload) tree->has_images[folders->count - 1] = true;
    }
    ff_sorter_destroy(&tree->sorter);
    return FF_OK;
}

ff_status ff_tree_folders(const ff_tree *tree, const char *inside, ff_names *names, size_t *only,
                          ff_error *error) {
    *names = (ff_names){0};
    size_t length = strlen(inside);
    for (size_t i = 0; i < tree->folders.count; i++) {
        const char *path = ff_names_at(&tree->folders, i);
        if (strncmp(path, inside, length) != 0 || !path[length] || strchr(path + length, '/'))
            continue;
        ff_status status = ff_names_add(names, path + length, strlen(path + length), error);
        if (status != FF_OK) {
            ff_names_free(names);
            return status;
        }
        if (only) *only = i;
    }
    return FF_OK;
}

bool ff_tree_has_images(const ff_tree *tree, const char *inside) {
    size_t length = strlen(inside);
    if (!length) return tree->root_images;
    for (size_t i = 0; i < tree->folders.count; i++) {
        const char *path = ff_names_at(&tree->folders, i);
        if (!strncmp(path, inside, length - 1) && !path[length - 1]) return tree->has_images[i];
    }
    return false;
}

/* Most archives hold a single top folder: enters it, and folders inside it, as long as they hold a
 * single folder that is neither a split nor a class. */
static ff_status find_root(ff_tree *tree, ff_error *error) {
    FF_TRY(ff_copy_string(&tree->root, "", error));
    while (!tree->options->rooted) {
        ff_names names, below = {0};
        size_t only = 0;
        char *entered = NULL;
        FF_TRY(ff_tree_folders(tree, tree->root, &names, &only, error));
        const char *name = names.count ? ff_names_at(&names, 0) : "";
        bool enter =
            names.count == 1 && ff_split_rank(name, strlen(name)) < 0 && !tree->has_images[only];
        ff_status status = FF_OK;
        if (enter) status = ff_format(&entered, error, "%s%s/", tree->root, name);
        if (status == FF_OK && enter) status = ff_tree_folders(tree, entered, &below, NULL, error);
        enter = enter && status == FF_OK && below.count > 0;
        ff_names_free(&names);
        ff_names_free(&below);
        if (!enter) {
            free(entered);
            return status;
        }
        free(tree->root);
        tree->root = entered;
    }
    return FF_OK;
}

static ff_status count_tables(ff_tree *tree, ff_error *error) {
    for (size_t i = 0; i < tree->tables.count; i++)
        if (!tree->table_used[i])
            FF_TRY(ff_chosen_leave(&tree->chosen, ff_names_at(&tree->tables, i), error));
    return FF_OK;
}

ff_status ff_tree_fill(ff_tree *tree, uint32_t part, bool plain, ff_error *error) {
    FF_TRY(ff_listing_finish(tree->images, error));
    FF_TRY(ff_chosen_finish(&tree->chosen, tree->path, tree->source->skip, &tree->source->notes,
                            error));
    if (!ff_listing_count(tree->images) && !tree->options->files)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: an archive without images, wanted members of " FF_IMAGE_NAMES,
                       tree->path);
    FF_TRY(take_folders(tree, error));
    FF_TRY(find_root(tree, error));
    FF_TRY(
        ff_alloc(&tree->table_used, tree->tables.count, sizeof *tree->table_used, "tables", error));
    ff_tree_splits splits = {0};
    ff_status status;
    FF_TRY_DONE(ff_tree_splits_find(&splits, tree, error));
    FF_TRY_DONE(ff_tree_fill_splits(tree, &splits, part, plain, error));
    FF_TRY_DONE(ff_tree_splits_finish(&splits, tree, error));
    FF_TRY_DONE(count_tables(tree, error));
done:
    ff_tree_splits_free(&splits);
    return status;
}
